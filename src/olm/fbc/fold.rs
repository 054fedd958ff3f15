//! JSON as Go reads it (`encoding/json`), by which upstream reads its own documents: a key is known whatever its case, `null` leaves a field as it is, and
//! a structure is an object, never a list. And the way to what could not be read.

use std::cell::RefCell;
use std::fmt;

use serde::Deserialize;
use serde::de::value::{MapDeserializer, SeqDeserializer, StrDeserializer};
use serde::de::{DeserializeSeed, Deserializer, EnumAccess, MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Value};

use super::blob::Text;
use crate::olm::pointer::escaped;

/// Reads a part of a document.
///
/// # Errors
/// When it is of another shape.
pub(in crate::olm) fn from_str<'a, T: Deserialize<'a>>(json: &'a str) -> Result<T, serde_json::Error> {
    let mut json = serde_json::Deserializer::from_str(json);
    let value = T::deserialize(Folding {
        inner: &mut json,
        trail: &Trail::default(),
    })?;
    json.end()?;
    Ok(value)
}

/// Whether two keys differ in case alone.
pub(in crate::olm) fn is_same(one: &str, other: &str) -> bool {
    if one.is_ascii() && other.is_ascii() {
        return one.eq_ignore_ascii_case(other);
    }
    folded(one).eq(folded(other))
}

/// What is the same for keys that differ in case alone.
pub(super) fn common(key: &str) -> String {
    folded(key).collect()
}

/// As Unicode folds cases: what has no lowercase of its own has that of its uppercase, such as the long s.
fn folded(key: &str) -> impl Iterator<Item = char> {
    let lower = key.chars().flat_map(char::to_lowercase);
    lower.flat_map(char::to_uppercase).flat_map(char::to_lowercase)
}

/// A field of an object.
pub(in crate::olm) fn get<'a>(object: &'a Map<String, Value>, name: &str) -> Option<&'a Value> {
    let same = || object.iter().rfind(|(key, _)| is_same(key, name));
    object.get(name).or_else(|| same().map(|(_, value)| value))
}

/// The way to what could not be read. While all is well nothing is written into it.
#[derive(Debug, Default)]
pub(super) struct Trail(RefCell<Vec<Step>>);

#[derive(Debug)]
enum Step {
    Key(String),
    Index(usize),
}

impl Trail {
    /// Where it failed, the innermost first.
    pub(super) fn note(&self, key: &str) {
        self.0.borrow_mut().push(Step::Key(key.to_owned()));
    }

    /// As a JSON pointer.
    pub(super) fn pointer(&self) -> String {
        let steps = self.0.borrow();
        let steps = steps.iter().rev().map(|step| match step {
            Step::Key(key) => format!("/{}", escaped(key)),
            Step::Index(index) => format!("/{index}"),
        });
        steps.collect()
    }
}

/// As people write it: `entries[0].name`.
impl fmt::Display for Trail {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (depth, step) in self.0.borrow().iter().rev().enumerate() {
            match step {
                Step::Key(key) if depth > 0 => write!(f, ".{key}")?,
                Step::Key(key) => f.write_str(key)?,
                Step::Index(index) => write!(f, "[{index}]")?,
            }
        }
        Ok(())
    }
}

/// Reads as Go does whatever is asked for.
pub(super) struct Folding<'t, D> {
    pub(super) inner: D,
    pub(super) trail: &'t Trail,
}

/// What a place holds, which decides what `null` stands for there.
#[derive(Clone, Copy)]
enum Expected {
    /// An object, with its name and those of its fields.
    Struct(&'static str, &'static [&'static str]),
    Text,
    Bool,
    Whole,
    List,
    Map,
    /// What decides for itself.
    Any,
}

impl<'t, D> Folding<'t, D> {
    fn within<V>(&self, expected: Expected, visitor: V) -> Within<'t, V> {
        Within {
            visitor,
            expected,
            trail: self.trail,
        }
    }
}

macro_rules! forward {
    ($($method:ident($($argument:ident: $type:ty),*);)*) => {$(
        fn $method<V: Visitor<'de>>(self, $($argument: $type,)* visitor: V) -> Result<V::Value, D::Error> {
            let within = self.within(Expected::Any, visitor);
            self.inner.$method($($argument,)* within)
        }
    )*};
}

/// What may be `null` is asked for as what may be missing, and once it is there as what it is.
macro_rules! or_null {
    ($($method:ident: $expected:ident;)*) => {$(
        fn $method<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, D::Error> {
            let within = self.within(Expected::$expected, visitor);
            self.inner.deserialize_option(within)
        }
    )*};
}

impl<'de, D: Deserializer<'de>> Deserializer<'de> for Folding<'_, D> {
    type Error = D::Error;

