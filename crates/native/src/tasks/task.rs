//! One task on its thread or in its process: asks its program for operations and executes them by system calls.
//!
//! Between two operations it checks the phase of the run; a program never sees the end. A call that a signal ended
//! early is repeated unless the run is over, so that a nudge is not a wakeup for the program.
//!
//! A task that exists from the start has its memory before it reports that it is ready ([`crate::tasks::prepare`]).
//! After its program's end it sleeps until the run is over. So reading its counters, delivering its results and the end
//! of its thread or process are not part of the workload. The beginning and the end of spawned tasks are part of it.

use crate::settings::attrs::refused;
use crate::sys::limits;
use crate::sys::{self, Scope, Slept, Waited};
use crate::tasks::arena::Phase;
use crate::tasks::channel::{Buffer, Moved};
use crate::tasks::footprint::Footprint;
use crate::tasks::prepare::{map_value, touch_stack};
use crate::tasks::recorder::{Counters, Filed, Recorder};
use crate::tasks::shared::Shared;
use crate::tasks::usage::Readings;
use schedlab_base::{CpuSet, Error, GroupId, Ns, Result};
use schedlab_kernel::Attr;
use schedlab_workload::{Env, Op, Outcome, PortId, Program, SeriesId, SlotId, TaskDecl, WordId};
use std::collections::VecDeque;
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::Ordering::SeqCst;
use std::sync::atomic::{AtomicU32, AtomicU64};

/// Stack size of a task: programs are small state machines, and 10,000 of them must fit.
const STACK_BYTES: usize = 256 * 1024;

/// The states of a spin lock.
const FREE: u32 = 0;
const HELD: u32 = 1;

/// Properties that a thread inherits from its creator.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Origin {
    /// The creator's control group.
    group: GroupId,
    /// The creator's attributes, as far as the workload set them.
    attr: Attr,
    /// Whether the workload has changed the creator's CPUs.
    pinned: bool,
    /// Whether the workload has set the creator's timer slack.
    slack: bool,
}

/// Whether a task continues after an operation.
enum Step {
    Next(Outcome),
    Leave,
}

/// Starts the thread or process of a task; `origin` is `None` for tasks that exist from the start.
///
/// # Errors
/// At a limit of threads (the error names it), or when the task was started before.
pub fn spawn(shared: &Shared, id: usize, origin: Option<Origin>) -> Result<()> {
    let decl = shared.take(id)?;
    let alive = shared.one_more(id);
    let started = match shared.scope {
        Scope::Threads => spawn_thread(shared, id, decl, origin),
        Scope::Processes => sys::spawn_process(origin.is_some(), || {
            sys::die_with_parent();
            // If the controller died before that line, the process has nothing to work for.
            if std::os::unix::process::parent_id() == shared.controller {
                body(shared, id, decl, origin);
            }
        }),
    };
    started.map_err(|e| {
        shared.one_less(id);
        limits::too_many(&shared.names[id], alive, shared.len(), &e)
    })
}

fn spawn_thread(shared: &Shared, id: usize, decl: TaskDecl, origin: Option<Origin>) -> io::Result<()> {
    let shared = shared.handle().ok_or(io::ErrorKind::NotFound)?;
    sys::spawn_thread(STACK_BYTES, Box::new(move || body(&shared, id, decl, origin)))
}

/// A task's complete code. `origin` is `None` for tasks that exist from the start.
fn body(shared: &Shared, id: usize, decl: TaskDecl, origin: Option<Origin>) {
    let name = decl.name.clone();
    let mut program = decl.program;
    let mut task = Task {
        shared,
        start_ns: 0,
        worked_ns: 0,
        outcome: Outcome::Done,
        recorder: Recorder::new(shared.columns.len()),
        counted: None,
        filed: Filed::default(),
        buffer: Buffer::default(),
        found: VecDeque::new(),
        footprint: Footprint::of(decl.footprint_kb),
        readings: Readings::default(),
        now: origin.unwrap_or_default(),
    };
    let lived: std::thread::Result<Result<()>> = catch_unwind(AssertUnwindSafe(|| {
        sys::set_name(&name);
        shared.arena.thread(id).store(sys::thread_id(), SeqCst);
        shared.arena.last_thread(id).store(sys::thread_id().into(), SeqCst);
        let joined = task.join(decl.group);
        let set_up = joined.and_then(|()| task.set_up(decl.attr, decl.affinity.as_ref(), decl.timer_slack));
        if origin.is_none() {
            let prepared = task.prepare(program.as_ref());
            shared.ready();
            prepared?;
        }
        set_up?;
        task.live(program.as_mut(), origin.is_some())?;
        task.worked_ns = sys::thread_cpu_ns();
        if origin.is_none() {
            shared.park(id);
        }
        Ok(())
    }));
    let error = match lived {
        Ok(Ok(())) => None,
        Ok(Err(e)) => Some(e.context(format!("task '{name}'"))),
        Err(_) => Some(Error::internal(format!("the program of task '{name}' panicked"))),
    };
    let counted = task.counted.map(|before| task.counters().worked(task.worked_ns).since(before));
    shared.leave(id, task.recorder, counted, error);
}

