//! Records the live schedule: every switch, wakeup and migration of the system, for a while.
//!
//! The sources are those of a watched run ([`sources`]): perf's rings, which leave nothing behind, or schedlab's own
//! tracing instance. Records are copied to files ([`spool`](super::spool)) and read after the recording, in order of
//! time, so memory does not depend on its length. Then they are processed like any recording ([`Importer`]). A loss
//! ends the stays and waits around it, and is counted; the recording continues.

use super::instance::threads_have_the_kernels_numbers;
use super::layout::{Layouts, TracepointKind};
use super::ring::RingItem;
use super::sources::{self, Sources};
use super::spool::{Spool, Spooled, Unspool};
use super::task_table::Census;
use super::{is_news_of, machine_numbers, refused, tracefs};
use crate::sys;
use crate::watch::counters::watch::{self, Output, WatchOptions, online};
use schedlab_base::{Ns, Result, Warning};
use schedlab_import::binary::fields::{Record, Tracepoints};
use schedlab_import::sched_record::{Comm, RecordKind, SchedRecord, Thread, UNKNOWN_PROCESS};
use schedlab_import::{Audience, Imported, Importer, KnownThread, text};
use schedlab_machine::Machine;
use schedlab_trace::{Cast, SwitchReason};
use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};

/// Rings are drained at least this often, so the process of a thread with a shorter life may be unknown.
const LOOK_EVERY: Ns = Ns::ms(250);

/// A running recording. Dropping it disables everything that it enabled.
pub struct Recorder {
    layouts: Layouts,
    tracepoints: Tracepoints,
    sources: Sources,
    /// A file per source, with the CPU of sources that report only one.
    spools: Vec<(Spool, u32)>,
    census: Option<Census>,
    /// CPUs online at the beginning.
    online: Vec<u32>,
    known: BTreeMap<u32, KnownThread>,
    /// Facts about threads made during the recording, by thread id and time of creation.
    newcomers: BTreeMap<(u32, u64), KnownThread>,
    began_ns: u64,
}

pub struct FinishedRecording {
    tracepoints: Tracepoints,
    parts: Vec<(Unspool, u32)>,
    known: BTreeMap<u32, KnownThread>,
    newcomers: BTreeMap<(u32, u64), KnownThread>,
    began_ns: u64,
    ended_ns: u64,
    /// Whether switches from idle may be reported twice.
    twice: bool,
    /// CPUs that came or went during the recording.
    moved: Vec<u32>,
}

pub struct RecordingResult {
    /// Results other than events.
    pub imported: Imported,
    /// Important facts for the reader, other than losses.
    pub warnings: Vec<Warning>,
}

impl Recorder {
    /// Begins to record on all CPUs, into unnamed files in `folder`.
    ///
    /// # Errors
    /// When this user may not record events here, with a remedy; when `folder` can't be written.
    pub fn begin(folder: &Path) -> Result<Recorder> {
        let (layouts, tracepoints) = (tracefs::layouts()?, tracefs::tracepoints()?);
        let online = online()?;
        let sources = sources::open(&online, &layouts, sys::monotonic_ns()).map_err(|e| refused(&e))?;
        let cpus = online.iter().chain(&sources.blind).copied();
        let spool = |(_, cpu)| Ok((Spool::create(folder)?, cpu));
        let spools = sources.feeds.iter().zip(cpus).map(spool).collect::<Result<_>>()?;
        let mut census = threads_have_the_kernels_numbers().then(Census::default);
        let known = census.as_mut().map(Census::everyone).unwrap_or_default();
        let began_ns = sys::monotonic_ns();
        let newcomers = BTreeMap::new();
        let mut recorder =
            Recorder { layouts, tracepoints, sources, spools, census, online, known, newcomers, began_ns };
        // Earlier records are read now, so that they take no space.
        recorder.empty();
        Ok(recorder)
    }

    /// Records until `length` has passed, or `stop` is set.
    pub fn for_a_while(&mut self, length: Ns, stop: &AtomicBool) {
        let end_ns = self.began_ns.saturating_add(length.0);
        loop {
            let now_ns = sys::monotonic_ns();
            if now_ns >= end_ns || stop.load(Ordering::SeqCst) {
                return;
            }
            sys::wait_readable([Some(self.sources.bell.fd())], LOOK_EVERY.0.min(end_ns - now_ns));
            self.empty();
        }
    }

