//! On fb-2x12-smt: cores {n, n + 24}; socket 0 has CPUs 0-11 and 24-35.

use super::*;
use crate::wakeup::testing::{domains, run, view};
use schedlab_base::CpuSet;

fn scan(v: &View<'_>, mut idle: impl FnMut(u32) -> bool) -> (SearchStep, Vec<u32>, CoreScan) {
    let mut scan = CoreScan::start(v);
    let (step, probes) = run(|a| scan.step(v, a), &mut idle);
    (step, probes, scan)
}

const BUSY: SearchStep = SearchStep::NotFound(PlaceReason::TargetBusy);
const SKIPPED: SearchStep = SearchStep::NotFound(PlaceReason::ScanSkipped);

#[test]
fn four_nine_reads_whole_cores_from_the_target_on() {
    let d = domains("fb-2x12-smt", "v4.9");
    let v = View { has_idle_cores: true, ..view(&d, "v4.9", 10, 10) };
    let (step, probes, scan) = scan(&v, |c| [1, 25, 36].contains(&c));
    assert_eq!(
        step,
        SearchStep::Found(CpuId(25), PlaceReason::IdleCore),
        "the thread that came up first in the order"
    );
    assert_eq!(probes, [10, 34, 11, 35, 0, 24, 1, 25], "both threads, busy or not");
    assert!(!scan.clears_idle_cores());
}

#[test]
fn four_nine_falls_back_to_cpus_then_to_the_targets_siblings() {
    let d = domains("fb-2x12-smt", "v4.9");
    let v = View { has_idle_cores: true, ..view(&d, "v4.9", 10, 10) };
    let (step, probes, failed) = scan(&v, |c| c == 3);
    assert_eq!(step, SearchStep::Found(CpuId(3), PlaceReason::IdleCpu));
    assert!(failed.clears_idle_cores(), "a failed search for a core clears the flag");
    let want: Vec<u32> = [10, 11].into_iter().chain(24..36).chain(0..4).collect();
    assert_eq!(probes[24..], want, "all 12 cores, then CPUs from the target on");

    let v = view(&d, "v4.9", 10, 10);
    let (step, probes, no_flag) = scan(&v, |_| false);
    assert_eq!((step, probes.len(), no_flag.clears_idle_cores()), (BUSY, 24 + 2, false));
    assert_eq!(probes[24..], [10, 34], "at last the target's core");
}

#[test]
fn before_4_13_a_scan_costlier_than_a_512th_of_the_idle_time_is_not_made() {
    let d = domains("fb-2x12-smt", "v4.9");
    let at = |cost| View { avg_idle_ns: 512 * 100, avg_scan_cost_ns: cost, ..view(&d, "v4.9", 10, 10) };
    assert_eq!(scan(&at(100), |_| false).1.len(), 26);
    let (step, probes, _) = scan(&at(101), |_| false);
    assert_eq!((step, probes), (SKIPPED, vec![10, 34]), "the target's siblings are still read");
    let (step, ..) = scan(&at(101), |c| c == 34);
    assert_eq!(step, SearchStep::Found(CpuId(34), PlaceReason::IdleSibling));
}

#[test]
fn sis_util_probes_exactly_nr_idle_scan_cpus_after_the_target() {
    let d = domains("spr-2x56", "v6.5");
    for nr in [1, 2, 37, 112] {
        // The previous CPU is on the other socket: no sibling of it is read.
        let v = View { nr_idle_scan: nr, ..view(&d, "v6.5", 8, 60) };
        let (step, probes, _) = scan(&v, |_| false);
        let want: Vec<u32> = (9..56).chain(112..168).chain(0..9).take(nr as usize).collect();
        assert_eq!((step, probes), (BUSY, want));
    }
}

#[test]
fn sis_util_gives_up_at_zero_even_where_there_are_idle_cores() {
    let d = domains("spr-2x56", "v6.5");
    for has_idle_cores in [false, true] {
        let v = View { nr_idle_scan: 0, has_idle_cores, ..view(&d, "v6.5", 8, 60) };
        let (step, probes, scan) = scan(&v, |_| true);
        assert_eq!((step, probes, scan.clears_idle_cores()), (SKIPPED, vec![], false));
    }
}

