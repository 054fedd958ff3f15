//! Which settings PostgreSQL knows. With one name in its configuration that it does not know, it takes nothing of the file at a reload, and does not start.

use super::is_owned;
use super::table::KNOWN;
use crate::api::database::limits::MAX_MAJOR;

/// How many letters have to be put in, taken out or replaced at most to make a name of the one that is proposed for it.
const NEAR: usize = 2;

/// The settings that PostgreSQL of this major version takes in its configuration, in lower case and in order: those that the operator owns among them, and none
/// of an extension. Empty for a major version that is not supported.
pub fn settings_of(major: u32) -> impl Iterator<Item = &'static str> {
    let has = move |(_, first, last): &&(&str, u32, u32)| (*first..=*last).contains(&major);
    KNOWN.iter().filter(has).map(|(name, ..)| *name)
}

/// What is asked for instead of this name, where PostgreSQL of this major version does not know it. Of a major version that nobody can tell, any will do.
/// Names with dots are those of extensions, for which PostgreSQL keeps a place.
pub(in crate::api::database) fn unknown(name: &str, major: Option<u32>) -> Option<String> {
    if name.contains('.') {
        return None;
    }
    let name = name.to_ascii_lowercase();
    let found = KNOWN
        .binary_search_by(|(known, ..)| (*known).cmp(name.as_str()))
        .ok()
        .and_then(|at| KNOWN.get(at));
    let Some(major) = major else {
        return found.is_none().then(|| "a setting of PostgreSQL".to_owned());
    };
    let more = match found {
        Some((_, first, last)) if (*first..=*last).contains(&major) => return None,
        Some((_, first, last)) if *last == MAX_MAJOR => format!(", which has this one from {first} on"),
        Some((_, _, last)) => format!(", which had this one up to {last}"),
        None => nearest(&name, major).map_or_else(String::new, |near| format!(": perhaps {near}")),
    };
    Some(format!("a setting of PostgreSQL {major}{more}"))
}

/// The setting that differs the least from this one, of those that are the author's to make.
fn nearest(name: &str, major: u32) -> Option<&'static str> {
    settings_of(major)
        .filter(|known| known.len().abs_diff(name.len()) <= NEAR && !is_owned(known))
        .map(|known| (strsim::levenshtein(name, known), known))
        .filter(|(distance, _)| *distance <= NEAR)
        .min()
        .map(|(_, known)| known)
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;
    use crate::api::database::limits::MIN_MAJOR;

    #[test]
    fn the_table_is_in_order_in_lower_case_and_of_supported_versions() {
        assert!(KNOWN.windows(2).all(|pair| pair[0].0 < pair[1].0));
        for (name, first, last) in KNOWN {
            assert_eq!(name, name.to_ascii_lowercase());
            assert!(MIN_MAJOR <= first && first <= last && last <= MAX_MAJOR, "{name}");
        }
    }

    #[rstest]
    #[case::plain("work_mem", 14)]
    #[case::capitals("Work_MEM", 18)]
    #[case::capitals_of_its_own("datestyle", 17)]
    #[case::before_it_went("force_parallel_mode", 15)]
    #[case::the_last_that_had_it("old_snapshot_threshold", 16)]
    #[case::the_first_that_has_it("debug_parallel_query", 16)]
    #[case::a_former_name("sort_mem", 17)]
    #[case::of_an_extension("pg_stat_statements.trakc", 17)]
    #[case::of_nobody_yet("no.such.thing", 14)]
    fn what_postgresql_knows_passes(#[case] name: &str, #[case] major: u32) {
        assert_eq!(unknown(name, Some(major)), None);
        assert_eq!(unknown(name, None), None);
    }

    #[rstest]
    #[case::a_letter_more("work_memm", 17, "a setting of PostgreSQL 17: perhaps work_mem")]
    #[case::letters_swapped("WORK_MME", 17, "a setting of PostgreSQL 17: perhaps work_mem")]
    #[case::nothing_near("banana", 14, "a setting of PostgreSQL 14")]
    #[case::three_letters_off("work_memory", 14, "a setting of PostgreSQL 14")]
    #[case::gone(
        "force_parallel_mode",
        16,
        "a setting of PostgreSQL 16, which had this one up to 15"
    )]
    #[case::gone(
        "old_snapshot_threshold",
        17,
        "a setting of PostgreSQL 17, which had this one up to 16"
    )]
    #[case::not_yet("io_method", 17, "a setting of PostgreSQL 17, which has this one from 18 on")]
    #[case::near_to_one_of_the_operator("prot", 17, "a setting of PostgreSQL 17")]
    #[case::near_to_one_of_a_later_version("io_methodd", 17, "a setting of PostgreSQL 17")]
    #[case::only_shown("huge_pages_status", 17, "a setting of PostgreSQL 17")]
    fn what_it_does_not_know_is_refused_with_what_it_knows(
        #[case] name: &str,
        #[case] major: u32,
        #[case] expected: &str,
    ) {
        assert_eq!(unknown(name, Some(major)).as_deref(), Some(expected));
    }

    #[test]
    fn of_a_version_that_nobody_can_tell_any_name_will_do() {
        assert_eq!(unknown("io_method", None), None);
        assert_eq!(
            unknown("banana", None).as_deref(),
            Some("a setting of PostgreSQL")
        );
    }
}
