//! The line of a field, by the path of keys that leads to it: the reader of YAML keeps no places.

use std::collections::BTreeMap;

use super::pointer::escaped;

/// The lines of a document's fields, by the JSON pointers that lead to them.
#[derive(Debug)]
pub(super) struct Lines {
    first: usize,
    fields: BTreeMap<String, usize>,
}

/// A map's or a list's entry to which lines that stand further in belong.
struct Entry {
    indent: usize,
    pointer: String,
    is_item: bool,
    /// How many items it was found to have.
    items: usize,
}

impl Lines {
    /// Reads a document whose first line is counted as `first`.
    pub(super) fn of(document: &str, first: usize) -> Self {
        let mut lines = Self {
            first,
            fields: BTreeMap::new(),
        };
        let mut open = Vec::new();
        for (index, line) in document.lines().enumerate() {
            let text = line.trim_start();
            if !text.is_empty() && !text.starts_with('#') && !text.starts_with("---") {
                let indent = line.len() - text.len();
                lines.note("", first + index);
                lines.read(&mut open, indent, text, first + index);
            }
        }
        lines
    }

    /// The line of what a pointer leads to; of the last part of the way that is found where it does not lead on, such as in a list within brackets.
    pub(super) fn line(&self, pointer: &str) -> usize {
        let mut way = pointer;
        loop {
            match (self.fields.get(way), way.rfind('/')) {
                (Some(line), _) => return *line,
                (None, Some(end)) => way = &way[..end],
                (None, None) => return self.first,
            }
        }
    }

    /// Of what is there twice, the first counts.
    fn note(&mut self, pointer: &str, line: usize) {
        if !self.fields.contains_key(pointer) {
            self.fields.insert(pointer.to_owned(), line);
        }
    }

    /// What one line opens: an item, a key, or an item and what follows its dash.
    fn read(&mut self, open: &mut Vec<Entry>, mut indent: usize, mut text: &str, line: usize) {
        loop {
            // A list may stand at the indentation of its key
            let is_over = |entry: &Entry| {
                entry.indent > indent || entry.indent == indent && (entry.is_item || !is_item(text))
            };
            while open.pop_if(|entry| is_over(entry)).is_some() {}
            let parent = open.last_mut();
            // An object of JSON within a list; the outermost one is no item
            let is_brace = text.starts_with('{') && parent.is_some();
            let is_item = is_item(text) || is_brace;
            let pointer = match (parent, is_item) {
                (Some(parent), true) => {
                    parent.items += 1;
                    format!("{}/{}", parent.pointer, parent.items - 1)
                }
                (None, true) => return,
                (parent, false) => match key_of(text) {
                    Some(key) => {
                        let parent = parent.map_or("", |parent| parent.pointer.as_str());
                        format!("{parent}/{}", escaped(key))
                    }
                    None => return,
                },
            };
            self.note(&pointer, line);
            open.push(Entry {
                indent,
                pointer,
                is_item,
                items: 0,
            });
            let inner = text.trim_start_matches('-').trim_start();
            if !is_item || is_brace || inner.is_empty() {
                return;
            }
            indent += text.len() - inner.len();
            text = inner;
        }
    }
}

fn is_item(text: &str) -> bool {
    text == "-" || text.starts_with("- ")
}

/// The key with which a line begins, without its quotes.
fn key_of(text: &str) -> Option<&str> {
    match text.chars().next() {
        Some(quote @ ('"' | '\'')) => {
            let (key, rest) = text[1..].split_once(quote)?;
            rest.starts_with(':').then_some(key)
        }
        _ => match text.split_once(": ") {
            Some((key, _)) => Some(key),
            None => text.strip_suffix(':'),
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const YAML: &str = "\
# a comment
metadata:
  annotations:
    alm-examples: |-
      [{
        spec:
      }]
    a.b/c: d
spec:
  modes:
  - type: One
    supported: true
  - supported: false
    type: Two
  deep:
    - - a
      - b
  'last': 1
";

    #[test]
    fn a_pointer_has_its_line() {
        let lines = Lines::of(YAML, 10);
        let expected = [
            ("", 11),
            ("/metadata/annotations/alm-examples", 13),
            ("/metadata/annotations/a.b~1c", 17),
            ("/spec", 18),
            ("/spec/modes", 19),
            ("/spec/modes/0/supported", 21),
            ("/spec/modes/1", 22),
            ("/spec/modes/1/supported", 22),
            ("/spec/modes/1/type", 23),
            ("/spec/last", 27),
            ("/spec/modes/7/type", 19),
            ("/spec/nowhere/at/all", 18),
        ];
        for (pointer, expected) in expected {
            assert_eq!(lines.line(pointer), expected, "{pointer}");
        }
    }

    #[test]
    fn so_it_has_in_json_that_is_written_in_lines() {
        let json = "{\n  \"spec\": {\n    \"modes\": [\n      {\n        \"type\": \"One\"\n      },\n      {\n        \"type\": \"Two\"\n      }\n    ]\n  }\n}\n";
        let lines = Lines::of(json, 1);
        assert_eq!(lines.line("/spec"), 2);
        assert_eq!(lines.line("/spec/modes"), 3);
        assert_eq!(lines.line("/spec/modes/1/type"), 8);
    }
}
