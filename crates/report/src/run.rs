//! One run: its metrics, as text and as JSON.
//!
//! The text has the workload's own series first, then the analyser's, then the main counters. The JSON has every metric
//! of the record; its times are nanoseconds.

use crate::number;
use crate::text::wrap;
use schedlab_base::{Backend, Origin, Warning};
use schedlab_record::cell::Level;
use schedlab_record::metric::{of_group, of_program};
use schedlab_record::{Better, Interval, METRICS, Observe, Record, Stat, Value, evaluate};
use schedlab_workload::spec;
use serde::Serialize;
use std::collections::BTreeMap;
use std::io::{self, Write};

pub const RUN_SCHEMA: &str = "schedlab/run/1";

/// The statistics of a series that are shown.
const SHOWN: &[&str] = &["p50", "p75", "p90", "p95", "p99", "p99.5", "p99.9", "max"];
/// The analyser's series that are shown.
const SEEN: &[&str] = &["wakeup_delay"];
/// Counters that are shown if they were measured.
const COUNTERS: &[&str] =
    &["work", "cpu_time", "run_delay.total", "switches.voluntary", "switches.involuntary", "migrations"];

/// A metric of a run.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Measured {
    /// "" for counts.
    pub unit: String,
    pub better: Better,
    /// The value, or why it is missing.
    pub value: Value,
}

#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Run {
    /// [`RUN_SCHEMA`].
    pub schema: &'static str,
    /// The version of the simulator's model.
    pub model: u32,
    pub backend: Origin,
    pub machine: String,
    pub kernel: String,
    pub variant: String,
    pub workload: String,
    pub load: String,
    /// Parameters of the workload; times in ns.
    pub params: serde_json::Value,
    pub seed: u64,
    /// How closely a live run was watched: "accounts", "stays", "counters", "caches" or "events".
    #[serde(skip_serializing_if = "Option::is_none")]
    pub watched: Option<&'static str>,
    /// How the kernel's own code was charged, if it ran.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub level: Option<Level>,
    /// How much of the warm-up that code took no time in.
    #[serde(skip_serializing_if = "schedlab_base::is_zero")]
    pub free_ns: u64,
    /// Measured time.
    pub duration_ns: u64,
    pub metrics: BTreeMap<String, Measured>,
    /// Series that programs measured by interval, in order of time; times and values as in the record.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub intervals: Vec<Interval>,
    pub warnings: Vec<Warning>,
}

impl Run {
    pub fn of(record: &Record) -> Run {
        let series = record
            .found
            .series
            .keys()
            .flat_map(|s| Stat::USUAL.iter().map(move |stat| format!("{s}.{stat}")));
        let rates = METRICS.iter().filter(|m| m.rate.is_some()).map(|m| m.name.to_owned());
        let names = series.chain(rates).chain(record.found.counters.keys().cloned());
        let names = names.chain(record.found.figures.keys().cloned()).chain(of_group(record));
        let metrics = names.filter_map(|name| Some((name.clone(), measured(record, &name)?))).collect();
        Run {
            schema: RUN_SCHEMA,
            model: record.model,
            backend: record.backend.clone(),
            machine: record.machine.name.clone(),
            kernel: record.kernel.clone(),
            variant: record.variant.name.clone(),
            workload: record.workload.clone(),
            load: record.load.clone(),
            params: schedlab_compare::comparison::params_of_run(record),
            seed: record.seed,
            watched: record.watched().map(Observe::name),
            level: record.code.as_ref().map(|code| code.level),
            free_ns: record.free_ns(),
            duration_ns: record.found.duration.0,
            metrics,
            intervals: record.found.intervals.clone(),
            warnings: record.found.warnings.clone(),
        }
    }

    /// Writes the run as text of at most 78 columns.
    pub fn export(&self, out: &mut dyn Write) -> io::Result<()> {
        self.head(out)?;
        for series in self.series() {
            self.percentiles(&series, out)?;
        }
        writeln!(out)?;
        self.figures(out)?;
        let rates = METRICS.iter().filter(|m| m.rate.is_some()).map(|m| &m.name);
        for name in rates.chain(COUNTERS) {
            if let Some(Measured { unit, value: Value::Number(n), .. }) = self.metrics.get(*name) {
                writeln!(out, "{name:<21} {:>9}", number::value(*n, unit))?;
            }
        }
        if !self.warnings.is_empty() {
            writeln!(out)?;
        }
        self.warnings.iter().try_for_each(|w| write!(out, "{}", wrap("warning: ", &w.message)))
    }

