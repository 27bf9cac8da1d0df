//! The balancer of a kernel version, and the kinds of passes.
//!
//! The balancers of 2.6.30, 3.4 and 4.5 have the same outline and differ in many small tests. Each rule of this room
//! takes a [`Balancer`], and its text says where they differ.

use schedlab_kernel::History;
use schedlab_machine::DomainParams;
use schedlab_trace::BalanceTrigger;

/// The generations of the load balancer that weighs groups by average load.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Balancer {
    /// Kernels before 2.6.32 (2.6.30 was read): as 3.4, with three differences. Idle passes and groups stuck by
    /// affinity are measured with `imbalance_pct` like all others. A group with one task's load gives nothing. A group
    /// gives at most its load above one task's.
    V2_6,
    /// Kernel 3.4 (2.6.39 to 3.9 are close to it): weights without decay, capacity counted in whole tasks.
    V3_4,
    /// Kernel 4.5 (4.2 to 4.6; up to 5.4 close to it): group types, capacity compared with utilisation.
    V4_5,
}

impl Balancer {
    /// The balancer of a version. Kernels from 5.5 on have their own rules in [`spare`](crate::balance::spare), and
    /// share the unchanged ones with 4.5: intervals, the flag of the parent's group.
    ///
    /// 3.10 to 4.1 lie between the two (group types came in 3.18, utilisation in 4.2).
    pub fn of(history: &History) -> Balancer {
        match () {
            () if history.early_balancer => Balancer::V2_6,
            () if history.group_types => Balancer::V4_5,
            () => Balancer::V3_4,
        }
    }
}

/// The kind of a pass (`enum cpu_idle_type`).
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum PassKind {
    /// Periodic, for an idle CPU (`CPU_IDLE`); also for a CPU on whose behalf another one balances.
    Idle,
    /// Periodic, for a busy CPU (`CPU_NOT_IDLE`).
    Busy,
    /// For a CPU about to go idle (`CPU_NEWLY_IDLE`).
    Newidle,
}

impl From<BalanceTrigger> for PassKind {
    fn from(trigger: BalanceTrigger) -> PassKind {
        match trigger {
            BalanceTrigger::Newidle => PassKind::Newidle,
            BalanceTrigger::Idle | BalanceTrigger::Nohz => PassKind::Idle,
            BalanceTrigger::Busy => PassKind::Busy,
        }
    }
}

impl PassKind {
    /// The entry of `cpu_load[]` that this pass reads in that domain (before 5.x; 0 is the load of this instant).
    pub fn load_idx(self, domain: &DomainParams) -> u8 {
        match self {
            PassKind::Idle => domain.idle_idx,
            PassKind::Busy => domain.busy_idx,
            PassKind::Newidle => domain.newidle_idx,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use schedlab_base::{CpuId, Version};
    use schedlab_machine::{Domains, shape::Shape};

    #[test]
    fn versions_map_to_the_era_they_belong_to() {
        let era = |text: &str| Balancer::of(&History::of(Version::parse(text).unwrap()));
        assert_eq!(era("v2.6.30"), Balancer::V2_6);
        assert_eq!(era("v3.4"), Balancer::V3_4);
        assert_eq!(era("v4.1"), Balancer::V3_4, "4.1 still counts capacity in tasks");
        assert_eq!(era("v4.5"), Balancer::V4_5);
        assert_eq!(era("v6.5"), Balancer::V4_5, "the unchanged rules are 4.5's");
    }

    #[test]
    fn balancing_for_a_tickless_cpu_is_an_idle_pass() {
        assert_eq!(PassKind::from(BalanceTrigger::Nohz), PassKind::Idle);
        assert_eq!(PassKind::from(BalanceTrigger::Newidle), PassKind::Newidle);
        assert_eq!(PassKind::from(BalanceTrigger::Busy), PassKind::Busy);
    }

    #[test]
    fn each_pass_reads_its_own_load_index() {
        let topology = Shape { packages: 2, nodes: 2, llcs: 2, ..Shape::flat(8, 1) }.topology().unwrap();
        let domains = Domains::build(&topology, Version::new(4, 5));
        let numa = domains.of_cpu[CpuId(0)].last().unwrap();
        let read = [PassKind::Busy, PassKind::Idle, PassKind::Newidle].map(|p| p.load_idx(&numa.params));
        assert_eq!(read, [3, 2, 0], "NUMA level of 4.5");
    }
}
