//! The JSON of `schedlab/comparison/1` (docs/formats.md). Reports are made from this alone.

use super::{CellComputer, Disagreement, Stalled};
use crate::stats::{Looks, Verdict};
use crate::uncertainty::Sway;
use schedlab_base::{Backend, GuestMode, Origin, Warning, each_once};
use schedlab_kernel::Level;
use schedlab_record::Published;
use schedlab_record::{Better, Observe};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

pub const COMPARISON_SCHEMA: &str = "schedlab/comparison/1";

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Comparison {
    /// [`COMPARISON_SCHEMA`].
    pub schema: String,
    /// The experiment's name; "" for stored runs compared with each other.
    pub experiment: String,
    /// The version of the simulator's model.
    pub model: u32,
    /// In the order of the tables.
    pub metrics: Vec<String>,
    /// The reason for the choice of baselines.
    #[serde(default)]
    pub baseline_is: BaselineIs,
    /// The smallest change that counts, percent.
    pub min_effect_pct: f64,
    /// The cells, sorted by load, then variant.
    pub cells: Vec<Cell>,
    pub comparisons: Vec<ComparisonRow>,
    /// Loads that only one side ran to the end. They are shown before all rows.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub stalled: Vec<Stalled>,
    /// Figures in which the kernel's own code and our rules disagree.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub disagreements: Vec<Disagreement>,
    /// Published figures, to be shown next to ours.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub published: Vec<Published>,
    /// How far each load's baseline is from the figures published for it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub fits: Vec<BaselineFit>,
    /// How drawn costs affect every change and the baselines' values; empty if no costs were drawn.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub uncertainty: Vec<DrawnEffect>,
    /// The looks at which rows were judged while runs came in; empty if all runs were judged once.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub looks: Vec<Look>,
    /// The fewest runs of a cell with which some row could show a change; `None` if a row already can.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub runs_needed: Option<u64>,
    /// Sentences that answer what was asked ('schedlab limits').
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub answers: Vec<String>,
    pub warnings: Vec<CountedWarning>,
}

/// Why a variant is the baseline.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum BaselineIs {
    /// It was asked for by name.
    Asked,
    /// The experiment that made the runs says so.
    OfExperiment,
    /// It was given first.
    #[default]
    First,
    /// It is the first of one store's runs in the order: unchanged kernels, then by kernel and name.
    FirstByName,
    /// It is the experiment's in loads whose runs have one, else the first.
    Mixed,
}

impl BaselineIs {
    /// Words to print after the baseline's name; empty if the reader named it.
    pub const fn words(self) -> &'static str {
        match self {
            BaselineIs::Asked => "",
            BaselineIs::OfExperiment => ", the experiment's baseline",
            BaselineIs::First => ", the first one",
            BaselineIs::FirstByName => ", the first by kernel and name",
            BaselineIs::Mixed => ", the experiment's baseline, or the first where it has none",
        }
    }
}

/// A look at the rows while runs come in.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Look {
    /// Runs of each cell until then.
    pub runs: u64,
    /// Its share of the 5 % chance of a false alarm.
    pub alpha: f64,
}

impl Look {
    pub fn all(looks: &Looks) -> Vec<Look> {
        let one = |(k, runs): (usize, &u64)| Look { runs: *runs, alpha: looks.alpha(k) };
        looks.runs().iter().enumerate().map(one).collect()
    }
}

/// A warning with the number of runs that gave it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct CountedWarning {
    #[serde(flatten)]
    pub warning: Warning,
    /// Number of runs that gave it; 0 if it is about the whole comparison.
    pub runs: u64,
}

impl CountedWarning {
    /// A warning about the whole comparison.
    pub fn of_all(warning: Warning) -> CountedWarning {
        CountedWarning { warning, runs: 0 }
    }
}

/// The runs of one workload, load and variant.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Cell {
    /// The backend that made its runs.
    pub backend: Origin,
    /// How a guest's time passes; `None` for other backends.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mode: Option<GuestMode>,
    /// How the kernel's own code was charged; `None` for other backends.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub level: Option<Level>,
    /// How much of the warm-up that code took no time in.
    #[serde(default, skip_serializing_if = "schedlab_base::is_zero")]
    pub free_ns: u64,
    pub machine: String,
    pub kernel: String,
    pub workload: String,
    pub load: String,
    /// Parameters of the workload; times in ns.
    pub params: serde_json::Value,
    pub variant: String,
    pub runs: usize,
    /// The runs' seeds, ascending. `values` of metrics are in this order, without runs that lack the metric.
    pub seeds: Vec<u64>,
    /// The folders of its runs; empty if they are not stored.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub folders: Vec<String>,
    /// How closely its runs were watched; `None` for simulated runs and other tools' output.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub watched: Option<Observe>,
    /// The computer of live runs, if known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub computer: Option<CellComputer>,
    pub metrics: BTreeMap<String, CellStat>,
}

