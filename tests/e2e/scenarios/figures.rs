//! What was measured over the whole run.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use crate::memory::Peak;
use crate::olm;
use crate::outcome::{Outcome, ensure};
use crate::wait::{Seen, until};
use crate::world::World;

const MIB: f64 = 1_048_576.0;
/// The limit of the operator's container.
const LIMIT: u64 = 30 * 1024 * 1024;
/// A few samples.
const SEEN: Duration = Duration::from_secs(15);

pub async fn the_operator_stays_within_30_mib_through_the_whole_run(world: Arc<World>) -> Outcome {
    let peaks = seen(&world).await?;
    let measured: Vec<_> = peaks.iter().filter(|(_, peak)| peak.used > 0).collect();
    ensure!(
        !measured.is_empty(),
        "no cgroup of the operator was seen; pods: {:?}",
        peaks.keys()
    );
    for (pod, peak) in &measured {
        ensure!(
            peak.limit == LIMIT,
            "{pod} runs with a memory limit of {} bytes, not {LIMIT}",
            peak.limit
        );
    }
    let killed: Vec<_> = peaks
        .iter()
        .filter(|(_, peak)| peak.kills > 0)
        .map(|(pod, _)| pod)
        .collect();
    ensure!(killed.is_empty(), "killed for want of memory: {killed:?}");
    let used = measured
        .iter()
        .map(|(_, peak)| peak.used)
        .max()
        .unwrap_or_default();
    let anonymous = measured
        .iter()
        .map(|(_, peak)| peak.anonymous)
        .max()
        .unwrap_or_default();
    let restarts: i32 = peaks.values().map(|peak| peak.restarts).sum();
    world.note(format!(
        "{} pods of the operator, {restarts} restarts, no OOM kill",
        measured.len()
    ));
    world.figure("operator.memory_peak", used as f64 / MIB, "MiB");
    world.figure("operator.memory_anonymous_peak", anonymous as f64 / MIB, "MiB");
    Ok(())
}

/// No container of the operator ends by itself, but to give way to another leader: the pods that scenarios delete are new ones afterwards,
/// not the same ones restarted.
pub async fn the_operator_never_ends_but_for_a_lost_lease(world: Arc<World>) -> Outcome {
    let mut unexplained = Vec::new();
    for (pod, peak) in seen(&world).await? {
        for restart in 1..=peak.restarts {
            match peak.exits.get(&restart) {
                Some(exit) if exit.is_intended() => world.note(format!("{pod}: {}", exit.last_words)),
                Some(exit) => unexplained.push(format!("{pod}: {exit:?}")),
                None => unexplained.push(format!("{pod}: restart {restart}, whose reason was not seen")),
            }
        }
    }
    ensure!(unexplained.is_empty(), "ended unasked: {unexplained:#?}");
    Ok(())
}

/// What was seen of the operator's pods so far; of one that is installed now, when the scenario runs alone.
async fn seen(world: &World) -> Outcome<BTreeMap<String, Peak>> {
    let measured = || world.memory.peaks().values().any(|peak| peak.used > 0);
    if !measured() {
        olm::installed(world, "0.3.0").await?;
        until("the operator's memory to be measured", SEEN, || async {
            Ok(Seen::when(measured(), (), "no cgroup of the operator was seen"))
        })
        .await?;
    }
    Ok(world.memory.peaks())
}
