//! Starting a child so that it can never outlive this process: an executor's, or a program that describes itself.
#![allow(unsafe_code)]

use rustix::process::{Signal, getpid, getppid, set_parent_process_death_signal};
use std::io;
use std::os::unix::process::CommandExt;
use std::process::{Child, Command};

/// Starts a child that the kernel kills when the *thread* that calls this ends.
///
/// # Errors
/// When it cannot be started.
pub(crate) fn spawn_bound(command: &mut Command) -> io::Result<Child> {
    let parent = getpid();
    let bind = move || {
        set_parent_process_death_signal(Some(Signal::KILL))?;
        // It may have died before the line above.
        if getppid() == Some(parent) { Ok(()) } else { Err(io::ErrorKind::NotConnected.into()) }
    };
    // SAFETY: between fork and exec, `bind` makes two system calls and neither allocates nor takes a lock.
    unsafe { command.pre_exec(bind) };
    command.spawn()
}
