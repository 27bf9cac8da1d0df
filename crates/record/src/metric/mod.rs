//! Metrics of a record: the table, their names, and their values.
//!
//! A metric has a dotted name. A counter has a plain name; a distribution needs a statistic (`wakeup_delay.p99`).
//! [`METRICS`] is the one table: validation, nearest names, units, directions and docs/metrics.md derive from it. "Not
//! measured" is a value with a reason, never 0.

pub mod docs;
mod group;
pub mod guest;
pub mod perf;
mod stat;
mod table;
mod task_group;
#[cfg(test)]
mod tests;
pub mod woken;

pub use perf::{COUNTERS, COUNTING};

/// The beginning of the reason for a missing counter that was not asked for.
pub const NOT_WATCHED: &str = "not watched";
pub use schedlab_stats::{Better, Value};
pub use stat::Stat;
pub use table::METRICS;

use crate::cycles::CyclesOf;
use crate::findings::is_of_reasons;
use crate::schedstat::{IdleType, Query};
use crate::{Observe, Record};
use group::GroupQuery;
pub use group::names as of_group;
use schedlab_base::{Backend, Error, Ns, Result};
use schedlab_stats::series::{KEPT, Series};

/// Names that may fill the placeholder in a row's name, each with a sentence.
pub type Choices = fn() -> Vec<(&'static str, &'static str)>;

/// One row of the table of metrics.
#[derive(Debug)]
pub struct Metric {
    /// Dotted name. `<stat>` stands for a [`Stat`], `<program>.<series>` for a program's series, any other word in
    /// brackets for one of `choices`. [`Query`] reads names of schedstat counters.
    pub name: &'static str,
    /// "" for counts. Programs declare the units of their series.
    pub unit: &'static str,
    pub better: Better,
    pub about: &'static str,
    /// Backends that can give the metric.
    pub backends: &'static [Backend],
    /// Names for the placeholder; for the last one if there are several.
    pub choices: Option<Choices>,
    pub rate: Option<Rate>,
    /// How closely a live run must be watched to have it.
    pub watched: Observe,
    /// The formula of a metric that follows from other counters of the run.
    pub formula: Option<Formula>,
}

/// A figure computed from several counters of a run; `None` if they were not measured.
pub type Formula = fn(&Record) -> Option<f64>;

/// A counter in percent of the time in which CPUs were not idle, summed over CPUs.
pub(crate) fn busy_share(record: &Record, counter: &str) -> Option<f64> {
    let ns = |name: &str| record.found.counters.get(name).map(|n| *n as f64);
    let all = record.found.duration.0 as f64 * record.machine.topology.nr_cpus() as f64;
    let busy = all - ns("idle_time")?;
    (busy > 0.0).then_some(())?;
    Some(100.0 * ns(counter)? / busy)
}

/// A counter of ns over the measured time.
pub(crate) fn over_time(record: &Record, counter: &str) -> Option<f64> {
    let ns = *record.found.counters.get(counter)? as f64;
    (record.found.duration > Ns::ZERO).then(|| ns / record.found.duration.0 as f64)
}

/// Newidle passes over the lowest domain, in percent of the number of times a CPU went idle.
pub(crate) fn newidle_entries(record: &Record) -> Option<f64> {
    let stat = record.found.schedstat.as_ref()?;
    let entries: u64 = stat.cpus.iter().map(|c| c.sched_goidle).sum();
    let lowest = stat.cpus.iter().filter_map(|c| c.domains.first());
    let passes: u64 = lowest.map(|d| d.lb[IdleType::Newidle as usize].lb_count).sum();
    (entries > 0).then(|| 100.0 * passes as f64 / entries as f64)
}

/// A rate of a program's series, per second of measured time.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Rate {
    /// Of the number of values.
    Count(&'static str),
    Sum(&'static str),
}

impl Rate {
    pub const fn series(self) -> &'static str {
        match self {
            Rate::Count(name) | Rate::Sum(name) => name,
        }
    }
    /// The rate over a measured time.
    fn of(self, series: &Series, measured: Ns) -> Value {
        let amount = match self {
            Rate::Count(_) => u128::from(series.count()),
            Rate::Sum(_) => series.sum(),
        };
        match measured {
            Ns::ZERO => Value::Missing("no time was measured".to_owned()),
            Ns(ns) => Value::Number(amount as f64 * 1e9 / ns as f64),
        }
    }
}

