//! The live ground: a pinned thread per measured CPU, and a working set that they pass to each other.
//!
//! A round has a source and a target. The source empties its cache and touches the set; the target then touches the
//! same set and empties its cache. Each part is timed on its own CPU, so clock offsets do not matter. The hand-over is
//! a word on its own cache line, for which the other thread spins without yielding; no time includes a wakeup. Threads
//! sleep only between jobs. If source and target are the same CPU, its thread does both parts, and the job's other
//! thread spins as in other rounds.
//!
//! Threads have nice -20 if the user may set it, so that other tasks rarely run between two parts. A sample is
//! disturbed if another task ran for long during a part, or between the parts. Times are ns.

use super::touch::{Set, flush};
use crate::probe::peer::Peer;
use crate::sys::{self, Area};
use schedlab_base::{CpuId, Error, Ns32, Result};
use schedlab_kernel::{Attr, Policy};
use schedlab_machine::migration::{Ground, Pattern};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::{Acquire, Release};
use std::sync::mpsc::{Receiver, Sender, channel};

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Sample {
    pub source_ns: u64,
    pub target_ns: u64,
    /// Whether another task ran for long during a part, or between the parts.
    pub disturbed: bool,
}

/// The number of the part whose turn it is, on its own block of lines.
#[repr(align(128))]
#[derive(Default)]
struct Baton(AtomicU64);

struct Memory {
    /// The working set.
    set: Area,
    /// Read to empty a cache.
    other: Area,
}

/// A thread's report about one of its parts. Times are ns.
struct Part {
    number: usize,
    began: u64,
    took_ns: u64,
    /// Time for which another task ran on its CPU.
    lost_ns: u64,
}

/// Whether a part lost too much time to other tasks to be useful: more than a 32nd, and more than a few microseconds.
fn spoilt(took_ns: u64, lost_ns: u64) -> bool {
    lost_ns > took_ns / 32 + 5_000
}

/// The latest start of the target after the source's end, ns. Later, other tasks have used the caches.
const HAND_OVER_NS: u64 = 50_000;

/// Rounds that the job's threads make together.
#[derive(Clone)]
struct Job {
    memory: Arc<Memory>,
    set: Arc<Set>,
    /// Bytes read to empty a cache; 0: it is not emptied.
    flush: u64,
    rounds: Arc<Vec<(CpuId, CpuId)>>,
    baton: Arc<Baton>,
    tell: Sender<Vec<Part>>,
}

impl Job {
    /// Does this thread's parts when it is their turn.
    fn work(&self, here: CpuId) {
        let parts = self.rounds.iter().flat_map(|(source, target)| [*source, *target]);
        let mut done: Vec<Part> = Vec::with_capacity(2 * self.rounds.len());
        for (part, _) in parts.enumerate().filter(|(_, cpu)| *cpu == here) {
            self.wait_for(part);
            let source = part % 2 == 0;
            if source {
                flush(self.memory.other.get(), self.flush);
            }
            let cpu_ns = sys::thread_cpu_ns();
            let began = sys::monotonic_ns();
            self.set.touch(self.memory.set.get());
            let took_ns = sys::monotonic_ns() - began;
            let lost_ns = took_ns.saturating_sub(sys::thread_cpu_ns() - cpu_ns);
            if !source {
                flush(self.memory.other.get(), self.flush);
            }
            done.push(Part { number: part, began, took_ns, lost_ns });
            self.baton.0.store(part as u64 + 1, Release);
        }
        // Spin to the end, so that the last rounds are like the others.
        self.wait_for(2 * self.rounds.len());
        // Sending wakes the caller, which then needs a CPU; hence only once, at the end. If the caller has gone, no
        // answer is needed.
        let _ = self.tell.send(done);
    }
    fn wait_for(&self, part: usize) {
        while self.baton.0.load(Acquire) != part as u64 {
            std::hint::spin_loop();
        }
    }
}

/// Attributes of a thread that other normal tasks rarely preempt.
const FIRST: Attr = Attr {
    policy: Policy::Other,
    nice: -20,
    rt_priority: 0,
    slice: Ns32::ZERO,
    deadline: Ns32::ZERO,
    period: Ns32::ZERO,
};

/// A thread on its CPU.
struct Worker {
    jobs: Sender<Job>,
    peer: Peer,
}

impl Worker {
    fn start(cpu: CpuId) -> Result<Worker> {
        let (jobs, todo): (Sender<Job>, Receiver<Job>) = channel();
        let peer = Peer::start(cpu, Attr::default(), move |here, _| {
            // Most users may not; then other tasks on this CPU disturb more.
            let _ = sys::set_attr(FIRST);
            todo.iter().for_each(|job| job.work(here));
        })?;
        Ok(Worker { jobs, peer })
    }
}

/// CPUs have the kernel's numbers.
pub struct Live {
    memory: Arc<Memory>,
    pattern: Pattern,
    largest: u64,
    workers: BTreeMap<CpuId, Worker>,
    last: Option<Arc<Set>>,
}

