//! Our rules on CPUs that take turns ([`schedlab_board::turns`]).

use crate::frame::{Frame, Step};
use crate::outside::Outside;
use crate::run::{Drive, RunClock, over};
use crate::system::System;
use schedlab_base::{CpuId, Result};
use schedlab_board::engine::NEVER;
use schedlab_board::turns::{Course, TakesTurns};

impl System<'_> {
    fn active_frame(&mut self, cpu: CpuId) -> &mut Frame {
        let c = &mut self.cpus[cpu];
        match (c.hard.active(), c.soft.active()) {
            (true, _) => &mut c.hard,
            (false, true) => &mut c.soft,
            (false, false) => &mut c.task,
        }
    }
}

impl<'s> TakesTurns<'s> for System<'s> {
    fn set_now(&mut self, now: u64) {
        self.now = now;
    }
    fn is_halted(&self, cpu: CpuId) -> bool {
        let c = &self.cpus[cpu];
        // A CPU that polls before it halts is not halted yet: its step has an end.
        matches!(c.task.step, Step::Halted { .. })
            && c.task.ends == NEVER
            && !c.hard.active()
            && !c.soft.active()
    }
    fn irq_due(&self, cpu: CpuId) -> u64 {
        self.cpus[cpu].irq_due()
    }
    fn ends(&self, cpu: CpuId) -> u64 {
        let c = &self.cpus[cpu];
        match (c.hard.active(), c.soft.active()) {
            (true, _) => c.hard.ends,
            (false, true) => c.soft.ends,
            (false, false) => c.task.ends,
        }
    }
    fn put_off(&mut self, cpu: CpuId, by_ns: u64) {
        self.active_frame(cpu).ends += by_ns;
    }
    /// The timer is set at the end of an interrupt.
    fn hardware_timer(&self, cpu: CpuId) -> Option<u64> {
        let c = &self.cpus[cpu];
        if c.hard.active() && c.hard.step != Step::Ipi {
            return None;
        }
        let due = c.tick_at.min(c.timers.due()).min(c.hrtick_at);
        Some(if due <= self.now { NEVER } else { due })
    }
    fn step_in_turn(&mut self, cpu: CpuId, at: u64, horizon: u64) {
        self.stepping.steps += 1;
        self.stepping.horizon = horizon;
        self.step(cpu, at);
    }
}

/// The course of a run.
struct Run<'a, 'h> {
    clock: RunClock,
    outside: Outside<'h>,
    how: &'a Drive<'h>,
}

impl<'s> Course<System<'s>> for Run<'_, '_> {
    fn end(&self) -> u64 {
        self.clock.end
    }
    fn next(&self) -> u64 {
        self.outside.next()
    }
    fn act(&mut self, sys: &mut System<'s>) -> Result<()> {
        self.outside.act(sys);
        Ok(())
    }
    fn is_over(&mut self, sys: &mut System<'s>, at: u64) -> Result<bool> {
        let looks_up = sys.run.alive == 0 || sys.stepping.steps >= self.clock.look_at;
        if looks_up || self.how.check || sys.run.fault.is_some() {
            return over(sys, &mut self.clock, at, self.how);
        }
        Ok(false)
    }
}

/// Lets CPUs act in turns until the end.
pub fn drive(sys: &mut System<'_>, clock: RunClock, how: &Drive<'_>) -> Result<RunClock> {
    let leaps = std::mem::take(&mut sys.stepping.merge);
    let mut run = Run { clock, outside: Outside::new(sys, &how.changes), how };
    let draws = sys.fixed.stream;
    schedlab_board::turns::drive(sys, &mut run, &draws, leaps)?;
    run.clock.missed = run.outside.left();
    Ok(run.clock)
}
