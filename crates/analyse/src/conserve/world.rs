//! Follows by events which CPUs are free, where tasks are queued, and which CPUs are in `schedule()`.

use schedlab_base::{CpuId, CpuSet, TaskId};
use schedlab_trace::{Event, EventKind, ExtQueue, MoveReason, PlaceReason, SwitchReason};

/// Why a task came onto a queue.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Queued {
    /// It was woken or created; `None` if the source does not report why it came there.
    Placed(Option<PlaceReason>),
    Moved(MoveReason),
    /// It was switched away from while runnable.
    Preempted(SwitchReason),
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Freed {
    /// The CPU switched to the idle task.
    WentIdle,
    /// The CPU left idle for a task that another CPU has taken.
    Emptied,
}

/// A change made by an event.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Change {
    Freed(CpuId, Freed),
    /// The CPU is not free any more.
    Taken(CpuId),
    Queued(TaskId, CpuId, Queued),
    /// The task runs on the CPU where it was queued.
    Ran(TaskId),
    /// The task was dequeued to be moved.
    Moved(TaskId, MoveReason),
    /// The CPU enters `schedule()`.
    Held(CpuId),
    /// The CPU has switched, or continues with its task. Names the task that it picked from its queue.
    Released(CpuId, Option<TaskId>),
}

#[derive(Clone, Debug, Default)]
struct Cpu {
    current: Option<TaskId>,
    scheduling: bool,
    carries: bool,
    queued: Vec<TaskId>,
    /// Wakeups that chose this CPU and have not queued their task yet.
    incoming: u32,
}

#[derive(Clone, Debug, Default)]
struct Task {
    allowed: Option<CpuSet>,
    queued_on: Option<CpuId>,
    incoming: Option<CpuId>,
    placed: Option<PlaceReason>,
    carried: bool,
    moved: Option<MoveReason>,
    /// The dispatch queue of sched_ext in which it is, if that is not the local one of a CPU.
    shared: Option<ExtQueue>,
}

/// The state of CPUs, tasks and queues between events.
pub struct World {
    cpus: Vec<Cpu>,
    tasks: Vec<Task>,
    masks: Vec<CpuSet>,
    free: CpuSet,
    changes: Vec<Change>,
}

impl World {
    /// All CPUs are idle. `allowed` is indexed by task id and holds the first masks; other tasks may run anywhere.
    /// `masks` are those that tasks may get later.
    pub fn new(nr_cpus: usize, allowed: Vec<Option<CpuSet>>, masks: Vec<CpuSet>) -> World {
        let tasks = allowed.into_iter().map(|allowed| Task { allowed, ..Task::default() }).collect();
        let cpus = vec![Cpu::default(); nr_cpus];
        World { cpus, tasks, masks, free: CpuSet::first(nr_cpus), changes: Vec::with_capacity(8) }
    }

    pub fn free(&self) -> &CpuSet {
        &self.free
    }
    pub fn may_use(&self, task: TaskId, cpu: CpuId) -> bool {
        let allowed = self.tasks.get(task.index()).and_then(|t| t.allowed.as_ref());
        allowed.is_none_or(|a| a.contains(cpu))
    }
    /// Whether a CPU that the task may use is free.
    pub fn has_free(&self, task: TaskId) -> bool {
        match self.tasks.get(task.index()).and_then(|t| t.allowed.as_ref()) {
            Some(allowed) => allowed.intersects(&self.free),
            None => !self.free.is_empty(),
        }
    }
    pub fn queued_on(&self, task: TaskId) -> Option<CpuId> {
        self.tasks.get(task.index()).and_then(|t| t.queued_on)
    }
    pub fn queue(&self, cpu: CpuId) -> &[TaskId] {
        self.cpus.get(cpu.index()).map_or(&[], |c| &c.queued)
    }
    /// The kind of the queue in which it waits, if any CPU might take it from there: then its own CPU may be free.
    pub fn shared(&self, task: TaskId) -> Option<ExtQueue> {
        self.tasks.get(task.index()).and_then(|t| t.shared)
    }
    /// Whether the CPU on whose queue the task is might be picking it.
    pub fn is_held_for(&self, task: TaskId, cpu: CpuId) -> bool {
        self.shared(task).is_none() && self.is_held(cpu)
    }
    /// Whether the CPU is in `schedule()`.
    pub fn is_held(&self, cpu: CpuId) -> bool {
        self.cpus.get(cpu.index()).is_some_and(|c| c.scheduling || c.current.is_none())
    }

