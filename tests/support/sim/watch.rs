//! Watches: a cursor in the history, read as fast as its reader reads.

use std::time::Duration;

use bytes::Bytes;
use futures::Stream;
use futures::stream::unfold;
use serde_json::{Value, json};
use tokio::time::{Instant, sleep, sleep_until};

use super::Sim;
use super::kinds::Kind;
use super::request::Request;
use super::selector::Selector;
use super::status::Refusal;
use super::store::{Change, Store};

/// How often a watch to which nothing happens is told how far it has got. A real API server does so about once a minute.
const BOOKMARKS: Duration = Duration::from_secs(60);

/// How the news of one watch travels.
#[derive(Clone, Copy, Debug, Default)]
pub struct Travel {
    /// How long each piece is under way.
    pub delay: Duration,
    /// After so many events the watch is told that it has lost its place (410).
    pub lost_after: Option<usize>,
    /// After so many events the connection ends without a word.
    pub cut_after: Option<usize>,
}

/// One watch.
struct Watch {
    sim: Sim,
    kind: &'static Kind,
    namespace: Option<String>,
    selector: Selector,
    bookmarks: bool,
    travel: Travel,
    /// Up to which version it has been told.
    at: u64,
    told: usize,
    ends: Instant,
    next_bookmark: Instant,
    over: bool,
}

/// The lines that a watch is answered with.
pub fn watch(sim: &Sim, request: &Request, travel: Travel) -> impl Stream<Item = Bytes> + Send + use<> {
    let number = |name: &str| request.query.get(name).and_then(|text| text.parse::<u64>().ok());
    let seconds = number("timeoutSeconds").unwrap_or(1800);
    let Some(at) = number("resourceVersion").filter(|version| *version > 0) else {
        panic!(
            "a watch without a version is not simulated: {}",
            request.summary()
        );
    };
    let watch = Watch {
        sim: sim.clone(),
        kind: request.kind,
        namespace: request.namespace.clone(),
        selector: request.selector(),
        bookmarks: request
            .query
            .get("allowWatchBookmarks")
            .is_some_and(|yes| yes == "true"),
        travel,
        at,
        told: 0,
        ends: Instant::now() + Duration::from_secs(seconds),
        next_bookmark: Instant::now() + BOOKMARKS,
        over: false,
    };
    unfold(watch, |mut watch| async move {
        let line = watch.next().await?;
        Some((Bytes::from(format!("{line}\n")), watch))
    })
}

impl Watch {
    async fn next(&mut self) -> Option<Value> {
        let mut news = self.sim.news();
        while !self.over {
            if self.travel.cut_after.is_some_and(|limit| self.told >= limit) {
                return None;
            }
            let found = if self.travel.lost_after.is_some_and(|limit| self.told >= limit) {
                Err(Refusal::expired())
            } else {
                self.look()
            };
            match found {
                Err(refusal) => {
                    self.over = true;
                    return Some(json!({"type": "ERROR", "object": refusal.status()}));
                }
                Ok(Some(event)) => {
                    self.told += 1;
                    sleep(self.travel.delay).await;
                    return Some(event);
                }
                Ok(None) => {}
            }
            tokio::select! {
                biased;
                () = sleep_until(self.ends) => return None,
                () = sleep_until(self.next_bookmark), if self.bookmarks => {
                    self.next_bookmark += BOOKMARKS;
                    return Some(self.bookmark());
                }
                _ = news.changed() => {}
            }
        }
        None
    }

    /// The next event, if there is one; moves on.
    fn look(&mut self) -> Result<Option<Value>, Refusal> {
        let sim = self.sim.clone();
        sim.with(|store: &mut Store| {
            let mut at = self.at;
            let mut found = None;
            for change in store.changes_after(self.kind, self.at)? {
                at = change.version;
                found = self.event(change);
                if found.is_some() {
                    break;
                }
            }
            self.at = at;
            Ok(found)
        })
    }

    /// What a change looks like through the selector.
    fn event(&self, change: &Change) -> Option<Value> {
        if self
            .namespace
            .as_ref()
            .is_some_and(|namespace| *namespace != change.id.namespace)
        {
            return None;
        }
        let seen = |object: &Option<Value>| object.clone().filter(|object| self.selector.matches(object));
        let (type_, mut object) = match (seen(&change.old), seen(&change.new)) {
            (None, None) => return None,
            (None, Some(new)) => ("ADDED", new),
            (Some(_), Some(new)) => ("MODIFIED", new),
            (Some(old), None) => ("DELETED", old),
        };
        object["metadata"]["resourceVersion"] = json!(change.version.to_string());
        Some(json!({"type": type_, "object": object}))
    }

    fn bookmark(&mut self) -> Value {
        self.at = self.at.max(self.sim.with(|store| store.version()));
        json!({"type": "BOOKMARK", "object": {
            "kind": self.kind.kind, "apiVersion": self.kind.api_version(),
            "metadata": {"resourceVersion": self.at.to_string(), "creationTimestamp": null},
        }})
    }
}
