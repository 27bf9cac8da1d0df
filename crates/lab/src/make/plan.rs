//! The plan of an experiment: its cells, and the order of its runs.
//!
//! Run i of every variant has seed `seed + i`, so that variants are paired. All cells get run i before any gets run i +
//! 1, and every second round goes backwards (A B B A). Drift on a live machine then affects all variants alike, and an
//! interrupted experiment leaves whole pairs. The simulator's results do not depend on the order.

use crate::ask::cell::Cell;
use crate::ask::code::{CodeImage, Driven};
use crate::ask::experiment::{Experiment, Load, MAX_RUNS};
use crate::ask::guests::{self, Guests, Hosted};
use crate::ask::{scx, variant_checks, verdict};
use crate::make::watch;
use schedlab_base::{Backend, Error, Result, Version, Warning};
use schedlab_compare::tools;
use schedlab_compare::uncertainty::DEFAULT_DRAWS;
use schedlab_guest::shape;
use schedlab_kernel::{Policy, Variant, variant::RUNNING};
use schedlab_machine::Machine;
use schedlab_native::settings;
use schedlab_record::Observe;
use schedlab_workload::Spec;
use schedlab_workload::command::only_live;
use std::sync::Arc;

/// One run of a plan.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Run {
    /// Index into [`Plan::cells`].
    pub cell: usize,
    pub seed: u64,
}

/// Cells and runs.
#[derive(Clone, Debug)]
pub struct Plan {
    /// The cells: loads in the experiment's order, variants within.
    pub cells: Vec<Cell>,
    /// The runs in the order in which they are made.
    pub runs: Vec<Run>,
    /// Warnings for the reader.
    pub warnings: Vec<Warning>,
}

/// Options of the command line, which override the experiment.
#[derive(Clone, Copy, Debug, Default)]
pub struct Options {
    /// Runs of each cell.
    pub runs: Option<u64>,
    /// Seed of the first run.
    pub seed: Option<u64>,
    /// How closely live runs are watched at least; the metrics may need more ([`watch::needed`]).
    pub observe: Observe,
    /// Whether each run draws costs from their ranges.
    pub uncertainty: bool,
}

/// The plan of an experiment on a backend.
///
/// # Errors
/// When no part of the experiment can run there, the live kernel can't be changed as asked, or the plan is
/// too large.
pub fn plan(experiment: &Experiment, backend: Backend, options: Options) -> Result<Plan> {
    let (mut cells, warnings) = match backend {
        Backend::Sim => (simulated(experiment)?, not_booted(experiment)),
        Backend::Host => live(experiment)?,
        Backend::Vm | Backend::Code => {
            let text = "a plan of built kernels needs to know which";
            return Err(Error::internal(text));
        }
    };
    cells.iter().try_for_each(|c| variant_checks::watched(options.observe, &c.spec))?;
    cells.iter_mut().for_each(|c| c.observe = c.observe.max(options.observe));
    whole(experiment, cells, warnings, options)
}

/// The plan of an experiment in guests. Each load is followed by its simulation under the same variants.
///
/// # Errors
/// When a kernel has no image, no machine can be booted, or no load runs in a guest; or the plan is
/// too large.
pub fn plan_in_guests(experiment: &Experiment, guests: &Guests, options: Options) -> Result<Plan> {
    let (cells, warnings) = hosted(experiment, guests)?;
    whole(experiment, cells, warnings, options)
}

