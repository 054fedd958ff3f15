//! A catalog upgrades everybody in a channel to its head, in whatever order its bundles were added.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

#[path = "support/widgets.rs"]
mod widgets;

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::LazyLock;

use proptest::prelude::*;
use roadstead::olm::catalog::deprecations::Deprecation;
use roadstead::olm::catalog::{Catalog, Channel, Rendered, default_bundle_image, default_channels};
use roadstead::olm::{Tree, yaml};
use rstest::rstest;

fn add(catalog: &mut Catalog, version: &str, channels: &[&str]) {
    let channels: Vec<String> = channels.iter().map(|&channel| channel.to_owned()).collect();
    catalog
        .add(widgets::rendered(version), &channels, "stable")
        .unwrap();
}

fn text(catalog: &Catalog) -> String {
    catalog
        .tree(Path::new("catalog"))
        .unwrap()
        .get("catalog/widgets/catalog.yaml")
        .unwrap()
        .to_owned()
}

/// The channel as lines: `name <- replaces, skips`.
fn channel(catalog: &Catalog, name: &str) -> Vec<String> {
    let entries = &catalog.get_channel(name).unwrap().entries;
    let line = |entry: &roadstead::olm::catalog::Entry| {
        let replaces = entry.replaces.iter().map(|name| format!(" <- {name}"));
        let skips = entry.skips.iter().map(|name| format!(", {name}"));
        std::iter::once(entry.name.clone())
            .chain(replaces)
            .chain(skips)
            .collect::<String>()
            .replace("widgets.", "")
    };
    entries.iter().map(line).collect()
}

/// The catalog as a file would bring it.
fn reread(text: &str) -> Result<Catalog, roadstead::olm::Error> {
    let folder = tempfile::tempdir().unwrap();
    std::fs::create_dir(folder.path().join("widgets")).unwrap();
    std::fs::write(folder.path().join("widgets/catalog.yaml"), text).unwrap();
    Catalog::read(folder.path(), "widgets")
}

#[test]
fn a_catalog_of_one_bundle() {
    let mut catalog = Catalog::empty("widgets");
    add(&mut catalog, "1.0.0", &["candidate", "stable", "stable-v1.0"]);
    insta::assert_snapshot!(text(&catalog));
    let tree = catalog.tree(Path::new("some/where")).unwrap();
    insta::assert_snapshot!(tree.get("some/catalog.Dockerfile").unwrap());
}

#[test]
fn releases_replace_each_other_in_each_channel() {
    let mut catalog = Catalog::empty("widgets");
    add(&mut catalog, "1.0.0", &["candidate", "stable", "stable-v1.0"]);
    add(&mut catalog, "1.0.1", &["candidate", "stable", "stable-v1.0"]);
    add(&mut catalog, "1.1.0", &["candidate", "stable", "stable-v1.1"]);
    catalog.check().unwrap();
    assert_eq!(
        channel(&catalog, "stable"),
        ["v1.0.0", "v1.0.1 <- v1.0.0", "v1.1.0 <- v1.0.1"]
    );
    assert_eq!(channel(&catalog, "stable-v1.0"), ["v1.0.0", "v1.0.1 <- v1.0.0"]);
    assert_eq!(
        channel(&catalog, "stable-v1.1"),
        ["v1.1.0 <- v1.0.1"],
        "whoever changes the channel is upgraded"
    );
}

#[test]
fn a_version_that_was_only_a_candidate_is_skipped_and_can_be_promoted_later() {
    let mut catalog = Catalog::empty("widgets");
    add(&mut catalog, "1.0.0", &["candidate", "stable"]);
    add(&mut catalog, "1.1.0", &["candidate"]);
    add(&mut catalog, "1.2.0", &["candidate", "stable"]);
    catalog.check().unwrap();
    assert_eq!(
        channel(&catalog, "stable"),
        ["v1.0.0", "v1.2.0 <- v1.0.0, v1.1.0"]
    );
    add(&mut catalog, "1.1.0", &["stable"]);
    catalog.check().unwrap();
    assert_eq!(
        channel(&catalog, "stable"),
        ["v1.0.0", "v1.1.0 <- v1.0.0", "v1.2.0 <- v1.1.0"]
    );
}

