//! What can be asked of a record: the metric table, names, and values.
//!
//! A metric has a dotted name. Counters bear it as it is; a distribution is asked by statistic (`wakeup_delay.p99`).
//! [`METRICS`] is the one table: validation, the nearest name, units, directions and docs/metrics.md derive from it.
//! "Not measured" is a value of its own, with its reason, and never 0 (DESIGN.md, rule 5).

pub mod docs;
mod stat;
mod table;

pub use stat::Stat;
pub use table::METRICS;

use crate::Record;
use crate::series::Series;
use schedlab_base::{Error, Result};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Which direction of a metric is good.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Better {
    /// Less is better.
    Lower,
    /// More is better.
    Higher,
    /// No direction is good: a change is only a change.
    Neither,
}

impl Better {
    /// Reads "lower", "higher" or "neither".
    ///
    /// # Errors
    /// Any other word.
    pub fn parse(text: &str) -> Result<Better> {
        match text {
            "lower" => Ok(Better::Lower),
            "higher" => Ok(Better::Higher),
            "neither" => Ok(Better::Neither),
            other => Err(Error::unknown("direction", other, ["lower", "higher", "neither"])),
        }
    }
    /// The word in JSON and tables.
    pub const fn name(self) -> &'static str {
        match self {
            Better::Lower => "lower",
            Better::Higher => "higher",
            Better::Neither => "neither",
        }
    }
}

/// A metric's value in one run.
#[derive(Clone, PartialEq, Debug)]
pub enum Value {
    /// In the metric's unit.
    Number(f64),
    /// Not measured, and why.
    Missing(String),
}

impl Value {
    /// The number, when there is one.
    pub fn number(&self) -> Option<f64> {
        match self {
            Value::Number(n) => Some(*n),
            Value::Missing(_) => None,
        }
    }
}

impl Serialize for Value {
    /// A JSON number, or `{"missing": reason}`.
    fn serialize<S: serde::Serializer>(&self, s: S) -> std::result::Result<S::Ok, S::Error> {
        match self {
            Value::Number(n) => s.serialize_f64(*n),
            Value::Missing(reason) => s.collect_map([("missing", reason)]),
        }
    }
}

/// Names that may stand in a hole of a row's name, each with its sentence.
pub type Choices = fn() -> Vec<(&'static str, &'static str)>;

/// One row of the table of metrics.
#[derive(Debug)]
pub struct Metric {
    /// Dotted name. `<stat>` stands for a [`Stat`], `<program>.<series>` for what a program records, any other word in
    /// brackets for one of `choices`.
    pub name: &'static str,
    /// Unit; "" for counts. Of programs' series it is what they declare.
    pub unit: &'static str,
    /// Which direction is good.
    pub better: Better,
    /// Definition.
    pub about: &'static str,
    /// Backends that can give it.
    pub backends: &'static [&'static str],
    /// What the hole in the name may hold.
    pub choices: Option<Choices>,
}

/// A metric that was asked for by name.
#[derive(Clone, Debug)]
pub struct Resolved {
    /// The full name.
    pub name: String,
    /// Unit; "" for counts.
    pub unit: String,
    /// Which direction is good.
    pub better: Better,
    /// Definition.
    pub about: String,
    /// The row of the table.
    pub row: &'static Metric,
    from: From,
}

/// Where in a record the value lies.
#[derive(Clone, Debug)]
enum From {
    Counter,
    Series { name: String, stat: Stat },
}

const PROGRAM_SERIES: &str = "<program>.<series>.<stat>";

