//! Runs in the simulator: builds the workload, simulates it under the analyser, and writes the record.

use super::keep::Kept;
use super::options::RunOptions;
use super::{Made, guessed, ungathered};
use crate::cell::Cell;
use crate::instruction_counts;
use crate::memory_estimate;
use crate::simulated_events::{Both, cast};
use schedlab_analyse::{Analyser, TaskName};
use schedlab_base::{CpuId, CpuSet, Error, Ns, Ns32, Result, Stream, Version, Warning};
use schedlab_kernel::variant::SLICES_SINCE;
use schedlab_kernel::{History, Kernel, Limit, Policy};
use schedlab_machine::{Domains, Machine};
use schedlab_record::store_listing::{CHAINS_FILE, INSTRUCTIONS_FILE};
use schedlab_record::{Better, MODEL, RECORD_SCHEMA, Record, Series, environment};
use schedlab_sim::booted;
use schedlab_sim::{Setup, SimReport, simulate, simulate_walking};
use schedlab_trace::{Cast, Sink};
use schedlab_transplant::kthread_names;
use schedlab_workload::beside::Parts;
use schedlab_workload::build::{SeriesDecl, TaskDecl, cut_off};
use schedlab_workload::{Built, Guest, gathered};
use schedlab_workload::{Later, later};
use std::sync::atomic::AtomicBool;

/// The warning about a change after the run's end, in the words of a live run.
fn missed(at: Ns) -> Warning {
    Warning::new("settings.missed", format!("the run was over before its change at {at} was made"))
}

/// Warns of a run that is too short for the kernel's slow state to follow the load: half of the measured time or more
/// passes before busy CPUs compute that state a second time. They compute it first at the first tick.
fn too_short(machine: &Machine, kernel: &Kernel, warmup: Ns, duration: Ns) -> Option<Warning> {
    let late = |every: Ns| every > warmup.plus(Ns(duration.0 / 2));
    let slow = booted::slow(machine, kernel).into_iter().find(|s| late(s.every))?;
    let (reader, name, every) = (slow.reader, slow.name, slow.every);
    let text = format!(
        "{reader} reads {name}, which busy CPUs of {} compute every {every}: most of this run has the value of its first \
         tick. A longer run, or as long a warm-up where the workload has one, shows the kernel under its load",
        machine.name
    );
    Some(Warning::new("run.short", text))
}

/// A simulated run; `None` if `stop` ended it early.
///
/// # Errors
/// When the workload can't be built or does not fit into memory, and when a walked invariant does not hold.
pub(super) fn run(cell: &Cell, seed: u64, options: &RunOptions, stop: &AtomicBool) -> Result<Option<Made>> {
    let kernel = cell.resolved.ok_or_else(|| Error::internal("a simulated cell without a kernel"))?;
    made(cell, seed, options, MODEL, |Prepared { machine, changes, workload }, sink| {
        let setup = Setup {
            machine,
            kernel,
            changes,
            workload,
            seed,
            background: !machine.background.is_empty(),
            check: options.check,
            stop: Some(stop),
            clock: options.clock,
        };
        match options.walk_every {
            Some(steps) => simulate_walking(setup, steps, sink),
            None => simulate(setup, sink),
        }
    })
}

