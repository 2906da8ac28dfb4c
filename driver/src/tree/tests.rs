use std::collections::BTreeSet;

use super::*;

const NOW: Duration = Duration::ZERO;

fn at(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

/// Without a rate that counts.
fn free(limits: TreeLimits) -> Tree {
    Tree::new(TreeLimits { burst: u32::MAX, ..limits }, NOW)
}

#[test]
fn defaults_and_each_cap_by_its_own_refusal() {
    let mut tree = free(TreeLimits::default());
    let mut node = tree.root();
    for depth in 1..=4 {
        node = tree.add(node, NOW).unwrap();
        assert_eq!(tree.depth(node), Some(depth));
    }
    assert_eq!(tree.path(node).as_deref(), Some("0.0.0.0.0"));
    assert_eq!(tree.add(node, NOW), Err(TreeRefusal::Depth(4)));
    let first = (1..8).map(|_| tree.add(ROOT, NOW).unwrap()).collect::<Vec<_>>()[0];
    assert_eq!(tree.add(ROOT, NOW), Err(TreeRefusal::Children(8)));
    // The living count: one ends, and there is room for one.
    assert_eq!(tree.remove(first), Some(vec![]));
    let after = tree.add(ROOT, NOW).unwrap();
    assert_eq!(tree.path(after).as_deref(), Some("0.8"), "a path of its own");
    assert_eq!(tree.add(ROOT, NOW), Err(TreeRefusal::Children(8)));
    assert_eq!(tree.add(first, NOW), Err(TreeRefusal::NoParent(first)));
    let mut full = free(TreeLimits { total: 3, ..TreeLimits::default() });
    let last = (0..3).map(|_| full.add(ROOT, NOW).unwrap()).last().unwrap();
    assert_eq!(full.add(ROOT, NOW), Err(TreeRefusal::Total(3)));
    full.remove(last);
    full.drain();
    assert_eq!(full.add(ROOT, NOW), Err(TreeRefusal::Draining));
    assert!(full.is_draining());
    assert_eq!((full.remove(ROOT), full.remove(last), full.len()), (None, None, 2));
}

#[test]
fn eight_at_once_then_two_a_second_and_a_refusal_takes_nothing() {
    let limits = TreeLimits { children: 1_000, total: 1_000, ..TreeLimits::default() };
    let mut tree = Tree::new(limits, NOW);
    for _ in 0..8 {
        tree.add(ROOT, NOW).unwrap();
    }
    for _ in 0..10 {
        assert_eq!(tree.add(ROOT, at(100)), Err(TreeRefusal::Rate(Some(at(400)))));
        // Another refusal does not touch the bucket.
        assert_eq!(tree.add(NodeId(99), at(100)), Err(TreeRefusal::NoParent(NodeId(99))));
    }
    assert!(tree.add(ROOT, at(499)).is_err());
    tree.add(ROOT, at(500)).unwrap();
    // Back and forth again is no time.
    assert!(tree.add(ROOT, at(0)).is_err());
    assert!(tree.add(ROOT, at(500)).is_err());
    // It holds no more than a burst.
    assert_eq!((0..100).filter(|_| tree.add(ROOT, at(3_600_000)).is_ok()).count(), 8);
    for (burst, per_second) in [(0, 2), (1, 0)] {
        let mut never = Tree::new(TreeLimits { burst, per_second, ..TreeLimits::default() }, NOW);
        let last = (0..2).map(|_| never.add(ROOT, Duration::MAX)).last();
        assert_eq!(last, Some(Err(TreeRefusal::Rate(None))));
    }
}

#[test]
fn whoever_lived_below_a_node_that_ended_stays_and_is_named_deepest_first() {
    let mut tree = free(TreeLimits::default());
    let middle = tree.add(ROOT, NOW).unwrap();
    let beside = tree.add(ROOT, NOW).unwrap();
    let [left, right] = [(); 2].map(|()| tree.add(middle, NOW).unwrap());
    let leaf = tree.add(left, NOW).unwrap();
    assert_eq!(tree.remove(middle), Some(vec![leaf, right, left]));
    assert_eq!(tree.len(), 4);
    assert_eq!(tree.path(leaf).as_deref(), Some("0.0.0.0"));
    assert_eq!(tree.parent(left), Some(middle));
    assert_eq!(tree.add(middle, NOW), Err(TreeRefusal::NoParent(middle)));
    // Removed one by one, also in the wrong order.
    assert_eq!(tree.remove(left), Some(vec![leaf]));
    assert_eq!(tree.remove(leaf), Some(vec![]));
    assert_eq!(tree.remove(right), Some(vec![]));
    assert_eq!(tree.deepest_first(), [beside]);
}

/// Anything in any order, against a list that is counted anew each time.
#[test]
fn what_holds_holds_after_any_order_of_calls() {
    let limits = TreeLimits { depth: 3, children: 3, total: 10, burst: 4, per_second: 2 };
    for seed in 1..200_u64 {
        let mut state = seed;
        let mut roll = |below: u64| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (state >> 33) % below
        };
        let mut tree = Tree::new(limits, NOW);
        let mut living: Vec<(NodeId, NodeId, u32)> = Vec::new();
        let (mut ids, mut paths) = (BTreeSet::from([ROOT]), BTreeSet::from(["0".to_owned()]));
        for step in 0..200_u64 {
            let node = NodeId(roll(tree.next + 1));
            if roll(3) == 0 {
                let known = living.iter().position(|(id, ..)| *id == node);
                assert_eq!(tree.remove(node).is_some(), known.is_some());
                known.map(|at| living.remove(at));
                continue;
            }
            let above = living.iter().find(|(id, ..)| *id == node).map(|(.., depth)| *depth);
            let above = above.or((node == ROOT).then_some(0));
            let children = living.iter().filter(|(_, parent, _)| *parent == node).count();
            let fits = above.is_some_and(|depth| depth < 3) && children < 3 && living.len() < 10;
            match tree.add(node, at(step * 100)) {
                Ok(id) => {
                    assert!(fits && ids.insert(id) && paths.insert(tree.path(id).unwrap()), "{tree:?}");
                    assert_eq!(tree.parent(id), Some(node));
                    living.push((id, node, above.unwrap() + 1));
                }
                Err(refusal) => assert_eq!(fits, matches!(refusal, TreeRefusal::Rate(_)), "{refusal}"),
            }
            assert_eq!(tree.len(), living.len());
        }
    }
}
