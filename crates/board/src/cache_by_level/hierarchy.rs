//! Caches and the blocks in them.
//!
//! Invariants: a block that a cache holds is in every larger cache of that CPU's path, too; a cache never holds more
//! lines than its capacity; a block that no cache holds is in memory.
//!
//! The prices of data outside the own caches (`refill_near_ns_per_kb`, `refill_far_ns_per_kb`, `memory_ns_per_kb`) are
//! added to a hit in the largest cache of the path, through which the data pass.

use schedlab_base::{CpuId, Error, Result};
use schedlab_machine::{CacheLevel, Distance, Machine, Topology};

/// No block, or no cache.
const NONE: u32 = u32::MAX;
/// The most levels of caches.
const LEVELS: usize = 4;

/// Where a touch found its block.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum FoundIn {
    /// In a cache of the CPU's own path; the number of the level, 0 the smallest.
    Own(usize),
    /// In the own cache of another core with the same last-level cache.
    Near,
    /// In the cache of a CPU farther away.
    Far,
    /// In no cache.
    Memory,
}

/// The outcome of a touch.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Touched {
    /// Where the block was.
    pub from: FoundIn,
    /// The lines that were found there.
    pub found: u32,
    /// The other lines, which came from memory.
    pub fetched: u32,
}

/// Times of touching 1 KB, ns.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Prices {
    hit: [u64; LEVELS],
    near: u64,
    far: u64,
    memory: u64,
    /// A hit in the largest cache that a core has to itself.
    private: u64,
}

impl Prices {
    fn of(machine: &Machine) -> Prices {
        let mut prices = Prices::default();
        for (hit, cache) in prices.hit.iter_mut().zip(&machine.caches) {
            *hit = cache.hit_ns_per_kb;
        }
        let through = machine.caches.last().map_or(0, |c| c.hit_ns_per_kb);
        let cores = |cpu: CpuId| machine.topology.smt_mask(cpu);
        let own = |cache: &&CacheLevel| {
            sharers(&machine.topology, cache, CpuId(0)).all(|c| cores(CpuId(0)).contains(c))
        };
        prices.private = machine.caches.iter().rfind(own).map_or(0, |c| c.hit_ns_per_kb);
        let costs = &machine.costs;
        prices.near = through + costs.refill_near_ns_per_kb;
        prices.far = through + costs.refill_far_ns_per_kb;
        prices.memory = through + costs.memory_ns_per_kb;
        prices
    }
    /// Touching 1 KB that is there, ns.
    #[inline]
    pub fn per_kb(&self, from: FoundIn) -> u64 {
        match from {
            FoundIn::Own(level) => self.hit[level],
            FoundIn::Near => self.near,
            FoundIn::Far => self.far,
            FoundIn::Memory => self.memory,
        }
    }
    /// The part beyond a hit in the core's own caches, ns a KB.
    #[inline]
    pub fn excess_per_kb(&self, from: FoundIn) -> u64 {
        self.per_kb(from).saturating_sub(self.private)
    }
}

/// The CPUs that share `cpu`'s cache of a level.
fn sharers<'a>(
    topology: &'a Topology,
    cache: &CacheLevel,
    cpu: CpuId,
) -> impl Iterator<Item = CpuId> + use<'a> {
    let shared = cache.shared;
    let unit = shared.unit(topology.cpu(cpu));
    let all = (0..topology.nr_cpus()).map(CpuId::from);
    all.filter(move |c| shared.unit(topology.cpu(*c)) == unit)
}

/// A block's neighbours in its cache, and the cache.
#[derive(Clone, Copy, Debug)]
struct Link {
    cache: u32,
    newer: u32,
    older: u32,
}

const OUT: Link = Link { cache: NONE, newer: NONE, older: NONE };

/// The blocks of one cache, by their last use.
#[derive(Clone, Copy, Debug)]
struct Lru {
    newest: u32,
    oldest: u32,
    lines: u32,
}

#[derive(Debug)]
struct Level {
    /// Lines that one cache holds.
    capacity: u32,
    /// The cache of each CPU.
    cache_of: Vec<u32>,
    caches: Vec<Lru>,
    /// By block.
    links: Vec<Link>,
}

impl Level {
    fn new(cache: &CacheLevel, topology: &Topology, line: u32, block_lines: u32) -> Level {
        let cache_of: Vec<u32> = topology.cpus.iter().map(|c| cache.shared.unit(c)).collect();
        let n = cache_of.iter().map(|c| *c as usize + 1).max().unwrap_or(0);
        let lines = (cache.size_kb * 1024 / u64::from(line)).min(u64::from(u32::MAX / 2)) as u32;
        let empty = Lru { newest: NONE, oldest: NONE, lines: 0 };
        Level { capacity: lines.max(block_lines), cache_of, caches: vec![empty; n], links: Vec::new() }
    }
    /// Takes a block of `lines` lines out of the cache that holds it, if one does.
    fn remove(&mut self, block: u32, lines: u32) {
        let link = std::mem::replace(&mut self.links[block as usize], OUT);
        if link.cache == NONE {
            return;
        }
        let lru = &mut self.caches[link.cache as usize];
        lru.lines -= lines;
        match link.newer {
            NONE => lru.newest = link.older,
            newer => self.links[newer as usize].older = link.older,
        }
        match link.older {
            NONE => lru.oldest = link.newer,
            older => self.links[older as usize].newer = link.newer,
        }
    }
    /// Puts a block that no cache of the level holds into `cpu`'s, as the last one used.
    fn insert(&mut self, cpu: CpuId, block: u32, lines: u32) {
        let cache = self.cache_of[cpu.index()];
        let lru = &mut self.caches[cache as usize];
        let older = std::mem::replace(&mut lru.newest, block);
        lru.lines += lines;
        match older {
            NONE => lru.oldest = block,
            older => self.links[older as usize].newer = block,
        }
        self.links[block as usize] = Link { cache, newer: NONE, older };
    }
    /// The block that has to leave `cpu`'s cache because it is too full.
    fn victim(&self, cpu: CpuId) -> Option<u32> {
        let lru = &self.caches[self.cache_of[cpu.index()] as usize];
        (lru.lines > self.capacity).then_some(lru.oldest)
    }
}

