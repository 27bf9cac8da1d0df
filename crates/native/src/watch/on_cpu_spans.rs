//! Live stays of tasks on CPUs: the analyser of events reads the kernel's records of context switches.
//!
//! Each CPU has one software event (PERF_COUNT_SW_DUMMY with `context_switch`, Linux 4.3; since 4.17 with the reason
//! why a task left). All tasks of the run inherit it; it writes into a ring of that CPU. Only the run's own tasks are
//! recorded, so perf_event_paranoid 2 needs no privilege. A switch between two of them takes two records of 24 bytes,
//! some 0.3 us. The controller sleeps until a ring is half full, and then only copies. If tasks switch more often than
//! [`MOST_PER_S`] times a second on a CPU, recording would disturb the run: it ends for that run, whose figures are
//! then absent, with the reason.
//!
//! The kernel reports only whether a leaving task was still runnable (`preempted`, including sched_yield) or not
//! (`blocked`). Other tasks are not seen: for the analyser a CPU without one of the run's tasks is idle, and only its
//! findings about stays are kept.

use crate::sys;
use crate::watch::findings::ObserverFindings;
use perf_event::events::Software;
use perf_event::{Builder, Clock, Record, SampleFlag, Sampler};
use schedlab_analyse::{Analyser, TaskName};
use schedlab_base::{CpuId, CpuSet, Ns, TaskId, Warning};
use schedlab_record::Findings;
use schedlab_trace::{Event, EventKind, Sink, SwitchReason};
use std::collections::BTreeMap;
use std::io;
use std::os::fd::BorrowedFd;

/// The most recorded switches per second on one CPU: recording them takes about 0.6 % of its time.
const MOST_PER_S: u64 = 20_000;
/// A rate needs at least this many records.
const LEAST_FOR_A_RATE: u64 = 4_000;
/// The most opened events, tasks times CPUs: each takes a kilobyte of the kernel's memory.
const MOST_EVENTS: usize = 16_384;
/// The most records kept before the analyser gets them during the run: 100 MB.
const MOST_HELD: usize = 4 << 20;
/// Bytes of a ring. By default a user may lock one page more per CPU (perf_event_mlock_kb).
const RING_BYTES: usize = 512 << 10;
/// The smallest useful ring, bytes.
const LEAST_RING_BYTES: usize = 16 << 10;
/// A record is in its ring at most this long after its own time.
const SETTLED: Ns = Ns::ms(5);

const RECORD_LOST: u32 = 2;
const RECORD_SWITCH: u32 = 14;
const MISC_SWITCH_OUT: u16 = 1 << 13;
const MISC_SWITCH_OUT_PREEMPT: u16 = 1 << 14;

/// The effect of a switch on the task.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Way {
    In,
    Slept,
    Preempted,
}

/// A record: a task came or left.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Switch {
    at_ns: u64,
    thread: u32,
    cpu: CpuId,
    way: Way,
}

struct Ring {
    cpu: CpuId,
    sampler: Sampler,
    /// Time when it was last emptied.
    since_ns: u64,
}

pub struct OnCpuRecorder {
    rings: Vec<Ring>,
    /// Readable when a ring is half full.
    bell: Option<sys::Gathered>,
    /// Why nothing is recorded, or nothing more.
    off: Option<String>,
    /// The controller's thread, which is not a task of the run.
    myself: u32,
    names: Vec<TaskName>,
    threads: BTreeMap<u32, TaskId>,
    held: Vec<Switch>,
    lost: u64,
    opened_ns: u64,
    ended_ns: u64,
    analyser: Option<Analyser>,
}

impl OnCpuRecorder {
    /// Opens one event for each of `cpus`; tasks that the caller makes from now on inherit them. `names` are by task
    /// id.
    pub fn open(cpus: &CpuSet, names: &[String]) -> OnCpuRecorder {
        let named = |name: &String| TaskName { name: name.clone(), background: false };
        let mut stays = OnCpuRecorder {
            rings: Vec::new(),
            bell: None,
            off: None,
            myself: sys::thread_id(),
            names: names.iter().map(named).collect(),
            threads: BTreeMap::new(),
            held: Vec::new(),
            lost: 0,
            opened_ns: sys::monotonic_ns(),
            ended_ns: 0,
            analyser: None,
        };
        let events = cpus.iter().count().saturating_mul(names.len());
        if events > MOST_EVENTS {
            stays.end(format!("{} tasks on so many CPUs are too many to record their switches", names.len()));
        } else if let Err(e) = stays.open_rings(cpus) {
            stays.end(format!("context switches can't be recorded: {e}"));
        }
        stays
    }