impl Metric {
    fn is_schedstat(&self) -> bool {
        self.name.ends_with("<counter>")
    }
}

/// A metric that was found by name.
#[derive(Clone, Debug)]
pub struct Resolved {
    pub name: String,
    /// "" for counts.
    pub unit: String,
    pub better: Better,
    pub about: String,
    pub row: &'static Metric,
    from: MetricSource,
}

#[derive(Clone, Debug)]
enum MetricSource {
    Counter,
    Formula(Formula),
    Rate(Rate),
    Group(GroupQuery),
    /// CPUs that a task group used.
    TaskGroup,
    Cycles(CyclesOf),
    Schedstat(Query),
    Series {
        name: String,
        stat: Stat,
    },
}

const PROGRAM_SERIES: &str = "<program>.<series>.<stat>";
const CYCLES_SELF: &str = "cycles.self.<function>";
const CYCLES_TOTAL: &str = "cycles.total.<function>";

impl Metric {
    /// Finds a metric by name. Any program's series is accepted; [`Metric::find_with`] knows the workload's series and
    /// their units.
    ///
    /// # Errors
    /// When no row of [`METRICS`] fits, or the statistic does not exist (`p101`); the nearest name is offered.
    pub fn find(name: &str) -> Result<Resolved> {
        if let Some(query) = GroupQuery::parse(name) {
            let row = METRICS.iter().find(|r| r.name == query.pattern());
            let about = |row: &Metric| match query.stat() {
                Some(stat) => format!("{} of: {}", stat.about(), row.about),
                None => row.about.to_owned(),
            };
            let none = || Error::internal(format!("the table of metrics has no row {}", query.pattern()));
            let mut found = row
                .ok_or_else(none)
                .map(|r| r.resolved(name, about(r), MetricSource::Group(query.clone())))?;
            if query.stat() == Some(Stat::Count) {
                (found.unit, found.better) = (String::new(), Better::Neither);
            }
            return Ok(found);
        }
        if let Some(query) = Query::parse(name) {
            let query = query.map_err(|e| e.context(format!("metric '{name}'")))?;
            return METRICS
                .iter()
                .find(|r| r.name == query.pattern())
                .map(|r| r.asking(name, query))
                .ok_or_else(|| {
                    Error::internal(format!("the table of metrics has no row {}", query.pattern()))
                });
        }
        let rows = || METRICS.iter().filter(|row| row.begins_as(name));
        if let Some(found) = rows().find_map(|row| row.counter(name)) {
            return Ok(found);
        }
        let (base, stat) = stat::split(name);
        let row = rows().find(|r| r.is_series(base));
        let row =
            row.or_else(|| METRICS.iter().find(|r| r.name == PROGRAM_SERIES && is_program_series(base)));
        match (row, stat) {
            (Some(row), Ok(stat)) => Ok(row.with_stat(name, base, stat)),
            (Some(_), Err(word)) => Err(Error::input(format!("'{word}' in '{name}' is not a statistic"))
                .help("statistics are mean, min, max, count, and percentiles such as p50, p99 or p99.9")),
            (None, _) => Err(unknown(name)),
        }
    }
    /// Finds a metric by name, given the series that a workload declares or a record holds: (name, unit, better). The
    /// name of a program's series alone means its mean.
    ///
    /// # Errors
    /// As [`Metric::find`], and when the program's series is not declared.
    pub fn find_with<'a>(
        name: &str,
        series: impl IntoIterator<Item = (&'a str, &'a str, Better)>,
    ) -> Result<Resolved> {
        let known: Vec<(&str, &str, Better)> = series.into_iter().collect();
        // The series alone means its mean: most have one value in each run.
        let mean = format!("{name}.mean");
        let name =
            if known.iter().any(|(n, _, _)| *n == name) && is_program_series(name) { &mean } else { name };
        let mut found = Metric::find(name)?;
        let Some(base) = found.series() else { return Ok(found) };
        if !is_program_series(base) {
            return Ok(found);
        }
        let Some((_, unit, better)) = known.iter().find(|(n, _, _)| *n == base) else {
            return Err(Error::unknown("series", base, known.iter().map(|(n, _, _)| *n))
                .context(format!("metric '{name}'")));
        };
        if matches!(&found.from, MetricSource::Series { stat, .. } if *stat != Stat::Count) {
            (found.unit, found.better) = ((*unit).to_owned(), *better);
        }
        Ok(found)
    }

    /// Whether the row may be of that name, by the first letter: tables look up names by the thousand.
    fn begins_as(&self, name: &str) -> bool {
        let first = self.name.as_bytes().first();
        first == Some(&b'<') || first == name.as_bytes().first()
    }
    /// The metric, if the row is a counter of this name.
    fn counter(&'static self, name: &str) -> Option<Resolved> {
        if self.is_schedstat() || self.series().is_some() || self.name == PROGRAM_SERIES {
            return None;
        }
        let about = match (self.choices, self.hole()) {
            (Some(choices), Some((before, after))) => {
                let word = name.strip_prefix(before)?.strip_suffix(after)?;
                let (_, sentence) = choices().into_iter().find(|(n, _)| *n == word)?;
                format!("{}: {sentence}", self.about)
            }
            (None, Some((before, "")))
                if ["<group>", "<function>"].iter().any(|hole| self.name.ends_with(hole)) =>
            {
                name.strip_prefix(before).filter(|word| !word.is_empty())?;
                self.about.to_owned()
            }
            (None, Some((before, after))) if self.name.contains("<path>") => {
                name.strip_prefix(before)?.strip_suffix(after)?.strip_prefix('/')?;
                self.about.to_owned()
            }
            _ => (self.name == name).then(|| self.about.to_owned())?,
        };
        let from = match (self.rate, self.formula, self.name) {
            (Some(rate), _, _) => MetricSource::Rate(rate),
            (None, Some(formula), _) => MetricSource::Formula(formula),
            (None, None, task_group::CPUS) => MetricSource::TaskGroup,
            (None, None, CYCLES_SELF) => MetricSource::Cycles(CyclesOf::Own),
            (None, None, CYCLES_TOTAL) => MetricSource::Cycles(CyclesOf::Total),
            (None, None, _) => MetricSource::Counter,
        };
        Some(self.resolved(name, about, from))
    }
    fn resolved(&'static self, name: &str, about: String, from: MetricSource) -> Resolved {
        let (name, unit) = (name.to_owned(), self.unit.to_owned());
        Resolved { name, unit, better: self.better, about, row: self, from }
    }
    fn asking(&'static self, name: &str, query: Query) -> Resolved {
        let (unit, about) = query.unit_and_about();
        Resolved {
            name: name.to_owned(),
            unit: unit.to_owned(),
            better: if query.lower_is_better() { Better::Lower } else { Better::Neither },
            about: format!("{}: {about}", self.about),
            row: self,
            from: MetricSource::Schedstat(query),
        }
    }
    fn with_stat(&'static self, name: &str, base: &str, stat: Stat) -> Resolved {
        let count = stat == Stat::Count;
        Resolved {
            name: name.to_owned(),
            unit: if count { String::new() } else { self.unit.to_owned() },
            better: if count { Better::Neither } else { self.better },
            about: format!("{} of: {}", stat.about(), self.about),
            row: self,
            from: MetricSource::Series { name: base.to_owned(), stat },
        }
    }
    /// The series whose statistics the row describes.
    fn series(&self) -> Option<&'static str> {
        self.name.strip_suffix(".<stat>").filter(|_| self.name != PROGRAM_SERIES)
    }
    /// Whether `base` is the row's series, or one of them.
    fn is_series(&self, base: &str) -> bool {
        let word = |(before, after)| base.strip_prefix(before)?.strip_suffix(after);
        self.series().is_some_and(|series| match (self.choices, series.split_once('<')) {
            (Some(choices), Some((before, rest))) => {
                let hole = (before, rest.split_once('>').map_or("", |(_, after)| after));
                word(hole).is_some_and(|word| choices().iter().any(|(choice, _)| *choice == word))
            }
            (None, Some((before, rest))) if rest.starts_with("path>") => {
                word((before, &rest["path>".len()..])).is_some_and(|path| path.starts_with('/'))
            }
            _ => series == base,
        })
    }
    /// The text before and after the placeholder in the name.
    fn hole(&self) -> Option<(&'static str, &'static str)> {
        let (before, rest) = self.name.split_once('<')?;
        Some((before, rest.split_once('>')?.1))
    }
    /// Names that the row covers: with the usual statistics, the first CPU and the first domain.
    pub fn names(&self) -> Vec<String> {
        if self.is_schedstat() {
            return self.schedstat_names();
        }
        match (self.series(), self.choices, self.hole()) {
            (Some(_), Some(choices), Some((before, _))) => {
                let of = |stat: &&str| choices().iter().map(|(w, _)| format!("{before}{w}.{stat}")).collect();
                Stat::USUAL.iter().flat_map(|stat| -> Vec<String> { of(stat) }).collect()
            }
            (Some(series), _, _) => {
                let series = series.replace("<path>", "/a");
                Stat::USUAL.iter().map(|s| format!("{series}.{s}")).collect()
            }
            (_, Some(choices), Some((before, after))) => {
                choices().iter().map(|(word, _)| format!("{before}{word}{after}")).collect()
            }
            _ => vec![self.name.replace("<k>", "0").replace("<path>", "/a")],
        }
    }
}

