//! Every live switch, wakeup and migration: records of scheduler tracepoints go to the analyser of events.
//!
//! Each CPU has one perf event per tracepoint, for all tasks there, and one ring that these events share
//! (PERF_EVENT_IOC_SET_OUTPUT). Times are of CLOCK_MONOTONIC (Linux 4.1). It requires root or CAP_PERFMON. The numbers
//! and layouts of tracepoints come from tracefs; if that is not mounted, through schedlab's own mount. If perf does not
//! see all of a machine, a tracing instance is read instead ([`sources`]), which requires root.
//!
//! Rings are emptied when they are half full. Records are analysed after the run, or before memory runs out. If records
//! are lost, the recording ends: distributions cover the time before the loss, and counts are "not measured", because a
//! partial count is misleading.
//!
//! The kernel does not report why a CPU was chosen, what made a running task give way, or which balancer moved a task,
//! so results lack these. A stay begins and ends at sched_switch, so it includes interrupts (and a hypervisor's time).

mod arrivals;
pub mod background;
pub(crate) mod instance;
mod kept;
mod layout;
pub mod live;
mod live_thread;
mod ring;
mod sources;
mod spool;
mod task_table;
#[cfg(test)]
mod tests;
mod tracefs;
mod translate;

use crate::sys;
use crate::watch::counters::watch::online;
use crate::watch::findings::ObserverFindings;
use kept::{Keeper, Receivers};
pub use kept::{ask_to_keep, describe_tasks};
use layout::{Layouts, TracepointKind};
use ring::{Ring, RingItem, TimedRecord};
use schedlab_analyse::{Analyser, TaskName};
use schedlab_base::{CpuId, Error, Ns, Result, TaskId, Warning};
use schedlab_machine::Machine;
use schedlab_record::Findings;
pub use sources::ask as ask_rings;
use sources::{LEAST_RING_BYTES, Sources, blind};
use std::collections::BTreeMap;
use std::io;
use std::os::fd::BorrowedFd;
use translate::Translator;

/// The most records kept before the analyser gets them during the run: 32 MB.
const MOST_HELD: usize = 1 << 20;
/// A record is in its ring at most this long after its own time.
const SETTLED: Ns = Ns::ms(5);
/// Time for a new thread to report which task it is; the analysis waits for that.
const UNKNOWN_FOR: Ns = Ns::secs(1);

pub struct Events {
    layouts: Layouts,
    /// `None` after the end of the recording.
    sources: Option<Sources>,
    /// The running thread of each CPU, if switches from idle may be reported twice.
    running: Option<BTreeMap<u32, u32>>,
    held: Vec<TimedRecord>,
    translator: Translator,
    analyser: Analyser,
    /// Writes the events to a file, if requested.
    keeper: Option<Keeper>,
    /// The kernel's number of each thread, if this process's namespace has other numbers.
    global: BTreeMap<u32, u32>,
    /// The thread that makes the tasks.
    maker: u32,
    lost: u64,
    /// CPU time for emptying the rings since the start of the measured time.
    emptying: Ns,
    /// Until this time no record is missing; `None`: none was lost.
    whole_until_ns: Option<u64>,
    ended_ns: u64,
}

/// # Errors
/// When this user may not record events here, with a remedy.
pub fn check() -> Result<()> {
    let layouts = tracefs::layouts()?;
    let cpu = online()?.first().copied().unwrap_or(0);
    Ring::open(cpu, &layouts, LEAST_RING_BYTES).map(drop).map_err(|e| refused(&e))
}

/// CPUs on which perf does not report the idle task's events. To find them, this thread sleeps on each CPU, a
/// millisecond in total.
pub fn blind_cpus() -> Result<Vec<u32>> {
    let (layouts, online) = (tracefs::layouts()?, online()?);
    let open = |cpu: &u32| Ring::open(*cpu, &layouts, LEAST_RING_BYTES).map_err(|e| refused(&e));
    let mut rings = online.iter().map(open).collect::<Result<Vec<_>>>()?;
    Ok(blind(&online, &mut rings, &layouts))
}

/// Whether a tracing instance is used if perf does not see everything.
pub fn by_instance() -> bool {
    instance::may_be_had()
}

