//! Which Events the step from one status to the next deserves. Pure.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;

use super::reasons;
use super::status::{
    AVAILABLE, BACKUPS_CONFIGURED, CONFIGURATION_APPLIED, PROGRESSING, REPLICATION_HEALTHY, has_served,
};
use crate::api::database::agent::Lsn;
use crate::api::database::v1::{DatabaseStatus, Loss};
use crate::controllers::common::announce::is_news;
pub use crate::controllers::common::announce::{Announcement, tell};
use crate::runtime::conditions::READY;
use crate::runtime::events::EventType;

/// Reasons that somebody should have a look at.
const BAD: [&str; 18] = [
    reasons::INVALID_SPEC,
    reasons::NAME_TAKEN,
    reasons::REJECTED,
    reasons::BLOCKED,
    reasons::REFUSED,
    reasons::UNSUPPORTED,
    reasons::NOT_GROWN,
    reasons::NO_PRIMARY,
    reasons::PRIMARY_LOST,
    reasons::PRIMARY_NOT_RUNNING,
    reasons::PRIMARY_NOT_READY,
    reasons::NO_WRITES,
    reasons::COMMITS_WAIT,
    reasons::NOT_STREAMING,
    reasons::UNREACHABLE,
    reasons::NOT_READY,
    reasons::CERTIFICATE_REFUSED,
    reasons::CONTENT_INCOMPLETE,
];
/// Reasons that say that nothing happened yet, or that another condition tells better.
const SILENT: [&str; 6] = [
    reasons::WAITING,
    reasons::COMPLETE,
    reasons::NO_REPLICAS,
    reasons::NOT_ASKED,
    reasons::LOADING,
    reasons::STARTING,
];
/// Reasons whose message is news of its own: another mistake, not a count that moved.
const NEWS_BY_MESSAGE: [&str; 8] = [
    reasons::INVALID_SPEC,
    reasons::NAME_TAKEN,
    reasons::REJECTED,
    reasons::REFUSED,
    reasons::UNSUPPORTED,
    reasons::CERTIFICATE_REFUSED,
    reasons::CONTENT_INCOMPLETE,
    reasons::NOT_GROWN,
];

/// The Events for what is new in `after`.
pub fn announcements(before: Option<&DatabaseStatus>, after: &DatabaseStatus) -> Vec<Announcement> {
    let conditions = before
        .map(|status| status.conditions.as_slice())
        .unwrap_or_default();
    // Nothing serves at the beginning, and that is no reason to warn.
    let begins = !has_served(after);
    let news = after
        .conditions
        .iter()
        .filter(|condition| is_news(conditions, condition, &NEWS_BY_MESSAGE));
    let mut announcements: Vec<_> = news.filter_map(|condition| announce(condition, begins)).collect();
    announcements.extend(elected(before, after));
    announcements.extend(measured(before, after));
    announcements.extend(paused(before, after));
    announcements
}

/// Another instance takes writes than before, or one without what an earlier one had written.
fn elected(before: Option<&DatabaseStatus>, after: &DatabaseStatus) -> Option<Announcement> {
    let primary = after.primary.as_ref()?;
    let earlier = before.and_then(|status| status.primary.as_ref());
    let loss = after.last_loss.as_ref().filter(|loss| !is_told(before, loss));
    if earlier == Some(primary) && loss.is_none() {
        return None;
    }
    let timeline = after
        .timeline
        .map(|timeline| format!(" on timeline {timeline}"))
        .unwrap_or_default();
    let note = match earlier {
        Some(earlier) => format!("{primary} is the primary{timeline}, after {earlier}"),
        None => format!("{primary} is the primary{timeline}"),
    };
    let (type_, note) = match loss {
        Some(loss) => (gravity(loss), format!("{note}; {}", lost(loss))),
        None => (EventType::Normal, note),
    };
    Some(Announcement {
        type_,
        reason: "PrimaryElected".to_owned(),
        action: "Elect",
        note,
    })
}

/// The instance is back whose log the primary began without, and has said where that ended.
fn measured(before: Option<&DatabaseStatus>, after: &DatabaseStatus) -> Option<Announcement> {
    let loss = after.last_loss.as_ref().filter(|loss| loss.measured)?;
    let known = before.and_then(|status| status.last_loss.as_ref())?;
    // A loss that was not told of before is told of with its end.
    if known.measured || !is_told(before, loss) {
        return None;
    }
    Some(Announcement {
        type_: gravity(loss),
        reason: "LossMeasured".to_owned(),
        action: "Elect",
        note: lost(loss),
    })
}

