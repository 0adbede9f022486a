//! A mapping whose keys are checked: each once, and only known ones.

use super::node::{Node, Place, Value};
use super::problem::Problems;
use egret_dataplane::plan::validate::suggestion;

/// The checked entries of a mapping.
pub(super) struct Mapping<'n> {
    /// What it describes, for error texts: `spout `lines``.
    pub(super) what: String,
    /// Where it begins.
    pub(super) at: Place,
    /// Key, the key's place, value.
    pub(super) entries: Vec<(&'n str, Place, &'n Node)>,
}

/// A text and its place.
#[derive(Clone, Debug)]
pub(super) struct Placed {
    pub(super) text: String,
    pub(super) at: Place,
}

impl<'n> Mapping<'n> {
    /// The entries of `node`, with a problem for each key that is repeated or not among `known` (`None`: any goes).
    pub(super) fn of(
        node: &'n Node,
        what: impl Into<String>,
        known: Option<&[&str]>,
        problems: &mut Problems<'_>,
    ) -> Option<Self> {
        let mut mapping = Self { what: what.into(), at: node.at, entries: Vec::new() };
        let entries = match &node.value {
            Value::Map(entries) => entries,
            _ => {
                let found = node.describe();
                problems.add(
                    node.at,
                    format!("{} must be a mapping of keys to values, not {found}", mapping.what),
                );
                return None;
            }
        };
        for (key, value) in entries {
            mapping.add(key, value, known, problems);
        }
        Some(mapping)
    }

    fn add(&mut self, key: &'n Node, value: &'n Node, known: Option<&[&str]>, problems: &mut Problems<'_>) {
        let what = &self.what;
        let Some(name) = key.text() else {
            problems.add(key.at, format!("{what} has the key {}; keys are words", key.describe()));
            return;
        };
        if let Some((_, first, _)) = self.entries.iter().find(|(k, ..)| *k == name) {
            problems.add(key.at, format!("{what} has the key `{name}` twice, first in line {}", first.line));
            return;
        }
        if let Some(known) = known.filter(|known| !known.contains(&name)) {
            let hint = suggestion(name, known.iter().copied());
            let keys = known.join(", ");
            problems.add(key.at, format!("unknown key `{name}` in {what}{hint}; the keys are {keys}"));
            return;
        }
        self.entries.push((name, key.at, value));
    }

    /// The value of `key`, if it is there.
    pub(super) fn get(&self, key: &str) -> Option<&'n Node> {
        self.entries.iter().find(|(name, ..)| *name == key).map(|(.., node)| *node)
    }

    /// The text of `key`; a problem when it is something else.
    pub(super) fn text(&self, key: &str, problems: &mut Problems<'_>) -> Option<Placed> {
        let node = self.get(key)?;
        let text = node.scalar(problems.text_of());
        if text.is_none() {
            let found = node.describe();
            problems.add(node.at, format!("`{key}` of {} must be a word, not {found}", self.what));
        }
        Some(Placed { text: text?, at: node.at })
    }

    /// The text of `key`; a problem when it is missing, which shows an `example`.
    pub(super) fn required(&self, key: &str, example: &str, problems: &mut Problems<'_>) -> Option<Placed> {
        if self.get(key).is_none() {
            problems.add(self.at, format!("{} has no `{key}`; give one, such as `{example}`", self.what));
        }
        self.text(key, problems)
    }
}

/// The items of a list; a problem when `node` is no list.
pub(super) fn items<'n>(node: &'n Node, what: &str, problems: &mut Problems<'_>) -> &'n [Node] {
    match &node.value {
        Value::List(items) => items,
        Value::Null => &[],
        _ => {
            problems.add(node.at, format!("{what} must be a list, not {}", node.describe()));
            &[]
        }
    }
}
