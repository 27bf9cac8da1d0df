//! Private caches: what the tasks of one core take from each other, and what it costs the one that comes back.
//!
//! A core's private cache (L1 and L2, one size, `private_cache_kb`) is a stack of tasks, the latest user
//! first, each with the KB it holds: least recently used goes first, as in hardware by approximation. A stay
//! on a CPU puts its task on top with the KB it used then, or still held from before; what lies deeper than
//! the cache is large is gone. So a task that comes back has lost nothing if what ran in between fits in
//! beside it, and as much as did not fit if not. Hardware threads of a core share the stack; a sibling counts
//! when its stay is over. Another core's cache is `pay_move`'s matter.
//!
//! Used in a stay: of Touch operations the KB they went over (`touch_ns_per_kb`), of other work a KB per
//! `warm_ns_per_kb`, at most the footprint. Of a set larger than the cache as much is held as fits, although strict
//! LRU under cyclic passes would hold none: programs have parts they return to.
//!
//! Everyone displaces, but only Touch pays: going over memory is the operation that says which KB it needs.
//! `Op::Run` is work of stated length, whatever the caches hold, and workloads without Touch run as they did
//! before this model (up to model 2); nothing is kept for them, not even the stacks. The price of a KB is a
//! refill's: from the shared LLC, or from memory where the core shares no cache with another.

mod drive;

use schedlab_base::{CpuId, TaskId};
use schedlab_machine::{Costs, Topology};

/// One core's private cache.
#[derive(Debug)]
struct Core {
    /// Tasks with what they hold, KB, the latest user first; together at most the cache.
    held: Vec<(TaskId, u32)>,
    refill_ns_per_kb: u64,
}

/// The private caches of a machine.
#[derive(Debug)]
pub struct Caches {
    cores: Vec<Core>,
    core_of: Vec<u32>,
    capacity_kb: u32,
    /// Whether a task has gone over memory yet: until then nobody would pay, and nothing is kept.
    on: bool,
}

/// A task's part in it.
#[derive(Clone, Copy, Debug, Default)]
pub struct Reuse {
    /// What it held when it left its CPU last, KB.
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
}

impl Core {
    /// The task's stay is over: it is on top with `kb`; what no longer fits below is gone.
    fn leave(&mut self, task: TaskId, kb: u32, capacity_kb: u32) {
        self.forget(task);
        self.held.insert(0, (task, kb));
        let mut room = capacity_kb;
        self.held.retain_mut(|(_, kb)| {
            *kb = (*kb).min(room);
            room -= *kb;
            *kb > 0
        });
    }
    /// What the task still holds, KB; its stay begins.
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
    fn what_fits_in_beside_displaces_nothing() {
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
