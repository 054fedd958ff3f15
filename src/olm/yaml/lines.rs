//! Where the fields of a document are.

use std::collections::BTreeMap;

/// So many bytes are kept: what is beyond has no line of its own. Keys may be long, and stand above many fields.
const ROOM: usize = 16 << 20;
/// About what an entry takes beside its pointer.
const ENTRY: usize = 64;
/// So many fields are told to be there twice.
const MOST_TWICE: usize = 100;

/// The lines of fields, by the JSON pointers that lead to them. A field begins with its key; of what is there twice the last counts.
#[derive(Debug, Default)]
pub(in crate::olm) struct Lines {
    fields: BTreeMap<String, usize>,
    twice: Vec<String>,
    has_more_twice: bool,
    kept: usize,
}

impl Lines {
    pub(super) fn note(&mut self, pointer: &str, line: usize) {
        // Before anything is compared: a long key above many fields would take the square of its time
        let kept = self.kept + pointer.len() + ENTRY;
        if kept > ROOM {
            return;
        }
        self.kept = kept;
        if self.fields.insert(pointer.to_owned(), line).is_some() {
            self.forget(pointer);
            self.is_twice(pointer);
        }
    }

    fn is_twice(&mut self, pointer: &str) {
        if self.twice.iter().any(|other| other == pointer) {
            return;
        }
        if self.twice.len() < MOST_TWICE {
            self.twice.push(pointer.to_owned());
        } else {
            self.has_more_twice = true;
        }
    }

    /// What is within the first of two fields is not there.
    fn forget(&mut self, pointer: &str) {
        // '0' is the next character after '/'
        let (first, end) = (format!("{pointer}/"), format!("{pointer}0"));
        let told = self.twice.len();
        self.twice.retain(|other| !other.starts_with(&first));
        // Those beyond were of the same map, as far as anybody remembers
        self.has_more_twice &= self.twice.len() == told;
        let within = self.fields.range(first..end);
        let within: Vec<String> = within.map(|(pointer, _)| pointer.clone()).collect();
        for pointer in within {
            self.fields.remove(&pointer);
        }
    }

    /// The line of a field, from 1.
    pub(in crate::olm) fn get(&self, pointer: &str) -> Option<usize> {
        self.fields.get(pointer).copied()
    }

    /// The pointers of what is there more than once in one map, and whether there are more than those.
    pub(in crate::olm) fn twice(&self) -> (&[String], bool) {
        (&self.twice, self.has_more_twice)
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
        assert_eq!(lines.twice(), (&["/a".to_owned()][..], false));
        let of = |pointer: &str| lines.get(pointer);
        assert_eq!(
            [of("/a"), of("/a/b"), of("/a.b"), of("/a/c")],
            [Some(4), None, Some(3), Some(5)]
        );
    }

    #[test]
    fn what_is_there_thrice_is_told_once_and_nothing_of_what_does_not_count() {
        let mut lines = Lines::default();
        for pointer in ["/a", "/a/b", "/a/b", "/a", "/a"] {
            lines.note(pointer, 1);
        }
        assert_eq!(lines.twice(), (&["/a".to_owned()][..], false));
    }

    #[test]
    fn so_many_fields_that_are_there_twice_are_told_and_that_there_are_more() {
        let mut lines = Lines::default();
        for index in (0..=MOST_TWICE).chain(0..=MOST_TWICE) {
            lines.note(&format!("/{index}"), index);
        }
        let (twice, has_more) = lines.twice();
        assert_eq!((twice.len(), has_more), (MOST_TWICE, true));
    }

    /// A long key is in the pointer of each field below it.
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
