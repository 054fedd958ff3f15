use std::os::unix::fs::PermissionsExt as _;

use rstest::rstest;
use serde_json::{Value, json};

use super::*;

fn written(content: &Value) -> (tempfile::TempDir, Files) {
    let root = tempfile::tempdir().unwrap();
    let path = root.path().join("auth.json");
    std::fs::write(&path, content.to_string()).unwrap();
    let files = Files {
        named: Some(path),
        usual: Vec::new(),
    };
    (root, files)
}

async fn found(content: &Value, name: &str) -> Result<Option<Credentials>, String> {
    let (_root, files) = written(content);
    let name = Name::of("IMAGE", name).unwrap();
    files.of(&name).await.map_err(|error| error.to_string())
}

fn password(user: &str) -> Option<Credentials> {
    Some(Credentials::Password {
        user: user.to_owned(),
        password: Secret::new("p:w"),
    })
}

/// USER:p:w
fn auth(user: &str) -> Value {
    use base64::Engine as _;
    json!({"auth": base64::engine::general_purpose::STANDARD.encode(format!("{user}:p:w"))})
}

#[rstest]
#[case("r.example.com/a/b/c:v1", Some("deepest"))]
#[case("r.example.com/a/b:v1", Some("deep"))]
#[case("r.example.com/a/bc:v1", Some("of the host"))]
#[case("r.example.com:5000/a:v1", None)]
#[case("old.example.com/a:v1", Some("old"))]
#[case("docker.io/a:v1", Some("hub"))]
#[tokio::test]
async fn the_longest_path_that_is_known_counts(#[case] name: &str, #[case] user: Option<&str>) {
    let content = json!({"auths": {
        "r.example.com": auth("of the host"),
        "r.example.com/a/b": auth("deep"),
        "r.example.com/a/b/c": auth("deepest"),
        "https://old.example.com/v1/": auth("old"),
        "https://index.docker.io/v1/": auth("hub"),
    }});
    assert_eq!(found(&content, name).await, Ok(user.and_then(password)));
}

#[tokio::test]
async fn tokens_are_known_from_passwords() {
    let content = json!({"auths": {
        "a.example.com": {"identitytoken": "i", "auth": "PHRva2VuPjo="},
        "b.example.com": {"registrytoken": "r"},
    }});
    let of = async |name| found(&content, name).await.unwrap();
    assert_eq!(
        of("a.example.com/a:1").await,
        Some(Credentials::Identity(Secret::new("i")))
    );
    assert_eq!(
        of("b.example.com/a:1").await,
        Some(Credentials::Token(Secret::new("r")))
    );
}

#[tokio::test]
async fn nothing_of_a_secret_is_told_when_it_cannot_be_read_nor_printed_for_debugging() {
    let content = json!({"auths": {"r.example.com": {"auth": "geheim!"}}});
    let error = found(&content, "r.example.com/a:1").await.unwrap_err();
    assert!(error.contains("auths[\"r.example.com\"].auth") && !error.contains("geheim"));
    let broken = json!({"auths": "geheim"});
    let error = found(&broken, "r.example.com/a:1").await.unwrap_err();
    assert!(error.contains("line 1") && !error.contains("geheim"), "{error}");
    let printed = format!("{:?}", password("me"));
    assert!(printed.contains("[secret]") && !printed.contains("p:w"));
}

#[tokio::test]
async fn a_file_that_was_named_has_to_be_there_and_those_that_were_not_do_not() {
    let name = Name::of("IMAGE", "r.example.com/a:1").unwrap();
    let missing = PathBuf::from("/nonexistent/auth.json");
    let named = Files {
        named: Some(missing.clone()),
        usual: Vec::new(),
    };
    assert!(
        named
            .of(&name)
            .await
            .unwrap_err()
            .to_string()
            .contains("/nonexistent/auth.json")
    );
    let usual = Files {
        named: None,
        usual: vec![missing],
    };
    assert_eq!(usual.of(&name).await.unwrap(), None);
}

#[rstest]
#[case("../../bin/sh", "accepted are letters")]
#[case(
    "roadstead-has-no-such-helper",
    "cannot run `docker-credential-roadstead-has-no-such-helper get`"
)]
#[tokio::test]
async fn a_helper_that_is_none_is_named(#[case] helper: &str, #[case] why: &str) {
    let content = json!({"credHelpers": {"r.example.com": helper}});
    let error = found(&content, "r.example.com/a:1").await.unwrap_err();
    assert!(
        error.starts_with("credentials for r.example.com") && error.contains(why),
        "{error}"
    );
    let content = json!({"credsStore": helper});
    assert!(found(&content, "r.example.com/a:1").await.is_err());
    let content = json!({"credHelpers": {"s.example.com": helper}});
    assert_eq!(found(&content, "r.example.com/a:1").await, Ok(None));
}

#[rstest]
#[case(r#"echo '{"Username":"me","Secret":"p:w"}'"#, Ok(password("me")))]
#[case(
    r#"echo '{"Username":"<token>","Secret":"t"}'"#,
    Ok(Some(Credentials::Identity(Secret::new("t"))))
)]
#[case("echo 'credentials not found in native keychain'; exit 1", Ok(None))]
#[case("echo geheim; exit 1", Err("failed; try it by hand"))]
#[case("echo geheim", Err("answered no JSON"))]
#[tokio::test]
async fn what_a_helper_answers_is_taken_and_never_told(
    #[case] script: &str,
    #[case] expected: Result<Option<Credentials>, &str>,
) {
    let root = tempfile::tempdir().unwrap();
    let program = root.path().join("helper");
    std::fs::write(
        &program,
        format!("#!/bin/sh\n[ \"$1\" = get ] || exit 2\n{script}\n"),
    )
    .unwrap();
    std::fs::set_permissions(&program, std::fs::Permissions::from_mode(0o755)).unwrap();
    let answered = helper::ask(program.to_str().unwrap(), "r.example.com").await;
    match expected {
        Ok(expected) => assert_eq!(answered.unwrap(), expected),
        Err(why) => {
            let error = answered.unwrap_err().to_string();
            assert!(error.contains(why) && !error.contains("geheim"), "{error}");
        }
    }
}

#[rstest]
#[case::of_a_session(&[("XDG_RUNTIME_DIR", "/run/user/7"), ("HOME", "/h")], &["/run/user/7/containers/auth.json", "/h/.config/containers/auth.json", "/h/.docker/config.json"])]
#[case::elsewhere(
    &[("XDG_RUNTIME_DIR", ""), ("XDG_CONFIG_HOME", "/c"), ("DOCKER_CONFIG", "/d"), ("HOME", "/h")],
    &["/run/containers/7/auth.json", "/c/containers/auth.json", "/d/config.json"]
)]
#[case::nobody_at_home(&[], &["/run/containers/7/auth.json"])]
fn credentials_are_where_container_tools_keep_them(
    #[case] variables: &[(&str, &str)],
    #[case] files: &[&str],
) {
    let variable = |name: &str| {
        let mut variables = variables.iter();
        variables
            .find(|(known, _)| *known == name)
            .map(|(_, value)| value.into())
    };
    let expected: Vec<PathBuf> = files.iter().map(PathBuf::from).collect();
    assert_eq!(usual(variable, 7), expected);
}
