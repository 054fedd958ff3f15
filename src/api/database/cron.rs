//! The schedules that a CronJob accepts: those of robfig/cron's standard parser, which Kubernetes asks, less the oddities
//! that it lets pass (`*-5`, empty lists, time zones inside the expression), and less those that name no day there is: a
//! backup that never runs is worse than one that is refused.

use super::limits::MAX_SCHEDULE;

/// What [`is_schedule`] accepts, in words.
pub(super) const SCHEDULE: &str = "a cron expression of five fields (minute, hour, day of the month, month, day of the week from 0 to 6) \
     such as \"0 2 * * *\", or @hourly, @daily, @weekly, @monthly, @yearly or @every with hours and minutes, that comes up at some time";

/// The least and the greatest value of a field, and its names, which count from the least.
struct Field {
    least: u32,
    greatest: u32,
    names: &'static [&'static str],
    /// A value without names, as a regular expression.
    digits: &'static str,
}

const MONTHS: [&str; 12] = [
    "jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec",
];
const DAYS: [&str; 7] = ["sun", "mon", "tue", "wed", "thu", "fri", "sat"];

const fn field(least: u32, greatest: u32, names: &'static [&'static str], digits: &'static str) -> Field {
    Field {
        least,
        greatest,
        names,
        digits,
    }
}

const FIELDS: [Field; 5] = [
    field(0, 59, &[], "[0-5]?[0-9]"),
    field(0, 23, &[], "[01]?[0-9]|2[0-3]"),
    field(1, 31, &[], "0?[1-9]|[12][0-9]|3[01]"),
    field(1, 12, &MONTHS, "0?[1-9]|1[0-2]"),
    field(0, 6, &DAYS, "0?[0-6]"),
];

/// Whether a CronJob takes it and runs at some time.
pub(super) fn is_schedule(text: &str) -> bool {
    if text.len() > MAX_SCHEDULE {
        return false;
    }
    match text.strip_prefix('@') {
        Some("yearly" | "annually" | "monthly" | "weekly" | "daily" | "midnight" | "hourly") => true,
        Some(other) => other.strip_prefix("every ").is_some_and(is_period),
        None => is_fields(text),
    }
}

/// Hours and minutes: a Job that starts each second is a slip.
fn is_period(text: &str) -> bool {
    let (hours, minutes) = text
        .split_once('h')
        .map_or((None, text), |(hours, rest)| (Some(hours), rest));
    let is_count = |text: &str| {
        (1..=4).contains(&text.len())
            && !text.starts_with('0')
            && text.bytes().all(|byte| byte.is_ascii_digit())
    };
    let has_minutes = minutes.strip_suffix('m').is_some_and(is_count);
    hours.map_or(has_minutes, |hours| {
        is_count(hours) && (minutes.is_empty() || has_minutes)
    })
}

fn is_fields(text: &str) -> bool {
    let parts: Vec<&str> = text.split(' ').filter(|part| !part.is_empty()).collect();
    if parts.len() != FIELDS.len() {
        return false;
    }
    let sets: Option<Vec<u64>> = FIELDS
        .iter()
        .zip(&parts)
        .map(|(field, part)| values(field, part))
        .collect();
    let Some([_, _, days, months, _]) = sets.as_deref() else {
        return false;
    };
    // Where a day of the week is named beside the day of the month, either is enough; see crontab(5).
    let any_weekday = parts[4].split(',').any(is_every);
    !any_weekday || parts[2].split(',').any(is_every) || comes_up(*days, *months)
}

/// `*` or the like, which robfig/cron takes for "this field does not decide".
fn is_every(range: &str) -> bool {
    matches!(range, "*" | "?" | "*/1" | "?/1")
}

/// Whether one of the months has one of the days, in a leap year.
fn comes_up(days: u64, months: u64) -> bool {
    const LAST: [u32; 12] = [31, 29, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31];
    (1_u32..)
        .zip(LAST)
        .any(|(month, last)| months >> month & 1 == 1 && (1..=last).any(|day| days >> day & 1 == 1))
}

/// The values that a list of ranges names, as bits.
fn values(field: &Field, list: &str) -> Option<u64> {
    list.split(',')
        .try_fold(0, |bits, range| Some(bits | values_of_range(field, range)?))
}

fn values_of_range(field: &Field, text: &str) -> Option<u64> {
    let (range, step) = match text.split_once('/') {
        Some((range, step)) => (range, Some(number(step, 3).filter(|step| *step > 0)?)),
        None => (text, None),
    };
    let (first, last) = match (range, range.split_once('-')) {
        ("*" | "?", _) => (field.least, field.greatest),
        (_, Some((first, last))) => (value(field, first)?, value(field, last)?),
        // "5/10" is every tenth from the fifth on.
        (_, None) => {
            let first = value(field, range)?;
            (first, if step.is_some() { field.greatest } else { first })
        }
    };
    if first < field.least || last > field.greatest || first > last {
        return None;
    }
    let step = usize::try_from(step.unwrap_or(1)).ok()?;
    Some(
        (first..=last)
            .step_by(step)
            .fold(0, |bits, value| bits | 1 << value),
    )
}

