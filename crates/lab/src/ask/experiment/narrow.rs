//! A part of an experiment: the loads, machines, variants and metrics that the command line asks for.
//!
//! A name without its swept values means all of them: "hz" means "hz,hz=250" and "hz,hz=1000". Loads on
//! different machines may share a name; `NAME@MACHINE` means one of them. A workload's name means all of its loads,
//! and "WORKLOAD NAME", as tables have it, one of them.

use super::model::{Experiment, Load};
use schedlab_base::{Backend, Error, Result};
use schedlab_compare::metrics::KnownMetrics;
use schedlab_compare::runs::{means, means_load, means_load_anywhere};

/// The most names that a message lists.
const LISTED: usize = 10;

/// The requested part; an empty list requests all.
#[derive(Clone, Debug, Default)]
pub struct Part {
    /// Loads, each as NAME, WORKLOAD or "WORKLOAD NAME", with or without @MACHINE.
    pub loads: Vec<String>,
    pub machines: Vec<String>,
    pub workloads: Vec<String>,
    pub variants: Vec<String>,
    /// Metrics, of the experiment or not.
    pub metrics: Vec<String>,
}

impl Experiment {
    /// Keeps only the requested part. If the experiment's baseline is not in it, the first variant becomes the
    /// baseline. Loads that can give none of the metrics are also removed.
    ///
    /// # Errors
    /// When the experiment does not have a name, none of its loads can give a metric, or no load is left.
    pub fn narrow(&mut self, backend: Backend, part: &Part) -> Result<()> {
        if let (Backend::Host, Some(name)) = (backend, part.machines.first()) {
            let text =
                format!("--machine {name} is for the simulator and for guests, and this runs on this host");
            return Err(Error::input(text).help("add --backend sim or --backend vm"));
        }
        let of = |l: &Load| match backend {
            Backend::Host => "host".to_owned(),
            Backend::Sim | Backend::Vm | Backend::Code => self.machines[l.machine].name.clone(),
        };
        let all = match backend {
            Backend::Host => &self.host_loads,
            Backend::Sim | Backend::Vm | Backend::Code => &self.loads,
        };
        let all: Vec<(Load, String)> = all.iter().map(|l| (l.clone(), of(l))).collect();
        let metrics = if part.metrics.is_empty() {
            Vec::new()
        } else {
            KnownMetrics::of(all.iter().map(|(l, _)| &l.spec))?.spelled_out(&part.metrics)
        };
        let left = shown(chosen(&all, part)?, &all, &metrics)?;
        match backend {
            Backend::Host => self.host_loads = left,
            Backend::Sim | Backend::Vm | Backend::Code => self.keep_loads(left),
        }
        if !metrics.is_empty() {
            self.published.retain(|p| metrics.contains(&p.metric));
            self.metrics = metrics;
        }
        self.keep_variants(&part.variants)
    }

    /// Keeps these loads and the machines they run on.
    fn keep_loads(&mut self, mut loads: Vec<Load>) {
        let mut used: Vec<usize> = loads.iter().map(|l| l.machine).collect();
        used.sort_unstable();
        used.dedup();
        self.machines = used.iter().map(|at| self.machines[*at].clone()).collect();
        for load in &mut loads {
            load.machine = used.partition_point(|at| *at < load.machine);
        }
        self.loads = loads;
    }

    fn keep_variants(&mut self, wanted: &[String]) -> Result<()> {
        let known: Vec<&str> = self.variants.iter().map(|v| v.name.as_str()).collect();
        if let Some(strange) = wanted.iter().find(|w| !known.iter().any(|name| means(w, name))) {
            return Err(unknown("variant", strange, known));
        }
        self.variants.retain(|v| wanted.is_empty() || wanted.iter().any(|w| means(w, &v.name)));
        if let Some(first) = self.variants.first()
            && !self.variants.iter().any(|v| v.name == self.baseline)
        {
            self.baseline.clone_from(&first.name);
        }
        Ok(())
    }
}

/// Whether `wanted` means that load on that machine.
fn is_load(wanted: &str, load: &Load, machine: &str) -> bool {
    means_load(wanted, load.spec.name(), &load.name, machine)
}

/// The requested loads by load and machine, each with its machine's name.
fn chosen<'l>(all: &'l [(Load, String)], part: &Part) -> Result<Vec<&'l Load>> {
    let machines = || all.iter().map(|(_, machine)| machine.as_str());
    if let Some(strange) = part.machines.iter().find(|w| !machines().any(|m| means(w, m))) {
        return Err(unknown("machine of this experiment", strange, machines()));
    }
    for wanted in &part.loads {
        if !all.iter().any(|(l, machine)| is_load(wanted, l, machine)) {
            return Err(no_load(wanted, all));
        }
    }
    let workloads = || all.iter().map(|(l, _)| l.spec.name());
    if let Some(strange) = part.workloads.iter().find(|w| !workloads().any(|name| means(w, name))) {
        return Err(unknown("workload of this experiment", strange, workloads()));
    }
    let is_on = |machine: &str| part.machines.is_empty() || part.machines.iter().any(|w| means(w, machine));
    let is_one = |l: &Load, machine: &str| {
        let named = part.loads.is_empty() || part.loads.iter().any(|w| is_load(w, l, machine));
        named && (part.workloads.is_empty() || part.workloads.iter().any(|w| means(w, l.spec.name())))
    };
    let left: Vec<&Load> = all.iter().filter(|(l, m)| is_on(m) && is_one(l, m)).map(|(l, _)| l).collect();
    if left.is_empty() && !all.is_empty() {
        let (loads, on) = ([&part.loads[..], &part.workloads].concat().join(", "), part.machines.join(", "));
        if part.machines.is_empty() {
            let of = part.workloads.join(", ");
            return Err(Error::input(format!("no load '{}' is of {of}", part.loads.join(", "))));
        }
        let where_else = all.iter().filter(|(l, m)| is_one(l, m)).map(|(_, m)| m.as_str());
        return Err(Error::input(format!("no load '{loads}' runs on {on}"))
            .help(format!("it runs on {}", listed(where_else))));
    }
    Ok(left)
}

