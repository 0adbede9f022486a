//! The `count` bolt: how often each key comes.

use super::args::{ArgKind, ArgProblem, ArgSpec, Args};
use super::key_table::KeyTable;
use super::schema::{default_stream, field_of};
use super::types::ComponentType;
use crate::topology::Factory;
use crate::{Bolt, BoltCollector, Input, Result, Row, Value};
use egret_dataplane::plan::{FieldKind, Role};

/// The type `count`.
pub(super) static TYPE: ComponentType = ComponentType {
    name: "count",
    role: Role::Bolt,
    help: "counts the tuples of each key",
    args: &[
        ArgSpec::required("by", ArgKind::Field, "the field that is the key"),
        ArgSpec::optional(
            "emit",
            ArgKind::Choice(&["finish", "each"]),
            "`finish` (default): each key once, when the input ends; `each`: the count so far with every tuple",
        ),
    ],
    outputs: |args, inputs| {
        let kind = field_of(args, "by", inputs)?;
        Ok(default_stream(&[(args.text("by").unwrap_or_default(), kind), ("count", FieldKind::U64)]))
    },
    check,
    make: |args| Factory::bolt(move || Count::from_args(&args)),
};

fn check(args: &Args, _: u32) -> Result<(), ArgProblem> {
    if args.text("by") == Some("count") {
        let message =
            "`by` is `count`, but that is the name of the field that holds the count; rename the input's";
        return Err(ArgProblem::value("by", message));
    }
    Ok(())
}

/// Counts the tuples of each key, exactly; a key is the value of one field, of any type.
///
/// Emits the key and its count (`u64`): each key once when the input ends, or with every tuple the count so far. As keys,
/// `-0.0` is `0.0` and all NaN are one, as for grouping by a field.
pub struct Count {
    by: String,
    each: bool,
    counts: KeyTable,
    /// The key's place in the layout that was seen last, and that layout's address.
    place: Option<(usize, usize)>,
    kind: FieldKind,
}

impl Count {
    /// Counts by this field and emits each key once when the input ends.
    pub fn by(field: impl Into<String>) -> Self {
        Self { by: field.into(), each: false, counts: KeyTable::default(), place: None, kind: FieldKind::Str }
    }

    /// Emits the count so far with every tuple instead.
    #[must_use]
    pub fn emit_each(mut self) -> Self {
        self.each = true;
        self
    }

    pub(super) fn from_args(args: &Args) -> Self {
        let count = Self::by(args.text("by").unwrap_or_default());
        if args.text("emit") == Some("each") { count.emit_each() } else { count }
    }

    /// The key of a row. Its place is looked up by name only when the rows come from another stream than before.
    fn key<'r>(&mut self, row: &Row<'r>) -> Result<Value<'r>> {
        let address = std::ptr::from_ref(row.layout()).addr();
        let index = match self.place {
            Some((seen, index)) if seen == address => index,
            _ => match row.layout().schema().position(&self.by) {
                Some(index) => index,
                None => return Ok(row.field(&self.by)?),
            },
        };
        self.place = Some((address, index));
        Ok(row.get(index)?)
    }
}

impl Bolt for Count {
    fn execute(&mut self, input: &Input<'_>, out: &mut BoltCollector) -> Result<()> {
        let key = self.key(&input.row()?)?;
        let number = number_bytes(&key);
        let bytes = key.as_bytes().unwrap_or(&number);
        self.kind = key.kind();
        if self.each {
            let count = self.counts.increment(bytes);
            out.emit_values(&[key, Value::U64(count)]).anchor(input)?;
        } else {
            self.counts.note(bytes);
        }
        out.ack(input)
    }

    fn finish(&mut self, out: &mut BoltCollector) -> Result<()> {
        if self.each {
            return Ok(());
        }
        self.counts.try_for_each(|key, count| {
            out.emit_values(&[key_value(self.kind, key), Value::U64(count)]).unanchored()
        })
    }
}

/// A number's key: eight bytes that are the same for what counts as the same. Unused for texts and bytes.
fn number_bytes(value: &Value<'_>) -> [u8; 8] {
    match *value {
        Value::Bool(v) => u64::from(v).to_le_bytes(),
        Value::U8(v) => u64::from(v).to_le_bytes(),
        Value::U16(v) => u64::from(v).to_le_bytes(),
        Value::U32(v) => u64::from(v).to_le_bytes(),
        Value::U64(v) => v.to_le_bytes(),
        Value::I8(v) => i64::from(v).to_le_bytes(),
        Value::I16(v) => i64::from(v).to_le_bytes(),
        Value::I32(v) => i64::from(v).to_le_bytes(),
        Value::I64(v) => v.to_le_bytes(),
        Value::F32(v) => float_bytes(v.into()),
        Value::F64(v) => float_bytes(v),
        Value::Str(_) | Value::Bytes(_) => [0; 8],
    }
}

fn float_bytes(value: f64) -> [u8; 8] {
    let same = if value.is_nan() { f64::NAN } else { value + 0.0 };
    same.to_le_bytes()
}

