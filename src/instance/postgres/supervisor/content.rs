//! Users, databases and extensions: made beside the loop, by a task of its own, as long as this is the primary.

use std::time::Duration;

use kube::Client;
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep};

use super::super::content::Content;
use super::super::options::Options;
use super::super::secrets::{NoPassword, Passwords, SecretClient};
use super::Supervisor;
use super::settings::Mounted;
use crate::api::database::agent::{MAX_UNMADE_TEXT, Report};
use crate::api::text::shorten;

/// Between two looks at the Secrets.
const LOOK: Duration = Duration::from_secs(10);
/// How long it may take to read them.
const READ: Duration = Duration::from_secs(5);
/// How long what has failed is left alone: at first, doubled each time, at last.
const AGAIN: (Duration, Duration) = (Duration::from_secs(10), Duration::from_secs(60));

/// What is to be made: of which settings, and in which life of PostgreSQL.
type Wanted = Option<(u64, Mounted)>;

/// What came of it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Outcome {
    made: Option<String>,
    unmade: Vec<String>,
}

/// What the loop knows of the task.
pub(super) struct Handle {
    wanted: watch::Sender<Wanted>,
    outcome: watch::Receiver<Outcome>,
}

/// Begins the task.
pub(super) fn begin(options: &Options, client: Client, tasks: &mut JoinSet<()>) -> Handle {
    let (wanted, want) = watch::channel(None);
    let (tell, outcome) = watch::channel(Outcome::default());
    let secrets = SecretClient::new(client, &options.namespace, READ);
    tasks.spawn(make(options.clone(), secrets, want, tell));
    Handle { wanted, outcome }
}

impl Supervisor {
    /// Has it made while this instance `leads`, and has what every primary has.
    pub(super) fn tell_content(&self, leads: bool) {
        let (start, mounted) = (self.process.starts, &self.mounted);
        self.content.wanted.send_if_modified(|before| {
            let before_was = before.as_ref().map(|(start, mounted)| (*start, &mounted.hash));
            let changed = before_was != leads.then_some((start, &mounted.hash));
            if changed {
                *before = leads.then(|| (start, mounted.clone()));
            }
            changed
        });
    }

    /// Says what is made, and what could not be.
    pub(super) fn report_content(&self, report: &mut Report) {
        let outcome = self.content.outcome.borrow();
        report.made.clone_from(&outcome.made);
        let owner = self
            .furnishing
            .owner
            .unusable
            .iter()
            .map(|why| shorten(why, MAX_UNMADE_TEXT));
        report.unmade = owner.chain(outcome.unmade.iter().cloned()).collect();
    }
}

/// Makes it whenever the settings or a Secret are others, and again after a while if something failed.
async fn make(
    options: Options,
    secrets: SecretClient,
    mut wanted: watch::Receiver<Wanted>,
    told: watch::Sender<Outcome>,
) {
    let mut tenure: Option<Tenure> = None;
    loop {
        let Some((start, mounted)) = wanted.borrow_and_update().clone() else {
            tenure = None;
            told.send_replace(Outcome::default());
            if wanted.changed().await.is_err() {
                return;
            }
            continue;
        };
        let own = match &mut tenure {
            Some(own) if own.start == start => own,
            other => other.insert(Tenure::begin(&options, start)),
        };
        // Other settings wait for the end of what is under way: statements that nobody waits for any more would be in the way of the next ones.
        tokio::select! {
            () = own.turn(&mounted, &secrets, &told) => {}
            more = is_over(wanted.clone(), start) => if more { continue } else { return },
        }
        tokio::select! {
            () = sleep(LOOK) => {}
            changed = wanted.changed() => if changed.is_err() { return },
        }
    }
}

/// Waits until nothing is to be made any more in this life of PostgreSQL. False if there will be no other.
async fn is_over(mut wanted: watch::Receiver<Wanted>, start: u64) -> bool {
    let other = |wanted: &Wanted| wanted.as_ref().is_none_or(|(other, _)| *other != start);
    wanted.wait_for(other).await.is_ok()
}

/// One life of PostgreSQL as the primary.
struct Tenure {
    start: u64,
    content: Content,
    /// The hash of the settings that were gone by last, if that came to an end.
    by: Option<String>,
    passwords: Passwords,
    /// When what has failed is tried again, and how long after the last attempt that is.
    again: Option<Instant>,
    pause: Duration,
    said: Vec<String>,
}

impl Tenure {
    fn begin(options: &Options, start: u64) -> Self {
        Self {
            start,
            content: Content::new(options),
            by: None,
            passwords: Passwords::new(),
            again: None,
            pause: AGAIN.0,
            said: Vec::new(),
        }
    }

