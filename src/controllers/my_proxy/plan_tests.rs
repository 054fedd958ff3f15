use std::sync::Arc;

use serde_json::{Value, json};

use super::*;
use crate::controllers::my_proxy::testing::{owner_of, proxy, settings, valid};

/// What the cluster would hold: plans are applied to it as the controller and Kubernetes would.
#[derive(Default)]
struct World(Observed);

impl World {
    fn plan(&self, spec: Value) -> Plan {
        let proxy = proxy("edge", spec);
        let valid = valid(&proxy);
        plan(
            &owner_of(&proxy, &valid),
            &self.0,
            &settings(),
            Timestamp::UNIX_EPOCH,
        )
    }

    /// Plans, applies and prunes; gives the plan.
    fn step(&mut self, spec: Value) -> Plan {
        let plan = self.plan(spec);
        let Resources {
            service: _,
            config_map,
            candidate,
            check,
            deployment,
            disruption_budget: _,
        } = plan.resources.clone();
        let mut keep = plan.keep.clone();
        for config_map in [config_map, candidate].into_iter().flatten() {
            keep.config_maps.insert(put(&mut self.0.config_maps, config_map));
        }
        keep.jobs.extend(check.map(|job| put(&mut self.0.jobs, job)));
        keep.deployments
            .extend(deployment.map(|deployment| put(&mut self.0.deployments, deployment)));
        self.0
            .config_maps
            .retain(|object| keep.config_maps.contains(&object.name_any()));
        self.0
            .jobs
            .retain(|object| keep.jobs.contains(&object.name_any()));
        self.0
            .deployments
            .retain(|object| keep.deployments.contains(&object.name_any()));
        plan
    }

    fn finish_checks(&mut self, condition: &str) {
        for job in &mut self.0.jobs {
            let status = json!({"conditions": [{"type": condition, "status": "True", "lastTransitionTime": "1970-01-01T00:00:00Z"}]});
            Arc::make_mut(job).status = serde_json::from_value(status).unwrap();
        }
    }

    fn make_available(&mut self) {
        for deployment in &mut self.0.deployments {
            let replicas = deployment.spec.as_ref().unwrap().replicas;
            Arc::make_mut(deployment).status =
                serde_json::from_value(json!({"availableReplicas": replicas})).unwrap();
        }
    }

    /// Steps until nothing changes any more.
    fn settle(&mut self, spec: &Value) -> Plan {
        self.step(spec.clone());
        self.finish_checks("Complete");
        self.step(spec.clone());
        self.make_available();
        self.step(spec.clone())
    }

    fn names(&self) -> Vec<String> {
        let Observed {
            deployments,
            services: _,
            config_maps,
            jobs,
            budgets: _,
            pods: _,
        } = &self.0;
        let names = deployments.iter().map(|object| object.name_any());
        let names = names.chain(config_maps.iter().map(|object| object.name_any()));
        names.chain(jobs.iter().map(|object| object.name_any())).collect()
    }
}

fn put<K: ResourceExt>(list: &mut Vec<Arc<K>>, object: K) -> String {
    let name = object.name_any();
    list.retain(|other| other.name_any() != name);
    list.push(Arc::new(object));
    name
}

fn to(port: u16) -> Value {
    json!({"upstreams": [{"name": "a", "servers": [{"host": "a", "port": port}]}], "routes": [{"path": "/", "upstream": "a"}]})
}

#[test]
fn nothing_serves_before_nginx_accepted_the_first_configuration() {
    let mut world = World::default();
    let plan = world.step(to(1));
    assert_eq!(plan.verdict, Verdict::Due { attempt: 1 });
    assert!(plan.resources.deployment.is_none());
    world.finish_checks("Failed");
    assert!(matches!(world.step(to(1)).verdict, Verdict::Failed { .. }));
    assert!(world.0.deployments.is_empty());
}

#[test]
fn an_accepted_configuration_is_served_and_its_check_goes() {
    let mut world = World::default();
    let plan = world.settle(&to(1));
    assert_eq!(plan.verdict, Verdict::Active);
    assert_eq!(world.names(), ["edge", "edge-config"]);
}

