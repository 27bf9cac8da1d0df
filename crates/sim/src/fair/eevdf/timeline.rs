//! A queue's entities in the order of their deadlines, with the sums for virtual time and protection.
//!
//! It is a vector sorted by descending deadline, so that the earliest is the last element. It is scanned from the end
//! for the first eligible one (the kernel's tree finds it by the smallest v below each node). Delayed entities are in
//! it like any others; the current one is not. Invariants: sorted, with equal deadlines first come first served;
//! `keys`, `weights` and `slices` are the sums over the nodes.

use super::average::Average;
use crate::fair::entity::{Entity, EntityId};

/// One queued entity, with all values that a pick reads.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Node {
    pub deadline: i64,
    /// Virtual runtime.
    pub vruntime: i64,
    /// Its weight in the sums.
    weight: u64,
    slice: u32,
    pub entity: EntityId,
}

impl Node {
    /// The node of an entity with its present values.
    pub fn of(id: EntityId, e: &Entity) -> Node {
        let slice = u32::try_from(e.slice_ns).unwrap_or(u32::MAX);
        Node { deadline: e.deadline, vruntime: e.vruntime, weight: e.line_weight, slice, entity: id }
    }
}

/// The EEVDF part of a cfs_rq.
#[derive(Clone, Debug, Default)]
pub struct Timeline {
    average: Average,
    order: Vec<Node>,
    /// The slices of the nodes, ascending, each with its number of entities: one row unless tasks request slices of
    /// their own.
    slices: Vec<(u32, u32)>,
}

impl Timeline {
    /// Sums of the queued entities, without the current one.
    #[inline]
    pub fn average(&self) -> Average {
        self.average
    }

    /// Puts an entity in order.
    pub fn insert(&mut self, node: Node) {
        self.average = self.average.with(node.vruntime, node.weight);
        let at = self.order.partition_point(|n| n.deadline > node.deadline);
        debug_assert!(
            !self.order.iter().any(|n| n.entity == node.entity),
            "{:?} is queued twice",
            node.entity
        );
        self.order.insert(at, node);
        match self.slices.binary_search_by_key(&node.slice, |s| s.0) {
            Ok(at) => self.slices[at].1 += 1,
            Err(at) => self.slices.insert(at, (node.slice, 1)),
        }
    }

    /// Removes an entity, which must be there with this deadline.
    pub fn remove(&mut self, entity: EntityId, deadline: i64) {
        let from = self.order.partition_point(|n| n.deadline > deadline);
        let at = self.order[from..].iter().position(|n| n.entity == entity);
        let at = at.unwrap_or_else(|| panic!("entity {entity:?} is not queued at deadline {deadline}"));
        let node = self.order.remove(from + at);
        self.average.keys -= i128::from(node.vruntime - self.average.zero) * i128::from(node.weight);
        let (own, all) = (node.weight, self.average.weights);
        debug_assert!(own <= all, "{entity:?} of weight {own} leaves a timeline of {all}");
        self.average.weights -= node.weight;
        debug_assert!(
            !self.order.is_empty() || self.average.weights == 0 && self.average.keys == 0,
            "an empty timeline sums up {:?}",
            self.average
        );
        if let Ok(at) = self.slices.binary_search_by_key(&node.slice, |s| s.0) {
            self.slices[at].1 -= 1;
            if self.slices[at].1 == 0 {
                self.slices.remove(at);
            }
        }
    }

    /// Moves the reference point, so that keys stay small.
    pub fn rebase(&mut self, zero: i64) {
        let a = &mut self.average;
        a.keys -= i128::from(zero - a.zero) * i128::from(a.weights);
        a.zero = zero;
    }

    /// The eligible entity with the earliest deadline; `virtual_time` is V including the current entity.
    #[inline]
    pub fn earliest_eligible(&self, virtual_time: i64) -> Option<&Node> {
        self.order.iter().rev().find(|n| n.vruntime <= virtual_time)
    }
    pub fn shortest_slice_ns(&self) -> Option<u64> {
        self.slices.first().map(|s| s.0.into())
    }
    pub fn longest_slice_ns(&self) -> Option<u64> {
        self.slices.last().map(|s| s.0.into())
    }
    /// Queued entities, earliest deadline first.
    pub fn queued(&self) -> impl Iterator<Item = &Node> + '_ {
        self.order.iter().rev()
    }
    /// Whether the sums agree with the nodes; for tests.
    pub fn sums_agree(&self) -> bool {
        let start = Average { zero: self.average.zero, ..Average::default() };
        let sums = self.order.iter().fold(start, |a, n| a.with(n.vruntime, n.weight));
        let counted: u32 = self.slices.iter().map(|s| s.1).sum();
        sums == self.average && counted as usize == self.order.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn node(entity: u32, deadline: i64, vruntime: i64, slice: u32) -> Node {
        Node { deadline, vruntime, weight: 1024, slice, entity: EntityId(entity) }
    }

    #[test]
    fn equal_deadlines_are_first_come_first_served() {
        let mut t = Timeline::default();
        for (e, d) in [(1, 50), (2, 50), (3, 40), (4, 50)] {
            t.insert(node(e, d, 0, 10));
        }
        let order: Vec<u32> = t.queued().map(|n| n.entity.0).collect();
        assert_eq!(order, [3, 1, 2, 4]);
    }

    #[test]
    fn the_earliest_deadline_waits_until_it_is_eligible() {
        let mut t = Timeline::default();
        t.insert(node(1, 10, 8, 10));
        t.insert(node(2, 20, 4, 10));
        t.insert(node(3, 30, 2, 10));
        let at = |v| t.earliest_eligible(v).map(|n| n.entity.0);
        assert_eq!([at(8), at(7), at(3), at(1)], [Some(1), Some(2), Some(3), None]);
    }

    proptest! {
        #[test]
        fn sums_follow_what_is_queued(
            acts in prop::collection::vec((0u32..20, -50i64..50, -50i64..50, 1u32..4, -90i64..90), 1..100)
        ) {
            let mut t = Timeline::default();
            let mut held: Vec<Option<Node>> = vec![None; 20];
            for (e, d, v, s, zero) in acts {
                match held[e as usize].take() {
                    Some(old) => t.remove(EntityId(e), old.deadline),
                    None => {
                        t.insert(node(e, d, v, s));
                        held[e as usize] = Some(node(e, d, v, s));
                    }
                }
                t.rebase(zero);
                prop_assert!(t.sums_agree());
                prop_assert!(t.queued().map(|n| n.deadline).is_sorted());
                let slices = held.iter().flatten().map(|n| u64::from(n.slice));
                prop_assert_eq!(t.shortest_slice_ns(), slices.clone().min());
                prop_assert_eq!(t.longest_slice_ns(), slices.max());
            }
        }
    }
}