    fn open_rings(&mut self, cpus: &CpuSet) -> io::Result<()> {
        let bell = sys::Gathered::new()?;
        for cpu in cpus.iter() {
            let sampler = ring(cpu)?;
            bell.add(&sampler)?;
            self.rings.push(Ring { cpu, sampler, since_ns: self.opened_ns });
        }
        self.bell = Some(bell);
        Ok(())
    }

    fn end(&mut self, why: String) {
        self.off = Some(why);
        self.rings.clear();
        self.bell = None;
        self.held = Vec::new();
    }

    /// Readable when [`OnCpuRecorder::read`] should be called.
    pub fn fd(&self) -> Option<BorrowedFd<'_>> {
        self.bell.as_ref().map(sys::Gathered::fd)
    }

    /// Starts the measured time.
    pub fn measure(&mut self, threads: impl Iterator<Item = (u32, TaskId)>) {
        if self.off.is_some() {
            return;
        }
        self.empty_rings(threads);
        self.lost = 0;
        let now_ns = sys::monotonic_ns();
        self.rings.iter_mut().for_each(|r| r.since_ns = now_ns);
        let cpus = self.rings.iter().map(|r| r.cpu.index() + 1).max().unwrap_or(0);
        let from = Ns(now_ns - self.opened_ns);
        self.analyser = Some(Analyser::new(cpus, self.names.clone(), Vec::new(), from).keeping(0));
    }

    /// Empties the rings. `threads`: the currently known thread ids of tasks.
    pub fn read(&mut self, threads: impl Iterator<Item = (u32, TaskId)>) {
        let now_ns = sys::monotonic_ns();
        self.empty_rings(threads);
        if self.held.len() >= MOST_HELD {
            self.analyse(now_ns.saturating_sub(SETTLED.0));
        }
    }

    fn empty_rings(&mut self, threads: impl Iterator<Item = (u32, TaskId)>) {
        if self.off.is_some() {
            return;
        }
        self.threads.extend(threads);
        let mut fast = None;
        for ring in &mut self.rings {
            let (mut records, cpu) = (0, ring.cpu);
            while let Some(record) = ring.sampler.next_record() {
                records += 1;
                match RingRecord::of(&record, cpu) {
                    RingRecord::Switch(switch) if switch.thread != self.myself => self.held.push(switch),
                    RingRecord::Lost(n) => self.lost += n,
                    RingRecord::Switch(_) | RingRecord::Other => {}
                }
            }
            let now_ns = sys::monotonic_ns();
            let took_ns = now_ns - std::mem::replace(&mut ring.since_ns, now_ns);
            if self.analyser.is_some() && too_fast(records, took_ns) {
                fast = Some(records / 2 * 1_000_000_000 / took_ns.max(1));
            }
        }
        if let Some(rate) = fast {
            self.end(format!(
                "{rate} context switches a second on one CPU: to record more than {MOST_PER_S} would disturb the run"
            ));
        }
    }

    /// Passes all records up to `until_ns` to the analyser, in order of time.
    fn analyse(&mut self, until_ns: u64) {
        let Some(analyser) = &mut self.analyser else { return };
        // A stable sort keeps the order of each ring's records.
        self.held.sort_by_key(|s| s.at_ns);
        let settled = self.held.partition_point(|s| s.at_ns <= until_ns);
        for switch in self.held.drain(..settled) {
            let task = task_of(&mut self.threads, switch.thread, self.names.len());
            analyser.event(&switch.event(task, self.opened_ns));
        }
    }

    /// Ends the measured time at `end_ns`; `threads` as for [`OnCpuRecorder::read`].
    pub fn close(&mut self, end_ns: u64, threads: impl Iterator<Item = (u32, TaskId)>) {
        self.empty_rings(threads);
        self.rings.clear();
        self.bell = None;
        self.ended_ns = end_ns;
    }

    pub fn found(mut self) -> ObserverFindings {
        self.analyse(self.ended_ns);
        let lost = self.lost;
        let Some(analyser) = self.analyser.take().filter(|_| self.off.is_none()) else {
            let unmeasured = self.off.into_iter().map(|why| ("slice", why)).collect();
            return ObserverFindings { unmeasured, ..ObserverFindings::default() };
        };
        let seen = analyser.finish(Ns(self.ended_ns.saturating_sub(self.opened_ns)));
        let is_told = |name: &str| ["slice.end.blocked", "slice.end.preempted"].contains(&name);
        let text = || {
            format!(
                "{} of context switches {} lost: the stays they belong to are left out",
                schedlab_base::counted(lost, "record"),
                schedlab_base::one_or(lost, "was", "were")
            )
        };
        let seen = Findings {
            series: seen.series.into_iter().filter(|(name, _)| name == "slice").collect(),
            counters: seen.counters.into_iter().filter(|(name, _)| is_told(name)).collect(),
            warnings: (lost > 0).then(|| Warning::new("slice.lost", text())).into_iter().collect(),
            ..Findings::default()
        };
        ObserverFindings { seen, ..ObserverFindings::default() }
    }
}

