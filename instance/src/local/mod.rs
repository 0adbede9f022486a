//! A topology in one thread, under a virtual clock: for tests.
//!
//! [`LocalCluster`] runs a topology in the test's own process: its spouts and bolts, the real stream managers and the real
//! instances between them, on a [simulated host](egret_dataplane::simulation). A run takes milliseconds however long it
//! says it took, and repeats exactly with its seed. Processes can be killed and connections broken on the way.

mod cluster;
mod collected;
mod counts;
mod master;

pub use cluster::{Cluster, Control, Parts, Seat};
pub use collected::{Collected, Sink};
pub use counts::Counted;

use crate::components;
use crate::topology::{Blueprint, TopologyBuilder};
use crate::yaml::{self, YamlErrors};
use counts::Counts;
use egret_dataplane::ids::{ContainerId, TaskId};
use egret_dataplane::net::handshake::Secret;
use egret_dataplane::plan::{ContainerPlan, PackingPlan, Problem, Resources, TaskPlan, Topology, config};
use egret_dataplane::simulation::{Weather, World};
use master::{Desk, Office};
use std::cell::{Cell, RefCell};
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// How long a topology may take to complete, in virtual time.
const PATIENCE: Duration = Duration::from_secs(24 * 3600);
/// What a step of a process's work takes on the average: about what relaying a block costs.
const STEP: Duration = Duration::from_micros(2);
/// As an executor waits before it starts a process again.
const RESTART_DELAY: Duration = Duration::from_millis(100);

/// Runs a topology in this thread, under a virtual clock.
///
/// ```
/// use egret::local::{Collected, LocalCluster};
/// use egret::{BasicBolt, BasicCollector, Input, Next, Spout, SpoutCollector, TopologyBuilder, Tuple};
///
/// #[derive(Tuple)]
/// struct Word<'a> {
///     word: &'a str,
/// }
///
/// struct Words(std::vec::IntoIter<&'static str>);
///
/// impl Spout for Words {
///     type Id = ();
///
///     fn next_tuple(&mut self, out: &mut SpoutCollector<()>) -> egret::Result<Next> {
///         let Some(word) = self.0.next() else { return Ok(Next::Exhausted) };
///         out.emit(&Word { word }).untracked()?;
///         Ok(Next::Emitted)
///     }
/// }
///
/// struct Shout;
///
/// impl BasicBolt for Shout {
///     fn execute(&mut self, input: &Input<'_>, out: &mut BasicCollector<'_>) -> egret::Result<()> {
///         out.emit(&Word { word: &input.get::<Word>()?.word.to_uppercase() })
///     }
/// }
///
/// let heard = Collected::new();
/// let mut t = TopologyBuilder::new("shouting");
/// t.config("topology.containers", 2);
/// t.spout("words", 1, || Words(vec!["good", "day"].into_iter())).emits::<Word>();
/// t.basic_bolt("shout", 2, || Shout).fields("words", ["word"]).emits::<Word>();
/// t.basic_bolt("hear", 1, heard.sink()).global("shout");
///
/// let mut cluster = LocalCluster::new(t, 7).expect("it is valid");
/// cluster.run_until_complete().expect("it completes");
/// assert_eq!(heard.sorted(), [["DAY"], ["GOOD"]]);
/// assert_eq!(cluster.counted("shout").executed, 2);
/// ```
pub struct LocalCluster {
    cluster: Cluster,
    desk: Rc<Desk>,
    folder: PathBuf,
}

/// The topology has not completed.
#[derive(Debug, thiserror::Error)]
#[error("the topology has not completed in {waited_s} virtual seconds; {reports}")]
pub struct NotComplete {
    waited_s: u64,
    /// What its tasks reported.
    reports: String,
}

impl LocalCluster {
    /// A cluster that runs this topology. The same seed repeats everything, another one takes another of its ways.
    ///
    /// # Errors
    /// Everything that is wrong with the topology, as `egret validate` says it.
    pub fn new(topology: TopologyBuilder, seed: u64) -> Result<Self, Vec<Problem>> {
        Ok(Self::of(topology.build()?, seed))
    }

    /// The same of a topology of built-in components in a YAML file.
    ///
    /// # Errors
    /// Everything that is wrong with it, as `egret validate` says it.
    pub fn from_yaml(path: &Path, seed: u64) -> Result<Self, YamlErrors> {
        let topology = yaml::load(path, &[])?;
        let blueprint = components::blueprint(topology);
        Ok(Self::of(
            blueprint.unwrap_or_else(|problems| unreachable!("the loader checked it: {problems:?}")),
            seed,
        ))
    }

    /// The same of a blueprint.
    #[must_use]
    pub fn of(blueprint: Blueprint, seed: u64) -> Self {
        let (topology, packing) = (blueprint.topology().clone(), pack(blueprint.topology()));
        // Any secret is as good where nobody listens.
        let secret = Secret::from_hex(&format!("{seed:064x}"));
        let secret = secret.unwrap_or_else(|| unreachable!("64 hexadecimal digits are a secret"));
        let folder = own_folder();
        let desk = Rc::new(Desk {
            topology,
            packing: packing.clone(),
            secret: secret.clone(),
            address: Cell::new(None),
            epoch: Cell::new(0),
            ended: RefCell::default(),
            counts: RefCell::new(Counts::default()),
            drain: Cell::new(false),
            is_stopped: Cell::new(false),
        });
        let parts = Parts {
            blueprint,
            packing,
            secret,
            folder: folder.clone(),
            control: Rc::new(Office(desk.clone())),
            step: Box::new(|_| STEP),
            restart_delay: Box::new(|_| RESTART_DELAY),
        };
        Self { cluster: Cluster::new(World::new(seed), parts, seed), desk, folder }
    }

