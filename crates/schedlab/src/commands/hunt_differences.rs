//! `schedlab hunt KERNEL --first-difference`: workloads under which our rules deviate from a kernel's own code.

use crate::output;
use crate::progress::Bar;
use schedlab_base::{CpuId, Error, ErrorKind, Ns, Result, TaskId, counted, one_or};
use schedlab_lab::search::hunt::{Budget, Difference, DifferenceSearch, Differences, Sides, differences};
use schedlab_trace::{Event, EventKind};
use serde::Serialize;
use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;
use std::time::Instant;

/// The request of a search.
pub(super) struct Asked<'a> {
    pub search: DifferenceSearch,
    pub jobs: usize,
    pub out: &'a Path,
    pub json: bool,
    pub quiet: bool,
}

/// A kind of difference, as in JSON.
#[derive(Serialize)]
struct DifferenceFound {
    code: String,
    rules: String,
    workloads: usize,
    draws: Vec<u64>,
    machine: String,
    tasks: u32,
    tasks_before: u32,
    shrunk_to_the_end: bool,
    at_ns: u64,
    workload: Vec<String>,
    events_of_code: Vec<String>,
    events_of_rules: Vec<String>,
    experiment: PathBuf,
}

/// Searches, keeps the findings, and prints them.
///
/// # Errors
/// As runs and files; on an interruption.
pub(super) fn run(sides: &Sides, asked: &Asked<'_>, stop: &AtomicBool) -> Result<()> {
    fs::create_dir_all(asked.out).map_err(|e| Error::io(asked.out, "make", &e))?;
    let found = search(sides, asked, stop)?;
    let mut all = Vec::new();
    for (number, one) in found.found.iter().enumerate() {
        let name = format!("difference-{}", number + 1);
        let write = |file: &str, text: String| {
            schedlab_base::temp::write_whole(&asked.out.join(file), text.as_bytes())
        };
        let (machine_file, machine) = one.machine(sides)?;
        write(&machine_file, machine)?;
        write(&format!("{name}.json"), one.rtapp(sides))?;
        write(&format!("{name}.toml"), one.experiment_text(&name, sides))?;
        all.push(as_found(one, sides, asked.out.join(format!("{name}.toml"))));
    }
    if asked.json {
        output::json_as(
            "schedlab/first-differences/1",
            &serde_json::json!({
                "kernel": sides.code.name, "seed": asked.search.seed, "workloads": found.drawn, "same": found.same,
                "ordered": found.ordered, "late": found.late, "interrupted": found.interrupted, "found": all,
            }),
        )?;
    } else {
        output::result(|out| print(&found, &all, sides, out))?;
    }
    if found.interrupted {
        let text = format!("interrupted after {}", counted(found.drawn, "workload"));
        return Err(Error::new(ErrorKind::CheckFailed, text));
    }
    Ok(())
}

fn search(sides: &Sides, asked: &Asked<'_>, stop: &AtomicBool) -> Result<Differences> {
    let bar = Bar::share(asked.quiet);
    let began = Instant::now();
    let progress = |found: &Differences| {
        let part = match asked.search.budget {
            Budget::Evals(n) => found.drawn as f64 / n as f64,
            Budget::Time(time) => began.elapsed().as_secs_f64() / time.as_secs_f64().max(0.001),
        };
        let words = format!("{}: {} the same", counted(found.drawn, "workload"), found.same);
        bar.at((1000.0 * part.min(1.0)) as u64, words);
    };
    differences(sides, asked.search, asked.jobs, &progress, stop)
}

fn as_found(one: &Difference, sides: &Sides, experiment: PathBuf) -> DifferenceFound {
    let [code, rules] = one.kinds.clone();
    let lines = |side: usize| {
        one.parted.events[side].iter().filter_map(|e| line(e, &one.parted.names)).collect::<Vec<_>>()
    };
    DifferenceFound {
        code,
        rules,
        workloads: one.draws.len(),
        draws: one.draws.clone(),
        machine: sides.space.machines[one.specimen.machine].0.clone(),
        tasks: one.specimen.tasks(),
        tasks_before: one.tasks_before,
        shrunk_to_the_end: one.whole,
        at_ns: one.parted.parting.at.0,
        workload: one.specimen.words(),
        events_of_code: lines(0),
        events_of_rules: lines(1),
        experiment,
    }
}

