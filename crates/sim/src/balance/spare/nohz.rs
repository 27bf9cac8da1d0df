//! Balancing on behalf of CPUs whose tick is stopped: when a busy CPU asks for it, who does it, in what order.
//!
//! Mirrors `nohz_balancer_kick`, `find_new_ilb` and `_nohz_idle_balance` of 6.5. Besides balancing, a kick may ask only
//! for the averages of idle CPUs to be brought up to date (4.17+). Left out: the separate request to recompute
//! `nohz.next_balance` (NOHZ_NEXT_KICK). Times are jiffies.

use crate::balance::capacity::is_reduced;
use schedlab_base::CpuId;

pub use crate::balance::nohz::NoKick;

/// What a CPU knows at its tick.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct KickFacts {
    /// Whether the tick hit the idle task.
    pub idle_at_tick: bool,
    /// CPUs whose tick is stopped.
    pub tickless: u32,
    /// Now.
    pub now: u64,
    /// When idle balance is due next, machine-wide (`nohz.next_balance`).
    pub next_balance: u64,
    /// When averages of idle CPUs should next be brought up to date; `None`: none of them has any load left to decay.
    /// (`nohz.next_blocked`: 32 ms after the last time, while `nohz.has_blocked`.)
    pub next_blocked: Option<u64>,
    /// Runnable tasks here, of all classes.
    pub nr_running: u32,
    /// Runnable fair tasks here.
    pub h_nr_running: u32,
    /// Busy CPUs of the last-level cache, this one included; `None` without a domain inside the cache.
    pub busy_nearby: Option<u32>,
    /// Capacity of this CPU.
    pub capacity: u64,
    /// Capacity of this CPU, undisturbed.
    pub capacity_orig: u64,
    /// `imbalance_pct` of its lowest domain.
    pub imbalance_pct: u32,
}

/// What a tickless CPU is asked to do, and why. All but the last balance, and bring averages up to date.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Kick {
    /// This CPU has a task to give.
    TwoTasks,
    /// This CPU is disturbed and has a task.
    ReducedCapacity,
    /// More than one CPU of the cache is busy while others sleep.
    BusyCache,
    /// Only bring the averages of idle CPUs up to date: `nohz.next_balance` stays.
    AveragesOnly,
}

impl Kick {
    /// Whether domains are balanced, too; only then `nohz.next_balance` moves on to the next tick.
    pub fn balances(self) -> bool {
        self != Kick::AveragesOnly
    }
}

/// Whether a tick asks a tickless CPU for help.
///
/// # Errors
/// With the reason why not.
pub fn kick(f: &KickFacts) -> std::result::Result<Kick, NoKick> {
    if f.idle_at_tick {
        return Err(NoKick::Idle);
    }
    if f.tickless == 0 {
        return Err(NoKick::NobodyTickless);
    }
    let averages = f.next_blocked.is_some_and(|at| f.now > at);
    let otherwise = |why| if averages { Ok(Kick::AveragesOnly) } else { Err(why) };
    match () {
        () if f.now < f.next_balance => otherwise(NoKick::TooEarly),
        () if f.nr_running >= 2 => Ok(Kick::TwoTasks),
        () if f.h_nr_running >= 1 && is_reduced(f.capacity, f.capacity_orig, f.imbalance_pct) => {
            Ok(Kick::ReducedCapacity)
        }
        () if f.busy_nearby.is_some_and(|n| n > 1) => Ok(Kick::BusyCache),
        () => otherwise(NoKick::NothingToGive),
    }
}

/// The CPU that helps: the lowest tickless one that is idle still, the asking CPU apart. `tickless` is ascending. One
/// that has been asked and has not begun gets no second IPI.
pub fn find_ilb(
    mut tickless: impl Iterator<Item = CpuId>,
    asking: CpuId,
    is_idle: impl Fn(CpuId) -> bool,
) -> Option<CpuId> {
    tickless.find(|cpu| *cpu != asking && is_idle(*cpu))
}

