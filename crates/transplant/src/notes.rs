//! The actions of kernel code, as the image noted them: events for the sink, interrupts to send, and the price.
//!
//! At level `free` the price is by verb, from the machine's costs: a wakeup costs the enqueue and the lock of a
//! runqueue elsewhere, a switch its cost in the machine's file, a balancer's pass so much for each CPU that it looked
//! at. The search for a CPU is not priced: its probes leave no trace. At the other levels these costs are 0
//! ([`schedlab_machine::Costs::beside_counted_code`]), and the image reports the cost of its code. An event has the
//! time of its verb's start. Where CPUs are woven, the cost of the code before it is added.

use crate::abi::{Note, kind};
use crate::cpu::{Current, Halt, Interrupt};
use crate::engine::Engine;
use crate::task::{LastEvent, Task, kthread_id};
use schedlab_base::{CpuId, Error, Ns, TaskId};
use schedlab_board::board::Kernel as _;
use schedlab_board::drivers::UserMode;
use schedlab_board::engine::NEVER;
use schedlab_machine::Distance;
use schedlab_trace::{Event, EventKind, MoveReason, SwitchReason};

/// TASK_DEAD of all modelled releases, as `prev_state` shows it next to the flags below it.
const EXITED_STATES: u64 = 0x30;

impl Engine<'_> {
    /// Takes the notes of the last verb on `cpu`. Returns their price, ns.
    pub fn take_notes(&mut self, cpu: CpuId) -> u64 {
        let mut spent_ns = 0;
        for i in 0..self.kernel.nr_notes() {
            let note = self.kernel.note(i);
            spent_ns += self.take_note(cpu, note, spent_ns + note.after_ns);
        }
        self.kernel.clear();
        spent_ns + self.kernel.image().take_charge_ns()
    }

    /// Gives an event of this instant to the sink. Returns the cost of recording it, ns.
    pub fn emit(&mut self, cpu: CpuId, kind: EventKind) -> u64 {
        self.emit_at(self.now, cpu, kind)
    }
    pub fn emit_at(&mut self, at: u64, cpu: CpuId, kind: EventKind) -> u64 {
        if self.watched {
            self.sink.event(&Event { at: Ns(at), cpu, kind });
        }
        self.board.machine.costs.trace_event_ns
    }

    /// The time of an event in the verb under way. A woven verb lets others act before an event whose time has passed
    /// the horizon, so no event of theirs is earlier. Otherwise others have not acted yet, and the event has the verb's
    /// time.
    fn time_of(&self, note: Note) -> u64 {
        let in_order = self.now.saturating_add(note.after_ns).min(self.horizon.max(self.now));
        if self.kernel.weaves() { in_order } else { self.now }
    }

    fn take_note(&mut self, by: CpuId, note: Note, spent_ns: u64) -> u64 {
        let (on, at) = (CpuId(note.cpu), self.time_of(note));
        let costs = &self.board.machine.costs;
        match note.kind {
            kind::TIMER => {
                let at =
                    if note.at == NEVER { NEVER } else { note.at.saturating_sub(self.epoch).max(self.now) };
                self.cpus[on].timer_at = at;
                if on != by {
                    self.touch(on);
                }
                0
            }
            kind::IPI_RESCHED => self.send(by, on, Interrupt::Resched, spent_ns),
            kind::IPI_CALL => self.send(by, on, Interrupt::Call, spent_ns),
            kind::SWITCH => self.switched(on, at, note),
            kind::WAKING => {
                let Some(task) = self.any_task(note.pid) else { return 0 };
                self.waking(task, LastEvent { at, cpu: by, name: "sched_waking" });
                self.waking_begins(task, by, &note);
                let waker = if note.flags & 1 == 0 { self.any_task(note.other) } else { None };
                self.accounts.wakeups += 1;
                self.emit_at(at, by, EventKind::Waking { task, waker })
            }
            kind::WAKEUP => {
                let Some(task) = self.any_task(note.pid) else { return 0 };
                self.woken(task, LastEvent { at, cpu: on, name: "sched_wakeup" }, note.flags & 1 != 0);
                let lock_ns = match self.distance(by, on) {
                    Distance::Own => 0,
                    Distance::Smt | Distance::Llc => costs.rq_lock_near_ns,
                    Distance::Node | Distance::Remote => costs.rq_lock_far_ns,
                };
                let (enqueue_ns, is_new) = (costs.enqueue_ns, note.flags & 1 != 0);
                self.explain_queued(at, task, on, is_new);
                let made_on = self
                    .board
                    .threads
                    .get(task.index())
                    .map(|t| t.ran_on)
                    .filter(|from| is_new && *from != on);
                if let Some(from) = made_on {
                    self.emit_at(at, on, EventKind::Migrate { task, from, why: MoveReason::Fork });
                }
                let nr_running = u16::try_from(note.value).unwrap_or(u16::MAX);
                self.arrived(on, is_new, note.flags & 2 != 0);
                let event = EventKind::Enqueued { task, nr_running, new: is_new };
                enqueue_ns + lock_ns + self.emit_at(at, on, event)
            }
            kind::MIGRATE => {
                let Some(task) = self.any_task(note.pid) else { return 0 };
                self.happened(task, LastEvent { at, cpu: on, name: "sched_migrate_task" });
                if let Some(own) = self.tasks.get_mut(task.index()) {
                    own.placed = Some(on);
                }
                let own = self.tasks.get(task.index());
                let why = match own {
                    Some(t) if t.waking => MoveReason::Wakeup,
                    Some(t) => self.why_moved(by, on, t),
                    None => MoveReason::Moved,
                };
                self.emit_at(at, on, EventKind::Migrate { task, from: CpuId(note.value as u32), why })
            }
            kind::BALANCE => {
                let looked_ns = note.at * (costs.update_blocked_ns + note.other as u64 * costs.visit_hit_ns);
                let took_ns = looked_ns + note.pid as u64 * costs.move_task_ns;
                match note.flags {
                    2 => self.accounts.newidle_ns += took_ns,
                    _ => self.accounts.periodic_ns += took_ns,
                }
                took_ns
            }
            kind::TICK => costs.tick_ns.saturating_sub(costs.timer_irq_ns),
            kind::NO_IPI => {
                let at = self.now + spent_ns;
                let c = &mut self.cpus[on];
                c.resched_at = c.resched_at.min(at);
                self.touch(on);
                0
            }
            kind::IDLE => {
                let until = note.at.saturating_sub(self.epoch);
                let polls_until = Some(until).filter(|_| note.flags & 2 != 0);
                self.cpus[on].halts = Some(Halt { state: note.value.min(255) as u8, polls_until });
                0
            }
            kind::FORK | kind::EXIT => 0,
            kind::PRINTK => {
                self.kernel.keep_message(&note);
                0
            }
            kind::CHOSE => {
                self.explain_choice(at, by, &note);
                0
            }
            kind::JUDGED => {
                self.judged(at, &note);
                0
            }
            kind::FOUND => {
                self.found(note, at);
                0
            }
            other => {
                self.fail(Error::internal(format!(
                    "the image wrote a note of kind {other}, which is not known"
                )));
                0
            }
        }
    }

    /// Why the verb under way on `by` moves a task to `on`, if it neither wakes nor makes it.
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
    fn switched(&mut self, cpu: CpuId, at: u64, note: Note) -> u64 {
        let (prev, next) = (self.any_task(note.pid), self.any_task(note.other));
        let asked = self.why_left(cpu, note.flags);
        let why = match (note.value, note.flags & 1 != 0) {
            _ if prev.is_none() => SwitchReason::FromIdle,
            (_, true) | (0, _) => asked,
            (state, _) if state & EXITED_STATES != 0 => SwitchReason::Exited,
            _ => SwitchReason::Blocked,
        };
        let sleeps = matches!(why, SwitchReason::FromIdle | SwitchReason::Blocked | SwitchReason::Exited);
        self.follow_switch(LastEvent { at, cpu, name: "sched_switch" }, (prev, sleeps), next);
        let event_ns = self.emit_at(at, cpu, EventKind::Switch { prev, next, why });
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
            self.pay_move(cpu, id);
        }
        event_ns + switch_ns + mm_ns
    }
}
