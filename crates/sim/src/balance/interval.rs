//! When a domain is due, and which CPU of a group balances it.
//!
//! Mirrors `rebalance_domains`, `get_sd_balance_interval` and `should_we_balance` of 3.4 to 4.5; in later kernels a
//! busy CPU's interval is one jiffy shorter. Times are jiffies (ticks since boot) unless named otherwise; intervals are
//! stored in ms as in the kernel.

use super::era::{Balancer, PassKind};
use schedlab_base::CpuId;

/// Milliseconds in whole ticks, rounded up (`msecs_to_jiffies`).
pub fn ms_to_jiffies(ms: u64, hz: u64) -> u64 {
    (ms * hz).div_ceil(1000)
}

/// Facts about kernel and machine on which the length of an interval depends.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct IntervalFacts {
    /// Whether a busy CPU's interval is a tick shorter, so that levels with equal intervals drift apart.
    pub busy_is_short: bool,
    /// Ticks a second.
    pub hz: u64,
    /// Number of CPUs online; bounds the interval.
    pub nr_cpus: u64,
}

impl IntervalFacts {
    /// Ticks between two passes over a domain whose interval is `interval_ms`.
    ///
    /// `busy`: the CPU is not idle, so the interval is `busy_factor` times as long. At least 1 tick, at most
    /// `hz * CPUs / 10`.
    pub fn interval(&self, interval_ms: u32, busy: bool, busy_factor: u32) -> u64 {
        let factor = if busy { u64::from(busy_factor) } else { 1 };
        let ticks = ms_to_jiffies(u64::from(interval_ms) * factor, self.hz);
        let short = busy && self.busy_is_short;
        ticks.saturating_sub(u64::from(short)).clamp(1, self.longest())
    }

    /// The longest interval, ticks (`max_load_balance_interval`).
    pub fn longest(&self) -> u64 {
        (self.hz * self.nr_cpus / 10).max(1)
    }
}

/// Whether a domain last balanced at `last_balance` is due.
pub fn is_due(now: u64, last_balance: u64, interval: u64) -> bool {
    now >= last_balance + interval
}

/// The earliest time at which a domain is due; the tick raises the softirq from then on.
///
/// `base` is the time at which the walk over the domains began. Without any domain the result is a minute (periodic) or
/// a second (newidle) later.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct NextBalance(u64);

impl NextBalance {
    /// The value before any domain is considered, derived from `base`.
    pub fn new(base: u64, pass: PassKind, hz: u64) -> NextBalance {
        NextBalance(base + if pass == PassKind::Newidle { hz } else { 60 * hz })
    }
    /// Takes a domain's next time into account.
    pub fn consider(&mut self, last_balance: u64, interval: u64) {
        self.0 = self.0.min(last_balance + interval);
    }
    /// The resulting time.
    pub fn at(self) -> u64 {
        self.0
    }
    /// The CPU's next balance after a newidle balance. 4.5 only makes it earlier. 3.4 replaces it if a task was pulled
    /// or if the old time has passed; the old time may have been set while the CPU was busy.
    pub fn after_newidle(self, balancer: Balancer, old: u64, now: u64, pulled: bool) -> u64 {
        match balancer {
            Balancer::V2_6 | Balancer::V3_4 if pulled || now > old => self.0,
            Balancer::V2_6 | Balancer::V3_4 => old,
            Balancer::V4_5 => old.min(self.0),
        }
    }
}

/// Searches the CPU that balances on behalf of its group: the first idle one, else the first. Since 6.6, in domains
/// above the core, the first one whose whole core is idle is preferred to both.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Election {
    first: Option<CpuId>,
    idle: Option<CpuId>,
    idle_core: Option<CpuId>,
}

/// The state of a CPU as the election reads it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Reads {
    Busy,
    /// It is idle, and may be elected at once.
    Idle,
    /// It is idle but its core is not, in a domain where idle cores are preferred.
    IdleThread,
}

