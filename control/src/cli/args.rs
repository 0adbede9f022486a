//! What can be typed: every command, option and help text.

use clap::{Args, CommandFactory, FromArgMatches, Parser, Subcommand};
use std::ffi::OsString;
use std::path::PathBuf;

/// The whole command line.
#[derive(Parser, Debug)]
#[command(
    name = "egret",
    version,
    about = "Egret runs topologies: spouts that bring tuples in, bolts that work on them, each task a process.",
    long_about = "Egret is a stream processor. A topology is a set of spouts (they bring tuples in) and bolts (they \
                  work on tuples), wired by streams. Write one in YAML from built-in components, or as a Rust program \
                  with components of your own; `egret run` starts every task as a process and shows how it goes.",
    after_help = "Start here:\n  \
        egret validate word-count.yaml    see whether a topology is right\n  \
        egret run word-count.yaml         run it until it completes; Ctrl-C drains and ends it\n  \
        egret submit word-count.yaml      run it in the background; then `egret status word-count`\n\n\
        Exit status: 0 done; 1 the topology or the request failed; 2 wrong usage or an invalid topology; \
        3 no such topology, or it exists already; 4 the state manager cannot be used; 130 after Ctrl-C.",
    max_term_width = 110
)]
pub(crate) struct Cli {
    /// What to do.
    #[command(subcommand)]
    pub(crate) command: Command,
}

// What applies to every command, and may stand before or behind its name. No doc comment: clap would put it in the
// place of each command's own text.
#[derive(Args, Debug, Clone, Default, PartialEq)]
#[command(next_help_heading = "Common options")]
pub(crate) struct Global {
    /// Set a configuration entry; wins over the topology's own. `egret config` lists the keys
    #[arg(short, long = "config", value_name = "KEY=VALUE")]
    pub(crate) config: Vec<String>,

    /// Where the state of the cluster is kept: `file:PATH` [default: below $EGRET_HOME or ~/.egret]
    #[arg(long, value_name = "URL")]
    pub(crate) state: Option<String>,

    /// The cluster to work on [default: local]
    #[arg(long, value_name = "NAME")]
    pub(crate) cluster: Option<String>,

    /// Print one JSON document instead of text
    #[arg(long)]
    pub(crate) json: bool,

    /// Say nothing but results and errors
    #[arg(short, long)]
    pub(crate) quiet: bool,

    /// Say more; twice for still more
    #[arg(short, long, action = clap::ArgAction::Count)]
    pub(crate) verbose: u8,
}

// A topology to start or look at.
#[derive(Args, Debug, Clone)]
pub(crate) struct Source {
    /// A YAML file (`-`: standard input), or a program that links the library
    #[arg(value_name = "TOPOLOGY")]
    pub(crate) topology: PathBuf,

    /// Arguments for the program
    #[arg(value_name = "ARGS", last = true)]
    pub(crate) args: Vec<OsString>,
}

/// A command.
#[derive(Subcommand, Debug)]
pub(crate) enum Command {
    /// Run a topology here, in the foreground, until it completes or Ctrl-C
    ///
    /// Starts every process of the topology on this machine, shows how it goes, and removes everything but the
    /// results when it ends, however it ends. Ctrl-C lets the spouts end and what is in flight be executed; a second
    /// Ctrl-C stops at once.
    Run(Source),

    /// Start a topology in the background and return once every task runs
    Submit {
        #[command(flatten)]
        source: Source,
        /// Seconds to wait for every task to run, before it is killed again
        #[arg(long, value_name = "SECONDS", default_value_t = 60)]
        timeout: u64,
    },

    /// End a topology: every process of it, and its state; its logs stay
    #[command(visible_aliases = ["rm", "delete"])]
    Kill {
        /// The topology
        name: String,
        /// Seconds that it may take to end in good order, before it is forced
        #[arg(long, value_name = "SECONDS", default_value_t = 10)]
        timeout: u64,
    },

    /// List the topologies of the cluster
    #[command(visible_alias = "ls")]
    List,

    /// Show how a topology is doing: state, processes, tuples
    #[command(visible_alias = "ps")]
    Status {
        /// The topology
        name: String,
    },

    /// Show what is counted for every task, also by its own code
    Metrics {
        /// The topology
        name: String,
        /// Only the tasks of this component
        component: Option<String>,
    },

    /// Watch a topology live, task by task; `q` quits
    ///
    /// On a terminal one picture replaces the other; elsewhere each is printed.
    Top {
        /// The topology
        name: String,
        /// Seconds between two pictures; counts come in once a second
        #[arg(short, long, value_name = "SECONDS", default_value_t = 2.0, allow_negative_numbers = true)]
        delay: f64,
        /// End after so many pictures
        #[arg(short = 'n', long, value_name = "COUNT")]
        count: Option<u64>,
    },

    /// Show which task runs in which container
    ///
    /// With --dry-run, TOPOLOGY is a file or program, and what would be done with it is shown without doing it.
    Plan {
        /// The topology's name; with --dry-run a YAML file or a program
        #[arg(value_name = "NAME")]
        target: PathBuf,
        /// Pack a topology that is not running, and start nothing
        #[arg(long)]
        dry_run: bool,
        /// Arguments for the program
        #[arg(value_name = "ARGS", last = true)]
        args: Vec<OsString>,
    },

    /// Show the logs of a topology, or of one of its tasks
    #[command(visible_alias = "log")]
    Logs {
        /// The topology
        name: String,
        /// The number of a task (see `egret plan`), or a process such as `tmaster` or `stmgr-1`
        task: Option<String>,
        /// Show only the last lines of each log
        #[arg(short = 'n', long, value_name = "LINES")]
        tail: Option<usize>,
        /// Go on showing what is added, until the topology ends or Ctrl-C
        #[arg(short, long)]
        follow: bool,
    },

