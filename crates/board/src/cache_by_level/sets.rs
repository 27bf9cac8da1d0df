//! The working sets of a run's tasks, as blocks in the machine's caches.
//!
//! Each task has its own blocks, for its footprint. An operation goes over them in chunks: the blocks of a chunk are
//! touched as it begins, and its time passes after that. So a moved task pays for data as it touches them. A task that
//! is stopped in a chunk has touched at most 15 blocks too early.
//!
//! `Op::Touch` goes over the first KB of the footprint, from the start, as often as it says. A KB takes the time that
//! the hierarchy gives. `Op::Run` is work of stated length. It touches a KB per `warm_ns_per_kb`, round and round over
//! the footprint, and pays the excess over a hit in the core's own caches.

use super::hierarchy::{FoundIn, Hierarchy, Prices};
use schedlab_base::{Arena, CpuId, TaskId};
use schedlab_machine::Machine;

/// The most blocks that are touched at a time.
const CHUNK: u32 = 16;
/// The most blocks of a run; with large footprints blocks are larger.
const BLOCKS: u64 = 1 << 20;
/// The smallest number of blocks in the smallest cache but the first, if footprints permit.
const IN_CACHE: u64 = 32;
/// The largest block that is taken by choice, KB.
const LARGEST_KB: u64 = 4;

/// KB touched, by where they were found.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Sources {
    /// In caches of the CPU's own path.
    pub own_kb: u64,
    /// In the cache of another CPU with the same last-level cache.
    pub near_kb: u64,
    /// In the cache of a CPU farther away.
    pub far_kb: u64,
    pub memory_kb: u64,
}

impl Sources {
    /// Every count by metric name.
    pub fn named(&self) -> [(String, u64); 4] {
        let all = [
            ("touched.own", self.own_kb),
            ("touched.near", self.near_kb),
            ("touched.far", self.far_kb),
            ("touched.memory", self.memory_kb),
        ];
        all.map(|(name, kb)| (name.to_owned(), kb))
    }
    fn count(&mut self, from: FoundIn, kb: u64) {
        *match from {
            FoundIn::Own(_) => &mut self.own_kb,
            FoundIn::Near => &mut self.near_kb,
            FoundIn::Far => &mut self.far_kb,
            FoundIn::Memory => &mut self.memory_kb,
        } += kb;
    }
}

/// The time of a chunk.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Chunk {
    /// The time with all data in the core's own caches, ns.
    pub work_ns: u64,
    /// The excess over `work_ns`, ns.
    pub refill_ns: u64,
}

/// A task's working set.
#[derive(Clone, Copy, Debug, Default)]
struct WorkingSet {
    first: u32,
    /// Its footprint, KB.
    kb: u32,
    /// The next KB of a computation.
    run_at: u32,
    /// Work left in the chunk of a computation, ns.
    run_ns: u64,
    /// The KB that the present touch goes over, and the next of them.
    touch: (u32, u32),
    /// KB that the touch has still to go over, in all passes.
    left_kb: u64,
}

/// The working sets of all tasks.
#[derive(Debug)]
pub struct Sets {
    caches: Hierarchy,
    sets: Arena<TaskId, WorkingSet>,
    block_kb: u32,
    /// Counts since the warm-up ended.
    pub sources: Sources,
}

/// The size of blocks, KB, for footprints of `footprints_kb` in all.
fn block_kb(machine: &Machine, footprints_kb: u64) -> u32 {
    let second = machine.caches.get(1).or(machine.caches.first()).map_or(1, |c| c.size_kb);
    let wanted = (second / IN_CACHE).clamp(1, LARGEST_KB);
    let mut kb = 1 << wanted.ilog2();
    while footprints_kb / kb > BLOCKS {
        kb *= 2;
    }
    kb as u32
}

impl Sets {
    /// The sets of tasks with these footprints, all in memory; `None` for a machine whose caches are not known.
    pub fn new(machine: &Machine, footprints_kb: impl Iterator<Item = u32> + Clone) -> Option<Sets> {
        let block_kb = block_kb(machine, footprints_kb.clone().map(u64::from).sum());
        let mut caches = Hierarchy::new(machine, u64::from(block_kb) * 1024).ok()?;
        let mut blocks = 0;
        let sets = footprints_kb.map(|kb| {
            let first = blocks;
            blocks += kb.div_ceil(block_kb);
            WorkingSet { first, kb, ..WorkingSet::default() }
        });
        let sets = sets.collect();
        caches.grow(blocks as usize);
        Some(Sets { caches, sets, block_kb, sources: Sources::default() })
    }

