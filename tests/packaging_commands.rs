//! The commands, as `make` and the tests on a cluster call them: into folders of their own, with images of their own.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::path::Path;

use assert_cmd::Command;
use rstest::rstest;

fn roadstead(arguments: &[&str]) -> Command {
    let mut command = Command::cargo_bin("roadstead").unwrap();
    command.current_dir(env!("CARGO_MANIFEST_DIR")).args(arguments);
    command
}

fn read(path: &Path) -> String {
    std::fs::read_to_string(path).unwrap()
}

fn publish(scratch: &Path, version: &str, channels: &[&str]) {
    let folder = |name: &str| scratch.join(name).display().to_string();
    let (bundle, catalog) = (folder("bundle"), folder("catalog"));
    let image = format!("localhost:5000/roadstead-operator:v{version}");
    let arguments = [
        "bundle",
        "generate",
        "--version",
        version,
        "--image",
        &image,
        "--catalog",
        &catalog,
        "--output",
        &bundle,
    ];
    roadstead(&arguments).assert().success();
    let arguments = ["catalog", "generate", "--bundle", &bundle, "--output", &catalog];
    roadstead(&[&arguments[..], channels].concat()).assert().success();
}

#[test]
fn versions_are_published_one_by_one_into_a_scratch_folder() {
    let scratch = tempfile::tempdir().unwrap();
    publish(scratch.path(), "0.1.0", &[]);
    publish(scratch.path(), "0.1.1", &["--channels", "candidate"]);
    publish(scratch.path(), "0.2.0", &[]);
    publish(scratch.path(), "0.2.0", &[]);

    let csv = read(
        &scratch
            .path()
            .join("bundle/manifests/roadstead.clusterserviceversion.yaml"),
    );
    assert!(
        csv.contains("\n  replaces: roadstead.v0.1.0\n"),
        "the candidate is not what stable replaces"
    );
    assert!(csv.contains("image: localhost:5000/roadstead-operator:v0.2.0"));
    assert!(
        !csv.contains("registry.roadstead.dev/roadstead-operator"),
        "no trace of another image"
    );
    let catalog = read(&scratch.path().join("catalog/roadstead/catalog.yaml"));
    let stable = "---\nentries:\n- name: roadstead.v0.1.0\n- name: roadstead.v0.2.0\n  replaces: roadstead.v0.1.0\n  skips:\n  - roadstead.v0.1.1\nname: stable\n";
    assert!(catalog.contains(stable), "{catalog}");
    for image in ["0.1.0", "0.1.1", "0.2.0"] {
        assert_eq!(
            catalog
                .matches(&format!("\nimage: localhost:5000/roadstead-bundle:v{image}\n"))
                .count(),
            1,
            "{image}"
        );
    }
    assert!(read(&scratch.path().join("bundle.Dockerfile")).contains("COPY bundle/manifests /manifests/"));
    assert!(read(&scratch.path().join("catalog.Dockerfile")).contains("COPY catalog /configs"));
}