impl Metric {
    fn schedstat_names(&self) -> Vec<String> {
        let place = self.name.replace("<k>", "0").replace("<n>", "0");
        let counters = self.choices.map_or_else(Vec::new, |c| c());
        let types = if place.contains("<type>") { &IdleType::ALL[..] } else { &IdleType::ALL[..1] };
        let of_type = |t: &IdleType| place.replace("<type>", t.name());
        types
            .iter()
            .flat_map(|t| counters.iter().map(move |(word, _)| of_type(t).replace("<counter>", word)))
            .collect()
    }
}

/// Formulas that need more than a record's counters and environment.
const OF_SCHEDSTAT: &[&str] = &["balance.newidle_entries"];

/// Whether the metric needs data of a run that its row in the index ([`crate::index`]) lacks: schedstat, tasks, or
/// another percentile.
pub fn beyond_index(name: &str) -> bool {
    let Ok(metric) = Metric::find(name) else { return false };
    match &metric.from {
        MetricSource::Group(_)
        | MetricSource::TaskGroup
        | MetricSource::Cycles(_)
        | MetricSource::Schedstat(_) => true,
        MetricSource::Formula(_) => OF_SCHEDSTAT.contains(&metric.row.name),
        MetricSource::Series { stat: Stat::Percentile(milli), .. } => !KEPT.contains(milli),
        MetricSource::Counter | MetricSource::Rate(_) | MetricSource::Series { .. } => false,
    }
}

