//! Properties of tasks and groups: set at the start, by a new task itself, and from outside within the run.
//!
//! A live run is the model: a new task has its parent's properties, joins its group, takes its CPUs and sets its
//! attributes, in this order and before its program begins. A task that exists from the start has done so already.

use crate::engine::Engine;
use crate::kernel::refused;
use crate::task::Life;
use schedlab_base::{CpuId, CpuSet, GroupId, Result, TaskId};
use schedlab_board::board::Kernel as _;
use schedlab_kernel::{Attr, Limit};
use schedlab_trace::{EventKind, MoveReason};
use schedlab_workload::group::GroupDecl;
use schedlab_workload::{Later, ROOT_GROUP};

impl Engine<'_> {
    /// Makes the workload's groups, parents first.
    ///
    /// # Errors
    /// When the kernel refuses a group.
    pub fn make_groups(&mut self, groups: &[GroupDecl]) -> Result<()> {
        self.quotas.paths = groups.iter().map(|decl| decl.path.clone()).collect();
        for decl in groups {
            let Some(parent) = decl.parent else {
                self.groups.push(0);
                continue;
            };
            let wrong = |what: &str, errno: i32| {
                refused(&format!("the kernel takes no {what} of group {}", decl.path), errno)
            };
            let number =
                self.kernel.image().group_new(self.groups[parent]).map_err(|e| wrong("making", e))?;
            let id = self.groups.push(number);
            if decl.idle {
                self.kernel
                    .image()
                    .group_write(number, "cpu.idle", "1")
                    .map_err(|e| wrong("idle = true", e))?;
            } else {
                self.set_shares(id, decl.shares).map_err(|e| wrong("shares", e))?;
            }
            if decl.quota.is_some() {
                let limit = Limit { quota: decl.quota, period: decl.period, burst: decl.burst };
                self.set_limit(id, &limit).map_err(|e| wrong("quota", e))?;
            }
        }
        Ok(())
    }

    fn set_shares(&mut self, group: GroupId, shares: u64) -> std::result::Result<(), i32> {
        self.kernel.image().group_write(self.groups[group], "cpu.shares", &shares.to_string())
    }

    fn set_limit(&mut self, group: GroupId, limit: &Limit) -> std::result::Result<(), i32> {
        self.quotas.limit(group);
        let number = self.groups[group];
        let quota_us = limit.quota.map_or(-1, |q| (q.0 / 1000) as i64);
        // A burst is at most the present quota, so it is removed first.
        let _ = self.kernel.image().group_write(number, "cpu.cfs_burst_us", "0");
        self.kernel.image().group_write(number, "cpu.cfs_period_us", &(limit.period.0 / 1000).to_string())?;
        self.kernel.image().group_write(number, "cpu.cfs_quota_us", &quota_us.to_string())?;
        if limit.burst.0 > 0 {
            self.kernel.image().group_write(
                number,
                "cpu.cfs_burst_us",
                &(limit.burst.0 / 1000).to_string(),
            )?;
        }
        Ok(())
    }

    pub fn set_attr(&mut self, cpu: CpuId, task: TaskId, attr: Attr) {
        self.enter(cpu);
        if let Err(errno) = self.kernel.set_attr(self.tasks[task].pid, attr) {
            let what =
                format!("the kernel refuses the attributes of task '{}'", self.board.threads[task].name);
            self.fail(refused(&what, errno));
        }
    }

    /// `None`: all CPUs.
    pub fn set_affinity(&mut self, cpu: CpuId, task: TaskId, allowed: Option<&CpuSet>) {
        self.enter(cpu);
        self.moves = MoveReason::Affinity;
        self.tasks[task].asked = MoveReason::Affinity;
        let all = CpuSet::first(self.nr_cpus());
        if let Err(errno) = self.kernel.set_affinity(self.tasks[task].pid, allowed.unwrap_or(&all)) {
            let what = format!("the kernel refuses the CPUs of task '{}'", self.board.threads[task].name);
            self.fail(refused(&what, errno));
        }
    }

    /// Reports the CPUs that a task may use from now on, to a sink that asks for it. No tracepoint reports them.
    pub fn emit_allowed(&mut self, cpu: CpuId, task: TaskId, mask: u32) {
        if self.sink.wants_details() {
            self.emit(cpu, EventKind::Allowed { task, mask });
        }
    }

    /// A task's CPUs change from outside.
    fn confine(&mut self, cpu: CpuId, task: TaskId, mask: u32) {
        self.emit_allowed(cpu, task, mask);
        let allowed = &self.board.masks[mask as usize].clone();
        if self.tasks[task].life != Life::Alive {
            // A task that does not exist yet is made with them.
            self.tasks[task].allowed = Some(allowed.clone());
            return;
        }
        self.enter(cpu);
        self.tasks[task].asked = MoveReason::Affinity;
        let pid = self.tasks[task].pid;
        if let Err(errno) = self.kernel.confine(pid, allowed) {
            let what = format!("the kernel refuses the CPUs of task '{}'", self.board.threads[task].name);
            self.fail(refused(&what, errno));
        }
    }

    fn join_group(&mut self, cpu: CpuId, task: TaskId, group: GroupId) {
        self.enter(cpu);
        let (pid, number) = (self.tasks[task].pid, self.groups[group]);
        if let Err(errno) = self.kernel.image().group_move(pid, number) {
            let what = format!("task '{}' can't join its group", self.board.threads[task].name);
            self.fail(refused(&what, errno));
        }
    }

    /// The current task gives itself the next of its own properties.
    pub fn set_up_next(&mut self, cpu: CpuId, curr: TaskId) {
        let Some(mut own) = self.tasks[curr].own.take() else { return self.returns(cpu) };
        if let Some(group) = own.group.take() {
            self.join_group(cpu, curr, group);
        } else if let Some(allowed) = own.allowed.take() {
            self.set_affinity(cpu, curr, allowed.as_ref());
        } else if let Some(attr) = own.attr.take() {
            self.set_attr(cpu, curr, attr);
        }
        self.tasks[curr].own = (!own.is_empty()).then_some(own);
        self.settle_after(cpu);
    }

    /// A task that exists from the start appears on a CPU that a fork by CPU 0 would choose, and has set itself up.
    pub fn start_task(&mut self, task: TaskId) {
        let first = CpuId(0);
        self.enter(first);
        self.make_task(first, task, None);
        let (attr, group, pid) = (self.tasks[task].attr, self.tasks[task].group, self.tasks[task].pid);
        if self.fault.is_some() {
            return;
        }
        self.kernel.image().whole(|image| image.task_start(pid));
        if group != ROOT_GROUP {
            self.join_group(first, task, group);
        }
        if self.tasks[task].session.is_some() && !self.has_company(task) {
            self.begin_session(task);
        }
        if attr != Attr::default() {
            self.set_attr(first, task, attr);
        }
        if (group != ROOT_GROUP || attr != Attr::default()) && attr.policy.is_fair() && self.fault.is_none() {
            // It sleeps until the start, so that the wakeup places it by its own attributes.
            self.kernel.image().task_slept(pid);
        }
        self.tasks[task].life = Life::Alive;
        self.take_outside_notes(first);
    }

    /// Whether another task of its session exists.
    fn has_company(&self, task: TaskId) -> bool {
        let session = &self.tasks[task].session;
        let others = self.tasks.ids().filter(|other| *other != task);
        others.map(|other| &self.tasks[other]).any(|t| t.session == *session && t.life == Life::Alive)
    }

    /// The task's session begins with it, as by setsid().
    fn begin_session(&mut self, task: TaskId) {
        let pid = self.tasks[task].pid;
        if let Err(errno) = self.kernel.image().session_new(pid) {
            let what = format!("task '{}' can't begin a session", self.board.threads[task].name);
            self.fail(refused(&what, errno));
        }
    }

    /// Makes a change from outside, as a writer on CPU 0 would make it.
    pub fn change(&mut self, later: Later) {
        let first = CpuId(0);
        let failed = match later {
            Later::Shares(group, shares) => self.set_shares_now(first, group, shares),
            Later::Limited(group, limit) => {
                self.enter(first);
                self.set_limit(group, &limit).err()
            }
            Later::Confined(group, mask) => {
                for task in self.tasks.ids().filter(|t| self.tasks[*t].group == group).collect::<Vec<_>>() {
                    self.confine(first, task, mask);
                }
                None
            }
            Later::Moved(task, group) => {
                if self.tasks[task].life == Life::Alive {
                    self.join_group(first, task, group);
                }
                self.tasks[task].group = group;
                None
            }
            Later::Allowed(task, mask) => {
                self.confine(first, task, mask);
                None
            }
        };
        if let Some(errno) = failed {
            self.fail(refused("the kernel refuses a change of a group", errno));
        }
        self.take_outside_notes(first);
    }

    fn set_shares_now(&mut self, cpu: CpuId, group: GroupId, shares: u64) -> Option<i32> {
        self.enter(cpu);
        self.set_shares(group, shares).err()
    }

    /// Takes the notes of an action from outside. A CPU that has to switch is signalled.
    fn take_outside_notes(&mut self, cpu: CpuId) {
        self.take_notes(cpu);
        if self.kernel.view().gives_way() {
            let c = &mut self.cpus[cpu];
            c.resched_at = c.resched_at.min(self.now);
            self.touch(cpu);
        }
    }
}
