//! Configurations that nginx refuses. What the API accepts is rendered so that nginx accepts it too, except where
//! the content of a Secret decides, so a broken certificate it is.

use std::sync::Arc;
use std::time::Duration;

use serde_json::json;

use crate::objects::{DEPLOYMENT, MY_PROXY};
use crate::olm;
use crate::outcome::{Outcome, ensure};
use crate::proxy::{Proxy, SERVING};
use crate::wait::{Seen, throughout, until};
use crate::world::World;

const BROKEN: &str = "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n";

/// A Secret of type kubernetes.io/tls.
async fn tls_secret(proxy: &Proxy<'_>, name: &str, certificate: &str, key: &str) -> Outcome {
    let secret = json!({
        "apiVersion": "v1", "kind": "Secret", "type": "kubernetes.io/tls", "metadata": {"name": name},
        "stringData": {"tls.crt": certificate, "tls.key": key},
    });
    proxy.world.apply(&proxy.namespace, secret).await.map(drop)
}

/// A Secret with a certificate that nginx takes.
async fn good_secret(proxy: &Proxy<'_>, name: &str) -> Outcome {
    let folder = &proxy.world.settings.scratch;
    let (key, certificate) = (folder.join("e2e.key"), folder.join("e2e.crt"));
    let (key, certificate) = (key.display().to_string(), certificate.display().to_string());
    let kind = [
        "req",
        "-x509",
        "-newkey",
        "ec",
        "-pkeyopt",
        "ec_paramgen_curve:prime256v1",
        "-nodes",
        "-days",
        "2",
    ];
    let rest = ["-subj", "/CN=edge", "-keyout", &key, "-out", &certificate];
    proxy
        .world
        .run("openssl", &[&kind[..], &rest[..]].concat())
        .await?;
    tls_secret(
        proxy,
        name,
        &std::fs::read_to_string(certificate)?,
        &std::fs::read_to_string(key)?,
    )
    .await
}

pub async fn a_refused_configuration_keeps_the_last_good_one_serving_and_names_the_reason(
    world: Arc<World>,
) -> Outcome {
    olm::installed(&world, "0.3.0").await?;
    let proxy = Proxy::serving(&world, "config").await?;
    tls_secret(&proxy, "broken", BROKEN, "no key").await?;
    good_secret(&proxy, "good").await?;
    let pods = proxy.pods().await?;

    proxy.patch(json!({"tls": {"secretName": "broken"}})).await?;
    let (reason, message) = proxy.condition("ConfigValid", "False").await?;
    ensure!(
        message.contains("cannot load certificate"),
        "ConfigValid ({reason}) lacks nginx's own message: {message}"
    );
    proxy.serves().await?;
    ensure!(
        proxy.pods().await?.keys().eq(pods.keys()),
        "a refused configuration replaced pods"
    );
    let warned = proxy
        .events()
        .await?
        .into_iter()
        .any(|(kind, _, note)| kind == "Warning" && note.contains("cannot load certificate"));
    ensure!(
        warned,
        "no Warning carries nginx's message: {:?}",
        proxy.events().await?
    );
    let described = world
        .kubectl(&format!("-n {} describe myproxy {}", proxy.namespace, proxy.name))
        .await?;
    ensure!(
        described.contains("cannot load certificate"),
        "kubectl describe does not show nginx's message:\n{described}"
    );

    proxy.patch(json!({"tls": {"secretName": "good"}})).await?;
    proxy.condition("ConfigValid", "True").await?;
    proxy.ready().await?;
    proxy.serves().await?;
    until("HTTPS to be served", SERVING, || async {
        let (code, body) = proxy.request_tls("/").await?;
        Ok(Seen::when(
            code == 200 && body.starts_with("hello from"),
            (),
            format!("{code} {body:?}"),
        ))
    })
    .await
}

pub async fn a_new_proxy_with_a_refused_configuration_starts_no_pod_until_it_is_mended(
    world: Arc<World>,
) -> Outcome {
    olm::installed(&world, "0.3.0").await?;
    let proxy = Proxy::prepare(&world, "refused").await?;
    tls_secret(&proxy, "broken", BROKEN, "no key").await?;
    proxy.apply(json!({"tls": {"secretName": "broken"}})).await?;
    proxy.condition("ConfigValid", "False").await?;
    throughout("no Deployment", Duration::from_secs(3), || async {
        let deployment = world.find(DEPLOYMENT, &proxy.namespace, proxy.name).await?;
        Ok(Seen::when(deployment.is_none(), (), "the Deployment is there"))
    })
    .await?;
    // The field goes, and with it the reason
    world
        .merge(
            MY_PROXY,
            &proxy.namespace,
            proxy.name,
            json!({"spec": {"tls": null}}),
        )
        .await?;
    proxy.comes_up().await
}

pub async fn what_the_api_refuses_never_reaches_the_operator(world: Arc<World>) -> Outcome {
    olm::installed(&world, "0.3.0").await?;
    let proxy = Proxy::prepare(&world, "refusals").await?;
    for (spec, wanted) in [
        (
            json!({"routes": [{"path": "/", "upstream": "absent"}]}),
            "route \"/\" names upstream \"absent\"; it must be the name of one of spec.upstreams, which are [\"hello\"]",
        ),
        (json!({"replicas": -1}), "spec.replicas"),
        (
            json!({"routes": [{"path": "/; return 200", "upstream": "hello"}]}),
            "spec.routes[0].path",
        ),
    ] {
        match proxy.apply(spec.clone()).await {
            Ok(_) => ensure!(false, "the API accepted {spec}"),
            Err(refusal) => {
                ensure!(
                    refusal.to_string().contains(wanted),
                    "the refusal of {spec} lacks {wanted:?}: {refusal}"
                );
            }
        }
    }
    Ok(())
}