fn value(field: &Field, text: &str) -> Option<u32> {
    let named = (field.least..)
        .zip(field.names)
        .find(|(_, name)| text.eq_ignore_ascii_case(name));
    named.map(|(value, _)| value).or_else(|| number(text, 2))
}

fn number(text: &str, most_digits: usize) -> Option<u32> {
    let is_number = (1..=most_digits).contains(&text.len()) && text.bytes().all(|byte| byte.is_ascii_digit());
    is_number.then(|| text.parse().ok())?
}

/// As much of [`is_schedule`] as a regular expression can say: not the order of a range, and not whether its day exists.
pub(super) fn pattern() -> String {
    let fields = FIELDS.map(|field| {
        let value = [&[field.digits], field.names].concat().join("|");
        let range = format!(r"([*?]|({value})(-({value}))?)(/0*[1-9][0-9]{{0,2}})?");
        format!("{range}(,{range})*")
    });
    let count = "[1-9][0-9]{0,3}";
    format!(
        "^((?i: *{} *)|@(yearly|annually|monthly|weekly|daily|midnight|hourly)|@every ({count}h({count}m)?|{count}m))$",
        fields.join(" +")
    )
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    #[rstest]
    #[case::nightly("0 2 * * *")]
    #[case::spaces(" 0  2 * * * ")]
    #[case::question_mark("0 2 ? * *")]
    #[case::list("0,30 2 * * *")]
    #[case::range("0 2-4 * * *")]
    #[case::steps("*/15 * * * *")]
    #[case::steps_of_a_range("10-40/10 * * * *")]
    #[case::steps_from_a_value("5/10 * * * *")]
    #[case::step_beyond_the_field("*/90 * * * *")]
    #[case::leading_zeros("00 02 01 01 00")]
    #[case::names("0 2 * jan,FEB mon-Fri")]
    #[case::last_values("59 23 31 12 6")]
    #[case::leap_day("0 0 29 2 *")]
    #[case::a_day_that_some_months_lack("0 0 31 * *")]
    #[case::a_day_that_never_is_or_a_weekday("0 0 30 2 mon")]
    #[case::steps_that_leave_a_day("0 0 30/1 1-2 *")]
    #[case::hourly("@hourly")]
    #[case::daily("@daily")]
    #[case::midnight("@midnight")]
    #[case::weekly("@weekly")]
    #[case::monthly("@monthly")]
    #[case::yearly("@yearly")]
    #[case::annually("@annually")]
    #[case::every_hour_and_a_half("@every 1h30m")]
    #[case::every_minutes("@every 90m")]
    #[case::every_hours("@every 6h")]
    fn a_cron_job_takes_it(#[case] text: &str) {
        assert!(is_schedule(text));
    }

    #[rstest]
    #[case::nothing("")]
    #[case::spaces("     ")]
    #[case::word("nightly")]
    #[case::four_fields("0 2 * *")]
    #[case::six_fields("0 0 2 * * *")]
    #[case::minute("60 2 * * *")]
    #[case::hour("0 24 * * *")]
    #[case::no_day("0 2 0 * *")]
    #[case::day("0 2 32 * *")]
    #[case::month("0 2 * 13 *")]
    #[case::sunday_as_seven("0 2 * * 7")]
    #[case::name_of_another_field("0 2 * mon *")]
    #[case::long_name("0 2 * january *")]
    #[case::backwards("0 4-2 * * *")]
    #[case::no_end("0 4- * * *")]
    #[case::no_start("0 -4 * * *")]
    #[case::three_ends("0 1-2-3 * * *")]
    #[case::no_step("*/ * * * *")]
    #[case::step_zero("*/0 * * * *")]
    #[case::two_steps("*/2/3 * * * *")]
    #[case::empty_element("0, 2 * * *")]
    #[case::only_a_comma(", 2 * * *")]
    #[case::range_from_star("*-5 2 * * *")]
    #[case::last_day("0 2 L * *")]
    #[case::second_friday("0 2 * * fri#2")]
    #[case::sign("+5 2 * * *")]
    #[case::no_such_day("0 0 30 2 *")]
    #[case::no_such_days("0 0 31 feb,apr,jun,sep,nov *")]
    #[case::steps_that_leave_no_day("0 0 30/1 2 *")]
    #[case::time_zone("TZ=UTC 0 2 * * *")]
    #[case::newline("0 2 * * *\n")]
    #[case::tab("0\t2 * * *")]
    #[case::reboot("@reboot")]
    #[case::capitals("@Daily")]
    #[case::every_nothing("@every ")]
    #[case::every_second("@every 1s")]
    #[case::every_zero("@every 0h")]
    #[case::every_unit_missing("@every 5")]
    #[case::long(&format!("0 2 * * 0{}", ",0".repeat(46)))]
    fn it_never_runs_or_is_refused(#[case] text: &str) {
        assert!(!is_schedule(text));
    }
}
