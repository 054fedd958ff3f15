//! A file as its documents, each as JSON and with its place.

use std::borrow::Cow;
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt as _;

use serde::Deserialize;
use serde::de::IgnoredAny;
use serde_json::Value;

use crate::olm::yaml;

/// Where in its file a document is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Span {
    /// The first byte.
    pub start: usize,
    /// The byte after the last.
    pub end: usize,
    /// The line of the first byte, from 1.
    pub line: usize,
}

impl Span {
    /// The text of the document, from its file.
    ///
    /// # Errors
    /// When it cannot be read, ends before it, or is no UTF-8.
    pub(in crate::olm) fn read(&self, file: &File) -> io::Result<String> {
        let mut bytes = vec![0; self.end.saturating_sub(self.start)];
        file.read_exact_at(&mut bytes, self.start as u64)?;
        String::from_utf8(bytes).map_err(|error| io::Error::new(io::ErrorKind::InvalidData, error))
    }
}

/// A document that was understood, or why and in which line it was not.
pub(in crate::olm) type Document<'a> = Result<(Span, Cow<'a, str>), (usize, String)>;

/// Gives every document of a text to `take`, empty ones left out. What cannot be parsed ends a file: where the next document begins nobody knows.
pub(in crate::olm) fn each<'a>(text: &'a str, mut take: impl FnMut(Document<'a>)) {
    let begins_as_json = text.trim_start().starts_with('{');
    if begins_as_json {
        each_json(text, &mut take);
    } else {
        each_yaml(text, &mut take);
    }
}

/// Objects one after the other, with nothing but space between them.
fn each_json<'a>(text: &'a str, take: &mut impl FnMut(Document<'a>)) {
    let mut lines = Lines::of(text);
    let mut start = skip_space(text, 0);
    while start < text.len() {
        let mut stream = serde_json::Deserializer::from_str(&text[start..]).into_iter::<IgnoredAny>();
        match stream.next() {
            Some(Ok(_)) => {
                let end = start + stream.byte_offset();
                let line = lines.at(start);
                take(Ok((Span { start, end, line }, Cow::Borrowed(&text[start..end]))));
                start = skip_space(text, end);
            }
            Some(Err(error)) => {
                // Objects in braces are YAML, too, and a file may go on as such
                if start == 0 || text[..start].trim().is_empty() {
                    return each_yaml_or(text, take, lines.at(start) + error.line() - 1, &error.to_string());
                }
                return take(Err((lines.at(start) + error.line() - 1, error.to_string())));
            }
            None => return,
        }
    }
}

/// As YAML if all of it is that, and otherwise the error of before.
fn each_yaml_or<'a>(text: &'a str, take: &mut impl FnMut(Document<'a>), line: usize, error: &str) {
    let mut documents = Vec::new();
    each_yaml(text, &mut |document| documents.push(document));
    if documents.iter().any(Result::is_err) {
        return take(Err((line, error.to_owned())));
    }
    documents.into_iter().for_each(take);
}

/// Documents between lines that begin with `---`.
fn each_yaml<'a>(text: &'a str, take: &mut impl FnMut(Document<'a>)) {
    let mut lines = Lines::of(text);
    for (start, end) in between_marks(text) {
        let line = lines.at(start);
        match parse(&text[start..end]) {
            Ok(Value::Null) => {}
            Ok(value) => take(Ok((Span { start, end, line }, Cow::Owned(value.to_string())))),
            Err((at, message)) => take(Err((line + at.saturating_sub(1), message))),
        }
    }
}

/// One document of YAML, or the line in it, from 1, and what is wrong there.
pub(super) fn parse(text: &str) -> Result<Value, (usize, String)> {
    yaml::value(text)
}

/// Where documents begin and end: the marks belong to none of them.
fn between_marks(text: &str) -> Vec<(usize, usize)> {
    let mut documents = Vec::new();
    let (mut start, mut position) = (0, 0);
    for line in text.split_inclusive('\n') {
        let is_mark = line
            .strip_prefix("---")
            .is_some_and(|rest| rest.starts_with(char::is_whitespace) || rest.is_empty());
        if is_mark {
            documents.push((start, position));
            start = position + "---".len();
        }
        position += line.len();
    }
    documents.push((start, text.len()));
    documents
}

fn skip_space(text: &str, from: usize) -> usize {
    let rest = &text[from..];
    from + (rest.len() - rest.trim_start().len())
}

/// The lines of places that come one after the other, each counted from the one before.
struct Lines<'a> {
    text: &'a [u8],
    position: usize,
    line: usize,
}

impl<'a> Lines<'a> {
    fn of(text: &'a str) -> Self {
        Self {
            text: text.as_bytes(),
            position: 0,
            line: 1,
        }
    }

    fn at(&mut self, position: usize) -> usize {
        let passed = self.text.get(self.position..position).unwrap_or_default();
        self.line += passed.iter().filter(|&&byte| byte == b'\n').count();
        self.position = position.max(self.position);
        self.line
    }
}

/// Reads a part of a document that was understood before.
pub(super) fn part<'a, T: Deserialize<'a>>(json: &'a str) -> Result<T, serde_json::Error> {
    super::fold::from_str(json)
}
