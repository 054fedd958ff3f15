//! A Database as its author sees it: manifest, status, pods, and what its Services lead to.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use k8s_openapi::api::core::v1::{Pod, Secret};
use kube::ResourceExt;
use kube::api::{Api, DynamicObject, ListParams};
use roadstead::api::database::agent::RECORD;
use serde_json::{Value, json};
use tokio::task::JoinSet;
use tokio_postgres::{Config, SimpleQueryMessage};

use crate::instance::Instance;
use crate::ledger::{self, Entry, Ledger, Options};
use crate::objects::{DATABASE, LEASE, SERVICE, condition, text};
use crate::outcome::{Failure, Outcome, ensure};
use crate::sightings::{Sighting, contradictions};
use crate::wait::{Seen, until};
use crate::world::World;

/// The first data, two copies of it, and their start.
pub const SERVING: Duration = Duration::from_secs(120);
/// Until somebody else is the primary.
pub const REPLACED: Duration = Duration::from_secs(30);
/// Until every instance streams again.
pub const REJOINED: Duration = Duration::from_secs(60);
/// How many instances there are.
pub const INSTANCES: usize = 3;
/// So many writes show that they are accepted again.
const WRITES: usize = 50;
/// Between two attempts to write to the same instance.
const LOOK: Duration = Duration::from_millis(250);
/// How long an answer may take, connecting included; PostgreSQL may hang.
const ANSWERED: Duration = Duration::from_secs(4);
/// For how long writers and lookouts go on after the longest scenario would have been ended.
const MARGIN: Duration = Duration::from_secs(30);
/// A scenario that may take longer than this is one of a soak.
const LONG: Duration = Duration::from_secs(600);
/// So many of the last sightings are looked through while more are made: two at once show at once.
const RECENT: usize = 2000;

/// A Database in a namespace of its own.
#[derive(Clone)]
pub struct Database {
    pub world: Arc<World>,
    pub namespace: String,
    pub name: &'static str,
    /// Nothing is done to have what befalls it measured alone.
    pub with_no_hand: bool,
}

impl Database {
    /// Makes the namespace, and a database of three instances whose commits always wait for a replica; `spec` on top.
    pub async fn serving(world: &Arc<World>, scenario: &str, spec: Value) -> Outcome<Self> {
        let database = Self {
            world: Arc::clone(world),
            namespace: world.namespace(scenario).await?,
            name: "orders",
            with_no_hand: false,
        };
        database.apply(spec).await?;
        database.comes_up().await?;
        Ok(database)
    }

    /// Applies the database with the fields of `spec` on top; null takes a field away. Its pods fit on a small machine.
    pub async fn apply(&self, spec: Value) -> Outcome<DynamicObject> {
        let mut whole = json!({
            "version": self.world.settings.major,
            "image": self.world.settings.postgres,
            "instances": INSTANCES,
            "synchronous": "required",
            "resources": {"requests": {"cpu": "20m", "memory": "64Mi"}, "limits": {"memory": "512Mi"}},
            "storage": {"size": "1Gi", "whenDeleted": "Delete"},
            "parameters": {"shared_buffers": "32MB", "max_wal_size": "128MB"},
        });
        if let (Some(whole), Value::Object(fields)) = (whole.as_object_mut(), spec) {
            whole.extend(fields);
            whole.retain(|_, value| !value.is_null());
        }
        let manifest = json!({
            "apiVersion": "roadstead.dev/v1", "kind": "Database", "metadata": {"name": self.name}, "spec": whole,
        });
        self.world.apply(&self.namespace, manifest).await
    }

    pub async fn get(&self) -> Outcome<DynamicObject> {
        self.world.get(DATABASE, &self.namespace, self.name).await
    }

    /// See [`World::events`].
    pub async fn events(&self) -> Outcome<Vec<(String, String, String)>> {
        self.world.events(&self.namespace, "Database", self.name).await
    }

    /// Waits until it is Ready with regard to its newest spec.
    pub async fn ready(&self, limit: Duration) -> Outcome {
        let what = format!("Database {}/{} to be Ready", self.namespace, self.name);
        until(what, limit, || async {
            let object = self.get().await?;
            let observed = object
                .data
                .pointer("/status/observedGeneration")
                .and_then(Value::as_i64);
            let seen = condition(&object, "Ready");
            let current = observed == object.metadata.generation;
            let instead = format!(
                "{:?} ({}: {}), phase {:?}, generation {observed:?} of {:?}, instances {}",
                seen.status,
                seen.reason,
                seen.message,
                text(&object, "/status/phase"),
                object.metadata.generation,
                object.data.pointer("/status/instances").unwrap_or(&Value::Null),
            );
            Ok(Seen::when(current && seen.status == "True", (), instead))
        })
        .await
    }