/// The task of a thread. A thread that lived only between two reads gets the first free id.
fn task_of(threads: &mut BTreeMap<u32, TaskId>, thread: u32, tasks: usize) -> TaskId {
    if let Some(task) = threads.get(&thread) {
        return *task;
    }
    let taken: std::collections::BTreeSet<TaskId> = threads.values().copied().collect();
    let free = (0..tasks).map(TaskId::from).find(|t| !taken.contains(t)).unwrap_or(TaskId::from(tasks));
    threads.insert(thread, free);
    free
}

fn too_fast(records: u64, took_ns: u64) -> bool {
    let most = u128::from(MOST_PER_S) * 2 * u128::from(took_ns);
    records >= LEAST_FOR_A_RATE && u128::from(records) * 1_000_000_000 > most
}

/// The event of a CPU with its ring; the ring is smaller if this user may not lock that much.
fn ring(cpu: CpuId) -> io::Result<Sampler> {
    let mut bytes = RING_BYTES;
    loop {
        let mut event = Builder::new(Software::DUMMY);
        event.observe_self().one_cpu(cpu.index()).inherit(true).exclude_kernel(true).exclude_hv(true);
        event.context_switch(true).sample_id_all(true).sample(SampleFlag::TID | SampleFlag::TIME);
        event.clockid(Clock::MONOTONIC).wakeup_watermark(bytes / 2).enabled(true);
        match event.build()?.sampled(bytes) {
            Err(e) if e.raw_os_error() == Some(libc::EPERM) && bytes > LEAST_RING_BYTES => bytes /= 2,
            done => return done,
        }
    }
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum RingRecord {
    Switch(Switch),
    /// This many records did not fit.
    Lost(u64),
    Other,
}

impl RingRecord {
    fn of(record: &Record<'_>, cpu: CpuId) -> RingRecord {
        RingRecord::parse(record.ty(), record.misc(), &record.to_contiguous(), cpu)
    }
    /// Every record ends with process, thread (32 bits each) and time (64 bits), because the event requests them.
    fn parse(kind: u32, misc: u16, bytes: &[u8], cpu: CpuId) -> RingRecord {
        let Some((before, [_, _, _, _, t0, t1, t2, t3, time @ ..])) = bytes.split_last_chunk::<16>() else {
            return RingRecord::Other;
        };
        let mut at = [0; 8];
        at.copy_from_slice(time);
        match kind {
            RECORD_SWITCH => RingRecord::Switch(Switch {
                at_ns: u64::from_ne_bytes(at),
                thread: u32::from_ne_bytes([*t0, *t1, *t2, *t3]),
                cpu,
                way: match misc {
                    m if m & MISC_SWITCH_OUT == 0 => Way::In,
                    m if m & MISC_SWITCH_OUT_PREEMPT == 0 => Way::Slept,
                    _ => Way::Preempted,
                },
            }),
            RECORD_LOST => {
                before.last_chunk().map_or(RingRecord::Other, |n| RingRecord::Lost(u64::from_ne_bytes(*n)))
            }
            _ => RingRecord::Other,
        }
    }
}

impl Switch {
    fn event(self, task: TaskId, opened_ns: u64) -> Event {
        let (prev, next, why) = match self.way {
            Way::In => (None, Some(task), SwitchReason::FromIdle),
            Way::Slept => (Some(task), None, SwitchReason::Blocked),
            Way::Preempted => (Some(task), None, SwitchReason::Preempted),
        };
        let at = Ns(self.at_ns.saturating_sub(opened_ns));
        Event { at, cpu: self.cpu, kind: EventKind::Switch { prev, next, why } }
    }
}

#[cfg(test)]
#[path = "on_cpu_spans_tests.rs"]
mod tests;