impl Metric {
    /// The metric of that name. A program's series is taken at its word here: whether the workload records it, and in
    /// which unit, only [`Metric::find_with`] knows.
    ///
    /// # Errors
    /// When no row of [`METRICS`] fits, or the statistic is none (`p101`); the nearest name is offered.
    pub fn find(name: &str) -> Result<Resolved> {
        if let Some(found) = METRICS.iter().find_map(|row| row.counter(name)) {
            return Ok(found);
        }
        let (base, stat) = stat::split(name);
        let row = METRICS.iter().find(|r| r.series() == Some(base));
        let row =
            row.or_else(|| METRICS.iter().find(|r| r.name == PROGRAM_SERIES && is_program_series(base)));
        match (row, stat) {
            (Some(row), Ok(stat)) => Ok(row.with_stat(name, base, stat)),
            (Some(_), Err(word)) => Err(Error::input(format!("'{word}' in '{name}' is not a statistic"))
                .help("statistics are mean, min, max, count, and percentiles such as p50, p99 or p99.9")),
            (None, _) => Err(unknown(name)),
        }
    }
    /// As [`Metric::find`], among the series that a workload declares or a record holds: (name, unit, better).
    ///
    /// # Errors
    /// As [`Metric::find`], and when a program's series is asked for that is not among them.
    pub fn find_with<'a>(
        name: &str,
        series: impl IntoIterator<Item = (&'a str, &'a str, Better)>,
    ) -> Result<Resolved> {
        let mut found = Metric::find(name)?;
        let From::Series { name: base, stat } = &found.from else { return Ok(found) };
        if !is_program_series(base) {
            return Ok(found);
        }
        let known: Vec<(&str, &str, Better)> = series.into_iter().collect();
        let Some((_, unit, better)) = known.iter().find(|(n, _, _)| n == base) else {
            return Err(Error::unknown("series", base, known.iter().map(|(n, _, _)| *n))
                .context(format!("metric '{name}'")));
        };
        if *stat != Stat::Count {
            (found.unit, found.better) = ((*unit).to_owned(), *better);
        }
        Ok(found)
    }

    /// The metric as a counter of that name, when it is one.
    fn counter(&'static self, name: &str) -> Option<Resolved> {
        if self.series().is_some() || self.name == PROGRAM_SERIES {
            return None;
        }
        let about = match (self.choices, self.hole()) {
            (Some(choices), Some((before, after))) => {
                let word = name.strip_prefix(before)?.strip_suffix(after)?;
                let (_, sentence) = choices().into_iter().find(|(n, _)| *n == word)?;
                format!("{}: {sentence}", self.about)
            }
            _ => (self.name == name).then(|| self.about.to_owned())?,
        };
        let (name, unit) = (name.to_owned(), self.unit.to_owned());
        Some(Resolved { name, unit, better: self.better, about, row: self, from: From::Counter })
    }
    fn with_stat(&'static self, name: &str, base: &str, stat: Stat) -> Resolved {
        let count = stat == Stat::Count;
        Resolved {
            name: name.to_owned(),
            unit: if count { String::new() } else { self.unit.to_owned() },
            better: if count { Better::Neither } else { self.better },
            about: format!("{} of: {}", stat.about(), self.about),
            row: self,
            from: From::Series { name: base.to_owned(), stat },
        }
    }
    /// The series whose statistics the row stands for.
    fn series(&self) -> Option<&'static str> {
        self.name.strip_suffix(".<stat>").filter(|_| self.name != PROGRAM_SERIES)
    }
    /// What stands before and after the hole in the name.
    fn hole(&self) -> Option<(&'static str, &'static str)> {
        let (before, rest) = self.name.split_once('<')?;
        Some((before, rest.split_once('>')?.1))
    }
    /// Every name the row stands for; of statistics those that are usually asked for.
    pub fn names(&self) -> Vec<String> {
        match (self.series(), self.choices, self.hole()) {
            (Some(series), _, _) => Stat::USUAL.iter().map(|s| format!("{series}.{s}")).collect(),
            (_, Some(choices), Some((before, after))) => {
                choices().iter().map(|(word, _)| format!("{before}{word}{after}")).collect()
            }
            _ => vec![self.name.to_owned()],
        }
    }
}

/// Whether the table knows no such family: then the words are a program's and its series'.
fn is_program_series(base: &str) -> bool {
    let first = base.split('.').next().unwrap_or(base);
    let ours = |row: &Metric| row.name.split('.').next() == Some(first) && !row.is_program();
    base.contains('.') && base.split('.').all(|word| !word.is_empty()) && !METRICS.iter().any(ours)
}

impl Metric {
    /// Whether a workload's program records it.
    fn is_program(&self) -> bool {
        self.name == PROGRAM_SERIES || self.series().is_some_and(|s| s.contains('.'))
    }
}

fn unknown(name: &str) -> Error {
    let known: Vec<String> = METRICS.iter().flat_map(Metric::names).collect();
    let help = match schedlab_base::nearest::nearest(name, known.iter().map(String::as_str)) {
        Some(near) => format!("did you mean '{near}'?"),
        None => {
            let rows: Vec<&str> = METRICS.iter().map(|r| r.name).collect();
            format!("metrics are: {}", rows.join(", "))
        }
    };
    Error::input(format!("unknown metric '{name}'")).help(help)
}

impl Resolved {
    /// The metric's value in a record.
    pub fn evaluate(&self, record: &Record) -> Value {
        self.evaluate_in(&record.backend, &record.series, &record.counters)
    }
    fn evaluate_in(
        &self,
        backend: &str,
        series: &BTreeMap<String, Series>,
        counters: &BTreeMap<String, u64>,
    ) -> Value {
        let value = match &self.from {
            From::Counter => counters.get(&self.name).map(|n| Value::Number(*n as f64)),
            From::Series { name, stat } => series.get(name).map(|s| stat.of(s)),
        };
        value.unwrap_or_else(|| {
            Value::Missing(if self.row.backends.contains(&backend) {
                "not measured in this run".to_owned()
            } else {
                format!("the {backend} backend does not measure it")
            })
        })
    }
}

