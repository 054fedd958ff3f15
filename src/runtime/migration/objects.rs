//! The objects of a definition, a few at a time.

use futures::future::join_all;
use kube::api::{DynamicObject, GetParams, ListParams, PostParams};
use kube::core::{ApiResource, GroupVersionKind, ObjectList, PartialObjectMeta, Request};
use kube::{Api, Client, Resource};
use serde::de::IgnoredAny;

use super::Error;
use super::definition::Definition;
use crate::runtime::client::is_conflict;
use crate::runtime::key::ObjectKey;

/// Objects of one page of a list. Of each there is all its metadata in memory for a moment, so it is kept small.
const PAGE: u32 = 50;
/// So many objects are in memory, as text, and are written at once. Each write may ask the operator's own webhooks.
const AT_ONCE: usize = 4;
/// So many that fail are no matter of single objects: the rest would fail as well, each after its time.
const MOST_LEFT: usize = 20;

/// The objects of a kind in one version.
pub(super) struct Objects<'a> {
    definition: &'a Definition,
    client: &'a Client,
    resource: ApiResource,
}

/// What came of the objects of a list.
#[derive(Default)]
struct Moved {
    looked_at: u64,
    left: usize,
    first: Option<(ObjectKey, kube::Error)>,
}

impl<'a> Objects<'a> {
    pub(super) fn of(definition: &'a Definition, version: &str, client: &'a Client) -> Self {
        let spec = &definition.spec;
        let kind = GroupVersionKind::gvk(&spec.group, version, &spec.names.kind);
        Self {
            definition,
            client,
            resource: ApiResource::from_gvk_with_plural(&kind, &spec.names.plural),
        }
    }

    /// Has every object stored anew that is stored in another version, and says how many objects there are. A few that fail keep no other from it.
    ///
    /// # Errors
    /// When they cannot be listed, not all be written, or the definition has changed.
    pub(super) async fn move_all(&self) -> Result<u64, Error> {
        let mut moved = Moved::default();
        let mut at = ListParams::default().limit(PAGE);
        loop {
            let (names, next) = self.page(&at).await?;
            for few in names.chunks(AT_ONCE) {
                self.move_few(few, &mut moved).await?;
                if moved.left >= MOST_LEFT {
                    return moved.outcome();
                }
            }
            match next {
                Some(token) => at = at.continue_token(&token),
                None => return moved.outcome(),
            }
        }
    }

    /// Names, and where the list goes on. Where it took too long, the server says how to go on from there as things are now, which will do: what is
    /// made meanwhile needs no moving.
    async fn page(&self, at: &ListParams) -> Result<(Vec<ObjectKey>, Option<String>), Error> {
        let everywhere: Api<DynamicObject> = Api::all_with(self.client.clone(), &self.resource);
        let page = match everywhere.list_metadata(at).await {
            Err(error) => match goes_on(&error) {
                Some(token) => return Ok((Vec::new(), Some(token))),
                None => Err(error),
            },
            page => page,
        };
        let page: ObjectList<PartialObjectMeta<DynamicObject>> = page.map_err(Error::request(format!(
            "list {} in {}",
            self.resource.plural, self.resource.api_version
        )))?;
        let next = page.metadata.continue_.filter(|token| !token.is_empty());
        Ok((page.items.iter().map(ObjectKey::of).collect(), next))
    }

    /// Reads these, makes sure that they were read by the definition, and writes them.
    async fn move_few(&self, few: &[ObjectKey], moved: &mut Moved) -> Result<(), Error> {
        let read = join_all(few.iter().map(|key| self.read(key))).await;
        self.definition.is_unchanged(self.client).await?;
        let written = join_all(few.iter().zip(read).map(|(key, read)| async move {
            let settled = match read {
                Ok(Some(object)) => self.write(key, object).await,
                Ok(None) => Ok(()),
                Err(error) => Err(error),
            };
            settled.map_err(|error| (key.clone(), error))
        }));
        for outcome in written.await {
            moved.note(outcome);
        }
        Ok(())
    }

    /// The object as text, as what is in it does not matter here; nothing if somebody has deleted it meanwhile.
    async fn read(&self, key: &ObjectKey) -> Result<Option<String>, kube::Error> {
        let request = self
            .request(key)
            .get(&key.name, &GetParams::default())
            .map_err(kube::Error::BuildRequest)?;
        match self.client.request_text(request).await {
            Err(error) if is_gone(&error, &key.name) => Ok(None),
            read => read.map(Some),
        }
    }

    /// Whoever has deleted the object meanwhile has left nothing to move, and whoever has written it has moved it.
    async fn write(&self, key: &ObjectKey, object: String) -> Result<(), kube::Error> {
        let request = self
            .request(key)
            .replace(&key.name, &PostParams::default(), object.into_bytes())
            .map_err(kube::Error::BuildRequest)?;
        match self.client.request::<IgnoredAny>(request).await {
            Err(error) if !is_gone(&error, &key.name) && !is_conflict(&error) => Err(error),
            _ => Ok(()),
        }
    }

    fn request(&self, key: &ObjectKey) -> Request {
        Request::new(DynamicObject::url_path(&self.resource, key.namespace.as_deref()))
    }
}

impl Moved {
    fn note(&mut self, outcome: Result<(), (ObjectKey, kube::Error)>) {
        self.looked_at += 1;
        if let Err(left) = outcome {
            self.left += 1;
            self.first.get_or_insert(left);
        }
    }

    fn outcome(self) -> Result<u64, Error> {
        match self.first {
            None => Ok(self.looked_at),
            Some((first, source)) => Err(Error::Left {
                count: self.left,
                first,
                source: Box::new(source),
            }),
        }
    }
}

/// How a list that was forgotten can be continued.
fn goes_on(error: &kube::Error) -> Option<String> {
    match error {
        kube::Error::Api(status) if status.code == 410 => status
            .metadata
            .as_ref()?
            .continue_
            .clone()
            .filter(|token| !token.is_empty()),
        _ => None,
    }
}

/// Whether there is no such object. An API server that does not serve the version says 404 as well, and names nothing.
fn is_gone(error: &kube::Error, name: &str) -> bool {
    match error {
        kube::Error::Api(status) if status.code == 404 => status
            .details
            .as_ref()
            .is_some_and(|details| details.name == name),
        _ => false,
    }
}
