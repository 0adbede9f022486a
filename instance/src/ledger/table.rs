//! The roots in flight, in pages of 64.
//!
//! Roots are numbered as they are emitted, and stand in a ring of pages: no hashing, and no id is ever
//! that of two roots. An ack that comes late, or twice, or for nothing finds no root in flight, and is left out. A page is used
//! again when its turn comes; roots that are in flight even then, while there are more of them than may be, are stragglers:
//! they leave for a map. So memory is bounded by what may be in flight, whatever order trees end in.
//!
//! The life of a root: [`next_id`](Ledger::next_id) → [`open`](Ledger::open), both most times by way of the [`Front`] alone →
//! ended, when its tree is complete, fails or times out → handed out by [`next_ended`](Ledger::next_ended). While a root
//! is being emitted acks may come for it already, if its emission has to wait. Then [`begin`](Ledger::begin) and
//! [`commit`](Ledger::commit) take the place of `open`: in between the value holds a placeholder, so that acks do not
//! complete it.

use super::ended::{Ended, EndedTrees};
use super::front::Front;
use super::latency::CompleteLatency;
use super::page::{Complete, Page, Tree, UNSTAMPED};
use super::timeouts::Timeouts;
use super::window::Window;
use egret_dataplane::frame::{AckRecord, PAGE};
use std::collections::BTreeMap;
use std::rc::Rc;

/// The value of a root that is being emitted: any odd number, as improbable as an xor of edges as any other.
const PLACEHOLDER: u64 = 0xd6e8_feb8_6659_fd93;

/// What a ledger allows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Roots in flight at most, from 1 to 2^24.
    pub max_pending: u32,
    /// What a tree may take at most, in microseconds.
    pub timeout_us: u64,
}

/// How a tree ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// Every tuple of it was acked.
    Acked,
    /// A tuple of it failed, or is known to be lost.
    Failed,
    /// It took too long.
    TimedOut,
}

/// See the [module](self).
pub struct Ledger {
    /// A power of two of them: a root is in the one that its id divided by 64 says.
    pages: Vec<Page>,
    max_pages: usize,
    /// Roots whose page serves others.
    stragglers: BTreeMap<u64, Tree>,
    /// Those that were taken over from the front.
    in_flight: u32,
    front: Rc<Front>,
    /// The roots from this id on are at the front: all of one page, and not in that yet.
    latest: u64,
    /// Those that are not handed out.
    ended: EndedTrees,
    /// What an ack has completed; empty otherwise.
    complete: Vec<Complete>,
    max_pending: u32,
    /// When this turn began, and whether it has emitted a root.
    turn_us: u64,
    has_emitted: bool,
    /// When the acks came that are applied now.
    now_us: u64,
    /// Trees completed at `now_us` that all took `run_us`.
    run: u64,
    run_us: u64,
    timeouts: Timeouts,
    window: Window,
    latency: CompleteLatency,
}

impl Ledger {
    /// An empty ledger.
    #[must_use]
    pub fn new(limits: Limits) -> Self {
        let max_pending = limits.max_pending.clamp(1, 1 << 24);
        Self {
            pages: vec![Page::default()],
            max_pages: (2 * max_pending as usize).div_ceil(PAGE as usize).next_power_of_two(),
            stragglers: BTreeMap::new(),
            in_flight: 0,
            front: Rc::default(),
            latest: 0,
            ended: EndedTrees::default(),
            complete: Vec::new(),
            max_pending,
            turn_us: 0,
            has_emitted: false,
            now_us: 0,
            run: 0,
            run_us: 0,
            timeouts: Timeouts::new(limits.timeout_us),
            window: Window::new(max_pending, limits.timeout_us),
            latency: CompleteLatency::default(),
        }
    }

    /// How many roots are in flight.
    #[inline]
    #[must_use]
    pub fn in_flight(&self) -> u32 {
        self.in_flight + (self.front.first_free() - self.latest) as u32
    }

    /// Where roots are emitted.
    #[must_use]
    pub fn front(&self) -> Rc<Front> {
        self.front.clone()
    }

