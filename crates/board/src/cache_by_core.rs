//! Private caches: the tasks of one core displace each other's data, and a task that comes back pays for it. This holds
//! on machines without `[[cache]]`; on others the simulator's caches by level do.
//!
//! A core's private cache (L1 and L2, one size, `private_cache_kb`) is a stack of tasks, the latest user first, each
//! with the KB it holds. The least recently used data are lost first, as approximately in hardware. A stay on a CPU
//! puts its task on top, with the KB it used in the stay or still held from before. Data deeper than the cache's size
//! are lost. So a task that comes back has lost nothing if the data used in between fit in next to its own; otherwise
//! it has lost the part that did not fit. Hardware threads of a core share the stack; a sibling's stay counts when it
//! is over. [`move_refill_ns`] prices a move to another core's cache.
//!
//! A stay uses at most the footprint: Touch operations use the KB they went over (`touch_ns_per_kb`), other work uses a
//! KB per `warm_ns_per_kb`. Of a set larger than the cache, the part that fits is held. Strict LRU under cyclic passes
//! would hold none of it, but programs have parts they return to.
//!
//! All tasks displace, but only Touch pays: only that operation says which KB it needs. `Op::Run` is work of stated
//! length, whatever the caches hold. A run without Touch keeps nothing, not even the stacks. A KB costs a refill from
//! the shared LLC, or from memory if the core shares no cache with another.

use schedlab_base::{CpuId, TaskId};
use schedlab_machine::{Costs, Distance, Topology};

#[derive(Debug)]
struct Core {
    /// Tasks with the KB each holds, the latest user first; their sum is at most the cache's size.
    held: Vec<(TaskId, u32)>,
    refill_ns_per_kb: u64,
}

/// The private caches of a machine.
#[derive(Debug)]
pub struct Caches {
    cores: Vec<Core>,
    core_of: Vec<u32>,
    capacity_kb: u32,
    /// Whether a task has gone over memory yet. Before that no task would pay, and nothing is kept.
    on: bool,
}

/// A task's part in its core's private cache.
#[derive(Clone, Copy, Debug, Default)]
pub struct Reuse {
    /// The KB it held when it last left its CPU.
    held_kb: u32,
    /// The part of its set that others displaced and that it has not fetched again, KB.
    cold_kb: u32,
    /// The most that one Touch operation of this stay goes over, KB.
    touch_kb: u32,
}

impl Caches {
    /// Empty caches.
    pub fn new(topology: &Topology, costs: &Costs) -> Caches {
        let nr_cores = topology.cpus.iter().map(|c| c.core as usize + 1).max().unwrap_or(0);
        let core = |core: usize| {
            let llc = topology.cpus.iter().find(|c| c.core as usize == core).map(|c| c.llc);
            let shares = topology.cpus.iter().any(|c| Some(c.llc) == llc && c.core as usize != core);
            let per_kb = if shares { costs.refill_near_ns_per_kb } else { costs.refill_far_ns_per_kb };
            Core { held: Vec::new(), refill_ns_per_kb: per_kb }
        };
        Caches {
            cores: (0..nr_cores).map(core).collect(),
            core_of: topology.cpus.iter().map(|c| c.core).collect(),
            capacity_kb: costs.private_cache_kb.min(u64::from(u32::MAX)) as u32,
            on: false,
        }
    }
    fn core(&mut self, cpu: CpuId) -> &mut Core {
        &mut self.cores[self.core_of[cpu.index()] as usize]
    }

    /// `task`, whose whole set has `footprint_kb`, leaves `cpu` after a stay of `stayed_ns`.
    #[inline]
    pub fn leave(
        &mut self,
        (cpu, task): (CpuId, TaskId),
        reuse: &mut Reuse,
        footprint_kb: u32,
        stayed_ns: u64,
        costs: &Costs,
    ) {
        if !self.on {
            return;
        }
        let in_stay = |ns_per_kb: u64| (stayed_ns / ns_per_kb.max(1)).min(u64::from(u32::MAX)) as u32;
        let touched = reuse.touch_kb.min(in_stay(costs.touch_ns_per_kb));
        let worked = footprint_kb.min(in_stay(costs.warm_ns_per_kb));
        let kb = reuse.held_kb.max(touched).max(worked).min(self.capacity_kb);
        reuse.held_kb = kb;
        reuse.touch_kb = 0;
        let capacity_kb = self.capacity_kb;
        self.core(cpu).leave(task, kb, capacity_kb);
    }

