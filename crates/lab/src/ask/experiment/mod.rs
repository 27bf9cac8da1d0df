//! Experiments: TOML files that name machines, workloads, loads, variants and metrics.
//!
//! Everything is checked while it is read, before any run: keys, names, parameters, sizes, files referred to. An
//! [`Experiment`] that exists can be planned on any backend without further surprises from its file.

mod around;
pub(crate) mod blame;
mod changes;
mod command;
mod dial;
pub mod draft;
mod expand;
pub mod keys;
mod lists;
mod loads;
mod machines;
mod model;
mod narrow;
mod published;
mod read;
mod slurm;
mod sweep;
pub(crate) mod template;
mod variants;
pub mod write;

pub(crate) use around::Around;
pub(crate) use lists::{number, strings};
pub use model::{Experiment, Load};
pub use narrow::Part;
pub(crate) use read::only_workload;
pub use read::{MAX_RUNS, parse};
pub use slurm::SlurmOptions;
pub use variants::{MIGRATION, set_attribute, set_migration};

use crate::ask::here;
use schedlab_base::{Result, input};
use std::path::Path;

/// Reads an experiment from its file.
///
/// # Errors
/// When the file is unreadable, and for any fault in it, with file, line and column.
pub fn load(file: &Path) -> Result<Experiment> {
    let text = input::text(file)?;
    parse(file, &text, here::cpus())
}
