//! A database that serves, whatever befalls its instances, and loses no write that it acknowledged.
//!
//! All of it with three instances, commits that wait for a replica, writers through the Service all the time, and a look at every instance
//! to see who accepts writes.

use std::sync::Arc;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::database::{Database, INSTANCES, Observed, REPLACED, SERVING, answer};
use crate::instance::{Cut, Frozen, Instance, Others};
use crate::objects::text;
use crate::olm::{self, Wish};
use crate::outcome::{Failure, Outcome, ensure};
use crate::wait::{Seen, throughout, until};
use crate::world::World;

/// How often what is measured is done.
const ROUNDS: usize = 3;
/// How long the API server is out of reach: longer than the Lease lasts.
const OUTAGE: Duration = Duration::from_secs(15);
/// Writes that go on have no longer gap than this.
const UNDISTURBED: Duration = Duration::from_secs(2);

pub async fn a_database_serves_replicates_and_is_ready(world: Arc<World>) -> Outcome {
    olm::installed(&world, "0.3.0").await?;
    let started = Instant::now();
    let database = Database::serving(&world, "database", json!({})).await?;
    world.figure("database.created_to_ready", started.elapsed().as_secs_f64(), "s");
    database.all_stream().await?;

    let primary = database.primary().await?;
    let object = database.get().await?;
    let number = |pointer: &str| object.data.pointer(pointer).and_then(Value::as_u64);
    let instances = Some(INSTANCES as u64);
    ensure!(
        [number("/status/replicas"), number("/status/readyReplicas")] == [instances; 2]
            && text(&object, "/status/phase") == "Running"
            && text(&object, "/status/primary") == primary.name,
        "{} is the primary, and the status says {}",
        primary.name,
        object.data["status"]
    );
    let endpoint = format!("{}.{}.svc.cluster.local", database.name, database.namespace);
    ensure!(
        text(&object, "/status/endpoint") == endpoint,
        "the endpoint is {:?}, not {endpoint}",
        text(&object, "/status/endpoint")
    );

    let user = primary.exec(&world, &["sh", "-c", "id -u; id -g"]).await?;
    ensure!(user == "999\n999\n", "PostgreSQL runs as {user:?}");

    let observed = database.observed().await?;
    let replicas = database.config(&format!("{}-ro", database.name)).await?;
    until("a replica to show what is written", REPLACED, || async {
        let shown = "SELECT (pg_is_in_recovery() AND count(*) > 0)::text FROM ledger";
        Ok(Seen::equal(&answer(&replicas, shown).await?.as_str(), &"true"))
    })
    .await?;
    let (_, refused) = observed.ledger.failed();
    ensure!(
        refused == 0,
        "writes were refused: {:?}",
        observed.ledger.errors()
    );
    observed.finish().await
}

pub async fn a_deleted_primary_is_replaced(world: Arc<World>) -> Outcome {
    mended(&world, "deleted", Harm::DeletePod).await
}

pub async fn a_killed_container(world: Arc<World>) -> Outcome {
    mended(&world, "killed", Harm::KillContainer).await
}

pub async fn a_killed_postmaster(world: Arc<World>) -> Outcome {
    mended(&world, "postmaster", Harm::KillPostmaster).await
}

pub async fn a_hung_primary_is_replaced(world: Arc<World>) -> Outcome {
    mended(&world, "hung", Harm::Freeze).await
}

pub async fn a_primary_cut_off_from_the_api_server_yields_and_never_two(world: Arc<World>) -> Outcome {
    mended(&world, "cut-off", Harm::CutOffFromApiServer).await
}

/// As above, and from the other instances, but not from clients.
pub async fn a_primary_cut_off_from_all_others_yields_and_never_two(world: Arc<World>) -> Outcome {
    mended(&world, "isolated", Harm::CutOffFromAll).await
}

pub async fn an_api_server_outage_with_all_peers_in_the_same_state_costs_no_write(
    world: Arc<World>,
) -> Outcome {
    olm::installed(&world, "0.3.0").await?;
    let database = Database::serving(&world, "outage", json!({})).await?;
    let observed = database.observed().await?;
    let primary = database.primary().await?;
    let (lease, failed) = (database.lease().await?, observed.ledger.failed());
    let api_server = Others::api_server(&world).await?;
    let mut gaps = Vec::new();
    for _ in 0..ROUNDS {
        let begun = Instant::now();
        let mut cuts = Vec::new();
        for instance in database.instances().await? {
            cuts.push(instance.cut_off(&world, &[&api_server]).await?);
        }
        throughout("the primary through an outage", OUTAGE, || async {
            let gap = observed.ledger.pause(begun, Instant::now());
            let instead = format!("no write for {gap:?}: {:?}", observed.ledger.errors());
            Ok(Seen::when(gap < UNDISTURBED, (), instead))
        })
        .await?;
        for cut in cuts {
            cut.mend(&world).await?;
        }
        // Nor may anything come of it afterwards
        tokio::time::sleep(Duration::from_secs(8)).await;
        gaps.push(observed.ledger.pause(begun, Instant::now()));
        database.all_stream().await?;
        database.ready(REPLACED).await?;
    }
    let now = (database.primary().await?.uid, database.lease().await?);
    let before = (primary.uid, lease);
    ensure!(
        now == before,
        "the primary and its Lease were {before:?}, are {now:?}"
    );
    let after = observed.ledger.failed();
    ensure!(
        after == failed,
        "(in doubt, refused) were {failed:?}, are {after:?}: {:?}",
        observed.ledger.errors()
    );
    figures(&world, "database.outage.longest_gap", &gaps);
    observed.finish().await
}

