//! What is asked of the local PostgreSQL, and told it.

use std::collections::BTreeMap;
use std::str::FromStr;
use std::time::Duration;

use super::config::parse_standby_names;
use super::conninfo;
use super::options::Options;
use super::prepare;
use super::session::{Rows, Session};
pub use super::session::{SqlError, identifier};
use crate::api::database::agent::{Lsn, Member, Settings, Standby};
use crate::instance::postgres::protocol::Running;

/// How long an answer may take that needs no disk.
const ANSWER: Duration = Duration::from_secs(3);
/// How long a change may take.
const CHANGE: Duration = Duration::from_secs(60);
/// How long a write may take that waits for replicas. Whoever gives it up leaves a process of PostgreSQL behind that goes on waiting.
const WRITTEN: Duration = Duration::from_secs(60 * 60);
/// How long a checkpoint may take.
const CHECKPOINT: Duration = Duration::from_secs(10 * 60);

/// One row on itself. A replica asks for more, and then has received something by its own account, only once it has applied all that it had; one that follows
/// nobody, or cannot reach it, waits then and looks again, which is told by what it waits for. One that applies nothing for a while may be held up by a query, or by its
/// disk. This, and whether it has a process that receives, is asked before how far it is: what it applies, or receives, in between is known then, too. Its timeline is that of what it receives, or the latest of which it
/// has ever received a segment: the control file may lag behind that, and who is on a later timeline has more than who is not.
const SELF: &str = "SELECT r, \
    (SELECT system_identifier FROM pg_control_system()), \
    CASE WHEN r THEN greatest((SELECT received_tli FROM pg_stat_get_wal_receiver()), \
            (SELECT timeline_id FROM pg_control_checkpoint()), (SELECT min_recovery_end_timeline FROM pg_control_recovery()), \
            (SELECT max(('x' || substr(name, 1, 8))::bit(32)::int) FROM pg_ls_waldir() WHERE name ~ '^[0-9A-F]{24}$')) \
        ELSE ('x' || substr(pg_walfile_name(pg_current_wal_flush_lsn()), 1, 8))::bit(32)::int END, \
    CASE WHEN r THEN greatest(pg_last_wal_receive_lsn(), pg_last_wal_replay_lsn()) ELSE pg_current_wal_flush_lsn() END, \
    CASE WHEN r THEN pg_last_wal_replay_lsn() ELSE pg_current_wal_flush_lsn() END, \
    current_setting('primary_conninfo'), \
    coalesce((SELECT status = 'streaming' FROM pg_stat_get_wal_receiver()), false), \
    current_setting('synchronous_standby_names'), \
    (SELECT timeline_id FROM pg_control_checkpoint()), \
    (SELECT redo_lsn FROM pg_control_checkpoint()), \
    replaying, receiving, to_regclass('roadstead.heartbeat') IS NOT NULL \
    FROM (SELECT r, EXISTS (SELECT FROM pg_stat_activity WHERE backend_type = 'walreceiver') AS receiving, r AND pg_last_wal_receive_lsn() IS NULL AND NOT EXISTS (SELECT FROM pg_stat_activity \
            WHERE backend_type = 'startup' AND wait_event IN ('RecoveryRetrieveRetryInterval', 'RecoveryWalStream')) AS replaying \
        FROM pg_is_in_recovery() AS r OFFSET 0) AS before";
/// A row for each that streams from it.
const STANDBYS: &str = "SELECT application_name, state, sync_state <> 'async', flush_lsn, replay_lsn \
    FROM pg_stat_replication ORDER BY application_name, pid LIMIT 100";
/// A row for each setting that waits for a restart, and for each that it refuses. Of one that takes effect only after a restart it says
/// both in the same words, and says nothing more before that restart. What it would take comes from what it knows of its settings: its own words of that go
/// to its log.
const CONFIGURATION: &str = "SELECT name, setting FROM pg_settings WHERE pending_restart ORDER BY name LIMIT 100; \
    SELECT DISTINCT coalesce(f.name, f.sourcefile), f.error, f.setting, s.vartype, s.min_val, s.max_val, s.unit, array_to_string(s.enumvals, ', ') \
        FROM pg_file_settings f LEFT JOIN pg_settings s USING (name) \
        WHERE f.error IS NOT NULL AND (s.context IS DISTINCT FROM 'postmaster' OR NOT s.pending_restart) ORDER BY 1 LIMIT 20";

