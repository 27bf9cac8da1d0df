//! Tests of D001's shortcuts, on its machine: an MC domain of 112 CPUs in 56 cores.

use super::*;
use crate::balance::testing::MC;

const SPAN: DomainSpan = DomainSpan { nr_groups: 56, weight: 112, imbalance_pct: 117 };
const ON: Shortcuts = Shortcuts { snapshot: true, util: true, fast: true, quad: false };
const NONE: Shortcuts = Shortcuts { snapshot: false, util: false, fast: false, quad: false };

/// A core with `nr` tasks, each alone on its CPU.
fn core(nr: u32) -> GroupStats {
    GroupStats {
        group_load: 100 * u64::from(nr),
        group_util: 50 * u64::from(nr),
        group_runnable: 50 * u64::from(nr),
        capacity: 2048,
        avg_load: 0,
        sum_nr_running: nr,
        sum_h_nr_running: nr,
        idle_cpus: 2u32.saturating_sub(nr),
        weight: 2,
        group_type: if nr < 2 { SpareType::HasSpare } else { SpareType::FullyBusy },
        overload: nr > 2,
        kinds: Default::default(),
    }
}
/// The core of a CPU about to go idle, whose sibling is idle.
fn leaving() -> GroupStats {
    GroupStats { idle_cpus: 1, ..core(0) }
}
/// The groups read, why the loop ended, and the totals.
fn scan(on: Shortcuts, pass: PassKind, hints: Option<&SharedHints>, tasks: &[u32]) -> Scanned {
    let mut seen = DomainStats::new(leaving());
    let mut l = GroupLoop::new(on, pass, hints);
    let mut read = 0;
    for (i, nr) in tasks.iter().enumerate() {
        read += 1;
        if !l.take(&mut seen, &MC, i as u32 + 1, &core(*nr)) {
            break;
        }
    }
    l.finish(&mut seen);
    Scanned { read, ended: l.ended(), totals: (seen.total_load, seen.total_capacity), seen }
}
struct Scanned {
    read: usize,
    ended: Option<LoopEnd>,
    totals: (u64, u64),
    seen: DomainStats,
}
fn hints(nr_sg_scan: u32) -> SharedHints {
    SharedHints { total_load: 7777, total_capacity: 114_688, nr_sg_scan }
}

#[test]
fn the_depth_falls_in_a_straight_line() {
    let at = |pct: u64| nr_sg_scan(56, 112 * 1024 * pct / 100, 112);
    assert_eq!([at(0), at(25), at(50), at(75), at(100)], [56, 42, 28, 14, 0]);
    assert_eq!(at(200), 0, "never below none");
    assert_eq!(nr_sg_scan(56, 112 * 47, 112), 54, "D001's nano_sleep: hardly any cut");
    assert_eq!([nr_sg_scan(2, 1023, 2), nr_sg_scan(2, 1024, 2)], [2, 1], "rounded up");
}

#[test]
fn the_square_law_follows_sis_util() {
    let at = |pct: u64| nr_sg_scan_square(&SPAN, 112 * 1024 * pct / 100);
    // SIS_UTIL allows 112, 73, 37 and 14 of the 112 CPUs.
    assert_eq!([at(0), at(50), at(70), at(80), at(86)], [56, 36, 18, 7, 0]);
    let strict = DomainSpan { imbalance_pct: 200, ..SPAN };
    assert_eq!(nr_sg_scan_square(&strict, 112 * 1024 / 2), 0);
}

#[test]
fn periodic_passes_store_the_hints_that_are_switched_on() {
    let mut seen = DomainStats::new(core(2));
    (seen.total_load, seen.total_capacity, seen.sum_util) = (500, 114_688, 112 * 1024 / 2);
    let stored = |on, pass| {
        let mut h = SharedHints::default();
        let changed = h.store(on, pass, &SPAN, &seen);
        (changed, h.total_load, h.total_capacity, h.nr_sg_scan)
    };
    for pass in [PassKind::Idle, PassKind::Busy] {
        assert_eq!(stored(ON, pass), (true, 500, 114_688, 28));
    }
    assert_eq!(stored(ON, PassKind::Newidle), (false, 0, 0, 0));
    assert_eq!(stored(Shortcuts { util: false, ..ON }, PassKind::Idle), (true, 500, 114_688, 0));
    assert_eq!(stored(Shortcuts { snapshot: false, ..ON }, PassKind::Idle), (true, 0, 0, 28));
    assert_eq!(stored(Shortcuts { quad: true, ..ON }, PassKind::Idle), (true, 500, 114_688, 36));
    assert_eq!(
        stored(Shortcuts { quad: true, ..NONE }, PassKind::Idle),
        (false, 0, 0, 0),
        "alone it does nothing"
    );
    let mut h = SharedHints { total_load: 500, total_capacity: 114_688, nr_sg_scan: 28 };
    assert!(!h.store(ON, PassKind::Idle, &SPAN, &seen), "the same again writes nothing");
}

