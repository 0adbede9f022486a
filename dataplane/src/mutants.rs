//! Bugs planted on purpose, which the simulator has to find: what looks for bugs is tested too.
//!
//! Without the feature `mutants`, which only the tests' crate turns on, each of them is a constant `false` and no code. With
//! it they are asleep until a test [wakes](wake) one on its thread.

/// A planted bug.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mutant {
    /// The ledger takes a tree for done with the first ack for it.
    LedgerEarly,
    /// A task's end goes out before its last tuples.
    EndBeforeFlush,
    /// A block that was sent goes home twice.
    FreedTwice,
    /// Credit of a link that broke is kept for the next one.
    CreditKept,
    /// The stmgr does not wake an instance for which it has something.
    WakeForgotten,
    /// What a peer stated of its holders counts on when its link is gone, and with the next one.
    StopForgotten,
    /// The stmgr states its holders every second, and not when they change.
    StatementLate,
    /// The version of what a peer stated is kept when its link is gone, so a restarted peer is not heard.
    VersionKept,
    /// A plan with a lower epoch than the one in force is taken.
    StaleEpoch,
    /// A tmaster counts epochs on from the stored plan, whatever the stmgrs have.
    EpochReused,
    /// A block that was sent does not come home.
    BlockLeaked,
    /// A spout has one tree more in flight than `topology.max.spout.pending`.
    PendingIgnored,
    /// A spout's task panics when a bolt fails a tuple of it.
    PanicsAtFails,
}

impl Mutant {
    /// All of them.
    pub const ALL: [Self; 13] = [
        Self::LedgerEarly,
        Self::EndBeforeFlush,
        Self::FreedTwice,
        Self::CreditKept,
        Self::WakeForgotten,
        Self::StopForgotten,
        Self::StatementLate,
        Self::VersionKept,
        Self::StaleEpoch,
        Self::EpochReused,
        Self::BlockLeaked,
        Self::PendingIgnored,
        Self::PanicsAtFails,
    ];
}

#[cfg(feature = "mutants")]
thread_local! {
    static AWAKE: std::cell::Cell<Option<Mutant>> = const { std::cell::Cell::new(None) };
}

/// Wakes one of them on this thread, or with `None` puts it to sleep.
#[cfg(feature = "mutants")]
pub fn wake(mutant: Option<Mutant>) {
    AWAKE.set(mutant);
}

/// Whether this bug is there.
#[cfg(feature = "mutants")]
#[inline]
#[must_use]
pub fn is(mutant: Mutant) -> bool {
    AWAKE.get() == Some(mutant)
}

/// Whether this bug is there: never.
#[cfg(not(feature = "mutants"))]
#[inline(always)]
#[must_use]
pub const fn is(_: Mutant) -> bool {
    false
}