#[test]
fn a_file_says_what_is_deprecated_in_each_package_of_a_catalog() {
    let scratch = tempfile::tempdir().unwrap();
    let file = scratch.path().join("deprecations.yaml");
    let catalog = || read(&scratch.path().join("catalog/roadstead/catalog.yaml"));
    let add = |text: &str| {
        std::fs::write(&file, text).unwrap();
        let folder = |name: &str| scratch.path().join(name).display().to_string();
        let (bundle, output, deprecations) =
            (folder("bundle"), folder("catalog"), file.display().to_string());
        let arguments = [
            "catalog",
            "generate",
            "--bundle",
            &bundle,
            "--output",
            &output,
            "--deprecations",
            &deprecations,
        ];
        roadstead(&arguments).assert()
    };
    publish(scratch.path(), "0.1.0", &[]);
    let before = catalog();
    let document = "schema: olm.deprecations\npackage: roadstead\nentries:\n\
                    - {reference: {schema: olm.channel, name: candidate}, message: use stable}\n";
    let written = "---\nentries:\n- message: use stable\n  reference:\n    name: candidate\n    schema: olm.channel\n\
                   package: roadstead\nschema: olm.deprecations\n";
    add(document).success();
    assert_eq!(catalog(), format!("{before}{written}"));
    publish(scratch.path(), "0.1.0", &[]);
    assert_eq!(
        catalog(),
        format!("{before}{written}"),
        "without the file it stays"
    );

    let place = file.display().to_string();
    let stranger = document.replace("package: roadstead", "package: anchor");
    let output = scratch.path().join("catalog");
    add(&stranger).failure().stderr(format!(
        "roadstead: {place}: package is \"anchor\"; the catalog in {} has no such package\n",
        output.display()
    ));
    add(&document.replace("name: candidate", "name: fast")).failure().stderr(
        "roadstead: olm.deprecations: entries[0].reference.name is \"fast\"; the channels are candidate, stable, stable-v0.1\n",
    );
    add(&document.replace("olm.deprecations", "olm.deprecation"))
        .failure()
        .stderr(format!(
            "roadstead: {place}: schema is \"olm.deprecation\"; accepted is olm.deprecations\n"
        ));
    for (before, unknown, accepted) in [
        (
            "message:",
            "massage: x, message:",
            "massage\"; accepted are reference and message",
        ),
        (
            "{schema:",
            "{kind: x, schema:",
            "kind\"; accepted are schema and name",
        ),
    ] {
        add(&document.replace(before, unknown))
            .failure()
            .stderr(format!("roadstead: {place}: a field is \"{accepted}\n"));
    }
    assert_eq!(
        catalog(),
        format!("{before}{written}"),
        "a file that is refused changes nothing"
    );

    add("schema: olm.deprecations\npackage: roadstead\nentries: []\n").success();
    assert_eq!(catalog(), before);
}

#[test]
fn a_release_is_taken_back_and_another_deprecated() {
    let scratch = tempfile::tempdir().unwrap();
    for version in ["0.1.0", "0.1.1", "0.2.0"] {
        publish(scratch.path(), version, &[]);
    }
    let folder = scratch.path().join("catalog").display().to_string();
    let catalog = || read(&scratch.path().join("catalog/roadstead/catalog.yaml"));
    let command = |arguments: &[&str]| {
        let arguments = [&["catalog"], arguments, &["--catalog", &folder]].concat();
        roadstead(&arguments).assert()
    };
    let note = "note: channel stable-v0.1 ends with a version before roadstead.v0.1.1: whoever has that stays on it until a version is added that skips it (`roadstead catalog add ... --skips roadstead.v0.1.1`)\n";
    command(&["remove", "0.1.1"]).success().stderr(note);
    let stable = "- name: roadstead.v0.1.0\n- name: roadstead.v0.2.0\n  replaces: roadstead.v0.1.0\n  skips:\n  - roadstead.v0.1.1\nname: stable\n";
    assert!(catalog().contains(stable), "{}", catalog());
    let before = catalog();
    command(&["remove", "0.1.1"]).failure().stderr(
        "roadstead: catalog: package roadstead has no bundle 0.1.1; there are roadstead.v0.1.0, roadstead.v0.2.0\n",
    );

    command(&["deprecate", "--bundle", "0.1.0", "--message", "use 0.2.0"]).success();
    command(&["deprecate", "--channel", "stable-v0.1", "--message", "use stable"]).success();
    let said = "---\nentries:\n- message: use stable\n  reference:\n    name: stable-v0.1\n    schema: olm.channel\n\
                - message: use 0.2.0\n  reference:\n    name: roadstead.v0.1.0\n    schema: olm.bundle\npackage: roadstead\nschema: olm.deprecations\n";
    assert_eq!(catalog(), format!("{before}{said}"));
    command(&["deprecate", "--channel", "fast", "--message", "use stable"])
        .failure()
        .stderr("roadstead: catalog: package roadstead has no channel fast; there are candidate, stable, stable-v0.1, stable-v0.2\n");
    command(&["deprecate", "--channel", "stable-v0.1", "--undo"]).success();
    command(&["deprecate", "--bundle", "v0.1.0", "--undo"]).success();
    assert_eq!(catalog(), before);
    command(&["deprecate", "--undo"])
        .failure()
        .stderr("roadstead: --undo: it is not deprecated in package roadstead\n");
}