    /// Runs until the topology has completed.
    ///
    /// # Errors
    /// When it has not in a virtual day, as one whose spouts never end.
    pub fn run_until_complete(&mut self) -> Result<(), NotComplete> {
        let deadline = self.now() + PATIENCE;
        while !self.is_complete() {
            if self.cluster.turn(deadline) {
                let reports: Vec<String> = self.reports();
                let reports = if reports.is_empty() {
                    "no task reported anything".to_owned()
                } else {
                    reports.join("; ")
                };
                return Err(NotComplete { waited_s: PATIENCE.as_secs(), reports });
            }
        }
        Ok(())
    }

    /// Runs for this long in virtual time, or until the topology has completed, and says whether it has.
    pub fn run_for(&mut self, time: Duration) -> bool {
        let deadline = self.now() + time;
        while !self.is_complete() && !self.cluster.turn(deadline) {}
        self.is_complete()
    }

    /// Whether the topology has completed.
    #[must_use]
    pub fn is_complete(&self) -> bool {
        self.cluster.process(Seat::Tmaster).is_none() && self.desk.is_stopped.get()
    }

    /// The virtual time since the start.
    #[must_use]
    pub fn now(&self) -> Duration {
        self.cluster.world().now()
    }

    /// Ends the spouts of a topology that runs on: what is in flight is still executed, and then it completes.
    pub fn drain(&mut self) {
        self.desk.drain.set(true);
    }

    /// Kills the process of a component's task, counted from 0; another one takes its place after a moment. Says whether
    /// there was one.
    pub fn kill_task(&mut self, component: &str, index: u32) -> bool {
        let topology = self.cluster.topology();
        let task = topology.component(component).and_then(|c| topology.tasks(c).nth(index as usize));
        let seat = task.map(|task| Seat::Instance(TaskId(task)));
        let alive = seat.filter(|&seat| self.cluster.process(seat).is_some());
        alive.into_iter().for_each(|seat| self.cluster.kill(seat));
        alive.is_some()
    }

    /// Kills all processes of a container, from 1 on; others take their places after a moment.
    pub fn kill_container(&mut self, container: u32) {
        self.cluster.kill_container(ContainerId(container));
    }

    /// Breaks a connection between two containers, or between one and the tmaster. Says whether there was one.
    pub fn reset_connection(&mut self) -> bool {
        self.cluster.world().reset_some()
    }

    /// From now on everything between two containers takes a time between these, each way.
    pub fn set_delay(&mut self, min_delay: Duration, max_delay: Duration) {
        self.cluster.world().set_weather(Weather { min_delay, max_delay, ..Weather::default() });
    }

    /// What the tasks of a component have counted; of those that run, as of the last virtual second.
    #[must_use]
    pub fn counted(&self, component: &str) -> Counted {
        self.desk.counts.borrow().of(self.cluster.topology(), component)
    }

    /// What tasks reported: errors and panics of their code, processes that ended too early.
    #[must_use]
    pub fn reports(&self) -> Vec<String> {
        let counts = self.desk.counts.borrow();
        let reports = counts.reports().iter();
        reports
            .map(|report| format!("{} (task {}): {}", report.component, report.task, report.message))
            .collect()
    }

    /// A number that is the same after runs that went alike.
    #[must_use]
    pub fn trace(&self) -> u64 {
        self.cluster.world().trace()
    }
}

impl Drop for LocalCluster {
    fn drop(&mut self) {
        self.cluster.world().end_all();
        let _ = std::fs::remove_dir_all(&self.folder);
    }
}

/// A folder that no other cluster has.
fn own_folder() -> PathBuf {
    static NEXT: AtomicU64 = AtomicU64::new(0);
    let number = NEXT.fetch_add(1, Ordering::Relaxed);
    std::env::temp_dir().join(format!("egret-local-{}-{number}", std::process::id()))
}

/// The tasks in turn to the containers that the configuration asks for, or to one. What they need of a machine does not
/// matter here.
fn pack(topology: &Topology) -> PackingPlan {
    let count = (topology.config.number(config::CONTAINERS) as u32).clamp(1, topology.task_count().max(1));
    let task = |task: u32| {
        let (component, index) = topology.component_of(TaskId(task))?;
        let component = &topology.components[usize::from(component.0)];
        let resources = component.resources;
        Some(TaskPlan { task: TaskId(task), component: component.id.clone(), index, resources })
    };
    let container = |number: u32| ContainerPlan {
        id: ContainerId(number),
        tasks: (number..=topology.task_count()).step_by(count as usize).filter_map(task).collect(),
        required: Resources::default(),
    };
    PackingPlan { topology: topology.name.clone(), containers: (1..=count).map(container).collect() }
}