/// A run on a simulated machine, whichever simulator makes it. `model` is that simulator's version.
///
/// # Errors
/// As [`run`].
pub(super) fn made(
    cell: &Cell,
    seed: u64,
    options: &RunOptions,
    model: u32,
    simulate: impl FnOnce(Prepared<'_>, &mut dyn Sink) -> Result<SimReport>,
) -> Result<Option<Made>> {
    let drawn = cell.draw(seed);
    let machine = cell.machine.with(&drawn)?;
    let prepared = Prepared::of(cell, seed, &machine)?;
    let workload = &prepared.workload;
    let asks = workload.attrs().any(|a| a.slice != Ns32::ZERO && a.policy.is_fair());
    let policies: Vec<Policy> = workload.attrs().map(|a| a.policy).collect();
    let (warmup, duration) = (workload.warmup, workload.duration);
    let (to_the_end, beside) = (workload.to_the_end, Parts::of(workload));
    let (names, series) = (names(cell, &machine, workload), series(workload)?);
    let keep_in = options.keep_events_in.as_deref().filter(|_| options.walk_every.is_none());
    let cast = keep_in.map(|_| cast(&machine, workload, &names, cell.kernel.clone(), Ns::ZERO));
    let mut analyser = Analyser::new(machine.topology.nr_cpus(), names, series, warmup).on(&machine.topology);
    let mut kept = keep_in.map(|folder| Kept::create(folder, options.keep_details)).transpose()?;
    let report = match &mut kept {
        Some(kept) => simulate(prepared, &mut Both(&mut analyser, &mut kept.writer))?,
        None => simulate(prepared, &mut analyser)?,
    };
    if report.stopped {
        return Ok(None);
    }
    let mut warnings = Vec::new();
    if cell.resolved.is_some() {
        warnings.extend(cell.variant.without_effect()?);
    }
    warnings.extend(guessed(cell));
    warnings.extend(ungathered(cell));
    let cut = to_the_end && report.end >= warmup.plus(duration);
    warnings.extend(cut.then(|| cut_off(duration)));
    let version = cell.release().unwrap_or(SLICES_SINCE);
    if asks && version < SLICES_SINCE && cell.variant.tasks.values().all(|t| t.slice.is_none()) {
        let text = format!("its tasks ask for slices, which kernels before {SLICES_SINCE} take no notice of");
        warnings.push(Warning::new("workload.slice", text));
    }
    let absent = policies.iter().find_map(|p| p.since().filter(|v| version < *v).map(|v| (p, v)));
    warnings.extend(absent.map(|(policy, since)| {
            let text = format!("its tasks of policy {policy} are taken as ordinary ones: kernels before {since} have no such policy");
            Warning::new("workload.policy", text)
        }));
    let mut found = analyser.finish(report.end);
    found.add(report.found);
    found.counters.extend(instruction_counts::counters(&report.functions));
    let mut files = Vec::new();
    if !report.functions.is_empty() {
        files.push((INSTRUCTIONS_FILE, instruction_counts::as_text(&report.functions).into_bytes()));
    }
    if !report.chains.is_empty() {
        let lines = report.chains.iter().map(|(chain, times)| format!("{chain} {times}\n"));
        files.push((CHAINS_FILE, lines.collect::<String>().into_bytes()));
    }
    found.counters.insert("sim.events".into(), report.events);
    found.counters.insert("sim.wakeups".into(), report.wakeups);
    let searched = found.counters.get("placement.probes").is_some_and(|probes| *probes > 0);
    if let (Some(kernel), true) = (&cell.resolved, searched && !to_the_end) {
        warnings.extend(too_short(&machine, kernel, warmup, duration));
    }
    found.environment = environment::simulated();
    let ends: Vec<Option<Ns>> = report.tasks.iter().map(|t| t.ended).collect();
    warnings.extend(beside.ended_early(&ends, warmup, report.end));
    warnings.extend(report.missed.map(missed));
    found.warnings.splice(..0, warnings);
    let record = Record {
        schema: RECORD_SCHEMA.to_owned(),
        model,
        backend: cell.backend.into(),
        machine: (*cell.machine).clone(),
        drawn,
        kernel: cell.kernel.clone(),
        resolved: cell.resolved,
        guest: None,
        code: cell.code.as_ref().map(|c| c.setup.clone()),
        observe: None,
        variant: cell.variant.clone(),
        workload: cell.spec.name().to_owned(),
        spec: cell.spec_json()?,
        load: cell.load.clone(),
        seed,
        found,
    };
    let events = match (kept, cast) {
        (Some(kept), Some(cast)) => Some(kept.finish(Cast { end: report.end, ..cast }, warmup)?),
        _ => None,
    };
    Ok(Some(Made { record, files, events }))
}

/// A run that is ready to be made.
pub(crate) struct Prepared<'m> {
    /// The machine, with the drawn figures.
    pub(crate) machine: &'m Machine,
    /// The kernel's changes in the middle of the run, counted from its beginning.
    pub(crate) changes: Vec<(Ns, Kernel)>,
    /// The workload, with the variant's attributes.
    pub(crate) workload: Built,
}

