//! Sweeps over several values.

use schedlab_base::{Error, Result};

/// The most values a sweep may have: more is taken for a mistake.
const MAX_SWEEP: u64 = 10_000;

/// The values from `first` to `last`, both included, `step` apart.
pub fn range(first: i64, last: i64, step: i64) -> Result<Vec<i64>> {
    if step < 1 || last < first {
        return Err(
            Error::input("a range goes upwards in steps of 1 or more").help("range = [1, 8], step = 1")
        );
    }
    if last.abs_diff(first) / step.unsigned_abs() >= MAX_SWEEP {
        return Err(Error::input(format!("a sweep of more than {MAX_SWEEP} values")));
    }
    Ok((first..=last).step_by(step as usize).collect())
}

/// All combinations of one value from each list; the last list changes fastest.
///
/// # Errors
/// When there are more than [`MAX_SWEEP`].
pub fn combinations<T: Clone>(lists: &[Vec<T>]) -> Result<Vec<Vec<T>>> {
    let many = lists.iter().try_fold(1u64, |n, list| n.checked_mul(list.len() as u64));
    if many.is_none_or(|n| n > MAX_SWEEP) {
        return Err(Error::input(format!("sweeps of more than {MAX_SWEEP} combinations")));
    }
    Ok(lists.iter().fold(vec![Vec::new()], |all, list| {
        let longer = |done: &Vec<T>, next: &T| done.iter().cloned().chain([next.clone()]).collect();
        all.iter().flat_map(|done| list.iter().map(move |next| longer(done, next))).collect()
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_hold_both_ends_and_are_bounded() {
        assert_eq!(range(1, 8, 3).unwrap(), [1, 4, 7]);
        assert_eq!(range(5, 5, 1).unwrap(), [5]);
        assert_eq!(range(-2, 2, 2).unwrap(), [-2, 0, 2]);
        assert!(range(1, 8, 0).is_err() && range(2, 1, 1).is_err() && range(0, i64::MAX, 1).is_err());
    }

    #[test]
    fn combinations_turn_the_last_list_fastest() {
        assert_eq!(combinations(&[vec![1, 2], vec![3, 4]]).unwrap(), [[1, 3], [1, 4], [2, 3], [2, 4]]);
        assert_eq!(combinations::<u8>(&[]).unwrap(), [Vec::<u8>::new()]);
        assert!(combinations(&[vec![0; 101], vec![0; 100]]).is_err());
    }
}