impl Live {
    /// A ground for sets of up to `largest` bytes; it maps three times as much memory.
    ///
    /// # Errors
    /// Without enough memory.
    pub fn new(largest: u64, pattern: Pattern) -> Result<Live> {
        let map = |bytes: u64| {
            Area::map(bytes as usize).map_err(|e| {
                Error::machine(format!("no memory for a working set of {} MB: {e}", bytes >> 20))
                    .help("--size BYTES tries smaller sets")
            })
        };
        let memory = Arc::new(Memory { set: map(largest)?, other: map(2 * largest)? });
        Ok(Live { memory, pattern, largest, workers: BTreeMap::new(), last: None })
    }
    /// The largest possible set, bytes.
    pub fn largest(&self) -> u64 {
        self.largest
    }
    /// Share of the memory on huge pages, per cent.
    pub fn huge_pct(&self) -> Option<u64> {
        Some(self.memory.set.huge_pct()?.min(self.memory.other.huge_pct()?))
    }
    /// Makes rounds with a set of `size` bytes, and empties caches around each.
    ///
    /// # Errors
    /// When a CPU can't be used.
    pub fn rounds(&mut self, size: u64, rounds: &[(CpuId, CpuId)]) -> Result<Vec<Sample>> {
        let size = size.min(self.largest);
        let set = match self.last.take().filter(|set| set.size().abs_diff(size) < 128) {
            Some(same) => same,
            None => Arc::new(Set::new(self.pattern, size)),
        };
        self.last = Some(set.clone());
        self.make(set, 2 * size, rounds)
    }
    /// Times of touching a set twice on one CPU, without emptying its cache; in the order of lines, or in the ground's.
    pub(super) fn again(&mut self, size: u64, cpu: CpuId, n: usize, in_order: bool) -> Result<Vec<Sample>> {
        let set = if in_order { Set::in_order(size) } else { Set::new(self.pattern, size) };
        self.make(Arc::new(set), 0, &vec![(cpu, cpu); n])
    }
    fn make(&mut self, set: Arc<Set>, flush: u64, rounds: &[(CpuId, CpuId)]) -> Result<Vec<Sample>> {
        let (tell, told) = channel();
        let (memory, rounds) = (self.memory.clone(), Arc::new(rounds.to_vec()));
        let job = Job { memory, set, flush, rounds: rounds.clone(), baton: Arc::default(), tell };
        let mut cpus: Vec<CpuId> = rounds.iter().flat_map(|(a, b)| [*a, *b]).collect();
        cpus.sort_unstable();
        cpus.dedup();
        // All threads must exist before one begins to spin for another.
        for cpu in &cpus {
            if !self.workers.contains_key(cpu) {
                self.workers.insert(*cpu, Worker::start(*cpu)?);
            }
        }
        let gone = || Error::internal("a thread that measures moves has ended");
        for cpu in &cpus {
            let worker = self.workers.get(cpu).ok_or_else(gone)?;
            worker.jobs.send(job.clone()).map_err(|_| gone())?;
        }
        drop(job);
        let mut parts: Vec<Part> = Vec::with_capacity(2 * rounds.len());
        for _ in &cpus {
            parts.extend(told.recv().map_err(|_| gone())?);
        }
        parts.sort_unstable_by_key(|part| part.number);
        Ok(parts.chunks_exact(2).map(|pair| sample(&pair[0], &pair[1])).collect())
    }
}

fn sample(source: &Part, target: &Part) -> Sample {
    let waited_ns = target.began.saturating_sub(source.began + source.took_ns);
    let spoilt = |part: &Part| spoilt(part.took_ns, part.lost_ns);
    Sample {
        source_ns: source.took_ns,
        target_ns: target.took_ns,
        disturbed: spoilt(source) || spoilt(target) || waited_ns > HAND_OVER_NS,
    }
}

impl Ground for Live {
    fn go_over(&mut self, size: u64, source: CpuId, target: CpuId) -> Result<u64> {
        let sample = self.rounds(size, &[(source, target)])?;
        Ok(sample.iter().map(|s| s.source_ns + s.target_ns).sum())
    }
}

impl Drop for Live {
    fn drop(&mut self) {
        for (_, worker) in std::mem::take(&mut self.workers) {
            drop(worker.jobs);
            worker.peer.end();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_round_in_which_others_ran_for_long_is_disturbed() {
        let part = |number, began, lost_ns| Part { number, began, took_ns: 1_000_000, lost_ns };
        let fine = sample(&part(0, 0, 20_000), &part(1, 1_001_000, 0));
        assert_eq!(fine, Sample { source_ns: 1_000_000, target_ns: 1_000_000, disturbed: false });
        assert!(sample(&part(0, 0, 40_000), &part(1, 1_001_000, 0)).disturbed, "during a part");
        assert!(sample(&part(0, 0, 0), &part(1, 1_100_000, 0)).disturbed, "between the parts");
    }
}