/// The value that a key of this kind was made from.
fn key_value(kind: FieldKind, key: &[u8]) -> Value<'_> {
    let eight = key.first_chunk().copied().unwrap_or_default();
    let (unsigned, signed, float) =
        (u64::from_le_bytes(eight), i64::from_le_bytes(eight), f64::from_le_bytes(eight));
    match kind {
        FieldKind::Bool => Value::Bool(unsigned != 0),
        FieldKind::U8 => Value::U8(unsigned as u8),
        FieldKind::U16 => Value::U16(unsigned as u16),
        FieldKind::U32 => Value::U32(unsigned as u32),
        FieldKind::U64 => Value::U64(unsigned),
        FieldKind::I8 => Value::I8(signed as i8),
        FieldKind::I16 => Value::I16(signed as i16),
        FieldKind::I32 => Value::I32(signed as i32),
        FieldKind::I64 => Value::I64(signed),
        FieldKind::F32 => Value::F32(float as f32),
        FieldKind::F64 => Value::F64(float),
        // The bytes of a text key were a text.
        FieldKind::Str => Value::Str(std::str::from_utf8(key).unwrap_or_default()),
        FieldKind::Bytes => Value::Bytes(key),
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::{Bench, Running};
    use crate::Value;
    use egret_dataplane::plan::FieldKind;
    use serde_json::json;

    fn finished(bolt: &mut Running) -> Vec<Vec<String>> {
        assert!(bolt.emitted().is_empty(), "it emitted before the end");
        bolt.finish().unwrap();
        let mut tuples = bolt.emitted();
        tuples.sort();
        tuples
    }

    #[test]
    fn each_key_once_with_its_count() {
        let mut bolt = Bench::bolt("count", json!({"by": "w"}), &[("w", FieldKind::Str)]).start().unwrap();
        let long = "a word that is longer than fifteen bytes";
        bolt.execute_texts(&["b", "a", "", "b", long, "b", long]).unwrap();
        assert_eq!(finished(&mut bolt), [["", "1"], ["a", "1"], [long, "2"], ["b", "3"]]);
    }

    #[test]
    fn with_each_it_emits_the_count_so_far() {
        let args = json!({"by": "w", "emit": "each"});
        let mut bolt = Bench::bolt("count", args, &[("w", FieldKind::Str)]).start().unwrap();
        bolt.execute_texts(&["a", "b", "a"]).unwrap();
        assert_eq!(bolt.emitted(), [["a", "1"], ["b", "1"], ["a", "2"]]);
        bolt.finish().unwrap();
        assert!(bolt.emitted().is_empty());
    }

    #[test]
    fn keys_of_every_kind_come_back() {
        let cases: &[(FieldKind, Value<'_>, Value<'_>)] = &[
            (FieldKind::Bool, Value::Bool(true), Value::Bool(false)),
            (FieldKind::U8, Value::U8(255), Value::U8(0)),
            (FieldKind::U16, Value::U16(u16::MAX), Value::U16(0)),
            (FieldKind::U32, Value::U32(u32::MAX), Value::U32(0)),
            (FieldKind::U64, Value::U64(u64::MAX), Value::U64(0)),
            (FieldKind::I8, Value::I8(i8::MIN), Value::I8(0)),
            (FieldKind::I16, Value::I16(i16::MIN), Value::I16(0)),
            (FieldKind::I32, Value::I32(i32::MIN), Value::I32(0)),
            (FieldKind::I64, Value::I64(i64::MIN), Value::I64(0)),
            (FieldKind::F32, Value::F32(f32::NAN), Value::F32(0.0)),
            (FieldKind::F64, Value::F64(-1.5e300), Value::F64(0.0)),
            (FieldKind::Bytes, Value::Bytes(&[0, 255]), Value::Bytes(&[0])),
        ];
        for &(kind, a, b) in cases {
            let fields = [("x", FieldKind::Str), ("key", kind)];
            let mut bolt = Bench::bolt("count", json!({"by": "key"}), &fields).start().unwrap();
            let (a_row, b_row) = ([Value::Str("x"), a], [Value::Str("y"), b]);
            bolt.execute(&[&a_row, &b_row, &a_row]).unwrap();
            let mut expected = vec![vec![a.to_string(), "2".to_owned()], vec![b.to_string(), "1".to_owned()]];
            expected.sort();
            assert_eq!(finished(&mut bolt), expected, "{kind:?}");
        }
    }

    #[test]
    fn zeros_are_one_key() {
        let mut bolt = Bench::bolt("count", json!({"by": "f"}), &[("f", FieldKind::F64)]).start().unwrap();
        bolt.execute(&[
            &[Value::F64(0.0)],
            &[Value::F64(-0.0)],
            &[Value::F64(-f64::NAN)],
            &[Value::F64(f64::NAN)],
        ])
        .unwrap();
        assert_eq!(finished(&mut bolt), [["0", "2"], ["NaN", "2"]]);
    }

    #[test]
    fn many_keys_leave_in_several_blocks() {
        let mut bolt = Bench::bolt("count", json!({"by": "n"}), &[("n", FieldKind::U64)]).start().unwrap();
        for n in 0..5000 {
            bolt.execute(&[&[Value::U64(n % 2500)]]).unwrap();
        }
        let tuples = finished(&mut bolt);
        assert_eq!(tuples.len(), 2500);
        assert!(tuples.iter().all(|tuple| tuple[1] == "2"));
    }
}
