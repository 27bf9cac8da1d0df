//! From records to a comparison: cells with their means, and every variant against the baseline, metric by metric.
//!
//! Runs form cells by backend, machine, workload, load, variant and kernel. Within a group, where only the last two
//! differ, each variant is compared with the baseline. All rows of a comparison are one family for Holm's correction.

mod compilers;
mod computers;
mod cost_effects;
mod disagreement;
mod equal;
mod fit;
mod folders;
mod gaps;
mod group;
mod levels;
pub mod looks_warning;
mod model;
mod order;
mod own_results;
mod params;
mod question;
mod releases;
mod rows;
mod seeds;
mod stalled;
pub mod stored;
mod units;
mod wild;

pub use computers::CellComputer;
pub use disagreement::{DISAGREES, Disagreement};
pub use folders::Folders;
pub use gaps::{Gap, gaps};
pub use looks_warning::{warning as made_by_looks, warning_of as folders_made_by_looks};
pub use model::{
    ASTRAY, BaselineFit, BaselineIs, COMPARISON_SCHEMA, Cell, CellStat, Comparison, ComparisonRow,
    CountedWarning, DrawnEffect, Look, Measured, how, place,
};
pub use order::{Named, of_one_source};
use params::params_in_words;
pub use params::params_of_run;
pub use question::{DEFAULT_MIN_EFFECT_PCT, DEFAULT_RUNS, Question};
pub use rows::FEW_RUNS;
pub use stalled::Stalled;

use crate::stats;
use crate::{metrics, tools};
use group::{CellRuns, group};
use schedlab_base::{Backend, Error, Result, Warning, one_or};
use schedlab_record::metric::of_program;
use schedlab_record::{ENGINE, MODEL, Record, RunDir, Value, WATCHING, store};
use std::borrow::Cow;
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

/// Compares stored runs: run folders, stores, or folders above.
///
/// # Errors
/// When a path has no runs, a record is unreadable, or a metric or baseline is unknown.
pub fn compare_paths(paths: &[PathBuf], question: &Question) -> Result<Comparison> {
    let mut runs = Vec::new();
    for (source, path) in paths.iter().enumerate() {
        runs.extend(store::list(path)?.into_iter().map(|run| Named { source, run }));
    }
    compare_named(&runs, Vec::new(), question)
}

/// Compares stored runs and records of saved outputs, which keep their order and follow the runs.
///
/// # Errors
/// When a record is unreadable, or a metric or baseline is unknown.
pub fn compare_named(runs: &[Named], saved: Vec<Record>, question: &Question) -> Result<Comparison> {
    let mut folders = Folders::default();
    let dirs: Vec<RunDir> = runs.iter().map(|named| named.run.clone()).collect();
    let records = stored::records(&dirs, question, &mut folders)?;
    let question = question.clone().kept_in(folders);
    let (mut records, question) = shown_in_order(runs, records, question);
    records.extend(saved);
    compare(&records, &question, looks_warning::warning(runs).as_slice())
}

/// The records of stored runs in the order of the tables, and the question with the reason for its baseline.
pub fn shown_in_order(runs: &[Named], records: Vec<Record>, question: Question) -> (Vec<Record>, Question) {
    let (records, is_first) = order::in_order(runs, records);
    let baseline_is = if question.baseline.is_none() { is_first } else { question.baseline_is };
    (records, Question { baseline_is, ..question })
}

/// Compares the sources of a command line: stored runs, and saved outputs (all in one format if `from` is given).
///
/// # Errors
/// As [`compare_paths`], and when no known tool printed a file.
pub fn compare_sources(
    sources: &[String],
    from: Option<&tools::OutputReader>,
    question: &Question,
) -> Result<Comparison> {
    let (runs, saved) = tools::saved::sources(sources, from)?;
    let is_of = |run: &RunDir, source: &String| {
        let path = Path::new(source);
        run.path.starts_with(path) || path.parent() == Some(&run.path)
    };
    let named = |run: RunDir| Named { source: sources.iter().position(|s| is_of(&run, s)).unwrap_or(0), run };
    compare_named(&runs.into_iter().map(named).collect::<Vec<_>>(), saved, question)
}

