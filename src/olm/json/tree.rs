//! JSON as Go reads it into a value of any type, and writes it again. Neither recurses: as deep as upstream goes the stack of a thread would not reach.

use std::borrow::Cow;
use std::collections::BTreeMap;

use serde::Serialize as _;
use serde_json::value::RawValue;

use super::{Escapes, float};

/// A value with all that is in it.
pub(in crate::olm) struct Tree<'a> {
    nodes: Vec<Node<'a>>,
    root: usize,
}

/// A value; what it holds is told by its places in the tree.
pub(in crate::olm) enum Node<'a> {
    Null,
    Bool(bool),
    /// Whatever it was written as.
    Number(f64),
    Text(Cow<'a, str>),
    List(Vec<usize>),
    /// Of a key that is there twice, what was last.
    Object(BTreeMap<Cow<'a, str>, usize>),
}

/// What a text of JSON holds that not everybody reads.
#[derive(Debug, Default, PartialEq, Eq)]
pub(in crate::olm) struct Extremes<'a> {
    /// How deep it is nested.
    pub(in crate::olm) depth: usize,
    /// The first number that is none in 64 bits.
    pub(in crate::olm) too_large: Option<&'a str>,
}

/// Looks at a text that is JSON.
pub(in crate::olm) fn extremes(json: &str) -> Extremes<'_> {
    let (mut at, mut depth, mut found) = (0, 0_usize, Extremes::default());
    while let Some(&byte) = json.as_bytes().get(at) {
        let mut next = at + 1;
        match byte {
            b'"' => next = end_of_text(json, at),
            b'{' | b'[' => {
                depth += 1;
                found.depth = found.depth.max(depth);
            }
            b'}' | b']' => depth = depth.saturating_sub(1),
            b'-' | b'0'..=b'9' => {
                next = end_of_word(json, at);
                let word = &json[at..next];
                if found.too_large.is_none() && is_too_large(word) {
                    found.too_large = Some(word);
                }
            }
            _ => {}
        }
        at = next;
    }
    found
}

fn is_too_large(number: &str) -> bool {
    let may_be = number.len() > 300 || number.contains(['e', 'E']);
    may_be && number.parse().is_ok_and(f64::is_infinite)
}

/// Behind the quote that ends a text.
fn end_of_text(json: &str, begin: usize) -> usize {
    let mut at = begin + 1;
    while let Some(&byte) = json.as_bytes().get(at) {
        match byte {
            b'"' => return at + 1,
            b'\\' => at += 2,
            _ => at += 1,
        }
    }
    json.len()
}

/// Behind a number, or `null`, `true` or `false`.
fn end_of_word(json: &str, begin: usize) -> usize {
    let rest = &json[begin..];
    let is_end = |c: char| matches!(c, ',' | ':' | ']' | '}') || c.is_ascii_whitespace();
    begin + rest.find(is_end).unwrap_or(rest.len())
}

/// A list or an object that is being read.
enum Open<'a> {
    List(Vec<usize>),
    /// With the key whose value comes next.
    Object(BTreeMap<Cow<'a, str>, usize>, Option<Cow<'a, str>>),
}

impl<'a> Tree<'a> {
    /// What is in a text that was found to be JSON before.
    pub(in crate::olm) fn of(json: &'a RawValue) -> Self {
        let json = json.get();
        let mut tree = Self {
            nodes: Vec::new(),
            root: 0,
        };
        let (mut at, mut open) = (0, Vec::new());
        while let Some(&byte) = json.as_bytes().get(at) {
            let mut next = at + 1;
            match byte {
                b'{' => open.push(Open::Object(BTreeMap::new(), None)),
                b'[' => open.push(Open::List(Vec::new())),
                b'}' | b']' => match open.pop() {
                    Some(Open::List(items)) => tree.place(Node::List(items), &mut open),
                    Some(Open::Object(fields, _)) => tree.place(Node::Object(fields), &mut open),
                    None => {}
                },
                b'"' => {
                    next = end_of_text(json, at);
                    let text = unescaped(&json[at + 1..next - 1]);
                    match open.last_mut() {
                        Some(Open::Object(_, key @ None)) => *key = Some(text),
                        _ => tree.place(Node::Text(text), &mut open),
                    }
                }
                byte if byte.is_ascii_alphanumeric() || byte == b'-' => {
                    next = end_of_word(json, at);
                    tree.place(word(&json[at..next]), &mut open);
                }
                // What stands between values says no more than that they are others
                _ => {}
            }
            at = next;
        }
        tree
    }