/// A transaction that has a commit of its own and changes no row.
const WRITE: &str = "SET synchronous_commit = on; SELECT pg_logical_emit_message(true, 'roadstead', '')";

/// Ours are those of the superuser at the socket that say so.
const END_READERS: &str = "SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity \
    WHERE pg_is_in_recovery() AND backend_type = 'client backend' \
    AND NOT (usesysid = 10 AND client_addr IS NULL AND application_name = 'roadstead')";

/// How PostgreSQL goes by its configuration.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Configuration {
    /// The settings that take effect only after a restart, with what they are until then, in PostgreSQL's own unit.
    pub pending_restart: BTreeMap<String, String>,
    /// What it refuses, and why.
    pub refused: Vec<String>,
}

/// The local PostgreSQL. One connection is kept, and made anew after an error.
#[derive(Debug)]
pub struct Local {
    options: Options,
    database: String,
    session: Option<Session>,
}

impl Local {
    /// Nothing is connected before something is asked.
    pub fn new(options: &Options) -> Self {
        Self::of(options, "postgres")
    }

    /// The same, in another of its databases.
    pub(super) fn of(options: &Options, database: &str) -> Self {
        Self {
            options: options.clone(),
            database: database.to_owned(),
            session: None,
        }
    }

    /// What PostgreSQL says of itself.
    ///
    /// # Errors
    /// When it does not answer within 3 s (twice that if it has to be connected to), or not as it should.
    pub async fn observe(&mut self, members: &[Member]) -> Result<Running, SqlError> {
        let answers = self.ask(&format!("{SELF}; {STANDBYS}"), ANSWER).await?;
        running(&answers, members).ok_or(SqlError::Odd("its state cannot be read"))
    }

    /// How it goes by its configuration.
    ///
    /// # Errors
    /// As [`Self::observe`].
    pub async fn configuration(&mut self) -> Result<Configuration, SqlError> {
        let answers = self.ask(CONFIGURATION, ANSWER).await?;
        configuration(&answers).ok_or(SqlError::Odd("its configuration cannot be read"))
    }

    /// Writes once as clients do: it waits until enough replicas have it. It locks nothing meanwhile: the heartbeat, which shows that PostgreSQL works, must not
    /// wait for it.
    ///
    /// # Errors
    /// When that takes longer than an hour, or fails.
    pub async fn write(&mut self) -> Result<(), SqlError> {
        let outcome = self.ask(WRITE, WRITTEN).await.map(drop);
        // Nothing else of ours is to wait for a replica.
        self.session = None;
        outcome
    }

    /// Makes it the primary. It is one once [`Self::observe`] says so, and once it has replayed all that it has: see [`Self::end_readers`].
    ///
    /// # Errors
    /// As [`Self::observe`].
    pub async fn promote(&mut self) -> Result<(), SqlError> {
        self.end_readers().await?;
        self.ask("SELECT pg_promote(false)", ANSWER).await.map(drop)
    }

    /// Ends the sessions of all who read from a replica, but for ours. One whose query needs what replay is about to remove holds it up for
    /// `max_standby_streaming_delay`, which may be for ever, and a promotion waits for replay. On a primary it ends nobody.
    ///
    /// # Errors
    /// As [`Self::observe`].
    pub async fn end_readers(&mut self) -> Result<(), SqlError> {
        self.ask(END_READERS, ANSWER).await.map(drop)
    }

    /// Writes a checkpoint, after which a control file tells of the timeline.
    ///
    /// # Errors
    /// When that takes longer than ten minutes, or fails.
    pub async fn checkpoint(&mut self) -> Result<(), SqlError> {
        self.ask("CHECKPOINT", CHECKPOINT).await.map(drop)
    }

