//! Two states of a cost that changes with time.
//!
//! The hypervisor may run two virtual CPUs on one core for some seconds, then on two. A move costs a tenth as much in
//! the first state. A median over both would be one or the other by chance. Times are ns.

use serde::Serialize;

/// The least part of the passes that makes a state, one in so many.
const PART: usize = 10;
/// The least number of passes that makes a state.
const LEAST: usize = 3;
/// The medians of two states are farther apart than so many times their spread.
const APART: i64 = 4;
/// The dearer state costs so many halves of the cheaper one at least.
const HALVES: i64 = 3;

/// Two states.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct States {
    /// The cheaper state's cost of a move, ns.
    pub cheaper_ns: i64,
    /// The part of the passes in the dearer state, per cent.
    pub dearer_pct: u64,
    /// The least cost of a pass in the dearer state, ns.
    #[serde(skip)]
    pub from_ns: i64,
}

/// Splits the costs of passes where the sum of distances from the two medians is least; `None` if they are one state.
pub(super) fn split(costs: &[i64]) -> Option<States> {
    let mut sorted = costs.to_vec();
    sorted.sort_unstable();
    let n = sorted.len();
    let least = LEAST.max(n / PART);
    let cut =
        (least..=n.checked_sub(least)?).min_by_key(|at| spread(&sorted[..*at]) + spread(&sorted[*at..]))?;
    let (low, high) = sorted.split_at(cut);
    let (cheaper, dearer) = (median(low), median(high));
    let typical = |part: &[i64]| {
        let mut all: Vec<i64> = part.iter().map(|v| (v - median(part)).abs()).collect();
        all.sort_unstable();
        median(&all)
    };
    let apart = dearer - cheaper > APART * typical(low).max(typical(high));
    (apart && 2 * dearer > HALVES * cheaper.max(0)).then(|| States {
        cheaper_ns: cheaper,
        dearer_pct: (100 * high.len() / n) as u64,
        from_ns: high[0],
    })
}

/// The middle of sorted values; 0 where there is none.
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

    #[test]
    fn two_states_are_told_apart_and_one_is_not_split() {
        let costs = [12, 101, 13, 12, 99, 11, 12, 104, 13, 12];
        let found = split(&costs).unwrap();
        assert_eq!(found, States { cheaper_ns: 12, dearer_pct: 30, from_ns: 99 });
        assert_eq!(split(&[100, 104, 97, 99, 101, 103, 98, 100]), None);
        assert_eq!(split(&[10, 40, 20, 90, 60, 30, 70, 80, 50]), None, "spread evenly");
    }

    #[test]
    fn a_few_odd_passes_are_no_state() {
        assert_eq!(split(&[12, 12, 13, 12, 11, 12, 13, 900, 12, 12]), None);
        assert_eq!(split(&[1, 2]), None);
        assert_eq!(split(&[]), None);
    }

    #[test]
    fn noise_around_nothing_is_no_state() {
        assert_eq!(split(&[-40, 30, -10, 25, -35, 5, 12, -20, 38, -3]), None);
    }
}
