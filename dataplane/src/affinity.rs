//! Which processors the threads of a container use.
//!
//! All choices stay inside the process's allowed set (its cpuset or `taskset` mask). When pinning is refused the
//! process runs unpinned and says so once.

use crate::ids::ContainerId;
use crate::plan::config::{self, Config};
use tracing::warn;

/// How processors are chosen.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Policy {
    /// Leave it to the kernel.
    None,
    /// Give each container one of the allowed processors, round robin: the whole chain of a container then shares
    /// one core's cache.
    Auto,
    /// Choose among these, round robin over the containers.
    Explicit(Vec<usize>),
}

impl Policy {
    /// Parses `none`, `auto` or a list such as `0,2-5`.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        match text.to_ascii_lowercase().as_str() {
            "none" => return Some(Self::None),
            "auto" => return Some(Self::Auto),
            _ => {}
        }
        let mut processors = Vec::new();
        for part in text.split(',') {
            let (low, high) = part.split_once('-').unwrap_or((part, part));
            let (low, high): (usize, usize) = (low.trim().parse().ok()?, high.trim().parse().ok()?);
            if low > high || high >= 4096 {
                return None;
            }
            processors.extend(low..=high);
        }
        Some(Self::Explicit(processors))
    }

    /// The policy of a topology.
    #[must_use]
    pub fn of(config: &Config) -> Self {
        config.text(config::AFFINITY).and_then(Self::parse).unwrap_or(Self::None)
    }

    /// The processor for a container, given the allowed ones; `None` means unpinned.
    #[must_use]
    pub fn choose(&self, container: ContainerId, allowed: &[usize]) -> Option<usize> {
        let wanted: Vec<usize> = match self {
            Self::None => return None,
            Self::Auto => allowed.to_vec(),
            Self::Explicit(list) => list.iter().copied().filter(|p| allowed.contains(p)).collect(),
        };
        let turn = (container.0 as usize).saturating_sub(1);
        (!wanted.is_empty()).then(|| wanted[turn % wanted.len()])
    }
}

/// Pins the calling thread by `policy`, and later threads that it starts with it.
pub fn pin(policy: &Policy, container: ContainerId) {
    if *policy == Policy::None {
        return;
    }
    let allowed: Vec<usize> =
        core_affinity::get_core_ids().unwrap_or_default().iter().map(|c| c.id).collect();
    match policy.choose(container, &allowed) {
        Some(id) if core_affinity::set_for_current(core_affinity::CoreId { id }) => {}
        chosen => warn!(?policy, ?allowed, ?chosen, "cannot pin to a processor, running unpinned"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// BR-056.
    #[test]
    fn choices_stay_inside_the_allowed_processors() {
        let allowed = [1, 3];
        assert_eq!(Policy::Auto.choose(ContainerId(1), &allowed), Some(1));
        assert_eq!(Policy::Auto.choose(ContainerId(4), &allowed), Some(3));
        assert_eq!(Policy::Explicit(vec![0, 3]).choose(ContainerId(1), &allowed), Some(3));
        assert_eq!(Policy::Explicit(vec![0]).choose(ContainerId(1), &allowed), None);
    }

    #[test]
    fn lists_parse() {
        assert_eq!(Policy::parse("0,2-4"), Some(Policy::Explicit(vec![0, 2, 3, 4])));
        assert_eq!(Policy::parse("AUTO"), Some(Policy::Auto));
        assert_eq!(Policy::parse("4-2"), None);
        assert_eq!(Policy::parse("x"), None);
    }
}
