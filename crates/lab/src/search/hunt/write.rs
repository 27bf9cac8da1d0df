//! A specimen as an rt-app file, and the experiment that runs it.

use super::around::path;
use super::space::Space;
use super::specimen::{Cpus, Policy, Rest, Specimen, TaskKind, name};
use crate::ask::experiment::{Experiment, Load, SlurmOptions, write};
use schedlab_base::{Ns, Result};
use schedlab_compare::comparison::DEFAULT_MIN_EFFECT_PCT;
use schedlab_kernel::Variant;
use schedlab_machine::Machine;
use schedlab_workload::Spec;
use std::fmt::Write;
use std::path::Path;

/// The rt-app file of a specimen. The wakeups that task `a` sends are also called `a`.
pub fn rtapp(specimen: &Specimen, space: &Space) -> String {
    let cpus = space.cpus(specimen.machine);
    let tasks: Vec<String> = (0..specimen.kinds.len())
        .map(|i| format!("\t\t\"{}\" : {{ {} }}", name(i), task(i, specimen, cpus).join(", ")))
        .collect();
    format!(
        "{{\n\t\"global\" : {{ \"duration\" : 1, \"default_policy\" : \"SCHED_OTHER\" }},\n\t\"tasks\" : {{\n{}\n\t}}\n}}\n",
        tasks.join(",\n")
    )
}

fn property(key: &str, value: impl std::fmt::Display) -> String {
    format!("\"{key}\" : {value}")
}

/// The properties and events of a kind. A kind with two sets of attributes has a phase for each. A kind that forks has
/// a phase for each kind that it forks, which comes once.
fn task(i: usize, specimen: &Specimen, cpus: u32) -> Vec<String> {
    let kind = &specimen.kinds[i];
    let wakes = specimen.kinds.iter().any(|k| k.woken_by == Some(i));
    let mut all = vec![property("instance", if kind.forked_by.is_some() { 0 } else { kind.count })];
    if let Some(group) = kind.group {
        all.push(property("taskgroup", format!("\"{}\"", path(group, &specimen.around.groups))));
    }
    let events = events(i, kind, wakes);
    let phase = |name: &str, runs: i64, more: Vec<String>| {
        let all = [vec![property("loop", runs)], more].concat();
        property(name, format!("{{ {} }}", all.join(", ")))
    };
    let forked = || specimen.kinds.iter().enumerate().filter(|(_, other)| other.forked_by == Some(i));
    if let Some(then) = &kind.then {
        let runs = then.runs.into();
        let first = [attributes(kind.policy, kind.nice, kind.cpus, cpus, true), events.clone()].concat();
        let other = [attributes(then.policy, then.nice, then.cpus, cpus, true), events].concat();
        all.push(property(
            "phases",
            format!("{{ {}, {} }}", phase("one", runs, first), phase("two", runs, other)),
        ));
        return all;
    }
    all.extend(attributes(kind.policy, kind.nice, kind.cpus, cpus, false));
    if forked().next().is_none() {
        all.extend(events);
        return all;
    }
    let mut phases: Vec<String> = forked()
        .map(|(n, other)| {
            let fork = property("fork", format!("\"{}\"", name(n)));
            phase(&format!("forks-{}", name(n)), other.count.into(), [events.clone(), vec![fork]].concat())
        })
        .collect();
    phases.push(phase("on", -1, events));
    all.push(property("loop", 1));
    all.push(property("phases", format!("{{ {} }}", phases.join(", "))));
    all
}

/// The properties of policy, nice value or priority, and CPUs; `whole`: including the default ones.
fn attributes(policy: Policy, nice: i8, on: Cpus, cpus: u32, whole: bool) -> Vec<String> {
    let (word, priority) = match policy {
        Policy::Other => ("SCHED_OTHER", nice.into()),
        Policy::Batch => ("SCHED_BATCH", nice.into()),
        Policy::Idle => ("SCHED_IDLE", nice.into()),
        Policy::Fifo(priority) => ("SCHED_FIFO", i32::from(priority)),
        Policy::Rr(priority) => ("SCHED_RR", i32::from(priority)),
    };
    let mut all = Vec::new();
    if whole || policy != Policy::Other {
        all.push(property("policy", format!("\"{word}\"")));
    }
    if whole || priority != 0 {
        all.push(property("priority", priority));
    }
    if whole || on != Cpus::All {
        let list: Vec<String> = on.set(cpus).iter().map(|cpu| cpu.0.to_string()).collect();
        all.push(property("cpus", format!("[ {} ]", list.join(", "))));
    }
    all
}

/// The events of one run of a kind's tasks.
fn events(i: usize, kind: &TaskKind, wakes: bool) -> Vec<String> {
    let mut all = Vec::new();
    let mut add = |key: &str, value: String| all.push(property(key, value));
    if let Some(by) = kind.woken_by {
        add("suspend", format!("\"{}\"", name(by)));
    }
    if kind.locked_us > 0 {
        add("lock", "\"m\"".to_owned());
        add("run0", kind.locked_us.to_string());
        add("unlock", "\"m\"".to_owned());
    }
    add("run", kind.run_us.to_string());
    if wakes {
        add("resume", format!("\"{}\"", name(i)));
    }
    if kind.meets {
        add("barrier", format!("\"meet-{}\"", name(i)));
    }
    match (kind.woken_by, kind.rest) {
        (Some(_), _) | (None, Rest::None) => {}
        (None, Rest::Sleep(us)) => add("sleep", us.to_string()),
        (None, Rest::Timer(us)) => add("timer", format!("{{ \"ref\" : \"unique\", \"period\" : {us} }}")),
    }
    all
}

