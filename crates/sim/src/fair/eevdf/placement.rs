//! The start of an entity on a queue, and its first deadline (`place_entity`).
//!
//! Adding an entity with lag shifts V, so its lag after placement would be smaller than the one it came with. Therefore
//! the lag is multiplied beforehand by (W + w) / W, where W is the weight already there; then it comes out unchanged.

use super::average::Average;

#[derive(Clone, Copy, Debug)]
pub struct PlacementFacts {
    /// The queue's sums, including its current entity.
    pub average: Average,
    pub weight: u64,
    /// Its lag when it left its queue, virtual ns; 0 without PLACE_LAG.
    pub lag: i64,
    /// Its slice, virtual ns.
    pub slice: i64,
    /// The distance to its deadline when it left (PLACE_REL_DEADLINE), virtual ns.
    pub to_deadline: Option<i64>,
    /// Whether it is new and PLACE_DEADLINE_INITIAL is on: then its first slice is half a slice.
    pub initial: bool,
}

/// Virtual runtime and deadline.
pub fn place(f: PlacementFacts) -> (i64, i64) {
    let time = f.average.time();
    let lag = match f.average.weights {
        0 => 0,
        there => {
            let stretched = i128::from(f.lag) * i128::from(there + f.weight) / i128::from(there);
            stretched as i64
        }
    };
    let vruntime = time - lag;
    let away = f.to_deadline.unwrap_or(if f.initial { f.slice / 2 } else { f.slice });
    (vruntime, vruntime + away)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const F: PlacementFacts = PlacementFacts {
        average: Average { zero: 100_000, keys: 0, weights: 2048 },
        weight: 1024,
        lag: 0,
        slice: 3_000,
        to_deadline: None,
        initial: false,
    };

    #[test]
    fn without_lag_it_starts_at_virtual_time() {
        assert_eq!(place(F), (100_000, 103_000));
        assert_eq!(
            place(PlacementFacts { initial: true, ..F }),
            (100_000, 101_500),
            "a new one: half a slice"
        );
        assert_eq!(
            place(PlacementFacts { slice: 6_000, ..F }),
            (100_000, 106_000),
            "a longer slice: a later deadline"
        );
        assert_eq!(place(PlacementFacts { to_deadline: Some(700), initial: true, ..F }), (100_000, 100_700));
    }

    #[test]
    fn an_empty_queue_forgets_lag() {
        let empty = Average { zero: 5, ..Average::default() };
        assert_eq!(place(PlacementFacts { average: empty, lag: 9_000, ..F }).0, 5);
    }

    proptest! {
        #[test]
        fn the_lag_after_placement_equals_the_lag_before(
            lag in -5_000_000i64..5_000_000,
            weight in 15u64..80_000,
            there in 15u64..500_000,
        ) {
            let average = Average { zero: 42, keys: 0, weights: there };
            let (v, _) = place(PlacementFacts { average, weight, lag, ..F });
            let found = average.with(v, weight).time() - v;
            prop_assert!((found - lag).abs() <= 2, "{} for {}", found, lag);
        }
    }
}
