//! Distributions and statistics: the values of a run, and from runs to verdicts.
//!
//! | question | module |
//! | --- | --- |
//! | How are millions of values of one quantity kept? | [`series`]; [`tally`] while they come; packed in records |
//! | What is a value that may be missing, and which direction is better? | [`value`] |
//! | Do two groups of runs differ, and by how much? | [`effect`], with [`rank`], [`intervals`], [`holm`] |
//! | May more runs be made after a look at the result? | [`looks`] |
//! | Which of many settings is best? | [`race`] |
//! | On which day did a metric change for good? Do machines agree? | [`course`], [`pooled`] |
//!
//! Values of a series are integers in its unit, and are stored as integers. The functions of comparisons take short
//! lists of numbers and know nothing about schedulers; docs/statistics.md describes the method.
//!
//! Every event adds values here and every comparison draws thousands of samples, so this crate is optimised fully.

pub mod course;
pub mod describe;
pub mod effect;
pub mod holm;
pub mod intervals;
pub mod looks;
mod packed_histogram;
pub mod pooled;
pub mod race;
pub mod rank;
pub mod series;
pub mod share;
pub mod spearman;
pub mod special;
pub mod tally;
pub mod value;

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
pub use series::Series;
pub use tally::Tally;
pub use value::{Better, Value};
