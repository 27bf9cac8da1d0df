//! The command line that makes a stored run again, from its record alone.
//!
//! A run of an experiment is made again by its experiment, which is stored next to it or is a study that ships. Any
//! other run is made again by `bench`. A run that `bench` can't describe (attributes of one group of tasks, settings, a
//! machine from a file) has no command line.

use schedlab_base::{Backend, GuestMode};
use schedlab_compare::comparison::looks_warning::without_looks;
use schedlab_compare::tools;
use schedlab_kernel::policy::EVERY_TASK;
use schedlab_kernel::variant::RUNNING;
use schedlab_kernel::{Variant, tunable};
use schedlab_lab::ask::guests::cutoff_options;
use schedlab_lab::ask::studies::STUDIES;
use schedlab_lab::ask::variant_words::{self, Changes};
use schedlab_machine::Machine;
use schedlab_record::store_listing::EXPERIMENT_FILE;
use schedlab_record::{Observe, Record, RunDir};
use schedlab_workload::command::{DEFAULT_TIMEOUT, one_line};
use schedlab_workload::{CommandSpec, ParamKind, Params, Spec, spec};
use std::path::Path;

/// The command lines for the runs of these seeds (ascending) of a cell, one for each stretch of seeds; `None` when
/// there is none.
///
/// The line of runs in real time has no seed: a seed would find the stored runs, but a new measurement is wanted.
pub fn line(record: &Record, run: &RunDir, seeds: &[u64]) -> Option<String> {
    let mut words = vec!["schedlab".to_owned()];
    match std::fs::read_to_string(run.path.join(EXPERIMENT_FILE)) {
        Ok(text) => words.extend(of_experiment(record, run, &text)?),
        Err(_) => words.extend(of_bench(record)?),
    }
    seeds.first()?;
    // `bench` makes one run by default, so one needs no option. An experiment, and drawn costs, have other defaults.
    let runs = |n: usize| {
        if n > 1 || words[1] != "bench" || !record.drawn.is_empty() {
            pair("runs", n).to_vec()
        } else {
            Vec::new()
        }
    };
    let live = !record.backend.is_simulated()
        && record.guest.as_ref().is_none_or(|g| g.mode != GuestMode::Deterministic);
    if live {
        return Some(one_line(&[words.clone(), runs(seeds.len())].concat()));
    }
    let stretches = seeds.chunk_by(|a, b| a.checked_add(1) == Some(*b));
    let lines = stretches
        .map(|some| one_line(&[words.clone(), runs(some.len()), pair("seed", some[0]).to_vec()].concat()));
    Some(lines.collect::<Vec<_>>().join("\n"))
}

fn pair(option: &str, value: impl ToString) -> [String; 2] {
    [format!("--{option}"), value.to_string()]
}

/// The words that run the experiment's copy, unless it names files that exist only next to the original.
fn of_experiment(record: &Record, run: &RunDir, text: &str) -> Option<Vec<String>> {
    let mut words = match STUDIES.iter().find(|(_, study)| *study == without_looks(text)) {
        Some((name, _)) => vec!["study".to_owned(), (*name).to_owned()],
        None => {
            let copy = run.path.join(EXPERIMENT_FILE);
            schedlab_lab::ask::experiment::load(&copy).ok()?;
            vec!["run".to_owned(), copy.display().to_string()]
        }
    };
    if record.backend != Backend::Sim {
        words.extend(pair("backend", &record.backend));
    }
    // Loads of several machines may have the same name. The machine of a live run has a name that no load has.
    match record.backend.made_by() {
        Some(Backend::Sim | Backend::Code) => {
            words.extend(pair("load", format!("{}@{}", record.load, record.machine.name)))
        }
        _ => words.extend(pair("load", &record.load)),
    }
    words.extend(pair("variant", &record.variant.name));
    words.extend(surroundings(record));
    if !record.drawn.is_empty() {
        words.push("--uncertainty".to_owned());
    }
    Some(words)
}