/// The plan of an experiment on the kernel's own code, under these variants. Each load is followed by its simulation by
/// our rules under the same variants, if `twinned`.
///
/// # Errors
/// When no load runs there, a workload needs a real kernel, or the plan is too large.
pub fn plan_on_code(
    experiment: &Experiment,
    variants: &[Driven],
    (twinned, options): (bool, Options),
) -> Result<Plan> {
    let mut warnings: Vec<Warning> =
        experiment.left_out.iter().map(|t| Warning::new("code.left_out", t)).collect();
    let machines = experiment.machines_as_run();
    let found = variants.iter().filter(|_| twinned).map(|driven| {
        let Driven { variant, image, .. } = driven;
        let series = Version::new(image.version.major, image.version.minor).to_string();
        let twin = guests::simulated_as(variant, variant.name.clone(), series);
        (driven, variant.name.as_str(), twin.and_then(|twin| ticking_as(image, twin)))
    });
    let twins = twins(found, "code.twins", &mut warnings);
    warnings.extend(verdict::refusals(variants));
    let mut cells = Vec::new();
    for load in &experiment.loads {
        let (machine, name) = (&machines[load.machine], || load.name.clone());
        let runs = |d: &Driven| d.of.as_ref().is_none_or(|name| load.runs_under(name));
        for Driven { variant, image, .. } in variants.iter().filter(|d| runs(d)) {
            cells.push(Cell::of_code(machine, image.clone(), variant.clone(), load.spec.clone(), name())?);
        }
        let simulated = twinned && is_simulated_by_rules(load, "code.twins", &mut warnings);
        for (_, twin) in twins.iter().filter(|(d, _)| simulated && runs(d)) {
            cells.push(Cell::simulated(machine, twin.clone(), load.spec.clone(), name())?);
        }
    }
    if cells.is_empty() {
        let text = format!("{}: nothing of it runs on the kernel's own code", experiment.name);
        return Err(Error::input(text).help("it needs a machine, a load and a kernel: kernel = \"6.1\""));
    }
    whole(experiment, cells, warnings, options)
}

fn whole(
    experiment: &Experiment,
    mut cells: Vec<Cell>,
    warnings: Vec<Warning>,
    options: Options,
) -> Result<Plan> {
    let mut usual = experiment.runs;
    if options.uncertainty {
        cells = cells.into_iter().map(Cell::with_uncertainty).collect::<Result<_>>()?;
        usual = DEFAULT_DRAWS;
    }
    let runs = options.runs.unwrap_or(usual);
    let seed = options.seed.unwrap_or(experiment.seed);
    Ok(Plan { runs: order(cells.len(), runs, seed)?, cells, warnings })
}

/// All cells once per round, forwards and backwards in turn.
///
/// # Errors
/// When there are no runs, or more than [`MAX_RUNS`].
pub fn order(cells: usize, runs: u64, seed: u64) -> Result<Vec<Run>> {
    let all = (cells as u64).checked_mul(runs).filter(|n| (1..=MAX_RUNS).contains(n));
    if all.is_none() {
        return Err(Error::input(format!(
            "{} with {} each: the plan holds 1 to {MAX_RUNS} runs",
            schedlab_base::counted(cells, "cell"),
            schedlab_base::counted(runs, "run")
        )));
    }
    if seed.checked_add(runs).is_none() {
        return Err(Error::input(format!(
            "seed {seed} leaves no room for {}",
            schedlab_base::counted(runs, "run")
        )));
    }
    let round = |i: u64| {
        (0..cells)
            .map(move |c| Run { cell: if i.is_multiple_of(2) { c } else { cells - 1 - c }, seed: seed + i })
    };
    Ok((0..runs).flat_map(round).collect())
}

/// A simulation that has the ticks of an image, whatever has asked for these.
fn ticking_as(image: &CodeImage, mut twin: Variant) -> Result<Variant> {
    if twin.resolve()?.tunables.hz != image.hz {
        twin.tunables.insert("hz".to_owned(), image.hz);
    }
    Ok(twin)
}

