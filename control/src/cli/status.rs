//! `egret status`: how a topology is doing.

use super::counts::{COUNTS, backpressure_lines, counts, latency_line};
use super::failure::{Failure, Outcome};
use super::link::Link;
use super::list::{age, mode_word, without_tmaster};
use super::output::{table, thousands};
use super::progress::report_line;
use super::run::role_word;
use super::{Context, check_name};
use crate::executor::Starts;
use crate::layout::{ProcessName, WorkDir};
use crate::state::{Execution, State};
use egret_dataplane::ids::{ContainerId, Epoch, Incarnation};
use egret_dataplane::message::{
    BackpressureStatus, ComponentTotals, ProcessRole, ProcessStatus, SpoutTotals, TopologyState,
    TopologyStatus,
};
use egret_dataplane::plan::{PackingPlan, Topology};
use serde_json::{Value, json};
use std::time::Duration;

/// How long the tmaster may take to answer.
const ANSWER_LIMIT: Duration = Duration::from_secs(3);
/// What stands where the tmaster's word would.
const SILENT: &str = "the tmaster does not answer";

/// Runs the command.
pub(crate) fn run(context: &Context, name: &str) -> Outcome {
    check_name(context, name)?;
    let state = context.state()?;
    let execution = context.execution(&state, name)?;
    let topology = state.topology(name)?.ok_or_else(|| Failure::absent(name, context.global.cluster()))?;
    let packing = state.packing_plan(name)?;
    let told = Link::new(&state, name, &execution)?.status(ANSWER_LIMIT);
    let word = match &told {
        Some(status) => super::progress::state_word(status.state),
        None => without_tmaster(&state, name, &execution),
    };
    let tmaster_answers = told.is_some();
    let mut status = told.map_or_else(|| unknown(&topology), |status| *status);
    add_executors(&state, name, &execution, &mut status);
    let (topology, packing, execution) = (&topology, packing.as_ref(), &execution);
    let view = View { topology, packing, execution, status, tmaster_answers, word };
    context.output.result(&view.json(), || view.text())
}

/// What stands in for the status that the tmaster does not tell; nothing of it is shown but names.
fn unknown(topology: &Topology) -> TopologyStatus {
    let nothing = |id: &String| ComponentTotals { id: id.clone(), ..ComponentTotals::default() };
    TopologyStatus {
        topology: topology.name.clone(),
        state: TopologyState::Starting,
        epoch: Epoch(0),
        elapsed_s: 0.0,
        processes: Vec::new(),
        components: topology.components.iter().map(|c| nothing(&c.id)).collect(),
        spouts: SpoutTotals::default(),
        cpu_s: Vec::new(),
        restarts: Vec::new(),
        lost: 0,
        dropped: Vec::new(),
        copied_bytes: 0,
        closed_for_fault: 0,
        backpressure: BackpressureStatus::default(),
        reports: Vec::new(),
    }
}

/// Executors are known to their scheduler, not to the tmaster; and a process that a stmgr reported before both died is
/// reported no more. All of them are on this host.
fn add_executors(state: &State, name: &str, execution: &Execution, status: &mut TopologyStatus) {
    let work_dir = WorkDir::at(&execution.work_dir);
    let record = state.scheduler_record(name).ok().flatten();
    for executor in record.iter().flat_map(|record| &record.executors) {
        if !status.processes.iter().any(|p| p.pid == executor.pid) {
            let starts = Starts::read(&work_dir.container(executor.container)).of(&ProcessName::Executor);
            status.processes.push(ProcessStatus {
                role: ProcessRole::Executor,
                container: executor.container,
                task: None,
                component: None,
                pid: executor.pid,
                incarnation: Incarnation(starts),
            });
        }
    }
    status.processes.retain(|p| is_alive(p.pid));
    status.processes.sort_by_key(|p| (p.container, p.role, p.task));
}

/// Whether there is a process of this number that has not ended: one that waits for its parent has.
fn is_alive(pid: u32) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    stat.rsplit_once(") ").is_some_and(|(_, rest)| !rest.starts_with(['Z', 'X']))
}

