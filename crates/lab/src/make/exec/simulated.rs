//! A run on a simulated machine, whoever simulates it: the workload is built and simulated under the analyser, and what
//! is found becomes the record. Backends `sim` and `code` differ in the function that simulates.

use super::executor::Made;
use super::keep::Kept;
use super::options::RunOptions;
use super::prepared::{Prepared, names, series};
use super::warnings::Noted;
use crate::ask::cell::Cell;
use crate::make::exec::cast::{Both, cast};
use crate::make::instruction_counts;
use schedlab_analyse::Analyser;
use schedlab_base::{Ns, Result};
use schedlab_record::store_listing::{CHAINS_FILE, INSTRUCTIONS_FILE};
use schedlab_record::{Cycles, Findings, Record, Series, environment};
use schedlab_sim::SimReport;
use schedlab_trace::{Cast, Sink};

/// The counter of the longest wait for a CPU, ended or not. Only runs of the kernel's own code have it: under our rules
/// nobody waits for ever.
pub(crate) const LONGEST_WAIT: &str = "run_delay.longest";

/// Makes a run; `None` if it was stopped early.
///
/// # Errors
/// A workload that can't be built or does not fit into memory, and what `simulate` finds wrong.
pub(super) fn made(
    cell: &Cell,
    seed: u64,
    options: &RunOptions,
    simulate: impl FnOnce(Prepared<'_>, &mut dyn Sink) -> Result<SimReport>,
) -> Result<Option<Made>> {
    let drawn = cell.draw(seed);
    let machine = cell.machine.with(&drawn)?;
    let prepared = Prepared::of(cell, seed, &machine)?;
    let workload = &prepared.workload;
    let (noted, warmup) = (Noted::of(workload), workload.warmup);
    let (names, series) = (names(cell, &machine, workload), series(workload)?);
    let keep_in = options.keep_events_in.as_deref().filter(|_| options.walk_every.is_none());
    let cast = keep_in.map(|_| cast(&machine, workload, &names, cell.kernel.clone(), Ns::ZERO));
    let paths = workload.group_paths();
    let mut analyser = Analyser::new(machine.topology.nr_cpus(), names, series, warmup)
        .on(&machine.topology)
        .in_groups(paths.iter().map(Option::as_deref));
    let mut kept = keep_in.map(|folder| Kept::create(folder, options.keep_details)).transpose()?;
    let mut report = match &mut kept {
        Some(kept) if options.events_alone => simulate(prepared, &mut kept.writer)?,
        Some(kept) => simulate(prepared, &mut Both(&mut analyser, &mut kept.writer))?,
        None => simulate(prepared, &mut analyser)?,
    };
    if report.stopped {
        return Ok(None);
    }
    let open = analyser.longest_open_wait(report.end);
    let mut found = observed(analyser, &mut report);
    if cell.code.is_some() {
        let ended = found.series.get("run_delay").and_then(Series::max).unwrap_or(0);
        found.counters.insert(LONGEST_WAIT.to_owned(), open.0.max(ended));
    }
    let warnings = noted.warnings(cell, &machine, &report, &found)?;
    found.warnings.splice(..0, warnings);
    let record = Record { drawn, ..cell.record(seed, found)? };
    let events = match (kept, cast) {
        (Some(kept), Some(cast)) => Some(kept.finish(Cast { end: report.end, ..cast }, warmup)?),
        _ => None,
    };
    Ok(Some(Made { record, json: None, files: files(&report), events }))
}

/// What the analyser saw and what the simulation reports; its findings are taken out of the report.
pub(crate) fn observed(analyser: Analyser, report: &mut SimReport) -> Findings {
    let mut found = analyser.finish(report.end);
    found.add(std::mem::take(&mut report.found));
    found.counters.extend(instruction_counts::counters(&report.functions));
    found.cycles = Cycles::of(&report.chains, &report.image_functions);
    found.counters.insert("sim.events".into(), report.events);
    found.counters.insert("sim.wakeups".into(), report.wakeups);
    found.environment.extend(environment::simulated());
    found
}

/// The files next to the record: what the scheduler's own code has executed, where that is counted.
fn files(report: &SimReport) -> Vec<(&'static str, Vec<u8>)> {
    let mut files = Vec::new();
    if !report.functions.is_empty() {
        files.push((INSTRUCTIONS_FILE, instruction_counts::as_text(&report.functions).into_bytes()));
    }
    if !report.chains.is_empty() {
        let lines = report.chains.iter().map(|(chain, times)| format!("{chain} {times}\n"));
        files.push((CHAINS_FILE, lines.collect::<String>().into_bytes()));
    }
    files
}
