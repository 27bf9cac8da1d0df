//! A state of a whole machine, written into a system.

use crate::balance::newidle_gate::DomainCost;
use crate::class::Dequeue;
use crate::fair::EntityId;
use crate::fair::group::shares::FINE;
use crate::frame::Step;
use crate::pelt::Pelt;
use crate::system::System;
use crate::task::TaskState;
use crate::util_est::UtilEst;
use schedlab_base::{CpuId, CpuSet, GroupId, TaskId};
use schedlab_board::decision::{AskedAverages, AskedCpu, AskedFleet, AskedGroup, AskedPlace, AskedTask, NOW};
use schedlab_kernel::Attr;
use schedlab_workload::{GroupDecl, ROOT_GROUP};

/// Time into a period of load averages, in its units; the same for all.
const INTO_PERIOD: u32 = 512;

impl System<'_> {
    /// Declares the group of a state, before any task.
    pub(super) fn declare(&mut self, group: &AskedGroup, cpu: CpuId) -> GroupId {
        let decl = GroupDecl {
            path: "/asked".to_owned(),
            parent: Some(ROOT_GROUP),
            shares: group.shares,
            ..GroupDecl::root()
        };
        self.declare_groups(&[GroupDecl::root(), decl]);
        let id = GroupId::from(1);
        let all = &mut self.fair.groups[id];
        (all.load, all.runnable) = (group.load, group.runnable);
        let queue = self.group_queue(id, cpu);
        self.fair.group_rqs[queue].contribution = group.contribution;
        let q = &mut self.fair.queues[queue];
        (q.load_fine, q.avg.load_avg) = (group.queue_weight * FINE, group.queue_load);
        id
    }

    /// Writes a state; returns its tasks in their order.
    pub(super) fn write_fleet(&mut self, state: &AskedFleet) -> Vec<TaskId> {
        self.now = NOW;
        self.stepping.horizon = u64::MAX;
        let mut tasks = vec![TaskId(0); state.tasks.len()];
        // A queue that is empty is left without delay.
        let off = |t: &AskedTask| matches!(t.place, AskedPlace::Absent | AskedPlace::Leaves);
        for (i, t) in state.tasks.iter().enumerate().filter(|(_, t)| off(t)) {
            tasks[i] = self.asked_task(t);
            self.deactivate_task(tasks[i], Dequeue::Sleep);
            self.tasks[tasks[i]].state = TaskState::Sleeping;
        }
        for (i, t) in state.tasks.iter().enumerate().filter(|(_, t)| !off(t)) {
            tasks[i] = self.asked_task(t);
        }
        self.order(&tasks, state);
        let all = || tasks.iter().zip(&state.tasks);
        all().for_each(|(task, t)| self.seat(*task, t));
        all().for_each(|(task, t)| self.overwrite_task(*task, t));
        for (i, c) in state.cpus.iter().enumerate() {
            self.overwrite_cpu(CpuId::from(i), c);
        }
        self.overwrite_levels(state);
        self.balance.overload = state.overload;
        tasks
    }

    /// Makes a task its CPU's current one, if it is.
    fn seat(&mut self, task: TaskId, t: &AskedTask) {
        match t.place {
            AskedPlace::Runs => {
                self.set_next_task(t.cpu, task);
                self.note_picked(t.cpu, task);
            }
            AskedPlace::Leaves => {}
            AskedPlace::Waits | AskedPlace::Absent => return,
        }
        self.cpus[t.cpu].curr = Some(task);
        self.tasks[task].on_cpu = true;
    }

    /// Puts the queued tasks in order by their vruntimes.
    fn order(&mut self, tasks: &[TaskId], state: &AskedFleet) {
        let queued = |t: &&AskedTask| matches!(t.place, AskedPlace::Runs | AskedPlace::Waits);
        let all: Vec<(EntityId, i64)> = tasks
            .iter()
            .zip(&state.tasks)
            .filter(|(_, t)| queued(t))
            .map(|(task, t)| (self.tasks[*task].entity, t.vruntime))
            .collect();
        all.iter().for_each(|(e, _)| self.off_line(*e));
        for (entity, vruntime) in &all {
            let e = &mut self.fair.entities[*entity];
            (e.vruntime, e.deadline) = (*vruntime, vruntime + e.slice_ns as i64);
        }
        for cpu in (0..state.cpus.len()).map(CpuId::from) {
            let queue = self.root(cpu);
            let q = &mut self.fair.queues[queue];
            q.min_vruntime = 0;
            q.timeline.rebase(0);
        }
        all.iter().for_each(|(e, _)| self.on_line(*e));
    }

    fn asked_task(&mut self, t: &AskedTask) -> TaskId {
        let allowed: CpuSet = (0..64).filter(|c| t.allowed >> c & 1 == 1).map(CpuId).collect();
        self.born(t.cpu, Attr { policy: t.policy, nice: t.nice, ..Attr::default() }, Some(allowed))
    }

    fn overwrite_task(&mut self, task: TaskId, t: &AskedTask) {
        let now = self.pelt_clock(self.entity(task).cfs_rq);
        let own = &mut self.tasks[task];
        own.recent = t.recent;
        own.flips.count = t.flips;
        let entity = own.entity;
        let e = &mut self.fair.entities[entity];
        e.avg = pelt(&t.avg, now);
        e.est = UtilEst { enqueued: t.avg.util_est, ewma: t.avg.util_est, unchanged: false };
        e.exec_start = NOW - t.ran_ago_ns;
        if t.next {
            let queue = e.cfs_rq;
            self.fair.queues[queue].next = Some(entity);
        }
    }

    fn overwrite_cpu(&mut self, cpu: CpuId, c: &AskedCpu) {
        let queue = self.root(cpu);
        let now = self.pelt_clock(queue);
        let q = &mut self.fair.queues[queue];
        q.avg = pelt(&c.avg, now);
        q.util_est = c.avg.util_est;
        let llc = self.llc_of(cpu);
        let first = self.fixed.machine.topology.cpus.iter().position(|t| t.llc as usize == llc);
        if first == Some(cpu.index()) {
            self.llc[llc].nr_idle_scan = c.nr_idle_scan;
            self.llc[llc].has_idle_cores = c.has_idle_cores;
        }
        let step = c.idle_exit_us.map_or(Step::IdleLoop, |us| self.halted_in(us));
        let own = &mut self.cpus[cpu];
        own.avg_idle_ns = c.avg_idle_ns;
        (own.need_resched, own.lazy) = (None, false);
        own.wake_list.clear();
        if c.wakeup_pending {
            own.wake_list.push(TaskId(0));
        }
        own.idle_stamp = c.idle_since_ns;
        own.task.step = step;
        self.ask_with_misfit(cpu, c.misfit);
        if c.rt_util > 0 || c.nr_rt > 0 {
            self.ask_beside_real_time(cpu, c.rt_util.into(), c.nr_rt);
        }
        self.refresh_idle(cpu);
    }

    /// Halted in the machine's idle state of that exit latency.
    fn halted_in(&self, exit_us: u32) -> Step {
        let states = &self.fixed.machine.idle_states;
        let at = states.iter().position(|s| s.exit.0 / 1000 == u64::from(exit_us));
        at.map_or(Step::IdleLoop, |state| Step::Halted { state: state as u8 })
    }

    fn overwrite_levels(&mut self, state: &AskedFleet) {
        for (at, level) in state.levels.iter().enumerate() {
            let own = &mut self.cpus[state.cpu].levels[at];
            own.state.nr_balance_failed = level.failed;
            own.cost = DomainCost::known(level.newidle_cost_ns);
            let group = self.fixed.domains.of_cpu[state.cpu][at].groups[0];
            self.mark_imbalanced(group, level.imbalanced);
        }
    }
}

fn pelt(to: &AskedAverages, now: u64) -> Pelt {
    let mut avg = Pelt {
        last_update_ns: now,
        period_contrib: INTO_PERIOD,
        load_avg: to.load,
        runnable_avg: to.runnable,
        util_avg: to.util,
        ..Pelt::default()
    };
    avg.sums_from_averages();
    avg
}
