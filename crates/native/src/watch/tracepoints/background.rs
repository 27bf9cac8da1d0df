//! The own work of an idle machine: all switches and wakeups for a while, for [`schedlab_analyse::background`].
//!
//! The system's own threads are recognised by /proc, which is read after the recording. A thread that is gone by then
//! is known only by its name and its creator's. The recorder wakes up at most once a second, and its own threads are
//! excluded.

use super::layout::{Layouts, TracepointKind};
use super::ring::{RingItem, TimedRecord};
use super::sources::{self, Sources};
use super::translate::Translator;
use super::{SETTLED, instance, is_news, note_name, refused, tracefs};
use crate::sys;
use crate::watch::counters::watch::online;
use schedlab_analyse::background::{Activity, Thread, ThreadFacts};
use schedlab_base::{CpuSet, Error, ErrorKind, Ns, Result};
use std::collections::BTreeMap;
use std::fs;
use std::sync::atomic::{AtomicBool, Ordering};

/// Interval of checks for Ctrl-C.
const LOOK_EVERY: Ns = Ns::secs(1);
/// The most records kept before they are reduced: 32 MB.
const MOST_HELD: usize = 1 << 20;
/// The shortest useful recording.
const LEAST: Ns = Ns::secs(1);
/// The flag of kernel threads (PF_KTHREAD) in /proc/PID/stat.
const KERNEL_THREAD: u64 = 0x0020_0000;
/// Scheduling policies above the fair class: FIFO, RR, DEADLINE.
const REAL_TIME: [u64; 3] = [1, 2, 6];

pub struct Watched {
    /// All threads that ran, except the recorder's, with facts about those that still exist.
    pub threads: Vec<(Thread, Option<ThreadFacts>)>,
    pub cpus: usize,
    pub window: Ns,
    /// Number of lost records; the recording ended with the first one.
    pub lost: u64,
}

/// # Errors
/// When this user may not record events here, with a remedy; and when `stop` was set.
pub fn watch(length: Ns, stop: &AtomicBool) -> Result<Watched> {
    let layouts = tracefs::layouts()?;
    let online = online()?;
    let opened_ns = sys::monotonic_ns();
    let sources = sources::open(&online, &layouts, opened_ns).map_err(|e| refused(&e))?;
    // Opening has woken threads on each CPU, so the time begins now.
    let began_ns = sys::monotonic_ns();
    let mut recording = Recording::new(layouts, sources, began_ns);
    let end_ns = began_ns.saturating_add(length.0);
    loop {
        let now_ns = sys::monotonic_ns();
        if stop.load(Ordering::SeqCst) {
            return Err(Error::new(ErrorKind::CheckFailed, "interrupted: nothing of this recording is kept"));
        }
        if now_ns >= end_ns || recording.ended_ns.is_some() {
            break;
        }
        let [full] =
            sys::wait_readable([Some(recording.sources.bell.fd())], LOOK_EVERY.0.min(end_ns - now_ns));
        if full {
            recording.read();
        }
    }
    recording.finish(end_ns, online.len())
}

struct Recording {
    layouts: Layouts,
    sources: Sources,
    reduction: Reduction,
    held: Vec<TimedRecord>,
    lost: u64,
    /// The time of the first loss.
    ended_ns: Option<u64>,
}

/// Turns records into events, and events into arrivals.
struct Reduction {
    translator: Translator,
    activity: Activity,
    /// The running thread of each CPU, if switches from idle may be reported twice.
    running: Option<BTreeMap<u32, u32>>,
    from_ns: u64,
}

impl Recording {
    fn new(layouts: Layouts, sources: Sources, from_ns: u64) -> Recording {
        let reduction = Reduction::new(from_ns, !sources.blind.is_empty());
        Recording { layouts, sources, reduction, held: Vec::new(), lost: 0, ended_ns: None }
    }

    fn read(&mut self) {
        let now_ns = sys::monotonic_ns();
        let Recording { layouts, sources, reduction, held, lost, ended_ns } = self;
        for feed in &mut sources.feeds {
            let last_ns = &mut feed.last_ns;
            feed.source.empty(layouts, &mut |seen| match seen {
                RingItem::Record(mut record, _, raw) => {
                    // An interrupt's record may precede the record that it interrupted, which has an earlier time.
                    record.at_ns = record.at_ns.max(*last_ns);
                    *last_ns = record.at_ns;
                    if let TracepointKind::Switch { prev, .. } = record.what
                        && let Some(name) = layouts.name(raw)
                    {
                        note_name(&mut reduction.translator.names, prev, name);
                    }
                    held.push(record);
                }
                RingItem::Lost(n) => {
                    *lost += n;
                    *ended_ns = Some(ended_ns.map_or(*last_ns, |ended| ended.min(*last_ns)));
                }
            });
        }
        if self.held.len() >= MOST_HELD {
            self.reduction.take(&mut self.held, now_ns.saturating_sub(SETTLED.0));
        }
    }

