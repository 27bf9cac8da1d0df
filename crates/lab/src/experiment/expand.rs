//! Values that stand for others: `{cpus*2}` in a load's strings, and sweeps over several values.

use schedlab_base::{Error, Result};

/// The most values a sweep may have: more is taken for a mistake.
const MAX_SWEEP: u64 = 10_000;

/// Replaces every `{expression}` by its number. An expression is `cpus`, or `cpus` and one of `* / + -` and a whole
/// number; the result is never below 1, so that half of one CPU is still a load.
pub fn expand(text: &str, cpus: u64) -> Result<String> {
    let mut out = String::new();
    let mut rest = text;
    while let Some(open) = rest.find('{') {
        let close = rest[open..]
            .find('}')
            .ok_or_else(|| Error::input(format!("'{text}' has a '{{' that is not closed")).help(HELP))?;
        out.push_str(&rest[..open]);
        let value = evaluate(&rest[open + 1..open + close], cpus)
            .ok_or_else(|| Error::input(format!("'{text}' can't be worked out")).help(HELP))?;
        out.push_str(&value.to_string());
        rest = &rest[open + close + 1..];
    }
    out.push_str(rest);
    Ok(out)
}

const HELP: &str = "write {cpus}, {cpus*2}, {cpus/2}, {cpus+1} or {cpus-1}";

fn evaluate(expression: &str, cpus: u64) -> Option<u64> {
    let rest = expression.trim().strip_prefix("cpus")?.trim();
    let Some(operator) = rest.chars().next() else { return Some(cpus.max(1)) };
    let n: u64 = rest[operator.len_utf8()..].trim().parse().ok()?;
    let value = match operator {
        '*' => cpus.checked_mul(n)?,
        '/' => cpus.checked_div(n)?,
        '+' => cpus.checked_add(n)?,
        '-' => cpus.saturating_sub(n),
        _ => return None,
    };
    Some(value.max(1))
}

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
    fn expressions_scale_with_the_cpus() {
        for (text, want) in
            [("1x{cpus}", "1x8"), ("{cpus*2}+{ cpus / 2 }", "16+4"), ("{cpus-20}", "1"), ("7", "7")]
        {
            assert_eq!(expand(text, 8).unwrap(), want);
        }
        for wrong in ["{cpu}", "{cpus", "{cpus^2}", "{cpus/0}", "{cpus*}", "{}"] {
            assert!(expand(wrong, 8).unwrap_err().to_string().contains("{cpus*2}"), "{wrong}");
        }
    }

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
