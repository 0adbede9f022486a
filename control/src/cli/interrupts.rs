//! Ctrl-C and its relatives: the first asks to end in good order, the second to end at once.

use super::failure::Failure;
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::iterator::Signals;

/// What the user wants.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Wish {
    /// Go on.
    GoOn,
    /// End, but lose nothing.
    Drain,
    /// End now.
    Stop,
}

/// The signals that this process has got.
pub(crate) struct Interrupts {
    signals: Signals,
    wish: Wish,
}

impl Interrupts {
    /// From now on these signals no longer end the process.
    ///
    /// # Errors
    /// When the system refuses.
    pub(crate) fn install() -> Result<Self, Failure> {
        let signals = Signals::new([SIGINT, SIGTERM, SIGHUP])
            .map_err(|error| Failure::failed(format!("cannot listen for Ctrl-C: {error}")))?;
        Ok(Self { signals, wish: Wish::GoOn })
    }

    /// What the user wants by now.
    pub(crate) fn wish(&mut self) -> Wish {
        for signal in self.signals.pending() {
            self.wish = match (self.wish, signal) {
                // The terminal has gone: nobody is there to send a second one.
                (_, SIGHUP) | (Wish::Drain | Wish::Stop, _) => Wish::Stop,
                (Wish::GoOn, _) => Wish::Drain,
            };
        }
        self.wish
    }
}
