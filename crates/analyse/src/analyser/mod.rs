//! The one analyser of events: it defines slice, wakeup delay and migration for every backend and importer.
//!
//! It takes events shaped like tracepoints in causal order and keeps dense state per task and per CPU. An event
//! allocates nothing, with two exceptions: a group's histogram is made for its first value, and grows when a value is
//! larger than all before. Times are nanoseconds.
//!
//! These definitions hold for tasks of the workload. The machine's background tasks only add to `background.cpu_time`,
//! and are named in the waits that they lengthen.
//! - a **stay** is the time from the switch to a task until the switch away from it; its length is the `slice`. Picking
//!   the running task again is not a switch (as in the kernel, 2.6 to today: only if prev is not next);
//! - `wakeup_delay` runs from the begin of a sleeping task's wakeup (sched_waking) to the switch to it;
//! - `run_delay` is every wait of a runnable task for a CPU: after a wakeup, a fork, or an involuntary switch;
//! - a switch is voluntary when the task left to sleep or ended, else involuntary (nvcsw, nivcsw);
//! - a migration is a stay on another CPU than the stay before;
//! - a woken task is placed relative to the CPU of its last stay and to its waker's CPU (`woken`).
//!
//! A stay or wait counts if it ends at or after the start of the measurement; CPU time and idle time are cut at both
//! ends.

mod delays;
mod groups;
mod observe;
mod queues;
mod state;
mod task_groups;
#[cfg(test)]
mod task_groups_tests;
#[cfg(test)]
mod tests;
mod woken;
#[cfg(test)]
mod woken_tests;
mod worst;

use delays::WaitsByGroup;
use groups::{Groups, NO_GROUP};
use queues::{Queues, Step, Steps};
use schedlab_base::{CpuId, Ns, TaskId};
use schedlab_machine::Topology;
use schedlab_record::Series;
use schedlab_record::Tally;
pub use schedlab_record::accounts::MAX_GROUPS;
use schedlab_trace::{Event, EventKind, MoveReason, PlaceReason, Sink, SwitchReason};
use state::{Cpu, Passes, Pending, Phase, RunCounts, Task};
use task_groups::TaskGroups;
use woken::Woken;
use worst::{LongWait, Worst};

/// The most waits that are kept, the longest ones: the whole tail beyond p99 of a hundred thousand wakeups.
pub const KEPT_WAITS: usize = 1024;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TaskName {
    pub name: String,
    /// Whether the task belongs to the machine and not to the workload.
    pub background: bool,
}

pub struct Analyser {
    names: Vec<TaskName>,
    tasks: Vec<Task>,
    cpus: Vec<Cpu>,
    /// Series of the workload's programs, by the index in their samples.
    recorded: Vec<(String, Tally)>,
    groups: Groups,
    delays: WaitsByGroup,
    task_groups: TaskGroups,
    seen: RunCounts,
    /// The places of woken tasks; `None` while the topology is not known.
    woken: Option<Woken>,
    worst: Worst,
    /// The queues of a sched_ext scheduler; `None` before its first decision.
    dsqs: Option<Box<Queues>>,
    measure_from: Ns,
}

impl Analyser {
    /// An analyser of a run on CPUs `0..nr_cpus`; each is idle until its first switch.
    ///
    /// `tasks` is indexed by task id; other tasks count as background. `series` is indexed as in [`Sink::sample`]; each
    /// entry comes with its empty series. Stays and waits that end before `measure_from` are followed but not counted.
    pub fn new(
        nr_cpus: usize,
        tasks: Vec<TaskName>,
        series: Vec<(String, Series)>,
        measure_from: Ns,
    ) -> Analyser {
        let mut groups = Groups::on(nr_cpus);
        Analyser {
            tasks: tasks.iter().map(|t| Task::new(t.background, groups.of(t))).collect(),
            groups,
            delays: WaitsByGroup::new(),
            task_groups: TaskGroups::default(),
            names: tasks,
            cpus: vec![Cpu::default(); nr_cpus],
            recorded: series.into_iter().map(|(name, s)| (name, Tally::new(s))).collect(),
            seen: RunCounts::new(),
            woken: None,
            worst: Worst::new(KEPT_WAITS),
            dsqs: None,
            measure_from,
        }
    }
    /// Keeps the longest `waits` waits instead of [`KEPT_WAITS`].
    #[must_use]
    pub fn keeping(mut self, waits: usize) -> Analyser {
        self.worst = Worst::new(waits);
        self
    }

