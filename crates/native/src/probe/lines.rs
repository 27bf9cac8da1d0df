//! Reading lines that another CPU has just written: those of runqueues, as a balance pass reads them.
//!
//! A pass reads three lines of a busy CPU's runqueue that the CPU keeps changing (`nr_running`; the counts of its
//! `cfs_rq`; the `cfs_rq`'s averages), and two more of an idle one's (`curr`, `ttwu_pending`). Their layout is that of
//! `struct rq` in 6.18. The reads of a visit are independent, so their misses overlap as far as the CPU looks ahead.
//! This depends on the number of instructions between two visits, so a visit here executes about as many as the
//! kernel's (290 counted in 6.1, `visit_hit_ns` of `machines/icount.toml`). Only the extra time of changed lines is
//! measured.
//!
//! The cost of a single line is measured by reads whose addresses depend on the previous read.

use super::batches::{Batches, KnownCosts};
use super::peer::Peer;
use crate::sys;
use schedlab_base::{CpuId, Result};
use schedlab_kernel::Attr;
use schedlab_machine::{Distance, sysfs};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};

/// Runqueues in a pass: those of a large shared cache, but few enough for the reader's own cache.
const QUEUES: usize = 112;
/// Lines from one runqueue to the next (3,584 bytes).
const STRIDE: usize = 56;
/// Positions of the lines that change: counts, pending wakeup, counts of the `cfs_rq`, its averages, current task.
const COUNTS: usize = 0;
const PENDING: usize = 1;
const FAIR: usize = 2;
const AVERAGES: usize = 4;
const CURRENT: usize = 42;
/// Rounds of four dependent instructions per visit, in addition to its reads.
const WORK: u64 = 66;
const PASSES: usize = 404;
/// Step between runqueues of a chain. It has no common divisor with their number, so all are visited.
const CHAIN_STEP: usize = 67;

#[repr(align(64))]
#[derive(Default)]
struct Line([AtomicU64; 8]);

/// Whether a task runs there: on half of the runqueues, in an order that a branch predictor can't learn.
fn busy(queue: usize) -> bool {
    (queue.wrapping_mul(2_654_435_761) >> 7) & 1 == 1
}

/// Measures the extra cost of a visit if `there` has changed the runqueue, under the name for the two CPUs' distance.
/// Threads of one core report nothing: they share the lines.
pub(super) fn measure(known: &mut KnownCosts, here: CpuId, there: CpuId) -> Result<()> {
    let (name, line) = match distance(here, there) {
        Some(Distance::Llc) => ("visit_miss_near_ns", "line_near_ns"),
        Some(Distance::Node | Distance::Remote) => ("visit_miss_far_ns", "line_far_ns"),
        _ => return Ok(()),
    };
    let (changed, unchanged) = passes(there, chain)?;
    let how = "112 lines that another CPU has changed, each after the last one, beside unchanged ones";
    known.add(changed.cost(line, unchanged.median(), how));
    let (changed, unchanged) = passes(there, pass)?;
    let hit = known.costs.visit_hit_ns;
    let sums = changed.0.iter().map(|ns| ns + hit).collect();
    let how = "3 to 5 lines of each of 112 runqueues that another CPU has changed, beside unchanged ones";
    known.add(Batches::new(sums).cost(name, unchanged.median(), how));
    Ok(())
}

/// The distance of two CPUs; `None` if sysfs does not show it.
fn distance(here: CpuId, there: CpuId) -> Option<Distance> {
    let host = sysfs::read(Path::new("/sys")).ok()?;
    let at = |cpu: CpuId| (0..host.topology.nr_cpus()).map(CpuId::from).find(|c| host.os_cpu(*c) == cpu.0);
    Some(host.topology.distance(at(here)?, at(there)?))
}

