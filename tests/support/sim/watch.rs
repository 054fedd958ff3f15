//! Watches: a cursor in the history, read as fast as its reader reads.

use std::collections::BTreeMap;
use std::future::pending;
use std::sync::Arc;
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
use super::store::{Change, Id, Store};

/// How often a watch that asked for bookmarks is told how far it has got: `defaultBookmarkFrequency` in the API server's
/// `storage/cacher/cacher.go`, which no test of the real one waits for.
const BOOKMARKS: Duration = Duration::from_secs(60);
/// How long before its end it is told so once more: `nextBookmarkTime` in `cache_watcher.go`. A shorter watch gets none.
const LAST_BOOKMARK: Duration = Duration::from_secs(2);

/// How the news of one watch travels.
#[derive(Clone, Copy, Debug, Default)]
pub struct Travel {
    /// How long each piece is under way.
    pub delay: Duration,
    /// How old news is when it is told.
    pub behind: Duration,
    /// Of several changes of one object that wait to be told, the last one alone is.
    pub coalesced: bool,
    /// Everything is told twice.
    pub twice: bool,
    /// After so many events the watch is told that it has lost its place (410).
    pub lost_after: Option<usize>,
    /// After so many events the connection ends without a word.
    pub cut_after: Option<usize>,
}

impl Travel {
    /// What is unusual about it, for people.
    pub fn words(&self) -> Vec<String> {
        let seconds = |what: &str, time: Duration| {
            (!time.is_zero()).then(|| format!("{what} {:.3} s late", time.as_secs_f64()))
        };
        let after =
            |what: &str, limit: Option<usize>| limit.map(|limit| format!("{what} after {limit} events"));
        let words = [
            seconds("each event", self.delay),
            seconds("all it tells", self.behind),
            self.coalesced
                .then(|| "of several changes of an object only the last".to_owned()),
            self.twice.then(|| "everything twice".to_owned()),
            after("410", self.lost_after),
            after("cut off", self.cut_after),
        ];
        words.into_iter().flatten().collect()
    }
}

/// One watch.
struct Watch {
    sim: Sim,
    kind: &'static Kind,
    namespace: Option<String>,
    selector: Selector,
    travel: Travel,
    /// The newest version when it began.
    began: u64,
    /// Up to which version it has been told.
    at: u64,
    told: usize,
    /// What the watch knew of the objects of which a change was left out.
    left_out: BTreeMap<Id, Option<Arc<Value>>>,
    /// What is told once more.
    again: Option<Value>,
    ends: Instant,
    /// `None` when there is none any more.
    next_bookmark: Option<Instant>,
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
    let ends = Instant::now() + Duration::from_secs(seconds);
    let bookmarks = request
        .query
        .get("allowWatchBookmarks")
        .is_some_and(|yes| yes == "true");
    let watch = Watch {
        sim: sim.clone(),
        kind: request.kind,
        namespace: request.namespace.clone(),
        selector: request.selector(),
        travel,
        began: sim.with(|store| store.version()),
        at,
        told: 0,
        left_out: BTreeMap::new(),
        again: None,
        ends,
        next_bookmark: next_bookmark(ends).filter(|_| bookmarks),
        over: false,
    };
    unfold(watch, |mut watch| async move {
        let line = watch.next().await?;
        Some((Bytes::from(format!("{line}\n")), watch))
    })
}

/// When a watch that ends then is told next how far it has got.
fn next_bookmark(ends: Instant) -> Option<Instant> {
    let (now, last) = (Instant::now(), ends.checked_sub(LAST_BOOKMARK)?);
    (last > now).then(|| last.min(now + BOOKMARKS))
}

impl Watch {
    /// The next line; none when the watch has ended, also if there would be more to tell.
    async fn next(&mut self) -> Option<Value> {
        let ends = self.ends;
        tokio::select! {
            biased;
            () = sleep_until(ends) => None,
            line = self.line() => line,
        }
    }

    async fn line(&mut self) -> Option<Value> {
        let mut news = self.sim.news();
        while !self.over {
            if let Some(event) = self.again.take() {
                return Some(event);
            }
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
                Ok(Some((happened, event))) => {
                    self.told += 1;
                    sleep(self.travel.delay).await;
                    sleep_until(happened + self.travel.behind).await;
                    self.again = self.travel.twice.then(|| event.clone());
                    return Some(event);
                }
                Ok(None) => {}
            }
            let due = self.next_bookmark;
            let bookmark = async move {
                match due {
                    Some(due) => sleep_until(due).await,
                    None => pending().await,
                }
            };
            tokio::select! {
                biased;
                () = bookmark => {
                    self.next_bookmark = next_bookmark(self.ends);
                    // A watch since whose beginning nothing happened knows how far it is (`processInterval` in `cache_watcher.go`).
                    if self.at > self.began {
                        return Some(self.bookmark());
                    }
                }
                _ = news.changed() => {}
            }
        }
        None
    }

    /// The next event and when it happened, if there is one; moves on.
    fn look(&mut self) -> Result<Option<(Instant, Value)>, Refusal> {
        let sim = self.sim.clone();
        sim.with(|store: &mut Store| {
            let news: Vec<&Change> = store.changes_after(self.kind, self.at)?.collect();
            for (place, change) in news.iter().enumerate() {
                self.at = change.version;
                if self.travel.coalesced && news[place + 1..].iter().any(|later| later.id == change.id) {
                    self.left_out
                        .entry(change.id.clone())
                        .or_insert_with(|| change.old.clone());
                    continue;
                }
                let known = self.left_out.remove(&change.id);
                let old = known.as_ref().unwrap_or(&change.old);
                if let Some(event) = self.event(change, old) {
                    return Ok(Some((change.at, event)));
                }
            }
            // All that there was has been looked at, whatever its kind.
            self.at = store.version();
            Ok(None)
        })
    }

    /// What a change looks like through the selector to somebody who knows `old`.
    fn event(&self, change: &Change, old: &Option<Arc<Value>>) -> Option<Value> {
        if self
            .namespace
            .as_ref()
            .is_some_and(|namespace| *namespace != change.id.namespace)
        {
            return None;
        }
        let seen =
            |object: &Option<Arc<Value>>| object.clone().filter(|object| self.selector.matches(object));
        let (type_, object) = match (seen(old), seen(&change.new)) {
            (None, None) => return None,
            (None, Some(new)) => ("ADDED", new),
            (Some(_), Some(new)) => ("MODIFIED", new),
            (Some(old), None) => ("DELETED", old),
        };
        let mut object = Value::clone(&object);
        object["metadata"]["resourceVersion"] = json!(change.version.to_string());
        let mut event = json!({"type": type_});
        event["object"] = object;
        Some(event)
    }

    fn bookmark(&self) -> Value {
        json!({"type": "BOOKMARK", "object": {
            "kind": self.kind.kind, "apiVersion": self.kind.api_version(),
            "metadata": {"resourceVersion": self.at.to_string(), "creationTimestamp": null},
        }})
    }
}
