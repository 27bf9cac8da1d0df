//! The posted series that ship with schedlab: experiments with the changes that their authors published, compiled in.

use crate::experiments::{self, ExperimentOptions};
use crate::output;
use schedlab_base::{Error, Result, input};
use schedlab_compare::published::{JudgedSeries, judge};
use schedlab_lab::Experiment;
use schedlab_lab::ask::experiment::parse;
use std::collections::BTreeSet;
use std::path::Path;

pub use schedlab_lab::ask::studies::PUBLISHED as NAME;

/// The question of the study `published`.
pub const ABOUT: &str =
    "posted series of patches: whether the kernel's own code changes here as their authors saw it change.";

macro_rules! series_files {
    ($($name:literal)*) => {
        /// Name and text of every series.
        const SERIES: &[(&str, &str)] =
            &[$(($name, include_str!(concat!("../../../studies/published/", $name, ".toml"))),)*];
    };
}

series_files! {
    "sis-util" "sis-node" "tg-load-avg-ratelimit" "wakelist-idle-wakee" "cache-aware" "delay-dequeue" "next-buddy"
    "newidle-cost-tracking" "sched-balance-running" "rq-reorder"
}

/// Runs the series that are named, or the files of series, all that ship if there is none, and judges each. `quick`:
/// only the loads that take little time.
///
/// # Errors
/// For unknown names and errors in options and files, when a run fails, or on an interruption.
pub fn judged(names: &[String], quick: bool, options: &ExperimentOptions) -> Result<Vec<JudgedSeries>> {
    let all = || SERIES.iter().map(|(name, _)| (*name).to_owned()).collect();
    let names: Vec<String> = if names.is_empty() { all() } else { names.to_vec() };
    let experiments = names.iter().map(|name| found(name)).collect::<Result<Vec<Experiment>>>()?;
    experiments.into_iter().map(|experiment| judge_series(experiment, quick, options)).collect()
}

/// The series of a name or a file, as backend code runs it.
fn found(name: &str) -> Result<Experiment> {
    let cpus = crate::common::cpus();
    let shipped = SERIES.iter().find(|(n, _)| *n == name);
    let experiment = match shipped {
        Some((name, text)) => parse(Path::new(&format!("studies/published/{name}.toml")), text, cpus)?,
        None if name.ends_with(".toml") => parse(Path::new(name), &input::text(Path::new(name))?, cpus)?,
        None => return Err(Error::unknown("series", name, SERIES.iter().map(|(n, _)| *n))),
    };
    let mut experiment = experiment.on_code();
    experiment.checked_series()?;
    // A load of which no change was published is not run.
    let tables = experiment.changes.iter().filter(|table| table.not_modelled.is_none());
    let asked: BTreeSet<&str> = tables.flat_map(|table| &table.changes).map(|c| c.load.as_str()).collect();
    experiment.loads.retain(|load| asked.contains(load.name.as_str()));
    Ok(experiment)
}

fn judge_series(
    mut experiment: Experiment,
    quick: bool,
    options: &ExperimentOptions,
) -> Result<JudgedSeries> {
    let (name, baseline) = (experiment.name.clone(), experiment.baseline.clone());
    let (series, changes) = (experiment.checked_series()?.clone(), experiment.changes.clone());
    if quick {
        experiment.loads.retain(|load| series.quick.contains(&load.name));
    }
    if !options.quiet() {
        output::note(&format!("{name}: {}", series.title));
    }
    let runs = match experiment.loads.is_empty() {
        true => None,
        false => Some(experiments::compared(experiment, options)?),
    };
    Ok(judge((&name, &series), &changes, (&baseline, runs.as_ref())))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_file_is_a_series_under_its_own_name() {
        let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../../studies/published");
        let files = std::fs::read_dir(folder).unwrap().flatten();
        let mut files: Vec<String> = files.map(|e| e.file_name().to_string_lossy().into_owned()).collect();
        files.sort();
        let mut known: Vec<String> = SERIES.iter().map(|(name, _)| format!("{name}.toml")).collect();
        known.sort();
        assert_eq!(files, known);
        for (name, _) in SERIES {
            let series = found(name).unwrap_or_else(|e| panic!("{name}: {e}"));
            assert_eq!(series.name, *name);
            assert!(!series.changes.is_empty(), "{name}");
        }
    }
}
