//! The real-time class behind the core's interface (`rt.c`): enqueue, dequeue, pick, tick, preemption, class changes.

use super::{Rank, Rt, RtShared};
use crate::class::{Arrival, Dequeue, Enqueue, SchedClass, Select};
use crate::system::System;
use crate::task::Class;
use schedlab_base::{CpuId, TaskId};
use schedlab_kernel::{Attr, Policy};
use schedlab_trace::SwitchReason;

impl SchedClass for Rt {
    fn enqueue_task(sys: &mut System<'_>, cpu: CpuId, task: TaskId, _why: Enqueue) {
        RtShared::first_comes(sys);
        let rank = Rank::of(sys.tasks[task].attr);
        let rt = &mut sys.rt.rqs[cpu];
        rt.array.insert(rank, task, false);
        if !rt.share.throttled {
            sys.add_nr_running(cpu);
        }
        sys.note_overload(cpu);
        sys.start_period();
    }

    fn dequeue_task(sys: &mut System<'_>, task: TaskId, _why: Dequeue) {
        let cpu = sys.tasks[task].cpu;
        sys.update_curr_rt(cpu);
        let rt = &mut sys.rt.rqs[cpu];
        rt.array.remove(task);
        if !rt.share.throttled {
            sys.sub_nr_running(cpu);
        }
        sys.note_overload(cpu);
    }

    fn yield_task(sys: &mut System<'_>, task: TaskId) {
        let cpu = sys.tasks[task].cpu;
        sys.rt.rqs[cpu].array.requeue(task, false);
    }

    /// A more important task preempts. An equal one preempts only if it can't run elsewhere and the running one can.
    fn wakeup_preempt(sys: &mut System<'_>, cpu: CpuId, curr: TaskId, wakee: Arrival) -> bool {
        let rank = |t: TaskId| Rank::of(sys.tasks[t].attr);
        let (own, running) = (rank(wakee.task), rank(curr));
        if own != running || sys.cpus[cpu].need_resched.is_some() {
            return own < running;
        }
        let elsewhere = |t: TaskId| sys.find_lowest_rq_of(t);
        let makes_room = elsewhere(curr) && !elsewhere(wakee.task);
        if makes_room {
            sys.rt.rqs[cpu].array.requeue(wakee.task, true);
        }
        makes_room
    }

    fn pick_next_task(sys: &mut System<'_>, cpu: CpuId, prev: Option<TaskId>) -> Option<TaskId> {
        let next = sys.rt.rqs[cpu].array.first();
        if next == prev {
            sys.update_curr_rt(cpu);
            return next;
        }
        if let Some(prev) = prev {
            Rt::put_prev_task(sys, cpu, prev);
        }
        if let Some(next) = next {
            Rt::set_next_task(sys, cpu, next);
        }
        next
    }

    fn is_runnable(sys: &System<'_>, cpu: CpuId) -> bool {
        sys.rt.rqs[cpu].is_runnable()
            && !(sys.fair_goes_first(cpu) && sys.fair.queues[sys.root(cpu)].h_nr_running > 0)
    }

    fn put_prev_task(sys: &mut System<'_>, cpu: CpuId, _task: TaskId) {
        sys.update_curr_rt(cpu);
        let (now, share) = (sys.cpu_pelt_clock(cpu), sys.util_share(cpu));
        sys.rt.rqs[cpu].taken.update(now, share);
    }

    fn set_next_task(sys: &mut System<'_>, cpu: CpuId, task: TaskId) {
        let (now, clock) = (sys.cpu_pelt_clock(cpu), sys.rq_clock(cpu));
        let e = &mut sys.fair.entities[sys.tasks[task].entity];
        e.exec_start = clock;
        e.prev_sum_exec = e.sum_exec;
        sys.rt.rqs[cpu].taken.update(now, 0);
    }

    fn task_tick(sys: &mut System<'_>, task: TaskId) -> Option<SwitchReason> {
        let cpu = sys.tasks[task].cpu;
        sys.update_curr_rt(cpu);
        if sys.tasks[task].attr.policy != Policy::Rr {
            return None;
        }
        let slice_ticks = sys.rr_slice_ticks();
        let used = &mut sys.tasks[task].rr_ticks;
        *used += 1;
        if u64::from(*used) < slice_ticks {
            return None;
        }
        *used = 0;
        if !sys.rt.rqs[cpu].array.has_equal(task) {
            return None;
        }
        sys.rt.rqs[cpu].array.requeue(task, false);
        Some(SwitchReason::TickSlice)
    }

    fn charge_curr(sys: &mut System<'_>, cpu: CpuId) {
        sys.charge_rt(cpu);
    }

    fn select_task_rq(sys: &mut System<'_>, by: CpuId, task: TaskId, prev: CpuId) -> Select {
        sys.select_rt(by, task, prev)
    }

