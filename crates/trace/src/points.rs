//! Converts our events into the kernel's tracepoints, as a recorder on a kernel would have written them.
//!
//! Files for other tools consist of tracepoints. They differ from our events in three ways:
//! - a tracepoint names the current task of its CPU, an event does not;
//! - readers accept a wakeup only if the task has left its CPU before. A wakeup may begin while the task is about to
//!   sleep; the simulator then delays it until the end of the switch (`p->on_cpu`). Its tracepoint comes 1 ns after the
//!   switch. No switch is ever moved, so CPU times stay exact;
//! - a task that exists at the start of a run appears by a wakeup, since no other task made it.

use crate::{Event, EventKind, SwitchReason};
use schedlab_base::{CpuId, Ns, TaskId};

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Tracepoint {
    /// Nanoseconds since the run began.
    pub at: Ns,
    pub cpu: CpuId,
    /// The current task of the CPU; `None`: the idle task.
    pub current: Option<TaskId>,
    pub point: Point,
}

/// The tracepoints that correspond to our events. `None` as a task means the idle task.
#[allow(missing_docs)]
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Point {
    /// sched_switch; `state` is the leaving task's.
    Switch { prev: Option<TaskId>, state: Left, next: Option<TaskId> },
    /// sched_waking; `target` is the task's last CPU, as in the kernel. `irq`: in an interrupt.
    Waking { task: TaskId, target: CpuId, irq: bool },
    /// sched_wakeup, or sched_wakeup_new for a new task.
    Wakeup { task: TaskId, target: CpuId, new: bool },
    /// sched_migrate_task.
    Migrate { task: TaskId, from: CpuId, to: CpuId },
    /// task_newtask.
    NewTask { task: TaskId },
    /// sched_process_exit.
    Exit { task: TaskId },
    /// cpu_idle; `None`: the CPU leaves the idle state.
    Idle { state: Option<u8> },
}

/// The state in which a task left its CPU.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Left {
    /// Sleeps (S). A simulated sleep is always interruptible.
    Asleep,
    /// Ended (X).
    Dead,
    /// Gave way voluntarily and is runnable (R).
    Runnable,
    /// Was preempted and is runnable (R+).
    Preempted,
}

impl Left {
    /// The state that a switch reason implies.
    pub const fn of(why: SwitchReason) -> Left {
        match why {
            SwitchReason::Blocked => Left::Asleep,
            SwitchReason::Exited => Left::Dead,
            SwitchReason::Yielded | SwitchReason::FromIdle => Left::Runnable,
            _ => Left::Preempted,
        }
    }
    /// `prev_state` of sched_switch since 4.14.
    pub const fn bits(self) -> i64 {
        match self {
            Left::Asleep => 0x1,
            Left::Dead => 0x10,
            Left::Runnable => 0,
            Left::Preempted => 0x100,
        }
    }
    /// The letters in texts.
    pub const fn letters(self) -> &'static str {
        match self {
            Left::Asleep => "S",
            Left::Dead => "X",
            Left::Runnable => "R",
            Left::Preempted => "R+",
        }
    }
}

/// Whether tracepoints lack the reason of a switch: the task gave way for a cause that they don't show.
pub fn is_untold(why: SwitchReason) -> bool {
    use SwitchReason::*;
    !matches!(why, Blocked | Exited | Yielded | Preempted | FromIdle)
}

/// Follows a run's events and makes its tracepoints.
#[derive(Debug, Default)]
pub struct Points {
    current: Vec<Option<TaskId>>,
    tasks: Vec<Task>,
}

#[derive(Clone, Copy, Debug, Default)]
struct Task {
    running: bool,
    last_cpu: CpuId,
    /// Time when it last left its CPU.
    left_at: Option<Ns>,
    /// A wakeup that began while the task was still running.
    early: Option<(CpuId, bool, Option<TaskId>)>,
    /// Whether its wakeup has begun but not ended.
    waking: bool,
}

