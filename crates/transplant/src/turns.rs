//! The image on CPUs that take turns ([`schedlab_board::turns`]).

use crate::cpu::Activity;
use crate::engine::Engine;
use crate::run::{Clock, Ended, Outside};
use schedlab_base::{CpuId, Result, Stream};
use schedlab_board::engine::NEVER;
use schedlab_board::turns::{Course, Rounds, TakesTurns};

impl<'s> TakesTurns<'s> for Engine<'s> {
    fn set_now(&mut self, now: u64) {
        self.now = now;
    }
    fn is_halted(&self, cpu: CpuId) -> bool {
        matches!(self.cpus[cpu].activity, Activity::Halted { .. })
    }
    fn irq_due(&self, cpu: CpuId) -> u64 {
        self.cpus[cpu].irq_due()
    }
    fn ends(&self, cpu: CpuId) -> u64 {
        self.cpus[cpu].ends
    }
    fn put_off(&mut self, cpu: CpuId, by_ns: u64) {
        self.cpus[cpu].ends += by_ns;
    }
    fn hardware_timer(&self, cpu: CpuId) -> Option<u64> {
        let at = self.cpus[cpu].timer_at;
        Some(if at <= self.now { NEVER } else { at })
    }
    fn step_in_turn(&mut self, cpu: CpuId, at: u64, _: u64) {
        self.steps += 1;
        self.step(cpu, at);
    }
}

/// The course of a run.
struct Run<'a, 'c, 's> {
    clock: &'a Clock<'c>,
    outside: &'a mut Outside<'s>,
    ended: Ended,
}

impl<'s> Course<Engine<'s>> for Run<'_, '_, 's> {
    fn end(&self) -> u64 {
        self.clock.end
    }
    fn next(&self) -> u64 {
        self.outside.next()
    }
    fn act(&mut self, engine: &mut Engine<'s>) -> Result<()> {
        self.outside.act(engine, &mut self.ended)
    }
    fn is_over(&mut self, engine: &mut Engine<'s>, at: u64) -> Result<bool> {
        self.clock.is_over(engine, at, &mut self.ended)
    }
}

/// Before the first turn; `None` on a machine whose CPUs do not take turns.
pub fn begin(engine: &mut Engine<'_>, seed: u64) -> Option<Rounds> {
    Rounds::begin(engine, &Stream::new(seed))
}

/// Lets CPUs act in turns until the end of `clock`.
pub fn drive<'s>(
    rounds: &mut Rounds,
    engine: &mut Engine<'s>,
    clock: &Clock<'_>,
    outside: &mut Outside<'s>,
) -> Result<Ended> {
    let mut run = Run { clock, outside, ended: Ended::at(clock.end) };
    rounds.drive(engine, &mut run, true)?;
    Ok(run.ended)
}
