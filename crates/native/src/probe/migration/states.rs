//! Two states of a cost that changes with time.
//!
//! The hypervisor may run two virtual CPUs on one core for some seconds, then on two. A move in the first state costs a
//! tenth as much. A median over both states would be one of the two by chance. Times are ns.

use schedlab_machine::migration::States;

/// Fewer passes are not split, because noise alone would often look like two states.
const PASSES: usize = 15;
/// The least number of passes in a state.
const LEAST: usize = 3;
/// The dearer state must cost at least this many halves of the cheaper one.
const HALVES: i64 = 3;

/// Splits the passes' costs where the sum of distances to the two medians is least. `None` if they are one state: two
/// states need a gap wider than half the distance of the medians, which noise rarely has.
pub(super) fn split(costs: &[i64]) -> Option<States> {
    let mut sorted = costs.to_vec();
    sorted.sort_unstable();
    let n = sorted.len();
    if n < PASSES {
        return None;
    }
    let least = LEAST.max(n / 10);
    let cut = (least..=n - least).min_by_key(|at| spread(&sorted[..*at]) + spread(&sorted[*at..]))?;
    let (low, high) = sorted.split_at(cut);
    let (cheaper, dearer) = (median(low), median(high));
    let apart = 2 * (high[0] - low[low.len() - 1]) > dearer - cheaper;
    (apart && 2 * dearer > HALVES * cheaper.max(0)).then(|| States {
        cheaper_ns: cheaper,
        dearer_pct: (100 * high.len() / n) as u64,
        from_ns: high[0],
    })
}

/// The median of sorted values; 0 if empty.
fn median(sorted: &[i64]) -> i64 {
    sorted.get(sorted.len() / 2).copied().unwrap_or(0)
}

/// The sum of distances from the median.
fn spread(sorted: &[i64]) -> i64 {
    sorted.iter().map(|v| (v - median(sorted)).abs()).sum()
}

#[cfg(test)]
mod tests {
    use super::*;
    use schedlab_base::Stream;

    #[test]
    fn two_states_are_separated_and_one_is_not_split() {
        let costs = [12, 101, 13, 12, 99, 11, 12, 104, 13, 12, 12, 13, 100, 11, 12];
        let found = split(&costs).unwrap();
        assert_eq!(found, States { cheaper_ns: 12, dearer_pct: 26, from_ns: 99 });
        let one: Vec<i64> = (0..20).map(|i| 90 + i * 7 % 20).collect();
        assert_eq!(split(&one), None, "spread evenly");
        assert_eq!(split(&costs[..14]), None, "too few passes");
    }

    #[test]
    fn a_few_odd_passes_are_not_a_state() {
        let mut costs = vec![12; 20];
        costs[7] = 900;
        costs[9] = 900;
        assert_eq!(split(&costs), None);
        assert_eq!(split(&[]), None);
    }

    #[test]
    fn noise_rarely_looks_like_two_states() {
        let stream = Stream::new(1);
        // A sum of draws is nearly normal.
        let noise =
            |i: u64| (0..12).map(|part| stream.below(i * 12 + part, 1_000) as i64).sum::<i64>() - 5_994;
        let seems = |run: &u64| split(&(0..25).map(|i| noise(run * 25 + i)).collect::<Vec<i64>>()).is_some();
        let n = (0..400).filter(seems).count();
        assert!(n <= 8, "{n} of 400 runs of noise");
    }
}
