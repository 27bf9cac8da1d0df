//! Stored runs by the names that commands take: a store or a folder in it, a cell's first digits (followed by a seed:
//! one run), an experiment's file, a study, or the words that name a run in progress and lists.

mod many;
mod one;

pub use many::{has_runs, of_experiment, stored};
pub use one::{RunChoice, beside, unless_recording};

use crate::ask::experiment::{self, Experiment};
use crate::ask::studies;
use schedlab_base::Result;
use schedlab_compare::runs;
use std::path::Path;

/// The experiment that a name means: a file's or a study's; `None` for the name of anything else.
pub fn experiment_of(name: &str) -> Result<Option<Experiment>> {
    let path = Path::new(name);
    if path.is_dir() {
        return Ok(None);
    }
    if path.extension().is_some_and(|e| e == "toml") {
        return experiment::load(path).map(Some);
    }
    let is_study = !path.exists() && studies::STUDIES.iter().any(|(study, _)| *study == name);
    if is_study { studies::find(name).map(Some) } else { Ok(None) }
}

/// Whether a name that is not a path may be meant as a cell or run: by digits, by a folder, or by words.
fn like_a_run(name: &str) -> bool {
    let digits = name.len() >= 4 && name.bytes().all(|b| b.is_ascii_hexdigit());
    digits || name.contains('/') || runs::is_title(name)
}
