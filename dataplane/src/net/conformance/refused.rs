//! io_uring refused by a seccomp filter, as in many containers.

use crate::net::reactor::{Choice, open};
use seccompiler::{SeccompAction, SeccompFilter, TargetArch};
use std::collections::BTreeMap;
use std::io::Write;
use std::sync::{Arc, Mutex};
use tracing_subscriber::fmt::MakeWriter;

#[derive(Clone, Default)]
struct Lines(Arc<Mutex<Vec<u8>>>);

impl Write for Lines {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.lock().unwrap().extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

impl<'a> MakeWriter<'a> for Lines {
    type Writer = Self;

    fn make_writer(&'a self) -> Self {
        self.clone()
    }
}

/// For the calling thread, which cannot get rid of it again.
fn refuse_uring(errno: i32) {
    let arch = TargetArch::try_from(std::env::consts::ARCH).unwrap();
    let rules = BTreeMap::from([(libc::SYS_io_uring_setup, Vec::new())]);
    let filter =
        SeccompFilter::new(rules, SeccompAction::Allow, SeccompAction::Errno(errno as u32), arch).unwrap();
    let program: seccompiler::BpfProgram = filter.try_into().unwrap();
    seccompiler::apply_filter(&program).unwrap();
}

#[test]
fn where_io_uring_is_refused_auto_takes_epoll_and_says_so_once() {
    for errno in [libc::EPERM, libc::ENOSYS, libc::ENOMEM] {
        let test = move || {
            refuse_uring(errno);
            let lines = Lines::default();
            let subscriber = tracing_subscriber::fmt().with_ansi(false).with_writer(lines.clone()).finish();
            let name = tracing::subscriber::with_default(subscriber, || open(Choice::Auto).unwrap().name());
            assert_eq!(name, "epoll");
            let text = String::from_utf8(lines.0.lock().unwrap().clone()).unwrap();
            assert_eq!(text.lines().count(), 1, "{text}");
            assert!(text.contains("io_uring refused (") && text.contains("using epoll"), "{text}");
            let refusal = open(Choice::Uring).err().unwrap();
            assert_eq!(refusal.raw_os_error(), Some(errno));
        };
        std::thread::spawn(test).join().unwrap();
    }
}