/// The CPU number served in place `at` (0 to `nr_cpus - 2`): from the one after the helper on, wrapping,
/// never the helper itself. Those that are not tickless, or not idle any more, are passed over.
pub fn served_at(helper: CpuId, at: usize, nr_cpus: usize) -> CpuId {
    CpuId::from((helper.index() + 1 + at) % nr_cpus)
}

#[cfg(test)]
mod tests {
    use super::*;

    const QUIET: KickFacts = KickFacts {
        idle_at_tick: false,
        tickless: 3,
        now: 100,
        next_balance: 100,
        next_blocked: None,
        nr_running: 1,
        h_nr_running: 1,
        busy_nearby: Some(1),
        capacity: 1024,
        capacity_orig: 1024,
        imbalance_pct: 110,
    };

    #[test]
    fn two_tasks_a_disturbed_cpu_or_a_busy_cache_kick() {
        assert_eq!(kick(&QUIET), Err(NoKick::NothingToGive));
        assert_eq!(kick(&KickFacts { nr_running: 2, ..QUIET }), Ok(Kick::TwoTasks));
        assert_eq!(kick(&KickFacts { busy_nearby: Some(2), ..QUIET }), Ok(Kick::BusyCache));
        assert_eq!(kick(&KickFacts { busy_nearby: None, ..QUIET }), Err(NoKick::NothingToGive));
        let disturbed = KickFacts { capacity: 930, busy_nearby: Some(9), ..QUIET };
        assert_eq!(kick(&disturbed), Ok(Kick::ReducedCapacity), "asked before the cache");
        assert_eq!(
            kick(&KickFacts { capacity: 931, ..disturbed }),
            Ok(Kick::BusyCache),
            "931 * 110 is 102410"
        );
        assert_eq!(kick(&KickFacts { h_nr_running: 0, ..disturbed }), Ok(Kick::BusyCache), "not a fair task");
    }

    #[test]
    fn nobody_is_kicked_early_or_without_need() {
        let busy = KickFacts { nr_running: 2, next_blocked: Some(1), ..QUIET };
        assert_eq!(kick(&KickFacts { idle_at_tick: true, ..busy }), Err(NoKick::Idle));
        assert_eq!(kick(&KickFacts { tickless: 0, ..busy }), Err(NoKick::NobodyTickless));
        assert_eq!(kick(&KickFacts { now: 99, next_blocked: None, ..busy }), Err(NoKick::TooEarly));
    }

    #[test]
    fn averages_are_kept_up_even_when_nothing_is_balanced() {
        let stale = |at| KickFacts { next_blocked: Some(at), ..QUIET };
        assert_eq!(kick(&stale(99)), Ok(Kick::AveragesOnly));
        assert_eq!(kick(&stale(100)), Err(NoKick::NothingToGive), "due after, not at, that tick");
        let early = KickFacts { now: 99, nr_running: 2, ..stale(98) };
        assert_eq!(kick(&early), Ok(Kick::AveragesOnly), "also before balance is due");
        assert!(Kick::TwoTasks.balances() && !Kick::AveragesOnly.balances());
    }

    #[test]
    fn the_lowest_tickless_cpu_that_is_idle_helps() {
        let from = |idle: &[u32]| {
            let tickless = [2, 4, 6].map(CpuId);
            find_ilb(tickless.into_iter(), CpuId(4), |c| idle.contains(&c.0))
        };
        assert_eq!(from(&[2, 4, 6]), Some(CpuId(2)));
        assert_eq!(from(&[4, 6]), Some(CpuId(6)), "the asking CPU does not help itself");
        assert_eq!(from(&[4]), None);
    }

    #[test]
    fn service_begins_after_the_helper_and_wraps() {
        let order: Vec<u32> = (0..3).map(|at| served_at(CpuId(2), at, 4).0).collect();
        assert_eq!(order, [3, 0, 1]);
    }
}