    /// Records until the command ends; returns its process id and exit code. It keeps its terminal; with `aside`, its
    /// standard output goes to standard error. When `stop` becomes true it gets two seconds to end, then SIGTERM.
    ///
    /// # Errors
    /// When the command can't be started.
    pub fn around(&mut self, words: &[String], aside: bool, stop: &AtomicBool) -> Result<(u32, u8)> {
        let output = if aside { Output::Aside } else { Output::Kept };
        let started = watch::start(words, WatchOptions { output, ..WatchOptions::default() })?;
        let process = started.id();
        let watched = started.finish(stop, &mut || self.empty())?;
        Ok((process, watched.code()))
    }

    /// Moves records from the sources into the files.
    fn empty(&mut self) {
        let Recorder { layouts, sources, spools, began_ns, census, newcomers, .. } = self;
        for (feed, (spool, cpu)) in sources.feeds.iter_mut().zip(spools) {
            let last_ns = &mut feed.last_ns;
            feed.source.empty(layouts, &mut |seen| match seen {
                RingItem::Record(record, thread, raw) => {
                    // An interrupt's record may precede the record that it interrupted, which has an earlier time.
                    *last_ns = record.at_ns.max(*last_ns);
                    if *last_ns < *began_ns {
                        return;
                    }
                    if let TracepointKind::Fork { child, .. } = record.what
                        && let Some(known) = census.as_mut().and_then(|c| c.newcomer(child))
                    {
                        newcomers.insert((child, *last_ns), known);
                    }
                    let what = if raw.is_empty() { Spooled::Arrived(thread) } else { Spooled::Raw(raw) };
                    spool.put(*last_ns, record.cpu, &what);
                }
                RingItem::Lost(n) => spool.put(*last_ns, *cpu, &Spooled::Lost(n)),
            });
        }
    }

    /// Ends the recording: disables everything that it enabled.
    ///
    /// # Errors
    /// When records could not be written.
    pub fn end(mut self) -> Result<FinishedRecording> {
        let ended_ns = sys::monotonic_ns();
        self.empty();
        let Recorder { tracepoints, sources, spools, known, newcomers, began_ns, online: before, .. } = self;
        let twice = !sources.blind.is_empty();
        drop(sources);
        let parts = spools.into_iter().map(|(spool, cpu)| Ok((spool.read()?, cpu))).collect::<Result<_>>()?;
        let now = online()?;
        let is_moved = |cpu: &u32| before.contains(cpu) != now.contains(cpu);
        let mut moved: Vec<u32> = before.iter().chain(&now).copied().filter(is_moved).collect();
        moved.sort_unstable();
        Ok(FinishedRecording { tracepoints, parts, known, newcomers, began_ns, ended_ns, twice, moved })
    }
}

impl FinishedRecording {
    pub fn length(&self) -> Ns {
        Ns(self.ended_ns - self.began_ns)
    }