    /// Applies the next event; returns all its changes, in order. The state already has all of them.
    pub fn apply(&mut self, e: &Event) -> Vec<Change> {
        match e.kind {
            EventKind::Switch { prev, next, .. } if prev == next => self.released(e.cpu, None),
            EventKind::Switch { prev, next, why } => self.switch(e.cpu, prev, next, why),
            EventKind::Schedule { carries } => {
                let cpu = self.cpu(e.cpu);
                (cpu.scheduling, cpu.carries) = (true, carries);
                self.changes.push(Change::Held(e.cpu));
            }
            EventKind::Stay => self.released(e.cpu, None),
            EventKind::Placed { task, target, reason, .. } => {
                self.arrives(task, Some(target));
                self.task(task).placed = Some(reason);
            }
            EventKind::Enqueued { task, new, .. } => self.enqueued(e.cpu, task, new),
            EventKind::Migrate { task, from, why } => self.migrate(e.cpu, task, from, why),
            EventKind::Decided { task, to, dsq, .. } => self.decided(task, to, dsq.cpu()),
            EventKind::Allowed { task, mask } => {
                let allowed = self.masks.get(mask as usize).cloned();
                self.task(task).allowed = allowed;
            }
            EventKind::Waking { .. }
            | EventKind::Forked { .. }
            | EventKind::Lost { .. }
            | EventKind::Exited { .. }
            | EventKind::IdleEnter { .. }
            | EventKind::IdleExit { .. }
            | EventKind::Balance { .. }
            | EventKind::Skip { .. }
            | EventKind::Kick { .. } => {}
        }
        std::mem::take(&mut self.changes)
    }
    /// Takes back a list of changes to reuse its memory.
    pub fn recycle(&mut self, mut changes: Vec<Change>) {
        changes.clear();
        self.changes = changes;
    }

    fn cpu(&mut self, id: CpuId) -> &mut Cpu {
        if id.index() >= self.cpus.len() {
            self.cpus.resize(id.index() + 1, Cpu::default());
        }
        &mut self.cpus[id.index()]
    }
    fn task(&mut self, id: TaskId) -> &mut Task {
        if id.index() >= self.tasks.len() {
            self.tasks.resize(id.index() + 1, Task::default());
        }
        &mut self.tasks[id.index()]
    }

    /// Updates whether the CPU is free from the rest of its state.
    fn refresh(&mut self, id: CpuId, why: Freed) {
        let cpu = self.cpu(id);
        let free = cpu.current.is_none() && cpu.queued.is_empty() && cpu.incoming == 0;
        if free == self.free.contains(id) {
            return;
        }
        if free {
            self.free.insert(id);
            self.changes.push(Change::Freed(id, why));
        } else {
            self.free.remove(id);
            self.changes.push(Change::Taken(id));
        }
    }

    fn released(&mut self, id: CpuId, picked: Option<TaskId>) {
        let cpu = self.cpu(id);
        (cpu.scheduling, cpu.carries) = (false, false);
        self.changes.push(Change::Released(id, picked));
    }

    fn switch(&mut self, id: CpuId, prev: Option<TaskId>, next: Option<TaskId>, why: SwitchReason) {
        let carries = self.cpu(id).carries;
        self.released(id, next);
        if let Some(next) = next {
            self.unqueue(next);
            let t = self.task(next);
            (t.carried, t.moved, t.shared) = (false, None, None);
            self.changes.push(Change::Ran(next));
        }
        self.cpu(id).current = next;
        match prev {
            Some(prev) if carries => self.task(prev).carried = true,
            Some(prev) if !matches!(why, SwitchReason::Blocked | SwitchReason::Exited) => {
                self.queue_on(id, prev, Queued::Preempted(why));
            }
            Some(prev) => self.task(prev).shared = None,
            None => {}
        }
        if next.is_none() {
            self.changes.push(Change::Held(id));
        }
        self.refresh(id, Freed::WentIdle);
    }

    /// Notes that a wakeup of the task has chosen this CPU; `None`: that the wakeup is over.
    fn arrives(&mut self, task: TaskId, target: Option<CpuId>) {
        let before = std::mem::replace(&mut self.task(task).incoming, target);
        if let Some(cpu) = target {
            self.cpu(cpu).incoming += 1;
            self.refresh(cpu, Freed::Emptied);
        }
        if let Some(cpu) = before {
            self.cpu(cpu).incoming -= 1;
            self.refresh(cpu, Freed::Emptied);
        }
    }

