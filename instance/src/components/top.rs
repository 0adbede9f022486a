//! The `top` bolt: the tuples with the highest values.

use super::args::{ArgKind, ArgSpec, Args};
use super::schema::{as_input, field_of};
use super::types::ComponentType;
use crate::topology::Factory;
use crate::tuple::RowLayout;
use crate::{Bolt, BoltCollector, Input, Result, Row, Value};
use egret_dataplane::plan::Role;
use rkyv::util::AlignedVec;
use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// The type `top`.
pub(super) static TYPE: ComponentType = ComponentType {
    name: "top",
    role: Role::Bolt,
    help: "keeps the tuples with the highest values of a field and emits them, highest first, when the input ends",
    args: &[
        ArgSpec::required("by", ArgKind::Field, "the field that is compared"),
        ArgSpec::optional("k", ArgKind::Number(1, 1_000_000), "how many tuples are kept; 10 by default"),
    ],
    outputs: |args, inputs| {
        field_of(args, "by", inputs)?;
        as_input(args, inputs)
    },
    check: |_, _| Ok(()),
    make: |args| Factory::bolt(move || Top::from_args(&args)),
};

/// Keeps the `k` tuples with the highest values of a field and emits them when the input ends, highest first.
///
/// Of equal values those whose fields come first in the alphabet win, so the result does not depend on the order of the
/// input. For the top of a whole stream run one task, with global grouping.
pub struct Top {
    by: String,
    k: usize,
    /// The lowest of those kept is on top.
    kept: BinaryHeap<Reverse<Entry>>,
    layout: Option<RowLayout>,
}

#[derive(PartialEq, Eq, PartialOrd, Ord)]
struct Entry {
    rank: Rank,
    /// All fields as text, for equal ranks.
    text: Reverse<String>,
    archive: Archive,
}

/// A value, ordered.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
enum Rank {
    Number(i128),
    Bytes(Vec<u8>),
}

/// The tuple itself, which plays no part in the order.
struct Archive(AlignedVec<8>);

impl Top {
    /// The ten highest by this field.
    pub fn by(field: impl Into<String>) -> Self {
        Self { by: field.into(), k: 10, kept: BinaryHeap::new(), layout: None }
    }

    /// Keeps this many instead.
    #[must_use]
    pub fn keep(mut self, k: usize) -> Self {
        self.k = k;
        self
    }

    pub(super) fn from_args(args: &Args) -> Self {
        Self::by(args.text("by").unwrap_or_default()).keep(args.number("k").unwrap_or(10) as usize)
    }
}

impl Bolt for Top {
    fn execute(&mut self, input: &Input<'_>, out: &mut BoltCollector) -> Result<()> {
        let row = input.row()?;
        let rank = rank(&row.field(&self.by)?);
        let full = self.kept.len() >= self.k;
        let too_low = full && self.kept.peek().is_none_or(|Reverse(lowest)| rank < lowest.rank);
        if !too_low {
            let text = Reverse(text(&row)?);
            let mut archive = AlignedVec::new();
            archive.extend_from_slice(row.bytes());
            self.kept.push(Reverse(Entry { rank, text, archive: Archive(archive) }));
            if full {
                self.kept.pop();
            }
            if self.layout.is_none() {
                self.layout = Some(row.layout().clone());
            }
        }
        out.ack(input)
    }

    fn finish(&mut self, out: &mut BoltCollector) -> Result<()> {
        let Some(layout) = &self.layout else { return Ok(()) };
        // Ascending in `Reverse` is highest first.
        for Reverse(entry) in std::mem::take(&mut self.kept).into_sorted_vec() {
            let row = Row::new(layout, &entry.archive.0)?;
            let values = (0..row.len()).map(|i| row.get(i)).collect::<Result<Vec<_>, _>>()?;
            out.emit_values(&values).unanchored()?;
        }
        Ok(())
    }
}

fn text(row: &Row<'_>) -> Result<String> {
    let mut text = String::new();
    for (_, value) in row.fields() {
        text.push_str(&value?.to_string());
        text.push('\t');
    }
    Ok(text)
}

fn rank(value: &Value<'_>) -> Rank {
    match *value {
        Value::Bool(v) => Rank::Number(v.into()),
        Value::U8(v) => Rank::Number(v.into()),
        Value::U16(v) => Rank::Number(v.into()),
        Value::U32(v) => Rank::Number(v.into()),
        Value::U64(v) => Rank::Number(v.into()),
        Value::I8(v) => Rank::Number(v.into()),
        Value::I16(v) => Rank::Number(v.into()),
        Value::I32(v) => Rank::Number(v.into()),
        Value::I64(v) => Rank::Number(v.into()),
        Value::F32(v) => float_rank(v.into()),
        Value::F64(v) => float_rank(v),
        Value::Str(v) => Rank::Bytes(v.as_bytes().to_vec()),
        Value::Bytes(v) => Rank::Bytes(v.to_vec()),
    }
}

/// Floats in their total order, as [`f64::total_cmp`] compares them, with all NaN lowest.
fn float_rank(value: f64) -> Rank {
    if value.is_nan() {
        return Rank::Number(i128::MIN);
    }
    let bits = value.to_bits() as i64;
    Rank::Number((bits ^ (((bits >> 63) as u64) >> 1) as i64).into())
}

impl PartialEq for Archive {
    fn eq(&self, _: &Self) -> bool {
        true
    }
}

impl Eq for Archive {}

impl PartialOrd for Archive {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Archive {
    fn cmp(&self, _: &Self) -> std::cmp::Ordering {
        std::cmp::Ordering::Equal
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::Bench;
    use crate::Value;
    use egret_dataplane::plan::FieldKind;
    use serde_json::json;

    fn top(k: u64, pairs: &[(&str, u64)]) -> Vec<Vec<String>> {
        let fields = [("word", FieldKind::Str), ("count", FieldKind::U64)];
        let mut bolt = Bench::bolt("top", json!({"by": "count", "k": k}), &fields).start().unwrap();
        for &(word, count) in pairs {
            bolt.execute(&[&[Value::Str(word), Value::U64(count)]]).unwrap();
        }
        assert!(bolt.emitted().is_empty());
        bolt.finish().unwrap();
        bolt.emitted()
    }

    #[test]
    fn the_highest_come_first() {
        let pairs = [("a", 1), ("a much longer word", 9), ("c", 5), ("d", 7), ("e", 2)];
        assert_eq!(top(3, &pairs), [["a much longer word", "9"], ["d", "7"], ["c", "5"]]);
        assert_eq!(top(10, &pairs).len(), 5);
        assert!(top(3, &[]).is_empty());
    }

    #[test]
    fn ties_do_not_depend_on_the_order() {
        let expected = [["a", "1"], ["b", "1"]];
        assert_eq!(top(2, &[("c", 1), ("b", 1), ("a", 1)]), expected);
        assert_eq!(top(2, &[("a", 1), ("b", 1), ("c", 1)]), expected);
    }

    #[test]
    fn negative_and_broken_numbers_are_ordered() {
        let mut bolt = Bench::bolt("top", json!({"by": "f"}), &[("f", FieldKind::F64)]).start().unwrap();
        for f in [0.5, f64::NAN, -2.0, f64::INFINITY, -0.5, 1e300] {
            bolt.execute(&[&[Value::F64(f)]]).unwrap();
        }
        bolt.finish().unwrap();
        let order: Vec<f64> = bolt.emitted().concat().iter().map(|text| text.parse().unwrap()).collect();
        assert_eq!(order[..5], [f64::INFINITY, 1e300, 0.5, -0.5, -2.0]);
        assert!(order[5].is_nan());
    }
}