/// Where a group's runs were made: the machine's name, or "2 CPUs of X against 128 CPUs of Y" for live runs of several
/// computers. `base` is the baseline's index.
pub fn place(group: &[Cell], base: usize) -> String {
    let mut computers: Vec<String> = Vec::new();
    let first = group.get(base).into_iter();
    for words in first.chain(group).filter_map(|c| Some(c.computer.as_ref()?.words())) {
        if !computers.contains(&words) {
            computers.push(words);
        }
    }
    match computers.len() {
        0 | 1 => group.first().map_or_else(String::new, |c| c.machine.clone()),
        _ => computers.join(" against "),
    }
}

/// How a group's runs were made, in words: the first cell's backend and mode, and all levels at which the kernel's own
/// code was charged.
pub fn how<'a>(group: impl IntoIterator<Item = &'a Cell>) -> String {
    let mut cells = group.into_iter();
    let Some(first) = cells.next() else { return String::new() };
    let mut levels: Vec<Level> = first.level.into_iter().collect();
    let mut free_ns = first.free_ns;
    for cell in cells {
        levels.extend(cell.level);
        free_ns = free_ns.max(cell.free_ns);
    }
    first.made(&each_once(&levels), free_ns)
}

impl Cell {
    /// Backend, mode and level of its runs, in words.
    pub fn how(&self) -> String {
        self.made(self.level.as_slice(), self.free_ns)
    }
    fn made(&self, levels: &[Level], free_ns: u64) -> String {
        match (&self.backend, &self.mode) {
            (Origin::Made(Backend::Sim), _) => "simulated".to_owned(),
            (Origin::Made(Backend::Code), _) => {
                format!("run by the kernel's own code ({})", Level::words(levels, free_ns))
            }
            (Origin::Made(Backend::Host), _) => "measured".to_owned(),
            (Origin::Made(Backend::Vm), Some(mode)) => format!("in {mode} guests"),
            (other, _) => format!("measured ({other})"),
        }
    }
    /// Whether two cells differ at most in variant and kernel.
    pub fn same_group(&self, o: &Cell) -> bool {
        (&self.backend, &self.mode, &self.machine, &self.workload, &self.load, &self.params)
            == (&o.backend, &o.mode, &o.machine, &o.workload, &o.load, &o.params)
    }
}

/// A metric over the runs of a cell.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum CellStat {
    /// It was measured in at least some runs.
    Measured(Measured),
    /// It was measured in no run.
    Missing { missing: String },
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Measured {
    /// "" for counts.
    pub unit: String,
    pub better: Better,
    /// Mean over the runs.
    pub mean: f64,
    /// Sample standard deviation in percent of the mean; `null` for a single run.
    pub std_pct: Option<f64>,
    pub values: Vec<f64>,
    /// Number of runs that lack the metric.
    #[serde(default, skip_serializing_if = "schedlab_base::is_zero")]
    pub missing_runs: usize,
}

impl CellStat {
    pub fn measured(&self) -> Option<&Measured> {
        match self {
            CellStat::Measured(m) => Some(m),
            CellStat::Missing { .. } => None,
        }
    }
    /// The values, if each run has one.
    pub fn of_each_run(&self) -> Option<&[f64]> {
        self.measured().filter(|m| m.missing_runs == 0).map(|m| m.values.as_slice())
    }
}

/// How far a load's baseline is from the published figures. An experiment's loads may be readings of a published text:
/// the best fit of the baseline chooses the reading, so the figures of the other variants are predictions.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct BaselineFit {
    /// The backend that made its runs.
    pub backend: Origin,
    pub machine: String,
    pub workload: String,
    pub load: String,
    /// The baseline's name.
    pub variant: String,
    /// The average factor between our figures and the published ones: exp(mean |ln(ours / published)|); 1 is perfect.
    pub factor: f64,
    /// Number of published metrics that count in it.
    pub metrics: usize,
    /// Number of those that do not, because ours was not measured or has no logarithm.
    pub missing: usize,
}

