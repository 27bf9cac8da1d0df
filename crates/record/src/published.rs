//! Figures published by others, to be shown next to ours, or to be held against ours.

use serde::{Deserialize, Serialize};

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Published {
    pub variant: String,
    pub metric: String,
    /// Any load if `None`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub load: Option<String>,
    /// In `unit`.
    pub value: f64,
    /// "ns" for times.
    pub unit: String,
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub source: String,
}

impl Published {
    pub fn is_for(&self, variant: &str, load: &str, metric: &str) -> bool {
        self.variant == variant && self.metric == metric && self.load.as_ref().is_none_or(|l| l == load)
    }
}

/// A posted series of patches, for which changes were published.
#[derive(Clone, Debug, PartialEq)]
pub struct PostedSeries {
    /// Its subject.
    pub title: String,
    /// Who posted it, and when.
    pub posted: String,
    /// What carries its gain.
    pub mechanisms: Vec<String>,
    /// The loads that take little time.
    pub quick: Vec<String>,
}

/// What was published of one metric, load by load: changes of a variant against the baseline, or a variant's values.
#[derive(Clone, Debug, PartialEq)]
pub struct PostedFigures {
    pub variant: String,
    /// Of the experiment; any words if the loads are not modelled.
    pub metric: String,
    /// Readings of the machine, best first: it is not always named.
    pub machines: Vec<String>,
    pub source: String,
    /// Why there are no such loads; `None` if there are.
    pub not_modelled: Option<String>,
    /// By load, in the order of the file.
    pub figures: Vec<(String, PostedFigure)>,
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub enum PostedFigure {
    /// Of the metric's value.
    Change {
        /// Percent: above 0 the value grows.
        pct: f64,
        /// Standard deviations of baseline and variant, percent; `None` if they were not published.
        deviations_pct: Option<[f64; 2]>,
    },
    /// The value itself, in the metric's unit.
    Value(f64),
}