impl<'m> Prepared<'m> {
    /// The run of that seed on the cell's machine, with the figures drawn for it.
    ///
    /// # Errors
    /// When the workload can't be built, or is too large for this machine's memory.
    pub(crate) fn of(cell: &Cell, seed: u64, machine: &'m Machine) -> Result<Prepared<'m>> {
        let mut workload = cell.grouped()?.build(seed)?;
        later::note(&mut workload, &cell.variant.at)?;
        if let Some(kernel) = cell.resolved {
            has_groups(&workload, &kernel)?;
        }
        memory_estimate::for_one(memory_estimate::Size::of(cell.machine.topology.nr_cpus(), &workload))?;
        if let (Some(version), true) = (cell.release(), cell.machine.turns.is_some()) {
            // The machine stands for a guest, and a guest's run begins when all tasks exist.
            workload = gathered(workload, guest(&cell.machine, version, seed));
        }
        for task in &mut workload.tasks {
            task.attr = cell.variant.attr_of(&task.name, task.attr);
        }
        let warmup = workload.warmup;
        // The kernel's own code takes the variant's words; our rules take a resolved kernel.
        let changes = if cell.resolved.is_some() { cell.variant.changes()? } else { Vec::new() };
        let changes = changes.into_iter().map(|(at, kernel)| (warmup.plus(at), kernel)).collect();
        Ok(Prepared { machine, changes, workload })
    }
}

/// Refuses task groups under a kernel that has none.
fn has_groups(workload: &Built, kernel: &Kernel) -> Result<()> {
    let history = History::of(kernel.version);
    if let (Some(limit), false) = (limited_later(workload, |l| l.quota.is_some()), history.bandwidth) {
        let text = format!("group {limit} can't get a quota: kernel {} has none", kernel.version);
        return Err(Error::input(text).help("leave it out of [[at]], or take a kernel from v3.4 on"));
    }
    let bursts = limited_later(workload, |l| l.burst > Ns::ZERO);
    if let (Some(limit), false) = (bursts, history.bandwidth_bursts) {
        let text = format!("group {limit} can't get a burst: kernel {} has none", kernel.version);
        return Err(Error::input(text).help("leave it out of [[at]], or take a kernel from v5.14 on"));
    }
    let Some(group) = workload.groups.get(1).filter(|_| !History::of(kernel.version).task_groups) else {
        return Ok(());
    };
    let text = format!("group {} can't be made: kernel {} has no task groups", group.path, kernel.version);
    Err(Error::input(text).help("leave out [[group]], or take a kernel from v2.6.24 on"))
}

/// The path of the first group that gets such a limit in the middle of the run.
fn limited_later(workload: &Built, such: impl Fn(&Limit) -> bool) -> Option<&str> {
    workload.later.iter().find_map(|(_, later)| match later {
        Later::Limited(group, limit) if such(limit) => Some(workload.groups[group.index()].path.as_str()),
        _ => None,
    })
}

/// The guest that a simulated machine stands for.
fn guest(machine: &Machine, version: Version, seed: u64) -> Guest {
    let cpus = machine.topology.nr_cpus();
    let on = CpuId(Stream::new(seed).purpose("controller").below(0, cpus as u64) as u32);
    let domains = Domains::build(&machine.topology, version);
    let lines = domains.of_cpu.iter().map(|own| 1 + own.len()).sum();
    let luck = Stream::new(seed).purpose("guest").below(0, 1001);
    Guest { on, cpus, version, lines, luck }
}

/// The names of the workload's tasks, then of the machine's own, then of the kernel's own, by task id.
pub(crate) fn names(cell: &Cell, machine: &Machine, built: &Built) -> Vec<TaskName> {
    let of_workload = |t: &TaskDecl| TaskName { name: t.name.clone(), background: t.background };
    let mut tasks: Vec<TaskName> = built.tasks.iter().map(of_workload).collect();
    let cpus = machine.topology.nr_cpus();
    for source in &machine.background {
        // The simulator's order: source by source, those bound to CPUs by CPU number.
        let own = |name: String| TaskName { name, background: true };
        if source.per_cpu {
            tasks.extend((0..cpus).map(|cpu| own(format!("{}/{cpu}", source.name))));
        } else {
            tasks.push(own(source.name.clone()));
        }
    }
    if cell.code.is_some() {
        tasks.extend(kthread_names(cpus).into_iter().map(|name| TaskName { name, background: true }));
    }
    tasks
}

/// The CPUs that those tasks may use at first; `None`: all.
pub(crate) fn allowed(cell: &Cell, machine: &Machine, built: &Built) -> Vec<Option<CpuSet>> {
    let mut tasks: Vec<Option<CpuSet>> = built.tasks.iter().map(|t| t.affinity.clone()).collect();
    let nr_cpus = machine.topology.nr_cpus();
    let on_its_own = |task: usize| Some(std::iter::once(CpuId::from(task % nr_cpus)).collect());
    for source in &machine.background {
        match source.per_cpu {
            true => tasks.extend((0..nr_cpus).map(on_its_own)),
            false => tasks.push(None),
        }
    }
    if cell.code.is_some() {
        // Each kind has a task on each CPU.
        tasks.extend((0..kthread_names(nr_cpus).len()).map(on_its_own));
    }
    tasks
}

/// The workload's series, empty.
pub(crate) fn series(built: &Built) -> Result<Vec<(String, Series)>> {
    let one = |s: &SeriesDecl| Ok((s.name.clone(), Series::new(&s.unit, Better::parse(&s.better)?)));
    built.series.iter().map(one).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_run_is_short_if_its_slow_state_is_computed_once() {
        // nr_idle_scan is computed every 1,020 ms there.
        let machine = Machine::load("smp-32").expect("a preset");
        let warns = |kernel: &str, warmup_ms: u64, ms: u64| {
            let kernel = Kernel::profile(kernel).expect("a profile");
            too_short(&machine, &kernel, Ns::ms(warmup_ms), Ns::ms(ms)).is_some()
        };
        assert!(warns("v6.1", 0, 300) && warns("v6.1", 0, 2_000));
        assert!(!warns("v6.1", 0, 2_100) && !warns("v6.1", 1_000, 300), "a long run, and a long warm-up");
        assert!(!warns("v5.15", 0, 300), "nothing reads it there");
    }
}
