//! Tabs that are space for upstream and not for the parser: between a key's colon and its value, within braces, and where a quoted text goes on.

use std::borrow::Cow;

use saphyr_parser::{Event, Parser, ScanError, Span};

/// What the parser says of a tab behind a colon.
const BEHIND_A_COLON: &str = "':' must be followed by a valid YAML whitespace";
/// Of one in front of anything else in its line, in braces too.
const IN_FRONT: &str = "tabs disallowed within this context (block indentation)";
/// Of one where a quoted text goes on.
const IN_QUOTES: &str = "tab cannot be used as indentation";

/// So many bytes are read again at most: for each place that is mended all that stands before it.
const MOST: usize = 64 << 20;

/// The text with spaces for such tabs. Only the parser knows what is a key and what a text, so it is asked again after each.
pub(super) fn mended(text: &str) -> Cow<'_, str> {
    let mut text = Cow::Borrowed(text);
    let begins_with_tab = |line: &str| line.trim_start_matches(' ').starts_with('\t');
    if !text.contains(":\t") && !text.lines().any(begins_with_tab) {
        return text;
    }
    let mut left = MOST / text.len().max(1);
    while let Some((begin, end)) = refused(&text).filter(|_| left > 0) {
        text.to_mut().replace_range(begin..end, &" ".repeat(end - begin));
        left -= 1;
    }
    text
}

/// Where the tabs are at which the parser stops and upstream does not.
fn refused(text: &str) -> Option<(usize, usize)> {
    let mut braces = 0_usize;
    let error = Parser::new_from_str(text).find_map(|read| match read {
        Ok((event, span)) => {
            braces = braces.saturating_add_signed(deeper(&event, span));
            None
        }
        Err(error) => Some(error),
    })?;
    let place = place(text, &error)?;
    match error.info() {
        BEHIND_A_COLON => behind_a_colon(text, place),
        IN_FRONT if braces > 0 => in_front(text, place),
        IN_QUOTES => in_front(text, place),
        _ => None,
    }
}

/// The line behind the one that the parser tells, where it was a tab in front of that line's first word at which it stopped.
pub(super) fn behind(text: &str, told: usize) -> Option<usize> {
    let is_indented_by_tab = |line: &str| {
        let rest = line.trim_start_matches([' ', '\t']);
        !rest.is_empty() && line[..line.len() - rest.len()].contains('\t')
    };
    let mut lines = text.lines().skip(told.saturating_sub(1));
    let (line, next) = (lines.next()?, lines.next()?);
    (!is_indented_by_tab(line) && is_indented_by_tab(next)).then_some(told + 1)
}

/// By how many braces or brackets what follows is deeper. A block has none, and begins with nothing.
pub(super) fn deeper(event: &Event<'_>, span: Span) -> isize {
    let is_block = span.is_empty();
    match event {
        Event::MappingStart(..) | Event::SequenceStart(..) if !is_block => 1,
        Event::MappingEnd | Event::SequenceEnd if !is_block => -1,
        _ => 0,
    }
}

/// A line that begins with a tab is none for upstream, whatever stands in it.
fn behind_a_colon(text: &str, end: usize) -> Option<(usize, usize)> {
    let before = text[..end].trim_end_matches('\t');
    let begins_with_tab = before.lines().last().is_some_and(|line| line.starts_with('\t'));
    let is_meant = before.len() < end && before.ends_with(':') && !begins_with_tab;
    is_meant.then_some((before.len(), end))
}

/// What is in front of the first word in the line of this place.
fn in_front(text: &str, place: usize) -> Option<(usize, usize)> {
    let begin = text[..place].rfind('\n').map_or(0, |end| end + 1);
    let line = &text[begin..];
    let end = begin + line.len() - line.trim_start_matches([' ', '\t']).len();
    text[begin..end].contains('\t').then_some((begin, end))
}

/// In bytes; the parser counts characters.
fn place(text: &str, error: &ScanError) -> Option<usize> {
    let mut places = text.char_indices().map(|(place, _)| place);
    places.nth(error.marker().index())
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    #[rstest]
    #[case("a:\tb\n", "a: b\n")]
    #[case(
        "ä:\t\t-1\r\nb:\r\n  - c:\td\r\n    e:\t'f:\tg'\r\n",
        "ä:  -1\r\nb:\r\n  - c: d\r\n    e:\t'f:\tg'\r\n"
    )]
    #[case("a: |\n  b:\tc\nd:\te\n", "a: |\n  b:\tc\nd: e\n")]
    #[case("{a:\tb, c:\t1, d:\t[]}", "{a: b, c: 1, d:\t[]}")]
    #[case("a: [\nb:\tc", "a: [\nb:\tc")]
    #[case("\ta:\tb\n", "\ta:\tb\n")]
    #[case("a: {\n\tb: 1,\n \tc: [\n\t2]}\n", "a: {\n b: 1,\n \tc: [\n\t2]}\n")]
    #[case("a: 'b\n\tc'\nd: \"e\n \tf\"\n", "a: 'b\n c'\nd: \"e\n \tf\"\n")]
    #[case("a:\n\t- b\n", "a:\n\t- b\n")]
    fn tabs_become_spaces_where_they_are_space_for_upstream_and_nowhere_else(
        #[case] text: &str,
        #[case] expected: &str,
    ) {
        assert_eq!(mended(text), expected);
    }

    #[test]
    fn a_tab_is_told_at_its_line() {
        for text in ["a:\n  b: 1\n\tc: 2\n", "a:\n  b:\n\t- c\n", "a:\n  - b\n \t- c\n"] {
            assert_eq!(crate::olm::yaml::value(text).unwrap_err().0, 3, "{text:?}");
        }
    }

    #[test]
    fn a_text_full_of_tabs_takes_no_long_time() {
        let text = "a:\tb\n".repeat(1 << 18);
        let begun = std::time::Instant::now();
        assert_ne!(mended(&text), text);
        assert!(begun.elapsed().as_secs() < 20, "{:?}", begun.elapsed());
    }
}
