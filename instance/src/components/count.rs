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
        let count = match (key.as_bytes(), number_bytes(&key)) {
            (Some(bytes), _) => self.counts.increment(bytes),
            (None, bytes) => self.counts.increment(&bytes),
        };
        self.kind = key.kind();
        if self.each {
            out.emit_values(&[key, Value::U64(count)]).anchor(input)?;
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
