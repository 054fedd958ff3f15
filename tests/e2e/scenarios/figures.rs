//! What was measured over the whole run.

use std::sync::Arc;

use crate::outcome::{Outcome, ensure};
use crate::world::World;

const MIB: f64 = 1_048_576.0;
/// The limit of the operator's container.
const LIMIT: u64 = 30 * 1024 * 1024;

pub async fn the_operator_stays_within_30_mib_through_the_whole_run(world: Arc<World>) -> Outcome {
    let peaks = world.memory.peaks();
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
