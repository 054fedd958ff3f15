//! The report for a person: a line for each link, then the first thing that is wrong. Plain, so that a pipe gets what a terminal shows.

use std::io::{self, Write};

use jiff::{SignedDuration, Timestamp};

use super::{Chain, Detail, Help, Link, Mark, Quote, Report, State, Trouble};

/// Lines are no longer, but for commands, which are to be pasted.
const WIDTH: usize = 100;
/// Where the name of a link begins: after its mark and its kind.
const NAME: usize = 8 + 18;
/// Where what is told of the first thing that is wrong begins.
const TOLD: usize = 7;
/// No longer a quotation is shown, in characters: some of OLM's messages list every object of a cluster. JSON has it whole.
const QUOTED: usize = 700;

/// Writes the report.
///
/// # Errors
/// What writing fails with.
pub fn write(out: &mut impl Write, report: &Report, now: Timestamp) -> io::Result<()> {
    for (place, chain) in report.chains.iter().enumerate() {
        if place > 0 {
            writeln!(out)?;
        }
        write_chain(out, chain, now)?;
    }
    match &report.nothing {
        None => Ok(()),
        Some(trouble) => write_trouble(out, trouble),
    }
}

fn write_chain(out: &mut impl Write, chain: &Chain, now: Timestamp) -> io::Result<()> {
    writeln!(
        out,
        "Subscription {} in {}\n",
        chain.subscription, chain.namespace
    )?;
    for link in &chain.links {
        write_link(out, chain, link, now)?;
    }
    writeln!(out)?;
    let Some(first) = &chain.first else {
        return writeln!(out, "{}", without_trouble(chain.state));
    };
    let lead = match first.mark {
        Mark::Waiting => "Nothing is wrong. It waits for",
        _ => "First thing that is wrong",
    };
    let name = shown_name(&first.name, &chain.namespace);
    writeln!(out, "{lead}: {} {name}", first.kind.title())?;
    write_trouble(out, &first.trouble)
}

fn without_trouble(state: State) -> &'static str {
    match state {
        State::Well => "All is well.",
        State::Unknown => "Nothing is wrong as far as it can be read, but what is installed cannot.",
        State::InProgress | State::Wrong => "Nothing is wrong, and OLM is at work.",
    }
}

/// One line of a link, without what changes with time alone.
#[must_use]
pub fn line(chain: &Chain, link: &Link) -> String {
    let name = shown_name(&link.name, &chain.namespace);
    let name = if name.is_empty() { "-" } else { name };
    let line = format!(
        "{:<8}{:<18}{name}: {}",
        link.mark.word(),
        link.kind.title(),
        link.state
    );
    plain(&line)
}

fn write_link(out: &mut impl Write, chain: &Chain, link: &Link, now: Timestamp) -> io::Result<()> {
    let mut parts = vec![match link.since {
        Some(since) => format!("{} for {}", link.state, age(since, now)),
        None => link.state.clone(),
    }];
    parts.extend(link.details.iter().map(|(name, detail)| match detail {
        Detail::Text(text) => format!("{} {text}", words_of(name)),
        Detail::Time(time) => format!("{} {} ago", words_of(name), age(*time, now)),
    }));
    let name = shown_name(&link.name, &chain.namespace);
    let name = if name.is_empty() { "-" } else { name };
    let text = format!("{name}: {}", parts.join(", "));
    let head = format!("{:<8}{:<18}", link.mark.word(), link.kind.title());
    write_wrapped(out, &head, NAME, &text)
}

/// In the Subscription's own namespace, the name is enough.
fn shown_name<'a>(name: &'a str, namespace: &str) -> &'a str {
    name.strip_prefix(namespace)
        .and_then(|rest| rest.strip_prefix('/'))
        .unwrap_or(name)
}

/// `lastPoll` is `last poll`.
fn words_of(name: &str) -> String {
    let mut words = String::new();
    for character in name.chars() {
        if character.is_uppercase() {
            words.push(' ');
        }
        words.extend(character.to_lowercase());
    }
    words
}

