//! The result of a search for the best of many settings: the race, and its confirmation.

use crate::comparison::ComparisonRow;
use schedlab_base::{Backend, Warning};
use serde::Serialize;

/// A setting in the race.
#[derive(Clone, Debug, Serialize)]
pub struct Raced {
    pub setting: String,
    /// Runs before it left.
    pub runs: u64,
    /// Its change against the default over these runs in percent, by metric; `null` where a value is missing. It is not
    /// a result: those that lead are those that were lucky, too.
    pub change_pct: Vec<Option<f64>>,
}

/// A setting that can't be tried.
#[derive(Clone, Debug, Serialize)]
pub struct LeftOut {
    pub setting: String,
    pub why: String,
}

/// What a replay has dropped before the workload ran.
#[derive(Clone, Debug, Serialize)]
pub struct Pruned {
    pub backend: Backend,
    /// Those of its race.
    pub metrics: Vec<String>,
    /// Best first.
    pub dropped: Vec<Raced>,
}

/// The outcome.
#[derive(Clone, Debug, Serialize)]
pub struct Tuned {
    pub default: String,
    pub metrics: Vec<String>,
    /// Number of settings that can be tried.
    pub settings: usize,
    /// `null`: no replay was given.
    pub pruned: Option<Pruned>,
    /// Best first.
    pub race: Vec<Raced>,
    /// Rows of the confirmation: those of the finalists.
    pub confirmed: Vec<ComparisonRow>,
    /// The setting that is best beyond chance.
    pub winner: Option<String>,
    /// Whether time was up before the race was over.
    pub cut_short: bool,
    pub left_out: Vec<LeftOut>,
    /// Runs that were made or found.
    pub runs: u64,
    pub warnings: Vec<Warning>,
}
