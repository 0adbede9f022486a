//! Tuple trees of any shape, through collectors, blocks and ledgers, against a plain model of trees.

mod model;
mod world;

use proptest::prelude::*;
use world::World;

proptest! {
    #![proptest_config(ProptestConfig { cases: 20, ..ProptestConfig::default() })]

    /// 10,000 trees: none is done before its last edge, none is left undone, and the ledger is empty after each round.
    #[test]
    fn trees_complete_with_their_last_edge(seed: u64) {
        let mut world = World::new(seed);
        for _ in 0..5 {
            world.run(100);
            for ledger in &world.ledgers {
                let ledger = ledger.borrow();
                prop_assert!(ledger.is_empty());
                prop_assert!(ledger.capacity() <= 256);
            }
        }
        let model = world.model.borrow();
        prop_assert_eq!(model.trees.len(), 500);
        prop_assert!(model.trees.values().all(|tree| tree.told.is_some()));
        let acked = model.trees.values().filter(|tree| tree.told == Some(model::Told::Acked)).count();
        prop_assert!((50..450).contains(&acked), "{} of 500 trees were acked: not much of a test", acked);
    }
}
