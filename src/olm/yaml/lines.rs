//! Where the fields of a document are.

use std::collections::BTreeMap;

/// So many bytes of pointers are kept: what is beyond has no line of its own. Keys may be long, and stand above many fields.
const ROOM: usize = 32 << 20;
/// So many fields are told to be there twice.
const MOST_TWICE: usize = 100;

/// The lines of fields, by the JSON pointers that lead to them. A field begins with its key; of what is there twice the last counts.
#[derive(Debug, Default)]
pub(in crate::olm) struct Lines {
    fields: BTreeMap<String, usize>,
    twice: Vec<String>,
    kept: usize,
}

impl Lines {
    pub(super) fn note(&mut self, pointer: &str, line: usize) {
        if self.fields.contains_key(pointer) {
            if self.twice.len() < MOST_TWICE {
                self.twice.push(pointer.to_owned());
            }
            self.forget(pointer);
        }
        self.kept += pointer.len();
        if self.kept <= ROOM {
            self.fields.insert(pointer.to_owned(), line);
        }
    }

    /// What is within the first of two fields is not there.
    fn forget(&mut self, pointer: &str) {
        // '0' is the next character after '/'
        let within = self.fields.range(format!("{pointer}/")..format!("{pointer}0"));
        let within: Vec<String> = within.map(|(pointer, _)| pointer.clone()).collect();
        for pointer in within {
            self.fields.remove(&pointer);
        }
    }

    /// The line of a field, from 1.
    pub(in crate::olm) fn get(&self, pointer: &str) -> Option<usize> {
        self.fields.get(pointer).copied()
    }

    /// The pointers of what is there twice in one map.
    pub(in crate::olm) fn twice(&self) -> &[String] {
        &self.twice
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_within_the_first_of_two_is_forgotten_and_nothing_beside_it() {
        let mut lines = Lines::default();
        for (pointer, line) in [("/a", 1), ("/a/b", 2), ("/a.b", 3), ("/a", 4), ("/a/c", 5)] {
            lines.note(pointer, line);
        }
        assert_eq!(lines.twice(), ["/a"]);
        let of = |pointer: &str| lines.get(pointer);
        assert_eq!(
            [of("/a"), of("/a/b"), of("/a.b"), of("/a/c")],
            [Some(4), None, Some(3), Some(5)]
        );
    }

    /// A key of a thousand characters is in the pointer of each field below it.
    #[test]
    fn lines_take_a_bounded_room() {
        let mut lines = Lines::default();
        let above = format!("/{}", "k".repeat(100_000));
        for index in 0..1000 {
            lines.note(&format!("{above}/{index}"), index);
        }
        let kept: usize = lines.fields.keys().map(String::len).sum();
        assert!(kept <= ROOM && !lines.fields.is_empty(), "{kept}");
    }
}
