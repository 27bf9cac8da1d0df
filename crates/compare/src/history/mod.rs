//! Histories: values of many days, commits and machines, kept as CSV, and the changes in their course.
//!
//! A history is a file, or a folder of files, of lines that are only ever added: one value of one run in each. Files of
//! one folder are read as one history, so each machine can write its own and nothing conflicts. [`read`] takes other
//! people's CSV, too.
//!
//! [`judge`] makes series of the lines (machine, workload, load, metric), finds the changes of each
//! ([`schedlab_stats::course`]), and lays the machines of one series beside each other.

mod append;
mod csv;
mod dates;
mod judge;
mod model;
mod read;
#[cfg(test)]
mod tests;

pub use judge::{Asked, judge};
pub use model::{At, Cause, Change, Drift, Judged, MachineChange, Mean, Series, Unit};
pub use read::{COLUMNS, Reading};

use crate::comparison::{Cell, CellStat, Comparison};
use csv::quoted;
use schedlab_base::{Error, Result, input, printable, utc};
use schedlab_record::Figure;
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::time::SystemTime;

/// One value of one run.
#[derive(Clone, Debug, PartialEq)]
pub struct Row {
    /// Days since 1970, if the history has dates.
    pub day: Option<u64>,
    /// What orders units of one day, as text.
    pub time: String,
    pub commit: String,
    pub machine: String,
    pub workload: String,
    pub load: String,
    pub run: String,
    pub metric: String,
    pub figure: Figure,
}

/// Reads a file, or all files of a folder that end in `.csv`.
///
/// # Errors
/// When there is none, one can't be read, or none has a metric that the reading names.
pub fn history(path: &Path, reading: &Reading) -> Result<Vec<Row>> {
    let rows = rows_of(path, reading)?;
    check_metrics(path, reading, &rows)?;
    if rows.is_empty() {
        let text = format!("{}: the history has no value", path.display());
        return Err(Error::input(text)
            .help("'--add RUNS' adds stored runs; a file of your own has a line for each value"));
    }
    Ok(rows)
}

fn rows_of(path: &Path, reading: &Reading) -> Result<Vec<Row>> {
    let files = if path.is_dir() { files_of(path)? } else { vec![path.to_owned()] };
    let mut rows = Vec::new();
    for file in files {
        rows.extend(read::rows(&file, &input::text(&file)?, reading)?);
    }
    Ok(rows)
}

/// A metric that is named must be in the history, if only among those that are not asked for.
fn check_metrics(path: &Path, reading: &Reading, rows: &[Row]) -> Result<()> {
    let directions = reading.better.keys().filter(|name| !name.is_empty());
    let named = reading
        .metrics
        .iter()
        .map(|name| ("--metric", name))
        .chain(directions.map(|name| ("--better", name)));
    let missing: Vec<_> = named.filter(|(_, name)| rows.iter().all(|r| r.metric != **name)).collect();
    if missing.is_empty() {
        return Ok(());
    }
    let all = rows_of(path, &Reading { metrics: Vec::new(), ..reading.clone() })?;
    let known: BTreeSet<&str> = all.iter().map(|r| r.metric.as_str()).collect();
    match missing.into_iter().find(|(_, name)| !known.contains(name.as_str())) {
        None => Ok(()),
        Some((option, name)) => {
            let text = format!(
                "{}: {option} {}: the history has no such metric",
                path.display(),
                printable::name(name)
            );
            let known: Vec<&str> = known.into_iter().collect();
            Err(Error::input(text).help(format!("it has: {}", known.join(", "))))
        }
    }
}

fn files_of(folder: &Path) -> Result<Vec<PathBuf>> {
    let entries = std::fs::read_dir(folder).map_err(|e| Error::io(folder, "read", &e))?;
    let mut files: Vec<PathBuf> = entries.flatten().map(|e| e.path()).collect();
    files.retain(|f| f.extension().is_some_and(|e| e == "csv") && f.is_file());
    files.sort();
    if files.is_empty() {
        return Err(Error::input(format!("{}: no file ends in .csv", folder.display()))
            .help("a history is a CSV file, or a folder of them"));
    }
    Ok(files)
}

/// What is known of runs beside what they measured.
#[derive(Clone, Debug, Default)]
pub struct Origin<'a> {
    /// As text; today if `None`.
    pub date: Option<&'a str>,
    /// The variant's name if `None`.
    pub commit: Option<&'a str>,
    pub machine: Option<&'a str>,
    /// The metrics that were asked for; the workloads' own results if empty.
    pub metrics: &'a [String],
}