#[test]
fn check_names_the_files_that_differ_and_touches_none() {
    let root = tempfile::tempdir().unwrap();
    let folder = root.path().display().to_string();
    roadstead(&["generate", "--root", &folder]).assert().success();
    roadstead(&["generate", "--root", &folder, "--check"])
        .assert()
        .success()
        .stdout("");
    let role = root.path().join("config/rbac/role.yaml");
    std::fs::write(&role, "rules: everything").unwrap();
    std::fs::remove_file(root.path().join("config/olm/subscription.yaml")).unwrap();
    roadstead(&["generate", "--root", &folder, "--check"]).assert().failure().stderr(
        "roadstead: 2 of the generated files are out of date (config/olm/subscription.yaml is missing; config/rbac/role.yaml differs); \
         run `roadstead generate`\n",
    );
    assert_eq!(read(&role), "rules: everything");
}

/// As in `roadstead generate | head -n 1`.
#[test]
fn a_reader_that_leaves_early_costs_nothing() {
    let root = tempfile::tempdir().unwrap();
    let (reader, writer) = std::io::pipe().unwrap();
    drop(reader);
    let output = std::process::Command::new(env!("CARGO_BIN_EXE_roadstead"))
        .args(["generate", "--root", &root.path().display().to_string()])
        .stdout(writer)
        .output()
        .unwrap();
    assert_eq!(String::from_utf8(output.stderr).unwrap(), "");
    assert!(output.status.success());
    assert!(root.path().join("config/rbac/role.yaml").exists());
}

/// A repository just after the release of 0.1.0, with an entry for 0.2.0 in its changelog.
fn repository() -> tempfile::TempDir {
    let root = tempfile::tempdir().unwrap();
    let write = |name: &str, text: &str| {
        let path = root.path().join(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text).unwrap();
    };
    publish(root.path(), "0.1.0", &[]);
    write(
        "CHANGELOG.md",
        "# Changelog\n\n## [0.2.0] - 2026-12-01\n\n### Added\n\n- Things.\n\n## [0.1.0] - 2026-11-21\n\n- First.\n",
    );
    write(
        "Cargo.toml",
        "[package]\nname = \"roadstead\"\nversion = \"0.1.0\"\n\n[dependencies.kube]\nversion = \"5.0\"\n",
    );
    write(
        "Cargo.lock",
        "[[package]]\nname = \"road\"\nversion = \"0.1.0\"\n\n[[package]]\nname = \"roadstead\"\nversion = \"0.1.0\"\n",
    );
    root
}

fn change(root: &Path, file: &str, old: &str, new: &str) {
    let text = read(&root.join(file));
    assert!(text.contains(old), "{file} holds {old}");
    std::fs::write(root.join(file), text.replace(old, new)).unwrap();
}

