//! From our events to the kernel's tracepoints: what a recorder on a kernel would have written down.
//!
//! Files for other tools are made of tracepoints. They differ from our events in three ways:
//! - a tracepoint names the task that was current on its CPU, which an event does not;
//! - the readers of such files take a wakeup for one only if the task had left its CPU before. Where a wakeup begins
//!   while the task is still about to sleep, the simulator lets it wait for the end of the switch (`p->on_cpu`), and so
//!   does the point here: it comes 1 ns after the switch. No switch is ever moved, so that times on CPUs stay exact;
//! - a task that is there from the start of a run appears with a wakeup, since no other task made it.

use crate::{Event, EventKind, SwitchReason};
use schedlab_base::{CpuId, Ns, TaskId};

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Tracepoint {
    /// Nanoseconds since the run began.
    pub at: Ns,
    /// The CPU that hit it.
    pub cpu: CpuId,
    /// The task that was current there; `None`: the idle task.
    pub current: Option<TaskId>,
    pub point: Point,
}

/// The tracepoints that have an event of ours behind them. `None` for a task is the idle task.
#[allow(missing_docs)]
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Point {
    /// sched_switch.
    Switch { prev: Option<TaskId>, state: Left, next: Option<TaskId> },
    /// sched_waking; `target` is the CPU of the task's last stay, as the kernel says it. `irq`: in an interrupt.
    Waking { task: TaskId, target: CpuId, irq: bool },
    /// sched_wakeup, or sched_wakeup_new of a new task.
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
    /// It sleeps (S). A simulated sleep is always interruptible.
    Asleep,
    /// It ended (X).
    Dead,
    /// It gave way by itself and is runnable (R).
    Runnable,
    /// It was preempted and is runnable (R+).
    Preempted,
}

impl Left {
    /// The state behind the reason of a switch.
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
    /// The letters of it in texts.
    pub const fn letters(self) -> &'static str {
        match self {
            Left::Asleep => "S",
            Left::Dead => "X",
            Left::Runnable => "R",
            Left::Preempted => "R+",
        }
    }
}

/// Whether the reason of a switch is one that tracepoints do not report: the task gave way for something.
pub fn is_untold(why: SwitchReason) -> bool {
    use SwitchReason::*;
    !matches!(why, Blocked | Exited | Yielded | Preempted | FromIdle)
}

/// Follows the events of a run and reports its tracepoints.
#[derive(Debug, Default)]
pub struct Points {
    current: Vec<Option<TaskId>>,
    tasks: Vec<Task>,
}

#[derive(Clone, Copy, Debug, Default)]
struct Task {
    running: bool,
    last_cpu: CpuId,
    /// When it left its CPU last.
    left_at: Option<Ns>,
    /// A wakeup that began while it was still running.
    early: Option<(CpuId, bool, Option<TaskId>)>,
    /// Its wakeup has begun and has not ended.
    waking: bool,
}

impl Points {
    /// The task that is current on a CPU, as far as events reported.
    pub fn current(&self, cpu: CpuId) -> Option<TaskId> {
        self.current.get(cpu.index()).copied().flatten()
    }
    /// The CPU of a task's last or present stay.
    pub fn last_cpu(&self, task: TaskId) -> CpuId {
        self.tasks.get(task.index()).map_or(CpuId(0), |t| t.last_cpu)
    }
    fn task(&mut self, task: TaskId) -> &mut Task {
        if task.index() >= self.tasks.len() {
            self.tasks.resize(task.index() + 1, Task::default());
        }
        &mut self.tasks[task.index()]
    }

    /// The tracepoints of an event: none, one, or a switch with the wakeup that had waited for it.
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

    /// Events of the CPU are missing: the task on it may have left.
    fn lost(&mut self, cpu: CpuId) {
        let gone = self.current.get_mut(cpu.index()).and_then(Option::take);
        if let Some(gone) = gone {
            let task = self.task(gone);
            // It may have come to another CPU since.
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
        // While it is about to sleep, and at the very instant of the switch.
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
    fn a_wakeup_of_a_task_that_never_left_is_none() {
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
    fn preempted_and_runnable_are_told_apart() {
        let states = [SwitchReason::Yielded, SwitchReason::WakeupPreempt, SwitchReason::Preempted];
        assert_eq!(states.map(|why| Left::of(why).letters()), ["R", "R+", "R+"]);
        assert_eq!(Left::of(SwitchReason::TickSlice).bits(), 0x100);
    }
}
