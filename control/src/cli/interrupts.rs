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
    /// From now on these signals no longer end the process. The terminal's hang-up stays ignored where it is (`nohup`);
    /// Ctrl-C does not: shells ignore it for what scripts start in the background, where it is still a way to end it.
    ///
    /// # Errors
    /// When the system refuses.
    pub(crate) fn install() -> Result<Self, Failure> {
        let mut wanted = vec![SIGINT, SIGTERM];
        let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
        if !is_ignored(&status, SIGHUP) {
            wanted.push(SIGHUP);
        }
        let signals = Signals::new(wanted)
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

/// Whether a process with this `/proc/PID/status` ignores the signal.
fn is_ignored(status: &str, signal: i32) -> bool {
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:")).map(str::trim);
    let mask = mask.and_then(|mask| u64::from_str_radix(mask, 16).ok()).unwrap_or_default();
    mask >> (signal - 1) & 1 == 1
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ignored_signals_are_read_from_the_status() {
        let status = "SigBlk:\tffffffffffffffff\nSigIgn:\t0000000000001001\nSigCgt:\tffffffffffffffff\n";
        assert!(is_ignored(status, SIGHUP));
        assert!(!is_ignored(status, SIGINT) && !is_ignored(status, SIGTERM) && !is_ignored("", SIGHUP));
    }
}
