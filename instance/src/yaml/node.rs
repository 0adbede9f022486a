//! A YAML document as a tree in which every value and key knows its place in the file.

use serde::de::{self, Deserialize, Deserializer, MapAccess, SeqAccess, Visitor};
use serde_saphyr::{Location, Spanned};
use std::fmt;

/// A place in the file: line and column, both from 1; line 0 means unknown.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Place {
    pub(super) line: usize,
    pub(super) column: usize,
}

/// A value and where it stands.
#[derive(Clone, Debug)]
pub(super) struct Node {
    pub(super) at: Place,
    pub(super) value: Value,
    /// The bytes of the file that a scalar was read from, when the parser knows.
    span: Option<(usize, usize)>,
}

/// What stands there.
#[derive(Clone, Debug)]
pub(super) enum Value {
    Null,
    Bool(bool),
    Unsigned(u64),
    Signed(i64),
    Float(f64),
    Text(String),
    List(Vec<Node>),
    /// In the order of the file, with repeated keys.
    Map(Vec<(Node, Node)>),
}

impl From<Location> for Place {
    fn from(location: Location) -> Self {
        Self { line: location.line() as usize, column: location.column() as usize }
    }
}

impl Node {
    /// Parses a document.
    pub(super) fn parse(source: &str) -> Result<Self, serde_saphyr::Error> {
        let options = serde_saphyr::options! {
            duplicate_keys: serde_saphyr::DuplicateKeyPolicy::PassThrough,
            strict_booleans: true,
        };
        serde_saphyr::from_str_with_options(source, options)
    }

    /// A scalar as its text in the file (without quotes), or `None` for a list, a mapping or nothing.
    pub(super) fn scalar(&self, source: &str) -> Option<String> {
        let as_written = || self.span.and_then(|(from, len)| source.get(from..from + len)).map(str::trim);
        match &self.value {
            Value::Text(text) => Some(text.clone()),
            Value::Bool(value) => Some(value.to_string()),
            Value::Unsigned(value) => Some(value.to_string()),
            Value::Signed(value) => Some(value.to_string()),
            Value::Float(value) => Some(as_written().map_or_else(|| value.to_string(), str::to_owned)),
            Value::Null | Value::List(_) | Value::Map(_) => None,
        }
    }

    /// The text, when it is one.
    pub(super) fn text(&self) -> Option<&str> {
        match &self.value {
            Value::Text(text) => Some(text),
            _ => None,
        }
    }

    /// What it is, for an error text.
    pub(super) fn describe(&self) -> String {
        match &self.value {
            Value::Null => "nothing".to_owned(),
            Value::Bool(value) => format!("`{value}`"),
            Value::Unsigned(value) => format!("`{value}`"),
            Value::Signed(value) => format!("`{value}`"),
            Value::Float(value) => format!("`{value}`"),
            Value::Text(text) => format!("the text `{text}`"),
            Value::List(_) => "a list".to_owned(),
            Value::Map(_) => "a mapping".to_owned(),
        }
    }

    /// The same value as JSON; keys that are no text become their text.
    pub(super) fn to_json(&self) -> serde_json::Value {
        match &self.value {
            Value::Null => serde_json::Value::Null,
            Value::Bool(value) => (*value).into(),
            Value::Unsigned(value) => (*value).into(),
            Value::Signed(value) => (*value).into(),
            Value::Float(value) => (*value).into(),
            Value::Text(text) => text.as_str().into(),
            Value::List(items) => items.iter().map(Self::to_json).collect(),
            Value::Map(entries) => {
                let pairs = entries.iter().map(|(key, value)| {
                    let name = key.text().map_or_else(|| key.describe(), str::to_owned);
                    (name, value.to_json())
                });
                serde_json::Value::Object(pairs.collect())
            }
        }
    }
}

impl<'de> Deserialize<'de> for Node {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let spanned = Spanned::<Value>::deserialize(deserializer)?;
        let span = spanned.defined.span();
        let span = span.byte_offset().zip(span.byte_len()).map(|(from, len)| (from as usize, len as usize));
        Ok(Self { at: spanned.referenced.into(), value: spanned.value, span })
    }
}

impl<'de> Deserialize<'de> for Value {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(ValueVisitor)
    }
}

struct ValueVisitor;

impl<'de> Visitor<'de> for ValueVisitor {
    type Value = Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a value")
    }

    fn visit_unit<E>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_none<E>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_some<D: Deserializer<'de>>(self, deserializer: D) -> Result<Value, D::Error> {
        Value::deserialize(deserializer)
    }

    fn visit_bool<E>(self, value: bool) -> Result<Value, E> {
        Ok(Value::Bool(value))
    }

    fn visit_u64<E>(self, value: u64) -> Result<Value, E> {
        Ok(Value::Unsigned(value))
    }

    fn visit_i64<E>(self, value: i64) -> Result<Value, E> {
        Ok(u64::try_from(value).map_or(Value::Signed(value), Value::Unsigned))
    }

    /// A number beyond 64 bits stays text, so that whoever wants a number reports it with its bounds.
    fn visit_u128<E>(self, value: u128) -> Result<Value, E> {
        Ok(Value::Text(value.to_string()))
    }

    fn visit_i128<E>(self, value: i128) -> Result<Value, E> {
        Ok(Value::Text(value.to_string()))
    }

    fn visit_f64<E>(self, value: f64) -> Result<Value, E> {
        Ok(Value::Float(value))
    }

    fn visit_str<E: de::Error>(self, value: &str) -> Result<Value, E> {
        Ok(Value::Text(value.to_owned()))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut access: A) -> Result<Value, A::Error> {
        let mut items = Vec::new();
        while let Some(item) = access.next_element()? {
            items.push(item);
        }
        Ok(Value::List(items))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut access: A) -> Result<Value, A::Error> {
        let mut entries = Vec::new();
        while let Some(entry) = access.next_entry()? {
            entries.push(entry);
        }
        Ok(Value::Map(entries))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entries(node: &Node) -> &[(Node, Node)] {
        let Value::Map(entries) = &node.value else { panic!("{node:?}") };
        entries
    }

    #[test]
    fn keys_and_values_know_their_places() {
        let node = Node::parse("a: 1\nb:\n  - {c: x, d: [y]}\n").unwrap();
        let top = entries(&node);
        assert_eq!((top[0].0.at, top[0].1.at), (Place { line: 1, column: 1 }, Place { line: 1, column: 4 }));
        let Value::List(items) = &top[1].1.value else { panic!() };
        let inner = entries(&items[0]);
        assert_eq!(inner[0].1.at, Place { line: 3, column: 9 });
        assert_eq!(inner[1].0.at, Place { line: 3, column: 12 });
    }

    #[test]
    fn repeated_keys_are_all_there() {
        assert_eq!(entries(&Node::parse("a: 1\na: 2\n").unwrap()).len(), 2);
    }

    #[test]
    fn scalars_keep_the_text_of_the_file() {
        let source = "a: 0.10\nb: -3\nc: \"x\"\nd: true\ne: yes\nf: 64MiB\n";
        let node = Node::parse(source).unwrap();
        let texts: Vec<_> = entries(&node).iter().map(|(_, v)| v.scalar(source).unwrap()).collect();
        assert_eq!(texts, ["0.10", "-3", "x", "true", "yes", "64MiB"]);
    }

    #[test]
    fn an_alias_stands_where_it_is_used() {
        let node = Node::parse("a: &x 1\nb: *x\n").unwrap();
        assert_eq!(entries(&node)[1].1.at.line, 2);
    }
}