/// Whether there was word of this loss before, however much of it was known.
fn is_told(before: Option<&DatabaseStatus>, loss: &Loss) -> bool {
    let known = before.and_then(|status| status.last_loss.as_ref());
    known.is_some_and(|known| (known.timeline, &known.from) == (loss.timeline, &loss.from))
}

fn gravity(loss: &Loss) -> EventType {
    match bytes(loss) {
        Some(0) => EventType::Normal,
        _ => EventType::Warning,
    }
}

/// For people: what a timeline began without.
fn lost(loss: &Loss) -> String {
    let Loss {
        timeline, from, to, ..
    } = loss;
    let whole = bytes(loss);
    if whole == Some(0) {
        return format!(
            "timeline {timeline} began at {from}, where the log before it ended: nothing is lost"
        );
    }
    let known = match (to, whole) {
        (Some(to), Some(bytes)) => {
            format!(" to {to} ({bytes} bytes, with what PostgreSQL writes for itself)")
        }
        (Some(to), None) => format!(" to {to} at least"),
        (None, _) => String::new(),
    };
    let told = match whole {
        Some(_) => "",
        None => "; where that log ended can be told once the instance is back that wrote it",
    };
    format!(
        "timeline {timeline} began without the log before it from {from}{known}: \
         what was acknowledged there without a replica is lost{told}"
    )
}

/// How long it is, once that was measured.
fn bytes(loss: &Loss) -> Option<u64> {
    let [from, to] = [Some(&loss.from), loss.to.as_ref()].map(|position| position?.parse::<Lsn>().ok());
    Some(to?.ahead_of(from?)).filter(|_| loss.measured)
}

/// A primary was stopped in order, and writes are accepted again.
fn paused(before: Option<&DatabaseStatus>, after: &DatabaseStatus) -> Option<Announcement> {
    let pause = after.last_write_pause.as_ref()?;
    let earlier = before.and_then(|status| status.last_write_pause.as_ref());
    (earlier != Some(pause)).then(|| Announcement {
        type_: EventType::Normal,
        reason: "WritesResumed".to_owned(),
        action: "Serve",
        note: format!("no write was accepted for {} ms", pause.milliseconds),
    })
}

fn announce(condition: &Condition, begins: bool) -> Option<Announcement> {
    let reason = condition.reason.as_str();
    let action = match condition.type_.as_str() {
        _ if SILENT.contains(&reason) => return None,
        AVAILABLE => "Serve",
        // What is amiss with the primary was told by Available.
        REPLICATION_HEALTHY if matches!(reason, reasons::STREAMING | reasons::NOT_STREAMING) => "Replicate",
        // Progressing tells that volumes grow.
        CONFIGURATION_APPLIED if reason != reasons::RESIZING => "Configure",
        BACKUPS_CONFIGURED => "BackUp",
        PROGRESSING if condition.status == "True" => "Progress",
        // Ready repeats another condition, unless all is well or all others are.
        READY if matches!(reason, reasons::READY | reasons::NOT_READY) => "Serve",
        _ => return None,
    };
    let is_of_the_spec = matches!(
        condition.type_.as_str(),
        CONFIGURATION_APPLIED | BACKUPS_CONFIGURED
    );
    let bad = BAD.contains(&reason) && (is_of_the_spec || !begins);
    Some(Announcement {
        type_: if bad {
            EventType::Warning
        } else {
            EventType::Normal
        },
        reason: reason.to_owned(),
        action,
        note: condition.message.clone(),
    })
}

#[cfg(test)]
mod tests {
    use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
    use rstest::rstest;

    use super::*;
    use crate::controllers::database::status::DEGRADED;

