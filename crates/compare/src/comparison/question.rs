//! The question that a comparison answers.

use super::folders::Folders;
use super::model::BaselineIs;
use crate::noise::Floors;
use crate::stats::Looks;
use schedlab_record::Published;
use std::collections::BTreeMap;

/// Default number of runs of a cell. Runs are the unit of replication, never the samples within one; with fewer than
/// ten, rank tests could hardly decide.
pub const DEFAULT_RUNS: u64 = 10;
/// Default for the smallest change that counts, percent.
pub const DEFAULT_MIN_EFFECT_PCT: f64 = 2.0;

/// The question asked about records.
#[derive(Clone, Debug)]
pub struct Question {
    /// Name of the experiment; "" for none.
    pub experiment: String,
    /// Metrics in the order of the tables; if empty, each workload's headline metrics.
    pub metrics: Vec<String>,
    /// Metrics of single loads, by machine, workload and load, instead of `metrics`.
    pub of_load: BTreeMap<[String; 3], Vec<String>>,
    /// The baseline's name; the first variant of each group if `None`.
    pub baseline: Option<String>,
    /// Baselines of single loads, by machine, workload and load, instead of `baseline`.
    pub baseline_of_load: BTreeMap<[String; 3], String>,
    pub baseline_is: BaselineIs,
    /// The smallest change that counts, percent.
    pub min_effect_pct: f64,
    pub published: Vec<Published>,
    /// Noise floors of live machines. A floor above `min_effect_pct` replaces it as the smallest change that counts.
    pub floors: Floors,
    pub folders: Folders,
    /// Whether every metric of saved outputs is wanted, even of files with all of a run's metrics.
    pub all: bool,
    /// Own results of single loads, by machine, workload and load, instead of the table of benchmarks.
    pub own_of_load: BTreeMap<[String; 3], Vec<String>>,
    /// The looks at which rows were or will be judged.
    pub looks: Looks,
}

impl Default for Question {
    fn default() -> Question {
        Question {
            experiment: String::new(),
            metrics: Vec::new(),
            of_load: BTreeMap::new(),
            baseline: None,
            baseline_of_load: BTreeMap::new(),
            baseline_is: BaselineIs::First,
            min_effect_pct: DEFAULT_MIN_EFFECT_PCT,
            published: Vec::new(),
            floors: Floors::default(),
            folders: Folders::default(),
            all: false,
            own_of_load: BTreeMap::new(),
            looks: Looks::once(),
        }
    }
}

impl Question {
    /// Sets the baseline, if one was asked for.
    #[must_use]
    pub fn against(self, baseline: Option<String>) -> Question {
        match baseline {
            Some(_) => Question {
                baseline,
                baseline_is: BaselineIs::Asked,
                baseline_of_load: BTreeMap::new(),
                ..self
            },
            None => self,
        }
    }
    /// Drops the baseline if the runs lack it.
    pub fn keep_baseline(&mut self, have: impl FnOnce(&str) -> bool) {
        if self.baseline.as_deref().is_some_and(|name| !have(name)) {
            (self.baseline, self.baseline_is) = (None, BaselineIs::First);
        }
    }
    #[must_use]
    pub fn with_floors(self, floors: Floors) -> Question {
        Question { floors, ..self }
    }
    #[must_use]
    pub fn at_looks(self, looks: Looks) -> Question {
        Question { looks, ..self }
    }
    #[must_use]
    pub fn kept_in(self, folders: Folders) -> Question {
        Question { folders, ..self }
    }
}
