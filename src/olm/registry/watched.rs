//! What is told of a server by numbers.

use std::sync::Arc;

use prometheus_client::encoding::{EncodeLabelSet, EncodeLabelValue};
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;

use super::Index;
use crate::telemetry::metrics::Metrics;

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Labels {
    method: Method,
}

/// The end of a path of gRPC, one of a few.
#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelValue)]
enum Method {
    ListPackages,
    GetPackage,
    GetBundle,
    GetBundleForChannel,
    GetChannelEntriesThatReplace,
    GetBundleThatReplaces,
    GetChannelEntriesThatProvide,
    GetLatestChannelEntriesThatProvide,
    GetDefaultBundleThatProvides,
    ListBundles,
    Check,
    Watch,
    Other,
}

/// Counters and gauges; clones share their values.
#[derive(Clone, Debug, Default)]
pub struct Watched {
    requests: Family<Labels, Counter>,
    packages: Gauge,
    channels: Gauge,
    bundles: Gauge,
    loads: Counter,
    refusals: Counter,
}

impl Watched {
    /// Tells them to whoever scrapes.
    pub fn register(metrics: &Metrics) -> Self {
        let watched = Self::default();
        let register = |name: &str, help: &str, gauge: &Gauge| {
            metrics.register(&format!("roadstead_catalog_{name}"), help, gauge.clone());
        };
        register(
            "packages",
            "How many packages the catalog has.",
            &watched.packages,
        );
        register(
            "channels",
            "How many channels its packages have.",
            &watched.channels,
        );
        register("bundles", "How many bundles they have.", &watched.bundles);
        let requests = watched.requests.clone();
        metrics.register(
            "roadstead_catalog_requests",
            "What the registry was asked.",
            requests,
        );
        let loads = watched.loads.clone();
        metrics.register(
            "roadstead_catalog_loads",
            "How often a catalog began to be served.",
            loads,
        );
        let refusals = watched.refusals.clone();
        let help = "How often the files changed to what cannot be served.";
        metrics.register("roadstead_catalog_refusals", help, refusals);
        watched
    }

    pub(super) fn asked(&self, path: &str) {
        let method = match path.rsplit('/').next().unwrap_or_default() {
            "ListPackages" => Method::ListPackages,
            "GetPackage" => Method::GetPackage,
            "GetBundle" => Method::GetBundle,
            "GetBundleForChannel" => Method::GetBundleForChannel,
            "GetChannelEntriesThatReplace" => Method::GetChannelEntriesThatReplace,
            "GetBundleThatReplaces" => Method::GetBundleThatReplaces,
            "GetChannelEntriesThatProvide" => Method::GetChannelEntriesThatProvide,
            "GetLatestChannelEntriesThatProvide" => Method::GetLatestChannelEntriesThatProvide,
            "GetDefaultBundleThatProvides" => Method::GetDefaultBundleThatProvides,
            "ListBundles" => Method::ListBundles,
            "Check" => Method::Check,
            "Watch" => Method::Watch,
            _ => Method::Other,
        };
        self.requests.get_or_create(&Labels { method }).inc();
    }

    pub(super) fn loaded(&self, index: &Arc<Index>) {
        let (packages, channels, bundles) = index.counts();
        let whole = |count: usize| i64::try_from(count).unwrap_or(i64::MAX);
        self.packages.set(whole(packages));
        self.channels.set(whole(channels));
        self.bundles.set(whole(bundles));
        self.loads.inc();
    }

    pub(super) fn refused(&self) {
        self.refusals.inc();
    }
}
