//! The order in which people expect names: runs of digits count as numbers.

use std::cmp::Ordering;

/// Text order, with runs of digits as numbers: "6.1.0-9" comes before "6.1.0-56".
pub fn natural(a: &str, b: &str) -> Ordering {
    let (mut a, mut b) = (a, b);
    while !a.is_empty() && !b.is_empty() {
        let digits = |s: &str| s.find(|c: char| !c.is_ascii_digit()).unwrap_or(s.len());
        let (i, j) = (digits(a), digits(b));
        let order = if i > 0 && j > 0 {
            let (x, y) = (a[..i].trim_start_matches('0'), b[..j].trim_start_matches('0'));
            let order = x.len().cmp(&y.len()).then_with(|| x.cmp(y));
            (a, b) = (&a[i..], &b[j..]);
            order
        } else {
            let (x, y) = (a.chars().next(), b.chars().next());
            let width = |c: Option<char>| c.map_or(0, char::len_utf8);
            (a, b) = (&a[width(x)..], &b[width(y)..]);
            x.cmp(&y)
        };
        if order != Ordering::Equal {
            return order;
        }
    }
    a.len().cmp(&b.len())
}

/// A name in natural order. Names that differ only in leading zeros are compared as text, so that only identical names
/// are equal.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Natural<'a>(pub &'a str);

impl Ord for Natural<'_> {
    fn cmp(&self, other: &Self) -> Ordering {
        natural(self.0, other.0).then_with(|| self.0.cmp(other.0))
    }
}

impl PartialOrd for Natural<'_> {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_within_names_are_numbers() {
        assert_eq!(natural("6.1.0-9-x", "6.1.0-56-x"), Ordering::Less);
        assert_eq!(natural("6.1.0-09", "6.1.0-9"), Ordering::Equal);
        assert_eq!(natural("a", "a1"), Ordering::Less);
    }

    #[test]
    fn loads_and_kernels_sort_by_their_numbers() {
        let mut names = ["groups=16", "v6.12", "groups=4", "v6.5", "2x24", "10x1"].map(Natural);
        names.sort();
        assert_eq!(names.map(|n| n.0), ["2x24", "10x1", "groups=4", "groups=16", "v6.5", "v6.12"]);
    }
}
