//! System calls: their effect on the image, once their time has passed.

use crate::cpu::{After, Next};
use crate::engine::Engine;
use crate::kernel::{NewTask, refused};
use crate::task::{Declared, Life, Parked, Slept, Task};
use schedlab_base::{CpuId, TaskId};
use schedlab_board::board::{Context, Kernel as _};
use schedlab_board::calls::Call;
use schedlab_board::drivers::Calls;
use schedlab_board::objects::table::When;
use schedlab_board::preempt::{Point, gives_way};
use schedlab_board::thread::UserOp;
use schedlab_kernel::Attr;
use schedlab_trace::{EventKind, MoveReason};
use schedlab_workload::Outcome;

impl Engine<'_> {
    /// The effect of a call that the board leaves to the kernel.
    pub fn call(&mut self, cpu: CpuId, curr: TaskId, call: Call) {
        match call {
            Call::Sleep { until } => self.sleep(cpu, curr, until, None),
            Call::SleepFor { length } => {
                self.sleep(cpu, curr, self.now.saturating_add(length.0), None);
            }
            Call::Yield => {
                self.turn_to(cpu);
                self.kernel.image().yield_now();
                self.settle_after(cpu);
            }
            Call::Spawn { task } => self.spawn(cpu, curr, task),
            Call::Exec => {
                self.turn_to(cpu);
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
                let allowed = self.board.masks[mask as usize].clone();
                self.emit_allowed(cpu, curr, mask);
                self.set_affinity(cpu, curr, Some(&allowed));
                self.settle_after(cpu);
            }
            Call::SetUp => self.set_up_next(cpu, curr),
            Call::Exit => self.exit(cpu, curr),
            _ => unreachable!("{call:?} is the board's"),
        }
    }

    /// The current task sleeps until it is woken.
    pub fn blocks(&mut self, cpu: CpuId) {
        let curr = self.cpus[cpu].current.program();
        debug_assert!(curr.is_some(), "{cpu} has no task that could sleep");
        self.turn_to(cpu);
        curr.into_iter().for_each(|curr| self.touch_sleep(curr));
        self.kernel.image().prepare_sleep(false);
        self.follow(cpu, After::Schedule);
    }

    pub fn sleep(&mut self, cpu: CpuId, curr: TaskId, until: u64, word: Option<u32>) {
        let slack_ns =
            if self.tasks[curr].attr.policy.is_fair() { self.board.threads[curr].slack_ns } else { 0 };
        debug_assert!(
            self.tasks[curr].slept.is_none(),
            "a task sleeps before it is back from its last sleep"
        );
        self.tasks[curr].slept = Some(Slept::Timed { word });
        self.turn_to(cpu);
        self.kernel.image().prepare_sleep(false);
        let until = self.kernel_time(until);
        self.kernel.image().start_timer(until, slack_ns);
        self.follow(cpu, After::Schedule);
    }

    /// A task is back from a timed sleep.
    pub fn back_from_timer(&mut self, cpu: CpuId, curr: TaskId, word: Option<u32>) {
        let timed_out = self.kernel.image().timed_out(self.tasks[curr].pid);
        let spent_ns = self.take_notes(cpu);
        // A task that was taken off the word's queue was woken, even if the time has run out since.
        if let Some(word) = word
            && let Some(place) = self.board.user.waiters[word as usize].iter().position(|t| *t == curr)
        {
            self.board.user.waiters[word as usize].remove(place);
            self.board.threads[curr].outcome = Outcome::TimedOut;
        }
        let return_ns = if timed_out {
            self.board.machine.costs.timer_return_ns
        } else {
            self.board.machine.costs.idle_return_ns
        };
        self.begin_open(cpu, Next::Settle, spent_ns + return_ns);
    }

    /// The next task of the list is woken; with none left the call ends.
    pub fn wake_next(&mut self, cpu: CpuId) {
        let seat = &mut self.board.seats[cpu];
        let list = &mut seat.to_wake[Context::Task as usize];
        if list.is_empty() {
            let (was_locked, rest) = (seat.wakes_for.is_some(), Next::Call(Call::End));
            let left_ns = self.wakeups_over(cpu);
            if was_locked {
                // It may be preempted now, no earlier.
                self.enter(cpu);
                if self.leaves_call(cpu, Point::WakeupEnd, (rest, left_ns)) {
                    return;
                }
            }
            return self.begin_open(cpu, rest, left_ns);
        }
        let (task, sync) = (list.remove(0), seat.sync_wakes);
        self.turn_to(cpu);
        self.touch_task(task, When::Sleeps);
        self.kernel.image().wake(self.tasks[task].pid, sync);
        self.follow(cpu, After::Wake);
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
        let locked = |t| self.board.channels.locks_out(curr, t);
        let is_locked = matches!(self.board.threads[curr].user, UserOp::Transfer(t) if locked(t))
            || self.board.seats[cpu].wakes_for.is_some();
        if !is_call || is_locked {
            return false;
        }
        debug_assert!(self.tasks[curr].parked.is_none(), "a call is left within a call that was left");
        let seat = &mut self.board.seats[cpu];
        self.tasks[curr].parked = Some(Box::new(Parked {
            next,
            left_ns,
            to_wake: std::mem::take(&mut seat.to_wake[Context::Task as usize]),
            sync_wakes: std::mem::take(&mut seat.sync_wakes),
            call_left_ns: std::mem::take(&mut seat.call_left_ns),
        }));
        self.begin(cpu, Next::Schedule, self.board.machine.costs.schedule_preempt_ns);
        true
    }

    /// Continues the call that the current task has left, if there is one.
    pub fn continues_call(&mut self, cpu: CpuId, curr: TaskId) -> bool {
        let Some(parked) = self.tasks[curr].parked.take() else { return false };
        let seat = &mut self.board.seats[cpu];
        seat.to_wake[Context::Task as usize] = parked.to_wake;
        seat.sync_wakes = parked.sync_wakes;
        seat.call_left_ns = parked.call_left_ns;
        self.begin_open(cpu, parked.next, parked.left_ns);
        true
    }

    fn exit(&mut self, cpu: CpuId, curr: TaskId) {
        debug_assert_eq!(
            self.tasks[curr].life,
            Life::Alive,
            "'{}' ends twice",
            self.board.threads[curr].name
        );
        let thread = &mut self.board.threads[curr];
        thread.ended = self.now;
        self.tasks[curr].life = Life::Dead;
        self.alive -= usize::from(thread.counts);
        let waits = thread.waits_at_end;
        self.emit(cpu, EventKind::Exited { task: curr });
        if waits {
            return self.blocks(cpu);
        }
        self.turn_to(cpu);
        self.kernel.image().exit();
        self.settle_after(cpu);
    }

    /// The current task makes a new one, which has its parent's properties until it has set itself up.
    fn spawn(&mut self, cpu: CpuId, parent: TaskId, task: TaskId) {
        if self.tasks[task].life != Life::Unborn {
            return self.returns(cpu);
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
            return self.returns(cpu);
        }
        self.tasks[task].life = Life::Alive;
        self.kernel.image().task_start(self.tasks[task].pid);
        self.settle_after(cpu);
    }

    /// A task of the workload is made in the image, as a child of the entered CPU's current task.
    pub fn make_task(&mut self, cpu: CpuId, task: TaskId, parent: Option<TaskId>) {
        let (t, thread) = (&self.tasks[task], &self.board.threads[task]);
        // The machine's own tasks have had their attributes since the boot. Other tasks set themselves up.
        let first = if thread.background { t.attr } else { Attr::default() };
        let new = NewTask {
            name: &thread.name,
            attr: parent.map_or(first, |p| self.tasks[p].attr),
            allowed: if parent.is_some() { None } else { t.allowed.as_ref() },
            slack_ns: thread.slack_ns,
            mm: t.mm,
            // A child begins in its parent's group. Others join theirs when they set themselves up.
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
                let what = format!("the kernel makes no task '{}'", self.board.threads[task].name);
                self.fail(refused(&what, errno));
            }
        }
        self.board.threads[task].ran_on = cpu;
        self.emit(cpu, EventKind::Forked { task, parent });
    }
}

impl Engine<'_> {
    /// An existing task of the session in which a new one is born; 0: there is none, or no session.
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
