//! What else befalls a database than the loss of its primary, and random sequences of all of it.

use std::time::{Duration, Instant};

use kube::ResourceExt;
use kube::api::{Api, DeleteParams};

use crate::database::{Database, Observed};
use crate::harm::{Harm, Mended};
use crate::instance::{Instance, Others};
use crate::objects::PVC;
use crate::operator;
use crate::outcome::{Failure, Outcome, ensure};
use crate::world::{OPERATORS, World};

/// How long a replica hangs, or is cut off: longer than it is waited for.
const AWAY: Duration = Duration::from_secs(8);

/// Something that befalls a database.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    Primary(Harm),
    Replica(Ill),
    /// Their pods are deleted without a grace period, at the same moment.
    PrimaryAndReplica,
    AllPods,
    /// Every pod of the operator is killed, and this befalls the primary.
    OperatorAnd(Harm),
}

/// What befalls a replica.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ill {
    DeletePod,
    KillContainer,
    KillPostmaster,
    Freeze,
    CutOffFromAll,
    SpoilData,
    DeleteVolume,
}

/// How many of [`ALL`] no scenario of their own shows: the first.
const ONLY_HERE: usize = 7;

const ALL: [Fault; 17] = [
    Fault::OperatorAnd(Harm::DeletePod),
    Fault::PrimaryAndReplica,
    Fault::Replica(Ill::DeletePod),
    Fault::Replica(Ill::KillContainer),
    Fault::Replica(Ill::KillPostmaster),
    Fault::Replica(Ill::Freeze),
    Fault::Replica(Ill::CutOffFromAll),
    Fault::Primary(Harm::DeletePod),
    Fault::Primary(Harm::KillContainer),
    Fault::Primary(Harm::KillPostmaster),
    Fault::Primary(Harm::Freeze),
    Fault::Primary(Harm::CutOffFromApiServer),
    Fault::Primary(Harm::CutOffFromPeers),
    Fault::Primary(Harm::CutOffFromAll),
    Fault::Replica(Ill::SpoilData),
    Fault::Replica(Ill::DeleteVolume),
    Fault::AllPods,
];

/// So many faults, in an order that the seed decides: each kind once, before any comes again, and first what nothing else shows.
pub fn sequence(seed: u64, count: usize) -> Vec<Fault> {
    let mut chance = seed;
    let mut sequence = Vec::new();
    let (only_here, others) = ALL.split_at(ONLY_HERE);
    while sequence.len() < count {
        for kinds in [only_here, others] {
            let mut left = kinds.to_vec();
            while !left.is_empty() && sequence.len() < count {
                let next = usize::try_from(random(&mut chance) % left.len() as u64).unwrap_or_default();
                sequence.push(left.swap_remove(next));
            }
        }
    }
    sequence
}

/// SplitMix64: the same for the same seed on every machine.
fn random(state: &mut u64) -> u64 {
    *state = state.wrapping_add(0x9E37_79B9_7F4A_7C15);
    let mut z = *state;
    z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    z ^ (z >> 31)
}

impl Fault {
    /// Does it, and waits until writes go on and every instance streams.
    pub async fn done_to(self, observed: &Observed) -> Outcome<Mended> {
        let (database, world) = (&observed.database, &observed.database.world);
        match self {
            Self::Primary(harm) => harm.done_to(observed).await,
            Self::OperatorAnd(harm) => {
                kill_operator(world).await?;
                harm.done_to(observed).await
            }
            Self::PrimaryAndReplica => {
                let primary = database.primary().await?;
                let replica = a_replica(database).await?;
                gone(observed, self, &[primary, replica]).await
            }
            Self::AllPods => gone(observed, self, &database.instances().await?).await,
            Self::Replica(ill) => ill.done_to(observed).await,
        }
    }
}

impl Ill {
    async fn done_to(self, observed: &Observed) -> Outcome<Mended> {
        let (database, world) = (&observed.database, &observed.database.world);
        database.rested().await?;
        let replica = a_replica(database).await?;
        let others = Others::peers(&replica, &database.instances().await?);
        let data = replica.data()?;
        let begun = Instant::now();
        match self {
            Self::DeletePod => replica.delete_at_once(world).await?,
            Self::KillContainer => replica.kill_container()?,
            Self::KillPostmaster => replica.kill_postmaster()?,
            Self::Freeze => {
                let frozen = replica.freeze()?;
                tokio::time::sleep(AWAY).await;
                drop(frozen);
            }
            Self::CutOffFromAll => {
                let api_server = Others::api_server(world).await?;
                let cut = replica.cut_off(world, &[&api_server, &others]).await?;
                tokio::time::sleep(AWAY).await;
                cut.mend(world).await?;
            }
            Self::SpoilData => replica.spoil()?,
            Self::DeleteVolume => {
                let claim = format!("data-{}", replica.name);
                world.delete(PVC, &replica.namespace, &claim).await?;
                replica.delete_at_once(world).await?;
            }
        }
        let what = format!("{self:?} of the replica {}", replica.name);
        let mended = whole_again(observed, begun, &what).await?;
        if matches!(self, Self::SpoilData | Self::DeleteVolume) {
            let all = database.instances().await?;
            let now = all.iter().find(|it| it.name == replica.name);
            let now = now.ok_or_else(|| Failure::new(format!("{} is gone", replica.name)))?;
            ensure!(
                now.data()? != data,
                "{} serves the data that was to be lost",
                now.name
            );
        }
        Ok(mended)
    }
}

/// One of them.
pub async fn a_replica(database: &Database) -> Outcome<Instance> {
    let all = database.instances().await?;
    let replica = all.into_iter().find(|it| it.role == "replica");
    replica.ok_or_else(|| Failure::new("there is no replica"))
}

async fn gone(observed: &Observed, what: Fault, victims: &[Instance]) -> Outcome<Mended> {
    let world = &observed.database.world;
    observed.database.rested().await?;
    let begun = Instant::now();
    for victim in victims {
        victim.delete_at_once(world).await?;
    }
    whole_again(observed, begun, &format!("{what:?}")).await
}

async fn whole_again(observed: &Observed, begun: Instant, what: &str) -> Outcome<Mended> {
    let (database, world) = (&observed.database, &observed.database.world);
    let over = Instant::now();
    database.all_stream().await?;
    let rejoined = over.elapsed();
    // Only now: for a moment after its pod was deleted a primary still takes writes.
    observed.writes_since(Instant::now()).await?;
    let pause = observed.ledger.pause(begun, Instant::now());
    world.note(format!(
        "{what}: no write for {:.2} s; all streamed {:.1} s after it was done",
        pause.as_secs_f64(),
        rejoined.as_secs_f64()
    ));
    Ok(Mended {
        pause,
        rejoined,
        promoted: None,
    })
}

async fn kill_operator(world: &World) -> Outcome {
    let pods: Api<k8s_openapi::api::core::v1::Pod> = Api::namespaced(world.client.clone(), OPERATORS);
    for pod in operator::pods(world, OPERATORS).await? {
        let now = DeleteParams::default().grace_period(0);
        pods.delete(&pod.name_any(), &now).await?;
    }
    Ok(())
}
