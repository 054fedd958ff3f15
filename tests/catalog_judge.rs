//! `opm validate` is the judge of our verdicts on catalogs: the same, or a difference that is argued.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

#[path = "support/broken_catalogs.rs"]
mod broken_catalogs;
#[allow(dead_code, reason = "each binary uses what it needs of this")]
#[path = "support/catalogs.rs"]
mod catalogs;
#[path = "support/opm.rs"]
mod opm;
#[path = "support/verdicts.rs"]
mod verdicts;

use std::collections::BTreeMap;
use std::path::Path;
use std::process::Command;

use broken_catalogs::written_catalogs::sound_files;
use broken_catalogs::{Broken, all, plain, sound};
use roadstead::olm::fbc::validate;
use roadstead::olm::fbc::view::View;
use roadstead::olm::findings::Finding;
use rstest::rstest;
use verdicts::is_error;

/// Whether upstream refuses a catalog, and its words.
fn refused_by_opm(opm: &Path, folder: &Path) -> Option<String> {
    let output = Command::new(opm).arg("validate").arg(folder).output().unwrap();
    (!output.status.success()).then(|| String::from_utf8_lossy(&output.stderr).into_owned())
}

fn written(broken: &Broken) -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    for (name, text) in &broken.files {
        std::fs::write(folder.path().join(name), text).unwrap();
    }
    folder
}