/// The value of the metric of that name in a record; an unknown name or series is missing too, with the error's words.
pub fn evaluate(record: &Record, name: &str) -> Value {
    let series = record.series.iter().map(|(n, s)| (n.as_str(), s.unit(), s.better()));
    match Metric::find_with(name, series) {
        Ok(metric) => metric.evaluate(record),
        Err(e) => Value::Missing(e.message().to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tests::record;

    #[test]
    fn names_resolve_to_unit_direction_and_definition() {
        let unit = |name: &str| {
            let m = Metric::find(name).unwrap();
            (m.unit.clone(), m.better)
        };
        assert_eq!(unit("wakeup_delay.p99.9"), ("ns".into(), Better::Lower));
        assert_eq!(unit("wakeup_delay.count"), (String::new(), Better::Neither));
        assert_eq!(unit("schbench.latency.p99.5"), ("ns".into(), Better::Lower));
        assert_eq!(unit("work"), ("ns".into(), Better::Higher));
        assert_eq!(unit("balance.newidle.time"), ("ns".into(), Better::Lower));
        let m = Metric::find("placement.idle_core").unwrap();
        assert!(m.about.ends_with("a core with all threads idle was found"), "{}", m.about);
    }

    #[test]
    fn wrong_names_get_the_nearest() {
        for (name, near) in [
            ("wakup_delay.p99", "wakeup_delay.p99"),
            ("placement.idle_cor", "placement.idle_core"),
            ("switches.volontary", "switches.voluntary"),
            ("slice.end.idle", "slice.end."),
        ] {
            let text = Metric::find(name).unwrap_err().to_string();
            assert!(text.contains(&format!("did you mean '{near}")), "{text}");
        }
        let text = Metric::find("utterly unlike anything there is at all").unwrap_err().to_string();
        assert!(text.contains("<program>.<series>.<stat>"), "{text}");
        for name in ["", ".", "p99", "placement.x.p99", "a..p99", ".a.p99"] {
            assert!(Metric::find(name).is_err(), "{name}");
        }
    }

    #[test]
    fn a_statistic_that_is_none_is_named() {
        for name in ["schbench.latency.p101", "wakeup_delay.p100", "wakeup_delay.p0", "x.y.median"] {
            let e = Metric::find(name).unwrap_err();
            assert!(e.message().contains("is not a statistic"), "{e}");
        }
    }

    #[test]
    fn programs_series_are_looked_up_among_those_declared() {
        let declared = [("pipe.rate", "1/s", Better::Higher)];
        let m = Metric::find_with("pipe.rate.mean", declared).unwrap();
        assert_eq!((m.unit.as_str(), m.better), ("1/s", Better::Higher));
        let e = Metric::find_with("pipe.rat.mean", declared).unwrap_err();
        assert!(e.to_string().contains("did you mean 'pipe.rate'"), "{e}");
        assert!(Metric::find_with("wakeup_delay.p50", declared).is_ok());
    }

    #[test]
    fn what_was_not_measured_says_why() {
        let mut r = record(1);
        r.counters.insert("migrations".into(), 0);
        assert_eq!(evaluate(&r, "migrations"), Value::Number(0.0));
        assert_eq!(evaluate(&r, "schbench.latency.count"), Value::Number(5000.0));
        assert_eq!(evaluate(&r, "schbench.latency.min"), Value::Number(0.0));
        let why = |v: Value| match v {
            Value::Missing(reason) => reason,
            Value::Number(n) => panic!("{n} was measured"),
        };
        assert_eq!(why(evaluate(&r, "wakeups")), "not measured in this run");
        assert!(why(evaluate(&r, "schbench.latency.p99.9")).contains("10 are needed"));
        assert!(why(evaluate(&r, "other.latency.p50")).contains("unknown series"));
        r.backend = "host".into();
        assert_eq!(why(evaluate(&r, "placement.idle_core")), "the host backend does not measure it");
    }

    #[test]
    fn every_name_of_the_table_finds_its_own_row() {
        let mut all = Vec::new();
        for row in METRICS.iter().filter(|r| r.name != PROGRAM_SERIES) {
            for name in row.names() {
                let found = Metric::find(&name).unwrap();
                assert_eq!(found.row.name, row.name, "{name}");
                all.push(name);
            }
        }
        let total = all.len();
        all.sort_unstable();
        all.dedup();
        assert_eq!(all.len(), total, "no name stands in two rows");
    }

    #[test]
    fn what_the_analyser_counts_is_in_the_table() {
        use schedlab_base::{CpuId, Ns, TaskId};
        use schedlab_trace::{BalanceTrigger, Event, EventKind, Sink};
        let mut an = crate::Analyser::new(1, Vec::new(), Vec::new(), Ns::ZERO);
        let kind =
            EventKind::Balance { level: 0, trigger: BalanceTrigger::Idle, moved: 0, visited: 1, took_ns: 1 };
        an.event(&Event { at: Ns(1), cpu: CpuId(0), kind });
        an.sample(Ns(1), TaskId(0), 0, 1);
        let seen = an.finish(Ns(10));
        for name in seen.counters.keys() {
            assert!(Metric::find(name).is_ok(), "{name}");
        }
        assert!(seen.counters.len() > 40);
        for name in seen.series.keys() {
            let m = Metric::find(&format!("{name}.p50")).unwrap();
            assert_eq!((m.unit.as_str(), m.better), (seen.series[name].unit(), seen.series[name].better()));
        }
    }
}
