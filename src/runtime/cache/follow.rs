//! Keeps a cache up to date.

use std::collections::BTreeSet;
use std::pin::pin;
use std::time::Duration;

use futures::future::{BoxFuture, join_all};
use futures::{Stream, StreamExt};
use kube::runtime::watcher::{self, Event, watcher};
use kube::{Api, Client};
use tokio::time::Instant;
use tracing::{debug, info, warn};

use super::guarded::Guarded;
use super::{Cache, Failure, Progress, Watch};
use crate::runtime::backoff::Backoff;
use crate::runtime::jitter::Jitter;
use crate::runtime::key::{Object, ObjectKey};

/// Objects of one page of a list. A page is in memory as text and as objects at once, so it is kept small.
const PAGE: u32 = 50;
/// After this time, in seconds, the server ends a watch and it is begun anew; a connection that died silently is noticed 5 s later.
const WATCH_SECONDS: u32 = 240;
/// client-go's wait after a watch or list that failed.
const RETRY: Backoff = Backoff {
    base: Duration::from_millis(800),
    max: Duration::from_secs(30),
};
/// A failure that lies this far back has nothing to do with the next one, even if the kind is so quiet that no event told of the success
/// between them; client-go's, too.
const RETRY_RESET: Duration = Duration::from_secs(120);

/// A cache of some kind, for the manager: it starts it and waits until it is filled.
pub(crate) trait Source: Send + Sync {
    /// Which kind, for people.
    fn kind(&self) -> String;
    /// Whether everything has been listed once.
    fn is_synced(&self) -> bool;
    /// Whether nothing is being listed anew.
    fn is_listed(&self) -> bool;
    /// Waits until everything has been listed once.
    fn synced(&self) -> BoxFuture<'static, ()>;
    /// Why the last list or watch failed, if nothing succeeded since.
    fn last_error(&self) -> Option<String>;
    /// Whether it failed since the API server refused it: for want of a right, or of the kind.
    fn is_refused(&self) -> bool;
    /// Lists and watches in `namespaces` (everywhere if there are none); never returns.
    fn follow(&self, client: Client, namespaces: Vec<String>, seed: &str) -> BoxFuture<'static, ()>;
}

/// A cache together with what it watches.
pub(crate) struct WatchedCache<K> {
    pub(crate) cache: Cache<K>,
    pub(crate) watch: Watch,
}

impl<K: Object> Source for WatchedCache<K> {
    fn kind(&self) -> String {
        K::kind(&()).into_owned()
    }

    fn is_synced(&self) -> bool {
        self.cache.shared.progress.borrow().filled
    }

    fn is_listed(&self) -> bool {
        self.cache.shared.progress.borrow().is_listed()
    }

    fn synced(&self) -> BoxFuture<'static, ()> {
        let cache = self.cache.clone();
        Box::pin(async move { cache.listed().await })
    }

    fn last_error(&self) -> Option<String> {
        self.cache.failure().as_ref().map(|failure| failure.error.clone())
    }

    fn is_refused(&self) -> bool {
        self.cache
            .failure()
            .as_ref()
            .is_some_and(|failure| failure.is_refusal)
    }

    fn follow(&self, client: Client, namespaces: Vec<String>, seed: &str) -> BoxFuture<'static, ()> {
        let scopes: Vec<Option<String>> = if namespaces.is_empty() || !K::is_namespaced() {
            vec![None]
        } else {
            namespaces.into_iter().map(Some).collect()
        };
        let progress = Progress {
            watches: scopes.len(),
            unsynced: scopes.len(),
            ..Progress::default()
        };
        self.cache.shared.progress.send_replace(progress);
        let watches = scopes.into_iter().map(|namespace| {
            let jitter = Jitter::named(&format!("{seed}/{}/{namespace:?}", K::kind(&())));
            let api = match &namespace {
                Some(namespace) => Api::all(client.clone()).constrain(namespace),
                None => Api::all(client.clone()),
            };
            let follower = Follower {
                cache: self.cache.clone(),
                namespace,
                jitter,
                listed: BTreeSet::new(),
                failures: 0,
                last_failure: None,
                round: 0,
                was_synced: false,
            };
            follower.run(api, self.watch.config())
        });
        let all = join_all(watches.collect::<Vec<_>>());
        Box::pin(async move {
            all.await;
        })
    }
}