impl Events {
    /// Begins to record on all CPUs. `names`: the workload's tasks by task id, which `maker` will make.
    pub fn open(names: &[String], maker: u32) -> Result<Events> {
        let layouts = tracefs::layouts()?;
        let online = online()?;
        let names = names.iter().map(|name| TaskName { name: name.clone(), background: false }).collect();
        let machine = Machine::load("host").ok();
        let cpus: BTreeMap<u32, CpuId> = machine.iter().flat_map(machine_numbers).collect();
        let nr_cpus = machine.as_ref().map_or(0, |m| m.topology.nr_cpus());
        // Nothing is counted before the measured time.
        let mut analyser = Analyser::new(nr_cpus, names, Vec::new(), Ns(u64::MAX));
        if let Some(machine) = &machine {
            analyser = analyser.on(&machine.topology);
        }
        let opened_ns = sys::monotonic_ns();
        let translator = Translator::new(opened_ns, cpus);
        let sources = sources::open(&online, &layouts, opened_ns).map_err(|e| refused(&e))?;
        Ok(Events {
            layouts,
            running: (!sources.blind.is_empty()).then(BTreeMap::new),
            sources: Some(sources),
            held: Vec::new(),
            translator,
            analyser,
            keeper: Keeper::if_asked(),
            global: BTreeMap::new(),
            maker,
            lost: 0,
            emptying: Ns::ZERO,
            whole_until_ns: None,
            ended_ns: 0,
        })
    }

    /// Puts the workload's tasks into these task groups.
    #[must_use]
    pub fn in_groups(self, paths: &[Option<String>]) -> Events {
        Events { analyser: self.analyser.in_groups(paths.iter().map(Option::as_deref)), ..self }
    }

    /// Readable when [`Events::read`] should be called.
    pub fn fd(&self) -> Option<BorrowedFd<'_>> {
        self.sources.as_ref().map(|s| s.bell.fd())
    }

    /// Starts the measured time.
    pub fn measure(&mut self) {
        let now_ns = sys::monotonic_ns();
        self.emptying = Ns::ZERO;
        let from = Ns(now_ns - self.translator.opened_ns);
        self.analyser.measure_from(from);
        self.keeper.iter_mut().for_each(|keeper| keeper.measured_from(from));
    }

    /// Empties the rings. `threads`: the currently known thread ids of tasks.
    pub fn read(&mut self, threads: impl FnOnce() -> Vec<(u32, TaskId)>) {
        let (now_ns, from_ns) = (sys::monotonic_ns(), sys::thread_cpu_ns());
        self.empty_rings();
        if self.held.len() >= MOST_HELD {
            self.know(threads());
            self.analyse(now_ns.saturating_sub(SETTLED.0), now_ns.saturating_sub(UNKNOWN_FOR.0));
        }
        self.emptying = self.emptying.plus(Ns(sys::thread_cpu_ns() - from_ns));
    }

    fn empty_rings(&mut self) {
        let Events { sources, layouts, held, global, translator, lost, whole_until_ns, .. } = self;
        for feed in sources.iter_mut().flat_map(|s| &mut s.feeds) {
            let last_ns = &mut feed.last_ns;
            feed.source.empty(layouts, &mut |seen| match seen {
                RingItem::Record(mut record, thread, raw) => {
                    // An interrupt's record may precede the record that it interrupted, which has an earlier time.
                    record.at_ns = record.at_ns.max(*last_ns);
                    *last_ns = record.at_ns;
                    if is_named(thread)
                        && let Some(current) = layouts.current(raw).filter(|c| *c != thread)
                    {
                        global.insert(thread, current);
                    }
                    if let TracepointKind::Switch { prev, .. } = record.what
                        && let Some(name) = layouts.name(raw)
                    {
                        note_name(&mut translator.names, prev, name);
                    }
                    held.push(record);
                }
                RingItem::Lost(n) => {
                    *lost += n;
                    *whole_until_ns = Some(whole_until_ns.map_or(*last_ns, |until| until.min(*last_ns)));
                }
            });
        }
        if self.whole_until_ns.is_some() {
            self.sources = None;
        }
    }

    /// Notes the tasks' threads, by the kernel's numbers.
    fn know(&mut self, threads: Vec<(u32, TaskId)>) {
        let global = |thread: u32| match self.global.get(&thread) {
            None if !self.global.is_empty() => None,
            known => Some(known.copied().unwrap_or(thread)),
        };
        let tasks = threads.into_iter().filter_map(|(thread, task)| Some((global(thread)?, task)));
        self.translator.workload.extend(tasks);
        self.translator.makers.extend(global(self.maker));
    }

    /// Passes all records up to `until_ns` to the analyser, in order of time. It stops before a thread that was made
    /// after `unknown_since_ns` and has not yet reported which task it is.
    fn analyse(&mut self, until_ns: u64, unknown_since_ns: u64) {
        // A stable sort keeps the order of each CPU's records.
        self.held.sort_by_key(|h| h.at_ns);
        let until_ns = self.whole_until_ns.map_or(until_ns, |whole| whole.min(until_ns));
        let settled = self.held.partition_point(|h| h.at_ns <= until_ns);
        let unknown = |h: &TimedRecord| h.at_ns > unknown_since_ns && self.translator.is_unknown_child(h);
        let ready = self.held[..settled].iter().position(unknown).unwrap_or(settled);
        for held in self.held.drain(..ready) {
            if self.running.as_mut().is_none_or(|running| is_news(running, &held)) {
                let keeper = self.keeper.as_mut();
                self.translator.translate(&held, &mut Receivers { analyser: &mut self.analyser, keeper });
            }
        }
    }

    /// Ends the measured time at `end_ns`; later records are ignored. The sources stay open until [`Events::found`],
    /// because closing them takes the kernel a quarter of a second, in which tasks would continue.
    pub fn close(&mut self, end_ns: u64) {
        self.empty_rings();
        self.ended_ns = end_ns;
    }

    pub fn found(mut self, threads: Vec<(u32, TaskId)>) -> ObserverFindings {
        self.sources = None;
        self.know(threads);
        self.analyse(self.ended_ns, self.ended_ns);
        let end_ns = self.whole_until_ns.map_or(self.ended_ns, |whole| whole.min(self.ended_ns));
        let end = Ns(end_ns.saturating_sub(self.translator.opened_ns));
        let kept =
            self.keeper.take().map(|keeper| keeper.finish(&self.analyser, &self.translator, end, self.lost));
        let seen = self.analyser.finish(end);
        let lost = self.whole_until_ns.filter(|whole| *whole < self.ended_ns).map(|whole| (self.lost, whole));
        let mut found = supported_findings(seen, lost.map(|(n, whole)| (n, Ns(self.ended_ns - whole))));
        found.seen.warnings.extend(kept.flatten());
        if self.emptying > Ns::ZERO {
            let text = format!(
                "rings of events were half full: emptying them took {} of a CPU from what was measured",
                self.emptying
            );
            found.seen.warnings.push(Warning::new("events.emptied", text));
        }
        found
    }
}

