//! First reading: the document's mappings and lists become components and streams, whatever they mean.
//!
//! Each problem is noted and reading goes on, so that the user sees all of them at once.

use super::mapping::{Mapping, Placed, items};
use super::node::{Node, Place, Value};
use super::problem::Problems;
use egret_dataplane::plan::config::parse_bytes;
use egret_dataplane::plan::topology::DEFAULT_STREAM;
use egret_dataplane::plan::validate::{MAX_PARALLELISM, suggestion};
use egret_dataplane::plan::{Grouping, Role};

/// The document, read.
#[derive(Default)]
pub(super) struct Draft<'n> {
    pub(super) name: Option<Placed>,
    /// Where the document begins.
    pub(super) at: Place,
    pub(super) config: Vec<(&'n str, Place, &'n Node)>,
    pub(super) components: Vec<DraftComponent<'n>>,
    pub(super) streams: Vec<DraftStream>,
    /// Whether an entry of `streams` could not be read, so that some bolt may seem to read nothing.
    pub(super) lost_stream: bool,
}

/// An entry of `spouts` or `bolts`.
pub(super) struct DraftComponent<'n> {
    pub(super) role: Role,
    pub(super) id: Placed,
    /// Whether `id` stands for a missing one.
    pub(super) nameless: bool,
    pub(super) kind: Option<Placed>,
    pub(super) parallelism: u32,
    pub(super) parallelism_at: Place,
    pub(super) args: Vec<(&'n str, Place, &'n Node)>,
    /// Where `args` stands, or the component when it has none.
    pub(super) args_at: Place,
    pub(super) resources: DraftResources,
    pub(super) config: Vec<(&'n str, Place, &'n Node)>,
}

/// An entry's `resources`; what is not given comes from the configuration.
#[derive(Default)]
pub(super) struct DraftResources {
    pub(super) cpu_millis: Option<u64>,
    pub(super) ram_bytes: Option<u64>,
    pub(super) disk_bytes: Option<u64>,
}

/// An entry of `streams` that has both ends.
pub(super) struct DraftStream {
    pub(super) from: Placed,
    pub(super) to: Placed,
    pub(super) stream: Placed,
    pub(super) grouping: Grouping,
    pub(super) grouping_at: Place,
    /// Whether the grouping stands for one that could not be read.
    pub(super) grouping_wrong: bool,
}

const TOP_KEYS: &[&str] = &["name", "config", "spouts", "bolts", "streams"];
const COMPONENT_KEYS: &[&str] = &["id", "type", "parallelism", "args", "resources", "config"];
const RESOURCE_KEYS: &[&str] = &["cpu", "ram", "disk"];
const STREAM_KEYS: &[&str] = &["name", "from", "to", "stream", "grouping"];
const GROUPING_KEYS: &[&str] = &["type", "args", "stream"];

/// Reads the document; `None` when it is no mapping, which is reported.
pub(super) fn read<'n>(root: &'n Node, problems: &mut Problems<'_>) -> Option<Draft<'n>> {
    let mut draft = Draft { at: root.at, ..Draft::default() };
    let top = Mapping::of(root, "the topology", Some(TOP_KEYS), problems)?;
    draft.name = top.required("name", "name: word-count", problems);
    if let Some(node) = top.get("config").filter(|n| !matches!(n.value, Value::Null)) {
        let config = Mapping::of(node, "`config`", None, problems);
        draft.config = config.map(|c| c.entries).unwrap_or_default();
    }
    for (key, role) in [("spouts", Role::Spout), ("bolts", Role::Bolt)] {
        let Some(node) = top.get(key) else { continue };
        for item in items(node, &format!("`{key}`"), problems) {
            let number = draft.components.len() + 1;
            draft.components.extend(read_component(item, role, number, problems));
        }
    }
    if let Some(node) = top.get("streams") {
        for item in items(node, "`streams`", problems) {
            match read_stream(item, problems) {
                Some(stream) => draft.streams.push(stream),
                None => draft.lost_stream = true,
            }
        }
    }
    Some(draft)
}