    fn task_woken(sys: &mut System<'_>, cpu: CpuId, task: TaskId) {
        sys.push_woken(cpu, task);
    }

    /// If the work left after a task leaves is less important, the CPU pulls.
    fn balance(sys: &mut System<'_>, cpu: CpuId, prev: TaskId) {
        let leaves = !sys.tasks[prev].on_rq;
        if leaves && sys.rt.rqs[cpu].highest() > Rank::of(sys.tasks[prev].attr) {
            sys.pull_tasks(cpu);
        }
    }

    fn switched_in(sys: &mut System<'_>, cpu: CpuId) {
        sys.push_tasks(cpu);
    }

    fn migrate_task(sys: &mut System<'_>, task: TaskId, to: CpuId) {
        sys.set_task_rq(task, to);
    }

    /// A real-time task has neither load nor a vruntime.
    fn task_fork(sys: &mut System<'_>, task: TaskId, _to: CpuId) {
        let (cpu, tracks) = (sys.tasks[task].cpu, sys.tracks_load());
        sys.set_task_rq(task, cpu);
        let t = &mut sys.tasks[task];
        (t.relative, t.detached) = (true, tracks);
    }

    fn task_dead(_sys: &mut System<'_>, _task: TaskId) {}

    /// If the running task is now less important than a waiting one, here or elsewhere, it is switched out.
    fn prio_changed(sys: &mut System<'_>, task: TaskId, _old: Attr) {
        let cpu = sys.tasks[task].cpu;
        let (old, new) = (sys.rt.rqs[cpu].array.remove(task), Rank::of(sys.tasks[task].attr));
        sys.rt.rqs[cpu].array.insert(new, task, old < new);
        if old < new {
            sys.pull_tasks(cpu);
        }
        if sys.rt.rqs[cpu].highest() < new {
            sys.resched(sys.stepping.acting, cpu, SwitchReason::PolicyChanged);
        }
    }

    fn set_cpus_allowed(sys: &mut System<'_>, task: TaskId) {
        let cpu = sys.tasks[task].cpu;
        sys.note_overload(cpu);
    }

    fn switched_from(sys: &mut System<'_>, task: TaskId) {
        let cpu = sys.tasks[task].cpu;
        if sys.rt.rqs[cpu].array.is_empty() {
            sys.pull_tasks(cpu);
        }
    }
    fn switched_to(sys: &mut System<'_>, task: TaskId) {
        sys.tasks[task].rr_ticks = 0;
    }

    fn walk(sys: &mut System<'_>, cpu: CpuId) -> Result<u32, String> {
        let rt = &sys.rt.rqs[cpu];
        let there: Vec<_> = rt.array.iter().collect();
        if !there.is_sorted_by_key(|(rank, _)| *rank) {
            return Err("the priority array is out of order".into());
        }
        if let Some((_, task)) = there.iter().find(|(_, t)| sys.tasks[*t].cpu != cpu || !sys.tasks[*t].on_rq)
        {
            return Err(format!("{task:?} is in the priority array but not on this runqueue"));
        }
        if sys.rt.shared.any && rt.is_overloaded() != sys.rt.shared.overloaded.contains(cpu) {
            return Err("the machine does not know whether this CPU has too many real-time tasks".into());
        }
        Ok(if rt.share.throttled { 0 } else { there.len() as u32 })
    }
}

impl System<'_> {
    /// Charges the running task of `cpu` and the CPU's share of the period, if the task is of this class
    /// (`update_curr_rt`).
    fn update_curr_rt(&mut self, cpu: CpuId) {
        if self.charge_rt(cpu) {
            self.resched(self.stepping.acting, cpu, SwitchReason::Throttled);
        }
    }

    /// Charges only; returns whether the class has used up its runtime.
    fn charge_rt(&mut self, cpu: CpuId) -> bool {
        let Some(curr) = self.cpus[cpu].curr.filter(|c| self.class(*c) == Class::Rt) else { return false };
        let clock = self.rq_clock(cpu);
        let delta = self.fair.entities[self.tasks[curr].entity].charge_time(clock);
        if delta == 0 {
            return false;
        }
        let (now, pelt) = (self.now, self.cpu_pelt_clock(cpu));
        self.rt.rqs[cpu].taken.charge(now, delta);
        let share = self.util_share(cpu);
        self.rt.rqs[cpu].taken.update(pelt, share);
        self.charge_share(cpu, delta)
    }

    fn rr_slice_ticks(&self) -> u64 {
        (self.fixed.kernel.tunables.rr_timeslice_ns / self.fixed.tick_ns).max(1)
    }

    /// Whether some CPU would take a task (`cpupri_find`).
    fn find_lowest_rq_of(&self, task: TaskId) -> bool {
        let t = &self.tasks[task];
        let own = Rank::of(t.attr);
        self.is_migratory(task) && self.cpus.ids().any(|c| t.may_run_on(c) && own < self.rt.rqs[c].highest())
    }
}
