//! Estimates how long kernels take to build on this machine: the number of objects times the time of one.
//!
//! The time of an object is that of the last builds on this machine, kept in the cache (`speed.json`); a guess before
//! the first one. Times are CPU time: elapsed time times parallel jobs.

use crate::diff::Patch;
use crate::outdated::objects;
use crate::{BZIMAGE, Recipe, Source, catalog, configuration, make, note, source, tools};
use schedlab_base::content_hash;
use schedlab_base::{Result, temp};
use serde::{Deserialize, Serialize};
use std::fs;
use std::path::Path;

const FILE: &str = "speed.json";
/// An object of the built-in configuration with gcc 12 at 2 to 3 GHz.
const OBJECT_MS: u64 = 400;
/// A run of a trial with its share of the boot, in a deterministic guest.
const RUN_MS: u64 = 3500;
/// Work with fewer objects or runs is not learnt from: its time is mostly overhead.
const FEW: u64 = 12;

/// The speed of this machine, in CPU time.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(default)]
pub struct Speed {
    pub object_ms: u64,
    /// One run of a trial, with its share of a boot.
    pub run_ms: u64,
}

impl Default for Speed {
    fn default() -> Speed {
        Speed { object_ms: OBJECT_MS, run_ms: RUN_MS }
    }
}

impl Speed {
    pub fn read(cache: &Path) -> Speed {
        let text = fs::read(cache.join(FILE)).ok();
        text.and_then(|text| serde_json::from_slice(&text).ok()).unwrap_or_default()
    }
    /// Learns from a build of `count` objects.
    pub fn learn_objects(cache: &Path, count: u64, cpu_ms: u64) {
        if count >= FEW {
            Speed { object_ms: (cpu_ms / count).max(1), ..Speed::read(cache) }.write(cache);
        }
    }
    /// Learns from `count` runs.
    pub fn learn_runs(cache: &Path, count: u64, cpu_ms: u64) {
        if count >= FEW {
            Speed { run_ms: (cpu_ms / count).max(1), ..Speed::read(cache) }.write(cache);
        }
    }
    fn write(self, cache: &Path) {
        // If this can't be written, the next estimate is a guess.
        let _ = serde_json::to_vec(&self).map(|text| temp::write_whole(&cache.join(FILE), &text));
    }
}

/// The work needed for a kernel.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Forecast {
    /// Whether its source must be fetched, unpacked or copied first.
    pub source: bool,
    /// Objects to compile; 0 if the kernel is in the cache.
    pub objects: u64,
}

/// Estimates the work for a kernel.
///
/// # Errors
/// As [`crate::build`] for sources and tools.
pub fn forecast(recipe: &Recipe, cache: &Path) -> Result<Forecast> {
    let is_there = match &recipe.source {
        Source::Tarball(path) => source::is_unpacked(path, cache),
        other => source::is_there(other, cache),
    };
    if !is_there {
        return Ok(Forecast { source: true, objects: make::FIRST_STEPS });
    }
    let source = source::obtain(&recipe.source, cache, &mut |_| ())?;
    let note = note(recipe, &source, tools::compiler()?);
    if catalog::find(&note.key, cache).is_some() {
        return Ok(Forecast { source: false, objects: 0 });
    }
    let folder = source.folder.join(format!("obj-{}", &content_hash(configuration(recipe).as_bytes())[..12]));
    let changed: Vec<&str> = recipe.patches.iter().flat_map(Patch::paths).collect();
    Ok(Forecast { source: false, objects: steps(&folder, &changed) })
}

/// The steps of a build that are left in a folder of objects, also after a build that broke off; `changed` are paths of
/// the source that count as newer than all objects.
pub(crate) fn steps(folder: &Path, changed: &[&str]) -> u64 {
    let made = objects(folder, changed);
    match folder.join(BZIMAGE).is_file() {
        true => made.outdated + make::LINK_STEPS,
        false => make::FIRST_STEPS.saturating_sub(made.there) + made.outdated,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn speed_is_learnt_only_from_enough_work() {
        let cache = tempfile::tempdir().unwrap();
        assert_eq!(Speed::read(cache.path()), Speed::default());
        Speed::learn_objects(cache.path(), 3, 90_000);
        Speed::learn_objects(cache.path(), 1000, 200_000);
        Speed::learn_runs(cache.path(), 100, 150_000);
        assert_eq!(Speed::read(cache.path()), Speed { object_ms: 200, run_ms: 1500 });
    }
}
