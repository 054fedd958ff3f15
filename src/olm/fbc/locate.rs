//! Where the fields of documents are.

use std::borrow::Cow;
use std::cell::{Cell, OnceCell};
use std::collections::BTreeMap;

use serde_json::value::RawValue;

use super::contents::{At, Contents};
use super::fold::is_same;
use crate::olm::findings::{Lines, Place};
use crate::olm::pointer::unescaped;

/// So many fields of a document in JSON are looked for one by one: of most there are few, and the rest of the document is passed over. After that all of
/// them are noted, once.
const ONE_BY_ONE: u32 = 16;

/// The lines of the fields of one document.
pub(super) struct Fields<'a> {
    text: Cow<'a, str>,
    first: usize,
    asked: Cell<u32>,
    all: OnceCell<Lines>,
}

impl<'a> Fields<'a> {
    /// Of a document whose first line is counted as `first`.
    pub(super) fn of(text: impl Into<Cow<'a, str>>, first: usize) -> Self {
        Self {
            text: text.into(),
            first,
            asked: Cell::new(0),
            all: OnceCell::new(),
        }
    }

    /// The line of what a JSON pointer leads to; of the last part of the way that is found where it does not lead on.
    pub(super) fn line(&self, pointer: &str) -> usize {
        let is_json = self.text.trim_start().starts_with('{');
        if is_json && self.asked.get() < ONE_BY_ONE {
            self.asked.update(|asked| asked + 1);
            if let Some(before) = before(&self.text, pointer) {
                return self.first + before.matches('\n').count();
            }
        }
        let all = self.all.get_or_init(|| Lines::of(&self.text, self.first));
        all.line(pointer)
    }
}

/// What of a text in JSON is before the value to which a pointer leads. Keys are known whatever their case.
fn before<'a>(text: &'a str, pointer: &str) -> Option<&'a str> {
    let mut value: &RawValue = serde_json::from_str(text).ok()?;
    for step in pointer.split('/').skip(1) {
        let Some(next) = within(value, &unescaped(step)) else {
            break;
        };
        value = next;
    }
    // A raw value is a part of the text that was read
    let at = value.get().as_ptr().addr().checked_sub(text.as_ptr().addr())?;
    text.get(..at)
}

fn within<'a>(value: &'a RawValue, step: &str) -> Option<&'a RawValue> {
    if value.get().starts_with('[') {
        let items: Vec<&RawValue> = serde_json::from_str(value.get()).ok()?;
        return items.get(step.parse::<usize>().ok()?).copied();
    }
    let fields: BTreeMap<String, &RawValue> = serde_json::from_str(value.get()).ok()?;
    let same = || fields.iter().find(|(key, _)| is_same(key, step));
    fields
        .get(step)
        .or_else(|| same().map(|(_, value)| value))
        .copied()
}

/// The places of fields of documents whose text is gone. Only what something is found in is read again.
pub(super) struct Places<'a, T> {
    contents: &'a Contents<T>,
    /// Of the document that was asked for last: what is found in one comes one after the other.
    last: Option<(At, Fields<'static>)>,
}

impl<'a, T> Places<'a, T> {
    pub(super) fn of(contents: &'a Contents<T>) -> Self {
        let last = None;
        Self { contents, last }
    }

    /// Where a JSON pointer leads to in a document; the document itself if it cannot be read any more.
    pub(super) fn field(&mut self, at: At, pointer: &str) -> Place {
        let lines = match self.last.take() {
            Some((last, lines)) if last == at => lines,
            _ => {
                let text = self.contents.text(at).unwrap_or_default();
                Fields::of(text, at.span.line)
            }
        };
        let line = lines.line(pointer);
        self.last = Some((at, lines));
        self.contents.line(at, line)
    }
}

#[cfg(test)]
mod tests {
    use super::super::documents::Span;
    use super::*;

    #[test]
    fn a_field_in_json_has_its_line_whatever_its_case_and_however_many_are_asked_for() {
        // As Python writes what is beyond 16 bits
        let text = "{\"name\": \"\\ud83d\\ude00\",\n \"Entries\": [\n  {},\n  {\"a/b\": 1,\n\"c\": 2}]}";
        let expected = [
            ("/name", 10),
            ("/entries", 11),
            ("/entries/1", 13),
            ("/entries/1/a~1b", 13),
            ("/entries/1/c", 14),
            ("/entries/7/c", 11),
            ("/nowhere/at/all", 10),
        ];
        let fields = Fields::of(text, 10);
        for (pointer, line) in expected {
            assert_eq!(fields.line(pointer), line, "{pointer}");
        }
        let text = "{\"a\": [\n1,\n2]}";
        let fields = Fields::of(text, 10);
        let lines: Vec<usize> = (0..ONE_BY_ONE + 2).map(|_| fields.line("/a/1")).collect();
        assert!(lines.iter().all(|line| *line == 12), "{lines:?}");
    }

    #[test]
    fn a_field_of_a_document_that_was_read_has_its_line_and_that_of_one_that_is_gone_its_documents() {
        let folder = tempfile::tempdir().unwrap();
        let (file, text) = (folder.path().join("a.yaml"), "---\na: 1\n---\nb:\n- c: 1\n");
        std::fs::write(&file, text).unwrap();
        let files = vec![file.clone()];
        let contents = Contents::<()> {
            files,
            packages: Vec::new(),
            channels: Vec::new(),
            bundles: Vec::new(),
            deprecations: Vec::new(),
            others: Vec::new(),
        };
        let (start, end, line) = (text.rfind("---").unwrap() + 3, text.len(), 3);
        let at = At {
            file: 0,
            span: Span { start, end, line },
        };
        assert_eq!(Places::of(&contents).field(at, "/b/0/c").line, 5);
        std::fs::remove_file(file).unwrap();
        assert_eq!(Places::of(&contents).field(at, "/b/0/c").line, 3);
    }
}