fn read_component<'n>(
    node: &'n Node,
    role: Role,
    number: usize,
    problems: &mut Problems<'_>,
) -> Option<DraftComponent<'n>> {
    let word = if role == Role::Spout { "spout" } else { "bolt" };
    let id = match &node.value {
        Value::Map(entries) => {
            entries.iter().find(|(k, _)| k.text() == Some("id")).and_then(|(_, v)| v.text())
        }
        _ => None,
    };
    let what = id.map_or_else(|| format!("this {word}"), |id| format!("{word} `{id}`"));
    let map = Mapping::of(node, what, Some(COMPONENT_KEYS), problems)?;
    let id = map.required("id", "id: split", problems);
    let nameless = id.is_none();
    let id = id.unwrap_or_else(|| Placed { text: format!("{word}-{number}"), at: map.at });
    let kind = map.required("type", "type: identity", problems);
    let parallelism = map.get("parallelism").map_or(Some(1), |n| read_parallelism(n, &map.what, problems));
    let mut inner = |key: &str| match map.get(key) {
        Some(node) if !matches!(node.value, Value::Null) => {
            Mapping::of(node, format!("`{key}` of {}", map.what), None, problems)
        }
        _ => None,
    };
    let (args, config) = (inner("args"), inner("config"));
    let resources = map.get("resources").and_then(|n| read_resources(n, &map.what, problems));
    Some(DraftComponent {
        role,
        nameless,
        kind,
        parallelism: parallelism.unwrap_or(1),
        parallelism_at: map.get("parallelism").map_or(id.at, |n| n.at),
        args_at: args.as_ref().map_or(id.at, |a| a.at),
        args: args.map(|a| a.entries).unwrap_or_default(),
        resources: resources.unwrap_or_default(),
        config: config.map(|c| c.entries).unwrap_or_default(),
        id,
    })
}

/// A whole number that fits; whether it is in range is the validator's to say.
fn read_parallelism(node: &Node, what: &str, problems: &mut Problems<'_>) -> Option<u32> {
    if let Value::Unsigned(value) = node.value
        && let Ok(value) = u32::try_from(value)
    {
        return Some(value);
    }
    let found = node.describe();
    let message =
        format!("`parallelism` of {what} is {found}; it must be a whole number from 1 to {MAX_PARALLELISM}");
    problems.add(node.at, message);
    None
}

fn read_resources(node: &Node, what: &str, problems: &mut Problems<'_>) -> Option<DraftResources> {
    let what = format!("`resources` of {what}");
    let map = Mapping::of(node, what, Some(RESOURCE_KEYS), problems)?;
    let mut bytes = |key: &str| {
        let placed = map.text(key, problems)?;
        let value = parse_bytes(&placed.text);
        if value.is_none() {
            let message =
                format!("`{key}` is `{}`; it must be a number of bytes such as 512MiB", placed.text);
            problems.add(placed.at, message);
        }
        value
    };
    let (ram_bytes, disk_bytes) = (bytes("ram"), bytes("disk"));
    let cpu = map.text("cpu", problems);
    let cpu_millis = cpu.and_then(|placed| {
        let cores = placed.text.parse::<f64>().ok().filter(|c| (0.0..1e6).contains(c));
        if cores.is_none() {
            let message = format!("`cpu` is `{}`; it must be a number of cores such as 0.5", placed.text);
            problems.add(placed.at, message);
        }
        cores.map(|c| (c * 1000.0).round() as u64)
    });
    Some(DraftResources { cpu_millis, ram_bytes, disk_bytes })
}

fn read_stream(node: &Node, problems: &mut Problems<'_>) -> Option<DraftStream> {
    let map = Mapping::of(node, "this stream", Some(STREAM_KEYS), problems)?;
    let from = map.required("from", "from: lines", problems);
    let to = map.required("to", "to: split", problems);
    let mut stream = map.text("stream", problems);
    let mut grouping = None;
    let mut grouping_at = map.at;
    match map.get("grouping") {
        None => {
            problems
                .add(map.at, "this stream has no `grouping`; give one, such as `grouping: {type: SHUFFLE}`");
        }
        Some(node) => {
            grouping_at = node.at;
            if let Some(map) = Mapping::of(node, "`grouping`", Some(GROUPING_KEYS), problems) {
                (grouping, grouping_at) = read_grouping(&map, problems);
                stream = one_stream(stream, map.text("stream", problems), problems);
            }
        }
    }
    let (from, to) = (from?, to?);
    let stream = stream.unwrap_or_else(|| Placed { text: DEFAULT_STREAM.to_owned(), at: from.at });
    let grouping_wrong = grouping.is_none();
    let grouping = grouping.unwrap_or(Grouping::Shuffle);
    Some(DraftStream { from, to, stream, grouping, grouping_at, grouping_wrong })
}

