//! Why a container gave up, written where `egret run` finds it.

use crate::layout::WorkDir;
use egret_dataplane::ids::{ContainerId, TaskId};
use serde::{Deserialize, Serialize};
use std::io::Write;
use std::os::unix::fs::OpenOptionsExt;
use std::{fmt, fs, io};

/// The reason an executor gave up.
#[derive(Serialize, Deserialize, Clone, Debug, PartialEq, Eq)]
pub struct Failure {
    /// The container.
    pub container: ContainerId,
    /// The process, as its log is named.
    pub process: String,
    /// The component, for an instance.
    pub component: Option<String>,
    /// The task, for an instance.
    pub task: Option<TaskId>,
    /// How often in a row it died.
    pub deaths: u32,
    /// How it ended the last time.
    pub reason: String,
    /// What it wrote last, oldest first; bounded.
    pub last_lines: Vec<String>,
}

impl Failure {
    /// The failures of an execution, by container.
    #[must_use]
    pub fn find(work_dir: &WorkDir) -> Vec<Self> {
        let containers = work_dir.containers();
        let read = |path| serde_json::from_slice(&fs::read(path).ok()?).ok();
        containers.iter().filter_map(|(_, dir)| read(dir.failure())).collect()
    }

    /// Writes it into its container's folder, whole or not at all.
    ///
    /// # Errors
    /// When the file cannot be written.
    pub fn write(&self, work_dir: &WorkDir) -> io::Result<()> {
        let path = work_dir.container(self.container).failure();
        let temporary = path.with_extension("tmp");
        let mut file =
            fs::OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(&temporary)?;
        file.write_all(&serde_json::to_vec(self)?)?;
        fs::rename(temporary, path)
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (&self.component, self.task) {
            (Some(component), Some(task)) => write!(f, "`{component}` task {task}")?,
            _ => f.write_str(&self.process)?,
        }
        write!(f, " in container {} {}", self.container, self.reason)?;
        if self.deaths > 1 {
            write!(f, ", {} times in a row", self.deaths)?;
        }
        if !self.last_lines.is_empty() {
            f.write_str("; it said last:")?;
        }
        self.last_lines.iter().try_for_each(|line| write!(f, "\n    {line}"))
    }
}
