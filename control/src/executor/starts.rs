//! How often each process of a container was started, kept in the container's folder: so incarnations go on when an
//! executor is started again, and nobody takes a process of a former one for the present one.

use crate::layout::{ContainerDir, ProcessName};
use egret_dataplane::ids::Incarnation;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fs::{self, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::time::{SystemTime, UNIX_EPOCH};

/// See the module.
#[derive(Serialize, Deserialize, Clone, Debug, Default, PartialEq, Eq)]
pub struct Starts {
    /// What processes count from that are not in the list.
    base: u32,
    processes: BTreeMap<String, u32>,
}

impl Starts {
    /// What is known of a container. Where the file is damaged, seconds since 1970 stand for every count: that is more
    /// than any process was started.
    #[must_use]
    pub fn read(dir: &ContainerDir) -> Self {
        match fs::read(dir.starts()) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Self::default(),
            Err(_) => Self::unknown(),
            Ok(bytes) => serde_json::from_slice(&bytes).unwrap_or_else(|_| Self::unknown()),
        }
    }

    fn unknown() -> Self {
        let seconds = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |d| d.as_secs());
        Self { base: u32::try_from(seconds).unwrap_or(u32::MAX / 2), processes: BTreeMap::new() }
    }

    /// How often it was started.
    #[must_use]
    pub fn of(&self, name: &ProcessName) -> u32 {
        self.processes.get(&name.to_string()).copied().unwrap_or(self.base)
    }

    /// Notes a start before it happens, so that no incarnation is ever used twice.
    ///
    /// # Errors
    /// When it cannot be written; it is noted in this value all the same.
    pub fn note(
        &mut self,
        dir: &ContainerDir,
        name: &ProcessName,
        incarnation: Incarnation,
    ) -> io::Result<()> {
        self.processes.insert(name.to_string(), incarnation.0);
        let temporary = dir.starts().with_extension("tmp");
        let mut file =
            OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(&temporary)?;
        file.write_all(&serde_json::to_vec(self)?)?;
        fs::rename(temporary, dir.starts())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn container() -> (tempfile::TempDir, ContainerDir) {
        let folder = tempfile::tempdir().unwrap();
        let dir = ContainerDir::at(folder.path());
        (folder, dir)
    }

    #[test]
    fn the_next_executor_knows_what_the_one_before_started() {
        let (_folder, dir) = container();
        let mut starts = Starts::read(&dir);
        assert_eq!(starts.of(&ProcessName::Stmgr), 0);
        starts.note(&dir, &ProcessName::Stmgr, Incarnation(3)).unwrap();
        let again = Starts::read(&dir);
        assert_eq!((again.of(&ProcessName::Stmgr), again.of(&ProcessName::Tmaster)), (3, 0));
    }

    #[test]
    fn a_damaged_file_never_leads_to_a_former_incarnation() {
        let (_folder, dir) = container();
        fs::write(dir.starts(), b"{\"base\":0,\"proc").unwrap();
        let mut starts = Starts::read(&dir);
        let count = starts.of(&ProcessName::Stmgr);
        assert!(count > 1_000_000_000, "{count}");
        starts.note(&dir, &ProcessName::Stmgr, Incarnation(count + 1)).unwrap();
        assert!(Starts::read(&dir).of(&ProcessName::Tmaster) >= count);
    }
}