/// The records of each cell of the comparison that [`compare`] makes, in the order of its cells.
pub fn runs_by_cell(records: &[Record]) -> Vec<Vec<Record>> {
    let (own_seeds, _) = seeds::of_their_own(records);
    let cells = group(&own_seeds).into_iter().flatten();
    cells.map(|cell| cell.runs.into_iter().cloned().collect()).collect()
}

/// Compares records. `warnings` concern all of them.
///
/// # Errors
/// When there are no records, a metric is unknown, or the baseline has no record.
pub fn compare(records: &[Record], question: &Question, warnings: &[Warning]) -> Result<Comparison> {
    if records.is_empty() {
        return Err(Error::input("there are no runs to compare"));
    }
    let (own_seeds, same_seed) = seeds::of_their_own(records);
    let (alike, other_units) = units::alike(Cow::Borrowed(&own_seeds));
    let records = &alike[..];
    let question = &Question { metrics: spelled_out(records, &question.metrics), ..question.clone() };
    let metrics = metrics_of_all(records, question);
    let groups = group(records);
    check_baseline(&groups, question.baseline.as_deref())?;
    check_metrics(records, &metrics)?;
    let mut warnings: Vec<CountedWarning> = warnings.iter().cloned().map(CountedWarning::of_all).collect();
    merge(&mut warnings, records);
    warnings.extend(same_seed.map(CountedWarning::of_all));
    warnings.extend(other_units);
    warnings.extend(other_versions(records));
    warnings.extend(more_metrics(records, &metrics, question));
    let mut tables = Tables::default();
    for runs in &groups {
        tables.add(runs, &groups, question);
    }
    let Tables { cells, fits, sections, open, equal, stalled, wild, warnings: of_groups } = tables;
    warnings.extend(of_groups);
    warnings.extend(equal.warnings());
    warnings.extend(stalled::cut_off_warnings(&groups, &stalled));
    warnings.extend(wild.warning());
    let (disagreements, disagree) = disagreement::of(&cells, &groups);
    warnings.extend(disagree);
    let judged = rows::judge(open, &question.looks, question.min_effect_pct);
    warnings.extend(rows::too_few_runs(&judged));
    let runs_needed = rows::runs_needed(&judged);
    let comparisons: Vec<ComparisonRow> =
        judged.into_iter().map(|j| stalled::without_gains(j.row, &stalled)).collect();
    warnings.extend(rows::floors_note(&comparisons, question.min_effect_pct));
    let uncertainty = cost_effects::effects(&sections, &cells, &comparisons, question.min_effect_pct);
    Ok(Comparison {
        schema: COMPARISON_SCHEMA.to_owned(),
        experiment: question.experiment.clone(),
        model: records.iter().filter(|r| is_simulated(r)).map(|r| r.model).max().unwrap_or(MODEL),
        metrics,
        baseline_is: question.baseline_is,
        min_effect_pct: question.min_effect_pct,
        cells,
        comparisons,
        stalled,
        disagreements,
        published: question.published.clone(),
        fits,
        uncertainty,
        looks: Look::all(&question.looks),
        runs_needed,
        answers: Vec::new(),
        warnings,
    })
}

/// What the groups of a comparison show, before its rows are judged together.
#[derive(Default)]
struct Tables<'g> {
    cells: Vec<Cell>,
    fits: Vec<BaselineFit>,
    sections: Vec<cost_effects::Section<'g>>,
    open: Vec<rows::OpenRow>,
    equal: equal::Equal,
    stalled: Vec<Stalled>,
    wild: wild::Wild,
    warnings: Vec<CountedWarning>,
}

