//! Whose turn it is on a machine whose CPUs share one processor's time, and until when: the rule, and nothing else.
//!
//! Mirrors the round-robin thread of QEMU (8.1 and later) with `-icount`. It goes round the CPUs in the order
//! of their numbers. At the start of a round the time to the next timer is divided by the number of CPUs,
//! halted ones included, and each may run that long; a halted one is passed over. Whatever changes what the
//! next timer is tells every CPU to look up: a turn under way ends, and each CPU told so begins a round of
//! its own, its share reckoned anew. Two things do: a timer that is set to an earlier time than all others,
//! and timers that expire. A signal from CPU to CPU does neither. When timers expire between two turns of a
//! round, the CPU whose turn comes finds no time left and loses it.
//!
//! Times are ns. Timers here are the ones hardware was told of; an expired one is gone until it is set again.

use crate::engine::NEVER;
use schedlab_base::CpuId;

/// How often the emulator makes sure that no CPU keeps the thread, ns.
const WATCH_NS: u64 = 100_000_000;
/// The furthest it looks ahead, ns.
const FURTHEST_NS: u64 = i32::MAX as u64;

/// What comes next.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Next {
    /// This CPU may run until then.
    Turn {
        /// Whose turn it is.
        cpu: CpuId,
        /// When it ends at the latest, ns.
        until: u64,
    },
    /// All are halted: the clock leaps to this time, ns; [`NEVER`] when nothing is to come.
    Leap(u64),
}

/// The ring of CPUs, and the timers that end turns.
#[derive(Clone, Debug)]
pub struct Ring {
    /// Whose turn would be next; the number of CPUs at the end of a round.
    at: usize,
    /// What each may take in this round, ns.
    share_ns: u64,
    /// A round begins.
    anew: bool,
    /// CPUs told to look up.
    told: Vec<bool>,
    /// What each CPU's timer is set to, ns.
    timers: Vec<u64>,
    /// The emulator's own watch, running while any CPU does.
    watch: u64,
    /// A timer of an emulated device that goes off for nobody, and its period.
    alarm: u64,
    alarm_ns: u64,
}

impl Ring {
    /// A ring of so many CPUs, no timer set; the alarm, if it has a period, goes off first at `first_alarm`.
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

    /// `cpu`, whose turn it is, has set its timer; whether that ends the turn. Setting it to the same time, or
    /// to none, is no matter.
    pub fn set(&mut self, cpu: CpuId, at: u64) -> bool {
        if std::mem::replace(&mut self.timers[cpu.index()], NEVER) == at || at == NEVER {
            self.timers[cpu.index()] = at;
            return false;
        }
        // Behind timers of the same time.
        let first = at < self.deadline();
        self.timers[cpu.index()] = at;
        if first {
            self.tell_all();
            self.told[cpu.index()] = false;
        }
        first
    }

    /// What comes at `now`, all that was to run having run until then. `awake`: a CPU is not halted, or something waits
    /// that wakes it.
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
                return Next::Turn { cpu, until: now + left.min(self.share_ns) };
            }
        }
    }

    /// `cpu`'s timer has changed by another's doing, of which hardware hears when nobody's turn hangs on it.
    pub fn reset(&mut self, cpu: CpuId, at: u64) {
        self.timers[cpu.index()] = at;
    }

    /// Until when rounds in which no turn takes longer than `longest_ns` may begin as if no timer were set,
    /// all turns being as long as whoever has them wants; `None` unless a round has just ended and nobody was
    /// told to look up.
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
        self.at = if self.at == self.told.len() { 0 } else { self.at };
        self.anew = false;
    }

    fn limit(&self, now: u64) -> u64 {
        self.deadline().saturating_sub(now).min(FURTHEST_NS)
    }

    fn tell_all(&mut self) {
        self.told.fill(true);
    }

    /// Timers that are due have gone off: all CPUs look up.
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
        self.tell_all();
    }
}
