//! One thing after another is broken in a cluster in which all is well.

mod catalogs;
mod resolving;
mod running;
mod texts;
mod world;

use serde_json::json;

use super::{Chain, Facts, Kind, Mark, Report, State, judge};
use world::{now, pod_with, waiting, well};

/// The chain after something was done to a cluster in which all is well.
fn after(broken: fn(&mut Facts)) -> Chain {
    let mut facts = well();
    broken(&mut facts);
    judge(&facts, now())
}

/// All that is told of the first thing that is wrong.
fn told(chain: &Chain) -> String {
    let first = chain.first.as_ref().unwrap();
    let mut told = vec![first.trouble.what.clone()];
    told.extend(
        first
            .trouble
            .why
            .iter()
            .map(|why| format!("{}: {}", why.of, why.words)),
    );
    for help in &first.trouble.helps {
        told.push(help.advice.clone());
        told.extend(help.command.clone());
    }
    told.join("\n")
}

/// The first thing that is wrong, or waited for, is of this kind, and all these phrases are told of it.
#[track_caller]
fn expect(broken: fn(&mut Facts), kind: Kind, state: State, phrases: &[&str]) {
    let chain = after(broken);
    let first = chain
        .first
        .as_ref()
        .unwrap_or_else(|| panic!("nothing is found in {:#?}", chain.links));
    assert_eq!((first.kind, chain.state), (kind, state), "{}", told(&chain));
    let told = told(&chain);
    for phrase in phrases {
        assert!(told.contains(phrase), "{phrase:?} is not in:\n{told}");
    }
}

fn mark(chain: &Chain, kind: Kind) -> Mark {
    chain.links.iter().find(|link| link.kind == kind).unwrap().mark
}

#[test]
fn nothing_is_found_where_all_is_well() {
    let chain = after(|_| {});
    assert_eq!(chain.first, None);
    assert_eq!(chain.state, State::Well);
    assert!(
        chain.links.iter().all(|link| link.mark == Mark::Ok),
        "{:#?}",
        chain.links
    );
}

#[test]
fn the_links_are_in_the_order_in_which_one_follows_from_the_one_before() {
    let kinds: Vec<Kind> = after(|_| {}).links.iter().map(|link| link.kind).collect();
    assert_eq!(
        kinds,
        [
            Kind::CatalogSource,
            Kind::PackageManifest,
            Kind::OperatorGroup,
            Kind::Subscription,
            Kind::Bundle,
            Kind::InstallPlan,
            Kind::ClusterServiceVersion,
            Kind::OperatorCondition,
            Kind::Deployment
        ]
    );
}

#[test]
fn what_may_not_be_read_fails_nothing_but_for_what_is_installed() {
    let chain = after(|facts| {
        let denied = || "pods is forbidden".to_owned();
        facts.source = Err(denied());
        facts.source_pods = Err(denied());
        facts.package = Err(denied());
        facts.jobs = Err(denied());
        facts.job_pods = Err(denied());
        facts.conditions = Err(denied());
        facts.deployments[0].pods = Err(denied());
    });
    assert_eq!(chain.state, State::Well);
    assert_eq!(mark(&chain, Kind::CatalogSource), Mark::Unseen);
    let chain = after(|facts| facts.csvs = Err("forbidden".to_owned()));
    assert_eq!(chain.state, State::Unknown);
}

#[test]
fn a_package_is_as_its_worst_chain_and_wrong_without_any() {
    let well = after(|_| {});
    let wrong = after(|facts| facts.groups = Ok(Vec::new()));
    assert_eq!(
        Report::new("gadgets", vec![well.clone(), wrong], None).state,
        State::Wrong
    );
    assert_eq!(Report::new("gadgets", vec![well], None).state, State::Well);
    assert_eq!(Report::new("gadgets", Vec::new(), None).state, State::Wrong);
}

/// docs/packaging.md tells this shape.
#[test]
fn programs_are_told_the_same_in_a_shape_that_stays() {
    let chain = after(|facts| {
        facts.operator_pod(pod_with(
            "tools",
            "gadgets-x",
            "manager",
            waiting("ErrImagePull", "not found"),
            json!({}),
        ))
    });
    let report = serde_json::to_value(Report::new("gadgets", vec![chain], None)).unwrap();
    assert_eq!(report["state"], "wrong");
    let chain = &report["chains"][0];
    assert_eq!(
        [&chain["namespace"], &chain["subscription"], &chain["state"]],
        ["tools", "gadgets", "wrong"]
    );
    let source = &chain["links"][0];
    let expected = json!({
        "kind": "CatalogSource", "name": "olm/fair", "mark": "ok", "state": "READY", "since": world::BEFORE,
        "details": {"image": "example.org/fair:latest", "pod": "fair-x7k2p", "lastPoll": world::JUST},
    });
    assert_eq!(*source, expected);
    let first = &chain["first"];
    assert_eq!([&first["kind"], &first["name"]], ["Deployment", "tools/gadgets"]);
    assert_eq!(
        first["why"][0],
        json!({"of": "pod gadgets-x, ErrImagePull", "words": "not found"})
    );
    assert_eq!(
        first["helps"][1]["command"],
        "kubectl -n tools describe pod gadgets-x"
    );
}

/// What somebody writes into a Subscription is in commands that somebody else pastes.
#[test]
fn no_command_runs_what_is_written_in_a_spec() {
    let chain = after(|facts| {
        facts.nothing_installed();
        facts.subscription["spec"]["sourceNamespace"] = json!("olm");
        facts.subscription["spec"]["source"] = json!("fair;reboot");
        facts.package = Ok(None);
    });
    let report = serde_json::to_string(&chain).unwrap();
    assert!(
        !report.contains("catalog=fair;reboot,") || report.contains("'catalog=fair;reboot,"),
        "{report}"
    );
    let chain = after(|facts| {
        facts.package.as_mut().unwrap().as_mut().unwrap()["status"] =
            json!({"defaultChannel": "a'; reboot '", "channels": []})
    });
    assert!(
        told(&chain).contains(r#"-p '{"spec":{"channel":"a'\''; reboot '\''"}}'"#),
        "{}",
        told(&chain)
    );
}