    forward! {
        deserialize_any(); deserialize_char(); deserialize_f32(); deserialize_f64();
        deserialize_bytes(); deserialize_byte_buf(); deserialize_option(); deserialize_unit();
        deserialize_identifier(); deserialize_ignored_any();
        deserialize_unit_struct(name: &'static str);
        deserialize_newtype_struct(name: &'static str);
        deserialize_tuple(length: usize);
        deserialize_tuple_struct(name: &'static str, length: usize);
        deserialize_enum(name: &'static str, variants: &'static [&'static str]);
    }

    or_null! {
        deserialize_bool: Bool;
        deserialize_i8: Whole; deserialize_i16: Whole; deserialize_i32: Whole; deserialize_i64: Whole; deserialize_i128: Whole;
        deserialize_u8: Whole; deserialize_u16: Whole; deserialize_u32: Whole; deserialize_u64: Whole; deserialize_u128: Whole;
        deserialize_str: Text; deserialize_string: Text;
        deserialize_seq: List; deserialize_map: Map;
    }

    fn deserialize_struct<V: Visitor<'de>>(
        self,
        name: &'static str,
        fields: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, D::Error> {
        let within = self.within(Expected::Struct(name, fields), visitor);
        self.inner.deserialize_option(within)
    }
}

/// A value, and what is expected of it.
struct Within<'t, V> {
    visitor: V,
    expected: Expected,
    trail: &'t Trail,
}

macro_rules! visit {
    ($($method:ident($type:ty);)*) => {$(
        fn $method<E: serde::de::Error>(self, value: $type) -> Result<V::Value, E> {
            self.visitor.$method(value)
        }
    )*};
}

impl<'de, V: Visitor<'de>> Visitor<'de> for Within<'_, V> {
    type Value = V::Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.visitor.expecting(f)
    }

    visit! {
        visit_bool(bool); visit_i64(i64); visit_i128(i128); visit_u64(u64); visit_u128(u128);
        visit_str(&str); visit_borrowed_str(&'de str); visit_string(String);
        visit_bytes(&[u8]); visit_borrowed_bytes(&'de [u8]); visit_byte_buf(Vec<u8>);
    }

    /// Upstream has read every number as a float before, so that `1.0` is a whole number, too.
    fn visit_f64<E: serde::de::Error>(self, value: f64) -> Result<V::Value, E> {
        let is_whole = value.fract() == 0.0 && value.abs() < WHOLE;
        match self.expected {
            Expected::Whole if is_whole => self.visitor.visit_i64(value as i64),
            _ => self.visitor.visit_f64(value),
        }
    }

    fn visit_none<E: serde::de::Error>(self) -> Result<V::Value, E> {
        let nothing = std::iter::empty::<(&str, &str)>();
        match self.expected {
            Expected::Struct(..) | Expected::Map => self.visitor.visit_map(MapDeserializer::new(nothing)),
            Expected::List => {
                let nothing = std::iter::empty::<&str>();
                self.visitor.visit_seq(SeqDeserializer::new(nothing))
            }
            Expected::Text => self.visitor.visit_borrowed_str(""),
            Expected::Bool => self.visitor.visit_bool(false),
            Expected::Whole => self.visitor.visit_i64(0),
            Expected::Any => self.visitor.visit_none(),
        }
    }

    fn visit_unit<E: serde::de::Error>(self) -> Result<V::Value, E> {
        match self.expected {
            Expected::Any => self.visitor.visit_unit(),
            _ => self.visit_none(),
        }
    }

    fn visit_some<D: Deserializer<'de>>(self, inner: D) -> Result<V::Value, D::Error> {
        let trail = self.trail;
        match self.expected {
            Expected::Struct(name, fields) => inner.deserialize_struct(name, fields, self),
            Expected::Text => inner.deserialize_str(self),
            Expected::Bool => inner.deserialize_bool(self),
            Expected::Whole => inner.deserialize_i64(self),
            Expected::List => inner.deserialize_seq(self),
            Expected::Map => inner.deserialize_map(self),
            Expected::Any => self.visitor.visit_some(Folding { inner, trail }),
        }
    }

    fn visit_newtype_struct<D: Deserializer<'de>>(self, inner: D) -> Result<V::Value, D::Error> {
        let trail = self.trail;
        self.visitor.visit_newtype_struct(Folding { inner, trail })
    }

    /// `serde` would take a list for the fields of a structure in their order.
    fn visit_seq<A: SeqAccess<'de>>(self, inner: A) -> Result<V::Value, A::Error> {
        if let Expected::Struct(..) = self.expected {
            let told = "it is a list, and an object is accepted";
            return Err(serde::de::Error::custom(told));
        }
        self.visitor.visit_seq(Items {
            inner,
            next: 0,
            trail: self.trail,
        })
    }

    fn visit_map<A: MapAccess<'de>>(self, inner: A) -> Result<V::Value, A::Error> {
        let known = match self.expected {
            Expected::Struct(_, fields) => fields,
            _ => &[],
        };
        self.visitor.visit_map(Fields {
            inner,
            known,
            key: Text::default(),
            trail: self.trail,
        })
    }

    fn visit_enum<A: EnumAccess<'de>>(self, access: A) -> Result<V::Value, A::Error> {
        self.visitor.visit_enum(access)
    }
}