    /// Also counts where woken tasks go on this machine; events use its CPU numbers.
    #[must_use]
    pub fn on(mut self, topology: &Topology) -> Analyser {
        self.woken = Some(Woken::on(topology.clone()));
        self
    }

    /// Ignores from now on everything that ends before this time.
    pub fn measure_from(&mut self, at: Ns) {
        self.measure_from = at;
    }
    /// Renames the task; the new name also says whether it belongs to the machine.
    pub fn rename(&mut self, id: TaskId, to: TaskName) {
        let (background, group) = (to.background, self.groups.of(&to));
        let is_other = self.task(id).background != background;
        self.recast(id, is_other, background);
        let task = self.task(id);
        (task.background, task.group) = (background, group);
        if let Some(name) = self.names.get_mut(id.index()) {
            *name = to;
        }
    }
    /// Adds a task to the table before its first event.
    pub fn meet(&mut self, task: TaskName) -> TaskId {
        let (id, group) = (TaskId::from(self.names.len()), self.groups.of(&task));
        *self.task(id) = Task::new(task.background, group);
        self.names.push(task);
        id
    }

    /// The tasks so far, by task id.
    pub fn names(&self) -> &[TaskName] {
        &self.names
    }
    pub fn nr_cpus(&self) -> usize {
        self.cpus.len()
    }

    fn counts(&self, at: Ns) -> bool {
        at >= self.measure_from
    }
    /// The task's state. The table grows for unannounced tasks.
    fn task(&mut self, id: TaskId) -> &mut Task {
        if id.index() >= self.tasks.len() {
            self.tasks.resize(id.index() + 1, Task::new(true, NO_GROUP));
        }
        &mut self.tasks[id.index()]
    }
    fn cpu(&mut self, id: CpuId) -> &mut Cpu {
        if id.index() >= self.cpus.len() {
            self.cpus.resize(id.index() + 1, Cpu::default());
            self.groups.widen(id.index() + 1);
        }
        &mut self.cpus[id.index()]
    }
    /// Notes the CPU on whose runqueue the task waits from now on; `None` for none.
    #[inline]
    fn queue_on(&mut self, id: TaskId, cpu: Option<CpuId>) {
        let before = std::mem::replace(&mut self.task(id).queued_on, cpu);
        if before == cpu {
            return;
        }
        if let Some(before) = before {
            self.cpu(before).queued -= 1;
        }
        if let Some(cpu) = cpu {
            self.cpu(cpu).queued += 1;
        }
    }

    fn switch(
        &mut self,
        at: Ns,
        cpu_id: CpuId,
        prev: Option<TaskId>,
        next: Option<TaskId>,
        why: SwitchReason,
    ) {
        if prev == next {
            return;
        }
        let cpu = *self.cpu(cpu_id);
        let next_cpu = Cpu { current: next, since: at, idle_exit_ns: 0, known: true, ..cpu };
        *self.cpu(cpu_id) = next_cpu;
        if cpu.current != prev && cpu.known {
            self.seen.gaps += 1;
            self.seen.unknown_ns += self.measured_ns(cpu.since, at);
        } else {
            self.spend(prev, cpu.since, at);
        }
        if let Some(lost) = cpu.current.filter(|c| Some(*c) != prev) {
            // Its switch away was lost, so the length of its stay is unknown.
            let was = std::mem::replace(&mut self.task(lost).phase, Phase::Unknown);
            self.turned(at, lost, was, false);
            self.queue_on(lost, None);
        }
        if let Some(prev) = prev {
            self.leave(at, cpu_id, prev, next, why);
        }
        if let Some(next) = next {
            self.enter(at, cpu_id, next, prev, why, cpu.idle_exit_ns);
        }
    }

