//! Statistics of comparisons: from runs to verdicts. Pure functions on short lists of numbers, which know nothing about
//! schedulers. docs/statistics.md describes the method.

pub mod describe;
pub mod effect;
pub mod holm;
pub mod intervals;
pub mod looks;
pub mod rank;
pub mod share;
pub mod spearman;
pub mod special;

#[cfg(test)]
mod false_alarms;
#[cfg(test)]
mod properties;

pub use describe::Summary;
pub use effect::{
    ALPHA, Change, Corrected, Direction, Limits, PairChange, RunValue, Verdict, change, change_at,
    pair_changes, verdict,
};
pub use holm::{holm, weighted};
pub use looks::{Decided, Looks, Table, decide, decide_one};
