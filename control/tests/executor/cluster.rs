//! The cluster of a test, whose topology is three containers of dummies.

use egret_control::executor::Starts;
use egret_control::layout::{ExecutorPresence, Home, ProcessName, WorkDir};
use egret_control::scheduler::{Launch, LaunchRequest, Local, Scheduler, sweep};
use egret_control::state::{Execution, ExecutionMode, State};
use egret_dataplane::ids::{ContainerId, TaskId};
use egret_dataplane::plan::{
    Component, Config, ContainerPlan, PackingPlan, Program, Resources, Role, TaskPlan, Topology,
};
use rustix::process::{Pid, Signal};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

/// Set where this binary plays a role.
pub(crate) const ROLE_ENV: &str = "EGRET_EXECUTOR_TEST_ROLE";
pub(crate) const TOPOLOGY: &str = "word-count";
const DEADLINE: Duration = Duration::from_secs(20);

pub(crate) struct Cluster {
    pub(crate) home: Home,
    _folder: Option<tempfile::TempDir>,
}

impl Cluster {
    pub(crate) fn new(mode: ExecutionMode) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let home = Home::at(&folder.path().join("home"));
        let cluster = Self { home, _folder: Some(folder) };
        cluster.store(mode);
        cluster
    }

    pub(crate) fn at(home: Home) -> Self {
        Self { home, _folder: None }
    }

    pub(crate) fn state(&self) -> State {
        State::open(&self.home.state_url("local")).unwrap()
    }

    pub(crate) fn store(&self, mode: ExecutionMode) {
        let state = self.state();
        let id = format!("{:08x}", std::process::id() ^ self as *const Self as u32 ^ nanos());
        let work_dir = self.home.work_dir(TOPOLOGY, &id);
        work_dir.create().unwrap();
        state.create_topology(&topology()).unwrap();
        state.put_packing_plan(&packing()).unwrap();
        let execution = Execution {
            id,
            secret: String::new(),
            cluster: "local".to_owned(),
            owner_uid: rustix::process::getuid().as_raw(),
            work_dir: work_dir.path().to_owned(),
            mode,
            submitted_unix_s: 0,
            stdin: false,
        };
        state.put_execution(TOPOLOGY, &execution).unwrap();
    }

    pub(crate) fn execution(&self) -> Execution {
        self.state().execution(TOPOLOGY).unwrap().unwrap()
    }

    pub(crate) fn work_dir(&self) -> WorkDir {
        WorkDir::at(&self.execution().work_dir)
    }

    pub(crate) fn launch(&self) -> Launch {
        let state = self.state();
        let request = LaunchRequest {
            state_url: state.url(),
            topology: &topology(),
            packing: &packing(),
            execution: &self.execution(),
            stdout: None,
        };
        Local::with_program(self.program()).launch(&request).unwrap()
    }

    /// This binary, by a script that sets the home folder.
    pub(crate) fn program(&self) -> PathBuf {
        let script = self.home.path().join("egret");
        let own = std::env::current_exe().unwrap();
        let text = format!(
            "#!/bin/sh\n{ROLE_ENV}=1 EGRET_HOME='{}' exec '{}' \"$@\"\n",
            self.home.path().display(),
            own.display()
        );
        if fs::read_to_string(&script).ok().as_ref() != Some(&text) {
            fs::write(&script, text).unwrap();
            let mode = std::os::unix::fs::PermissionsExt::from_mode(0o700);
            fs::set_permissions(&script, mode).unwrap();
        }
        script
    }

    /// Starts the role `run` as a process of its own.
    pub(crate) fn start_run(&self) -> std::process::Child {
        Command::new(self.program()).arg("run").stdin(Stdio::null()).spawn().unwrap()
    }

    pub(crate) fn touch(&self, name: &str) {
        fs::write(self.home.path().join(name), "").unwrap();
    }

    pub(crate) fn processes(&self, id: &str) -> usize {
        sweep::find(id).unwrap().len()
    }

    /// Waits until every process runs: 3 executors, 3 daemons and 2 instances, each with 2 processes of its own.
    pub(crate) fn wait_until_started(&self, id: &str) {
        wait_for("all processes", || self.processes(id) == 12);
    }

    /// Kills an executor, and its container with it.
    pub(crate) fn kill_container(&self, container: u32) -> u32 {
        let executor = self.executor(container).unwrap();
        kill_9(executor);
        executor
    }

    /// The living executor of a container.
    pub(crate) fn executor(&self, container: u32) -> Option<u32> {
        let dir = self.work_dir().container(ContainerId(container));
        let lives = dir.executor().unwrap() == ExecutorPresence::Lives;
        self.pid(container, &ProcessName::Executor).filter(|_| lives)
    }

    /// How often the executor of a container was started.
    pub(crate) fn executor_starts(&self, container: u32) -> u32 {
        Starts::read(&self.work_dir().container(ContainerId(container))).of(&ProcessName::Executor)
    }

    pub(crate) fn pid(&self, container: u32, name: &ProcessName) -> Option<u32> {
        self.work_dir().container(ContainerId(container)).pid(name)
    }
}

pub(crate) fn nanos() -> u32 {
    std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap().subsec_nanos()
}

pub(crate) fn topology() -> Topology {
    let lines = Component {
        id: "lines".to_owned(),
        role: Role::Spout,
        parallelism: 2,
        kind: "sequence".to_owned(),
        args: "{}".to_owned(),
        outputs: Vec::new(),
        inputs: Vec::new(),
        resources: Resources::default(),
        config: Config::default(),
    };
    let mut config = Config::default();
    config.set(egret_dataplane::plan::config::RESTART_DELAY_MS, "10").unwrap();
    config.set(egret_dataplane::plan::config::RESTART_DELAY_MAX_MS, "200").unwrap();
    Topology { name: TOPOLOGY.to_owned(), config, components: vec![lines], program: Program::Builtin }
}

pub(crate) fn packing() -> PackingPlan {
    let container = |number: u32| {
        let resources = Resources::default();
        let (task, component) = (TaskId(number), "lines".to_owned());
        let tasks = vec![TaskPlan { task, component, index: number - 1, resources }];
        ContainerPlan { id: ContainerId(number), tasks, required: resources }
    };
    PackingPlan { topology: TOPOLOGY.to_owned(), containers: vec![container(1), container(2)] }
}

pub(crate) fn wait_for(what: &str, mut condition: impl FnMut() -> bool) {
    let deadline = Instant::now() + DEADLINE;
    while !condition() {
        assert!(Instant::now() < deadline, "{what}: not within {DEADLINE:?}");
        std::thread::park_timeout(Duration::from_millis(10));
    }
}

pub(crate) fn kill_9(pid: u32) {
    signal(pid, Signal::KILL);
}

pub(crate) fn signal(pid: u32, signal: Signal) {
    rustix::process::kill_process(Pid::from_raw(pid as i32).unwrap(), signal).unwrap();
}

pub(crate) fn is_zombie(pid: u32) -> bool {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap();
    stat.rsplit_once(") ").unwrap().1.starts_with('Z')
}

/// Every file below a folder, but not the script that the tests need.
pub(crate) fn files_below(folder: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        if entry.file_type().unwrap().is_dir() {
            found.extend(files_below(&entry.path()));
        } else if entry.file_name() != "egret" {
            found.push(entry.path());
        }
    }
    found
}