/// How drawn costs affect one figure of the tables.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct DrawnEffect {
    pub machine: String,
    pub workload: String,
    pub load: String,
    pub metric: String,
    /// The baseline of the change; `None` if it is about the variant's value.
    pub baseline: Option<String>,
    pub variant: String,
    /// The costs that affect it.
    #[serde(flatten)]
    pub sway: Sway,
}

/// Marks a row whose means do not fit its change ([`ComparisonRow::astray`]).
pub const ASTRAY: &str = "'";

/// One variant against the baseline in one metric.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ComparisonRow {
    /// The backend that made its runs.
    pub backend: Origin,
    pub machine: String,
    pub workload: String,
    pub load: String,
    pub metric: String,
    pub baseline: String,
    pub variant: String,
    /// Whether the metric is the workload's own result. Own results are corrected before the other rows.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub own: bool,
    /// Typical change in percent (trimmed mean of log ratios); `null` if the baseline is 0.
    pub change_pct: Option<f64>,
    /// Its 95 % interval, valid for all looks together; `null` for single runs.
    pub ci95_pct: Option<[f64; 2]>,
    /// p-value, corrected for all rows and looks of the comparison.
    pub p: f64,
    pub verdict: Verdict,
    /// Ratio of the means in the cells, minus 1, in percent.
    pub mean_change_pct: Option<f64>,
    /// Whether `mean_change_pct` is outside `ci95_pct` by at least the minimum effect: a few extreme runs move one of
    /// the means. Every output marks such a row with [`ASTRAY`].
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub astray: bool,
    /// Hodges-Lehmann estimate with its interval, from ranks alone, in percent: low, estimate, high.
    pub rank_pct: Option<[f64; 3]>,
    /// Number of pairs of runs with equal seeds; 0 if not paired.
    pub pairs: usize,
    /// Correlation of the pairs' values.
    pub correlation: Option<f64>,
    /// The smallest change, in percent, that these data would show in four of five repeats, among the rows of this
    /// comparison.
    pub detectable_pct: Option<f64>,
    /// The smallest change that counts in this row, in percent, if the machine's noise floor exceeds the comparison's
    /// limit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub min_effect_pct: Option<f64>,
    /// The look whose data the row shows, from 1: the one that decided it, or the last.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub look: Option<usize>,
    /// The reason for `unclear`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub why: Option<String>,
}

impl Comparison {
    /// The warnings of its runs; others concern its rows.
    pub fn warnings_of_runs(&self) -> Vec<Warning> {
        let all = self.warnings.iter().map(|w| &w.warning);
        all.filter(|w| w.code.starts_with("run.")).cloned().collect()
    }
}

impl ComparisonRow {
    /// Whether it compares this cell with its baseline.
    pub fn is_of(&self, cell: &Cell) -> bool {
        (&self.backend, &self.machine, &self.workload, &self.load, &self.variant)
            == (&cell.backend, &cell.machine, &cell.workload, &cell.load, &cell.variant)
    }
    /// [`ASTRAY`] or nothing.
    pub fn flag(&self) -> &'static str {
        if self.astray { ASTRAY } else { "" }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn runs_of_the_kernels_own_code_have_their_levels() {
        let cell = |backend: &str, level: Option<&str>| -> Cell {
            serde_json::from_value(serde_json::json!({
                "backend": backend, "machine": "m", "kernel": "6.1.192", "workload": "w", "load": "l", "params": {},
                "variant": "v", "runs": 1, "seeds": [1], "metrics": {}, "level": level,
            }))
            .unwrap()
        };
        let (free, woven) = (cell("code", Some("free")), cell("code", Some("woven")));
        assert_eq!(free.how(), "run by the kernel's own code (level free)");
        assert_eq!(how([&free, &free]), free.how());
        assert_eq!(how([&woven, &free, &woven]), "run by the kernel's own code (levels woven, free)");
        let warmed = Cell { free_ns: 900_000_000, ..woven.clone() };
        let free_part = "the first 900ms of the warm-up free";
        assert_eq!(
            how([&free, &warmed]),
            format!("run by the kernel's own code (levels free, woven, {free_part})")
        );
        assert_eq!((how([&cell("sim", None)]).as_str(), how([]).as_str()), ("simulated", ""));
    }
}
