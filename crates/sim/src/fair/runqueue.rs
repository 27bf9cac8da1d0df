//! A cfs_rq: entities in vruntime order, the current one kept outside, min_vruntime, buddies (kernels 3.4 to 6.5).
//!
//! The order is a vector sorted by descending (vruntime, arrival), so that the leftmost entity is the last element:
//! picking pops. Invariants: sorted; `nr_running` and `load_fine` count queued entities and, while it is `on_rq`, the
//! current one; `min_vruntime` never decreases.

use super::eevdf::timeline::Timeline;
use super::entity::EntityId;
use super::slope::whole;
use crate::pelt::Pelt;
use schedlab_base::{CpuId, Id};
use std::mem::offset_of;

/// A cfs_rq's index in the arena; the root queue of CPU n is number n.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct CfsRqId(pub u32);

impl Id for CfsRqId {
    #[inline]
    fn at(self) -> usize {
        self.0 as usize
    }
    #[inline]
    fn of(at: usize) -> CfsRqId {
        CfsRqId(at as u32)
    }
}

/// One queued entity.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Node {
    vruntime: i64,
    /// Order of arrival: of equal keys the later one goes right.
    arrival: u64,
    entity: EntityId,
}

/// A runqueue of the fair class at one level on one CPU.
///
/// The fields are in the order of memory: a balance pass reads the second cache line of many queues, from
/// `avg.load_avg` to `h_nr_running`.
#[derive(Clone, Debug)]
#[repr(C, align(64))]
pub struct CfsRq {
    /// The group's entity one level up, which represents this queue; `None` at the root.
    pub owner: Option<EntityId>,
    /// The running entity, which is not in the order.
    pub curr: Option<EntityId>,
    /// Monotonic floor of virtual time, ns (CFS).
    pub min_vruntime: i64,
    /// Load tracking of all attached entities, including sleeping ones.
    pub avg: Pelt,
    /// Sum of the utilisation estimates of the CPU's runnable tasks; only in its root queue (4.17+).
    pub util_est: u64,
    /// Number of tasks on the queue and below, including delayed ones (`h_nr_queued`; before 6.14 named
    /// `h_nr_running`).
    pub h_nr_queued: u32,
    /// Number of runnable tasks on the queue and below (`h_nr_runnable`).
    pub h_nr_running: u32,
    pub cpu: CpuId,
    /// Number of entities on the queue, including the current one and delayed ones (`nr_queued`).
    pub nr_running: u32,
    /// Number of SCHED_IDLE tasks on the queue and below, and of tasks of idle groups below (`h_nr_idle`, earlier
    /// `idle_h_nr_running`).
    pub h_nr_idle: u32,
    /// Sum of the weights of entities on the queue, 1024 times as fine (`load.weight`).
    pub load_fine: u64,
    /// Buddy to run next.
    pub next: Option<EntityId>,
    /// Buddy that was preempted last.
    pub last: Option<EntityId>,
    /// Entity that yielded.
    pub skip: Option<EntityId>,
    /// When the leftmost was last picked instead of `next`, ns (2.6.27).
    pub pair_since: u64,
    /// Sum of the load averages of queued entities only (`runnable_load_avg`, 4.3 to 4.20).
    pub runnable: Pelt,
    /// The queued entities' order under EEVDF; CFS has its own.
    pub timeline: Timeline,
    order: Vec<Node>,
    arrivals: u64,
}

impl CfsRq {
    /// Number of tasks as balancing counts them: without delayed ones, where these are set apart (6.14).
    #[inline]
    pub fn balanced(&self, delayed_set_apart: bool) -> u32 {
        if delayed_set_apart { self.h_nr_running } else { self.h_nr_queued }
    }
    /// An empty queue of `cpu`.
    pub fn new(cpu: CpuId, owner: Option<EntityId>) -> CfsRq {
        CfsRq {
            cpu,
            owner,
            curr: None,
            min_vruntime: 0,
            nr_running: 0,
            h_nr_queued: 0,
            h_nr_running: 0,
            h_nr_idle: 0,
            load_fine: 0,
            next: None,
            last: None,
            skip: None,
            pair_since: 0,
            avg: Pelt::default(),
            runnable: Pelt::default(),
            util_est: 0,
            timeline: Timeline::default(),
            order: Vec::with_capacity(16),
            arrivals: 0,
        }
    }

    /// The sum of its weights, 1024 at nice 0.
    #[inline]
    pub fn load_weight(&self) -> u64 {
        whole(self.load_fine)
    }

