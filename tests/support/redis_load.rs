//! Clients of a Redis Cluster that write and read all the time, and a ledger of what was acknowledged to them.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use roadstead::controllers::redis_cluster::client::RedisClient;
use roadstead::controllers::redis_cluster::topology::nodes::View;
use roadstead::controllers::redis_cluster::wire::{Reply, Wire, Words};
use tokio::task::JoinHandle;
use tokio::time::{Instant, sleep};

/// How long a node has to answer.
const ANSWER: Duration = Duration::from_secs(5);
/// So many times a client follows MOVED and ASK for one command.
const MOST_HOPS: usize = 16;

/// After which a client asks again where everything is.
const LEARN_AGAIN: Duration = Duration::from_millis(200);

/// CRC16 of XMODEM. No key here has braces, of which only what is within would count.
pub fn slot_of(key: &str) -> usize {
    let crc = key.bytes().fold(0_u16, |crc, byte| {
        (0..8).fold(crc ^ (u16::from(byte) << 8), |crc, _| match crc & 0x8000 {
            0 => crc << 1,
            _ => (crc << 1) ^ 0x1021,
        })
    });
    usize::from(crc) % 16_384
}

/// A client that knows where slots are, as far as it was told.
pub struct Client {
    wire: Arc<RedisClient>,
    seed: IpAddr,
    slots: HashMap<usize, IpAddr>,
    learnt: Option<Instant>,
}

impl Client {
    pub fn new(wire: Arc<RedisClient>, seed: IpAddr) -> Self {
        Self {
            wire,
            seed,
            slots: HashMap::new(),
            learnt: None,
        }
    }

    /// What is answered in the end; errors but MOVED and ASK are the caller's.
    pub async fn does(&mut self, key: &str, words: Words) -> Result<Reply, String> {
        let slot = slot_of(key);
        let mut to = *self.slots.get(&slot).unwrap_or(&self.seed);
        let mut asking = false;
        for _ in 0..MOST_HOPS {
            let mut commands = vec![words.clone()];
            if asking {
                commands.insert(0, Words::of(["ASKING"]));
            }
            let replies = self.wire.send(to, &commands, ANSWER).await;
            let reply = replies.map_err(|why| why.to_string())?.pop().unwrap();
            let Reply::Refused(why) = &reply else {
                return Ok(reply);
            };
            let mut parts = why.split(' ');
            let (kind, place) = (parts.next().unwrap_or_default(), parts.nth(1).unwrap_or_default());
            let address = place.rsplit_once(':').and_then(|(ip, _)| ip.parse().ok());
            match (kind, address) {
                ("MOVED", Some(address)) => {
                    self.learn(address).await;
                    self.slots.insert(slot, address);
                    (to, asking) = (address, false);
                }
                ("ASK", Some(address)) => (to, asking) = (address, true),
                _ => return Err(why.clone()),
            }
        }
        Err("led in circles".to_owned())
    }

    /// As clients do that are told that something has moved: where everything is by now.
    async fn learn(&mut self, from: IpAddr) {
        if self.learnt.is_some_and(|learnt| learnt.elapsed() < LEARN_AGAIN) {
            return;
        }
        self.learnt = Some(Instant::now());
        let replies = self
            .wire
            .send(from, &[Words::of(["CLUSTER", "NODES"])], ANSWER)
            .await;
        let text = replies
            .ok()
            .and_then(|replies| replies.first().and_then(Reply::text));
        let Some(Ok(view)) = text.map(|text| text.parse::<View>()) else {
            return;
        };
        for known in view.known.iter().chain([&view.myself]) {
            if let Some(ip) = known.ip {
                let slots = known.slots.iter();
                self.slots
                    .extend(slots.map(|slot| (usize::from(slot.number()), ip)));
            }
        }
    }

    pub async fn set(&mut self, key: &str, value: u64) -> Result<(), String> {
        match self.does(key, Words::of(["SET", key]).and(value)).await? {
            Reply::Text(_) => Ok(()),
            other => Err(format!("{other:?}")),
        }
    }

