//! The example that is not in Rust: its manifests and a few options are a bundle and a catalog in which nothing is wrong.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::path::Path;

use assert_cmd::Command;

const README: &str = include_str!("../examples/hello/README.md");

fn roadstead(arguments: &[&str]) -> Command {
    let mut command = Command::cargo_bin("roadstead").unwrap();
    let example = Path::new(env!("CARGO_MANIFEST_DIR")).join("examples/hello");
    command.current_dir(example).args(arguments);
    command
}

/// The arguments of the README's own command.
fn documented(command: &str) -> Vec<String> {
    let text = README.split_once(&format!("roadstead {command} ")).unwrap().1;
    let (mut arguments, mut quoted) = (vec![String::new()], false);
    for letter in text.replace("\\\n", " ").chars() {
        match letter {
            '\'' => quoted = !quoted,
            '\n' if !quoted => break,
            ' ' if !quoted => arguments.push(String::new()),
            _ => arguments.last_mut().unwrap().push(letter),
        }
    }
    arguments.retain(|argument| !argument.is_empty());
    let command = command.split(' ').map(str::to_owned);
    let arguments = arguments
        .iter()
        .map(|it| it.replace("$REGISTRY", "registry.example.org/me"));
    command.chain(arguments).collect()
}

#[test]
fn what_the_readme_says_makes_a_package_in_which_nothing_is_wrong() {
    let scratch = tempfile::tempdir().unwrap();
    let path = |name: &str| scratch.path().join(name).display().to_string();
    let (bundle, catalog) = (path("bundle"), path("catalog"));
    let generate = documented("bundle generate");
    let elsewhere = ["--output", &bundle, "--catalog", &catalog].map(str::to_owned);
    let generate = [&generate[..], &elsewhere].concat();
    let generate: Vec<&str> = generate.iter().map(String::as_str).collect();
    roadstead(&generate).assert().success();
    roadstead(&["bundle", "validate", "--strict", &bundle])
        .assert()
        .success();
    let add = [
        "catalog",
        "add",
        &bundle,
        "--channel",
        "stable",
        "--catalog",
        &catalog,
    ];
    roadstead(&add).assert().success();
    roadstead(&["catalog", "validate", "--strict", &catalog])
        .assert()
        .success();

    // The same from one stream, to the byte
    let (streamed, mut all) = (path("streamed"), String::new());
    for file in ["crd", "operator", "sample"] {
        let file = format!(
            "{}/examples/hello/manifests/{file}.yaml",
            env!("CARGO_MANIFEST_DIR")
        );
        all += &format!("---\n{}", std::fs::read_to_string(file).unwrap());
    }
    let generate: Vec<&str> = generate
        .iter()
        .map(|it| {
            if *it == "manifests" {
                "-"
            } else if *it == bundle {
                &streamed
            } else {
                *it
            }
        })
        .collect();
    roadstead(&generate).write_stdin(all).assert().success();
    let csv = |folder: &str| {
        std::fs::read_to_string(format!("{folder}/manifests/hello.clusterserviceversion.yaml")).unwrap()
    };
    assert_eq!(csv(&bundle), csv(&streamed));
    assert!(csv(&bundle).contains("image: registry.example.org/me/hello:v1.0.0"));
}

#[test]
fn without_a_base_a_name_or_a_manifest_it_is_told_what_is_missing() {
    roadstead(&["bundle", "generate", "--input", "manifests", "--version", "1.0.0"])
        .assert()
        .failure()
        .stderr("roadstead: the manifests hold no ClusterServiceVersion as the base that gives description, icon and the like; add one, or give --package and the options that say it\n");
    let unversioned =
        roadstead(&["bundle", "generate", "--input", "manifests", "--package", "hello"]).assert();
    let said = String::from_utf8_lossy(&unversioned.failure().get_output().stderr).into_owned();
    assert!(said.contains("give --version"), "{said}");
    roadstead(&[
        "bundle",
        "generate",
        "--input",
        "-",
        "--package",
        "hello",
        "--version",
        "1.0.0",
    ])
    .write_stdin("a: 1\n")
    .assert()
    .failure()
    .stderr("roadstead: standard input: holds no Kubernetes manifest (*.yaml, *.yml or *.json)\n");
}