    /// It has served in full before, unless it is being created.
    fn status(phase: &str, primary: Option<&str>, conditions: &[(&str, &str, &str, &str)]) -> DatabaseStatus {
        let degraded = match phase {
            "Creating" => (DEGRADED, "False", reasons::CREATING, ""),
            _ => (DEGRADED, "False", reasons::AS_EXPECTED, ""),
        };
        let condition = |(type_, status, reason, message): &(&str, &str, &str, &str)| Condition {
            type_: (*type_).to_owned(),
            status: (*status).to_owned(),
            reason: (*reason).to_owned(),
            message: (*message).to_owned(),
            last_transition_time: Time(jiff::Timestamp::UNIX_EPOCH),
            observed_generation: None,
        };
        DatabaseStatus {
            phase: Some(phase.to_owned()),
            primary: primary.map(str::to_owned),
            timeline: Some(2),
            conditions: conditions.iter().chain([&degraded]).map(condition).collect(),
            ..DatabaseStatus::default()
        }
    }

    fn told(before: Option<&DatabaseStatus>, after: &DatabaseStatus) -> Vec<(EventType, String)> {
        let announcements = announcements(before, after).into_iter();
        announcements.map(|event| (event.type_, event.reason)).collect()
    }

    fn without(status: DatabaseStatus, to: Option<&str>, timeline: i64) -> DatabaseStatus {
        DatabaseStatus {
            last_loss: Some(Loss {
                timeline,
                from: "0/3000000".to_owned(),
                to: to.map(str::to_owned),
                measured: false,
            }),
            ..status
        }
    }

    fn measured(mut status: DatabaseStatus) -> DatabaseStatus {
        let loss = status.last_loss.as_mut();
        loss.expect("what was lost").measured = true;
        status
    }

    #[test]
    fn what_a_new_primary_lacks_is_named() {
        let well = status("Running", Some("a-0"), &[]);
        let mut again = status("Running", Some("a-1"), &[]);
        again.timeline = Some(3);
        let note = |to| {
            let [event] = &announcements(Some(&well), &without(again.clone(), to, 3))[..] else {
                panic!("not one Event")
            };
            assert_eq!(event.type_, EventType::Warning);
            event.note.clone()
        };
        let known = note(Some("0/3000158"));
        let lacks = "after a-0; timeline 3 began without the log before it from 0/3000000 to 0/3000158 at least: what was acknowledged there without a replica is lost; where that log ended";
        assert!(known.contains(lacks), "{known}");
        let unknown = note(None);
        let lacks = "without the log before it from 0/3000000: what was acknowledged";
        assert!(unknown.contains(lacks), "{unknown}");
    }

