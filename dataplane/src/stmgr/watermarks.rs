//! How many bytes wait for each destination, and which of them are over their high watermark.
//!
//! A *place* is where blocks wait for a destination: a local task, whose blocks count from when they are meant for it
//! until it has said done, or a queue to a peer, whose blocks count until they leave. A place is *over* from when more
//! than its high watermark waits there until no more than its low watermark does; one block alone is never too much. A
//! block counts with its whole size: one that its emitter had no time to fill takes as much of the quota as a full one. For
//! the same reason a larger block counts as what it takes of its class's quota, if that is less.
//!
//! The watermarks of the configuration are an upper bound. Blocks of a small quota, or of one that is spread over many
//! tasks, would never reach them, although their emitter stands still because of this destination. So a place has
//! half of what the least of its emitters can have waiting there, if that is less:
//!
//! ```text
//! a local emitter:  quota of a task / the destinations that it emits to
//! a peer:           the window for this destination
//! ```

use super::route::{Pair, QueueIndex, Routes, Slot};
use super::sizes::Sizes;
use crate::frame::Destination;
use crate::ids::{ComponentIndex, TaskId};
use crate::memory::CLASSES;
use crate::plan::{Config, config};

/// What a topology's configuration says of backpressure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Watermarks {
    /// More bytes than this are too many.
    pub high_bytes: u64,
    /// No more than this are few enough again.
    pub low_bytes: u64,
    /// What is too much is dropped, and no spout is stopped.
    pub drop: bool,
}

impl Watermarks {
    /// What the configuration asks for.
    #[must_use]
    pub fn of(config: &Config) -> Self {
        let bytes = |key| scale(config.millis(key), 1 << 20, 1000);
        Self {
            high_bytes: bytes(config::HIGH_WATERMARK_MB),
            low_bytes: bytes(config::LOW_WATERMARK_MB),
            drop: config.is(config::DROP_TUPLES, "true"),
        }
    }

    /// As configured, or in proportion when `reach` bytes are all that can wait.
    fn within(&self, reach: u64) -> (u64, u64) {
        let high = self.high_bytes.min(reach / 2);
        (high, scale(self.low_bytes, high, self.high_bytes.max(1)))
    }
}

/// `value * by / of`, whatever the product.
fn scale(value: u64, by: u64, of: u64) -> u64 {
    u64::try_from(u128::from(value) * u128::from(by) / u128::from(of)).unwrap_or(u64::MAX)
}

/// Where blocks wait for a destination.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    /// For a local task, or with it.
    Task(Slot),
    /// For a peer.
    Queue(QueueIndex),
}

#[derive(Debug)]
struct Gauge {
    bytes: u64,
    blocks: u32,
    high_bytes: u64,
    low_bytes: u64,
    is_over: bool,
    /// What was told of it last.
    told_over: bool,
    is_listed: bool,
    /// Whom what waits here is for.
    tasks: Box<[TaskId]>,
}

/// The gauges of all places of a container.
#[derive(Debug)]
pub struct Gauges {
    /// By slot, then by queue.
    gauges: Vec<Gauge>,
    slots: usize,
    /// What a block of each class counts.
    weights: [u32; CLASSES],
    changed: Vec<u32>,
    over: usize,
}

impl Gauges {
    /// Nothing waits anywhere.
    #[must_use]
    pub fn new(routes: &Routes, sizes: &Sizes, watermarks: &Watermarks) -> Self {
        let gauge = |place: Place, reach: Option<u64>| {
            let (high_bytes, low_bytes) = match reach {
                Some(bytes) => watermarks.within(bytes),
                // Acks are nothing to stop spouts for: a spout takes them whatever it does.
                None => (u64::MAX, u64::MAX),
            };
            let (is_over, told_over, is_listed) = (false, false, false);
            let tasks = tasks_at(routes, place).into();
            Gauge { bytes: 0, blocks: 0, high_bytes, low_bytes, is_over, told_over, is_listed, tasks }
        };
        let slots = routes.tasks.len();
        let tasks = (0..slots as u32).map(Slot);
        let tasks = tasks.map(|slot| gauge(Place::Task(slot), reach_of_task(routes, sizes, slot)));
        let queues = (0..).map(QueueIndex).zip(&routes.queues);
        let queues =
            queues.map(|(queue, &pair)| gauge(Place::Queue(queue), reach_of_queue(routes, sizes, pair)));
        let gauges = tasks.chain(queues).collect();
        let share = |class| standard_bytes(sizes, sizes.task[0]) as u32 / sizes.task[class];
        let weights = std::array::from_fn(|class| sizes.block_bytes[class].min(share(class)));
        Self { gauges, slots, weights, changed: Vec::new(), over: 0 }
    }

