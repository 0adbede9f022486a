//! The arguments of built-in components: what each accepts, the check, and reading a checked set.

use egret_dataplane::plan::validate::suggestion;
use serde_json::{Map, Value};

/// One argument of a component type.
#[derive(Clone, Copy, Debug)]
pub struct ArgSpec {
    /// The key below `args`.
    pub name: &'static str,
    /// The type of its value.
    pub kind: ArgKind,
    /// Whether it must be given.
    pub required: bool,
    /// One line for the manual.
    pub help: &'static str,
}

/// The type of an argument.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ArgKind {
    /// A file: relative to the topology's file; `-` is standard input or output.
    Path,
    /// One such file or a list of at least one.
    Paths,
    /// A whole number within these bounds, both included.
    Number(u64, u64),
    /// A decimal number above 0.
    Rate,
    /// One of these words.
    Choice(&'static [&'static str]),
    /// The name of an input field.
    Field,
}

/// What a problem with a component's arguments or inputs is about, so that a front end can name the line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum At {
    /// The component as a whole.
    Component,
    /// The key of an argument that does not exist.
    Key(String),
    /// The value of an argument.
    Value(String),
    /// The component's input at this position.
    Input(usize),
}

/// One thing that is wrong with a component's arguments or inputs.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct ArgProblem {
    /// What it is about.
    pub at: At,
    /// What is wrong and what would be right; the component is named by the caller.
    pub message: String,
}

/// A component's arguments, checked against their [`ArgSpec`]s.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Args(Map<String, Value>);

impl ArgProblem {
    pub(super) fn value(name: &str, message: impl Into<String>) -> Self {
        Self { at: At::Value(name.to_owned()), message: message.into() }
    }
}

impl ArgSpec {
    /// An argument that may be left out.
    pub(super) const fn optional(name: &'static str, kind: ArgKind, help: &'static str) -> Self {
        Self { name, kind, required: false, help }
    }

    /// An argument that must be given.
    pub(super) const fn required(name: &'static str, kind: ArgKind, help: &'static str) -> Self {
        Self { name, kind, required: true, help }
    }
}

impl ArgKind {
    fn accepts(self, value: &Value) -> bool {
        let is_text = |v: &Value| v.as_str().is_some_and(|t| !t.is_empty());
        match self {
            Self::Path | Self::Field => is_text(value),
            Self::Paths => match value {
                Value::Array(items) => !items.is_empty() && items.iter().all(is_text),
                one => is_text(one),
            },
            Self::Number(low, high) => value.as_u64().is_some_and(|n| (low..=high).contains(&n)),
            Self::Rate => value.as_f64().is_some_and(|r| r.is_finite() && r > 0.0),
            Self::Choice(words) => value.as_str().is_some_and(|word| words.contains(&word)),
        }
    }

    /// What is allowed, in words.
    #[must_use]
    pub fn expected(self) -> String {
        match self {
            Self::Path => "the path of a file".to_owned(),
            Self::Paths => "the path of a file or a list of paths".to_owned(),
            Self::Number(low, u64::MAX) => format!("a whole number from {low}"),
            Self::Number(low, high) => format!("a whole number from {low} to {high}"),
            Self::Rate => "a number above 0".to_owned(),
            Self::Choice(words) => format!("one of {}", words.join(", ")),
            Self::Field => "the name of an input field".to_owned(),
        }
    }
}

impl Args {
    /// Checks arguments: each known, of its type, and none missing.
    ///
    /// # Errors
    /// Everything that is wrong.
    pub fn check(specs: &[ArgSpec], args: Map<String, Value>) -> Result<Self, Vec<ArgProblem>> {
        let mut problems = Vec::new();
        for (name, value) in &args {
            match specs.iter().find(|spec| spec.name == name) {
                None => problems.push(unknown(specs, name)),
                Some(spec) if !spec.kind.accepts(value) => {
                    let expected = spec.kind.expected();
                    let message = format!("`{name}` is {}, but must be {expected}", shown(value));
                    problems.push(ArgProblem::value(name, message));
                }
                Some(_) => {}
            }
        }
        for spec in specs.iter().filter(|spec| spec.required && !args.contains_key(spec.name)) {
            let message = format!("`{}` is missing; it must be {}", spec.name, spec.kind.expected());
            problems.push(ArgProblem { at: At::Component, message });
        }
        if problems.is_empty() { Ok(Self(args)) } else { Err(problems) }
    }

    /// Reads what [`to_json`](Self::to_json) wrote.
    ///
    /// # Errors
    /// When it is not JSON of a mapping, or `null`, which stands for no arguments.
    pub fn from_json(json: &str) -> Result<Self, serde_json::Error> {
        Ok(Self(serde_json::from_str::<Option<_>>(json)?.unwrap_or_default()))
    }

    /// The arguments as JSON, for [`Component::args`](egret_dataplane::plan::Component::args).
    #[must_use]
    pub fn to_json(&self) -> String {
        Value::Object(self.0.clone()).to_string()
    }

