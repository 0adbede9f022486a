//! The processes of a topology in a simulated world: who is started, and who is started again.
//!
//! Each process runs its real `main`: [`stmgr::run`](egret_dataplane::stmgr::run), the instance's gateway with its task
//! thread, and whatever tmaster the [`Control`] gives. What dies is started again after a while, as its executor does it,
//! with the next incarnation.

use crate::runtime::{self, Load};
use crate::topology::Blueprint;
use egret_dataplane::ids::{ContainerId, Incarnation, TaskId};
use egret_dataplane::net::handshake::Secret;
use egret_dataplane::plan::{PackingPlan, Topology};
use egret_dataplane::simulation::{Dice, HostId, Outcome, ProcessId, Ran, World};
use egret_dataplane::stmgr::{self, StmgrOptions};
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::rc::Rc;
use std::time::Duration;

/// An instance that has ended in order while its stmgr goes on is started again after all, as its executor does it.
const ORDERLY_INSTANCE: Duration = Duration::from_secs(5);

/// What a process is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Seat {
    /// The tmaster, in container 0.
    Tmaster,
    /// A container's stmgr.
    Stmgr(ContainerId),
    /// A task's instance.
    Instance(TaskId),
}

/// The control plane of a cluster.
pub trait Control {
    /// What the process of a tmaster of this incarnation does; its exit code.
    fn tmaster(&self, incarnation: Incarnation) -> Box<dyn FnOnce() -> u8>;

    /// Where stmgrs find the tmaster at the moment.
    fn locate(&self) -> Option<SocketAddr>;

    /// The process of a tmaster has ended.
    fn tmaster_gone(&self);
}

/// What a cluster is made of.
pub struct Parts {
    /// The topology and its code.
    pub blueprint: Blueprint,
    /// Where its tasks are.
    pub packing: PackingPlan,
    /// What all processes know.
    pub secret: Secret,
    /// A folder for the containers' own.
    pub folder: PathBuf,
    /// The control plane.
    pub control: Rc<dyn Control>,
    /// What a step of a process's work takes on the average.
    pub step: Box<dyn FnMut(Seat) -> Duration>,
    /// How long a process that died stays away.
    pub restart_delay: Box<dyn FnMut(&mut Dice) -> Duration>,
}

/// A seat and who has it.
struct Place {
    seat: Seat,
    container: ContainerId,
    process: Option<ProcessId>,
    incarnation: u32,
    start_at: Duration,
    /// It has exited in order, and is not started again.
    is_done: bool,
}

/// The running processes of a topology.
pub struct Cluster {
    world: Rc<World>,
    parts: Parts,
    topology: Topology,
    places: Vec<Place>,
    dice: Dice,
    /// Processes that ended otherwise than in order or by a kill, and how.
    crashes: Vec<(Seat, Outcome)>,
}

impl Cluster {
    /// The processes are started with the first turn.
    #[must_use]
    pub fn new(world: Rc<World>, parts: Parts, seed: u64) -> Self {
        runtime::install_virtual_hook();
        // Those of a cluster before this one.
        runtime::take_virtual_panics();
        let topology = parts.blueprint.topology().clone();
        let seats = parts.packing.containers.iter().flat_map(|container| {
            let instances = container.tasks.iter().map(|task| Seat::Instance(task.task));
            [Seat::Stmgr(container.id)].into_iter().chain(instances).map(|seat| (seat, container.id))
        });
        let seats = [(Seat::Tmaster, ContainerId(0))].into_iter().chain(seats);
        let place = |(seat, container)| Place {
            seat,
            container,
            process: None,
            incarnation: 0,
            start_at: Duration::ZERO,
            is_done: false,
        };
        let places = seats.map(place).collect();
        Self { world, parts, topology, places, dice: Dice::new(seed), crashes: Vec::new() }
    }

    /// The world that they are in.
    #[must_use]
    pub fn world(&self) -> &Rc<World> {
        &self.world
    }

    /// The topology that they run.
    #[must_use]
    pub fn topology(&self) -> &Topology {
        &self.topology
    }

    /// Every seat.
    #[must_use]
    pub fn seats(&self) -> Vec<Seat> {
        self.places.iter().map(|place| place.seat).collect()
    }

    /// Whether all processes have ended in order.
    #[must_use]
    pub fn is_over(&self) -> bool {
        self.places.iter().all(|place| place.is_done)
    }

    /// Whether the process of a seat has ended in order.
    #[must_use]
    pub fn is_done(&self, seat: Seat) -> bool {
        self.places.iter().any(|place| place.seat == seat && place.is_done)
    }

    /// The seats whose processes have ended in order.
    #[must_use]
    pub fn done(&self) -> Vec<Seat> {
        self.places.iter().filter(|place| place.is_done).map(|place| place.seat).collect()
    }

    /// Processes that ended by themselves before the topology was over, and how.
    #[must_use]
    pub fn crashes(&self) -> &[(Seat, Outcome)] {
        &self.crashes
    }

    /// What has panicked in the processes since this was asked last, at most the first ten: also what a task, which goes on
    /// after panics of user code, has taken for one of these.
    #[must_use]
    pub fn take_panics(&self) -> Vec<String> {
        runtime::take_virtual_panics()
    }

