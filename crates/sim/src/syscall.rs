//! System calls that are the kernel's own affair: their effect, once their time has passed. Calls on memory that
//! programs share are the board's ([`schedlab_board::calls`]).

use crate::frame::Step;
use crate::system::System;
use crate::task::TaskState;
use crate::timer::Fires;
use schedlab_base::{CpuId, TaskId};
use schedlab_board::board::Kernel as _;
use schedlab_board::calls::Call;
use schedlab_board::drivers::Calls;
use schedlab_kernel::Attr;
use schedlab_trace::{EventKind, SwitchReason};
use schedlab_workload::Outcome;

impl System<'_> {
    /// The call's time has passed: it has its effect now, unless the task gives way before it.
    pub fn syscall(&mut self, cpu: CpuId, call: Call) {
        if call.might_sleep()
            && let Some(curr) = self.cpus[cpu].curr
            && self.preempted_before_sleep(cpu, curr, call)
        {
            return;
        }
        self.effect(cpu, call);
    }

    /// The effect of a call that is the kernel's own.
    pub fn system_call(&mut self, cpu: CpuId, curr: TaskId, call: Call) {
        match call {
            Call::SleepFor { length } => {
                let (soft, slack_ns) = (self.now.saturating_add(length.0), self.timer_slack_ns(curr));
                let timer_ns = self.timer_start_ns(cpu, soft.saturating_add(slack_ns));
                self.start_timer(cpu, curr, soft, slack_ns);
                self.begin(cpu, Step::Syscall(Call::FallAsleep), timer_ns);
            }
            Call::FallAsleep => match self.tasks[curr].timer {
                Some(_) => self.block(cpu, curr),
                // The timer has fired already.
                None => self.returns(cpu),
            },
            Call::Sleep { until } => self.sys_sleep(cpu, curr, until),
            Call::Yield => self.sys_yield(cpu, curr),
            Call::Spawn { task } => self.begin_fork(cpu, curr, task),
            Call::Exec => self.begin_exec(cpu, curr),
            Call::SetUp => self.sys_set_up(cpu, curr),
            Call::SetAttr { attr } => self.sys_set_attr(cpu, curr, attr),
            Call::SetAffinity { mask } => self.sys_set_affinity(cpu, curr, mask),
            Call::Exit => self.sys_exit(cpu, curr),
            _ => unreachable!("{call:?} is the board's"),
        }
    }

    fn sys_sleep(&mut self, cpu: CpuId, curr: TaskId, soft: u64) {
        // The timer is queued before the hardware is set to it.
        if soft.saturating_add(self.fixed.machine.costs.timer_program_ns) <= self.now {
            return self.returns(cpu);
        }
        self.start_timer(cpu, curr, soft, self.timer_slack_ns(curr));
        self.block(cpu, curr);
    }

    pub fn start_timer(&mut self, cpu: CpuId, task: TaskId, soft: u64, slack_ns: u64) {
        let (soft, slack_ns) = if self.fixed.history.timers_on_ticks {
            (self.tick_of_timer(cpu, task, soft), 0)
        } else {
            (soft, slack_ns)
        };
        let number = self.cpus[cpu].timers.start(Fires::Wakes(task), soft, slack_ns);
        self.has_timer(cpu, task, number);
    }

    /// The task sleeps on timer `number` of `cpu`.
    pub fn has_timer(&mut self, cpu: CpuId, task: TaskId, number: u64) {
        let other = self.tasks[task].timer.replace((cpu, number));
        debug_assert!(other.is_none(), "{task:?} has timer {number} of {cpu} and {other:?}");
    }

    /// When the tick of `cpu` has come that runs a timer due at `soft`, ns. The tick itself comes first.
    fn tick_of_timer(&self, cpu: CpuId, task: TaskId, soft: u64) -> u64 {
        let (tick_ns, next) = (self.fixed.tick_ns, self.cpus[cpu].tick_at);
        let a_tick_more = self.fixed.history.sleeps_a_tick_more || self.tasks[task].waits_on.is_some();
        crate::timer::at_tick(self.now, soft, next, tick_ns, a_tick_more) + 1
    }

    /// Cancels a task's pending timer.
    pub fn cancel_timer(&mut self, task: TaskId) {
        if let Some((on, number)) = self.tasks[task].timer.take() {
            self.cpus[on].timers.cancel(number);
            self.touch(on);
        }
    }

    /// The waiter's time is up: it leaves the word's queue with the outcome of a time-out.
    pub fn time_out(&mut self, task: TaskId) {
        self.tasks[task].timer = None;
        self.tasks[task].timed_out = true;
        if let Some(word) = self.tasks[task].waits_on.take() {
            self.board.user.waiters[word as usize].retain(|t| *t != task);
            self.board.threads[task].outcome = Outcome::TimedOut;
        }
    }

    fn sys_yield(&mut self, cpu: CpuId, curr: TaskId) {
        self.accounts.schedstat.cpus[cpu.index()].counters.yld_count += 1;
        self.yield_task(curr);
        self.schedule(cpu, SwitchReason::Yielded);
    }

    fn sys_set_attr(&mut self, cpu: CpuId, curr: TaskId, attr: Attr) {
        self.set_attr(cpu, curr, attr);
        self.returns(cpu);
    }

    fn sys_set_affinity(&mut self, cpu: CpuId, curr: TaskId, mask: u32) {
        let allowed = self.board.masks[mask as usize].clone();
        self.emit_detail(cpu, EventKind::Allowed { task: curr, mask });
        self.take_cpus(cpu, curr, Some(allowed));
    }

    fn sys_exit(&mut self, cpu: CpuId, curr: TaskId) {
        if self.fixed.history.exit_moves_task {
            self.join_group(cpu, curr, self.tasks[curr].group);
        }
        self.tasks[curr].state = TaskState::Dead;
        self.board.threads[curr].ended = self.now;
        self.run.alive -= usize::from(self.board.threads[curr].counts);
        self.stepping.look_at = 0;
        self.emit(cpu, EventKind::Exited { task: curr });
        self.schedule(cpu, SwitchReason::Exited);
    }

    /// Begins creating a task: the fork's own time has passed, a CPU must be chosen.
    fn begin_fork(&mut self, cpu: CpuId, parent: TaskId, task: TaskId) {
        if self.tasks[task].state != TaskState::Unborn {
            return self.returns(cpu);
        }
        self.inherit(task, parent);
        self.emit(cpu, EventKind::Forked { task, parent: Some(parent) });
        self.start_fork_search(cpu, task);
        self.begin(cpu, Step::Fork { task }, 0);
    }

    /// The wakeups of the current task's call are over: the rest of the call follows.
    pub fn after_wakeups(&mut self, cpu: CpuId) {
        let was_locked = self.board.seats[cpu].wakes_for.is_some();
        match self.wakeups_over(cpu) {
            // It may be preempted now, no earlier.
            left_ns if was_locked && self.preempted_at_unlock(cpu, left_ns) => {}
            0 => self.end_call(cpu),
            left_ns => self.begin(cpu, Step::Syscall(Call::End), left_ns),
        }
    }
}