/// How often it died before, where that is known.
fn restarts(process: &ProcessStatus) -> Option<u32> {
    process.incarnation.0.checked_sub(1)
}

struct View<'a> {
    topology: &'a Topology,
    packing: Option<&'a PackingPlan>,
    execution: &'a Execution,
    status: TopologyStatus,
    tmaster_answers: bool,
    word: &'static str,
}

impl View<'_> {
    fn containers(&self) -> impl Iterator<Item = (ContainerId, usize)> {
        self.packing.iter().flat_map(|plan| &plan.containers).map(|c| (c.id, c.tasks.len()))
    }

    fn json(&self) -> Value {
        let mut document = serde_json::to_value(&self.status).unwrap_or_default();
        let execution = self.execution;
        document["cpu_s"] = self
            .status
            .cpu_s
            .iter()
            .map(|cpu| (role_word(cpu.role).to_owned(), json!(cpu.seconds)))
            .collect();
        document["restarts"] = self
            .status
            .restarts
            .iter()
            .map(|restarts| (role_word(restarts.role).to_owned(), json!(restarts.restarts)))
            .collect();
        if !self.tmaster_answers {
            let unknown = document.as_object_mut().into_iter().flatten();
            unknown
                .filter(|(key, _)| !["topology", "processes"].contains(&key.as_str()))
                .for_each(|(_, value)| *value = Value::Null);
        }
        document["state"] = json!(self.word);
        for (shown, process) in
            document["processes"].as_array_mut().into_iter().flatten().zip(&self.status.processes)
        {
            shown["restarts"] = json!(restarts(process));
        }
        document["id"] = json!(execution.id);
        document["cluster"] = json!(execution.cluster);
        document["mode"] = json!(execution.mode);
        document["submitted_unix_s"] = json!(execution.submitted_unix_s);
        document["work_dir"] = json!(execution.work_dir);
        document["containers"] =
            self.containers().map(|(id, tasks)| json!({"id": id, "tasks": tasks})).collect();
        document
    }

    fn text(&self) -> String {
        let (status, execution) = (&self.status, self.execution);
        let mut text = format!(
            "{} is {} ({}, {} containers, {} tasks; `egret {}` {} ago)\n",
            status.topology,
            self.word,
            if self.tmaster_answers { format!("epoch {}", status.epoch) } else { SILENT.to_owned() },
            self.containers().count(),
            self.topology.task_count(),
            mode_word(execution.mode),
            age(execution.submitted_unix_s),
        );
        text.push('\n');
        text.push_str(&self.components());
        if let Some(line) = latency_line(&status.spouts.complete_latency_us) {
            text.push_str(&format!("{line}\n"));
        }
        text.push_str(&backpressure_lines(&status.backpressure, &status.components));
        text.push('\n');
        text.push_str(&self.processes());
        if status.lost > 0 {
            text.push_str(&format!("\nlost {} tuples\n", thousands(status.lost)));
        }
        for report in status.reports.iter().rev().take(5).rev() {
            text.push_str(&format!("\n{}", report_line(report)));
        }
        text
    }

    fn components(&self) -> String {
        let rows = self.status.components.iter().map(|totals| {
            let component = self.topology.components.iter().find(|c| c.id == totals.id);
            let tasks = component.map_or(0, |c| c.parallelism).to_string();
            let counts =
                if self.tmaster_answers { counts(totals) } else { vec!["-".to_owned(); COUNTS.len()] };
            [vec![totals.id.clone(), tasks], counts].concat()
        });
        table(&[&["COMPONENT", "TASKS"][..], &COUNTS].concat(), rows)
    }

    fn processes(&self) -> String {
        let or_dash = |text: Option<String>| text.unwrap_or_else(|| "-".to_owned());
        let rows = self.status.processes.iter().map(|p| {
            vec![
                p.container.to_string(),
                role_word(p.role).to_owned(),
                or_dash(p.task.map(|t| t.to_string())),
                or_dash(p.component.clone()),
                p.pid.to_string(),
                or_dash(restarts(p).map(|n| n.to_string())),
            ]
        });
        table(&["CONTAINER", "PROCESS", "TASK", "COMPONENT", "PID", "RESTARTS"], rows)
    }
}
