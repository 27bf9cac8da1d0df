//! System calls: their effect on the image, once their time has passed.

use crate::board::Board;
use crate::cpu::{After, Call, Next};
use crate::kernel::{NewTask, refused};
use crate::task::{Declared, Life, Parked, Task, UserOp};
use schedlab_base::{CpuId, Ns, TaskId};
use schedlab_kernel::Attr;
use schedlab_trace::{EventKind, MoveReason};
use schedlab_workload::{Outcome, SetId, Usage};
use schedlab_world::engine::NEVER;
use schedlab_world::preempt::{Point, gives_way};
use std::sync::atomic::Ordering::SeqCst;

impl Board<'_> {
    /// The call's time has passed: it has its effect now.
    pub fn call(&mut self, cpu: CpuId, call: Call) {
        let Some(curr) = self.cpus[cpu].current.program() else { return };
        match call {
            Call::Compute { work_ns } => {
                self.tasks[curr].user = UserOp::Run { left_ns: work_ns };
                self.settle_now(cpu);
            }
            Call::Sleep { until } => self.sleep(cpu, curr, until, None),
            Call::SleepFor { length_ns } => self.sleep(cpu, curr, self.now.saturating_add(length_ns), None),
            Call::Wait { word, value, until } => self.futex_wait(cpu, curr, word, value, until),
            Call::Wake { word, count } => self.futex_wake(cpu, curr, word, count),
            Call::Lock => self.lock_buffer(cpu, curr),
            Call::Copied => self.copied(cpu, curr),
            Call::Poll { set } => self.poll(cpu, curr, SetId(set)),
            Call::End => self.end_call(cpu, curr),
            Call::VcpuHalts => self.vcpu_halts(cpu, curr, false),
            Call::VcpuPolls => self.vcpu_halts(cpu, curr, true),
            Call::Yield => {
                self.enter(cpu);
                self.kernel.image().yield_now();
                self.settle_after(cpu);
            }
            Call::Spawn { task } => self.spawn(cpu, curr, task),
            Call::Exec => {
                self.enter(cpu);
                self.moves = MoveReason::Exec;
                self.tasks[curr].asked = MoveReason::Exec;
                self.kernel.image().exec();
                self.settle_after(cpu);
            }
            Call::SetAttr { attr } => {
                self.tasks[curr].attr = attr;
                self.set_attr(cpu, curr, attr);
                self.settle_after(cpu);
            }
            Call::SetAffinity { mask } => {
                let allowed = self.masks[mask as usize].clone();
                self.emit_allowed(cpu, curr, mask);
                self.set_affinity(cpu, curr, Some(&allowed));
                self.settle_after(cpu);
            }
            Call::Usage { task } => self.usage(cpu, curr, task),
            Call::SetUp => self.set_up_next(cpu, curr),
            Call::Exit => self.exit(cpu, curr),
        }
    }

    /// The current call returns.
    pub fn settle_now(&mut self, cpu: CpuId) {
        self.begin_open(cpu, Next::Settle, 0);
    }

    /// The current task sleeps until it is woken: it is marked now, and leaves its CPU when the way to `schedule()` is
    /// over. A wakeup in between keeps it running, as in the kernel.
    pub fn block(&mut self, cpu: CpuId) {
        self.enter(cpu);
        self.kernel.image().prepare_sleep(false);
        self.follow(cpu, After::Schedule);
    }

    fn sleep(&mut self, cpu: CpuId, curr: TaskId, until: u64, word: Option<u32>) {
        let slack_ns = if self.tasks[curr].attr.policy.is_fair() { self.tasks[curr].slack_ns } else { 0 };
        self.tasks[curr].user = UserOp::Timed { word };
        self.enter(cpu);
        self.kernel.image().prepare_sleep(false);
        let until = self.kernel_time(until);
        self.kernel.image().start_timer(until, slack_ns);
        self.follow(cpu, After::Schedule);
    }

    /// A task is back from a timed sleep.
    pub fn back_from_timer(&mut self, cpu: CpuId, curr: TaskId, word: Option<u32>) {
        let timed_out = self.kernel.image().timed_out(self.tasks[curr].pid);
        let spent_ns = self.take_notes(cpu);
        self.tasks[curr].user = UserOp::Ask;
        // Whoever was taken off the word's queue was woken, even if the time has run out since.
        if let Some(word) = word
            && let Some(place) = self.user.waiters[word as usize].iter().position(|t| *t == curr)
        {
            self.user.waiters[word as usize].remove(place);
            self.tasks[curr].outcome = Outcome::TimedOut;
        }
        let return_ns =
            if timed_out { self.machine.costs.timer_return_ns } else { self.machine.costs.idle_return_ns };
        self.begin_open(cpu, Next::Settle, spent_ns + return_ns);
    }

    fn futex_wait(&mut self, cpu: CpuId, curr: TaskId, word: u32, value: u32, until: u64) {
        if self.user.words[word as usize].load(SeqCst) != value {
            self.tasks[curr].outcome = Outcome::WouldNotWait;
            return self.settle_now(cpu);
        }
        if until <= self.now {
            self.tasks[curr].outcome = Outcome::TimedOut;
            return self.settle_now(cpu);
        }
        self.user.waiters[word as usize].push_back(curr);
        if until == NEVER {
            self.tasks[curr].user = UserOp::Waits { word };
            return self.block(cpu);
        }
        self.sleep(cpu, curr, until, Some(word));
    }

    /// Waiters leave the queue together, then are woken one after another (as by a wake queue).
    fn futex_wake(&mut self, cpu: CpuId, curr: TaskId, word: u32, count: u32) {
        let mut woken = 0;
        while woken < count
            && let Some(waiter) = self.user.waiters[word as usize].pop_front()
        {
            self.cpus[cpu].to_wake.push(waiter);
            woken += 1;
        }
        self.tasks[curr].outcome = Outcome::Count(woken);
        self.wake_next(cpu);
    }

    /// The next task of the list is woken; with none left the call ends.
    pub fn wake_next(&mut self, cpu: CpuId) {
        if self.cpus[cpu].to_wake.is_empty() {
            let c = &mut self.cpus[cpu];
            c.sync_wakes = false;
            let left_ns = std::mem::take(&mut c.call_left_ns);
            return self.begin_open(cpu, Next::Call(Call::End), left_ns);
        }
        let c = &mut self.cpus[cpu];
        let (task, sync) = (c.to_wake.remove(0), c.sync_wakes);
        self.enter(cpu);
        self.kernel.image().wake(self.tasks[task].pid, sync);
        self.follow(cpu, After::Wake);
    }

    /// The current task's call continues or returns.
    fn end_call(&mut self, cpu: CpuId, curr: TaskId) {
        match self.tasks[curr].user {
            UserOp::Transfer(t) if !t.returned => self.transfer_continues(cpu, curr, t),
            _ => self.settle_now(cpu),
        }
    }

    /// Whether the current task gives way at a point of its call; it continues there when it runs again.
    pub fn leaves_call(&mut self, cpu: CpuId, point: Point, (next, left_ns): (Next, u64)) -> bool {
        let view = self.kernel.view();
        let urgent = view.gives_way().then(|| view.needs_resched());
        if urgent.is_none() || !gives_way(self.preempt, point, urgent) {
            return false;
        }
        let Some(curr) = self.cpus[cpu].current.program() else { return false };
        let is_call = matches!(next, Next::Call(_) | Next::Wake);
        let locked = matches!(self.tasks[curr].user, UserOp::Transfer(t) if self.channels.locks_out(curr, t));
        if !is_call || locked {
            return false;
        }
        let c = &mut self.cpus[cpu];
        self.tasks[curr].parked = Some(Box::new(Parked {
            next,
            left_ns,
            to_wake: std::mem::take(&mut c.to_wake),
            sync_wakes: std::mem::take(&mut c.sync_wakes),
            call_left_ns: std::mem::take(&mut c.call_left_ns),
        }));
        self.begin(cpu, Next::Schedule, self.machine.costs.schedule_preempt_ns);
        true
    }

    /// Continues the call that the current task has left, if there is one.
    pub fn continues_call(&mut self, cpu: CpuId, curr: TaskId) -> bool {
        let Some(parked) = self.tasks[curr].parked.take() else { return false };
        let c = &mut self.cpus[cpu];
        c.to_wake = parked.to_wake;
        c.sync_wakes = parked.sync_wakes;
        c.call_left_ns = parked.call_left_ns;
        self.begin_open(cpu, parked.next, parked.left_ns);
        true
    }

    fn usage(&mut self, cpu: CpuId, curr: TaskId, of: TaskId) {
        if let Some(pid) = self.tasks.get(of.index()).map(|t| t.pid).filter(|pid| *pid != 0) {
            self.enter(cpu);
            let used = self.kernel.usage(pid);
            let usage = Usage {
                cpu: Ns(used.runtime_ns),
                ticked: Ns(used.utime_ns),
                voluntary: used.nvcsw as u32,
                involuntary: used.nivcsw as u32,
            };
            self.tasks[curr].outcome = Outcome::Used(usage);
        }
        self.settle_now(cpu);
    }

    fn exit(&mut self, cpu: CpuId, curr: TaskId) {
        let task = &mut self.tasks[curr];
        task.ended = self.now;
        task.life = Life::Dead;
        self.alive -= usize::from(task.counts);
        let waits = task.waits_at_end;
        self.emit(cpu, EventKind::Exited { task: curr });
        if waits {
            return self.block(cpu);
        }
        self.enter(cpu);
        self.kernel.image().exit();
        self.settle_after(cpu);
    }

    /// The current task makes a new one, which has what its parent has until it has set itself up.
    fn spawn(&mut self, cpu: CpuId, parent: TaskId, task: TaskId) {
        if self.tasks[task].life != Life::Unborn {
            return self.settle_now(cpu);
        }
        let (p, t) = (&self.tasks[parent], &self.tasks[task]);
        let own = Declared {
            attr: (t.attr != p.attr).then_some(t.attr),
            allowed: (t.allowed != p.allowed).then(|| t.allowed.clone()),
            group: (t.group != p.group).then_some(t.group),
        };
        self.tasks[task].own = (!own.is_empty()).then(|| Box::new(own));
        self.enter(cpu);
        self.make_task(cpu, task, Some(parent));
        if self.fault.is_some() {
            return self.settle_now(cpu);
        }
        self.tasks[task].life = Life::Alive;
        self.kernel.image().task_start(self.tasks[task].pid);
        self.settle_after(cpu);
    }

    /// A task of the workload is made in the image, as a child of the entered CPU's current task.
    pub fn make_task(&mut self, cpu: CpuId, task: TaskId, parent: Option<TaskId>) {
        let t = &self.tasks[task];
        // The machine's own tasks have had their attributes since the boot. Others set themselves up.
        let first = if t.background { t.attr } else { Attr::default() };
        let new = NewTask {
            name: &t.name,
            attr: parent.map_or(first, |p| self.tasks[p].attr),
            allowed: if parent.is_some() { None } else { t.allowed.as_ref() },
            slack_ns: t.slack_ns,
            mm: t.mm,
            // A child begins in its maker's group. Others join theirs when they set themselves up.
            group: parent.map_or(0, |p| self.groups[self.tasks[p].group]),
            tgid: self.leaders.get(&t.process()).copied().unwrap_or(0),
            inherits: parent.is_some(),
            session_of: self.session_of(task, parent),
        };
        match self.kernel.task_new(&new) {
            Ok(pid) => {
                let at = pid as usize;
                if self.by_pid.len() <= at {
                    self.by_pid.resize(at + 1, None);
                }
                self.by_pid[at] = Some(task);
                self.tasks[task].pid = pid;
                if self.tasks[task].mm != 0 {
                    self.leaders.entry(self.tasks[task].process()).or_insert(pid);
                }
            }
            Err(errno) => {
                let what = format!("the kernel makes no task '{}'", self.tasks[task].name);
                self.fail(refused(&what, errno));
            }
        }
        self.tasks[task].ran_on = cpu;
        self.emit(cpu, EventKind::Forked { task, parent });
    }
}

impl Board<'_> {
    /// A task that is there already of the session in which a new one is born; 0: there is none, or no session.
    fn session_of(&self, task: TaskId, parent: Option<TaskId>) -> i32 {
        let own = &self.tasks[task].session;
        if parent.is_some() || own.is_none() {
            return 0;
        }
        let alive = |t: &&Task| t.session == *own && t.pid != 0 && t.life == Life::Alive;
        self.tasks.iter().find(alive).map_or(0, |t| t.pid)
    }
}

impl Declared {
    /// Whether nothing is left to do.
    pub fn is_empty(&self) -> bool {
        self.attr.is_none() && self.allowed.is_none() && self.group.is_none()
    }
}
