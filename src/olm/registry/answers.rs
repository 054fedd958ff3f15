//! The answers to each question, by the catalog of the moment.

use std::sync::Arc;

use futures::stream::{self, BoxStream, StreamExt as _};
use tokio::sync::watch;
use tokio::task::spawn_blocking;
use tonic::{Request, Response, Status};

use super::api::{self, experimental_registry_server::ExperimentalRegistry, registry_server::Registry};
use super::convert;
use super::index::{Channel, Found, Index, Package, Place};

/// Answers by whichever catalog is there when a question comes; one that is being answered is answered to its end by the same.
#[derive(Clone, Debug)]
pub struct Answers(watch::Receiver<Arc<Index>>);

type Stream<T> = BoxStream<'static, Result<T, Status>>;
type Streamed<T> = Result<Response<Stream<T>>, Status>;

/// Whoever asks for what may change has to say that he knows.
const ACKNOWLEDGED: &str = "x-acknowledge-experimental";

impl Answers {
    /// By what was sent last.
    pub fn of(index: watch::Receiver<Arc<Index>>) -> Self {
        Self(index)
    }

    fn index(&self) -> Arc<Index> {
        Arc::clone(&self.0.borrow())
    }
}

/// As upstream has it: what is not there is an error of no known kind.
fn unknown(message: String) -> Status {
    Status::unknown(message)
}

fn package<'a>(index: &'a Index, name: &str) -> Result<&'a Package, Status> {
    index
        .packages
        .get(name)
        .ok_or_else(|| unknown(format!("package {name:?} not found")))
}

fn channel<'a>(index: &'a Index, of: &str, name: &str) -> Result<&'a Channel, Status> {
    let channel = package(index, of)?.channels.get(name);
    channel.ok_or_else(|| unknown(format!("package {of:?}, channel {name:?} not found")))
}

fn place(index: &Index, of: &str, within: &str, name: &str) -> Result<Place, Status> {
    channel(index, of, within)?;
    index.place(of, within, name).ok_or_else(|| {
        unknown(format!(
            "package {of:?}, channel {within:?}, bundle {name:?} not found"
        ))
    })
}

fn found(index: &Index, place: Place) -> Result<Found<'_>, Status> {
    let gone = || Status::internal("the catalog has no such bundle");
    index.found(place).ok_or_else(gone)
}

/// All of a bundle, as it is asked for alone: then it says nothing of whom it replaces.
async fn whole(index: Arc<Index>, place: Place) -> Result<Response<api::Bundle>, Status> {
    let mut bundle = with_large(index, place).await?;
    bundle.replaces.clear();
    bundle.skips.clear();
    Ok(Response::new(bundle))
}

/// All of a bundle.
async fn with_large(index: Arc<Index>, place: Place) -> Result<api::Bundle, Status> {
    let read = spawn_blocking(move || {
        let found = found(&index, place)?;
        let mut bundle = index.told(found);
        let large = index.large(found);
        let large = large.map_err(|error| Status::unavailable(error.to_string()))?;
        (bundle.csv_json, bundle.object) = (large.csv_json, large.objects);
        Ok(bundle)
    });
    read.await.map_err(|error| Status::internal(error.to_string()))?
}

fn all<T: Send + 'static>(items: Vec<T>) -> Response<Stream<T>> {
    Response::new(stream::iter(items.into_iter().map(Ok)).boxed())
}

fn told(found: Found<'_>, replaces: &str) -> api::ChannelEntry {
    api::ChannelEntry {
        package_name: found.package.to_owned(),
        channel_name: found.channel.to_owned(),
        bundle_name: found.name.to_owned(),
        replaces: replaces.to_owned(),
    }
}

/// An entry for what a bundle replaces, and one for each that it skips.
fn entries(found: Found<'_>, counts: impl Fn(&str) -> bool) -> Vec<api::ChannelEntry> {
    let replaces = &*found.entry.replaces;
    let mut entries = vec![told(found, replaces)];
    let skips = found.entry.skips().iter();
    let skips = skips.filter(|skip| *skip != replaces && counts(skip));
    entries.extend(skips.map(|skip| told(found, skip)));
    entries
}

fn none_provides(group: &str, version: &str, kind: &str) -> Status {
    unknown(format!(
        "no channel entries found that provide group:{group:?} version:{version:?} kind:{kind:?}"
    ))
}

