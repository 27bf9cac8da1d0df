//! Cases of switched mechanisms: a switch must move these rows of the real kernel as it does in the simulation.
//!
//! A case is an experiment with a table `[change]`. It names two variants, `from` and `to`, and the rows that must move
//! ([`of_changes`]). Changes are in per cent of the mean under `from`; their intervals have 95 %. A row is judged for
//! each load on each machine by [`rule`], which looks at the real kernel first: if its own change is unknown, the
//! simulation gets no verdict. The case's other rows are compared by [`schedlab_compare::predicted`] and decide
//! nothing. This module works on records; it makes no runs.

use crate::ask::experiment::{Experiment, keys, parse as experiment, strings};
use schedlab_base::{Error, Result, input};
use schedlab_compare::agreement::changes::SwitchedCase;
use schedlab_compare::agreement::rows::{MetricRow, of_changes};
use schedlab_machine::reader::{Source, Table};
use std::path::Path;

/// A case, read and checked.
#[derive(Clone, Debug)]
pub struct ChangeCase {
    /// The experiment; the case has its name, subject and file.
    pub experiment: Experiment,
    /// The variant before the change.
    pub from: String,
    /// The variant after it.
    pub to: String,
    /// The rows that must move; at least one, each once.
    pub moves: Vec<&'static MetricRow>,
}

impl ChangeCase {
    /// The part that judges its records.
    pub fn switched(&self) -> SwitchedCase<'_> {
        SwitchedCase {
            name: &self.experiment.name,
            about: &self.experiment.about,
            from: &self.from,
            to: &self.to,
            moves: &self.moves,
        }
    }
}

/// Reads a case from its file; `host_cpus` is as in [`parse`].
///
/// # Errors
/// When the file is unreadable, and as [`parse`].
pub fn load(file: &Path, host_cpus: u64) -> Result<ChangeCase> {
    parse(file, &input::text(file)?, host_cpus)
}

/// Reads a case's text; `host_cpus` is the value of `{cpus}` in its loads on the live kernel, which cases don't run.
///
/// # Errors
/// For any fault of the experiment or of `[change]`, with file, line and column.
pub fn parse(file: &Path, text: &str, host_cpus: u64) -> Result<ChangeCase> {
    let experiment = experiment(file, text, host_cpus)?;
    let source = Source { file, text };
    let document = source.parse()?;
    let top = Table::open(source, "the case", document.span(), document.get_ref());
    let Some(table) = top.table("change", &keys::CHANGE.names())? else {
        return Err(top
            .error("the case has no [change]")
            .help("[change] with from = \"off\", to = \"on\" and moves = [\"migrations\"]"));
    };
    let variants = experiment.clone().in_guests().variants;
    let names: Vec<&str> = variants.iter().map(|v| v.name.as_str()).collect();
    let (from, to) = (variant(&table, "from", &names)?, variant(&table, "to", &names)?);
    if from == to {
        let text = format!("from and to are both '{from}', which changes nothing");
        return Err(table.error_at("to", text).help(format!("the variants are {}", names.join(", "))));
    }
    let moves = moves(&table)?;
    Ok(ChangeCase { experiment, from, to, moves })
}

fn variant(table: &Table<'_>, key: &str, names: &[&str]) -> Result<String> {
    let Some(name) = table.string(key)? else {
        let help = format!("{key} = \"...\", one of the variants {}", names.join(", "));
        return Err(table.error(format!("[change] has no {key}")).help(help));
    };
    if names.contains(&name) {
        return Ok(name.to_owned());
    }
    Err(table.place(key, Error::unknown("variant", name, names.iter().copied())))
}

fn moves(table: &Table<'_>) -> Result<Vec<&'static MetricRow>> {
    let named = strings(table, "moves")?;
    if named.is_empty() {
        return Err(table
            .error_at("moves", "[change] names no row that must move")
            .help("moves = [\"migrations\", ...]; docs/formats.md has the rows"));
    }
    let mut rows: Vec<&'static MetricRow> = Vec::new();
    for (name, value) in named {
        let unknown = || table.error_on(value, Error::unknown("row", name, of_changes().map(|r| r.name)));
        let row = of_changes().find(|r| r.name == name).ok_or_else(unknown)?;
        if rows.iter().any(|r| r.name == name) {
            let twice = Error::input(format!("'{name}' stands twice in moves")).help("leave one of them out");
            return Err(table.error_on(value, twice));
        }
        rows.push(row);
    }
    Ok(rows)
}

#[cfg(test)]
#[path = "changes_tests.rs"]
mod tests;
