//! The engine: one thread or process per task, what they share, and the sum of what they measured.
//!
//! Threads are the default; a workload may ask for processes, which share the arena and nothing else. Processes are
//! forked from a caller that must have no other threads. A process that a task spawns becomes the task's sibling, so
//! that the controller can reap every process.

use crate::arena::{Arena, Phase};
use crate::changes::Changes;
use crate::channel::Channels;
use crate::control::{Controller, Ended};
use crate::counters::{Counts, Offspring};
use crate::footprint::SMALL_KB;
use crate::found::Found;
use crate::kernel_counters::KernelCounters;
use crate::limits;
use crate::prepare::Inherited;
use crate::recorder::{Column, Counters, Recorder};
use crate::results::{Ledger, Totals};
use crate::sys::{self, Bell, Scope};
use crate::task::{self, Origin};
use schedlab_base::{CpuSet, Error, Ns, Result, Warning};
use schedlab_record::{Interval, Observe, Schedstat, Series, TaskAccount};
use schedlab_workload::build::cut_off;
use schedlab_workload::{Built, TaskDecl};
use std::collections::BTreeMap;
use std::io;
use std::os::fd::BorrowedFd;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Stack of a task: programs are small state machines, and 10,000 of them must fit.
const STACK_BYTES: usize = 256 * 1024;

/// The measurements of a run.
#[derive(Clone, Debug, PartialEq)]
pub struct Measured {
    /// Measured time: from the end of the warm-up to the end.
    pub duration: Ns,
    /// Every declared series by name.
    pub series: BTreeMap<String, Series>,
    /// Counters of the tasks by dotted metric name; those that this kernel does not have are absent.
    pub counters: BTreeMap<String, u64>,
    /// The findings of watching the scheduler.
    pub found: Found,
    /// The kernel's performance counters of the tasks over the measured time.
    pub counts: Counts,
    /// The counts of /proc/schedstat over the measured time, for the whole machine.
    pub schedstat: Option<Schedstat>,
    /// The usage of each task, in the order of declaration.
    pub tasks: Vec<TaskAccount>,
    /// The intervals that programs measured, in the order of time.
    pub intervals: Vec<Interval>,
    /// Warnings for the reader.
    pub warnings: Vec<Warning>,
    /// Whether it was stopped before its end.
    pub stopped: bool,
}

/// The state that the tasks of a run share.
pub(crate) struct Shared {
    /// Words, cells, control.
    pub arena: Arena,
    /// Pipes and sockets.
    pub channels: Channels,
    /// Series by id.
    pub columns: Vec<Column>,
    /// CPU masks by number.
    pub masks: Vec<CpuSet>,
    /// The CPUs of tasks that name none.
    pub cpus: CpuSet,
    /// The timer slack of tasks that name none, ns.
    pub slack_ns: u64,
    /// The end of the warm-up, counted from the start.
    pub warmup: Ns,
    /// Whether threads or processes wait on the futex words.
    pub scope: Scope,
    /// Tasks ring it to wake the controller.
    pub bell: Bell,
    /// The number of tasks that are there from the start.
    pub roots: u32,
    /// Their names, by id.
    pub names: Vec<String>,
    tasks: Vec<Mutex<Option<TaskDecl>>>,
    totals: Mutex<Totals>,
    /// Where processes leave their results.
    ledger: Option<Ledger>,
    /// The process that controls the run.
    controller: u32,
    /// The memory of its maker that a process needs; `None` for threads, which share it.
    pub inherited: Option<Inherited>,
    /// Whether the memory of all tasks is small enough to be made beforehand.
    pub footprints_are_small: bool,
    /// Whether every event of the scheduler is recorded.
    watched: AtomicBool,
    /// A handle by which threads keep this value alive.
    me: std::sync::Weak<Shared>,
}

