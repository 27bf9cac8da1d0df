//! The engine: makes one thread per task, starts them together, ends them together, adds up what they measured.
//!
//! The controlling thread does nothing while tasks run: it sleeps until the next phase is due, a task rings the bell
//! (all ready, all gone, or a failure), or the stop descriptor speaks. Tasks end by a flag and a signal that is sent
//! again until they are gone, because one sent between a task's look at the flag and its sleep would be lost.

use crate::arena::{Arena, Phase};
use crate::limits;
use crate::recorder::{Column, Counters, Recorder};
use crate::sys::{self, Bell};
use crate::task::{self, Origin};
use schedlab_base::{CpuId, CpuSet, Error, Ns, Result, Warning};
use schedlab_record::Series;
use schedlab_workload::{Built, TaskDecl};
use std::collections::{BTreeMap, HashSet};
use std::os::fd::BorrowedFd;
use std::sync::atomic::Ordering::SeqCst;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Stack of a task: programs are small state machines, and 10,000 of them must fit.
const STACK_BYTES: usize = 256 * 1024;
/// How long tasks get to leave once the run is over, before that is an error.
const LEAVE_WITHIN: Ns = Ns::secs(10);
/// First pause between two rounds of nudges; it doubles up to [`NUDGE_PAUSE_MAX`].
const NUDGE_PAUSE: Ns = Ns::ms(1);
const NUDGE_PAUSE_MAX: Ns = Ns::ms(16);

/// What a run measured.
#[derive(Clone, Debug, PartialEq)]
pub struct Measured {
    /// Measured time: from the end of the warm-up to the end.
    pub duration: Ns,
    /// Every declared series by name.
    pub series: BTreeMap<String, Series>,
    /// Counters of the tasks by dotted metric name; what this kernel does not tell is absent.
    pub counters: BTreeMap<String, u64>,
    /// What the reader must know.
    pub warnings: Vec<Warning>,
    /// Whether it was told to stop before its time.
    pub stopped: bool,
}

/// What the tasks of a run share.
pub struct Shared {
    /// Words, cells, control.
    pub arena: Arena,
    /// Series by id.
    pub columns: Vec<Column>,
    /// CPU masks by number.
    pub masks: Vec<CpuSet>,
    /// The CPUs a task may use that names none.
    pub cpus: CpuSet,
    tasks: Vec<Mutex<Option<TaskDecl>>>,
    roots: u32,
    bell: Bell,
    totals: Mutex<Totals>,
    /// For threads to hold on to what they share.
    me: std::sync::Weak<Shared>,
}

struct Totals {
    series: Vec<Series>,
    counters: Counters,
    error: Option<Error>,
}