/// What one entry of a channel skips ends the chain, so no later one may skip what is promoted.
#[test]
fn candidates_can_be_promoted_in_any_order() {
    let mut catalog = Catalog::empty("widgets");
    add(&mut catalog, "1.0.0", &["candidate", "stable"]);
    for version in ["1.0.1", "1.0.2", "1.0.3"] {
        add(&mut catalog, version, &["candidate"]);
    }
    add(&mut catalog, "1.0.4", &["candidate", "stable"]);
    for version in ["1.0.3", "1.0.2"] {
        add(&mut catalog, version, &["stable"]);
    }
    assert_eq!(
        channel(&catalog, "stable"),
        [
            "v1.0.0",
            "v1.0.2 <- v1.0.0, v1.0.1",
            "v1.0.3 <- v1.0.2, v1.0.1",
            "v1.0.4 <- v1.0.3, v1.0.1"
        ]
    );
}

#[test]
fn what_a_channels_first_entry_came_from_can_be_promoted_into_it() {
    let mut catalog = Catalog::empty("widgets");
    add(&mut catalog, "1.0.0", &["candidate"]);
    add(&mut catalog, "1.1.0", &["candidate", "stable"]);
    add(&mut catalog, "1.0.0", &["stable"]);
    assert_eq!(channel(&catalog, "stable"), ["v1.0.0", "v1.1.0 <- v1.0.0"]);
}

/// Who follows stable-v1.0 and then changes to stable is upgraded, though stable never holds the fix.
#[test]
fn a_fix_of_an_older_minor_version_is_skipped_by_the_channels_that_are_beyond_it() {
    let mut catalog = Catalog::empty("widgets");
    add(&mut catalog, "1.0.0", &["candidate", "stable", "stable-v1.0"]);
    add(&mut catalog, "1.1.0", &["candidate", "stable", "stable-v1.1"]);
    add(&mut catalog, "1.0.1", &["stable-v1.0"]);
    catalog.check().unwrap();
    for name in ["candidate", "stable"] {
        assert_eq!(channel(&catalog, name), ["v1.0.0", "v1.1.0 <- v1.0.0, v1.0.1"]);
    }
    assert_eq!(channel(&catalog, "stable-v1.0"), ["v1.0.0", "v1.0.1 <- v1.0.0"]);
    assert_eq!(channel(&catalog, "stable-v1.1"), ["v1.1.0 <- v1.0.0, v1.0.1"]);
}

#[test]
fn a_pre_release_does_not_change_the_default_channel() {
    let mut catalog = Catalog::empty("widgets");
    add(&mut catalog, "1.0.0", &["candidate", "stable"]);
    let rendered = widgets::rendered("1.1.0-rc.1");
    let default_channel = rendered.default_channel.clone();
    catalog
        .add(rendered, &["candidate".into()], &default_channel)
        .unwrap();
    catalog.check().unwrap();
    assert!(text(&catalog).contains("defaultChannel: stable\n"));
}

#[test]
fn adding_a_version_again_changes_nothing() {
    let mut catalog = Catalog::empty("widgets");
    for version in ["1.0.0", "1.1.0"] {
        add(&mut catalog, version, &["candidate", "stable"]);
    }
    let before = text(&catalog);
    add(&mut catalog, "1.1.0", &["candidate", "stable"]);
    add(&mut catalog, "1.0.0", &["candidate", "stable"]);
    assert_eq!(text(&catalog), before);
    assert_eq!(
        reread(&before).unwrap(),
        catalog,
        "and it is the same after it was written and read"
    );
}

#[test]
fn a_version_replaces_the_highest_lower_one_and_never_itself() {
    let mut catalog = Catalog::empty("widgets");
    let replaces = |catalog: &Catalog, version: &str, channel: &str| {
        catalog.replaces(&version.parse().unwrap(), channel).unwrap()
    };
    assert_eq!(replaces(&catalog, "1.0.0", "stable"), None);
    for version in ["1.0.0", "1.9.0", "1.10.0"] {
        add(&mut catalog, version, &["candidate", "stable"]);
    }
    add(&mut catalog, "2.0.0-rc.1", &["candidate"]);
    assert_eq!(
        replaces(&catalog, "1.10.0", "stable").unwrap(),
        "widgets.v1.9.0",
        "asked again after it was added"
    );
    assert_eq!(
        replaces(&catalog, "2.0.0", "stable").unwrap(),
        "widgets.v1.10.0",
        "not the candidate"
    );
    assert_eq!(
        replaces(&catalog, "2.0.0", "candidate").unwrap(),
        "widgets.v2.0.0-rc.1"
    );
    assert_eq!(
        replaces(&catalog, "1.10.1", "new-channel").unwrap(),
        "widgets.v1.10.0",
        "in a channel that has none yet"
    );
}

