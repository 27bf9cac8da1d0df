//! Decides whether a busy CPU asks a tickless one to balance.
//!
//! Mirrors `nohz_kick_needed` of 3.4 and 4.5. Times are jiffies. Not modelled: asymmetric packing, the old power-saving
//! policies.

use crate::balance::capacity::is_reduced;
use crate::balance::era::Balancer;
use crate::balance::nohz::{KickFacts, NoKick};

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
/// Why it does not.
pub fn kick_needed(balancer: Balancer, f: &KickFacts) -> std::result::Result<Kick, NoKick> {
    match () {
        () if f.idle_at_tick => Err(NoKick::Idle),
        () if f.tickless == 0 => Err(NoKick::NobodyTickless),
        () if f.now < f.next_balance => Err(NoKick::TooEarly),
        () if f.nr_running >= 2 => Ok(Kick::TwoTasks),
        () if f.misfit.is_none() && f.busy_nearby.is_some_and(|n| n > 1) => Ok(Kick::BusyCache),
        () if balancer >= Balancer::V4_5
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
        idle_at_tick: false,
        tickless: 3,
        now: 100,
        next_balance: 100,
        next_blocked: None,
        needs_update: false,
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
            let f = QUIET;
            assert_eq!(kick_needed(balancer, &f), Err(NoKick::NothingToGive));
            assert_eq!(kick_needed(balancer, &KickFacts { nr_running: 2, ..f }), Ok(Kick::TwoTasks));
            assert_eq!(kick_needed(balancer, &KickFacts { busy_nearby: Some(2), ..f }), Ok(Kick::BusyCache));
            assert_eq!(
                kick_needed(balancer, &KickFacts { busy_nearby: None, ..f }),
                Err(NoKick::NothingToGive)
            );
        }
    }

    #[test]
    fn no_cpu_is_kicked_early_or_without_need() {
        let busy = KickFacts { nr_running: 2, ..QUIET };
        assert_eq!(kick_needed(Balancer::V4_5, &KickFacts { idle_at_tick: true, ..busy }), Err(NoKick::Idle));
        assert_eq!(
            kick_needed(Balancer::V4_5, &KickFacts { tickless: 0, ..busy }),
            Err(NoKick::NobodyTickless)
        );
        assert_eq!(kick_needed(Balancer::V4_5, &KickFacts { now: 99, ..busy }), Err(NoKick::TooEarly));
    }

    #[test]
    fn a_disturbed_cpu_kicks_for_its_only_task_in_4_5() {
        let f = KickFacts { capacity: 700, ..QUIET };
        assert_eq!(kick_needed(Balancer::V4_5, &f), Ok(Kick::ReducedCapacity));
        assert_eq!(
            kick_needed(Balancer::V4_5, &KickFacts { h_nr_running: 0, ..f }),
            Err(NoKick::NothingToGive)
        );
        assert_eq!(kick_needed(Balancer::V3_4, &f), Err(NoKick::NothingToGive));
        assert_eq!(
            kick_needed(Balancer::V4_5, &KickFacts { imbalance_pct: 200, capacity: 600, ..f }),
            Err(NoKick::NothingToGive)
        );
    }
}
