//! The two queues shared with the kernel.
//!
//! More operations may be asked for than the submission queue holds: the rest waits in line, in order. More may
//! complete than the completion queue holds: the kernel keeps the rest and says so (`IORING_SQ_CQ_OVERFLOW`), and the
//! next enter that asks for events brings it.

use io_uring::{IoUring, Probe, opcode, squeue, types};
use std::collections::VecDeque;
use std::io;
use std::time::Duration;

pub(super) struct Ring {
    io: IoUring,
    backlog: VecDeque<squeue::Entry>,
    overflows: u64,
}

#[derive(Clone, Copy)]
pub(super) struct Completion {
    pub(super) user_data: u64,
    pub(super) result: i32,
    pub(super) flags: u32,
}

#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Wait {
    No,
    /// Until there is a completion, or for this long.
    UpTo(Option<Duration>),
}

impl Ring {
    pub(super) fn new(submissions: u32, completions: u32) -> io::Result<Self> {
        let io = build(submissions, completions)?;
        let params = io.params();
        // Multishot receives came with 6.0, as did zero-copy sends, and only operations can be asked for by number.
        let mut probe = Probe::new();
        io.submitter().register_probe(&mut probe)?;
        let young = probe.is_supported(opcode::SendZc::CODE);
        if !young || !params.is_feature_ext_arg() || !params.is_feature_nodrop() {
            return Err(io::Error::new(io::ErrorKind::Unsupported, "the kernel is older than 6.0"));
        }
        Ok(Self { io, backlog: VecDeque::new(), overflows: 0 })
    }

    pub(super) fn overflows(&self) -> u64 {
        self.overflows
    }

    pub(super) fn submitter(&self) -> io_uring::Submitter<'_> {
        self.io.submitter()
    }

    /// # Safety
    /// All memory that `entry` names must stay in its place until its last completion.
    pub(super) unsafe fn push(&mut self, entry: squeue::Entry) {
        // Behind what waits: a cancel must not overtake what it cancels.
        // SAFETY: the caller's promise.
        if !self.backlog.is_empty() || unsafe { self.io.submission().push(&entry) }.is_err() {
            self.backlog.push_back(entry);
        }
    }

    /// Submits everything, and lets the kernel post what has completed.
    pub(super) fn enter(&mut self, wait: Wait) -> io::Result<()> {
        while !self.refill() {
            if !tolerate(self.io.submit())? {
                // The kernel wants its completions taken first.
                return Ok(());
            }
        }
        if !self.io.completion().is_empty() {
            return self.submit(Wait::No);
        }
        self.submit(wait)
    }

    /// Moves the backlog into the queue; whether all of it fitted.
    fn refill(&mut self) -> bool {
        if self.backlog.is_empty() {
            return true;
        }
        let mut queue = self.io.submission();
        while let Some(entry) = self.backlog.front() {
            // SAFETY: promised when it was pushed.
            if unsafe { queue.push(entry) }.is_err() {
                return false;
            }
            self.backlog.pop_front();
        }
        true
    }

    fn submit(&mut self, wait: Wait) -> io::Result<()> {
        let queue = self.io.submission();
        let (idle, overflow) = (queue.is_empty() && !queue.taskrun(), queue.cq_overflow());
        drop(queue);
        if overflow {
            self.overflows += 1;
        }
        let mut args = types::SubmitArgs::new();
        let time;
        let want = match wait {
            Wait::No | Wait::UpTo(Some(Duration::ZERO)) => 0,
            Wait::UpTo(None) => 1,
            Wait::UpTo(Some(timeout)) => {
                time = types::Timespec::from(timeout);
                args = args.timespec(&time);
                1
            }
        };
        if want == 0 && idle && !overflow {
            // Nothing to say and nothing to hear: a poll by a busy thread costs no system call.
            return Ok(());
        }
        tolerate(self.io.submitter().submit_with_args(want, &args)).map(drop)
    }

    pub(super) fn next(&mut self) -> Option<Completion> {
        let entry = self.io.completion().next()?;
        Some(Completion { user_data: entry.user_data(), result: entry.result(), flags: entry.flags() })
    }
}

/// The newest way of working that the kernel knows: completions are posted only when this thread asks for them, and
/// no other thread submits.
fn build(submissions: u32, completions: u32) -> io::Result<IoUring> {
    let mut builder = IoUring::builder();
    builder.setup_clamp().setup_submit_all().setup_cqsize(completions).dontfork();
    let mut newest = builder.clone();
    newest.setup_single_issuer().setup_defer_taskrun().setup_taskrun_flag();
    match newest.build(submissions) {
        Err(error) if error.raw_os_error() == Some(libc::EINVAL) => {
            builder.setup_coop_taskrun().setup_taskrun_flag().build(submissions)
        }
        built => built,
    }
}

/// Whether the kernel took what it was given; errors that only mean "not now" are none.
fn tolerate(entered: io::Result<usize>) -> io::Result<bool> {
    match entered {
        Ok(_) => Ok(true),
        Err(error) => match error.raw_os_error() {
            Some(libc::ETIME | libc::EINTR | libc::EBUSY | libc::EAGAIN) => Ok(false),
            _ => Err(error),
        },
    }
}