    /// How many roots may be emitted now.
    #[inline]
    #[must_use]
    pub fn room(&self) -> u32 {
        let in_flight = self.in_flight();
        let room = self.max_pending.saturating_sub(in_flight + self.ended.len());
        self.window.limit().saturating_sub(in_flight).min(room)
    }

    /// The id of the root that is emitted next; `None` when as many are in flight as may be, or as many that have ended are
    /// not handed out. It is followed by [`open`](Self::open), or [`begin`](Self::begin), or nothing. Grants the
    /// [front](Self::front) what there is room for, up to the end of the page.
    #[inline]
    pub fn next_id(&mut self) -> Option<u64> {
        if self.front.is_used_up() {
            self.grant();
        }
        self.front.next()
    }

    #[inline(never)]
    fn grant(&mut self) {
        let (room, next) = (self.room(), self.front.first_free());
        if room > 0 {
            if next.is_multiple_of(PAGE) {
                self.turn_page();
            }
            self.front.grant((PAGE - next % PAGE).min(room.into()));
        }
    }

    /// Whether none may be emitted now.
    #[inline]
    #[must_use]
    pub fn is_full(&self) -> bool {
        self.front.is_used_up() && self.room() == 0
    }

    /// The page of an id, and the id that it would begin with.
    #[inline]
    fn place(&self, id: u64) -> (usize, u64) {
        ((id / PAGE) as usize & (self.pages.len() - 1), id & !(PAGE - 1))
    }

    /// Makes the page ready that begins with the next id.
    fn turn_page(&mut self) {
        self.settle();
        let (mut index, first) = self.place(self.latest);
        if self.pages[index].open() != 0 && self.pages.len() < self.max_pages {
            self.add_pages();
            (index, _) = self.place(self.latest);
        }
        self.stragglers.extend(self.pages[index].turn_to(first));
    }

    /// Twice as many.
    #[cold]
    fn add_pages(&mut self) {
        let count = 2 * self.pages.len();
        let pages = std::mem::take(&mut self.pages);
        self.pages.resize_with(count, Page::default);
        for page in pages {
            let (index, _) = self.place(page.first());
            self.pages[index] = page;
        }
    }

    /// The root with the [next id](Self::next_id) is emitted, and this is the xor of the edges of its copies. Without any it
    /// is complete.
    #[inline(never)]
    pub fn open(&mut self, id: u64, edges: u64) {
        debug_assert_eq!(id, self.front.first_free());
        self.settle();
        self.front.step(edges);
        if edges == 0 {
            self.ack(id, 0);
        }
    }

    /// Takes the latest roots over into their page.
    #[inline]
    fn settle(&mut self) {
        if self.latest != self.front.first_free() {
            self.take_over();
        }
    }

    #[inline(never)]
    fn take_over(&mut self) {
        self.has_emitted = true;
        let stamp_us = self.turn_us;
        self.add(|edges| Tree { value: edges, stamp_us });
    }

    /// The latest roots have the tree that `tree` makes of their edges.
    #[inline(always)]
    fn add(&mut self, tree: impl Fn(u64) -> Tree) {
        let (index, first) = self.place(self.latest);
        let next = self.front.first_free();
        // Those from `latest` on, without those from `next` on; the page may end with it.
        let latest = u64::MAX << (self.latest - first) & u64::MAX >> (PAGE - (next - first));
        let page = &mut self.pages[index];
        self.front.visit(latest, |roots, edges| page.add(roots, tree(edges)));
        self.in_flight += latest.count_ones();
        self.latest = next;
    }

    /// The root with the [next id](Self::next_id) is being emitted, and that takes a while.
    #[cold]
    pub fn begin(&mut self, id: u64) {
        debug_assert_eq!(id, self.front.first_free());
        self.settle();
        self.front.step(PLACEHOLDER);
        self.add(|value| Tree { value, stamp_us: UNSTAMPED });
    }

