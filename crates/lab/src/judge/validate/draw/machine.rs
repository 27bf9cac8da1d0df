//! The machine of a drawn case: a regular guest of up to 16 CPUs, with or without SMT, of several caches and nodes.

use super::dice::Dice;

/// Most CPUs: a larger guest takes minutes for a second of its time.
pub const MOST_CPUS: u32 = 16;
/// Fewest CPUs of a cache. A cache for each CPU leaves nothing to search.
const LEAST_AT_CACHE: u32 = 2;
const NODES: &[u32] = &[1, 2, 4];
/// Caches of a node.
const CACHES: &[u32] = &[1, 2, 3, 4];

/// Counts of the machine.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Shape {
    /// NUMA nodes, each a socket.
    pub nodes: u32,
    /// Last-level caches of a node.
    pub caches: u32,
    /// Cores of a cache.
    pub cores: u32,
    /// Hardware threads of a core.
    pub threads: u32,
}

impl Shape {
    /// A shape of at most so many CPUs. Each count is drawn in turn among those that leave room for the next.
    pub fn draw(dice: Dice, most_cpus: u32) -> Shape {
        let threads = dice.pick("threads", &[1, 2]);
        let fits = |caches: u32| caches * LEAST_AT_CACHE <= most_cpus;
        let nodes = dice.pick("nodes", NODES);
        let caches: Vec<u32> = CACHES.iter().copied().filter(|c| fits(nodes * c)).collect();
        let caches = dice.pick("caches", &caches);
        let (least, most) = (LEAST_AT_CACHE / threads, most_cpus / (nodes * caches * threads));
        Shape { nodes, caches, cores: dice.within("cores", least, most), threads }
    }
    pub fn cpus(&self) -> u32 {
        self.nodes * self.caches * self.cores * self.threads
    }
    /// Its name in cases and for `--machine`.
    pub fn name(&self) -> String {
        let smt = if self.threads > 1 { "-smt" } else { "" };
        format!("icount-{}x{}x{}{smt}", self.nodes, self.caches, self.cores)
    }
    /// For people.
    pub fn words(&self) -> String {
        let many = |n: u32, one: &str| if n == 1 { format!("1 {one}") } else { format!("{n} {one}s") };
        let smt = if self.threads > 1 { " with SMT" } else { "" };
        let (nodes, caches) = (many(self.nodes, "node"), many(self.caches, "cache"));
        format!("{nodes} x {caches} x {}{smt}", many(self.cores, "core"))
    }
}
