//! BR-050: two users of one host with topologies of the same name, and what each may see of the other's.

use crate::flow::{self, Flow, NAME};
use crate::support::{is_root, lines_with, log, seen, state_entries};
use egret_tests::{Cluster, DEADLINE, cluster, wait_for};
use std::fs;
use std::io::Read;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};

/// `nobody`, as a rule; any number but root's will do.
const OTHER: u32 = 65_534;

/// Everything below the folder, with the folder.
fn all_below(path: &Path, found: &mut Vec<PathBuf>) {
    found.push(path.to_owned());
    for entry in fs::read_dir(path).into_iter().flatten().flatten() {
        all_below(&entry.path(), found);
    }
}

/// Folders 0700, files and sockets 0600, all of that user; gives how many of each.
fn nobody_else_may_enter(cluster: &Cluster, user: u32) -> [usize; 3] {
    let mut found = Vec::new();
    for folder in ["state", "topologies"] {
        all_below(&cluster.home().join(folder), &mut found);
    }
    let mut kinds = [0; 3];
    for path in found {
        let Ok(metadata) = fs::symlink_metadata(&path) else { continue };
        let is_folder = metadata.is_dir();
        let kind = if is_folder { 0 } else { 1 + usize::from(metadata.file_type().is_socket()) };
        kinds[kind] += 1;
        let expected = (if is_folder { 0o700 } else { 0o600 }, user);
        assert_eq!((metadata.mode() & 0o777, metadata.uid()), expected, "{}", path.display());
    }
    kinds
}

#[test]
fn all_files_folders_and_sockets_are_for_their_user_alone() {
    let cluster = cluster!();
    // The most generous mask there is must not matter.
    let mut script = cluster.command("sh").args(["-c", r#"umask 0 && exec "$@""#, "sh"]);
    let (mut run, folder) = flow::command(&cluster, "run", &[]);
    script = script.arg(run.inner().get_program()).args(run.inner().get_args());
    let flow = Flow::of(&cluster, script, folder);
    let [folders, files, sockets] = nobody_else_may_enter(&cluster, rustix::process::geteuid().as_raw());
    assert!(
        folders > 10 && files > 20 && sockets == 2,
        "{folders} folders, {files} files, {sockets} sockets"
    );
    flow.complete(0);
}

/// Who has connected gets nothing but the end of the connection.
fn is_closed_without_a_word(socket: &Path) {
    let mut stream = UnixStream::connect(socket).unwrap();
    stream.set_read_timeout(Some(DEADLINE)).unwrap();
    let mut said = Vec::new();
    let read = stream.read_to_end(&mut said);
    assert!(read.is_ok() || read.is_err_and(|e| e.kind() == std::io::ErrorKind::ConnectionReset));
    assert!(said.is_empty(), "{said:?}");
}

/// Needs root, who can be two users.
#[test]
fn two_users_have_topologies_of_one_name_and_never_meet() {
    if !is_root() {
        return;
    }
    let mine = cluster!();
    let theirs = mine.beside_as(OTHER);
    let flow = Flow::start(&mine, &[]);
    let program = theirs.path("behaviours");
    fs::copy(crate::support::BEHAVIOURS, &program).unwrap();
    let folder = theirs.path("records");
    fs::create_dir(&folder).unwrap();
    std::os::unix::fs::chown(&folder, Some(OTHER), Some(OTHER)).unwrap();
    let submit = theirs.egret(["submit", "-c", "topology.containers=2"]).arg(&program);
    let _ = submit.args(["--", "until_told"]).arg(&folder).run().expect(0);

    // Each sees its own processes.
    let status = theirs.wait_until(NAME, "running");
    for process in seen(&status) {
        let owner = fs::metadata(format!("/proc/{}", process.pid)).unwrap().uid();
        assert_eq!(owner, OTHER, "{process:?}");
        assert!(flow.first.iter().all(|own| own.pid != process.pid));
    }
    nobody_else_may_enter(&theirs, OTHER);

    // Neither can touch the other's, not even root by mistake.
    let foreign =
        |cluster: &Cluster| format!("--state=file:{}", cluster.home().join("state/local").display());
    for command in [["status", NAME], ["kill", NAME]] {
        let refused = theirs.egret([foreign(&mine)]).args(command).run().expect(4);
        assert!(refused.stderr.contains("Permission denied"), "{}", refused.stderr);
        let refused = mine.egret([foreign(&theirs)]).args(command).run().expect(4);
        assert!(refused.stderr.contains("belongs to user"), "{}", refused.stderr);
    }
    let sockets = theirs.leftovers().sockets;
    let socket = sockets.iter().find(|socket| socket.ends_with("container-1/stmgr.sock")).unwrap();
    is_closed_without_a_word(socket);
    let stmgr_says = || log(&theirs, "container-1/log-files/stmgr.log");
    let refusal = "only processes of the stmgr's own user may connect";
    wait_for("the refusal in the log", DEADLINE, || (lines_with(&stmgr_says(), refusal) == 1).then_some(()));

    // The end of one is not the other's.
    let _ = theirs.egret(["kill", NAME]).run().expect(0);
    assert!(theirs.leftovers().only_logs() && state_entries(&theirs).is_empty(), "{}", theirs.leftovers());
    flow.more_arrive();
    assert_eq!(flow.complete(0)["lost"], 0);
}

/// A home that another user has used is refused, with the reason.
#[test]
fn the_home_of_another_user_is_refused() {
    if !is_root() {
        return;
    }
    let mine = cluster!();
    let theirs = mine.beside_as(OTHER);
    let yaml = theirs.write("t.yaml", crate::processes::QUIET);
    let _ = theirs.egret(["submit"]).arg(&yaml).run().expect(0);
    let refused = mine.egret(["run"]).arg(yaml).env("EGRET_HOME", theirs.home()).run().expect(4);
    assert!(refused.stderr.contains("belongs to user 65534, not to 0"), "{}", refused.stderr);
    let _ = theirs.egret(["kill", "quiet"]).run().expect(0);
    nobody_else_may_enter(&theirs, OTHER);
    assert!(theirs.leftovers().only_logs(), "{}", theirs.leftovers());
}
