//! Tabs between a key's colon and its value, which upstream takes for the space that YAML asks for there, and the parser does not.

use std::borrow::Cow;

use saphyr_parser::{Parser, ScanError};

/// What the parser says of them.
const REFUSED: &str = "':' must be followed by a valid YAML whitespace";

/// So many bytes are read again at most: for each place that is mended all that stands before it.
const MOST: usize = 64 << 20;

/// The text with spaces for such tabs. Only the parser knows where a colon ends a key and is no part of a text, so it is asked again after each.
pub(super) fn mended(text: &str) -> Cow<'_, str> {
    let mut text = Cow::Borrowed(text);
    if !text.contains(":\t") {
        return text;
    }
    let mut left = MOST / text.len().max(1);
    while let Some((begin, end)) = refused(&text).filter(|_| left > 0) {
        text.to_mut().replace_range(begin..end, &" ".repeat(end - begin));
        left -= 1;
    }
    text
}

/// Where the tabs are at which the parser stops. A line that begins with a tab is none for upstream, whatever stands in it.
fn refused(text: &str) -> Option<(usize, usize)> {
    let error = Parser::new_from_str(text).find_map(Result::err)?;
    let end = place(text, &error).filter(|_| error.info() == REFUSED)?;
    let before = text[..end].trim_end_matches('\t');
    let begins_with_tab = before.lines().last().is_some_and(|line| line.starts_with('\t'));
    let is_meant = before.len() < end && before.ends_with(':') && !begins_with_tab;
    is_meant.then_some((before.len(), end))
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
    fn tabs_become_spaces_where_they_part_a_value_from_its_key_and_nowhere_else(
        #[case] text: &str,
        #[case] expected: &str,
    ) {
        assert_eq!(mended(text), expected);
    }

    #[test]
    fn a_text_full_of_tabs_takes_no_long_time() {
        let text = "a:\tb\n".repeat(1 << 18);
        let begun = std::time::Instant::now();
        assert_ne!(mended(&text), text);
        assert!(begun.elapsed().as_secs() < 20, "{:?}", begun.elapsed());
    }
}
