//! Experiments: TOML files that name machines, workloads, loads, variants and metrics.
//!
//! Everything is checked while it is read, before any run: keys, names, parameters, sizes, files. A valid
//! [`Experiment`] can be planned on any backend without further errors of its file.

use super::slurm::SlurmOptions;
use schedlab_base::Backend;
use schedlab_compare::Question;
use schedlab_compare::comparison::BaselineIs;
use schedlab_kernel::Variant;
use schedlab_machine::Machine;
use schedlab_record::{PostedFigures, PostedSeries, Published};
use schedlab_workload::Spec;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// One load on one machine, resolved.
#[derive(Clone, Debug, PartialEq)]
pub struct Load {
    /// Name in tables ("2x24").
    pub name: String,
    /// Index into [`Experiment::machines`], or the live machine in [`Experiment::host_loads`].
    pub machine: usize,
    /// The workload with its parameters.
    pub spec: Spec,
    /// The variants it runs under, the baseline among them; empty: all.
    pub variants: Vec<String>,
    /// The variant that the others are compared with in this load; `None`: the experiment's baseline.
    pub baseline: Option<String>,
    /// The metrics its tables show; empty: the experiment's.
    pub metrics: Vec<String>,
    /// The metrics that are its own result; empty: its workload's.
    pub own: Vec<String>,
}

impl Load {
    /// Whether it runs under that variant.
    pub fn runs_under(&self, variant: &str) -> bool {
        self.variants.is_empty() || self.variants.iter().any(|v| v == variant)
    }
    /// Whether it runs under that variant of the running kernel; `live` are all such variants. A load
    /// restricted to simulated variants runs under all of them.
    pub fn runs_live_under<'v>(&self, variant: &str, mut live: impl Iterator<Item = &'v str>) -> bool {
        self.runs_under(variant) || !live.any(|v| self.runs_under(v))
    }
}

/// An experiment, read and checked.
#[derive(Clone, Debug)]
pub struct Experiment {
    pub name: String,
    /// Its question, for people.
    pub about: String,
    /// The file it was read from.
    pub file: PathBuf,
    /// The file's text, kept with every run.
    pub text: String,
    /// Runs of each cell.
    pub runs: u64,
    /// Run i has seed `seed + i`.
    pub seed: u64,
    /// Simulated machines.
    pub machines: Vec<Machine>,
    /// The loads on the simulated machines, in the file's order.
    pub loads: Vec<Load>,
    /// The loads on the live kernel: the `[host]` part, or else `loads` scaled to this host's CPUs.
    pub host_loads: Vec<Load>,
    /// Variants in the file's order.
    pub variants: Vec<Variant>,
    /// Name of the variant all others are compared with.
    pub baseline: String,
    /// Metrics in the order of the tables.
    pub metrics: Vec<String>,
    /// Smallest change that counts, percent.
    pub min_effect_pct: f64,
    /// Whether the machine's background tasks run in the simulator.
    pub background: bool,
    /// Published figures.
    pub published: Vec<Published>,
    /// What was published of a posted series.
    pub posted: Vec<PostedFigures>,
    /// The series whose figures these are.
    pub series: Option<PostedSeries>,
    /// Whether its variants are meant for real kernels in guests; a missing image is then an error.
    pub real: bool,
    /// The parts that are not run in guests, with the reason, for people.
    pub left_out: Option<String>,
    /// What `--engine slurm` asks of a cluster.
    pub slurm: SlurmOptions,
    /// The experiment for guests, if it has its own.
    pub vm: Option<Box<Experiment>>,
    /// The experiment for the kernel's own code, if it has its own.
    pub code: Option<Box<Experiment>>,
}

impl Experiment {
    /// Where its relative paths begin.
    pub fn folder(&self) -> &Path {
        self.file.parent().unwrap_or(Path::new("."))
    }
    /// Its machines, with or without background tasks as it says.
    pub fn machines_as_run(&self) -> Vec<Arc<Machine>> {
        let one = |m: &Machine| {
            let mut m = m.clone();
            if !self.background {
                m.background.clear();
                m.background_from = None;
            }
            Arc::new(m)
        };
        self.machines.iter().map(one).collect()
    }
    /// The question to its runs: metrics and baseline, and changes of these by single loads.
    pub fn question(&self) -> Question {
        let simulated = self.loads.iter().map(|l| (self.machines[l.machine].name.as_str(), l));
        let live = self.host_loads.iter().map(|l| (Backend::Host.name(), l));
        let loads: Vec<(&str, &Load)> = simulated.chain(live).collect();
        let key = |machine: &str, l: &Load| [machine.to_owned(), l.spec.name().to_owned(), l.name.clone()];
        let of = |list: fn(&Load) -> &Vec<String>| -> BTreeMap<[String; 3], Vec<String>> {
            let narrowed = loads.iter().filter(|(_, l)| !list(l).is_empty());
            narrowed.map(|(machine, l)| (key(machine, l), list(l).clone())).collect()
        };
        let baselines = loads.iter().filter_map(|(machine, l)| Some((key(machine, l), l.baseline.clone()?)));
        Question {
            experiment: self.name.clone(),
            baseline_of_load: baselines.collect(),
            metrics: self.metrics.clone(),
            of_load: of(|l| &l.metrics),
            own_of_load: of(|l| &l.own),
            baseline: Some(self.baseline.clone()),
            baseline_is: BaselineIs::OfExperiment,
            min_effect_pct: self.min_effect_pct,
            published: self.published.clone(),
            ..Question::default()
        }
    }
    /// The experiment for guests: its `[vm]` part, or else itself.
    pub fn in_guests(self) -> Experiment {
        match self.vm {
            Some(vm) => *vm,
            None => self,
        }
    }
    /// The experiment for the kernel's own code: its `[code]` part, or else the simulated machines and loads, under the
    /// variants for guests if there are such.
    #[must_use]
    pub fn on_code(mut self) -> Experiment {
        if let Some(code) = self.code.take() {
            return *code;
        }
        if let Some(vm) = self.vm.take() {
            self.variants = vm.variants;
            self.baseline = vm.baseline;
        }
        self
    }
}
