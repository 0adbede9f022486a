//! A task's component behind a type-erased face. The loops over tuples are inside, compiled for the component's own
//! type, so a dynamic call costs once per block.

use super::{Bolt, Context, Next, Spout};
use crate::Result;
use crate::collector::{BoltCollector, Emitter, InputBlock, SpoutCollector};

/// A task's component.
pub enum Runner {
    /// A spout.
    Spout(Box<dyn SpoutRunner>),
    /// A bolt.
    Bolt(Box<dyn BoltRunner>),
}

/// A spout and its collector.
pub trait SpoutRunner {
    /// [`Spout::open`].
    ///
    /// # Errors
    /// What it gives.
    fn open(&mut self, context: &Context) -> Result<()>;

    /// Calls [`Spout::next_tuple`] until it does not emit, at most `turns` times, and says what the last call gave.
    /// After each call it [delivers](Self::deliver); a spout that gets an id back as failed is called again whatever it
    /// gave. While as many trees are in flight as may be it is not called at all.
    ///
    /// # Errors
    /// What it gives.
    fn next_tuples(&mut self, turns: u32) -> Result<Next>;

    /// Gives the ids whose trees have ended to [`Spout::ack`] and [`Spout::fail`]; where nothing tracks them that is every
    /// id that was emitted. Says whether one of them failed or timed out.
    fn deliver(&mut self) -> bool;

    /// [`Spout::activate`].
    fn activate(&mut self);

    /// [`Spout::deactivate`].
    fn deactivate(&mut self);

    /// [`Spout::close`].
    fn close(&mut self);

    /// The emitter of its collector.
    fn emitter(&mut self) -> &mut Emitter;
}

/// A bolt and its collector.
pub trait BoltRunner {
    /// [`Bolt::prepare`].
    ///
    /// # Errors
    /// What it gives.
    fn prepare(&mut self, context: &Context) -> Result<()>;

    /// Calls [`Bolt::execute`] for the next tuples of a block, at most `turns` of them and up to the first error, and
    /// says whether there may be more. Each counts as executed when its call begins; after an error, or a panic that
    /// was caught, the same block may be given again for the rest.
    ///
    /// # Errors
    /// What it gives, or that the block is malformed from here on.
    fn execute(&mut self, block: &mut InputBlock<'_>, turns: u32) -> Result<bool>;

    /// Fails the tuple of the block for which [`execute`](Self::execute) gave an error or panicked, unless it was acked or
    /// failed already.
    ///
    /// # Errors
    /// When the instance is stopping.
    fn fail(&mut self, block: &InputBlock<'_>) -> Result<()>;

    /// [`Bolt::tick`].
    ///
    /// # Errors
    /// What it gives.
    fn tick(&mut self) -> Result<()>;

    /// [`Bolt::idle`].
    ///
    /// # Errors
    /// What it gives.
    fn idle(&mut self) -> Result<()>;

    /// [`Bolt::finish`].
    ///
    /// # Errors
    /// What it gives.
    fn finish(&mut self) -> Result<()>;

    /// [`Bolt::cleanup`].
    fn cleanup(&mut self);

    /// The emitter of its collector.
    fn emitter(&mut self) -> &mut Emitter;
}

impl Runner {
    /// A task that runs this spout.
    #[must_use]
    pub fn spout<S: Spout>(spout: S, emitter: Emitter) -> Self {
        Self::Spout(Box::new(Typed { component: spout, collector: SpoutCollector::<S::Id>::new(emitter) }))
    }

    /// A task that runs this bolt.
    #[must_use]
    pub fn bolt<B: Bolt>(bolt: B, emitter: Emitter) -> Self {
        Self::Bolt(Box::new(Typed { component: bolt, collector: BoltCollector::new(emitter) }))
    }

    /// The emitter of its collector.
    pub fn emitter(&mut self) -> &mut Emitter {
        match self {
            Self::Spout(runner) => runner.emitter(),
            Self::Bolt(runner) => runner.emitter(),
        }
    }
}

struct Typed<T, C> {
    component: T,
    collector: C,
}

impl<S: Spout> SpoutRunner for Typed<S, SpoutCollector<S::Id>> {
    fn open(&mut self, context: &Context) -> Result<()> {
        self.component.open(context)
    }

    fn next_tuples(&mut self, turns: u32) -> Result<Next> {
        for _ in 0..turns {
            if self.collector.is_full() {
                break;
            }
            let next = self.component.next_tuple(&mut self.collector);
            let failed = self.collector.has_ended() && self.deliver();
            match next {
                Ok(Next::Emitted) => {}
                Ok(_) if failed => {}
                other => return other,
            }
        }
        Ok(Next::Emitted)
    }

    fn deliver(&mut self) -> bool {
        self.collector.tell_ended(&mut self.component)
    }

    fn activate(&mut self) {
        self.component.activate();
    }

    fn deactivate(&mut self) {
        self.component.deactivate();
    }

    fn close(&mut self) {
        self.component.close();
    }

    fn emitter(&mut self) -> &mut Emitter {
        &mut self.collector.emitter
    }
}

impl<B: Bolt> BoltRunner for Typed<B, BoltCollector> {
    fn prepare(&mut self, context: &Context) -> Result<()> {
        self.component.prepare(context)
    }

    fn execute(&mut self, block: &mut InputBlock<'_>, turns: u32) -> Result<bool> {
        for _ in 0..turns {
            let Some(input) = block.next_input()? else { return Ok(false) };
            self.collector.emitter.counters.executed += 1;
            self.component.execute(&input, &mut self.collector)?;
        }
        Ok(true)
    }

    fn fail(&mut self, block: &InputBlock<'_>) -> Result<()> {
        self.collector.fail_at_hand(block)
    }

    fn tick(&mut self) -> Result<()> {
        self.component.tick(&mut self.collector)
    }

    fn idle(&mut self) -> Result<()> {
        self.component.idle(&mut self.collector)
    }

    fn finish(&mut self) -> Result<()> {
        self.component.finish(&mut self.collector)
    }

    fn cleanup(&mut self) {
        self.component.cleanup();
    }

    fn emitter(&mut self) -> &mut Emitter {
        &mut self.collector.emitter
    }
}