pub async fn the_operator_being_down_changes_nothing(world: Arc<World>) -> Outcome {
    olm::installed(&world, "0.3.0").await?;
    let database = Database::serving(&world, "unattended", json!({})).await?;
    let observed = database.observed().await?;
    let before = pods(&database).await?;
    let begun = Instant::now();
    olm::uninstall(&world).await?;
    tokio::time::sleep(Duration::from_secs(10)).await;
    let gap = observed.ledger.pause(begun, Instant::now());
    ensure!(
        gap < UNDISTURBED && observed.ledger.failed() == (0, 0),
        "without the operator no write was acknowledged for {gap:?}: {:?}",
        observed.ledger.errors()
    );
    let now = pods(&database).await?;
    ensure!(now == before, "pods were {before:?}, are {now:?}");

    let mut pauses = Vec::new();
    for _ in 0..ROUNDS {
        pauses.push(Harm::DeletePod.done_to(&observed).await?);
    }
    figures(&world, "database.unattended.pause", &pauses);

    let left = (pods(&database).await?, database.lease().await?);
    olm::install(&world, Wish::manual("candidate", "0.3.0"), "0.3.0").await?;
    database.ready(SERVING).await?;
    let found = (pods(&database).await?, database.lease().await?);
    ensure!(
        found == left,
        "the operator came back: it was {left:?}, is {found:?}"
    );
    observed.finish().await
}

/// What befalls a primary.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Harm {
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

/// Does it to the primary of the moment a few times, with writers at work: each time writes go on, and every instance streams again.
async fn mended(world: &Arc<World>, scenario: &str, harm: Harm) -> Outcome {
    olm::installed(world, "0.3.0").await?;
    let database = Database::serving(world, scenario, json!({})).await?;
    database.all_stream().await?;
    let observed = database.observed().await?;
    let mut pauses = Vec::new();
    for _ in 0..ROUNDS {
        pauses.push(harm.done_to(&observed).await?);
    }
    database.ready(SERVING).await?;
    figures(world, &format!("database.{scenario}.pause"), &pauses);
    observed.finish().await
}

impl Harm {
    /// Whether the one whom it befell cannot go on.
    fn takes_the_primary_away(self) -> bool {
        !matches!(self, Self::KillContainer | Self::KillPostmaster)
    }

    /// For how long no write was acknowledged.
    async fn done_to(self, observed: &Observed) -> Outcome<Duration> {
        let (database, world) = (&observed.database, &observed.database.world);
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
        let mended = Instant::now();
        database.all_stream().await?;
        world.note(format!(
            "{self:?} of {}: no write for {:.2} s; all streamed {:.1} s after {}",
            primary.name,
            pause.as_secs_f64(),
            mended.elapsed().as_secs_f64(),
            if self.takes_the_primary_away() {
                "that was over"
            } else {
                "writes went on"
            },
        ));
        observed.writes_since(mended).await?;
        Ok(pause)
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
async fn refuses_writes(world: &World, old: &Instance, new: &Instance) -> Outcome {
    if let Ok(sighting) = old.write(world).await {
        return Err(Failure::new(format!(
            "{} still accepts writes on timeline {}, and {} is the primary",
            old.name, sighting.timeline, new.name
        )));
    }
    Ok(())
}

/// Name, UID and role of every pod.
async fn pods(database: &Database) -> Outcome<Vec<(String, String, String)>> {
    let all = database.instances().await?;
    Ok(all.into_iter().map(|it| (it.name, it.uid, it.role)).collect())
}

/// The longest, as a figure, and each.
fn figures(world: &World, name: &str, pauses: &[Duration]) {
    let shown: Vec<String> = pauses
        .iter()
        .map(|it| format!("{:.2} s", it.as_secs_f64()))
        .collect();
    world.note(format!("{name}: {}", shown.join(", ")));
    let longest = pauses.iter().max().copied().unwrap_or_default();
    world.figure(name, longest.as_secs_f64(), "s");
}
