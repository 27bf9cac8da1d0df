//! Drives `fits`: finds CPUs whose running task is too large for them, and the capacities that passes compare.

use crate::balance::capacity::is_reduced;
use crate::balance::fits::{Asymmetry, Kinds, fits};
use crate::system::System;
use schedlab_base::{CpuId, TaskId};

impl System<'_> {
    /// Sets the load of a CPU's misfit, in a state about which a question is asked.
    pub(crate) fn ask_with_misfit(&mut self, cpu: CpuId, load: u64) {
        self.balance.misfit[cpu] = load;
    }

    /// Whether a task fits a CPU (`task_fits_cpu`).
    pub fn task_fits(&self, task: TaskId, cpu: CpuId) -> bool {
        fits(self.task_util_est(task), self.capacity_of(cpu))
    }

    /// Whether a task fits some CPU of a group that it may use.
    pub(super) fn fits_group(&self, task: TaskId, group: u32) -> bool {
        let cpus = &self.fixed.domains.groups[group as usize].cpus;
        cpus.iter().any(|c| self.tasks[task].may_run_on(*c) && self.task_fits(task, *c))
    }

    /// Updates the CPU's misfit after a fair task was picked, or in a tick; `None` if the CPU looks for work
    /// (`update_misfit_status`).
    #[inline]
    pub fn update_misfit(&mut self, cpu: CpuId, task: Option<TaskId>) {
        if self.fixed.asym && self.fixed.history.misfit {
            let load = task.filter(|t| self.is_misfit(*t, cpu)).map(|t| self.task_h_load(t).max(1));
            self.balance.misfit[cpu] = load.unwrap_or(0);
        }
    }

    fn is_misfit(&self, task: TaskId, cpu: CpuId) -> bool {
        let t = &self.tasks[task];
        if t.allowed.as_ref().is_some_and(|a| a.len() == 1) {
            return false;
        }
        let history = &self.fixed.history;
        if history.misfit_wants_faster {
            let capacity = &self.fixed.cpu_capacity;
            let most = self.cpus.ids().filter(|c| t.may_run_on(*c)).map(|c| capacity[c]).max();
            if most == Some(capacity[cpu]) {
                return false;
            }
        }
        !self.task_fits(task, cpu)
    }

    /// Whether a tick asks for help with its misfit: a faster CPU exists, or this one is disturbed
    /// (`check_misfit_status`).
    pub(super) fn misfit_kicks(&self, cpu: CpuId, imbalance_pct: u32) -> bool {
        let orig = self.fixed.cpu_capacity[cpu];
        self.balance.misfit[cpu] > 0
            && (orig < self.fixed.max_capacity || is_reduced(self.capacity_of(cpu), orig, imbalance_pct))
    }

    /// Whether the other threads of a CPU's core are idle (`is_core_idle`).
    pub(super) fn core_is_idle_beside(&self, cpu: CpuId) -> bool {
        self.board.siblings[cpu].iter().all(|s| self.rqs.is_idle(*s))
    }

    /// The capacities that a pass for `dst` over a level compares.
    pub(super) fn asymmetry(&self, dst: CpuId, level: usize) -> Asymmetry {
        if !self.fixed.domains.of_cpu[dst][level].params.asym_capacity {
            return Asymmetry::default();
        }
        let history = &self.fixed.history;
        Asymmetry {
            marked: true,
            by_target: history.misfit_by_target,
            before_types: history.capacity_before_types,
            dst_capacity: self.capacity_of(dst),
            dst_core_busy: history.misfit_to_idle_cores && !self.core_is_idle_beside(dst),
        }
    }

    /// The facts about a group for these comparisons; `misfit_load` as the pass has read it.
    pub(super) fn kinds(&self, group: u32, misfit_load: u64) -> Kinds {
        let cpus = self.fixed.domains.groups[group as usize].cpus.iter();
        let (min, max) = cpus.fold((u64::MAX, 0), |(min, max), cpu| {
            let capacity = self.capacity_of(*cpu);
            (min.min(capacity), max.max(capacity))
        });
        let is_core = self.fixed.domains.groups[group as usize].flags.share_capacity;
        Kinds { misfit_load, min_capacity: min, max_capacity: max, is_core }
    }
}
