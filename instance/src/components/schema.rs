//! Output schemas of built-in components, worked out from the schemas of their inputs.

use super::args::{ArgProblem, Args, At};
use egret_dataplane::plan::topology::DEFAULT_STREAM;
use egret_dataplane::plan::{Field, FieldKind, Schema, Stream};

/// A stream that a component reads.
#[derive(Clone, Copy, Debug)]
pub struct InputSchema<'a> {
    /// The component that emits it.
    pub from: &'a str,
    /// The stream's name.
    pub stream: &'a str,
    /// The fields of its tuples.
    pub schema: &'a Schema,
}

impl InputSchema<'_> {
    fn name(&self) -> String {
        match self.stream {
            DEFAULT_STREAM => format!("`{}`", self.from),
            stream => format!("stream `{stream}` of `{}`", self.from),
        }
    }
}

/// A single default stream with these fields.
pub(super) fn default_stream(fields: &[(&str, FieldKind)]) -> Vec<Stream> {
    let fields = fields.iter().map(|(name, kind)| Field { name: (*name).to_owned(), kind: *kind });
    vec![Stream { name: DEFAULT_STREAM.to_owned(), schema: Schema { fields: fields.collect() } }]
}

/// The outputs of a sink.
pub(super) fn no_stream(_: &Args, _: &[InputSchema<'_>]) -> Result<Vec<Stream>, ArgProblem> {
    Ok(Vec::new())
}

/// The outputs of a component that passes on whatever it gets.
pub(super) fn as_input(_: &Args, inputs: &[InputSchema<'_>]) -> Result<Vec<Stream>, ArgProblem> {
    let Some(first) = inputs.first() else { return Ok(Vec::new()) };
    if let Some(at) = inputs.iter().position(|input| input.schema != first.schema) {
        let message = format!(
            "it passes its input on, so all its inputs need the same fields, but {} has {} and {} has {}",
            first.name(),
            listed(first.schema),
            inputs[at].name(),
            listed(inputs[at].schema)
        );
        return Err(ArgProblem { at: At::Input(at), message });
    }
    Ok(vec![Stream { name: DEFAULT_STREAM.to_owned(), schema: first.schema.clone() }])
}

/// The kind of the field that every input has under the name which argument `arg` gives.
pub(super) fn field_of(args: &Args, arg: &str, inputs: &[InputSchema<'_>]) -> Result<FieldKind, ArgProblem> {
    let name = args.text(arg).unwrap_or_default();
    let mut kind = None;
    for input in inputs {
        let Some(position) = input.schema.position(name) else {
            let message = format!(
                "`{arg}` names the field `{name}`, but {} has {}",
                input.name(),
                listed(input.schema)
            );
            return Err(ArgProblem::value(arg, message));
        };
        let found = input.schema.fields[position].kind;
        if kind.is_some_and(|kind| kind != found) {
            let message =
                format!("field `{name}` has different types in the inputs; {} differs", input.name());
            return Err(ArgProblem::value(arg, message));
        }
        kind = Some(found);
    }
    // Without inputs nothing is known; the validator reports that the bolt reads nothing.
    Ok(kind.unwrap_or(FieldKind::Str))
}

/// A problem unless every input has a field `name` of kind `kind`.
pub(super) fn needs_field(inputs: &[InputSchema<'_>], name: &str, kind: FieldKind) -> Result<(), ArgProblem> {
    let has = |input: &InputSchema<'_>| {
        input.schema.position(name).is_some_and(|at| input.schema.fields[at].kind == kind)
    };
    let Some(at) = inputs.iter().position(|input| !has(input)) else { return Ok(()) };
    let message = format!(
        "it reads the field `{name}` ({}), but {} has {}",
        kind_name(kind),
        inputs[at].name(),
        listed(inputs[at].schema)
    );
    Err(ArgProblem { at: At::Input(at), message })
}

/// The fields of a schema, for an error text.
fn listed(schema: &Schema) -> String {
    if schema.fields.is_empty() {
        return "no fields".to_owned();
    }
    let fields = schema.fields.iter().map(|f| format!("`{}` ({})", f.name, kind_name(f.kind)));
    fields.collect::<Vec<_>>().join(", ")
}

fn kind_name(kind: FieldKind) -> String {
    format!("{kind:?}").to_lowercase()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn schema(fields: &[(&str, FieldKind)]) -> Schema {
        default_stream(fields).remove(0).schema
    }

    #[test]
    fn inputs_that_differ_are_named() {
        let (a, b) = (schema(&[("word", FieldKind::Str)]), schema(&[("n", FieldKind::U64)]));
        let input = |from, schema| InputSchema { from, stream: "default", schema };
        let problem =
            as_input(&Args::default(), &[input("x", &a), input("y", &a), input("z", &b)]).unwrap_err();
        assert_eq!(problem.at, At::Input(2));
        assert!(problem.message.contains("`x` has `word` (str) and `z` has `n` (u64)"), "{problem}");
        assert_eq!(as_input(&Args::default(), &[input("x", &a)]).unwrap()[0].schema, a);
    }

    #[test]
    fn a_missing_field_is_named_with_what_there_is() {
        let a = schema(&[("word", FieldKind::Str)]);
        let inputs = [InputSchema { from: "x", stream: "s", schema: &a }];
        let problem = needs_field(&inputs, "line", FieldKind::Str).unwrap_err();
        assert_eq!(
            problem.message,
            "it reads the field `line` (str), but stream `s` of `x` has `word` (str)"
        );
        needs_field(&inputs, "word", FieldKind::Str).unwrap();
    }
}