struct Task<'a> {
    shared: &'a Shared,
    /// The monotonic clock at time 0 of the run.
    start_ns: u64,
    outcome: Outcome,
    recorder: Recorder,
    /// Counters at the beginning of this task's measured time.
    counted: Option<Counters>,
    /// Counts from files, read before the start.
    filed: Filed,
    /// CPU time at the end of its program, ns.
    worked_ns: u64,
    buffer: Buffer,
    /// Ends from the last wait on a set that were not returned yet.
    found: VecDeque<PortId>,
    footprint: Footprint,
    /// Readings of other tasks' usage.
    readings: Readings,
    /// Properties that a task spawned now would inherit.
    now: Origin,
}

impl Env for Task<'_> {
    #[inline]
    fn now(&mut self) -> Ns {
        Ns(sys::monotonic_ns() - self.start_ns)
    }
    fn outcome(&self) -> Outcome {
        self.outcome
    }
    fn cpu(&mut self) -> schedlab_base::CpuId {
        sys::current_cpu()
    }
    #[inline]
    fn word(&self, id: WordId) -> &AtomicU32 {
        self.shared.arena.word(id)
    }
    #[inline]
    fn slot(&self, id: SlotId) -> &AtomicU64 {
        self.shared.arena.slot(id)
    }
    #[inline]
    fn record(&mut self, series: SeriesId, value: u64) {
        self.recorder.record(series.index(), value, &self.shared.columns);
    }
    fn interval(&mut self, start: Ns, length: Ns, values: &[(SeriesId, u64)]) {
        if !self.recorder.on || start < self.shared.warmup {
            return;
        }
        values.iter().for_each(|(series, value)| self.record(*series, *value));
        self.recorder.intervals.keep(start, length, values);
    }
}

