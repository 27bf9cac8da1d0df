//! Comparisons on machines whose CPUs differ in capacity: whether a task fits, and whether a CPU is worth the move.
//!
//! Read in 6.1.192. Not modelled: clamps of utilisation (uclamp), and thermal pressure.

/// Whether a utilisation leaves a fifth of a CPU's capacity free (`fits_capacity`).
#[inline]
pub fn fits(util: u64, capacity: u64) -> bool {
    util * 1280 < capacity * 1024
}

/// Whether capacity `a` is greater by more than a twentieth (`capacity_greater`, 5.13).
#[inline]
pub fn is_greater(a: u64, b: u64) -> bool {
    a * 1024 > b * 1078
}

/// The capacities that a pass over a domain with SD_ASYM_CPUCAPACITY compares.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Asymmetry {
    /// Whether the domain has the flag.
    pub marked: bool,
    /// Whether groups are compared with the balancing CPU instead of its group (5.13).
    pub by_target: bool,
    /// Whether tasks stay on faster CPUs, whatever group was found before (2026, and backports).
    pub before_types: bool,
    /// Capacity of the balancing CPU.
    pub dst_capacity: u64,
    /// Whether other threads of the balancing CPU's core are busy; misfits do not go there.
    pub dst_core_busy: bool,
}

/// The facts about a group for these comparisons.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Kinds {
    /// The largest load of a misfit, a task too large for its CPU; 0 without one.
    pub misfit_load: u64,
    /// The smallest capacity of a CPU.
    pub min_capacity: u64,
    /// The largest capacity of a CPU.
    pub max_capacity: u64,
    /// Whether its CPUs are the threads of one core; known only in domains where some groups are cores.
    pub is_core: bool,
}

impl Asymmetry {
    /// For a domain whose CPUs are alike.
    pub const NONE: Asymmetry = Asymmetry {
        marked: false,
        by_target: false,
        before_types: false,
        dst_capacity: 0,
        dst_core_busy: false,
    };

    /// Whether a group's misfit can't be helped because the balancing CPU's side is not faster.
    pub fn is_in_vain(&self, local: &Kinds, group: &Kinds) -> bool {
        if self.by_target {
            !is_greater(self.dst_capacity, group.max_capacity)
        } else {
            !fits(group.max_capacity, local.max_capacity)
        }
    }
    /// Whether a group's CPUs are faster, so that tasks should not leave them while each has its own.
    pub fn is_slower_than(&self, local: &Kinds, group: &Kinds) -> bool {
        if self.by_target {
            is_greater(group.min_capacity, self.dst_capacity)
        } else {
            fits(local.min_capacity, group.min_capacity)
        }
    }
    /// Whether a queue with one task is left alone because its CPU is as fast.
    pub fn spares(&self, capacity: u64) -> bool {
        self.marked
            && if self.by_target {
                !is_greater(self.dst_capacity, capacity)
            } else {
                self.dst_capacity < capacity
            }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_task_fits_while_a_fifth_is_left() {
        assert!(fits(356, 446) && !fits(357, 446));
        assert!(fits(819, 1024) && !fits(820, 1024));
    }

    #[test]
    fn capacities_differ_by_a_twentieth_or_by_a_fifth() {
        assert!(is_greater(1024, 972) && !is_greater(1024, 973));
        let kinds = |capacity| Kinds {
            misfit_load: 1,
            min_capacity: capacity,
            max_capacity: capacity,
            is_core: false,
        };
        let to = |by_target| Asymmetry { marked: true, by_target, dst_capacity: 1024, ..Asymmetry::NONE };
        let of = |by_target, small| {
            let a = to(by_target);
            (a.is_in_vain(&kinds(1024), &kinds(small)), a.spares(small))
        };
        assert_eq!([of(true, 900), of(true, 1000)], [(false, false), (true, true)]);
        assert_eq!([of(false, 900), of(false, 800)], [(true, false), (false, false)]);
        let small = Asymmetry { dst_capacity: 446, ..to(true) };
        assert!(small.is_slower_than(&kinds(446), &kinds(1024)) && small.spares(1024));
        assert!(!small.is_slower_than(&kinds(446), &kinds(446)));
        assert!(!Asymmetry::default().spares(1024), "without the flag nothing is left alone");
    }
}
