//! Wrong schedulers: their changes, and the shares that they remove metrics from.

use super::*;
use crate::judge::validate::judge;
use crate::judge::validate::testing::case;
use schedlab_compare::agreement::{Agreement, AgreementShare, CaseResult, Discriminating, Validation};
use schedlab_compare::testing::record;
use schedlab_kernel::Feature;
use schedlab_workload::{Params, Spec};

fn cell(machine: &str, kernel: &str) -> Cell {
    let machine = Arc::new(Machine::load(machine).unwrap());
    let spec = Spec::bench("slice", &Params::default()).unwrap();
    Cell::simulated(&machine, Variant::plain(kernel), spec, "default".to_owned()).unwrap()
}

fn made(machine: &str, kernel: &str, name: &str) -> Option<Cell> {
    cells(&cell(machine, kernel)).unwrap().into_iter().find(|(row, _)| row.name == name).map(|(_, cell)| cell)
}

#[test]
fn each_wrong_scheduler_changes_its_own_thing() {
    let tunables = |kernel, name| made("icount-4", kernel, name).unwrap().resolved.unwrap().tunables;
    let plain = |kernel: &str| cell("icount-4", kernel).resolved.unwrap().tunables;
    assert_eq!(tunables("v7.3", "slices").base_slice_ns, 20 * plain("v7.3").base_slice_ns);
    assert_eq!(tunables("v6.1", "slices").sched_latency_ns, 20 * plain("v6.1").sched_latency_ns);
    assert_eq!(tunables("v6.1", "balance").migration_cost_ns, ALWAYS_HOT_NS);
    let features = made("icount-4", "v7.3", "wakeups").unwrap().resolved.unwrap().features;
    assert!(features.has(Feature::SisFirstIdle) && !features.has(Feature::SisCore));
    let topology = |machine| made(machine, "v6.1", "machine").map(|c| c.machine.topology.clone());
    assert_eq!(topology("icount-2x2x2-smt"), Some(Machine::load("icount-16").unwrap().topology));
    assert_eq!(topology("icount-4").unwrap().node_distance.len(), 2);
    assert_eq!(topology("icount-6").unwrap().cpus[5].thread, 1);
    assert_eq!(topology("icount-3"), None, "no other structure of three CPUs");
    let right = cell("icount-4", "v6.1");
    for (row, wrong) in cells(&right).unwrap() {
        assert_ne!(wrong.hash().unwrap(), right.hash().unwrap(), "{}", row.name);
    }
}

/// Six counters: agree or not, and whether they would under each of two wrong schedulers.
fn judged(rows: [(bool, bool, bool); 6]) -> CaseResult {
    const NAMES: [&str; 6] =
        ["cpu_time", "run_delay.total", "switches.voluntary", "switches.involuntary", "woken", "migrations"];
    let side = |agrees: [bool; 6]| {
        let value =
            |(name, agrees): (&'static str, bool)| (name, if agrees { 50_000_000 } else { 150_000_000 });
        vec![record(&NAMES.into_iter().zip(agrees).map(value).collect::<Vec<_>>())]
    };
    let (case, real) = (case(""), side([true; 6]));
    let tried = |at: usize, agrees: [bool; 6]| {
        let made = side(agrees);
        let verdict = |row| rule::judge(row, &case.tolerance, &made, &real).verdict;
        let row = &WRONG[at];
        WrongRuns { name: row.name, about: row.about, runs: 1, verdicts: LIST.iter().map(verdict).collect() }
    };
    let tried = [tried(0, rows.map(|r| r.1)), tried(1, rows.map(|r| r.2))];
    judge(&case, &side(rows.map(|r| r.0)), &real, Vec::new()).beside(&tried)
}

#[test]
fn a_metric_that_wrong_schedulers_pass_too_is_left_out_only_if_it_agrees() {
    let found = judged([
        (true, true, true),    // decided by the workload
        (true, true, false),   // one wrong scheduler passes it
        (true, false, false),  // none does
        (true, false, true),   // one does
        (false, true, true),   // a disagreement stays one
        (false, false, false), // likewise
    ]);
    let share = |agree, measured| AgreementShare { agree, measured };
    assert_eq!(found.share, share(4, 6));
    assert_eq!(found.discriminating, Some(Discriminating { by_some: share(3, 5), by_every: share(1, 3) }));
    assert_eq!(found.metrics[0].passed_by, ["slices", "wakeups"]);
    assert_eq!(found.metrics.iter().find(|m| m.metric == "switches.voluntary").unwrap().passed_by, [""; 0]);
    assert_eq!(found.wrong.iter().map(|w| w.share).collect::<Vec<_>>(), [share(3, 6), share(3, 6)]);
    let silent = found.metrics.iter().filter(|m| m.verdict == Agreement::NotMeasured);
    assert!(silent.clone().count() > 0 && silent.into_iter().all(|m| m.passed_by.is_empty()));
}

#[test]
fn the_whole_and_its_classes_and_traits_have_both_shares() {
    let one = judged([(true, true, true); 6]);
    let two = judged([(true, false, false); 6]);
    let plain = CaseResult { wrong: Vec::new(), discriminating: None, ..two.clone() };
    let all = Validation::of(vec![one, two], Vec::new());
    assert_eq!(
        all.discriminating,
        Some(Discriminating {
            by_some: AgreementShare { agree: 6, measured: 6 },
            by_every: AgreementShare { agree: 6, measured: 6 }
        })
    );
    assert_eq!(all.share, AgreementShare { agree: 12, measured: 12 });
    assert_eq!(
        all.decisions_discriminating.map(|t| t.by_some),
        Some(AgreementShare { agree: 4, measured: 4 })
    );
    let kernel = all.traits.iter().find(|t| t.name == "kernel").unwrap();
    assert_eq!((kernel.value.as_str(), kernel.cases, kernel.share.measured), ("v6.5", 2, 12));
    assert_eq!(kernel.discriminating.map(|t| t.by_some.measured), Some(6));
    assert_eq!(Validation::of(vec![plain], Vec::new()).discriminating, None, "no wrong scheduler was tried");
}
