//! A trial: a patch against its base, on a fixed set of loads in deterministic guests.
//!
//! A patch that adds scheduler features is tried in one image with its features off and on, so that code and data are
//! at the same places. Any other patch needs two images of one configuration and compiler. The loads are
//! `suite/try.toml`.

mod asked;
mod reached;
mod source;

pub use asked::{Asked, Ran};
pub use source::{Chosen, DEFAULT_SOURCE, choose};

use crate::ask::builds;
use crate::ask::cell::Cell;
use crate::ask::experiment::Experiment;
use crate::ask::experiment::template::{Template, in_turn};
use crate::make::budget::Budget;
use crate::make::instruction_counts::{self, OPERATIONS, Operation};
use crate::make::plan::Plan;
use schedlab_base::{Backend, Error, Result};
use schedlab_compare::trial::{ALL, Cost, Moved};
use schedlab_kernel::Variant;
use schedlab_kernels::Setting;
use schedlab_kernels::diff::{Added, Patch, adds};
use schedlab_machine::Machine;
use schedlab_record::store_listing::INSTRUCTIONS_FILE;
use schedlab_record::{Counts, FunctionCount};
use schedlab_record::{Record, Store};

const LOADS: &str = include_str!("../../../../suite/try.toml");
/// The machines: flat, and two nodes with two threads a core. In guests the latter's CPUs take turns, which woven code
/// can't do.
const MACHINES: &[&str] = &["smp-8", "icount-8-smt"];
const MACHINES_OF_CODE: &[&str] = &["smp-8", "x5570-2x4-smt"];
/// The mark before a line's alternative text for large machines, in [`LOADS`].
const LARGE: &str = " # large: ";
/// Machines with more CPUs are large: their loads, which follow the CPUs, are half as long, and there are no further
/// looks unless requested, so that a trial by woven code takes less than ten minutes of two CPUs.
const LARGE_FROM: usize = 64;
/// Runs of each load and variant.
pub const RUNS: u64 = 6;
/// The default budget for more runs: half as many as at the first look. It is a number and not a time, so that a page
/// does not depend on the speed of the host.
pub const BUDGET: Budget = Budget::Part(50);

/// The backend of that name, which must run built kernels.
///
/// # Errors
/// For another word.
pub fn backend(name: &str) -> Result<Backend> {
    Backend::among(&[Backend::Vm, Backend::Code], "backend for built kernels", name)
}

/// The machines of a trial on a backend, unless others are named.
pub fn machines(backend: Backend) -> &'static [&'static str] {
    if backend == Backend::Code { MACHINES_OF_CODE } else { MACHINES }
}

/// Whether one of these machines is large.
///
/// # Errors
/// For an unknown machine.
pub fn is_large(machines: &[String]) -> Result<bool> {
    let sizes = machines.iter().map(|name| Ok(Machine::load(name)?.topology.nr_cpus()));
    Ok(sizes.collect::<Result<Vec<_>>>()?.into_iter().any(|cpus| cpus > LARGE_FROM))
}

/// The default budget for more runs on these machines.
///
/// # Errors
/// For an unknown machine.
pub fn budget(machines: &[String]) -> Result<Option<Budget>> {
    Ok((!is_large(machines)?).then_some(BUDGET))
}

/// The subject of a trial.
#[derive(Clone, Debug)]
pub struct Trial {
    pub patches: Vec<Patch>,
    /// Features that the patches add and that the trial switches.
    pub features: Vec<Added>,
    /// Counters that the patches add.
    pub counters: Vec<String>,
    pub base: Variant,
    /// The kernel with the patches, their features on.
    pub patched: Variant,
}