    /// What a block of `class` counts, in bytes.
    #[inline]
    pub(super) fn weight(&self, class: usize) -> u64 {
        u64::from(self.weights[class])
    }

    fn index(&self, place: Place) -> usize {
        match place {
            Place::Task(slot) => slot.at(),
            Place::Queue(queue) => self.slots + queue.at(),
        }
    }

    fn place(&self, index: usize) -> Place {
        match index.checked_sub(self.slots) {
            None => Place::Task(Slot(index as u32)),
            Some(queue) => Place::Queue(QueueIndex(queue as u32)),
        }
    }

    /// A block of `class` more waits.
    #[inline]
    pub fn add(&mut self, place: Place, class: usize) {
        let (index, weight) = (self.index(place), self.weight(class));
        let gauge = &mut self.gauges[index];
        gauge.bytes += weight;
        gauge.blocks += 1;
        if gauge.bytes > gauge.high_bytes && gauge.blocks > 1 && !gauge.is_over {
            self.turn(index, true);
        }
    }

    /// A block of `class` waits no more.
    #[inline]
    pub fn remove(&mut self, place: Place, class: usize) {
        let (index, weight) = (self.index(place), self.weight(class));
        let gauge = &mut self.gauges[index];
        gauge.bytes -= weight;
        gauge.blocks -= 1;
        if gauge.is_over && (gauge.bytes <= gauge.low_bytes || gauge.blocks == 1) {
            self.turn(index, false);
        }
    }

    #[cold]
    fn turn(&mut self, index: usize, over: bool) {
        let gauge = &mut self.gauges[index];
        gauge.is_over = over;
        self.over = if over { self.over + 1 } else { self.over - 1 };
        if !std::mem::replace(&mut gauge.is_listed, true) {
            self.changed.push(index as u32);
        }
    }

    /// Whether some place is over.
    #[must_use]
    pub fn any_over(&self) -> bool {
        self.over > 0
    }

    /// Whether a place is over.
    #[inline]
    #[must_use]
    pub fn is_over(&self, place: Place) -> bool {
        self.gauges[self.index(place)].is_over
    }

    /// The tasks that what waits at a place is for. A broadcast waits once for all of them.
    #[must_use]
    pub fn tasks(&self, place: Place) -> &[TaskId] {
        &self.gauges[self.index(place)].tasks
    }

    /// A place that has gone over, or come back, since it was last named here; and whether it is over now.
    #[inline]
    pub fn next_changed(&mut self) -> Option<(Place, bool)> {
        loop {
            let index = self.changed.pop()? as usize;
            let gauge = &mut self.gauges[index];
            gauge.is_listed = false;
            if std::mem::replace(&mut gauge.told_over, gauge.is_over) == gauge.is_over {
                continue;
            }
            let is_over = gauge.is_over;
            return Some((self.place(index), is_over));
        }
    }

    /// How many bytes wait at a place.
    pub(super) fn bytes(&self, place: Place) -> u64 {
        self.gauges[self.index(place)].bytes
    }

    /// The places of which was told last that they are over.
    pub(super) fn told_over(&self) -> impl Iterator<Item = Place> {
        let over = self.gauges.iter().enumerate().filter(|(_, gauge)| gauge.told_over);
        over.map(|(index, _)| self.place(index))
    }

