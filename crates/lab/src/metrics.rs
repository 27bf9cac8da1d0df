//! Metrics by name: whether a name can exist, and its value in a record.
//!
//! The `record` crate's table defines metrics. This module turns a dotted name of an experiment into a number
//! of a run.

use crate::command;
use schedlab_base::{Error, Result};
use schedlab_record::{Better, Metric, Record, Value};
use schedlab_workload::Spec;

/// Metrics shown first for a workload that names none of its own.
pub const HEADLINE: &[&str] = &["wakeup_delay.p50", "wakeup_delay.p99", "wakeup_delay.p99.9"];

/// A series that a workload declares or a record holds: name, unit, direction.
pub type Declared = (String, String, Better);

/// A metric's value in one run, with its unit and direction.
#[derive(Clone, Debug, PartialEq)]
pub struct Evaluated {
    /// Unit: "ns", "1/s", "" for counts.
    pub unit: String,
    /// Which direction is good.
    pub better: Better,
    /// The value.
    pub value: Value,
}

/// Checks that a metric of that name can exist, given these series of the workload and these figures of
/// commands.
///
/// # Errors
/// When there is none; the nearest name is offered.
pub fn check(name: &str, series: &[Declared], figures: &[String]) -> Result<()> {
    if command::is_declared(figures, name) {
        return Ok(());
    }
    // A name that begins like a figure is meant as one, so figures' names help more than those of the table.
    let first = name.split('.').next().unwrap_or(name);
    let own = || figures.iter().filter(|f| f.split('.').next() == Some(first)).map(String::as_str);
    if own().next().is_some() && !series.iter().any(|(s, ..)| name.starts_with(&format!("{s}."))) {
        return Err(Error::unknown("figure", name, own()));
    }
    Metric::find_with(name, series.iter().map(|(n, u, b)| (n.as_str(), u.as_str(), *b))).map(|_| ())
}

/// The metrics of workloads beside those that all have: declared series, and figures of commands.
#[derive(Clone, Debug, Default)]
pub struct Known {
    series: Vec<Declared>,
    figures: Vec<String>,
}

impl Known {
    /// The metrics of all these workloads.
    ///
    /// # Errors
    /// When a workload's own table or file is wrong.
    pub fn of<'s>(specs: impl IntoIterator<Item = &'s Spec>) -> Result<Known> {
        let mut known = Known::default();
        let mut last = None;
        for spec in specs {
            // Cells of one load lie side by side.
            if last != Some(spec) {
                known.add(spec)?;
            }
            last = Some(spec);
        }
        Ok(known)
    }
    fn add(&mut self, spec: &Spec) -> Result<()> {
        if let Spec::Command(command) = spec {
            self.figures.extend(command::declared(command)?);
            self.series.extend(command::declared_series(command)?);
            return Ok(());
        }
        for s in spec.build(0)?.series {
            if !self.series.iter().any(|(name, ..)| *name == s.name) {
                self.series.push((s.name, s.unit, Better::parse(&s.better)?));
            }
        }
        Ok(())
    }
    /// Checks that one of the workloads can give that metric.
    ///
    /// # Errors
    /// When none can; the nearest name is offered.
    pub fn check(&self, name: &str) -> Result<()> {
        check(name, &self.series, &self.figures).map_err(|e| {
            // Tables leave out the program's name.
            let whole = self.series.iter().find_map(|(series, ..)| {
                let (program, rest) = series.split_once('.')?;
                name.strip_prefix(rest)?.starts_with('.').then(|| format!("{program}.{name}"))
            });
            match whole {
                Some(whole) => e.help(format!("did you mean '{whole}'?")),
                None => e,
            }
        })
    }
}

/// The value of a metric in a record. A name that it can't have is a missing value, with the reason.
pub fn evaluate(record: &Record, name: &str) -> Evaluated {
    if let Some(figure) = record.found.figures.get(name) {
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