    /// The length of the measured part of an interval.
    fn measured_ns(&self, since: Ns, until: Ns) -> u64 {
        until.since(since.max(self.measure_from)).0
    }

    /// Charges the measured part of a CPU's time between two instants to `who` (`None`: idle).
    fn spend(&mut self, who: Option<TaskId>, since: Ns, until: Ns) {
        let span_ns = self.measured_ns(since, until);
        let Some(who) = who else {
            self.seen.idle_ns += span_ns;
            return;
        };
        let task = self.task(who);
        task.cpu_ns += span_ns;
        if task.background {
            self.seen.background_ns += span_ns;
        } else {
            self.seen.cpu_ns += span_ns;
        }
    }

    fn leave(&mut self, at: Ns, cpu: CpuId, id: TaskId, next: Option<TaskId>, why: SwitchReason) {
        let counts = self.counts(at);
        let by = next.map_or(NO_GROUP, |n| self.task(n).group);
        let task = self.task(id);
        let stay =
            (task.phase == Phase::Running && task.last_cpu == Some(cpu)).then(|| at.since(task.stay_from));
        let woken_early = std::mem::take(&mut task.woken_early);
        task.last_cpu = Some(cpu);
        task.since = at;
        task.by_wakeup = false;
        let was = task.phase;
        task.phase = match why {
            // A wakeup began while the task was about to sleep; its wait for a CPU begins here.
            SwitchReason::Blocked if woken_early => {
                task.by_wakeup = true;
                Phase::Waking
            }
            SwitchReason::Blocked => Phase::Asleep,
            SwitchReason::Exited => Phase::Gone,
            _ => Phase::Queued,
        };
        let (background, group) = (task.background, task.group);
        let waits = task.phase == Phase::Queued;
        self.turned(at, id, was, false);
        self.queue_on(id, waits.then_some(cpu));
        if let Some(dsqs) = self.dsqs.as_mut().filter(|_| !waits) {
            dsqs.left(id, at, false, self.measure_from);
        }
        if !counts || background {
            return;
        }
        let task = &mut self.tasks[id.index()];
        match why {
            SwitchReason::Blocked | SwitchReason::Exited => {
                task.voluntary += 1;
                self.seen.voluntary += 1;
            }
            _ => {
                task.involuntary += 1;
                self.seen.involuntary += 1;
            }
        }
        if matches!(why, SwitchReason::WakeupPreempt | SwitchReason::Arrived) {
            self.groups.preempted(by);
        }
        self.seen.slice_end[why as usize] += 1;
        if let Some(stay) = stay {
            self.seen.slice.record(stay.0);
            self.seen.slice_by_end[why as usize].record(stay.0);
            self.groups.stayed(group, cpu, stay.0);
        }
    }

