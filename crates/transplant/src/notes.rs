//! The actions of kernel code, as the image noted them: events for the sink, interrupts to send, and the price.
//!
//! At level `free` the price is by verb, from the machine's costs: a wakeup costs the enqueue and the lock of a
//! runqueue elsewhere, a switch its cost in the machine's file, a balancer's pass so much for each CPU that it looked
//! at. The search for a CPU is not priced: its probes leave no trace. At the other levels these costs are 0
//! ([`schedlab_machine::Costs::beside_counted_code`]), and the image reports the cost of its code. An event has the
//! time of its verb's start. Where CPUs are woven, the cost of the code before it is added.

use crate::cpu::{Activity, Current, Halt, Interrupt, Next};
use crate::engine::Engine;
use crate::note::{BalanceIdle, Balanced, Note, Queued, Step, Switched, Wakee};
use crate::task::{LastEvent, Task, kthread_id};
use schedlab_base::{CpuId, Ns, TaskId};
use schedlab_board::board::Kernel as _;
use schedlab_board::drivers::UserMode;
use schedlab_board::engine::NEVER;
use schedlab_board::objects::table::When;
use schedlab_machine::Distance;
use schedlab_trace::{Event, EventKind, MoveReason, SwitchReason};

/// TASK_DEAD of all modelled releases, as `prev_state` shows it next to the flags below it.
const EXITED_STATES: u64 = 0x30;