impl Trial {
    /// The trial of patches, named by `words`, on a kernel. `chosen` are the features to switch; empty: all that the
    /// patches add.
    ///
    /// # Errors
    /// When the patches do not add a chosen feature.
    pub fn of(
        kernel: &str,
        words: &[String],
        patches: Vec<Patch>,
        config: Option<&str>,
        chosen: &[String],
    ) -> Result<Trial> {
        let (added, counters) = adds(&patches);
        let known = |name: &String| added.iter().any(|f| f.name == *name);
        if let Some(odd) = chosen.iter().find(|name| !known(name)) {
            let names: Vec<&str> = added.iter().map(|f| f.name.as_str()).collect();
            let help = if names.is_empty() { "none".to_owned() } else { names.join(", ") };
            return Err(Error::input(format!("--feature: the patches add no feature '{odd}'"))
                .help(format!("they add: {help}")));
        }
        let is_switched = |f: &Added| chosen.is_empty() || chosen.contains(&f.name);
        let features: Vec<Added> = added.into_iter().filter(is_switched).collect();
        let plain = Variant { config: config.map(str::to_owned), ..Variant::plain(kernel) };
        let with = |name: &str, features: Vec<String>| Variant {
            name: name.to_owned(),
            patch: words.to_vec(),
            features,
            ..plain.clone()
        };
        let (base, patched) = if features.is_empty() {
            (Variant { name: "base".to_owned(), ..plain.clone() }, with("patched", Vec::new()))
        } else {
            let off = features.iter().map(|f| format!("NO_{}", f.name)).collect();
            (with("off", off), with("on", features.iter().map(|f| f.name.clone()).collect()))
        };
        Ok(Trial { patches, features, counters: counters.into_iter().map(|c| c.0).collect(), base, patched })
    }
    /// The experiment on these machines; paths in the variants are relative to the current folder.
    ///
    /// # Errors
    /// For an unknown machine.
    pub fn experiment(&self, machines: &[String], host_cpus: u64) -> Result<Experiment> {
        let template = Template {
            loads: &in_turn(LOADS, LARGE, is_large(machines)?),
            runs: Some(RUNS),
            name: "try",
            about: "a patch against its base",
            machines,
            variants: &[&self.base, &self.patched],
        };
        template.experiment(host_cpus)
    }
    /// The options of the configuration that the patches bring or change, with the values of a plan's patched kernel.
    pub fn options(&self, plan: &Plan) -> Vec<Setting> {
        let patched = plan.cells.iter().filter(|c| c.variant.name == self.patched.name);
        let of = |c: &Cell| match (&c.guest, &c.code) {
            (Some(guest), _) => builds::options(&guest.image),
            (_, Some(code)) => code.options.clone(),
            _ => Vec::new(),
        };
        patched.map(of).find(|options| !options.is_empty()).unwrap_or_default()
    }
    /// The instructions by function of all stored runs of a plan in guests: of the base, and of the patched kernel.
    ///
    /// # Errors
    /// When a cell has no name.
    pub fn functions(&self, plan: &Plan, store: &Store) -> Result<[Counts; 2]> {
        let mut sums = [Counts::new(), Counts::new()];
        for run in &plan.runs {
            let cell = &plan.cells[run.cell];
            let side = usize::from(cell.variant.name == self.patched.name);
            let Some(dir) = store.get(&cell.hash()?, run.seed) else { continue };
            let Ok(text) = std::fs::read_to_string(dir.path.join(INSTRUCTIONS_FILE)) else { continue };
            add(&mut sums[side], &instruction_counts::of_text(&text));
        }
        Ok(sums)
    }
}

/// The experiment of one kernel alone under the loads of trials, as a bisection needs it.
///
/// # Errors
/// For an unknown machine.
pub fn alone(variant: &Variant, machine: &str, host_cpus: u64) -> Result<Experiment> {
    let machines = &[machine.to_owned()];
    let template = Template {
        loads: &in_turn(LOADS, LARGE, is_large(machines)?),
        runs: Some(RUNS),
        name: "bisect",
        about: "one commit",
        machines,
        variants: &[variant],
    };
    template.experiment(host_cpus)
}

/// The costs by machine and operation, summed over all loads and seeds; nothing for machines without counts.
pub fn costs(records: &[Record], trial: &Trial) -> Vec<Cost> {
    let mut machines: Vec<&str> = Vec::new();
    for record in records.iter().filter(|r| r.found.counters.contains_key(instruction_counts::ALL)) {
        if !machines.contains(&record.machine.name.as_str()) {
            machines.push(&record.machine.name);
        }
    }
    let mut all = Vec::new();
    for machine in machines {
        let sum = |variant: &str, counter: &str| -> u64 {
            let of = |r: &&Record| r.machine.name == machine && r.variant.name == variant;
            let counted = |r: &Record| r.found.counters.get(counter).copied().unwrap_or(0);
            records.iter().filter(of).map(counted).sum()
        };
        let both = |counter: &str| [sum(&trial.base.name, counter), sum(&trial.patched.name, counter)];
        for Operation { name, .. } in OPERATIONS.iter().rev() {
            all.push(Cost {
                machine: machine.to_owned(),
                operation: (*name).to_owned(),
                calls: both(&format!("calls.{name}")),
                instructions: both(&format!("instructions.{name}")),
            });
        }
        all.push(Cost {
            machine: machine.to_owned(),
            operation: ALL.to_owned(),
            calls: [0, 0],
            instructions: both(instruction_counts::ALL),
        });
    }
    all
}