/// Floats below this are whole numbers of 64 bits if they are whole numbers at all.
const WHOLE: f64 = 9_223_372_036_854_775_808.0;

struct Items<'t, A> {
    inner: A,
    next: usize,
    trail: &'t Trail,
}

impl<'de, A: SeqAccess<'de>> SeqAccess<'de> for Items<'_, A> {
    type Error = A::Error;

    fn next_element_seed<T: DeserializeSeed<'de>>(&mut self, seed: T) -> Result<Option<T::Value>, A::Error> {
        let trail = self.trail;
        let item = self.inner.next_element_seed(Seed { seed, trail });
        if item.is_err() {
            trail.0.borrow_mut().push(Step::Index(self.next));
        }
        self.next += 1;
        item
    }

    fn size_hint(&self) -> Option<usize> {
        self.inner.size_hint()
    }
}

struct Fields<'t, 'de, A> {
    inner: A,
    known: &'static [&'static str],
    /// Of the value that comes next, where it is a structure's.
    key: Text<'de>,
    trail: &'t Trail,
}

impl<'de, A: MapAccess<'de>> MapAccess<'de> for Fields<'_, 'de, A> {
    type Error = A::Error;

    fn next_key_seed<K: DeserializeSeed<'de>>(&mut self, seed: K) -> Result<Option<K::Value>, A::Error> {
        if self.known.is_empty() {
            return self.inner.next_key_seed(seed);
        }
        let Some(key) = self.inner.next_key::<Text<'de>>()? else {
            return Ok(None);
        };
        let exactly = self.known.iter().find(|known| **known == &*key);
        let known = exactly.or_else(|| self.known.iter().find(|known| is_same(known, &key)));
        let name = known.map_or(&*key, |known| known);
        let read = seed.deserialize(StrDeserializer::new(name)).map(Some);
        self.key = key;
        read
    }

    fn next_value_seed<T: DeserializeSeed<'de>>(&mut self, seed: T) -> Result<T::Value, A::Error> {
        let trail = self.trail;
        let value = self.inner.next_value_seed(Seed { seed, trail });
        if value.is_err() && !self.known.is_empty() {
            trail.note(&self.key);
        }
        value
    }

    fn size_hint(&self) -> Option<usize> {
        self.inner.size_hint()
    }
}

struct Seed<'t, S> {
    seed: S,
    trail: &'t Trail,
}

impl<'de, S: DeserializeSeed<'de>> DeserializeSeed<'de> for Seed<'_, S> {
    type Value = S::Value;

    fn deserialize<D: Deserializer<'de>>(self, inner: D) -> Result<S::Value, D::Error> {
        let trail = self.trail;
        self.seed.deserialize(Folding { inner, trail })
    }
}

#[cfg(test)]
mod tests {
    use rstest::rstest;
    use serde_json::value::RawValue;

    use super::*;

    #[derive(Debug, Deserialize)]
    #[serde(rename_all = "camelCase", deny_unknown_fields)]
    struct Outer<'a> {
        #[serde(borrow, default)]
        the_name: Text<'a>,
        #[serde(borrow, default)]
        items: Vec<Inner<'a>>,
        #[serde(borrow, default)]
        raw: Option<&'a RawValue>,
    }

    #[derive(Debug, Deserialize)]
    struct Inner<'a> {
        #[serde(borrow, default)]
        text: Option<Text<'a>>,
    }

    #[test]
    fn a_key_is_known_whatever_its_case_and_what_is_kept_as_text_stays_so() {
        let json = r#"{"THENAME": "a", "itemſ": [{"Text": "b"}], "Raw": {"Text": 1}}"#;
        let Outer { the_name, items, raw } = from_str(json).unwrap();
        assert_eq!((&*the_name, items[0].text.as_deref()), ("a", Some("b")));
        assert_eq!(raw.unwrap().get(), r#"{"Text": 1}"#);
        assert!(from_str::<Outer<'_>>(r#"{"thenames": "a"}"#).is_err());
        assert!(from_str::<Outer<'_>>(r#"{} {}"#).is_err());
    }

    #[rstest]
    #[case("k", "\u{212a}", true)]
    #[case("ss", "ß", true)]
    #[case("ẞ", "ß", true)]
    #[case("ΟΔΟΣ", "οδος", true)]
    #[case("a", "ä", false)]
    #[case("name", "names", false)]
    fn keys_are_compared_as_unicode_folds_them(#[case] one: &str, #[case] other: &str, #[case] same: bool) {
        assert_eq!(is_same(one, other), same);
    }

    #[test]
    fn the_way_to_what_could_not_be_read_is_told_as_it_was_written() {
        let trail = Trail::default();
        let mut json = serde_json::Deserializer::from_str(r#"{"Items": [{}, {"text": 1}]}"#);
        let read = Outer::deserialize(Folding {
            inner: &mut json,
            trail: &trail,
        });
        assert!(read.is_err());
        assert_eq!(
            (trail.to_string(), trail.pointer()),
            ("Items[1].text".to_owned(), "/Items/1/text".to_owned())
        );
    }
}
