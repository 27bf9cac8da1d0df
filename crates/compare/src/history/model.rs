//! The JSON of `schedlab/gate/1` (docs/formats.md). Reports are made from this alone.

use crate::stats::Verdict;
use schedlab_record::Better;
use serde::Serialize;

/// What the course of every series shows.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Judged {
    /// The smallest change that is reported, percent.
    pub min_effect_pct: f64,
    /// The chance of even one false alarm in a year, over all series.
    pub alpha: f64,
    /// Changes that were beyond chance before this date are left out.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub since: Option<String>,
    /// The changes, the newest first.
    pub changes: Vec<Change>,
    pub drifts: Vec<Drift>,
    pub series: Vec<Series>,
}

/// A change of a metric, on one machine or several.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Change {
    pub workload: String,
    pub load: String,
    pub metric: String,
    pub verdict: Verdict,
    pub cause: Cause,
    /// The last unit before it and the first after it, on the first machine that shows it.
    pub before: At,
    pub first: At,
    /// The first and the last unit that may be the first after it, over the machines that show it.
    pub range: [At; 2],
    /// The commits before the range and at its end: a bisection's ends.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub bisect: Option<[String; 2]>,
    /// When it was beyond chance.
    pub seen: At,
    pub change_pct: f64,
    pub ci95_pct: [f64; 2],
    /// Standard deviation of the change between machines, percent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub between_machines_pct: Option<f64>,
    /// Machines that show it by themselves, with the verdict.
    pub on: usize,
    pub machines: Vec<MachineChange>,
}

/// What a change comes with.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Cause {
    /// Another commit.
    Commit,
    /// Another day of the same commit: the machine changed.
    Machine,
    /// Another day; the history has no commits.
    Day,
}

/// A change on one machine.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct MachineChange {
    pub machine: String,
    /// Whether this machine shows it by itself.
    pub shown: bool,
    pub change_pct: f64,
    pub ci95_pct: [f64; 2],
    /// Units before and after, between the changes before and after it.
    pub units: [usize; 2],
}

/// A level that moved without a unit that can be named: the units between which it moved farthest.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Drift {
    pub machine: String,
    pub workload: String,
    pub load: String,
    pub metric: String,
    pub from: At,
    pub to: At,
    pub change_pct: f64,
}

/// Date and commit; either may be empty.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct At {
    #[serde(skip_serializing_if = "String::is_empty")]
    pub date: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub commit: String,
}

/// The values of one metric of one load on one machine.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Series {
    pub machine: String,
    pub workload: String,
    pub load: String,
    pub metric: String,
    pub unit: String,
    pub better: Better,
    /// Whether it is the workload's own result.
    pub own: bool,
    /// Its part of the chance of a false alarm in a year.
    pub alpha: f64,
    /// The last change that counts; `same` without one, `unclear` with too few units.
    pub verdict: Verdict,
    pub units: Vec<Unit>,
    /// The first unit of each level, and the level.
    pub levels: Vec<Mean>,
}

/// A day, or a commit of a day.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Unit {
    #[serde(flatten)]
    pub at: At,
    pub runs: usize,
    /// The mean of its runs without the highest and the lowest, from five runs on.
    pub mean: f64,
}

/// A level of a series.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Mean {
    pub from: usize,
    pub mean: f64,
}
