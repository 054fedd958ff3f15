//! Somebody who writes a MyProxy all the time, in one version, while something else happens to the definition or the operator.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use kube::ResourceExt;
use serde_json::json;
use tokio::task::JoinHandle;

use crate::objects::{Kind, MY_PROXY};
use crate::outcome::{Outcome, ensure};
use crate::proxy::Proxy;
use crate::world::World;

/// Between two writes.
const PAUSE: Duration = Duration::from_millis(100);
/// What is counted in.
const COUNT: &str = "example.com/count";
/// What the object's Deployment is called, by a field of another name in each version.
const DEPLOYMENT: &str = "front";

/// Each write puts a number into an annotation, and with it a route into the spec. The object's Deployment must be called `front`.
pub struct Author {
    kind: Kind,
    namespace: String,
    name: String,
    rests: Arc<AtomicBool>,
    work: JoinHandle<Written>,
}

/// What came of the writes.
#[derive(Default)]
struct Written {
    accepted: u64,
    refused: Vec<String>,
    last: u64,
}

impl Author {
    pub fn begin(world: &Arc<World>, kind: Kind, namespace: &str, name: &str) -> Self {
        let rests = Arc::new(AtomicBool::new(false));
        let work = write(
            Arc::clone(world),
            kind,
            namespace.to_owned(),
            name.to_owned(),
            Arc::clone(&rests),
        );
        Self {
            kind,
            namespace: namespace.to_owned(),
            name: name.to_owned(),
            rests,
            work: tokio::spawn(work),
        }
    }

    /// Of an object beside the proxy that is paused, so that nothing is made for it.
    pub async fn of_a_paused_object(
        world: &Arc<World>,
        kind: Kind,
        proxy: &Proxy<'_>,
        name: &str,
    ) -> Outcome<Self> {
        let paused = json!({
            "apiVersion": "roadstead.dev/v1", "kind": "MyProxy", "metadata": {"name": name},
            "spec": {
                "paused": true, "deploymentName": DEPLOYMENT,
                "upstreams": [{"name": "hello", "servers": [{"host": "hello", "port": 80}]}],
            },
        });
        world.apply(&proxy.namespace, paused).await?;
        Ok(Self::begin(world, kind, &proxy.namespace, name))
    }

    /// Stops, and fails if a write that was accepted is not there, if a field is gone that nobody wrote, or if a write was refused for a reason
    /// that is none of those expected.
    pub async fn rest(self, world: &World, expected: &[&str]) -> Outcome {
        self.rests.store(true, Ordering::Relaxed);
        let Written {
            accepted,
            refused,
            last,
        } = self.work.await?;
        let version = self.kind.version;
        world.note(format!(
            "a client of {version} wrote {accepted} times, {} writes were refused",
            refused.len()
        ));
        ensure!(accepted > 0, "no write in {version} was accepted: {refused:?}");
        let mut surprises = refused
            .iter()
            .filter(|error| !expected.iter().any(|known| error.contains(known)));
        let surprise = surprises.next();
        ensure!(
            surprise.is_none(),
            "a write in {version} was refused: {surprise:?}"
        );

        let found = world.get(self.kind, &self.namespace, &self.name).await?;
        let deployment = if self.kind == MY_PROXY {
            "deploymentName"
        } else {
            "name"
        };
        let spec = &found.data["spec"];
        let said = (
            found.annotations().get(COUNT).cloned(),
            spec["routes"][1]["path"].as_str().map(str::to_owned),
            spec[deployment].as_str().map(str::to_owned),
        );
        let wanted = (
            Some(last.to_string()),
            Some(format!("/{last}")),
            Some(DEPLOYMENT.to_owned()),
        );
        ensure!(
            said == wanted,
            "the last write that was accepted in {version} says {wanted:?}, the object {said:?}"
        );
        Ok(())
    }
}

async fn write(
    world: Arc<World>,
    kind: Kind,
    namespace: String,
    name: String,
    rests: Arc<AtomicBool>,
) -> Written {
    let mut written = Written::default();
    let mut count = 0_u64;
    while !rests.load(Ordering::Relaxed) {
        count += 1;
        let patch = json!({
            "metadata": {"annotations": {COUNT: count.to_string()}},
            "spec": {"routes": [{"path": "/", "upstream": "hello"}, {"path": format!("/{count}"), "upstream": "hello"}]},
        });
        match world.merge(kind, &namespace, &name, patch).await {
            Ok(_) => {
                written.accepted += 1;
                written.last = count;
            }
            Err(error) => written.refused.push(error.to_string()),
        }
        tokio::time::sleep(PAUSE).await;
    }
    written
}
