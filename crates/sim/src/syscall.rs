//! System calls of the running task: their effect, once their time has passed.

use crate::frame::{Step, Sys};
use crate::system::{Context, System};
use crate::task::{TaskState, UserOp};
use crate::timer::Fires;
use schedlab_base::{CpuId, Ns, TaskId};
use schedlab_kernel::Attr;
use schedlab_trace::{EventKind, SwitchReason};
use schedlab_workload::{Outcome, Usage};
use std::sync::atomic::Ordering::SeqCst;

impl System<'_> {
    /// The call's time has passed: it has its effect now.
    pub fn syscall(&mut self, cpu: CpuId, sys: Sys) {
        let Some(curr) = self.cpus[cpu].curr else { return };
        match sys {
            Sys::StartSleep { length, slack_ns } => {
                let soft = self.now.saturating_add(length.0);
                let timer_ns = self.timer_start_ns(cpu, soft.saturating_add(slack_ns));
                self.start_timer(cpu, curr, soft, slack_ns);
                self.begin(cpu, Step::Syscall(Sys::FallAsleep), timer_ns);
            }
            Sys::FallAsleep => match self.tasks[curr].timer {
                Some(_) => self.block(cpu, curr),
                // The timer has fired already.
                None => self.return_to_user(cpu),
            },
            Sys::Sleep { soft, slack_ns } => self.sys_sleep(cpu, curr, soft, slack_ns),
            Sys::Wait { word, value, until } => self.sys_futex_wait(cpu, curr, word, value, until),
            Sys::Wake { word, count } => self.sys_futex_wake(cpu, curr, word, count),
            Sys::Lock | Sys::Spawn { .. } | Sys::Exec if self.preempted_before_sleep(cpu, curr, sys) => {}
            Sys::Lock => self.lock_buffer(cpu, curr),
            Sys::Transfer => self.copied(cpu, curr),
            Sys::Poll { set } => self.sys_poll(cpu, curr, set),
            Sys::Wakeups => self.next_wakeup(cpu, Context::Task),
            Sys::End => self.end_call(cpu),
            Sys::Yield => self.sys_yield(cpu, curr),
            Sys::Compute { work_ns } => {
                self.tasks[curr].user = UserOp::Run { left_ns: work_ns };
                self.cpus[cpu].user_since = self.now;
                self.return_to_user(cpu);
            }
            Sys::Spawn { task } => self.begin_fork(cpu, curr, task),
            Sys::Exec => self.begin_exec(cpu, curr),
            Sys::Usage { task } => self.sys_usage(cpu, curr, task),
            Sys::SetUp => self.sys_set_up(cpu, curr),
            Sys::SetAttr { attr } => self.sys_set_attr(cpu, curr, attr),
            Sys::SetAffinity { mask } => self.sys_set_affinity(cpu, curr, mask),
            Sys::VcpuKicks => self.next_wakeup(cpu, Context::Task),
            Sys::VcpuHalts => self.vcpu_halts(cpu, curr, false),
            Sys::VcpuPolls => self.vcpu_halts(cpu, curr, true),
            Sys::Exit => self.sys_exit(cpu, curr),
        }
    }

    fn sys_sleep(&mut self, cpu: CpuId, curr: TaskId, soft: u64, slack_ns: u64) {
        // The timer is queued before the hardware is set to it.
        if soft.saturating_add(self.fixed.machine.costs.timer_program_ns) <= self.now {
            return self.return_to_user(cpu);
        }
        self.start_timer(cpu, curr, soft, slack_ns);
        self.block(cpu, curr);
    }

    fn start_timer(&mut self, cpu: CpuId, task: TaskId, soft: u64, slack_ns: u64) {
        let (soft, slack_ns) = if self.fixed.history.timers_on_ticks {
            (self.tick_of_timer(cpu, task, soft), 0)
        } else {
            (soft, slack_ns)
        };
        let number = self.cpus[cpu].timers.start(Fires::Wakes(task), soft, slack_ns);
        self.tasks[task].timer = Some((cpu, number));
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

    fn sys_futex_wait(&mut self, cpu: CpuId, curr: TaskId, word: u32, value: u32, until: u64) {
        if self.user.words[word as usize].load(SeqCst) != value {
            self.tasks[curr].outcome = Outcome::WouldNotWait;
            return self.return_to_user(cpu);
        }
        if until <= self.now {
            self.tasks[curr].outcome = Outcome::TimedOut;
            return self.return_to_user(cpu);
        }
        debug_assert!(self.tasks[curr].waits_on.is_none(), "{curr:?} waits for two words");
        self.user.waiters[word as usize].push_back(curr);
        self.tasks[curr].waits_on = Some(word);
        if until != u64::MAX {
            let slack_ns = self.timer_slack_ns(curr);
            self.start_timer(cpu, curr, until, slack_ns);
        }
        self.block(cpu, curr);
    }

    /// Waiters leave the queue together, then are woken one after another (as by a wake queue).
    fn sys_futex_wake(&mut self, cpu: CpuId, curr: TaskId, word: u32, count: u32) {
        let mut woken = 0;
        while woken < count
            && let Some(waiter) = self.user.waiters[word as usize].pop_front()
        {
            self.tasks[waiter].waits_on = None;
            self.cancel_timer(waiter);
            self.cpus[cpu].to_wake[Context::Task as usize].push(waiter);
            woken += 1;
        }
        self.tasks[curr].outcome = Outcome::Count(woken);
        if woken == 0 {
            return self.return_to_user(cpu);
        }
        self.next_wakeup(cpu, Context::Task);
    }

    /// The waiter's time is up: it leaves the word's queue with the outcome of a time-out.
    pub fn time_out(&mut self, task: TaskId) {
        self.tasks[task].timer = None;
        self.tasks[task].timed_out = true;
        if let Some(word) = self.tasks[task].waits_on.take() {
            self.user.waiters[word as usize].retain(|t| *t != task);
            self.tasks[task].outcome = Outcome::TimedOut;
        }
    }

    fn sys_yield(&mut self, cpu: CpuId, curr: TaskId) {
        self.accounts.schedstat.cpus[cpu.index()].counters.yld_count += 1;
        self.yield_task(curr);
        self.schedule(cpu, SwitchReason::Yielded);
    }

    /// CPU time that a task has used, the present stay included.
    fn sys_usage(&mut self, cpu: CpuId, curr: TaskId, of: TaskId) {
        if let Some(used) = self.tasks.get(of.index()) {
            let entity = &self.fair.entities[used.entity];
            let runs = self.cpus[used.cpu].curr == Some(of);
            let since = if runs { self.now - entity.exec_start } else { 0 };
            let usage = Usage {
                cpu: Ns(entity.sum_exec + since),
                ticked: Ns(u64::from(used.counted.ticks) * self.fixed.tick_ns),
                voluntary: used.counted.voluntary,
                involuntary: used.counted.involuntary,
            };
            self.tasks[curr].outcome = Outcome::Used(usage);
        }
        self.return_to_user(cpu);
    }

    fn sys_set_attr(&mut self, cpu: CpuId, curr: TaskId, attr: Attr) {
        self.set_attr(cpu, curr, attr);
        self.return_to_user(cpu);
    }

    fn sys_set_affinity(&mut self, cpu: CpuId, curr: TaskId, mask: u32) {
        let allowed = self.fixed.masks[mask as usize].clone();
        self.emit_detail(cpu, EventKind::Allowed { task: curr, mask });
        self.take_cpus(cpu, curr, Some(allowed));
    }

    fn sys_exit(&mut self, cpu: CpuId, curr: TaskId) {
        if self.fixed.history.exit_moves_task {
            self.join_group(cpu, curr, self.tasks[curr].group);
        }
        self.tasks[curr].state = TaskState::Dead;
        self.tasks[curr].ended = self.now;
        self.run.alive -= usize::from(self.tasks[curr].counts);
        self.emit(cpu, EventKind::Exited { task: curr });
        self.schedule(cpu, SwitchReason::Exited);
    }

    /// Begins creating a task: the fork's own time has passed, a CPU must be chosen.
    fn begin_fork(&mut self, cpu: CpuId, parent: TaskId, task: TaskId) {
        if self.tasks[task].state != TaskState::Unborn {
            return self.return_to_user(cpu);
        }
        self.inherit(task, parent);
        self.emit(cpu, EventKind::Forked { task, parent: Some(parent) });
        self.start_fork_search(cpu, task);
        self.begin(cpu, Step::Fork { task }, 0);
    }

    /// The wakeups of the current task's call are over: the rest of the call follows.
    pub fn after_wakeups(&mut self, cpu: CpuId) {
        let c = &mut self.cpus[cpu];
        c.sync_wakes = false;
        match std::mem::take(&mut c.call_left_ns) {
            0 => self.end_call(cpu),
            left_ns => self.begin(cpu, Step::Syscall(Sys::End), left_ns),
        }
    }

    /// The current task's call continues or returns.
    pub fn end_call(&mut self, cpu: CpuId) {
        if let Some(curr) = self.cpus[cpu].curr
            && let UserOp::Transfer(t) = self.tasks[curr].user
            && !t.returned
        {
            return self.transfer_on(cpu, curr, t);
        }
        self.return_to_user(cpu);
    }
}