    /// Puts a value into what it is in. What is in nothing comes last, and is the root.
    fn place(&mut self, node: Node<'a>, open: &mut [Open<'a>]) {
        let at = self.nodes.len();
        self.nodes.push(node);
        match open.last_mut() {
            Some(Open::List(items)) => items.push(at),
            Some(Open::Object(fields, key)) => {
                if let Some(key) = key.take() {
                    fields.insert(key, at);
                }
            }
            None => self.root = at,
        }
    }

    /// The value in which all others are.
    pub(in crate::olm) fn root(&self) -> &Node<'a> {
        self.node(self.root)
    }

    /// The value at a place.
    pub(in crate::olm) fn node(&self, at: usize) -> &Node<'a> {
        self.nodes.get(at).unwrap_or(&Node::Null)
    }

    /// As text, with sorted keys.
    pub(super) fn write(&self, escapes: Escapes) -> Result<String, serde_json::Error> {
        let mut bytes = Vec::new();
        let mut steps = vec![Step::Node(self.root())];
        while let Some(step) = steps.pop() {
            let node = match step {
                Step::Mark(mark) => {
                    bytes.push(mark);
                    continue;
                }
                Step::Key(key) => {
                    quote(key, escapes, &mut bytes)?;
                    bytes.push(b':');
                    continue;
                }
                Step::Node(node) => node,
            };
            match node {
                Node::Null => bytes.extend(b"null"),
                Node::Bool(value) => bytes.extend(value.to_string().bytes()),
                Node::Number(value) => bytes.extend(float(*value).bytes()),
                Node::Text(text) => quote(text, escapes, &mut bytes)?,
                Node::List(items) => {
                    bytes.push(b'[');
                    steps.push(Step::Mark(b']'));
                    for (index, item) in items.iter().enumerate().rev() {
                        steps.push(Step::Node(self.node(*item)));
                        steps.extend((index > 0).then_some(Step::Mark(b',')));
                    }
                }
                Node::Object(fields) => {
                    bytes.push(b'{');
                    steps.push(Step::Mark(b'}'));
                    for (index, (key, value)) in fields.iter().enumerate().rev() {
                        steps.push(Step::Node(self.node(*value)));
                        steps.push(Step::Key(key));
                        steps.extend((index > 0).then_some(Step::Mark(b',')));
                    }
                }
            }
        }
        // What is written as JSON from text is text
        String::from_utf8(bytes).map_err(serde::ser::Error::custom)
    }
}

/// What is to be written yet.
enum Step<'t, 'a> {
    Node(&'t Node<'a>),
    Key(&'t str),
    Mark(u8),
}

fn quote(text: &str, escapes: Escapes, bytes: &mut Vec<u8>) -> Result<(), serde_json::Error> {
    text.serialize(&mut serde_json::Serializer::with_formatter(bytes, escapes))
}

fn word<'a>(word: &str) -> Node<'a> {
    match word {
        "true" => Node::Bool(true),
        "false" => Node::Bool(false),
        number => number.parse().map_or(Node::Null, Node::Number),
    }
}

/// What stands between quotes as what it means. Halves of a character stand for one that nobody knows.
fn unescaped(text: &str) -> Cow<'_, str> {
    if !text.contains('\\') {
        return Cow::Borrowed(text);
    }
    let (mut read, mut halves, mut rest) = (String::with_capacity(text.len()), Vec::new(), text);
    while let Some((before, behind)) = rest.split_once('\\') {
        if !before.is_empty() {
            read += &whole(&mut halves);
            read += before;
        }
        let number = behind.strip_prefix('u').and_then(|digits| digits.get(..4));
        if let Some(half) = number.and_then(|digits| u16::from_str_radix(digits, 16).ok()) {
            halves.push(half);
            rest = &behind["u1234".len()..];
            continue;
        }
        read += &whole(&mut halves);
        let mut characters = behind.chars();
        read.extend(characters.next().map(|escape| match escape {
            'b' => '\u{8}',
            'f' => '\u{c}',
            'n' => '\n',
            'r' => '\r',
            't' => '\t',
            itself => itself,
        }));
        rest = characters.as_str();
    }
    read += &whole(&mut halves);
    read += rest;
    Cow::Owned(read)
}

/// The characters that halves come to.
fn whole(halves: &mut Vec<u16>) -> String {
    let characters = String::from_utf16_lossy(halves);
    halves.clear();
    characters
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    fn again(json: &str) -> String {
        let raw: &RawValue = serde_json::from_str(json).unwrap();
        Tree::of(raw).write(Escapes::LINES).unwrap()
    }

    #[rstest]
    #[case("null", "null")]
    #[case(" [ true , false, null ] ", "[true,false,null]")]
    #[case(
        r#"{"b": {}, "a": [], "c": [[1], {"x": 2}]}"#,
        r#"{"a":[],"b":{},"c":[[1],{"x":2}]}"#
    )]
    #[case(r#"{"a": 1, "a": {"b": 2}}"#, r#"{"a":{"b":2}}"#)]
    #[case(r#""a\"b\\c\/d\u00e9\n""#, "\"a\\\"b\\\\c/dé\\n\"")]
    #[case(r#""\ud83d\ude00""#, "\"😀\"")]
    #[case(r#""\ud83d\u0041\udc00.""#, "\"\u{fffd}A\u{fffd}.\"")]
    #[case(r#"{"\u0061": ":,]}"}"#, r#"{"a":":,]}"}"#)]
    #[case("[100000000000000000000, -0.0, 1e-7]", "[100000000000000000000,-0,1e-7]")]
    fn json_is_written_again_as_go_does(#[case] json: &str, #[case] expected: &str) {
        assert_eq!(again(json), expected);
    }

    #[test]
    fn what_is_nested_as_deep_as_upstream_goes_is_written_again() {
        let deep = "[".repeat(10_000) + &"]".repeat(10_000);
        assert_eq!(again(&deep), deep);
        let deep = r#"{"a":"#.repeat(9_999) + "{}" + &"}".repeat(9_999);
        assert_eq!(again(&deep), deep);
        assert_eq!(extremes(&deep).depth, 10_000);
    }

    #[rstest]
    #[case("[1e308, 1e-999, \"1e999\"]", None)]
    #[case("[1, -1e999, 1e998]", Some("-1e999"))]
    #[case("1E400", Some("1E400"))]
    fn a_number_that_is_none_in_64_bits_is_found(#[case] json: &str, #[case] expected: Option<&str>) {
        assert_eq!(extremes(json).too_large, expected);
        let digits = "9".repeat(400);
        assert_eq!(extremes(&digits).too_large, Some(&*digits));
    }
}
