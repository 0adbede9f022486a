//! `plan`: a topology of 10,000 instances packed, planned and distributed, with simulated stmgrs.
//!
//! The tmaster's core and the stmgrs' routing tables are the real ones; only the connections between them are left out.

use super::Bench;
use crate::report::{Better, Measurement};
use anyhow::{Context, Result, ensure};
use egret_control::packing::{Packing, RoundRobin};
use egret_control::tmaster::core::{Effect, Event, PeerId, Setup, Tmaster};
use egret_dataplane::ids::{ContainerId, Epoch, Incarnation};
use egret_dataplane::message::{Message, PROTOCOL_VERSION, RegisterStmgr, TopologyState};
use egret_dataplane::plan::topology::DEFAULT_STREAM;
use egret_dataplane::plan::{
    Component, Config, Grouping, Input, PackingPlan, Program, Resources, Role, Schema, Stream, Topology,
    config,
};
use egret_dataplane::stmgr::route::Routes;
use std::time::{Duration, Instant};

pub(super) const HELP: &str =
    "1,000 containers of 10 instances packed, planned and distributed, in simulation";

const SUITE: &str = "plan";
const CONTAINERS: u32 = 1000;
const TASKS_PER_CONTAINER: u32 = 10;

pub(super) fn run(bench: &Bench<'_>) -> Result<Vec<Measurement>> {
    let containers = if bench.quick { CONTAINERS / 10 } else { CONTAINERS };
    let topology = topology(containers)?;
    let (mut packs, mut plans, mut takes) = (Vec::new(), Vec::new(), Vec::new());
    for _ in 0..bench.runs {
        let start = Instant::now();
        let packing = RoundRobin.pack(&topology)?;
        packs.push(ms(start.elapsed()));
        ensure!(packing.containers.len() == containers as usize, "{} containers", packing.containers.len());
        let (plan_ms, take_ms) = distribute(&topology, packing)?;
        plans.push(plan_ms);
        takes.push(take_ms);
    }
    let size = format!("{containers} x {TASKS_PER_CONTAINER}");
    let measured = |what, runs| Measurement::new(SUITE, format!("{size}, {what}"), "ms", Better::Lower, runs);
    Ok(vec![
        measured("packed", packs),
        measured("from the first registration to running, tmaster", plans),
        measured("a stmgr's part: plan read and routes made", takes),
    ])
}

fn ms(time: Duration) -> f64 {
    time.as_secs_f64() * 1e3
}

/// As many spout tasks as bolt tasks.
fn topology(containers: u32) -> Result<Topology> {
    let mut config = Config::default();
    config.set(config::CONTAINERS, &containers.to_string())?;
    let component = |id: &str, role, inputs| Component {
        id: id.to_owned(),
        role,
        parallelism: containers * TASKS_PER_CONTAINER / 2,
        kind: String::new(),
        args: "null".to_owned(),
        outputs: vec![Stream { name: DEFAULT_STREAM.to_owned(), schema: Schema::default() }],
        inputs,
        resources: Resources::default(),
        config: Config::default(),
    };
    let (from, stream) = ("source".to_owned(), DEFAULT_STREAM.to_owned());
    let input = Input { from, stream, grouping: Grouping::Shuffle };
    Ok(Topology {
        name: "plan".to_owned(),
        config,
        components: vec![
            component("source", Role::Spout, vec![]),
            component("sink", Role::Bolt, vec![input]),
        ],
        program: Program::Builtin,
    })
}

/// What the tmaster took, and what each stmgr took of its own, in milliseconds.
fn distribute(topology: &Topology, packing: PackingPlan) -> Result<(f64, f64)> {
    let containers: Vec<ContainerId> = packing.containers.iter().map(|c| c.id).collect();
    let setup =
        Setup { topology: topology.clone(), packing, stored: None, memory: None, processes: Vec::new() };
    let mut tmaster = Simulated { core: Tmaster::new(setup), spent: Duration::ZERO };
    let mut plan = None;
    for &container in &containers {
        plan = tmaster.says(container, register(topology, container)).or(plan);
    }
    let plan = plan.context("all stmgrs have registered, and there is no plan")?;
    let start = Instant::now();
    for &container in &containers {
        let Message::Plan(plan) = Message::decode(&plan)? else { anyhow::bail!("the plan is none") };
        std::hint::black_box(Routes::new(&plan.topology, &plan.packing, container)?);
    }
    let take = start.elapsed() / containers.len() as u32;
    for &container in &containers {
        tmaster.says(container, Message::MeshWhole(Epoch(1)));
    }
    let state = tmaster.core.status().state;
    ensure!(state == TopologyState::Running, "all meshes are whole, and the topology is {state:?}");
    Ok((ms(tmaster.spent), ms(take)))
}

fn register(topology: &Topology, container: ContainerId) -> Message {
    Message::RegisterStmgr(RegisterStmgr {
        version: PROTOCOL_VERSION,
        topology: topology.name.clone(),
        container,
        incarnation: Incarnation(1),
        address: format!("127.0.0.1:{}", 10_000 + container.0),
        epoch: Epoch(0),
        ended: Vec::new(),
    })
}

/// A tmaster, and the time that it has spent.
struct Simulated {
    core: Tmaster,
    spent: Duration,
}

impl Simulated {
    /// A stmgr says something; the plan, as it would be sent, if there is one in answer.
    fn says(&mut self, container: ContainerId, message: Message) -> Option<Vec<u8>> {
        let start = Instant::now();
        let mut effects = Vec::new();
        let event = Event::Message(PeerId(container.0.into()), message);
        self.core.handle(event, Duration::from_secs(1), &mut effects);
        self.core.flush(&mut effects);
        let plan = effects.iter().find_map(|effect| match effect {
            Effect::Send(_, message @ Message::Plan(_)) => Some(message.encode().to_vec()),
            _ => None,
        });
        self.spent += start.elapsed();
        plan
    }
}
