//! Balancing on behalf of CPUs whose tick is stopped: the CPU that does it, and the CPUs that it serves.
//!
//! Mirrors `find_new_ilb` and `nohz_idle_balance` of 3.4 to 6.5. `average/nohz.rs` and `spare/nohz.rs` decide when a
//! busy CPU asks for it. Times are jiffies.

use super::era::Balancer;
use schedlab_base::CpuId;

/// Why a busy CPU does not ask for it.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum NoKick {
    /// This CPU is idle itself.
    Idle,
    /// No CPU has its tick stopped.
    NobodyTickless,
    /// `nohz.next_balance` is still ahead.
    TooEarly,
    /// This CPU has nothing to give.
    NothingToGive,
}

/// The CPU that balances for all: the lowest tickless one, if it is still idle. A kick moves `next_balance` one tick on
/// even if there is no such CPU; a CPU already kicked gets no second IPI.
pub fn find_ilb(lowest_tickless: Option<CpuId>, is_idle: impl FnOnce(CpuId) -> bool) -> Option<CpuId> {
    lowest_tickless.filter(|cpu| is_idle(*cpu))
}

/// Whether the balancing CPU serves a tickless one, which may have found work since. 3.4 serves every idle one at each
/// kick (their domains' intervals still hold); 4.5 serves those whose own next balance is due.
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