    #[rstest]
    #[case::nobody_knew_how_much(
        None,
        "0/3000158",
        EventType::Warning,
        "from 0/3000000 to 0/3000158 (344 bytes, with what PostgreSQL writes for itself): what was acknowledged there without a replica is lost"
    )]
    #[case::some_was_known(Some("0/3000100"), "0/3000158", EventType::Warning, "to 0/3000158 (344 bytes")]
    #[case::nothing(None, "0/3000000", EventType::Normal, "nothing is lost")]
    fn how_much_was_lost_is_told_once_the_instance_that_wrote_it_is_back(
        #[case] known: Option<&str>,
        #[case] end: &str,
        #[case] type_: EventType,
        #[case] says: &str,
    ) {
        let again = status("Running", Some("a-1"), &[]);
        let (told, back) = (
            without(again.clone(), known, 3),
            measured(without(again, Some(end), 3)),
        );
        let [event] = &announcements(Some(&told), &back)[..] else {
            panic!("not one Event")
        };
        assert_eq!((event.reason.as_str(), event.type_), ("LossMeasured", type_));
        assert!(event.note.contains(says), "{}", event.note);
        assert!(announcements(Some(&back), &back).is_empty());
        // An operator that was away tells all of it at once.
        let [event] = &announcements(Some(&status("Running", Some("a-0"), &[])), &back)[..] else {
            panic!("not one Event")
        };
        assert_eq!((event.reason.as_str(), event.type_), ("PrimaryElected", type_));
        assert!(event.note.contains(says), "{}", event.note);
    }

    #[test]
    fn what_was_lost_long_ago_is_not_told_again() {
        let well = without(status("Running", Some("a-0"), &[]), None, 2);
        let away = without(status("Degraded", None, &[]), None, 2);
        let [event] = &announcements(Some(&away), &well)[..] else {
            panic!("not one Event")
        };
        assert_eq!(event.type_, EventType::Normal, "{}", event.note);
        assert!(announcements(Some(&well), &well).is_empty());
    }

    #[test]
    fn what_was_lost_while_no_operator_looked_is_told_by_the_next() {
        let well = status("Running", Some("a-0"), &[]);
        let mut again = without(status("Running", Some("a-0"), &[]), Some("0/3000158"), 3);
        again.timeline = Some(4);
        let [event] = &announcements(Some(&well), &again)[..] else {
            panic!("not one Event")
        };
        assert_eq!(event.type_, EventType::Warning);
        assert!(event.note.contains("timeline 4"), "{}", event.note);
        assert!(event.note.contains("timeline 3 began without"), "{}", event.note);
    }

    #[test]
    fn a_failover_is_told_as_it_happens() {
        let well = status("Running", Some("a-0"), &[(AVAILABLE, "True", "Available", "")]);
        let lost = status("Degraded", None, &[(AVAILABLE, "False", "NoPrimary", "")]);
        let again = status("Running", Some("a-1"), &[(AVAILABLE, "True", "Available", "")]);
        assert_eq!(
            told(Some(&well), &lost),
            [(EventType::Warning, "NoPrimary".to_owned())]
        );
        assert_eq!(
            told(Some(&lost), &again),
            [
                (EventType::Normal, "Available".to_owned()),
                (EventType::Normal, "PrimaryElected".to_owned())
            ]
        );
        assert_eq!(
            told(Some(&well), &again),
            [(EventType::Normal, "PrimaryElected".to_owned())]
        );
        assert!(told(Some(&again), &again).is_empty());
    }

    #[test]
    fn what_is_not_done_is_a_warning_once_and_again_when_it_is_something_else() {
        let asks = |message| {
            status(
                "Creating",
                None,
                &[(CONFIGURATION_APPLIED, "False", "Unsupported", message)],
            )
        };
        let warning = [(EventType::Warning, "Unsupported".to_owned())];
        assert_eq!(told(None, &asks("spec.users")), warning);
        assert!(told(Some(&asks("spec.users")), &asks("spec.users")).is_empty());
        assert_eq!(told(Some(&asks("spec.users")), &asks("spec.databases")), warning);
    }

    #[test]
    fn what_cannot_be_made_inside_is_a_warning_once_and_again_when_it_is_something_else() {
        let lacks = |message| {
            let condition = (CONFIGURATION_APPLIED, "False", "ContentIncomplete", message);
            status("Running", Some("a-0"), &[condition])
        };
        let warning = [(EventType::Warning, "ContentIncomplete".to_owned())];
        let well = status("Running", Some("a-0"), &[]);
        assert_eq!(told(Some(&well), &lacks("spec.users[app]")), warning);
        assert!(told(Some(&lacks("spec.users[app]")), &lacks("spec.users[app]")).is_empty());
        assert_eq!(
            told(Some(&lacks("spec.users[app]")), &lacks("spec.users[b]")),
            warning
        );
    }

    #[test]
    fn that_volumes_grow_is_told_once_and_that_they_do_not_is_a_warning() {
        let (grows, refused) = (reasons::RESIZING, reasons::NOT_GROWN);
        let both = [
            (CONFIGURATION_APPLIED, "False", grows, "from 1Gi to 2Gi"),
            (PROGRESSING, "True", grows, "from 1Gi to 2Gi"),
        ];
        let before = status("Running", None, &[]);
        let growing = status("Running", None, &both);
        assert_eq!(
            told(Some(&before), &growing),
            [(EventType::Normal, grows.to_owned())]
        );
        let is_refused = |why| status("Running", None, &[(CONFIGURATION_APPLIED, "False", refused, why)]);
        let warning = [(EventType::Warning, refused.to_owned())];
        assert_eq!(told(Some(&growing), &is_refused("the class")), warning);
        assert_eq!(
            told(Some(&is_refused("the class")), &is_refused("the quota")),
            warning
        );
    }

    #[test]
    fn that_nothing_serves_at_first_is_no_reason_to_warn() {
        let begins = status("Creating", None, &[(AVAILABLE, "False", "NoPrimary", "")]);
        let normal = [(EventType::Normal, "NoPrimary".to_owned())];
        assert_eq!(told(None, &begins), normal);
        let paused = DatabaseStatus {
            phase: Some("Paused".to_owned()),
            ..begins
        };
        assert_eq!(told(None, &paused), normal);
    }
}