#[test]
fn a_release_sets_the_version_everywhere_and_extends_every_channel() {
    let root = repository();
    let folder = root.path().display().to_string();
    roadstead(&["release", "0.2.0", "--root", &folder])
        .assert()
        .success();
    assert_eq!(
        read(&root.path().join("Cargo.toml"))
            .matches("version = \"0.2.0\"")
            .count(),
        1
    );
    assert!(
        read(&root.path().join("Cargo.toml")).contains("version = \"5.0\""),
        "a dependency keeps its version"
    );
    let lock = read(&root.path().join("Cargo.lock"));
    assert!(
        lock.contains("name = \"road\"\nversion = \"0.1.0\"")
            && lock.contains("name = \"roadstead\"\nversion = \"0.2.0\"")
    );
    assert!(read(&root.path().join("config/manager/deployment.yaml")).contains("roadstead-operator:v0.2.0"));
    let csv = read(
        &root
            .path()
            .join("bundle/manifests/roadstead.clusterserviceversion.yaml"),
    );
    assert!(csv.contains("  replaces: roadstead.v0.1.0\n") && csv.contains("  version: 0.2.0\n"));
    let catalog = read(&root.path().join("catalog/roadstead/catalog.yaml"));
    assert!(
        catalog.contains("image: localhost:5000/roadstead-bundle:v0.1.0"),
        "a released bundle stays as it was"
    );
    assert_eq!(
        catalog
            .matches("- name: roadstead.v0.2.0\n  replaces: roadstead.v0.1.0\n")
            .count(),
        3,
        "candidate, stable, stable-v0.2"
    );
}

/// The channel's entries as the catalog's file has them.
fn entries(root: &Path, channel: &str) -> String {
    let catalog = read(&root.join("catalog/roadstead/catalog.yaml"));
    let named = format!("\nname: {channel}\n");
    let mut blobs = catalog.split("---\nentries:\n");
    let blob = blobs
        .find_map(|blob| blob.split_once(&named))
        .map(|(entries, _)| entries);
    blob.unwrap_or_default().to_owned()
}

#[test]
fn a_release_candidate_is_a_candidate_only_and_the_release_takes_over_from_it() {
    let root = repository();
    let folder = root.path().display().to_string();
    change(
        root.path(),
        "CHANGELOG.md",
        "## [0.1.0]",
        "## [0.2.0-rc.1] - 2026-11-30\n\n- Things.\n\n## [0.1.0]",
    );
    roadstead(&["release", "0.2.0-rc.1", "--root", &folder])
        .assert()
        .success();
    let candidate = "- name: roadstead.v0.1.0\n- name: roadstead.v0.2.0-rc.1\n  replaces: roadstead.v0.1.0";
    assert_eq!(entries(root.path(), "candidate"), candidate);
    assert_eq!(entries(root.path(), "stable"), "- name: roadstead.v0.1.0");
    assert!(read(&root.path().join("catalog/roadstead/catalog.yaml")).contains("\ndefaultChannel: stable\n"));

    roadstead(&["release", "0.2.0", "--root", &folder])
        .assert()
        .success();
    let release = "\n- name: roadstead.v0.2.0\n  replaces: roadstead.v0.2.0-rc.1";
    assert_eq!(entries(root.path(), "candidate"), format!("{candidate}{release}"));
}

#[test]
fn a_release_enters_the_channels_that_are_asked_for_and_can_be_promoted() {
    let root = repository();
    let folder = root.path().display().to_string();
    roadstead(&["release", "0.2.0", "--root", &folder, "--channels", "candidate"])
        .assert()
        .success();
    assert_eq!(entries(root.path(), "stable"), "- name: roadstead.v0.1.0");
    let (bundle, catalog) = (root.path().join("bundle"), root.path().join("catalog"));
    roadstead(&["catalog", "generate", "--channels", "stable"])
        .args([
            "--bundle".as_ref(),
            bundle.as_os_str(),
            "--output".as_ref(),
            catalog.as_os_str(),
        ])
        .assert()
        .success();
    assert_eq!(
        entries(root.path(), "stable"),
        "- name: roadstead.v0.1.0\n- name: roadstead.v0.2.0\n  replaces: roadstead.v0.1.0"
    );
}

