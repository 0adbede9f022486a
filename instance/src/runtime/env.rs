//! What an executor tells an instance: environment variables.

use egret_dataplane::ids::{Incarnation, TaskId};
use std::path::PathBuf;

/// What a process that links the library has to do: `describe` or `instance`.
pub const ROLE: &str = "EGRET_ROLE";
/// The topology's name.
pub const TOPOLOGY: &str = "EGRET_TOPOLOGY";
/// The task's number.
pub const TASK: &str = "EGRET_TASK";
/// How many times the task was started, this time included.
pub const INCARNATION: &str = "EGRET_INCARNATION";
/// The container's folder, where the stmgr's socket is.
pub const CONTAINER_DIR: &str = "EGRET_CONTAINER_DIR";
/// What is logged, by commands and all processes: a filter of `tracing-subscriber`.
pub const LOG: &str = "EGRET_LOG";
/// The file to write the topology to, with role `describe`.
pub const DESCRIBE_TO: &str = "EGRET_DESCRIBE_TO";

/// The name of the stmgr's socket in the container's folder.
pub const SOCKET: &str = "stmgr.sock";

/// Which task this process runs, and where.
#[derive(Clone, Debug)]
pub(crate) struct InstanceEnv {
    pub(crate) topology: String,
    pub(crate) task: TaskId,
    pub(crate) incarnation: Incarnation,
    pub(crate) container_dir: PathBuf,
}

/// An environment variable is missing or makes no sense.
#[derive(Debug, thiserror::Error)]
#[error("{name} is not set rightly; instances are started by an executor, not by hand")]
pub(crate) struct EnvError {
    name: &'static str,
}

impl InstanceEnv {
    pub(crate) fn read() -> Result<Self, EnvError> {
        let text = |name| std::env::var(name).map_err(|_| EnvError { name });
        let number = |name| text(name)?.parse::<u32>().map_err(|_| EnvError { name });
        Ok(Self {
            topology: text(TOPOLOGY)?,
            task: TaskId(number(TASK)?),
            incarnation: Incarnation(number(INCARNATION)?),
            container_dir: text(CONTAINER_DIR)?.into(),
        })
    }
}
