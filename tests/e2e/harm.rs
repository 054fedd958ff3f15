//! What befalls the primary of a database to which is written all the time, and that it is made good.

use std::sync::Arc;
use std::time::{Duration, Instant};

use serde_json::json;

use crate::database::{Database, Observed, REPLACED, SERVING};
use crate::instance::{Cut, Frozen, Instance, Others};
use crate::olm;
use crate::outcome::{Failure, Outcome};
use crate::wait::{Seen, until};
use crate::world::World;

/// What befalls a primary.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Harm {
    DeletePod,
    KillContainer,
    KillPostmaster,
    Freeze,
    CutOffFromApiServer,
    CutOffFromAll,
}

/// What has to be undone.
enum Aftermath {
    Nothing,
    Frozen(Frozen),
    Cut(Cut),
}

/// How long something took that was made good.
#[derive(Clone, Copy, Debug)]
pub struct Mended {
    /// For how long no write was acknowledged.
    pub pause: Duration,
    /// How long after the harm was over every instance streamed again.
    pub rejoined: Duration,
}

/// Does it to the primary of the moment a few times, with writers at work: each time writes go on, and every instance streams again.
pub async fn mended(world: &Arc<World>, scenario: &str, harm: Harm) -> Outcome {
    olm::installed(world, "0.3.0").await?;
    let database = Database::serving(world, scenario, json!({})).await?;
    database.all_stream().await?;
    let observed = database.observed().await?;
    let mut each = Vec::new();
    for _ in 0..world.settings.rounds {
        each.push(harm.done_to(&observed).await?);
    }
    database.ready(SERVING).await?;
    tell(world, scenario, &each);
    observed.finish().await
}

/// As figures, each of them.
pub fn tell(world: &World, scenario: &str, each: &[Mended]) {
    let name = scenario.replace('-', "_");
    let pauses: Vec<Duration> = each.iter().map(|it| it.pause).collect();
    let rejoined: Vec<Duration> = each.iter().map(|it| it.rejoined).collect();
    world.seconds(&format!("database.{name}.pause"), &pauses);
    world.seconds(&format!("database.{name}.rejoined"), &rejoined);
}

impl Harm {
    /// Whether the one whom it befell cannot go on.
    fn takes_the_primary_away(self) -> bool {
        !matches!(self, Self::KillContainer | Self::KillPostmaster)
    }

    /// Does it, and waits until writes go on and every instance streams.
    pub async fn done_to(self, observed: &Observed) -> Outcome<Mended> {
        let (database, world) = (&observed.database, &observed.database.world);
        database.rested().await?;
        let primary = database.primary().await?;
        // Asked before anything is measured
        let peers = Others::peers(&primary, &database.instances().await?);
        let api_server = Others::api_server(world).await?;
        let failed = observed.ledger.failed();
        let begun = Instant::now();
        let aftermath = match self {
            Self::DeletePod => {
                primary.delete_at_once(world).await?;
                Aftermath::Nothing
            }
            Self::KillContainer => {
                primary.kill_container()?;
                Aftermath::Nothing
            }
            Self::KillPostmaster => {
                primary.kill_postmaster()?;
                Aftermath::Nothing
            }
            Self::Freeze => Aftermath::Frozen(primary.freeze()?),
            Self::CutOffFromApiServer => Aftermath::Cut(primary.cut_off(world, &[&api_server]).await?),
            Self::CutOffFromAll => Aftermath::Cut(primary.cut_off(world, &[&api_server, &peers]).await?),
        };
        if self.takes_the_primary_away() {
            let now = database.primary_other_than(&primary.uid).await?;
            observed.writes_since(Instant::now()).await?;
            refuses_writes(world, &primary, &now).await?;
        } else {
            interrupted(observed, failed).await?;
        }
        let pause = observed.ledger.pause(begun, Instant::now());
        match aftermath {
            Aftermath::Nothing => {}
            Aftermath::Frozen(frozen) => drop(frozen),
            Aftermath::Cut(cut) => cut.mend(world).await?,
        }
        let over = Instant::now();
        database.all_stream().await?;
        let rejoined = over.elapsed();
        world.note(format!(
            "{self:?} of {}: no write for {:.2} s; all streamed {:.1} s after {}",
            primary.name,
            pause.as_secs_f64(),
            rejoined.as_secs_f64(),
            if self.takes_the_primary_away() {
                "that was over"
            } else {
                "writes went on"
            },
        ));
        observed.writes_since(over).await?;
        Ok(Mended { pause, rejoined })
    }
}

/// Waits until writers noticed a failure since there had been so many, and writes are acknowledged again.
async fn interrupted(observed: &Observed, before: (usize, usize)) -> Outcome {
    until("writers to lose their connections", REPLACED, || async {
        let now = observed.ledger.failed();
        Ok(Seen::when(
            now != before,
            (),
            format!("(in doubt, refused) {now:?}"),
        ))
    })
    .await?;
    observed.writes_since(Instant::now()).await
}

/// One that was replaced accepts nothing, not even from itself.
pub async fn refuses_writes(world: &World, old: &Instance, new: &Instance) -> Outcome {
    if let Ok(sighting) = old.write(world).await {
        return Err(Failure::new(format!(
            "{} still accepts writes on timeline {}, and {} is the primary",
            old.name, sighting.timeline, new.name
        )));
    }
    Ok(())
}
