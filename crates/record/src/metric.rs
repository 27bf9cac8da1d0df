//! The metric table (being built).

use schedlab_base::{Error, Result};
use serde::{Deserialize, Serialize};

/// Which direction of a metric is good.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Better {
    /// Less is better.
    Lower,
    /// More is better.
    Higher,
    /// No direction is good: a change is only a change.
    Neither,
}

impl Better {
    /// Reads "lower", "higher" or "neither".
    ///
    /// # Errors
    /// Any other word.
    pub fn parse(text: &str) -> Result<Better> {
        match text {
            "lower" => Ok(Better::Lower),
            "higher" => Ok(Better::Higher),
            "neither" => Ok(Better::Neither),
            other => Err(Error::unknown("direction", other, ["lower", "higher", "neither"])),
        }
    }
    /// The word in JSON and tables.
    pub const fn name(self) -> &'static str {
        match self {
            Better::Lower => "lower",
            Better::Higher => "higher",
            Better::Neither => "neither",
        }
    }
}

/// A metric's value in one run.
#[derive(Clone, PartialEq, Debug)]
pub enum Value {
    /// In the metric's unit.
    Number(f64),
    /// Not measured, and why.
    Missing(String),
}

impl Value {
    /// The number, when there is one.
    pub fn number(&self) -> Option<f64> {
        match self {
            Value::Number(n) => Some(*n),
            Value::Missing(_) => None,
        }
    }
}

/// One row of the table of metrics.
#[derive(Debug)]
pub struct Metric {
    /// Dotted name; `<stat>` and the like stand for what the row's definition says.
    pub name: &'static str,
    /// Unit; "" for counts.
    pub unit: &'static str,
    /// Which direction is good.
    pub better: Better,
    /// Definition.
    pub about: &'static str,
    /// Backends that can give it.
    pub backends: &'static [&'static str],
}

/// Every metric.
pub const METRICS: &[Metric] = &[];
