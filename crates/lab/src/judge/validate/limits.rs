//! Cases of limits: whether a CPU limit changes a real kernel's tail latency as it changes the judged one.
//!
//! A case is an experiment as `schedlab limits --save` writes it. Its baseline is the limit as it is, its other
//! variants are further limits, and the first of its metrics that is a p99 is compared
//! ([`schedlab_compare::agreement::limits`]).
//! The kernel of all its variants can be replaced. Beside guests a machine whose CPUs take turns is simulated, beside
//! the running kernel this host.

use super::running::Running;
use crate::ask::experiment::{Experiment, parse as experiment};
use crate::ask::guests::twin_machine;
use crate::ask::variant_words::default_kernel;
use schedlab_base::{Backend, Error, Result, input};
use schedlab_compare::agreement::limits::LimitsQuestion;
use schedlab_guest::Mode;
use schedlab_kernel::{Variant, variant::RUNNING};
use schedlab_machine::Machine;
use schedlab_machine::sysfs::HOST;
use std::path::Path;

/// A case, read and checked.
#[derive(Clone, Debug)]
pub struct LimitCase {
    /// The experiment; the case has its name, subject and file.
    pub experiment: Experiment,
    /// The latency that is compared.
    pub metric: String,
    /// The variants with other limits than the baseline's.
    pub to: Vec<String>,
}

/// Reads a case from its file; `host_cpus` is as in [`parse`].
///
/// # Errors
/// When the file is unreadable, and as [`parse`].
pub fn load(file: &Path, host_cpus: u64) -> Result<LimitCase> {
    parse(file, &input::text(file)?, host_cpus)
}

/// Reads a case's text; `host_cpus` is the value of `{cpus}` in its loads on the live kernel.
///
/// # Errors
/// For any fault of the experiment, and when it has several loads, no metric that is a p99, or one variant only.
pub fn parse(file: &Path, text: &str, host_cpus: u64) -> Result<LimitCase> {
    let experiment = experiment(file, text, host_cpus)?;
    let wrong = |text: &str, help: &str| {
        Err(Error::input(format!("{}: {text}", file.display())).help(help.to_owned()))
    };
    let [_] = &experiment.loads[..] else {
        return wrong("a case of limits has one load on one machine", "write a file for each load");
    };
    let Some(metric) = experiment.metrics.iter().find(|m| m.ends_with(".p99")).cloned() else {
        return wrong("no metric is a p99", "metrics = [\"http.latency.p99\"]");
    };
    let other = |v: &&Variant| v.name != experiment.baseline;
    let to: Vec<String> = experiment.variants.iter().filter(other).map(|v| v.name.clone()).collect();
    if to.is_empty() {
        return wrong(
            "there is no limit beside the baseline",
            "schedlab limits ... --save writes such a file",
        );
    }
    Ok(LimitCase { experiment, metric, to })
}

impl LimitCase {
    pub fn question(&self) -> LimitsQuestion<'_> {
        let Experiment { name, baseline, .. } = &self.experiment;
        LimitsQuestion { name, metric: &self.metric, from: baseline, to: &self.to }
    }
    /// The case under another kernel.
    #[must_use]
    pub fn under(mut self, kernel: &str) -> LimitCase {
        self.experiment.variants.iter_mut().for_each(|v| kernel.clone_into(&mut v.kernel));
        self
    }
    /// What is judged beside guests: the same on a machine whose CPUs take turns.
    ///
    /// # Errors
    /// None that is known: the machine is a preset.
    pub fn beside_guests(&self) -> Result<Experiment> {
        let turning = |m: &Machine| twin_machine(m, Mode::Deterministic);
        let machines = self.experiment.machines.iter().map(turning).collect::<Result<_>>()?;
        Ok(Experiment { machines, ..self.experiment.clone() })
    }
    /// What is judged beside the running kernel: the nearest profile on this host, with its tick, slice and preemption
    /// model.
    ///
    /// # Errors
    /// When the host can't be read.
    pub fn beside_host(&self) -> Result<Experiment> {
        let (machine, running) = (Machine::load(HOST)?, Running::here());
        let mut beside = self.clone().under(&default_kernel(Backend::Sim, HOST)?).experiment;
        for variant in &mut beside.variants {
            let kernel = variant.resolve()?;
            running.apply(&kernel, machine.topology.nr_cpus(), variant);
        }
        beside.loads.clone_from(&beside.host_loads);
        beside.loads.iter_mut().for_each(|load| load.machine = 0);
        Ok(Experiment { machines: vec![machine], ..beside })
    }
    /// What the running kernel has to run.
    pub fn on_host(&self) -> Experiment {
        self.clone().under(RUNNING).experiment
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "name = \"x\"\nmachine = \"smp-2\"\nbaseline = \"as-is\"\nmetrics = [\"http.latency.p50\", \
        \"http.latency.p99\"]\n[workload]\nname = \"http\"\n[[variant]]\nname = \"as-is\"\nkernel = \"v6.12\"\n\
        [[variant]]\nname = \"none\"\nkernel = \"v6.12\"\nnice = 1\n";

    fn parsed(text: &str) -> Result<LimitCase> {
        parse(Path::new("x.toml"), text, 4)
    }

    #[test]
    fn an_experiment_is_a_case_by_its_baseline_and_its_p99() {
        let case = parsed(TEXT).unwrap();
        let question = case.question();
        assert_eq!((question.metric, question.from, question.to.len()), ("http.latency.p99", "as-is", 1));
        let other = case.clone().under("v7.3");
        assert!(other.experiment.variants.iter().all(|v| v.kernel == "v7.3"));
        assert!(case.beside_guests().unwrap().machines[0].turns.is_some());
        assert!(case.on_host().variants.iter().all(|v| v.kernel == RUNNING));
    }

    #[test]
    fn what_is_not_a_case_says_what_it_lacks() {
        let refused = |from: &str, to: &str| parsed(&TEXT.replace(from, to)).unwrap_err().to_string();
        assert!(refused("latency.p99", "latency.p90").contains("no metric is a p99"));
        assert!(
            refused("[[variant]]\nname = \"none\"\nkernel = \"v6.12\"\nnice = 1\n", "").contains("no limit")
        );
        let two = "[[load]]\nname = \"a\"\n[[load]]\nname = \"b\"\n[[variant]]\nname = \"as-is\"";
        assert!(refused("[[variant]]\nname = \"as-is\"", two).contains("one load"));
    }
}