#[test]
fn a_fix_of_an_older_minor_version_enters_its_own_channel() {
    let root = repository();
    let folder = root.path().display().to_string();
    roadstead(&["release", "0.2.0", "--root", &folder])
        .assert()
        .success();
    change(
        root.path(),
        "CHANGELOG.md",
        "## [0.1.0]",
        "## [0.1.1] - 2026-12-02\n\n- A fix.\n\n## [0.1.0]",
    );
    roadstead(&["release", "0.1.1", "--root", &folder])
        .assert()
        .success();
    assert_eq!(
        entries(root.path(), "stable-v0.1"),
        "- name: roadstead.v0.1.0\n- name: roadstead.v0.1.1\n  replaces: roadstead.v0.1.0"
    );
    assert_eq!(
        entries(root.path(), "stable"),
        "- name: roadstead.v0.1.0\n- name: roadstead.v0.2.0\n  replaces: roadstead.v0.1.0\n  skips:\n  - roadstead.v0.1.1"
    );
    change(
        root.path(),
        "CHANGELOG.md",
        "## [0.1.0]",
        "## [0.1.2-rc.1] - 2026-12-03\n\n- A fix.\n\n## [0.1.0]",
    );
    roadstead(&["release", "0.1.2-rc.1", "--root", &folder]).assert().failure().stderr(
        "roadstead: every channel of 0.1.2-rc.1 holds a higher version already; name the channels that it shall end in with --channels\n",
    );
}

#[rstest]
#[case::the_same("0.1.0", "version 0.1.0 is not higher than 0.1.0, which is released already")]
#[case::a_lower("0.0.9", "version 0.0.9 is not higher than 0.1.0, which is released already")]
#[case::a_pre_release_of_it(
    "0.1.0-rc.1",
    "version 0.1.0-rc.1 is not higher than 0.1.0, which is released already"
)]
#[case::no_entry(
    "0.3.0",
    "CHANGELOG.md has no entry for 0.3.0; write one under a line such as `## [0.3.0] - 2026-01-31`"
)]
#[case::build_metadata(
    "0.2.0+1",
    "version 0.2.0+1 has build metadata, which takes no part in the order of versions and may not stand in an image tag"
)]
fn a_version_that_is_no_next_release_is_refused(#[case] version: &str, #[case] message: &str) {
    refused(&repository(), version, message);
}

#[rstest]
#[case::empty(
    "CHANGELOG.md",
    "- Things.\n",
    "",
    "CHANGELOG.md: the entry for 0.2.0 is empty; say what changed, and any step that users must take by hand"
)]
#[case::undated(
    "CHANGELOG.md",
    " - 2026-12-01",
    "",
    "CHANGELOG.md: the entry for 0.2.0 has no date; its first line must be like `## [0.2.0] - 2026-01-31`"
)]
#[case::impossible_date(
    "CHANGELOG.md",
    "2026-12-01",
    "2026-13-01",
    "CHANGELOG.md: the entry for 0.2.0 has no date; its first line must be like `## [0.2.0] - 2026-01-31`"
)]
#[case::dangling_entry(
    "catalog/roadstead/catalog.yaml",
    "- name: roadstead.v0.1.0\nname: stable\n",
    "- name: roadstead.v0.0.1\nname: stable\n",
    "catalog: channel stable lists roadstead.v0.0.1, but there is no such bundle"
)]
#[case::emptied_channel(
    "catalog/roadstead/catalog.yaml",
    "entries:\n- name: roadstead.v0.1.0\nname: stable\n",
    "entries: []\nname: stable\n",
    "catalog: channel stable has no entry"
)]
#[case::head_that_is_skipped(
    "catalog/roadstead/catalog.yaml",
    "- name: roadstead.v0.1.0\nname: stable\n",
    "- name: roadstead.v0.1.0\n  skips: [roadstead.v0.2.0]\nname: stable\n",
    "catalog: channel stable: it has no head: each entry is replaced or skipped; exactly one entry may be neither replaced nor skipped, and replaces leads down from it"
)]
#[case::no_version_to_set(
    "Cargo.toml",
    "version = ",
    "edition = ",
    "Cargo.toml: found no version of package roadstead to set"
)]
fn a_release_that_would_break_something_is_refused(
    #[case] file: &str,
    #[case] old: &str,
    #[case] new: &str,
    #[case] message: &str,
) {
    let root = repository();
    change(root.path(), file, old, new);
    refused(&root, "0.2.0", message);
}

