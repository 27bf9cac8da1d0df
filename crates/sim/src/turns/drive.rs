//! A run on CPUs that take turns.
//!
//! Only the CPU that has the turn gets on with work of the processor: kernel code, and going over memory. All clocks
//! run for every CPU. A current task is charged whether or not its CPU has the turn, as the guest's kernel charges it.
//! Timers keep their times; their interrupts, like those from other CPUs, are taken in the CPU's next turn. A signal
//! between CPUs takes no time to arrive.
//!
//! Computing for a stated time and waiting for the clock are loops that read a clock and give the turn away each time
//! round (`pause`). Such a loop ends in its first round that finds the time passed. Computing for a stated time is
//! measured in charged CPU time, which includes the turns of others. Times are ns.

use crate::frame::Step;
use crate::outside::Outside;
use crate::run::{Drive, RunClock, over};
use crate::system::System;
use crate::task::UserOp;
use schedlab_base::{CpuId, Result};
use schedlab_world::engine::NEVER;
use schedlab_world::ring::{Next, Ring};

impl System<'_> {
    /// Whether `cpu` goes over memory, and needs its turn to continue with that.
    pub fn works_without_turn(&self, cpu: CpuId) -> bool {
        let Some(sharing) = &self.turns else { return false };
        sharing.holder != Some(cpu) && self.user_op(cpu).is_some_and(|op| matches!(op, UserOp::Touch { .. }))
    }

    fn user_op(&self, cpu: CpuId) -> Option<UserOp> {
        let c = &self.cpus[cpu];
        c.curr.filter(|_| c.in_user()).map(|t| self.tasks[t].user)
    }

    /// Whether `cpu` waits for a clock in user mode and no interrupt is due.
    fn spins(&self, cpu: CpuId) -> bool {
        self.cpus[cpu].irq_due() > self.now
            && matches!(
                self.user_op(cpu),
                Some(UserOp::Run { .. } | UserOp::Spin { .. } | UserOp::SpinLock { .. })
            )
    }

    fn halted(&self, cpu: CpuId) -> bool {
        let c = &self.cpus[cpu];
        // A CPU that polls before it halts is not halted yet: its step has an end.
        matches!(c.task.step, Step::Halted { .. })
            && c.task.ends == NEVER
            && !c.hard.active()
            && !c.soft.active()
    }

    fn awake(&self, cpu: CpuId) -> bool {
        !self.halted(cpu) || self.cpus[cpu].irq_due() <= self.now
    }

    /// The time `cpu`'s timer hardware is set to. `None` while the CPU handles an interrupt, for the timer is set at
    /// its end.
    fn hardware_timer(&self, cpu: CpuId) -> Option<u64> {
        let c = &self.cpus[cpu];
        if c.hard.active() && c.hard.step != Step::Ipi {
            return None;
        }
        let due = c.tick_at.min(c.timers.due()).min(c.hrtick_at);
        Some(if due <= self.now { NEVER } else { due })
    }

    /// `cpu`'s turn begins: its interrupted step continues from here.
    fn take_turn(&mut self, cpu: CpuId) {
        let Some(sharing) = &mut self.turns else { return };
        sharing.holder = Some(cpu);
        let without = self.now - sharing.since[cpu.index()];
        let op = self.user_op(cpu);
        let now = self.now;
        let c = &mut self.cpus[cpu];
        let frame = if c.hard.active() {
            &mut c.hard
        } else if c.soft.active() {
            &mut c.soft
        } else {
            &mut c.task
        };
        match op {
            Some(UserOp::Touch { .. }) => c.user_since = now,
            // These steps wait for a clock, and clocks have gone on.
            Some(_) => return,
            None => {}
        }
        if frame.ends != NEVER {
            frame.ends += without;
        }
    }

    fn leave_turn(&mut self, cpu: CpuId) {
        if matches!(self.user_op(cpu), Some(UserOp::Touch { .. })) {
            self.account_user(cpu);
        }
        if let Some(sharing) = &mut self.turns {
            sharing.since[cpu.index()] = self.now;
            sharing.holder = None;
        }
    }
}

