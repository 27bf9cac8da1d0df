//! Metrics by name: whether a name can exist, and its value in a record.
//!
//! The `record` crate's table defines metrics. This module turns a dotted name into a number of a run.

use crate::tools;
use schedlab_base::{Error, Result, nearest};
use schedlab_record::{Better, Metric, Record, Value};
use schedlab_workload::{Benchmark, Spec, spec};
use std::collections::BTreeMap;

/// Headline metrics of a workload that names none.
pub const HEADLINE: &[&str] = &["wakeup_delay.p50", "wakeup_delay.p99", "wakeup_delay.p99.9"];

/// The kind of workload in records of benchmarks ([`Spec::Bench`]).
const BENCHMARK: &str = "bench";

/// A series that a workload declares or a record holds: name, unit, direction.
pub type Declared = (String, String, Better);

/// A metric's value in one run, with its unit and direction.
#[derive(Clone, Debug, PartialEq)]
pub struct Evaluated {
    /// "ns", "1/s", "" for counts.
    pub unit: String,
    pub better: Better,
    pub value: Value,
}

/// The benchmark of which a record is a run; `None` for other runs, even if their workload has a benchmark's name, as a
/// recorded or saved command may.
pub fn benchmark(record: &Record) -> Option<&'static Benchmark> {
    let kind = record.spec.get("kind").and_then(serde_json::Value::as_str);
    if kind.is_some_and(|kind| kind != BENCHMARK) {
        return None;
    }
    spec::find(&record.workload).ok()
}

/// Checks that a metric of this name can exist, given the workload's series and the commands' figures.
///
/// # Errors
/// When it can't; the nearest name is offered.
pub fn check(name: &str, series: &[Declared], figures: &[String]) -> Result<()> {
    if tools::is_declared(figures, name) || of_figure(name).is_some_and(|f| tools::is_declared(figures, f)) {
        return Ok(());
    }
    // A name that begins like a figure's probably means one, so figures' names help more than the table's.
    let first = name.split('.').next().unwrap_or(name);
    let own = || figures.iter().filter(|f| f.split('.').next() == Some(first)).map(String::as_str);
    if own().next().is_some() && !series.iter().any(|(s, ..)| name.starts_with(&format!("{s}."))) {
        return Err(Error::unknown("figure", name, own()));
    }
    let found = Metric::find_with(name, series.iter().map(|(n, u, b)| (n.as_str(), u.as_str(), *b)));
    found.map(|_| ()).map_err(|e| {
        let is_near = e.remedy().is_some_and(|help| help.starts_with("did you mean"));
        match likest(name, series, figures).filter(|_| !is_near) {
            Some(whole) => e.help(format!("did you mean '{whole}'?")),
            None => e,
        }
    })
}

/// The full name of the workload's own metric that is spelled most like `name`, in full or as tables print it.
fn likest(name: &str, series: &[Declared], figures: &[String]) -> Option<String> {
    let stats = |s: &Declared| ["mean", "p50", "p99", "max"].map(|stat| format!("{}.{stat}", s.0));
    let figures = figures.iter().filter(|f| !f.contains('<')).cloned();
    let all: Vec<String> = figures.chain(series.iter().flat_map(stats)).collect();
    let in_tables = all.iter().filter_map(|whole| Some((whole.split_once('.')?.1, whole)));
    let spelled: BTreeMap<&str, &String> = in_tables.chain(all.iter().map(|w| (w.as_str(), w))).collect();
    let near = nearest::nearest(name, spelled.keys().copied())?;
    spelled.get(near).map(|whole| (*whole).clone())
}

/// The metrics that workloads have in addition to the common ones: declared series, and figures of commands.
#[derive(Clone, Debug, Default)]
pub struct KnownMetrics {
    series: Vec<Declared>,
    figures: Vec<String>,
}

