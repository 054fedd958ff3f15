use super::*;
use rstest::rstest;
use serde::Deserialize;
use serde_json::json;

/// v1alpha1 and v1, of which this one is stored, if it is served, and this is said to be stored besides.
fn definition(stored: &str, served: bool, stored_versions: &[&str]) -> Definition {
    let version = |name: &str| json!({"name": name, "storage": name == stored, "served": name != stored || served, "schema": {}});
    Definition::deserialize(json!({
        "metadata": {"name": "things.test"},
        "spec": {
            "group": "test", "scope": "Namespaced",
            "names": {"kind": "Thing", "plural": "things"},
            "versions": [version("v1alpha1"), version("v1")],
        },
        "status": {"storedVersions": stored_versions},
    }))
    .unwrap()
}

#[rstest]
#[case::new("v1", true, &[], None)]
#[case::of_one_version("v1", true, &["v1"], None)]
#[case::after_an_upgrade("v1", true, &["v1alpha1", "v1"], Some(("v1", &["v1alpha1"][..])))]
#[case::after_going_back("v1alpha1", true, &["v1", "v1alpha1"], Some(("v1alpha1", &["v1"][..])))]
#[case::of_three("v1", true, &["v1alpha1", "v1beta1", "v1"], Some(("v1", &["v1alpha1", "v1beta1"][..])))]
#[case::closed("v1", false, &["v1alpha1", "v1"], None)]
fn what_is_stored_in_another_version_is_to_be_moved(
    #[case] stored: &str,
    #[case] served: bool,
    #[case] stored_versions: &[&str],
    #[case] expected: Option<(&str, &[&str])>,
) {
    let expected = expected.map(|(stored, others)| Outdated {
        stored: stored.to_owned(),
        others: others.iter().map(|&other| other.to_owned()).collect(),
    });
    assert_eq!(definition(stored, served, stored_versions).outdated(), expected);
}

#[test]
fn nothing_is_moved_before_every_api_server_knows_the_stored_version() {
    let migration = StorageMigration::default();
    let key = ObjectKey::cluster("things.test");
    let begin = Instant::now();
    let after = |stored: &str, seconds: u64| {
        let outdated = Outdated {
            stored: stored.to_owned(),
            others: Vec::new(),
        };
        let wait = migration.settles(&key, &outdated, begin + Duration::from_secs(seconds));
        wait.map(|wait| wait.as_secs())
    };
    let settles = SETTLES.as_secs();
    assert_eq!(after("v1", 0), Some(settles));
    assert_eq!(after("v1", 4), Some(settles - 4));
    assert_eq!(after("v1alpha1", 5), Some(settles), "it was turned around");
    assert_eq!(after("v1", 6), Some(settles), "and back");
    assert_eq!(after("v1", 6 + settles), None);
    migration.gone(&key);
    assert_eq!(after("v1", 7 + settles), Some(settles));
}

/// An API server with these objects, that refuses to write the one of this name, and what it was asked to write.
mod played {
    use std::convert::Infallible;
    use std::sync::Mutex;

    use bytes::Bytes;
    use http::{Method, Request, Response};
    use http_body_util::{BodyExt, Full};
    use kube::client::Body;
    use serde_json::Value;

    use super::*;
    use crate::runtime::client::{Clients, REQUEST_TIMEOUT};
    use crate::runtime::lease::Leadership;
    use crate::runtime::metrics::RuntimeMetrics;
    use crate::telemetry::metrics::Metrics;

    #[derive(Clone, Default)]
    pub(super) struct Played {
        pub(super) refused: Option<&'static str>,
        pub(super) strike: Option<u16>,
        pub(super) writes: Arc<Mutex<Vec<String>>>,
    }

    impl Played {
        pub(super) fn client(&self) -> kube::Client {
            let played = self.clone();
            let service = tower::service_fn(move |request: Request<Body>| {
                let played = played.clone();
                async move { Ok::<_, Infallible>(played.answer(request).await) }
            });
            let metrics = RuntimeMetrics::register(&Metrics::new());
            Clients::over(service, Leadership::unneeded(), REQUEST_TIMEOUT, &metrics).fenced
        }

        pub(super) fn written(&self) -> Vec<String> {
            let mut writes = self.writes.lock().unwrap().clone();
            writes.sort();
            writes
        }

        async fn answer(&self, request: Request<Body>) -> Response<Full<Bytes>> {
            let (parts, body) = request.into_parts();
            let path = parts.uri.path().to_owned();
            if parts.method == Method::GET && path.ends_with("/things") {
                let item = |name: &str| json!({"metadata": {"name": name, "namespace": "ns"}});
                return response(
                    200,
                    &json!({"metadata": {}, "items": [item("a"), item("b"), item("c")]}),
                );
            }
            if parts.method == Method::GET {
                let mut definition = json!(definition("v1", true, &["v1alpha1", "v1"]));
                definition["metadata"]["resourceVersion"] = json!("7");
                definition["status"]["conditions"] = json!([{"type": "Established", "status": "True"}]);
                return response(200, &definition);
            }
            let name = path.rsplit('/').next().unwrap_or_default().to_owned();
            if parts.method == Method::PUT {
                let body = body.collect().await.unwrap().to_bytes();
                let written: Value = serde_json::from_slice(&body).unwrap();
                let (version, status) = (&written["metadata"]["resourceVersion"], &written["status"]);
                self.note(format!("{version} {status}"));
                return response(self.strike.unwrap_or(200), &written);
            }
            let refused = self.refused == Some(name.as_str());
            self.note(name);
            response(if refused { 500 } else { 200 }, &json!({"metadata": {}}))
        }

        fn note(&self, write: String) {
            self.writes.lock().unwrap().push(write);
        }
    }

    fn response(code: u16, object: &Value) -> Response<Full<Bytes>> {
        let failure =
            json!({"kind": "Status", "status": "Failure", "code": code, "message": "no", "reason": "No"});
        let body = if code == 200 { object } else { &failure };
        let response = Response::builder().status(code);
        response.body(Full::new(Bytes::from(body.to_string()))).unwrap()
    }
}

use played::Played;

#[tokio::test]
async fn the_other_versions_are_struck_by_the_definition_as_it_was_before_and_the_rest_of_its_status_stays() {
    let played = Played::default();
    migrate("things.test", &played.client()).await.unwrap();
    let struck = r#""7" {"conditions":[{"status":"True","type":"Established"}],"storedVersions":["v1"]}"#;
    assert_eq!(played.written(), [struck, "a", "b", "c"]);
}

#[tokio::test]
async fn one_object_that_cannot_be_moved_keeps_the_versions_there_and_no_other_object_back() {
    let played = Played {
        refused: Some("b"),
        ..Played::default()
    };
    let error = migrate("things.test", &played.client()).await.unwrap_err();
    assert_eq!(played.written(), ["a", "b", "c"]);
    assert_eq!(error.retry(), Retry::BackOff);
    assert!(
        error
            .to_string()
            .starts_with("objects that could not be moved: 1, the first of them ns/b:"),
        "{error}"
    );
}

#[tokio::test]
async fn a_definition_that_somebody_wrote_meanwhile_has_it_begin_again() {
    let played = Played {
        strike: Some(409),
        ..Played::default()
    };
    let error = migrate("things.test", &played.client()).await.unwrap_err();
    assert_eq!(error.retry(), Retry::Again);
}
