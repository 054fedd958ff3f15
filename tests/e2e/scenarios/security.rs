//! Pods that get by with the least.

use std::sync::Arc;

use k8s_openapi::api::core::v1::{Container, Pod};
use kube::ResourceExt;
use kube::api::{Api, ListParams, PostParams};
use serde_json::json;

use crate::objects::NAMESPACE;
use crate::olm;
use crate::outcome::{Outcome, ensure};
use crate::proxy::Proxy;
use crate::world::{OPERATORS, World};

pub async fn operator_and_proxy_run_where_the_restricted_standard_is_enforced(world: Arc<World>) -> Outcome {
    olm::installed(&world, "0.3.0").await?;
    let proxy = Proxy::serving(&world, "restricted").await?;
    for namespace in [OPERATORS, &proxy.namespace] {
        enforced(&world, namespace).await?;
        let pods: Api<Pod> = Api::namespaced(world.client.clone(), namespace);
        let pods = pods.list(&ListParams::default()).await?.items;
        let ours = pods.iter().filter(|pod| ours(pod)).collect::<Vec<_>>();
        ensure!(
            ours.len() >= 2,
            "fewer pods of ours in {namespace} than expected: {}",
            ours.len()
        );
        ours.into_iter().try_for_each(least)?;
    }
    let tokens = proxy.pods().await?.into_values().filter(|pod| {
        pod.spec
            .as_ref()
            .is_some_and(|spec| spec.automount_service_account_token != Some(false))
    });
    let tokens: Vec<String> = tokens.map(|pod| pod.name_any()).collect();
    ensure!(
        tokens.is_empty(),
        "pods of the proxy hold a token of the API: {tokens:?}"
    );
    Ok(())
}

fn ours(pod: &Pod) -> bool {
    pod.name_any().starts_with("roadstead-operator-")
        || pod
            .labels()
            .get("app.kubernetes.io/managed-by")
            .is_some_and(|it| it == "roadstead")
}

/// The namespace enforces the standard: its label says so, and a pod that asks for more is refused.
async fn enforced(world: &World, namespace: &str) -> Outcome {
    let labels = world
        .get(NAMESPACE, "", namespace)
        .await?
        .metadata
        .labels
        .unwrap_or_default();
    let level = labels
        .get("pod-security.kubernetes.io/enforce")
        .map(String::as_str);
    ensure!(
        level == Some("restricted"),
        "namespace {namespace} enforces {level:?}"
    );
    let greedy: Pod = serde_json::from_value(json!({
        "metadata": {"name": "greedy"},
        "spec": {"containers": [{"name": "greedy", "image": "none", "securityContext": {"privileged": true}}]},
    }))?;
    let dry = PostParams {
        dry_run: true,
        ..PostParams::default()
    };
    let answer = Api::<Pod>::namespaced(world.client.clone(), namespace)
        .create(&dry, &greedy)
        .await;
    ensure!(answer.is_err(), "namespace {namespace} accepts a privileged pod");
    Ok(())
}

/// What the standard asks for, and a root file system that cannot be written on top.
fn least(pod: &Pod) -> Outcome {
    let name = pod.name_any();
    let spec = pod.spec.clone().unwrap_or_default();
    let shared = spec.security_context.clone().unwrap_or_default();
    let containers: Vec<&Container> = spec
        .containers
        .iter()
        .chain(spec.init_containers.iter().flatten())
        .collect();
    for container in containers {
        let own = container.security_context.clone().unwrap_or_default();
        let seccomp = own
            .seccomp_profile
            .or(shared.seccomp_profile.clone())
            .map(|it| it.type_);
        let non_root = own.run_as_non_root.or(shared.run_as_non_root);
        let dropped = own.capabilities.and_then(|it| it.drop).unwrap_or_default();
        ensure!(
            own.read_only_root_filesystem == Some(true),
            "{name}/{}: root file system can be written",
            container.name
        );
        ensure!(
            own.allow_privilege_escalation == Some(false),
            "{name}/{}: may gain privileges",
            container.name
        );
        ensure!(
            non_root == Some(true),
            "{name}/{}: may run as root",
            container.name
        );
        ensure!(
            dropped == ["ALL"],
            "{name}/{}: keeps capabilities, drops {dropped:?}",
            container.name
        );
        ensure!(
            seccomp.as_deref() == Some("RuntimeDefault"),
            "{name}/{}: seccomp {seccomp:?}",
            container.name
        );
    }
    Ok(())
}