#[test]
fn what_a_person_added_stays() {
    let mut catalog = Catalog::empty("widgets");
    add(&mut catalog, "1.0.0", &["stable"]);
    let deprecation = "---\nentries: []\npackage: widgets\nschema: olm.deprecations\n";
    let by_hand = text(&catalog).replace(
        "- name: widgets.v1.0.0\n",
        "- name: widgets.v1.0.0\n  skipRange: <1.0.0\n",
    ) + deprecation;
    let mut catalog = reread(&by_hand).unwrap();
    add(&mut catalog, "1.0.0", &["stable"]);
    assert_eq!(text(&catalog), by_hand);
}

/// OLM would refuse the upgrade in a cluster that still has objects of it, long after the catalog was published.
#[test]
fn a_version_of_a_kind_that_an_upgrade_takes_away_is_named() {
    let mut catalog = two_releases();
    assert!(
        catalog.dropped_versions("widgets.v1.10.0").is_empty(),
        "both have v1 and v1alpha1"
    );
    let old = text(&catalog);
    let (before, after) = old.split_once("name: widgets.v1.10.0\npackage").unwrap();
    let shorter = after.replace(
        "- type: olm.gvk\n  value:\n    group: example.org\n    kind: Widget\n    version: v1alpha1\n",
        "",
    );
    assert_ne!(shorter, after);
    catalog = reread(&format!("{before}name: widgets.v1.10.0\npackage{shorter}")).unwrap();
    let dropped = catalog.dropped_versions("widgets.v1.10.0");
    assert_eq!(
        dropped.iter().map(ToString::to_string).collect::<Vec<_>>(),
        [
            "widgets.v1.10.0 has no Widget.example.org/v1alpha1, which widgets.v1.9.0 has: OLM refuses the upgrade where \
             status.storedVersions of the CustomResourceDefinition still names it, so a version in between must have migrated the objects"
        ]
    );
}

/// As from 0.1 of this product to 0.3, which stores another version: OLM has been seen not to go on.
#[test]
fn an_upgrade_that_begins_with_versions_that_the_one_before_does_not_know_is_named() {
    let mut catalog = two_releases();
    assert!(catalog.stranded("widgets.v1.10.0").is_empty());
    let old = text(&catalog);
    let gvk = "- type: olm.gvk\n  value:\n    group: example.org\n    kind: Widget\n    version: v1\n";
    let (before, after) = old.split_once("name: widgets.v1.9.0\npackage").unwrap();
    let (first, second) = after.split_once("name: widgets.v1.10.0\npackage").unwrap();
    let shorter = first.replace(gvk, "");
    assert_ne!(shorter, first);
    let catalog_of_that =
        format!("{before}name: widgets.v1.9.0\npackage{shorter}name: widgets.v1.10.0\npackage{second}");
    catalog = reread(&catalog_of_that).unwrap();
    let stranded = catalog.stranded("widgets.v1.10.0");
    assert_eq!(
        stranded.iter().map(ToString::to_string).collect::<Vec<_>>(),
        [
            "widgets.v1.10.0 serves at first no version of Widget.example.org that widgets.v1.9.0 knows: OLM may never go on from widgets.v1.9.0, \
             whose operator cannot work meanwhile, so a version in between must know both"
        ]
    );
}

/// Three releases in two channels, of which the last is in one.
fn three_releases() -> Catalog {
    let mut catalog = Catalog::empty("widgets");
    add(&mut catalog, "1.0.0", &["candidate", "stable"]);
    add(&mut catalog, "1.1.0", &["candidate", "stable"]);
    add(&mut catalog, "1.2.0", &["candidate"]);
    catalog
}

#[test]
fn whoever_has_a_bundle_that_is_taken_back_is_upgraded_to_what_comes_after_it() {
    let mut catalog = three_releases();
    assert_eq!(catalog.remove("widgets.v1.1.0", &[]).unwrap().ended, ["stable"]);
    catalog.check().unwrap();
    assert_eq!(catalog.bundle("widgets.v1.1.0"), None);
    assert_eq!(
        channel(&catalog, "candidate"),
        ["v1.0.0", "v1.2.0 <- v1.0.0, v1.1.0"]
    );
    assert_eq!(
        channel(&catalog, "stable"),
        ["v1.0.0"],
        "nothing comes after it here, and who has it is told"
    );
}

