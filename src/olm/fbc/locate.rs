//! Where the fields of documents are.

use super::contents::{At, Contents};
use crate::olm::findings::{Lines, Place};

/// The places of fields of documents whose text is gone. Only what something is found in is read again.
pub(super) struct Places<'a, T> {
    contents: &'a Contents<T>,
    /// Of the document that was asked for last: what is found in one comes one after the other.
    last: Option<(At, Lines)>,
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
                Lines::of(&text, at.span.line)
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
