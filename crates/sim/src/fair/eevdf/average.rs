//! Virtual time V and the eligibility test (`avg_vruntime`, `entity_eligible`).
//!
//! V = zero + sum(w * (v - zero)) / sum(w), rounded toward minus infinity. `zero` is any point near V; it keeps the
//! sums small and does not change the result. An integer v is at most V if and only if the sum of weights times (v -
//! zero) is at most the sum of keys, so the test needs no division.
//!
//! Weights are whole, 1024 at nice 0; on a flat timeline (7.3) they are 1024 times as fine. Not modelled: 7.3.4 halves
//! them where a sum does not fit into 64 bits.

/// The sums from which V is computed.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Average {
    /// The reference point, virtual ns.
    pub zero: i64,
    /// Sum of `(v - zero) * weight`.
    pub keys: i128,
    pub weights: u64,
}

impl Average {
    /// The sums with one more entity.
    #[inline]
    pub fn with(mut self, vruntime: i64, weight: u64) -> Average {
        self.keys += i128::from(vruntime - self.zero) * i128::from(weight);
        self.weights += weight;
        self
    }
    /// V, virtual ns; the reference point for an empty queue.
    #[inline]
    pub fn time(self) -> i64 {
        match self.weights {
            0 => self.zero,
            w => {
                // The short division is much faster.
                let short = |keys: i64| keys.div_euclid(w as i64);
                let long = || self.keys.div_euclid(i128::from(w)) as i64;
                self.zero + i64::try_from(self.keys).map_or_else(|_| long(), short)
            }
        }
    }
    /// Whether an entity at `vruntime` has had no more than its share.
    #[inline]
    pub fn eligible(self, vruntime: i64) -> bool {
        self.keys >= i128::from(vruntime - self.zero) * i128::from(self.weights)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn v_is_the_weighted_mean_rounded_down() {
        let of = |points: &[(i64, u64)]| points.iter().fold(Average::default(), |a, (v, w)| a.with(*v, *w));
        assert_eq!(of(&[(0, 1024), (10, 1024)]).time(), 5);
        assert_eq!(of(&[(0, 3072), (10, 1024)]).time(), 2, "2.5 rounded down");
        assert_eq!(of(&[(0, 3072), (-10, 1024)]).time(), -3, "-2.5 rounded down too");
        assert_eq!(Average { zero: 77, ..Average::default() }.time(), 77);
    }

    #[test]
    fn an_entity_alone_is_eligible() {
        let alone = Average { zero: -5, ..Average::default() }.with(1_000_003, 15);
        assert!(alone.eligible(1_000_003) && !alone.eligible(1_000_004));
    }

    proptest! {
        #[test]
        fn the_test_without_division_gives_the_same(
            points in prop::collection::vec((-1_000_000i64..1_000_000, 3u64..90_000), 1..12),
            zero in -1_000_000i64..1_000_000,
        ) {
            let a = points.iter().fold(Average { zero, ..Average::default() }, |a, (v, w)| a.with(*v, *w));
            for (v, _) in &points {
                prop_assert_eq!(a.eligible(*v), *v <= a.time());
            }
            prop_assert!(points.iter().any(|(v, _)| a.eligible(*v)), "some entity is eligible");
        }
    }
}
