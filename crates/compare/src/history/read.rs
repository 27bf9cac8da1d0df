//! Reads a history: a value in each line (long), or a column for each metric (wide). Columns are found by usual names.

use super::csv::Table;
use super::{Row, dates};
use schedlab_base::{Error, Result, counted, printable};
use schedlab_record::{Better, Figure};
use std::collections::BTreeMap;
use std::path::Path;

/// What a column holds, with the names by which it is found.
pub const COLUMNS: [(&str, &[&str]); 10] = [
    ("date", &["date", "day", "time", "timestamp", "datetime", "when", "commit_date"]),
    ("commit", &["commit", "sha", "hash", "revision", "rev", "build", "version", "kernel"]),
    ("machine", &["machine", "host", "hostname", "runner", "node"]),
    ("workload", &["workload", "benchmark", "bench", "suite", "test"]),
    ("load", &["load", "params", "parameters", "args", "config"]),
    ("run", &["run", "seed", "iteration", "repeat"]),
    ("metric", &["metric", "measure", "name"]),
    ("unit", &["unit", "units"]),
    ("better", &["better", "direction"]),
    ("value", &["value", "result", "mean", "median", "score"]),
];

/// How a file of others is to be read.
#[derive(Clone, Debug, Default)]
pub struct Reading {
    /// Names of columns that are not the usual ones, by what they hold.
    pub columns: BTreeMap<String, String>,
    /// The good direction of metrics, by name; "" is for all others.
    pub better: BTreeMap<String, Better>,
    /// Only these metrics; all if empty.
    pub metrics: Vec<String>,
}

/// Reads a file into rows.
///
/// # Errors
/// When a column is missing, or a field is not what its column holds: with file, line and column.
pub(super) fn rows(file: &Path, text: &str, reading: &Reading) -> Result<Vec<Row>> {
    let table = Table::of(file, text)?;
    let Some((head, lines)) = table.lines.split_first() else {
        return Err(table
            .error(0, "the file is empty")
            .help("the first line names the columns: date,commit,metric,value"));
    };
    let names: Vec<&str> = head.iter().map(|f| f.text.as_str()).collect();
    let columns = Columns::of(&table, &names, reading)?;
    let mut rows = Vec::new();
    for line in lines {
        let offset = line[0].offset;
        if line.len() != head.len() {
            let text =
                format!("{} here, and the first line has {}", counted(line.len(), "field"), head.len());
            return Err(table
                .error(offset, text)
                .help("a field that holds a separator is put between quotation marks"));
        }
        let text = |what: &str| columns.of.get(what).map_or("", |at| line[*at].text.as_str());
        let (day, time) = match columns.of.get("date") {
            None => (None, String::new()),
            Some(at) => {
                let (day, time) = dates::day(&line[*at].text).ok_or_else(|| {
                    table
                        .error(line[*at].offset, format!("'{}' is not a date", printable::name(&line[*at].text)))
                        .help("write 2026-11-30, 2026-11-30T12:00, or seconds since 1970, not milliseconds; --column date=NAME names another column")
                })?;
                (Some(day), time)
            }
        };
        let row = |metric: &str, unit: &str, at: usize| -> Result<Option<Row>> {
            let is_wanted = reading.metrics.is_empty() || reading.metrics.iter().any(|m| m == metric);
            if line[at].text.is_empty() || !is_wanted {
                return Ok(None);
            }
            let value = number(&line[at].text).ok_or_else(|| {
                let what = format!("'{}' is not a number", printable::name(&line[at].text));
                table.error(line[at].offset, what).help("a value that was not measured is an empty field")
            })?;
            let better = match text("better") {
                "" => {
                    *reading.better.get(metric).or_else(|| reading.better.get("")).unwrap_or(&Better::Neither)
                }
                word => Better::parse(word).map_err(|e| {
                    table
                        .error(line[columns.of["better"]].offset, e.message().to_owned())
                        .help("lower, higher or neither")
                })?,
            };
            let name = |text: &str| printable::name(text).into_owned();
            Ok(Some(Row {
                day,
                time: time.clone(),
                commit: name(text("commit")),
                machine: name(text("machine")),
                workload: name(text("workload")),
                load: name(text("load")),
                run: name(text("run")),
                metric: name(metric),
                figure: Figure { value, unit: name(unit), better },
            }))
        };
        match columns.of.get("value") {
            Some(at) => rows.extend(row(text("metric"), text("unit"), *at)?),
            None => {
                for (at, metric, unit) in &columns.wide {
                    rows.extend(row(metric, unit, *at)?);
                }
            }
        }
    }
    Ok(rows)
}

fn number(text: &str) -> Option<f64> {
    text.parse().ok().filter(|v: &f64| v.is_finite())
}

struct Columns {
    of: BTreeMap<&'static str, usize>,
    /// Columns that are metrics: place, name and unit.
    wide: Vec<(usize, String, String)>,
}

impl Columns {
    fn of(table: &Table<'_>, names: &[&str], reading: &Reading) -> Result<Columns> {
        let mut of = BTreeMap::new();
        for (what, usual) in COLUMNS {
            let is_free = |at: &usize| !of.values().any(|other| other == at);
            let place = |name: &str| names.iter().position(|n| n.eq_ignore_ascii_case(name)).filter(is_free);
            let at = match reading.columns.get(what) {
                Some(name) => Some(place(name).ok_or_else(|| {
                    table
                        .error(0, Error::unknown("column", name, names.iter().copied()).message().to_owned())
                        .help(format!("its columns: {}", names.join(", ")))
                })?),
                None => usual.iter().find_map(|name| place(name)),
            };
            of.extend(at.map(|at| (what, at)));
        }
        let at_first = |text: String| table.error(table.lines[0][0].offset, text);
        if !of.contains_key("date") && !of.contains_key("commit") {
            return Err(at_first("no column has the date or the commit".to_owned())
                .help(format!("--column date=NAME names one of: {}", names.join(", "))));
        }
        let mut wide = Vec::new();
        if !of.contains_key("metric") {
            // "value" alone is a metric like any other.
            of.remove("value");
            let is_number = |at: &usize| {
                let mut filled =
                    table.lines[1..].iter().filter_map(|l| l.get(*at)).filter(|f| !f.text.is_empty());
                let asked = reading.metrics.iter().any(|m| m == unit_of(names[*at]).0);
                asked || filled.next().is_some_and(|f| number(&f.text).is_some())
            };
            let free = (0..names.len()).filter(|at| !of.values().any(|other| other == at)).filter(is_number);
            wide = free
                .map(|at| {
                    let (name, unit) = unit_of(names[at]);
                    (at, name.to_owned(), unit.to_owned())
                })
                .collect();
            if wide.is_empty() {
                return Err(at_first("no column has numbers of a metric".to_owned()).help(
                    "a line has the columns metric and value, or each metric has a column of its own",
                ));
            }
        } else if !of.contains_key("value") {
            return Err(at_first("a column has the metric, and none has its value".to_owned())
                .help(format!("--column value=NAME names one of: {}", names.join(", "))));
        }
        Ok(Columns { of, wide })
    }
}

/// Name and unit of a column's head: "p99 [ns]", "p99 (ns)".
fn unit_of(name: &str) -> (&str, &str) {
    let with = |open: char, close: char| {
        let (name, unit) = name.strip_suffix(close)?.rsplit_once(open)?;
        Some((name.trim_end(), unit))
    };
    with('[', ']').or_else(|| with('(', ')')).unwrap_or((name, ""))
}
