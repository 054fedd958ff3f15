//! YAML as Kubernetes reads it: by the rules of 1.1, in which `0644` is a number of base 8 and `yes` is true, whatever later versions say
//! (`sigs.k8s.io/yaml`). With the lines of its fields.

use std::collections::BTreeMap;

use base64::Engine as _;
use base64::alphabet;
use base64::engine::{GeneralPurpose, GeneralPurposeConfig};
use saphyr_parser::{Event, Parser, ScalarStyle, Span, StrInput, Tag};
use serde_json::{Map, Number, Value};

use super::lines::Lines;
use super::misplaced::misplaced;
use super::tabs::{behind, mended};
use crate::olm::pointer::escaped;

/// Deeper than this nobody writes by hand, and as deep as this `serde_json` reads.
const DEEPEST: usize = 128;
/// So many values what is written once and named again and again may come to.
const MOST_REPEATED: usize = 100_000;

/// As Go reads base64: bits that are left over may be set.
const LENIENT: GeneralPurpose = GeneralPurpose::new(
    &alphabet::STANDARD,
    GeneralPurposeConfig::new().with_decode_allow_trailing_bits(true),
);

/// The line, from 1, and what is wrong there.
pub(super) type Wrong = (usize, String);

/// Every document, each with its line; those that are empty are null.
pub(super) fn all(text: &str) -> Result<Vec<(usize, Value)>, Wrong> {
    let text = mended(text);
    let read = Reader::new(&text, None).documents();
    let read = read.map_err(|(line, why)| match behind(&text, line) {
        Some(line) => (line, TAB.to_owned()),
        None => (line, why),
    })?;
    match misplaced(&text) {
        None => Ok(read),
        Some(line) => Err((line, TAB.to_owned())),
    }
}

/// Where the fields of the first document are, as far as it can be read.
pub(super) fn lines(text: &str) -> Lines {
    let mut lines = Lines::default();
    // What is wrong with it was told when it was read
    let _ = Reader::new(&mended(text), Some(&mut lines)).documents();
    lines
}

/// What is wrong with a tab for upstream alone.
const TAB: &str = "a tab is in front of the first word of the line; spaces are accepted";

/// What ends a line in YAML 1.1, and in later versions does not.
const BREAKS: [char; 3] = ['\u{85}', '\u{2028}', '\u{2029}'];

struct Reader<'a> {
    parser: Parser<'a, StrInput<'a>>,
    lines: Option<&'a mut Lines>,
    /// Where it is at.
    pointer: String,
    depth: usize,
    /// What can be named again.
    anchors: BTreeMap<usize, Value>,
    repeated: usize,
    /// Whether lines end as they do in 1.1 only.
    has_breaks: bool,
    /// Where it is said that it is not of version 1.1.
    other_version: Option<usize>,
}

impl<'a> Reader<'a> {
    fn new(text: &'a str, lines: Option<&'a mut Lines>) -> Self {
        Self {
            parser: Parser::new_from_str(text),
            lines,
            pointer: String::new(),
            depth: 0,
            anchors: BTreeMap::new(),
            repeated: 0,
            has_breaks: text.contains(BREAKS),
            other_version: other_version(text),
        }
    }

    fn next(&mut self) -> Result<(Event<'a>, Span), Wrong> {
        match self.parser.next_event() {
            Some(Ok(event)) => Ok(event),
            Some(Err(error)) => Err((error.marker().line().max(1), error.info().to_owned())),
            None => Ok((Event::StreamEnd, Span::default())),
        }
    }

    fn documents(mut self) -> Result<Vec<(usize, Value)>, Wrong> {
        let mut read = Vec::new();
        if let Some(line) = self.other_version {
            return Err((line, "it is not of YAML's version 1.1".to_owned()));
        }
        loop {
            let (event, span) = self.next()?;
            match event {
                Event::StreamEnd => return Ok(read),
                Event::StreamStart | Event::DocumentStart(_) | Event::Nothing => {}
                // Names are of one document
                Event::DocumentEnd => self.anchors.clear(),
                event => {
                    let line = span.start.line();
                    self.note(line);
                    read.push((line, self.node(event, span)?));
                    self.lines = None;
                }
            }
        }
    }

    fn note(&mut self, line: usize) {
        if let Some(lines) = &mut self.lines {
            lines.note(&self.pointer, line);
        }
    }

    fn node(&mut self, event: Event<'a>, span: Span) -> Result<Value, Wrong> {
        let line = span.start.line();
        let (anchor, value) = match event {
            Event::Scalar(text, style, anchor, tag) => {
                let value = match tag {
                    Some(tag) => tagged(&tag, &text),
                    None if style == ScalarStyle::Plain => plain(&text),
                    None if self.has_breaks && is_folded(style) => Ok(Value::from(unindented(&text))),
                    None => Ok(Value::from(text.into_owned())),
                };
                (anchor, value.map_err(|why| (line, why))?)
            }
            Event::SequenceStart(anchor, _) => (anchor, self.within(line, Self::list)?),
            Event::MappingStart(anchor, _) => (anchor, self.within(line, Self::map)?),
            Event::Alias(anchor) => return self.named(anchor, line),
            _ => return Err((line, "a value is missing".to_owned())),
        };
        if anchor > 0 {
            self.repeats(&value, line)?;
            self.anchors.insert(anchor, value.clone());
        }
        Ok(value)
    }

