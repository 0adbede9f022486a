//! How a command can fail, and the exit status that tells it.

use std::process::ExitCode;

/// What went wrong, for scripts. The numbers are part of the interface.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// The topology or the request failed.
    Failed,
    /// Wrong usage, or an invalid topology; nothing was started.
    Usage,
    /// No such topology.
    Absent,
    /// There is a topology of that name already.
    Exists,
    /// The state manager cannot be used.
    Store,
    /// After Ctrl-C.
    Interrupted,
}

/// A failed command.
#[derive(Debug)]
pub(crate) struct Failure {
    /// What went wrong.
    pub(crate) kind: Kind,
    /// What, where, and what would be right.
    pub(crate) message: String,
    /// Everything is on the terminal already.
    pub(crate) shown: bool,
}

/// What a command comes to.
pub(crate) type Outcome = Result<(), Failure>;

impl Kind {
    /// The process's exit status.
    pub(crate) fn status(self) -> u8 {
        match self {
            Self::Failed => 1,
            Self::Usage => 2,
            Self::Absent | Self::Exists => 3,
            Self::Store => 4,
            Self::Interrupted => 130,
        }
    }

    /// The word in `--json`.
    pub(crate) fn word(self) -> &'static str {
        match self {
            Self::Failed => "failed",
            Self::Usage => "usage",
            Self::Absent => "absent",
            Self::Exists => "exists",
            Self::Store => "store",
            Self::Interrupted => "interrupted",
        }
    }
}

impl From<Kind> for ExitCode {
    fn from(kind: Kind) -> Self {
        Self::from(kind.status())
    }
}

impl Failure {
    pub(crate) fn new(kind: Kind, message: impl ToString) -> Self {
        Self { kind, message: message.to_string(), shown: false }
    }

    pub(crate) fn failed(message: impl ToString) -> Self {
        Self::new(Kind::Failed, message)
    }

    pub(crate) fn usage(message: impl ToString) -> Self {
        Self::new(Kind::Usage, message)
    }

    /// The command has said all there is to say; only the status is left.
    pub(crate) fn shown(kind: Kind) -> Self {
        Self { kind, message: String::new(), shown: true }
    }

    /// `topology` is not in the cluster.
    pub(crate) fn absent(topology: &str, cluster: &str) -> Self {
        let message =
            format!("there is no topology `{topology}` in cluster `{cluster}`; `egret list` shows them");
        Self::new(Kind::Absent, message)
    }

    /// `{"error": …}` for `--json`.
    pub(crate) fn json(&self) -> serde_json::Value {
        serde_json::json!({"error": self.message, "kind": self.kind.word(), "status": self.kind.status()})
    }
}
