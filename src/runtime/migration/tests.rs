use super::*;
use played::Played;
use rstest::rstest;
use serde::Deserialize;
use serde_json::{Value, json};

/// v1alpha1 and v1, of which this one is stored, if it is served, and this is said to be stored besides. A webhook converts.
fn definition(stored: &str, served: bool, stored_versions: &[&str]) -> Definition {
    let version = |name: &str| json!({"name": name, "storage": name == stored, "served": name != stored || served, "schema": {}});
    Definition::deserialize(json!({
        "metadata": {"name": "things.test", "uid": "u", "generation": 3},
        "spec": {
            "group": "test",
            "names": {"kind": "Thing", "plural": "things"},
            "versions": [version("v1alpha1"), version("v1")],
            "conversion": {"strategy": "Webhook"},
        },
        "status": {"storedVersions": stored_versions},
    }))
    .unwrap()
}

fn changed(definition: &Definition, change: &Value) -> Definition {
    let mut changed = json!(definition);
    json_patch::merge(&mut changed, change);
    Definition::deserialize(changed).unwrap()
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
    let found = definition(stored, served, stored_versions).outdated(Conversion::Webhook);
    assert_eq!(found, expected);
}

/// What the versions say differently would be dropped.
#[test]
fn nothing_is_moved_while_nobody_converts_unless_nobody_needs_to() {
    let definition = definition("v1", true, &["v1alpha1", "v1"]);
    for taken_away in [json!(null), json!({"strategy": "None"})] {
        let unconverted = changed(&definition, &json!({"spec": {"conversion": taken_away}}));
        assert_eq!(unconverted.outdated(Conversion::Webhook), None);
        assert!(unconverted.outdated(Conversion::Unneeded).is_some());
    }
}

#[tokio::test]
async fn nothing_is_moved_before_every_api_server_knows_the_definition() {
    let migration = StorageMigration::new(MigrationOptions::new(Conversion::Webhook));
    let upgradeable = Upgradeable::new(None);
    let first = definition("v1", true, &["v1alpha1", "v1"]);
    let begin = Instant::now();
    let after = |generation: i64, seconds: u64| {
        let definition = changed(&first, &json!({"metadata": {"generation": generation}}));
        let outdated = definition.outdated(Conversion::Webhook).unwrap();
        let now = begin + Duration::from_secs(seconds);
        migration
            .settle(&definition, &outdated, &upgradeable, now)
            .0
            .as_secs()
    };
    let settles = 10;
    assert_eq!(after(3, 0), settles);
    assert_eq!(after(3, 4), settles - 4);
    assert_eq!(after(4, 5), settles, "somebody wrote it");
    assert_eq!(after(4, 5 + settles), 0);
    migration.gone(&ObjectKey::cluster("things.test"));
    assert_eq!(after(4, 6 + settles), settles);
}

#[tokio::test]
async fn updates_are_held_back_over_all_attempts_and_no_longer() {
    let migration = StorageMigration::new(MigrationOptions::new(Conversion::Webhook));
    let upgradeable = Upgradeable::new(None);
    let definition = definition("v1", true, &["v1alpha1", "v1"]);
    let outdated = definition.outdated(Conversion::Webhook).unwrap();
    let settle = || {
        migration
            .settle(&definition, &outdated, &upgradeable, Instant::now())
            .1
    };
    let (first, second) = (settle(), settle());
    assert!(Arc::ptr_eq(&first, &second));
    assert_eq!(Arc::strong_count(&first), 3);
    migration.gone(&ObjectKey::cluster("things.test"));
    assert_eq!(Arc::strong_count(&first), 2, "it is let go of");
}

/// An API server with three objects, and what it was asked to write.
mod played {
    use std::convert::Infallible;
    use std::sync::Mutex;

    use bytes::Bytes;
    use http::{Method, Request, Response};
    use http_body_util::{BodyExt, Full};
    use kube::client::Body;

    use super::*;
    use crate::runtime::client::{Clients, REQUEST_TIMEOUT};
    use crate::runtime::lease::Leadership;
    use crate::runtime::metrics::RuntimeMetrics;
    use crate::telemetry::metrics::Metrics;

    #[derive(Clone, Default)]
    pub(super) struct Played {
        /// What is said of the writes to the object of this name.
        pub(super) refused: Option<(&'static str, u16)>,
        /// What is said of the write to the definition.
        pub(super) strike: Option<u16>,
        /// After so many looks at the definition it is another.
        pub(super) changes_after: Option<usize>,
        /// Whether the first list has been forgotten when it is to be continued.
        pub(super) forgets: bool,
        looks: Arc<Mutex<usize>>,
        writes: Arc<Mutex<Vec<String>>>,
    }

    impl Played {
        pub(super) fn refusing(name: &'static str, code: u16) -> Self {
            Self {
                refused: Some((name, code)),
                ..Self::default()
            }
        }

        pub(super) fn changing_after(looks: usize) -> Self {
            Self {
                changes_after: Some(looks),
                ..Self::default()
            }
        }

        pub(super) fn striking(code: u16) -> Self {
            Self {
                strike: Some(code),
                ..Self::default()
            }
        }

        pub(super) fn forgetful() -> Self {
            Self {
                forgets: true,
                ..Self::default()
            }
        }

        /// Moves its objects, as by the definition that has settled.
        pub(super) async fn migrate(&self) -> Result<(), Error> {
            let definition = definition("v1", true, &["v1alpha1", "v1"]);
            let outdated = definition.outdated(Conversion::Webhook).unwrap();
            migrate(&definition, &outdated, &self.client()).await
        }