    pub async fn get(&mut self, key: &str) -> Result<Option<u64>, String> {
        match self.does(key, Words::of(["GET", key])).await? {
            Reply::Nothing => Ok(None),
            other => Ok(other.text().and_then(|text| text.parse().ok())),
        }
    }
}

/// A key: what was acknowledged last, and what was written since and may have arrived.
#[derive(Default)]
pub struct Entry {
    acknowledged: Option<u64>,
    maybe: Vec<u64>,
}

impl Entry {
    /// Whether a key may have this value.
    pub fn allows(&self, found: Option<u64>) -> bool {
        found == self.acknowledged || found.is_some_and(|found| self.maybe.contains(&found))
    }
}

/// What was told to one client, which has keys of its own.
#[derive(Default)]
pub struct Ledger {
    pub keys: HashMap<String, Entry>,
    pub errors: Vec<String>,
    pub wrong: Vec<String>,
}

/// Clients that each have keys of their own.
pub struct Load {
    over: Arc<AtomicBool>,
    done: Arc<AtomicU64>,
    clients: Vec<JoinHandle<Ledger>>,
}

impl Load {
    pub fn start(wire: &Arc<RedisClient>, seed: IpAddr, clients: usize, keys: usize) -> Self {
        let (over, done) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicU64::new(0)));
        let client = |number| {
            let (over, done, client) = (over.clone(), done.clone(), Client::new(wire.clone(), seed));
            tokio::spawn(works(client, number, keys, over, done))
        };
        let clients = (0..clients).map(client).collect();
        Self { over, done, clients }
    }

    /// So many commands were answered in this time, for each second.
    pub async fn rate(&self, time: Duration) -> f64 {
        let (before, begun) = (self.done.load(Ordering::Relaxed), Instant::now());
        sleep(time).await;
        self.since(before, begun)
    }

    pub fn count(&self) -> u64 {
        self.done.load(Ordering::Relaxed)
    }

    pub fn since(&self, before: u64, begun: Instant) -> f64 {
        (self.count() - before) as f64 / begun.elapsed().as_secs_f64()
    }

    pub async fn end(self) -> Vec<Ledger> {
        self.over.store(true, Ordering::Relaxed);
        let mut ledgers = Vec::new();
        for client in self.clients {
            ledgers.push(client.await.unwrap());
        }
        ledgers
    }
}

async fn works(
    mut client: Client,
    number: usize,
    keys: usize,
    over: Arc<AtomicBool>,
    done: Arc<AtomicU64>,
) -> Ledger {
    let mut ledger = Ledger::default();
    for turn in 0_u64.. {
        if over.load(Ordering::Relaxed) {
            break;
        }
        // Scattered, and each key again and again
        let key = format!("c{number}-{}", turn.wrapping_mul(7919) % keys as u64);
        let entry = ledger.keys.entry(key.clone()).or_default();
        if turn % 3 == 2 {
            match client.get(&key).await {
                Ok(found) if !entry.allows(found) => {
                    ledger
                        .wrong
                        .push(format!("{key} is {found:?}, not {:?}", entry.acknowledged));
                }
                Ok(_) => {}
                Err(why) => ledger.errors.push(why),
            }
        } else {
            match client.set(&key, turn).await {
                Ok(()) => {
                    *entry = Entry {
                        acknowledged: Some(turn),
                        maybe: Vec::new(),
                    }
                }
                Err(why) => {
                    entry.maybe.push(turn);
                    ledger.errors.push(why);
                    sleep(Duration::from_millis(20)).await;
                }
            }
        }
        done.fetch_add(1, Ordering::Relaxed);
    }
    ledger
}

/// Writes so many keys, each with its number.
pub async fn fill(wire: &Arc<RedisClient>, seed: IpAddr, keys: u64) {
    let writers = (0..8).map(|part| {
        let mut client = Client::new(wire.clone(), seed);
        tokio::spawn(async move {
            for number in (part..keys).step_by(8) {
                client.set(&format!("k{number}"), number).await.unwrap();
            }
        })
    });
    for writer in writers.collect::<Vec<_>>() {
        writer.await.unwrap();
    }
}
