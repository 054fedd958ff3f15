//! Namespaces of a real API server as places where people act.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::{Instant, sleep, timeout};

use crate::apiserver::{ApiServer, within};
use crate::greeter_world;
use crate::mutator::{Ground, of_people};
use crate::people::People;
use crate::played_kubelet::PlayedKubelet;
use crate::proxy_world;
use crate::running::Running;
use crate::sim::store::Objects;
use crate::subjects::Subject;
use crate::subjects::greeter::GREETER;
use crate::subjects::proxies::PROXIES;

/// How long anything may take: a check that failed several times is repeated after 2 minutes.
const LIMIT: Duration = Duration::from_secs(180);
/// How often something that is waited for is looked at.
const GLANCE: Duration = Duration::from_millis(500);
/// What takes a second in a cluster takes so long here.
const SECOND: Duration = Duration::from_millis(40);

/// A namespace with an operator, how another one is started in its place, and a kubelet where there are pods.
pub struct RealGround<S> {
    subject: &'static Subject,
    operator: Running,
    start: S,
    kubelet: Option<PlayedKubelet>,
    people: People,
}

pub async fn of_proxies(namespace: &'static str) -> RealGround<impl AsyncFn() -> Running> {
    let world = proxy_world::World::new(namespace).await;
    ApiServer::shared().run_controllers();
    let port = world.agents.port().await;
    RealGround {
        subject: &PROXIES,
        kubelet: Some(PlayedKubelet::start(
            world.api(),
            world.api(),
            Arc::clone(&world.agents),
        )),
        people: People::of(&PROXIES, ApiServer::shared().client().await, namespace),
        operator: world.operator,
        start: async move || proxy_world::start(namespace, port).await,
    }
}

pub async fn of_greetings(namespace: &'static str) -> RealGround<impl AsyncFn() -> Running> {
    RealGround {
        subject: &GREETER,
        kubelet: None,
        people: People::of(&GREETER, ApiServer::shared().client().await, namespace),
        operator: greeter_world::World::new(namespace).await.operator,
        start: async move || greeter_world::start(namespace, false).await,
    }
}

impl<S: AsyncFn() -> Running> Ground for RealGround<S> {
    fn subject(&self) -> &'static Subject {
        self.subject
    }

    fn people(&self) -> &People {
        &self.people
    }

    async fn look(&self) -> Objects {
        self.people.look().await.expect("an answer")
    }

    async fn wait(&mut self, seconds: u32) {
        sleep(SECOND * seconds).await;
    }

    async fn until(&mut self, what: &str, holds: impl Fn(&Objects) -> bool) {
        let started = Instant::now();
        loop {
            let objects = self.look().await;
            if holds(&objects) {
                break;
            }
            assert!(
                started.elapsed() < LIMIT,
                "not within {LIMIT:?}: {what}\n{objects:#?}"
            );
            sleep(GLANCE).await;
        }
        if let Some(kubelet) = &mut self.kubelet {
            kubelet.is_well();
        }
    }

    async fn restart_operator(&mut self) {
        self.operator.stop().await;
        self.operator = (self.start)().await;
    }

    async fn nothing_is_left_to_write(&mut self) {
        let quiet = "nothing is written any more";
        timeout(LIMIT, self.operator.until_quiet()).await.expect(quiet);
        self.restart_operator().await;
        let objects = u64::try_from(of_people(self.subject, &self.look().await).count()).unwrap_or(u64::MAX);
        within(LIMIT, "the new operator has looked at everything", async || {
            self.operator.reconciles() >= objects
        })
        .await;
        timeout(LIMIT, self.operator.until_quiet()).await.expect(quiet);
        assert_eq!(self.operator.writes(), 0, "written without need");
    }

    /// Operators go by the API server's, which nobody sets.
    fn set_clock(&mut self, _: i64) {}

    fn mend(&mut self) {
        if let Some(kubelet) = &self.kubelet {
            kubelet.mend();
        }
    }
}