impl Election {
    /// Reads the next CPU of the local group, in ascending order. Returns true when the search is over.
    #[inline]
    pub fn probe(&mut self, cpu: CpuId, reads: Reads) -> bool {
        self.first.get_or_insert(cpu);
        match reads {
            Reads::Busy => {}
            Reads::Idle => self.idle_core = Some(cpu),
            Reads::IdleThread => {
                self.idle.get_or_insert(cpu);
            }
        }
        reads == Reads::Idle
    }
    /// The elected CPU; `None` before any was read.
    pub fn elected(&self) -> Option<CpuId> {
        self.idle_core.or(self.idle).or(self.first)
    }
    /// Whether `cpu` may continue. A newidle pass needs no election: it serves its own CPU.
    pub fn should_balance(&self, cpu: CpuId, pass: PassKind) -> bool {
        pass == PassKind::Newidle || self.elected() == Some(cpu)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn clock(hz: u64, nr_cpus: u64) -> IntervalFacts {
        IntervalFacts { busy_is_short: false, hz, nr_cpus }
    }

    #[test]
    fn milliseconds_round_up_to_ticks() {
        let at_250 = [0, 1, 4, 5, 64].map(|ms| ms_to_jiffies(ms, 250));
        assert_eq!(at_250, [0, 1, 1, 2, 16]);
        assert_eq!(ms_to_jiffies(7, 1000), 7);
    }

    #[test]
    fn a_busy_cpu_waits_longer() {
        let c = clock(1000, 96);
        assert_eq!(c.interval(48, false, 32), 48);
        assert_eq!(c.interval(48, true, 32), 48 * 32);
        assert_eq!(c.interval(48, true, 16), 48 * 16);
        let late = IntervalFacts { busy_is_short: true, ..c };
        assert_eq!(late.interval(48, true, 16), 48 * 16 - 1, "a tick short");
        assert_eq!(late.interval(48, false, 16), 48);
    }

    #[test]
    fn intervals_stay_between_a_tick_and_a_tenth_of_a_second_a_cpu() {
        assert_eq!(clock(250, 8).interval(0, false, 32), 1);
        assert_eq!(clock(1000, 2).interval(64, true, 64), 200);
        assert_eq!(clock(250, 2).interval(64, true, 64), 50);
        assert_eq!(clock(1000, 4).interval(64, true, 64), 400);
    }

    #[test]
    fn due_from_the_tick_on() {
        assert!(!is_due(109, 100, 10));
        assert!(is_due(110, 100, 10) && is_due(200, 100, 10));
    }

    #[test]
    fn the_next_look_is_the_earliest_domain() {
        let mut n = NextBalance::new(1000, PassKind::Busy, 250);
        assert_eq!(n.at(), 1000 + 60 * 250);
        n.consider(990, 30);
        n.consider(999, 16);
        n.consider(900, 500);
        assert_eq!(n.at(), 1015);
        assert_eq!(NextBalance::new(1000, PassKind::Newidle, 250).at(), 1250);
    }

    #[test]
    fn newidle_moves_the_next_look() {
        let mut n = NextBalance::new(1000, PassKind::Newidle, 250);
        n.consider(1000, 8);
        let after = |b, old, pulled| n.after_newidle(b, old, 1000, pulled);
        assert_eq!(after(Balancer::V4_5, 1004, false), 1004, "never later");
        assert_eq!(after(Balancer::V4_5, 2000, true), 1008);
        assert_eq!(after(Balancer::V3_4, 1004, true), 1008, "pulled: replaced");
        assert_eq!(after(Balancer::V3_4, 2000, false), 2000, "going idle with nothing: kept");
        assert_eq!(after(Balancer::V3_4, 999, false), 1008, "but not when it is past");
    }

    #[test]
    fn the_first_idle_cpu_balances_else_the_first() {
        use Reads::{Busy, Idle, IdleThread};
        let elect = |reads: &[Reads]| {
            let mut e = Election::default();
            let mut read = 0;
            for (i, reads) in reads.iter().enumerate() {
                read += 1;
                if e.probe(CpuId(4 + i as u32), *reads) {
                    break;
                }
            }
            (e.elected().map(|c| c.0), read)
        };
        assert_eq!(elect(&[Busy, Busy, Busy]), (Some(4), 3));
        assert_eq!(elect(&[Busy, Idle, Idle]), (Some(5), 2), "stops at the first idle one");
        assert_eq!(elect(&[]), (None, 0));
        assert_eq!(elect(&[Busy, IdleThread, Busy, Idle]), (Some(7), 4), "an idle core comes first");
        assert_eq!(elect(&[Busy, IdleThread, Busy, IdleThread]), (Some(5), 4), "else the first idle thread");
    }

    #[test]
    fn newidle_is_never_refused() {
        let mut e = Election::default();
        e.probe(CpuId(0), Reads::Busy);
        e.probe(CpuId(1), Reads::Idle);
        assert!(e.should_balance(CpuId(1), PassKind::Idle) && !e.should_balance(CpuId(0), PassKind::Busy));
        assert!(e.should_balance(CpuId(0), PassKind::Newidle));
    }
}