    /// Looks at the Secrets, and makes what there is to make.
    async fn turn(&mut self, mounted: &Mounted, secrets: &SecretClient, told: &watch::Sender<Outcome>) {
        let passwords = secrets.passwords(&mounted.settings.users).await;
        if self.is_due(mounted, passwords, Instant::now()) {
            told.send_replace(self.make(mounted).await);
        }
    }

    /// Whether there is anything to do, now that this was read.
    fn is_due(&mut self, mounted: &Mounted, read: Passwords, now: Instant) -> bool {
        let is_by_these = self.by.as_ref() == Some(&mounted.hash);
        let passwords = if is_by_these {
            known(read, &self.passwords)
        } else {
            read
        };
        let is_changed = passwords != self.passwords;
        self.passwords = passwords;
        !is_by_these || is_changed || self.again.is_some_and(|again| now >= again)
    }

    async fn make(&mut self, mounted: &Mounted) -> Outcome {
        // It may be dropped on the way.
        self.by = None;
        let made = self.content.make(&mounted.settings, &self.passwords).await;
        let (hash, unmade) = (&mounted.hash, made.told());
        if unmade.is_empty() {
            (self.again, self.pause) = (None, AGAIN.0);
            if made.written > 0 || !self.said.is_empty() {
                let statements = made.written;
                tracing::info!(
                    settings = hash,
                    statements,
                    "users, databases and extensions are as declared"
                );
            }
        } else {
            self.again = Some(Instant::now() + self.pause);
            self.pause = (self.pause * 2).min(AGAIN.1);
            if unmade != self.said {
                let unmade = unmade.join("; ");
                tracing::warn!(
                    settings = hash,
                    unmade,
                    "not all users, databases and extensions are as declared"
                );
            }
        }
        self.by = Some(hash.clone());
        self.said.clone_from(&unmade);
        Outcome {
            made: unmade.is_empty().then(|| hash.clone()),
            unmade,
        }
    }
}

/// What cannot be read now is as it was.
fn known(mut read: Passwords, before: &Passwords) -> Passwords {
    for (user, password) in &mut read {
        if let (Err(NoPassword::Unread { .. }), Some(known @ Ok(_))) = (&*password, before.get(user)) {
            password.clone_from(known);
        }
    }
    read
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::instance::postgres::secrets::Password;

    fn mounted(hash: &str) -> Mounted {
        Mounted {
            hash: hash.to_owned(),
            ..Mounted::default()
        }
    }

    fn passwords(password: Result<&str, &str>) -> Passwords {
        let unread = |why: &str| NoPassword::Unread {
            secret: "app".to_owned(),
            why: why.to_owned(),
        };
        [("app".to_owned(), password.map(Password::new).map_err(unread))].into()
    }

    fn tenure() -> Tenure {
        Tenure {
            by: Some("a".to_owned()),
            passwords: passwords(Ok("old")),
            ..Tenure::begin(&Options::default(), 1)
        }
    }

    #[tokio::test(start_paused = true)]
    async fn it_is_made_again_when_settings_or_a_password_are_others_and_not_otherwise() {
        let (old, now) = (passwords(Ok("old")), Instant::now());
        assert!(!tenure().is_due(&mounted("a"), old.clone(), now));
        assert!(tenure().is_due(&mounted("b"), old.clone(), now));
        assert!(tenure().is_due(&mounted("a"), passwords(Ok("new")), now));
        assert!(Tenure::begin(&Options::default(), 1).is_due(&mounted("a"), old, now));
    }

    #[tokio::test(start_paused = true)]
    async fn an_api_server_that_does_not_answer_changes_nothing() {
        let (mut tenure, now) = (tenure(), Instant::now());
        assert!(!tenure.is_due(&mounted("a"), passwords(Err("late")), now));
        assert!(!tenure.is_due(&mounted("a"), passwords(Ok("old")), now));
        // Other settings may name another Secret.
        assert!(tenure.is_due(&mounted("b"), passwords(Err("late")), now));
        assert_eq!(tenure.passwords, passwords(Err("late")));
    }

    #[tokio::test(start_paused = true)]
    async fn what_has_failed_is_tried_again_after_a_pause_that_grows_up_to_a_minute() {
        let mut tenure = tenure();
        // There is no PostgreSQL.
        let mut settings = mounted("a");
        settings.settings.users.push(Default::default());
        let mut pauses = Vec::new();
        for _ in 0..5 {
            let outcome = tenure.make(&settings).await;
            assert_eq!((outcome.made, outcome.unmade.len()), (None, 1));
            let (again, now) = (tenure.again.unwrap(), Instant::now());
            assert!(!tenure.is_due(&settings, passwords(Ok("old")), now));
            assert!(tenure.is_due(&settings, passwords(Ok("old")), again));
            pauses.push((again - now).as_secs());
        }
        assert_eq!(pauses, [10, 20, 40, 60, 60]);
    }
}
