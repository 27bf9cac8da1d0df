//! Balancing on behalf of CPUs whose tick is stopped: which CPU does it, and which CPUs it serves.
//!
//! Mirrors `find_new_ilb` and `nohz_idle_balance` of 3.4 to 6.5. `average/nohz.rs` and `spare/nohz.rs` decide when a
//! busy CPU asks for it. Times are jiffies.

use super::era::Balancer;
use schedlab_base::CpuId;

/// The facts by which a tick decides whether to ask a tickless CPU for help.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct KickFacts {
    /// Whether the tick hit the idle task. (3.4 tests at that instant whether the CPU is idle.)
    pub idle_at_tick: bool,
    pub tickless: u32,
    pub now: u64,
    /// When idle balance is due next, machine-wide (`nohz.next_balance`).
    pub next_balance: u64,
    /// When averages of idle CPUs should next be updated; `None` if none of them has load left to decay.
    /// (`nohz.next_blocked`: 32 ms after the last time, while `nohz.has_blocked`. Since 4.17.)
    pub next_blocked: Option<u64>,
    /// Whether a CPU has stopped its tick since `next_balance` was computed (5.15).
    pub needs_update: bool,
    /// Runnable tasks here, of all classes.
    pub nr_running: u32,
    /// Runnable fair tasks here (since 4.5).
    pub h_nr_running: u32,
    /// Number of busy CPUs nearby, including this one, as the kernel counts them. 3.4: the maximum over this CPU's own
    /// groups in its cache-sharing domains, so at most one core's threads. Since 4.5: all of its last-level cache.
    /// `None` if there is no count: in 4.5 if no domain lies above the cache's, as on a machine with one socket; later
    /// if there is no domain inside the cache.
    pub busy_nearby: Option<u32>,
    pub capacity: u64,
    /// Capacity of this CPU, undisturbed.
    pub capacity_orig: u64,
    /// `imbalance_pct` of its lowest domain.
    pub imbalance_pct: u32,
    /// Whether the CPU has a misfit to give; `None` if CPUs are alike, and before 4.20. If it is not `None`, busy CPUs
    /// of the cache do not count.
    pub misfit: Option<bool>,
}

/// Why a busy CPU does not ask for help.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum NoKick {
    /// This CPU is idle itself.
    Idle,
    /// No CPU has its tick stopped.
    NobodyTickless,
    /// `nohz.next_balance` is still in the future.
    TooEarly,
    NothingToGive,
}

/// The CPU that balances for all: the lowest tickless one, if it is still idle. A kick postpones `next_balance` by one
/// tick even if there is no such CPU; a CPU that was already kicked gets no second IPI.
pub fn find_ilb(lowest_tickless: Option<CpuId>, is_idle: impl FnOnce(CpuId) -> bool) -> Option<CpuId> {
    lowest_tickless.filter(|cpu| is_idle(*cpu))
}

/// Whether the balancing CPU serves a tickless one, which may have found work since. 3.4 serves every idle one at each
/// kick (their domains' intervals still apply); 4.5 serves those whose own next balance is due.
pub fn serves(balancer: Balancer, idle: bool, now: u64, next_balance: u64) -> bool {
    idle && (balancer <= Balancer::V3_4 || now >= next_balance)
}

#[cfg(test)]
mod tests {
    use super::*;

    const BOTH: [Balancer; 2] = [Balancer::V3_4, Balancer::V4_5];

    #[test]
    fn the_lowest_tickless_cpu_balances_if_idle_still() {
        assert_eq!(find_ilb(Some(CpuId(4)), |c| c == CpuId(4)), Some(CpuId(4)));
        assert_eq!(find_ilb(Some(CpuId(4)), |_| false), None, "the next one is not tried");
        assert_eq!(find_ilb(None, |_| true), None);
    }

    #[test]
    fn only_4_5_waits_for_each_cpus_own_time() {
        for b in BOTH {
            assert!(serves(b, true, 10, 10) && !serves(b, false, 10, 10), "{b:?}");
        }
        assert!(serves(Balancer::V3_4, true, 9, 10) && !serves(Balancer::V4_5, true, 9, 10));
    }
}
