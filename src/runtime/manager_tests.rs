use super::*;
use std::convert::Infallible;
use std::future::pending;

use bytes::Bytes;
use http::{Request, Response};
use http_body_util::Full;
use k8s_openapi::api::core::v1::{ConfigMap, Secret};
use kube::client::Body;
use rstest::rstest;
use serde_json::json;
use tokio::time::sleep;

use crate::runtime::client::REQUEST_TIMEOUT;
use crate::runtime::lease::Leadership;

/// A manager of ConfigMaps and Secrets, at an API server that answers lists of Secrets with this failure.
fn manager(converts: &[&str], code: u16) -> Manager {
    let service = tower::service_fn(move |request: Request<Body>| async move {
        let (code, body) = if request.uri().path().ends_with("/secrets") {
            let message = "conversion webhook failed: no endpoints available for service";
            (
                code,
                json!({"kind": "Status", "status": "Failure", "code": code, "reason": "Reason", "message": message}),
            )
        } else if request
            .uri()
            .query()
            .is_some_and(|query| query.contains("watch=true"))
        {
            return pending().await;
        } else {
            (200, json!({"metadata": {"resourceVersion": "1"}, "items": []}))
        };
        let body = Full::new(Bytes::from(body.to_string()));
        Ok::<_, Infallible>(Response::builder().status(code).body(body).unwrap())
    });
    let metrics = Arc::new(Metrics::new());
    let runtime_metrics = RuntimeMetrics::register(&metrics);
    let clients = Clients::over(service, Leadership::unneeded(), REQUEST_TIMEOUT, &runtime_metrics);
    let options = ManagerOptions {
        converts: converts.iter().map(|&kind| kind.to_owned()).collect(),
        ..ManagerOptions::new("test", "one")
    };
    let mut manager = Manager::new(clients, options, metrics, runtime_metrics);
    manager.cache::<ConfigMap>(Watch::all());
    manager.cache::<Secret>(Watch::all());
    manager
}

/// Otherwise nobody would ever be led to the only process that can convert. But a process without the rights must not take the place of one that works.
#[rstest]
#[case::no_kind(&[], 500, false)]
#[case::another_kind(&["ConfigMap"], 500, false)]
#[case::itself(&["Secret"], 500, true)]
#[case::without_the_right(&["Secret"], 403, false)]
#[case::without_the_kind(&["Secret"], 404, false)]
#[tokio::test(start_paused = true)]
async fn a_process_is_ready_though_it_waits_for_objects_that_it_has_to_convert_itself(
    #[case] converts: &[&str],
    #[case] code: u16,
    #[case] expected: bool,
) {
    let manager = manager(converts, code);
    let health = manager.health();
    let running = tokio::spawn(manager.run(pending()));
    sleep(Duration::from_secs(1)).await;
    match health.ready() {
        Ok(()) => assert!(expected),
        Err(reason) => assert!(!expected && reason.contains("no endpoints"), "{reason}"),
    }
    running.abort();
}

#[tokio::test(start_paused = true)]
async fn work_waits_for_objects_that_the_process_has_to_convert_itself() {
    let ended = manager(&["Secret"], 500).run(pending()).await;
    assert!(
        matches!(&ended, Err(ManagerError::NotSynced { missing, .. }) if missing[0].starts_with("Secret: ")),
        "{ended:?}"
    );
}
