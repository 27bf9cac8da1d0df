//! Runs in the simulator: builds the workload, lets the analyser watch, and puts both their findings into a record.

use super::{Executor, Made, guessed};
use crate::cell::Cell;
use crate::room;
use schedlab_base::{CpuId, Error, Ns, Result, Stream, Version, Warning};
use schedlab_kernel::Kernel;
use schedlab_kernel::variant::SLICES_SINCE;
use schedlab_machine::{Domains, Machine};
use schedlab_record::{Analyser, Better, MODEL, RECORD_SCHEMA, Record, Series, TaskName, environment};
use schedlab_sim::{Setup, simulate, simulate_walking};
use schedlab_workload::build::cut_off;
use schedlab_workload::{Built, Guest, gathered};
use std::sync::atomic::{AtomicBool, AtomicU64};

/// The simulating executor.
#[derive(Clone, Copy, Debug, Default)]
pub struct Sim {
    /// Whether the expensive invariants are walked.
    pub check: bool,
    /// The run's progress, simulated ns; useful if one run is made at a time.
    pub clock: Option<&'static AtomicU64>,
}

impl Executor for Sim {
    fn run(&self, cell: &Cell, seed: u64, stop: &AtomicBool) -> Result<Option<Made>> {
        self.run_walking(cell, seed, stop, None)
    }
    fn parallel(&self, _: &Cell) -> bool {
        true
    }
}

impl Sim {
    /// A run whose invariants are walked at a fixed number of steps.
    ///
    /// # Errors
    /// As [`Executor::run`], and when an invariant does not hold.
    pub fn run_walking(
        &self,
        cell: &Cell,
        seed: u64,
        stop: &AtomicBool,
        walk_every: Option<u64>,
    ) -> Result<Option<Made>> {
        let kernel = cell.resolved.ok_or_else(|| Error::internal("a simulated cell without a kernel"))?;
        let mut workload = cell.spec.build(seed)?;
        room::for_one(room::Size::of(cell.machine.topology.nr_cpus(), &workload))?;
        if cell.machine.turns.is_some() {
            // A machine that stands for a guest: a guest's run begins when all tasks are there.
            workload = gathered(workload, guest(&cell.machine, kernel.version, seed));
        }
        for task in &mut workload.tasks {
            task.attr = cell.variant.attr_of(&task.name, task.attr);
        }
        let later = workload.later_attrs.iter();
        let asks = workload.tasks.iter().map(|t| &t.attr).chain(later).any(|a| a.slice != Ns::ZERO);
        let (warmup, duration) = (workload.warmup, workload.duration);
        let to_the_end = workload.to_the_end;
        let drawn = cell.draw(seed);
        let machine = cell.machine.with(&drawn)?;
        let mut analyser = analyser(&machine, &workload)?;
        let setup = Setup {
            machine: &machine,
            kernel,
            changes: changes(cell, warmup)?,
            workload,
            seed,
            background: !machine.background.is_empty(),
            check: self.check,
            stop: Some(stop),
            clock: self.clock,
        };
        let report = match walk_every {
            Some(steps) => simulate_walking(setup, steps, &mut analyser)?,
            None => simulate(setup, &mut analyser)?,
        };
        if report.stopped {
            return Ok(None);
        }
        let mut warnings = cell.variant.without_effect()?;
        warnings.extend(guessed(cell));
        let cut = to_the_end && report.end >= warmup.plus(duration);
        warnings.extend(cut.then(|| cut_off(duration)));
        if asks && kernel.version < SLICES_SINCE && cell.variant.tasks.values().all(|t| t.slice.is_none()) {
            let text =
                format!("its tasks ask for slices, which kernels before {SLICES_SINCE} take no notice of");
            warnings.push(Warning::new("workload.slice", text));
        }
        let mut found = analyser.finish(report.end);
        found.add(report.found);
        found.counters.insert("sim.events".into(), report.events);
        found.counters.insert("sim.wakeups".into(), report.wakeups);
        found.environment = environment::simulated();
        found.warnings.splice(..0, warnings);
        let record = Record {
            schema: RECORD_SCHEMA.to_owned(),
            model: MODEL,
            backend: cell.backend.into(),
            machine: (*cell.machine).clone(),
            drawn,
            kernel: cell.kernel.clone(),
            resolved: Some(kernel),
            guest: None,
            observe: None,
            variant: cell.variant.clone(),
            workload: cell.spec.name().to_owned(),
            spec: cell.spec_json()?,
            load: cell.load.clone(),
            seed,
            found,
        };
        Ok(Some(record.into()))
    }
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

/// The kernel's changes in the middle of the run, counted from its beginning.
fn changes(cell: &Cell, warmup: Ns) -> Result<Vec<(Ns, Kernel)>> {
    let changes = cell.variant.changes()?;
    Ok(changes.into_iter().map(|(at, kernel)| (warmup.plus(at), kernel)).collect())
}

/// An analyser that knows the workload's tasks and series, and the machine's own tasks behind them.
fn analyser(machine: &Machine, built: &Built) -> Result<Analyser> {
    let mut tasks: Vec<TaskName> =
        built.tasks.iter().map(|t| TaskName { name: t.name.clone(), background: t.background }).collect();
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
    let series = built
        .series
        .iter()
        .map(|s| Ok((s.name.clone(), Series::new(&s.unit, Better::parse(&s.better)?))))
        .collect::<Result<Vec<_>>>()?;
    Ok(Analyser::new(cpus, tasks, series, built.warmup).on(&machine.topology))
}