/// A hand-written channel may end in a version that is not its highest, as after taking one back.
#[test]
fn a_release_that_would_not_become_the_head_of_a_channel_is_refused() {
    let root = repository();
    publish(root.path(), "0.0.9", &["--channels", "candidate"]);
    let file = "catalog/roadstead/catalog.yaml";
    let taken_back = "- name: roadstead.v0.0.9\n  replaces: roadstead.v0.1.0\n  skips: [roadstead.v0.2.0]\n- name: roadstead.v0.1.0\n";
    change(
        root.path(),
        file,
        "- name: roadstead.v0.0.9\n- name: roadstead.v0.1.0\n  replaces: roadstead.v0.0.9\n",
        taken_back,
    );
    let message = "channel candidate would still end in roadstead.v0.0.9, not in roadstead.v0.2.0: nobody in it would be upgraded";
    refused(&root, "0.2.0", message);
}

#[test]
fn a_catalog_that_holds_a_version_of_nobody_is_refused() {
    let root = repository();
    publish(root.path(), "0.2.0-dev", &[]);
    let message = "catalog/ holds 0.2.0-dev, which CHANGELOG.md does not describe: it was never released, so take it out, \
                   as with `git checkout catalog`";
    refused(&root, "0.2.0", message);
}

/// What the README says to type.
#[test]
fn the_images_of_another_registry_leave_what_is_checked_in_alone() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let checked_in = [
        "bundle.Dockerfile",
        "bundle/manifests/roadstead.clusterserviceversion.yaml",
        "catalog/roadstead/catalog.yaml",
    ];
    let before = checked_in.map(|file| read(&root.join(file)));
    let scratch = tempfile::tempdir().unwrap();
    let program = scratch.path().join("program");
    // As much of a static program for amd64 as is looked at
    let mut elf = [b"\x7fELF\x02\x01" as &[u8], &[0; 58]].concat();
    elf[18] = 62;
    std::fs::write(&program, elf).unwrap();
    let output = std::process::Command::new("make")
        .current_dir(root)
        .args([
            "bundle",
            "bundle-build",
            "catalog-build",
            "REGISTRY=registry.example.org/me",
            "CONTAINER_TOOL=false",
        ])
        .arg(format!("CATALOG_BINARY={}", program.display()))
        .arg(format!("ROADSTEAD={}", env!("CARGO_BIN_EXE_roadstead")))
        .env_remove("MAKEFLAGS")
        .output()
        .unwrap();
    let printed = String::from_utf8(output.stdout).unwrap();
    assert!(
        output.status.success(),
        "{printed}{}",
        String::from_utf8_lossy(&output.stderr)
    );
    for what in ["bundle", "catalog"] {
        assert!(
            printed.contains(&format!("registry.example.org/me/roadstead-{what}@sha256:")),
            "{printed}"
        );
        assert!(root.join(format!("dist/olm/{what}.tar")).is_file());
    }
    assert_eq!(checked_in.map(|file| read(&root.join(file))), before);
    assert!(
        read(&root.join("dist/olm").join(checked_in[1]))
            .contains("image: registry.example.org/me/roadstead-operator:v")
    );
    assert!(
        read(&root.join("dist/olm").join(checked_in[2]))
            .contains("\nimage: registry.example.org/me/roadstead-bundle:v")
    );
}