fn of_bench(record: &Record) -> Option<Vec<String>> {
    let mut words = vec!["bench".to_owned()];
    words.extend(workload(record)?);
    if record.backend != Backend::Host {
        words.extend(pair("backend", &record.backend));
        let machine = Machine::load(&record.machine.name).ok()?;
        if machine.topology != record.machine.topology && record.backend.is_simulated() {
            return None;
        }
        words.extend(pair("machine", &record.machine.name));
        words.extend(background(record, machine)?);
    }
    words.extend(kernel(record)?);
    // Only an experiment's metrics ask for stays.
    if record.guest.is_none() && record.observe == Some(Observe::Stays) {
        return None;
    }
    words.extend(surroundings(record));
    if !record.drawn.is_empty() {
        words.push("--uncertainty".to_owned());
    }
    Some(words)
}

/// The option that gives `machine` the run's background, if that is not its own; `None` when there is none, or when the
/// file has changed since.
fn background(record: &Record, mut machine: Machine) -> Option<Vec<String>> {
    if machine.background == record.machine.background {
        return Some(Vec::new());
    }
    let from = record.machine.background_from.as_ref().filter(|from| !from.scaled)?;
    machine.set_background(&from.named, Path::new(""), false).ok()?;
    (machine.background == record.machine.background).then(|| pair("background", &from.named).to_vec())
}

/// The options of the guest that the run was made in, or of how it was watched on the host.
fn surroundings(record: &Record) -> Vec<String> {
    let mut words = Vec::new();
    if let Some(guest) = &record.guest {
        words.extend(pair("guest-mode", guest.mode));
        words.extend(pair("accelerator", &guest.accelerator));
        words.extend(pair("memory", guest.memory_mb));
        // The variant gives its cutoffs again.
        let own = cutoff_options(&record.variant);
        let given = guest.boot_options.iter().filter(|b| !own.contains(b));
        given.for_each(|b| words.extend(pair("boot", b)));
    } else {
        match record.observe {
            Some(Observe::Events) => words.push("--events".to_owned()),
            Some(Observe::Counters) => words.push("--counters".to_owned()),
            Some(Observe::Caches) => words.push("--counters=caches".to_owned()),
            // Metrics ask for these without an option.
            Some(Observe::Accounts | Observe::Stays) | None => {}
        }
    }
    words
}

fn workload(record: &Record) -> Option<Vec<String>> {
    match schedlab_lab::stored::rerun::spec_of(record).ok()? {
        Spec::Bench { name, params } => benchmark(&name, &params),
        Spec::RtApp { file, runtime, .. } => {
            let runtime = runtime.into_iter().flat_map(|time| pair("runtime", format!("{}ns", time.0)));
            Some([file].into_iter().chain(runtime).collect())
        }
        Spec::Command(command) => of_command(&command, &record.load),
        // Only an experiment's file can say it.
        Spec::Replay { .. } | Spec::Together { .. } => None,
    }
}

/// The benchmark with the parameters that differ from their defaults; times in ns, to be exact.
fn benchmark(name: &str, params: &Params) -> Option<Vec<String>> {
    let bench = spec::find(name).ok()?;
    let mut words = vec![bench.name.to_owned()];
    for p in bench.params {
        let value = params.get(p.name).ok()?;
        if p.default == Some(value) {
            continue;
        }
        let option = p.name.replace('_', "-");
        match p.kind {
            ParamKind::Flag => words.push(format!("--{option}")),
            ParamKind::Time(_) => words.extend(pair(&option, format!("{value}ns"))),
            kind => words.extend(pair(&option, kind.show(value))),
        }
    }
    Some(words)
}

