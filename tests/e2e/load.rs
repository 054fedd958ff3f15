//! Constant requests over kept connections while something else happens to the proxy.

use std::time::Duration;

use crate::generator;
use crate::outcome::{Failure, Outcome, ensure};
use crate::proxy::Proxy;
use crate::wait::{Seen, until};
use crate::world::World;

/// Connections, each with one request at a time.
const CONNECTIONS: usize = 8;
/// Between an answer and the next request: some hundred requests a second in all.
const PAUSE: Duration = Duration::from_millis(20);
/// So many answers show that the load is there before the scenario goes on.
const WARM: u64 = 50;

/// Load on the proxy's Service that lasts until it is finished.
pub struct Load(generator::Running);

impl Load {
    /// Starts the load and waits until it is answered.
    pub async fn start(proxy: &Proxy<'_>) -> Outcome<Self> {
        let address = format!("{}:80", proxy.address().await?).parse()?;
        let mut load = generator::Load::to(address);
        load.connections = CONNECTIONS;
        load.pause = PAUSE;
        let running = load.start();
        until("the load to be answered", Duration::from_secs(20), || async {
            let report = running.so_far();
            Ok(Seen::when(report.ok() >= WARM, (), format!("{report:?}")))
        })
        .await?;
        Ok(Self(running))
    }

    /// Ends the load, notes its figures, and fails if a request failed: nginx began to read it and it was not answered with
    /// 200, or a fresh connection gave nothing. A reset before the first byte on a connection that had served before is
    /// counted apart.
    pub async fn finish_without_failures(self, world: &World) -> Outcome {
        let report = self.0.stop().await;
        let other: Vec<_> = report.answers.keys().filter(|status| **status != 200).collect();
        world.note(format!(
            "load: {} requests answered with 200 over {} connections, {} failed; apart from them {} reset before the first byte on a reused connection; slowest {:.2} s, longest silence {:.2} s",
            report.ok(),
            report.connections,
            report.failed,
            report.lost_reused,
            report.slowest.as_secs_f64(),
            report.longest_silence.as_secs_f64(),
        ));
        ensure!(other.is_empty(), "answers other than 200: {:?}", report.answers);
        ensure!(report.refused == 0, "{} connections were refused", report.refused);
        if report.failed > 0 {
            return Err(Failure::new(format!(
                "{} requests failed: {:#?}",
                report.failed, report.failures
            )));
        }
        Ok(())
    }
}
