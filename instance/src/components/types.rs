//! The registry: every built-in type with its arguments, its outputs and how it is made.

use super::args::{ArgKind, ArgProblem, ArgSpec, Args, At};
use super::schema::{InputSchema, as_input, default_stream, field_of, needs_field, no_stream};
use egret_dataplane::plan::{FieldKind, Role, Stream};

/// A type that `type:` of a YAML topology can name.
#[derive(Clone, Copy, Debug)]
pub struct ComponentType {
    /// The name, such as `file-lines`.
    pub name: &'static str,
    /// Spout or bolt.
    pub role: Role,
    /// One line for the manual.
    pub help: &'static str,
    /// The arguments it takes.
    pub args: &'static [ArgSpec],
    /// Works out its output streams from checked arguments and the schemas of its inputs.
    pub outputs: fn(&Args, &[InputSchema<'_>]) -> Result<Vec<Stream>, ArgProblem>,
    /// Checks what depends on several arguments or on the parallelism.
    pub check: fn(&Args, parallelism: u32) -> Result<(), ArgProblem>,
}

/// The type called `name`.
#[must_use]
pub fn find(name: &str) -> Option<&'static ComponentType> {
    TYPES.iter().find(|t| t.name == name)
}

/// The names of all types of this role.
pub fn names(role: Role) -> impl Iterator<Item = &'static str> {
    TYPES.iter().filter(move |t| t.role == role).map(|t| t.name)
}

const COUNT: ArgSpec = ArgSpec::optional(
    "count",
    ArgKind::Number(0, u64::MAX),
    "how many tuples, over all tasks; without it the spout never ends",
);
const RATE: ArgSpec = ArgSpec::optional(
    "rate",
    ArgKind::Rate,
    "tuples per second over all tasks, by the clock whatever the topology does; as fast as possible without it",
);

/// Every built-in type.
pub static TYPES: &[ComponentType] = &[
    ComponentType {
        name: "file-lines",
        role: Role::Spout,
        help: "emits each line of its files once",
        args: &[
            ArgSpec::required(
                "path",
                ArgKind::Paths,
                "a file, a pattern with `*` and `?`, `-` for standard input, or a list of them",
            ),
            ArgSpec::optional(
                "repeat",
                ArgKind::Number(1, u64::MAX),
                "how many times the files are read; 1 by default",
            ),
        ],
        outputs: |_, _| Ok(default_stream(&[("line", FieldKind::Str)])),
        check: check_file_lines,
    },
    ComponentType {
        name: "sequence",
        role: Role::Spout,
        help: "emits the numbers from 0",
        args: &[
            COUNT,
            RATE,
            ArgSpec::optional(
                "bytes",
                ArgKind::Number(0, 64 << 20),
                "adds a field `payload` of that many bytes",
            ),
        ],
        outputs: sequence_outputs,
        check: |_, _| Ok(()),
    },
    ComponentType {
        name: "random-words",
        role: Role::Spout,
        help: "emits words drawn at random from a made-up dictionary",
        args: &[
            ArgSpec::optional(
                "dictionary",
                ArgKind::Number(1, 100_000_000),
                "how many distinct words there are; 450000 by default",
            ),
            COUNT,
            RATE,
            ArgSpec::optional(
                "seed",
                ArgKind::Number(0, u64::MAX),
                "another seed gives another draw; 0 by default",
            ),
        ],
        outputs: |_, _| Ok(default_stream(&[("word", FieldKind::Str)])),
        check: |_, _| Ok(()),
    },
    ComponentType {
        name: "split-words",
        role: Role::Bolt,
        help: "splits `line` into words at white space",
        args: &[],
        outputs: |_, inputs| {
            needs_field(inputs, "line", FieldKind::Str)?;
            Ok(default_stream(&[("word", FieldKind::Str)]))
        },
        check: |_, _| Ok(()),
    },
    ComponentType {
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
        check: check_count,
    },
    ComponentType {
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
    },
    ComponentType {
        name: "sleep",
        role: Role::Bolt,
        help: "waits and passes the tuple on",
        args: &[ArgSpec::required("micros", ArgKind::Number(0, 3_600_000_000), "microseconds per tuple")],
        outputs: as_input,
        check: |_, _| Ok(()),
    },
    ComponentType {
        name: "flaky",
        role: Role::Bolt,
        help: "passes tuples on, but fails some of them or crashes once",
        args: &[
            ArgSpec::optional(
                "fail_every",
                ArgKind::Number(1, u64::MAX),
                "fails each Nth distinct tuple the first time it comes",
            ),
            ArgSpec::optional(
                "crash_after",
                ArgKind::Number(1, u64::MAX),
                "each task aborts its process after that many tuples, once",
            ),
        ],
        outputs: as_input,
        check: |_, _| Ok(()),
    },
    ComponentType {
        name: "identity",
        role: Role::Bolt,
        help: "passes the tuple on",
        args: &[],
        outputs: as_input,
        check: |_, _| Ok(()),
    },
    ComponentType {
        name: "file-sink",
        role: Role::Bolt,
        help: "writes each tuple as a line of a file",
        args: &[
            ArgSpec::required(
                "path",
                ArgKind::Path,
                "the file; several tasks write PATH.TASK; `-` for standard output",
            ),
            ArgSpec::optional(
                "format",
                ArgKind::Choice(&["tsv", "json"]),
                "`tsv` (default): the fields joined by a tab; `json`: an object per line",
            ),
        ],
        outputs: no_stream,
        check: check_file_sink,
    },
    ComponentType {
        name: "null-sink",
        role: Role::Bolt,
        help: "counts tuples and measures their latency",
        args: &[],
        outputs: no_stream,
        check: |_, _| Ok(()),
    },
];

fn check_file_lines(args: &Args, _: u32) -> Result<(), ArgProblem> {
    let paths = args.texts("path");
    let stdin = paths.iter().filter(|path| **path == "-").count();
    if stdin > 1 {
        return Err(ArgProblem::value("path", "`path` names standard input `-` twice; it can be read once"));
    }
    if stdin == 1 && args.number("repeat").unwrap_or(1) > 1 {
        return Err(ArgProblem::value("repeat", "standard input `-` can be read once; leave `repeat` at 1"));
    }
    Ok(())
}

fn sequence_outputs(args: &Args, _: &[InputSchema<'_>]) -> Result<Vec<Stream>, ArgProblem> {
    let fields = [("n", FieldKind::U64), ("payload", FieldKind::Bytes)];
    let used = if args.number("bytes").is_some() { 2 } else { 1 };
    Ok(default_stream(&fields[..used]))
}

fn check_count(args: &Args, _: u32) -> Result<(), ArgProblem> {
    if args.text("by") == Some("count") {
        let message =
            "`by` is `count`, but that is the name of the field that holds the count; rename the input's";
        return Err(ArgProblem::value("by", message));
    }
    Ok(())
}

fn check_file_sink(args: &Args, parallelism: u32) -> Result<(), ArgProblem> {
    if args.text("path") == Some("-") && parallelism > 1 {
        let message = "`path` is standard output `-`, which one task writes; set `parallelism: 1`";
        return Err(ArgProblem { at: At::Value("path".to_owned()), message: message.to_owned() });
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_unique_and_found() {
        for (i, t) in TYPES.iter().enumerate() {
            assert!(std::ptr::eq(find(t.name).unwrap(), &TYPES[i]), "{}", t.name);
        }
        assert!(find("file_lines").is_none());
        assert_eq!(names(Role::Spout).collect::<Vec<_>>(), ["file-lines", "sequence", "random-words"]);
    }
}