/// The functions by the size of their difference in instructions, largest first, without equal ones.
pub fn moved(base: &Counts, patched: &Counts) -> Vec<Moved> {
    let names: std::collections::BTreeSet<&String> = base.keys().chain(patched.keys()).collect();
    let of = |counts: &Counts, name: &str| counts.get(name).copied().unwrap_or_default();
    let mut all: Vec<Moved> = names
        .into_iter()
        .map(|name| {
            let (b, p): (FunctionCount, FunctionCount) = (of(base, name), of(patched, name));
            Moved {
                function: name.clone(),
                calls: [b.calls, p.calls],
                instructions: [b.instructions, p.instructions],
            }
        })
        .filter(|m| m.instructions[0] != m.instructions[1])
        .collect();
    all.sort_by_key(|m| std::cmp::Reverse(m.instructions[0].abs_diff(m.instructions[1])));
    all
}

/// Adds the counts of a run.
fn add(sum: &mut Counts, run: &Counts) {
    for (name, counted) in run {
        let of = sum.entry(name.clone()).or_default();
        of.calls += counted.calls;
        of.instructions += counted.instructions;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use schedlab_kernels::diff;
    use std::path::Path;

    const PLAIN: &str = "--- a/kernel/sched/fair.c\n+++ b/kernel/sched/fair.c\n@@ -1 +1 @@\n-a\n+b\n";
    const WITH_FEATURE: &str = "--- a/kernel/sched/features.h\n+++ b/kernel/sched/features.h\n@@ -1 +1,2 @@\n a\n+SCHED_FEAT(MINE, false)\n";

    fn trial(diff: &str, chosen: &[&str]) -> Result<Trial> {
        let chosen: Vec<String> = chosen.iter().map(|c| (*c).to_owned()).collect();
        Trial::of("6.1", &["p.patch".to_owned()], diff::parse("p.patch", diff.as_bytes())?, None, &chosen)
    }

    #[test]
    fn a_feature_is_switched_in_one_image_and_other_patches_need_two() {
        let two = trial(PLAIN, &[]).unwrap();
        assert_eq!((two.base.patch.len(), two.patched.patch.len()), (0, 1));
        let one = trial(WITH_FEATURE, &[]).unwrap();
        assert_eq!((&one.base.patch, &one.base.config), (&one.patched.patch, &one.patched.config));
        assert_eq!((one.base.features[0].as_str(), one.patched.features[0].as_str()), ("NO_MINE", "MINE"));
        assert!(trial(WITH_FEATURE, &["OTHER"]).unwrap_err().to_string().contains("MINE"));
    }

    #[test]
    fn large_machines_have_shorter_loads_and_no_further_looks() {
        let of = |machine: &str| {
            let machines = [machine.to_owned()];
            let e = trial(PLAIN, &[]).unwrap().experiment(&machines, 2).unwrap();
            let again = crate::ask::experiment::parse(Path::new("try.toml"), &e.text, 2).unwrap();
            assert_eq!(format!("{again:?}"), format!("{e:?}"), "its text is the whole experiment");
            (e.text.contains("runtime = \"100ms\""), e.text.contains(LARGE), budget(&machines).unwrap())
        };
        assert_eq!(of("smp-8"), (false, false, Some(BUDGET)));
        assert_eq!(of("spr-2x56"), (true, false, None));
    }

    #[test]
    fn the_experiment_of_a_trial_has_both_variants_on_both_machines() {
        let usual: Vec<String> = machines(Backend::Vm).iter().map(|name| (*name).to_owned()).collect();
        let experiment = trial(WITH_FEATURE, &[]).unwrap().experiment(&usual, 2).unwrap();
        assert_eq!((experiment.variants.len(), experiment.machines.len()), (2, 2));
        assert_eq!((experiment.baseline.as_str(), experiment.runs), ("off", RUNS));
        assert!(experiment.loads.len() >= 2 * 8);
        let again = crate::ask::experiment::parse(Path::new("try.toml"), &experiment.text, 2).unwrap();
        assert_eq!(format!("{again:?}"), format!("{experiment:?}"), "its text is the whole experiment");
    }

    #[test]
    fn costs_are_per_call_and_functions_are_sorted_by_difference() {
        let cost = Cost {
            machine: "m".into(),
            operation: "wakeup".into(),
            calls: [10, 20],
            instructions: [1_000, 2_200],
        };
        assert!((cost.change_pct().unwrap() - 10.0).abs() < 1e-9);
        let none = Cost { calls: [0, 1], ..cost };
        assert_eq!((none.each(0), none.change_pct()), (None, None));
        let counts = |a, b| -> Counts {
            let of = |instructions| FunctionCount { calls: 1, instructions };
            [("a".to_owned(), of(a)), ("b".to_owned(), of(b)), ("same".to_owned(), of(7))].into()
        };
        let order: Vec<String> =
            moved(&counts(5, 100), &counts(6, 80)).into_iter().map(|m| m.function).collect();
        assert_eq!(order, ["b", "a"]);
    }
}
