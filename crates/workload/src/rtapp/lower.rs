//! Declares the threads of a file: first the instances, in the order of the file, then every thread that a fork will
//! start. So all threads are known before the run.

use super::check::Modes;
use super::event::EventAction;
use super::json::Source;
use super::program::{Code, Script, Series, Thread};
use super::schema::{File, Task};
use super::script::{Lowering, Shared};
use crate::build::{Builder, MAX_TASKS};
use crate::group::ROOT_GROUP;
use schedlab_base::{Ns, Result, TaskId};
use std::collections::BTreeMap;
use std::sync::Arc;

/// The longest run of a file without a duration.
pub const LONGEST: Ns = Ns::secs(3_600);

struct Planned {
    /// Index of the task in the file.
    task: usize,
    name: String,
    /// The thread that forks it, by its index in the plan.
    parent: Option<usize>,
    /// For each fork event, the threads that it starts, by index in the plan.
    forks: Vec<Vec<usize>>,
}

/// Declares the threads of a checked file.
///
/// # Errors
/// When there are too many threads for a run, or mutexes are used wrongly.
pub fn lower(source: Source<'_>, file: &File, modes: &Modes, b: &mut Builder) -> Result<()> {
    let plan = plan(source, &file.tasks)?;
    let series = declare_series(b);
    let (shared, buffer) = (Shared::new(&file.tasks), file.buffer);
    let mut lowering = Lowering { source, b: &mut *b, shared, buffer, modes, steps: Vec::new() };
    let numbered = file.tasks.iter().enumerate();
    let scripts: Vec<Script> = numbered.map(|(i, t)| lowering.script(i, t)).collect::<Result<_>>()?;
    let code = Arc::new(Code { steps: lowering.steps, series });
    let first = b.next_task().index();
    let id = |place: usize| TaskId::from(first + place);
    for planned in plan {
        let forks = planned.forks.iter().map(|f| f.iter().copied().map(id).collect()).collect();
        let thread = Thread::new(Arc::clone(&code), &scripts[planned.task], forks);
        let task = b.task(planned.name, Box::new(thread))?;
        let of = &file.tasks[planned.task];
        let group = of.group.as_deref().map(|path| b.group(path)).transpose()?;
        let declared = b.edit(task);
        declared.group = group.unwrap_or(ROOT_GROUP);
        declared.attr = of.attr;
        declared.affinity = of.cpus.as_ref().map(|c| c.set.clone());
        declared.footprint_kb = declared.footprint_kb.max(scripts[planned.task].touched_kb);
        declared.spawned_by = planned.parent.map(id);
    }
    let of_tasks = file.tasks.iter().filter_map(|t| t.cpus.as_ref());
    let of_phases = file.tasks.iter().flat_map(|t| &t.phases).filter_map(|p| p.cpus.as_ref());
    of_tasks.chain(of_phases).for_each(|c| b.cpus_at(&c.set, source.spot(c.at)));
    for phase in file.tasks.iter().flat_map(|t| &t.phases) {
        if let Some(attr) = phase.attr {
            b.later_attr(attr);
        }
    }
    b.lasts(file.duration.unwrap_or(LONGEST), Ns::ZERO);
    Ok(())
}

fn declare_series(b: &mut Builder) -> Series {
    Series {
        wakeup_latency: b.series("rtapp.wakeup_latency", "ns", "lower"),
        slack: b.series("rtapp.slack", "ns", "higher"),
        lateness: b.series("rtapp.lateness", "ns", "lower"),
        run: b.series("rtapp.run", "ns", "lower"),
        period: b.series("rtapp.period", "ns", "neither"),
    }
}

/// All threads, parents before children. Names are rt-app's: task, thread number, and for a forked thread the number of
/// its fork.
fn plan(source: Source<'_>, tasks: &[Task]) -> Result<Vec<Planned>> {
    let index: BTreeMap<&str, usize> = tasks.iter().enumerate().map(|(i, t)| (t.name.as_str(), i)).collect();
    let too_many = |task: &Task| {
        let error = source
            .error(task.at, format!("with task '{}' there are more than {MAX_TASKS} threads", task.name));
        error.help("lower 'instance', or the loops around a fork")
    };
    let mut plan: Vec<Planned> = Vec::new();
    for (i, task) in tasks.iter().enumerate() {
        if plan.len() + task.instances > MAX_TASKS {
            return Err(too_many(task));
        }
        for _ in 0..task.instances {
            let name = format!("{}-{}", task.name, plan.len());
            plan.push(Planned { task: i, name, parent: None, forks: Vec::new() });
        }
    }
    let mut place = 0;
    while place < plan.len() {
        for (name, times) in forks(&tasks[plan[place].task]) {
            let child = index[name];
            if times > (MAX_TASKS - plan.len()) as u64 {
                return Err(too_many(&tasks[child]));
            }
            let born: Vec<usize> = (plan.len()..plan.len() + times as usize).collect();
            for (n, at) in born.iter().enumerate() {
                let name = format!("{name}-{at}-{n:04}");
                plan.push(Planned { task: child, name, parent: Some(place), forks: Vec::new() });
            }
            plan[place].forks.push(born);
        }
        place += 1;
    }
    Ok(plan)
}

/// The forks of a task in the order of its events, with the number of times each happens.
fn forks(task: &Task) -> impl Iterator<Item = (&str, u64)> {
    // `check` rejects endless loops around a fork.
    let loops = |l: Option<u32>| u64::from(l.unwrap_or(0));
    task.phases.iter().flat_map(move |phase| {
        phase.events.iter().filter_map(move |event| match &event.what {
            EventAction::Fork(name) => Some((name.as_str(), loops(task.loops) * loops(phase.loops))),
            _ => None,
        })
    })
}
