//! Which processors the threads of a container use, and how long they spin there.
//!
//! All choices stay inside the process's allowed set (its cpuset or `taskset` mask). When pinning is refused the
//! process runs unpinned and says so once.

mod processors;

pub use processors::{Processor, Processors};

use crate::host;
use crate::ids::ContainerId;
use crate::plan::config::{self, Config};
use tracing::warn;

/// How processors are chosen.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Policy {
    /// Leave it to the kernel.
    None,
    /// Give each container one of the allowed processors, round robin in the order of [`Processors`]: the whole chain of a
    /// container then shares one core's cache, and memory of its node.
    Auto,
    /// Choose among these, round robin over the containers.
    Explicit(Vec<usize>),
}

impl Policy {
    /// Parses `none`, `auto` or a list such as `0,2-5`.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        match text.to_ascii_lowercase().as_str() {
            "none" => Some(Self::None),
            "auto" => Some(Self::Auto),
            _ => parse_list(text).map(Self::Explicit),
        }
    }

    /// The policy of a topology.
    #[must_use]
    pub fn of(config: &Config) -> Self {
        config.text(config::AFFINITY).and_then(Self::parse).unwrap_or(Self::None)
    }

    /// The processor for a container, given the allowed ones; `None` means unpinned.
    #[must_use]
    pub fn choose(&self, container: ContainerId, allowed: &Processors) -> Option<Processor> {
        let wanted = match self {
            Self::None => return None,
            Self::Auto => allowed.all().to_vec(),
            Self::Explicit(list) => list.iter().filter_map(|&id| allowed.find(id)).collect(),
        };
        let turn = (container.0 as usize).saturating_sub(1);
        (!wanted.is_empty()).then(|| wanted[turn % wanted.len()])
    }
}

/// Parses a list of processors such as `0,2-5`.
fn parse_list(text: &str) -> Option<Vec<usize>> {
    let mut processors = Vec::new();
    for part in text.split(',') {
        let (low, high) = part.split_once('-').unwrap_or((part, part));
        let (low, high): (usize, usize) = (low.trim().parse().ok()?, high.trim().parse().ok()?);
        if low > high || high >= 4096 {
            return None;
        }
        processors.extend(low..=high);
    }
    Some(processors)
}

/// Turns that a thread without work spins before it sleeps: what the topology sets, and else none where all threads of a
/// container share one processor, because whoever it waits for cannot run meanwhile. On a virtual host nobody can.
#[must_use]
pub fn spin_turns(config: &Config) -> u64 {
    if host::is_virtual() {
        return 0;
    }
    if config.is_set(config::SPIN_TURNS) || Policy::of(config) == Policy::None {
        config.number(config::SPIN_TURNS)
    } else {
        0
    }
}

/// Pins the calling thread by `policy`, and later threads that it starts with it.
pub fn pin(policy: &Policy, container: ContainerId) {
    if *policy == Policy::None || host::is_virtual() {
        return;
    }
    let allowed = Processors::here();
    match policy.choose(container, &allowed) {
        Some(Processor { id, .. }) if core_affinity::set_for_current(core_affinity::CoreId { id }) => {}
        chosen => {
            let allowed: Vec<usize> = allowed.all().iter().map(|processor| processor.id).collect();
            let chosen = chosen.map(|processor| processor.id);
            warn!(?policy, ?allowed, ?chosen, "cannot pin to a processor, running unpinned");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn chosen(policy: &Policy, container: u32) -> Option<usize> {
        let allowed = Processors::read(std::path::Path::new("/nowhere"), &[1, 3]);
        policy.choose(ContainerId(container), &allowed).map(|processor| processor.id)
    }

    /// BR-056.
    #[test]
    fn choices_stay_inside_the_allowed_processors() {
        assert_eq!(chosen(&Policy::Auto, 1), Some(1));
        assert_eq!(chosen(&Policy::Auto, 4), Some(3));
        assert_eq!(chosen(&Policy::Explicit(vec![0, 3]), 1), Some(3));
        assert_eq!(chosen(&Policy::Explicit(vec![0]), 1), None);
        assert_eq!(chosen(&Policy::None, 1), None);
    }

    #[test]
    fn threads_that_share_a_processor_do_not_spin_unless_told_to() {
        let mut config = Config::default();
        assert_eq!(spin_turns(&config), 100);
        config.set(config::AFFINITY, "auto").unwrap();
        assert_eq!(spin_turns(&config), 0);
        config.set(config::SPIN_TURNS, "100").unwrap();
        assert_eq!(spin_turns(&config), 100);
    }

    #[test]
    fn lists_parse() {
        assert_eq!(Policy::parse("0,2-4"), Some(Policy::Explicit(vec![0, 2, 3, 4])));
        assert_eq!(Policy::parse("AUTO"), Some(Policy::Auto));
        assert_eq!(Policy::parse("4-2"), None);
        assert_eq!(Policy::parse("x"), None);
    }
}
