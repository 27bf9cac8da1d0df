//! The suite shows the effects of a change: a fixed set of loads, compiled in, combined with the variants and machines.
//!
//! The loads are `suite/suite.toml`. Their sizes follow the machine's CPUs, and all of them together take about a
//! minute of two CPUs for two variants on the default machine. The result is an ordinary experiment: its text is
//! complete, so that it is kept with every run, and `schedlab run` makes the same runs from it.

use crate::ask::experiment::Experiment;
use crate::ask::experiment::template::{Template, in_turn};
use crate::ask::variant_words;
use schedlab_base::{Error, Result};
use schedlab_kernel::Variant;

const LOADS: &str = include_str!("../../../../suite/suite.toml");
/// The machine of a suite that names none: eight CPUs with one cache.
pub const DEFAULT_MACHINE: &str = "smp-8";
const GROWTH: &str = include_str!("../../../../suite/growth.toml");
/// The machines on which the growth of operations with CPUs is seen.
const SIZES: [u32; 8] = [8, 16, 32, 64, 128, 256, 512, 1_024];
/// The mark before a line's alternative text for a quick suite, in [`LOADS`].
const QUICK: &str = " # quick: ";

/// The parts of a suite.
#[derive(Clone, Debug)]
pub struct SuiteRequest<'a> {
    /// The variant that the others are compared with.
    pub baseline: &'a Variant,
    pub variants: &'a [Variant],
    /// Machines by name or file, from the current folder; empty: [`DEFAULT_MACHINE`].
    pub machines: &'a [String],
    /// Whether runs are fewer and shorter.
    pub quick: bool,
    /// CPUs of this host, for its own loads.
    pub host_cpus: u64,
}

/// The suite as an experiment.
///
/// # Errors
/// When a variant is the baseline under another name, two variants have one name, or a machine or a name in a
/// variant is unknown.
pub fn experiment(wanted: &SuiteRequest<'_>) -> Result<Experiment> {
    let SuiteRequest { baseline, variants, machines, quick, host_cpus } = wanted;
    variants.iter().try_for_each(|v| differs(v, baseline))?;
    let default = [DEFAULT_MACHINE.to_owned()];
    let machines = if machines.is_empty() { &default } else { *machines };
    let template = Template {
        loads: &in_turn(LOADS, QUICK, *quick),
        runs: None,
        name: "suite",
        about: "what a change to the scheduler breaks",
        machines,
        variants: &std::iter::once(*baseline).chain(*variants).collect::<Vec<_>>(),
    };
    template.experiment(*host_cpus)
}

/// The load that shows how a scheduler's operations grow with CPUs, on these machines, from the current folder; empty:
/// flat ones of 8 to 1,024 CPUs.
///
/// # Errors
/// For an unknown machine.
pub fn of_growth(schedulers: &[&Variant], machines: &[String], host_cpus: u64) -> Result<Experiment> {
    let usual = SIZES.map(|cpus| format!("smp-{cpus}"));
    let template = Template {
        loads: GROWTH,
        runs: Some(1),
        name: "growth",
        about: "how the cost of operations grows with CPUs",
        machines: if machines.is_empty() { &usual } else { machines },
        variants: schedulers,
    };
    template.experiment(host_cpus)
}

/// Refuses a variant that is the baseline under another name.
/// # Errors
/// In that case.
pub fn differs(variant: &Variant, baseline: &Variant) -> Result<()> {
    if *variant != (Variant { name: variant.name.clone(), ..baseline.clone() }) {
        return Ok(());
    }
    let text = format!("variant '{}' is its own baseline: nothing would differ", variant.name);
    Err(Error::input(text)
        .help("name a change, as in v6.5:SIS_FIRST_IDLE, or another --baseline KERNEL[:CHANGE,...]"))
}