/// False for the second report of a task that came to its CPU after idle.
fn is_news(running: &mut BTreeMap<u32, u32>, held: &TimedRecord) -> bool {
    let TracepointKind::Switch { prev, next, .. } = held.what else { return true };
    is_news_of(running, held.cpu, prev, next)
}

/// The same for a switch; its next thread becomes the CPU's running one.
fn is_news_of(running: &mut BTreeMap<u32, u32>, cpu: u32, prev: u32, next: u32) -> bool {
    let before = running.insert(cpu, next);
    prev != 0 || before != Some(next)
}

/// The analyser's findings that a live kernel's events support. `lost`: number of lost records, and the time from the
/// loss to the end.
fn supported_findings(mut seen: Findings, lost: Option<(u64, Ns)>) -> ObserverFindings {
    seen.keep_what_tracepoints_show();
    if let Some((n, before)) = lost {
        let why = format!(
            "{} {} lost {before} before the end, so that nothing was counted since",
            schedlab_base::counted(n, "event"),
            schedlab_base::one_or(n, "was", "were")
        );
        seen.warnings.push(Warning::new(
            "events.lost",
            format!("{why}: distributions hold what came before, and counts of events are not measured"),
        ));
        let Findings { series, waits, warnings, .. } = seen;
        let seen = Findings { series, waits, warnings, ..Findings::default() };
        return ObserverFindings { seen, unmeasured: [("events", why)].into() };
    }
    ObserverFindings { seen, ..ObserverFindings::default() }
}

/// Whether the recorder's namespace has a number for a thread. It has none for outside threads and for dead ones.
fn is_named(thread: u32) -> bool {
    !matches!(thread, 0 | u32::MAX)
}

fn note_name(names: &mut BTreeMap<u32, Vec<u8>>, thread: u32, name: &[u8]) {
    match names.get_mut(&thread) {
        Some(known) if known == name => {}
        Some(known) => {
            known.clear();
            known.extend_from_slice(name);
        }
        None => {
            names.insert(thread, name.to_vec());
        }
    }
}

/// The machine's number for each of the kernel's CPUs.
fn machine_numbers(machine: &Machine) -> impl Iterator<Item = (u32, CpuId)> + '_ {
    let cpus = (0..machine.topology.nr_cpus()).map(CpuId::from);
    cpus.map(|cpu| (machine.os_cpu(cpu), cpu))
}

fn refused(e: &io::Error) -> Error {
    match e.raw_os_error() {
        Some(libc::EACCES | libc::EPERM) => Error::machine("this user may not record the kernel's tracepoints")
            .help("run as root, or with CAP_PERFMON (setcap cap_perfmon+ep), or: sysctl kernel.perf_event_paranoid=-1"),
        Some(libc::EMFILE | libc::ENFILE) => {
            Error::machine("no file descriptors are left to record tracepoints").help("ulimit -n 4096")
        }
        Some(libc::ENOSYS | libc::ENOENT) => {
            Error::machine("this kernel does not record tracepoints through perf events")
                .help("it takes a kernel built with CONFIG_PERF_EVENTS and CONFIG_EVENT_TRACING")
        }
        _ => Error::machine(format!("the kernel's tracepoints can't be recorded: {e}")),
    }
}
