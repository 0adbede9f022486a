//! From the first instance to running: who has registered with whom, under which plan, in which state.
//!
//! 1. Instances register. Once all of the container have, the stmgr registers with the tmaster.
//! 2. The tmaster sends a plan. It goes to all instances at once, and to those that come later. For each peer of the
//!    plan the link is made: the lower container's stmgr connects to the higher one's.
//! 3. When every link stands, the tmaster is told, once for each plan.
//! 4. The state that the tmaster sets (*running*, *draining*, *stopped*) goes to all instances.
//!
//! What comes back later takes part anew, and nothing that goes stops the rest: an instance that died gets plan and
//! state when its successor registers; without a tmaster everything goes on under the plan there is.

use super::route::{Peer, Routes, Slot};
use crate::ids::{Epoch, TaskId};
use crate::message::{Message, RunState};
use crate::mutants::{self, Mutant};
use crate::plan::PhysicalPlan;
use std::net::SocketAddr;

/// Something for a driver to do, in order.
#[derive(Clone, Debug, PartialEq)]
pub enum Action {
    /// Introduce this stmgr to the tmaster, as the holder of this epoch's plan.
    Register(Epoch),
    /// Tell the tmaster.
    ToTmaster(Message),
    /// Tell every registered instance.
    ToInstances(Message),
    /// Tell one instance.
    ToInstance(Slot, Message),
    /// Keep a link to a peer at this address, and drop the one to another address.
    Link(Peer, SocketAddr),
    /// This local task has ended, the plan says.
    EndTask(Slot),
    /// The topology is over.
    Stop,
    /// The tmaster does not want this stmgr.
    Refused(String),
    /// A line for the log.
    Warn(String),
}

/// The state of it.
#[derive(Debug)]
pub struct Registration {
    up: Vec<bool>,
    /// All instances were there once. One that dies later does not undo it.
    complete: bool,
    has_tmaster: bool,
    plan: Option<PhysicalPlan>,
    state: RunState,
    linked: Vec<bool>,
    /// The plan whose links the tmaster has not yet heard of.
    mesh_owed: Option<Epoch>,
}

impl Registration {
    /// Nobody is there yet.
    #[must_use]
    pub fn new(routes: &Routes) -> Self {
        Self {
            up: vec![false; routes.tasks.len()],
            complete: routes.tasks.is_empty(),
            has_tmaster: false,
            plan: None,
            state: RunState::Paused,
            linked: vec![false; routes.peers.len()],
            mesh_owed: None,
        }
    }

    /// The epoch of the plan it holds; 0 for none.
    #[must_use]
    pub fn epoch(&self) -> Epoch {
        self.plan.as_ref().map_or(Epoch(0), |plan| plan.epoch)
    }

    /// The plan in force.
    #[must_use]
    pub fn plan(&self) -> Option<&PhysicalPlan> {
        self.plan.as_ref()
    }

    /// Whether the topology is over, so that instances leave.
    #[must_use]
    pub fn is_stopped(&self) -> bool {
        self.state == RunState::Stopped
    }

    /// Whether the tmaster is to be looked for.
    #[must_use]
    pub fn wants_tmaster(&self) -> bool {
        self.complete
    }

    /// An instance has registered.
    pub fn instance_up(&mut self, slot: Slot, actions: &mut Vec<Action>) {
        self.up[slot.at()] = true;
        if let Some(plan) = &self.plan {
            actions.push(Action::ToInstance(slot, Message::Plan(Box::new(plan.clone()))));
            actions.push(Action::ToInstance(slot, Message::SetState(self.state)));
        }
        if !self.complete && self.up.iter().all(|&up| up) {
            self.complete = true;
            self.register(actions);
        }
    }

    /// An instance has gone.
    pub fn instance_down(&mut self, slot: Slot) {
        self.up[slot.at()] = false;
    }

    /// A connection to the tmaster stands.
    pub fn tmaster_up(&mut self, actions: &mut Vec<Action>) {
        self.has_tmaster = true;
        self.register(actions);
    }