    /// `task` was switched to on `cpu`; `from` is where it ran last. The part of its set that others displaced in
    /// between is cold. Returns whether a Touch operation that it was in must be priced again ([`Self::touch`]).
    #[inline]
    pub fn enter(&mut self, (cpu, task): (CpuId, TaskId), from: CpuId, reuse: &mut Reuse) -> bool {
        if !self.on {
            return false;
        }
        let moved = self.core_of[from.index()] != self.core_of[cpu.index()];
        let kept = self.core(from).come_back(task);
        if moved {
            // The price of the move covers the whole set. From now on the task's lines in the other core's cache are
            // out of date.
            *reuse = Reuse::default();
            self.core(from).forget(task);
        } else {
            let held_kb = reuse.held_kb;
            debug_assert!(kept <= held_kb, "{task:?} left {held_kb} KB in its cache, and finds {kept}");
            reuse.cold_kb = reuse.cold_kb.saturating_add(reuse.held_kb.saturating_sub(kept));
            reuse.held_kb = kept;
        }
        true
    }

    /// A task goes over `kb` KB in passes, `left_kb` in all: the cold part is fetched first. `refill_ns` is the refill
    /// that it still has to pay.
    #[inline]
    pub fn touch(&mut self, cpu: CpuId, reuse: &mut Reuse, refill_ns: &mut u64, (kb, left_kb): (u32, u64)) {
        self.on = true;
        let per_kb = self.core(cpu).refill_ns_per_kb;
        reuse.touch_kb = reuse.touch_kb.max(kb);
        let fetched = reuse.cold_kb.min(kb).min(left_kb.min(u64::from(u32::MAX)) as u32);
        reuse.cold_kb -= fetched;
        // An interrupted refill continues; both together fetch at most the whole set.
        let whole_ns = u64::from(kb) * per_kb;
        let (before, wanted) = (*refill_ns, *refill_ns + u64::from(fetched) * per_kb);
        *refill_ns = wanted.min(before.max(whole_ns));
        debug_assert!(*refill_ns >= before, "a refill of {before} ns shrinks to {refill_ns} by a touch");
    }
}

/// The price of fetching warm data after a move over that distance, ns; 0 where the cache is shared.
pub fn move_refill_ns(costs: &Costs, distance: Distance, warm_kb: u32) -> u64 {
    let per_kb = match distance {
        Distance::Own | Distance::Smt => 0,
        Distance::Llc => costs.refill_near_ns_per_kb,
        Distance::Node | Distance::Remote => costs.refill_far_ns_per_kb,
    };
    u64::from(warm_kb) * per_kb
}

impl Core {
    /// The task's stay is over: it is on top with `kb`; the bottom of the stack that no longer fits is dropped.
    fn leave(&mut self, task: TaskId, kb: u32, capacity_kb: u32) {
        self.forget(task);
        self.held.insert(0, (task, kb));
        let mut room = capacity_kb;
        self.held.retain_mut(|(_, kb)| {
            *kb = (*kb).min(room);
            room -= *kb;
            *kb > 0
        });
        let held: u32 = self.held.iter().map(|(_, kb)| kb).sum();
        debug_assert!(held <= capacity_kb, "a cache of {capacity_kb} KB holds {held}");
    }
    /// The KB that the task still holds; its stay begins.
    fn come_back(&mut self, task: TaskId) -> u32 {
        self.held.iter().find(|(t, _)| *t == task).map_or(0, |(_, kb)| *kb)
    }
    fn forget(&mut self, task: TaskId) {
        self.held.retain(|(t, _)| *t != task);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn core() -> Core {
        Core { held: Vec::new(), refill_ns_per_kb: 1 }
    }
    const A: TaskId = TaskId(0);
    const B: TaskId = TaskId(1);
    const C: TaskId = TaskId(2);

    #[test]
    fn data_that_fit_in_next_to_others_displace_nothing() {
        let mut core = core();
        core.leave(A, 150, 256);
        core.leave(B, 100, 256);
        assert_eq!(core.come_back(A), 150);
        core.leave(C, 50, 256);
        assert_eq!((core.come_back(A), core.come_back(B)), (106, 100), "the oldest gives way");
        core.leave(A, 150, 256);
        assert_eq!((core.come_back(B), core.come_back(C)), (56, 50));
        core.leave(B, 256, 256);
        assert_eq!((core.come_back(A), core.come_back(C)), (0, 0));
    }

    #[test]
    fn a_core_that_shares_no_cache_refills_from_memory() {
        let price = |name: &str| {
            let m = schedlab_machine::Machine::load(name).unwrap();
            (Caches::new(&m.topology, &m.costs).core(CpuId(0)).refill_ns_per_kb, m.costs)
        };
        let (alone, costs) = price("p3-8");
        assert_eq!(alone, costs.refill_far_ns_per_kb);
        let (shared, costs) = price("smp-2");
        assert_eq!(shared, costs.refill_near_ns_per_kb);
    }

    proptest! {
        #[test]
        fn a_cache_never_holds_more_than_its_size(stays in prop::collection::vec((0u32..9, 0u32..400), 1..80)) {
            let mut core = core();
            for (task, kb) in stays {
                core.leave(TaskId(task), kb, 256);
                prop_assert!(core.held.iter().map(|h| h.1).sum::<u32>() <= 256);
                prop_assert_eq!(core.come_back(TaskId(task)), kb.min(256), "the last one holds all of its own");
            }
        }
    }
}