    /// Waits until it is Ready and its Service leads to the primary: nodes learn of that on their own, a moment later.
    pub async fn comes_up(&self) -> Outcome {
        self.ready(SERVING).await?;
        let config = self.config(self.name).await?;
        until("the Service to lead to the primary", REPLACED, || async {
            let answer = answer(&config, &["SELECT pg_is_in_recovery()"]).await?;
            Ok(Seen::equal(&answer.as_str(), &"f"))
        })
        .await
    }

    // ---- instances --------------------------------------------------------------------------------------------

    /// The pods that are there now, in the order of their names.
    pub async fn instances(&self) -> Outcome<Vec<Instance>> {
        let api: Api<Pod> = Api::namespaced(self.world.client.clone(), &self.namespace);
        let mut found: Vec<Instance> = api
            .list(&ListParams::default())
            .await?
            .items
            .iter()
            .map(Instance::of)
            .filter(|it| is_instance(&it.name, self.name))
            .collect();
        found.sort_by(|a, b| a.name.cmp(&b.name));
        Ok(found)
    }

    /// What stays the same for as long as no instance is started again. Who leads, the Lease says.
    pub async fn lives(&self) -> Outcome<Vec<Vec<String>>> {
        let mut lives = Vec::new();
        for instance in self.instances().await? {
            lives.push(instance.life().await?);
        }
        Ok(lives)
    }

    /// Waits until one pod alone is labelled as the primary.
    pub async fn primary(&self) -> Outcome<Instance> {
        self.primary_other_than("").await
    }

    /// Waits until one pod alone is labelled as the primary, and it is not the one with this UID.
    pub async fn primary_other_than(&self, uid: &str) -> Outcome<Instance> {
        until("a new primary", REPLACED, || async {
            let all = self.instances().await?;
            let roles: Vec<String> = all
                .iter()
                .map(|it| format!("{} {} {:?}", it.name, it.uid, it.role))
                .collect();
            let primaries: Vec<&Instance> = all.iter().filter(|it| it.role == "primary").collect();
            Ok(match primaries[..] {
                [primary] if primary.uid != uid => Seen::There(primary.clone()),
                _ => Seen::NotYet(format!("{roles:?}")),
            })
        })
        .await
    }

    /// Waits until every other instance streams from the primary, as both of them see it.
    pub async fn all_stream(&self) -> Outcome {
        self.stream(INSTANCES).await
    }

    /// As [`Self::all_stream`], where there are so many instances.
    pub async fn stream(&self, instances: usize) -> Outcome {
        until("every instance to stream", REJOINED, || async {
            let all = self.instances().await?;
            let of_primary = |it: &&Instance| it.role == "primary";
            let primary = all
                .iter()
                .find(of_primary)
                .ok_or_else(|| Failure::new("no primary"))?;
            let sent_to = "SELECT application_name FROM pg_stat_replication WHERE state = 'streaming'";
            let sent_to = primary.query("postgres", &[sent_to]).await?;
            let sent_to: BTreeSet<&str> = sent_to.lines().collect();
            let mut lacking = Vec::new();
            for replica in all.iter().filter(|it| it.uid != primary.uid) {
                let received = "SELECT status FROM pg_stat_wal_receiver";
                let received = replica.query("postgres", &[received]).await?;
                if received != "streaming" || !sent_to.contains(replica.name.as_str()) {
                    lacking.push(format!("{} {received:?}", replica.name));
                }
            }
            let whole = all.len() == instances && lacking.is_empty();
            let instead = format!(
                "{} instances, {lacking:?} do not, the primary sends to {sent_to:?}",
                all.len()
            );
            Ok(Seen::when(whole, (), instead))
        })
        .await
    }

    /// What instances keep in the Lease.
    pub async fn record(&self) -> Outcome<Value> {
        let lease = self.world.get(LEASE, &self.namespace, self.name).await?;
        let record = lease.annotations().get(RECORD).cloned().unwrap_or_default();
        Ok(serde_json::from_str(&record).unwrap_or_default())
    }

    /// Waits until the last fault is over for the instances too: right after a failover nobody but the primary can know yet that he has everything. And, where a hand is
    /// laid on it, replaces the pods whose container was started again twice: the kubelet waits twice as long each time, and no longer than that is measured.
    pub async fn rested(&self) -> Outcome {
        until("the Lease to name one quorum alone", REPLACED, || async {
            let record = self.record().await?;
            let quorums = record["quorums"].as_array().map_or(0, Vec::len);
            Ok(Seen::when(quorums <= 1, (), record))
        })
        .await?;
        if self.with_no_hand {
            return Ok(());
        }
        let mut tired = self.instances().await?;
        tired.retain(|it| it.restarts >= 2);
        for instance in &tired {
            instance.delete_at_once(&self.world).await?;
            self.all_stream().await?;
        }
        Ok(())
    }