    /// Makes what every primary has, if it is not there: the role for replication, the owner with its password if that is known, its database, and the heartbeat's table.
    ///
    /// # Errors
    /// When it fails, or a part takes longer than a minute.
    pub async fn prepare(&mut self, settings: &Settings, password: Option<&str>) -> Result<(), SqlError> {
        self.ask(prepare::REPLICATION, CHANGE).await?;
        self.ask(&prepare::owner(&settings.database)?, CHANGE).await?;
        if let Some(password) = password {
            self.set_owner_password(&settings.database, password).await?;
        }
        let found = self
            .ask(&prepare::find_database(&settings.database), ANSWER)
            .await?;
        if found.first().is_none_or(Vec::is_empty) {
            // It cannot be made in a transaction, so not by a statement that looks first.
            let database = prepare::database(&settings.database, &settings.database)?;
            self.ask(&database, CHANGE).await?;
        }
        // Last: where it is, all the rest is, too.
        self.ask(prepare::HEARTBEAT, CHANGE).await.map(drop)
    }

    /// Gives the owner another password. PostgreSQL never sees it, only what it can be verified with.
    ///
    /// # Errors
    /// When it fails, or takes longer than a minute.
    pub async fn set_owner_password(&mut self, owner: &str, password: &str) -> Result<(), SqlError> {
        let statement = prepare::password(owner, password)?;
        self.ask(&statement, CHANGE).await.map(drop)
    }

    /// Carries out statements, and gives the rows of each that has columns.
    pub(super) async fn ask(&mut self, statements: &str, bound: Duration) -> Result<Vec<Rows>, SqlError> {
        // Taken out meanwhile: who stops waiting leaves a connection that is still busy.
        let session = match self.session.take().filter(|session| !session.is_closed()) {
            Some(session) => session,
            None => Session::open(&self.options, &self.database, ANSWER).await?,
        };
        let answer = session.ask(statements, bound).await;
        if answer.is_ok() {
            self.session = Some(session);
        }
        answer
    }
}

fn running(answers: &[Rows], members: &[Member]) -> Option<Running> {
    let [own, standbys] = answers else {
        return None;
    };
    let own = own.first()?;
    let text = |at: usize| own.get(at)?.as_deref();
    let replica = text(0)? == "t";
    Some(Running {
        primary: !replica,
        system_identifier: text(1)?.to_owned(),
        timeline: text(2)?.parse().ok()?,
        received: lsn(text(3)).unwrap_or_default(),
        replayed: lsn(text(4)).unwrap_or_default(),
        upstream: text(5)
            .filter(|_| replica)
            .and_then(|conninfo| conninfo::member(conninfo, members))
            .map(|member| member.name.clone()),
        streaming: replica && text(6)? == "t",
        standbys: standbys.iter().filter_map(|row| standby(row)).collect(),
        quorum: parse_standby_names(text(7)?),
        checkpoint: text(8)?.parse().ok()?,
        redo: lsn(text(9)).unwrap_or_default(),
        replaying: replica && text(10)? == "t",
        receiving: replica && text(11)? == "t",
        prepared: text(12) == Some("t"),
    })
}

fn standby(row: &[Option<String>]) -> Option<Standby> {
    let text = |at: usize| row.get(at)?.as_deref();
    Some(Standby {
        name: text(0)?.to_owned(),
        state: text(1).unwrap_or_default().to_owned(),
        synchronous: text(2) == Some("t"),
        flushed: lsn(text(3)),
        replayed: lsn(text(4)),
    })
}

fn lsn(text: Option<&str>) -> Option<Lsn> {
    text.and_then(|text| Lsn::from_str(text).ok())
}

fn configuration(answers: &[Rows]) -> Option<Configuration> {
    let [pending, refused] = answers else {
        return None;
    };
    let text = |row: &[Option<String>], at: usize| row.get(at).cloned().flatten();
    Some(Configuration {
        refused: refused.iter().map(|row| refusal(row)).collect(),
        pending_restart: pending
            .iter()
            .filter_map(|row| Some((text(row, 0)?, text(row, 1)?)))
            .collect(),
    })
}