    fn within(&mut self, line: usize, read: fn(&mut Self) -> Result<Value, Wrong>) -> Result<Value, Wrong> {
        if self.depth == DEEPEST {
            return Err((line, format!("it is nested deeper than {DEEPEST} times")));
        }
        self.depth += 1;
        let value = read(self);
        self.depth -= 1;
        value
    }

    /// Counts what is kept to be named, and what is named again.
    fn repeats(&mut self, value: &Value, line: usize) -> Result<(), Wrong> {
        self.repeated += count(value);
        if self.repeated > MOST_REPEATED {
            let why = format!("what is named again comes to more than {MOST_REPEATED} values");
            return Err((line, why));
        }
        Ok(())
    }

    fn named(&mut self, anchor: usize, line: usize) -> Result<Value, Wrong> {
        let value = self.anchors.get(&anchor).cloned();
        let value = value.ok_or_else(|| (line, "it names itself".to_owned()))?;
        self.repeats(&value, line)?;
        Ok(value)
    }

    fn list(&mut self) -> Result<Value, Wrong> {
        let (mut items, above) = (Vec::new(), self.pointer.len());
        loop {
            let (event, span) = self.next()?;
            if event == Event::SequenceEnd {
                return Ok(Value::Array(items));
            }
            if self.lines.is_some() {
                self.pointer += &format!("/{}", items.len());
                self.note(span.start.line());
            }
            items.push(self.node(event, span)?);
            self.pointer.truncate(above);
        }
    }

    fn map(&mut self) -> Result<Value, Wrong> {
        let (mut fields, above) = (Map::new(), self.pointer.len());
        loop {
            let (event, span) = self.next()?;
            let line = span.start.line();
            if event == Event::MappingEnd {
                return Ok(Value::Object(fields));
            }
            let merges = matches!(&event, Event::Scalar(text, ScalarStyle::Plain, _, None) if text == "<<");
            let name = name(self.without_lines(event, span)?).map_err(|why| (line, why))?;
            if self.lines.is_some() && !merges {
                self.pointer.push('/');
                self.pointer += &escaped(&name);
                self.note(line);
            }
            let (event, span) = self.next()?;
            if merges {
                let is_named = matches!(event, Event::Alias(_));
                let value = self.without_lines(event, span)?;
                merge(&mut fields, value, is_named).map_err(|why| (line, why))?;
            } else {
                fields.insert(name, self.node(event, span)?);
            }
            self.pointer.truncate(above);
        }
    }

    /// What is within a key, or is merged, has no lines.
    fn without_lines(&mut self, event: Event<'a>, span: Span) -> Result<Value, Wrong> {
        let lines = self.lines.take();
        let value = self.node(event, span);
        self.lines = lines;
        value
    }
}

/// The line of the directive before the first document if it names another version than 1.1.
fn other_version(text: &str) -> Option<usize> {
    let mut head = (1..)
        .zip(text.lines())
        .take_while(|(_, line)| line.is_empty() || line.starts_with(['#', '%']));
    let (at, directive) = head.find(|(_, line)| line.starts_with("%YAML"))?;
    (directive.split_whitespace().nth(1) != Some("1.1")).then_some(at)
}

/// What a key is called in JSON.
fn name(key: Value) -> Result<String, String> {
    match key {
        Value::String(name) => Ok(name),
        Value::Bool(_) => Ok(key.to_string()),
        Value::Number(number) if number.is_f64() => Ok(shortest(&number)),
        Value::Number(number) => Ok(number.to_string()),
        Value::Null | Value::Array(_) | Value::Object(_) => Err("a key is no text".to_owned()),
    }
}

/// As the shortest of Go's two forms, with the precision of 32 bits.
fn shortest(number: &Number) -> String {
    let scientific = format!("{:e}", number.as_f64().unwrap_or_default() as f32);
    let (mantissa, exponent) = scientific.split_once('e').unwrap_or((&scientific, "0"));
    let exponent: i32 = exponent.parse().unwrap_or_default();
    if (-4..6).contains(&exponent) {
        return (number.as_f64().unwrap_or_default() as f32).to_string();
    }
    let sign = if exponent < 0 { '-' } else { '+' };
    format!("{mantissa}e{sign}{:02}", exponent.abs())
}

/// What is merged takes the place of what stands before it, and the first of several maps that of the others. A list of them is written in place.
fn merge(fields: &mut Map<String, Value>, value: Value, is_named: bool) -> Result<(), String> {
    let others = match value {
        Value::Array(others) if !is_named => others,
        one => vec![one],
    };
    for other in others.into_iter().rev() {
        let Value::Object(other) = other else {
            return Err("what is merged (<<) is no map".to_owned());
        };
        fields.extend(other);
    }
    Ok(())
}

