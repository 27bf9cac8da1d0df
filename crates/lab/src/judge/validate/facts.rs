//! Facts about kernels that surprise users: defaults of distributions, and behaviour that changed between releases.
//! Each was seen in a guest; `validate --facts` asks guests again, one boot for each kernel.
//!
//! A process of this executable asks ([`schedlab_native::facts`]); this module has the expected answers.

use crate::ask::experiment::Experiment;
use crate::ask::experiment::template::Template;
use schedlab_base::Result;
use schedlab_compare::comparison::{CellStat, Comparison};
use schedlab_kernel::Variant;
use schedlab_native::facts;
use std::fmt::Write;

/// The kernels of the facts.
pub const KERNELS: [&str; 3] = ["6.1", "6.12", "7.3"];
/// The name of the workload, before its figures.
const LOAD: &str = "facts";
/// A machine of four CPUs, by which the kernel scales its slice.
const MACHINE: &str = "smp-4";

/// A fact, and the possible figures for each of [`KERNELS`]: from, to. `None`: it says nothing about that kernel.
///
/// Bounds of behaviour give a direction, with a wide margin around the seen values; those of settings are exact.
pub struct Fact {
    name: &'static str,
    about: &'static str,
    is: [Option<[f64; 2]>; KERNELS.len()],
}

const fn only(value: f64) -> Option<[f64; 2]> {
    Some([value, value])
}

const FACTS: &[Fact] = &[
    Fact {
        name: "autogroup",
        about: "Debian's 6.1 does not group tasks by session, 6.12 and later do",
        is: [only(0.0), only(1.0), only(1.0)],
    },
    Fact {
        name: "rt_runtime_us",
        about: "real-time tasks may have 95 % of a second; all of it in 7.3",
        is: [only(950_000.0), only(950_000.0), only(1_000_000.0)],
    },
    Fact {
        name: "uclamp",
        about: "utilisation clamping is built into Debian's 7.3 only",
        is: [only(0.0), only(0.0), only(1.0)],
    },
    Fact {
        name: "quiet_domains",
        about: "debugfs shows the domains without 'verbose' in 6.1, and not in 6.12",
        is: [only(1.0), only(0.0), only(0.0)],
    },
    Fact {
        name: "rt_timer_slack_ns",
        about: "the timer slack of a real-time task reads 0",
        is: [only(0.0), only(0.0), only(0.0)],
    },
    Fact {
        name: "base_slice_ns",
        about: "a slice is 0.70 ms, times three on four CPUs",
        is: [only(0.0), only(2_100_000.0), only(2_100_000.0)],
    },
    Fact {
        name: "slice_by_setpriority_ns",
        about: "setpriority keeps the slice of 3 ms that a task has asked for",
        is: [only(0.0), only(3_000_000.0), only(3_000_000.0)],
    },
    Fact {
        name: "slice_by_setattr_ns",
        about: "sched_setattr of a nice value alone loses it",
        is: [only(0.0), only(2_100_000.0), only(2_100_000.0)],
    },
    Fact {
        name: "yielder_pct",
        about: "a task that yields without a pause, beside one that computes, gets half the CPU under CFS, and next to nothing \
                where a yield forfeits the slice",
        is: [Some([40.0, 60.0]), Some([0.0, 10.0]), Some([0.0, 10.0])],
    },
    Fact {
        name: "hrtick_wait_pct",
        about: "with HRTICK a batch task that sleeps waits less than without, in per cent of that, since EEVDF",
        is: [None, Some([0.0, 100.0]), Some([0.0, 100.0])],
    },
];

/// A fact and a guest's answer.
#[derive(Debug)]
pub struct FactSeen {
    pub name: &'static str,
    pub kernel: String,
    pub about: &'static str,
    pub expected: [f64; 2],
    /// The answer; `None` if the guest gave none.
    pub seen: Option<f64>,
    pub holds: bool,
}

/// The experiment that asks guests.
///
/// # Errors
/// As for any template.
pub fn experiment(host_cpus: u64) -> Result<Experiment> {
    let quoted = |text: &str| format!("{text:?}");
    let mut loads = format!(
        "metrics = [{}]\n[workload]\nname = {LOAD:?}\n[workload.command]\nrun = [{}, {:?}]\n",
        FACTS.iter().map(|f| quoted(&format!("{LOAD}.{}", f.name))).collect::<Vec<_>>().join(", "),
        quoted(schedlab_guest::OWN),
        facts::COMMAND,
    );
    for fact in FACTS {
        let name = fact.name;
        let regex = format!("(?m)^{name} ([0-9.e-]+)$");
        let _ =
            writeln!(loads, "[[workload.command.metrics]]\nname = {name:?}\nregex = '{regex}'\nunit = \"\"");
    }
    let variants = KERNELS.map(|kernel| Variant { name: kernel.to_owned(), ..Variant::plain(kernel) });
    let template = Template {
        loads: &loads,
        runs: Some(1),
        name: "facts",
        about: "what kernels do by default",
        machines: &[MACHINE.to_owned()],
        variants: &variants.each_ref(),
    };
    template.experiment(host_cpus)
}

/// Compares guests' answers with the facts.
pub fn judge(found: &Comparison) -> Vec<FactSeen> {
    let seen = |kernel: &str, fact: &Fact| -> Option<f64> {
        let cell = found.cells.iter().find(|cell| cell.variant == kernel)?;
        match cell.metrics.get(&format!("{LOAD}.{}", fact.name))? {
            CellStat::Measured(measured) => Some(measured.mean),
            _ => None,
        }
    };
    let one = |fact: &'static Fact| {
        let says = KERNELS.iter().zip(fact.is).filter_map(|(kernel, expected)| Some((kernel, expected?)));
        says.map(move |(kernel, expected)| (fact, (*kernel).to_owned(), expected))
    };
    let judged = |(fact, kernel, expected): (&'static Fact, String, [f64; 2])| {
        let seen = seen(&kernel, fact);
        let holds = seen.is_some_and(|v| (expected[0]..=expected[1]).contains(&v));
        FactSeen { name: fact.name, about: fact.about, kernel, expected, seen, holds }
    };
    FACTS.iter().flat_map(one).map(judged).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn facts_have_names_of_their_own_and_the_experiment_asks_for_each() {
        let experiment = experiment(4).unwrap();
        assert_eq!(experiment.variants.len(), KERNELS.len());
        let mut names: Vec<&str> = FACTS.iter().map(|f| f.name).collect();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), FACTS.len());
        let metrics: Vec<String> = FACTS.iter().map(|f| format!("{LOAD}.{}", f.name)).collect();
        assert_eq!(experiment.metrics, metrics);
        assert!(FACTS.iter().flat_map(|f| f.is).flatten().all(|[from, to]| from <= to));
    }
}
