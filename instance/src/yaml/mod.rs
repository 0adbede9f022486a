//! Topologies written in YAML, after Storm Flux and Heron ECO.
//!
//! [`load`] reads a file, [`parse`] its text, into the plan's [`Topology`] in three steps, each of which notes every problem it finds with its
//! line and goes on: `node` parses, `draft` reads the structure, `resolve` gives it its meaning (types, arguments,
//! schemas, configuration) and calls the one validator, whose findings it maps back to lines.

mod draft;
mod mapping;
mod node;
mod paths;
mod problem;
mod resolve;
#[cfg(test)]
mod tests;

pub use problem::{YamlErrors, YamlProblem};

use egret_dataplane::plan::Topology;
use node::{Node, Place};
use problem::Problems;
use std::path::Path;

/// Reads the topology in `path`; `overrides` are configuration entries that win over the file's.
///
/// Relative paths in arguments become absolute: they are relative to the file's folder.
///
/// # Errors
/// Everything that is wrong with the file, each with its line.
pub fn load(path: &Path, overrides: &[(String, String)]) -> Result<Topology, YamlErrors> {
    let mut none = Problems::new(path, "");
    let source = match std::fs::read(path) {
        Ok(bytes) => bytes,
        Err(error) => {
            none.add(Place::default(), format!("cannot read the topology: {error}"));
            return Err(none.into_errors());
        }
    };
    let Ok(source) = String::from_utf8(source) else {
        none.add(Place::default(), "the topology is no UTF-8 text; save it as UTF-8");
        return Err(none.into_errors());
    };
    parse(path, &source, overrides)
}

/// Reads the topology in `source`, the text of `path`; otherwise as [`load`].
///
/// # Errors
/// Everything that is wrong with it, each with its line.
pub fn parse(path: &Path, source: &str, overrides: &[(String, String)]) -> Result<Topology, YamlErrors> {
    let mut problems = Problems::new(path, source);
    let folder = match paths::folder_of(path) {
        Ok(folder) => folder,
        Err(error) => {
            problems.add(Place::default(), format!("cannot find the topology's folder: {error}"));
            return Err(problems.into_errors());
        }
    };
    let root = match Node::parse(source) {
        Ok(root) => root,
        Err(error) => {
            problems.add_syntax(&error);
            return Err(problems.into_errors());
        }
    };
    let draft = draft::read(&root, &mut problems);
    let topology = draft.map(|draft| resolve::resolve(&draft, &folder, overrides, &mut problems));
    match topology {
        Some(topology) if problems.is_empty() => Ok(topology),
        _ => Err(problems.into_errors()),
    }
}