        fn client(&self) -> Client {
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
            let (path, query) = (parts.uri.path(), parts.uri.query().unwrap_or_default());
            let name = path.rsplit('/').next().unwrap_or_default();
            match parts.method {
                Method::GET if name == "things" => self.list(query),
                Method::GET if name == "things.test" => response(200, &self.definition()),
                Method::GET if name == "c" => response(404, &json!({"details": {"name": "c"}})),
                Method::GET => response(200, &json!({"metadata": {"name": name}, "of": path})),
                _ => {
                    let body = body.collect().await.unwrap().to_bytes();
                    self.write(path, name, &serde_json::from_slice(&body).unwrap())
                }
            }
        }

        /// Two pages.
        fn list(&self, query: &str) -> Response<Full<Bytes>> {
            let page = |names: &[&str], next: &str| {
                let items = names
                    .iter()
                    .map(|name| json!({"metadata": {"name": name, "namespace": "ns"}}));
                response(
                    200,
                    &json!({"metadata": {"continue": next}, "items": items.collect::<Vec<_>>()}),
                )
            };
            if query.contains("continue=late") || (query.contains("continue=on") && !self.forgets) {
                return page(&["b", "c"], "");
            }
            if query.contains("continue=on") {
                return response(410, &json!({"metadata": {"continue": "late"}}));
            }
            page(&["a"], "on")
        }

        fn definition(&self) -> Value {
            let mut looks = self.looks.lock().unwrap();
            *looks += 1;
            let mut definition = json!(definition("v1", true, &["v1alpha1", "v1"]));
            definition["status"]["conditions"] = json!([{"type": "Established", "status": "True"}]);
            if self.changes_after.is_some_and(|after| *looks > after) {
                definition["metadata"]["generation"] = json!(4);
            }
            definition
        }

        fn write(&self, path: &str, name: &str, object: &Value) -> Response<Full<Bytes>> {
            if name == "status" {
                self.note(object["status"].to_string());
                return response(self.strike.unwrap_or(200), object);
            }
            assert_eq!(object["of"], path, "it is written as it was read");
            self.note(name.to_owned());
            let refused = self.refused.filter(|(refused, _)| *refused == name);
            response(refused.map_or(200, |(_, code)| code), object)
        }

        fn note(&self, write: String) {
            self.writes.lock().unwrap().push(write);
        }
    }

    /// A failure says besides what is in `body`.
    fn response(code: u16, body: &Value) -> Response<Full<Bytes>> {
        let mut answer = body.clone();
        if code != 200 {
            answer =
                json!({"kind": "Status", "status": "Failure", "code": code, "message": "no", "reason": "No"});
            for field in ["metadata", "details"] {
                if body[field]["continue"].is_string() || field == "details" {
                    answer[field] = body[field].clone();
                }
            }
        }
        let response = Response::builder().status(code);
        response.body(Full::new(Bytes::from(answer.to_string()))).unwrap()
    }
}

/// Of the three, somebody deletes the last one before it is read.
const STRUCK: &str = r#"{"conditions":[{"status":"True","type":"Established"}],"storedVersions":["v1"]}"#;

#[rstest]
#[case::in_time(Played::default())]
#[case::forgotten(Played::forgetful())]
#[case::written_by_somebody_meanwhile(Played::refusing("b", 409))]
#[tokio::test]
async fn every_object_is_written_back_as_it_was_read_and_then_the_other_versions_are_struck(
    #[case] played: Played,
) {
    played.migrate().await.unwrap();
    assert_eq!(played.written(), ["a", "b", STRUCK]);
}

/// What is wrong with the object itself stays so for long; a webhook does not answer while its pods start again, and that passes in seconds.
#[rstest]
#[case::refused_by_a_webhook(403, Retry::After(LEFT))]
#[case::invalid(422, Retry::After(LEFT))]
#[case::no_webhook_answers(500, Retry::BackOff)]
#[case::not_served_yet(404, Retry::BackOff)]
#[case::too_many_requests(429, Retry::BackOff)]
#[tokio::test]
async fn one_object_that_cannot_be_moved_keeps_the_versions_there_and_no_other_object_back(
    #[case] code: u16,
    #[case] again: Retry,
) {
    let played = Played::refusing("a", code);
    let error = played.migrate().await.unwrap_err();
    assert_eq!(played.written(), ["a", "b"]);
    assert_eq!(error.retry(), again);
    assert!(
        error
            .to_string()
            .starts_with("objects that could not be moved: 1, the first of them ns/a:"),
        "{error}"
    );
}

/// An API server that does not serve the version says 404 as well.
#[tokio::test]
async fn what_nobody_says_is_gone_is_not_taken_for_moved() {
    let played = Played::refusing("a", 404);
    assert!(matches!(
        played.migrate().await,
        Err(Error::Left { count: 1, .. })
    ));
}

/// What was read may have been read while nobody converted.
#[rstest]
#[case::before_the_first(0, &[])]
#[case::between_two_pages(1, &["a"])]
#[case::at_last(2, &["a", "b"])]
#[tokio::test]
async fn nothing_is_written_once_the_definition_has_changed(#[case] looks: usize, #[case] written: &[&str]) {
    let played = Played::changing_after(looks);
    let error = played.migrate().await.unwrap_err();
    assert!(matches!(error, Error::Changed(_)), "{error}");
    assert_eq!(error.retry(), Retry::Again);
    assert_eq!(played.written(), written);
}

#[tokio::test]
async fn a_status_that_somebody_wrote_meanwhile_has_it_begin_again() {
    let error = Played::striking(409).migrate().await.unwrap_err();
    assert_eq!(error.retry(), Retry::Again);
}