/// The heads of channels that bring a kind.
fn latest(index: &Index, group: &str, version: &str, kind: &str) -> Result<Vec<api::ChannelEntry>, Status> {
    let mut found = Vec::new();
    for (of, package) in index.packages.iter() {
        for (within, channel) in package.channels.iter() {
            let head = index.place(of, within, &channel.head);
            let Some(head) = head.and_then(|head| index.found(head)) else {
                continue;
            };
            if index.provides(head.entry, group, version, kind) {
                found.extend(entries(head, |skip| channel.entries.contains(skip)));
            }
        }
    }
    if found.is_empty() {
        Err(none_provides(group, version, kind))
    } else {
        Ok(found)
    }
}

#[tonic::async_trait]
impl Registry for Answers {
    type ListPackagesStream = Stream<api::PackageName>;
    type GetChannelEntriesThatReplaceStream = Stream<api::ChannelEntry>;
    type GetChannelEntriesThatProvideStream = Stream<api::ChannelEntry>;
    type GetLatestChannelEntriesThatProvideStream = Stream<api::ChannelEntry>;
    type ListBundlesStream = Stream<api::Bundle>;

    async fn list_packages(&self, _: Request<api::ListPackageRequest>) -> Streamed<api::PackageName> {
        let index = self.index();
        let names = index.packages.iter().map(|(name, _)| api::PackageName {
            name: name.to_owned(),
        });
        Ok(all(names.collect()))
    }

    async fn get_package(
        &self,
        request: Request<api::GetPackageRequest>,
    ) -> Result<Response<api::Package>, Status> {
        let (index, name) = (self.index(), request.into_inner().name);
        let package = package(&index, &name)?;
        let deprecation =
            |message: &Option<String>| message.clone().map(|message| api::Deprecation { message });
        let channels = package.channels.iter().map(|(name, channel)| api::Channel {
            name: name.to_owned(),
            csv_name: channel.head.clone(),
            deprecation: deprecation(&channel.deprecation),
        });
        Ok(Response::new(api::Package {
            channels: channels.collect(),
            default_channel_name: package.default_channel.clone(),
            deprecation: deprecation(&package.deprecation),
            name,
        }))
    }

    async fn get_bundle(
        &self,
        request: Request<api::GetBundleRequest>,
    ) -> Result<Response<api::Bundle>, Status> {
        let api::GetBundleRequest {
            pkg_name,
            channel_name,
            csv_name,
        } = request.into_inner();
        let index = self.index();
        let place = place(&index, &pkg_name, &channel_name, &csv_name)?;
        whole(index, place).await
    }

    async fn get_bundle_for_channel(
        &self,
        request: Request<api::GetBundleInChannelRequest>,
    ) -> Result<Response<api::Bundle>, Status> {
        let api::GetBundleInChannelRequest {
            pkg_name,
            channel_name,
        } = request.into_inner();
        let index = self.index();
        let head = &channel(&index, &pkg_name, &channel_name)?.head;
        let place = place(&index, &pkg_name, &channel_name, head)?;
        whole(index, place).await
    }

    async fn get_channel_entries_that_replace(
        &self,
        request: Request<api::GetAllReplacementsRequest>,
    ) -> Streamed<api::ChannelEntry> {
        let (index, name) = (self.index(), request.into_inner().csv_name);
        let replaces =
            |found: &Found<'_>| *found.entry.replaces == *name || found.entry.skips().contains(&name);
        let bundles = index.places().filter_map(|place| index.found(place));
        let found: Vec<_> = bundles
            .filter(replaces)
            .map(|found| told(found, &found.entry.replaces))
            .collect();
        if found.is_empty() {
            return Err(unknown(format!("no channel entries found that replace {name}")));
        }
        Ok(all(found))
    }

    async fn get_bundle_that_replaces(
        &self,
        request: Request<api::GetReplacementRequest>,
    ) -> Result<Response<api::Bundle>, Status> {
        let api::GetReplacementRequest {
            csv_name,
            pkg_name,
            channel_name,
        } = request.into_inner();
        let index = self.index();
        if !index.packages.contains(&pkg_name) {
            return Err(unknown(format!("package {pkg_name} not found")));
        }
        let channel = channel(&index, &pkg_name, &channel_name)?;
        let found = channel
            .entries
            .iter()
            .find(|(_, entry)| *entry.replaces == *csv_name || entry.skips().contains(&csv_name));
        let none = || {
            unknown(format!(
                "no entry found for package {pkg_name:?}, channel {channel_name:?}"
            ))
        };
        let (name, _) = found.ok_or_else(none)?;
        let place = place(&index, &pkg_name, &channel_name, name)?;
        whole(index, place).await
    }