    /// It is lost.
    pub fn tmaster_down(&mut self) {
        self.has_tmaster = false;
    }

    /// The link to a peer stands.
    pub fn peer_up(&mut self, peer: Peer, actions: &mut Vec<Action>) {
        self.linked[peer.at()] = true;
        self.tell_mesh(actions);
    }

    /// It is lost.
    pub fn peer_down(&mut self, peer: Peer) {
        self.linked[peer.at()] = false;
    }

    /// The tmaster says something.
    pub fn from_tmaster(&mut self, message: Message, routes: &Routes, actions: &mut Vec<Action>) {
        match message {
            Message::Plan(plan) => self.take_plan(*plan, routes, actions),
            Message::SetState(state) => {
                self.state = state;
                actions.push(Action::ToInstances(Message::SetState(state)));
                if state == RunState::Stopped {
                    actions.push(Action::Stop);
                }
            }
            Message::Refused(reason) => actions.push(Action::Refused(reason)),
            other => {
                let said = format!("{other:?}");
                let kind = said.split(['(', ' ']).next().unwrap_or_default().to_owned();
                actions.push(Action::Warn(format!(
                    "the tmaster said {kind}, which is not for a stmgr; ignored"
                )));
            }
        }
    }

    fn take_plan(&mut self, plan: PhysicalPlan, routes: &Routes, actions: &mut Vec<Action>) {
        if plan.epoch < self.epoch() && !mutants::is(Mutant::StaleEpoch) {
            let (old, new) = (plan.epoch, self.epoch());
            actions.push(Action::Warn(format!("a plan of epoch {old} came after that of {new}; ignored")));
            return;
        }
        match Routes::new(&plan.topology, &plan.packing, routes.container()) {
            Ok(planned) if planned == *routes => {}
            outcome => {
                let why = outcome.err().map_or("it packs the tasks otherwise".to_owned(), |e| e.to_string());
                let epoch = plan.epoch;
                actions
                    .push(Action::Warn(format!("the plan of epoch {epoch} is not this container's: {why}")));
                return;
            }
        }
        actions.push(Action::ToInstances(Message::Plan(Box::new(plan.clone()))));
        for &TaskId(task) in &plan.ended {
            actions.extend(routes.slot(TaskId(task)).map(Action::EndTask));
        }
        for stmgr in &plan.stmgrs {
            let Some(peer) = routes.peer(stmgr.container).filter(|_| routes.container() < stmgr.container)
            else {
                continue;
            };
            match stmgr.address.parse() {
                Ok(address) => actions.push(Action::Link(peer, address)),
                Err(_) => actions.push(Action::Warn(format!(
                    "the plan gives `{}` for container {}; an IP address and a port would be right",
                    stmgr.address, stmgr.container
                ))),
            }
        }
        self.mesh_owed = Some(plan.epoch);
        self.plan = Some(plan);
        self.tell_mesh(actions);
    }

    fn register(&self, actions: &mut Vec<Action>) {
        if self.complete && self.has_tmaster {
            actions.push(Action::Register(self.epoch()));
        }
    }

