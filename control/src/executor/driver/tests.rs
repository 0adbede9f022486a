//! The loop with shell scripts in place of the real processes.

use super::super::supervisor::Policy;
use super::*;
use crate::backoff::Backoff;
use egret_dataplane::ids::TaskId;
use std::collections::HashMap;
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;
use std::process::Command;

/// Shell scripts in place of the real processes; `$N` is the incarnation.
struct Scripts(HashMap<ProcessName, &'static str>);

impl Commands for Scripts {
    fn command(&self, name: &ProcessName, incarnation: Incarnation) -> io::Result<Command> {
        let mut command = Command::new("/bin/sh");
        command.args(["-c", self.0[name]]).env("N", incarnation.to_string());
        Ok(command)
    }
}

/// Tells the loop to end when a byte comes.
struct Switch(UnixStream);

impl Outside for Switch {
    fn wake_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }

    fn woken(&mut self, _: &[u32]) -> bool {
        io::Read::read(&mut self.0, &mut [0; 8]).unwrap() > 0
    }
}

struct Container {
    _folder: tempfile::TempDir,
    dir: ContainerDir,
    switch: UnixStream,
    outside: Switch,
}

fn container() -> Container {
    let folder = tempfile::tempdir().unwrap();
    let dir = ContainerDir::at(&folder.path().join("container-1"));
    dir.create().unwrap();
    let (switch, other) = UnixStream::pair().unwrap();
    Container { _folder: folder, dir, switch, outside: Switch(other) }
}

fn policy() -> Policy {
    let delay = Duration::from_millis(1);
    Policy { backoff: Backoff { delay, delay_max: delay }, give_up_after: Some(3) }
}

fn task() -> ProcessName {
    ProcessName::Instance(TaskId(1), "split".to_owned())
}

impl Container {
    fn run(&mut self, scripts: &[(ProcessName, &'static str)]) -> (Outcome, Option<Failure>) {
        let names = scripts.iter().map(|(name, _)| name.clone()).collect();
        let policy = policy();
        let retention = Retention { max_bytes: 1 << 20, keep_files: 1 };
        let commands = Scripts(scripts.iter().cloned().collect());
        let mut driver = Driver::new(ContainerId(1), &self.dir, commands, retention, (names, policy));
        driver.run(&mut self.outside).unwrap()
    }

    fn log(&self, name: &ProcessName) -> String {
        std::fs::read_to_string(self.dir.log(name)).unwrap()
    }
}

#[test]
fn what_dies_is_started_again_and_the_stmgrs_end_ends_the_rest() {
    let mut container = container();
    let done = container.dir.path().join("done");
    let stmgr = format!("while [ ! -e {} ]; do sleep 0.01; done", done.display());
    let instance =
        format!("echo start $N; [ $N = 2 ] || kill -9 $$; touch {}; exec sleep 600", done.display());
    let scripts = [(ProcessName::Stmgr, stmgr.leak() as &str), (task(), instance.leak())];
    assert_eq!(container.run(&scripts), (Outcome::Completed, None));
    assert_eq!(container.log(&task()), "start 1\nstart 2\n");
    assert_eq!(std::fs::read_dir(container.dir.pid_dir()).unwrap().count(), 0);
}

#[test]
fn the_next_executor_of_a_container_counts_on() {
    let mut container = container();
    let scripts = [(ProcessName::Stmgr, "echo stmgr $N"), (task(), "exec sleep 600")];
    for _ in 0..3 {
        assert_eq!(container.run(&scripts), (Outcome::Completed, None));
    }
    assert_eq!(container.log(&ProcessName::Stmgr), "stmgr 1\nstmgr 2\nstmgr 3\n");
    assert_eq!(Starts::read(&container.dir).of(&task()), 3);
}

#[test]
fn the_reason_for_giving_up_has_the_last_words() {
    let mut container = container();
    let scripts = [(ProcessName::Stmgr, "exec sleep 600"), (task(), "echo cannot open book.txt >&2; exit 3")];
    let (outcome, failure) = container.run(&scripts);
    let failure = failure.unwrap();
    assert_eq!(outcome, Outcome::GaveUp(1));
    assert_eq!((failure.deaths, failure.task), (3, Some(TaskId(1))));
    let text = failure.to_string();
    assert!(text.starts_with("`split` task 1 in container 1 exited with status 3, 3 times"), "{text}");
    assert!(text.ends_with("cannot open book.txt"), "{text}");
}

#[test]
fn a_program_that_cannot_be_started_is_given_up_on() {
    struct Missing;
    impl Commands for Missing {
        fn command(&self, _: &ProcessName, _: Incarnation) -> io::Result<Command> {
            Ok(Command::new("/nonexistent/program"))
        }
    }
    let mut container = container();
    let policy = policy();
    let retention = Retention { max_bytes: 1 << 20, keep_files: 1 };
    let mut driver = Driver::new(ContainerId(1), &container.dir, Missing, retention, (vec![task()], policy));
    let (outcome, failure) = driver.run(&mut container.outside).unwrap();
    assert_eq!(outcome, Outcome::GaveUp(0));
    assert!(failure.unwrap().reason.contains("could not be started: No such file"));
}

#[test]
fn told_to_end_it_forces_those_that_do_not_listen() {
    let mut container = container();
    let mut switch = container.switch.try_clone().unwrap();
    let ready = container.dir.path().join("ready");
    let deaf = format!("trap '' TERM; touch {}; while :; do sleep 0.05; done", ready.display());
    let waiter = std::thread::spawn(move || {
        let deadline = Instant::now() + Duration::from_secs(20);
        while !ready.exists() && Instant::now() < deadline {
            std::thread::park_timeout(Duration::from_millis(5));
        }
        switch.write_all(b"x").unwrap();
    });
    let outcome = container.run(&[(ProcessName::Stmgr, "exec sleep 600"), (task(), deaf.leak())]);
    waiter.join().unwrap();
    assert_eq!(outcome, (Outcome::Terminated, None));
}
