//! A metric's value, and its good direction.

use schedlab_base::{Error, Result};
use serde::{Deserialize, Serialize};

#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Better {
    /// Less is better.
    Lower,
    /// More is better.
    Higher,
    /// No direction is good.
    Neither,
}

impl Better {
    /// Reads "lower", "higher" or "neither".
    ///
    /// # Errors
    /// When it is another word.
    pub fn parse(text: &str) -> Result<Better> {
        match text {
            "lower" => Ok(Better::Lower),
            "higher" => Ok(Better::Higher),
            "neither" => Ok(Better::Neither),
            other => Err(Error::unknown("direction", other, ["lower", "higher", "neither"])),
        }
    }
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
    /// Not measured, with the reason.
    Missing(String),
}

impl Value {
    pub fn number(&self) -> Option<f64> {
        match self {
            Value::Number(n) => Some(*n),
            Value::Missing(_) => None,
        }
    }
}

impl Serialize for Value {
    /// A JSON number, or `{"missing": reason}`.
    fn serialize<S: serde::Serializer>(&self, s: S) -> std::result::Result<S::Ok, S::Error> {
        match self {
            Value::Number(n) => s.serialize_f64(*n),
            Value::Missing(reason) => s.collect_map([("missing", reason)]),
        }
    }
}
