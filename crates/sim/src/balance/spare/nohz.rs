//! Balancing on behalf of CPUs whose tick is stopped: when a busy CPU asks for it, which CPU does it, and the order.
//!
//! Mirrors `nohz_balancer_kick`, `find_new_ilb` and `_nohz_idle_balance` of 6.5. Instead of balancing, a kick may ask
//! only for an update of the averages of idle CPUs (4.17+), or for a new `nohz.next_balance` (5.15). Times are jiffies.

use crate::balance::capacity::is_reduced;
use crate::balance::state::NohzFlags;
use schedlab_base::CpuId;

pub use crate::balance::nohz::{KickFacts, NoKick};

/// Why a tickless CPU is asked for help. All but the last two ask it to balance and to update averages.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Kick {
    /// This CPU has a task to give.
    TwoTasks,
    /// This CPU is disturbed and has a task.
    ReducedCapacity,
    /// This CPU's task is too large for it, and a faster CPU exists (4.20).
    Misfit,
    /// More than one CPU of the cache is busy while others sleep.
    BusyCache,
    /// Only update the averages of idle CPUs; `nohz.next_balance` stays.
    AveragesOnly,
    /// Only compute when balancing for idle CPUs is due next.
    NextBalance,
}

/// A request to a tickless CPU, with its reason.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Asks {
    pub why: Kick,
    /// If the request includes balancing, `nohz.next_balance` moves to the next tick.
    pub flags: NohzFlags,
}

/// Whether a tick asks a tickless CPU for help.
///
/// # Errors
/// Why it does not.
pub fn kick(f: &KickFacts) -> std::result::Result<Asks, NoKick> {
    if f.idle_at_tick {
        return Err(NoKick::Idle);
    }
    if f.tickless == 0 {
        return Err(NoKick::NobodyTickless);
    }
    let averages = f.next_blocked.is_some_and(|at| f.now > at);
    let why = match () {
        () if f.now < f.next_balance => Err(NoKick::TooEarly),
        () if f.nr_running >= 2 => Ok(Kick::TwoTasks),
        () if f.h_nr_running >= 1 && is_reduced(f.capacity, f.capacity_orig, f.imbalance_pct) => {
            Ok(Kick::ReducedCapacity)
        }
        () if f.misfit == Some(true) => Ok(Kick::Misfit),
        () if f.misfit.is_some() => Err(NoKick::NothingToGive),
        () if f.busy_nearby.is_some_and(|n| n > 1) => Ok(Kick::BusyCache),
        () => Err(NoKick::NothingToGive),
    };
    let flags = NohzFlags {
        balance: why.is_ok(),
        averages: why.is_ok() || averages,
        next_balance: f.needs_update,
        before_idle: false,
    };
    match why {
        Ok(why) => Ok(Asks { why, flags }),
        Err(_) if averages => Ok(Asks { why: Kick::AveragesOnly, flags }),
        Err(_) if f.needs_update => Ok(Asks { why: Kick::NextBalance, flags }),
        Err(why) => Err(why),
    }
}

/// The CPU that helps: the lowest tickless one that is still idle, except the asking CPU. Since 7.3 a CPU whose core is
/// idle is preferred (`core_idles`, which is true for every CPU in earlier kernels). `tickless` is ascending. A CPU
/// that was asked and has not begun gets no second IPI.
pub fn find_ilb(
    tickless: impl Iterator<Item = CpuId>,
    asking: CpuId,
    is_idle: impl Fn(CpuId) -> bool,
    core_idles: impl Fn(CpuId) -> bool,
) -> Option<CpuId> {
    let mut first = None;
    for cpu in tickless.filter(|cpu| *cpu != asking && is_idle(*cpu)) {
        if core_idles(cpu) {
            return Some(cpu);
        }
        first = first.or(Some(cpu));
    }
    first
}