    fn finish(mut self, end_ns: u64, cpus: usize) -> Result<Watched> {
        self.read();
        let Recording { sources, mut reduction, mut held, lost, ended_ns, .. } = self;
        drop(sources);
        let end_ns = ended_ns.map_or(end_ns, |ended| ended.min(end_ns));
        let window = Ns(end_ns.saturating_sub(reduction.from_ns));
        if window < LEAST {
            let text = format!(
                "{} {} lost within the first {LEAST}: this machine is not idle",
                schedlab_base::counted(lost, "event"),
                schedlab_base::one_or(lost, "was", "were")
            );
            return Err(Error::machine(text).help("stop what runs, and try again"));
        }
        reduction.take(&mut held, end_ns);
        let mut facts = facts(&reduction.translator);
        let threads = reduction.activity.finish(window).into_iter().enumerate();
        let threads = threads.filter_map(|(at, thread)| match facts.remove(&at) {
            Some(ProcThread::Ours) => None,
            Some(ProcThread::Of(facts)) => Some((thread, Some(facts))),
            None => Some((thread, None)),
        });
        Ok(Watched { threads: threads.collect(), cpus, window, lost })
    }
}

impl Reduction {
    fn new(from_ns: u64, twice: bool) -> Reduction {
        Reduction {
            translator: Translator::new(from_ns, BTreeMap::new()),
            activity: Activity::default(),
            running: twice.then(BTreeMap::new),
            from_ns,
        }
    }
    /// Reduces the records up to `until_ns`, in order of time.
    fn take(&mut self, held: &mut Vec<TimedRecord>, until_ns: u64) {
        // A stable sort keeps the order of each CPU's records.
        held.sort_by_key(|h| h.at_ns);
        let settled = held.partition_point(|h| h.at_ns <= until_ns);
        for record in held.drain(..settled).filter(|h| h.at_ns >= self.from_ns) {
            if self.running.as_mut().is_none_or(|running| is_news(running, &record)) {
                self.translator.translate(&record, &mut self.activity);
            }
        }
    }
}

enum ProcThread {
    /// The recorder's own.
    Ours,
    Of(ThreadFacts),
}

/// Facts in /proc about threads that still exist, by number in the [`Activity`]. Empty if /proc numbers threads
/// differently from the kernel's events.
fn facts(translator: &Translator) -> BTreeMap<usize, ProcThread> {
    if !instance::threads_have_the_kernels_numbers() {
        return BTreeMap::new();
    }
    translator.threads().filter_map(|(thread, task)| Some((task.index(), known(thread)?))).collect()
}

fn known(thread: u32) -> Option<ProcThread> {
    let status = fs::read_to_string(format!("/proc/{thread}/status")).ok()?;
    let process: u32 = status.lines().find_map(|l| l.strip_prefix("Tgid:"))?.trim().parse().ok()?;
    if process == std::process::id() {
        return Some(ProcThread::Ours);
    }
    let stat = fs::read_to_string(format!("/proc/{thread}/stat")).ok()?;
    let name = fs::read_to_string(format!("/proc/{process}/comm")).ok()?;
    let cpus = sys::affinity_of(thread).unwrap_or_default();
    facts_of(&stat, name.trim_end(), cpus).map(ProcThread::Of)
}

/// The facts in a thread's `stat`; its name, in parentheses, may contain anything.
fn facts_of(stat: &str, process: &str, cpus: CpuSet) -> Option<ThreadFacts> {
    let fields: Vec<&str> = stat.rsplit_once(')')?.1.split_whitespace().collect();
    // proc(5) numbers fields from 1; the first one after the name is the third.
    let field = |number: usize| fields.get(number - 3).copied();
    Some(ThreadFacts {
        kernel: field(9)?.parse::<u64>().ok()? & KERNEL_THREAD != 0,
        process: process.to_owned(),
        cpus,
        nice: field(19)?.parse().ok()?,
        real_time: REAL_TIME.contains(&field(41)?.parse().ok()?),
    })
}

#[cfg(test)]
#[path = "background_tests.rs"]
mod tests;
