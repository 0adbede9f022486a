//! The `file:` state manager: the conformance suite, and what only files can suffer.

use super::*;
use crate::state::conformance;
use std::os::unix::fs::PermissionsExt;
use std::process::{Command, Stdio};

/// Set in the environment of the process that is to be killed while it holds or writes entries.
const VICTIM_ENV: &str = "EGRET_TEST_STATE_VICTIM";

fn fresh() -> (tempfile::TempDir, FileState) {
    let folder = tempfile::tempdir().unwrap();
    let state = FileState::open(folder.path().join("state")).unwrap();
    (folder, state)
}

#[test]
fn conforms() {
    for (name, test) in conformance::TESTS {
        println!("{name}");
        let (_folder, state) = fresh();
        test(&|| Box::new(FileState::open(&state.root).unwrap()));
    }
}

#[test]
fn files_and_folders_are_for_their_owner_alone() {
    let (_folder, state) = fresh();
    state.write("/a/lasting", b"x").unwrap();
    let _guard = state.ephemeral("/a/ephemeral", b"x").unwrap();
    let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
    assert_eq!(mode(&state.root), 0o700);
    assert_eq!(mode(&state.root.join("a")), 0o700);
    assert_eq!(mode(&state.root.join("a/lasting")), 0o600);
    assert_eq!(mode(&state.root.join("a/ephemeral")), 0o600);
}

#[test]
fn nothing_is_left_of_what_was_deleted() {
    let (_folder, state) = fresh();
    state.write("/a/b/c", b"x").unwrap();
    drop(state.ephemeral("/a/e", b"x").unwrap());
    state.delete("/a/b/c").unwrap();
    assert_eq!(fs::read_dir(&state.root).unwrap().count(), 0);
}

#[test]
fn looking_makes_nothing() {
    let (_folder, state) = fresh();
    assert_eq!(state.read("/a/b").unwrap(), None);
    assert_eq!(state.list("/a").unwrap(), [""; 0]);
    assert!(!state.delete("/a/b").unwrap());
    assert!(!state.root.exists());
}

#[test]
fn a_damaged_file_is_an_error_that_names_it() {
    let (_folder, state) = fresh();
    let whole = codec::encode(Kind::Lasting, b"payload");
    let mut flipped = whole.clone();
    flipped[35] ^= 4;
    let cases: [(&[u8], &str); 4] = [
        (b"", "too few"),
        (b"garbage that is long enough to be a header", "does not begin"),
        (&whole[..34], "its header says 7"),
        (&flipped, "checksum"),
    ];
    state.write("/a/b", b"x").unwrap();
    for (bytes, what) in cases {
        fs::write(state.root.join("a/b"), bytes).unwrap();
        let text = state.read("/a/b").unwrap_err().to_string();
        assert!(text.contains(&format!("{}/a/b is damaged", state.root.display())), "{text}");
        assert!(text.contains(what), "{what} in: {text}");
        assert!(matches!(state.create("/a/b", b"new"), Err(StateError::Damaged { .. })));
        assert_eq!(state.list("/a").unwrap(), ["b"]);
    }
    state.write("/a/b", b"mended").unwrap();
    assert_eq!(state.read("/a/b").unwrap().unwrap(), b"mended");
}

#[test]
fn a_damaged_file_keeps_nobody_from_an_ephemeral_entry_or_from_deleting() {
    let (_folder, state) = fresh();
    fs::create_dir_all(state.root.join("a")).unwrap();
    fs::write(state.root.join("a/b"), b"torn").unwrap();
    let guard = state.ephemeral("/a/b", b"me").unwrap();
    assert_eq!(state.read("/a/b").unwrap().unwrap(), b"me");
    drop(guard);
    fs::create_dir_all(state.root.join("a")).unwrap();
    fs::write(state.root.join("a/b"), b"torn").unwrap();
    assert!(state.delete("/a/b").unwrap());
}

#[test]
fn another_users_state_is_refused() {
    // What belongs to root is another user's, except to root: whose tests give a folder away instead.
    let folder = tempfile::tempdir().unwrap();
    let path = if rustix::process::geteuid().is_root() {
        std::os::unix::fs::chown(folder.path(), Some(12345), None).unwrap();
        folder.path()
    } else {
        Path::new("/")
    };
    let error = FileState::open(path).unwrap_err();
    assert!(matches!(error, StateError::Foreign { .. }), "{error}");
}

/// Not a test of its own: what the killed process does.
#[test]
fn victim() {
    let Some(root) = std::env::var_os(VICTIM_ENV) else { return };
    let state = FileState::open(root).unwrap();
    let _guard = state.ephemeral("/e/held", b"victim").unwrap();
    println!("holding");
    for n in 0u64.. {
        state.write("/w/one", &n.to_le_bytes().repeat(500)).unwrap();
        drop(state.ephemeral("/e/other", b"victim"));
    }
}

#[test]
fn a_writer_killed_anywhere_leaves_whole_entries_and_blocks_nobody() {
    let (_folder, state) = fresh();
    for round in 0..20 {
        let mut command = Command::new(std::env::current_exe().unwrap());
        command.args(["--exact", "state::file::tests::victim", "--nocapture"]).env(VICTIM_ENV, &state.root);
        let mut victim = command.stdout(Stdio::piped()).spawn().unwrap();
        let deadline = Instant::now() + Duration::from_secs(20);
        while state.read("/e/held").unwrap().is_none() || state.read("/w/one").unwrap().is_none() {
            assert!(Instant::now() < deadline, "the victim does not begin");
            std::thread::park_timeout(Duration::from_micros(100 + round * 37));
        }
        victim.kill().unwrap();
        victim.wait().unwrap();
        // Gone at once, whatever it was doing.
        assert_eq!(state.read("/e/held").unwrap(), None);
        drop(state.ephemeral("/e/held", b"successor").unwrap());
        let entry = state.read("/w/one").unwrap().unwrap();
        assert_eq!(entry, entry[..8].repeat(500));
        state.write("/w/one", &[0; 4000]).unwrap();
        state.read("/e/other").unwrap();
        assert!(state.delete("/w/one").unwrap());
        assert_eq!(fs::read_dir(&state.root).unwrap().count(), 0, "round {round}");
    }
}

#[test]
fn a_state_folder_that_is_removed_meanwhile_is_made_again() {
    let (_folder, state) = fresh();
    state.write("/a/b", b"x").unwrap();
    fs::remove_dir_all(&state.root).unwrap();
    assert_eq!(state.read("/a/b").unwrap(), None);
    state.write("/a/b", b"y").unwrap();
    assert_eq!(state.read("/a/b").unwrap().unwrap(), b"y");
}
