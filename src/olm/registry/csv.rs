//! A ClusterServiceVersion from what a catalog says of it: what a console shows before anything is installed.

use std::collections::BTreeMap;

use serde::Serialize;
use serde_json::{Value, json};

use crate::olm::fbc::blob::{Icon, RelatedImage, Text};
use crate::olm::fbc::metadata::{
    ApiService, Crd, Definitions, InstallMode, Link, Maintainer, Metadata, NativeApi,
};
use crate::olm::json;

/// The package that it belongs to, as far as it shows.
pub(super) struct OfPackage<'a> {
    pub(super) icon: Option<&'a Icon<'a>>,
    pub(super) description: &'a str,
}

/// Makes the text. Its fields come in upstream's order, since it is compared as text.
pub(super) fn of(
    name: &str,
    version: &str,
    metadata: &Metadata<'_>,
    related: &[RelatedImage<'_>],
    package: &OfPackage<'_>,
) -> Result<String, serde_json::Error> {
    let description = if metadata.description.is_empty() {
        package.description
    } else {
        &metadata.description
    };
    let icon = package.icon.map(|icon| {
        [Shown {
            base64data: &icon.base64data,
            mediatype: &icon.mediatype,
        }]
    });
    json::for_pages(&ClusterServiceVersion {
        kind: "ClusterServiceVersion",
        api_version: "operators.coreos.com/v1alpha1",
        metadata: Meta {
            name,
            labels: &metadata.labels,
            annotations: &metadata.annotations,
        },
        spec: Spec {
            // Without a strategy OLM's packageserver would panic
            install: Install {
                strategy: "deployment",
                spec: Strategy { deployments: None },
            },
            version,
            maturity: &metadata.maturity,
            customresourcedefinitions: &metadata.crd_descriptions,
            apiservicedefinitions: &metadata.api_service_definitions,
            native_apis: &metadata.native_apis,
            min_kube_version: &metadata.min_kube_version,
            display_name: &metadata.display_name,
            description,
            keywords: &metadata.keywords,
            maintainers: &metadata.maintainers,
            provider: &metadata.provider,
            links: &metadata.links,
            icon: icon.as_ref().map(|icon| &icon[..]).unwrap_or_default(),
            install_modes: &metadata.install_modes,
            cleanup: Cleanup { enabled: false },
            related_images: related,
        },
        status: json!({"cleanup": {}}),
    })
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct ClusterServiceVersion<'a> {
    kind: &'static str,
    api_version: &'static str,
    metadata: Meta<'a>,
    spec: Spec<'a>,
    status: Value,
}

#[derive(Serialize)]
struct Meta<'a> {
    name: &'a str,
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    labels: &'a BTreeMap<Text<'a>, Text<'a>>,
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    annotations: &'a BTreeMap<Text<'a>, Text<'a>>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Spec<'a> {
    install: Install,
    version: &'a str,
    #[serde(skip_serializing_if = "str::is_empty")]
    maturity: &'a str,
    customresourcedefinitions: &'a Definitions<Crd<'a>>,
    apiservicedefinitions: &'a Definitions<ApiService<'a>>,
    #[serde(rename = "nativeAPIs", skip_serializing_if = "<[_]>::is_empty")]
    native_apis: &'a [NativeApi<'a>],
    #[serde(skip_serializing_if = "str::is_empty")]
    min_kube_version: &'a str,
    display_name: &'a str,
    #[serde(skip_serializing_if = "str::is_empty")]
    description: &'a str,
    #[serde(skip_serializing_if = "<[_]>::is_empty")]
    keywords: &'a [Text<'a>],
    #[serde(skip_serializing_if = "<[_]>::is_empty")]
    maintainers: &'a [Maintainer<'a>],
    provider: &'a Link<'a>,
    #[serde(skip_serializing_if = "<[_]>::is_empty")]
    links: &'a [Link<'a>],
    #[serde(skip_serializing_if = "<[_]>::is_empty")]
    icon: &'a [Shown<'a>],
    #[serde(skip_serializing_if = "<[_]>::is_empty")]
    install_modes: &'a [InstallMode<'a>],
    cleanup: Cleanup,
    #[serde(skip_serializing_if = "<[_]>::is_empty")]
    related_images: &'a [RelatedImage<'a>],
}

#[derive(Serialize)]
struct Install {
    strategy: &'static str,
    spec: Strategy,
}

#[derive(Serialize)]
struct Strategy {
    deployments: Option<()>,
}

#[derive(Serialize)]
struct Shown<'a> {
    base64data: &'a str,
    mediatype: &'a str,
}

#[derive(Serialize)]
struct Cleanup {
    enabled: bool,
}
