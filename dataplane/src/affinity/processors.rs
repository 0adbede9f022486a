//! The processors that a process may use, in the order in which containers get them.

use std::path::Path;

/// Where the kernel describes them.
const SYSTEM: &str = "/sys/devices/system";

/// A processor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Processor {
    /// Its number.
    pub id: usize,
    /// The NUMA node whose memory is nearest to it, where the kernel knows of nodes.
    pub node: Option<usize>,
}

/// The processors that a process may use, in the order in which containers get them.
///
/// First one of each core, node by node: containers that follow each other, which are those whose tasks have one packing
/// order, share a node. Then the second of each core. Blocks are backed by memory of the node of whoever writes them first,
/// which is a pinned task, so a container's memory is on the node of its processor.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Processors(Vec<Processor>);

impl Processors {
    /// Those of this process: its cpuset or `taskset` mask.
    #[must_use]
    pub fn here() -> Self {
        let cores = core_affinity::get_core_ids().unwrap_or_default();
        let allowed: Vec<usize> = cores.iter().map(|core| core.id).collect();
        Self::read(Path::new(SYSTEM), &allowed)
    }

    /// Those of `allowed`, as the tree below `system` describes them; what it does not say is taken for one node and
    /// whole cores.
    #[must_use]
    pub fn read(system: &Path, allowed: &[usize]) -> Self {
        let nodes = nodes(system);
        let mut keyed: Vec<_> = allowed
            .iter()
            .map(|&id| {
                let node = nodes.iter().find(|(_, members)| members.contains(&id)).map(|(node, _)| *node);
                (rank_in_core(system, id, allowed), node, id)
            })
            .collect();
        keyed.sort_unstable();
        Self(keyed.into_iter().map(|(_, node, id)| Processor { id, node }).collect())
    }

    /// In order.
    #[must_use]
    pub fn all(&self) -> &[Processor] {
        &self.0
    }

    /// The processor of this number, if it may be used.
    #[must_use]
    pub fn find(&self, id: usize) -> Option<Processor> {
        self.0.iter().copied().find(|processor| processor.id == id)
    }
}

/// Each NUMA node with its processors.
fn nodes(system: &Path) -> Vec<(usize, Vec<usize>)> {
    let entries = std::fs::read_dir(system.join("node")).into_iter().flatten().flatten();
    let node = |entry: std::fs::DirEntry| {
        let number = entry.file_name().to_str()?.strip_prefix("node")?.parse().ok()?;
        Some((number, list(&entry.path().join("cpulist"))?))
    };
    entries.filter_map(node).collect()
}

/// How many allowed processors of the same core come before this one.
fn rank_in_core(system: &Path, id: usize, allowed: &[usize]) -> usize {
    let siblings = list(&system.join(format!("cpu/cpu{id}/topology/thread_siblings_list")));
    siblings.unwrap_or_default().iter().filter(|&&other| other < id && allowed.contains(&other)).count()
}

fn list(path: &Path) -> Option<Vec<usize>> {
    super::parse_list(std::fs::read_to_string(path).ok()?.trim())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    /// Two nodes of two cores with two processors each, numbered as Linux does: 0 to 3 the first of each core.
    fn two_nodes() -> tempfile::TempDir {
        let system = tempfile::tempdir().unwrap();
        for (node, members) in [(0, "0-1,4-5\n"), (1, "2-3,6-7\n")] {
            let folder = system.path().join(format!("node/node{node}"));
            fs::create_dir_all(&folder).unwrap();
            fs::write(folder.join("cpulist"), members).unwrap();
        }
        fs::write(system.path().join("node/online"), "0-1\n").unwrap();
        for id in 0..8 {
            let folder = system.path().join(format!("cpu/cpu{id}/topology"));
            fs::create_dir_all(&folder).unwrap();
            fs::write(folder.join("thread_siblings_list"), format!("{},{}\n", id % 4, id % 4 + 4)).unwrap();
        }
        system
    }

    fn order(processors: &Processors) -> Vec<(usize, Option<usize>)> {
        processors.all().iter().map(|p| (p.id, p.node)).collect()
    }

    #[test]
    fn whole_cores_come_first_and_node_by_node() {
        let system = two_nodes();
        let all = Processors::read(system.path(), &[0, 1, 2, 3, 4, 5, 6, 7]);
        let expected = [(0, 0), (1, 0), (2, 1), (3, 1), (4, 0), (5, 0), (6, 1), (7, 1)];
        assert_eq!(order(&all), expected.map(|(id, node)| (id, Some(node))));
    }

    #[test]
    fn a_mask_leaves_the_others_out() {
        let system = two_nodes();
        // Of 5's core nobody else is allowed, so 5 is a whole core; 7 shares with 3.
        let some = Processors::read(system.path(), &[7, 5, 3]);
        assert_eq!(order(&some), [(5, Some(0)), (3, Some(1)), (7, Some(1))]);
        assert_eq!(some.find(3), Some(Processor { id: 3, node: Some(1) }));
        assert_eq!(some.find(2), None);
    }

    #[test]
    fn without_a_tree_the_numbers_decide() {
        let nowhere = tempfile::tempdir().unwrap();
        let bare = Processors::read(nowhere.path(), &[3, 1]);
        assert_eq!(order(&bare), [(1, None), (3, None)]);
    }
}