/// What PostgreSQL refuses, and what it would take.
fn refusal(row: &[Option<String>]) -> String {
    let part = |at: usize| row.get(at).and_then(Option::as_deref).unwrap_or_default();
    let (name, error, value) = (part(0), part(1), part(2));
    let accepted = match part(3) {
        "bool" => "on or off".to_owned(),
        "enum" => format!("one of {}", part(7)),
        number @ ("integer" | "real") => {
            let unit = match part(6) {
                "" => String::new(),
                unit => format!(", in {unit} or with a unit of its own"),
            };
            format!("{number} from {} to {}{unit}", part(4), part(5))
        }
        _ => return format!("{name}: {error}"),
    };
    format!("{name} is \"{value}\": {error}; accepted: {accepted}")
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;
    use crate::api::database::agent::Quorum;

    fn row(values: &[&str]) -> Vec<Option<String>> {
        let value = |value: &&str| (*value != "-").then(|| (*value).to_owned());
        values.iter().map(value).collect()
    }

    fn members() -> Vec<Member> {
        let member = |name: &str| Member {
            name: name.to_owned(),
            host: format!("{name}.orders-instances"),
        };
        vec![member("orders-0"), member("orders-1")]
    }

    #[test]
    fn a_primary_says_whom_its_commits_wait_for() {
        let own = row(&[
            "f",
            "77",
            "3",
            "0/3000060",
            "0/3000060",
            "host=orders-1.orders-instances",
            "f",
            "ANY 1 (\"orders-1\")",
            "2",
            "0/3000028",
            "f",
            "f",
            "t",
        ]);
        let standbys = vec![
            row(&["orders-1", "streaming", "t", "0/3000060", "0/3000000"]),
            row(&["orders-1-join", "backup", "f", "-", "-"]),
        ];
        let running = running(&[vec![own], standbys], &members()).unwrap();
        let standbys = ["orders-1".to_owned()].into();
        assert_eq!(running.quorum, Some(Quorum { standbys, need: 1 }));
        assert_eq!(
            (running.primary, running.timeline, running.checkpoint),
            (true, 3, 2)
        );
        assert_eq!(running.upstream, None, "whom it would follow is of no account");
        assert!(running.prepared && running.standbys[0].synchronous);
        assert_eq!(running.standbys[1].flushed, None);
    }

    #[test]
    fn a_replica_says_whom_it_follows() {
        let own = row(&[
            "t",
            "77",
            "2",
            "0/5000000",
            "0/4000000",
            "host=orders-0.orders-instances port=5432",
            "t",
            "",
            "2",
            "-",
            "t",
            "t",
        ]);
        let running = running(&[vec![own], vec![]], &members()).unwrap();
        assert!(running.replaying && running.receiving && !running.prepared);
        assert_eq!(running.upstream.as_deref(), Some("orders-0"));
        assert!(running.streaming && !running.primary);
        assert_eq!(
            (running.received, running.replayed),
            (Lsn(0x500_0000), Lsn(0x400_0000))
        );
    }

    #[test]
    fn half_an_answer_is_none() {
        assert_eq!(running(&[vec![row(&["t", "77"])], vec![]], &[]), None);
        assert_eq!(running(&[vec![]], &[]), None);
    }

    #[rstest]
    #[case::number(&["work_mem", "not applied", "lots", "integer", "64", "2147483647", "kB"],
        "work_mem is \"lots\": not applied; accepted: integer from 64 to 2147483647, in kB or with a unit of its own")]
    #[case::no_unit(&["seq_page_cost", "not applied", "-1", "real", "0", "1e9"], "seq_page_cost is \"-1\": not applied; accepted: real from 0 to 1e9")]
    #[case::switch(&["jit", "not applied", "si", "bool"], "jit is \"si\": not applied; accepted: on or off")]
    #[case::choice(&["wal_level", "not applied", "all", "enum", "", "", "", "minimal, replica"],
        "wal_level is \"all\": not applied; accepted: one of minimal, replica")]
    #[case::text(&["DateStyle", "not applied", "x", "string"], "DateStyle: not applied")]
    #[case::unknown(&["shop.colour", "unrecognized configuration parameter", "red"], "shop.colour: unrecognized configuration parameter")]
    fn what_is_not_taken_is_told_with_its_reason_and_what_would_be(
        #[case] refused: &[&str],
        #[case] told: &str,
    ) {
        let answers = [vec![], vec![row(refused)]];
        assert_eq!(configuration(&answers).unwrap().refused, [told]);
    }

    #[test]
    fn what_is_not_taken_is_told_with_its_reason() {
        let answers = [
            vec![row(&["max_connections", "100"])],
            vec![row(&["work_mem", "setting could not be applied"])],
        ];
        let configuration = configuration(&answers).unwrap();
        let pending = [("max_connections".to_owned(), "100".to_owned())];
        assert_eq!(configuration.pending_restart, pending.into());
        assert_eq!(configuration.refused, ["work_mem: setting could not be applied"]);
    }
}
