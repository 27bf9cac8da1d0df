//! Checks across the parts of a file: no task waits for ever, no loop runs without time passing, and the number of
//! forks is known before the run. A file that would hang or run away in rt-app is an error here.

use super::event::{EventAction, Mode};
use super::json::Source;
use super::schema::{File, Task};
use schedlab_base::{Error, Ns, Result};
use std::collections::{BTreeMap, BTreeSet};

/// Modes of timers, by the owning task (for "unique" ones) and the timer's name.
pub type Modes = BTreeMap<(Option<usize>, String), Mode>;

/// Whether each thread has its own timer of this name.
pub fn is_unique(timer: &str) -> bool {
    timer.starts_with("unique")
}

/// Checks a file; returns the modes of its timers.
///
/// # Errors
/// See the first lines of the module.
pub fn check(source: Source<'_>, file: &File) -> Result<Modes> {
    for task in &file.tasks {
        time_passes(source, task)?;
    }
    ends(source, file)?;
    wakeups_come(source, file)?;
    barriers_can_open(source, file)?;
    forks_are_known(source, file)?;
    timer_modes(source, file)
}

fn events(task: &Task) -> impl Iterator<Item = &super::event::Event> {
    task.phases.iter().flat_map(|p| &p.events)
}

/// A loop in which no time can pass would never end, in a simulator or on a CPU.
fn time_passes(source: Source<'_>, task: &Task) -> Result<()> {
    let takes_time = |what: &EventAction| match what {
        EventAction::Run(t) | EventAction::Runtime(t) => *t > Ns::ZERO,
        EventAction::Memory(bytes) | EventAction::Io(bytes) => *bytes > 0,
        EventAction::Sleep(_) | EventAction::Timer { .. } | EventAction::Yield => true,
        EventAction::Wait(_) | EventAction::Sync(_) | EventAction::Suspend(_) => true,
        _ => false,
    };
    let help = "add a run, sleep or timer";
    if !events(task).any(|e| takes_time(&e.what)) {
        let error = source.error(task.at, format!("no event of task '{}' takes any time", task.name));
        return Err(error.help(help));
    }
    for phase in task.phases.iter().filter(|p| p.loops != Some(1)) {
        if !phase.events.iter().any(|e| takes_time(&e.what)) {
            return Err(source
                .error(phase.at, "this phase loops, but none of its events takes any time")
                .help(help));
        }
    }
    Ok(())
}

/// A run without a duration ends with its tasks, so they must end.
fn ends(source: Source<'_>, file: &File) -> Result<()> {
    let endless = |t: &&Task| t.loops.is_none() || t.phases.iter().any(|p| p.loops.is_none());
    match file.tasks.iter().find(endless) {
        Some(task) if file.duration.is_none() => {
            let error = source
                .error(task.at, format!("task '{}' loops for ever and the file has no duration", task.name));
            Err(error.help(
                "say how long: -r TIME, or \"global\": { \"duration\": SECONDS }; or give every task a loop count",
            ))
        }
        _ => Ok(()),
    }
}

/// Some task must signal each object that a task waits for.
fn wakeups_come(source: Source<'_>, file: &File) -> Result<()> {
    let mut signalled = BTreeSet::new();
    for event in file.tasks.iter().flat_map(events) {
        match &event.what {
            EventAction::Signal(name) | EventAction::Broad(name) | EventAction::Resume(name) => {
                _ = signalled.insert(name.as_str())
            }
            EventAction::Sync(condition) => _ = signalled.insert(condition.name.as_str()),
            _ => {}
        }
    }
    for event in file.tasks.iter().flat_map(events) {
        let (name, verb) = match &event.what {
            EventAction::Wait(condition) => (&condition.name, "signals"),
            EventAction::Suspend(name) => (name, "resumes"),
            _ => continue,
        };
        if !signalled.contains(name.as_str()) {
            let error = source.error(event.at, format!("no task ever {verb} '{name}'"));
            let near = schedlab_base::nearest::nearest(name, signalled.iter().copied());
            let known = signalled.iter().copied().collect::<Vec<_>>().join(", ");
            return Err(match near {
                Some(near) => error.help(format!("did you mean '{near}'?")),
                None if known.is_empty() => error.help("add a signal, broad, sync or resume event"),
                None => error.help(format!("signalled are: {known}")),
            });
        }
    }
    Ok(())
}

/// The tasks that some task forks.
fn forked(file: &File) -> BTreeSet<&str> {
    let names = file.tasks.iter().flat_map(events).filter_map(|e| match &e.what {
        EventAction::Fork(name) => Some(name.as_str()),
        _ => None,
    });
    names.collect()
}

