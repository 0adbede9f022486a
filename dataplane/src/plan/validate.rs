//! The one validator of topologies, used by the library, the command line and every test driver alike.

use super::{Grouping, Role, Topology, config};
use std::collections::BTreeMap;

/// What a [`Problem`] is about, so that a front end can name the line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Subject {
    /// The topology as a whole.
    Topology,
    /// This entry of its configuration.
    Config(&'static str),
    /// The component at this position.
    Component(usize),
    /// The parallelism of the component at this position.
    Parallelism(usize),
    /// All that the component at this position reads, or that it reads nothing.
    Inputs(usize),
    /// An input of the component at this position: `(component, input)`.
    Input(usize, usize),
    /// The grouping of such an input.
    Grouping(usize, usize),
}

/// One thing that makes a topology invalid: what is wrong and what would be right.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct Problem {
    /// What it is about.
    pub subject: Subject,
    /// One sentence that names the component, the stream or the field.
    pub message: String,
}

impl Topology {
    /// Finds everything that makes this topology invalid; empty when it can run.
    #[must_use]
    pub fn validate(&self) -> Vec<Problem> {
        let mut problems = Vec::new();
        self.check_names(&mut problems);
        self.check_config(&mut problems);
        self.check_components(&mut problems);
        self.check_inputs(&mut problems);
        self.check_cycles(&mut problems);
        problems
    }

    fn check_names(&self, problems: &mut Vec<Problem>) {
        if !is_name(&self.name) {
            let message = format!("the topology's name `{}` must be {NAME_RULE}", self.name);
            problems.push(Problem { subject: Subject::Topology, message });
        }
        if !self.components.iter().any(|c| c.role == Role::Spout) {
            let message = "a topology needs at least one spout".to_owned();
            problems.push(Problem { subject: Subject::Topology, message });
        }
    }

    /// What the entries of the configuration must be to each other.
    fn check_config(&self, problems: &mut Vec<Problem>) {
        let (high, low) = (config::HIGH_WATERMARK_MB, config::LOW_WATERMARK_MB);
        if self.config.millis(low) >= self.config.millis(high) {
            let text = |key| self.config.text(key).unwrap_or_default();
            let message = format!(
                "`{low}` is {} and `{high}` is {}; the low watermark must be below the high one",
                text(low),
                text(high)
            );
            let at = if self.config.entries().any(|(key, _)| key == low) { low } else { high };
            problems.push(Problem { subject: Subject::Config(at), message });
        }
    }

    fn check_components(&self, problems: &mut Vec<Problem>) {
        let mut seen = BTreeMap::new();
        for (i, component) in self.components.iter().enumerate() {
            let mut problem = |message| problems.push(Problem { subject: Subject::Component(i), message });
            let id = &component.id;
            if !is_name(id) {
                problem(format!("component id `{id}` must be {NAME_RULE}"));
            }
            if seen.insert(id.as_str(), i).is_some() {
                problem(format!("component id `{id}` is used twice; ids must be unique"));
            }
            if component.parallelism == 0 || component.parallelism > MAX_PARALLELISM {
                let message = format!(
                    "component `{id}` has parallelism {}; it must be from 1 to {MAX_PARALLELISM}",
                    component.parallelism
                );
                problems.push(Problem { subject: Subject::Parallelism(i), message });
            }
            let mut problem = |message| problems.push(Problem { subject: Subject::Inputs(i), message });
            if component.role == Role::Bolt && component.inputs.is_empty() {
                problem(format!("bolt `{id}` reads no stream; connect it or remove it"));
            }
            if component.role == Role::Spout && !component.inputs.is_empty() {
                problem(format!("spout `{id}` cannot read a stream; only bolts can"));
            }
            let mut problem = |message| problems.push(Problem { subject: Subject::Component(i), message });
            let mut streams = std::collections::BTreeSet::new();
            for stream in &component.outputs {
                if !streams.insert(&stream.name) {
                    problem(format!("component `{id}` declares stream `{}` twice", stream.name));
                }
            }
        }
    }

    fn check_inputs(&self, problems: &mut Vec<Problem>) {
        for (i, component) in self.components.iter().enumerate() {
            for (j, input) in component.inputs.iter().enumerate() {
                problems.extend(self.input_problem(i, j));
                let twice = component.inputs[..j]
                    .iter()
                    .any(|o| (&o.from, &o.stream) == (&input.from, &input.stream));
                if twice {
                    let message = format!(
                        "bolt `{}` reads stream `{}` of `{}` twice; one grouping per stream",
                        component.id, input.stream, input.from
                    );
                    problems.push(Problem { subject: Subject::Input(i, j), message });
                }
            }
        }
    }