#[test]
fn the_job_of_a_passed_check_stays_until_its_result_is_seen_in_the_config_map() {
    let mut world = World::default();
    world.step(to(1));
    world.finish_checks("Complete");
    let before = world.0.config_maps.clone();
    world.step(to(1));
    assert_eq!(world.0.jobs.len(), 1);
    // An old copy of the ConfigMap, as a cache may show it, does not start a check again.
    world.0.config_maps = before;
    assert_eq!(world.plan(to(1)).verdict, Verdict::Passed);
}

#[test]
fn a_refused_configuration_leaves_the_old_one_and_lets_other_changes_roll() {
    let mut world = World::default();
    world.settle(&to(1));
    let mut bad = to(2);
    bad["replicas"] = json!(5);
    world.step(bad.clone());
    world.finish_checks("Failed");
    let plan = world.step(bad);
    assert!(matches!(plan.verdict, Verdict::Failed { .. }));
    let config = &plan.resources.config_map.unwrap().data.unwrap()["nginx.conf"];
    assert!(config.contains("a.shop.svc.cluster.local:1\"") && !config.contains(":2\""));
    assert_eq!(plan.resources.deployment.unwrap().spec.unwrap().replicas, Some(5));
}

#[test]
fn an_image_is_rolled_out_only_after_its_nginx_accepted_the_configuration() {
    let mut world = World::default();
    world.settle(&json!({}));
    let image = |plan: &Plan| {
        let deployment = plan.resources.deployment.clone().unwrap();
        deployment.spec.unwrap().template.spec.unwrap().containers[0]
            .image
            .clone()
            .unwrap()
    };
    let newer = json!({"image": "nginx:2"});
    assert_eq!(image(&world.step(newer.clone())), "nginx:1.29");
    world.finish_checks("Complete");
    assert_eq!(image(&world.step(newer)), "nginx:2");
}

#[test]
fn bad_then_good_then_bad_then_good_gives_the_first_state_back() {
    let mut world = World::default();
    world.settle(&to(1));
    let first = (world.names(), world.plan(to(1)).resources);
    for _ in 0..2 {
        world.step(to(2));
        world.finish_checks("Failed");
        world.step(to(2));
        assert_eq!(world.step(to(1)).verdict, Verdict::Active);
        assert_eq!((world.names(), world.plan(to(1)).resources), first);
    }
}

#[test]
fn a_lost_configuration_never_takes_the_deployment_with_it() {
    let mut world = World::default();
    world.settle(&to(1));
    world.0.config_maps.clear();
    let plan = world.step(to(1));
    assert!(plan.active.is_none());
    assert_eq!(world.0.deployments.len(), 1);
    world.finish_checks("Complete");
    world.step(to(1));
    world.step(to(1));
    assert_eq!(world.names(), ["edge", "edge-config"]);
}

#[test]
fn a_configuration_that_somebody_changed_is_never_taken_for_the_last_good_one() {
    let mut world = World::default();
    world.settle(&to(1));
    let good = world.plan(to(1)).resources.config_map.unwrap();
    let mounted = Arc::make_mut(&mut world.0.config_maps[0]);
    mounted
        .data
        .as_mut()
        .unwrap()
        .insert("nginx.conf".into(), "anything".into());
    assert_eq!(
        world.plan(to(1)).resources.config_map.unwrap(),
        good,
        "it is put back"
    );
    let plan = world.plan(to(2));
    assert!(plan.active.is_none() && plan.resources.config_map.is_none());
    world.step(to(2));
    assert_eq!(world.0.deployments.len(), 1, "and takes no pods with it");
}

#[test]
fn a_renamed_deployment_is_removed_once_the_new_one_is_available() {
    let mut world = World::default();
    world.settle(&json!({}));
    let names = |world: &World| {
        world
            .0
            .deployments
            .iter()
            .map(|object| object.name_any())
            .collect::<Vec<_>>()
    };
    let renamed = json!({"deploymentName": "front"});
    world.step(renamed.clone());
    assert_eq!(names(&world), ["edge", "front"]);
    world.step(renamed.clone());
    assert_eq!(names(&world), ["edge", "front"]);
    world.make_available();
    world.step(renamed);
    assert_eq!(names(&world), ["front"]);
}

#[test]
fn a_settled_proxy_plans_the_same_again() {
    let mut world = World::default();
    world.settle(&to(1));
    let (one, other) = (world.plan(to(1)), world.plan(to(1)));
    assert_eq!((one.resources, one.keep), (other.resources, other.keep));
}