#[test]
fn a_bundle_that_is_taken_out_of_one_channel_stays_in_the_others() {
    let mut catalog = three_releases();
    let channels = ["stable".to_owned()];
    catalog.remove("widgets.v1.1.0", &channels).unwrap();
    assert!(catalog.bundle("widgets.v1.1.0").is_some());
    assert_eq!(
        channel(&catalog, "candidate"),
        ["v1.0.0", "v1.1.0 <- v1.0.0", "v1.2.0 <- v1.1.0"]
    );
    add(&mut catalog, "1.1.0", &["stable"]);
    assert_eq!(text(&catalog), text(&three_releases()), "it can come back");
}

#[test]
fn a_channel_without_a_bundle_goes_and_so_does_what_is_deprecated_of_it() {
    let mut catalog = two_releases();
    add(&mut catalog, "1.2.0", &["next"]);
    catalog.deprecate(vec![
        Deprecation::of_package("use gadgets"),
        Deprecation::of_channel("next", "use stable"),
        Deprecation::of_bundle("widgets.v1.2.0", "use 1.1.0"),
    ]);
    catalog.remove("widgets.v1.2.0", &[]).unwrap();
    catalog.check().unwrap();
    assert_eq!(catalog.get_channel("next"), None);
    assert_eq!(catalog.deprecations(), [Deprecation::of_package("use gadgets")]);
}

#[test]
fn what_a_skip_range_let_in_is_let_in_by_what_comes_after() {
    let entries = "- name: widgets.v1.9.0\n  skipRange: <1.9.0\n- name: widgets.v1.10.0\n  replaces: widgets.v1.9.0\n  skipRange: '>=1.9.5 <1.10.0'\n";
    let plain = text(&two_releases());
    let before = "- name: widgets.v1.9.0\n- name: widgets.v1.10.0\n  replaces: widgets.v1.9.0\n";
    assert!(plain.contains(before), "{plain}");
    let mut catalog = reread(&plain.replace(before, entries)).unwrap();
    catalog.remove("widgets.v1.9.0", &["stable".to_owned()]).unwrap();
    let entry = &catalog.get_channel("stable").unwrap().entries[0];
    assert_eq!(entry.skip_range.as_deref(), Some(">=1.9.5 <1.10.0 || <1.9.0"));
    assert_eq!(entry.replaces, None);
}

#[rstest]
#[case("widgets.v9.0.0", &[], "package widgets has no bundle widgets.v9.0.0; there are widgets.v1.0.0, widgets.v1.1.0, widgets.v1.2.0")]
#[case("widgets.v1.2.0", &["fast"], "package widgets has no channel fast; there are candidate")]
#[case("widgets.v1.2.0", &["stable"], "widgets.v1.2.0 is not in channel stable; it is in candidate")]
fn what_is_not_there_cannot_be_taken_back(#[case] name: &str, #[case] channels: &[&str], #[case] why: &str) {
    let channels: Vec<String> = channels.iter().map(|&channel| channel.to_owned()).collect();
    let refused = three_releases().remove(name, &channels).unwrap_err().to_string();
    assert!(refused.contains(why), "{refused}");
}

#[test]
fn the_last_bundle_is_not_taken_back() {
    let mut catalog = Catalog::empty("widgets");
    add(&mut catalog, "1.0.0", &["stable"]);
    let refused = catalog.remove("widgets.v1.0.0", &[]).unwrap_err().to_string();
    assert!(refused.contains("last bundle of package widgets"), "{refused}");
}

fn document(entries: &str) -> String {
    format!("---\n{{schema: olm.deprecations, package: widgets, entries: [{entries}]}}\n")
}

/// Two releases in the channels candidate and stable.
fn two_releases() -> Catalog {
    let mut catalog = Catalog::empty("widgets");
    add(&mut catalog, "1.9.0", &["candidate", "stable"]);
    add(&mut catalog, "1.10.0", &["candidate", "stable"]);
    catalog
}