    /// Who holds the Lease, and how often it changed hands.
    pub async fn lease(&self) -> Outcome<(String, i64)> {
        let lease = self.world.get(LEASE, &self.namespace, self.name).await?;
        let changes = lease
            .data
            .pointer("/spec/leaseTransitions")
            .and_then(Value::as_i64);
        Ok((
            text(&lease, "/spec/holderIdentity").to_owned(),
            changes.unwrap_or_default(),
        ))
    }

    // ---- clients ----------------------------------------------------------------------------------------------

    /// How the owner connects to the database through a Service, by its ClusterIP.
    pub async fn config(&self, service: &str) -> Outcome<Config> {
        let secrets: Api<Secret> = Api::namespaced(self.world.client.clone(), &self.namespace);
        let mut secret = secrets.get(self.name).await?.data.unwrap_or_default();
        let mut key = |name: &str| {
            let value = secret.remove(name).and_then(|it| String::from_utf8(it.0).ok());
            value
                .ok_or_else(|| Failure::new(format!("Secret {}/{} has no {name}", self.namespace, self.name)))
        };
        let (user, password) = (key("username")?, key("password")?);
        let service = self.world.get(SERVICE, &self.namespace, service).await?;
        let address = text(&service, "/spec/clusterIP");
        ensure!(!address.is_empty(), "the Service has no ClusterIP");
        let mut config = Config::new();
        config
            .host(address)
            .port(5432)
            .user(user)
            .password(password)
            .dbname(self.name)
            .application_name("roadstead-e2e");
        Ok(config)
    }

    /// Writers through the Service and lookouts at every instance, once writes are acknowledged.
    pub async fn observed(&self) -> Outcome<Observed> {
        let config = self.config(self.name).await?;
        ledger::prepare(&config).await.map_err(Failure::new)?;
        let limit = self.world.settings.patience() + MARGIN;
        // The longer it takes the less often, for all of it is read in the end, and in between
        let pause = Options::default().pause * if limit > LONG { 4 } else { 1 };
        let options = Options {
            limit,
            pause,
            ..Options::default()
        };
        let to = config.clone();
        let observed = Observed {
            database: self.clone(),
            ledger: Ledger::start(move || to.clone(), options),
            lookout: Lookout::start(self, limit),
            config,
            lost: BTreeSet::new(),
        };
        observed.writes_since(Instant::now()).await?;
        Ok(observed)
    }
}

/// A database to which is written all the time, while somebody looks who accepts it.
pub struct Observed {
    pub database: Database,
    pub ledger: Ledger,
    lookout: Lookout,
    config: Config,
    /// Acknowledged writes that were found to be lost, where some may be.
    lost: BTreeSet<Entry>,
}

impl Observed {
    /// Waits until writes were acknowledged after a moment.
    pub async fn writes_since(&self, moment: Instant) -> Outcome {
        until("writes to be acknowledged", REPLACED, || async {
            let writes = self.ledger.acknowledged_since(moment);
            let instead = format!("{writes} of {WRITES}; {:?}", self.ledger.errors());
            Ok(Seen::when(writes >= WRITES, (), instead))
        })
        .await
    }

    /// Fails if a write that was acknowledged before this is not there, or if two instances were primaries at once just now.
    pub async fn nothing_is_lost(&mut self) -> Outcome {
        let lost = self.lost_since().await?;
        ensure!(
            lost.is_empty(),
            "{} acknowledged writes are missing: {:?}",
            lost.len(),
            &lost[..lost.len().min(20)]
        );
        Ok(())
    }

    /// The acknowledged writes of which it is new that they are not there. From here on nobody expects them any more. Fails if two
    /// instances were primaries at once just now.
    pub async fn lost_since(&mut self) -> Outcome<Vec<Entry>> {
        let (book, sightings) = (self.ledger.book(), lock(&self.lookout.sightings).clone());
        let two = contradictions(&sightings[sightings.len().saturating_sub(RECENT)..]);
        ensure!(two.is_empty(), "two primaries at once: {two:#?}");
        let mut missing = book.missing(&read(&self.config).await?);
        missing.retain(|entry| !self.lost.contains(entry));
        self.lost.extend(missing.iter().copied());
        Ok(missing)
    }