impl<'g> Tables<'g> {
    /// Adds the runs of a group: those of one load on one machine.
    fn add(&mut self, runs: &'g [CellRuns<'g>], groups: &[Vec<CellRuns<'g>>], question: &Question) {
        let first = self.cells.len();
        let different =
            [group::watched_differently(runs), computers::warning(runs), compilers::warning(runs)];
        self.warnings.extend(different.into_iter().flatten().map(CountedWarning::of_all));
        let shown = &metrics_of_group(runs, groups, question);
        self.cells.extend(runs.iter().map(|c| summary(c, shown, &question.folders)));
        let cells = &self.cells[first..];
        let own = load_key(runs).and_then(|key| question.baseline_of_load.get(&key));
        // Where the own one was not run, the load's first variant is there in its place.
        let base = match (own, &question.baseline) {
            (Some(name), _) => group::named(runs, name).or(Some(0)),
            (None, None) => Some(0),
            (None, Some(name)) => group::named(runs, name),
        };
        self.sections.push(cost_effects::Section { runs, first, base, metrics: shown.to_vec() });
        if let Some(base) = base {
            self.equal.add(runs, base);
            self.stalled.extend(stalled::of_group(runs, base));
            self.wild.add(cells, shown);
            self.open.extend(rows::of_group(runs, base, cells, shown, question));
            let switches = releases::warnings(runs, base).into_iter().chain(levels::warnings(runs, base));
            self.warnings.extend(switches.map(CountedWarning::of_all));
            self.warnings.extend(units::not_compared(&cells[base], cells, shown));
            self.fits.extend(fit::fit(&cells[base], &question.published));
        } else if let Some(c) = cells.first() {
            let text = format!("{} {}: no run of the baseline, nothing to compare with", c.workload, c.load);
            self.warnings.push(CountedWarning::of_all(Warning::new("compare.no_baseline", text)));
        }
    }
}

/// The metrics of all tables, each once.
fn metrics_of_all(records: &[Record], question: &Question) -> Vec<String> {
    let mut metrics =
        if question.metrics.is_empty() { headline(records, question.all) } else { question.metrics.clone() };
    metrics.extend(question.of_load.values().flatten().cloned());
    let mut seen = BTreeSet::new();
    metrics.retain(|m| seen.insert(m.clone()));
    metrics
}

/// The key of a group's load in a question: machine, workload and load.
fn load_key(runs: &[CellRuns<'_>]) -> Option<[String; 3]> {
    let c = runs.first()?;
    let r = c.runs[0];
    let host = Backend::Host;
    let machine = if r.backend == host { host.name() } else { &r.machine.name }.to_owned();
    Some([machine, r.workload.clone(), c.load.clone()])
}

/// The metrics of a group's table: those chosen for its load, else the question's. Without a choice, each workload's
/// headline metrics.
fn metrics_of_group(runs: &[CellRuns<'_>], groups: &[Vec<CellRuns<'_>>], question: &Question) -> Vec<String> {
    let firsts = question
        .metrics
        .is_empty()
        .then(|| headline(runs.iter().flat_map(|c| c.runs.iter().copied()), question.all));
    let common = firsts.as_ref().unwrap_or(&question.metrics);
    let shown = load_key(runs).and_then(|key| question.of_load.get(&key)).unwrap_or(common);
    without_foreign(shown, runs, groups)
}

/// The metrics without those of other workloads' programs. A metric that a run of the group has stays, since a
/// benchmark may have measured next to the workload.
fn without_foreign(metrics: &[String], group: &[CellRuns<'_>], all: &[Vec<CellRuns<'_>>]) -> Vec<String> {
    let workload = |c: &CellRuns<'_>| c.runs[0].workload.clone();
    let Some(own) = group.first().map(workload) else { return metrics.to_vec() };
    let others: std::collections::BTreeSet<String> =
        all.iter().flatten().map(workload).filter(|w| *w != own).collect();
    let of = |metric: &str, workload: &str| metric.strip_prefix(workload).is_some_and(|m| m.starts_with('.'));
    let measured = |m: &str| {
        let mut runs = group.iter().flat_map(|c| &c.runs);
        runs.any(|r| metrics::evaluate(r, m).value.number().is_some())
    };
    let foreign = |m: &str| of_program(m) && !of(m, &own) && others.iter().any(|w| of(m, w)) && !measured(m);
    metrics.iter().filter(|m| !foreign(m)).cloned().collect()
}

/// The headline metrics of the records' workloads.
fn headline<'a>(records: impl IntoIterator<Item = &'a Record>, everything: bool) -> Vec<String> {
    let mut all: Vec<String> = Vec::new();
    for r in records {
        if everything && r.found.environment.contains_key(tools::saved::EVERYTHING) {
            let fresh = tools::firsts_first(&r.found.figures, &all).into_iter().filter(|m| !all.contains(m));
            all.extend(fresh.collect::<Vec<_>>());
            continue;
        }
        let bench = || metrics::benchmark(r).map_or(metrics::HEADLINE, |b| b.headline);
        let own = tools::headline_of(r).unwrap_or_else(|| bench().iter().map(|m| (*m).to_owned()).collect());
        let fresh: Vec<String> = own.into_iter().filter(|m| !all.contains(m)).collect();
        all.extend(fresh);
    }
    all
}

