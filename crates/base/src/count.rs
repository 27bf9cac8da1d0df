//! Numbers of things in words: "1 run", "2 runs", "1 entry", "2 entries".

use std::fmt::Display;

/// A number and its noun: "2 runs".
pub fn counted(n: impl Count, what: &str) -> String {
    format!("{n} {}", things(n, what))
}

/// The items without repetitions, in order of first appearance.
pub fn each_once<T: PartialEq + Clone>(all: &[T]) -> Vec<T> {
    let mut found: Vec<T> = Vec::new();
    for one in all {
        if !found.contains(one) {
            found.push(one.clone());
        }
    }
    found
}

/// The noun in the form that fits `n`.
pub fn things(n: impl Count, what: &str) -> String {
    if n.is_one() {
        return what.to_owned();
    }
    let sibilant = ["s", "x", "ch", "sh"].iter().any(|end| what.ends_with(end));
    match what.strip_suffix('y') {
        Some(stem) if !stem.ends_with(['a', 'e', 'i', 'o', 'u']) => format!("{stem}ies"),
        _ if sibilant => format!("{what}es"),
        _ => format!("{what}s"),
    }
}

/// Whether it is what a field is by default: such fields are not written.
pub fn is_zero<N: Default + PartialEq>(n: &N) -> bool {
    *n == N::default()
}

/// `one` if `n` is 1, else `many`: "was" or "were".
pub fn one_or<'a>(n: impl Count, one: &'a str, many: &'a str) -> &'a str {
    if n.is_one() { one } else { many }
}

pub trait Count: Copy + Display {
    fn is_one(self) -> bool;
}

macro_rules! count {
    ($($number:ty)*) => {
        $(impl Count for $number {
            fn is_one(self) -> bool {
                self == 1
            }
        })*
    };
}

count!(u16 u32 u64 usize i32 i64);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_is_singular_and_all_others_are_plural() {
        assert_eq!([0, 1, 2].map(|n| counted(n, "run")), ["0 runs", "1 run", "2 runs"]);
        assert_eq!(counted(2_u64, "CPU"), "2 CPUs");
        assert_eq!([1_usize, 2].map(|n| counted(n, "entry")), ["1 entry", "2 entries"]);
        assert_eq!(counted(3, "day"), "3 days");
        assert_eq!([1, 2].map(|n| counted(n, "balance pass")), ["1 balance pass", "2 balance passes"]);
        assert_eq!((one_or(1, "was", "were"), one_or(0, "was", "were")), ("was", "were"));
    }
}