/// A panic elsewhere is reported by its own task; the data is whole, as nothing panics while it holds a lock.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Shared {
    fn new(built: Built) -> Result<Arc<Shared>> {
        let arena = Arena::new(built.words, built.slots, built.tasks.len())?;
        let channels = Channels::open(&built.channels)?;
        let bell = Bell::new().map_err(|e| Error::machine(format!("can't make an eventfd: {e}")))?;
        let cpus = sys::affinity().map_err(|e| Error::machine(format!("can't read the CPU mask: {e}")))?;
        let columns = built.series.iter().map(Column::of).collect::<Result<Vec<_>>>()?;
        let totals = Totals::new(&columns);
        let ledger = built.processes.then(Ledger::new).transpose()?;
        let footprints = built.tasks.iter().map(|t| u64::from(t.footprint_kb)).sum::<u64>();
        let roots = built.tasks.iter().filter(|t| t.spawned_by.is_none()).count() as u32;
        Ok(Arc::new_cyclic(|me| Shared {
            arena,
            channels,
            columns,
            masks: built.masks,
            cpus,
            slack_ns: sys::timer_slack(),
            warmup: built.warmup,
            scope: if built.processes { Scope::Processes } else { Scope::Threads },
            bell,
            roots,
            names: built.tasks.iter().map(|t| t.name.clone()).collect(),
            tasks: built.tasks.into_iter().map(|t| Mutex::new(Some(t))).collect(),
            totals: Mutex::new(totals),
            ledger,
            controller: std::process::id(),
            inherited: built.processes.then(Inherited::here),
            footprints_are_small: footprints <= SMALL_KB,
            watched: AtomicBool::new(false),
            me: me.clone(),
        }))
    }

    /// Starts the thread or process of a task; `origin` is `None` for tasks there from the start.
    ///
    /// # Errors
    /// At a limit of threads (the limits are named), or when the task was started before.
    pub fn spawn(&self, id: usize, origin: Option<Origin>) -> Result<()> {
        let decl = self.tasks.get(id).and_then(|t| lock(t).take());
        let decl =
            decl.ok_or_else(|| Error::internal(format!("task {id} is unknown or was started before")))?;
        let alive = self.arena.live().fetch_add(1, SeqCst);
        let started = match self.scope {
            Scope::Threads => self.spawn_thread(id, decl, origin),
            Scope::Processes => sys::spawn_process(origin.is_some(), || {
                sys::die_with_parent();
                // If the controller died before that line, no process is left to work for.
                if std::os::unix::process::parent_id() == self.controller {
                    task::body(self, id, decl, origin);
                }
            }),
        };
        started.map_err(|e| {
            self.one_less();
            limits::too_many(&self.names[id], alive, self.tasks.len(), &e)
        })
    }

    fn spawn_thread(&self, id: usize, decl: TaskDecl, origin: Option<Origin>) -> io::Result<()> {
        let shared = self.me.upgrade().ok_or(io::ErrorKind::NotFound)?;
        sys::spawn_thread(STACK_BYTES, Box::new(move || task::body(&shared, id, decl, origin)))
    }

    /// Whether a task is there from the start and not started yet.
    pub fn is_waiting_root(&self, id: usize) -> bool {
        lock(&self.tasks[id]).as_ref().is_some_and(|t| t.spawned_by.is_none())
    }
    /// Whether every task is to leave.
    #[inline]
    pub fn over(&self) -> bool {
        self.arena.phase() == Phase::Stop
    }
    /// Says that every event of the scheduler is recorded. Call it before the first task is made.
    pub fn watch(&self) {
        self.watched.store(true, SeqCst);
    }
    /// Whether every event is recorded. Tasks then need not read figures that the events give.
    pub fn is_watched(&self) -> bool {
        self.watched.load(SeqCst)
    }
    /// How many tasks were declared.
    pub fn len(&self) -> usize {
        self.tasks.len()
    }

    /// Says that a task that is there from the start is ready, or failed to get ready.
    pub fn ready(&self) {
        if self.arena.ready().fetch_add(1, SeqCst) + 1 == self.roots {
            self.bell.ring();
        }
    }

    /// Says that a task has done its work; sleeps until the run is over.
    pub fn park(&self) {
        self.arena.parked().fetch_add(1, SeqCst);
        if self.arena.all_done() {
            self.bell.ring();
        }
        loop {
            let phase = self.arena.phase();
            if phase == Phase::Stop {
                return;
            }
            sys::futex_wait(self.arena.phase_word(), phase as u32, None, self.scope);
        }
    }

    /// Lets a task leave, with its measurements or its error; the first error ends the run.
    pub fn leave(&self, id: usize, values: Recorder, counted: Option<Counters>, error: Option<Error>) {
        let failed = error.is_some();
        match &self.ledger {
            None => lock(&self.totals).add(id, values, counted, error),
            Some(ledger) => {
                let mut own = Totals::new(&self.columns);
                own.add(id, values, counted, error);
                ledger.post(&self.arena, own);
            }
        }
        if failed {
            self.arena.advance(Phase::Stop);
            self.bell.ring();
        }
        self.arena.thread(id).store(0, SeqCst);
        self.one_less();
    }

    /// Fails the run because a process ended without leaving it.
    pub fn died(&self, process: u32, how: &str) {
        let id = (0..self.len()).find(|id| self.arena.thread(*id).load(SeqCst) == process);
        let who = id.map_or("a task".to_owned(), |id| format!("task '{}'", self.names[id]));
        if let Some(id) = id {
            self.arena.thread(id).store(0, SeqCst);
        }
        self.fail(Error::machine(format!("the process of {who} {how}")));
        self.one_less();
    }

    /// Ends the run with an error.
    pub fn fail(&self, error: Error) {
        lock(&self.totals).fail(Some(error));
        self.arena.advance(Phase::Stop);
        self.bell.ring();
    }
    fn one_less(&self) {
        self.arena.live().fetch_sub(1, SeqCst);
        if self.arena.all_done() {
            self.bell.ring();
        }
    }
}