/// Adds the runs of a comparison's cells to a history, without the lines that it has already. In a folder each machine
/// has a file. Returns the numbers of lines that were added, and that were there.
///
/// # Errors
/// When the date is not one, a machine has no name, cells would be mixed, there is nothing to add, or a file can't be
/// written.
pub fn add(path: &Path, runs: &Comparison, origin: &Origin<'_>) -> Result<(usize, usize)> {
    let date = match origin.date {
        None => dates::name(utc::since_1970_s(SystemTime::now()) / 86_400),
        Some(text) if dates::day(text).is_some() => text.to_owned(),
        Some(text) => {
            return Err(Error::input(format!("--date {}: not a date", printable::name(text)))
                .help("write 2026-11-30 or 2026-11-30T12:00"));
        }
    };
    check_apart(&runs.cells, origin)?;
    let (mut added, mut there) = (0, 0);
    for cell in &runs.cells {
        let machine = origin.machine.unwrap_or(&cell.machine);
        if origin.machine.is_none() && ["host", "unknown machine"].contains(&machine) {
            return Err(Error::input(format!(
                "'{machine}' does not say which machine measured {}",
                cell.workload
            ))
            .help("name it with --as"));
        }
        let file =
            if path.is_dir() { path.join(format!("{}.csv", file_name(machine))) } else { path.to_owned() };
        let lines = lines(cell, &date, commit_of(cell, origin), machine, origin.metrics);
        let new = append::new_lines(&file, &lines)?;
        there += lines.len() - new;
        added += new;
    }
    if added + there == 0 {
        return Err(
            Error::input("these runs have no result of their workload to add").help("name one with --metric")
        );
    }
    Ok((added, there))
}

fn commit_of<'a>(cell: &'a Cell, origin: &Origin<'a>) -> &'a str {
    origin.commit.unwrap_or(&cell.variant)
}

/// A history says no more of a run than commit, machine, workload and load: what differs in other things would be one
/// unit of one series.
fn check_apart(cells: &[Cell], origin: &Origin<'_>) -> Result<()> {
    let mut known: BTreeMap<[&str; 4], &Cell> = BTreeMap::new();
    for cell in cells {
        let (commit, machine) = (commit_of(cell, origin), origin.machine.unwrap_or(&cell.machine));
        let Some(other) = known.insert([commit, machine, &cell.workload, &cell.load], cell) else { continue };
        let name =
            |c: &Cell| format!("'{}' ({}, kernel {}, {})", c.variant, c.backend.name(), c.kernel, c.machine);
        let text = format!(
            "{} {}: {} and {} would be mixed as commit '{commit}' on '{machine}'",
            cell.workload,
            cell.load,
            name(other),
            name(cell)
        );
        let option = if other.machine == cell.machine { "--variant or --backend" } else { "--machine" };
        return Err(Error::input(text).help(format!("name one with {option}")));
    }
    Ok(())
}

/// The machine's name as a file's.
fn file_name(machine: &str) -> String {
    machine.chars().map(|c| if c.is_ascii_alphanumeric() || "-_.+".contains(c) { c } else { '-' }).collect()
}

fn lines(cell: &Cell, date: &str, commit: &str, machine: &str, asked: &[String]) -> Vec<String> {
    let own = schedlab_workload::spec::find(&cell.workload).map(|b| b.own).ok();
    let is_wanted = |metric: &str| match own {
        _ if !asked.is_empty() => asked.iter().any(|m| m == metric),
        Some(own) => own.contains(&metric),
        None => true,
    };
    let mut lines = Vec::new();
    for (metric, stat) in cell.metrics.iter().filter(|(metric, _)| is_wanted(metric)) {
        let CellStat::Measured(m) = stat else { continue };
        for (at, value) in m.values.iter().enumerate() {
            let run = if m.values.len() == cell.seeds.len() { cell.seeds[at] } else { at as u64 + 1 };
            let fields = [
                date,
                commit,
                machine,
                &cell.workload,
                &cell.load,
                &run.to_string(),
                metric,
                &m.unit,
                m.better.name(),
                &value.to_string(),
            ];
            // A line end in a name would make two lines of one.
            lines.push(fields.map(|field| quoted(&printable::name(field))).join(","));
        }
    }
    lines
}