/// A barrier opens when all instances of all tasks that name it have arrived. So each task may name it only once, no
/// such task may be forked, and there must be at least two threads.
fn barriers_can_open(source: Source<'_>, file: &File) -> Result<()> {
    let forked = forked(file);
    let mut users: BTreeMap<&str, (usize, usize)> = BTreeMap::new();
    for task in &file.tasks {
        let mut own = BTreeSet::new();
        for event in events(task) {
            let EventAction::Barrier(name) = &event.what else { continue };
            if !own.insert(name) {
                let error =
                    source.error(event.at, format!("task '{}' uses barrier '{name}' twice", task.name));
                return Err(error.help("give each meeting point a name of its own"));
            }
            if forked.contains(task.name.as_str()) {
                let error = source.error(event.at, format!("barrier '{name}' is in a task that is forked"));
                return Err(
                    error.help("a barrier must know its threads beforehand; start them with 'instance'")
                );
            }
            users.entry(name).or_insert((0, event.at)).0 += task.instances;
        }
    }
    match users.iter().find(|(_, (threads, _))| *threads < 2) {
        Some((name, (_, at))) => {
            let error = source.error(*at, format!("barrier '{name}' is used by fewer than two threads"));
            let near = schedlab_base::nearest::nearest(name, users.keys().copied().filter(|n| n != name));
            Err(match near {
                Some(near) => error.help(format!("did you mean '{near}'?")),
                None => error.help("use it in another task, or raise 'instance'"),
            })
        }
        None => Ok(()),
    }
}

/// Every fork must name a task and happen a known number of times; no task may start itself, even through others.
fn forks_are_known(source: Source<'_>, file: &File) -> Result<()> {
    let index: BTreeMap<&str, usize> =
        file.tasks.iter().enumerate().map(|(i, t)| (t.name.as_str(), i)).collect();
    let mut edges: Vec<Vec<(usize, usize)>> = Vec::new();
    for task in &file.tasks {
        let mut out = Vec::new();
        for phase in &task.phases {
            for event in &phase.events {
                let EventAction::Fork(name) = &event.what else { continue };
                let child = index.get(name.as_str()).ok_or_else(|| {
                    Error::unknown("task", name, index.keys().copied()).at(source.spot(event.at))
                })?;
                if task.loops.is_none() || phase.loops.is_none() {
                    let error = source.error(event.at, format!("a fork of '{name}' in an endless loop"));
                    return Err(error.help(
                        "give the task and its phase a loop count (without one a task loops for ever)",
                    ));
                }
                out.push((*child, event.at));
            }
        }
        edges.push(out);
    }
    no_cycle(&edges).map_err(|at| {
        let error = source.error(at, "this fork leads back to the task it is in");
        error.help("tasks must not fork each other in a circle")
    })
}

/// Repeatedly removes tasks that no remaining task forks. The rest is on a cycle or reached from one. The error is the
/// place of an edge on a cycle.
fn no_cycle(edges: &[Vec<(usize, usize)>]) -> std::result::Result<(), usize> {
    let mut parents = vec![0usize; edges.len()];
    edges.iter().flatten().for_each(|(child, _)| parents[*child] += 1);
    let mut free: Vec<usize> = (0..edges.len()).filter(|t| parents[*t] == 0).collect();
    while let Some(task) = free.pop() {
        for (child, _) in &edges[task] {
            parents[*child] -= 1;
            if parents[*child] == 0 {
                free.push(*child);
            }
        }
    }
    let on_circle = edges.iter().enumerate().filter(|(task, _)| parents[*task] > 0);
    match on_circle.flat_map(|(_, out)| out).find(|(child, _)| parents[*child] > 0) {
        Some((_, at)) => Err(*at),
        None => Ok(()),
    }
}

/// A timer has one mode, which any use may name; the default is relative.
fn timer_modes(source: Source<'_>, file: &File) -> Result<Modes> {
    let mut named: BTreeMap<(Option<usize>, String), Option<Mode>> = BTreeMap::new();
    for (i, task) in file.tasks.iter().enumerate() {
        for event in events(task) {
            let EventAction::Timer { name, mode, .. } = &event.what else { continue };
            let known = named.entry((is_unique(name).then_some(i), name.clone())).or_insert(None);
            match (*known, *mode) {
                (Some(a), Some(b)) if a != b => {
                    let error =
                        source.error(event.at, format!("timer '{name}' is both relative and absolute"));
                    return Err(error.help("use two timers, or one mode"));
                }
                (None, some) => *known = some,
                _ => {}
            }
        }
    }
    Ok(named.into_iter().map(|(timer, mode)| (timer, mode.unwrap_or(Mode::Relative))).collect())
}