#[test]
fn each_broken_rule_is_found_and_upstream_judges_as_we_do_or_the_difference_is_argued() {
    let opm = opm::program();
    let mut wrong = Vec::new();
    for broken in all() {
        let folder = written(&broken);
        let findings = validate(folder.path()).unwrap();
        let theirs = refused_by_opm(&opm, folder.path());
        wrong.extend(verdicts::wrong(
            (broken.name, broken.code, broken.differs),
            &findings,
            theirs.as_ref(),
        ));
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn what_is_valid_is_so_for_both() {
    let opm = opm::program();
    let sound = sound().into_iter().chain([("rich", catalogs::rich())]);
    let sound = sound.map(|(name, documents)| (name, documents, String::new()));
    let written = sound_files()
        .into_iter()
        .map(|(name, text)| (name, plain(), text));
    for (name, documents, text) in sound.chain(written) {
        let folder = tempfile::tempdir().unwrap();
        catalogs::write(folder.path(), &documents);
        std::fs::write(folder.path().join("x.yaml"), text).unwrap();
        let errors: Vec<Finding> = validate(folder.path())
            .unwrap()
            .into_iter()
            .filter(is_error)
            .collect();
        assert_eq!(errors, [], "{name}");
        assert_eq!(refused_by_opm(&opm, folder.path()), None, "{name}");
    }
}

/// What each `.indexignore` leaves of a folder in which one file is none of the catalog.
#[rstest]
#[case::braces("*.{md,txt}", true)]
#[case::a_name("*.md", false)]
#[case::a_folder("sub/", false)]
#[case::a_file_in_a_folder_that_is_excluded("sub/\n!sub/a.md", true)]
#[case::a_folder_that_is_none("a.md/", true)]
fn an_ignored_file_is_ignored_as_upstream_does(#[case] patterns: &str, #[case] is_refused: bool) {
    let folder = tempfile::tempdir().unwrap();
    catalogs::write(folder.path(), &plain());
    std::fs::create_dir(folder.path().join("sub")).unwrap();
    std::fs::write(folder.path().join("sub/a.md"), "A catalog\n").unwrap();
    std::fs::write(folder.path().join(".indexignore"), patterns).unwrap();
    let ours = validate(folder.path()).unwrap();
    let theirs = refused_by_opm(&opm::program(), folder.path());
    assert_eq!(
        (ours.iter().any(is_error), theirs.is_some()),
        (is_refused, is_refused),
        "{ours:?}; upstream: {theirs:?}"
    );
}

#[test]
fn a_link_to_a_folder_is_refused_by_both_and_one_to_a_file_by_none() {
    let folder = tempfile::tempdir().unwrap();
    catalogs::write(&folder.path().join("catalog"), &plain());
    std::fs::create_dir(folder.path().join("other")).unwrap();
    let link = folder.path().join("catalog/link");
    for (to, is_refused) in [("../other", true), ("../x.yaml", false)] {
        std::fs::write(folder.path().join("x.yaml"), "schema: mine\n").unwrap();
        std::os::unix::fs::symlink(to, &link).unwrap();
        let ours = validate(&folder.path().join("catalog")).unwrap();
        let theirs = refused_by_opm(&opm::program(), &folder.path().join("catalog"));
        assert_eq!(ours.iter().any(is_error), is_refused, "{to}: {ours:?}");
        assert_eq!(theirs.is_some(), is_refused, "{to}: {theirs:?}");
        std::fs::remove_file(&link).unwrap();
    }
}

/// Names of images, good and bad, of which each part is tried.
#[test]
fn names_of_images_are_read_as_upstream_reads_them() {
    let digest = |algorithm: &str, digit: &str, length| format!("{algorithm}:{}", digit.repeat(length));
    let names = [
        "a".to_owned(),
        "a/b".to_owned(),
        "a:5000".to_owned(),
        "a_b.c:v1".to_owned(),
        "a__b/c--d/e.f".to_owned(),
        "a___b".to_owned(),
        "a._b".to_owned(),
        "a_/b".to_owned(),
        "-a".to_owned(),
        "A".to_owned(),
        "A/b".to_owned(),
        "localhost/a".to_owned(),
        "localhost:5000/a:v1".to_owned(),
        "a.b:/c".to_owned(),
        "a.b:x/c".to_owned(),
        "a.-b/c".to_owned(),
        "a..b/c".to_owned(),
        "a_b.c/d".to_owned(),
        "Registry.example.org/a".to_owned(),
        "registry.example.org/A".to_owned(),
        "registry.example.org/a//b".to_owned(),
        "registry.example.org/a/".to_owned(),
        "/a".to_owned(),
        "10.0.0.1:5000/a".to_owned(),
        "[::1]:5000/a".to_owned(),
        "[2001:db8::1]/a:v1".to_owned(),
        "[::1/a".to_owned(),
        "[::1]x/a".to_owned(),
        "a:".to_owned(),
        "a:.b".to_owned(),
        "a:-b".to_owned(),
        "a:_b.c-d".to_owned(),
        "a:b:c".to_owned(),
        format!("a:{}", "b".repeat(128)),
        format!("a:{}", "b".repeat(129)),
        format!("r.example.org/{}", "a".repeat(240)),
        format!("r.example.org/{}", "a".repeat(260)),
        "a@".to_owned(),
        "a@b".to_owned(),
        "a@sha256:abc".to_owned(),
        format!("a@{}", digest("sha256", "a", 64)),
        format!("a@{}", digest("sha256", "A", 64)),
        format!("a@{}", digest("sha256", "g", 64)),
        format!("a@{}", digest("sha256", "a", 63)),
        format!("a:v1@{}", digest("sha384", "a", 96)),
        format!("a:v1@{}", digest("sha512", "0", 128)),
        format!("a@{}", digest("sha1", "a", 40)),
        format!("a@{0}@{0}", digest("sha256", "a", 64)),
        "f".repeat(64),
        format!("a.b/{}", "f".repeat(64)),
        format!("{}:v1", "f".repeat(64)),
        "f".repeat(63),
        " a".to_owned(),
        "a b".to_owned(),
        "https://a/b".to_owned(),
        "ä".to_owned(),
    ];
    let opm = opm::program();
    let mut wrong = Vec::new();
    for name in names {
        let mut documents = plain();
        documents[2]["image"] = serde_json::json!(name);
        let folder = tempfile::tempdir().unwrap();
        catalogs::write(folder.path(), &documents);
        let findings = validate(folder.path()).unwrap();
        let ours = findings.into_iter().find(is_error);
        let theirs = refused_by_opm(&opm, folder.path());
        if ours.is_some() != theirs.is_some() {
            wrong.push(format!("{name:?}: {ours:?}; upstream: {theirs:?}"));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn a_finding_names_the_line_and_all_are_told_at_once() {
    let mut documents = plain();
    documents[1]["entries"][1]["skips"] = serde_json::json!([""]);
    documents[3]["image"] = serde_json::json!("a b");
    documents.push(catalogs::bundle("a", "1.3.0", &[]));
    let folder = tempfile::tempdir().unwrap();
    catalogs::write(folder.path(), &documents);
    let text = std::fs::read_to_string(folder.path().join("catalog.json")).unwrap();
    let line = |at: usize| text.lines().nth(at - 1).unwrap().trim().to_owned();
    let findings = validate(folder.path()).unwrap();
    let told: Vec<(&str, String)> = findings.iter().map(|it| (it.code, line(it.place.line))).collect();
    let expected = [
        ("skip-empty", r#""""#),
        ("image-reference", r#""image": "a b","#),
        ("bundle-without-entry", "{"),
    ];
    for (code, at) in expected {
        assert!(
            told.iter().any(|(found, line)| *found == code && line == at),
            "{code} at {at}: {told:?}"
        );
    }
}

/// The line of the finding that begins so. The document begins on the sixth line of its file, after a package.
fn line_told(document: &str, message: &str) -> usize {
    let folder = tempfile::tempdir().unwrap();
    let package = "---\nschema: olm.package\nname: a\ndefaultChannel: s\n";
    std::fs::write(folder.path().join("a.yaml"), format!("{package}---\n{document}")).unwrap();
    let findings = validate(folder.path()).unwrap();
    let found = findings
        .iter()
        .find(|finding| finding.message.starts_with(message));
    let found = found.unwrap_or_else(|| panic!("{message}: {findings:#?}"));
    found.place.line
}

/// By the way that leads to it, and not by the first that is called so.
#[rstest]
#[case::a_type(
    "- replaces: x\n  name: a\n  skips: b\n",
    "entries[0].skips: invalid type",
    12
)]
#[case::a_type_in_a_list(
    "- {name: a}\n- name: a\n  skips: [\n    1]\n",
    "entries[1].skips[0]: invalid type",
    13
)]
#[case::in_capitals("- Replaces: x\n  Name: 1\n", "entries[0].Name: invalid type", 11)]
#[case::no_text(
    "- replaces: x\n  name: a\n  skipRange: x\n",
    "channel s: skipRange of a is \"x\"",
    12
)]
#[case::a_name("- replaces: b\n  name: a\n- name: b\n", "channel s lists \"b\"", 12)]
fn a_finding_in_yaml_names_the_line_of_its_field(
    #[case] entries: &str,
    #[case] message: &str,
    #[case] line: usize,
) {
    let channel = format!("schema: olm.channel\nname: s\npackage: a\nentries:\n{entries}");
    assert_eq!(line_told(&channel, message), line, "{message}");
}

/// Types and images are named in more than one place.
#[rstest]
#[case::an_image(
    "relatedImages:\n- image: a b\nimage: a b\n",
    "bundle a.v1: image is \"a b\"",
    11
)]
#[case::a_related_image(
    "image: a b\nrelatedImages:\n- image: a b\n",
    "bundle a.v1: relatedImages[0].image",
    11
)]
#[case::a_version(
    "properties:\n- type: olm.package\n  value:\n    packageName: a\n    version: one\n",
    "bundle a.v1: its version is \"one\"",
    13
)]
#[case::another_package(
    "properties:\n- {type: olm.package, value: {version: 1.0.0,\n    packageName: b}}\n",
    "bundle a.v1: its property olm.package",
    11
)]
#[case::the_second(
    "properties:\n- {type: olm.gvk, value: {group: a, kind: A, version: v1}}\n- {type: olm.gvk}\n",
    "bundle a.v1: properties[1]",
    11
)]
fn a_finding_of_a_bundle_names_the_line_of_its_field(
    #[case] fields: &str,
    #[case] message: &str,
    #[case] line: usize,
) {
    let bundle = format!("schema: olm.bundle\nname: a.v1\npackage: a\n{fields}");
    assert_eq!(line_told(&bundle, message), line, "{message}");
}

