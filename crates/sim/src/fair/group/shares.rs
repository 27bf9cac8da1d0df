//! The weight of a group's entity on one CPU: the group's shares in proportion to the CPU's part of the group's load
//! (`calc_cfs_shares`, `calc_group_shares`).
//!
//! The group's load is a sum of contributions that each cfs_rq updates from time to time. This CPU's own contribution
//! is replaced by its current load. Weights are 1024 at nice 0, or 1024 times as fine since 4.7. Since 7.3 the group's
//! shares count once for each task that it can run at the same time. Since 2.6.38 they are divided again at every
//! enqueue, dequeue and tick. Earlier kernels do so only when they balance; that is not modelled: here each CPU's
//! entity always follows at once.

use schedlab_kernel::History;

/// The smallest weight of a group's entity, in the unit of the division (`MIN_SHARES`).
const MIN: u64 = 2;
/// Fine weight per unit of weight.
pub const FINE: u64 = 1024;

/// The facts about one cfs_rq and its group.
#[derive(Clone, Copy, Debug)]
pub struct SharesFacts {
    pub shares: u64,
    /// Weights on this cfs_rq (`load.weight`).
    pub load_weight: u64,
    pub load_avg: u64,
    /// Its part of `group_load`.
    pub contribution: u64,
    pub group_load: u64,
    /// How many times the shares count: since 7.3 once for each task of the group that can run at the same time
    /// (`calc_concur_shares`), else once.
    pub concurrency: u64,
}

/// The entity's weight on this CPU, fine.
pub fn fine_weight(f: &SharesFacts, history: &History) -> u64 {
    let load = if history.shares_by_average { f.load_weight.max(f.load_avg) } else { f.load_weight };
    let group = (f.group_load + load).saturating_sub(f.contribution);
    let unit = if history.fine_weights { FINE } else { 1 };
    let shares = f.shares * unit * f.concurrency;
    let part = match group {
        0 => u128::from(shares) * u128::from(load),
        group => u128::from(shares) * u128::from(load) / u128::from(group),
    };
    let weight = part.clamp(u128::from(MIN), u128::from(shares.max(MIN))) as u64;
    weight * (FINE / unit)
}

#[cfg(test)]
mod tests {
    use super::*;
    use schedlab_base::Version;

    fn at(version: Version, f: SharesFacts) -> u64 {
        fine_weight(&f, &History::of(version))
    }

    const OLD: Version = Version::new(4, 5);
    const NEW: Version = Version::new(6, 1);
    /// One of four CPUs, each with one task.
    const QUARTER: SharesFacts = SharesFacts {
        shares: 1024,
        load_weight: 1024,
        load_avg: 1024,
        contribution: 1024,
        group_load: 4096,
        concurrency: 1,
    };

    #[test]
    fn a_quarter_of_the_load_gets_a_quarter_of_the_shares() {
        assert_eq!(at(NEW, QUARTER), 256 * FINE);
        assert_eq!(at(OLD, QUARTER), 256 * FINE);
        assert_eq!(at(NEW, SharesFacts { shares: 8192, ..QUARTER }), 2048 * FINE);
    }

    #[test]
    fn the_own_contribution_is_the_current_load() {
        let fresh = SharesFacts { contribution: 0, group_load: 3072, ..QUARTER };
        assert_eq!(at(NEW, fresh), 256 * FINE, "not yet contributed");
        let alone = SharesFacts { contribution: 4096, ..QUARTER };
        assert_eq!(at(NEW, alone), 1024 * FINE, "all of the group's load was this CPU's");
    }

    #[test]
    fn a_sleeping_groups_average_counts_since_4_15() {
        let asleep = SharesFacts { load_weight: 0, ..QUARTER };
        assert_eq!(at(NEW, asleep), 256 * FINE);
        assert_eq!(at(OLD, asleep), 2 * FINE, "the least weight there is");
    }

    #[test]
    fn many_cpus_leave_a_fraction_of_a_weight_only_since_4_7() {
        let crowd = SharesFacts { group_load: 224 * 1024, ..QUARTER };
        assert_eq!(at(OLD, crowd), 4 * FINE);
        assert_eq!(at(NEW, crowd), 4681, "1024 * 1024 / 224");
    }

    #[test]
    fn the_shares_are_the_most_and_two_the_least() {
        let heavy = SharesFacts { load_weight: 88_761, contribution: 0, group_load: 0, ..QUARTER };
        assert_eq!(at(NEW, heavy), 1024 * FINE);
        let light = SharesFacts { load_weight: 0, load_avg: 0, ..QUARTER };
        assert_eq!((at(NEW, light), at(OLD, light)), (2, 2 * FINE));
    }
}