    fn tell_mesh(&mut self, actions: &mut Vec<Action>) {
        if self.has_tmaster && self.linked.iter().all(|&linked| linked) {
            actions.extend(self.mesh_owed.take().map(|epoch| Action::ToTmaster(Message::MeshWhole(epoch))));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ids::ContainerId;
    use crate::plan::StmgrAddress;
    use crate::stmgr::core::tests::{component, packing, topology};

    /// Two tasks here in container 2, one each in 1 and 3.
    fn plan(epoch: u64, ended: &[u32]) -> PhysicalPlan {
        let topology = topology(vec![component("a", 2, &[]), component("b", 2, &[("a", false)])]);
        let packing = packing(&topology, &[1, 2, 2, 3]);
        let stmgrs = packing
            .containers
            .iter()
            .map(|c| StmgrAddress { container: c.id, address: format!("127.0.0.1:{}", 1000 + c.id.0) });
        let stmgrs = stmgrs.collect();
        let ended = ended.iter().map(|&task| TaskId(task)).collect();
        PhysicalPlan { epoch: Epoch(epoch), topology, packing, stmgrs, ended }
    }

    fn start() -> (Registration, Routes) {
        let plan = plan(1, &[]);
        let routes = Routes::new(&plan.topology, &plan.packing, ContainerId(2)).unwrap();
        (Registration::new(&routes), routes)
    }

    fn told(act: impl FnOnce(&mut Vec<Action>)) -> Vec<Action> {
        let mut actions = Vec::new();
        act(&mut actions);
        actions
    }

    #[test]
    fn the_tmaster_hears_of_us_after_all_instances() {
        let (mut r, _) = start();
        assert_eq!(told(|a| r.instance_up(Slot(1), a)), []);
        assert!(!r.wants_tmaster());
        assert_eq!(told(|a| r.instance_up(Slot(0), a)), []);
        assert!(r.wants_tmaster());
        assert_eq!(told(|a| r.tmaster_up(a)), [Action::Register(Epoch(0))]);
        // A dead instance does not keep us from registering with the next tmaster.
        r.instance_down(Slot(0));
        r.tmaster_down();
        assert_eq!(told(|a| r.tmaster_up(a)), [Action::Register(Epoch(0))]);
    }

    #[test]
    fn the_mesh_is_told_once_for_each_plan_when_every_link_stands() {
        let (mut r, routes) = start();
        told(|a| r.instance_up(Slot(0), a));
        told(|a| r.instance_up(Slot(1), a));
        told(|a| r.tmaster_up(a));
        assert_eq!(told(|a| r.peer_up(Peer(0), a)), []);
        let message = Message::Plan(Box::new(plan(3, &[2, 4])));
        let done = told(|a| r.from_tmaster(message.clone(), &routes, a));
        let address = "127.0.0.1:1003".parse().unwrap();
        let expected =
            [Action::ToInstances(message.clone()), Action::EndTask(Slot(0)), Action::Link(Peer(1), address)];
        assert_eq!(done, expected);
        let whole = Action::ToTmaster(Message::MeshWhole(Epoch(3)));
        assert_eq!(told(|a| r.peer_up(Peer(1), a)), [whole]);
        r.peer_down(Peer(1));
        assert_eq!(told(|a| r.peer_up(Peer(1), a)), []);
        let running = Message::SetState(RunState::Running);
        let done = told(|a| r.from_tmaster(running.clone(), &routes, a));
        assert_eq!(done, [Action::ToInstances(running.clone())]);
        // A successor gets both.
        r.instance_down(Slot(0));
        let expected = [Action::ToInstance(Slot(0), message), Action::ToInstance(Slot(0), running)];
        assert_eq!(told(|a| r.instance_up(Slot(0), a)), expected);
    }

    /// BR-034.
    #[test]
    fn an_older_or_foreign_plan_changes_nothing() {
        let (mut r, routes) = start();
        told(|a| r.from_tmaster(Message::Plan(Box::new(plan(5, &[]))), &routes, a));
        let done = told(|a| r.from_tmaster(Message::Plan(Box::new(plan(4, &[]))), &routes, a));
        assert!(matches!(&done[..], [Action::Warn(_)]));
        let mut foreign = plan(6, &[]);
        foreign.packing = packing(&foreign.topology, &[1, 2, 3, 3]);
        let done = told(|a| r.from_tmaster(Message::Plan(Box::new(foreign)), &routes, a));
        assert!(matches!(&done[..], [Action::Warn(_)]));
        assert_eq!(r.epoch(), Epoch(5));
    }

    #[test]
    fn a_stop_goes_to_the_instances_first() {
        let (mut r, routes) = start();
        let stop = Message::SetState(RunState::Stopped);
        let done = told(|a| r.from_tmaster(stop.clone(), &routes, a));
        assert_eq!(done, [Action::ToInstances(stop), Action::Stop]);
    }
}