    fn input_problem(&self, component: usize, at: usize) -> Option<Problem> {
        let reader = &self.components[component].id;
        let input = &self.components[component].inputs[at];
        let wrong_input = |message| Some(Problem { subject: Subject::Input(component, at), message });
        let wrong_grouping = |message| Some(Problem { subject: Subject::Grouping(component, at), message });
        let Some(source) = self.components.iter().find(|c| c.id == input.from) else {
            let ids = self.components.iter().map(|c| c.id.as_str());
            return wrong_input(format!(
                "bolt `{reader}` reads component `{}`, which does not exist{}",
                input.from,
                suggestion(&input.from, ids)
            ));
        };
        let Some(stream) = source.outputs.iter().find(|s| s.name == input.stream) else {
            let names: Vec<_> = source.outputs.iter().map(|s| format!("`{}`", s.name)).collect();
            let declared = if names.is_empty() { "no stream".to_owned() } else { names.join(", ") };
            return wrong_input(format!(
                "bolt `{reader}` reads stream `{}` of `{}`, which declares {declared}",
                input.stream, source.id
            ));
        };
        let (Grouping::Fields(fields) | Grouping::PartialKey(fields)) = &input.grouping else { return None };
        if fields.is_empty() {
            return wrong_grouping(format!("the grouping of `{reader}` on `{}` names no field", source.id));
        }
        let unknown = fields.iter().find(|f| stream.schema.position(f).is_none())?;
        let declared: Vec<_> = stream.schema.fields.iter().map(|f| format!("`{}`", f.name)).collect();
        wrong_grouping(format!(
            "bolt `{reader}` groups stream `{}` of `{}` by field `{unknown}`, but the stream declares {}",
            stream.name,
            source.id,
            if declared.is_empty() { "no fields".to_owned() } else { declared.join(", ") }
        ))
    }

    /// Peels off components whose inputs are all peeled (Kahn); what is left reads itself in a circle.
    fn check_cycles(&self, problems: &mut Vec<Problem>) {
        let count = self.components.len();
        let mut peeled = vec![false; count];
        loop {
            let next = (0..count).find(|&i| {
                let mut inputs = self.components[i].inputs.iter().filter_map(|x| self.component(&x.from));
                !peeled[i] && inputs.all(|from| peeled[from.0 as usize])
            });
            let Some(next) = next else { break };
            peeled[next] = true;
        }
        if let Some(start) = peeled.iter().position(|p| !p) {
            let cycle = self.trace_cycle(start, &peeled);
            let message = format!(
                "the components {} read each other in a cycle; Egret runs acyclic topologies only",
                cycle
                    .iter()
                    .map(|&i| format!("`{}`", self.components[i].id))
                    .collect::<Vec<_>>()
                    .join(" <- ")
            );
            problems.push(Problem { subject: Subject::Component(cycle[0]), message });
        }
    }

    /// Walks unpeeled inputs from `start` until a component comes up again; every unpeeled one has such an input.
    fn trace_cycle(&self, start: usize, peeled: &[bool]) -> Vec<usize> {
        let mut path = vec![start];
        loop {
            let last = path[path.len() - 1];
            let mut inputs = self.components[last].inputs.iter().filter_map(|x| self.component(&x.from));
            let Some(from) = inputs.find(|from| !peeled[from.0 as usize]) else { return path };
            let from = from.0 as usize;
            if let Some(at) = path.iter().position(|&p| p == from) {
                path.push(from);
                return path.split_off(at);
            }
            path.push(from);
        }
    }
}

/// The most tasks that one component may have.
pub const MAX_PARALLELISM: u32 = 10_000;

/// What [`is_name`] asks for. Names become files and words of a command line: none is hidden or looks like an option.
const NAME_RULE: &str = "1 to 100 letters, digits, `-`, `_` or `.`, the first a letter, a digit or `_`";

fn is_name(name: &str) -> bool {
    let allowed = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
    (1..=100).contains(&name.len()) && name.chars().all(allowed) && !name.starts_with(['.', '-'])
}

/// `; did you mean `x`?` for the candidate most like `wrong`, or nothing when none is like it.
#[must_use]
pub fn suggestion<'a>(wrong: &str, candidates: impl Iterator<Item = &'a str>) -> String {
    let best = candidates.map(|c| (edit_distance(wrong, c), c)).min();
    match best {
        Some((distance, name)) if distance <= wrong.len().max(3) / 3 => format!("; did you mean `{name}`?"),
        _ => String::new(),
    }
}

/// The Levenshtein distance of two short strings, in bytes.
pub(crate) fn edit_distance(a: &str, b: &str) -> usize {
    let (a, b) = (a.as_bytes(), b.as_bytes());
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, x) in a.iter().enumerate() {
        let mut diagonal = row[0];
        row[0] = i + 1;
        for (j, y) in b.iter().enumerate() {
            let substituted = diagonal + usize::from(x != y);
            diagonal = row[j + 1];
            row[j + 1] = substituted.min(row[j] + 1).min(row[j + 1] + 1);
        }
    }
    row[b.len()]
}