/// Lets CPUs act in turns until the end.
pub fn drive(sys: &mut System<'_>, mut clock: RunClock, how: &Drive<'_>) -> Result<RunClock> {
    let Some(spec) = sys.turns.as_ref().map(|s| s.spec) else { return Ok(clock) };
    let n = sys.nr_cpus();
    let first_alarm = sys.fixed.stream.purpose("alarm").below(0, spec.alarm_ns.max(1)) + 1;
    let mut run = TurnsRun {
        ring: Ring::new(n, spec.alarm_ns, first_alarm),
        outside: Outside::new(sys, &how.changes),
        spin_ns: spec.spin_ns,
    };
    let leaps = std::mem::take(&mut sys.stepping.merge);
    for cpu in (0..n).map(CpuId::from) {
        run.ring.reset(cpu, sys.hardware_timer(cpu).unwrap_or(NEVER));
    }
    sys.stepping.touched.clear();
    while sys.now < clock.end {
        if run.outside.next() <= sys.now {
            run.outside.act(sys);
        }
        if leaps {
            run.leap(sys, clock.end);
        }
        match run.ring.next(sys.now, |cpu| sys.awake(cpu)) {
            Next::Leap(to) => sys.now = to.min(run.outside.next()).min(clock.end),
            Next::Turn { cpu, until } => {
                sys.take_turn(cpu);
                let continues = run.turn(sys, &mut clock, cpu, until, how)?;
                sys.leave_turn(cpu);
                if !continues {
                    break;
                }
            }
        }
    }
    clock.missed = run.outside.left();
    Ok(clock)
}

/// A run under way.
struct TurnsRun<'h> {
    ring: Ring,
    outside: Outside<'h>,
    spin_ns: u64,
}

impl TurnsRun<'_> {
    /// One turn of `cpu`, up to the given time at the latest; `false` when the run is over.
    fn turn(
        &mut self,
        sys: &mut System<'_>,
        clock: &mut RunClock,
        cpu: CpuId,
        until: u64,
        how: &Drive<'_>,
    ) -> Result<bool> {
        loop {
            let spins = sys.spins(cpu);
            let round = sys.turns.as_ref().map_or(0, |s| s.round_left[cpu.index()]);
            let next = if spins { sys.now + round } else { sys.next_event(cpu).max(sys.now) };
            let stop = until.min(clock.end).min(self.outside.next());
            if next > stop {
                if spins {
                    self.keep_round(sys, cpu, next - stop);
                }
                sys.now = stop;
                if self.outside.next() > stop || stop >= clock.end {
                    return Ok(true);
                }
                self.outside.act(sys);
                if stop >= until {
                    return Ok(true);
                }
                continue;
            }
            if spins {
                self.keep_round(sys, cpu, self.spin_ns);
                if sys.cpus[cpu].task.ends > next {
                    sys.now = next;
                    return Ok(true);
                }
            }
            sys.stepping.steps += 1;
            sys.stepping.horizon = stop;
            sys.step(cpu, next);
            if (sys.run.alive == 0
                || sys.stepping.steps >= clock.look_at
                || how.check
                || sys.run.fault.is_some())
                && over(sys, clock, next, how)?
            {
                return Ok(false);
            }
            if self.turn_ends(sys, cpu) {
                return Ok(true);
            }
        }
    }

    fn keep_round(&self, sys: &mut System<'_>, cpu: CpuId, left_ns: u64) {
        if let Some(sharing) = &mut sys.turns {
            sharing.round_left[cpu.index()] = left_ns;
        }
    }

    /// Whether `cpu`'s step has ended its turn: it has halted, waits for another CPU, or has set the earliest timer of
    /// all.
    fn turn_ends(&mut self, sys: &mut System<'_>, cpu: CpuId) -> bool {
        while let Some(touched) = sys.stepping.touched.pop() {
            if touched != cpu
                && let Some(at) = sys.hardware_timer(touched)
            {
                self.ring.reset(touched, at);
            }
        }
        let told = sys.hardware_timer(cpu).is_some_and(|at| self.ring.set(cpu, at));
        let gives_way = sys.turns.as_mut().is_some_and(|s| std::mem::take(&mut s.gives_way));
        told || gives_way || sys.halted(cpu)
    }

    /// While all awake CPUs wait for a clock, rounds are alike. One leap replaces all the rounds that fit before
    /// anything can happen, and leaves every CPU in the state after the last of them.
    fn leap(&self, sys: &mut System<'_>, end: u64) {
        let Some(calm_until) = self.ring.calm_until(self.spin_ns) else { return };
        let mut ends = end.min(self.outside.next());
        let mut waiting = 0;
        for cpu in (0..sys.nr_cpus()).map(CpuId::from).filter(|c| sys.awake(*c)) {
            let whole = sys.turns.as_ref().is_some_and(|s| s.round_left[cpu.index()] == self.spin_ns);
            if !whole || !sys.spins(cpu) {
                return;
            }
            ends = ends.min(sys.cpus[cpu].task.ends);
            waiting += 1;
        }
        let round = waiting * self.spin_ns;
        if round == 0 {
            return;
        }
        // The last round must begin before `calm_until` and be over before anything ends.
        let calm = (calm_until + round).saturating_sub(sys.now) / round;
        let free = ends.saturating_sub(sys.now + 1) / round;
        sys.now += calm.min(free) * round;
    }
}