    /// A root that was [begun](Self::begin) is emitted, and this is the xor of the edges of its copies.
    #[cold]
    pub fn commit(&mut self, id: u64, edges: u64) {
        self.has_emitted = true;
        self.settle();
        let (index, first) = self.place(id);
        if self.pages[index].first() == first {
            self.pages[index].stamp(id, self.turn_us);
        }
        self.ack(id, edges ^ PLACEHOLDER);
    }

    /// A root that was [begun](Self::begin) was not emitted: nobody is told of it.
    #[cold]
    pub fn abandon(&mut self, id: u64) {
        // It may have failed before it was emitted in full.
        if self.remove(AckRecord::of(id, 0)) == 0 {
            self.ended.take(id);
            self.front.set_ended(self.has_ended());
        } else {
            self.in_flight -= 1;
        }
    }

    /// Xors an edge, or several, into a tree. A root that is not in flight is left out.
    pub fn ack(&mut self, id: u64, xor: u64) {
        self.ack_all(AckRecord::of(id, xor));
    }

    /// Xors into the trees of all roots of the record. Those that are not in flight are left out.
    #[inline]
    pub fn ack_all(&mut self, record: AckRecord) {
        self.settle();
        let (index, _) = self.place(record.first);
        let page = &mut self.pages[index];
        if page.first() != record.first {
            return self.ack_stragglers(record);
        }
        page.ack(record.mask, record.xor, &mut self.complete);
        for index in 0..self.complete.len() {
            let (roots, stamp_us) = self.complete[index];
            self.end(record.first, roots, Outcome::Acked);
            self.count(stamp_us, roots.count_ones());
        }
        self.complete.clear();
    }

    #[cold]
    fn ack_stragglers(&mut self, record: AckRecord) {
        if self.stragglers.is_empty() {
            return;
        }
        for id in record.ids() {
            let Some(tree) = self.stragglers.get_mut(&id) else { continue };
            tree.value ^= record.xor;
            let Tree { value, stamp_us } = *tree;
            if value == 0 {
                self.fail_or_end(AckRecord::of(id, 0), Outcome::Acked);
                self.count(stamp_us, 1);
            }
        }
    }

    fn count(&mut self, stamp_us: u64, trees: u32) {
        let took_us = self.now_us.saturating_sub(stamp_us);
        if took_us != self.run_us {
            self.end_run();
            self.run_us = took_us;
        }
        self.run += u64::from(trees);
    }

    /// Roots that were in flight are not any more.
    fn end(&mut self, first: u64, roots: u64, outcome: Outcome) {
        self.in_flight -= roots.count_ones();
        self.ended.push(first, roots, outcome);
        self.front.set_ended(true);
    }

    /// A tree has failed. A root that is not in flight is left out.
    pub fn fail(&mut self, id: u64) {
        self.fail_all_of(AckRecord::of(id, 0));
    }

    /// The trees of all roots of the record have failed. Those that are not in flight are left out.
    pub fn fail_all_of(&mut self, record: AckRecord) {
        self.fail_or_end(record, Outcome::Failed);
    }

    fn fail_or_end(&mut self, record: AckRecord, outcome: Outcome) {
        let roots = self.remove(record);
        if roots != 0 {
            self.end(record.first, roots, outcome);
        }
    }

    /// Takes out those roots of the record that are in flight, and says which they are. They are still counted.
    fn remove(&mut self, record: AckRecord) -> u64 {
        self.settle();
        let (index, _) = self.place(record.first);
        let page = &mut self.pages[index];
        if page.first() == record.first {
            return page.remove(record.mask);
        }
        let stragglers = record.ids().filter(|id| self.stragglers.remove(id).is_some());
        stragglers.fold(0, |roots, id| roots | 1 << (id % PAGE))
    }

    /// Every tree in flight has failed.
    pub fn fail_all(&mut self) {
        self.settle();
        for index in 0..self.pages.len() {
            let page = &self.pages[index];
            self.fail_all_of(AckRecord { first: page.first(), mask: page.open(), xor: 0 });
        }
        let stragglers: Vec<u64> = self.stragglers.keys().copied().collect();
        stragglers.into_iter().for_each(|id| self.fail(id));
    }