/// Whether programs record the series, rather than the analyser.
pub fn of_program(series: &str) -> bool {
    is_program_series(series)
}

/// Whether the table lacks this family. Then the words are a program and its series.
fn is_program_series(base: &str) -> bool {
    let first = base.split('.').next().unwrap_or(base);
    let ours = |row: &Metric| row.name.split('.').next() == Some(first) && !row.is_program();
    base.contains('.') && base.split('.').all(|word| !word.is_empty()) && !METRICS.iter().any(ours)
}

impl Metric {
    /// Whether a workload's program records it.
    fn is_program(&self) -> bool {
        let declared = |s: &str| s.contains('.') && !s.contains('<');
        self.name == PROGRAM_SERIES || self.rate.is_some() || self.series().is_some_and(declared)
    }
}

/// Number of names that a message lists if none is near.
const LIKEST: usize = 6;

fn unknown(name: &str) -> Error {
    let known: Vec<String> = METRICS.iter().flat_map(Metric::names).collect();
    let help = match schedlab_base::nearest::nearest(name, known.iter().map(String::as_str)) {
        Some(near) => format!("did you mean '{near}'?"),
        None => {
            let likest = schedlab_base::nearest::likest(name, known.iter().map(String::as_str), LIKEST);
            format!(
                "the likest are {}; a workload's own are {PROGRAM_SERIES}; docs/metrics.md lists all",
                likest.join(", ")
            )
        }
    };
    Error::input(format!("unknown metric '{name}'")).help(help)
}

