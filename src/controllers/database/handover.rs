//! Who can take over from a primary that is stopped in order, and when. Pure.
//!
//! Such a primary waits for all that stream from it, however far behind they are, and is killed when that takes long. Then writes were stopped for
//! nothing: so it is stopped only while all of them are near.

use super::lag::coarse;
use crate::api::database::agent::{Lsn, Report, Standby};

/// How far behind whoever streams may be. Bytes of WAL, which are sent and applied in a moment.
pub const NEAR: u64 = 16 << 20;

/// How far a standby is behind with what it has on disk and what it has applied, whichever is more; none where that is not known. Until it has caught up it cannot
/// take over.
pub fn behind(primary: &Report, standby: &Standby) -> Option<u64> {
    let flushed = standby.flushed?;
    let has = standby.replayed.map_or(flushed, |replayed| replayed.min(flushed));
    ahead(primary, has)
}

fn ahead(primary: &Report, of: Lsn) -> Option<u64> {
    Some(primary.received?.ahead_of(of))
}

/// Whether a standby streams, and is near.
pub fn is_near(primary: &Report, standby: &Standby) -> bool {
    standby.streams() && behind(primary, standby).is_some_and(|behind| behind <= NEAR)
}

/// Whether the instance of this name is such a standby.
pub fn has_near(primary: &Report, name: &str) -> bool {
    let mut standbys = primary.standbys.iter();
    standbys.any(|standby| standby.name == name && is_near(primary, standby))
}

/// For whom a primary would wait for long if it were stopped, and by how many bytes it is behind. Whoever makes a first copy is not waited for.
pub fn straggler(primary: &Report) -> Option<(&str, u64)> {
    let sent = primary.standbys.iter().filter_map(|standby| {
        let behind = ahead(primary, standby.flushed?)?;
        Some((standby.name.as_str(), behind))
    });
    sent.filter(|(_, behind)| *behind > NEAR)
        .max_by_key(|(_, behind)| *behind)
}

/// What is to be waited for before the primary may be stopped, in words, if anything is.
pub fn too_far(primary: &Report) -> Option<String> {
    straggler(primary).map(|(name, behind)| awaited(name, Some(behind)))
}

/// Who takes over, of those that `may`: the least behind and, among equals, whom commits wait for. If nobody can yet, what is to be waited for.
///
/// # Errors
/// In words: what has to come about first.
pub fn successor(primary: &Report, may: impl Fn(&str) -> bool) -> Result<String, String> {
    let standbys = primary.standbys.iter();
    let streaming = standbys.filter(|standby| standby.streams() && may(&standby.name));
    let least = streaming.min_by_key(|standby| {
        let behind = behind(primary, standby).map_or(u64::MAX, coarse);
        (behind, !standby.synchronous, &standby.name)
    });
    let least = least.ok_or("a replica to stream, so that it can take over")?;
    if let Some(what) = too_far(primary) {
        return Err(what);
    }
    if !is_near(primary, least) {
        return Err(awaited(&least.name, behind(primary, least)));
    }
    Ok(least.name.clone())
}

/// It is told in a status: so it is as coarse as the lag there.
fn awaited(name: &str, behind: Option<u64>) -> String {
    let is = behind.map_or_else(
        || "how far it is, is not known".to_owned(),
        |behind| format!("it is about {}", coarse(behind)),
    );
    format!("{name} to be at most {NEAR} bytes of WAL behind the primary: {is}")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::controllers::database::scene::standby;

    fn primary(flushed: [u64; 2]) -> Report {
        let standby = |(name, flushed)| Standby {
            flushed: Some(Lsn(flushed)),
            replayed: None,
            ..standby(name, "streaming")
        };
        Report {
            received: Some(Lsn(1 << 40)),
            standbys: ["a-1", "a-2"].into_iter().zip(flushed).map(standby).collect(),
            ..Report::default()
        }
    }

    const AHEAD: u64 = 1 << 40;

    #[test]
    fn the_least_behind_takes_over_and_among_equals_whom_commits_wait_for() {
        let anybody = |_: &str| true;
        let far = primary([AHEAD - (8 << 20), AHEAD]);
        assert_eq!(successor(&far, anybody).as_deref(), Ok("a-2"));
        assert_eq!(successor(&far, |name| name == "a-1").as_deref(), Ok("a-1"));
        // Bytes that are on their way make no difference.
        let mut equal = primary([AHEAD - 100, AHEAD]);
        assert_eq!(successor(&equal, anybody).as_deref(), Ok("a-1"));
        equal.standbys[1].synchronous = true;
        assert_eq!(successor(&equal, anybody).as_deref(), Ok("a-2"));
    }

    #[test]
    fn nobody_takes_over_while_the_primary_would_wait_for_somebody_for_long() {
        let far = primary([AHEAD, AHEAD - (100 << 20)]);
        let why = successor(&far, |name| name == "a-1").unwrap_err();
        assert_eq!(
            why,
            "a-2 to be at most 16777216 bytes of WAL behind the primary: it is about 134217728"
        );
        assert_eq!(straggler(&far), Some(("a-2", 100 << 20)));
        let near = primary([AHEAD, AHEAD - NEAR]);
        assert_eq!(straggler(&near), None);
        assert_eq!(successor(&near, |name| name == "a-2").as_deref(), Ok("a-2"));
    }

    #[test]
    fn who_has_not_applied_what_it_has_does_not_take_over_and_holds_up_nobody_else() {
        let mut slow = primary([AHEAD, AHEAD]);
        slow.standbys[0].replayed = Some(Lsn(AHEAD - NEAR - 1));
        assert_eq!(successor(&slow, |_| true).as_deref(), Ok("a-2"));
        let why = successor(&slow, |name| name == "a-1").unwrap_err();
        assert!(why.contains("it is about 33554432"), "{why}");
    }

    #[test]
    fn what_is_not_known_is_not_taken_for_near() {
        let mut unknown = primary([AHEAD, AHEAD]);
        unknown.standbys[0].flushed = None;
        let why = successor(&unknown, |name| name == "a-1").unwrap_err();
        assert!(why.contains("not known"), "{why}");
        unknown.standbys.clear();
        assert!(successor(&unknown, |_| true).is_err());
    }
}
