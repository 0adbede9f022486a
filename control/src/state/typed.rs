//! The entries of a topology, by their types. They are stored as JSON, so that people can read them.

use super::file::FileState;
use super::{Ephemeral, StateError, StateManager};
use crate::scheduler::SchedulerRecord;
use egret_dataplane::ids::TaskId;
use egret_dataplane::plan::{PackingPlan, PhysicalPlan, Topology};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use std::fmt;
use std::path::PathBuf;
use std::time::Duration;

/// One execution of a topology: from a run or a submit to its end.
#[derive(Serialize, Deserialize, Clone, PartialEq, Eq)]
pub struct Execution {
    /// Eight hexadecimal digits, new for each execution.
    pub id: String,
    /// The topology's secret in hexadecimal; every TCP connection proves knowledge of it.
    pub secret: String,
    /// The cluster's name.
    pub cluster: String,
    /// The user it runs as.
    pub owner_uid: u32,
    /// Where its containers keep their files.
    pub work_dir: PathBuf,
    /// How it was started.
    pub mode: ExecutionMode,
    /// When, in seconds since 1970.
    pub submitted_unix_s: u64,
    /// Whether a spout reads the standard input of `egret run`.
    pub stdin: bool,
}

/// How an execution was started.
#[derive(Serialize, Deserialize, Clone, Copy, PartialEq, Eq, Debug)]
#[serde(rename_all = "lowercase")]
pub enum ExecutionMode {
    /// `egret run`: it ends with that command, and leaves nothing.
    Run,
    /// `egret submit`: it goes on until it completes or is killed, and leaves its logs.
    Submit,
}

/// Where the tmaster of a topology is.
#[derive(Serialize, Deserialize, Clone, PartialEq, Eq, Debug)]
pub struct TmasterLocation {
    /// `HOST:PORT` with a numeric host.
    pub address: String,
    /// Its process id.
    pub pid: u32,
}

/// The secret stays out of logs.
impl fmt::Debug for Execution {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (id, mode, work_dir) = (&self.id, self.mode, &self.work_dir);
        write!(f, "Execution {{ id: {id}, mode: {mode:?}, work_dir: {} .. }}", work_dir.display())
    }
}

/// The kinds of entries of a topology. The one by which the topology exists goes last when they are removed.
const KINDS: [&str; 6] = ["tmasters", "pplans", "schedulers", "packingplans", "executionstate", "topologies"];

/// The state of a cluster.
pub struct State {
    manager: Box<dyn StateManager>,
}

impl State {
    /// Opens the state that `url` names, making it when it is not there.
    ///
    /// # Errors
    /// [`StateError`] when the URL is wrong or not supported yet, or its place is not this user's.
    pub fn open(url: &str) -> Result<Self, StateError> {
        let manager: Box<dyn StateManager> = match url.split_once(':') {
            Some(("file", path)) if !path.is_empty() => Box::new(FileState::open(path)?),
            Some(("zk", _)) => return Err(StateError::Unsupported { url: url.to_owned() }),
            _ => return Err(StateError::BadUrl { url: url.to_owned() }),
        };
        Ok(Self::over(manager))
    }

    /// The state kept by this state manager.
    #[must_use]
    pub fn over(manager: Box<dyn StateManager>) -> Self {
        Self { manager }
    }

    /// The URL that opens this state in another process.
    #[must_use]
    pub fn url(&self) -> &str {
        self.manager.url()
    }

    /// The names of all topologies, sorted.
    ///
    /// # Errors
    /// [`StateError`].
    pub fn topologies(&self) -> Result<Vec<String>, StateError> {
        self.manager.list("/topologies")
    }

    /// The logical topology.
    ///
    /// # Errors
    /// [`StateError`].
    pub fn topology(&self, name: &str) -> Result<Option<Topology>, StateError> {
        self.get(&at("topologies", name))
    }

    /// Stores a topology whose name is free. This entry is what makes it exist.
    ///
    /// # Errors
    /// [`StateError::Exists`] when there is one of that name.
    pub fn create_topology(&self, topology: &Topology) -> Result<(), StateError> {
        self.manager.create(&at("topologies", &topology.name), &to_json(topology))
    }

    /// Where the tasks of a topology are packed.
    ///
    /// # Errors
    /// [`StateError`].
    pub fn packing_plan(&self, name: &str) -> Result<Option<PackingPlan>, StateError> {
        self.get(&at("packingplans", name))
    }

    /// Stores the packing plan.
    ///
    /// # Errors
    /// [`StateError`].
    pub fn put_packing_plan(&self, plan: &PackingPlan) -> Result<(), StateError> {
        self.put(&at("packingplans", &plan.topology), plan)
    }