/// An event as a line; `None` if it does not show which task runs where.
fn line(event: &Event, names: &[String]) -> Option<String> {
    let task = |task: TaskId| names.get(task.index()).map_or("(kernel)", String::as_str);
    let some = |of: Option<TaskId>| of.map_or("idle", task);
    let cpu = |cpu: CpuId| format!("cpu {}", cpu.0);
    let text = match event.kind {
        EventKind::Switch { prev, next, why } => {
            format!("{} -> {}: {}", some(prev), some(next), why.name())
        }
        EventKind::Waking { task: of, waker } => {
            format!("{} is woken by {}", task(of), waker.map_or("an interrupt", task))
        }
        EventKind::Placed { task: of, target, reason, .. } => {
            format!("{} placed on {}: {}", task(of), cpu(target), reason.name())
        }
        EventKind::Enqueued { task: of, new, .. } => {
            format!("{} {}", task(of), if new { "begins" } else { "wakes up" })
        }
        EventKind::Migrate { task: of, from, why } => {
            format!("{} comes from {}: {}", task(of), cpu(from), why.name())
        }
        EventKind::Balance { level, trigger, why, moved, src, .. } => {
            let from = src.map_or_else(String::new, |src| format!(" from {}", cpu(src)));
            format!("{} balance of domain {level}{from}: {}, {moved} moved", trigger.name(), why.name())
        }
        EventKind::Exited { task: of } => format!("{} ends", task(of)),
        _ => return None,
    };
    Some(format!("{:>14} ns  {}  {text}", event.at.0, cpu(event.cpu)))
}

fn print(
    found: &Differences,
    all: &[DifferenceFound],
    sides: &Sides,
    out: &mut dyn Write,
) -> std::io::Result<()> {
    let (same, ordered) = (found.same, found.ordered);
    let parted = found.drawn - same - ordered;
    writeln!(
        out,
        "{}: its own code (level free) against our rules {}, on machines where no step takes time",
        sides.code.name, sides.rules.kernel
    )?;
    writeln!(
        out,
        "{}: {same} the same to the end, {ordered} up to an instant at which the order of CPUs decides, {parted} differ",
        counted(found.drawn, "workload")
    )?;
    if found.late > 0 {
        let late = counted(found.late, "workload");
        writeln!(
            out,
            "{late} took longer than a workload's share of the time, and {} not judged",
            one_or(found.late, "is", "are")
        )?;
    }
    for one in all {
        writeln!(
            out,
            "\n{} of {parted}: the code has {}, our rules have {}",
            one.workloads, one.code, one.rules
        )?;
        let draws: Vec<String> = one.draws.iter().map(u64::to_string).collect();
        writeln!(out, "  drawn as {}", draws.join(", "))?;
        let whole = if one.shrunk_to_the_end { "" } else { ", not shrunk to the end" };
        let tasks = counted(u64::from(one.tasks), "task");
        writeln!(out, "  on {}, {tasks}, of {} at first{whole}:", one.machine, one.tasks_before)?;
        one.workload.iter().try_for_each(|line| writeln!(out, "    {line}"))?;
        writeln!(out, "  at {}; the kernel's code:", Ns(one.at_ns))?;
        one.events_of_code.iter().try_for_each(|line| writeln!(out, "  {line}"))?;
        writeln!(out, "  our rules, with their reasons:")?;
        one.events_of_rules.iter().try_for_each(|line| writeln!(out, "  {line}"))?;
        writeln!(out, "  schedlab run {} --backend code", one.experiment.display())?;
    }
    Ok(())
}
