//! A specimen as an rt-app file, and the experiment that runs it.

use super::space::Space;
use super::specimen::{Cpus, Policy, Rest, Specimen, TaskKind, name};
use crate::experiment::{Experiment, Load, SlurmOptions, write};
use schedlab_base::{Ns, Result};
use schedlab_compare::comparison::DEFAULT_MIN_EFFECT_PCT;
use schedlab_kernel::Variant;
use schedlab_machine::Machine;
use schedlab_workload::Spec;
use std::fmt::Write;
use std::path::Path;

/// The rt-app file of a specimen. Task `a`'s wakeups of others are called `a`, too.
pub fn rtapp(specimen: &Specimen, space: &Space) -> String {
    let cpus = space.cpus(specimen.machine);
    let tasks: Vec<String> = specimen
        .kinds
        .iter()
        .enumerate()
        .map(|(i, kind)| {
            let wakes = specimen.kinds.iter().any(|k| k.woken_by == Some(i));
            format!("\t\t\"{}\" : {{ {} }}", name(i), task(i, kind, wakes, cpus).join(", "))
        })
        .collect();
    format!(
        "{{\n\t\"global\" : {{ \"duration\" : 1, \"default_policy\" : \"SCHED_OTHER\" }},\n\t\"tasks\" : {{\n{}\n\t}}\n}}\n",
        tasks.join(",\n")
    )
}

/// The properties and events of a kind.
fn task(i: usize, kind: &TaskKind, wakes: bool, cpus: u32) -> Vec<String> {
    let mut all = Vec::new();
    let mut add = |key: &str, value: String| all.push(format!("\"{key}\" : {value}"));
    add("instance", kind.count.to_string());
    match kind.policy {
        Policy::Other => {}
        Policy::Batch => add("policy", "\"SCHED_BATCH\"".to_owned()),
        Policy::Idle => add("policy", "\"SCHED_IDLE\"".to_owned()),
    }
    if kind.nice != 0 {
        add("priority", kind.nice.to_string());
    }
    let some = |from: u32, to: u32| {
        let list: Vec<String> = (from..to).map(|cpu| cpu.to_string()).collect();
        format!("[ {} ]", list.join(", "))
    };
    match kind.cpus {
        Cpus::All => {}
        Cpus::First => add("cpus", some(0, 1)),
        Cpus::Low => add("cpus", some(0, (cpus / 2).max(1))),
        Cpus::High => add("cpus", some(cpus / 2, cpus)),
    }
    if let Some(group) = kind.group {
        add("taskgroup", format!("\"/g{group}\""));
    }
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

/// What an experiment about a specimen holds beside it.
pub struct About<'a> {
    /// Its name, also of the rt-app file beside it.
    pub name: &'a str,
    /// For people.
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

/// Metrics shown beside the one that shows the loss.
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
    let _ = writeln!(out, "[workload]\nrtapp = \"{name}.json\"\nruntime = \"{}ns\"\n", runtime.0);
    out + &write::variant(variant)
}

/// The file of a specimen's machine without costs, which stands beside its experiment.
pub fn machine_file(specimen: &Specimen, space: &Space) -> String {
    format!("{}-without-costs.toml", space.machines[specimen.machine].1.name)
}

/// The experiment as a value: what is read from its text in `folder`, beside its rt-app file.
///
/// # Errors
/// When its machine can't be loaded.
pub fn as_value(specimen: &Specimen, space: &Space, about: &About<'_>, folder: &Path) -> Result<Experiment> {
    let spec =
        Spec::RtApp { file: about.rtapp_file(), text: rtapp(specimen, space), runtime: Some(about.runtime) };
    let load = Load {
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
        real: false,
        left_out: None,
        slurm: SlurmOptions::default(),
        vm: None,
        code: None,
    })
}