impl Watch {
    fn config(&self) -> watcher::Config {
        watcher::Config {
            label_selector: self.labels.clone(),
            field_selector: self.fields.clone(),
            page_size: Some(PAGE),
            // What is listed is not older than the question, which `Cache::list_anew` relies on.
            list_semantic: watcher::ListSemantic::MostRecent,
            timeout: Some(WATCH_SECONDS),
            ..watcher::Config::default()
        }
    }
}

/// One watch of a cache: of one namespace, or of all.
struct Follower<K> {
    cache: Cache<K>,
    namespace: Option<String>,
    jitter: Jitter,
    /// What the list that is under way has mentioned so far.
    listed: BTreeSet<ObjectKey>,
    failures: u32,
    last_failure: Option<Instant>,
    /// Which round of [`Progress`] it is in, and whether it has listed everything in it.
    round: u64,
    was_synced: bool,
}

impl<K: Object> Follower<K> {
    /// Begins a new watch for each round: what the last one has still to tell is in the list with which the new one begins.
    async fn run(mut self, api: Api<Guarded<K>>, config: watcher::Config) {
        let mut progress = self.cache.shared.progress.subscribe();
        loop {
            let mut events = pin!(watcher(api.clone(), config.clone()));
            let known = self.round;
            tokio::select! {
                // Only a watch that has ended for good, which the manager has to hear of.
                () = self.follow(&mut events) => return,
                round = progress.wait_for(|progress| progress.round != known) => match round {
                    Ok(progress) => self.begin(progress.round),
                    // The cache is gone, and with it whoever would read it.
                    Err(_) => return,
                },
            }
        }
    }

    fn begin(&mut self, round: u64) {
        self.round = round;
        self.was_synced = false;
    }

    async fn follow(
        &mut self,
        events: &mut (impl Stream<Item = watcher::Result<Event<Guarded<K>>>> + Unpin),
    ) {
        while let Some(event) = events.next().await {
            match event {
                Ok(event) => self.handle(event),
                Err(error) => {
                    let wait = self.failed(&error);
                    tokio::time::sleep(wait).await;
                }
            }
        }
    }

    fn handle(&mut self, event: Event<Guarded<K>>) {
        match event {
            // A list begins; that it can be asked for says nothing of whether it will be answered.
            Event::Init => self.listed.clear(),
            // Put in at once rather than gathered: a second copy of everything would double the memory at every list.
            Event::InitApply(object) => {
                self.listed.insert(ObjectKey::of(&object));
                self.decoded(object, Cache::apply);
            }
            Event::InitDone => {
                let listed = std::mem::take(&mut self.listed);
                let lost = self
                    .cache
                    .write()
                    .retain_listed(self.namespace.as_deref(), &listed);
                self.cache.tell(lost);
                self.succeeded();
                self.note_synced(listed.len());
            }
            Event::Apply(object) => {
                self.succeeded();
                self.decoded(object, Cache::apply_newer);
            }
            Event::Delete(object) => {
                self.succeeded();
                self.cache.remove(&ObjectKey::of(&object));
            }
        }
    }

    fn decoded(&self, guarded: Guarded<K>, put: fn(&Cache<K>, K)) {
        let key = ObjectKey::of(&guarded);
        match guarded.object {
            Ok(object) => put(&self.cache, object),
            Err(error) => {
                warn!(kind = %K::kind(&()), object = %key, %error, "ignoring a malformed object");
                self.cache.remove(&key);
            }
        }
    }

    fn note_synced(&mut self, objects: usize) {
        if self.was_synced {
            debug!(kind = %K::kind(&()), objects, "listed again");
            return;
        }
        self.was_synced = true;
        let scope = self.namespace.as_deref().unwrap_or("all namespaces");
        match self.round {
            0 => info!(kind = %K::kind(&()), scope, objects, "cache filled"),
            _ => info!(kind = %K::kind(&()), scope, objects, "listed anew"),
        }
        self.cache.shared.progress.send_modify(|progress| {
            // Otherwise it is asked for another list already.
            if progress.round == self.round {
                progress.advance();
            }
        });
    }