    /// Passes the events to the audience. If there is a machine, CPUs get its numbers. `None`: `stop` ended it.
    pub fn replay(
        mut self,
        machine: Option<&Machine>,
        audience: &mut impl Audience,
        stop: &AtomicBool,
    ) -> Option<RecordingResult> {
        let numbers: BTreeMap<u32, u32> =
            machine.into_iter().flat_map(machine_numbers).map(|(kernel, ours)| (kernel, ours.0)).collect();
        let number = |cpu: u32| numbers.get(&cpu).copied().unwrap_or(cpu);
        let mut importer = Importer::new(audience);
        for (tid, known) in std::mem::take(&mut self.known) {
            importer.introduce(tid, known);
        }
        let mut running = self.twice.then(BTreeMap::new);
        let (mut others, mut unseen) = (0, Unseen::default());
        let mut next = BinaryHeap::new();
        for (at, (part, _)) in self.parts.iter_mut().enumerate() {
            next.extend(part.advance().map(|at_ns| Reverse((at_ns, at))));
        }
        while let Some(Reverse((at_ns, at))) = next.pop() {
            if stop.load(Ordering::Relaxed) {
                return None;
            }
            let (part, _) = &mut self.parts[at];
            let (cpu, spooled) = part.record();
            let told = match spooled {
                _ if at_ns > self.ended_ns => None,
                Spooled::Lost(count) => {
                    text::note(&mut importer.losses, count);
                    importer.lost(number(cpu), count);
                    unseen.lost(cpu);
                    None
                }
                Spooled::Arrived(thread) => Some(arrival(at_ns, cpu, thread)),
                Spooled::Raw(raw) => match self.tracepoints.read(raw) {
                    Record::Event(current, what) => {
                        Some(SchedRecord { at_ns, cpu, current, process: UNKNOWN_PROCESS, what })
                    }
                    Record::Other => {
                        others += 1;
                        None
                    }
                    Record::Unreadable => {
                        importer.losses.unreadable(importer.records() + 1);
                        None
                    }
                },
            };
            if let Some(told) = told.filter(|told| running.as_mut().is_none_or(|r| is_news(r, told))) {
                if let RecordKind::Fork { child, .. } = told.what
                    && let Some(known) = self.newcomers.remove(&(child.tid, at_ns))
                {
                    importer.introduce(child.tid, known);
                }
                unseen.look(&told);
                importer.record(renumbered(told, &number));
            }
            next.extend(part.advance().map(|at_ns| Reverse((at_ns, at))));
        }
        let release = std::fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
        let cpus = self.parts.iter().map(|(_, cpu)| number(*cpu) + 1).max();
        let told = importer.finish(cpus, Some(release.trim().to_owned()));
        let warnings = hotplug(&self.moved).into_iter().chain(unseen.warning(&told.cast)).collect();
        Some(RecordingResult { imported: Imported { others, ..told }, warnings })
    }
}

/// CPUs that came or went are recorded partly or not at all.
fn hotplug(moved: &[u32]) -> Option<Warning> {
    let cpus: Vec<String> = moved.iter().map(u32::to_string).collect();
    let words = format!(
        "CPUs came or went during the recording ({}): what ran there is recorded in part or not at all",
        cpus.join(", ")
    );
    (!moved.is_empty()).then(|| Warning::new("record.hotplug", words))
}

/// Threads that leave a CPU unreported: another thread leaves the CPU to which they came. Perf skips the records of a
/// task with its recursion mark.
#[derive(Default)]
struct Unseen {
    running: BTreeMap<u32, u32>,
    /// How often each thread's leaving was missing.
    missing: BTreeMap<u32, u64>,
}

impl Unseen {
    fn lost(&mut self, cpu: u32) {
        self.running.remove(&cpu);
    }
    #[inline]
    fn look(&mut self, told: &SchedRecord) {
        let RecordKind::Switch { prev, next, .. } = told.what else { return };
        if let Some(before) = self.running.insert(told.cpu, next.tid)
            && before != prev.tid
            && before != 0
        {
            *self.missing.entry(before).or_default() += 1;
        }
    }
    fn warning(&self, cast: &Cast) -> Option<Warning> {
        let (tid, most) = self.missing.iter().max_by_key(|(_, n)| **n)?;
        let name = cast.tasks.iter().find(|a| a.tid == *tid).map_or("thread", |a| a.name.as_str());
        let all: u64 = self.missing.values().sum();
        let words = format!(
            "the kernel did not report {} away from {}, most of them ({most}) from {name}:{tid}: \
             these stays are left out",
            schedlab_base::counted(all, "switch"),
            schedlab_base::counted(self.missing.len(), "thread")
        );
        Some(Warning::new("record.unseen", words))
    }
}

/// A thread came to its CPU after idle.
fn arrival(at_ns: u64, cpu: u32, thread: u32) -> SchedRecord {
    let of = |tid| Thread { tid, comm: Comm::default(), prio: None };
    let what = RecordKind::Switch { prev: of(0), next: of(thread), why: SwitchReason::FromIdle };
    SchedRecord { at_ns, cpu, current: 0, process: UNKNOWN_PROCESS, what }
}

/// False for the second report of a task that came to its CPU after idle.
fn is_news(running: &mut BTreeMap<u32, u32>, told: &SchedRecord) -> bool {
    let RecordKind::Switch { prev, next, .. } = told.what else { return true };
    is_news_of(running, told.cpu, prev.tid, next.tid)
}

