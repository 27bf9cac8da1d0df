//! The public reports that ship with schedlab: their experiments, compiled in, and the claims of each.

use crate::experiments::{self, ExperimentOptions};
use crate::output;
use schedlab_base::{Error, Result};
use schedlab_compare::reports::{JudgedReport, PublicReport, read};
use schedlab_lab::ask::experiment::parse;
use std::path::Path;

pub use schedlab_lab::ask::studies::REPORTS as NAME;

/// The question of the study `reports`.
pub const ABOUT: &str =
    "public bug reports and papers on the scheduler: which of them the simulator reproduces.";

/// The published claims of each report.
const CLAIMS: &str = include_str!("../../../studies/reports/reports.toml");

macro_rules! report_files {
    ($($name:literal)*) => {
        /// Name and text of every report's experiment.
        const EXPERIMENTS: &[(&str, &str)] =
            &[$(($name, include_str!(concat!("../../../studies/reports/", $name, ".toml"))),)*];
    };
}

report_files! {
    "group-imbalance" "overload-on-wakeup" "nice-across-sessions" "half-sleeper" "half-sleeper-long" "short-slice"
    "heavy-task" "yield-loop" "yield-runaway" "rt-throttle" "rt-throttle-alone" "sis-util" "lazy-pipe" "numa-pair"
    "preempt-none" "load-left-behind" "quota-unused" "quota-starvation" "idle-little" "idle-little-4-2"
}

/// Runs the experiments of the reports that are named, of all if none is, and judges each.
///
/// # Errors
/// For unknown names and errors in options, when a run fails, or on an interruption.
pub fn judged(names: &[String], options: &ExperimentOptions) -> Result<Vec<JudgedReport>> {
    let all = read(CLAIMS)?;
    if let Some(unknown) = names.iter().find(|name| all.iter().all(|r| r.name != **name)) {
        return Err(Error::unknown("report", unknown, all.iter().map(|r| r.name.as_str())));
    }
    let wanted = all.iter().filter(|r| names.is_empty() || names.contains(&r.name));
    wanted.map(|report| judge_report(report, options)).collect()
}

fn judge_report(report: &PublicReport, options: &ExperimentOptions) -> Result<JudgedReport> {
    let found = EXPERIMENTS.iter().find(|(name, _)| *name == report.name);
    let (name, text) =
        found.ok_or_else(|| Error::internal(format!("report {} has no experiment", report.name)))?;
    let file = format!("studies/reports/{name}.toml");
    let experiment = parse(Path::new(&file), text, crate::common::cpus())?;
    if !options.quiet() {
        output::note(&format!("{name}: {}", report.title));
    }
    report.judge(&experiments::compared(experiment, options)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_report_has_its_experiment_and_every_experiment_its_report() {
        let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../../studies/reports");
        let files = std::fs::read_dir(folder).unwrap().flatten();
        let mut files: Vec<String> = files.map(|e| e.file_name().to_string_lossy().into_owned()).collect();
        files.retain(|f| f != "reports.toml");
        files.sort();
        let sorted = |names: Vec<&str>| {
            let mut names: Vec<String> = names.iter().map(|n| format!("{n}.toml")).collect();
            names.sort();
            names
        };
        assert_eq!(files, sorted(EXPERIMENTS.iter().map(|(name, _)| *name).collect()));
        let reports = read(CLAIMS).unwrap();
        assert_eq!(files, sorted(reports.iter().map(|r| r.name.as_str()).collect()));
        for (name, text) in EXPERIMENTS {
            let study = parse(Path::new(&format!("studies/reports/{name}.toml")), text, 8);
            assert_eq!(study.unwrap_or_else(|e| panic!("{name}: {e}")).name, *name);
        }
    }
}