    fn enqueued(&mut self, id: CpuId, task: TaskId, new: bool) {
        let t = self.task(task);
        let (carried, placed, moved) = (std::mem::take(&mut t.carried), t.placed.take(), t.moved.take());
        let how = match (placed, moved) {
            (_, Some(why)) if carried && !new => Queued::Moved(why),
            (Some(reason), _) => Queued::Placed(Some(reason)),
            (None, None | Some(MoveReason::Wakeup | MoveReason::Fork)) if !carried => Queued::Placed(None),
            (None, why) => Queued::Moved(why.unwrap_or(MoveReason::Moved)),
        };
        self.queue_on(id, task, how);
        // After queueing: the CPU was not free before and is not now.
        self.arrives(task, None);
    }

    fn migrate(&mut self, to: CpuId, task: TaskId, from: CpuId, why: MoveReason) {
        if self.task(task).queued_on.is_none() {
            self.task(task).moved = Some(why);
            return;
        }
        self.unqueue(task);
        self.changes.push(Change::Moved(task, why));
        self.queue_on(to, task, Queued::Moved(why));
        self.refresh(from, Freed::Emptied);
    }

    /// A sched_ext scheduler has put the task into a queue.
    fn decided(&mut self, task: TaskId, to: ExtQueue, local: Option<CpuId>) {
        let shared = match to {
            ExtQueue::Kicked => return,
            ExtQueue::Local => None,
            ExtQueue::Global | ExtQueue::User | ExtQueue::Builtin | ExtQueue::Held => Some(to),
        };
        let before = std::mem::replace(&mut self.task(task).shared, shared);
        let Some(on) = self.queued_on(task).filter(|_| before.is_some() != shared.is_some()) else { return };
        // The CPU's queue changes, though the task is not moved to another one.
        let why = if shared.is_some() { MoveReason::ExtSent } else { MoveReason::ExtTaken };
        self.unqueue(task);
        self.changes.push(Change::Moved(task, why));
        self.queue_on(local.unwrap_or(on), task, Queued::Moved(why));
        self.refresh(on, Freed::Emptied);
    }

    fn queue_on(&mut self, id: CpuId, task: TaskId, how: Queued) {
        self.unqueue(task);
        self.task(task).queued_on = Some(id);
        if self.shared(task).is_none() {
            self.cpu(id).queued.push(task);
        }
        self.refresh(id, Freed::Emptied);
        self.changes.push(Change::Queued(task, id, how));
    }

