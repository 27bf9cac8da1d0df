//! Tools that print results: known tools as workloads, figures of any other command, and saved outputs.
//!
//! A [`Tool`] is a file of this folder and a row of [`TOOLS`]: its command line for a load, its package, and a reader
//! that turns its text into figures in ns, 1/s and counts. The same readers serve live runs and saved files. Readers
//! are pure: any text gives figures, or an error that names the missing part.

mod cyclictest;
mod dbench;
mod extract;
mod hackbench;
mod httperf;
mod hyperfine;
mod installed;
mod lkp;
mod mail;
mod mmtests;
mod netperf;
mod number;
mod perf;
mod perf_bench;
mod perf_sched;
mod perf_sched_stats;
mod perf_stat;
mod rt_app;
mod rtla;
mod runqlat;
pub mod saved;
mod schbench;
pub mod schedlab_json;
mod stress_ng;
mod sysbench;
mod template;
mod text;
mod tool;
mod units;
mod unixbench;

pub use extract::{check, default_better, metric_option};
pub use installed::check_installed;
pub use template::{Template, one_word_or_line};
pub use tool::{FigureRow, FigureValues, Reading, ServerSetup, Tool, firsts_first};
use tool::{check_size, fits};
pub use units::canonical;

use schedlab_base::{Error, Result};
use schedlab_record::{Better, Findings, Record};
use schedlab_workload::CommandOutput;
use schedlab_workload::command::Extract;
use schedlab_workload::{CommandSpec, Spec};

/// Every tool, in the order in which a text is tried.
pub const TOOLS: &[&Tool] = &[
    &hackbench::TOOL,
    &perf::MESSAGING,
    &perf::PIPE,
    &perf::BENCH,
    &sysbench::CPU,
    &sysbench::OLTP,
    &sysbench::MEMORY,
    &sysbench::THREADS,
    &sysbench::MUTEX,
    &httperf::TOOL,
    &dbench::DBENCH,
    &dbench::TBENCH,
    &schbench::TOOL,
    &schbench::TOOL_2016,
    &cyclictest::TOOL,
    &stress_ng::TOOL,
    &hyperfine::TOOL,
    &rt_app::TOOL,
    &perf_stat::TOOL,
    &perf_sched::TOOL,
    &perf_sched_stats::TOOL,
    &rtla::TIMERLAT,
    &rtla::OSNOISE,
    &runqlat::RUNQLAT,
    &runqlat::RUNQSLOWER,
    &mmtests::TOOL,
    &lkp::TOOL,
    &netperf::TOOL,
    &unixbench::TOOL,
];

/// Finds a tool by name.
///
/// # Errors
/// When there is none; the nearest is offered.
pub fn find(name: &str) -> Result<&'static Tool> {
    let known = TOOLS.iter().map(|t| t.name);
    TOOLS.iter().copied().find(|t| t.name == name).ok_or_else(|| Error::unknown("tool", name, known))
}

/// Finds a tool by name, if it can be started.
///
/// # Errors
/// When there is none, or when only its saved files are read.
pub fn startable(name: &str) -> Result<&'static Tool> {
    let tool = find(name)?;
    if tool.program.is_empty() {
        let text = format!("{name} is not run as a tool: its results are files of its own");
        return Err(Error::input(text).help(format!("schedlab compare reads them; {}", tool.about)));
    }
    Ok(tool)
}

