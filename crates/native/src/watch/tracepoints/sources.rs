//! Sources of a run's records: perf's rings, or a tracing instance if perf does not see everything.
//!
//! perf is preferred: its events end with their descriptors, and it changes nothing in the system. But on some kernels
//! perf does not see the idle task of a CPU: since 6.11 the recursion mark is per task, and a task that was marked at
//! its creation stays marked. Then neither the idle task's switches nor the wakeups in its interrupts are reported. A
//! few sleeps on each CPU before the run detect that ([`blind`]), and then a tracing instance is read instead. It has
//! the wakeups, but may lack switches from idle; those come from [`Arrivals`].

use super::arrivals::Arrivals;
use super::instance::{self, Instance};
use super::layout::{Layouts, NAMES, TracepointKind};
use super::ring::{Ring, RingItem, Source};
use crate::sys;
use schedlab_base::{CpuId, CpuSet};
use std::io;
use std::sync::atomic::{AtomicU32, Ordering};

/// Size of a CPU's ring, unless there are too many CPUs. A half full ring must be emptied during the measured time,
/// which keeps a CPU busy for tens of milliseconds. A quarter of this size was half full after a second of sleepers
/// that wake up 6,500 times a second on each CPU.
const RING_BYTES: usize = 16 << 20;
/// The requested size that replaces [`RING_BYTES`], KiB; 0: none. A process makes only one run.
static ASKED_KIB: AtomicU32 = AtomicU32::new(0);
/// Size of all rings together, unless each would be too small.
const ALL_RINGS_BYTES: usize = 256 << 20;
/// The smallest useful ring, bytes.
pub const LEAST_RING_BYTES: usize = 256 << 10;
/// Descriptors per CPU in addition to perf's events: a pipe and an arrivals ring of an instance, and a spool for each.
const MORE_FILES: usize = 4;
/// Descriptors reserved for the rest of the run, if the limit can be raised.
const SPARE_FILES: u64 = 256;
/// Number and length (ns) of the sleeps on each CPU: enough to see the idle task come and go.
const SLEEPS: usize = 5;
const SLEEP_NS: u64 = 200_000;
/// The most rounds of these sleeps on all CPUs together: 0.3 s if other tasks keep the CPUs busy.
const ROUNDS: usize = 240;
/// Number of missing switches from idle that makes a CPU blind. A single one may have another cause.
const MISSING: usize = 3;

/// A CPU's source, and how far it was read, ns.
pub struct Feed {
    pub source: Box<dyn Source>,
    /// Time of its last record.
    pub last_ns: u64,
}

/// All sources, in the order of dropping: readers before their instance.
pub struct Sources {
    /// By CPU, then those of [`Arrivals`].
    pub feeds: Vec<Feed>,
    /// Readable when a source is half full.
    pub bell: sys::Gathered,
    /// CPUs whose idle tasks perf does not report.
    pub blind: Vec<u32>,
    _instance: Option<Instance>,
}

/// Sets the size of rings, KiB; 0: the usual size. The kernel clears a new ring; for eight CPUs this takes as many
/// instructions as the rest of a short run.
pub fn ask(ring_kib: u32) {
    ASKED_KIB.store(ring_kib, Ordering::Relaxed);
}

/// Opens the sources that this machine needs.
///
/// # Errors
/// EACCES or EPERM without CAP_PERFMON.
pub fn open(online: &[u32], layouts: &Layouts, opened_ns: u64) -> io::Result<Sources> {
    if sys::is_root() {
        // perf's rings may suffice this time, but leftovers of a killed recorder still cost time.
        let _ = instance::clear_left();
    }
    make_room_for_files(online.len());
    let share = (ALL_RINGS_BYTES / online.len().max(1)).max(LEAST_RING_BYTES);
    let bytes = match ASKED_KIB.load(Ordering::Relaxed) {
        0 => RING_BYTES,
        kib => 1 << ((kib as usize) << 10).max(LEAST_RING_BYTES).ilog2(),
    };
    let bytes = bytes.min(1 << share.ilog2());
    let mut rings = Vec::with_capacity(online.len());
    for cpu in online {
        rings.push(Ring::open(*cpu, layouts, bytes)?);
    }
    let blind = if instance::may_be_had() { blind(online, &mut rings, layouts) } else { Vec::new() };
    let perf = |rings: Vec<Ring>| rings.into_iter().map(|r| Box::new(r) as Box<dyn Source>).collect();
    let (sources, instance) = if blind.is_empty() {
        (perf(rings), None)
    } else {
        match traced(online, &blind, bytes) {
            Ok((sources, instance)) => (sources, Some(instance)),
            // perf's records are better than nothing, and the analyser reports the gaps.
            Err(_) => (perf(rings), None),
        }
    };
    gathered(sources, opened_ns, blind, instance)
}

fn gathered(
    sources: Vec<Box<dyn Source>>,
    opened_ns: u64,
    blind: Vec<u32>,
    instance: Option<Instance>,
) -> io::Result<Sources> {
    let bell = sys::Gathered::new()?;
    for source in &sources {
        bell.add(source.as_ref())?;
    }
    let feeds = sources.into_iter().map(|source| Feed { source, last_ns: opened_ns }).collect();
    Ok(Sources { feeds, bell, blind, _instance: instance })
}

