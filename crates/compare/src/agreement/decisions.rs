//! Whether single decisions of our rules are those of a kernel's own code: counts, and what differs, by cause.

use serde::{Deserialize, Serialize};

/// Schema of the JSON form.
pub const DECISIONS_SCHEMA: &str = "schedlab/decisions/2";
/// The least part of a row's decisions that has to agree, in parts of a thousand.
pub const LEAST_PERMILLE: u64 = 999;

/// Drawn states that one function was asked about.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct DecisionRow {
    pub function: String,
    /// The release of the tree.
    pub kernel: String,
    pub draws: u64,
    /// Answers that are the same.
    pub same: u64,
    /// What differs, the most frequent first.
    pub causes: Vec<Cause>,
}

/// Differences whose smallest states have the same parts.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Cause {
    /// What a state must have.
    pub needs: String,
    pub count: u64,
    /// The smallest state of the first one, a line each.
    pub state: Vec<String>,
    pub by_code: String,
    pub by_rules: String,
    /// The reason that our rules give; empty where they give none.
    pub why: String,
}

/// All rows.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Decisions {
    pub rows: Vec<DecisionRow>,
    pub passed: bool,
}

impl DecisionRow {
    pub fn passes(&self) -> bool {
        self.same * 1000 >= self.draws * LEAST_PERMILLE
    }
    /// The part that agrees, in parts of a hundred thousand, rounded down: no difference is rounded away.
    pub fn agreed_per_100_000(&self) -> u64 {
        (self.same * 100_000).checked_div(self.draws).unwrap_or(0)
    }
}

impl Decisions {
    pub fn of(rows: Vec<DecisionRow>) -> Decisions {
        Decisions { passed: rows.iter().all(DecisionRow::passes), rows }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(same: u64) -> DecisionRow {
        let (function, kernel) = ("pick".to_owned(), "v6.1".to_owned());
        DecisionRow { function, kernel, draws: 100_000, same, causes: Vec::new() }
    }

    #[test]
    fn a_row_passes_from_999_in_a_thousand_on() {
        assert!(row(99_900).passes() && !row(99_899).passes());
        assert_eq!(row(99_999).agreed_per_100_000(), 99_999);
        assert!(Decisions::of(vec![row(100_000)]).passed);
        assert!(!Decisions::of(vec![row(100_000), row(0)]).passed);
    }
}