fn hosted(experiment: &Experiment, guests: &Guests) -> Result<(Vec<Cell>, Vec<Warning>)> {
    let mut warnings: Vec<Warning> =
        experiment.left_out.iter().map(|t| Warning::new("vm.left_out", t)).collect();
    let folder = experiment.folder();
    let variants = guests.variants(&experiment.variants, experiment.real, folder, &mut warnings)?;
    let found = variants.iter().map(|h| (h, h.variant.name.as_str(), guests::simulated(h)));
    let twins = twins(found, "vm.twins", &mut warnings);
    let built: Vec<Arc<Machine>> = experiment
        .machines_as_run()
        .iter()
        .map(|m| shape::as_built(m).map(Arc::new))
        .collect::<Result<_>>()?;
    let twin_of = |m: &Arc<Machine>| guests::twin_machine(m, guests.mode).map(Arc::new);
    let beside: Vec<Arc<Machine>> = built.iter().map(twin_of).collect::<Result<_>>()?;
    let mut cells = Vec::new();
    for load in &experiment.loads {
        let machine = &built[load.machine];
        if let Spec::Command(command) = &load.spec {
            tools::check_installed(command)?;
        }
        let runs = |h: &Hosted| h.of.as_ref().is_none_or(|name| load.runs_under(name));
        for hosted in variants.iter().filter(|h| runs(h)) {
            cells.push(hosted_cell(machine, load, hosted, guests)?);
        }
        let simulated = is_simulated_by_rules(load, "vm.twins", &mut warnings);
        for (_, twin) in twins.iter().filter(|(h, _)| simulated && runs(h)) {
            let machine = &beside[load.machine];
            cells.push(Cell::simulated(machine, twin.clone(), load.spec.clone(), load.name.clone())?);
        }
    }
    if cells.is_empty() {
        let text = format!("{}: nothing of it runs in a guest", experiment.name);
        return Err(Error::input(text)
            .help("it needs a machine and a load: machine = \"smt-8\" at the top, or in [vm]"));
    }
    Ok((cells, warnings))
}

/// Whether our rules simulate a load; a warning gives the reason if not. A command has no program to simulate.
fn is_simulated_by_rules(load: &Load, warning: &str, warnings: &mut Vec<Warning>) -> bool {
    if matches!(load.spec, Spec::Command(_)) {
        return false;
    }
    // A workload that can't be built is refused by the plan of its backend.
    let built = load.spec.build(0);
    let has = |policy| built.as_ref().is_ok_and(|built| built.attrs().any(|attr| attr.policy == policy));
    let lacks = [(Policy::Deadline, "SCHED_DEADLINE"), (Policy::Ext, "sched_ext")];
    let lacks = lacks.into_iter().find(|(policy, _)| has(*policy));
    if let Some((_, what)) = lacks {
        let text = format!("load '{}': our rules have no {what}, so they do not simulate it", load.name);
        warnings.push(Warning::new(warning, text));
    }
    lacks.is_none()
}

/// The simulations for real kernels, each once; `found` has the variant's name and its simulation. A warning of that
/// code names kernels without a simulation, and those that share one.
fn twins<'a, T>(
    found: impl Iterator<Item = (&'a T, &'a str, Result<Variant>)>,
    warning: &str,
    warnings: &mut Vec<Warning>,
) -> Vec<(&'a T, Variant)> {
    let (mut untwinned, mut alike): (Vec<String>, Vec<String>) = (Vec::new(), Vec::new());
    let mut twins: Vec<(&T, Variant)> = Vec::new();
    for (of, name, simulated) in found {
        match simulated {
            Ok(twin) => match twins.iter().find(|(_, t)| is_same(t, &twin)) {
                // Two images of a series have one profile.
                Some((_, t)) if t.name == twin.name => {}
                Some((_, t)) => alike.push(format!("{} as {}", twin.name, t.name)),
                None => twins.push((of, twin)),
            },
            Err(e) => untwinned.push(format!("{name} ({})", e.message())),
        }
    }
    if !untwinned.is_empty() {
        let text = format!("not simulated by our rules beside them: {}", untwinned.join("; "));
        warnings.push(Warning::new(warning, text));
    }
    if !alike.is_empty() {
        let text = format!("simulated once, the profile is the same: {}", alike.join(", "));
        warnings.push(Warning::new(warning, text));
    }
    twins
}

/// Whether two simulated variants have the same name, or differ only in their names.
fn is_same(a: &Variant, b: &Variant) -> bool {
    a.name == b.name || *a == Variant { name: a.name.clone(), ..b.clone() }
}

fn hosted_cell(machine: &Arc<Machine>, load: &Load, hosted: &Hosted, guests: &Guests) -> Result<Cell> {
    let guest = guests.guest_of(hosted);
    Cell::in_guest(machine, guest, hosted.variant.clone(), load.spec.clone(), load.name.clone())
        .map_err(|e| e.context(format!("load '{}'", load.name)))
}

