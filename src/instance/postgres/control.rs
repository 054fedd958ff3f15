//! What `pg_controldata` prints. Pure.

use std::collections::BTreeMap;

use super::floors::Floors;
use super::protocol::Stored;
use crate::api::database::agent::Lsn;

/// Reads what `pg_controldata` prints in English, and says besides; what is wrong if it is not to be trusted.
///
/// A server that was killed may have written less to disk than its control file hopes for, but never more: it is the least that there is.
pub(super) fn parse(output: &str, said: &str, standby: bool) -> Result<Stored, String> {
    // Of a damaged file it prints whatever is in it, and ends well. Before 17 it warned on the same output.
    let warnings = output.lines().filter(|line| line.starts_with("WARNING"));
    let mut warnings = warnings.chain(said.lines().filter(|line| line.contains(": warning: ")));
    if let Some(warning) = warnings.next() {
        return Err(warning.to_owned());
    }
    let values: BTreeMap<&str, &str> = output
        .lines()
        .filter_map(|line| line.split_once(':'))
        .map(|(name, value)| (name, value.trim()))
        .collect();
    let value = |name: &str| {
        let value = values.get(name).copied();
        value.ok_or_else(|| format!("pg_controldata says nothing of '{name}'"))
    };
    let number = |name: &str| {
        let text = value(name)?;
        text.parse::<u32>()
            .map_err(|_| format!("pg_controldata says '{text}' of '{name}'"))
    };
    let position = |name: &str| {
        let text = value(name)?;
        text.parse::<Lsn>()
            .map_err(|error| format!("pg_controldata, of '{name}': {error}"))
    };
    let checkpoint = number("Latest checkpoint's TimeLineID")?;
    let recovered = number("Min recovery ending loc's timeline")?;
    let state = value("Database cluster state")?;
    let segment = number("Bytes per WAL segment")?;
    Ok(Stored {
        system_identifier: value("Database system identifier")?.to_owned(),
        timeline: checkpoint.max(recovered),
        standby,
        clean: ["shut down", "shut down in recovery"].contains(&state),
        end: position("Latest checkpoint location")?.max(position("Minimum recovery ending location")?),
        segment: u64::from(segment.max(1)),
        floors: Floors::parse(&values),
    })
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    fn printed(state: &str, checkpoint: u32, recovered: u32) -> String {
        format!(
            "pg_control version number:            1300\n\
             Database system identifier:           7710919500921388835\n\
             Database cluster state:               {state}\n\
             pg_control last modified:             Sun Nov 22 09:05:52 2026\n\
             Latest checkpoint location:           0/3000028\n\
             Latest checkpoint's TimeLineID:       {checkpoint}\n\
             Latest checkpoint's oldestCommitTsXid:0\n\
             Minimum recovery ending location:     {recovered}/1000\n\
             Min recovery ending loc's timeline:   {recovered}\n\
             Bytes per WAL segment:                16777216\n"
        )
    }

    #[rstest]
    #[case::of_a_primary("shut down", 3, 0, 3, true)]
    #[case::of_a_replica("shut down in recovery", 3, 4, 4, true)]
    #[case::killed("in production", 3, 0, 3, false)]
    #[case::killed_replica("in archive recovery", 2, 2, 2, false)]
    #[case::killed_while_it_stopped("shutting down", 2, 0, 2, false)]
    fn data_goes_up_to_the_later_of_two_timelines(
        #[case] state: &str,
        #[case] checkpoint: u32,
        #[case] recovered: u32,
        #[case] timeline: u32,
        #[case] clean: bool,
    ) {
        let stored = parse(&printed(state, checkpoint, recovered), "", true).unwrap();
        assert_eq!(
            stored,
            Stored {
                system_identifier: "7710919500921388835".to_owned(),
                timeline,
                standby: true,
                clean,
                end: Lsn(if recovered > 0 {
                    u64::from(recovered) << 32 | 0x1000
                } else {
                    0x300_0028
                }),
                segment: 16 << 20,
                floors: Floors::default(),
            }
        );
    }

    #[rstest]
    #[case::spoilt(
        "WARNING: Calculated CRC checksum does not match value stored in file.\n",
        "CRC"
    )]
    #[case::cut("Database system identifier: 1\n", "Latest checkpoint's TimeLineID")]
    #[case::no_number("Latest checkpoint's TimeLineID: x\n", "'x'")]
    fn what_cannot_be_trusted_is_told(#[case] output: &str, #[case] told: &str) {
        let error = parse(output, "", false).unwrap_err();
        assert!(error.contains(told), "{error}");
    }

    #[test]
    fn later_versions_warn_apart() {
        let said = "pg_controldata: warning: calculated CRC checksum does not match value stored in control file\n\
                    pg_controldata: detail: Either the control file is corrupt, or it has a different layout.\n";
        let error = parse(&printed("in production", 1, 0), said, false).unwrap_err();
        assert!(error.contains("CRC"), "{error}");
    }
}
