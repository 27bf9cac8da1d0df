//! The idle loop: look for work, else halt in the state that a governor chooses; and the exit from idle.
//!
//! A tickless idle CPU has no tick; its timers still fire on it. Leaving a state costs its typical exit time before
//! anything else can happen on the CPU. A core is in the shallowest state that any of its threads requests (processor
//! manuals, thread coordination of core C-states), so a thread whose sibling runs wakes up as from the first state.

use crate::balance::newidle_gate::{Gates, avg_idle};
use crate::costs::enqueue_ns;
use crate::frame::Step;
use crate::idle::haltpoll::HaltChoice;
use crate::idle::nap::{Nap, keeps_tick, stayed};
use crate::system::System;
use schedlab_base::CpuId;
use schedlab_board::drivers::UserMode;
use schedlab_board::engine::NEVER;
use schedlab_machine::IdleGovernor;
use schedlab_trace::EventKind;

/// The state of a CPU that polls with the haltpoll governor.
const POLLING: u8 = 0;

impl System<'_> {
    /// Enters the idle loop, or returns to it. Pending work that needs interrupts enabled comes first.
    pub fn begin_idle_loop(&mut self, cpu: CpuId) {
        let c = &mut self.cpus[cpu];
        let before_idle = std::mem::take(&mut c.nohz_asked.before_idle);
        let asked = c.nohz_asked.kicked() || c.nohz_serves.kicked();
        let work = self.rqs.nr_running(cpu) > 0 || !c.wake_list.is_empty() || !c.freed.is_empty() || asked;
        if before_idle && !work {
            return self.begin_update_before_idle(cpu);
        }
        let enter_ns = if work { 0 } else { self.fixed.machine.costs.idle_enter_ns };
        self.begin(cpu, Step::IdleLoop, enter_ns);
        if enter_ns == 0 && self.at_once() {
            if self.cpus[cpu].irq_due() <= self.now { self.interrupt(cpu) } else { self.idle_loop(cpu) }
        }
    }

    /// In the idle loop: run a task if there is one, else halt.
    pub fn idle_loop(&mut self, cpu: CpuId) {
        let now = self.now;
        let queued = self.flush_wake_list(cpu, now);
        self.unthrottle_freed(cpu);
        if self.rqs.nr_running(cpu) > 0 {
            let costs = &self.fixed.machine.costs;
            let c = &mut self.cpus[cpu];
            (c.nohz_asked, c.nohz_serves) = Default::default();
            c.clock.hold(now);
            let restart_ns = if c.tick_at == NEVER { costs.tick_restart_ns } else { 0 };
            let cost = queued * enqueue_ns(costs) + restart_ns;
            if restart_ns > 0 && costs.schedule_idle_ns == 0 {
                // The tick is on again before any task is picked, even if the machine states no cost for `schedule()`
                // of an idle CPU.
                return self.begin(cpu, Step::Pick, cost);
            }
            return self.begin_pick(cpu, cost);
        }
        // The task that caused the request has left again; the kernel calls `schedule()` for nothing.
        self.cpus[cpu].need_resched = None;
        self.cpus[cpu].clock.release();
        if self.take_nohz_flags(cpu) {
            self.cpus[cpu].task.left = 0;
            return self.begin_softirq(cpu);
        }
        self.halt(cpu);
    }

    fn halt(&mut self, cpu: CpuId) {
        // The last state. In a guest the first one is polling and the second one is halting.
        let deepest = self.fixed.machine.idle_states.len().saturating_sub(1);
        match self.fixed.machine.idle_governor {
            IdleGovernor::Menu => self.choose_and_halt(cpu),
            IdleGovernor::Halt => {
                let ticks_on = self.keeps_tick();
                self.halt_in(cpu, deepest, !ticks_on);
            }
            IdleGovernor::Haltpoll => match self.cpus[cpu].haltpoll.choose() {
                HaltChoice::Poll(limit_ns) => self.poll(cpu, limit_ns),
                HaltChoice::Halt => self.halt_in(cpu, deepest, !self.fixed.history.periodic_tick),
            },
        }
    }

    fn choose_and_halt(&mut self, cpu: CpuId) {
        let (now, keeps) = (self.now, self.keeps_tick());
        let c = &mut self.cpus[cpu];
        let timer = if keeps { c.timers.due().min(c.tick_at) } else { c.timers.due() };
        let next_timer = if timer == NEVER { NEVER } else { timer.saturating_sub(now) };
        let predicted = c.governor.predict(next_timer);
        let state = c.governor.choose(&self.fixed.machine.idle_states, predicted);
        // A stopped tick stays stopped until a task runs again.
        if keeps {
            return self.halt_in(cpu, state, false);
        }
        let states = self.fixed.machine.idle_states.len();
        let nap = Nap::of(&self.fixed.history, states, predicted, c.idle_tick_at > c.since);
        self.halt_in(cpu, state, !keeps_tick(nap, self.fixed.tick_ns));
    }

    /// Whether idle CPUs keep their tick, because of their kernel or their guest's settings.
    fn keeps_tick(&self) -> bool {
        self.fixed.history.periodic_tick || self.hosted.as_ref().is_some_and(|h| h.periodic_tick)
    }

    /// Polls for work for this time, with the tick on if it still is.
    fn poll(&mut self, cpu: CpuId, limit_ns: u64) {
        self.cpus[cpu].halted_at = self.now;
        self.begin(cpu, Step::Halted { state: POLLING }, limit_ns);
        self.emit(cpu, EventKind::IdleEnter { state: POLLING });
    }

    /// Whether a CPU polls for a while before it halts.
    pub fn polls(&self, cpu: CpuId) -> bool {
        let task = &self.cpus[cpu].task;
        matches!(task.step, Step::Halted { .. }) && task.ends != NEVER
    }

    /// Polling ended without work: the CPU halts.
    pub fn end_of_polling(&mut self, cpu: CpuId) {
        self.cpus[cpu].haltpoll.polled(true);
        self.emit(cpu, EventKind::IdleExit { exit_ns: 0 });
        self.halt(cpu);
    }

    fn halt_in(&mut self, cpu: CpuId, state: usize, stops_tick: bool) {
        let (now, states) = (self.now, self.fixed.machine.idle_states.len());
        debug_assert!(state < states.max(1), "{cpu} halts in state {state} of {states}");
        let state = state as u8;
        let c = &mut self.cpus[cpu];
        let (curr, waits) = (c.curr, c.wake_list.len());
        debug_assert!(curr.is_none(), "{cpu} halts at {now} and has {curr:?}");
        debug_assert!(waits == 0, "{cpu} halts at {now} with {waits} tasks on its wake list");
        let stops = c.tick_at == NEVER || stops_tick;
        if stops {
            let was_on = std::mem::replace(&mut c.tick_at, NEVER) != NEVER;
            let stop_ns = self.fixed.machine.costs.tick_stop_ns;
            if was_on && stop_ns > 0 {
                // After that the CPU looks for work again.
                return self.begin(cpu, Step::IdleLoop, stop_ns);
            }
        }
        let c = &mut self.cpus[cpu];
        c.halted_at = now;
        self.begin(cpu, Step::Halted { state }, 0);
        self.cpus[cpu].task.ends = NEVER;
        if stops {
            self.enter_nohz(cpu);
        }
        self.set_active(cpu, false);
        self.emit(cpu, EventKind::IdleEnter { state });
    }

    /// A flag write, an IPI or a timer wakes the CPU from its idle state.
    pub fn leave_idle_state(&mut self, cpu: CpuId, state: u8) {
        let reached = self.core_state(cpu, self.sunk_to(cpu, state));
        let exit_ns = self.fixed.machine.idle_states.get(usize::from(reached)).map_or(0, |s| s.typical.0);
        let (now, tick_ns, next_ipi) =
            (self.now, self.fixed.tick_ns, self.board.nic.next(cpu).unwrap_or(NEVER));
        let c = &mut self.cpus[cpu];
        let by_tick = c.tick_at <= now && c.ipi_at > now && c.timers.due() > now;
        debug_assert!(c.halted_at <= now, "{cpu} has halted at {}, after {now}", c.halted_at);
        let stay_ns = now - c.halted_at;
        match c.task.ends == NEVER {
            true => {
                c.governor.reflect(stayed(stay_ns, by_tick, tick_ns));
                c.haltpoll.halted(stay_ns);
            }
            false => c.haltpoll.polled(false),
        }
        c.has_halted |= c.task.ends == NEVER && exit_ns > 0;
        c.idle_tick_at = if c.tick_at <= now { now } else { 0 };
        if c.ipi_at <= now {
            // A message still takes its interrupt.
            c.ipi_at = next_ipi;
        }
        self.accounts.stats.idle_exit_ns += exit_ns;
        self.set_active(cpu, true);
        self.emit(cpu, EventKind::IdleExit { exit_ns: exit_ns.min(u64::from(u32::MAX)) as u32 });
        self.begin(cpu, Step::IdleExit, exit_ns);
    }

    /// The state that a halted CPU is in by now. A guest's CPU halts in only one way, and the hypervisor takes it
    /// deeper over time: it polls for the guest's next interrupt for a while, then gives the processor away, which goes
    /// to sleep itself. Each state after the polling one is such a depth, reached after its residency. Any other CPU
    /// has chosen its state itself.
    fn sunk_to(&self, cpu: CpuId, state: u8) -> u8 {
        let machine = &self.fixed.machine;
        if machine.idle_governor == IdleGovernor::Menu || state == POLLING {
            return state;
        }
        let stay_ns = self.now - self.cpus[cpu].halted_at;
        let is_there = |at: &u8| machine.idle_states[usize::from(*at)].residency.0 <= stay_ns;
        (POLLING + 1..=state).rev().find(is_there).unwrap_or(POLLING + 1)
    }

    /// The state of the CPU's core, given the CPU's own request: the shallowest request of its threads.
    fn core_state(&self, cpu: CpuId, own: u8) -> u8 {
        let siblings = self.board.siblings[cpu].iter();
        siblings.fold(own, |least, s| match self.cpus[*s].task.step {
            Step::Halted { state } => least.min(state),
            _ => 0,
        })
    }

    /// Updates `avg_idle` with an idle period at the wakeup that ends it (`ttwu_do_activate`; no other arrival does).
    /// Since 7.0 this happens at the switch from the idle task, after any arrival (`put_prev_task_idle`).
    pub fn end_idle_sample(&mut self, cpu: CpuId) {
        let (clock, tick) = (self.rq_clock(cpu), self.jiffies());
        let c = &mut self.cpus[cpu];
        let began = std::mem::take(&mut c.idle_stamp);
        if began != 0 {
            let gates = self.fixed.gates;
            let longest = match gates {
                Gates::Fixed => self.fixed.kernel.tunables.migration_cost_ns,
                _ => c.max_idle_balance_cost_ns,
            };
            c.avg_idle_ns = avg_idle(gates, c.avg_idle_ns, clock.saturating_sub(began), longest);
            c.scans.sampled(c.avg_idle_ns, tick);
        }
    }
}
