//! The control plane of a scenario: the real tmaster over a simulated state manager.

use super::state::SimState;
use egret::local::Control;
use egret_control::layout::WorkDir;
use egret_control::state::{Execution, ExecutionMode, State};
use egret_control::tmaster::{self, TmasterOptions};
use egret_dataplane::ids::{ContainerId, Incarnation};
use egret_dataplane::net::handshake::Secret;
use egret_dataplane::plan::{PackingPlan, Topology};
use std::cell::Cell;
use std::net::SocketAddr;
use std::path::Path;
use std::rc::Rc;

pub(super) struct SimControl {
    state: SimState,
    name: String,
    /// A tmaster has seen the topology to its end.
    is_over: Rc<Cell<bool>>,
}

impl SimControl {
    /// Stores the topology, as a submit does.
    ///
    /// # Panics
    /// When the state does not take it.
    pub(super) fn new(
        state: &SimState,
        topology: &Topology,
        packing: &PackingPlan,
        secret: &Secret,
        folder: &Path,
    ) -> Self {
        let stored = State::over(Box::new(state.clone()));
        let execution = Execution {
            id: "00000001".to_owned(),
            secret: secret.to_hex(),
            cluster: "simulated".to_owned(),
            owner_uid: rustix::process::geteuid().as_raw(),
            work_dir: folder.to_owned(),
            mode: ExecutionMode::Run,
            submitted_unix_s: 0,
            stdin: false,
        };
        let put = stored
            .create_topology(topology)
            .and_then(|()| stored.put_packing_plan(packing))
            .and_then(|()| stored.put_execution(&topology.name, &execution));
        put.unwrap_or_else(|error| panic!("the simulated state takes a topology: {error}"));
        let made = WorkDir::at(folder).container(ContainerId(0)).create();
        made.unwrap_or_else(|error| panic!("the tmaster's folder: {error}"));
        Self { state: state.clone(), name: topology.name.clone(), is_over: Rc::default() }
    }

    /// Whether some tmaster has seen the topology to its end.
    pub(super) fn is_over(&self) -> bool {
        self.is_over.get()
    }
}

impl Control for SimControl {
    fn tmaster(&self, incarnation: Incarnation) -> Box<dyn FnOnce() -> u8> {
        let state = State::over(Box::new(self.state.clone()));
        let options =
            TmasterOptions { state_url: "sim:".to_owned(), topology: self.name.clone(), incarnation };
        let is_over = self.is_over.clone();
        Box::new(move || match tmaster::run_in(state, &options) {
            Ok(_) => {
                is_over.set(true);
                0
            }
            Err(error) => {
                tracing::warn!("the tmaster ended: {error:#}");
                1
            }
        })
    }

    fn locate(&self) -> Option<SocketAddr> {
        let state = State::over(Box::new(self.state.clone()));
        state.tmaster_location(&self.name).ok()??.address.parse().ok()
    }

    fn tmaster_gone(&self) {}
}