    /// The plan that the tmaster distributed last.
    ///
    /// # Errors
    /// [`StateError`].
    pub fn physical_plan(&self, name: &str) -> Result<Option<PhysicalPlan>, StateError> {
        self.get(&at("pplans", name))
    }

    /// The tasks that have ended, as that plan says; none without one.
    ///
    /// # Errors
    /// [`StateError`].
    pub fn ended_tasks(&self, name: &str) -> Result<Vec<TaskId>, StateError> {
        /// The plan but for what is not asked for.
        #[derive(Deserialize)]
        struct Ends {
            ended: Vec<TaskId>,
        }
        let ends: Option<Ends> = self.get(&at("pplans", name))?;
        Ok(ends.map_or_else(Vec::new, |ends| ends.ended))
    }

    /// Stores the physical plan.
    ///
    /// # Errors
    /// [`StateError`].
    pub fn put_physical_plan(&self, plan: &PhysicalPlan) -> Result<(), StateError> {
        self.put(&at("pplans", &plan.topology.name), plan)
    }

    /// How and where a topology is executed.
    ///
    /// # Errors
    /// [`StateError`].
    pub fn execution(&self, name: &str) -> Result<Option<Execution>, StateError> {
        self.get(&at("executionstate", name))
    }

    /// Whether an execution is over for certain: another one has its name, or the state has no entry at all of that name.
    ///
    /// # Errors
    /// [`StateError`] when that cannot be told.
    pub fn is_over(&self, name: &str, execution_id: &str) -> Result<bool, StateError> {
        if let Some(present) = self.execution(name)? {
            return Ok(present.id != execution_id);
        }
        // Somebody may have removed that entry alone, or all of them, and a tmaster that lives has made some again.
        for kind in KINDS {
            if self.manager.read(&at(kind, name))?.is_some() {
                return Ok(false);
            }
        }
        self.check_place()?;
        Ok(true)
    }

    /// Looks whether the place of the state is there; where it is not, nothing can be told from what is not found.
    ///
    /// # Errors
    /// [`StateError`] when it is not.
    pub fn check_place(&self) -> Result<(), StateError> {
        self.manager.check_place()
    }

    /// Stores how and where it is executed.
    ///
    /// # Errors
    /// [`StateError`].
    pub fn put_execution(&self, name: &str, execution: &Execution) -> Result<(), StateError> {
        self.put(&at("executionstate", name), execution)
    }

    /// What the scheduler needs to find the executors again.
    ///
    /// # Errors
    /// [`StateError`].
    pub fn scheduler_record(&self, name: &str) -> Result<Option<SchedulerRecord>, StateError> {
        self.get(&at("schedulers", name))
    }

    /// Stores what the scheduler needs.
    ///
    /// # Errors
    /// [`StateError`].
    pub fn put_scheduler_record(&self, name: &str, record: &SchedulerRecord) -> Result<(), StateError> {
        self.put(&at("schedulers", name), record)
    }

    /// Where the living tmaster is; `None` while there is none.
    ///
    /// # Errors
    /// [`StateError`].
    pub fn tmaster_location(&self, name: &str) -> Result<Option<TmasterLocation>, StateError> {
        self.get(&at("tmasters", name))
    }

    /// Makes this process the tmaster that everyone finds, until the guard is dropped or the process ends.
    ///
    /// # Errors
    /// [`StateError::Held`] while another tmaster lives.
    pub fn hold_tmaster(&self, name: &str, location: &TmasterLocation) -> Result<Ephemeral, StateError> {
        self.manager.ephemeral(&at("tmasters", name), &to_json(location))
    }

    /// Keeps others from starting, changing or removing this topology at the same time.
    ///
    /// # Errors
    /// [`StateError::Held`] when somebody else does so for longer than `patience`.
    pub fn lock(&self, name: &str, patience: Duration) -> Result<Ephemeral, StateError> {
        let holder = format!("process {}", std::process::id());
        self.manager.lock(&at("locks", name), holder.as_bytes(), patience)
    }

    /// Removes every entry of a topology but its lock, unless the lock's holder is gone. A removal that was cut short
    /// can be done again.
    ///
    /// # Errors
    /// [`StateError`].
    pub fn remove(&self, name: &str) -> Result<(), StateError> {
        for kind in KINDS {
            self.manager.delete(&at(kind, name))?;
        }
        // Reading an ephemeral entry whose owner is gone removes what is left of it.
        self.manager.read(&at("locks", name)).map(drop)
    }

