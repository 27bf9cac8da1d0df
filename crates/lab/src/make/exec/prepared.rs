//! A simulated run before it begins: the workload of its seed as the variant has it, and what an analyser is to know of
//! its tasks.

use crate::ask::cell::Cell;
use crate::make::memory_estimate;
use schedlab_analyse::TaskName;
use schedlab_base::{CpuId, CpuSet, Error, Ns, Result, Stream, Version};
use schedlab_kernel::{History, Kernel, Limit};
use schedlab_machine::{Domains, Machine};
use schedlab_record::{Better, Series};
use schedlab_transplant::kthread_names;
use schedlab_workload::build::{SeriesDecl, TaskDecl};
use schedlab_workload::{Built, Guest, Later, gathered, later};

/// A run that is ready to be made.
pub(crate) struct Prepared<'m> {
    /// The machine, its figures as drawn.
    pub(crate) machine: &'m Machine,
    /// The kernel's changes in the middle of the run, counted from its beginning.
    pub(crate) changes: Vec<(Ns, Kernel)>,
    /// The workload, with the variant's attributes.
    pub(crate) workload: Built,
}

impl<'m> Prepared<'m> {
    /// The run of that seed on the cell's machine, whose figures are those drawn for it.
    ///
    /// # Errors
    /// A workload that can't be built, or that is too large for this machine's memory.
    pub(crate) fn of(cell: &Cell, seed: u64, machine: &'m Machine) -> Result<Prepared<'m>> {
        let mut workload = cell.grouped()?.build(seed)?;
        later::note(&mut workload, &cell.variant.at)?;
        if let Some(kernel) = cell.resolved {
            has_groups(&workload, &kernel)?;
        }
        memory_estimate::for_one(memory_estimate::Size::of(cell.machine.topology.nr_cpus(), &workload))?;
        if let (Some(version), true) = (cell.release(), cell.machine.turns.is_some()) {
            // A machine that stands for a guest: a guest's run begins when all tasks are there.
            workload = gathered(workload, guest(&cell.machine, version, seed));
        }
        for task in &mut workload.tasks {
            task.attr = cell.variant.attr_of(&task.name, task.attr);
        }
        let warmup = workload.warmup;
        // The kernel's own code takes the variant's words; our rules a kernel that is resolved.
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

/// The names of the workload's tasks, of the machine's own behind them, and of the kernel's own, by task id.
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

/// The CPUs that those tasks may use as they begin; `None`: all.
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