/// Whether a text's lines are folded as they stand, quoted or not.
fn is_folded(style: ScalarStyle) -> bool {
    match style {
        ScalarStyle::Plain | ScalarStyle::SingleQuoted | ScalarStyle::DoubleQuoted => true,
        ScalarStyle::Literal | ScalarStyle::Folded => false,
    }
}

/// A text without the indentation of its lines.
fn unindented(text: &str) -> String {
    let lines = text.split_inclusive(BREAKS).enumerate();
    let lines = lines.map(|(index, line)| {
        if index > 0 {
            line.trim_start_matches([' ', '\t'])
        } else {
            line
        }
    });
    lines.collect()
}

/// How many values there are in one.
fn count(value: &Value) -> usize {
    1 + match value {
        Value::Array(items) => items.iter().map(count).sum(),
        Value::Object(fields) => fields.values().map(count).sum(),
        _ => 0,
    }
}

/// What a word stands for whose type is written down. Of types that are nobody's but the author's nothing is known.
fn tagged(tag: &Tag, text: &str) -> Result<Value, String> {
    let kind = if tag.is_yaml_core_schema() {
        tag.suffix.as_str()
    } else {
        ""
    };
    let value = match kind {
        "int" | "float" | "bool" | "null" => plain(text)?,
        "binary" => {
            let decoded = LENIENT.decode(text.replace(['\r', '\n'], ""));
            let decoded = decoded.map_err(|error| format!("!!binary holds no base64: {error}"))?;
            return Ok(Value::from(String::from_utf8_lossy(&decoded)));
        }
        _ => return Ok(Value::from(text)),
    };
    match (kind, &value) {
        ("int", Value::Number(number)) if !number.is_f64() => Ok(value),
        ("float", Value::Number(number)) => Ok(number.as_f64().map_or(Value::Null, Value::from)),
        ("bool", Value::Bool(_)) | ("null", Value::Null) => Ok(value),
        _ => Err(format!("{text:?} is no {kind}, as which it is marked")),
    }
}

/// What a word without quotes stands for.
pub(super) fn plain(text: &str) -> Result<Value, String> {
    Ok(match text {
        "" | "~" | "null" | "Null" | "NULL" => Value::Null,
        "y" | "Y" | "yes" | "Yes" | "YES" | "true" | "True" | "TRUE" | "on" | "On" | "ON" => {
            Value::Bool(true)
        }
        "n" | "N" | "no" | "No" | "NO" | "false" | "False" | "FALSE" | "off" | "Off" | "OFF" => {
            Value::Bool(false)
        }
        ".nan" | ".NaN" | ".NAN" | ".inf" | ".Inf" | ".INF" | "+.inf" | "+.Inf" | "+.INF" | "-.inf"
        | "-.Inf" | "-.INF" => {
            return Err(format!("{text} is no number in JSON"));
        }
        _ if text.starts_with(|c: char| c.is_ascii_digit() || "+-.".contains(c)) => {
            number(text).map_or_else(|| Value::from(text), Value::Number)
        }
        _ => Value::from(text),
    })
}

/// What is too large for a number is text.
fn number(text: &str) -> Option<Number> {
    let digits = text.replace('_', "");
    let float = || is_float(&digits).then(|| digits.parse().ok().and_then(Number::from_f64));
    integer(&digits).or_else(|| float().flatten())
}

/// A leading zero makes it a number of base 8.
fn integer(digits: &str) -> Option<Number> {
    let (sign, rest) = match digits.as_bytes().first()? {
        sign @ (b'-' | b'+') => (Some(*sign), &digits[1..]),
        _ => (None, digits),
    };
    let (base, rest) = match rest.as_bytes() {
        [b'0', b'x' | b'X', ..] => (16, &rest[2..]),
        [b'0', b'b' | b'B', ..] => (2, &rest[2..]),
        [b'0', b'o' | b'O', ..] => (8, &rest[2..]),
        [b'0', _, ..] => (8, &rest[1..]),
        _ => (10, rest),
    };
    if rest.starts_with(['+', '-']) {
        return None;
    }
    let size = u64::from_str_radix(rest, base).ok()?;
    match sign {
        None => Some(size.into()),
        Some(b'-') => 0_i64.checked_sub_unsigned(size).map(Number::from),
        Some(_) => i64::try_from(size).ok().map(Number::from),
    }
}

/// `[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?`
fn is_float(digits: &str) -> bool {
    let unsigned = digits.strip_prefix(['-', '+']).unwrap_or(digits);
    let (mantissa, exponent) = match unsigned.split_once(['e', 'E']) {
        Some((mantissa, exponent)) => (
            mantissa,
            Some(exponent.strip_prefix(['-', '+']).unwrap_or(exponent)),
        ),
        None => (unsigned, None),
    };
    let all = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit());
    let (whole, part) = mantissa.split_once('.').unwrap_or((mantissa, ""));
    let has_digits = !whole.is_empty() || !part.is_empty();
    all(whole)
        && all(part)
        && has_digits
        && exponent.is_none_or(|exponent| !exponent.is_empty() && all(exponent))
}

#[cfg(test)]
#[path = "read_tests.rs"]
mod tests;
