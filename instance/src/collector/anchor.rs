//! Inputs as anchors: what an emission can be tied to, and what is acked or failed.

use super::Input;
use egret_dataplane::frame::{Root, Roots};
use std::cell::Cell;

/// An input that emissions are anchored on and that is acked or failed: an [`Input`], or a [`Held`] of one that came
/// earlier.
pub trait Anchor: sealed::Sealed {
    #[doc(hidden)]
    fn tie(&self) -> &Tie;

    /// Whether it is a [`Held`] of a tuple that is tracked.
    #[doc(hidden)]
    fn is_kept(&self) -> bool;
}

/// An input that a bolt keeps beyond [`Bolt::execute`](crate::Bolt::execute): not its fields, but the right and the
/// duty to anchor on it and to ack or fail it. Made by [`Input::hold`].
///
/// An input that is held and neither acked nor failed fails after `topology.message.timeout.secs`, also when the
/// `Held` is dropped; and at once when the bolt's process dies.
///
/// ```
/// use egret::{Bolt, BoltCollector, Held, Input, Tuple};
///
/// #[derive(Tuple)]
/// struct Number {
///     n: u64,
/// }
///
/// /// Adds up pairs of numbers. A sum belongs to the trees of both.
/// #[derive(Default)]
/// struct Pairs {
///     first: Option<(u64, Held)>,
/// }
///
/// impl Bolt for Pairs {
///     fn execute(&mut self, input: &Input<'_>, out: &mut BoltCollector) -> egret::Result<()> {
///         let n = input.get::<Number>()?.n;
///         let Some((other, held)) = self.first.take() else {
///             self.first = Some((n, input.hold()));
///             return Ok(());
///         };
///         out.emit(&Number { n: n + other }).anchors(&[&held, input])?;
///         out.ack(&held)?;
///         out.ack(input)
///     }
/// }
/// ```
#[derive(Debug)]
pub struct Held(Tie);

impl Held {
    pub(super) fn new(tie: Tie) -> Self {
        Self(tie)
    }
}

/// How an input is tied to the trees that it is part of: its roots, its edge, and what was anchored on it so far.
#[doc(hidden)]
#[derive(Debug, Default)]
pub struct Tie {
    state: Cell<State>,
    /// How many tracked inputs of the block were taken over by a [`Held`].
    kept: Cell<u32>,
    edge: u64,
    /// How many roots there are: `first` and then `more`.
    roots: usize,
    first: TiedRoot,
    more: Vec<TiedRoot>,
}

/// What has been said of an input.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum State {
    #[default]
    Open,
    /// A [`Held`] stands for it.
    Held,
    /// Acked or failed.
    Settled,
}

/// A root of an input.
#[derive(Clone, Debug)]
pub(super) struct TiedRoot {
    pub(super) root: Root,
    /// The xor of the edges that were anchored here for this root: added to the ledger by the ack.
    xor: Cell<u64>,
}

impl TiedRoot {
    #[inline]
    fn new(root: Root) -> Self {
        Self { root, xor: Cell::new(0) }
    }
}

impl Default for TiedRoot {
    fn default() -> Self {
        Self::new(Root::NONE)
    }
}

impl Tie {
    /// Makes it that of the next input, which belongs to no tree.
    #[inline]
    pub(super) fn reset(&mut self) {
        self.state = Cell::new(State::Open);
        self.roots = 0;
    }

    /// Ties it to one tree.
    #[inline(always)]
    pub(super) fn tie_to_one(&mut self, root: Root, edge: u64) {
        (self.edge, self.roots, self.first) = (edge, 1, TiedRoot::new(root));
    }

    /// Ties it to these trees.
    #[inline(never)]
    pub(super) fn tie_to(&mut self, roots: Roots<'_>, edge: u64) {
        self.edge = edge;
        self.roots = roots.len();
        if let Some(root) = roots.get(0) {
            self.first = TiedRoot::new(root);
        }
        if self.roots > 1 {
            self.more.clear();
            self.more.extend(roots.iter().skip(1).map(TiedRoot::new));
        }
    }

    /// How many trees the input belongs to.
    #[inline]
    pub(super) fn root_count(&self) -> usize {
        self.roots
    }

    #[inline]
    pub(super) fn first(&self) -> &TiedRoot {
        &self.first
    }

    /// Every root, by position.
    pub(super) fn all(&self) -> impl Iterator<Item = &TiedRoot> {
        std::iter::once(&self.first).chain(&self.more).take(self.roots)
    }

    /// The root at a position of [`all`](Self::all).
    pub(super) fn at(&self, position: usize) -> &TiedRoot {
        position.checked_sub(1).and_then(|i| self.more.get(i)).unwrap_or(&self.first)
    }

    /// What the ack tells the ledger of this root.
    #[inline]
    pub(super) fn acked(&self, tied: &TiedRoot) -> u64 {
        self.edge ^ tied.xor.get()
    }

    /// Whether the ack or fail is still to come.
    #[inline]
    pub(super) fn is_open(&self) -> bool {
        self.state.get() == State::Open
    }

    /// Adds the edges of an emission for this root; `false` when the ack is out of this input's hands, so that the
    /// ledger must be told apart from it.
    #[inline]
    pub(super) fn grow(&self, tied: &TiedRoot, edges: u64) -> bool {
        if self.is_open() {
            tied.xor.set(tied.xor.get() ^ edges);
        }
        self.is_open()
    }

    /// Whether this is the first ack, fail or hold; the later ones do nothing.
    #[inline]
    pub(super) fn settle(&self) -> bool {
        self.state.replace(State::Settled) == State::Open
    }

    /// Whether an error of user code still fails the input.
    pub(super) fn fails_by_error(&self) -> bool {
        self.state.replace(State::Settled) != State::Settled
    }

    /// The same input, now in the hands of a [`Held`].
    pub(super) fn take(&self) -> Self {
        let state = self.state.get();
        if state == State::Open {
            self.state.set(State::Held);
            self.kept.set(self.kept.get() + u32::from(self.roots > 0));
        }
        let state = Cell::new(if state == State::Open { State::Open } else { State::Settled });
        let more = if self.roots > 1 { self.more.clone() } else { Vec::new() };
        Self {
            state,
            kept: Cell::new(0),
            edge: self.edge,
            roots: self.roots,
            first: self.first.clone(),
            more,
        }
    }

    /// How many inputs of the block [`take`](Self::take) was for, of those that are tracked.
    pub(super) fn kept(&self) -> u32 {
        self.kept.get()
    }
}

impl Anchor for Input<'_> {
    #[inline]
    fn tie(&self) -> &Tie {
        self.own_tie()
    }

    #[inline(always)]
    fn is_kept(&self) -> bool {
        false
    }
}

impl Anchor for Held {
    #[inline]
    fn tie(&self) -> &Tie {
        &self.0
    }

    #[inline]
    fn is_kept(&self) -> bool {
        self.0.roots > 0
    }
}

mod sealed {
    pub trait Sealed {}
    impl Sealed for super::Input<'_> {}
    impl Sealed for super::Held {}
}
