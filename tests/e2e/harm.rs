//! What befalls the primary of a database to which is written all the time, and that it is made good.

use std::sync::Arc;
use std::time::{Duration, Instant};

use serde_json::json;

use crate::database::{Database, Observed, REPLACED, SERVING};
use crate::explain;
use crate::instance::{Cut, Frozen, Instance, Others};
use crate::objects::{condition, text};
use crate::olm;
use crate::outcome::{Failure, Outcome, ensure};
use crate::wait::{Seen, until};
use crate::world::World;

/// PostgreSQL takes 5 s to find that nobody receives any more, and the operator, while all is well, asks every 30 s.
const TOLD: Duration = Duration::from_secs(45);
/// Of deleted pods the 95th percentile is promised: one pause of so many may be longer.
const EXCEPTIONS: usize = 20;
/// Fewer writes may have been on their way when the primary was cut off.
const GOES_ON: usize = 50;

/// What befalls a primary.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Harm {
    DeletePod,
    KillContainer,
    KillPostmaster,
    Freeze,
    CutOffFromApiServer,
    CutOffFromPeers,
    CutOffFromAll,
}

/// What may be expected then.
enum Consequence {
    /// Another instance takes its place.
    Replaced,
    /// It is started again, in its place.
    Interrupted,
    /// It goes on, and nobody takes writes from it: commits wait, until a replica is there or another instance is the primary.
    Waiting,
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
    /// Whether another instance was the primary then; nothing where nobody looked.
    pub promoted: Option<bool>,
}

/// Does it to the primary of the moment a few times, with writers at work: each time writes go on, soon enough, and every instance streams again.
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
    if matches!(harm.consequence(), Consequence::Interrupted) {
        tell_apart(world, scenario, &each);
    }
    harm.keeps_its_bound(&each)?;
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

/// As figures, those after which another instance was the primary apart from those after which it was the same one.
fn tell_apart(world: &World, scenario: &str, each: &[Mended]) {
    for (how, promoted) in [("promoted", true), ("in_place", false)] {
        let of_this = each.iter().filter(|it| it.promoted == Some(promoted));
        let pauses: Vec<Duration> = of_this.map(|it| it.pause).collect();
        world.seconds(&format!("database.{scenario}.pause.{how}"), &pauses);
    }
}

impl Harm {
    /// No write may be acknowledged for so long, at most. Nothing is promised where only the end of the harm helps.
    fn bound(self) -> Option<Duration> {
        let seconds = match self {
            Self::DeletePod => 10,
            Self::KillContainer => 5,
            Self::KillPostmaster => 3,
            Self::Freeze | Self::CutOffFromApiServer | Self::CutOffFromAll => 30,
            Self::CutOffFromPeers => return None,
        };
        Some(Duration::from_secs(seconds))
    }

    /// Fails if a pause was longer than it may be; of deleted pods, whose 95th percentile is promised, more than one in twenty, or half of a few.
    pub fn keeps_its_bound(self, each: &[Mended]) -> Outcome {
        let Some(bound) = self.bound() else {
            return Ok(());
        };
        let pauses = each.iter().map(|it| it.pause);
        let longer: Vec<String> = pauses
            .filter(|pause| *pause > bound)
            .map(|pause| format!("{:.2} s", pause.as_secs_f64()))
            .collect();
        let may = match (self, each.len()) {
            (Self::DeletePod, few) if few < EXCEPTIONS => few / 2,
            (Self::DeletePod, many) => many / EXCEPTIONS,
            _ => 0,
        };
        ensure!(
            longer.len() <= may,
            "{self:?}: no write for {}, in {} of {} times, and {} s at most are promised",
            longer.join(", "),
            longer.len(),
            each.len(),
            bound.as_secs()
        );
        Ok(())
    }

    fn consequence(self) -> Consequence {
        match self {
            Self::KillContainer | Self::KillPostmaster => Consequence::Interrupted,
            Self::CutOffFromPeers => Consequence::Waiting,
            Self::DeletePod | Self::Freeze | Self::CutOffFromApiServer | Self::CutOffFromAll => {
                Consequence::Replaced
            }
        }
    }