/// The CPU served at position `at` (0 to `nr_cpus - 1`): the order starts after the helper, wraps around, and ends with
/// the helper. The caller skips CPUs that are not tickless, or no longer idle.
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
        needs_update: false,
        nr_running: 1,
        h_nr_running: 1,
        busy_nearby: Some(1),
        capacity: 1024,
        capacity_orig: 1024,
        imbalance_pct: 110,
        misfit: None,
    };

    fn why(f: &KickFacts) -> std::result::Result<Kick, NoKick> {
        kick(f).map(|asks| asks.why)
    }

    #[test]
    fn two_tasks_a_disturbed_cpu_or_a_busy_cache_kick() {
        assert_eq!(why(&QUIET), Err(NoKick::NothingToGive));
        assert_eq!(why(&KickFacts { nr_running: 2, ..QUIET }), Ok(Kick::TwoTasks));
        assert_eq!(why(&KickFacts { busy_nearby: Some(2), ..QUIET }), Ok(Kick::BusyCache));
        assert_eq!(why(&KickFacts { busy_nearby: None, ..QUIET }), Err(NoKick::NothingToGive));
        let disturbed = KickFacts { capacity: 930, busy_nearby: Some(9), ..QUIET };
        assert_eq!(why(&disturbed), Ok(Kick::ReducedCapacity), "asked before the cache");
        assert_eq!(
            why(&KickFacts { capacity: 931, ..disturbed }),
            Ok(Kick::BusyCache),
            "931 * 110 is 102410"
        );
        assert_eq!(why(&KickFacts { h_nr_running: 0, ..disturbed }), Ok(Kick::BusyCache), "not a fair task");
    }

    #[test]
    fn where_cpus_differ_a_misfit_kicks_and_busy_caches_do_not() {
        let misfit = |misfit| KickFacts { misfit, busy_nearby: Some(4), ..QUIET };
        assert_eq!(why(&misfit(Some(true))), Ok(Kick::Misfit));
        assert_eq!(why(&misfit(Some(false))), Err(NoKick::NothingToGive));
    }

    #[test]
    fn no_cpu_is_kicked_early_or_without_need() {
        let busy = KickFacts { nr_running: 2, next_blocked: Some(1), ..QUIET };
        assert_eq!(why(&KickFacts { idle_at_tick: true, ..busy }), Err(NoKick::Idle));
        assert_eq!(why(&KickFacts { tickless: 0, ..busy }), Err(NoKick::NobodyTickless));
        assert_eq!(why(&KickFacts { now: 99, next_blocked: None, ..busy }), Err(NoKick::TooEarly));
    }

    #[test]
    fn averages_are_kept_up_even_when_nothing_is_balanced() {
        let stale = |at| KickFacts { next_blocked: Some(at), ..QUIET };
        assert_eq!(why(&stale(99)), Ok(Kick::AveragesOnly));
        assert_eq!(why(&stale(100)), Err(NoKick::NothingToGive), "due after, not at, that tick");
        let early = KickFacts { now: 99, nr_running: 2, ..stale(98) };
        assert_eq!(why(&early), Ok(Kick::AveragesOnly), "also before balance is due");
        let flags = |f: &KickFacts| kick(f).unwrap().flags;
        assert!(flags(&KickFacts { nr_running: 2, ..QUIET }).balance && !flags(&stale(99)).balance);
    }

    #[test]
    fn a_tick_asks_when_balancing_is_due_next_if_a_cpu_has_stopped_its_tick() {
        let early = KickFacts { now: 99, needs_update: true, ..QUIET };
        let next = NohzFlags { next_balance: true, ..NohzFlags::default() };
        assert_eq!(kick(&early), Ok(Asks { why: Kick::NextBalance, flags: next }), "long before it is due");
        let two = kick(&KickFacts { now: 100, nr_running: 2, ..early }).unwrap().flags;
        assert!(two.balance && two.averages && two.next_balance, "with whatever else is asked for");
        assert_eq!(why(&KickFacts { needs_update: false, ..early }), Err(NoKick::TooEarly));
    }

    #[test]
    fn the_lowest_tickless_cpu_that_is_idle_helps() {
        let from = |idle: &[u32]| {
            let tickless = [2, 4, 6].map(CpuId);
            find_ilb(tickless.into_iter(), CpuId(4), |c| idle.contains(&c.0), |_| true)
        };
        assert_eq!(from(&[2, 4, 6]), Some(CpuId(2)));
        assert_eq!(from(&[4, 6]), Some(CpuId(6)), "the asking CPU does not help itself");
        assert_eq!(from(&[4]), None);
        let on_core = |idle_cores: &[u32]| {
            find_ilb([2, 4, 6].map(CpuId).into_iter(), CpuId(4), |_| true, |c| idle_cores.contains(&c.0))
        };
        assert_eq!(
            (on_core(&[6]), on_core(&[])),
            (Some(CpuId(6)), Some(CpuId(2))),
            "an idle core comes first"
        );
    }

    #[test]
    fn service_begins_after_the_helper_and_wraps() {
        let order: Vec<u32> = (0..4).map(|at| served_at(CpuId(2), at, 4).0).collect();
        assert_eq!(order, [3, 0, 1, 2], "the helper comes last");
    }
}