#[test]
fn deprecations_are_in_the_order_of_what_they_are_about_and_stay_when_a_release_is_added() {
    let mut catalog = two_releases();
    catalog.deprecate(vec![
        Deprecation::of_bundle("widgets.v1.10.0", "use 1.11"),
        Deprecation::of_bundle("widgets.v1.9.0", "use 1.11"),
        Deprecation::of_channel("stable", "use candidate"),
    ]);
    add(&mut catalog, "1.11.0", &["candidate"]);
    catalog.check().unwrap();
    let written = text(&catalog);
    insta::assert_snapshot!(written[written.find("- message").unwrap()..]);
    assert_eq!(reread(&written).unwrap(), catalog);

    let entries = catalog.deprecations().to_vec();
    catalog.deprecate(entries);
    assert_eq!(text(&catalog), written, "told again, nothing changes");
    catalog.deprecate(Vec::new());
    assert!(!text(&catalog).contains("olm.deprecations"));
}

/// What the file holds of gadgets: as a catalog of one file for all has it.
const GADGETS: &str = "\
---
{schema: olm.package, name: gadgets, defaultChannel: stable}
---
{schema: olm.channel, package: gadgets, name: stable, entries: [{name: gadgets.v1}]}
---
{schema: olm.bundle, package: gadgets, name: gadgets.v1, image: i, properties: []}
---
{schema: olm.deprecations, package: gadgets, entries: [{reference: {schema: olm.package}, message: m}]}
";

#[test]
fn what_a_file_holds_of_another_package_stays_whatever_is_done() {
    let held = |text: &str| -> Vec<serde_json::Value> { yaml::parse("catalog", text).unwrap() };
    let mut catalog = reread(&(text(&two_releases()) + GADGETS)).unwrap();
    assert_eq!(catalog.bundle_names().count(), 2);
    add(&mut catalog, "1.11.0", &["stable"]);
    catalog.remove("widgets.v1.9.0", &[]).unwrap();
    catalog
        .deprecate_one(Deprecation::of_package("use gadgets"))
        .unwrap();
    catalog.check().unwrap();
    let written = held(&text(&catalog));
    assert_eq!(written[0]["name"], "widgets");
    for document in held(GADGETS) {
        assert!(written.contains(&document), "{document} is lost");
    }
}

/// As `opm` reads it, `null` is the same as nothing.
#[test]
fn what_a_catalog_says_besides_of_what_is_deprecated_stays_and_null_is_nothing() {
    let mut catalog = Catalog::empty("widgets");
    add(&mut catalog, "1.0.0", &["stable"]);
    let deprecated = "---\nentries:\n- message: old\n  note: kept\n  reference:\n    name: stable\n    note: kept\n    schema: olm.channel\n\
                      package: widgets\nschema: olm.deprecations\n";
    let mut catalog = reread(&(text(&catalog) + deprecated)).unwrap();
    add(&mut catalog, "1.1.0", &["stable"]);
    assert!(text(&catalog).ends_with(deprecated), "{}", text(&catalog));

    let nothing = "---\nentries: null\npackage: widgets\nschema: olm.deprecations\n";
    let without = text(&catalog).replace(deprecated, nothing);
    let without = without.replace(
        "\nschema: olm.bundle\n",
        "\nrelatedImages: null\nschema: olm.bundle\n",
    );
    let without = reread(&without).unwrap();
    assert_eq!(without.deprecations(), []);
}

#[test]
fn fields_that_nobody_knows_stay_wherever_they_are() {
    let mut catalog = Catalog::empty("widgets");
    add(&mut catalog, "1.0.0", &["stable"]);
    let noted = |text: &str, before: &str| text.replacen(before, &format!("{before}  note: kept\n"), 1);
    let plain = text(&catalog);
    let mut marked = noted(&plain, "- name: widgets.v1.0.0\n");
    marked = noted(&marked, "- type: olm.package\n");
    for schema in ["olm.package", "olm.channel", "olm.bundle"] {
        marked = marked.replace(
            &format!("schema: {schema}\n"),
            &format!("note: kept\nschema: {schema}\n"),
        );
    }
    let mut catalog = reread(&marked).unwrap();
    for version in ["1.1.0", "1.0.0"] {
        add(&mut catalog, version, &["stable"]);
    }
    let written = text(&catalog);
    // What a property says beside its value is the bundle's word, which was given anew
    assert_eq!(marked.matches("note: kept").count(), 5, "{marked}");
    assert_eq!(written.matches("note: kept").count(), 4, "{written}");
}