/// What an upstream user gets by three commands.
#[test]
fn lists_tell_what_upstream_lists() {
    let folder = tempfile::tempdir().unwrap();
    catalogs::write(folder.path(), &catalogs::rich());
    let upstream = |what: &str| {
        let mut list = Command::new(opm::program());
        let output = list
            .args(["alpha", "list", what])
            .arg(folder.path())
            .output()
            .unwrap();
        let text = String::from_utf8(output.stdout).unwrap();
        let cells = |line: &str| line.split_whitespace().map(str::to_owned).collect();
        text.lines().skip(1).map(cells).collect::<Vec<Vec<String>>>()
    };
    let view = View::read(folder.path()).unwrap();
    let (mut heads, mut images) = (BTreeMap::new(), BTreeMap::new());
    for package in view.list() {
        for channel in package.channels {
            let head = channel.head.unwrap_or_default().to_owned();
            heads.insert((package.name.to_owned(), channel.name.to_owned()), head);
        }
        for bundle in package.bundles {
            for channel in bundle.channels {
                images.insert(
                    (bundle.name.to_owned(), channel.to_owned()),
                    bundle.image.to_owned(),
                );
            }
        }
    }
    // PACKAGE CHANNEL HEAD
    let theirs = upstream("channels")
        .into_iter()
        .map(|row| ((row[0].clone(), row[1].clone()), row[2].clone()));
    assert_eq!(heads, theirs.collect());
    // PACKAGE CHANNEL BUNDLE REPLACES SKIPS SKIP-RANGE IMAGE, some of them empty
    let theirs = upstream("bundles").into_iter().map(|row| {
        let image = row.last().filter(|last| last.contains('@')).cloned();
        ((row[2].clone(), row[1].clone()), image.unwrap_or_default())
    });
    assert_eq!(images, theirs.collect());
}
