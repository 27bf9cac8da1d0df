//! The state that the tasks of a run share with each other and with the controller.
//!
//! Threads reach it through a handle. A process has a copy of it; only mapped memory and descriptors are shared then.

use crate::settings::cgroups::Places;
use crate::sys::{self, Bell, Scope};
use crate::tasks::arena::{Arena, Phase};
use crate::tasks::channel::Channels;
use crate::tasks::column::Column;
use crate::tasks::footprint::SMALL_KB;
use crate::tasks::prepare::Inherited;
use crate::tasks::recorder::{Counters, Recorder};
use crate::tasks::results::{Ledger, Totals};
use schedlab_base::{CpuSet, Error, Ns, Result};
use schedlab_workload::beside::STAYS;
use schedlab_workload::{Built, TaskDecl};
use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// The state that the tasks of a run share.
pub struct Shared {
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
    /// The tasks' names, by id.
    pub names: Vec<String>,
    /// Control groups, if there are any.
    pub groups: Places,
    /// Whether the run changes groups or CPUs of tasks, which those that they start inherit.
    pub changes_tasks: bool,
    /// By task: whether the run lasts as long as it.
    counts: Vec<bool>,
    tasks: Vec<Mutex<Option<TaskDecl>>>,
    totals: Mutex<Totals>,
    /// Where processes leave their results.
    ledger: Option<Ledger>,
    /// The process that controls the run.
    pub controller: u32,
    /// The memory of its maker that a process needs; `None` for threads, which share it.
    pub inherited: Option<Inherited>,
    /// The file that tasks execute, or the reason why there is none.
    pub no_program: std::io::Result<OwnedFd>,
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
    /// The state of a workload's tasks, before any of them starts.
    ///
    /// # Errors
    /// When there is no memory or descriptor for it, or a series is declared wrongly.
    pub fn new(built: Built, groups: &Places) -> Result<Arc<Shared>> {
        let arena = Arena::new(built.words, built.slots, built.tasks.len())?;
        let channels = Channels::open(&built.channels, &built.sets)?;
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
            groups: groups.clone(),
            changes_tasks: !built.later.is_empty(),
            counts: built.tasks.iter().map(TaskDecl::counts).collect(),
            tasks: built.tasks.into_iter().map(|t| Mutex::new(Some(t))).collect(),
            totals: Mutex::new(totals),
            ledger,
            controller: std::process::id(),
            inherited: built.processes.then(Inherited::here),
            no_program: sys::no_program(),
            footprints_are_small: footprints <= SMALL_KB,
            watched: AtomicBool::new(false),
            me: me.clone(),
        }))
    }

    /// Takes a task's declaration, to start it.
    ///
    /// # Errors
    /// When there is no such task, or it was started before (a fault).
    pub fn take(&self, id: usize) -> Result<TaskDecl> {
        let decl = self.tasks.get(id).and_then(|t| lock(t).take());
        decl.ok_or_else(|| Error::internal(format!("task {id} is unknown or was started before")))
    }
    /// A handle that keeps this value alive, for a thread; `None` when the run is gone.
    pub fn handle(&self) -> Option<Arc<Shared>> {
        self.me.upgrade()
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

    /// Says that a task is about to begin, and gives the number of those before it. One that the run does not wait for
    /// counts among those that have done their work from its beginning to its end.
    pub fn one_more(&self, id: usize) -> u32 {
        let alive = self.arena.live().fetch_add(1, SeqCst);
        if !self.counts[id] {
            self.arena.parked().fetch_add(1, SeqCst);
        }
        alive
    }

    /// Says that a task has done its work; sleeps until the run is over.
    pub fn park(&self, id: usize) {
        self.arena.done_ns(id).store(sys::monotonic_ns(), SeqCst);
        if self.counts[id] {
            self.arena.parked().fetch_add(1, SeqCst);
        }
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
        // One that waited for the end had done its work before it.
        let _ = self.arena.done_ns(id).compare_exchange(0, sys::monotonic_ns(), SeqCst, SeqCst);
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
        self.one_less(id);
    }

    /// The times at which the tasks had done their work, by the monotonic clock; `None` for one that never began.
    pub fn ends(&self) -> Vec<Option<Ns>> {
        let end = |id| match self.arena.done_ns(id).load(SeqCst) {
            _ if self.arena.last_thread(id).load(SeqCst) == 0 => None,
            0 => Some(STAYS),
            done => Some(Ns(done)),
        };
        (0..self.len()).map(end).collect()
    }

    /// The measurements of all tasks. Call it when all have left.
    ///
    /// # Errors
    /// The first error of a task, or that results are lost because a process died.
    pub fn totals(&self) -> Result<MutexGuard<'_, Totals>> {
        let mut totals = lock(&self.totals);
        if totals.error.is_none()
            && let Some(ledger) = &self.ledger
        {
            ledger.collect(&self.arena, &mut totals)?;
        }
        match totals.error.take() {
            Some(error) => Err(error),
            None => Ok(totals),
        }
    }

    /// Fails the run because a process ended without leaving it.
    pub fn died(&self, process: u32, how: &str) {
        let id = (0..self.len()).find(|id| self.arena.thread(*id).load(SeqCst) == process);
        let who = id.map_or("a task".to_owned(), |id| format!("task '{}'", self.names[id]));
        if let Some(id) = id {
            self.arena.thread(id).store(0, SeqCst);
        }
        self.fail(Error::machine(format!("the process of {who} {how}")));
        self.arena.live().fetch_sub(1, SeqCst);
    }

    /// Ends the run with an error.
    pub fn fail(&self, error: Error) {
        lock(&self.totals).fail(Some(error));
        self.arena.advance(Phase::Stop);
        self.bell.ring();
    }
    /// Says that a task is gone, or did not start.
    pub fn one_less(&self, id: usize) {
        if !self.counts[id] && !self.over() {
            // First of the two, so that nobody takes it for the last one at work in between.
            self.arena.parked().fetch_sub(1, SeqCst);
        }
        self.arena.live().fetch_sub(1, SeqCst);
        if self.arena.all_done() {
            self.bell.ring();
        }
    }
}
