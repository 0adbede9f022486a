//! Where every block of the pool is, and who may speak about it.
//!
//! A block is in one state at a time:
//!
//! ```text
//!        grant              emit                release, the last
//! Home ────────▶ Granted ────────▶ Flying ──────────────────────────▶ Home      (a task's block)
//! Home ────────▶ Filling ────────▶ Flying ──────────────────────────▶ Home      (a window's block)
//!        begin              fill
//! ```
//!
//! A flying block has one reference for each delivery that is not over: a descriptor that waits, a consumer that
//! holds the block, a peer it is being sent to. A block that is lost on its way flies on to spouts, before it comes
//! home. An instance *holds* a block from the moment its descriptor goes into
//! the instance's ring until it says done; only then may it.

use super::bits::Bits;
use super::fault::Fault;
use super::route::{Slot, WindowIndex};
use super::sizes::Home;
use crate::ids::{BlockId, ComponentIndex};
use crate::memory::CLASSES;

/// A stock is scarce when more than this part of it is away.
const SCARCE_DIVISOR: u32 = 8;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Home,
    Granted,
    Filling,
    Flying,
}

/// What is known of a flying block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Flight {
    /// What the task runs that wrote it.
    pub source: ComponentIndex,
    /// Bytes in use.
    pub used: u32,
    /// Tuples or records in it, as its writer claims; for the counters only.
    pub count: u32,
}

#[derive(Debug)]
struct Record {
    home: Home,
    class: u8,
    state: State,
    /// Spouts have been told that tuples in it are lost.
    lost: bool,
    references: u32,
    flight: Flight,
}

/// All blocks of a container.
#[derive(Debug)]
pub struct Blocks {
    records: Vec<Record>,
    /// By slot.
    held: Vec<Bits>,
    held_counts: Vec<u32>,
    /// By slot.
    own: Vec<Vec<BlockId>>,
    /// Of each task and then of each window.
    stocks: Vec<[Stock; CLASSES]>,
    /// How many of them are scarce.
    scarce: usize,
}

/// The blocks of a class of one home.
#[derive(Clone, Copy, Debug, Default)]
struct Stock {
    size: u32,
    away: u32,
}

impl Stock {
    /// Whether so much of it is away that it is better called home: who needs blocks always has enough to go on, and
    /// takes turns with few of them, which stay in the cache.
    fn is_scarce(self) -> bool {
        self.away * SCARCE_DIVISOR > self.size
    }
}

impl Blocks {
    /// All blocks at home.
    #[must_use]
    pub fn new(homes: &[(Home, usize)], slots: usize, windows: usize) -> Self {
        let mut own = vec![Vec::new(); slots];
        let mut stocks = vec![[Stock::default(); CLASSES]; slots + windows];
        let record = |(block, &(home, class)): (usize, &(Home, usize))| {
            stocks[place(home, slots)][class].size += 1;
            if let Home::Task(slot) = home {
                own[slot.at()].push(BlockId(block as u32));
            }
            let flight = Flight { source: ComponentIndex(0), used: 0, count: 0 };
            Record { home, class: class as u8, state: State::Home, lost: false, references: 0, flight }
        };
        let records: Vec<_> = homes.iter().enumerate().map(record).collect();
        let held = vec![Bits::new(records.len()); slots];
        Self { records, held, held_counts: vec![0; slots], own, stocks, scarce: 0 }
    }

    /// Whether some task or window has so many of its blocks away that those that are consumed are to come home soon.
    #[inline]
    #[must_use]
    pub fn is_scarce(&self) -> bool {
        self.scarce > 0
    }

    fn leaves(&mut self, home: Home, class: u8) {
        self.moves(home, class, |stock| stock.away += 1);
    }

    fn comes_home(&mut self, home: Home, class: u8) {
        self.moves(home, class, |stock| stock.away -= 1);
    }

    #[inline]
    fn moves(&mut self, home: Home, class: u8, change: impl FnOnce(&mut Stock)) {
        let stock = &mut self.stocks[place(home, self.own.len())][usize::from(class)];
        let before = stock.is_scarce();
        change(stock);
        self.scarce += usize::from(stock.is_scarce());
        self.scarce -= usize::from(before);
    }

