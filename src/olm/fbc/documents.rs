//! A file as its documents, each as JSON and with its place.

use std::borrow::Cow;
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt as _;

use serde::Deserialize;
use serde::de::IgnoredAny;
use serde_json::Value;

use crate::olm::json::extremes;
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

/// As deep as upstream reads JSON.
const DEEPEST: usize = 10_000;

/// What an empty document is in JSON.
const NOTHING: &str = "null";

/// Gives every document of a text to `take`, empty ones left out.
pub(in crate::olm) fn each<'a>(text: &'a str, mut take: impl FnMut(Document<'a>)) {
    each_or_nothing(text, |document| match document {
        Ok((_, json)) if is_nothing(&json) => {}
        document => take(document),
    });
}

/// Whether a document is empty, as one is that holds but a comment.
pub(in crate::olm) fn is_nothing(json: &str) -> bool {
    json == NOTHING
}

/// Gives every document of a text to `take`, in the order and as far apart as upstream reads them (`YAMLOrJSONDecoder` of Kubernetes). JSON that cannot
/// be parsed ends a file: where the next document begins nobody knows.
pub(in crate::olm) fn each_or_nothing<'a>(text: &'a str, mut take: impl FnMut(Document<'a>)) {
    let begins_as_json = text.trim_start().starts_with('{');
    if begins_as_json {
        each_json(text, &mut take);
    } else {
        each_yaml(text, 0, None, &mut take);
    }
}

/// Objects one after the other, with nothing but space between them. What begins as one object may go on as YAML.
fn each_json<'a>(text: &'a str, take: &mut impl FnMut(Document<'a>)) {
    let mut lines = Lines::of(text);
    let (mut count, mut last) = (0, 0);
    let mut start = skip_space(text, 0);
    while start < text.len() {
        let mut stream = serde_json::Deserializer::from_str(&text[start..]).into_iter::<IgnoredAny>();
        match stream.next() {
            Some(Ok(_)) => {
                let end = start + stream.byte_offset();
                let line = lines.at(start);
                take(match &text[start..end] {
                    json if is_too_deep(json) => {
                        Err((line, format!("it is nested deeper than {DEEPEST} times")))
                    }
                    json => Ok((Span { start, end, line }, Cow::Borrowed(json))),
                });
                (count, last) = (count + 1, end);
                start = skip_space(text, end);
            }
            Some(Err(error)) => {
                let refused = (lines.at(start) + error.line() - 1, error.to_string());
                if count > 1 {
                    return take(Err(refused));
                }
                let rest = skip_line(text, last);
                let is_marked = text[rest..].starts_with(MARK);
                return each_yaml(text, rest, Some(refused).filter(|_| !is_marked), take);
            }
            None => return,
        }
    }
}

/// Only what has many brackets is looked at bracket by bracket.
fn is_too_deep(json: &str) -> bool {
    let begins = || json.bytes().filter(|byte| matches!(byte, b'{' | b'[')).count();
    json.len() >= 2 * DEEPEST && begins() > DEEPEST && extremes(json).depth > DEEPEST
}

/// Documents between lines that begin with `---`, from a place on. `refused` is told if the first is no YAML, either: it was taken for JSON before.
fn each_yaml<'a>(
    text: &'a str,
    from: usize,
    mut refused: Option<(usize, String)>,
    take: &mut impl FnMut(Document<'a>),
) {
    let mut lines = Lines::of(text);
    for piece in between_marks(text, from) {
        let refused = refused.take();
        let read = match piece {
            Ok((start, end)) => {
                let line = lines.at(start);
                let read = parse(&text[start..end]).map_err(|(at, why)| (line + at.saturating_sub(1), why));
                read.map(|value| (Span { start, end, line }, Cow::Owned(value.to_string())))
            }
            Err((position, why)) => Err((lines.at(position), why)),
        };
        take(read.map_err(|error| refused.unwrap_or(error)));
    }
}

/// One document of YAML, or the line in it, from 1, and what is wrong there.
pub(super) fn parse(text: &str) -> Result<Value, (usize, String)> {
    yaml::value(text)
}

/// What a line begins with that parts two documents.
const MARK: &str = "---";

/// A document's place, or where something is wrong, and what.
type Piece = Result<(usize, usize), (usize, String)>;

/// Where documents begin and end. Upstream keeps the first mark if nothing stands before it, so that one mark at the beginning parts nothing, and two
/// have an empty document between them; what is kept is a mark for YAML only with space behind it. And it knows no mark with something behind it, of which
/// it reads nothing any more.
fn between_marks(text: &str, from: usize) -> Vec<Piece> {
    let mut documents = Vec::new();
    let (mut start, mut position, mut is_empty) = (from, from, true);
    for line in text[from..].split_inclusive('\n') {
        let next = position + line.len();
        let Some(behind) = line.strip_prefix(MARK) else {
            (position, is_empty) = (next, false);
            continue;
        };
        let is_kept_as_text = is_empty && behind.starts_with('#');
        let behind = behind.trim();
        if !behind.is_empty() && !behind.starts_with('#') {
            let told = format!("after --- in its line is {behind:?}; nothing but a comment is accepted");
            documents.push(Err((position, told)));
            return documents;
        }
        if !is_empty {
            documents.push(Ok((start, position)));
        }
        start = if is_kept_as_text {
            position
        } else {
            position + MARK.len()
        };
        (position, is_empty) = (next, !is_empty);
    }
    if !is_empty {
        documents.push(Ok((start, text.len())));
    }
    documents
}

/// Behind the space of a line, and behind its end.
fn skip_line(text: &str, from: usize) -> usize {
    let space = &text[from..skip_space(text, from)];
    from + space.find('\n').map_or(space.len(), |end| end + 1)
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
