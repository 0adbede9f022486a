//! Whose tuple trees a component's tuples may belong to: those of every spout above it, as long as trees are tracked.
//!
//! A bolt acks to these spouts. A block that is lost is shown to the spouts above its emitter.

use super::bits::Bits;
use crate::ids::ComponentIndex;
use crate::plan::{Role, Topology, config};

/// For each component the spouts above it. Empty when the topology tracks no trees.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Trees {
    /// By component, over components. A spout's own bit is set in its own set.
    spouts: Vec<Bits>,
}

impl Trees {
    /// The trees of a topology, which is acyclic.
    #[must_use]
    pub fn new(topology: &Topology) -> Self {
        if topology.config.is(config::RELIABILITY_MODE, "ATMOST_ONCE") {
            let count = topology.components.len();
            return Self { spouts: vec![Bits::new(count); count] };
        }
        Self { spouts: spouts_above(topology) }
    }

    /// Whether the component is a spout whose trees are tracked.
    #[must_use]
    pub fn grow_from(&self, component: ComponentIndex) -> bool {
        self.have(component, component)
    }

    /// Whether tuples of `component` may belong to trees of `spout`.
    #[must_use]
    pub fn have(&self, component: ComponentIndex, spout: ComponentIndex) -> bool {
        self.spouts.get(usize::from(component.0)).is_some_and(|above| above.contains(usize::from(spout.0)))
    }

    /// Whether a task of `from` may ack to one of `to`: a bolt to a spout above it.
    #[must_use]
    pub fn ack_to(&self, from: ComponentIndex, to: ComponentIndex) -> bool {
        from != to && self.have(from, to)
    }
}

/// For each component the spouts above it, whether or not trees are tracked. A spout is in its own set.
pub(super) fn spouts_above(topology: &Topology) -> Vec<Bits> {
    let count = topology.components.len();
    let mut spouts = vec![Bits::new(count); count];
    for (index, component) in topology.components.iter().enumerate() {
        if component.role == Role::Spout {
            add_below(topology, &mut spouts, index, index);
        }
    }
    spouts
}

fn add_below(topology: &Topology, spouts: &mut [Bits], component: usize, spout: usize) {
    // What has the spout already has been walked.
    if spouts[component].insert(spout) {
        for reader in topology.readers(ComponentIndex(component as u16)) {
            add_below(topology, spouts, usize::from(reader.0), spout);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::stmgr::core::tests::{component, topology};

    #[test]
    fn a_component_has_the_trees_of_all_spouts_above_it() {
        let mut topology = topology(vec![
            component("a", 1, &[]),
            component("b", 1, &[("a", false)]),
            component("c", 1, &[]),
            component("d", 1, &[("b", false), ("c", true)]),
        ]);
        let pairs = |trees: &Trees| {
            let all = (0..4).flat_map(|c| (0..4).map(move |s| (c, s)));
            all.filter(|&(c, s)| trees.have(ComponentIndex(c), ComponentIndex(s))).collect::<Vec<_>>()
        };
        assert_eq!(pairs(&Trees::new(&topology)), []);
        topology.config.set(config::RELIABILITY_MODE, "ATLEAST_ONCE").unwrap();
        let trees = Trees::new(&topology);
        assert_eq!(pairs(&trees), [(0, 0), (1, 0), (2, 2), (3, 0), (3, 2)]);
        let [a, b] = [0, 1].map(ComponentIndex);
        assert!(trees.grow_from(a) && !trees.grow_from(b));
        assert!(trees.ack_to(b, a) && !trees.ack_to(a, a) && !trees.ack_to(a, b));
    }
}