/// The stream's name may stand beside `from` or inside `grouping`.
fn one_stream(outer: Option<Placed>, inner: Option<Placed>, problems: &mut Problems<'_>) -> Option<Placed> {
    if let (Some(outer), Some(inner)) = (&outer, &inner)
        && outer.text != inner.text
    {
        let message = format!(
            "the grouping names stream `{}`, but line {} names `{}`; name it once",
            inner.text, outer.at.line, outer.text
        );
        problems.add(inner.at, message);
    }
    outer.or(inner)
}

const GROUPINGS: &[&str] =
    &["SHUFFLE", "LOCAL_OR_SHUFFLE", "FIELDS", "PARTIAL_KEY", "ALL", "GLOBAL", "NONE", "DIRECT", "CUSTOM"];

/// The grouping, and the place of what it depends on: its args, else its type.
fn read_grouping(map: &Mapping<'_>, problems: &mut Problems<'_>) -> (Option<Grouping>, Place) {
    let args_at = map.get("args").map(|n| n.at);
    let Some(kind) = map.required("type", "type: SHUFFLE", problems) else {
        return (None, map.at);
    };
    let at = args_at.unwrap_or(kind.at);
    let name = kind.text.to_ascii_uppercase();
    if !GROUPINGS.contains(&name.as_str()) {
        let hint = suggestion(&name, GROUPINGS.iter().copied());
        let all = GROUPINGS.join(", ");
        problems.add(kind.at, format!("unknown grouping `{}`{hint}; the groupings are {all}", kind.text));
        return (None, at);
    }
    if matches!(name.as_str(), "FIELDS" | "PARTIAL_KEY") {
        let Some(fields) = read_fields(map, &name, problems) else { return (None, at) };
        let make = if name == "FIELDS" { Grouping::Fields } else { Grouping::PartialKey };
        return (Some(make(fields)), at);
    }
    if let Some(args) = map.get("args").filter(|n| !matches!(&n.value, Value::Null)) {
        let message = format!("grouping {name} takes no `args`; only FIELDS and PARTIAL_KEY do");
        problems.add(args.at, message);
        return (None, at);
    }
    (plain_grouping(&name, kind.at, problems), at)
}

fn plain_grouping(name: &str, at: Place, problems: &mut Problems<'_>) -> Option<Grouping> {
    Some(match name {
        "SHUFFLE" => Grouping::Shuffle,
        "LOCAL_OR_SHUFFLE" => Grouping::LocalOrShuffle,
        "ALL" => Grouping::All,
        "GLOBAL" => Grouping::Global,
        "NONE" => Grouping::None,
        other => {
            let why = match other {
                "DIRECT" => "no built-in component names a task",
                _ => "its function is written in Rust",
            };
            problems
                .add(at, format!("grouping {other} works only in a program that links the library: {why}"));
            return None;
        }
    })
}

fn read_fields(map: &Mapping<'_>, name: &str, problems: &mut Problems<'_>) -> Option<Vec<String>> {
    let wrong = |at, problems: &mut Problems<'_>| {
        problems
            .add(at, format!("grouping {name} needs `args`, a list of field names such as `args: [word]`"));
    };
    let Some(node) = map.get("args") else {
        wrong(map.at, problems);
        return None;
    };
    let Value::List(list) = &node.value else {
        wrong(node.at, problems);
        return None;
    };
    let fields: Option<Vec<_>> = list.iter().map(|n| n.scalar(problems.text_of())).collect();
    if fields.as_ref().is_none_or(Vec::is_empty) {
        wrong(node.at, problems);
        return None;
    }
    fields
}
