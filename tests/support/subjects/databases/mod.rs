//! The product's own operator: databases. What has to be true of them whenever anything is written is in [`oracles`].

mod changes;
pub mod oracles;

use std::sync::OnceLock;

use futures::FutureExt as _;
use futures::future::LocalBoxFuture;
use roadstead::api::database::SWITCH_OVER_TO;
use roadstead::controllers::database::{self, Settings};
use roadstead::runtime::controller::ControllerOptions;
use serde_json::{Value, json};

use super::{Kind, Subject, condition};
use crate::life::Course;
use crate::sim::faults::Chance;
use crate::sim::store::Objects;
use crate::sim::world::World;

pub static DATABASES: Subject = Subject {
    name: "databases",
    register: |manager, cluster| {
        let instances = Some(cluster.instances());
        database::register(manager, settings(), instances, ControllerOptions::default());
    },
    role: database::rules,
    kinds: &[&Database],
    through: &["StatefulSet"],
    cost: 40,
    watched: oracles::watch,
    life,
    undisturbed: OnceLock::new(),
};

fn settings() -> Settings {
    Settings {
        agent_image: "registry.example/operator:v1".into(),
        cluster_domain: "cluster.local".into(),
        ..Settings::default()
    }
}

/// Whether a database is well, all of its spec is brought about, and its status is about that.
pub fn is_ready(database: &Value) -> bool {
    let is = |type_: &str, status: &str| condition(database, type_)["status"] == status;
    is("Ready", "True") && is("Progressing", "False") && is_about_its_spec(database)
}

pub fn is_applied(database: &Value) -> bool {
    is_ready(database) && condition(database, "ConfigurationApplied")["status"] == "True"
}

fn is_about_its_spec(database: &Value) -> bool {
    database["status"]["observedGeneration"] == database["metadata"]["generation"]
}

struct Database;

impl Kind for Database {
    fn name(&self) -> &'static str {
        "Database"
    }

    fn names(&self) -> &'static [&'static str] {
        &["a", "b"]
    }

    fn base(&self) -> Value {
        json!({"version": "17", "size": "medium"})
    }

    fn changes(&self) -> Vec<(&'static str, Value)> {
        changes::changes()
    }

    fn without_effect(&self) -> &'static [&'static str] {
        changes::WITHOUT_EFFECT
    }

    /// Its image may be missing, or its name be taken.
    fn valid(&self, chance: &mut Chance) -> Value {
        let sizes = ["small", "medium", "large"];
        let size = sizes[usize::try_from(chance.below(3)).unwrap_or(0)];
        let mut drawn = json!({"version": "17", "size": size, "instances": null, "synchronous": "preferred"});
        match chance.below(8) {
            0 => drawn["image"] = json!("postgres-missing:17"),
            1 => drawn["version"] = json!("17.4"),
            2 => drawn["resources"] = json!({"limits": {"memory": "3Gi"}}),
            3 => drawn["parameters"] = json!({"max_connections": "200"}),
            4 => drawn["parameters"] = json!({"max_connections": "50", "work_mem": "16MB"}),
            5 => drawn["synchronous"] = json!("off"),
            6 => {
                drawn["instances"] = json!(2 + chance.below(3));
                drawn["synchronous"] = json!("required");
            }
            _ => drawn["instances"] = json!(1 + chance.below(4)),
        }
        if chance.below(3) == 0 {
            drawn["storage"] = json!({"whenDeleted": "Delete"});
        }
        drawn
    }

    fn invalid(&self, chance: &mut Chance) -> Value {
        let one = [
            json!({"version": "9"}),
            json!({"version": "17", "size": "huge"}),
            json!({"version": "17", "instances": 0}),
            json!({"version": "17", "parameters": {"listen_addresses": "'*'"}}),
        ];
        one[usize::try_from(chance.below(4)).unwrap_or(0)].clone()
    }

    fn remedy(&self) -> Value {
        json!({"image": null, "resources": null, "parameters": null, "paused": null})
    }

    fn strangers(&self, name: &str) -> Vec<Value> {
        vec![
            json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": format!("{name}-settings")}, "data": {"precious": "data"}}),
            json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": name}, "data": {"password": "cHJlY2lvdXM="}}),
            json!({
                "apiVersion": "v1", "kind": "Service", "metadata": {"name": name},
                "spec": {"selector": {"app": "stranger"}, "ports": [{"port": 80, "protocol": "TCP", "targetPort": 80}]},
            }),
        ]
    }

    fn tampering(&self, child: &str) -> Vec<Value> {
        if child == "Pod" {
            return vec![
                json!({"metadata": {"labels": {"roadstead.dev/role": null}}}),
                json!({"metadata": {"annotations": {"roadstead.dev/settings": null}}}),
            ];
        }
        let mut all = vec![
            json!({"metadata": {"labels": {"app.kubernetes.io/managed-by": null}}}),
            json!({"metadata": {"annotations": {"roadstead.dev/applied": null}}}),
        ];
        if child != "Lease" {
            all.push(json!({"metadata": {"labels": {"app.kubernetes.io/instance": "another"}}}));
        }
        all.extend(match child {
            "Service" => vec![json!({"spec": {"selector": {"app": "stranger"}}})],
            "StatefulSet" => vec![json!({"spec": {"replicas": 5}}), json!({"spec": {"replicas": 1}})],
            "ConfigMap" => vec![
                json!({"data": {"instance.json": "# by hand"}}),
                json!({"data": null}),
            ],
            "Secret" => vec![
                json!({"data": {"password": "YnkgaGFuZA=="}}),
                json!({"data": null}),
            ],
            "ServiceAccount" => vec![json!({"automountServiceAccountToken": true})],
            "Role" => vec![json!({"rules": null})],
            "RoleBinding" => vec![json!({"subjects": null})],
            "PodDisruptionBudget" => vec![json!({"spec": {"maxUnavailable": 5}})],
            _ => Vec::new(),
        });
        all
    }

    /// A name may be taken whatever else is wrong. All that is drawn is good.
    fn is_told(&self, _: &Objects, database: &Value) -> bool {
        let ready = condition(database, "Ready");
        let is_taken = ready["status"] == "False" && ready["reason"] == "NameTaken";
        is_ready(database) || (is_about_its_spec(database) && is_taken)
    }

    fn is_well(&self, _: &Objects, database: &Value) -> bool {
        is_ready(database)
    }

    fn says_what_is(&self, world: &World, name: &str) {
        status_says_what_is(world, name);
    }
}

