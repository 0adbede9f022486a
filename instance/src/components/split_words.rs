//! The `split-words` bolt: lines into words.

use super::file_lines::Line;
use super::schema::{default_stream, needs_field};
use super::types::ComponentType;
use crate::topology::Factory;
use crate::{Bolt, BoltCollector, Input, Result, Tuple};
use egret_dataplane::plan::{FieldKind, Role};

/// The type `split-words`.
pub(super) static TYPE: ComponentType = ComponentType {
    name: "split-words",
    role: Role::Bolt,
    help: "splits `line` into words at white space",
    args: &[],
    outputs: |_, inputs| {
        needs_field(inputs, "line", FieldKind::Str)?;
        Ok(default_stream(&[("word", FieldKind::Str)]))
    },
    check: |_, _| Ok(()),
    make: |_| Factory::bolt(|| SplitWords),
};

/// What [`SplitWords`] emits.
#[derive(Tuple, Clone, Copy, Debug, PartialEq, Eq)]
pub struct Word<'a> {
    /// The word.
    pub word: &'a str,
}

/// Splits each [`Line`] at Unicode white space and emits the words as they are: case and punctuation stay.
#[derive(Clone, Copy, Debug, Default)]
pub struct SplitWords;

impl Bolt for SplitWords {
    fn execute(&mut self, input: &Input<'_>, out: &mut BoltCollector) -> Result<()> {
        for word in input.get::<Line<'_>>()?.line.split_whitespace() {
            out.emit(&Word { word }).anchor(input)?;
        }
        out.ack(input)
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::Bench;
    use egret_dataplane::plan::FieldKind;
    use serde_json::json;

    #[test]
    fn words_stand_between_unicode_white_space() {
        let mut bolt = Bench::bolt("split-words", json!({}), &[("line", FieldKind::Str)]).start().unwrap();
        bolt.execute_texts(&["", "  The quick,\tbrown\u{a0}fox\u{3000}\u{85}jumps ", "\u{200b}x"]).unwrap();
        let words: Vec<_> = bolt.emitted().concat();
        assert_eq!(words, ["The", "quick,", "brown", "fox", "jumps", "\u{200b}x"]);
        assert_eq!(bolt.counts(), (6, 3, 0));
    }
}