/// The error for a word of `--load` that matches nothing.
fn no_load(wanted: &str, all: &[(Load, String)]) -> Error {
    // Loads first: the names that a message lists are few.
    let names = all.iter().map(|(l, _)| l.name.as_str()).chain(all.iter().map(|(l, _)| l.spec.name()));
    let Some((name, machine)) = wanted.rsplit_once('@') else { return unknown("load", wanted, names) };
    let is_one = |l: &Load| means_load_anywhere(name, l.spec.name(), &l.name);
    let on: Vec<&str> = all.iter().filter(|(l, _)| is_one(l)).map(|(_, m)| m.as_str()).collect();
    let machines = || all.iter().map(|(_, m)| m.as_str());
    if on.is_empty() {
        unknown("load", name, names)
    } else if machines().any(|m| means(machine, m)) {
        Error::input(format!("load '{name}' does not run on {machine}"))
            .help(format!("it runs on {}", listed(on.into_iter())))
    } else {
        unknown("machine of this experiment", machine, machines())
    }
}

/// A short error with the nearest name, or the first few, each without its swept values.
fn unknown<'a>(what: &str, name: &str, known: impl IntoIterator<Item = &'a str>) -> Error {
    let known: Vec<&str> = known.into_iter().collect();
    match schedlab_base::nearest::nearest(name, known.iter().copied()) {
        Some(_) => Error::unknown(what, name, known),
        None => Error::input(format!("unknown {what} '{name}'"))
            .help(format!("known: {}", listed(known.iter().map(|k| k.split(',').next().unwrap_or(k))))),
    }
}

/// Each name once; if there are many, the first few.
fn listed<'a>(names: impl Iterator<Item = &'a str>) -> String {
    let mut once: Vec<&str> = Vec::new();
    for name in names {
        if !once.contains(&name) {
            once.push(name);
        }
    }
    match once.len().saturating_sub(LISTED) {
        0 => once.join(", "),
        more => format!("{} and {more} more", once[..LISTED].join(", ")),
    }
}

/// The loads that can give at least one of the metrics, each with those that it can give. Without metrics the
/// loads stay as they are.
fn shown(loads: Vec<&Load>, all: &[(Load, String)], metrics: &[String]) -> Result<Vec<Load>> {
    if metrics.is_empty() {
        return Ok(loads.into_iter().cloned().collect());
    }
    let whole = KnownMetrics::of(all.iter().map(|(l, _)| &l.spec))?;
    metrics.iter().try_for_each(|m| whole.check(m))?;
    let mut left = Vec::new();
    for load in loads {
        let known = KnownMetrics::of([&load.spec])?;
        let own: Vec<String> = metrics.iter().filter(|m| known.check(m).is_ok()).cloned().collect();
        if !own.is_empty() {
            left.push(Load { metrics: own, ..load.clone() });
        }
    }
    if left.is_empty() {
        let given =
            |l: &Load| KnownMetrics::of([&l.spec]).is_ok_and(|k| metrics.iter().any(|m| k.check(m).is_ok()));
        let others = all.iter().map(|(l, _)| l).filter(|l| given(l)).map(|l| l.name.as_str());
        let text = format!("no load that is left gives {}", metrics.join(", "));
        return Err(Error::input(text).help(format!("other loads do: {}", listed(others))));
    }
    Ok(left)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_means_its_whole_sweep_but_no_longer_name() {
        assert!(means("hz", "hz") && means("hz", "hz,hz=250") && means("hz,hz=250", "hz,hz=250"));
        assert!(!means("hz", "hzz") && !means("hz,hz=25", "hz,hz=250") && !means("hz,hz=250", "hz"));
        let is = |wanted: &str, name: &str, machine: &str| means_load(wanted, "w", name, machine);
        assert!(is("a@b", "a", "b") && is("a@b", "a,threads=2", "b,cpus=4") && is("w a@b", "a", "b"));
        assert!(is("a@b", "a@b", "c"), "a load may be called so");
        assert!(!is("a@b", "a", "c") && !is("@b", "a", "b"));
    }

    #[test]
    fn a_workloads_name_means_all_its_loads_and_with_a_loads_name_one() {
        let storm = |wanted: &str| means_load(wanted, "nanosleep", "storm", "smp-8");
        assert!(storm("nanosleep") && storm("storm") && storm("nanosleep storm"));
        assert!(storm("nanosleep@smp-8") && storm("nanosleep storm@smp-8") && !storm("nanosleep@smp-4"));
        assert!(
            !storm("nano") && !storm("nanosleep calm") && !storm("nanosleep ") && !storm("schbench storm")
        );
    }

    #[test]
    fn messages_are_short_and_name_each_thing_once() {
        let many: Vec<String> =
            (0..30).flat_map(|i| [format!("load-{i},t=1"), format!("load-{i},t=2")]).collect();
        let text = unknown("load", "bananas", many.iter().map(String::as_str)).to_string();
        assert!(text.ends_with("load-8, load-9 and 20 more") && text.len() < 200, "{text}");
        let text = unknown("load", "bananas", ["2x24", "2x24", "6x24"]).to_string();
        assert!(text.ends_with("known: 2x24, 6x24"), "{text}");
    }
}