/// One that carries its manifests has none: `migrate` keeps such as it is, and so does whatever edits the catalog afterwards.
#[rstest]
#[case::missing("")]
#[case::empty("image: ''\n")]
fn a_bundle_without_an_image_does_not_keep_the_catalog_from_being_edited(#[case] image: &str) {
    let mut catalog = Catalog::empty("widgets");
    add(&mut catalog, "1.0.0", &["stable"]);
    let plain = text(&catalog);
    let line = plain.lines().find(|line| line.starts_with("image: ")).unwrap();
    let mut catalog = reread(&plain.replace(&format!("{line}\n"), image)).unwrap();
    add(&mut catalog, "1.1.0", &["stable"]);
    catalog.check().unwrap();
    assert_eq!(catalog.bundle("widgets.v1.0.0").unwrap().image, "");
    assert_eq!(text(&catalog).matches("\nimage: ").count(), 1);
}

#[test]
fn space_around_the_name_of_a_channel_is_no_part_of_it() {
    let bundle = widgets::bundle("1.0.0");
    let mut tree = Tree::default();
    for (path, text) in bundle.files() {
        let spaced = text.replace("candidate,stable", "' candidate, ,stable '");
        tree.insert(path, spaced).unwrap();
    }
    let file = "bundle/metadata/annotations.yaml";
    assert_ne!(tree.get(file), bundle.get(file));
    let rendered = Rendered::of_tree(&tree, Path::new("bundle"), |_, _| Ok("i".to_owned())).unwrap();
    assert_eq!(rendered.channels, ["candidate", "stable"]);
}

#[rstest]
#[case::deprecations(&document("").repeat(2), "olm.deprecations")]
#[case::package(
    "---\n{schema: olm.package, name: widgets, defaultChannel: fast}\n",
    "olm.package"
)]
fn of_two_documents_where_there_may_be_one_none_is_lost(#[case] documents: &str, #[case] schema: &str) {
    let refused = reread(&(text(&two_releases()) + documents))
        .unwrap_err()
        .to_string();
    let why = format!(
        "widgets/catalog.yaml: there are two documents {schema} of package widgets; a package may have one"
    );
    assert!(refused.ends_with(&why), "{refused}");
}

#[rstest]
#[case::no_such_channel(
    &document("{reference: {schema: olm.channel, name: fast}, message: m}"),
    "olm.deprecations: entries[0].reference.name is \"fast\"; the channels are candidate, stable"
)]
#[case::no_such_bundle(
    &document("{reference: {schema: olm.bundle, name: widgets.v1}, message: m}"),
    "olm.deprecations: entries[0].reference.name is \"widgets.v1\"; the bundles are widgets.v1.9.0, widgets.v1.10.0"
)]
#[case::named_package(
    &document("{reference: {schema: olm.package, name: widgets}, message: m}"),
    "olm.deprecations: entries[0].reference.name is \"widgets\"; a package has no name there, since the document says which"
)]
#[case::no_schema(
    &document("{reference: {name: stable}, message: m}"),
    "olm.deprecations: entries[0].reference.schema is \"\"; accepted are olm.package, olm.channel and olm.bundle"
)]
#[case::no_message(
    &document("{reference: {schema: olm.package}}"),
    "olm.deprecations: entries[0].message is \"\"; tell users what to do instead"
)]
#[case::one_thing_twice(
    &document("{reference: {schema: olm.channel, name: stable}, message: m}, {reference: {schema: olm.channel, name: stable}, message: other}"),
    "olm.deprecations: entries[1].reference.name is \"stable\"; it is deprecated already by an entry before"
)]
fn a_deprecation_that_opm_would_refuse_is_refused(#[case] documents: &str, #[case] message: &str) {
    let by_hand = text(&two_releases()) + documents;
    assert_eq!(
        reread(&by_hand).unwrap().check().unwrap_err().to_string(),
        message
    );
}

