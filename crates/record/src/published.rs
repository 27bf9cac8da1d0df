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

/// Published changes of one metric: of a variant against the baseline, load by load.
#[derive(Clone, Debug, PartialEq)]
pub struct PublishedChanges {
    pub variant: String,
    /// Of the experiment; any words if the loads are not modelled.
    pub metric: String,
    /// Readings of the machine, best first: it is not always named.
    pub machines: Vec<String>,
    pub source: String,
    /// Why there are no such loads; `None` if there are.
    pub not_modelled: Option<String>,
    pub changes: Vec<PublishedChange>,
}

#[derive(Clone, Debug, PartialEq)]
pub struct PublishedChange {
    pub load: String,
    /// Of the metric's value, percent: above 0 it grows.
    pub change_pct: f64,
    /// Standard deviations of baseline and variant, percent; `None` if they were not published.
    pub deviations_pct: Option<[f64; 2]>,
}
