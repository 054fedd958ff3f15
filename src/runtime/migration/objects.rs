//! The objects of a definition, of which nothing but their names is ever held.

use futures::StreamExt;
use futures::stream;
use kube::api::{DynamicObject, ListParams, Patch, PatchParams};
use kube::core::{ApiResource, GroupVersionKind, ObjectList, PartialObjectMeta};
use kube::{Api, Client};
use serde_json::json;

use super::Error;
use super::definition::Definition;
use crate::runtime::client::is_not_found;
use crate::runtime::key::ObjectKey;

/// Names of one page of a list.
const PAGE: u32 = 200;
/// So many objects are written at once. Each write may ask the operator's own webhooks.
const AT_ONCE: usize = 4;

/// The objects of a kind in one version.
pub(super) struct Objects {
    client: Client,
    resource: ApiResource,
    is_namespaced: bool,
}

/// So many that fail are no matter of single objects: the rest would fail as well, each after its time.
const MOST_LEFT: usize = 20;

/// What came of the objects of a list.
#[derive(Default)]
struct Touched {
    written: u64,
    left: usize,
    first: Option<(ObjectKey, kube::Error)>,
}

impl Objects {
    pub(super) fn of(definition: &Definition, version: &str, client: &Client) -> Self {
        let spec = &definition.spec;
        let kind = GroupVersionKind::gvk(&spec.group, version, &spec.names.kind);
        Self {
            client: client.clone(),
            resource: ApiResource::from_gvk_with_plural(&kind, &spec.names.plural),
            is_namespaced: spec.scope == "Namespaced",
        }
    }

    /// Has every object stored anew that is stored in another version, and says how many objects there are. A few that fail keep no other from it.
    ///
    /// # Errors
    /// When they cannot be listed, or not all be written.
    pub(super) async fn touch_all(&self) -> Result<u64, Error> {
        let mut touched = Touched::default();
        let mut at = ListParams::default().limit(PAGE);
        loop {
            let page = self.page(&at).await?;
            let next = page.metadata.continue_.filter(|token| !token.is_empty());
            let mut writes = stream::iter(page.items)
                .map(|object| self.touch(object))
                .buffer_unordered(AT_ONCE);
            while let Some(written) = writes.next().await {
                touched.note(written);
                if touched.left >= MOST_LEFT {
                    return touched.outcome();
                }
            }
            match next {
                Some(token) => at = at.continue_token(&token),
                None => return touched.outcome(),
            }
        }
    }

    async fn page(&self, at: &ListParams) -> Result<ObjectList<PartialObjectMeta<DynamicObject>>, Error> {
        let everywhere: Api<DynamicObject> = Api::all_with(self.client.clone(), &self.resource);
        let page = everywhere.list_metadata(at).await;
        page.map_err(Error::request(format!(
            "list {} in {}",
            self.resource.plural, self.resource.api_version
        )))
    }

    /// Whoever deleted the object meanwhile has left nothing to move.
    async fn touch(&self, object: PartialObjectMeta<DynamicObject>) -> Result<(), (ObjectKey, kube::Error)> {
        let key = ObjectKey::of(&object);
        let api: Api<DynamicObject> = match &key.namespace {
            Some(namespace) if self.is_namespaced => {
                Api::namespaced_with(self.client.clone(), namespace, &self.resource)
            }
            _ => Api::all_with(self.client.clone(), &self.resource),
        };
        let nothing = Patch::Merge(json!({}));
        match api
            .patch_metadata(&key.name, &PatchParams::default(), &nothing)
            .await
        {
            Err(error) if !is_not_found(&error) => Err((key, error)),
            _ => Ok(()),
        }
    }
}

impl Touched {
    fn note(&mut self, written: Result<(), (ObjectKey, kube::Error)>) {
        match written {
            Ok(()) => self.written += 1,
            Err(left) => {
                self.left += 1;
                self.first.get_or_insert(left);
            }
        }
    }

    fn outcome(self) -> Result<u64, Error> {
        match self.first {
            None => Ok(self.written),
            Some((first, source)) => Err(Error::Left {
                count: self.left,
                first,
                source: Box::new(source),
            }),
        }
    }
}
