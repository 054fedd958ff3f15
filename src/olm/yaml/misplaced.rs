//! Tabs that are space for the parser and not for upstream: in front of the first word of a line that is neither within braces nor part of a text.

use saphyr_parser::{Event, Parser, ScalarStyle, Span};

use super::tabs::deeper;

/// The line, from 1, of the first tab at which upstream stops and the parser does not.
pub(super) fn misplaced(text: &str) -> Option<usize> {
    let mut leading = leading_tabs(text).peekable();
    leading.peek()?;
    let mut around = Around::default();
    let mut events = Parser::new_from_str(text).map_while(Result::ok).peekable();
    leading.find_map(|tab| {
        while let Some((event, span)) = events.next_if(|(_, span)| span.start.index() <= tab.index) {
            around.passes(&event, span);
        }
        // What is wrong with what follows the parser says itself
        let is_read = events.peek().is_some();
        (is_read && !around.takes(&tab)).then_some(tab.line)
    })
}

/// A tab with nothing in front of it in its line but spaces, or dashes of a list.
struct Leading {
    /// From 1.
    line: usize,
    /// In characters from the beginning of the text, as the parser counts.
    index: usize,
    /// In its line.
    column: usize,
    /// Whether nothing but space follows in its line.
    is_blank: bool,
    /// From here on there was nothing but space.
    blank_since: usize,
}

fn leading_tabs(text: &str) -> impl Iterator<Item = Leading> {
    let (mut next, mut written) = (0, 0);
    let lines = (1..).zip(text.split_inclusive('\n'));
    lines.filter_map(move |(line, said)| {
        let (start, blank_since) = (next, written);
        next += said.chars().count();
        let is_blank = said.trim().is_empty();
        if !is_blank {
            written = start + said.trim_end().chars().count();
        }
        let column = said.find(|it| it != ' ' && it != '-')?;
        // Each dash of a list has space behind it
        let is_leading = said[column..].starts_with('\t') && !said[..column].contains("--");
        is_leading.then_some(Leading {
            line,
            index: start + column,
            column,
            is_blank,
            blank_since,
        })
    })
}

/// What is around a place in a text, by what the parser has told until there.
#[derive(Default)]
struct Around {
    braces: usize,
    /// The columns of the mappings in blocks, and of what is within braces.
    columns: Vec<usize>,
    /// The text before it, or that it is in.
    text: Option<Text>,
}

struct Text {
    style: ScalarStyle,
    end: usize,
    /// So many spaces are in front of what goes on with it.
    indentation: usize,
}

impl Around {
    fn passes(&mut self, event: &Event<'_>, span: Span) {
        self.braces = self.braces.saturating_add_signed(deeper(event, span));
        self.text = None;
        match event {
            Event::MappingStart(..) => self.columns.push(span.start.col()),
            Event::MappingEnd => drop(self.columns.pop()),
            Event::Scalar(_, style, ..) => {
                let is_block = matches!(style, ScalarStyle::Literal | ScalarStyle::Folded);
                let above = self.columns.last().map_or(0, |column| column + 1);
                self.text = Some(Text {
                    style: *style,
                    end: span.end.index(),
                    indentation: if is_block { span.start.col() } else { above },
                });
            }
            _ => {}
        }
    }

    /// Whether upstream takes a tab here, too.
    fn takes(&self, tab: &Leading) -> bool {
        let is_text = self.text.as_ref().is_some_and(|text| {
            let is_indented = tab.column >= text.indentation;
            match text.style {
                ScalarStyle::Literal | ScalarStyle::Folded => {
                    is_indented && (tab.index < text.end || tab.is_blank)
                }
                // Upstream looks whether it goes on behind lines that are blank
                ScalarStyle::Plain => {
                    tab.index < text.end || (is_indented && tab.is_blank && tab.blank_since == text.end)
                }
                ScalarStyle::SingleQuoted | ScalarStyle::DoubleQuoted => tab.index < text.end,
            }
        });
        self.braces > 0 || is_text
    }
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    /// As `sigs.k8s.io/yaml` 1.6 does.
    #[rstest]
    #[case::at_first("\ta: 1\n", Some(1))]
    #[case::a_blank_line_at_first("\t\na: 1\n", Some(1))]
    #[case::behind_spaces("\n \ta: 1\n", Some(2))]
    #[case::a_comment("\t# c\na: 1\n", Some(1))]
    #[case::in_a_blank_line("a: 1\n\t\n", Some(2))]
    #[case::in_a_blank_line_behind_a_comment("a: b # c\n  \t\n", Some(2))]
    #[case::behind_quotes("a: 'b'\n \t\nc: 1\n", Some(2))]
    #[case::before_a_value("a:\n  \tb\n", Some(2))]
    #[case::behind_a_dash("a:\n- b\n-\tb: c\n", Some(3))]
    #[case::in_a_blank_line_of_a_block("a: |\n  b\n\t\nc: 1\n", Some(3))]
    #[case::behind_a_block("a: >\n  b\n  \tc\n\n\t\n", Some(5))]
    #[case::in_a_block("a: |\n  b\n  \tc\n  \t\n", None)]
    #[case::in_quotes("a: 'ä\n \tc'\n", None)]
    #[case::in_a_plain_text("a: b\n  \tc\n", None)]
    #[case::in_a_blank_line_that_is_deeper("a: b  \n  \t \n\n", None)]
    #[case::in_braces("a: [1, # c\n\t# d\n\t2]\n", None)]
    #[case::behind_a_mark("---\t# c\na: 1\n", None)]
    #[case::behind_a_value("a: 1\t# c\n", None)]
    #[case::in_what_is_no_yaml_at_all("a: [\n---\n\tb: 1\n", None)]
    fn a_tab_is_refused_in_the_line_in_which_upstream_refuses_it(
        #[case] text: &str,
        #[case] expected: Option<usize>,
    ) {
        assert_eq!(misplaced(text), expected);
    }

    #[test]
    fn a_text_full_of_tabs_takes_no_long_time() {
        let text = "a: b\n  \t\n".repeat(1 << 18);
        let begun = std::time::Instant::now();
        assert_eq!(misplaced(&text), None);
        assert!(begun.elapsed().as_secs() < 20, "{:?}", begun.elapsed());
    }
}