    fn enter(
        &mut self,
        at: Ns,
        cpu: CpuId,
        id: TaskId,
        prev: Option<TaskId>,
        why: SwitchReason,
        idle_exit_ns: u32,
    ) {
        let counts = self.counts(at);
        self.queue_on(id, None);
        if let Some(dsqs) = &mut self.dsqs {
            let counts = self.tasks.get(id.index()).is_some_and(|t| !t.background);
            dsqs.left(id, at, counts, self.measure_from);
        }
        let task = self.task(id);
        let (phase, last_cpu) = (task.phase, task.last_cpu);
        let by_wakeup = std::mem::take(&mut task.by_wakeup);
        task.phase = Phase::Running;
        task.stay_from = at;
        task.last_cpu = Some(cpu);
        let (background, in_group) = (task.background, task.task_group);
        self.turned(at, id, phase, false);
        if !counts || background {
            return;
        }
        let task = &mut self.tasks[id.index()];
        if last_cpu.is_some_and(|last| last != cpu) {
            task.migrations += 1;
            self.seen.migrations += 1;
        }
        if !matches!(phase, Phase::Waking | Phase::Queued) {
            return;
        }
        // Borrowed field by field, so that a wait's texts are copied only if it is kept.
        let task = &self.tasks[id.index()];
        let length_ns = at.since(task.since).0;
        self.delays.record(task.group, length_ns, by_wakeup);
        self.task_groups.waited(in_group, length_ns);
        if by_wakeup {
            self.worst.offer(length_ns, task.since, id, || LongWait {
                length_ns,
                woken_at: task.since,
                task: id,
                pending: task.pending,
                ran_on: cpu,
                ended_by: prev,
                ended_why: why,
                idle_exit_ns,
                steps: self.dsqs.as_ref().map_or_else(Steps::default, |dsqs| dsqs.steps(id)),
            });
        }
    }

    fn waking(&mut self, at: Ns, cpu: CpuId, id: TaskId, waker: Option<TaskId>) {
        let task = self.task(id);
        match task.phase {
            Phase::Waking | Phase::Queued => return,
            // Not asleep yet: either it will be found on its runqueue, or its switch away comes next.
            Phase::Running => task.woken_early = true,
            Phase::Unknown | Phase::Asleep | Phase::Gone => {
                let was = std::mem::replace(&mut task.phase, Phase::Waking);
                task.by_wakeup = true;
                task.since = at;
                self.turned(at, id, was, true);
            }
        }
        self.task(id).pending = Pending::by(waker, cpu);
        if let Some(dsqs) = &mut self.dsqs {
            dsqs.begin(id);
        }
    }

    fn decided(&mut self, id: TaskId, step: Step) {
        let counts = !self.task(id).background;
        let dsqs = self.dsqs.get_or_insert_with(|| Box::new(Queues::new()));
        dsqs.decided(id, step, counts, self.measure_from);
    }

    fn placed(&mut self, at: Ns, id: TaskId, reason: PlaceReason, probes: u16) {
        let counts = self.counts(at);
        let task = self.task(id);
        task.pending.reason = Some(reason);
        task.pending.probes = probes;
        let counts = counts && !task.background;
        self.seen.any_placed = true;
        if counts {
            self.seen.placement[reason as usize] += 1;
            self.seen.probes += u64::from(probes);
        }
    }

    fn enqueued(&mut self, at: Ns, cpu_id: CpuId, id: TaskId, nr_running: u16, new: bool) {
        let cpu = *self.cpu(cpu_id);
        let occupant_woken_at = cpu.current.and_then(|o| self.task(o).woken_at);
        let counts = self.counts(at);
        if let Some(dsqs) = &mut self.dsqs {
            dsqs.queued(id, cpu_id, at, self.measure_from);
        }
        let task = self.task(id);
        if task.phase == Phase::Running {
            task.woken_early = false;
            return;
        }
        let woken = task.phase != Phase::Queued;
        if woken {
            if task.phase != Phase::Waking {
                // The begin of the wakeup was not reported.
                task.since = at;
                task.pending = Pending::by(None, cpu_id);
            }
            let was = std::mem::replace(&mut task.phase, Phase::Queued);
            task.by_wakeup = !new;
            task.woken_at = Some(at);
            let nr_running = if nr_running == 0 { cpu.nr_running().saturating_add(1) } else { nr_running };
            task.pending.queue(at, cpu_id, &cpu, occupant_woken_at, nr_running);
            let (pending, prev, background) = (task.pending, task.last_cpu, task.background);
            self.turned(at, id, was, true);
            if counts && !new && !background {
                self.seen.wakeups += 1;
                if let (Some(woken), Some(prev)) = (&mut self.woken, prev) {
                    let waker = pending.waker.map(|_| pending.waker_cpu);
                    woken.count(cpu_id, prev, waker, cpu.nr_running() == 0);
                }
            }
        }
        self.queue_on(id, Some(cpu_id));
    }