    /// The size class of a block of this pool.
    #[must_use]
    pub fn class(&self, block: BlockId) -> usize {
        usize::from(self.records[block.0 as usize].class)
    }

    /// What is known of a flying block.
    #[must_use]
    pub fn flight(&self, block: BlockId) -> Flight {
        self.records[block.0 as usize].flight
    }

    /// How many blocks an instance holds as a consumer.
    #[must_use]
    pub fn held_count(&self, slot: Slot) -> u32 {
        self.held_counts[slot.at()]
    }

    /// The blocks whose home is `slot`.
    #[must_use]
    pub fn own(&self, slot: Slot) -> &[BlockId] {
        &self.own[slot.at()]
    }

    /// Gives a block that is at home to its task's instance; says whether it was at home.
    pub fn grant(&mut self, block: BlockId) -> bool {
        let record = &mut self.records[block.0 as usize];
        let at_home = record.state == State::Home;
        if at_home {
            record.state = State::Granted;
        }
        at_home
    }

    /// Takes back what `slot` was granted.
    pub fn ungrant_all(&mut self, slot: Slot) {
        for block in &self.own[slot.at()] {
            let record = &mut self.records[block.0 as usize];
            if record.state == State::Granted {
                record.state = State::Home;
            }
        }
    }

    /// Whether the instance of `slot` may emit `block`, and its class.
    ///
    /// # Errors
    /// [`Fault::NotHeld`] when it was not granted this block or gave it away already.
    pub fn emittable(&self, slot: Slot, block: BlockId) -> Result<usize, Fault> {
        match self.records.get(block.0 as usize) {
            Some(r) if r.home == Home::Task(slot) && r.state == State::Granted => Ok(usize::from(r.class)),
            _ => Err(Fault::NotHeld { block }),
        }
    }

    /// Sends a block on its way with `references` deliveries.
    pub fn fly(&mut self, block: BlockId, flight: Flight, references: u32) {
        let record = &mut self.records[block.0 as usize];
        let before = record.state;
        assert!(matches!(before, State::Granted | State::Filling), "{block:?} leaves its writer");
        (record.state, record.flight, record.references) = (State::Flying, flight, references);
        record.lost = false;
        let (home, class) = (record.home, record.class);
        if before == State::Granted {
            self.leaves(home, class);
        }
    }

    /// A flying block gets one more delivery.
    pub fn refer(&mut self, block: BlockId) {
        let record = &mut self.records[block.0 as usize];
        assert!(record.state == State::Flying && record.references > 0, "{block:?} has not come home yet");
        record.references += 1;
    }

    /// Tuples in a flying block are lost; says whether that is news in this flight.
    pub fn lose(&mut self, block: BlockId) -> bool {
        !std::mem::replace(&mut self.records[block.0 as usize].lost, true)
    }

    /// Takes a window's block to receive into.
    pub fn fill(&mut self, block: BlockId) {
        let record = &mut self.records[block.0 as usize];
        assert_eq!(record.state, State::Home, "{block:?} is free");
        record.state = State::Filling;
        let (home, class) = (record.home, record.class);
        self.leaves(home, class);
    }

    /// Whether `block` is being received into for `window`.
    #[must_use]
    pub fn is_filling(&self, block: BlockId, window: WindowIndex) -> bool {
        let record = self.records.get(block.0 as usize);
        record.is_some_and(|r| r.state == State::Filling && r.home == Home::Window(window))
    }

    /// The instance of `slot` gets the block to read.
    pub fn hold(&mut self, slot: Slot, block: BlockId) {
        assert_eq!(self.records[block.0 as usize].state, State::Flying, "{block:?} has been emitted");
        assert!(self.held[slot.at()].insert(block.0 as usize), "{block:?} is delivered once");
        self.held_counts[slot.at()] += 1;
    }

    /// The instance of `slot` has consumed the block.
    ///
    /// # Errors
    /// [`Fault::NotHeld`] when it does not hold it.
    pub fn unhold(&mut self, slot: Slot, block: BlockId) -> Result<(), Fault> {
        if !self.held[slot.at()].remove(block.0 as usize) {
            return Err(Fault::NotHeld { block });
        }
        self.held_counts[slot.at()] -= 1;
        Ok(())
    }