fn renumbered(told: SchedRecord, number: &impl Fn(u32) -> u32) -> SchedRecord {
    let what = match told.what {
        RecordKind::Waking { thread, waker, cpu } => RecordKind::Waking { thread, waker, cpu: number(cpu) },
        RecordKind::Queued { thread, waker, cpu, new } => {
            RecordKind::Queued { thread, waker, cpu: number(cpu), new }
        }
        RecordKind::Migrate { thread, from, to } => {
            RecordKind::Migrate { thread, from: number(from), to: number(to) }
        }
        what => what,
    };
    SchedRecord { cpu: number(told.cpu), what, ..told }
}

#[cfg(test)]
mod tests {
    use super::*;
    use schedlab_base::testing::skipped;
    use schedlab_import::to_run::{ChosenTasks, RunBuilder};

    /// A recording of this process, which sleeps 20 times and makes a thread.
    #[test]
    fn this_thread_s_sleeps_are_recorded_and_nothing_stays_on() {
        let folder = tempfile::tempdir().unwrap();
        let before = super::super::instance::names();
        let mut recorder = match Recorder::begin(folder.path()) {
            Ok(recorder) => recorder,
            Err(e) => return skipped(format!("tracepoints: {e}")),
        };
        (0..20).for_each(|_| _ = sys::sleep_for(200_000));
        std::thread::spawn(|| _ = sys::sleep_for(300_000_000)).join().unwrap();
        let never = AtomicBool::new(false);
        recorder.for_a_while(Ns::ms(600), &never);
        let recorded = recorder.end().unwrap();
        let mine = super::super::instance::names().into_iter().filter(|name| !before.contains(name));
        let me = format!("schedlab-{}-", std::process::id());
        // Other tests of this process may have their own instances.
        assert!(mine.filter(|name| name.starts_with(&me)).count() <= 1);
        let tid = sys::thread_id();
        let mut watch = RunBuilder::new(ChosenTasks { pids: vec![tid], ..ChosenTasks::default() }, None);
        let mut imported = recorded.replay(None, &mut watch, &never).unwrap().imported;
        let found = watch.finish(&mut imported);
        let task =
            found.tasks.iter().find(|t| t.voluntary >= 20).unwrap_or_else(|| panic!("{:?}", found.tasks));
        assert!(task.cpu_time > Ns::ZERO);
        let actor = imported.cast.tasks.iter().find(|a| a.tid == tid).unwrap();
        assert_eq!((actor.process, actor.background), (std::process::id(), false));
        assert!(!imported.cast.release.is_empty());
    }

    #[test]
    fn a_thread_that_is_never_seen_to_leave_is_named() {
        let mut unseen = Unseen::default();
        let switch = |prev: u32, next: u32| {
            let of = |tid| Thread { tid, ..Thread::default() };
            SchedRecord {
                what: RecordKind::Switch { prev: of(prev), next: of(next), why: SwitchReason::Blocked },
                ..arrival(1, 0, 0)
            }
        };
        [(0, 7), (7, 0), (0, 9)].iter().for_each(|(prev, next)| unseen.look(&switch(*prev, *next)));
        assert_eq!(unseen.warning(&Cast::default()), None);
        unseen.lost(0);
        unseen.look(&switch(5, 7));
        assert_eq!(unseen.warning(&Cast::default()), None, "a loss is reported elsewhere");
        unseen.look(&switch(0, 7));
        let warning = unseen.warning(&Cast::default()).unwrap();
        assert!(warning.message.contains("1 switch away from 1 thread,") && warning.message.contains(":7"));
    }

    #[test]
    fn cpus_that_came_or_went_are_named() {
        assert_eq!(hotplug(&[]), None);
        assert!(hotplug(&[3, 5]).unwrap().message.contains("(3, 5)"));
    }

    #[test]
    fn an_arrival_is_new_unless_the_switch_was_reported() {
        let mut running = BTreeMap::new();
        let to = |next: u32, prev: u32| SchedRecord {
            what: RecordKind::Switch {
                prev: Thread { tid: prev, ..Thread::default() },
                next: Thread { tid: next, ..Thread::default() },
                why: SwitchReason::Blocked,
            },
            ..arrival(1, 0, 0)
        };
        let mut news = |next, prev| is_news(&mut running, &to(next, prev));
        assert!(news(0, 5) && news(5, 0) && !news(5, 0) && news(0, 5) && news(5, 0));
    }
}