#[test]
fn six_five_reads_prevs_sibling_first_when_there_is_no_idle_core() {
    let d = domains("spr-2x56", "v6.5");
    let v = view(&d, "v6.5", 8, 20);
    let (step, probes, _) = scan(&v, |c| c == 132);
    assert_eq!((step, probes), (SearchStep::Found(CpuId(132), PlaceReason::IdleSibling), vec![132]));
    let (step, probes, _) = scan(&v, |c| c == 10);
    assert_eq!((step, probes), (SearchStep::Found(CpuId(10), PlaceReason::IdleCpu), vec![132, 9, 10]));
    let with_cores = View { has_idle_cores: true, ..v };
    assert_eq!(scan(&with_cores, |_| true).1, [9, 121], "not when there is one");
}

#[test]
fn six_five_searches_cores_without_a_budget_and_remembers_an_idle_thread() {
    let d = domains("spr-2x56", "v6.5");
    let v = View { has_idle_cores: true, nr_idle_scan: 2, ..view(&d, "v6.5", 8, 8) };
    let (step, probes, found) = scan(&v, |c| c == 122 || c == 40 || c == 152);
    assert_eq!(step, SearchStep::Found(CpuId(40), PlaceReason::IdleCore), "far beyond the budget");
    // A busy core is read to its end until an idle thread is known. After that its first busy thread ends it.
    assert_eq!(probes[..6], [9, 121, 10, 122, 11, 12]);
    assert!(!found.clears_idle_cores());

    let (step, _, failed) = scan(&v, |c| c == 122);
    assert_eq!(step, SearchStep::Found(CpuId(122), PlaceReason::IdleCpu), "the idle thread is the fallback");
    assert!(failed.clears_idle_cores(), "no core: the flag goes, fallback or not");
}

#[test]
fn a_fallback_must_be_allowed_and_a_core_idle_as_a_whole() {
    let d = domains("spr-2x56", "v6.5");
    let allowed = CpuSet::parse("8,10,12").unwrap();
    let v = View { has_idle_cores: true, allowed: Some(&allowed), ..view(&d, "v6.5", 8, 8) };
    let (step, probes, _) = scan(&v, |c| c == 122 || c == 124);
    assert_eq!((step, probes), (BUSY, vec![10, 122, 12, 124, 8, 120]));
    let (step, ..) = scan(&v, |c| c == 12 || c == 124);
    assert_eq!(
        step,
        SearchStep::Found(CpuId(12), PlaceReason::IdleCore),
        "forbidden threads count for idleness"
    );
}

#[test]
fn an_answer_may_change_between_probes() {
    let d = domains("fb-2x12-smt", "v4.9");
    let v = View { has_idle_cores: true, ..view(&d, "v4.9", 10, 10) };
    let mut reads = 0;
    // The target, busy when its core was read, is idle when it is read as a single CPU.
    let (step, probes, _) = scan(&v, |c| {
        reads += 1;
        c == 10 && reads > 1
    });
    assert_eq!((step, probes.len()), (SearchStep::Found(CpuId(10), PlaceReason::IdleCpu), 25));
}

#[test]
fn sis_prop_scales_with_idle_time_over_cost_and_leaves_out_the_last() {
    let d = domains("spr-2x56", "v5.10");
    let v = View { avg_idle_ns: 512 * 100, avg_scan_cost_ns: 999, ..view(&d, "v5.10", 8, 8) };
    // 112 * 100 / 1000 = 11: ten single CPUs, then the target's core.
    let (_, probes, scanned) = scan(&v, |_| false);
    let want: Vec<u32> = (8..18).chain([8, 120]).collect();
    assert_eq!(probes, want);
    assert!(scanned.out_of_budget());
    let poor = View { avg_idle_ns: 0, ..v };
    assert_eq!(scan(&poor, |_| false).1, [8, 9, 10, 8, 120], "four at least, less one");
    let mut modern = view(&d, "v6.5", 8, 60);
    modern.features.switch(Feature::SisProp, true);
    modern.features.switch(Feature::SisUtil, false);
    let modern = View { wake_avg_idle_ns: 500, avg_scan_cost_ns: 9_999, ..modern };
    assert_eq!(scan(&modern, |_| false).1, [9, 10, 11, 12], "112 * 500 / 10000 = 5, less one");
}

#[test]
fn nothing_is_searched_around_a_cpu_alone_in_its_cache() {
    for version in ["v4.9", "v6.5"] {
        let d = domains("celeron-2", version);
        let (step, probes, _) = scan(&view(&d, version, 0, 0), |_| true);
        assert_eq!((step, probes), (BUSY, vec![]), "{version}");
    }
}