    #[cfg(test)]
    pub(super) fn total_bytes(&self) -> u64 {
        self.gauges.iter().map(|gauge| gauge.bytes).sum()
    }
}

/// What the least of the emitters of a local task can have waiting for it, in bytes; `None` for a spout.
fn reach_of_task(routes: &Routes, sizes: &Sizes, slot: Slot) -> Option<u64> {
    let (component, own) = (routes.component(slot), Destination::Task(routes.tasks[slot.at()]));
    let receives = |pair: &Pair| match pair.destination {
        Destination::Broadcast(_) => routes.reader(pair.destination) == Some(component),
        task => task == own,
    };
    let window = routes.windows.iter().any(receives).then(|| standard_bytes(sizes, sizes.window[0]));
    let least = window.into_iter().chain(local_shares(routes, sizes, component)).min();
    least.filter(|_| !routes.is_spout(component))
}

/// The same for a queue; `None` for one of acks.
fn reach_of_queue(routes: &Routes, sizes: &Sizes, pair: Pair) -> Option<u64> {
    let component = routes.reader(pair.destination)?;
    local_shares(routes, sizes, component).min().filter(|_| !routes.is_spout(component))
}

/// For each local task that emits to `to` the share of its quota that one destination has.
fn local_shares<'r>(
    routes: &'r Routes,
    sizes: &'r Sizes,
    to: ComponentIndex,
) -> impl Iterator<Item = u64> + 'r {
    let local = (0..routes.tasks.len() as u32).map(Slot);
    let emitters = local.filter(move |&slot| routes.reads(routes.component(slot), to));
    emitters.map(|slot| {
        let destinations = routes.destinations(routes.component(slot));
        standard_bytes(sizes, sizes.of_task(routes, slot)[0]) / u64::from(destinations.max(1))
    })
}

fn standard_bytes(sizes: &Sizes, blocks: u32) -> u64 {
    u64::from(blocks) * u64::from(sizes.block_bytes[0])
}

