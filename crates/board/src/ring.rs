//! The rule of turns on a machine whose CPUs share one processor's time: which CPU has the turn, and until when.
//!
//! Mirrors the round-robin thread of QEMU (8.1 and later) with `-icount`. The thread goes round the CPUs in the order
//! of their numbers. At the start of a round it divides the time to the next timer by the number of CPUs, halted ones
//! included, and each CPU may run that long; halted CPUs are passed over. A change of the next timer makes every CPU
//! look up: the turn under way ends, and each of these CPUs begins a round of its own, with a new share. Two events
//! change the next timer: a timer is set to an earlier time than all others, or timers expire. A signal from CPU to CPU
//! does neither. When timers expire between two turns of a round, the next CPU finds no time left and loses its turn.
//!
//! Times are ns. Timers here are those of the hardware; an expired one is gone until it is set again.

use crate::engine::NEVER;
use schedlab_base::CpuId;

/// How often the emulator makes sure that no CPU keeps the thread, ns.
const WATCH_NS: u64 = 100_000_000;
/// The furthest it looks ahead, ns.
const FURTHEST_NS: u64 = i32::MAX as u64;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Next {
    /// This CPU may run until then.
    Turn {
        /// Whose turn it is.
        cpu: CpuId,
        /// When it ends at the latest, ns.
        until: u64,
    },
    /// All CPUs are halted: the clock leaps to this time, ns; [`NEVER`] if no event will come.
    Leap(u64),
}

/// The ring of CPUs, and the timers that end turns.
#[derive(Clone, Debug)]
pub struct Ring {
    /// The CPU whose turn would be next; the number of CPUs at the end of a round.
    at: usize,
    /// The time each CPU may take in this round, ns.
    share_ns: u64,
    /// A new round begins.
    anew: bool,
    /// CPUs that have yet to look up.
    told: Vec<bool>,
    /// The time each CPU's timer is set to, ns.
    timers: Vec<u64>,
    /// The emulator's own watch, running while any CPU does.
    watch: u64,
    /// A timer of an emulated device that interrupts no CPU, and its period.
    alarm: u64,
    alarm_ns: u64,
}

impl Ring {
    /// A ring of `cpus` CPUs, no timer set; the alarm, if it has a period, goes off first at `first_alarm`.
    pub fn new(cpus: usize, alarm_ns: u64, first_alarm: u64) -> Ring {
        Ring {
            at: 0,
            share_ns: 0,
            anew: true,
            told: vec![false; cpus],
            timers: vec![NEVER; cpus],
            watch: NEVER,
            alarm: if alarm_ns == 0 { NEVER } else { first_alarm },
            alarm_ns,
        }
    }

    /// The next timer of all.
    pub fn deadline(&self) -> u64 {
        self.timers.iter().fold(self.watch.min(self.alarm), |least, at| least.min(*at))
    }

    /// `cpu`, which has the turn, has set its timer; returns whether that ends the turn. Setting it to the same time,
    /// or to none, does not.
    pub fn set(&mut self, cpu: CpuId, at: u64) -> bool {
        if std::mem::replace(&mut self.timers[cpu.index()], NEVER) == at || at == NEVER {
            self.timers[cpu.index()] = at;
            return false;
        }
        // A timer for the same time as another is queued after it, so only an earlier one is first.
        let first = at < self.deadline();
        self.timers[cpu.index()] = at;
        if first {
            self.report_all();
            self.told[cpu.index()] = false;
        }
        first
    }

    /// The next event at `now`, when the last turn or leap is over. `awake`: the CPU is not halted, or an interrupt
    /// waits for it.
    pub fn next(&mut self, now: u64, awake: impl Fn(CpuId) -> bool) -> Next {
        loop {
            if self.anew {
                if !(0..self.told.len()).map(CpuId::from).any(&awake) {
                    self.watch = NEVER;
                    let leap = self.deadline();
                    if leap > now {
                        return Next::Leap(leap);
                    }
                    self.expire(now);
                    if !(0..self.told.len()).map(CpuId::from).any(&awake) {
                        continue;
                    }
                }
                self.begin_round(now);
            }
            if self.at == self.told.len() || std::mem::take(&mut self.told[self.at]) {
                self.anew = true;
                continue;
            }
            let cpu = CpuId::from(self.at);
            self.at += 1;
            let left = self.limit(now);
            if left == 0 {
                self.expire(now);
                self.told[cpu.index()] = false;
            } else if awake(cpu) {
                let until = now + left.min(self.share_ns);
                debug_assert!(until > now, "{cpu} has a turn of no time at {now}, of {} ns", self.share_ns);
                debug_assert!(until <= self.deadline(), "{cpu} has a turn up to {until}, beyond a timer");
                return Next::Turn { cpu, until };
            }
        }
    }

    /// Another CPU's action has changed `cpu`'s timer. The hardware is set, and the turn under way continues.
    pub fn reset(&mut self, cpu: CpuId, at: u64) {
        self.timers[cpu.index()] = at;
    }

    /// The time until which rounds may begin as if no timer were set, if no turn takes longer than `longest_ns` and
    /// each turn lasts as long as its CPU wants. `None` unless a round has just ended and no CPU has to look up.
    pub fn calm_until(&self, longest_ns: u64) -> Option<u64> {
        let calm = self.at == self.told.len() && self.watch != NEVER && !self.told.contains(&true);
        calm.then(|| self.deadline().saturating_sub(longest_ns * self.told.len() as u64))
    }

    fn begin_round(&mut self, now: u64) {
        if self.watch == NEVER {
            self.watch = now + WATCH_NS;
        }
        self.expire(now);
        let limit = self.limit(now);
        let share = limit / self.told.len() as u64;
        self.share_ns = if share == 0 { limit } else { share };
        debug_assert!(self.at <= self.told.len(), "a round is at CPU {} of {}", self.at, self.told.len());
        self.at = if self.at == self.told.len() { 0 } else { self.at };
        self.anew = false;
    }

    fn limit(&self, now: u64) -> u64 {
        self.deadline().saturating_sub(now).min(FURTHEST_NS)
    }

    fn report_all(&mut self) {
        self.told.fill(true);
    }

    /// Expires the timers that are due, if any: all CPUs look up.
    fn expire(&mut self, now: u64) {
        if self.deadline() > now {
            return;
        }
        self.timers.iter_mut().filter(|at| **at <= now).for_each(|at| *at = NEVER);
        if self.watch <= now {
            self.watch = now + WATCH_NS;
        }
        while self.alarm <= now {
            self.alarm += self.alarm_ns;
        }
        self.report_all();
    }
}
