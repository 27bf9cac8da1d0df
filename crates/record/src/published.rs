//! Figures that others have published, to be shown beside ours.

use serde::{Deserialize, Serialize};

/// A published figure shown beside ours.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Published {
    pub variant: String,
    pub metric: String,
    /// The load; `None`: any.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub load: Option<String>,
    /// The figure, in `unit`.
    pub value: f64,
    /// Unit: "ns" for times.
    pub unit: String,
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub source: String,
}

impl Published {
    /// Whether this is the figure of that variant, load and metric.
    pub fn is_for(&self, variant: &str, load: &str, metric: &str) -> bool {
        self.variant == variant && self.metric == metric && self.load.as_ref().is_none_or(|l| l == load)
    }
}