/// The tasks that wait at a place.
#[must_use]
fn tasks_at(routes: &Routes, place: Place) -> Vec<TaskId> {
    let pair = match place {
        Place::Task(slot) => return vec![routes.tasks[slot.at()]],
        Place::Queue(queue) => routes.queues[queue.at()],
    };
    match pair.destination {
        Destination::Task(task) => vec![task],
        Destination::Broadcast(number) => {
            let to = routes.broadcasts[number as usize].to;
            let all = routes.all_tasks();
            let there = all.filter(|(_, way)| way.peer == Some(pair.peer) && way.component == to);
            there.map(|(task, _)| task).collect()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ids::ContainerId;
    use crate::plan::Topology;
    use crate::stmgr::core::tests::{component, packing, topology};

    const KIB: u64 = 1 << 10;

    fn gauges(topology: &Topology, places: &[u32], container: u32) -> (Routes, Gauges) {
        let routes = Routes::new(topology, &packing(topology, places), ContainerId(container)).unwrap();
        let config = &topology.config;
        let gauges = Gauges::new(&routes, &Sizes::of(config), &Watermarks::of(config));
        (routes, gauges)
    }

    fn marks(gauges: &Gauges, index: usize) -> (u64, u64) {
        (gauges.gauges[index].high_bytes / KIB, gauges.gauges[index].low_bytes / KIB)
    }

    /// How many blocks of a class are too many for task 2, in the container of all.
    fn over_at(topology: &Topology, places: &[u32], class: usize) -> usize {
        let (_, mut g) = gauges(topology, places, 1);
        let over = |_: &usize| {
            g.add(Place::Task(Slot(1)), class);
            g.is_over(Place::Task(Slot(1)))
        };
        (1..1000).find(over).unwrap()
    }

    #[test]
    fn the_watermarks_are_in_reach_of_every_emitter() {
        let topology = topology(vec![
            component("a", 1, &[]),
            component("b", 1, &[("a", false)]),
            component("c", 4, &[("b", false)]),
        ]);
        // A quota is 1 MiB. All of one goes to `b`, a quarter of one to each `c`.
        let (_, g) = gauges(&topology, &[1, 1, 1, 1, 1, 1], 1);
        assert_eq!((marks(&g, 1), marks(&g, 2)), ((512, 256), (128, 64)));
        assert_eq!(g.gauges[0].high_bytes, u64::MAX, "nothing is held for a spout");
        // A window is 512 KiB; the queue is as the task would be.
        let (routes, g) = gauges(&topology, &[1, 2, 2, 2, 2, 2], 2);
        assert_eq!(marks(&g, routes.slot(TaskId(2)).unwrap().at()), (256, 128));
        let (_, g) = gauges(&topology, &[1, 2, 2, 2, 2, 2], 1);
        assert_eq!(marks(&g, 1), (512, 256));
    }

    #[test]
    fn a_small_quota_still_has_watermarks_and_a_small_watermark_stays() {
        let mut topology = topology(vec![component("a", 1, &[]), component("b", 10, &[("a", false)])]);
        let places = [1; 11];
        topology.config.set(config::TASK_BLOCKS, "4").unwrap();
        let (_, g) = gauges(&topology, &places, 1);
        assert_eq!(marks(&g, 1), (3, 1));
        assert_eq!(over_at(&topology, &places, 0), 2, "one block is never too much");
        topology.config.set(config::TASK_BLOCKS, "64").unwrap();
        topology.config.set(config::HIGH_WATERMARK_MB, "0.008").unwrap();
        topology.config.set(config::LOW_WATERMARK_MB, "0").unwrap();
        let (_, g) = gauges(&topology, &places, 1);
        assert_eq!(marks(&g, 1), (8, 0));
    }

    #[test]
    fn a_place_is_over_from_the_high_to_the_low_watermark() {
        let topology = topology(vec![component("a", 1, &[]), component("b", 1, &[("a", false)])]);
        let (_, mut g) = gauges(&topology, &[1, 1], 1);
        let place = Place::Task(Slot(1));
        let mut steps = Vec::new();
        for blocks in [32, 1, -1, -15, -1] {
            let step = if blocks > 0 { Gauges::add } else { Gauges::remove };
            (0..i32::abs(blocks)).for_each(|_| step(&mut g, place, 0));
            steps.push((g.is_over(place), g.next_changed()));
        }
        let (up, down) = (Some((place, true)), Some((place, false)));
        assert_eq!(steps, [(false, None), (true, up), (true, None), (true, None), (false, down)]);
        // There and back between two looks is no news.
        (0..20).for_each(|_| g.add(place, 0));
        assert!(g.is_over(place));
        (0..20).for_each(|_| g.remove(place, 0));
        assert_eq!((g.next_changed(), g.total_bytes()), (None, 256 << 10));
    }

    #[test]
    fn larger_blocks_count_as_what_they_take_of_their_quota() {
        for (bolts, over) in [(1, [33, 5, 2]), (4, [9, 2, 2]), (16, [3, 2, 2])] {
            let topology = topology(vec![component("a", 1, &[]), component("b", bolts, &[("a", false)])]);
            let places = vec![1; bolts as usize + 1];
            assert_eq!([0, 1, 2].map(|class| over_at(&topology, &places, class)), over, "{bolts} bolts");
        }
    }

    #[test]
    fn watermarks_that_nobody_reaches_are_no_trouble() {
        let mut topology = topology(vec![component("a", 1, &[]), component("b", 1, &[("a", false)])]);
        for (high, low) in [("999999999999", "999999999998"), ("200000000", "100000000")] {
            topology.config.set(config::HIGH_WATERMARK_MB, high).unwrap();
            topology.config.set(config::LOW_WATERMARK_MB, low).unwrap();
            let (_, g) = gauges(&topology, &[1, 1], 1);
            let (high, low) = marks(&g, 1);
            assert!(high == 512 && (256..=512).contains(&low), "{high} and {low} KiB");
        }
    }
}