/// Created, changed so that instances are started again, and so that their pods are made anew, led by another one, made fewer, deleted.
fn life<'a>(world: &'a mut World, course: &'a mut Course) -> LocalBoxFuture<'a, ()> {
    async move {
        let new = json!({"version": "17", "size": "large"});
        world.people.create("Database", "orders", new).await.unwrap();
        until_it_serves(world).await;
        course.compare(world, "after the creation");

        change(world, json!({"parameters": {"max_connections": "200"}})).await;
        until_it_serves(world).await;
        course.compare(world, "with more connections");

        change(
            world,
            json!({"parameters": {"max_connections": "50"}, "resources": {"limits": {"memory": "4Gi"}}}),
        )
        .await;
        until_it_serves(world).await;
        course.compare(world, "with other pods");

        let database = world.get("Database", "orders").unwrap();
        let primary = database["status"]["primary"].as_str().unwrap();
        let to = if primary == "orders-2" {
            "orders-1"
        } else {
            "orders-2"
        };
        let wish = json!({"metadata": {"annotations": {SWITCH_OVER_TO: to}}});
        world.people.patch("Database", "orders", wish).await.unwrap();
        world
            .until_object("Database", "orders", "led by another one", |database| {
                database["metadata"]["annotations"][SWITCH_OVER_TO].is_null()
                    && database["status"]["primary"] == to
            })
            .await;
        until_it_serves(world).await;
        course.compare(world, "after a switchover");

        for instances in [2, 1] {
            change(world, json!({"instances": instances})).await;
            until_it_serves(world).await;
            course.compare(world, "with fewer instances");
            assert_eq!(world.names("PodDisruptionBudget").is_empty(), instances == 1);
        }

        world.people.delete("Database", "orders").await.unwrap();
        world.until_gone("Database", "orders").await;
        world.until_quiet().await;
        course.compare(world, "at the end");
        let claims = ["data-orders-0", "data-orders-1", "data-orders-2"];
        assert_eq!(world.names("PersistentVolumeClaim"), claims);
    }
    .boxed_local()
}

async fn change(world: &World, spec: Value) {
    let patch = json!({"spec": spec});
    world.people.patch("Database", "orders", patch).await.unwrap();
}

async fn until_it_serves(world: &mut World) {
    world
        .until_object("Database", "orders", "ready", is_applied)
        .await;
    world.until_quiet().await;
    status_says_what_is(world, "orders");
}

/// What the status of a database that is well says is so of its pods and of its instances.
pub fn status_says_what_is(world: &World, name: &str) {
    let database = world.get("Database", name).expect("the database");
    let status = &database["status"];
    assert!(is_ready(&database), "{status:#}");
    let known = world.cluster.board().of(crate::sim::world::NAMESPACE, name);
    let leading: Vec<&String> = known.leading.iter().collect();
    assert_eq!(json!(leading), json!([status["primary"]]));
    assert_eq!(status["systemIdentifier"], json!(known.identifier));
    let mut pods = world.list("Pod");
    pods.retain(|pod| {
        let labels = &pod["metadata"]["labels"];
        labels["app.kubernetes.io/instance"] == name && labels["app.kubernetes.io/component"] == "database"
    });
    assert_eq!(status["replicas"], pods.len());
    assert_eq!(status["readyReplicas"], known.serving().count());
    assert_eq!(known.serving().count(), pods.len(), "{known:?}");
}