/// The parts of a specimen's experiment other than the specimen.
pub struct About<'a> {
    /// Its name, which its rt-app file shares.
    pub name: &'a str,
    /// Its subject, for people.
    pub about: &'a str,
    /// The metric that shows the loss.
    pub metric: &'a str,
    /// Length of a run.
    pub runtime: Ns,
    /// Seed of the first run.
    pub seed: u64,
    /// The baseline and the variant.
    pub variants: [&'a Variant; 2],
}

/// Metrics shown in addition to the one that shows the loss.
const BESIDE: &[&str] =
    &["work", "wakeup_delay.p50", "wakeup_delay.p99", "migrations", "switches.involuntary"];

/// Runs of each variant that confirm a loss.
const RUNS: u64 = 10;

impl About<'_> {
    fn metrics(&self) -> impl Iterator<Item = &str> {
        std::iter::once(self.metric).chain(BESIDE.iter().copied().filter(|m| *m != self.metric))
    }
    fn rtapp_file(&self) -> String {
        format!("{}.json", self.name)
    }
}

/// The experiment as text.
pub fn experiment(specimen: &Specimen, space: &Space, about: &About<'_>) -> String {
    let metrics: Vec<String> = about.metrics().map(write::quoted).collect();
    let [baseline, variant] = about.variants;
    let mut out = format!("name = {}\nabout = {}\n", write::quoted(about.name), write::quoted(about.about));
    let _ = writeln!(out, "runs = {RUNS}\nseed = {}", about.seed);
    let _ = writeln!(out, "machine = {}", write::quoted(&space.machines[specimen.machine].0));
    let _ = writeln!(out, "background = false\nbaseline = {}", write::quoted(&baseline.name));
    let _ = writeln!(out, "metrics = [{}]\n", metrics.join(", "));
    let (file, runtime) = (about.rtapp_file(), about.runtime.0);
    let _ = writeln!(out, "[workload]\nrtapp = \"{file}\"\nruntime = \"{runtime}ns\"\n");
    let _ = write!(out, "{}\n{}", write::variant(baseline), write::variant(variant));
    out
}

/// The experiment of a specimen that one kernel runs by its own code and by our rules, on a machine without costs.
pub fn same_on_both(
    specimen: &Specimen,
    space: &Space,
    (name, about): (&str, &str),
    runtime: Ns,
    variant: &Variant,
) -> String {
    let machine = machine_file(specimen, space);
    let mut out = format!("name = {}\nabout = {}\n", write::quoted(name), write::quoted(about));
    let _ = writeln!(out, "runs = 1\nseed = {}", super::sides::SEED);
    let _ = writeln!(out, "machine = {}\nbackground = false", write::quoted(&machine));
    let metrics: Vec<String> = BESIDE.iter().map(|m| write::quoted(m)).collect();
    let _ = writeln!(out, "metrics = [{}]\n", metrics.join(", "));
    let (tasks, runtime) = (format!("rtapp = \"{name}.json\""), runtime.0);
    let _ = match specimen.forking() {
        None => writeln!(out, "[workload]\n{tasks}\nruntime = \"{runtime}ns\"\n"),
        Some(all) => {
            let all: String = all.iter().map(|(key, value)| forking(key, *value)).collect();
            let forks = format!("[workload]\nname = \"forks\"\nruntime = \"{runtime}ns\"\n{all}");
            writeln!(out, "{forks}[[beside]]\n{tasks}\n")
        }
    };
    let cpus = space.cpus(specimen.machine);
    out + &write::variant(&specimen.in_variant(variant, cpus))
}

/// A line of a storm of forks.
fn forking(key: &str, value: u64) -> String {
    match key {
        "work" => format!("work = \"{value}us\"\n"),
        "exec" => format!("exec = {}\n", value == 1),
        _ => format!("{key} = {value}\n"),
    }
}

/// The file of a specimen's machine without costs, for the experiment's folder.
pub fn machine_file(specimen: &Specimen, space: &Space) -> String {
    format!("{}-without-costs.toml", space.machines[specimen.machine].1.name)
}

/// The experiment as a value: read from its text in `folder`, where its rt-app file is.
///
/// # Errors
/// When its machine can't be loaded.
pub fn as_value(specimen: &Specimen, space: &Space, about: &About<'_>, folder: &Path) -> Result<Experiment> {
    let spec =
        Spec::RtApp { file: about.rtapp_file(), text: rtapp(specimen, space), runtime: Some(about.runtime) };
    let load = Load {
        baseline: None,
        name: "default".to_owned(),
        machine: 0,
        spec,
        variants: Vec::new(),
        metrics: Vec::new(),
        own: Vec::new(),
    };
    Ok(Experiment {
        name: about.name.to_owned(),
        about: about.about.to_owned(),
        file: folder.join(format!("{}.toml", about.name)),
        text: experiment(specimen, space, about),
        runs: RUNS,
        seed: about.seed,
        machines: vec![Machine::load(&space.machines[specimen.machine].0)?],
        loads: vec![load.clone()],
        host_loads: vec![load],
        variants: about.variants.map(Variant::clone).to_vec(),
        baseline: about.variants[0].name.clone(),
        metrics: about.metrics().map(str::to_owned).collect(),
        min_effect_pct: DEFAULT_MIN_EFFECT_PCT,
        background: false,
        published: Vec::new(),
        posted: Vec::new(),
        series: None,
        real: false,
        left_out: None,
        slurm: SlurmOptions::default(),
        vm: None,
        code: None,
    })
}