impl Points {
    /// The current task of a CPU, as far as events show.
    pub fn current(&self, cpu: CpuId) -> Option<TaskId> {
        self.current.get(cpu.index()).copied().flatten()
    }
    /// The current or last CPU of a task.
    pub fn last_cpu(&self, task: TaskId) -> CpuId {
        self.tasks.get(task.index()).map_or(CpuId(0), |t| t.last_cpu)
    }
    fn task(&mut self, task: TaskId) -> &mut Task {
        if task.index() >= self.tasks.len() {
            self.tasks.resize(task.index() + 1, Task::default());
        }
        &mut self.tasks[task.index()]
    }

    /// The tracepoints of an event: none, one, or a switch with the wakeup that waited for it.
    pub fn of(&mut self, event: &Event) -> impl Iterator<Item = Tracepoint> + use<> {
        let Event { at, cpu, kind } = *event;
        let current = self.current(cpu);
        let here = |point| Some(Tracepoint { at, cpu, current, point });
        let mut waited = None;
        let first = match kind {
            EventKind::Switch { prev, next, .. } if prev == next => None,
            EventKind::Switch { prev, next, why } => {
                waited = self.switch(at, cpu, prev, next, why);
                let point = Point::Switch { prev, state: Left::of(why), next };
                Some(Tracepoint { at, cpu, current: prev, point })
            }
            EventKind::Waking { task, waker } => self.waking(at, cpu, task, waker.is_none()),
            EventKind::Forked { task, parent: None } => self.waking(at, cpu, task, false),
            EventKind::Forked { task, parent: Some(_) } => {
                *self.task(task) = Task { last_cpu: cpu, waking: true, ..Task::default() };
                here(Point::NewTask { task })
            }
            EventKind::Enqueued { task, new, .. } => {
                let of = self.task(task);
                of.early = None;
                let woken = std::mem::take(&mut of.waking);
                if woken || new { here(Point::Wakeup { task, target: cpu, new }) } else { None }
            }
            EventKind::Migrate { task, from, .. } => here(Point::Migrate { task, from, to: cpu }),
            EventKind::Exited { task } => here(Point::Exit { task }),
            EventKind::IdleEnter { state } => here(Point::Idle { state: Some(state) }),
            EventKind::IdleExit { .. } => here(Point::Idle { state: None }),
            EventKind::Lost { .. } => {
                self.lost(cpu);
                None
            }
            _ => None,
        };
        [first, waited].into_iter().flatten()
    }

    fn switch(
        &mut self,
        at: Ns,
        cpu: CpuId,
        prev: Option<TaskId>,
        next: Option<TaskId>,
        why: SwitchReason,
    ) -> Option<Tracepoint> {
        if cpu.index() >= self.current.len() {
            self.current.resize(cpu.index() + 1, None);
        }
        if self.current[cpu.index()] != prev {
            self.lost(cpu);
        }
        self.current[cpu.index()] = next;
        if let Some(next) = next {
            let task = self.task(next);
            (task.running, task.last_cpu, task.waking) = (true, cpu, false);
        }
        let prev = prev?;
        let task = self.task(prev);
        (task.running, task.last_cpu, task.left_at) = (false, cpu, Some(at));
        let (by, irq, current) = task.early.take().filter(|_| why == SwitchReason::Blocked)?;
        task.waking = true;
        let point = Point::Waking { task: prev, target: cpu, irq };
        Some(Tracepoint { at: at.plus(Ns(1)), cpu: by, current, point })
    }

    /// Handles lost events of a CPU: its task may have left.
    fn lost(&mut self, cpu: CpuId) {
        let gone = self.current.get_mut(cpu.index()).and_then(Option::take);
        if let Some(gone) = gone {
            let task = self.task(gone);
            // The task may be on another CPU by now.
            if task.last_cpu == cpu {
                (task.running, task.early) = (false, None);
            }
        }
    }