    /// The task goes over `kb` KB from now on, `rounds` times.
    pub fn begin_touch(&mut self, task: TaskId, kb: u32, rounds: u32) {
        let set = &mut self.sets[task];
        let kb = kb.min(set.kb);
        set.touch = (kb, 0);
        set.left_kb = u64::from(kb) * u64::from(rounds);
    }
    /// Whether chunks of the present touch are left.
    pub fn touches_on(&self, task: TaskId) -> bool {
        self.sets[task].left_kb > 0
    }
    /// The next chunk of the touch, on `cpu`.
    pub fn touch_chunk(&mut self, cpu: CpuId, task: TaskId) -> Chunk {
        let mut chunk = Chunk::default();
        for _ in 0..CHUNK {
            let WorkingSet { touch: (kb, at), left_kb, .. } = self.sets[task];
            if left_kb == 0 {
                break;
            }
            let (all, beyond) = self.touch(cpu, task, at, kb);
            let touched = self.span(at, kb);
            let set = &mut self.sets[task];
            set.left_kb = left_kb.saturating_sub(u64::from(touched));
            set.touch.1 = if at + touched < kb { at + touched } else { 0 };
            chunk.work_ns += all - beyond;
            chunk.refill_ns += beyond;
        }
        chunk
    }

    /// The time until a computation of the task begins its next chunk, ns of work.
    pub fn run_left_ns(&self, task: TaskId) -> u64 {
        let set = &self.sets[task];
        if set.kb == 0 { u64::MAX } else { set.run_ns }
    }
    /// A computation of the task has done `work_ns` of work.
    pub fn ran(&mut self, task: TaskId, work_ns: u64) {
        let set = &mut self.sets[task];
        set.run_ns = set.run_ns.saturating_sub(work_ns);
    }
    /// The next chunk of a computation of which `left_ns` are left, on `cpu`; returns the refill, ns.
    pub fn run_chunk(&mut self, cpu: CpuId, task: TaskId, left_ns: u64, warm_ns_per_kb: u64) -> u64 {
        let mut refill_ns = 0;
        for _ in 0..CHUNK {
            let WorkingSet { kb, run_at, run_ns, .. } = self.sets[task];
            if run_ns >= left_ns {
                break;
            }
            refill_ns += self.touch(cpu, task, run_at, kb).1;
            let touched = self.span(run_at, kb);
            let set = &mut self.sets[task];
            set.run_at = if run_at + touched < kb { run_at + touched } else { 0 };
            set.run_ns += u64::from(touched) * warm_ns_per_kb.max(1);
        }
        refill_ns
    }

    /// The KB of the block that begins at KB `at`, of `kb` in all.
    fn span(&self, at: u32, kb: u32) -> u32 {
        self.block_kb.min(kb - at)
    }
    /// Touches the block that begins at KB `at`. Returns the time, and the part beyond a hit in the core's own caches,
    /// ns.
    fn touch(&mut self, cpu: CpuId, task: TaskId, at: u32, kb: u32) -> (u64, u64) {
        let block = self.sets[task].first + at / self.block_kb;
        let span = u64::from(self.span(at, kb));
        let lines = (span * 1024 / self.caches.line()).max(1) as u32;
        let touched = self.caches.touch(cpu, block, lines);
        // A block is partly in memory only if an operation went over a part of it before.
        let fetched_kb = u64::from(touched.fetched) * span / u64::from(lines);
        let found_kb = span - fetched_kb;
        self.sources.count(touched.from, found_kb);
        self.sources.count(FoundIn::Memory, fetched_kb);
        let of = |price: fn(&Prices, FoundIn) -> u64| {
            let prices = self.caches.prices();
            found_kb * price(prices, touched.from) + fetched_kb * price(prices, FoundIn::Memory)
        };
        (of(Prices::per_kb), of(Prices::excess_per_kb))
    }
}

#[cfg(test)]
#[path = "sets_tests.rs"]
mod tests;