    /// Does it, and waits until writes go on and every instance streams.
    pub async fn done_to(self, observed: &Observed) -> Outcome<Mended> {
        let (database, world) = (&observed.database, &observed.database.world);
        database.rested().await?;
        if matches!(self.consequence(), Consequence::Waiting) {
            // What it says of this time is not what it said of the last.
            database.ready(SERVING).await?;
        }
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
            Self::CutOffFromPeers => Aftermath::Cut(primary.cut_off(world, &[&peers]).await?),
            Self::CutOffFromAll => Aftermath::Cut(primary.cut_off(world, &[&api_server, &peers]).await?),
        };
        match self.consequence() {
            Consequence::Replaced => {
                let now = database.primary_other_than(&primary.uid).await?;
                observed.writes_since(Instant::now()).await?;
                refuses_writes(&primary, &now).await?;
            }
            Consequence::Interrupted => interrupted(observed, failed).await?,
            Consequence::Waiting => waits(observed, &primary).await?,
        }
        let mut pause = observed.ledger.pause(begun, Instant::now());
        match aftermath {
            Aftermath::Nothing => {}
            Aftermath::Frozen(frozen) => drop(frozen),
            Aftermath::Cut(cut) => cut.mend(world).await?,
        }
        let over = Instant::now();
        database.all_stream().await?;
        let rejoined = over.elapsed();
        // Asked once all is whole: until then the label may be that of before.
        let now = database.primary().await?;
        let promoted = now.uid != primary.uid;
        world.note(format!(
            "{self:?} of {}: no write for {:.2} s; {} led then; all streamed {:.1} s after {}",
            primary.name,
            pause.as_secs_f64(),
            if promoted { now.name.as_str() } else { "the same" },
            rejoined.as_secs_f64(),
            match self.consequence() {
                Consequence::Interrupted => "writes went on",
                Consequence::Replaced | Consequence::Waiting => "that was over",
            },
        ));
        if self.bound().is_some_and(|bound| pause > bound) {
            println!(
                "    | {self:?} of {}: no write for {:.2} s",
                primary.name,
                pause.as_secs_f64()
            );
            explain::story(world, &database.namespace, begun).await;
        }
        observed.writes_since(over).await?;
        if matches!(self.consequence(), Consequence::Waiting) {
            pause = observed.ledger.pause(begun, Instant::now());
        }
        Ok(Mended {
            pause,
            rejoined,
            promoted: Some(promoted),
        })
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

/// Waits until writes go on, under whoever is the primary then, or the status says why they cannot: that too few replicas stream. The primary holds the Lease, and
/// nobody takes it who does not see that it has run out; what it acknowledges a replica must have. So nothing but that may happen.
async fn waits(observed: &Observed, primary: &Instance) -> Outcome {
    let (database, world) = (&observed.database, &observed.database.world);
    let cut = Instant::now();
    let told = until("writes to go on, or the status to say why not", TOLD, || async {
        if observed.ledger.acknowledged_since(cut) >= GOES_ON {
            return Ok(Seen::There(None));
        }
        let object = database.get().await?;
        let seen = condition(&object, "Available");
        let told = seen.status == "False" && seen.reason == "CommitsWait";
        let instead = format!("{} ({}: {})", seen.status, seen.reason, seen.message);
        Ok(Seen::when(told, Some(seen.message.to_owned()), instead))
    })
    .await?;
    let Some(told) = told else {
        // Where no commit waits, it goes on alone.
        if text(&database.get().await?, "/spec/synchronous") != "required" {
            return Ok(());
        }
        let now = database.primary_other_than(&primary.uid).await?;
        return refuses_writes(primary, &now).await;
    };
    world.note(format!("cut off from its peers: {told}"));
    let now = database.primary().await?;
    ensure!(
        now.uid == primary.uid,
        "{} holds the Lease, and {} is labelled",
        primary.name,
        now.name
    );
    let acknowledged = observed.ledger.acknowledged_since(cut);
    ensure!(
        acknowledged < GOES_ON,
        "{acknowledged} commits that no replica has were acknowledged"
    );
    Ok(())
}

/// One that was replaced accepts nothing, not even from itself.
pub async fn refuses_writes(old: &Instance, new: &Instance) -> Outcome {
    if let Ok(sighting) = old.write().await {
        return Err(Failure::new(format!(
            "{} still accepts writes on timeline {}, and {} is the primary",
            old.name, sighting.timeline, new.name
        )));
    }
    Ok(())
}
