//! What a stmgr is started with, and how it ends.

use super::route::RouteError;
use crate::ids::{ContainerId, Incarnation};
use crate::memory::PoolError;
use crate::net::handshake::Secret;
use crate::plan::{PackingPlan, Topology};
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;

/// What a stmgr needs to know to begin.
pub struct StmgrOptions {
    /// The topology, with its configuration.
    pub topology: Topology,
    /// Which task is in which container. It also decides how large the pool is.
    pub packing: PackingPlan,
    /// This container.
    pub container: ContainerId,
    /// The how-many-th stmgr of this container it is.
    pub incarnation: Incarnation,
    /// The container's folder; the socket [`SOCKET_NAME`] is made in it.
    pub container_dir: PathBuf,
    /// What all processes of the topology know.
    pub secret: Secret,
    /// Says where the tmaster is at the moment. Asked again and again, with growing pauses, while there is none.
    pub locate_tmaster: Box<dyn FnMut() -> Option<SocketAddr>>,
    /// The address on which peers reach this host.
    pub listen_host: IpAddr,
    /// The process id of this container's executor, and how often it was started, for the list of processes.
    pub executor: Option<(u32, Incarnation)>,
}

/// The name of the socket that instances register on.
pub const SOCKET_NAME: &str = "stmgr.sock";

/// How a stmgr ended in order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ExitReason {
    /// The topology is over: the tmaster said so, and the instances have gone.
    Stopped,
}

/// Why a stmgr cannot begin or go on.
#[derive(thiserror::Error, Debug)]
pub enum StmgrError {
    /// Topology, packing plan and container do not fit together.
    #[error(transparent)]
    Route(#[from] RouteError),
    /// There is no memory for the blocks.
    #[error(transparent)]
    Pool(#[from] PoolError),
    /// A listener cannot be made.
    #[error("cannot listen on {place}")]
    Listen {
        /// Where.
        place: String,
        /// Why not.
        source: io::Error,
    },
    /// There is no network driver of the kind that is wanted.
    #[error(
        "`egret.network.reactor: {wanted}` cannot be had here: the system refuses io_uring; `auto` takes epoll instead"
    )]
    NoReactor {
        /// What the configuration says.
        wanted: String,
        /// Why not.
        source: io::Error,
    },
    /// The network driver failed.
    #[error("the network driver failed")]
    Reactor(#[from] io::Error),
    /// The tmaster does not want it.
    #[error("the tmaster refused this stmgr: {0}")]
    Refused(String),
}
