//! The registry: every built-in type with its arguments, its outputs and how it is made.

use super::args::{ArgProblem, ArgSpec, Args};
use super::schema::InputSchema;
use super::{
    count, file_lines, file_sink, flaky, identity, null_sink, random_words, sequence, sleep, split_words, top,
};
use crate::topology::{Blueprint, Factory};
use egret_dataplane::plan::{Component, Problem, Role, Stream, Subject, Topology};

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
    /// Makes the tasks of a component with checked arguments.
    pub make: fn(Args) -> Factory,
}

/// The type called `name`.
#[must_use]
pub fn find(name: &str) -> Option<&'static ComponentType> {
    TYPES.iter().copied().find(|t| t.name == name)
}

/// The names of all types of this role.
pub fn names(role: Role) -> impl Iterator<Item = &'static str> {
    TYPES.iter().filter(move |t| t.role == role).map(|t| t.name)
}

/// Every built-in type, in the order of the manual.
pub static TYPES: &[&ComponentType] = &[
    &file_lines::TYPE,
    &sequence::TYPE,
    &random_words::TYPE,
    &split_words::TYPE,
    &count::TYPE,
    &top::TYPE,
    &sleep::TYPE,
    &flaky::TYPE,
    &identity::TYPE,
    &file_sink::TYPE,
    &null_sink::TYPE,
];

/// The blueprint of a topology of built-in components, as the loader of YAML topologies makes them.
///
/// # Errors
/// What makes the topology invalid, such as a type that this version of Egret does not have.
pub fn blueprint(topology: Topology) -> Result<Blueprint, Vec<Problem>> {
    let mut factories = Vec::with_capacity(topology.components.len());
    let mut problems = Vec::new();
    for (i, component) in topology.components.iter().enumerate() {
        match factory(component) {
            Ok(factory) => factories.push(factory),
            Err(message) => problems.push(Problem { subject: Subject::Component(i), message }),
        }
    }
    if problems.is_empty() { Blueprint::new(topology, factories, Vec::new()) } else { Err(problems) }
}

fn factory(component: &Component) -> Result<Factory, String> {
    let Component { id, kind, .. } = component;
    let Some(found) = find(kind) else {
        return Err(format!("component `{id}` has the type `{kind}`, which is not built in"));
    };
    let args = Args::from_json(&component.args);
    let args = args.map_err(|error| format!("the arguments of component `{id}` cannot be read: {error}"))?;
    Ok((found.make)(args))
}

/// Whether the component reads standard input: `file-lines` with the path `-`. Its first task does.
#[must_use]
pub fn reads_stdin(component: &Component) -> bool {
    component.kind == file_lines::TYPE.name && names_standard_stream(component)
}

/// Whether the component writes standard output: `file-sink` with the path `-`. Its only task does.
#[must_use]
pub fn writes_stdout(component: &Component) -> bool {
    component.kind == file_sink::TYPE.name && names_standard_stream(component)
}

fn names_standard_stream(component: &Component) -> bool {
    Args::from_json(&component.args).is_ok_and(|args| args.texts("path").contains(&"-"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_unique_and_found() {
        for (i, t) in TYPES.iter().enumerate() {
            assert!(std::ptr::eq(find(t.name).unwrap(), TYPES[i]), "{}", t.name);
        }
        assert!(find("file_lines").is_none());
        assert_eq!(names(Role::Spout).collect::<Vec<_>>(), ["file-lines", "sequence", "random-words"]);
    }
}
