//! The idle loop: look for work, else halt in the state a governor would choose; and the way out.
//!
//! A tickless idle CPU has no tick; its timers still fire on it. Leaving a state costs its typical exit time before
//! anything else can happen on the CPU. A core is only ever in the shallowest state that its threads ask for (processor
//! manuals, thread coordination of core C-states), so a thread whose sibling runs wakes up as from the first state.

use crate::balance::newidle_gate::{Gates, avg_idle};
use crate::engine::NEVER;
use crate::frame::Step;
use crate::system::System;
use schedlab_base::CpuId;
use schedlab_trace::EventKind;

impl System<'_> {
    /// In the idle loop: run what is there, or halt.
    pub fn idle_loop(&mut self, cpu: CpuId) {
        let queued = self.flush_wake_list(cpu);
        if self.nr_running[cpu.index()] > 0 {
            self.cpus[cpu.index()].nohz_kick = false;
            let cost = queued * self.fixed.machine.costs.enqueue_ns;
            return self.pick_and_switch(cpu, cost);
        }
        self.cpus[cpu.index()].need_resched = None;
        if self.cpus[cpu.index()].nohz_kick {
            self.cpus[cpu.index()].task.left = 0;
            return self.begin_softirq(cpu);
        }
        self.halt(cpu);
    }

    fn halt(&mut self, cpu: CpuId) {
        let now = self.now;
        let c = &mut self.cpus[cpu.index()];
        let timer = c.timers.due();
        let next_timer = if timer == NEVER { NEVER } else { timer.saturating_sub(now) };
        let predicted = c.governor.predict(next_timer);
        let state = c.governor.choose(&self.fixed.machine.idle_states, predicted) as u8;
        c.tick_at = NEVER;
        c.halted_at = now;
        self.begin(cpu, Step::Halted { state }, 0);
        self.cpus[cpu.index()].task.ends = NEVER;
        self.enter_nohz(cpu);
        self.note_idle_core(cpu);
        self.set_active(cpu, false);
        self.emit(cpu, EventKind::IdleEnter { state });
    }

    /// A flag write, an IPI or a timer wakes the CPU out of its idle state.
    pub fn leave_idle_state(&mut self, cpu: CpuId, state: u8) {
        let reached = self.core_state(cpu, state);
        let exit_ns = self.fixed.machine.idle_states.get(usize::from(reached)).map_or(0, |s| s.typical.0);
        let now = self.now;
        let c = &mut self.cpus[cpu.index()];
        c.governor.reflect(now - c.halted_at);
        if c.ipi_at <= now {
            c.ipi_at = NEVER;
        }
        self.stats.idle_exit_ns += exit_ns;
        self.set_active(cpu, true);
        self.emit(cpu, EventKind::IdleExit { exit_ns: exit_ns.min(u64::from(u32::MAX)) as u32 });
        self.begin(cpu, Step::IdleExit, exit_ns);
    }

    /// The state the CPU's core is in, given its own request: the shallowest of its threads' requests.
    fn core_state(&self, cpu: CpuId, own: u8) -> u8 {
        let siblings = self.fixed.siblings[cpu.index()].iter();
        siblings.fold(own, |least, s| match self.cpus[s.index()].task.step {
            Step::Halted { state } => least.min(state),
            _ => 0,
        })
    }

    /// `avg_idle` takes the idle period that a wakeup ends (`ttwu_do_wakeup`; no other arrival does).
    pub fn end_idle_sample(&mut self, cpu: CpuId) {
        let c = &mut self.cpus[cpu.index()];
        let began = std::mem::take(&mut c.idle_stamp);
        if began != 0 {
            let gates = Gates::of(self.fixed.kernel.version);
            let longest = match gates {
                Gates::Fixed => self.fixed.kernel.tunables.migration_cost_ns,
                _ => c.max_idle_balance_cost_ns,
            };
            c.avg_idle_ns = avg_idle(gates, c.avg_idle_ns, self.now - began, longest);
        }
    }
}