/// A panic elsewhere is reported by its own task; the data is whole, as nothing panics while it holds a lock.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Shared {
    fn new(built: Built) -> Result<Arc<Shared>> {
        let arena = Arena::new(built.words, built.slots, built.tasks.len())?;
        let bell = Bell::new().map_err(|e| Error::machine(format!("can't make an eventfd: {e}")))?;
        let cpus = sys::affinity().map_err(|e| Error::machine(format!("can't read the CPU mask: {e}")))?;
        let columns = built.series.iter().map(Column::of).collect::<Result<Vec<_>>>()?;
        let totals = Totals {
            series: columns.iter().map(Column::empty).collect(),
            counters: Counters::ZERO,
            error: None,
        };
        let roots = built.tasks.iter().filter(|t| t.spawned_by.is_none()).count() as u32;
        Ok(Arc::new_cyclic(|me| Shared {
            arena,
            columns,
            masks: built.masks,
            cpus,
            tasks: built.tasks.into_iter().map(|t| Mutex::new(Some(t))).collect(),
            roots,
            bell,
            totals: Mutex::new(totals),
            me: me.clone(),
        }))
    }

    /// Starts the thread of a task; `origin` is `None` for tasks there from the start.
    ///
    /// # Errors
    /// At a limit of threads (the limits are named), or when the task was started before.
    pub fn spawn(&self, id: usize, origin: Option<Origin>) -> Result<()> {
        let decl = self.tasks.get(id).and_then(|t| lock(t).take());
        let decl =
            decl.ok_or_else(|| Error::internal(format!("task {id} is unknown or was started before")))?;
        let Some(shared) = self.me.upgrade() else {
            return Err(Error::internal("a task was started after the run"));
        };
        let name = decl.name.clone();
        let alive = self.arena.live().fetch_add(1, SeqCst);
        let body = Box::new(move || task::body(&shared, id, decl, origin));
        sys::spawn_thread(STACK_BYTES, body).map_err(|e| {
            self.one_less();
            limits::too_many(&name, alive, self.tasks.len(), &e)
        })
    }

    /// A task that is there from the start is ready, or failed to be.
    pub fn ready(&self) {
        if self.arena.ready().fetch_add(1, SeqCst) + 1 == self.roots {
            self.bell.ring();
        }
    }

    /// A task leaves, with what it measured or what went wrong; the first error ends the run.
    pub fn leave(&self, id: usize, values: Recorder, counted: Option<Counters>, error: Option<Error>) {
        {
            let mut totals = lock(&self.totals);
            values.merge_into(&mut totals.series);
            if let Some(counted) = counted {
                totals.counters = totals.counters.plus(counted);
            }
        }
        if let Some(error) = error {
            self.fail(error);
        }
        self.arena.thread(id).store(0, SeqCst);
        self.one_less();
    }

    fn fail(&self, error: Error) {
        lock(&self.totals).error.get_or_insert(error);
        self.arena.advance(Phase::Stop);
        self.bell.ring();
    }
    fn one_less(&self) {
        if self.arena.live().fetch_sub(1, SeqCst) == 1 {
            self.bell.ring();
        }
    }
}

/// Runs a workload in this process until its time is over, all tasks have left, or `stop` can be read or is hung up.
///
/// # Errors
/// What the workload asks for and this machine or user can't have: threads, CPUs, policies.
pub fn run_built(built: Built, stop: Option<BorrowedFd<'_>>) -> Result<Measured> {
    if built.warmup >= built.duration {
        return Err(Error::input(format!(
            "the warm-up of {} leaves nothing of a run of {}",
            built.warmup, built.duration
        )));
    }
    check_cpus(&built)?;
    sys::install_nudge().map_err(|e| Error::machine(format!("can't install a signal handler: {e}")))?;
    let (warmup, duration) = (built.warmup, built.duration);
    let shared = Shared::new(built)?;
    let controller = Controller { shared: &shared, stop };
    let (measured, stopped) = controller.run(warmup, duration);
    controller.end()?;
    let mut totals = lock(&shared.totals);
    if let Some(error) = totals.error.take() {
        return Err(error);
    }
    let mut warnings = Vec::new();
    if measured == Ns::ZERO && !stopped {
        let text = format!("the workload ended within its warm-up of {warmup}: nothing was measured");
        warnings.push(Warning::new("run.in_warmup", text));
    }
    let names = shared.columns.iter().map(|c| c.name.clone());
    Ok(Measured {
        duration: measured,
        series: names.zip(totals.series.drain(..)).collect(),
        counters: totals.counters.named(),
        warnings,
        stopped,
    })
}

/// Tries every CPU mask of the workload on the calling thread: the kernel drops CPUs silently that are not there.
fn check_cpus(built: &Built) -> Result<()> {
    let fault = |e| Error::machine(format!("can't read or set the CPU mask: {e}"));
    let own = sys::affinity().map_err(fault)?;
    let mut tried = HashSet::new();
    let named = built.tasks.iter().filter_map(|t| Some((t.name.as_str(), t.affinity.as_ref()?)));
    let all = named.chain(built.masks.iter().map(|m| ("a change of CPUs in the run", m)));
    for (who, wanted) in all.filter(|(_, m)| tried.insert((*m).clone())) {
        let set = sys::set_affinity(wanted);
        let got = if set.is_ok() { sys::affinity().map_err(fault)? } else { CpuSet::new() };
        sys::set_affinity(&own).map_err(fault)?;
        if got != *wanted || wanted.is_empty() {
            let missing: CpuSet = wanted.iter().filter(|c: &CpuId| !got.contains(*c)).collect();
            return Err(Error::machine(format!(
                "'{who}' wants CPUs '{wanted}', of which '{missing}' can't be used here"
            ))
            .help(format!("this run may use CPUs {own}")));
        }
    }
    Ok(())
}