impl Resolved {
    pub fn series(&self) -> Option<&str> {
        match &self.from {
            MetricSource::Counter
            | MetricSource::Formula(_)
            | MetricSource::Group(_)
            | MetricSource::TaskGroup
            | MetricSource::Cycles(_)
            | MetricSource::Schedstat(_) => None,
            MetricSource::Rate(rate) => Some(rate.series()),
            MetricSource::Series { name, .. } => Some(name),
        }
    }
    pub fn evaluate(&self, record: &Record) -> Value {
        if let Some(why) = guest::withheld(record, self) {
            return Value::Missing(why);
        }
        let value = match &self.from {
            MetricSource::Counter => record.found.counters.get(&self.name).map(|n| Value::Number(*n as f64)),
            MetricSource::Formula(formula) => formula(record).map(Value::Number),
            MetricSource::Rate(rate) => {
                record.found.series.get(rate.series()).map(|s| rate.of(s, record.found.duration))
            }
            MetricSource::Group(query) if query.unwatched(record) => None,
            MetricSource::Group(query) => {
                Some(query.value(record).map_or_else(Value::Missing, Value::Number))
            }
            MetricSource::TaskGroup => {
                Some(task_group::cpus(record, &self.name).map_or_else(Value::Missing, Value::Number))
            }
            MetricSource::Cycles(of) => record.found.cycles.as_ref().map(|cycles| {
                let function = self.name.rsplit('.').next().unwrap_or_default();
                cycles.share(function, *of).map_or_else(Value::Missing, Value::Number)
            }),
            MetricSource::Schedstat(query) => record
                .found
                .schedstat
                .as_ref()
                .map(|stat| query.value(stat).map_or_else(Value::Missing, Value::Number)),
            MetricSource::Series { name, stat } => record.found.series.get(name).map(|s| stat.of(s)),
        };
        value.unwrap_or_else(|| {
            if let Some(why) = perf::why_uncounted(record, &self.name) {
                return Value::Missing(why);
            }
            let live = !record.backend.is_simulated();
            let events = live && self.row.watched == Observe::Events;
            let why_no_events =
                || record.found.environment.get(&format!("{}events", perf::UNCOUNTED)).cloned();
            Value::Missing(match &self.from {
                MetricSource::Schedstat(_) => "the run has no schedstat".to_owned(),
                _ if live && !events && record.observe.is_some_and(|o| o < self.row.watched) => {
                    let value = if self.row.watched == Observe::Caches { "=caches" } else { "" };
                    format!("{NOT_WATCHED}: add --counters{value}")
                }
                _ if events && record.observe != Some(Observe::Events) => {
                    "not measured in this run: it takes every event (--events)".to_owned()
                }
                _ if events => why_no_events().unwrap_or_else(|| "not measured in this run".to_owned()),
                _ if record.backend == Backend::Code && is_of_reasons(&self.name) => {
                    "not measured: our rules were not asked for reasons (SCHEDLAB_CODE_DEBUG=rules)"
                        .to_owned()
                }
                _ if record.backend.made_by().is_some_and(|b| self.row.backends.contains(&b)) => {
                    "not measured in this run".to_owned()
                }
                _ => format!("the {} backend does not measure it", record.backend),
            })
        })
    }
}

/// The value of a metric in a record, by name. For an unknown name or series it is missing, with the error as the
/// reason.
pub fn evaluate(record: &Record, name: &str) -> Value {
    if let Some(figure) = record.found.figures.get(name) {
        let why = guest::withheld_figure(record, name, &figure.unit);
        return why.map_or(Value::Number(figure.value), Value::Missing);
    }
    let series = record.found.series.iter().map(|(n, s)| (n.as_str(), s.unit(), s.better()));
    match Metric::find_with(name, series) {
        Ok(metric) => metric.evaluate(record),
        Err(e) => Value::Missing(e.message().to_owned()),
    }
}
