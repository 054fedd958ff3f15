//! What the controller watches, and which proxy a change concerns.

use std::sync::Arc;

use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::Pod;
use kube::ResourceExt;

use super::Settings;
use super::agents::Agents;
use super::desired::names::{MANAGED_BY, MANAGER, proxy_of};
use super::observe::Caches;
use super::reconcile::MyProxyReconciler;
use crate::api::my_proxy::MyProxy;
use crate::controllers::common::without_spec;
use crate::runtime::cache::{Cache, Watch};
use crate::runtime::controller::{Controller, ControllerOptions};
use crate::runtime::key::ObjectKey;
use crate::runtime::manager::Manager;
use crate::runtime::predicates;

/// The name of the controller in flags and metrics.
pub const NAME: &str = "myproxy";

/// Adds the controller to a manager. Without `agents`, pods count as up to date once their Deployment is rolled out and their
/// configuration mounted.
pub fn register(
    manager: &mut Manager,
    settings: Settings,
    agents: Option<Arc<dyn Agents>>,
    options: ControllerOptions,
) {
    let children = || Watch::labelled(format!("{MANAGED_BY}={MANAGER}"));
    let proxies: Cache<MyProxy> = manager.cache(Watch::all());
    let caches = Caches {
        deployments: manager.cache(children()),
        services: manager.cache(children()),
        config_maps: manager.cache(children()),
        jobs: manager.cache(children()),
        budgets: manager.cache(children()),
        pods: manager.trimmed_cache(children(), without_spec),
    };
    let reconciler = MyProxyReconciler::new(caches.clone(), settings, agents);
    let namesakes = proxies.clone();
    let controller = Controller::new(NAME, &proxies, reconciler)
        .when(
            predicates::generation()
                .or(predicates::finalizers())
                .or(predicates::status()),
        )
        .owns(&caches.deployments)
        .owns(&caches.services)
        .owns(&caches.config_maps)
        .owns(&caches.jobs)
        .owns(&caches.budgets)
        .watches(&caches.pods, proxy_of_pod)
        // A proxy that waits for a name hears when the Deployment that has it goes.
        .watches(&caches.deployments, move |deployment: &Deployment| {
            wanting(&namesakes, deployment)
        })
        .options(options);
    manager.add(controller);
}

/// A pod's owner is a ReplicaSet or a Job; its label names the proxy.
fn proxy_of_pod(pod: &Pod) -> Vec<ObjectKey> {
    proxy_of(pod)
        .map(|name| ObjectKey {
            namespace: pod.namespace(),
            name: name.clone(),
        })
        .into_iter()
        .collect()
}

/// The proxies that want the name of a Deployment that is not theirs.
fn wanting(proxies: &Cache<MyProxy>, deployment: &Deployment) -> Vec<ObjectKey> {
    let name = deployment.name_any();
    let proxies = proxies.in_namespace(&deployment.namespace().unwrap_or_default());
    let wants = |proxy: &&Arc<MyProxy>| match &proxy.spec.deployment_name {
        Some(wanted) => *wanted == name,
        None => proxy.name_any() == name,
    };
    let not_theirs =
        |key: &ObjectKey| ObjectKey::of_controller::<MyProxy, _>(deployment).as_ref() != Some(key);
    proxies
        .iter()
        .filter(wants)
        .map(|proxy| ObjectKey::of(&**proxy))
        .filter(not_theirs)
        .collect()
}

#[cfg(test)]
mod tests {
    use kube::Resource;

    use super::*;
    use crate::controllers::common::labels::{INSTANCE, NAME as SOFTWARE};
    use crate::controllers::my_proxy::desired::names::APP;
    use crate::controllers::my_proxy::testing::proxy;

    #[test]
    fn a_pod_concerns_the_proxy_that_it_is_an_instance_of_whatever_its_deployment_is_called() {
        let mut pod = Pod::default();
        pod.metadata.namespace = Some("shop".into());
        pod.metadata.labels = Some(
            [
                (SOFTWARE.to_owned(), "nginx".to_owned()),
                (INSTANCE.to_owned(), "a".to_owned()),
                (APP.to_owned(), "x".to_owned()),
            ]
            .into(),
        );
        let concerned = proxy_of_pod(&pod);
        assert_eq!(
            concerned.iter().map(ToString::to_string).collect::<Vec<_>>(),
            ["shop/a"]
        );
        pod.labels_mut()
            .insert(SOFTWARE.to_owned(), "postgresql".to_owned());
        assert_eq!(proxy_of_pod(&pod), [], "of a namesake of another kind");
        pod.metadata.labels = None;
        assert_eq!(proxy_of_pod(&pod), []);
    }

    #[test]
    fn a_deployment_concerns_those_who_want_its_name_in_its_namespace() {
        let (owner, rival, other) = (
            proxy("a", serde_json::json!({"deploymentName": "x"})),
            proxy("x", serde_json::json!({})),
            proxy("b", serde_json::json!({})),
        );
        let mut deployment = Deployment::default();
        deployment.metadata.name = Some("x".into());
        deployment.metadata.namespace = Some("shop".into());
        deployment.metadata.owner_references = Some(vec![owner.controller_owner_ref(&()).unwrap()]);
        let proxies: Cache<MyProxy> = [owner, rival, other].into_iter().collect();
        assert_eq!(
            wanting(&proxies, &deployment),
            [ObjectKey::namespaced("shop", "x")]
        );
        deployment.metadata.namespace = Some("elsewhere".into());
        assert!(wanting(&proxies, &deployment).is_empty());
    }
}
