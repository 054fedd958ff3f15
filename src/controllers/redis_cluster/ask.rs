//! Asks nodes what they know: which slots are where, and who follows whom, no object of the cluster tells.

use std::collections::HashMap;
use std::net::IpAddr;
use std::time::Duration;

use futures::future::join_all;

use super::topology::nodes::{View, ViewError};
use super::topology::scene::{Member, Place, Report, Role, State};
use super::wire::{Reply, Wire, WireError, Words};

/// How long nodes have to answer; all are asked at once.
const ANSWER: Duration = Duration::from_secs(3);

/// A pod that is to be asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Target {
    /// Which one.
    pub place: Place,
    /// Where it is; nothing while it has no address.
    pub ip: Option<IpAddr>,
}

/// Why what a node answered says nothing.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Unclear {
    /// Nobody answered, or not all of it.
    #[error(transparent)]
    Unanswered(#[from] WireError),
    /// Redis answered with an error, such as that it is loading its data.
    #[error("{command}: {why}")]
    Refused {
        /// Which command.
        command: &'static str,
        /// In Redis' words.
        why: String,
    },
    /// It is no answer to that.
    #[error(transparent)]
    View(#[from] ViewError),
    /// A field is missing, or is not what it should be.
    #[error("{0} is not told, or is no {1}")]
    Field(&'static str, &'static str),
}

/// What all of these say, and why those that are silent are.
pub async fn ask(wire: &dyn Wire, targets: &[Target]) -> (Vec<Member>, Vec<(Place, Unclear)>) {
    let asked = targets.iter().map(|target| async move {
        match target.ip {
            None => None,
            Some(ip) => Some(ask_one(wire, ip).await),
        }
    });
    let mut unclear = Vec::new();
    let answers = join_all(asked).await;
    let members = targets.iter().zip(answers).map(|(target, answer)| {
        let state = match answer {
            None => State::Absent,
            Some(Ok(report)) => State::Answered(Box::new(report)),
            Some(Err(why)) => {
                unclear.push((target.place, why));
                State::Silent
            }
        };
        Member {
            place: target.place,
            ip: target.ip,
            state,
        }
    });
    let members = members.collect();
    (members, unclear)
}

/// What is asked, by what it is called where it is refused.
const QUESTIONS: [(&str, &[&str]); 4] = [
    ("CLUSTER NODES", &["CLUSTER", "NODES"]),
    ("CLUSTER INFO", &["CLUSTER", "INFO"]),
    ("INFO", &["INFO", "server", "replication", "memory"]),
    ("DBSIZE", &["DBSIZE"]),
];

async fn ask_one(wire: &dyn Wire, ip: IpAddr) -> Result<Report, Unclear> {
    let questions =
        QUESTIONS.map(|(_, words)| Words(words.iter().map(|word| word.as_bytes().to_vec()).collect()));
    let answers = wire.send(ip, &questions, ANSWER).await?;
    for ((command, _), answer) in QUESTIONS.iter().zip(&answers) {
        if let Reply::Refused(why) = answer {
            let why = why.clone();
            return Err(Unclear::Refused { command, why });
        }
    }
    let [nodes, cluster, info, keys] = &answers[..] else {
        return Err(Unclear::Unanswered(WireError::Unmatched {
            commands: questions.len(),
            answers: answers.len(),
        }));
    };
    let text = |reply: &Reply| reply.text().unwrap_or_default();
    let keys = keys.count().ok_or(Unclear::Field("DBSIZE", "number"))?;
    report(text(nodes).parse()?, &text(cluster), &text(info), keys)
}

/// What a node knows of its cluster by now, if it says so.
pub(super) async fn view(wire: &dyn Wire, ip: IpAddr, patience: Duration) -> Option<View> {
    let replies = wire
        .send(ip, &[Words::of(["CLUSTER", "NODES"])], patience)
        .await
        .ok()?;
    replies.first()?.text()?.parse().ok()
}

/// What a node says of itself, from its answers.
fn report(view: View, cluster: &str, info: &str, keys: u64) -> Result<Report, Unclear> {
    let (cluster, info) = (Fields::of(cluster), Fields::of(info));
    let role = match info.text("role") {
        "slave" => Role::Replica,
        "master" => Role::Primary,
        _ => return Err(Unclear::Field("role", "master or slave")),
    };
    let offset = match role {
        Role::Primary => info.number("master_repl_offset")?,
        // It has none before it was given its primary's data
        Role::Replica => info.number("slave_repl_offset").unwrap_or_default(),
    };
    Ok(Report {
        role,
        primary_link_up: role == Role::Replica && info.text("master_link_status") == "up",
        syncing: info.text("master_sync_in_progress") == "1",
        offset,
        keys,
        used_memory: info.number("used_memory")?,
        maxmemory: Some(info.number("maxmemory")?).filter(|&bytes| bytes > 0),
        cluster_state_ok: cluster.text("cluster_state") == "ok",
        current_epoch: cluster.number("cluster_current_epoch")?,
        time: Duration::from_micros(info.number("server_time_usec")?),
        view,
    })
}

/// Lines of `name:value`.
struct Fields<'a>(HashMap<&'a str, &'a str>);

impl<'a> Fields<'a> {
    fn of(text: &'a str) -> Self {
        Self(
            text.lines()
                .filter_map(|line| line.trim_end().split_once(':'))
                .collect(),
        )
    }

    /// Empty where there is none.
    fn text(&self, name: &str) -> &'a str {
        self.0.get(name).copied().unwrap_or_default()
    }

    /// An offset is -1 for a moment, while nothing is known of it.
    fn number(&self, name: &'static str) -> Result<u64, Unclear> {
        let number = self.text(name).parse::<i128>().ok();
        let number = number.and_then(|number| u64::try_from(number.max(0)).ok());
        number.ok_or(Unclear::Field(name, "number"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NODES: &str = "07c37dfeb235213a872192d90877d0cd55635b91 10.0.0.4:6379@16379,a-0 myself,master - 0 0 1 connected 0-5460\n";
    const CLUSTER: &str = "cluster_state:ok\r\ncluster_current_epoch:6\r\n";

    fn told(info: &str) -> Result<Report, Unclear> {
        report(NODES.parse().unwrap(), CLUSTER, info, 3)
    }

    #[test]
    fn a_primary_tells_its_offset_and_has_no_link() {
        let report = told("# Replication\r\nrole:master\r\nmaster_repl_offset:42\r\nused_memory:1000\r\nmaxmemory:0\r\nserver_time_usec:5000000\r\n").unwrap();
        assert_eq!(
            (report.role, report.offset, report.primary_link_up),
            (Role::Primary, 42, false)
        );
        assert_eq!(
            (report.keys, report.used_memory, report.maxmemory),
            (3, 1000, None)
        );
        assert_eq!(
            (report.cluster_state_ok, report.current_epoch, report.time),
            (true, 6, Duration::from_secs(5))
        );
    }

    #[test]
    fn a_replica_that_never_had_data_is_at_nothing() {
        let info = "role:slave\nmaster_link_status:down\nmaster_sync_in_progress:1\nslave_repl_offset:-1\nmaster_repl_offset:7\nused_memory:1\nmaxmemory:2000000\nserver_time_usec:1\n";
        let report = told(info).unwrap();
        assert_eq!(
            (report.role, report.offset, report.primary_link_up, report.syncing),
            (Role::Replica, 0, false, true)
        );
        assert_eq!(report.maxmemory, Some(2_000_000));
    }

    #[test]
    fn what_is_missing_is_named() {
        let refused = told("role:master\nmaster_repl_offset:1\nmaxmemory:0\n").unwrap_err();
        assert_eq!(refused.to_string(), "used_memory is not told, or is no number");
    }
}