#[test]
fn a_version_cannot_be_released_under_two_names_nor_in_a_foreign_catalog() {
    let mut catalog = Catalog::empty("widgets");
    add(&mut catalog, "1.0.0", &["stable"]);
    let mut renamed = reread(&text(&catalog).replace("name: widgets.v1.0.0", "name: widgets.1.0.0")).unwrap();
    let error = renamed
        .add(widgets::rendered("1.0.0"), &["stable".into()], "stable")
        .unwrap_err();
    assert_eq!(
        error.to_string(),
        "catalog: version 1.0.0 is in both widgets.1.0.0 and widgets.v1.0.0; a version can be released once"
    );
    let error = Catalog::empty("gears")
        .add(widgets::rendered("1.0.0"), &["stable".into()], "stable")
        .unwrap_err();
    assert_eq!(
        error.to_string(),
        "catalog: the bundle is of package widgets, the catalog of gears"
    );
}

#[rstest]
#[case::two_heads(
    "[{name: a}, {name: b}]",
    "catalog: channel stable: it has 2 heads: a, b; exactly one entry may be neither replaced nor skipped, and replaces leads down from it"
)]
#[case::no_head(
    "[{name: a, replaces: b}, {name: b, replaces: a}]",
    "catalog: channel stable: it has no head: each entry is replaced or skipped; exactly one entry may be neither replaced nor skipped, and replaces leads down from it"
)]
#[case::cycle(
    "[{name: a, replaces: b}, {name: b, replaces: c}, {name: c, replaces: b}]",
    "catalog: channel stable: replaces leads in a circle: b, c, b; exactly one entry may be neither replaced nor skipped, and replaces leads down from it"
)]
#[case::stranded(
    "[{name: a, skips: [b]}, {name: b, replaces: c}, {name: c}]",
    "catalog: channel stable: c is not on the chain of replaces from the head a, so its users are never upgraded"
)]
#[case::stranded_behind_a_skipped_one(
    "[{name: a, replaces: b, skips: [b]}, {name: b, replaces: c}, {name: c}]",
    "catalog: channel stable: c is not on the chain of replaces from the head a, so its users are never upgraded"
)]
#[case::no_such_bundle(
    "[{name: a, replaces: x}, {name: x}]",
    "catalog: channel stable lists x, but there is no such bundle"
)]
#[case::empty("[]", "catalog: channel stable has no entry")]
fn a_broken_channel_is_refused(#[case] entries: &str, #[case] message: &str) {
    let bundles: String = ["a", "b", "c"]
        .map(|name| {
            format!("---\n{{schema: olm.bundle, name: {name}, package: widgets, image: i, properties: []}}\n")
        })
        .concat();
    let channel =
        format!("---\n{{schema: olm.channel, name: stable, package: widgets, entries: {entries}}}\n");
    assert_eq!(
        reread(&(bundles + &channel))
            .unwrap()
            .check()
            .unwrap_err()
            .to_string(),
        message
    );
}

#[test]
fn the_default_channel_is_the_first_until_the_one_asked_for_has_an_entry() {
    let mut catalog = Catalog::empty("widgets");
    add(&mut catalog, "1.0.0", &["candidate"]);
    catalog.check().unwrap();
    assert!(text(&catalog).contains("defaultChannel: candidate\n"));
    add(&mut catalog, "1.0.0", &["stable"]);
    catalog.check().unwrap();
    assert!(text(&catalog).contains("defaultChannel: stable\n"));
}

#[test]
fn a_default_channel_must_exist() {
    let mut catalog = Catalog::empty("widgets");
    add(&mut catalog, "1.0.0", &["stable"]);
    let by_hand = text(&catalog).replace("defaultChannel: stable", "defaultChannel: fast");
    assert_eq!(
        reread(&by_hand).unwrap().check().unwrap_err().to_string(),
        "catalog: the default channel fast is none of the package's channels"
    );
}

#[test]
fn names_are_derived_from_version_and_operator() {
    let version = "1.2.3".parse().unwrap();
    assert_eq!(default_channels(&version), ["candidate", "stable", "stable-v1.2"]);
    assert_eq!(
        default_channels(&"1.2.3-rc.1".parse().unwrap()),
        ["candidate"],
        "a pre-release is a candidate until a person says otherwise"
    );
    assert_eq!(
        default_bundle_image("localhost:5000/a/op:v1", "widgets", &version),
        "localhost:5000/a/widgets-bundle:v1.2.3"
    );
    assert_eq!(
        default_bundle_image("op", "widgets", &version),
        "widgets-bundle:v1.2.3"
    );
}

/// Making a bundle takes longer than adding it, and the property needs the same few over and over.
static BUNDLES: LazyLock<BTreeMap<String, Rendered>> = LazyLock::new(|| {
    let versions = (0..3).flat_map(|minor| (0..4).map(move |patch| format!("1.{minor}.{patch}")));
    versions
        .map(|version| (version.clone(), widgets::rendered(&version)))
        .collect()
});