    /// Check a topology and start nothing
    #[command(visible_alias = "check")]
    Validate(Source),

    /// List the configuration keys with their defaults
    Config {
        /// Only keys that contain this
        filter: Option<String>,
    },

    /// Let a deactivated topology's spouts emit again (not supported yet)
    Activate(Later),
    /// Stop a topology's spouts, and let it stand by (not supported yet)
    Deactivate(Later),
    /// Restart a topology or one of its containers (not supported yet)
    Restart(Later),
    /// Change a running topology's parallelism or configuration (not supported yet)
    Update(Later),

    /// Keep the processes of one container running; started by the scheduler
    #[command(hide = true)]
    Executor {
        #[command(flatten)]
        of: RoleOf,
        /// The container
        #[arg(long)]
        container: u32,
    },
    /// Be a topology's master; started by the executor of container 0
    #[command(hide = true)]
    Tmaster {
        #[command(flatten)]
        of: RoleOf,
        /// Which process for this role
        #[arg(long, default_value_t = 1)]
        incarnation: u32,
    },
    /// Relay a container's tuples; started by its executor
    #[command(hide = true)]
    Stmgr {
        #[command(flatten)]
        of: RoleOf,
        /// The container
        #[arg(long)]
        container: u32,
        /// Which process for this role
        #[arg(long, default_value_t = 1)]
        incarnation: u32,
    },
    /// Run one task of built-in components; started by the executor, which tells it more in its environment
    #[command(hide = true)]
    Instance,
    /// Collect a container's metrics (not supported yet)
    #[command(hide = true)]
    Metricsmgr(Later),
}

// Which topology a role belongs to.
#[derive(Args, Debug, Clone)]
pub(crate) struct RoleOf {
    /// The topology
    #[arg(long)]
    pub(crate) topology: String,
}

// The arguments of a command that is not built yet: taken as they are.
#[derive(Args, Debug, Clone)]
pub(crate) struct Later {
    #[arg(hide = true, trailing_var_arg = true, allow_hyphen_values = true)]
    pub(crate) rest: Vec<OsString>,
}

/// Reads a command line.
///
/// # Errors
/// clap's, which also carries the texts of `--help` and `--version`.
pub(crate) fn parse(args: impl IntoIterator<Item = OsString>) -> Result<(Global, Command), clap::Error> {
    let matches = definition().try_get_matches_from(args)?;
    let before = Global::from_arg_matches(&matches)?;
    let command = Cli::from_arg_matches(&matches)?.command;
    let Some((_, inner)) = matches.subcommand() else { return Ok((before, command)) };
    Ok((before.and(Global::from_arg_matches(inner)?), command))
}

/// Clap's own global arguments keep only one place's values when an option stands in both, so the common options
/// are defined in both places and put together here.
fn definition() -> clap::Command {
    Global::augment_args(Cli::command()).mut_subcommands(Global::augment_args)
}

impl Global {
    fn and(mut self, later: Self) -> Self {
        self.config.extend(later.config);
        Self {
            config: self.config,
            state: later.state.or(self.state),
            cluster: later.cluster.or(self.cluster),
            json: self.json || later.json,
            quiet: self.quiet || later.quiet,
            verbose: self.verbose.saturating_add(later.verbose),
        }
    }

    /// The cluster's name.
    pub(crate) fn cluster(&self) -> &str {
        self.cluster.as_deref().unwrap_or("local")
    }
}

impl Command {
    /// The name by which it is typed, for a command that is not built yet.
    pub(crate) fn later(&self) -> Option<&'static str> {
        match self {
            Self::Activate(_) => Some("activate"),
            Self::Deactivate(_) => Some("deactivate"),
            Self::Restart(_) => Some("restart"),
            Self::Update(_) => Some("update"),
            Self::Metricsmgr(_) => Some("metricsmgr"),
            _ => None,
        }
    }

    /// Whether it is a role that an executor or a scheduler starts.
    pub(crate) fn is_role(&self) -> bool {
        matches!(
            self,
            Self::Executor { .. }
                | Self::Tmaster { .. }
                | Self::Stmgr { .. }
                | Self::Instance
                | Self::Metricsmgr(_)
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse_line(line: &str) -> Result<(Global, Command), clap::Error> {
        parse(line.split(' ').map(OsString::from))
    }

    #[test]
    fn the_definition_is_sound() {
        definition().debug_assert();
    }

    #[test]
    fn common_options_may_stand_before_and_behind_the_command() {
        let (global, command) =
            parse_line("egret -c a=1 --state file:x run t.yaml --json -c b=2 -- -c y").unwrap();
        assert_eq!(global.config, ["a=1", "b=2"]);
        assert_eq!((global.state.as_deref(), global.json, global.cluster()), (Some("file:x"), true, "local"));
        let Command::Run(source) = command else { panic!("{command:?}") };
        assert_eq!(source.args, ["-c", "y"]);
    }

    #[test]
    fn a_command_that_is_not_built_takes_any_arguments() {
        let (_, command) = parse_line("egret update word-count --parallelism split=3").unwrap();
        assert_eq!(command.later(), Some("update"));
    }

    #[test]
    fn help_names_every_exit_status() {
        let help = parse_line("egret help").unwrap_err().to_string();
        for status in ["0 done", "1 the", "2 wrong", "3 no", "4 the", "130 after"] {
            assert!(help.contains(status), "{status} is not in {help}");
        }
    }
}