    fn waking(&mut self, at: Ns, cpu: CpuId, task: TaskId, irq: bool) -> Option<Tracepoint> {
        let current = self.current(cpu);
        let of = self.task(task);
        if of.running {
            of.early = Some((cpu, irq, current));
            return None;
        }
        of.waking = true;
        let at = of.left_at.map_or(at, |left| at.max(left.plus(Ns(1))));
        let point = Point::Waking { task, target: of.last_cpu, irq };
        Some(Tracepoint { at, cpu, current, point })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tracepoints(events: &[(u64, u32, EventKind)]) -> Vec<(u64, u32, Point)> {
        let mut points = Points::default();
        let event = |&(at, cpu, kind): &(u64, u32, EventKind)| Event { at: Ns(at), cpu: CpuId(cpu), kind };
        events.iter().flat_map(|e| points.of(&event(e))).map(|p| (p.at.0, p.cpu.0, p.point)).collect()
    }
    const A: TaskId = TaskId(0);
    const B: TaskId = TaskId(1);

    fn switch(prev: Option<TaskId>, next: Option<TaskId>, why: SwitchReason) -> EventKind {
        EventKind::Switch { prev, next, why }
    }

    #[test]
    fn a_wakeup_never_comes_before_the_switch_that_it_waited_for() {
        let waking = EventKind::Waking { task: A, waker: Some(B) };
        let into = switch(None, Some(A), SwitchReason::FromIdle);
        let away = switch(Some(A), None, SwitchReason::Blocked);
        let point = Point::Waking { task: A, target: CpuId(0), irq: false };
        // Both while it is about to sleep, and at the instant of the switch.
        assert_eq!(tracepoints(&[(0, 0, into), (5, 1, waking), (9, 0, away)]).last(), Some(&(10, 1, point)));
        assert_eq!(tracepoints(&[(0, 0, into), (9, 0, away), (9, 1, waking)]).last(), Some(&(10, 1, point)));
        assert_eq!(tracepoints(&[(0, 0, into), (9, 0, away), (12, 1, waking)]).last(), Some(&(12, 1, point)));
    }

    #[test]
    fn a_task_whose_switch_away_is_missing_is_not_on_its_cpu_any_more() {
        let into = switch(None, Some(A), SwitchReason::FromIdle);
        let other = switch(Some(B), None, SwitchReason::Blocked);
        let waking = EventKind::Waking { task: A, waker: None };
        let point = Point::Waking { task: A, target: CpuId(0), irq: true };
        let lost = EventKind::Lost { count: 3 };
        for gap in [other, lost] {
            assert_eq!(
                tracepoints(&[(0, 0, into), (5, 0, gap), (7, 0, waking)]).last(),
                Some(&(7, 0, point))
            );
        }
        let mut points = Points::default();
        for kind in [into, lost] {
            points.of(&Event { at: Ns(0), cpu: CpuId(0), kind }).for_each(drop);
        }
        assert_eq!(points.current(CpuId(0)), None);
    }

    #[test]
    fn a_task_that_never_left_has_no_wakeup() {
        let into = switch(None, Some(A), SwitchReason::FromIdle);
        let away = switch(Some(A), Some(B), SwitchReason::Blocked);
        let waking = EventKind::Waking { task: A, waker: None };
        let still = EventKind::Enqueued { task: A, nr_running: 1, new: false };
        let all = tracepoints(&[(0, 0, into), (5, 1, waking), (6, 0, still), (9, 0, away)]);
        assert!(all.iter().all(|(_, _, p)| matches!(p, Point::Switch { .. })), "{all:?}");
    }

    #[test]
    fn tasks_of_the_start_are_woken_and_others_made() {
        let start = EventKind::Forked { task: A, parent: None };
        let later = EventKind::Forked { task: B, parent: Some(A) };
        let queued = EventKind::Enqueued { task: B, nr_running: 1, new: true };
        let again = EventKind::Enqueued { task: B, nr_running: 1, new: false };
        let all = tracepoints(&[(0, 0, start), (3, 1, later), (4, 1, queued), (5, 0, again)]);
        assert!(matches!(all[0].2, Point::Waking { task: A, irq: false, .. }));
        assert_eq!(all[1].2, Point::NewTask { task: B });
        assert_eq!(all[2].2, Point::Wakeup { task: B, target: CpuId(1), new: true });
        assert_eq!(all.len(), 3, "arrival by balancing is no wakeup");
    }

    #[test]
    fn preempted_and_runnable_states_differ() {
        let states = [SwitchReason::Yielded, SwitchReason::WakeupPreempt, SwitchReason::Preempted];
        assert_eq!(states.map(|why| Left::of(why).letters()), ["R", "R+", "R+"]);
        assert_eq!(Left::of(SwitchReason::TickSlice).bits(), 0x100);
    }
}