/// Why the controller looked up.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Woke {
    /// The time came.
    Time,
    /// What it waited for holds.
    Done,
    /// It was told to stop.
    Stop,
    /// A task failed.
    Failed,
}

struct Controller<'a> {
    shared: &'a Shared,
    stop: Option<BorrowedFd<'a>>,
}

impl Controller<'_> {
    /// From the first thread to the end of the measured time; tells how long it measured and whether it was stopped.
    fn run(&self, warmup: Ns, duration: Ns) -> (Ns, bool) {
        let arena = &self.shared.arena;
        let mut woke = self.gather();
        if woke != Woke::Done {
            return (Ns::ZERO, woke == Woke::Stop);
        }
        let start = sys::monotonic_ns();
        let mut from = None;
        arena.start_ns().store(start, SeqCst);
        for (phase, until) in [(Phase::WarmUp, warmup), (Phase::Measure, duration)] {
            if until == Ns::ZERO {
                continue;
            }
            if phase == Phase::Measure {
                from = Some(sys::monotonic_ns());
            }
            arena.advance(phase);
            sys::futex_wake(arena.phase_word(), u32::MAX);
            woke = self.wait(start.saturating_add(until.0), || arena.live().load(SeqCst) == 0);
            if woke != Woke::Time {
                break;
            }
        }
        let measured = from.map_or(0, |from| sys::monotonic_ns() - from);
        (Ns(measured), woke == Woke::Stop)
    }

    /// Makes the tasks that are there from the start and waits until each is ready.
    fn gather(&self) -> Woke {
        let shared = self.shared;
        let is_root = |id: &usize| lock(&shared.tasks[*id]).as_ref().is_some_and(|t| t.spawned_by.is_none());
        for id in (0..shared.tasks.len()).filter(is_root) {
            if let Err(error) = shared.spawn(id, None) {
                shared.fail(error);
                return Woke::Failed;
            }
            if self.stop_asked() {
                return Woke::Stop;
            }
        }
        self.wait(u64::MAX, || shared.arena.ready().load(SeqCst) >= shared.roots)
    }

    fn stop_asked(&self) -> bool {
        self.stop.is_some() && sys::wait_readable([self.stop], 0)[0]
    }

    /// Sleeps until `done`, the stop, a failure, or the absolute time `until_ns`.
    fn wait(&self, until_ns: u64, done: impl Fn() -> bool) -> Woke {
        loop {
            self.shared.bell.quiet();
            let now = sys::monotonic_ns();
            match () {
                () if self.shared.arena.phase() == Phase::Stop => return Woke::Failed,
                () if done() => return Woke::Done,
                () if now >= until_ns => return Woke::Time,
                () => {}
            }
            let day = 86_400_000_000_000;
            let fds = [self.stop, Some(self.shared.bell.fd())];
            if sys::wait_readable(fds, (until_ns - now).min(day))[0] {
                return Woke::Stop;
            }
        }
    }

    /// Ends every task that is left and waits for it.
    fn end(&self) -> Result<()> {
        let arena = &self.shared.arena;
        arena.advance(Phase::Stop);
        sys::futex_wake(arena.phase_word(), u32::MAX);
        let (from, mut pause) = (sys::monotonic_ns(), NUDGE_PAUSE);
        while arena.live().load(SeqCst) > 0 {
            let waited = Ns(sys::monotonic_ns() - from);
            if waited > LEAVE_WITHIN {
                let left = arena.live().load(SeqCst);
                return Err(Error::internal(format!("{left} tasks were still there {waited} after the end")));
            }
            self.nudge_all();
            self.shared.bell.quiet();
            if arena.live().load(SeqCst) > 0 {
                sys::wait_readable([Some(self.shared.bell.fd())], pause.0);
            }
            pause = pause.plus(pause).min(NUDGE_PAUSE_MAX);
        }
        Ok(())
    }

    fn nudge_all(&self) {
        let arena = &self.shared.arena;
        let threads = (0..self.shared.tasks.len()).map(|id| arena.thread(id).load(SeqCst));
        threads.filter(|t| *t != 0).for_each(sys::nudge);
    }
}