/// Entries that `opm validate` calls stranded: neither skipped by any entry nor on the chain of replaces from the head, which
/// ends at what any entry skips (`validateReplacesChain` in operator-registry's alpha/model/model.go).
fn stranded(channel: &Channel) -> Vec<&str> {
    let skipped: BTreeSet<&String> = channel.entries.iter().flat_map(|entry| &entry.skips).collect();
    let mut chain = BTreeSet::new();
    let mut next = Some(channel.head().unwrap());
    while let Some(entry) = next {
        assert!(chain.insert(&entry.name), "a loop at {}", entry.name);
        next = channel
            .entries
            .iter()
            .find(|other| entry.replaces.as_ref() == Some(&other.name) && !skipped.contains(&other.name));
    }
    let names = channel.entries.iter().map(|entry| &entry.name);
    names
        .filter(|name| !chain.contains(name) && !skipped.contains(name))
        .map(String::as_str)
        .collect()
}

proptest! {
    /// Whatever is taken back in whatever order: every version that is left gets to the head, and so do users of what was taken back, but for those of a head.
    #[test]
    fn what_is_left_after_removals_makes_whole_channels(
        releases in prop::collection::vec(((0u64..3, 0u64..4), any::<bool>()), 2..16),
        removals in prop::collection::vec(any::<prop::sample::Index>(), 1..8),
    ) {
        let mut catalog = Catalog::empty("widgets");
        for ((minor, patch), is_stable) in releases {
            let version = format!("1.{minor}.{patch}");
            let channels = if is_stable { vec!["candidate".to_owned(), "stable".to_owned()] } else { vec!["candidate".to_owned()] };
            catalog.add(BUNDLES[&version].clone(), &channels, "candidate").unwrap();
        }
        for removal in removals {
            let names: Vec<String> = catalog.bundle_names().map(str::to_owned).collect();
            if names.len() < 2 {
                break;
            }
            let name = &names[removal.index(names.len())];
            let with_it: Vec<String> = catalog.channel_names().filter(|channel| catalog.get_channel(channel).unwrap().has(name)).map(str::to_owned).collect();
            let ended = catalog.remove(name, &[]).unwrap();
            catalog.check().map_err(|error| TestCaseError::fail(error.to_string()))?;
            for channel in with_it.iter().filter(|channel| !ended.ended.contains(channel)) {
                if let Some(channel) = catalog.get_channel(channel) {
                    prop_assert!(channel.entries.iter().any(|entry| entry.skips.contains(name)));
                }
            }
            for name in catalog.channel_names() {
                prop_assert_eq!(stranded(catalog.get_channel(name).unwrap()), Vec::<&str>::new());
            }
        }
    }

    /// Every version in a channel gets to the head by replaces or skips, and the order of adding plays no part in the head.
    #[test]
    fn every_order_of_releases_makes_a_whole_channel(releases in prop::collection::vec(((0u64..3, 0u64..4), any::<bool>()), 1..24)) {
        let mut catalog = Catalog::empty("widgets");
        let mut stable = BTreeSet::new();
        for ((minor, patch), is_stable) in releases {
            let version = format!("1.{minor}.{patch}");
            let channels = if is_stable { vec!["candidate".to_owned(), "stable".to_owned()] } else { vec!["candidate".to_owned()] };
            catalog.add(BUNDLES[&version].clone(), &channels, "stable").unwrap();
            if is_stable {
                stable.insert((minor, patch));
            }
            for name in catalog.channel_names().map(str::to_owned).collect::<Vec<_>>() {
                let channel = catalog.get_channel(&name).unwrap();
                let head = channel.head().map_err(|error| TestCaseError::fail(error.to_string()))?;
                prop_assert_eq!(&head.name, &channel.entries.last().unwrap().name);
                prop_assert_eq!(stranded(channel), Vec::<&str>::new());
            }
            catalog.check().map_err(|error| TestCaseError::fail(error.to_string()))?;
            if let Some((minor, patch)) = stable.last() {
                prop_assert_eq!(&catalog.get_channel("stable").unwrap().head().unwrap().name, &format!("widgets.v1.{minor}.{patch}"));
            }
        }
    }
}
