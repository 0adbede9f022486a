//! The keys of a topology's `config:`, with their types, defaults and meaning.
//!
//! Values are kept as the text the user wrote; [`Config::set`] refuses the ones that do not parse, and the getters
//! read a checked configuration.

use rkyv::{Archive, Deserialize, Serialize};
use std::collections::BTreeMap;

/// The `config:` entries that were set, by full key name.
#[derive(
    Archive,
    Serialize,
    Deserialize,
    serde::Serialize,
    serde::Deserialize,
    Clone,
    Debug,
    PartialEq,
    Eq,
    Default,
)]
#[serde(transparent)]
pub struct Config {
    entries: BTreeMap<String, String>,
}

/// The type of a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ValueKind {
    /// A whole number within these bounds, both included.
    Integer(u64, u64),
    /// A number of bytes, plain or with a suffix KiB, MiB, GiB (also K, M, G, KB, MB, GB: all of 1,024).
    Bytes(u64, u64),
    /// One of these words, in any case.
    Choice(&'static [&'static str]),
    /// `none`, `auto` or a list of processors such as `0,2-5`.
    Processors,
    /// A decimal number from 0, in thousandths.
    Decimal,
}

/// One key.
#[derive(Clone, Copy, Debug)]
pub struct Key {
    /// The full name; what it measures stands last in it.
    pub name: &'static str,
    /// The type of its values.
    pub kind: ValueKind,
    /// The value when it is not set.
    pub default: &'static str,
    /// One line for `egret config`.
    pub help: &'static str,
    /// A value, or the whole key, that is known but not built yet: setting it (to that) is refused.
    pub unsupported: &'static [&'static str],
}