    /// The how-many-th process has this seat now; 0 before the first.
    #[must_use]
    pub fn incarnation(&self, seat: Seat) -> u32 {
        self.places.iter().find(|place| place.seat == seat).map_or(0, |place| place.incarnation)
    }

    /// The process that has this seat, if one has.
    #[must_use]
    pub fn process(&self, seat: Seat) -> Option<ProcessId> {
        self.places.iter().find(|place| place.seat == seat)?.process
    }

    /// Who of the cluster has something to do does it, but nothing after `deadline`. Says whether that is reached.
    pub fn turn(&mut self, deadline: Duration) -> bool {
        let now = self.world.now();
        let mut next = deadline;
        for index in 0..self.places.len() {
            let place = &self.places[index];
            if place.process.is_some() || place.is_done {
                continue;
            }
            if place.start_at <= now {
                self.start(index);
            } else {
                next = next.min(place.start_at);
            }
        }
        let ran = self.world.turn(next);
        self.reap();
        ran == Ran::Deadline && next == deadline
    }

    /// Ends the process of a seat at once; it is started again later.
    pub fn kill(&mut self, seat: Seat) {
        if let Some(process) = self.process(seat) {
            self.world.kill(process);
            self.reap();
        }
    }

    /// Ends all processes of a container at once; they are started again later.
    pub fn kill_container(&mut self, container: ContainerId) {
        let of_it = self.places.iter().filter(|place| place.container == container);
        for process in of_it.filter_map(|place| place.process).collect::<Vec<_>>() {
            self.world.kill(process);
        }
        self.reap();
    }

    fn reap(&mut self) {
        for process in self.world.take_ended() {
            let Some(place) = self.places.iter_mut().find(|place| place.process == Some(process)) else {
                continue;
            };
            place.process = None;
            let outcome = self.world.outcome(process).unwrap_or(Outcome::Killed);
            let is_orderly = outcome == Outcome::Exited(0);
            let (seat, container) = (place.seat, place.container);
            let delay = (self.parts.restart_delay)(&mut self.dice);
            let is_early = is_orderly && matches!(seat, Seat::Instance(_));
            place.start_at = self.world.now() + if is_early { ORDERLY_INSTANCE } else { delay };
            place.is_done = is_orderly && !is_early;
            if self.is_done(Seat::Stmgr(container)) {
                self.container_done(container);
            }
            if !matches!(outcome, Outcome::Exited(0) | Outcome::Killed) {
                self.crashes.push((seat, outcome));
            }
            if seat == Seat::Tmaster {
                self.parts.control.tmaster_gone();
            }
        }
    }

    /// Its stmgr has ended in order: who is not there any more is not started again.
    fn container_done(&mut self, container: ContainerId) {
        let of_it = self.places.iter_mut().filter(|place| place.container == container);
        of_it.filter(|place| place.process.is_none()).for_each(|place| place.is_done = true);
    }

    fn start(&mut self, index: usize) {
        let place = &mut self.places[index];
        place.incarnation += 1;
        let (seat, container, incarnation) = (place.seat, place.container, Incarnation(place.incarnation));
        let main: Box<dyn FnOnce() -> u8> = match seat {
            Seat::Tmaster => self.parts.control.tmaster(incarnation),
            Seat::Stmgr(_) => self.stmgr(container, incarnation),
            Seat::Instance(task) => self.instance(task, container, incarnation),
        };
        // A component that keeps its place says so itself when it cannot.
        let _ = std::fs::create_dir_all(self.container_dir(container));
        let step = (self.parts.step)(seat);
        self.places[index].process = Some(self.world.start(HostId(container.0), step, main));
    }

    fn container_dir(&self, container: ContainerId) -> PathBuf {
        self.parts.folder.join(format!("container-{container}"))
    }

    fn stmgr(&self, container: ContainerId, incarnation: Incarnation) -> Box<dyn FnOnce() -> u8> {
        let control = self.parts.control.clone();
        let options = StmgrOptions {
            topology: self.topology.clone(),
            packing: self.parts.packing.clone(),
            container,
            incarnation,
            container_dir: self.container_dir(container),
            secret: self.parts.secret.clone(),
            locate_tmaster: Box::new(move || control.locate()),
            listen_host: IpAddr::V4(Ipv4Addr::LOCALHOST),
            executor: None,
        };
        Box::new(move || match stmgr::run(options) {
            Ok(_) => 0,
            Err(error) => {
                tracing::warn!("the stmgr of container {container} ended: {error}");
                1
            }
        })
    }

    fn instance(
        &self,
        task: TaskId,
        container: ContainerId,
        incarnation: Incarnation,
    ) -> Box<dyn FnOnce() -> u8> {
        let factory = self.parts.blueprint.factory(task).cloned();
        let customs = self.parts.blueprint.customs().to_vec();
        let load: Load = Box::new(move |_, task| {
            factory.map(|factory| (factory, customs)).ok_or_else(|| format!("there is no task {task}"))
        });
        let (topology, folder) = (self.topology.name.clone(), self.container_dir(container));
        Box::new(move || runtime::run_instance(topology, task, incarnation, folder, load))
    }
}

impl Drop for Cluster {
    fn drop(&mut self) {
        self.world.end_all();
    }
}