    fn get<T: DeserializeOwned>(&self, path: &str) -> Result<Option<T>, StateError> {
        let Some(bytes) = self.manager.read(path)? else { return Ok(None) };
        let damaged = |e: serde_json::Error| StateError::Damaged {
            file: format!("{}{path}", self.manager.url()),
            what: format!("not the JSON of this version of Egret: {e}"),
        };
        serde_json::from_slice(&bytes).map(Some).map_err(damaged)
    }

    fn put<T: Serialize>(&self, path: &str, value: &T) -> Result<(), StateError> {
        self.manager.write(path, &to_json(value))
    }
}

fn at(kind: &str, name: &str) -> String {
    format!("/{kind}/{name}")
}

fn to_json<T: Serialize>(value: &T) -> Vec<u8> {
    match serde_json::to_vec(value) {
        Ok(bytes) => bytes,
        // The types stored here have no map with keys other than strings and no fallible serializer.
        Err(error) => unreachable!("state entries serialize to memory: {error}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use egret_dataplane::plan::{Config, Program};

    fn topology(name: &str) -> Topology {
        Topology {
            name: name.to_owned(),
            config: Config::default(),
            components: Vec::new(),
            program: Program::Builtin,
        }
    }

    fn execution() -> Execution {
        Execution {
            id: "0123abcd".to_owned(),
            secret: "5ec7e7".to_owned(),
            cluster: "local".to_owned(),
            owner_uid: 1000,
            work_dir: PathBuf::from("/tmp/w"),
            mode: ExecutionMode::Submit,
            submitted_unix_s: 7,
            stdin: false,
        }
    }

    fn fresh() -> (tempfile::TempDir, State) {
        let folder = tempfile::tempdir().unwrap();
        let state = State::open(&format!("file:{}/state", folder.path().display())).unwrap();
        (folder, state)
    }

    #[test]
    fn urls_of_other_kinds_are_refused() {
        let refused = |url| State::open(url).err().unwrap();
        assert!(matches!(refused("zk://localhost:2181/egret"), StateError::Unsupported { .. }));
        for url in ["", "file:", "/tmp/x", "etcd:x"] {
            assert!(matches!(refused(url), StateError::BadUrl { .. }), "{url}");
        }
    }

    #[test]
    fn a_topology_is_stored_once_and_removed_whole() {
        let (folder, state) = fresh();
        state.create_topology(&topology("one")).unwrap();
        assert!(matches!(state.create_topology(&topology("one")), Err(StateError::Exists { .. })));
        state.put_execution("one", &execution()).unwrap();
        let location = TmasterLocation { address: "127.0.0.1:1".to_owned(), pid: 1 };
        let tmaster = state.hold_tmaster("one", &location).unwrap();
        assert_eq!(state.tmaster_location("one").unwrap(), Some(location));
        assert_eq!(state.topologies().unwrap(), ["one"]);
        assert_eq!(state.execution("one").unwrap(), Some(execution()));
        state.remove("one").unwrap();
        drop(tmaster);
        state.remove("one").unwrap();
        assert_eq!(state.topology("one").unwrap(), None);
        assert_eq!(std::fs::read_dir(folder.path().join("state")).unwrap().count(), 0);
    }

    #[test]
    fn an_execution_is_over_only_when_the_state_says_so() {
        let (folder, state) = fresh();
        let over = || state.is_over("one", "0123abcd");
        assert!(over().is_err(), "there is no state");
        state.create_topology(&topology("one")).unwrap();
        assert!(!over().unwrap(), "its execution is not there yet");
        state.put_execution("one", &execution()).unwrap();
        assert!(!over().unwrap());
        assert!(state.is_over("one", "another").unwrap());
        let file = folder.path().join("state/executionstate/one");
        std::fs::write(&file, "damaged").unwrap();
        assert!(over().is_err());
        state.remove("one").unwrap();
        assert!(over().unwrap());
    }

    #[test]
    fn a_name_never_leads_out_of_its_folder() {
        let (_folder, state) = fresh();
        state.create_topology(&topology("one")).unwrap();
        assert_eq!(state.execution("../topologies/one").unwrap(), None);
        assert_eq!(state.execution("..").unwrap(), None);
    }

    #[test]
    fn a_whole_file_with_the_wrong_content_is_an_error() {
        let (folder, state) = fresh();
        let files = FileState::open(folder.path().join("state")).unwrap();
        files.write("/executionstate/one", b"{\"id\": 7}").unwrap();
        let text = state.execution("one").unwrap_err().to_string();
        assert!(text.contains("/executionstate/one is damaged"), "{text}");
    }

    #[test]
    fn the_secret_is_not_shown() {
        assert!(!format!("{:?}", execution()).contains("5ec7e7"));
    }
}