fn traced(online: &[u32], blind: &[u32], bytes: usize) -> io::Result<(Vec<Box<dyn Source>>, Instance)> {
    let instance = Instance::make(bytes)?;
    let mut sources: Vec<Box<dyn Source>> = Vec::new();
    for cpu in online {
        sources.push(Box::new(instance.pipe(*cpu)?));
    }
    for cpu in blind {
        sources.push(Box::new(Arrivals::open(*cpu, bytes)?));
    }
    Ok((sources, instance))
}

fn make_room_for_files(cpus: usize) {
    let files = (cpus * (NAMES.len() + MORE_FILES)) as u64 + SPARE_FILES;
    let (soft, hard) = sys::file_limit();
    if soft < files + SPARE_FILES {
        // If this is not allowed, opening too many files fails later with an error.
        let _ = sys::set_file_limit(hard.min(files + SPARE_FILES));
    }
}

/// The CPUs whose idle tasks' switches are not reported: after a switch to idle, a task leaves the CPU that never came.
/// The caller sleeps on each CPU to find them, and repeats this if other tasks kept the CPU from going idle.
pub fn blind(online: &[u32], rings: &mut [Ring], layouts: &Layouts) -> Vec<u32> {
    let Ok(mine) = sys::affinity() else { return Vec::new() };
    let (mut blind, rounds) = (Vec::new(), (ROUNDS / online.len().max(1)).max(1));
    for (cpu, ring) in online.iter().zip(rings) {
        let one: CpuSet = [CpuId(*cpu)].into_iter().collect();
        let mut seen = FromIdle::default();
        for _ in 0..rounds {
            // Skip a CPU that this process may not use.
            if seen.is_clear() || sys::set_affinity(&one).is_err() {
                break;
            }
            (0..SLEEPS).for_each(|_| _ = sys::sleep_for(SLEEP_NS));
            seen.look(ring, layouts);
        }
        blind.extend((seen.missing >= MISSING).then_some(*cpu));
    }
    // This can't fail: it is the thread's own old mask.
    let _ = sys::set_affinity(&mine);
    blind
}

#[derive(Default)]
struct FromIdle {
    idle: bool,
    there: usize,
    missing: usize,
}

impl FromIdle {
    fn is_clear(&self) -> bool {
        self.there >= MISSING || self.missing >= MISSING
    }
    fn look(&mut self, ring: &mut Ring, layouts: &Layouts) {
        ring.empty(layouts, &mut |seen| {
            if let RingItem::Record(held, ..) = seen
                && let TracepointKind::Switch { prev, next, .. } = held.what
            {
                self.switch(prev, next);
            }
        });
    }
    fn switch(&mut self, prev: u32, next: u32) {
        self.there += usize::from(prev == 0);
        self.missing += usize::from(self.idle && prev != 0);
        self.idle = next == 0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use schedlab_base::testing::skipped;

    #[test]
    fn switches_from_idle_are_missed_only_where_a_task_leaves_that_never_came() {
        let mut seen = FromIdle::default();
        for (prev, next) in [(5, 0), (0, 5), (5, 6), (6, 0), (0, 7), (7, 0)] {
            seen.switch(prev, next);
        }
        assert_eq!((seen.there, seen.missing), (2, 0));
        (0..MISSING).for_each(|_| seen.switch(5, 0));
        assert_eq!((seen.missing, seen.is_clear()), (MISSING, true));
    }

    #[test]
    fn an_instance_records_every_sleep_and_is_removed_afterwards() {
        if !instance::may_be_had() {
            return skipped("root and tracefs");
        }
        let (layouts, cpu) =
            (super::super::tracefs::layouts().unwrap(), sys::affinity().unwrap().iter().next().unwrap());
        let before = sys::affinity().unwrap();
        sys::set_affinity(&[cpu].into_iter().collect()).unwrap();
        // Room for other tests' events on this CPU: the smallest ring is full in a tenth of a second.
        let instance = Instance::make(64 * LEAST_RING_BYTES).unwrap();
        let (mut pipe, me, began) = (instance.pipe(cpu.0).unwrap(), sys::thread_id(), sys::monotonic_ns());
        (0..50).for_each(|_| _ = sys::sleep_for(100_000));
        let ended = sys::monotonic_ns();
        sys::set_affinity(&before).unwrap();
        let (mut left, mut woken) = (0, 0);
        pipe.empty(&layouts, &mut |seen| {
            let RingItem::Record(held, ..) = seen else { panic!("records were lost") };
            if !(began..=ended).contains(&held.at_ns) {
                return;
            }
            match held.what {
                TracepointKind::Switch { prev, why: schedlab_trace::SwitchReason::Blocked, .. }
                    if prev == me =>
                {
                    left += 1
                }
                TracepointKind::Waking { thread, .. } if thread == me => woken += 1,
                _ => {}
            }
        });
        assert_eq!((left, woken), (50, 50));
        let folder = instance.folder().to_owned();
        assert!(folder.exists());
        drop((pipe, instance));
        assert!(!folder.exists());
    }
}