/// The default metrics of any run: delays of wakeups and waits, lengths of stays on a CPU, and counts of switches,
/// wakeups and migrations.
const OVERVIEW: &[&str] = &[
    "wakeup_delay.p50",
    "wakeup_delay.p99",
    "run_delay.total",
    "slice.p50",
    "slice.p99",
    "switches.voluntary",
    "switches.involuntary",
    "woken",
    "woken.idle.share",
    "migrations",
    "cpu_time",
    "work",
];

/// The metrics for single runs side by side: the workloads' headline metrics, then those of the overview that one of
/// the runs has.
pub fn overview(records: &[Record]) -> Vec<String> {
    let mut all = headline(records, false);
    let had = |name: &str| records.iter().any(|r| metrics::evaluate(r, name).value.number().is_some());
    let seen = OVERVIEW.iter().filter(|m| had(m)).map(|m| (*m).to_owned());
    let fresh: Vec<String> = seen.filter(|m| !all.contains(m)).collect();
    all.extend(fresh);
    all
}

fn check_baseline(groups: &[Vec<CellRuns<'_>>], baseline: Option<&str>) -> Result<()> {
    let Some(name) = baseline else { return Ok(()) };
    let mut names: Vec<&str> = groups.iter().flatten().map(|c| c.label.as_str()).collect();
    if groups.iter().flatten().any(|c| c.is_named(name)) {
        return Ok(());
    }
    names.dedup();
    Err(Error::unknown("variant", name, names).context("baseline"))
}

fn check_metrics(records: &[Record], metrics: &[String]) -> Result<()> {
    let (series, figures) = given(records);
    metrics.iter().try_for_each(|m| metrics::check(m, &series, &figures))
}

/// The metrics with full names in place of the short ones that tables print.
fn spelled_out(records: &[Record], names: &[String]) -> Vec<String> {
    if names.is_empty() {
        return Vec::new();
    }
    let (series, figures) = given(records);
    let one = |name: &String| match metrics::check(name, &series, &figures) {
        Ok(()) => vec![name.clone()],
        Err(_) => Some(metrics::in_full(name, &series, &figures))
            .filter(|all| !all.is_empty())
            .unwrap_or_else(|| vec![name.clone()]),
    };
    names.iter().flat_map(one).collect()
}

/// Series and figures of these records.
fn given(records: &[Record]) -> (Vec<metrics::Declared>, Vec<String>) {
    let mut series: Vec<metrics::Declared> = Vec::new();
    for (name, s) in records.iter().flat_map(|r| &r.found.series) {
        if !series.iter().any(|(known, ..)| known == name) {
            series.push((name.clone(), s.unit().to_owned(), s.better()));
        }
    }
    let figures: BTreeSet<&String> = records.iter().flat_map(|r| r.found.figures.keys()).collect();
    (series, figures.into_iter().cloned().collect())
}

/// Adds the records' warnings in their order. Equal ones are added once, with their number.
fn merge(all: &mut Vec<CountedWarning>, records: &[Record]) {
    // Warnings about runs that were cut off name their cells, so they are added elsewhere.
    let named = |w: &&Warning| w.code != stalled::CUT_OFF;
    for w in records.iter().flat_map(|r| &r.found.warnings).filter(named) {
        match all.iter_mut().find(|c| c.warning == *w && c.runs > 0) {
            Some(c) => c.runs += 1,
            None => all.push(CountedWarning { warning: w.clone(), runs: 1 }),
        }
    }
}

/// The note that files have more metrics than are shown.
fn more_metrics(records: &[Record], shown: &[String], question: &Question) -> Option<CountedWarning> {
    let whole = |r: &&Record| r.found.environment.contains_key(tools::saved::EVERYTHING);
    let names: std::collections::BTreeSet<&String> = records
        .iter()
        .filter(whole)
        .flat_map(|r| r.found.figures.keys())
        .filter(|m| !shown.contains(m))
        .collect();
    let has_more = question.metrics.is_empty() && !names.is_empty();
    let text = format!(
        "{} more {} in these files: --all, or --metric NAME",
        names.len(),
        one_or(names.len(), "metric is", "metrics are")
    );
    has_more.then(|| CountedWarning { warning: Warning::new("compare.more_metrics", text), runs: 0 })
}

fn is_simulated(record: &Record) -> bool {
    record.backend == Backend::Sim
}

/// Warnings about runs that other versions made. The first other version of each kind names all of its runs.
fn other_versions(records: &[Record]) -> Vec<CountedWarning> {
    type IsOf = fn(&Record) -> bool;
    let kinds: [(IsOf, u32, &str, &str); 3] = [
        (is_simulated, MODEL, "were made by model", "simulated figures of different models do not compare"),
        (
            |r| r.backend == Backend::Code,
            ENGINE,
            "of the kernel's own code were driven by engine",
            "what different engines simulate does not compare",
        ),
        (
            |r| !r.backend.is_simulated(),
            WATCHING,
            "of real kernels were watched by version",
            "what different versions count may differ",
        ),
    ];
    let of_kind = |(is_of, version, made, so): (IsOf, u32, &str, &str)| {
        let of = |r: &&Record| is_of(r);
        let other = records.iter().filter(of).find(|r| r.model != version)?.model;
        let runs = records.iter().filter(of).filter(|r| r.model == other).count() as u64;
        let text = format!("some runs {made} {other}, this is {version}: {so}");
        Some(CountedWarning { warning: Warning::new("compare.model", text), runs })
    };
    kinds.into_iter().filter_map(of_kind).collect()
}

fn summary(c: &CellRuns<'_>, metrics: &[String], folders: &Folders) -> Cell {
    let r = c.runs[0];
    let params = params_in_words(&r.workload, &r.spec);
    Cell {
        backend: r.backend.clone(),
        mode: group::mode(r),
        level: r.code.as_ref().map(|code| code.level),
        free_ns: r.free_ns(),
        machine: r.machine.name.clone(),
        kernel: r.kernel.clone(),
        workload: r.workload.clone(),
        load: c.load.clone(),
        params,
        variant: c.label.clone(),
        runs: c.runs.len(),
        seeds: c.runs.iter().map(|r| r.seed).collect(),
        folders: folders.of(&c.runs),
        watched: r.watched(),
        computer: CellComputer::of(r),
        metrics: metrics.iter().map(|m| (m.clone(), stat(&c.runs, m))).collect(),
    }
}

fn stat(runs: &[&Record], metric: &str) -> CellStat {
    let all: Vec<metrics::Evaluated> = runs.iter().map(|r| metrics::evaluate(r, metric)).collect();
    let values: Vec<f64> = all.iter().filter_map(|e| e.value.number()).collect();
    let measured = all.iter().find(|e| e.value.number().is_some());
    match (stats::Summary::of(&values), measured) {
        (Some(s), Some(e)) => CellStat::Measured(Measured {
            unit: e.unit.clone(),
            better: e.better,
            mean: s.mean,
            std_pct: s.std_pct(),
            missing_runs: all.len() - values.len(),
            values,
        }),
        _ => {
            let why = all.into_iter().find_map(|e| match e.value {
                Value::Missing(why) => Some(why),
                Value::Number(_) => None,
            });
            CellStat::Missing { missing: why.unwrap_or_else(|| "not measured".to_owned()) }
        }
    }
}
