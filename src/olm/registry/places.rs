//! Places for connections: so many at once. Where all are taken, whoever has asked nothing for the longest is asked to leave, since a client that is sound comes
//! again when it needs something, and one that is not would keep its place for ever. Where all ask something, it is whoever's answer has stood still for the
//! longest: it only listens, or does not read.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::sync::{Notify, OwnedSemaphorePermit, Semaphore};
use tokio::time::{Instant, timeout};

/// While no place is free, another one is asked to leave so often.
const AGAIN: Duration = Duration::from_millis(500);

/// All of them; clones share them.
#[derive(Debug, Clone)]
pub(super) struct Places {
    free: Arc<Semaphore>,
    taken: Arc<Mutex<Taken>>,
    patience: Patience,
}

/// Who may be asked to leave where others wait.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Patience {
    /// Whoever has asked nothing for so long. It has as long to leave.
    pub idle: Duration,
    /// If there is none: to whom nothing was sent for so long of what it has asked.
    pub stalled: Duration,
}

#[derive(Debug, Default)]
struct Taken {
    next: u64,
    guests: BTreeMap<u64, Guest>,
}

#[derive(Debug)]
struct Guest {
    /// How many questions are being answered.
    questions: usize,
    /// When a part of an answer was last sent, or the last one ended, or the connection began.
    since: Instant,
    is_asked: bool,
    leave: Arc<Notify>,
}

impl Places {
    pub(super) fn new(number: usize, patience: Patience) -> Self {
        Self {
            free: Arc::new(Semaphore::new(number)),
            taken: Arc::default(),
            patience,
        }
    }

    /// Takes one, as soon as there is one. Nothing if there never will be.
    pub(super) async fn take(&self) -> Option<Place> {
        loop {
            let free = Arc::clone(&self.free);
            if let Ok(permit) = timeout(AGAIN, free.acquire_owned()).await {
                return Some(self.seat(permit.ok()?));
            }
            self.ask_the_idlest();
        }
    }

    fn seat(&self, permit: OwnedSemaphorePermit) -> Place {
        let leave = Arc::new(Notify::new());
        let guest = Guest {
            questions: 0,
            since: Instant::now(),
            is_asked: false,
            leave: Arc::clone(&leave),
        };
        let number = self.with(|taken| {
            taken.next += 1;
            taken.guests.insert(taken.next, guest);
            taken.next
        });
        Place {
            number,
            leave,
            all: self.clone(),
            _permit: permit,
        }
    }

    fn ask_the_idlest(&self) {
        let Patience { idle, stalled } = self.patience;
        self.with(|taken| {
            let may_go = |guest: &&mut Guest| {
                let patience = if guest.questions == 0 { idle } else { stalled };
                !guest.is_asked && guest.since.elapsed() >= patience
            };
            let guests = taken.guests.values_mut().filter(may_go);
            if let Some(guest) = guests.min_by_key(|guest| (guest.questions > 0, guest.since)) {
                guest.is_asked = true;
                guest.leave.notify_one();
            }
        });
    }

    fn with<T>(&self, what: impl FnOnce(&mut Taken) -> T) -> T {
        what(&mut self.taken.lock().unwrap_or_else(PoisonError::into_inner))
    }

    fn guest(&self, number: u64, what: impl FnOnce(&mut Guest)) {
        self.with(|taken| taken.guests.get_mut(&number).map(what));
    }
}

/// A connection's place, free again when this is dropped.
#[derive(Debug)]
pub(super) struct Place {
    number: u64,
    leave: Arc<Notify>,
    all: Places,
    _permit: OwnedSemaphorePermit,
}

impl Place {
    /// Done when its connection is asked to leave.
    pub(super) async fn is_wanted(&self) {
        self.leave.notified().await;
    }

    /// Who counts the questions of its connection.
    pub(super) fn asking(&self) -> Asking {
        Asking {
            number: self.number,
            all: self.all.clone(),
        }
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.all.with(|taken| taken.guests.remove(&self.number));
    }
}

/// Counts the questions of one connection.
#[derive(Debug, Clone)]
pub(super) struct Asking {
    number: u64,
    all: Places,
}

impl Asking {
    /// A question, which is answered when this is dropped.
    pub(super) fn one(&self) -> Question {
        self.all.guest(self.number, |guest| guest.questions += 1);
        Question(self.clone())
    }
}

/// A question that is being answered.
#[derive(Debug)]
pub(super) struct Question(Asking);

impl Question {
    /// A part of the answer is sent.
    pub(super) fn moves(&self) {
        let Asking { number, all } = &self.0;
        all.guest(*number, |guest| guest.since = Instant::now());
    }
}

impl Drop for Question {
    fn drop(&mut self) {
        let Asking { number, all } = &self.0;
        all.guest(*number, |guest| {
            guest.questions = guest.questions.saturating_sub(1);
            guest.since = Instant::now();
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PATIENCE: Patience = Patience {
        idle: Duration::from_secs(2),
        stalled: Duration::from_secs(10),
    };

    async fn is_asked(place: &Place) -> bool {
        timeout(Duration::from_millis(1), place.is_wanted()).await.is_ok()
    }

    #[tokio::test(start_paused = true)]
    async fn whoever_has_asked_nothing_for_the_longest_is_asked_to_leave_for_another() {
        let places = Places::new(3, PATIENCE);
        let mut all = Vec::new();
        for _ in 0..3 {
            all.push(places.take().await.unwrap());
            tokio::time::advance(Duration::from_millis(100)).await;
        }
        // The first is being answered, and the second was a moment ago
        let _question = all[0].asking().one();
        drop(all[1].asking().one());
        let waiting = tokio::spawn({
            let places = places.clone();
            async move { places.take().await }
        });
        timeout(PATIENCE.idle * 2, all[2].is_wanted()).await.unwrap();
        assert!(!is_asked(&all[0]).await && !is_asked(&all[1]).await);
        drop(all.pop());
        let _fourth = timeout(AGAIN, waiting).await.unwrap().unwrap().unwrap();
        assert!(!is_asked(&all[1]).await, "one is enough");
    }

    /// They could keep everybody else out for ever.
    #[tokio::test(start_paused = true)]
    async fn where_all_ask_something_whoever_was_sent_nothing_for_the_longest_is_asked_to_leave() {
        let places = Places::new(2, PATIENCE);
        let (listens, reads) = (places.take().await.unwrap(), places.take().await.unwrap());
        let _listening = listens.asking().one();
        let read = reads.asking().one();
        let waiting = tokio::spawn(async move { places.take().await });
        for second in 0.. {
            tokio::time::sleep(Duration::from_secs(1)).await;
            read.moves();
            assert!(!is_asked(&reads).await);
            if is_asked(&listens).await {
                assert!(second >= 9, "it is left in peace for a while: {second} s");
                break;
            }
            assert!(second < 12, "for no longer than that");
        }
        drop(listens);
        assert!(timeout(AGAIN, waiting).await.unwrap().unwrap().is_some());
    }

    #[tokio::test(start_paused = true)]
    async fn where_there_is_room_nobody_is_asked_to_leave() {
        let places = Places::new(2, PATIENCE);
        let one = places.take().await.unwrap();
        tokio::time::advance(PATIENCE.idle * 1000).await;
        let other = places.take().await.unwrap();
        assert!(!is_asked(&one).await && !is_asked(&other).await);
    }
}