macro_rules! keys {
    ($($(#[doc = $help:literal])* $ident:ident = $name:literal, $kind:expr, $default:literal $(, unsupported $bad:expr)?;)*) => {
        $($(#[doc = $help])* pub const $ident: &str = $name;)*

        /// Every key there is, in the order of the manual.
        pub const KEYS: &[Key] = &[$(Key {
            name: $name,
            kind: $kind,
            default: $default,
            help: concat!($($help),*),
            unsupported: { #[allow(unused_mut, unused_assignments)] { let mut u: &'static [&'static str] = &[]; $(u = $bad;)? u } },
        }),*];
    };
}

const KIB: u64 = 1 << 10;
const MIB: u64 = 1 << 20;
const TIB: u64 = 1 << 40;

keys! {
    /// What is promised for each tuple.
    RELIABILITY_MODE = "topology.reliability.mode",
        ValueKind::Choice(&["ATMOST_ONCE", "ATLEAST_ONCE", "EFFECTIVELY_ONCE"]), "ATMOST_ONCE",
        unsupported &["EFFECTIVELY_ONCE"];
    /// How many containers the instances are packed into; 0 means as many as their resources need.
    CONTAINERS = "topology.containers", ValueKind::Integer(0, 10_000), "0";
    /// After how many seconds a tuple tree that is not fully acked fails.
    MESSAGE_TIMEOUT_SECS = "topology.message.timeout.secs", ValueKind::Integer(1, 86_400), "30";
    /// How many roots may be in flight per spout task.
    MAX_SPOUT_PENDING = "topology.max.spout.pending", ValueKind::Integer(1, 1 << 24), "65536";
    /// Milliseconds between tick tuples of each bolt task; 0 means none.
    TICK_MS = "topology.tick.tuple.freq.ms", ValueKind::Integer(0, 86_400_000), "0";
    /// Memory that one instance is counted with, in bytes.
    COMPONENT_RAM = "topology.component.ram", ValueKind::Bytes(MIB, TIB), "128MiB";
    /// Cores that one instance is counted with.
    COMPONENT_CPU = "topology.component.cpu", ValueKind::Decimal, "0.1";
    /// Disk that one instance is counted with, in bytes.
    COMPONENT_DISK = "topology.component.disk", ValueKind::Bytes(0, TIB), "0";
    /// Memory that a container may need at most, in bytes; 0 means no limit.
    CONTAINER_RAM = "topology.container.ram", ValueKind::Bytes(0, u64::MAX), "0";
    /// Cores that a container may need at most; 0 means no limit.
    CONTAINER_CPU = "topology.container.cpu", ValueKind::Decimal, "0";
    /// Disk that a container may need at most, in bytes; 0 means no limit.
    CONTAINER_DISK = "topology.container.disk", ValueKind::Bytes(0, u64::MAX), "0";
    /// Memory that is counted in each container for its stmgr, in bytes.
    STMGR_RAM = "egret.stmgr.ram", ValueKind::Bytes(MIB, TIB), "128MiB";
    /// What an error returned by user code does: fail the tuple and go on, or end the instance so that it restarts.
    ERROR_ACTION = "egret.instance.error.action", ValueKind::Choice(&["FAIL_TUPLE", "RESTART"]), "FAIL_TUPLE";
    /// Bytes that one tuple may have at most.
    TUPLE_MAX_BYTES = "egret.tuple.max.bytes", ValueKind::Bytes(KIB, 64 * MIB), "4MiB";
    /// Milliseconds after which a tuple leaves its emitter even when its block is not full.
    FLUSH_INTERVAL_MS = "egret.flush.interval.ms", ValueKind::Integer(1, 60_000), "10";
    /// Standard blocks that each task may have in flight. Unless this is set, two for each task that it emits to if that
    /// is more, up to 512.
    TASK_BLOCKS = "egret.pool.task.blocks", ValueKind::Integer(4, 4096), "64";
    /// Huge pages that a container's pool may be made of: reserved ones where enough are free, else transparent ones where
    /// the kernel gives them to those who ask; or only those; or none.
    HUGE_PAGES = "egret.pool.huge.pages", ValueKind::Choice(&["auto", "transparent", "none"]), "auto";
    /// MiB that may wait for one task; when more do, the spouts above it stop until the low watermark is reached.
    HIGH_WATERMARK_MB = "egret.streammgr.network.backpressure.highwatermark.mb", ValueKind::Decimal, "0.5";
    /// MiB that still wait for a task when the spouts above it go on.
    LOW_WATERMARK_MB = "egret.streammgr.network.backpressure.lowwatermark.mb", ValueKind::Decimal, "0.25";
    /// Whether tuples for a task over its high watermark are dropped, instead of its spouts being stopped.
    DROP_TUPLES = "topology.droptuples.upon.backpressure", ValueKind::Choice(&["true", "false"]), "false";
    /// Bytes a second that each task may emit at most; 0 means no limit. Also in a component's own `config`.
    OUTPUT_BPS = "topology.component.output.bps", ValueKind::Bytes(0, TIB), "0";
    /// How the network is driven: io_uring where the kernel allows it, or always one of the two.
    REACTOR = "egret.network.reactor", ValueKind::Choice(&["auto", "uring", "epoll"]), "auto";
    /// Which processors the processes of a container use.
    AFFINITY = "egret.affinity.policy", ValueKind::Processors, "none";
    /// Turns that a thread without work spins before it parks; 0 by default where a policy pins a container to one processor.
    SPIN_TURNS = "egret.wait.spin.turns", ValueKind::Integer(0, 1_000_000), "100";
    /// Milliseconds before a process that died is started again, doubled with each death in a row.
    RESTART_DELAY_MS = "egret.executor.restart.delay.ms", ValueKind::Integer(1, 600_000), "100";
    /// Milliseconds that this delay grows to at most.
    RESTART_DELAY_MAX_MS = "egret.executor.restart.delay.max.ms", ValueKind::Integer(1, 3_600_000), "30000";
    /// Bytes after which a log file is rotated.
    LOG_MAX_BYTES = "egret.log.max.bytes", ValueKind::Bytes(4 * KIB, TIB), "16MiB";
    /// Rotated log files that are kept for each process.
    LOG_KEEP_FILES = "egret.log.keep.files", ValueKind::Integer(0, 1000), "3";
}

/// Other names that a key is known by, as (other name, name).
pub const ALIASES: &[(&str, &str)] = &[("topology.stmgrs", CONTAINERS)];

/// The keys that a component may have in a `config` of its own, where they win over the topology's.
pub const COMPONENT_KEYS: &[&str] = &[OUTPUT_BPS];

/// Keys with this prefix are the user's own; they are passed to every component and not checked.
pub const USER_PREFIX: &str = "user.";

/// Why an entry was refused.
#[derive(thiserror::Error, Clone, Debug, PartialEq, Eq)]
pub enum ConfigError {
    /// No such key.
    #[error("unknown configuration key `{key}`{}; `egret config` lists the keys, and `user.` begins your own",
        hint.as_ref().map(|h| format!(", did you mean `{h}`?")).unwrap_or_default())]
    UnknownKey {
        /// The key.
        key: String,
        /// The known key that looks most like it.
        hint: Option<String>,
    },
    /// The value does not parse or is out of range.
    #[error("`{key}` is `{value}`, but must be {expected}")]
    BadValue {
        /// The key.
        key: String,
        /// What was given.
        value: String,
        /// What is allowed, in words.
        expected: String,
    },
    /// Known, but nothing that a component can have for itself.
    #[error("`{key}` is set for the whole topology; a component's own `config` may have {}", COMPONENT_KEYS.join(", "))]
    NotOfComponents {
        /// The key.
        key: String,
    },
    /// Known, but not built yet.
    #[error("`{key}: {value}` is not supported yet")]
    Unsupported {
        /// The key.
        key: String,
        /// What was given.
        value: String,
    },
}

impl Config {
    /// Sets an entry after checking it; an alias is stored under the key's own name.
    ///
    /// # Errors
    /// [`ConfigError`] for an unknown key, a bad value or one that is not supported yet.
    pub fn set(&mut self, key: &str, value: &str) -> Result<(), ConfigError> {
        if key.starts_with(USER_PREFIX) {
            self.entries.insert(key.to_owned(), value.to_owned());
            return Ok(());
        }
        let name = ALIASES.iter().find(|(alias, _)| *alias == key).map_or(key, |(_, name)| name);
        let Some(known) = KEYS.iter().find(|k| k.name == name) else {
            return Err(ConfigError::UnknownKey { key: key.to_owned(), hint: nearest(key) });
        };
        let value = value.trim();
        if !known.kind.accepts(value) {
            let expected = known.kind.expected();
            return Err(ConfigError::BadValue { key: key.to_owned(), value: value.to_owned(), expected });
        }
        if known.unsupported.iter().any(|u| u.eq_ignore_ascii_case(value)) {
            return Err(ConfigError::Unsupported { key: key.to_owned(), value: value.to_owned() });
        }
        self.entries.insert(name.to_owned(), value.to_owned());
        Ok(())
    }

    /// As [`set`](Self::set), for the configuration of a single component.
    ///
    /// # Errors
    /// Also [`ConfigError::NotOfComponents`].
    pub fn set_of_component(&mut self, key: &str, value: &str) -> Result<(), ConfigError> {
        let known = KEYS.iter().any(|k| k.name == key) || ALIASES.iter().any(|(alias, _)| *alias == key);
        if known && !COMPONENT_KEYS.contains(&key) {
            return Err(ConfigError::NotOfComponents { key: key.to_owned() });
        }
        self.set(key, value)
    }

    /// Copies every entry of `over` into this configuration, replacing what is there.
    pub fn overlay(&mut self, over: &Config) {
        self.entries.extend(over.entries.iter().map(|(k, v)| (k.clone(), v.clone())));
    }

    /// The text of an entry, or the key's default; `None` for an unknown key that is not set.
    #[must_use]
    pub fn text(&self, key: &str) -> Option<&str> {
        let set = self.entries.get(key).map(String::as_str);
        set.or_else(|| KEYS.iter().find(|k| k.name == key).map(|k| k.default))
    }

    /// The value of a key of kind [`ValueKind::Integer`] or [`ValueKind::Bytes`].
    ///
    /// # Panics
    /// When `key` is not such a key; entries are checked when they are set.
    #[must_use]
    pub fn number(&self, key: &str) -> u64 {
        let value = self.text(key).and_then(parse_bytes);
        value.unwrap_or_else(|| panic!("{key} is not a numeric key"))
    }

    /// The value of a key of kind [`ValueKind::Decimal`], in thousandths.
    ///
    /// # Panics
    /// When `key` is not such a key.
    #[must_use]
    pub fn millis(&self, key: &str) -> u64 {
        let value = self.text(key).and_then(parse_decimal);
        value.unwrap_or_else(|| panic!("{key} is not a decimal key"))
    }

    /// Whether an entry equals `word`, whatever the case.
    #[must_use]
    pub fn is(&self, key: &str, word: &str) -> bool {
        self.text(key).is_some_and(|text| text.eq_ignore_ascii_case(word))
    }

    /// Whether an entry was set.
    #[must_use]
    pub fn is_set(&self, key: &str) -> bool {
        self.entries().any(|(set, _)| set == key)
    }

    /// Every entry that was set, by key.
    pub fn entries(&self) -> impl Iterator<Item = (&str, &str)> {
        self.entries.iter().map(|(k, v)| (k.as_str(), v.as_str()))
    }
}

impl ValueKind {
    fn accepts(self, value: &str) -> bool {
        match self {
            Self::Integer(low, high) => value.parse().is_ok_and(|n: u64| (low..=high).contains(&n)),
            Self::Bytes(low, high) => parse_bytes(value).is_some_and(|n| (low..=high).contains(&n)),
            Self::Choice(words) => words.iter().any(|w| w.eq_ignore_ascii_case(value)),
            Self::Processors => crate::affinity::Policy::parse(value).is_some(),
            Self::Decimal => parse_decimal(value).is_some(),
        }
    }

    /// What is allowed, in words.
    #[must_use]
    pub fn expected(self) -> String {
        match self {
            Self::Integer(low, high) => format!("a whole number from {low} to {high}"),
            Self::Bytes(low, u64::MAX) => format!("a number of bytes from {low}, such as 64MiB"),
            Self::Bytes(low, high) => format!("a number of bytes from {low} to {high}, such as 64MiB"),
            Self::Choice(words) => format!("one of {}", words.join(", ")),
            Self::Processors => "`none`, `auto` or processors such as `0,2-5`".to_owned(),
            Self::Decimal => "a decimal number from 0 with at most three decimals, such as 0.5".to_owned(),
        }
    }
}

/// Parses `64MiB` and the like; every suffix counts in powers of 1,024. `None` when it is no number or overflows.
#[must_use]
pub fn parse_bytes(text: &str) -> Option<u64> {
    let digits = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    let number: u64 = text[..digits].parse().ok()?;
    let shift = match text[digits..].trim().to_ascii_lowercase().as_str() {
        "" | "b" => 0,
        "k" | "kb" | "kib" => 10,
        "m" | "mb" | "mib" => 20,
        "g" | "gb" | "gib" => 30,
        "t" | "tb" | "tib" => 40,
        _ => return None,
    };
    number.checked_mul(1 << shift)
}

fn parse_decimal(text: &str) -> Option<u64> {
    let thousandths = text.parse::<f64>().ok()? * 1000.0;
    let whole = thousandths.round();
    // What is no whole number of thousandths is more off than the product of two that are is inexact.
    let is_whole = (thousandths - whole).abs() <= whole * 1e-9;
    ((0.0..1e15).contains(&whole) && is_whole).then_some(whole as u64)
}

/// The known key with the smallest edit distance, if that is small.
fn nearest(key: &str) -> Option<String> {
    let names = KEYS.iter().map(|k| k.name).chain(ALIASES.iter().map(|(alias, _)| *alias));
    let best = names.map(|name| (super::validate::edit_distance(key, name), name)).min()?;
    (best.0 <= key.len() / 3).then(|| best.1.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn decimals_have_at_most_three_places() {
        for (text, thousandths) in
            [("0", 0), ("0.001", 1), ("0.5", 500), ("1.005", 1005), ("123456.789", 123_456_789)]
        {
            assert_eq!(parse_decimal(text), Some(thousandths), "{text}");
        }
        for text in ["0.0001", "0.0099999", "1.0005", "-1", "-0.001", "NaN", "inf", "1e13", ""] {
            assert_eq!(parse_decimal(text), None, "{text}");
        }
    }

    #[test]
    fn every_default_is_a_valid_value() {
        for key in KEYS {
            assert!(key.kind.accepts(key.default), "{}", key.name);
        }
    }

    #[test]
    fn aliases_are_stored_under_the_keys_own_name() {
        let mut config = Config::default();
        config.set("topology.stmgrs", "3").unwrap();
        assert_eq!(config.number(CONTAINERS), 3);
    }

    #[test]
    fn a_component_has_few_keys_of_its_own() {
        let mut config = Config::default();
        config.set_of_component(OUTPUT_BPS, "1MiB").unwrap();
        assert_eq!(config.number(OUTPUT_BPS), 1 << 20);
        let error = config.set_of_component(TICK_MS, "5").unwrap_err();
        assert!(
            matches!(error, ConfigError::NotOfComponents { .. }) && error.to_string().contains(OUTPUT_BPS)
        );
        assert!(matches!(config.set_of_component("tick", "5"), Err(ConfigError::UnknownKey { .. })));
    }

    #[test]
    fn an_unknown_key_names_the_nearest() {
        let error = Config::default().set("topology.container", "2").unwrap_err();
        assert!(error.to_string().contains("did you mean `topology.containers`"), "{error}");
    }

    #[test]
    fn sizes_overflow_to_an_error() {
        assert_eq!(parse_bytes("64MiB"), Some(64 << 20));
        assert_eq!(parse_bytes("18446744073709551615"), Some(u64::MAX));
        assert_eq!(parse_bytes("18446744073709551615K"), None);
        assert_eq!(parse_bytes("-1"), None);
    }
}
