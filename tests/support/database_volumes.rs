//! Storage as Kubernetes does it, played by the test: claims, their growth, and what becomes of a StatefulSet's pods when it is deleted without them.

use k8s_openapi::api::apps::v1::StatefulSet;
use k8s_openapi::api::core::v1::{ConfigMap, PersistentVolumeClaim, Pod};
use k8s_openapi::api::storage::v1::StorageClass;
use kube::ResourceExt;
use kube::api::{Api, ListParams, Patch, PatchParams, PostParams};
use serde_json::{Value, json};

use super::apiserver::{ApiServer, within};
use super::world::{LIMIT, World};

/// A StorageClass that can make volumes larger, or cannot.
pub async fn storage_class(name: &str, expands: bool) {
    let class = json!({
        "metadata": {"name": name}, "provisioner": "example.org/played", "allowVolumeExpansion": expands,
    });
    let class: StorageClass = serde_json::from_value(class).unwrap();
    let classes: Api<StorageClass> = Api::all(ApiServer::shared().client().await);
    let params = PatchParams::apply("test").force();
    classes.patch(name, &params, &Patch::Apply(&class)).await.unwrap();
}

impl World {
    /// A database of two instances that serves, with volumes of 1Gi of a class of the same name as the namespace.
    pub async fn with_volumes(namespace: &str, expands: bool) -> Self {
        storage_class(namespace, expands).await;
        let storage = json!({"size": "1Gi", "storageClassName": namespace});
        let spec = json!({"version": "17", "size": "medium", "storage": storage});
        let world = Self::serving(namespace, "orders", spec).await;
        world.make_claims("orders").await;
        world.until_quiet().await;
        world
    }

    /// The claims of a StatefulSet's pods, as its template has them, with a volume each.
    async fn make_claims(&self, name: &str) {
        let spec = self.get::<StatefulSet>(name).await.spec.unwrap();
        let template = spec.volume_claim_templates.unwrap().remove(0);
        for ordinal in 0..spec.replicas.unwrap() {
            let mut claim = template.clone();
            claim.metadata.name = Some(format!("data-{name}-{ordinal}"));
            claim.status = None;
            self.api().create(&PostParams::default(), &claim).await.unwrap();
            self.resized(name, ordinal, "1Gi", json!([])).await;
        }
    }

    /// Has the volume of an instance be so large, under these conditions.
    pub async fn resized(&self, name: &str, ordinal: i32, capacity: &str, conditions: Value) {
        let status = json!({"phase": "Bound", "capacity": {"storage": capacity}, "conditions": conditions});
        let claims = self.api::<PersistentVolumeClaim>();
        let patch = Patch::Merge(json!({"status": status}));
        let name = format!("data-{name}-{ordinal}");
        let patched = claims.patch_status(&name, &PatchParams::default(), &patch).await;
        patched.unwrap();
    }

    /// Once the settings go by volumes of 2Gi, has the instances say that they do.
    pub async fn answer_as_told(&self, name: &str, leader: i32) {
        within(LIMIT, "the settings go by the volumes", async || {
            let settings = self.get::<ConfigMap>(&format!("{name}-settings")).await;
            let mut files = settings.data.unwrap().into_values();
            files.any(|file| file.contains(r#""max_wal_size": "256MB""#))
        })
        .await;
        self.answer(name, leader).await;
    }

    /// What all claims ask for.
    pub async fn requests(&self) -> Vec<String> {
        let claims = self.api::<PersistentVolumeClaim>();
        let claims = claims
            .list(&ListParams::default())
            .await
            .unwrap()
            .items
            .into_iter();
        let requests = claims.map(|claim| claim.spec.unwrap().resources.unwrap().requests.unwrap());
        requests.map(|requests| requests["storage"].0.clone()).collect()
    }

    pub async fn until_requests(&self, size: &str) {
        within(LIMIT, &format!("both claims ask for {size}"), async || {
            self.requests().await == [size, size]
        })
        .await;
    }

    /// What the StatefulSet says of the volumes of new instances.
    pub async fn template_size(&self, name: &str) -> String {
        let spec = self.get::<StatefulSet>(name).await.spec.unwrap();
        let claim = spec.volume_claim_templates.unwrap().remove(0).spec.unwrap();
        claim.resources.unwrap().requests.unwrap()["storage"].0.clone()
    }

    pub async fn until_released(&self, name: &str) {
        within(LIMIT, "the StatefulSet is deleted without its pods", async || {
            let meta = self.get::<StatefulSet>(name).await.metadata;
            meta.deletion_timestamp.is_some()
                && meta.finalizers.as_deref() == Some(&["orphan".to_owned()][..])
        })
        .await;
    }

    /// Plays the garbage collector: the pods of a StatefulSet that was deleted without them are nobody's, then it is gone.
    pub async fn part(&self, name: &str) {
        self.own_pods(json!([])).await;
        let finalizers = json!({"metadata": {"finalizers": []}});
        self.patch::<StatefulSet>(name, finalizers).await;
        within(LIMIT, "it is gone", async || {
            self.try_get::<StatefulSet>(name).await.is_none()
        })
        .await;
    }

    /// Plays the controller of StatefulSets, which takes the pods that its selector matches.
    pub async fn adopt(&self, name: &str) {
        let uid = self.get::<StatefulSet>(name).await.uid();
        let owner = json!({"apiVersion": "apps/v1", "kind": "StatefulSet", "name": name, "uid": uid, "controller": true});
        self.own_pods(json!([owner])).await;
    }

    async fn own_pods(&self, owners: Value) {
        for pod in self.api::<Pod>().list(&ListParams::default()).await.unwrap() {
            let owners = json!({"metadata": {"ownerReferences": owners}});
            self.patch::<Pod>(&pod.name_any(), owners).await;
        }
    }

    /// The pods' UIDs.
    pub async fn pods(&self) -> Vec<Option<String>> {
        let pods = self.api::<Pod>().list(&ListParams::default()).await.unwrap();
        pods.iter().map(ResourceExt::uid).collect()
    }
}
