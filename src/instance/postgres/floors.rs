//! Settings of which a replica needs at least as much as its primary had: with less, PostgreSQL does not start as one. Pure.
//!
//! So a replica goes by what its control file says of the primary where the author asks for less, and takes the author's value once the primary has. The
//! same is why such a setting is lowered on the primary first, and raised on replicas first.

use std::collections::BTreeMap;

/// Such settings, with what `pg_controldata` calls them and PostgreSQL's own value. `max_wal_senders` is one too, and the same for all.
const SETTINGS: [(&str, &str, u64); 4] = [
    ("max_connections", "max_connections setting", 100),
    ("max_worker_processes", "max_worker_processes setting", 8),
    ("max_prepared_transactions", "max_prepared_xacts setting", 0),
    ("max_locks_per_transaction", "max_locks_per_xact setting", 64),
];

type Parameters = BTreeMap<String, String>;

/// What a replica's primary had when it last said so, by the names of the settings.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Floors(BTreeMap<&'static str, u64>);

impl Floors {
    /// From the lines of `pg_controldata`. What it does not say is no floor.
    pub(super) fn parse(values: &BTreeMap<&str, &str>) -> Self {
        let found = SETTINGS.iter().filter_map(|(name, printed, _)| {
            let value = values.get(printed)?.parse().ok()?;
            Some((*name, value))
        });
        Self(found.collect())
    }

    /// What a replica has to go by instead of these, where they are too little.
    pub fn raised(&self, parameters: &Parameters) -> Parameters {
        let below = |(name, floor): &(&&'static str, &u64)| {
            asked(name, parameters).is_some_and(|asked| asked < **floor)
        };
        let raised = self.0.iter().filter(below);
        raised
            .map(|(name, floor)| ((*name).to_owned(), floor.to_string()))
            .collect()
    }
}

/// Whether a setting of this kind runs with more than is asked for.
pub fn is_lowered(name: &str, running: &str, parameters: &Parameters) -> bool {
    let asked = asked(name, parameters);
    asked
        .zip(running.parse::<u64>().ok())
        .is_some_and(|(asked, running)| asked < running)
}

/// None for other settings, and for what is no plain number.
fn asked(name: &str, parameters: &Parameters) -> Option<u64> {
    let (_, _, default) = SETTINGS.iter().find(|(known, ..)| *known == name)?;
    match parameters.get(name) {
        Some(value) => value.trim().parse().ok(),
        None => Some(*default),
    }
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    fn parameters(values: &[(&str, &str)]) -> Parameters {
        let owned = values
            .iter()
            .map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
        owned.collect()
    }

    fn floors() -> Floors {
        let printed = BTreeMap::from([
            ("max_connections setting", "200"),
            ("max_worker_processes setting", "8"),
            ("max_prepared_xacts setting", "10"),
            ("max_locks_per_xact setting", "nonsense"),
            ("max_wal_senders setting", "20"),
        ]);
        Floors::parse(&printed)
    }

    #[rstest]
    #[case::less(&[("max_connections", "50")], &[("max_connections", "200"), ("max_prepared_transactions", "10")])]
    #[case::as_much(&[("max_connections", "200"), ("max_prepared_transactions", "10")], &[])]
    #[case::more(&[("max_connections", "300"), ("max_prepared_transactions", "11")], &[])]
    #[case::not_said(&[], &[("max_connections", "200"), ("max_prepared_transactions", "10")])]
    #[case::no_number(&[("max_connections", "many"), ("max_prepared_transactions", "10")], &[])]
    fn a_replica_never_has_less_than_its_primary_had(
        #[case] asked: &[(&str, &str)],
        #[case] raised: &[(&str, &str)],
    ) {
        assert_eq!(floors().raised(&parameters(asked)), parameters(raised));
        assert_eq!(Floors::default().raised(&parameters(asked)), Parameters::new());
    }

    #[rstest]
    #[case::lowered("max_connections", "100", &[("max_connections", "50")], true)]
    #[case::raised("max_connections", "100", &[("max_connections", "150")], false)]
    #[case::taken_out("max_prepared_transactions", "10", &[], true)]
    #[case::another("shared_buffers", "16384", &[("shared_buffers", "64")], false)]
    fn only_what_replicas_must_have_as_much_of_is_lowered_on_the_primary_first(
        #[case] name: &str,
        #[case] running: &str,
        #[case] asked: &[(&str, &str)],
        #[case] lowered: bool,
    ) {
        assert_eq!(is_lowered(name, running, &parameters(asked)), lowered);
    }
}
