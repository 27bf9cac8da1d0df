//! Slice protection: the time until which the running entity is not preempted (`set_protect_slice`, RUN_TO_PARITY).
//!
//! 6.6 to 6.16: until its deadline. 6.17 and later: until the end of the shortest slice in the queue, if that comes
//! earlier; without RUN_TO_PARITY until the end of an unscaled base slice, so that no stay is shorter. In 7.3, with
//! PREEMPT_SHORT, a shorter slice ends protection where the entity is no longer eligible.

use crate::fair::slope::Slope;

/// The facts that the protected time depends on.
#[derive(Clone, Copy, Debug)]
pub struct ProtectFacts {
    /// The entity's virtual runtime as it is picked.
    pub vruntime: i64,
    pub deadline: i64,
    pub slope: Slope,
    /// Its slice, ns.
    pub slice_ns: u64,
    /// The slice, ns, that bounds protection: the queue's shortest, or the base slice; `None` before 6.17.
    pub bound_ns: Option<u64>,
    /// The virtual time of the others on the queue, if a shorter slice bounds protection by it.
    pub others: Option<i64>,
}

/// The virtual runtime at which protection ends.
pub fn until(f: ProtectFacts) -> i64 {
    match f.bound_ns {
        Some(bound) if bound < f.slice_ns => match f.others {
            // Beyond the others' time, the queue's time with the entity itself is behind the entity's own.
            Some(others) => f.deadline.min(others + 1),
            None => shortened(f.deadline, f.vruntime, f.slope, bound),
        },
        _ => f.deadline,
    }
}

/// The end of protection, once a slice of `bound_ns` waits; `until` is its end without.
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
