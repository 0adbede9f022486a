//! What a [`Tracked`](crate::spout::Tracked) spout does.

/// Emits the numbers `0..count`.
#[derive(Clone, Copy)]
pub(crate) struct Script {
    pub(crate) count: u64,
    /// How many in one call.
    pub(crate) per_call: u64,
    /// The time from one call that emits new ones to the next, in microseconds.
    pub(crate) every_us: u64,
    /// Emits again what failed.
    pub(crate) replays: bool,
    /// How long it says nothing of its end after the last new one, in microseconds.
    pub(crate) linger_us: u64,
    /// Which numbers are emitted with an id.
    pub(crate) tracks: fn(u64) -> bool,
    /// Before these numbers it waits until nothing is in flight, writes `settled NUMBER`, and waits for a file
    /// `go-NUMBER` beside its folder.
    pub(crate) gates: &'static [u64],
    /// Writes down no single outcome.
    pub(crate) quiet: bool,
}

impl Default for Script {
    fn default() -> Self {
        Self {
            count: 0,
            per_call: 1,
            every_us: 0,
            replays: false,
            linger_us: 0,
            tracks: |_| true,
            gates: &[],
            quiet: false,
        }
    }
}
