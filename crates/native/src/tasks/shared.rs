//! State that the tasks of a run share with each other and with the controller.
//!
//! Threads access it through a handle. A process has a copy; only mapped memory and descriptors are shared then.

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

pub struct Shared {
    pub arena: Arena,
    pub channels: Channels,
    pub columns: Vec<Column>,
    pub masks: Vec<CpuSet>,
    /// CPUs of tasks without a mask.
    pub cpus: CpuSet,
    /// Timer slack of tasks without their own, ns.
    pub slack_ns: u64,
    /// End of the warm-up, counted from the start.
    pub warmup: Ns,
    /// Who waits on the futex words: threads or processes.
    pub scope: Scope,
    pub bell: Bell,
    /// Number of tasks that exist from the start.
    pub roots: u32,
    pub names: Vec<String>,
    /// Paths of their task groups; `None`: the root group.
    pub task_groups: Vec<Option<String>>,
    pub groups: Places,
    /// Whether the run changes groups or CPUs of tasks; spawned tasks inherit these.
    pub changes_tasks: bool,
    /// By task: whether the run waits for its end.
    counts: Vec<bool>,
    tasks: Vec<Mutex<Option<TaskDecl>>>,
    totals: Mutex<Totals>,
    /// Results of processes.
    ledger: Option<Ledger>,
    /// The process id of the controller.
    pub controller: u32,
    /// Parts of the creator's memory that a process needs; `None` for threads, which share all memory.
    pub inherited: Option<Inherited>,
    /// The file that tasks execute, or why there is none.
    pub no_program: std::io::Result<OwnedFd>,
    /// Whether the memory of all tasks is small enough to be allocated in advance.
    pub footprints_are_small: bool,
    watched: AtomicBool,
    /// A handle for threads, which keep this value alive.
    me: std::sync::Weak<Shared>,
}

/// A panic elsewhere is reported by its own task; the data is consistent, because nothing panics while it holds a lock.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Shared {
    /// The state of a workload's tasks, before any starts.
    ///
    /// # Errors
    /// Without memory or descriptors for it, or when a series is declared wrongly.
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
        let task_groups = built.group_paths();
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
            task_groups,
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

    /// Takes a task's declaration to start it.
    ///
    /// # Errors
    /// When there is no such task, or it was started before (a bug).
    pub fn take(&self, id: usize) -> Result<TaskDecl> {
        let decl = self.tasks.get(id).and_then(|t| lock(t).take());
        decl.ok_or_else(|| Error::internal(format!("task {id} is unknown or was started before")))
    }
    /// A handle that keeps this value alive, for a thread; `None` after the run.
    pub fn handle(&self) -> Option<Arc<Shared>> {
        self.me.upgrade()
    }

    /// Whether a task exists from the start and has not started yet.
    pub fn is_waiting_root(&self, id: usize) -> bool {
        lock(&self.tasks[id]).as_ref().is_some_and(|t| t.spawned_by.is_none())
    }
    /// Whether every task must leave.
    #[inline]
    pub fn over(&self) -> bool {
        self.arena.phase() == Phase::Stop
    }
    /// Notes that every event is recorded. Call it before the first task is made.
    pub fn watch(&self) {
        self.watched.store(true, SeqCst);
    }
    /// Whether every event is recorded. Tasks then need not read figures that come from events.
    pub fn is_watched(&self) -> bool {
        self.watched.load(SeqCst)
    }
    /// Number of declared tasks.
    pub fn len(&self) -> usize {
        self.tasks.len()
    }

    /// Notes that a task is ready, or failed to prepare. For tasks that exist from the start.
    pub fn ready(&self) {
        if self.arena.ready().fetch_add(1, SeqCst) + 1 == self.roots {
            self.bell.ring();
        }
    }

    /// Notes that a task is about to begin; returns the number of earlier ones. A task for which the run does not wait
    /// counts as finished from its beginning to its end.
    pub fn one_more(&self, id: usize) -> u32 {
        let alive = self.arena.live().fetch_add(1, SeqCst);
        if !self.counts[id] {
            self.arena.parked().fetch_add(1, SeqCst);
        }
        alive
    }

    /// Notes that a task has done its work; sleeps until the run is over.
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

    /// A task leaves, with its measurements or its error; the first error ends the run.
    pub fn leave(&self, id: usize, values: Recorder, counted: Option<Counters>, error: Option<Error>) {
        let failed = error.is_some();
        // If it waited for the end, its work was done before.
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

    /// Times at which tasks had done their work, by the monotonic clock; `None` for one that never began.
    pub fn ends(&self) -> Vec<Option<Ns>> {
        let end = |id| match self.arena.done_ns(id).load(SeqCst) {
            _ if self.arena.last_thread(id).load(SeqCst) == 0 => None,
            0 => Some(STAYS),
            done => Some(Ns(done)),
        };
        (0..self.len()).map(end).collect()
    }

    /// The measurements of all tasks. Call it after all have left.
    ///
    /// # Errors
    /// The first error of a task, or lost results because a process died.
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

    /// Fails the run because a process ended without leaving properly.
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
    /// Notes that a task is gone, or did not start.
    pub fn one_less(&self, id: usize) {
        if !self.counts[id] && !self.over() {
            // This comes first, so that nobody takes it for the last working task in between.
            self.arena.parked().fetch_sub(1, SeqCst);
        }
        self.arena.live().fetch_sub(1, SeqCst);
        if self.arena.all_done() {
            self.bell.ring();
        }
    }
}