/// One line, and nothing is written.
fn refused(root: &tempfile::TempDir, version: &str, message: &str) {
    let before = read(&root.path().join("catalog/roadstead/catalog.yaml"));
    let folder = root.path().display().to_string();
    let output = roadstead(&["release", version, "--root", &folder])
        .assert()
        .failure()
        .get_output()
        .clone();
    let error = String::from_utf8(output.stderr).unwrap();
    assert_eq!(
        error.replace(&format!("{folder}/"), ""),
        format!("roadstead: {message}\n")
    );
    assert_eq!(read(&root.path().join("catalog/roadstead/catalog.yaml")), before);
    assert!(!root.path().join("config").exists());
}

#[test]
fn an_example_that_its_own_definition_refuses_is_told_and_makes_a_bundle_all_the_same() {
    let scratch = tempfile::tempdir().unwrap();
    let widgets = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/widgets");
    for file in ["base.yaml", "crd.yaml", "operator.yaml"] {
        std::fs::copy(widgets.join(file), scratch.path().join(file)).unwrap();
    }
    let sample = read(&widgets.join("sample.yaml")).replace("replicas: 1", "replicas: many");
    std::fs::write(scratch.path().join("sample.yaml"), sample).unwrap();
    let told =
        "note: ./sample.yaml: the example Widget first: spec.replicas is \"many\"; its schema says integer\n";
    // The second time, the bundle of the first lies among the manifests
    for _ in 0..2 {
        let generate = [
            "bundle",
            "generate",
            "--version",
            "1.0.0",
            "--input",
            ".",
            "--output",
            "bundle",
        ];
        let made = roadstead(&generate).current_dir(scratch.path()).assert();
        made.success().stderr(told);
    }
    assert!(scratch.path().join("bundle/manifests").is_dir());
}

/// What is in somebody else's manifests or bundle names no file elsewhere.
#[test]
fn nothing_is_written_outside_of_the_folder_that_is_named() {
    let scratch = tempfile::tempdir().unwrap();
    let work = scratch.path().join("a/b/c");
    let widgets = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/widgets");
    std::fs::create_dir_all(&work).unwrap();
    let evil = "{apiVersion: v1, kind: ConfigMap, metadata: {name: ../../../evil}}";
    std::fs::write(work.join("evil.yaml"), evil).unwrap();
    let refused = |arguments: &[&str], told: &str| {
        let assert = roadstead(arguments).current_dir(&work).assert().failure();
        let error = String::from_utf8(assert.get_output().stderr.clone()).unwrap();
        assert!(error.contains(told), "{error}");
    };
    let widgets = widgets.display().to_string();
    let generate = ["bundle", "generate", "--version", "1.0.0", "--input", &widgets];
    refused(
        &[&generate[..], &["--input", "evil.yaml"]].concat(),
        "evil.yaml: ConfigMap ../../../evil: metadata.name is \"../../../evil\"; accepted are",
    );
    let package =
        "the package's name is \"x/../../q\"; accepted are at most 63 lowercase letters, digits and dashes";
    refused(&[&generate[..], &["--package", "x/../../q"]].concat(), package);
    assert_eq!(std::fs::read_dir(&work).unwrap().count(), 1);

    roadstead(&generate).current_dir(&work).assert().success();
    let annotations = work.join("bundle/metadata/annotations.yaml");
    let theirs = read(&annotations).replace("package.v1: widgets", "package.v1: ../../pwn");
    std::fs::write(&annotations, theirs).unwrap();
    let add = ["catalog", "add", "bundle", "--bundle-image", "example.org/a:1"];
    let annotation = "widgets.v1.0.0: the annotation operators.operatorframework.io.bundle.package.v1 is \"../../pwn\"; accepted are";
    refused(&add, annotation);
    refused(
        &["catalog", "remove", "1.0.0", "--package", "../bundle"],
        "the package's name is \"../bundle\"",
    );
    for folder in ["", "a", "a/b"] {
        assert_eq!(
            std::fs::read_dir(scratch.path().join(folder)).unwrap().count(),
            1,
            "{folder}"
        );
    }
    assert!(!work.join("catalog").exists());
}
