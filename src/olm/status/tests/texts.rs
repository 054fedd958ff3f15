//! What a person reads.

use insta::assert_snapshot;
use serde_json::json;

use super::super::Facts;
use super::world::{condition, csv_in, now, pod_with, subscription, terminated, waiting};
use super::{after, told};
use crate::olm::status::{Chain, Report, Trouble, nobody, text};

fn written(chains: Vec<Chain>) -> String {
    let mut out = Vec::new();
    text::write(&mut out, &Report::new("gadgets", chains, None), now()).unwrap();
    String::from_utf8(out).unwrap()
}

#[test]
fn where_all_is_well_one_line_says_so() {
    assert_snapshot!(written(vec![after(|_| {})]));
}

#[test]
fn an_operator_that_takes_too_much_memory_is_told() {
    assert_snapshot!(written(vec![after(|facts| {
        *facts.csv_mut() = csv_in(
            "gadgets.v1.1.0",
            "",
            "Failed",
            "InstallCheckFailed",
            "install timeout",
        );
        let state = waiting(
            "CrashLoopBackOff",
            "back-off 2m40s restarting failed container=manager",
        );
        facts.operator_pod(pod_with(
            "tools",
            "gadgets-x",
            "manager",
            state,
            terminated("OOMKilled", 137),
        ));
    })]));
}

#[test]
fn a_neighbour_that_blocks_a_namespace_is_told() {
    assert_snapshot!(written(vec![after(|facts| {
        let mut neighbour = subscription();
        neighbour["metadata"]["name"] = json!("trinkets");
        neighbour["spec"]["name"] = json!("trinkets");
        facts.neighbours.push(neighbour);
        facts.nothing_installed();
        let message = "constraints not satisfiable: no operators found in package trinkets in the catalog referenced by subscription trinkets, subscription trinkets exists";
        condition(
            &mut facts.subscription,
            "ResolutionFailed",
            "ConstraintsNotSatisfiable",
            message,
        );
    })]));
}

#[test]
fn an_upgrade_that_is_held_back_and_one_that_is_not_there_are_told_one_after_the_other() {
    let held = after(Facts::upgrade_is_held_back);
    let absent = after(|facts| facts.source = Ok(None));
    assert_snapshot!(written(vec![held, absent]));
}

#[test]
fn a_package_that_nobody_subscribes_to_is_told_with_the_catalogs_that_have_it() {
    let trouble = nobody("gadgets", None, &["olm/fair".to_owned()], &[]);
    assert_snapshot!(without_chain(trouble));
}

#[test]
fn a_package_that_olm_v1_installs_is_told_with_the_extension_that_does() {
    let extensions = ["gadgets-of-ours".to_owned()];
    let trouble = nobody("gadgets", None, &["olm/fair".to_owned()], &extensions);
    assert_snapshot!(without_chain(trouble));
}

fn without_chain(trouble: Trouble) -> String {
    let mut out = Vec::new();
    let report = Report::new("gadgets", Vec::new(), Some(trouble));
    text::write(&mut out, &report, now()).unwrap();
    String::from_utf8(out).unwrap()
}

#[test]
fn a_message_of_any_length_keeps_the_report_on_a_screen() {
    let chain = after(|facts| {
        let message = "gadgets.v1.1.0 requires at least one of these, ".repeat(500);
        facts.nothing_installed();
        condition(
            &mut facts.subscription,
            "ResolutionFailed",
            "ConstraintsNotSatisfiable",
            &message,
        );
    });
    assert!(told(&chain).len() > 20_000);
    let written = written(vec![chain]);
    assert!(written.lines().count() < 40, "{written}");
}