fn write_trouble(out: &mut impl Write, trouble: &Trouble) -> io::Result<()> {
    write_told(out, "what", &trouble.what)?;
    let mut label = "why";
    for Quote { of, words } in &trouble.why {
        let words = shortened(words);
        let text = match of.as_str() {
            "" => words,
            of => format!("{of}: \"{words}\""),
        };
        write_told(out, label, &text)?;
        label = "";
    }
    let mut label = "helps";
    for Help { advice, command } in &trouble.helps {
        let end = if command.is_some() { ":" } else { "" };
        write_told(out, label, &format!("{advice}{end}"))?;
        if let Some(command) = command {
            writeln!(out, "{:TOLD$}  {}", "", plain(command))?;
        }
        label = "";
    }
    Ok(())
}

fn write_told(out: &mut impl Write, label: &str, text: &str) -> io::Result<()> {
    write_wrapped(out, &format!("{label:<TOLD$}"), TOLD, text)
}

/// Begins with `head`; each further line is indented as far. A word that is longer than a line has one of its own.
fn write_wrapped(out: &mut impl Write, head: &str, indent: usize, text: &str) -> io::Result<()> {
    let text = plain(text);
    let mut line = head.to_owned();
    let mut is_begun = false;
    for word in text.split_whitespace() {
        if is_begun && line.chars().count() + 1 + word.chars().count() > WIDTH {
            writeln!(out, "{}", line.trim_end())?;
            line = " ".repeat(indent);
        } else if is_begun {
            line.push(' ');
        }
        line.push_str(word);
        is_begun = true;
    }
    writeln!(out, "{}", line.trim_end())
}

/// Without what a terminal would obey: anybody may write a message.
fn plain(text: &str) -> String {
    let visible = |character: char| if character.is_control() { ' ' } else { character };
    text.chars().map(visible).collect()
}

fn shortened(words: &str) -> String {
    match words.char_indices().nth(QUOTED) {
        None => words.to_owned(),
        Some((end, _)) => format!("{}...", words[..end].trim_end()),
    }
}

/// As kubectl tells it: the largest unit, and the next one where it matters.
fn age(then: Timestamp, now: Timestamp) -> String {
    let seconds = now.duration_since(then).max(SignedDuration::ZERO).as_secs();
    let (minutes, hours, days) = (seconds / 60, seconds / 3600, seconds / 86400);
    match seconds {
        0..120 => format!("{seconds}s"),
        120..600 => match seconds % 60 {
            0 => format!("{minutes}m"),
            rest => format!("{minutes}m{rest}s"),
        },
        600..10_800 => format!("{minutes}m"),
        10_800..172_800 => format!("{hours}h"),
        _ => format!("{days}d"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rstest::rstest;

    #[rstest]
    #[case(0, "0s")]
    #[case(119, "119s")]
    #[case(125, "2m5s")]
    #[case(180, "3m")]
    #[case(5400, "90m")]
    #[case(10_800, "3h")]
    #[case(172_800, "2d")]
    fn an_age_is_told_as_kubectl_tells_it(#[case] seconds: i64, #[case] told: &str) {
        let then = Timestamp::UNIX_EPOCH;
        assert_eq!(age(then, then + SignedDuration::from_secs(seconds)), told);
        assert_eq!(age(then + SignedDuration::from_secs(seconds), then), "0s");
    }

    #[test]
    fn no_line_is_longer_than_a_terminal_and_no_message_commands_it() {
        let mut out = Vec::new();
        let long = "x".repeat(120);
        let text = format!("{} \u{1b}[31m {long}\nend", "word ".repeat(40));
        write_wrapped(&mut out, "head   ", 7, &text).unwrap();
        let out = String::from_utf8(out).unwrap();
        assert!(!out.contains('\u{1b}'));
        assert!(
            out.lines()
                .all(|line| line.len() <= WIDTH || line.contains(&long)),
            "{out}"
        );
        assert!(
            out.lines().skip(1).all(|line| line.starts_with("       ")),
            "{out}"
        );
    }

    #[test]
    fn names_of_details_are_words() {
        assert_eq!(words_of("lastPoll"), "last poll");
    }
}