    /// Puts an entity in order.
    pub fn insert(&mut self, entity: EntityId, vruntime: i64) {
        let node = Node { vruntime, arrival: self.arrivals, entity };
        self.arrivals += 1;
        let at = self.order.partition_point(|n| (n.vruntime, n.arrival) > (node.vruntime, node.arrival));
        debug_assert!(!self.order.iter().any(|n| n.entity == entity), "{entity:?} is queued twice");
        self.order.insert(at, node);
    }

    /// Removes an entity from the order, where it must be with this vruntime.
    pub fn remove(&mut self, entity: EntityId, vruntime: i64) {
        if self.order.last().is_some_and(|n| n.entity == entity) {
            self.order.pop();
            return;
        }
        let from = self.order.partition_point(|n| n.vruntime > vruntime);
        let at = self.order[from..].iter().position(|n| n.entity == entity);
        let at = at.unwrap_or_else(|| panic!("entity {entity:?} is not queued at vruntime {vruntime}"));
        self.order.remove(from + at);
    }

    /// The leftmost queued entity and its vruntime.
    #[inline]
    pub fn leftmost(&self) -> Option<(EntityId, i64)> {
        self.order.last().map(|n| (n.entity, n.vruntime))
    }
    /// The entity to the right of the leftmost.
    #[inline]
    pub fn second(&self) -> Option<(EntityId, i64)> {
        self.order.len().checked_sub(2).map(|i| (self.order[i].entity, self.order[i].vruntime))
    }
    /// The rightmost queued entity and its vruntime.
    pub fn rightmost(&self) -> Option<(EntityId, i64)> {
        self.order.first().map(|n| (n.entity, n.vruntime))
    }
    /// Queued entities from left to right.
    pub fn queued(&self) -> impl Iterator<Item = (EntityId, i64)> + '_ {
        self.order.iter().rev().map(|n| (n.entity, n.vruntime))
    }

    /// Raises `min_vruntime` to the smaller of the current entity's vruntime and the leftmost's; never lowers it.
    /// `curr_vruntime` is `None` if nothing runs or (6.1) the current entity is leaving the queue.
    #[inline]
    pub fn update_min_vruntime(&mut self, curr_vruntime: Option<i64>) {
        let left = self.leftmost().map(|(_, v)| v);
        let candidate = match (curr_vruntime, left) {
            (Some(c), Some(l)) => c.min(l),
            (Some(v), None) | (None, Some(v)) => v,
            (None, None) => return,
        };
        self.min_vruntime = self.min_vruntime.max(candidate);
    }

    #[inline]
    pub fn clear_buddies(&mut self, entity: EntityId) {
        for buddy in [&mut self.next, &mut self.last, &mut self.skip] {
            if *buddy == Some(entity) {
                *buddy = None;
            }
        }
    }
}

const _: () = assert!(offset_of!(CfsRq, avg.load_avg) == 64 && offset_of!(CfsRq, h_nr_running) < 128);

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn queue() -> CfsRq {
        CfsRq::new(CpuId(0), None)
    }

    #[test]
    fn equal_keys_are_first_come_first_served() {
        let mut q = queue();
        for (e, v) in [(1, 5), (2, 5), (3, 4), (4, 5)] {
            q.insert(EntityId(e), v);
        }
        let order: Vec<u32> = q.queued().map(|(e, _)| e.0).collect();
        assert_eq!(order, [3, 1, 2, 4]);
        assert_eq!((q.leftmost(), q.rightmost()), (Some((EntityId(3), 4)), Some((EntityId(4), 5))));
    }

    #[test]
    fn min_vruntime_never_falls() {
        let mut q = queue();
        q.insert(EntityId(1), 100);
        q.update_min_vruntime(Some(150));
        assert_eq!(q.min_vruntime, 100);
        q.insert(EntityId(2), 20);
        q.update_min_vruntime(Some(150));
        assert_eq!(q.min_vruntime, 100, "a sleeper placed to the left must not pull it back");
        q.remove(EntityId(1), 100);
        q.remove(EntityId(2), 20);
        q.update_min_vruntime(Some(150));
        assert_eq!(q.min_vruntime, 150);
    }

    proptest! {
        #[test]
        fn stays_sorted(acts in prop::collection::vec((0u32..20, -50i64..50), 1..100)) {
            let mut q = queue();
            let mut held: Vec<Option<i64>> = vec![None; 20];
            for (e, v) in acts {
                match held[e as usize].take() {
                    Some(old) => q.remove(EntityId(e), old),
                    None => {
                        q.insert(EntityId(e), v);
                        held[e as usize] = Some(v);
                    }
                }
                let got: Vec<i64> = q.queued().map(|(_, v)| v).collect();
                prop_assert!(got.is_sorted());
                prop_assert_eq!(got.len(), held.iter().flatten().count());
            }
        }
    }
}