    /// Ends the writing. Fails if an acknowledged write is missing anywhere, a refused one is there, or two instances were primaries at once.
    pub async fn finish(self) -> Outcome {
        let (world, database) = (&self.database.world, &self.database);
        let book = self.ledger.stop().await;
        let sightings = self.lookout.stop();
        world.note(format!(
            "ledger: {} writes acknowledged, {} in doubt, {} refused, longest gap {:.2} s; {} writes at instances",
            book.acknowledged(),
            book.unknown(),
            book.refused(),
            book.longest_gap().as_secs_f64(),
            sightings.len(),
        ));
        let two = contradictions(&sightings);
        ensure!(two.is_empty(), "two primaries at once: {two:#?}");
        ensure!(!sightings.is_empty(), "no instance was seen to accept a write");

        let rows = read(&self.config).await?;
        let (mut missing, unexpected) = (book.missing(&rows), book.unexpected(&rows));
        missing.retain(|entry| !self.lost.contains(entry));
        ensure!(
            missing.is_empty(),
            "{} acknowledged writes are missing: {:?}",
            missing.len(),
            &missing[..missing.len().min(20)]
        );
        ensure!(
            unexpected.is_empty(),
            "{} refused writes are there: {:?}",
            unexpected.len(),
            &unexpected[..unexpected.len().min(20)]
        );
        let wanted = rows.len().to_string();
        until("every instance to have them all", REJOINED, || async {
            let mut lacking = Vec::new();
            for instance in database.instances().await? {
                let count = ["SELECT count(*) FROM public.ledger"];
                let count = instance.query(database.name, &count).await?;
                if count != wanted {
                    lacking.push(format!("{} has {count} of {wanted}", instance.name));
                }
            }
            Ok(Seen::when(lacking.is_empty(), (), format!("{lacking:?}")))
        })
        .await
    }
}

/// All rows, once somebody tells them.
async fn read(config: &Config) -> Outcome<BTreeSet<Entry>> {
    until("the rows to be read", REPLACED, || async {
        ledger::rows(config).await.map(Seen::There).map_err(Failure::new)
    })
    .await
}

/// Tries all the time to write to each instance itself. Ends when it is dropped.
struct Lookout {
    /// One for each, for one that hangs must not keep us from the others
    tasks: JoinSet<()>,
    sightings: Arc<Mutex<Vec<Sighting>>>,
}

impl Lookout {
    fn start(database: &Database, limit: Duration) -> Self {
        let (mut tasks, sightings) = (JoinSet::new(), Arc::new(Mutex::new(Vec::new())));
        let end = Instant::now() + limit;
        for ordinal in 0..INSTANCES {
            let (database, sightings) = (database.clone(), Arc::clone(&sightings));
            let name = format!("{}-{ordinal}", database.name);
            tasks.spawn(async move {
                let pods: Api<Pod> = Api::namespaced(database.world.client.clone(), &database.namespace);
                while Instant::now() < end {
                    if let Ok(pod) = pods.get(&name).await
                        && let Ok(sighting) = Instance::of(&pod).write().await
                    {
                        lock(&sightings).push(sighting);
                    }
                    tokio::time::sleep(LOOK).await;
                }
            });
        }
        Self { tasks, sightings }
    }

    fn stop(mut self) -> Vec<Sighting> {
        self.tasks.abort_all();
        lock(&self.sightings).clone()
    }
}

fn lock(sightings: &Mutex<Vec<Sighting>>) -> std::sync::MutexGuard<'_, Vec<Sighting>> {
    sightings.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Whether a pod has the name of an instance: NAME-0 and so on.
fn is_instance(pod: &str, database: &str) -> bool {
    let ordinal = pod.strip_prefix(database).and_then(|it| it.strip_prefix('-'));
    ordinal.is_some_and(|it| it.parse::<u16>().is_ok())
}

/// What a server answers to these statements, one after the other: a line for each row, its columns with `|` between them.
pub async fn answer(config: &Config, statements: &[&str]) -> Outcome<String> {
    let asked = tokio::time::timeout(ANSWERED, async {
        let (client, connection) = config.connect(tokio_postgres::NoTls).await?;
        let mut driver = JoinSet::new();
        driver.spawn(connection);
        let mut lines = Vec::new();
        for statement in statements {
            for message in client.simple_query(statement).await? {
                if let SimpleQueryMessage::Row(row) = message {
                    let columns = (0..row.len()).map(|column| row.get(column).unwrap_or_default());
                    lines.push(columns.collect::<Vec<_>>().join("|"));
                }
            }
        }
        Ok(lines.join("\n"))
    });
    asked.await.unwrap_or_else(|_| {
        Err(Failure::new(format!(
            "{statements:?} was not answered after {ANSWERED:?}"
        )))
    })
}