/// Passes over changed and over unchanged runqueues, ns per visit.
fn passes(there: CpuId, pass: fn(&[Line]) -> u64) -> Result<(Batches, Batches)> {
    let lines: Arc<Vec<Line>> = Arc::new((0..QUEUES * STRIDE).map(|_| Line::default()).collect());
    let theirs = lines.clone();
    let peer = Peer::start(there, Attr::default(), move |_, shared| {
        let mut round = 0;
        while shared.phase.load(Relaxed) == 0 {
            if shared.word.load(Acquire) == round {
                std::hint::spin_loop();
                continue;
            }
            round += 1;
            change(&theirs, u64::from(round));
            shared.back.store(round, Release);
        }
    })?;
    let (mut changed, mut unchanged) = (Vec::new(), Vec::new());
    // The thread's end writes another word, which lets it run once more and see the end.
    for round in 1..=PASSES as u32 {
        peer.shared.word.store(round, Release);
        while peer.shared.back.load(Acquire) != round {
            std::hint::spin_loop();
        }
        changed.push(pass(&lines));
        unchanged.push(pass(&lines));
    }
    peer.end();
    Ok((Batches::new(changed), Batches::new(unchanged)))
}

/// Changes every runqueue as switches do.
fn change(lines: &[Line], round: u64) {
    for queue in 0..QUEUES {
        let own = &lines[queue * STRIDE..][..STRIDE];
        own[COUNTS].0[0].store(u64::from(busy(queue)), Relaxed);
        for line in [PENDING, FAIR, AVERAGES, CURRENT] {
            own[line].0[0].store(round, Relaxed);
        }
    }
}

/// One pass over all runqueues, ns per visit.
fn pass(lines: &[Line]) -> u64 {
    let began = sys::monotonic_ns();
    let (mut sum, mut work) = (0_u64, 1_u64);
    for queue in 0..QUEUES {
        let own = &lines[queue * STRIDE..][..STRIDE];
        let read = |line: usize, at: usize| own[line].0[at].load(Relaxed);
        sum += read(AVERAGES, 4) + read(AVERAGES, 5) + read(AVERAGES, 6) + read(FAIR, 2);
        let running = read(COUNTS, 0);
        if running == 0 && read(CURRENT, 0) != 0 && read(PENDING, 0) != 0 {
            sum += 1;
        }
        for at in 0..WORK {
            work = (work.rotate_left(5) ^ at).wrapping_add(work >> 3);
        }
    }
    std::hint::black_box((sum, work));
    (sys::monotonic_ns() - began) / QUEUES as u64
}

/// Reads one line of each runqueue, each depending on the last, in an order that no prefetcher follows; ns per line.
fn chain(lines: &[Line]) -> u64 {
    let began = sys::monotonic_ns();
    let mut queue = 0;
    for _ in 0..QUEUES {
        // Round numbers are below 2^63, which the compiler does not know.
        let read = lines[queue * STRIDE + FAIR].0[0].load(Relaxed) >> 63;
        queue = (queue + CHAIN_STEP + read as usize) % QUEUES;
    }
    std::hint::black_box(queue);
    (sys::monotonic_ns() - began) / QUEUES as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pass_meets_busy_and_idle_runqueues_about_as_often() {
        let n = (0..QUEUES).filter(|queue| busy(*queue)).count();
        assert!((QUEUES / 3..QUEUES * 2 / 3).contains(&n), "{n} of {QUEUES}");
        let lines: Vec<Line> = (0..QUEUES * STRIDE).map(|_| Line::default()).collect();
        change(&lines, 7);
        let changed = lines.iter().filter(|line| line.0[0].load(Relaxed) == 7).count();
        assert_eq!(changed, 4 * QUEUES, "four lines of each, beside that of the counts");
        assert!(pass(&lines) > 0);
    }

    #[test]
    fn a_chain_meets_all_runqueues() {
        let met: std::collections::BTreeSet<usize> = (0..QUEUES).map(|i| i * CHAIN_STEP % QUEUES).collect();
        assert_eq!(met.len(), QUEUES);
        let lines: Vec<Line> = (0..QUEUES * STRIDE).map(|_| Line::default()).collect();
        assert!(chain(&lines) < 1_000_000);
    }
}