fn simulated(experiment: &Experiment) -> Result<Vec<Cell>> {
    let commands = experiment.loads.iter().chain(&experiment.host_loads);
    if let Some(load) = commands.into_iter().find(|l| matches!(l.spec, Spec::Command(_))) {
        let name = load.spec.name();
        return Err(only_live().context(name));
    }
    if experiment.loads.is_empty() {
        return Err(Error::input(format!("{}: no machine to simulate", experiment.name))
            .help("machine = \"smt-8\" at the top, or in each [[load]]; 'schedlab machine' lists them"));
    }
    let machines = experiment.machines_as_run();
    let mut cells = Vec::new();
    for load in &experiment.loads {
        let runs = |v: &&Variant| is_simulated(v) && load.runs_under(&v.name);
        for variant in experiment.variants.iter().filter(runs) {
            let machine = &machines[load.machine];
            cells.push(Cell::simulated(machine, variant.clone(), load.spec.clone(), load.name.clone())?);
        }
    }
    if cells.is_empty() && experiment.variants.iter().any(is_simulated) {
        let runs = |l: &Load| format!("load '{}' runs under {}", l.name, l.variants.join(", "));
        let narrowed: Vec<String> = experiment.loads.iter().map(runs).collect();
        let text = format!("{}: no load that is left runs under a variant that is left", experiment.name);
        return Err(Error::input(text).help(narrowed.join("; ")));
    }
    let real = named(experiment, guests::is_real_variant);
    if cells.is_empty() && experiment.variants.iter().all(has_only_schedulers) {
        let text = format!("{}: the simulator has no sched_ext: {real}", experiment.name);
        return Err(Error::input(text).help("--backend code runs its schedulers on simulated machines"));
    }
    if cells.is_empty() && !real.is_empty() {
        let text = format!("{}: real kernels can't be simulated: {real}", experiment.name);
        return Err(Error::input(text)
            .help("--backend vm boots them in guests, --backend code runs their schedulers"));
    }
    if cells.is_empty() {
        return Err(Error::input(format!("{}: all variants are of the running kernel", experiment.name))
            .help("use --backend host, or name a kernel to simulate"));
    }
    Ok(cells)
}

/// Variants of another backend, which this backend can't run: "v6.5 (simulated)". Variants that have a warning in a
/// plan are not among them.
pub fn left_out(experiment: &Experiment, backend: Backend) -> Vec<String> {
    let running = |v: &Variant| v.kernel == RUNNING;
    let is_run = experiment.variants.iter().any(running);
    let why = |v: &Variant| match backend {
        Backend::Host if is_run && is_simulated(v) => Some("simulated"),
        Backend::Host if is_run && !running(v) => Some("in a guest"),
        Backend::Sim | Backend::Vm | Backend::Code if running(v) => Some("the running kernel"),
        _ => None,
    };
    let of = |v: &Variant| why(v).map(|why| format!("{} ({why})", v.name));
    experiment.variants.iter().filter_map(of).collect()
}

/// Refuses an experiment if a backend can run fewer than two of its variants: nothing would be compared.
///
/// # Errors
/// In that case; the message names the other variants.
pub fn check_compares(experiment: &Experiment, backend: Backend) -> Result<()> {
    let runs = |v: &Variant| match backend {
        Backend::Sim => is_simulated(v),
        Backend::Host => v.kernel == RUNNING,
        Backend::Vm | Backend::Code => v.kernel != RUNNING,
    };
    if experiment.variants.iter().filter(|v| runs(v)).count() >= 2 {
        return Ok(());
    }
    let others = named(experiment, |v| !runs(v));
    let text =
        format!("{}: --backend {backend} can't run {others}: nothing is left to compare", experiment.name);
    let all = |of: fn(&Variant) -> bool| experiment.variants.iter().all(of);
    Err(Error::input(text).help(match backend {
        Backend::Sim if all(|v| v.kernel != RUNNING) => "--backend vm boots real kernels and builds patches",
        Backend::Sim | Backend::Vm | Backend::Code if all(|v| v.kernel == RUNNING) => {
            "--backend host is for the running kernel"
        }
        Backend::Host if all(is_simulated) => "leave --backend out: the simulator runs them",
        _ => "name variants of one kind: simulated kernels (v6.5), real ones (6.1), or 'running'",
    }))
}

