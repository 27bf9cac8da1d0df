//! Slice protection: until when the running entity is not preempted (`set_protect_slice`, RUN_TO_PARITY).
//!
//! 6.6 to 6.16: until its deadline. 6.17 and later: until the end of the shortest slice in the queue, if that comes
//! earlier; without RUN_TO_PARITY until the end of an unscaled base slice, so that no stay is shorter. In 7.3, with
//! PREEMPT_SHORT, a shorter slice ends protection when the entity is no longer eligible.

use crate::fair::slope::Slope;

/// The facts on which the protected time depends.
#[derive(Clone, Copy, Debug)]
pub struct ProtectFacts {
    /// The entity's vruntime when it is picked.
    pub vruntime: i64,
    pub deadline: i64,
    pub slope: Slope,
    pub slice_ns: u64,
    /// The slice that bounds protection, ns: the queue's shortest, or the base slice; `None` before 6.17.
    pub bound_ns: Option<u64>,
    /// The virtual time of the others on the queue, if it bounds protection because one of them has a shorter slice.
    pub others: Option<i64>,
}

/// The vruntime at which protection ends.
pub fn until(f: ProtectFacts) -> i64 {
    match f.bound_ns {
        Some(bound) if bound < f.slice_ns => match f.others {
            // Once the entity is beyond the others' virtual time, it is also beyond the queue's, which includes itself.
            Some(others) => f.deadline.min(others + 1),
            None => shortened(f.deadline, f.vruntime, f.slope, bound),
        },
        _ => f.deadline,
    }
}

/// The end of protection once an entity with a slice of `bound_ns` waits; `until` is the end without it.
pub fn shortened(until: i64, vruntime: i64, slope: Slope, bound_ns: u64) -> i64 {
    until.min(vruntime + slope.virtual_ns(bound_ns) as i64)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fair::group::shares::FINE;

    const F: ProtectFacts = ProtectFacts {
        vruntime: 1_000,
        deadline: 4_000,
        slope: Slope::exact(1024 * FINE),
        slice_ns: 3_000,
        bound_ns: None,
        others: None,
    };

    #[test]
    fn to_the_deadline_or_the_shortest_slice() {
        assert_eq!(until(F), 4_000);
        assert_eq!(until(ProtectFacts { bound_ns: Some(3_000), ..F }), 4_000, "all ask for the same");
        assert_eq!(until(ProtectFacts { bound_ns: Some(500), ..F }), 1_500);
        assert_eq!(until(ProtectFacts { bound_ns: Some(500), slope: Slope::exact(512 * FINE), ..F }), 2_000);
        assert_eq!(until(ProtectFacts { bound_ns: Some(2_900), deadline: 3_500, ..F }), 3_500, "never later");
        let eligible = ProtectFacts { bound_ns: Some(500), others: Some(2_200), ..F };
        assert_eq!(until(eligible), 2_201, "7.3: while it is eligible");
        assert_eq!(
            until(ProtectFacts { bound_ns: Some(3_000), ..eligible }),
            4_000,
            "if there are shorter slices"
        );
    }
}
