//! `egret metrics`: what is counted for every task, by the dataplane and by user code.

use super::counts::{COUNTS, task_counts};
use super::failure::{Failure, Outcome};
use super::link::Link;
use super::output::{table, thousands};
use super::{Context, check_name};
use egret_dataplane::message::{TaskMetrics, TopologyMetrics};
use std::time::Duration;

/// How long the tmaster may take to answer.
pub(crate) const ANSWER_LIMIT: Duration = Duration::from_secs(3);

/// Runs the command, for one component or for all.
pub(crate) fn run(context: &Context, name: &str, component: Option<&str>) -> Outcome {
    check_name(context, name)?;
    let state = context.state()?;
    let execution = context.execution(&state, name)?;
    let told = Link::new(&state, name, &execution)?.metrics(ANSWER_LIMIT);
    let mut metrics = told.ok_or_else(|| silent(name))?;
    if let Some(component) = component {
        let of = |metrics: &TaskMetrics| metrics.component == component;
        if !metrics.tasks.iter().any(of) {
            let mut known: Vec<&str> = metrics.tasks.iter().map(|task| task.component.as_str()).collect();
            known.dedup();
            let known = known.join("`, `");
            return Err(Failure::usage(format!(
                "`{name}` has no component `{component}`; its components are `{known}`"
            )));
        }
        metrics.tasks.retain(of);
    }
    context.output.result(&metrics, || text(&metrics))
}

/// What to say of a tmaster that does not answer.
pub(crate) fn silent(name: &str) -> Failure {
    Failure::failed(format!(
        "the tmaster of `{name}` does not answer, and only it knows the counts; `egret status {name}` shows what runs"
    ))
}

fn text(metrics: &TopologyMetrics) -> String {
    let rows = metrics.tasks.iter().map(|task| {
        let cpu = format!("{:.1}", task.counters.cpu_us as f64 / 1e6);
        let behind = format!("{:.1}", task.backpressure.time_s);
        [
            vec![task.counters.task.to_string(), task.component.clone(), task.container.to_string()],
            task_counts(&task.counters),
            vec![cpu, thousands(task.backpressure.starts), behind],
        ]
        .concat()
    });
    let mut text = table(
        &[&["TASK", "COMPONENT", "CONTAINER"][..], &COUNTS, &["CPU S", "HELD SPOUTS", "BEHIND S"]].concat(),
        rows,
    );
    let user = metrics.tasks.iter().flat_map(|task| task.user.iter().map(move |entry| (task, entry)));
    let rows: Vec<Vec<String>> = user
        .map(|(task, (counter, value))| {
            let task_id = task.counters.task.to_string();
            vec![task_id, task.component.clone(), counter.clone(), thousands(*value)]
        })
        .collect();
    if !rows.is_empty() {
        text.push('\n');
        text.push_str(&table(&["TASK", "COMPONENT", "COUNTER", "VALUE"], rows));
    }
    text
}