    /// A number, if given.
    #[must_use]
    pub fn number(&self, name: &str) -> Option<u64> {
        self.0.get(name)?.as_u64()
    }

    /// A rate, if given.
    #[must_use]
    pub fn rate(&self, name: &str) -> Option<f64> {
        self.0.get(name)?.as_f64()
    }

    /// A path, a word or a field's name, if given.
    #[must_use]
    pub fn text(&self, name: &str) -> Option<&str> {
        self.0.get(name)?.as_str()
    }

    /// One text or several, in order.
    #[must_use]
    pub fn texts(&self, name: &str) -> Vec<&str> {
        match self.0.get(name) {
            Some(Value::Array(items)) => items.iter().filter_map(Value::as_str).collect(),
            Some(one) => one.as_str().into_iter().collect(),
            None => Vec::new(),
        }
    }

    /// Applies `change` to every path among these arguments.
    pub fn map_paths(&mut self, specs: &[ArgSpec], change: impl Fn(&str) -> String) {
        let change = |value: &mut Value| {
            if let Some(path) = value.as_str() {
                *value = change(path).into();
            }
        };
        for spec in specs.iter().filter(|s| matches!(s.kind, ArgKind::Path | ArgKind::Paths)) {
            match self.0.get_mut(spec.name) {
                Some(Value::Array(items)) => items.iter_mut().for_each(change),
                Some(one) => change(one),
                None => {}
            }
        }
    }
}

fn unknown(specs: &[ArgSpec], name: &str) -> ArgProblem {
    let names = specs.iter().map(|spec| spec.name);
    let known = match specs {
        [] => "it takes none".to_owned(),
        _ => format!("its arguments are {}", names.clone().collect::<Vec<_>>().join(", ")),
    };
    let message = format!("there is no argument `{name}`{}; {known}", suggestion(name, names));
    ArgProblem { at: At::Key(name.to_owned()), message }
}

/// A value for an error text, cut when it is long.
fn shown(value: &Value) -> String {
    match value {
        Value::Null => "empty".to_owned(),
        Value::String(text) if text.is_empty() => "an empty text".to_owned(),
        Value::Array(items) if items.is_empty() => "an empty list".to_owned(),
        Value::Array(_) => "a list".to_owned(),
        Value::Object(_) => "a mapping".to_owned(),
        other => format!("`{}`", other.to_string().trim_matches('"')),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    const SPECS: &[ArgSpec] = &[
        ArgSpec::required("path", ArgKind::Paths, ""),
        ArgSpec::optional("repeat", ArgKind::Number(1, 9), ""),
        ArgSpec::optional("rate", ArgKind::Rate, ""),
        ArgSpec::optional("format", ArgKind::Choice(&["tsv", "json"]), ""),
    ];

    fn check(value: Value) -> Result<Args, Vec<ArgProblem>> {
        Args::check(SPECS, value.as_object().unwrap().clone())
    }

    fn messages(value: Value) -> Vec<String> {
        check(value).unwrap_err().into_iter().map(|p| p.message).collect()
    }

    #[test]
    fn good_arguments_are_read_back() {
        let args = check(json!({"path": ["a", "b"], "repeat": 3, "rate": 0.5, "format": "json"})).unwrap();
        let args = Args::from_json(&args.to_json()).unwrap();
        assert_eq!(args.texts("path"), ["a", "b"]);
        assert_eq!(
            (args.number("repeat"), args.rate("rate"), args.text("format")),
            (Some(3), Some(0.5), Some("json"))
        );
        assert_eq!(args.number("absent"), None);
        assert_eq!(Args::from_json("null").unwrap(), Args::default());
    }

    #[test]
    fn every_problem_is_named() {
        assert_eq!(
            messages(json!({})),
            ["`path` is missing; it must be the path of a file or a list of paths"]
        );
        let unknown = messages(json!({"path": "a", "repeats": 3}));
        assert!(unknown[0].contains("`repeats`; did you mean `repeat`?"), "{unknown:?}");
        for bad in [json!(0), json!(10), json!(-1), json!(1.5), json!("3"), json!(null), json!([1])] {
            let found = messages(json!({"path": "a", "repeat": bad}));
            assert!(found[0].ends_with("but must be a whole number from 1 to 9"), "{found:?}");
        }
        for bad in [json!(0), json!(-1.0), json!("x")] {
            assert_eq!(check(json!({"path": "a", "rate": bad})).unwrap_err()[0].at, At::Value("rate".into()));
        }
        assert_eq!(messages(json!({"path": [], "format": "xml"})).len(), 2);
    }

    #[test]
    fn only_paths_are_changed() {
        let mut args = check(json!({"path": ["a", "-"], "format": "tsv"})).unwrap();
        args.map_paths(SPECS, |p| format!("/{p}"));
        assert_eq!((args.texts("path"), args.text("format")), (vec!["/a", "/-"], Some("tsv")));
    }
}