impl Engine<'_> {
    /// Takes the notes of the last verb on `cpu`. Returns their price, ns.
    #[inline]
    pub fn take_notes(&mut self, cpu: CpuId) -> u64 {
        if self.kernel.nr_notes() == 0 {
            return self.kernel.image().take_charge_ns();
        }
        self.take_them(cpu)
    }
    fn take_them(&mut self, cpu: CpuId) -> u64 {
        let mut spent_ns = 0;
        for i in 0..self.kernel.nr_notes() {
            let raw = self.kernel.note(i);
            match Note::decode(&raw, self.nr_cpus()) {
                Ok(note) => {
                    let at = self.time_of(raw.after_ns);
                    spent_ns += self.take_note((cpu, at), note, spent_ns + raw.after_ns);
                }
                Err(malformed) => self.fail(malformed.into()),
            }
        }
        self.kernel.clear();
        spent_ns + self.kernel.image().take_charge_ns()
    }

    /// Gives an event of this instant to the sink. Who reads it is not on the machine: it costs nothing.
    pub fn emit(&mut self, cpu: CpuId, kind: EventKind) {
        self.emit_at(self.now, cpu, kind);
    }
    pub fn emit_at(&mut self, at: u64, cpu: CpuId, kind: EventKind) {
        if self.watched {
            self.sink.event(&Event { at: Ns(at), cpu, kind });
        }
    }
    /// The same for an event that a kernel which is watched writes down itself. Returns the cost of that, ns.
    fn record_at(&mut self, at: u64, cpu: CpuId, kind: EventKind) -> u64 {
        self.emit_at(at, cpu, kind);
        self.board.machine.costs.trace_event_ns
    }

    /// The time of an event in the verb under way, whose code had cost `after_ns` until then. A woven verb lets others
    /// act before an event whose time has passed the horizon, so no event of theirs is earlier. Elsewhere others have
    /// not acted yet, and it has the verb's time.
    fn time_of(&self, after_ns: u64) -> u64 {
        let in_order = self.now.saturating_add(after_ns).min(self.horizon.max(self.now));
        if self.kernel.weaves() { in_order } else { self.now }
    }

    /// Takes a note of a verb on `by`. Returns its price, ns; those before it in the verb have cost `spent_ns`.
    fn take_note(&mut self, (by, at): (CpuId, u64), note: Note, spent_ns: u64) -> u64 {
        match note {
            Note::Timer { on, at } => self.set_timer(by, on, at),
            Note::Resched { on } => self.send(by, on, Interrupt::Resched, spent_ns),
            Note::Call { on } => self.send(by, on, Interrupt::Call, spent_ns),
            Note::Switch(switched) => self.switched((by, at), switched),
            Note::Waking { pid, by: waker, was } => self.begins_waking((by, at), (pid, waker), was),
            Note::Wakeup(queued) => self.queued((by, at), queued),
            Note::Migrate { pid, from, to, ext } => self.migrated((by, at), pid, (from, to), ext),
            Note::Fork { .. } | Note::Exit { .. } => 0,
            Note::Balance(passes) => self.balanced(passes),
            Note::Idle { on, state, polls_until } => self.goes_idle(on, state, polls_until),
            Note::NoIpi { on } => self.ends_polling((by, on), self.now + spent_ns),
            Note::Grant { on, at } => self.gets_lock(on, at),
            Note::Printk(message) => self.kernel.keep_message(message),
            Note::Tick { .. } => self.tick_ns(),
            Note::Found(found) => self.found(found, at),
            Note::Chose { pid, cpu, state, ext } => self.explain_choice((by, at), (pid, cpu), state, ext),
            Note::Step(step) => self.decided(at, step),
            Note::Judged(judged) => self.judged(at, judged),
            Note::Picked { on, pid, queue } => self.picked_from((on, at), pid, queue),
        }
    }

    fn set_timer(&mut self, by: CpuId, on: CpuId, at: Option<u64>) -> u64 {
        self.cpus[on].timer_at = at.map_or(NEVER, |at| at.saturating_sub(self.epoch).max(self.now));
        if on != by {
            self.touch(on);
        }
        0
    }

    /// `sched_waking`.
    fn begins_waking(&mut self, (by, at): (CpuId, u64), (pid, waker): (i32, Option<i32>), was: Wakee) -> u64 {
        let Some(task) = self.any_task(pid) else { return 0 };
        self.waking(task, LastEvent { at, cpu: by, name: "sched_waking" });
        self.waking_begins(task, by, was);
        let waker = waker.and_then(|pid| self.any_task(pid));
        self.accounts.wakeups += 1;
        self.record_at(at, by, EventKind::Waking { task, waker })
    }

    /// `sched_wakeup` or `sched_wakeup_new`.
    fn queued(&mut self, (by, at): (CpuId, u64), queued: Queued) -> u64 {
        let Queued { on, pid, nr_running, is_new, gives_way } = queued;
        let Some(task) = self.any_task(pid) else { return 0 };
        self.woken(task, LastEvent { at, cpu: on, name: "sched_wakeup" }, is_new);
        self.explain_queued(at, task, on, is_new);
        let ran_on = self.board.threads.get(task.index()).map(|t| t.ran_on);
        if let Some(from) = ran_on.filter(|from| is_new && *from != on) {
            self.emit_at(at, on, EventKind::Migrate { task, from, why: MoveReason::Fork });
        }
        self.arrived(on, is_new, gives_way);
        let event_ns = self.record_at(at, on, EventKind::Enqueued { task, nr_running, new: is_new });
        let costs = &self.board.machine.costs;
        let lock_ns = match self.distance(by, on) {
            Distance::Own => 0,
            Distance::Smt | Distance::Llc => costs.rq_lock_near_ns,
            Distance::Node | Distance::Remote => costs.rq_lock_far_ns,
        };
        costs.enqueue_ns + lock_ns + event_ns
    }

    /// `sched_migrate_task`.
    fn migrated(&mut self, (by, at): (CpuId, u64), pid: i32, (from, to): (CpuId, CpuId), ext: bool) -> u64 {
        let Some(task) = self.any_task(pid) else { return 0 };
        self.happened(task, LastEvent { at, cpu: to, name: "sched_migrate_task" });
        if let Some(own) = self.tasks.get_mut(task.index()) {
            own.placed = Some(to);
        }
        let why = match self.tasks.get(task.index()) {
            Some(t) if t.waking => MoveReason::Wakeup,
            _ if ext && to == by => MoveReason::ExtTaken,
            _ if ext => MoveReason::ExtSent,
            Some(t) => self.why_moved(by, to, t),
            None => MoveReason::Moved,
        };
        self.record_at(at, to, EventKind::Migrate { task, from, why })
    }

    /// A sched_ext scheduler, or the kernel for it, has decided about a task.
    fn decided(&mut self, at: u64, step: Step) -> u64 {
        if let Some(cpu) = step.preempts {
            self.cpus[cpu].kicked = true;
        }
        let Some(task) = step.pid.and_then(|pid| self.any_task(pid)) else { return 0 };
        let Step { by, to, dsq, .. } = step;
        self.emit_at(at, step.on, EventKind::Decided { task, by, to, dsq });
        0
    }

    fn balanced(&mut self, passes: Balanced) -> u64 {
        let costs = &self.board.machine.costs;
        let looked_ns = passes.passes * (costs.update_blocked_ns + passes.cpus * costs.visit_hit_ns);
        let took_ns = looked_ns + passes.gained * costs.move_task_ns;
        match passes.idle {
            BalanceIdle::NewlyIdle => self.accounts.newidle_ns += took_ns,
            BalanceIdle::Idle | BalanceIdle::Busy => self.accounts.periodic_ns += took_ns,
        }
        took_ns
    }

    fn goes_idle(&mut self, on: CpuId, state: u8, polls_until: Option<u64>) -> u64 {
        let polls_until = polls_until.map(|until| until.saturating_sub(self.epoch));
        self.cpus[on].halts = Some(Halt { state, polls_until });
        0
    }

    /// A CPU that polls finds its flag set. Where lines are counted it sees that once the line has come, and leaves
    /// its loop; else this has the cost of an interrupt.
    fn ends_polling(&mut self, (by, on): (CpuId, CpuId), at: u64) -> u64 {
        let sees_at = at + self.line_ns(by, on);
        let (counts, takes_turns) = (self.level.counts(), self.board.turns.is_some());
        let c = &mut self.cpus[on];
        match c.activity {
            Activity::Halted { .. } if counts && !takes_turns && c.ends != NEVER => {
                c.ends = c.ends.min(sees_at)
            }
            _ => c.resched_at = c.resched_at.min(at),
        }
        self.touch(on);
        0
    }
    /// The way of a cache line that `from` has written, ns.
    fn line_ns(&self, from: CpuId, to: CpuId) -> u64 {
        let (costs, topology) = (&self.board.machine.costs, &self.board.machine.topology);
        match self.distance(from, to) {
            Distance::Own => 0,
            Distance::Smt => costs.line_sibling_ns,
            Distance::Llc => costs.line_near_ns,
            Distance::Remote if topology.cpu(from).package != topology.cpu(to).package => {
                costs.remote_line_ns()
            }
            Distance::Node | Distance::Remote => costs.line_far_ns,
        }
    }

    /// A CPU that has waited for a lock continues at `at`, by the kernel's clock.
    fn gets_lock(&mut self, on: CpuId, at: u64) -> u64 {
        let c = &mut self.cpus[on];
        debug_assert!(
            matches!(c.activity, Activity::Path { next: Next::Proceed(_), .. }),
            "{on} gets a lock, and does not wait for one"
        );
        c.ends = at.saturating_sub(self.epoch).max(self.now);
        self.touch(on);
        0
    }

    /// What a tick costs beside its interrupt.
    fn tick_ns(&self) -> u64 {
        let costs = &self.board.machine.costs;
        costs.tick_ns.saturating_sub(costs.timer_irq_ns)
    }

    /// Why the verb under way on `by` moves a task to `on` that it neither wakes nor makes.
    fn why_moved(&self, by: CpuId, on: CpuId, task: &Task) -> MoveReason {
        match self.moves {
            MoveReason::Active if task.asked != MoveReason::Moved => task.asked,
            MoveReason::Newidle | MoveReason::Active if !task.attr.policy.is_fair() => {
                if on == by {
                    MoveReason::RtPull
                } else {
                    MoveReason::RtPush
                }
            }
            MoveReason::Idle if on != by => MoveReason::NohzIdle,
            why => why,
        }
    }

    /// An interrupt was sent to `to`, `spent_ns` after this instant.
    fn send(&mut self, by: CpuId, to: CpuId, which: Interrupt, spent_ns: u64) -> u64 {
        let costs = &self.board.machine.costs;
        let way_ns = match self.distance(by, to) {
            Distance::Own => 0,
            Distance::Smt | Distance::Llc | Distance::Node => costs.ipi_near_ns,
            Distance::Remote => costs.ipi_far_ns,
        };
        let at = self.now + spent_ns + costs.ipi_send_ns + way_ns;
        let c = &mut self.cpus[to];
        let due = if which == Interrupt::Call { &mut c.call_at } else { &mut c.resched_at };
        *due = (*due).min(at);
        self.touch(to);
        costs.ipi_send_ns
    }

    /// The task of a pid, the kernel's own included; `None` for idle.
    pub fn any_task(&self, pid: i32) -> Option<TaskId> {
        if pid == 0 {
            return None;
        }
        self.task_of(pid).or_else(|| {
            let (ksoftirqd, cpu) = self.kernel.kthread_of(pid)?;
            Some(kthread_id(self.tasks.len(), self.nr_cpus(), ksoftirqd, cpu))
        })
    }

    /// `sched_switch`: the CPU has another current task.
    fn switched(&mut self, (by, at): (CpuId, u64), switched: Switched) -> u64 {
        let Switched { on: cpu, preempted, state, .. } = switched;
        let (prev, next) = (self.any_task(switched.prev), self.any_task(switched.next));
        let asked = self.why_left(&switched);
        let why = match state {
            _ if prev.is_none() => SwitchReason::FromIdle,
            0 => asked,
            _ if preempted => asked,
            _ if state & EXITED_STATES != 0 => SwitchReason::Exited,
            _ => SwitchReason::Blocked,
        };
        let sleeps = matches!(why, SwitchReason::FromIdle | SwitchReason::Blocked | SwitchReason::Exited);
        self.follow_switch(LastEvent { at, cpu, name: "sched_switch" }, (prev, sleeps), next);
        let event_ns = self.record_at(at, cpu, EventKind::Switch { prev, next, why });
        let c = &mut self.cpus[cpu];
        let stayed_ns = at - std::mem::replace(&mut c.since, at);
        if c.current != Current::Idle {
            c.busy_ns += stayed_ns;
        }
        let leaves = c.current.program();
        c.current = match next {
            None => Current::Idle,
            Some(id) if id.index() < self.tasks.len() => Current::Task(id),
            Some(id) => Current::Kthread(id),
        };
        let costs = &self.board.machine.costs;
        if let Some(prev) = leaves {
            let t = &mut self.board.threads[prev];
            self.board.by_core.leave((cpu, prev), &mut t.reuse, t.footprint_kb, stayed_ns, costs);
        }
        let mm = |id: Option<TaskId>| id.and_then(|t| self.tasks.get(t.index())).map_or(0, |t| t.mm);
        let switches_mm = mm(next) != 0 && mm(prev) != 0 && mm(next) != mm(prev);
        let mm_ns = if switches_mm { costs.mm_switch_ns } else { 0 };
        let switch_ns = match prev.is_none() || next.is_none() {
            true => costs.idle_switch_ns,
            false => costs.context_switch_ns,
        };
        if let Current::Task(id) = self.cpus[cpu].current {
            if by == cpu && self.board.threads[id].ran_on != cpu {
                // The verb's charge, which follows, has it.
                self.touch_task(id, When::Moved);
            }
            self.pay_move(cpu, id);
        }
        event_ns + switch_ns + mm_ns
    }
}