/// A command, if `bench` can describe it. A command with metrics of its own can't be: their options can't be derived
/// from the record.
fn of_command(c: &CommandSpec, load: &str) -> Option<Vec<String>> {
    let plain = c.env.is_empty() && c.cwd.is_none() && c.setup.is_empty() && c.cleanup.is_empty();
    if !plain || !c.metrics.is_empty() {
        return None;
    }
    let load = load.strip_prefix("load=");
    let mut words = match &c.tool {
        None => [pair("command", one_line(&c.argv)).to_vec()].concat(),
        Some(name) => {
            let tool = tools::find(name).ok()?;
            let loaded = if load.is_some() || !tool.default_load.is_empty() { tool.load.len() } else { 0 };
            let end = c.argv.len().checked_sub(tool.after.len() + loaded)?;
            let own = c.argv.get(1 + tool.before.len()..end)?;
            let mut words = pair("tool", name).to_vec();
            if !own.is_empty() {
                words.push(format!("--args={}", one_line(own)));
            }
            words
        }
    };
    if let Some(load) = load {
        words.extend(pair("load", load));
    }
    if c.timeout != DEFAULT_TIMEOUT {
        words.extend(pair("timeout", format!("{}ns", c.timeout.0)));
    }
    Some(words)
}

/// The kernel with its changes, if `bench` makes the same variant of these words. The variant's name holds the words as
/// they were written.
fn kernel(record: &Record) -> Option<Vec<String>> {
    let v = &record.variant;
    let mut words = match (v.kernel.as_str(), record.backend.made_by()) {
        (RUNNING, Some(Backend::Host)) => Vec::new(),
        (kernel, Some(Backend::Vm)) => pair("kernel", kernel.trim_start_matches('v')).to_vec(),
        (kernel, _) => pair("kernel", kernel).to_vec(),
    };
    let (mut features, mut tunables) = (Vec::new(), Vec::new());
    let mut attributes: [Option<String>; 3] = [None, None, None];
    let written = v.name.split_once(':').map_or("", |(_, changes)| changes);
    for change in written.split(',').filter(|c| !c.is_empty()) {
        let word = change
            .split_once('=')
            .map(|(word, value)| (variant_words::ATTRIBUTES.iter().position(|a| *a == word), value));
        match word {
            None => features.push(change.to_owned()),
            Some((None, _)) => tunables.push(change.to_owned()),
            Some((Some(at), value)) => attributes[at] = Some(value.to_owned()),
        }
    }
    features.iter().for_each(|f| words.extend(pair("feature", f)));
    tunables.iter().for_each(|t| words.extend(pair("tunable", t)));
    for (name, value) in variant_words::ATTRIBUTES.iter().zip(&attributes) {
        words.extend(value.iter().map(|value| format!("--{name}={value}")));
    }
    let [policy, nice, slice] = &attributes;
    let attributes = [policy.as_ref(), nice.as_ref(), slice.as_ref()];
    let made = variant_words::with_changes(
        &v.kernel,
        Changes { features: &features, tunables: &tunables, attributes },
    );
    // No option stands for groups of a variant, nor for changes of groups and tasks.
    let of_file = !v.groups.is_empty() || v.at.iter().any(|c| c.group.is_some() || c.task.is_some());
    (!of_file && (record.backend == Backend::Vm || made.is_ok_and(|made| made == *v))).then_some(words)
}

fn features(v: &Variant) -> Vec<String> {
    let later = v.at.iter().flat_map(|c| c.features.iter().map(move |f| format!("{f}@{}ns", c.time.0)));
    v.features.iter().cloned().chain(later).collect()
}

fn tunables(v: &Variant) -> Vec<String> {
    let later = |c: &schedlab_kernel::Change| {
        let time = c.time.0;
        c.tunables
            .iter()
            .map(|(n, value)| format!("{n}={}@{time}ns", tunable::text(n, *value)))
            .collect::<Vec<_>>()
    };
    let first = v.tunables.iter().map(|(n, value)| format!("{n}={}", tunable::text(n, *value)));
    first.chain(v.at.iter().flat_map(later)).collect()
}

/// The changes of a variant, in the words of the command line.
pub fn changes(v: &Variant) -> Vec<String> {
    let mut all = features(v);
    all.extend(tunables(v));
    for (group, change) in &v.tasks {
        let of = if group == EVERY_TASK { String::new() } else { format!("{group}.") };
        all.extend(change.policy.map(|p| format!("{of}policy={p}")));
        all.extend(change.nice.map(|n| format!("{of}nice={n}")));
        all.extend(change.slice.map(|s| format!("{of}slice={s}")));
    }
    all.extend(v.settings.iter().map(|(name, value)| format!("{name}={value}")));
    all
}