    fn head(&self, out: &mut dyn Write) -> io::Result<()> {
        let how = match self.backend.made_by() {
            Some(Backend::Code) => {
                let level = Level::words(self.level.as_slice(), self.free_ns);
                &format!("run by the kernel's own code ({level})")
            }
            Some(Backend::Sim) => "simulated",
            Some(Backend::Host | Backend::Vm) | None => "measured live",
        };
        let kernel = if self.kernel == self.variant || self.backend != Backend::Sim {
            &self.kernel
        } else {
            &self.variant
        };
        let time = number::duration(self.duration_ns as f64);
        let text = format!(
            "{} on {}, kernel {kernel}, {how} for {time}, seed {}",
            self.workload, self.machine, self.seed
        );
        write!(out, "{}", wrap("", &text))?;
        let list = number::parameters(&self.workload, &self.params);
        if list.is_empty() { Ok(()) } else { write!(out, "{}", wrap("  ", &list.join(" "))) }
    }

    /// The series that are shown: the workload's own, and the analyser's.
    fn series(&self) -> Vec<String> {
        let bases = self.metrics.keys().filter_map(|name| name.strip_suffix(".p50"));
        let program = spec::find(&self.workload).map_or("rtapp", |b| b.name);
        let named = |s: &str| s.strip_prefix(&self.workload).is_some_and(|s| s.starts_with('.'));
        // The program slice records under another name, because the analyser has a family of series called slice.
        let shared = program == "slice";
        let own = bases.filter(|s| {
            if shared { of_program(s) } else { s.split('.').next() == Some(program) || named(s) }
        });
        // A percentile that a command printed is a figure, not a series.
        let own = own.filter(|s| self.metrics.contains_key(&format!("{s}.count"))).map(str::to_owned);
        let family = shared.then_some(&program);
        let seen = family.into_iter().chain(SEEN).filter(|s| self.metrics.contains_key(&format!("{s}.p50")));
        own.chain(seen.map(|s| (*s).to_owned())).collect()
    }

    /// Writes the figures in a command's output, and those measured of the command.
    fn figures(&self, out: &mut dyn Write) -> io::Result<()> {
        let series = self.series();
        let of_series =
            |n: &str| series.iter().any(|s| n.strip_prefix(s).is_some_and(|n| n.starts_with('.')));
        let named = |n: &str| n.strip_prefix(&self.workload).is_some_and(|n| n.starts_with('.'));
        let shown = self.metrics.iter().filter(|(n, _)| {
            let rate = METRICS.iter().any(|m| m.name == n.as_str() && m.rate.is_some());
            (named(n) && !of_series(n) && !rate) || (n.starts_with("command.") && *n != "command.exit_status")
        });
        for (name, m) in shown {
            if let Value::Number(n) = m.value {
                writeln!(out, "{name:<28} {:>9}", number::value(n, &m.unit))?;
            }
        }
        Ok(())
    }

    fn percentiles(&self, series: &str, out: &mut dyn Write) -> io::Result<()> {
        let get = |stat: &str| self.metrics.get(&format!("{series}.{stat}"));
        let samples = get("count").and_then(|m| m.value.number()).unwrap_or(0.0);
        if samples == 0.0 {
            return writeln!(out, "\n{series}: no samples");
        }
        if samples == 1.0
            && let Some(Measured { unit, value: Value::Number(n), .. }) = get("max")
        {
            return writeln!(out, "\n{series}: {}", number::value(*n, unit));
        }
        writeln!(out, "\n{series}, {} samples", number::count(samples))?;
        for stat in SHOWN {
            match get(stat) {
                Some(Measured { unit, value: Value::Number(n), .. }) => {
                    writeln!(out, "  {stat:<6} {:>9}", number::value(*n, unit))?;
                }
                Some(Measured { value: Value::Missing(why), .. }) => {
                    write!(out, "{}", wrap(&format!("  {stat:<6} {:>9}  ", "-"), &format!("({why})")))?;
                }
                None => {}
            }
        }
        Ok(())
    }
}

/// A metric of a record; `None` for a counter that is not a metric.
fn measured(record: &Record, name: &str) -> Option<Measured> {
    if let Some(f) = record.found.figures.get(name) {
        return Some(Measured { unit: f.unit.clone(), better: f.better, value: Value::Number(f.value) });
    }
    let series = record.found.series.iter().map(|(n, s)| (n.as_str(), s.unit(), s.better()));
    let metric = schedlab_record::Metric::find_with(name, series).ok()?;
    Some(Measured { unit: metric.unit.clone(), better: metric.better, value: evaluate(record, name) })
}