#[test]
fn the_scan_of_single_cpus_is_timed_but_not_under_sis_util() {
    let d = domains("fb-2x12-smt", "v4.9");
    let v = view(&d, "v4.9", 10, 10);
    let mut scan = CoreScan::start(&v);
    assert_eq!(scan.step(&v, None), SearchStep::Probe(CpuId(10)));
    assert!(scan.timed(&v), "the scan of single CPUs is timed");
    let modern = domains("fb-2x12-smt", "v6.5");
    let v = view(&modern, "v6.5", 10, 12);
    let mut scan = CoreScan::start(&v);
    scan.step(&v, None);
    assert!(!scan.timed(&v), "under SIS_UTIL nothing is");
}

/// Answers of a machine on which CPUs `gives_way` run only SCHED_IDLE tasks, `idle` are idle and the rest is busy.
fn reads(idle: &[u32], gives_way: &[u32]) -> impl Fn(u32) -> Answer {
    let (idle, gives_way) = (idle.to_vec(), gives_way.to_vec());
    move |c| match () {
        () if idle.contains(&c) => Answer::Idle,
        () if gives_way.contains(&c) => Answer::SchedIdle,
        () => Answer::Busy,
    }
}

#[test]
fn a_scan_takes_a_cpu_with_sched_idle_tasks_only_at_once_since_5_7() {
    let d = domains("fb-2x12-smt", "v6.5");
    let v = View { nr_idle_scan: 24, ..view(&d, "v6.5", 0, 0) };
    let mut scan = CoreScan::start(&v);
    let (step, probes) = run(|a| scan.step(&v, a), reads(&[5], &[3]));
    assert_eq!(step, SearchStep::Found(CpuId(3), PlaceReason::SchedIdle));
    assert_eq!(probes, [24, 1, 2, 3], "the previous CPU's sibling first");
}

#[test]
fn five_four_takes_such_a_cpu_where_the_budget_ends_or_no_sibling_is_idle() {
    let d = domains("fb-2x12-smt", "v5.4");
    let found = |idle: &[u32], gives_way: &[u32], avg_scan_cost_ns| {
        let v = View { avg_scan_cost_ns, ..view(&d, "v5.4", 0, 0) };
        let mut scan = CoreScan::start(&v);
        run(|a| scan.step(&v, a), reads(idle, gives_way)).0
    };
    let gives_way = |cpu| SearchStep::Found(CpuId(cpu), PlaceReason::SchedIdle);
    assert_eq!(found(&[], &[2, 3], 1_000_000), gives_way(2), "the budget of 4 ends after CPU 2");
    assert_eq!(found(&[2], &[1], 1_000_000), SearchStep::Found(CpuId(2), PlaceReason::IdleCpu));
    assert_eq!(found(&[], &[3], 0), BUSY, "a scan that comes to its end forgets it");
    assert_eq!(found(&[], &[24], 1_000_000), gives_way(24), "the target's sibling");
}

#[test]
fn such_a_cpu_makes_no_core_idle_but_may_be_the_fallback() {
    let d = domains("fb-2x12-smt", "v6.5");
    let v = View { has_idle_cores: true, nr_idle_scan: 24, ..view(&d, "v6.5", 0, 0) };
    let core = |idle: &[u32], gives_way: &[u32]| {
        let mut scan = CoreScan::start(&v);
        run(|a| scan.step(&v, a), reads(idle, gives_way))
    };
    assert_eq!(core(&[25, 5, 29], &[1]).0, SearchStep::Found(CpuId(5), PlaceReason::IdleCore));
    let (step, probes) = core(&[25], &[1]);
    assert_eq!(step, SearchStep::Found(CpuId(1), PlaceReason::SchedIdle));
    assert_eq!(probes[..2], [1, 2], "its core is left at once");
}

#[test]
fn since_6_7_the_scan_begins_with_the_targets_cluster() {
    use schedlab_machine::{Domains, shape::Shape};
    let topology = Shape { clusters: 2, ..Shape::flat(8, 1) }.topology().unwrap();
    let d = Domains::build(&topology, schedlab_base::Version::new(6, 12));
    // The previous CPU's core has no other thread.
    let v = View { clusters: true, nr_idle_scan: 8, ..view(&d, "v6.12", 5, 5) };
    assert_eq!(scan(&v, |_| false).1, [6, 7, 4, 5, 0, 1, 2, 3]);
    let v = View { clusters: false, ..v };
    assert_eq!(scan(&v, |_| false).1, [6, 7, 0, 1, 2, 3, 4, 5]);
}