impl Task<'_> {
    /// Moves the thread into its control group, if the run has groups and its creator was in another.
    fn join(&mut self, group: GroupId) -> Result<()> {
        let inherits = group == self.now.group && !self.shared.changes_tasks;
        if !inherits && !self.shared.groups.is_empty() {
            self.shared.groups.join(group)?;
            self.now.group = group;
        }
        Ok(())
    }

    /// Sets the thread's attributes, CPUs and timer slack if they differ from inherited ones.
    fn set_up(&mut self, attr: Attr, affinity: Option<&CpuSet>, slack: Option<Ns>) -> Result<()> {
        match slack {
            Some(slack) => sys::set_timer_slack(slack.0),
            None if self.now.slack => sys::set_timer_slack(self.shared.slack_ns),
            None => {}
        }
        self.now.slack = slack.is_some();
        match affinity {
            Some(cpus) => self.pin(cpus)?,
            None if self.now.pinned || self.shared.changes_tasks => {
                self.pin(&self.shared.cpus)?;
                self.now.pinned = false;
            }
            None => {}
        }
        if attr != self.now.attr {
            self.set_attr(attr)?;
        }
        Ok(())
    }

    /// Maps all memory that the task will use, and reads the counts that take long to read.
    fn prepare(&mut self, program: &dyn Program) -> Result<()> {
        let shared = self.shared;
        touch_stack();
        if let Some(inherited) = &shared.inherited {
            inherited.map();
            shared.arena.map_here();
            map_value(program);
            // Touches the pages for the clocks and the CPU number.
            sys::monotonic_ns();
            sys::current_cpu();
        }
        if !shared.channels.is_empty() {
            self.buffer.make();
        }
        if shared.footprints_are_small {
            self.footprint.make()?;
        }
        if !shared.is_watched() {
            self.filed = Filed::read();
        }
        Ok(())
    }

    /// Its current counters. If every event is recorded, counts that come from events are skipped.
    fn counters(&self) -> Counters {
        Counters::read(if self.shared.is_watched() { Filed::default() } else { Filed::read() })
    }

    /// Waits for the start, then runs the program until it leaves or the run is over.
    fn live(&mut self, program: &mut dyn Program, spawned: bool) -> Result<()> {
        let (shared, gather) = (self.shared, Phase::Gather as u32);
        while self.shared.arena.phase() == Phase::Gather {
            sys::futex_wait(self.shared.arena.phase_word(), gather, None, self.shared.scope);
        }
        self.start_ns = self.shared.arena.start_ns().load(SeqCst);
        let (mut seen, mut first) = (Phase::Gather, true);
        loop {
            let phase = self.shared.arena.phase();
            match phase {
                Phase::Stop => return Ok(()),
                Phase::Measure if phase != seen => {
                    self.counted = Some(match (first, spawned) {
                        (true, true) => Counters::ZERO,
                        // The counts from files have not changed since the start.
                        (true, false) => Counters::read(self.filed),
                        (false, _) => self.counters(),
                    });
                    // Reading the counters took time that must not be part of a value, so one value is dropped during
                    // the run.
                    self.recorder.on = first;
                }
                Phase::Measure => self.recorder.on = true,
                _ => {}
            }
            (seen, first) = (phase, false);
            // The most frequent operations bypass the jump table, which is mispredicted after a system call.
            let step = match program.next(self) {
                Op::Send { port, bytes } => {
                    moved(shared.channels.send(port, bytes, &mut self.buffer, || shared.over())?)
                }
                Op::Recv { port, bytes } => {
                    moved(shared.channels.receive(port, bytes, &mut self.buffer, || shared.over())?)
                }
                op => self.carry_out(op)?,
            };
            match step {
                Step::Next(outcome) => self.outcome = outcome,
                Step::Leave => return Ok(()),
            }
        }
    }

    #[inline(never)]
    fn carry_out(&mut self, op: Op) -> Result<Step> {
        Ok(match op {
            Op::Run { work: length } | Op::Execute { length } => self.run(length.0),
            Op::SpinTo { at } => self.spin_to(self.absolute(at)),
            Op::Sleep { length } => self.sleep(length.0),
            Op::SleepTo { at } => self.sleep_to(self.absolute(at)),
            Op::Wait { word, value, until } => self.wait(word, value, until),
            Op::Wake { word, count } => {
                let woken = sys::futex_wake(self.shared.arena.word(word), count, self.shared.scope);
                Step::Next(Outcome::Count(woken))
            }
            Op::SpinLock { word } => self.spin_lock(self.shared.arena.word(word)),
            Op::SpinUnlock { word } => {
                self.shared.arena.word(word).store(FREE, SeqCst);
                Step::Next(Outcome::Done)
            }
            Op::Send { .. } | Op::Recv { .. } => unreachable!("carried out by the caller"),
            Op::Poll { set } => {
                let shared = self.shared;
                let ready = shared.channels.ready(set, &mut self.found, || shared.over())?;
                ready.map_or(Step::Leave, |port| Step::Next(Outcome::Ready(port)))
            }
            Op::Touch { kb, rounds } => {
                let shared = self.shared;
                let whole = self.footprint.touch(kb, rounds, || shared.over())?;
                if whole { Step::Next(Outcome::Done) } else { Step::Leave }
            }
            Op::Yield => {
                sys::yield_now();
                Step::Next(Outcome::Done)
            }
            Op::Spawn { task } => {
                spawn(self.shared, task.index(), Some(self.now))?;
                Step::Next(Outcome::Done)
            }
            Op::Exec => {
                let refused = |what: &str, e: &std::io::Error| {
                    Error::machine(format!("{what}: {e}")).help(
                        "exec needs memfd_create and execveat (Linux 3.19), the sysctl vm.memfd_noexec at 0 or 1, \
                         and no security module that forbids it",
                    )
                };
                let file = self.shared.no_program.as_ref();
                let file = file.map_err(|e| refused("can't make a file in memory", e))?;
                sys::exec(file).map_err(|e| refused("can't execute a file in memory", &e))?;
                Step::Next(Outcome::Done)
            }
            Op::SetAttr { attr } => {
                self.set_attr(attr)?;
                Step::Next(Outcome::Done)
            }
            Op::SetAffinity { mask } => {
                let masks = &self.shared.masks;
                let cpus = masks.get(mask as usize).ok_or_else(|| {
                    Error::internal(format!("CPU mask {mask} was not declared ({} are)", masks.len()))
                })?;
                self.pin(cpus)?;
                Step::Next(Outcome::Done)
            }
            Op::Usage { task } => {
                let thread = self.shared.arena.thread(task.index()).load(SeqCst);
                let process = match self.shared.scope {
                    Scope::Threads => std::process::id(),
                    Scope::Processes => thread,
                };
                Step::Next(Outcome::Used(self.readings.of(task.index(), process, thread)))
            }
            Op::Exit => Step::Leave,
        })
    }

    fn absolute(&self, at: Ns) -> u64 {
        self.start_ns.saturating_add(at.0)
    }
    fn over(&self) -> bool {
        self.shared.over()
    }

    /// Computes until the thread's CPU clock has advanced by `work`. CPU time never passes faster than wall time. So
    /// spinning on the cheap wall clock for the rest, before reading the expensive CPU clock, never overshoots.
    ///
    /// The CPU clock is read as rarely as possible, because a read makes the kernel charge the running task. Some EEVDF
    /// kernels then end a used-up slice at once instead of at the tick (6.18: stays of 2 ms instead of 4 with a read
    /// every ms).
    fn run(&self, work: u64) -> Step {
        let end = sys::thread_cpu_ns().saturating_add(work);
        loop {
            let left = end.saturating_sub(sys::thread_cpu_ns());
            if left == 0 {
                return Step::Next(Outcome::Done);
            }
            if let Step::Leave = self.spin_to(sys::monotonic_ns().saturating_add(left)) {
                return Step::Leave;
            }
        }
    }
    fn spin_to(&self, at_ns: u64) -> Step {
        while sys::monotonic_ns() < at_ns {
            if self.over() {
                return Step::Leave;
            }
            std::hint::spin_loop();
        }
        Step::Next(Outcome::Done)
    }
    /// Spins for a lock. It writes only when it has seen the word free, so that its reads stay in its own cache.
    fn spin_lock(&self, word: &AtomicU32) -> Step {
        loop {
            if word.load(SeqCst) == FREE && word.compare_exchange(FREE, HELD, SeqCst, SeqCst).is_ok() {
                return Step::Next(Outcome::Done);
            }
            if self.over() {
                return Step::Leave;
            }
            std::hint::spin_loop();
        }
    }
    fn sleep(&self, mut length_ns: u64) -> Step {
        while let Slept::Interrupted(left) = sys::sleep_for(length_ns) {
            if self.over() {
                return Step::Leave;
            }
            length_ns = left;
        }
        Step::Next(Outcome::Done)
    }
    fn sleep_to(&self, at_ns: u64) -> Step {
        while let Slept::Interrupted(_) = sys::sleep_until(at_ns) {
            if self.over() {
                return Step::Leave;
            }
        }
        Step::Next(Outcome::Done)
    }
    fn wait(&self, word: WordId, value: u32, until: Ns) -> Step {
        let until = (until != Ns::MAX).then(|| self.absolute(until));
        loop {
            match sys::futex_wait(self.shared.arena.word(word), value, until, self.shared.scope) {
                Waited::Woken => return Step::Next(Outcome::Done),
                Waited::TimedOut => return Step::Next(Outcome::TimedOut),
                Waited::Mismatch => return Step::Next(Outcome::WouldNotWait),
                Waited::Interrupted if self.over() => return Step::Leave,
                Waited::Interrupted => {}
            }
        }
    }

    fn set_attr(&mut self, attr: Attr) -> Result<()> {
        sys::set_attr(attr).map_err(|e| refused(attr, &e))?;
        self.now.attr = attr;
        Ok(())
    }
    fn pin(&mut self, cpus: &CpuSet) -> Result<()> {
        sys::set_affinity(cpus).map_err(|e| {
            Error::machine(format!("can't restrict it to CPUs {cpus}: {e}"))
                .help(format!("this run may use CPUs {}", self.shared.cpus))
        })?;
        self.now.pinned = true;
        Ok(())
    }
}

fn moved(how: Moved) -> Step {
    match how {
        Moved::All => Step::Next(Outcome::Done),
        Moved::Over => Step::Leave,
    }
}
