//! From v1alpha1 to v1 and back. What v1alpha1 cannot say, [`crate::api::conversion`] keeps.

use super::{v1, v1alpha1};
use crate::api::conversion::{TwoVersions, Versions, Ways};

/// Both versions.
pub fn versions() -> impl Versions {
    let spec = Ways {
        on: to_v1,
        back: to_v1alpha1,
    };
    let status = Ways {
        on: status_to_v1,
        back: status_to_v1alpha1,
    };
    TwoVersions::new::<v1alpha1::MyProxy, v1::MyProxy>(spec, status)
}

/// What v1alpha1 asks for, in v1.
pub fn to_v1(spec: &v1alpha1::MyProxySpec) -> v1::MyProxySpec {
    let v1alpha1::MyProxySpec {
        name,
        replicas,
        image,
        upstreams,
        routes,
        tls_secret,
        resources,
    } = spec.clone();
    v1::MyProxySpec {
        deployment_name: name,
        replicas,
        image,
        upstreams,
        routes,
        tls: tls_secret.map(|secret_name| v1::Tls { secret_name }),
        resources,
        paused: false,
    }
}

/// What v1 asks for, as far as v1alpha1 can say it.
pub fn to_v1alpha1(spec: &v1::MyProxySpec) -> v1alpha1::MyProxySpec {
    let v1::MyProxySpec {
        deployment_name,
        replicas,
        image,
        upstreams,
        routes,
        tls,
        resources,
        paused: _,
    } = spec.clone();
    v1alpha1::MyProxySpec {
        name: deployment_name,
        replicas,
        image,
        upstreams,
        routes,
        tls_secret: tls.map(|tls| tls.secret_name),
        resources,
    }
}

/// A status of v1alpha1 in v1.
pub fn status_to_v1(status: &v1alpha1::MyProxyStatus) -> v1::MyProxyStatus {
    let v1alpha1::MyProxyStatus {
        pod_names,
        phase,
        conditions,
        observed_generation,
        replicas,
        ready_replicas,
        selector,
    } = status.clone();
    v1::MyProxyStatus {
        pod_names,
        phase,
        conditions,
        observed_generation,
        replicas,
        ready_replicas,
        selector,
    }
}

/// A status of v1 in v1alpha1.
pub fn status_to_v1alpha1(status: &v1::MyProxyStatus) -> v1alpha1::MyProxyStatus {
    let v1::MyProxyStatus {
        pod_names,
        phase,
        conditions,
        observed_generation,
        replicas,
        ready_replicas,
        selector,
    } = status.clone();
    v1alpha1::MyProxyStatus {
        pod_names,
        phase,
        conditions,
        observed_generation,
        replicas,
        ready_replicas,
        selector,
    }
}