    /// Events of the CPU were lost: its task and those on its runqueue are unknown now. Their open stays and waits are
    /// not counted.
    fn lost(&mut self, at: Ns, id: CpuId, count: u32) {
        let cpu = *self.cpu(id);
        *self.cpu(id) = Cpu { current: None, since: at, idle_exit_ns: 0, known: false, ..cpu };
        // A CPU whose recording begins later than others' has no gap: nothing was counted there before.
        if cpu.known || count > 0 {
            self.seen.gaps += 1;
            self.seen.unknown_ns += self.measured_ns(cpu.since, at);
        }
        let waits = cpu.queued > 0;
        let on_it = |t: &Task| waits && t.queued_on == Some(id);
        let mut gone: Vec<TaskId> = cpu.current.into_iter().collect();
        if waits {
            gone.extend((0..self.tasks.len()).filter(|t| on_it(&self.tasks[*t])).map(TaskId::from));
        }
        for task in gone {
            self.queue_on(task, None);
            let own = self.task(task);
            (own.by_wakeup, own.woken_early) = (false, false);
            let was = std::mem::replace(&mut own.phase, Phase::Unknown);
            self.turned(at, task, was, false);
        }
    }

    fn migrate(&mut self, at: Ns, cpu: CpuId, id: TaskId, why: MoveReason) {
        let counts = self.counts(at);
        if self.task(id).queued_on.is_some() {
            self.queue_on(id, Some(cpu));
        }
        let task = self.task(id);
        if task.phase == Phase::Queued && !matches!(why, MoveReason::Wakeup | MoveReason::Fork) {
            task.pending.moved = Some(why);
        }
        let counts = counts && !task.background;
        self.seen.any_move = true;
        if counts {
            self.seen.moves[why as usize] += 1;
        }
    }
}

impl Sink for Analyser {
    fn event(&mut self, event: &Event) {
        let (at, cpu) = (event.at, event.cpu);
        match event.kind {
            EventKind::Switch { prev, next, why } => self.switch(at, cpu, prev, next, why),
            EventKind::Waking { task, waker } => self.waking(at, cpu, task, waker),
            EventKind::Placed { task, reason, probes, .. } => self.placed(at, task, reason, probes),
            EventKind::Enqueued { task, nr_running, new } => self.enqueued(at, cpu, task, nr_running, new),
            EventKind::Migrate { task, why, .. } => self.migrate(at, cpu, task, why),
            EventKind::Decided { task, by, to, dsq } => {
                self.decided(task, Step { at, cpu, by, to, dsq });
            }
            EventKind::Lost { count } => self.lost(at, cpu, count),
            EventKind::IdleEnter { .. } => self.cpu(cpu).idle_exit_ns = 0,
            EventKind::IdleExit { exit_ns } => self.cpu(cpu).idle_exit_ns = exit_ns,
            EventKind::Balance { trigger, why, moved, visited, took_ns, .. } => {
                let pass = Passes {
                    passes: 1,
                    moved: moved.into(),
                    visited: visited.into(),
                    took_ns: took_ns.into(),
                };
                let counts = self.counts(at);
                self.seen.balance(trigger, why, counts, pass);
            }
            // A task begins with its first enqueue and ends with a switch for that reason.
            EventKind::Forked { .. } | EventKind::Exited { .. } => {}
            // Details, for which an analyser does not ask.
            EventKind::Skip { .. }
            | EventKind::Kick { .. }
            | EventKind::Schedule { .. }
            | EventKind::Stay
            | EventKind::Allowed { .. } => {}
        }
    }

    fn sample(&mut self, at: Ns, _task: TaskId, series: u16, value: u64) {
        if self.counts(at)
            && let Some((_, series)) = self.recorded.get_mut(usize::from(series))
        {
            series.record(value);
        }
    }
}