/// Runs a workload from this process until its time is over, all tasks have left, or `stop` can be read or is hung up.
/// A workload of processes must be run from a process with one thread and no other children.
///
/// # Errors
/// When the workload asks for something that this machine or user can't have: threads, CPUs, policies, channels.
pub fn run_built(built: Built, stop: Option<BorrowedFd<'_>>) -> Result<Measured> {
    let kernel = KernelCounters::live();
    run_changing(built, &Changes::default(), stop, Observe::Counters, kernel)
}

/// The reason why there are no counters beside events: at every switch the kernel swaps the counters of the two tasks.
/// That takes 2,700 instructions in Linux 6.1, which lengthen each wakeup and each way to sleep.
const BESIDE_EVENTS: &str =
    "not counted while events are recorded: each task's counters would slow down its switches";

/// As [`run_built`], with the changes of settings within the run, and with the kernel's counters given.
///
/// # Errors
/// As [`run_built`], and when the kernel does not take a change.
pub(crate) fn run_changing(
    mut built: Built,
    changes: &Changes,
    stop: Option<BorrowedFd<'_>>,
    observe: Observe,
    mut kernel: KernelCounters,
) -> Result<Measured> {
    limits::confine(&mut built)?;
    sys::install_nudge().map_err(|e| Error::machine(format!("can't install a signal handler: {e}")))?;
    sys::ignore_broken_pipes();
    let (warmup, duration, to_the_end) = (built.warmup, built.duration, built.to_the_end);
    let shared = Shared::new(built)?;
    let controller = Controller::new(&shared, changes, stop, observe);
    // Tasks inherit these, so they must be there first.
    let mut counting = match observe {
        _ if shared.is_watched() => Offspring::none(BESIDE_EVENTS),
        Observe::Accounts | Observe::Stays => Offspring::unwanted(),
        Observe::Counters | Observe::Events => Offspring::open(),
    };
    let Ended { measured, stopped, unfinished } =
        controller.run(warmup, duration, &mut counting, &mut kernel)?;
    let ended = sys::monotonic_ns();
    controller.end()?;
    let ending = Ns(sys::monotonic_ns() - ended);
    let found = controller.found();
    let mut totals = lock(&shared.totals);
    if totals.error.is_none()
        && let Some(ledger) = &shared.ledger
    {
        ledger.collect(&shared.arena, &mut totals)?;
    }
    if let Some(error) = totals.error.take() {
        return Err(error);
    }
    let mut warnings = shared.channels.settle()?;
    if measured == Ns::ZERO && !stopped {
        let text = format!("the workload ended within its warm-up of {warmup}: nothing was measured");
        warnings.push(Warning::new("run.in_warmup", text));
    }
    if !stopped {
        warnings.extend((to_the_end && unfinished).then(|| cut_off(duration)));
        warnings.extend(overrun(measured, duration));
        // The CPU time of other runs comes from events, or their tasks had ended before.
        warnings.extend(slow_end(measured, ending).filter(|_| unfinished && found.tasks.is_none()));
    }
    let names = shared.columns.iter().map(|c| c.name.clone());
    let (intervals, dropped) = std::mem::take(&mut totals.intervals).in_order(warmup, &shared.columns);
    warnings.extend(dropped);
    totals.tasks.sort_by_key(|(id, _)| *id);
    Ok(Measured {
        duration: measured,
        series: names.zip(totals.series.drain(..)).collect(),
        counters: totals.counters.named(),
        found,
        counts: counting.read(),
        schedstat: kernel.counted(&mut warnings),
        tasks: totals.tasks.iter().map(|(id, used)| used.account(&shared.names[*id])).collect(),
        intervals,
        warnings,
        stopped,
    })
}

/// Whether a time is more than a twentieth of `of`, and more than a wakeup takes on a busy machine.
fn much(time: Ns, of: Ns) -> bool {
    time > Ns(of.0 / 20).plus(Ns::ms(20))
}

/// The warning about a run that was measured for too long: its process was stopped, or could not run.
fn overrun(measured: Ns, wanted: Ns) -> Option<Warning> {
    much(measured.since(wanted), wanted).then(|| {
        let text = format!("measured for {measured} instead of {wanted}: the run was stopped or starved");
        Warning::new("run.overran", text)
    })
}

/// The warning about tasks that took long to leave. Each reads its counters when it leaves, so they hold more than the
/// measured time.
fn slow_end(measured: Ns, ending: Ns) -> Option<Warning> {
    much(ending, measured).then(|| {
        let text = format!(
            "the tasks took {ending} to end after the measured {measured}, and their CPU time, switches and waits \
             include that: use fewer tasks or a longer run"
        );
        Warning::new("run.slow_end", text)
    })
}

#[cfg(test)]
#[path = "window_tests.rs"]
mod window_tests;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_that_are_off_are_told() {
        let second = Ns::secs(1);
        assert_eq!((overrun(Ns::ms(1_015), second), slow_end(second, Ns::ms(60))), (None, None));
        assert!(overrun(Ns::ms(1_100), second).is_some_and(|w| w.message.contains("instead of 1s")));
        assert!(slow_end(second, Ns::ms(300)).is_some_and(|w| w.message.contains("fewer tasks")));
    }
}
