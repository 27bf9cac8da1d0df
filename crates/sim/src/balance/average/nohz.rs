//! The conditions under which a busy CPU asks a tickless one to balance.
//!
//! Mirrors `nohz_kick_needed` of 3.4 and 4.5. Times are jiffies. Not modelled: asymmetric packing, the old power-saving
//! policies.

use crate::balance::capacity::is_reduced;
use crate::balance::era::Balancer;
use crate::balance::nohz::NoKick;

/// The facts about a CPU at its tick.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct KickFacts {
    /// The generation of rules.
    pub balancer: Balancer,
    /// Whether the tick hit the idle task. (3.4 tests at that instant whether the CPU is idle.)
    pub idle_at_tick: bool,
    /// CPUs whose tick is stopped.
    pub tickless: u32,
    /// Now.
    pub now: u64,
    /// When idle balance is due next, machine-wide (`nohz.next_balance`).
    pub next_balance: u64,
    /// Runnable tasks here, of all classes.
    pub nr_running: u32,
    /// Busy CPUs nearby, this one included, as the kernel counts them. 3.4: the most in any of this CPU's own groups of
    /// its cache-sharing domains, so at most one core's threads. 4.5: all of its last-level cache; `None`, with no
    /// count, if no domain lies above the cache's, as on a machine of one socket.
    pub busy_nearby: Option<u32>,
    /// Runnable fair tasks here (4.5).
    pub h_nr_running: u32,
    /// Capacity of this CPU.
    pub capacity: u64,
    /// Capacity of this CPU, undisturbed.
    pub capacity_orig: u64,
    /// `imbalance_pct` of its lowest domain.
    pub imbalance_pct: u32,
    /// Whether the CPU has a misfit to give; `None` where CPUs are alike, and before 4.20. Elsewhere busy CPUs of the
    /// cache do not count.
    pub misfit: Option<bool>,
}

/// The reason of a request.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Kick {
    /// This CPU has a task to give.
    TwoTasks,
    /// More than one CPU of the cache (3.4: of the core) is busy while others sleep.
    BusyCache,
    /// This CPU is disturbed and has a task (4.2+).
    ReducedCapacity,
    /// This CPU's task is too large for it, and a faster CPU exists (4.20).
    Misfit,
}

/// Whether a tick asks a tickless CPU to balance.
///
/// # Errors
/// With the reason why not.
pub fn kick_needed(f: &KickFacts) -> std::result::Result<Kick, NoKick> {
    match () {
        () if f.idle_at_tick => Err(NoKick::Idle),
        () if f.tickless == 0 => Err(NoKick::NobodyTickless),
        () if f.now < f.next_balance => Err(NoKick::TooEarly),
        () if f.nr_running >= 2 => Ok(Kick::TwoTasks),
        () if f.misfit.is_none() && f.busy_nearby.is_some_and(|n| n > 1) => Ok(Kick::BusyCache),
        () if f.balancer >= Balancer::V4_5
            && f.h_nr_running >= 1
            && is_reduced(f.capacity, f.capacity_orig, f.imbalance_pct) =>
        {
            Ok(Kick::ReducedCapacity)
        }
        () if f.misfit == Some(true) => Ok(Kick::Misfit),
        () => Err(NoKick::NothingToGive),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const BOTH: [Balancer; 2] = [Balancer::V3_4, Balancer::V4_5];
    const QUIET: KickFacts = KickFacts {
        balancer: Balancer::V4_5,
        idle_at_tick: false,
        tickless: 3,
        now: 100,
        next_balance: 100,
        nr_running: 1,
        busy_nearby: Some(1),
        h_nr_running: 1,
        capacity: 1024,
        capacity_orig: 1024,
        imbalance_pct: 125,
        misfit: None,
    };

    #[test]
    fn two_tasks_or_a_busy_cache_kick() {
        for balancer in BOTH {
            let f = KickFacts { balancer, ..QUIET };
            assert_eq!(kick_needed(&f), Err(NoKick::NothingToGive));
            assert_eq!(kick_needed(&KickFacts { nr_running: 2, ..f }), Ok(Kick::TwoTasks));
            assert_eq!(kick_needed(&KickFacts { busy_nearby: Some(2), ..f }), Ok(Kick::BusyCache));
            assert_eq!(kick_needed(&KickFacts { busy_nearby: None, ..f }), Err(NoKick::NothingToGive));
        }
    }

    #[test]
    fn no_cpu_is_kicked_early_or_without_need() {
        let busy = KickFacts { nr_running: 2, ..QUIET };
        assert_eq!(kick_needed(&KickFacts { idle_at_tick: true, ..busy }), Err(NoKick::Idle));
        assert_eq!(kick_needed(&KickFacts { tickless: 0, ..busy }), Err(NoKick::NobodyTickless));
        assert_eq!(kick_needed(&KickFacts { now: 99, ..busy }), Err(NoKick::TooEarly));
    }

    #[test]
    fn a_disturbed_cpu_kicks_for_its_only_task_in_4_5() {
        let f = KickFacts { capacity: 700, ..QUIET };
        assert_eq!(kick_needed(&f), Ok(Kick::ReducedCapacity));
        assert_eq!(kick_needed(&KickFacts { h_nr_running: 0, ..f }), Err(NoKick::NothingToGive));
        assert_eq!(kick_needed(&KickFacts { balancer: Balancer::V3_4, ..f }), Err(NoKick::NothingToGive));
        assert_eq!(
            kick_needed(&KickFacts { imbalance_pct: 200, capacity: 600, ..f }),
            Err(NoKick::NothingToGive)
        );
    }
}