/// The caches of a machine, and blocks that they may hold.
#[derive(Debug)]
pub struct Hierarchy {
    /// The smallest first.
    levels: Vec<Level>,
    /// Lines of each block that caches hold; 0 in memory.
    held: Vec<u32>,
    /// The CPU that touched each block last.
    last: Vec<u32>,
    topology: Topology,
    prices: Prices,
    line: u32,
    block_lines: u32,
}

impl Hierarchy {
    /// Empty caches, and no blocks. A block has `block_bytes`, rounded to whole lines.
    ///
    /// # Errors
    /// For a machine without `[[cache]]`.
    pub fn new(machine: &Machine, block_bytes: u64) -> Result<Hierarchy> {
        let line = line_of(machine)?;
        let block_lines = (block_bytes / u64::from(line)).clamp(1, 1 << 16) as u32;
        // Levels beyond the fourth would be the largest ones; no machine has them.
        let levels = machine.caches.iter().take(LEVELS);
        let levels = levels.map(|c| Level::new(c, &machine.topology, line, block_lines)).collect();
        let (topology, prices) = (machine.topology.clone(), Prices::of(machine));
        Ok(Hierarchy { levels, held: Vec::new(), last: Vec::new(), topology, prices, line, block_lines })
    }
    /// Adds blocks in memory until there are `blocks`.
    pub fn grow(&mut self, blocks: usize) {
        if blocks > self.held.len() {
            self.held.resize(blocks, 0);
            self.last.resize(blocks, 0);
            self.levels.iter_mut().for_each(|level| level.links.resize(blocks, OUT));
        }
    }
    /// Bytes of a line.
    pub fn line(&self) -> u64 {
        u64::from(self.line)
    }
    pub fn block_lines(&self) -> u32 {
        self.block_lines
    }
    pub fn prices(&self) -> &Prices {
        &self.prices
    }

    /// `cpu` touches `lines` lines of a block; equal numbers mean the same lines. Afterwards its caches hold them, and
    /// no others do.
    pub fn touch(&mut self, cpu: CpuId, block: u32, lines: u32) -> Touched {
        let at = block as usize;
        let held = self.held[at];
        let from = self.find(cpu, at);
        let touched = Touched { from, found: held.min(lines), fetched: lines.saturating_sub(held) };
        if from == FoundIn::Own(0) && lines <= held && self.levels.iter().all(|l| l.links[at].newer == NONE) {
            return touched;
        }
        self.last[at] = cpu.0;
        self.held[at] = held.max(lines);
        for level in &mut self.levels {
            level.remove(block, held);
            level.insert(cpu, block, self.held[at]);
        }
        for n in (0..self.levels.len()).rev() {
            while let Some(victim) = self.levels[n].victim(cpu) {
                self.evict(n, victim);
            }
        }
        touched
    }
    /// The nearest place that holds a block.
    fn find(&self, cpu: CpuId, at: usize) -> FoundIn {
        let of_path = |level: &Level| level.links[at].cache == level.cache_of[cpu.index()];
        if let Some(level) = self.levels.iter().position(of_path) {
            // Another core's own cache has newer data than the shared cache.
            let elsewhere = self.levels[..level].iter().any(|smaller| smaller.links[at].cache != NONE);
            return if elsewhere { FoundIn::Near } else { FoundIn::Own(level) };
        }
        if self.held[at] == 0 {
            return FoundIn::Memory;
        }
        match self.topology.distance(cpu, CpuId(self.last[at])) {
            Distance::Own | Distance::Smt | Distance::Llc => FoundIn::Near,
            Distance::Node | Distance::Remote => FoundIn::Far,
        }
    }
    /// Takes a block out of a level, and out of the smaller ones.
    fn evict(&mut self, level: usize, block: u32) {
        let lines = self.held[block as usize];
        self.levels[..=level].iter_mut().for_each(|l| l.remove(block, lines));
        if level + 1 == self.levels.len() {
            self.held[block as usize] = 0;
        }
    }

    /// The lines that each cache of a level holds, by its number.
    #[cfg(test)]
    fn lines(&self, level: usize) -> Vec<u32> {
        self.levels[level].caches.iter().map(|c| c.lines).collect()
    }
}

/// The line of a machine's caches: the largest, if they differ.
fn line_of(machine: &Machine) -> Result<u32> {
    machine.caches.iter().map(|c| c.line).max().ok_or_else(|| {
        let what = format!("nothing is known of the caches of machine '{}'", machine.name);
        Error::input(what)
            .help("list them in its file, the smallest first: [[cache]] with level, size_kb, line, shared")
    })
}

#[cfg(test)]
#[path = "hierarchy_tests.rs"]
mod tests;