    /// One block that the instance of `slot` holds as a consumer, if any.
    #[must_use]
    pub fn any_held(&self, slot: Slot) -> Option<BlockId> {
        self.held[slot.at()].iter().next().map(|block| BlockId(block as u32))
    }

    /// One delivery of a flying block is over. With the last the block is at home, which is returned.
    pub fn release(&mut self, block: BlockId) -> Option<Home> {
        let record = &mut self.records[block.0 as usize];
        assert!(record.state == State::Flying && record.references > 0, "{block:?} has a delivery");
        record.references -= 1;
        if record.references > 0 {
            return None;
        }
        record.state = State::Home;
        let (home, class) = (record.home, record.class);
        self.comes_home(home, class);
        Some(home)
    }

    /// A block that was to be received comes home unused.
    pub fn abandon(&mut self, block: BlockId) {
        let record = &mut self.records[block.0 as usize];
        assert_eq!(record.state, State::Filling, "{block:?} was being received");
        record.state = State::Home;
        let (home, class) = (record.home, record.class);
        self.comes_home(home, class);
    }

    /// How many blocks there are.
    pub(super) fn count(&self) -> usize {
        self.records.len()
    }

    pub(super) fn home(&self, block: BlockId) -> Home {
        self.records[block.0 as usize].home
    }

    pub(super) fn is_home(&self, block: BlockId) -> bool {
        self.records[block.0 as usize].state == State::Home
    }

    /// How many blocks of this home are there.
    pub(super) fn home_count(&self, home: Home) -> u32 {
        self.records.iter().filter(|r| r.home == home && r.state == State::Home).count() as u32
    }

    /// The blocks that the instance of `slot` holds as a consumer.
    pub(super) fn held(&self, slot: Slot) -> impl Iterator<Item = BlockId> {
        self.held[slot.at()].iter().map(|block| BlockId(block as u32))
    }

    /// Whether each block is at as many places as it has deliveries; `sending` of them are with the network.
    pub(super) fn audit(&self, places: &[u32], sending: usize) -> Result<(), String> {
        let mut references = 0;
        for (block, (record, &places)) in self.records.iter().zip(places).enumerate() {
            let flies = record.state == State::Flying;
            references += if flies { record.references as usize } else { 0 };
            let fits = if flies { record.references >= places.max(1) } else { places == 0 };
            if !fits {
                return Err(format!("block {block} is at {places} places: {record:?}"));
            }
        }
        let known = places.iter().sum::<u32>() as usize + sending;
        let said =
            || format!("{references} deliveries are under way, and of {known} is known where they are");
        if references == known { Ok(()) } else { Err(said()) }
    }

    /// How many blocks are neither at home nor granted to their task.
    #[must_use]
    pub fn away(&self) -> usize {
        self.records.iter().filter(|r| matches!(r.state, State::Flying | State::Filling)).count()
    }
}

/// Where the stock of a home is.
fn place(home: Home, slots: usize) -> usize {
    match home {
        Home::Task(slot) => slot.at(),
        Home::Window(window) => slots + window.at(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_are_scarce_from_an_eighth_of_a_stock_on() {
        let (task, window) = (Home::Task(Slot(0)), Home::Window(WindowIndex(0)));
        let stock = |home, class, count: usize| std::iter::repeat_n((home, class), count);
        let homes: Vec<_> = stock(task, 0, 16).chain(stock(window, 0, 4)).chain(stock(task, 2, 2)).collect();
        let mut blocks = Blocks::new(&homes, 1, 1);
        let flight = Flight { source: ComponentIndex(0), used: 100, count: 1 };
        let emit = |blocks: &mut Blocks, block| {
            assert!(blocks.grant(BlockId(block)));
            blocks.fly(BlockId(block), flight, 1);
            blocks.is_scarce()
        };
        assert_eq!([0, 1, 2].map(|block| emit(&mut blocks, block)), [false, false, true]);
        assert_eq!(blocks.release(BlockId(1)), Some(task));
        assert!(!blocks.is_scarce());
        // Of a window every one counts from when it is received into, and so does one of two large blocks.
        blocks.fill(BlockId(16));
        assert!(blocks.is_scarce());
        blocks.abandon(BlockId(16));
        assert!(!blocks.is_scarce());
        assert!(emit(&mut blocks, 20));
    }
}
