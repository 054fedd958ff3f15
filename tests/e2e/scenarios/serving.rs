//! A proxy that serves through its own changes.

use std::sync::Arc;
use std::time::Instant;

use serde_json::{Value, json};

use crate::load::Load;
use crate::objects::{DEPLOYMENT, container_field};
use crate::olm;
use crate::outcome::{Outcome, ensure};
use crate::proxy::{Proxy, SERVING};
use crate::wait::{Seen, until};
use crate::world::World;

pub async fn no_request_fails_through_a_reload_a_rolling_update_and_scaling(world: Arc<World>) -> Outcome {
    olm::installed(&world, "0.3.0").await?;
    let started = Instant::now();
    let proxy = Proxy::serving(&world, "serving").await?;
    world.note(format!(
        "namespace, upstream and proxy serving after {:.1} s",
        started.elapsed().as_secs_f64()
    ));
    let load = Load::start(&proxy).await?;

    reload(&proxy).await?;
    rolling_update(&proxy).await?;
    scale(&proxy, 4).await?;
    scale(&proxy, 2).await?;
    load.finish_without_failures(&world).await
}

/// A changed route reaches running nginx without a new pod.
async fn reload(proxy: &Proxy<'_>) -> Outcome {
    let pods = proxy.pods().await?;
    let started = Instant::now();
    // An upstream that nobody can reach, so that the new route can be told from the old
    proxy
        .patch(json!({
            "upstreams": [
                {"name": "hello", "servers": [{"host": "hello", "port": 80}]},
                {"name": "nobody", "servers": [{"host": "127.0.0.1", "port": 1}]},
            ],
            "routes": [{"path": "/", "upstream": "hello"}, {"path": "/new", "upstream": "nobody"}],
        }))
        .await?;
    proxy.ready().await?;
    proxy
        .world
        .figure("proxy.change_to_ready", started.elapsed().as_secs_f64(), "s");
    // More than one nginx answers, and Ready means that all of them have it
    for _ in 0..20 {
        let (code, _) = proxy.request("/new").await?;
        ensure!(
            code == 502,
            "the proxy is Ready, but a pod still answers /new with {code}"
        );
    }
    let after = proxy.pods().await?;
    let names = |pods: &std::collections::BTreeMap<String, _>| pods.keys().cloned().collect::<Vec<_>>();
    ensure!(
        names(&pods) == names(&after),
        "a changed route replaced pods: {:?}, now {:?}",
        names(&pods),
        names(&after)
    );
    Ok(())
}

/// Changed resources replace every pod.
async fn rolling_update(proxy: &Proxy<'_>) -> Outcome {
    let before = proxy.pods().await?;
    proxy.patch(json!({"resources": {"requests": {"cpu": "11m", "memory": "17Mi"}, "limits": {"memory": "99Mi"}}})).await?;
    until("every pod to be replaced", SERVING, || async {
        let pods = proxy.pods().await?;
        let new = pods.len() == 2 && pods.keys().all(|name| !before.contains_key(name));
        Ok(Seen::when(new, (), format!("{:?}", pods.keys())))
    })
    .await?;
    proxy.ready().await?;
    let deployment = proxy.world.get(DEPLOYMENT, &proxy.namespace, proxy.name).await?;
    let limit = container_field(&deployment, "/resources/limits/memory");
    ensure!(
        limit == Some(&Value::from("99Mi")),
        "the pods' memory limit is {limit:?}"
    );
    Ok(())
}

/// `kubectl patch` of the replicas.
async fn scale(proxy: &Proxy<'_>, replicas: usize) -> Outcome {
    proxy.patch(json!({"replicas": replicas})).await?;
    until(
        format!("{replicas} pods to be named in the status"),
        SERVING,
        || async {
            let names = proxy.pod_names().await?;
            Ok(Seen::when(names.len() == replicas, (), format!("{names:?}")))
        },
    )
    .await?;
    proxy.ready().await
}
