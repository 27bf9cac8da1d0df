//! Types of groups since 5.5: a group has room, is full, or is stuck. Used by passes and by the placement of new tasks.

use std::hint::select_unpredictable;

/// Types of groups since 5.5, as far as they are modelled, least urgent first.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum SpareType {
    /// It has room for more tasks.
    HasSpare,
    /// It is exactly full.
    FullyBusy,
    /// A task is too large for its CPU (`group_misfit_task`).
    Misfit,
    /// A core whose two tasks share its capacity, read by an idle CPU (`group_smt_balance`, 6.6).
    SharedCore,
    /// Affinity prevents balance within it.
    Imbalanced,
    /// More work than its capacity.
    Overloaded,
}

/// The facts for the rule of 5.5 and later.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct SpareFacts {
    /// Sum of utilisation.
    pub util: u64,
    /// Sum of runnable averages (5.7+).
    pub runnable: u64,
    /// Sum of capacities.
    pub capacity: u64,
    pub nr_running: u32,
    pub weight: u32,
    /// The flag set by passes over the level below.
    pub imbalanced: bool,
    pub imbalance_pct: u32,
    /// Whether it is a core with more than one fair task, and the reading CPU is an idle one outside of it
    /// (`smt_balance`).
    pub shared_core: bool,
    /// Whether one of its CPUs runs a task too large for it; read over domains with SD_ASYM_CPUCAPACITY, except for the
    /// local group.
    pub misfit: bool,
}

/// The type of a group in 5.5 and later (`group_classify`; read in 6.1). Not modelled: asymmetric packing, and treating
/// a task on a disturbed CPU as a misfit by load (6.0).
#[inline]
pub fn since_5_5(f: &SpareFacts) -> SpareType {
    let pct = u64::from(f.imbalance_pct);
    let (full_by_util, room_by_util) = (f.capacity * 100 < f.util * pct, f.capacity * 100 > f.util * pct);
    let full_by_runnable = f.capacity * pct < f.runnable * 100;
    let overloaded = (f.nr_running > f.weight) & (full_by_util | full_by_runnable);
    let has_room = (f.nr_running < f.weight) | (!full_by_runnable & room_by_util);
    // Selected without a branch: no predictor foresees the type of the next of 64 groups.
    let by_room = select_unpredictable(has_room, SpareType::HasSpare, SpareType::FullyBusy);
    let by_fit = if f.misfit { SpareType::Misfit } else { by_room };
    let by_core = if f.shared_core { SpareType::SharedCore } else { by_fit };
    let by_flag = if f.imbalanced { SpareType::Imbalanced } else { by_core };
    select_unpredictable(overloaded, SpareType::Overloaded, by_flag)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn types_since_5_5() {
        let base = SpareFacts {
            util: 2048,
            runnable: 2048,
            capacity: 2048,
            nr_running: 3,
            weight: 2,
            imbalanced: false,
            imbalance_pct: 117,
            shared_core: false,
            misfit: false,
        };
        assert_eq!(since_5_5(&base), SpareType::Overloaded);
        assert_eq!(since_5_5(&SpareFacts { nr_running: 2, ..base }), SpareType::FullyBusy);
        assert_eq!(since_5_5(&SpareFacts { nr_running: 1, ..base }), SpareType::HasSpare);
        assert_eq!(since_5_5(&SpareFacts { util: 100, ..base }), SpareType::HasSpare, "sleepy tasks");
        let waiting = SpareFacts { util: 100, runnable: 3000, ..base };
        assert_eq!(since_5_5(&waiting), SpareType::Overloaded, "low utilisation, but many tasks wait");
        assert_eq!(since_5_5(&SpareFacts { imbalanced: true, nr_running: 1, ..base }), SpareType::Imbalanced);
        assert_eq!(since_5_5(&SpareFacts { imbalanced: true, ..base }), SpareType::Overloaded);
        let core = SpareFacts { shared_core: true, util: 100, runnable: 100, nr_running: 2, ..base };
        assert_eq!(since_5_5(&core), SpareType::SharedCore, "whether it has room or not");
        assert_eq!(since_5_5(&SpareFacts { imbalanced: true, ..core }), SpareType::Imbalanced);
        assert_eq!(since_5_5(&SpareFacts { shared_core: true, ..base }), SpareType::Overloaded);
        let misfit = SpareFacts { misfit: true, nr_running: 1, ..base };
        assert_eq!(since_5_5(&misfit), SpareType::Misfit);
        assert_eq!(since_5_5(&SpareFacts { shared_core: true, ..misfit }), SpareType::SharedCore);
        assert_eq!(since_5_5(&SpareFacts { nr_running: 3, ..misfit }), SpareType::Overloaded);
    }
}