    async fn get_channel_entries_that_provide(
        &self,
        request: Request<api::GetAllProvidersRequest>,
    ) -> Streamed<api::ChannelEntry> {
        let api::GetAllProvidersRequest {
            group, version, kind, ..
        } = request.into_inner();
        let index = self.index();
        let provides = |found: &Found<'_>| index.provides(found.entry, &group, &version, &kind);
        let is_it = |place: &Place| index.found(*place).as_ref().is_some_and(provides);
        let places: Vec<Place> = index.places().filter(is_it).collect();
        if places.is_empty() {
            return Err(none_provides(&group, &version, &kind));
        }
        // One after the other, since there may be as many as bundles
        let of_each = move |place| {
            let entries = index.found(place).map(|found| entries(found, |_| true));
            entries.unwrap_or_default()
        };
        Ok(Response::new(
            stream::iter(places.into_iter().flat_map(of_each).map(Ok)).boxed(),
        ))
    }

    async fn get_latest_channel_entries_that_provide(
        &self,
        request: Request<api::GetLatestProvidersRequest>,
    ) -> Streamed<api::ChannelEntry> {
        let api::GetLatestProvidersRequest {
            group, version, kind, ..
        } = request.into_inner();
        Ok(all(latest(&self.index(), &group, &version, &kind)?))
    }

    async fn get_default_bundle_that_provides(
        &self,
        request: Request<api::GetDefaultProviderRequest>,
    ) -> Result<Response<api::Bundle>, Status> {
        let api::GetDefaultProviderRequest {
            group, version, kind, ..
        } = request.into_inner();
        let index = self.index();
        let found = latest(&index, &group, &version, &kind)?;
        let is_default = |entry: &api::ChannelEntry| {
            let package = index.packages.get(&entry.package_name);
            package.is_some_and(|package| package.default_channel == entry.channel_name)
        };
        let none = || {
            unknown(format!(
                "no entry found that provides group:{group:?} version:{version:?} kind:{kind:?}"
            ))
        };
        let entry = found.into_iter().find(is_default).ok_or_else(none)?;
        let place = place(
            &index,
            &entry.package_name,
            &entry.channel_name,
            &entry.bundle_name,
        )?;
        whole(index, place).await
    }

    async fn list_bundles(&self, _: Request<api::ListBundlesRequest>) -> Streamed<api::Bundle> {
        let index = self.index();
        let places: Vec<Place> = index.places().collect();
        let bundles = stream::iter(places).then(move |place| {
            let index = Arc::clone(&index);
            async move {
                let bundle = index.told(found(&index, place)?);
                // What has an image is unpacked from there
                if bundle.bundle_path.is_empty() {
                    with_large(index, place).await
                } else {
                    Ok(bundle)
                }
            }
        });
        Ok(Response::new(bundles.boxed()))
    }
}

#[tonic::async_trait]
impl ExperimentalRegistry for Answers {
    type ExperimentalListPackageCustomSchemasStream = Stream<prost_types::Struct>;

    async fn experimental_list_package_custom_schemas(
        &self,
        request: Request<api::ExperimentalListPackageCustomSchemasRequest>,
    ) -> Streamed<prost_types::Struct> {
        let acknowledged = request
            .metadata()
            .get(ACKNOWLEDGED)
            .is_some_and(|value| value == "true");
        if !acknowledged {
            return Ok(all(Vec::new()));
        }
        let api::ExperimentalListPackageCustomSchemasRequest { schema, package_name } = request.into_inner();
        if schema.is_empty() {
            return Err(Status::invalid_argument("schema is required"));
        }
        let index = self.index();
        let places = index
            .others
            .get(&(schema, package_name))
            .cloned()
            .unwrap_or_default();
        let documents = stream::iter(places).then(move |at| {
            let index = Arc::clone(&index);
            async move {
                let read = spawn_blocking(move || index.json(at)).await;
                let json = read.map_err(|error| Status::internal(error.to_string()))?;
                let json = json.map_err(|error| Status::unavailable(error.to_string()))?;
                convert::structure(&json).map_err(|error| Status::unavailable(error.to_string()))
            }
        });
        Ok(Response::new(documents.boxed()))
    }
}