#[derive(Clone)]
pub enum OutputReader {
    Tool(&'static Tool),
    /// The reader of one of schedlab's own forms.
    Schedlab(&'static schedlab_json::SavedForm),
    /// Figures that the user describes, in any text.
    Text(Vec<Extract>),
}

/// The workload of texts that are read by the user's own expressions, and the first word of their metrics.
pub const TEXT: &str = "output";

/// Finds a reader by name: a tool's, or that of one of schedlab's own forms.
///
/// # Errors
/// When there is none; the nearest is offered.
pub fn reader(name: &str) -> Result<OutputReader> {
    if let Some(form) = schedlab_json::FORMS.iter().find(|f| f.name == name) {
        return Ok(OutputReader::Schedlab(form));
    }
    let known = TOOLS.iter().map(|t| t.name).chain(schedlab_json::FORMS.iter().map(|f| f.name));
    TOOLS
        .iter()
        .find(|t| t.name == name)
        .map(|t| OutputReader::Tool(t))
        .ok_or_else(|| Error::unknown("tool", name, known))
}

/// The reader of a text, by its content. schedlab's own forms are tried first: they name themselves.
pub fn reader_of(text: &str) -> Option<OutputReader> {
    let own = schedlab_json::FORMS.iter().find(|f| (f.knows)(text)).map(OutputReader::Schedlab);
    own.or_else(|| detect(text).map(OutputReader::Tool))
}

pub fn detect(text: &str) -> Option<&'static Tool> {
    TOOLS.iter().copied().find(|t| (t.knows)(text))
}

/// Names of the figures that a command may give; patterns if a tool's rows are patterns.
///
/// # Errors
/// When the tool does not exist.
pub fn declared(spec: &CommandSpec) -> Result<Vec<String>> {
    let tool = spec.tool.as_deref().map(find).transpose()?;
    let rows = tool.into_iter().flat_map(|t| t.figures).map(|row| format!("{}.{}", spec.name, row.0));
    let own = spec.metrics.iter().filter(|m| !extract::is_series(m)).map(|m| m.name.clone());
    Ok(rows.chain(own).collect())
}

/// The series in a command's output: name, unit, direction.
///
/// # Errors
/// When a direction does not exist.
pub fn declared_series(spec: &CommandSpec) -> Result<Vec<crate::metrics::Declared>> {
    let all = spec.metrics.iter().filter(|m| extract::is_series(m));
    let one =
        |m: &Extract| Ok((m.name.clone(), units::canonical(&m.unit).0.to_owned(), Better::parse(&m.better)?));
    all.map(one).collect()
}

/// Whether a declared name or pattern fits a figure.
pub fn is_declared(declared: &[String], name: &str) -> bool {
    declared.iter().any(|d| fits(d, name))
}

/// Metrics that a command's tables show first.
pub fn headline(spec: &CommandSpec) -> Vec<String> {
    let tool = spec.tool.as_deref().and_then(|name| find(name).ok());
    let rows = tool.into_iter().flat_map(|t| t.headline).map(|name| format!("{}.{name}", spec.name));
    let own = spec.metrics.iter().flat_map(|m| {
        if extract::is_series(m) {
            ["p50", "p99", "max"].iter().map(|stat| format!("{}.{stat}", m.name)).collect()
        } else {
            vec![m.name.clone()]
        }
    });
    let all: Vec<String> = rows.chain(own).collect();
    if all.is_empty() { ["command.elapsed", "cpu_time"].map(str::to_owned).to_vec() } else { all }
}

/// As [`headline`], for a record's command; `None` if it is not a command's.
pub fn headline_of(record: &Record) -> Option<Vec<String>> {
    let of = |key: &str| record.spec.get(key).and_then(|v| v.as_str());
    let figures = &record.found.figures;
    let all = match (of("kind")?, Spec::from_json(&record.spec)) {
        (saved::KIND, _) if of("tool") == Some(saved::OWN) => {
            let bench = schedlab_workload::spec::find(&record.workload);
            let firsts = bench.map_or(crate::metrics::HEADLINE, |b| b.headline);
            let everything = record.found.environment.contains_key(saved::EVERYTHING);
            return Some(schedlab_json::headline(figures, firsts, everything));
        }
        // All figures of a saved output are shown: hidden ones would look as if they had not been measured.
        (saved::KIND, _) => {
            let firsts = of("tool").and_then(|name| find(name).ok()).map_or(&[][..], |tool| tool.headline);
            let firsts: Vec<String> =
                firsts.iter().map(|name| format!("{}.{name}", record.workload)).collect();
            let stats = |name: &String| ["p50", "p99", "max"].map(|stat| format!("{name}.{stat}"));
            let series = record.found.series.keys().flat_map(stats);
            return Some(firsts_first(figures, &firsts).into_iter().chain(series).collect());
        }
        (_, Ok(Spec::Command(spec))) => headline(&spec),
        _ => return None,
    };
    // A tool's figures depend on its arguments: those that are present are shown.
    let given = |name: &String| figures.contains_key(name) || !is_figure(record, name);
    let some: Vec<String> = all.into_iter().filter(given).collect();
    Some(if some.is_empty() { firsts_first(figures, &[]) } else { some })
}

/// Whether the name can only be a figure of the record's workload: neither a metric of the table nor of a series.
fn is_figure(record: &Record, name: &str) -> bool {
    let own = name.strip_prefix(&record.workload).is_some_and(|n| n.starts_with('.'));
    own && !record.found.series.keys().any(|series| name.starts_with(&format!("{series}.")))
}

/// Figures and series of a run, from the command's output.
///
/// # Errors
/// When a figure is missing or found several times; the error quotes the last lines of the output.
pub fn findings(spec: &CommandSpec, said: &CommandOutput) -> Result<Findings> {
    let mut found = Findings::default();
    let last = |e: Error| {
        let lines = match said.last_lines() {
            none if none.is_empty() => "the command printed nothing".to_owned(),
            lines => format!("its last lines:\n  {lines}"),
        };
        let error = Error::new(e.kind(), format!("{}\n  {lines}", e.message()));
        match e.remedy() {
            Some(help) => error.help(help),
            None => error,
        }
    };
    if let Some(name) = &spec.tool {
        let tool = find(name)?;
        // Some versions of tools report on standard error.
        let text = format!("{}\n{}", said.stdout, said.stderr);
        let readings = (tool.read)(&text).map_err(last)?;
        let [reading] = &readings[..] else {
            let text = format!("{} gave {} results; a run is one", tool.name, readings.len());
            return Err(last(Error::input(text)));
        };
        found.figures = tool.figures(&spec.name, &reading.values)?;
    }
    for wanted in &spec.metrics {
        extract::extract(wanted, said, &mut found).map_err(last)?;
    }
    check_size(&found.figures).map_err(last)?;
    Ok(found)
}

#[cfg(test)]
mod tests;