#[test]
fn a_group_is_worth_pulling_from_with_fewer_idle_cpus_or_more_tasks() {
    let local = |idle_cpus, nr| GroupStats { idle_cpus, ..core(nr) };
    let there = |idle_cpus, nr| GroupStats { idle_cpus, ..core(nr) };
    assert!(can_pull_busiest(&local(1, 0), &there(0, 0)));
    assert!(!can_pull_busiest(&local(1, 0), &there(2, 9)), "more idle CPUs there");
    assert!(can_pull_busiest(&local(1, 0), &there(1, 1)));
    assert!(!can_pull_busiest(&local(1, 1), &there(1, 1)));
    let full = GroupStats { group_type: SpareType::FullyBusy, ..local(1, 0) };
    assert!(!can_pull_busiest(&full, &there(0, 9)), "no room here");
}

#[test]
fn fast_stops_at_the_first_acceptable_group() {
    let s = scan(ON, PassKind::Newidle, Some(&hints(56)), &[0, 0, 1, 2, 2]);
    assert_eq!((s.read, s.ended, s.totals), (3, Some(LoopEnd::CanPull), (7777, 114_688)));
    assert_eq!(s.seen.busiest.map(|(i, _)| i), Some(3));
    assert_eq!(s.seen.sum_util, 0, "the group it ended at is not added up");
    let s = scan(Shortcuts { fast: false, ..ON }, PassKind::Newidle, Some(&hints(56)), &[0, 0, 1, 2, 2]);
    assert_eq!((s.read, s.ended), (5, None));
}

#[test]
fn fast_asks_only_a_group_that_became_the_busiest() {
    let on = Shortcuts { util: false, ..ON };
    let mut seen = DomainStats::new(leaving());
    let mut l = GroupLoop::new(on, PassKind::Newidle, Some(&hints(0)));
    // The fuller group is taken although the local one has no more idle CPUs than it.
    let stuck = GroupStats { group_type: SpareType::Imbalanced, idle_cpus: 2, ..core(1) };
    assert!(l.take(&mut seen, &MC, 1, &stuck));
    assert!(l.take(&mut seen, &MC, 2, &core(2)), "acceptable, but not the busiest");
}

#[test]
fn util_reads_as_many_groups_as_it_may_and_one_at_least() {
    let on = Shortcuts { fast: false, ..ON };
    let read = |n| {
        let s = scan(on, PassKind::Newidle, Some(&hints(n)), &[0, 2, 0, 0]);
        (s.read, s.ended, s.totals == (7777, 114_688))
    };
    assert_eq!(read(0), (1, Some(LoopEnd::ScanDepth), true));
    assert_eq!(read(1), (1, Some(LoopEnd::ScanDepth), true));
    assert_eq!(read(2), (2, Some(LoopEnd::ScanDepth), true));
    assert_eq!(read(4), (4, Some(LoopEnd::ScanDepth), true), "the very last group");
    assert_eq!(read(5), (4, None, false), "a complete loop keeps its own totals");
    let off = scan(Shortcuts { util: false, ..on }, PassKind::Newidle, Some(&hints(1)), &[0, 2, 0]);
    assert_eq!((off.read, off.totals), (3, (200, 4 * 2048)));
}

#[test]
fn fast_is_asked_before_the_depth() {
    let s = scan(ON, PassKind::Newidle, Some(&hints(1)), &[2]);
    assert_eq!(s.ended, Some(LoopEnd::CanPull));
}

#[test]
fn only_newidle_passes_with_stored_totals_are_shortened() {
    let one = hints(1);
    let complete = |on, pass, hints| {
        let s = scan(on, pass, hints, &[2, 2, 2]);
        s.read == 3 && s.ended.is_none() && s.totals == (600, 4 * 2048)
    };
    assert!(complete(ON, PassKind::Idle, Some(&one)));
    assert!(complete(ON, PassKind::Busy, Some(&one)));
    assert!(complete(ON, PassKind::Newidle, None), "a NUMA domain shares nothing");
    let unset = SharedHints { total_capacity: 0, ..one };
    assert!(complete(ON, PassKind::Newidle, Some(&unset)));
    let off = Shortcuts { snapshot: false, ..ON };
    assert!(!complete(off, PassKind::Newidle, Some(&one)), "the last totals stay in use");
}

#[test]
fn shortcuts_follow_the_features() {
    let mut set = FeatureSet::default();
    assert_eq!(Shortcuts::of(set), NONE);
    for (feature, want) in [
        (Feature::IlbSnapshot, Shortcuts { snapshot: true, ..NONE }),
        (Feature::IlbUtil, Shortcuts { util: true, ..NONE }),
        (Feature::IlbFast, Shortcuts { fast: true, ..NONE }),
        (Feature::IlbUtilQuad, Shortcuts { quad: true, ..NONE }),
    ] {
        set.switch(feature, true);
        assert_eq!(Shortcuts::of(set), want);
        set.switch(feature, false);
    }
}
