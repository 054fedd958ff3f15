//! Three years of several replicas, of which each reads the Secret when it happens to.

use super::*;
use crate::pki::testing::{SUBJECT, at};
use crate::pki::trust::vouches;
use proptest::prelude::*;
use rustls::pki_types::CertificateDer;

const HOST: &str = "a.ns.svc";
const REPLICAS: usize = 3;
const END: i64 = 3 * 365;

fn step(data: &Data, names: &BTreeSet<String>, now: Timestamp) -> Result<Step, IssueError> {
    super::step(data, &SUBJECT, names, now)
}

/// A replica looks after so many minutes, and what it has injected is as old as its last look.
fn looks() -> impl Strategy<Value = Vec<(usize, i64)>> {
    // On average a look of some replica every six hours: over three years some 4,400.
    prop::collection::vec((0..REPLICAS, 1..720_i64), 400..500)
}

fn authorities(served: &Served) -> &[CertificateDer<'static>] {
    match &served.trust {
        Trust::Authorities(authorities) => authorities,
        Trust::Theirs => &[],
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2, ..ProptestConfig::default() })]

    /// Whatever any replica serves verifies against what any other has seen, as long as each looks at least once in a [`OVERLAP`]:
    /// the Secret may have been changed by one while the others go by what they read before.
    #[test]
    fn what_any_replica_serves_verifies_against_what_any_replica_has_read(looks in looks()) {
        let names = [HOST.to_owned()].into();
        let (mut data, mut now) = (Data::new(), at(0));
        let mut replicas: Vec<Option<(Timestamp, Served)>> = vec![None; REPLICAS];
        let (mut rotations, mut renewals) = (0, 0);
        for (replica, minutes) in looks.iter().cycle() {
            if now >= at(END) {
                break;
            }
            now += SignedDuration::from_mins(*minutes);
            // Nobody is silent for the overlap: whoever would be looks now.
            let late = |seen: &Option<(Timestamp, Served)>| {
                seen.as_ref().is_none_or(|(when, _)| now.duration_since(*when) > OVERLAP / 2)
            };
            let due: Vec<usize> = (0..REPLICAS).filter(|other| other == replica || late(&replicas[*other])).collect();
            for looking in due {
                let step = step(&data, &names, now).unwrap();
                if let Some(write) = step.write {
                    rotations += usize::from(write.data[AUTHORITY_KEY] != *data.get(AUTHORITY_KEY).unwrap_or(&ByteString::default()));
                    renewals += usize::from(write.data[KEY] != *data.get(KEY).unwrap_or(&ByteString::default()));
                    data = write.data;
                }
                replicas[looking] = Some((now, step.served));
            }
            let mut seen: Vec<&Served> = replicas.iter().flatten().map(|(_, served)| served).collect();
            seen.dedup();
            for server in &seen {
                for injector in &seen {
                    prop_assert!(
                        vouches(authorities(injector), &server.pair, HOST, now),
                        "{now}: {:?} is served", server.pair
                    );
                }
            }
        }
        // Otherwise nothing was shown.
        prop_assert_eq!(rotations, 5);
        prop_assert!((18..30).contains(&renewals), "{}", renewals);
    }
}