impl KnownMetrics {
    /// The metrics of all these workloads.
    ///
    /// # Errors
    /// When a workload's own table or file is wrong.
    pub fn of<'s>(specs: impl IntoIterator<Item = &'s Spec>) -> Result<KnownMetrics> {
        let mut known = KnownMetrics::default();
        let mut last = None;
        for spec in specs {
            // Cells of one load are adjacent.
            if last != Some(spec) {
                known.add(spec)?;
            }
            last = Some(spec);
        }
        Ok(known)
    }
    fn add(&mut self, spec: &Spec) -> Result<()> {
        if let Spec::Command(command) = spec {
            self.figures.extend(tools::declared(command)?);
            self.series.extend(tools::declared_series(command)?);
            return Ok(());
        }
        for s in spec.build(0)?.series {
            if !self.series.iter().any(|(name, ..)| *name == s.name) {
                self.series.push((s.name, s.unit, Better::parse(&s.better)?));
            }
        }
        Ok(())
    }
    /// Checks that one of the workloads can give a metric.
    ///
    /// # Errors
    /// When none can; the nearest name is offered.
    pub fn check(&self, name: &str) -> Result<()> {
        check(name, &self.series, &self.figures).map_err(|e| match &self.in_full(name)[..] {
            [whole, ..] => e.help(format!("did you mean '{whole}'?")),
            [] => e,
        })
    }
    pub fn in_full(&self, name: &str) -> Vec<String> {
        in_full(name, &self.series, &self.figures)
    }
    /// These metrics, with full names in place of the short ones that tables print.
    pub fn spelled_out(&self, names: &[String]) -> Vec<String> {
        let one = |name: &String| match self.check(name) {
            Ok(()) => vec![name.clone()],
            Err(_) => {
                Some(self.in_full(name)).filter(|all| !all.is_empty()).unwrap_or_else(|| vec![name.clone()])
            }
        };
        names.iter().flat_map(one).collect()
    }
}

/// The name of the figure, if a figure is asked for as the mean of a series. A tool prints `hackbench.elapsed`; the
/// benchmark of that name has a series with the mean `hackbench.elapsed.mean`. Both names work for both.
fn of_figure(name: &str) -> Option<&str> {
    name.strip_suffix(".mean")
}

/// The full names of a metric that tables print without the program's name; empty if no series or figure has it.
pub fn in_full(name: &str, series: &[Declared], figures: &[String]) -> Vec<String> {
    let of_series = series.iter().filter_map(|(series, ..)| {
        let (program, rest) = series.split_once('.')?;
        name.strip_prefix(rest)?.starts_with('.').then(|| format!("{program}.{name}"))
    });
    let of_figures =
        figures.iter().filter(|f| f.split_once('.').is_some_and(|(_, rest)| rest == name)).cloned();
    let mut all: Vec<String> = Vec::new();
    for whole in of_series.chain(of_figures) {
        if !all.contains(&whole) {
            all.push(whole);
        }
    }
    all
}

/// The value of a metric in a record. A name that can't exist gives a missing value with the reason.
pub fn evaluate(record: &Record, name: &str) -> Evaluated {
    let figures = &record.found.figures;
    if let Some(figure) = figures.get(name).or_else(|| figures.get(of_figure(name)?)) {
        let (unit, better) = (figure.unit.clone(), figure.better);
        return Evaluated { unit, better, value: Value::Number(figure.value) };
    }
    match Metric::find_with(name, record.found.series.iter().map(|(n, s)| (n.as_str(), s.unit(), s.better())))
    {
        Ok(m) => Evaluated { value: m.evaluate(record), unit: m.unit, better: m.better },
        Err(e) => Evaluated {
            unit: String::new(),
            better: Better::Neither,
            value: Value::Missing(match name.strip_prefix(&record.workload).filter(|n| n.starts_with('.')) {
                None if name.contains('.') => format!("{} does not give it", record.workload),
                _ => e.message().to_owned(),
            }),
        },
    }
}