    fn unqueue(&mut self, task: TaskId) {
        if let Some(on) = self.task(task).queued_on.take() {
            self.cpu(on).queued.retain(|t| *t != task);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use schedlab_base::Ns;
    use schedlab_trace::{DsqId, ExtOp};

    const A: TaskId = TaskId(0);
    const B: TaskId = TaskId(1);

    fn apply(w: &mut World, cpu: u32, kind: EventKind) -> Vec<Change> {
        w.apply(&Event { at: Ns(1), cpu: CpuId(cpu), kind })
    }
    fn placed(task: TaskId, target: u32) -> EventKind {
        EventKind::Placed { task, target: CpuId(target), reason: PlaceReason::TargetIdle, probes: 1 }
    }
    fn queued(task: TaskId) -> EventKind {
        EventKind::Enqueued { task, nr_running: 1, new: false }
    }
    fn switch(prev: Option<TaskId>, next: Option<TaskId>, why: SwitchReason) -> EventKind {
        EventKind::Switch { prev, next, why }
    }

    #[test]
    fn a_task_in_a_shared_queue_keeps_no_cpu_from_being_free() {
        let mut w = World::new(2, Vec::new(), Vec::new());
        let to = |to, dsq| EventKind::Decided { task: A, by: ExtOp::Enqueue, to, dsq: DsqId::new(dsq) };
        apply(&mut w, 0, to(ExtQueue::User, 7));
        let changes = apply(&mut w, 1, EventKind::Enqueued { task: A, nr_running: 1, new: false });
        assert_eq!(changes, [Change::Queued(A, CpuId(1), Queued::Placed(None))]);
        assert!(w.free().contains(CpuId(1)) && !w.is_held_for(A, CpuId(1)));
        let changes = apply(&mut w, 0, to(ExtQueue::Local, 0));
        let why = MoveReason::ExtTaken;
        let taken =
            [Change::Moved(A, why), Change::Taken(CpuId(0)), Change::Queued(A, CpuId(0), Queued::Moved(why))];
        assert_eq!(changes, taken);
        assert!(w.is_held_for(A, CpuId(0)) && w.free().contains(CpuId(1)));
    }

    #[test]
    fn a_cpu_is_free_until_a_wakeup_has_chosen_it_and_again_when_it_goes_idle() {
        let mut w = World::new(2, vec![None; 2], Vec::new());
        let (cpu, how) = (CpuId(1), Queued::Placed(Some(PlaceReason::TargetIdle)));
        assert_eq!(apply(&mut w, 0, placed(A, 1)), [Change::Taken(cpu)]);
        assert_eq!(apply(&mut w, 1, queued(A)), [Change::Queued(A, cpu, how)]);
        assert!(w.is_held(cpu) && w.queue(cpu) == [A]);
        let runs = apply(&mut w, 1, switch(None, Some(A), SwitchReason::FromIdle));
        assert_eq!(runs, [Change::Released(cpu, Some(A)), Change::Ran(A)]);
        assert!(!w.is_held(cpu) && w.queue(cpu).is_empty());
        assert_eq!(apply(&mut w, 1, EventKind::Schedule { carries: false }), [Change::Held(cpu)]);
        let sleeps = apply(&mut w, 1, switch(Some(A), None, SwitchReason::Blocked));
        let freed = Change::Freed(cpu, Freed::WentIdle);
        assert_eq!(sleeps, [Change::Released(cpu, None), Change::Held(cpu), freed]);
    }

    #[test]
    fn a_task_taken_from_a_waking_cpu_frees_it_and_a_carried_one_is_queued_where_it_arrives() {
        let mut w = World::new(2, vec![None; 2], Vec::new());
        apply(&mut w, 0, placed(A, 1));
        apply(&mut w, 1, queued(A));
        let why = MoveReason::NohzIdle;
        let moves = apply(&mut w, 0, EventKind::Migrate { task: A, from: CpuId(1), why });
        let expected = [
            Change::Moved(A, why),
            Change::Taken(CpuId(0)),
            Change::Queued(A, CpuId(0), Queued::Moved(why)),
            Change::Freed(CpuId(1), Freed::Emptied),
        ];
        assert_eq!(moves, expected);
        apply(&mut w, 0, switch(None, Some(A), SwitchReason::FromIdle));
        apply(&mut w, 0, EventKind::Schedule { carries: true });
        apply(&mut w, 0, switch(Some(A), Some(B), SwitchReason::Moved));
        assert_eq!(w.queued_on(A), None, "it is carried");
        apply(&mut w, 1, EventKind::Migrate { task: A, from: CpuId(0), why: MoveReason::Active });
        let how = Queued::Moved(MoveReason::Active);
        assert_eq!(apply(&mut w, 1, queued(A)), [Change::Taken(CpuId(1)), Change::Queued(A, CpuId(1), how)]);
    }

    #[test]
    fn a_wakeup_without_a_reason_is_not_a_move() {
        let mut w = World::new(2, vec![None; 2], Vec::new());
        let how = |changes: Vec<Change>| changes.into_iter().find(|c| matches!(c, Change::Queued(..)));
        let queued_there = |cpu: u32, how| Some(Change::Queued(A, CpuId(cpu), how));
        assert_eq!(how(apply(&mut w, 1, queued(A))), queued_there(1, Queued::Placed(None)));
        apply(&mut w, 1, switch(None, Some(A), SwitchReason::FromIdle));
        apply(&mut w, 1, switch(Some(A), None, SwitchReason::Blocked));
        let why = MoveReason::Wakeup;
        apply(&mut w, 0, EventKind::Migrate { task: A, from: CpuId(1), why });
        assert_eq!(how(apply(&mut w, 0, queued(A))), queued_there(0, Queued::Placed(None)));
    }

    #[test]
    fn affinity_masks_are_respected_and_may_change() {
        let only = |cpu: u32| -> CpuSet { std::iter::once(CpuId(cpu)).collect() };
        let mut w = World::new(2, vec![Some(only(0)), None], vec![only(1)]);
        apply(&mut w, 0, placed(B, 0));
        assert!(!w.has_free(A) && w.has_free(B) && w.may_use(A, CpuId(0)));
        apply(&mut w, 0, EventKind::Allowed { task: A, mask: 0 });
        assert!(w.has_free(A) && !w.may_use(A, CpuId(0)));
    }
}