    fn succeeded(&mut self) {
        if self.failures > 0 {
            self.failures = 0;
            *self.cache.failure() = None;
        }
    }

    fn failed(&mut self, error: &watcher::Error) -> Duration {
        if self
            .last_failure
            .is_some_and(|last| last.elapsed() >= RETRY_RESET)
        {
            self.failures = 0;
        }
        self.last_failure = Some(Instant::now());
        let wait = self.jitter.stretch(RETRY.delay(self.failures), 1.0);
        self.failures = self.failures.saturating_add(1);
        warn!(kind = %K::kind(&()), %error, retry_in = ?wait, "watch failed");
        *self.cache.failure() = Some(Failure {
            error: error.to_string(),
            is_refusal: is_refusal(error),
        });
        wait
    }
}

fn is_refusal(error: &watcher::Error) -> bool {
    matches!(
        error,
        watcher::Error::InitialListFailed(kube::Error::Api(status)) if matches!(status.code, 401 | 403 | 404)
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::runtime::client::Clients;
    use crate::runtime::lease::Leadership;
    use crate::runtime::metrics::RuntimeMetrics;
    use crate::telemetry::metrics::Metrics;
    use bytes::Bytes;
    use http::{Request, Response};
    use http_body_util::Full;
    use k8s_openapi::api::core::v1::ConfigMap;
    use kube::client::Body;
    use serde_json::{Value, json};
    use std::convert::Infallible;
    use std::sync::{Arc, Mutex};

    /// Lists get the next of `lists`, watches find out that the server has forgotten where they were; without a list there is no answer.
    fn server(lists: Vec<Value>) -> Client {
        let lists = Arc::new(Mutex::new(lists.into_iter()));
        let service = tower::service_fn(move |request: Request<Body>| {
            let is_watch = request.uri().query().unwrap_or_default().contains("watch=true");
            let gone = json!({"type": "ERROR", "object": {"kind": "Status", "status": "Failure", "code": 410, "message": "gone", "reason": "Expired"}});
            let answer = if is_watch {
                Some(gone)
            } else {
                lists.lock().unwrap().next()
            };
            async move {
                let Some(answer) = answer else {
                    return std::future::pending().await;
                };
                let code = answer["code"]
                    .as_u64()
                    .map_or(200, |code| u16::try_from(code).unwrap());
                let body = Full::new(Bytes::from(format!("{answer}\n")));
                Ok::<_, Infallible>(Response::builder().status(code).body(body).unwrap())
            }
        });
        let metrics = RuntimeMetrics::register(&Metrics::new());
        Clients::over(
            service,
            Leadership::unneeded(),
            Duration::from_secs(3_600),
            &metrics,
        )
        .fenced
    }

    fn list(version: &str, names: &[&str]) -> Value {
        let item = |name: &&str| json!({"metadata": {"name": name, "namespace": "ns", "uid": name, "resourceVersion": "1"}});
        let items: Vec<Value> = names.iter().map(item).collect();
        json!({"apiVersion": "v1", "kind": "ConfigMapList", "metadata": {"resourceVersion": version}, "items": items})
    }

    fn follow(lists: Vec<Value>) -> (Cache<ConfigMap>, WatchedCache<ConfigMap>) {
        let cache = Cache::<ConfigMap>::empty();
        let source = WatchedCache {
            cache: cache.clone(),
            watch: Watch::all(),
        };
        tokio::spawn(source.follow(server(lists), Vec::new(), "test"));
        (cache, source)
    }

    #[tokio::test(start_paused = true)]
    async fn what_was_deleted_while_nobody_watched_is_told_after_the_next_list() {
        let (cache, source) = follow(vec![list("10", &["a", "b"]), list("20", &["b", "c"])]);
        let told = Arc::new(Mutex::new(Vec::new()));
        let changes = Arc::clone(&told);
        cache.on_change(move |change| {
            let name = change
                .sides()
                .next()
                .and_then(|object| object.metadata.name.clone())
                .unwrap_or_default();
            changes.lock().unwrap().push((name, change.new.is_some()));
        });
        source.synced().await;
        tokio::time::sleep(Duration::from_secs(60)).await;
        let expected =
            [("a", true), ("b", true), ("c", true), ("a", false)].map(|(name, is)| (name.to_owned(), is));
        assert_eq!(
            *told.lock().unwrap(),
            expected,
            "b has not changed, so it is told of once"
        );
        assert_eq!(cache.len(), 2);
    }

    #[tokio::test(start_paused = true)]
    async fn a_list_that_fails_is_tried_again_and_says_why_meanwhile() {
        let forbidden = json!({"kind": "Status", "status": "Failure", "code": 403, "message": "not allowed", "reason": "Forbidden"});
        let (cache, source) = follow(vec![forbidden.clone(), forbidden, list("10", &["a"])]);
        tokio::time::sleep(Duration::from_millis(500)).await;
        assert!(!source.is_synced());
        assert!(source.last_error().unwrap().contains("not allowed"));
        source.synced().await;
        assert!(source.is_synced());
        assert_eq!(cache.len(), 1);
    }

    #[tokio::test(start_paused = true)]
    async fn what_a_watch_has_not_told_yet_is_listed_anew_for_whoever_asks() {
        let (cache, source) = follow(vec![
            list("10", &["a", "b"]),
            list("20", &["b", "c"]),
            list("30", &["c"]),
        ]);
        source.synced().await;
        cache.list_anew().await;
        assert_eq!(
            cache.keys(),
            ["b", "c"].map(|name| ObjectKey::namespaced("ns", name))
        );
        // Two at once may be served by one list.
        let (one, other) = (cache.list_anew(), cache.list_anew());
        futures::join!(one, other);
        assert_eq!(cache.keys(), [ObjectKey::namespaced("ns", "c")]);
    }

    #[tokio::test(start_paused = true)]
    async fn a_cache_that_lists_anew_is_as_full_as_before() {
        let failing = json!({"kind": "Status", "status": "Failure", "code": 500, "message": "not now", "reason": "InternalError"});
        let (cache, source) = follow(vec![list("10", &["a"]), failing, list("20", &["b"])]);
        source.synced().await;
        let anew = cache.list_anew();
        tokio::pin!(anew);
        let patience = Duration::from_millis(300);
        assert!(tokio::time::timeout(patience, &mut anew).await.is_err());
        assert!(source.is_synced() && !source.is_listed());
        assert!(source.last_error().unwrap().contains("not now"));
        assert_eq!(cache.len(), 1);
        anew.await;
        assert!(source.is_listed());
        assert_eq!(cache.keys(), [ObjectKey::namespaced("ns", "b")]);
    }

    #[tokio::test(start_paused = true)]
    async fn a_watch_that_lags_behind_takes_back_nothing_that_an_answer_told() {
        let mut follower = follower();
        let told = |version: &str| {
            serde_json::from_value::<Guarded<ConfigMap>>(json!({
                "metadata": {"name": "a", "namespace": "ns", "uid": "a", "resourceVersion": version},
            }))
            .unwrap()
        };
        for (version, known) in [("9", "9"), ("11", "11"), ("10", "11")] {
            follower.handle(Event::Apply(told(version)));
            let known_now = follower.cache.in_namespace("ns");
            assert_eq!(known_now[0].metadata.resource_version.as_deref(), Some(known));
        }
    }

    fn follower() -> Follower<ConfigMap> {
        Follower {
            cache: Cache::empty(),
            namespace: None,
            jitter: Jitter::named("test"),
            listed: BTreeSet::new(),
            failures: 0,
            last_failure: None,
            round: 0,
            was_synced: true,
        }
    }

    #[tokio::test(start_paused = true)]
    async fn failures_of_a_quiet_kind_that_lie_far_apart_do_not_add_up() {
        let mut follower = follower();
        let error = watcher::Error::NoResourceVersion;
        for _ in 0..10 {
            assert!(follower.failed(&error) < Duration::from_secs(2));
            tokio::time::advance(RETRY_RESET).await;
        }
        let in_a_row: Duration = (0..10).map(|_| follower.failed(&error)).sum();
        assert!(in_a_row > Duration::from_secs(60), "{in_a_row:?}");
    }
}