fn is_simulated(variant: &Variant) -> bool {
    variant.kernel != RUNNING && !guests::is_real_variant(variant)
}

/// Whether a variant is of a simulated kernel but for its sched_ext schedulers.
fn has_only_schedulers(variant: &Variant) -> bool {
    let bare = Variant { scx: None, at: Vec::new(), ..variant.clone() };
    variant.has_schedulers() && is_simulated(&bare)
}

/// The names of the variants for which `so` is true.
fn named(experiment: &Experiment, so: impl Fn(&Variant) -> bool) -> String {
    let names: Vec<&str> = experiment.variants.iter().filter(|v| so(v)).map(|v| v.name.as_str()).collect();
    names.join(", ")
}

/// Warnings of a simulation about variants that are meant for real kernels.
fn not_booted(experiment: &Experiment) -> Vec<Warning> {
    let of = |code: &str, names: String, text: &str, how: &str| {
        (!names.is_empty()).then(|| Warning::new(code, format!("{text} ({how}): {names}")))
    };
    let warning = |code: &str, names, text: &str| of(code, names, text, "--backend vm boots them");
    let real = named(experiment, |v| guests::is_real_variant(v) && !has_only_schedulers(v));
    let scx = named(experiment, has_only_schedulers);
    let profiles = named(experiment, |v| guests::has_profile(&v.kernel) && !guests::is_real_variant(v));
    [
        warning("sim.left_out", real, "left out, real kernels can't be simulated"),
        of("sim.left_out", scx, "left out, the simulator has no sched_ext", "--backend code runs it"),
        warning("sim.profiles", profiles, "not the real kernels, but the simulated ones of their series"),
    ]
    .into_iter()
    .flatten()
    .collect()
}

fn live(experiment: &Experiment) -> Result<(Vec<Cell>, Vec<Warning>)> {
    let mut warnings = Vec::new();
    let folder = experiment.folder();
    let running = experiment.variants.iter().filter(|v| v.kernel == RUNNING);
    let mut variants: Vec<Variant> = running.map(|v| scx::live(v, folder)).collect::<Result<_>>()?;
    if variants.is_empty() {
        variants.push(Variant::plain(RUNNING));
        let text = "no variant of this experiment is of the running kernel, which is measured as it is";
        warnings.push(Warning::new("host.variants", text));
    }
    // Settings that this machine or this user can't change are an error before the first run.
    variants.iter().try_for_each(|v| settings::Plan::of(v).map(drop))?;
    for load in &experiment.host_loads {
        if let Spec::Command(command) = &load.spec {
            tools::check_installed(command)?;
        }
    }
    let machine = Arc::new(Machine::load("host")?);
    let names = || variants.iter().map(|v| v.name.as_str());
    let cells = experiment.host_loads.iter().flat_map(|load| {
        let runs = variants.iter().filter(move |v| load.runs_live_under(&v.name, names()));
        let metrics = if load.metrics.is_empty() { &experiment.metrics } else { &load.metrics };
        let observe = watch::needed(metrics.iter().map(String::as_str));
        let machine = &machine;
        runs.map(move |v| Ok(Cell { observe, ..live_cell(machine, load, v)? }))
    });
    Ok((cells.collect::<Result<_>>()?, warnings))
}

fn live_cell(machine: &Arc<Machine>, load: &Load, variant: &Variant) -> Result<Cell> {
    load.spec.clone().with_groups(&variant.groups)?;
    Ok(Cell::live(machine, variant.clone(), load.spec.clone(), load.name.clone()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rounds_alternate_and_seeds_pair() {
        let runs: Vec<(usize, u64)> = order(2, 3, 7).unwrap().iter().map(|r| (r.cell, r.seed)).collect();
        assert_eq!(runs, [(0, 7), (1, 7), (1, 8), (0, 8), (0, 9), (1, 9)]);
    }

    #[test]
    fn absurd_plans_are_refused() {
        assert!(order(3, 0, 0).is_err() && order(2, MAX_RUNS, 0).is_err() && order(1, 5, u64::MAX).is_err());
        assert!(order(usize::MAX, u64::MAX, 0).is_err());
    }
}