/// The baseline and the variants to compare with it, from their words.
///
/// # Errors
/// When a word is not a variant, or a variant is its own baseline.
pub fn compared(baseline: Option<&str>, wanted: &[String]) -> Result<(Variant, Vec<Variant>)> {
    let others = wanted.iter().map(|text| variant_words::in_short(text)).collect::<Result<Vec<_>>>()?;
    let first = others.first().ok_or_else(|| Error::internal("no variant"))?;
    let baseline = match baseline {
        Some(text) => variant_words::in_short(text).map_err(|e| e.context("--baseline"))?,
        None => variant_words::without_changes(first),
    };
    others.iter().try_for_each(|v| differs(v, &baseline))?;
    Ok((baseline, others))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ask::experiment::parse;
    use schedlab_compare::metrics::KnownMetrics;
    use schedlab_workload::Spec;
    use std::path::Path;

    fn first_idle() -> Variant {
        Variant { name: "first".into(), features: vec!["SIS_FIRST_IDLE".into()], ..Variant::plain("v6.5") }
    }
    fn wanted<'a>(base: &'a Variant, others: &'a [Variant], machines: &'a [String]) -> SuiteRequest<'a> {
        SuiteRequest { baseline: base, variants: others, machines, quick: false, host_cpus: 2 }
    }

    #[test]
    fn every_kind_of_load_is_there_on_every_machine_with_metrics_of_its_own() {
        let (base, others) = (Variant::plain("v6.5"), [first_idle()]);
        let machines = ["smp-4".to_owned(), "smt-8".to_owned()];
        let suite = experiment(&wanted(&base, &others, &machines)).unwrap();
        assert_eq!((suite.baseline.as_str(), suite.variants.len(), suite.machines.len()), ("v6.5", 2, 2));
        let has = |name: &str| suite.loads.iter().filter(|l| l.spec.name() == name).count() / machines.len();
        let all = ["schbench", "schbench-modern", "hackbench", "pipe", "rr", "stream-rr", "oltp", "volano"];
        assert!(all.iter().all(|name| has(name) > 0));
        assert_eq!(
            (has("hackbench"), has("nanosleep"), has("forks"), has("hogs"), has("batch")),
            (4, 1, 3, 2, 3)
        );
        for load in &suite.loads {
            assert!(!load.metrics.is_empty(), "{} {}", load.spec.name(), load.name);
            let known = KnownMetrics::of([&load.spec]).unwrap();
            load.metrics.iter().try_for_each(|m| known.check(m)).unwrap();
        }
        assert!(suite.loads.iter().any(|l| l.spec.has_groups()));
        assert!(
            suite.loads.iter().any(|l| matches!(&l.spec, Spec::Together { beside, .. } if beside.len() == 2))
        );
    }

    #[test]
    fn the_text_of_a_suite_is_the_whole_experiment() {
        let (base, others) = (Variant::plain("v4.5"), [Variant { kernel: "v4.5".into(), ..first_idle() }]);
        let suite = experiment(&wanted(&base, &others, &[])).unwrap();
        let again = parse(Path::new("suite.toml"), &suite.text, 2).unwrap();
        assert_eq!(format!("{again:?}"), format!("{suite:?}"));
        assert_eq!(again.machines[0].name, DEFAULT_MACHINE);
    }

    #[test]
    fn a_quick_suite_has_the_same_loads_but_less_of_each() {
        let (base, others) = (Variant::plain("v6.5"), [first_idle()]);
        let usual = experiment(&wanted(&base, &others, &[])).unwrap();
        let quick = experiment(&SuiteRequest { quick: true, ..wanted(&base, &others, &[]) }).unwrap();
        let names = |e: &Experiment| e.loads.iter().map(|l| l.name.clone()).collect::<Vec<_>>();
        assert_eq!(names(&usual), names(&quick));
        assert!(quick.runs < usual.runs && !quick.text.contains(QUICK));
        let same = usual.loads.iter().zip(&quick.loads).filter(|(a, b)| a.spec == b.spec).count();
        assert_eq!(same, 0, "every load is shorter");
    }

    #[test]
    fn the_baseline_under_another_name_is_refused() {
        let base = Variant::plain("v6.5");
        let same = [Variant { name: "mine".into(), ..base.clone() }];
        let e = experiment(&wanted(&base, &same, &[])).unwrap_err().to_string();
        assert!(e.contains("'mine'") && e.contains("SIS_FIRST_IDLE"), "{e}");
    }
}
