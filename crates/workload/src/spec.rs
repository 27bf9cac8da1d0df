//! A workload as plain data: what an experiment states, a record embeds and the live agent receives.

use crate::build::{Builder, Built};
use crate::param::{Benchmark, Params};
use crate::{BENCHMARKS, rtapp};
use schedlab_base::{Error, Result};
use serde::{Deserialize, Serialize};

/// A workload, resolved enough to be built anywhere.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "kebab-case")]
pub enum Spec {
    /// One of [`BENCHMARKS`] with its parameters, defaults filled in.
    Bench {
        /// Its name.
        name: String,
        /// Its parameters; times in ns.
        params: Params,
    },
    /// An rt-app description.
    RtApp {
        /// The file it came from, for messages.
        file: String,
        /// Its text.
        text: String,
    },
}

impl Spec {
    /// A benchmark by name with the given parameters, checked and completed.
    ///
    /// # Errors
    /// Unknown benchmark or parameter, value out of range.
    pub fn bench(name: &str, given: &Params) -> Result<Spec> {
        let bench = find(name)?;
        Ok(Spec::Bench { name: name.to_owned(), params: bench.resolve(given)? })
    }
    /// The workload's name in tables.
    pub fn name(&self) -> &str {
        match self {
            Spec::Bench { name, .. } => name,
            Spec::RtApp { file, .. } => file.rsplit('/').next().unwrap_or(file),
        }
    }
    /// Builds the tasks; the same everywhere for the same seed.
    ///
    /// # Errors
    /// What the benchmark or the rt-app reader finds wrong.
    pub fn build(&self, seed: u64) -> Result<Built> {
        let mut builder = Builder::new(seed);
        match self {
            Spec::Bench { name, params } => (find(name)?.build)(params, &mut builder)?,
            Spec::RtApp { file, text } => rtapp::build(file, text, &mut builder)?,
        }
        builder.finish()
    }
}

/// The benchmark of that name.
///
/// # Errors
/// When there is none; the nearest is offered.
pub fn find(name: &str) -> Result<&'static Benchmark> {
    BENCHMARKS
        .iter()
        .copied()
        .find(|b| b.name == name)
        .ok_or_else(|| Error::unknown("workload", name, BENCHMARKS.iter().map(|b| b.name)))
}