    /// Hands out the next trees that have ended, in the order in which they did.
    #[inline]
    pub fn next_ended(&mut self) -> Option<Ended> {
        let ended = self.ended.pop();
        self.front.set_ended(self.has_ended());
        ended
    }

    /// Whether there is a tree to hand out.
    #[inline]
    #[must_use]
    pub fn has_ended(&self) -> bool {
        self.ended.len() > 0
    }

    /// Acks that come from now on came at this time.
    #[inline]
    pub fn set_now(&mut self, now_us: u64) {
        self.end_run();
        self.now_us = now_us;
    }

    #[inline(never)]
    fn end_run(&mut self) {
        if self.run > 0 {
            self.latency.record(self.run_us, self.run);
            let in_flight = u64::from(self.in_flight()) + self.run;
            self.window.completed(self.run_us, self.run, in_flight, self.now_us);
            self.run = 0;
            self.front.grant(0);
        }
    }

    /// A turn is over, or about to wait, and the next begins. The time of what it has emitted begins now.
    #[inline]
    pub fn turn(&mut self, now_us: u64) {
        self.settle();
        if self.has_emitted {
            self.has_emitted = false;
            if self.timeouts.was_long(self.turn_us, now_us) {
                self.stamp_again(now_us);
            } else {
                self.timeouts.stamped(self.turn_us);
            }
        }
        self.turn_us = now_us;
    }

    #[cold]
    fn stamp_again(&mut self, now_us: u64) {
        self.settle();
        self.pages.iter_mut().for_each(|page| page.restamp(self.turn_us, now_us));
        let stragglers = self.stragglers.values_mut().filter(|tree| tree.stamp_us == self.turn_us);
        stragglers.for_each(|tree| tree.stamp_us = now_us);
        self.timeouts.stamped(now_us);
    }

    /// Closes the trees that took too long, if it is time to look for them.
    #[inline]
    pub fn expire(&mut self, now_us: u64) {
        if self.timeouts.is_due(now_us) {
            self.look(now_us);
        }
    }

    #[cold]
    fn look(&mut self, now_us: u64) {
        self.settle();
        let before = self.in_flight;
        let mut oldest = u64::MAX;
        let timeouts = &self.timeouts;
        let mut is_over = |tree: Tree| {
            let over = tree.stamp_us != UNSTAMPED && timeouts.is_over(tree.stamp_us, now_us);
            // The largest number is what is not stamped, or that there is none.
            oldest = if over { oldest } else { oldest.min(tree.stamp_us) };
            over
        };
        let pages = self.pages.iter_mut().map(|page| (page.first(), page.remove_if(&mut is_over)));
        let mut over: Vec<_> = pages.filter(|(_, roots)| *roots != 0).collect();
        self.stragglers.retain(|id, tree| {
            let is_over = is_over(*tree);
            over.extend(is_over.then_some((id & !(PAGE - 1), 1 << (id % PAGE))));
            !is_over
        });
        over.into_iter().for_each(|(first, roots)| self.end(first, roots, Outcome::TimedOut));
        if self.in_flight < before {
            self.window.timed_out(now_us);
            self.front.grant(0);
        }
        self.timeouts.looked(now_us, (oldest != UNSTAMPED).then_some(oldest));
    }

    /// When [`expire`](Self::expire) should be called next; `None` while nothing is in flight.
    #[must_use]
    pub fn next_look_us(&self) -> Option<u64> {
        self.timeouts.next_us().filter(|_| self.in_flight() > 0)
    }

    /// Whether nothing is in flight and nothing is left to hand out.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.in_flight() + self.ended.len() == 0
    }

    /// How many roots may be in flight at most.
    #[must_use]
    pub fn max_pending(&self) -> u32 {
        self.max_pending
    }

    /// How many roots it has places for: at most twice as many as may be in flight, made a power of two, and 64, and
    /// the stragglers.
    #[must_use]
    pub fn capacity(&self) -> usize {
        self.pages.len() * PAGE as usize + self.stragglers.len()
    }

    /// How long complete trees took.
    pub fn latency(&mut self) -> &mut CompleteLatency {
        self.end_run();
        &mut self.latency
    }
}
