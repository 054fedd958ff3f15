//! Namespaces of a real API server as places where people act.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::{Instant, sleep};

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

/// What the worlds of both operators can do.
pub trait Inhabited {
    async fn restart(&mut self);
    async fn until_quiet(&self);
    fn operator(&self) -> &Running;
}

impl Inhabited for proxy_world::World {
    async fn restart(&mut self) {
        self.restart().await;
    }

    async fn until_quiet(&self) {
        self.until_quiet().await;
    }

    fn operator(&self) -> &Running {
        &self.operator
    }
}

impl Inhabited for greeter_world::World {
    async fn restart(&mut self) {
        self.restart().await;
    }

    async fn until_quiet(&self) {
        self.until_quiet().await;
    }

    fn operator(&self) -> &Running {
        &self.operator
    }
}

/// A namespace with an operator and, where there are pods, a kubelet.
pub struct RealGround<W> {
    subject: &'static Subject,
    world: W,
    kubelet: Option<PlayedKubelet>,
    people: People,
}

pub async fn of_proxies(namespace: &str) -> RealGround<proxy_world::World> {
    let world = proxy_world::World::new(namespace).await;
    ApiServer::shared().run_controllers();
    RealGround {
        subject: &PROXIES,
        kubelet: Some(PlayedKubelet::start(
            world.api(),
            world.api(),
            Arc::clone(&world.agents),
        )),
        people: People::of(&PROXIES, ApiServer::shared().client().await, namespace),
        world,
    }
}

pub async fn of_greetings(namespace: &str) -> RealGround<greeter_world::World> {
    RealGround {
        subject: &GREETER,
        world: greeter_world::World::new(namespace).await,
        kubelet: None,
        people: People::of(&GREETER, ApiServer::shared().client().await, namespace),
    }
}

impl<W: Inhabited> Ground for RealGround<W> {
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
        self.world.restart().await;
    }

    async fn nothing_is_left_to_write(&mut self) {
        self.world.until_quiet().await;
        self.world.restart().await;
        let objects = u64::try_from(of_people(self.subject, &self.look().await).count()).unwrap_or(u64::MAX);
        within(LIMIT, "the new operator has looked at everything", async || {
            self.world.operator().reconciles() >= objects
        })
        .await;
        self.world.until_quiet().await;
        assert_eq!(self.world.operator().writes(), 0, "written without need");
    }

    /// Operators go by the API server's, which nobody sets.
    fn set_clock(&mut self, _: i64) {}

    fn mend(&mut self) {
        if let Some(kubelet) = &self.kubelet {
            kubelet.mend();
        }
    }
}
