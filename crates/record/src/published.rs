//! Figures published by others, to be shown next to ours.

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
