//! Tests of the fork and exec placement rules.

use super::*;

const fn level(balances: bool, span_weight: u32) -> LevelFacts {
    LevelFacts { balances, span_weight }
}

#[test]
fn starts_at_the_highest_level_below_a_gap() {
    let start = |levels: &[LevelFacts]| [false, true].map(|gap| start_level(levels, gap));
    assert_eq!(start(&[level(true, 2), level(false, 24), level(true, 48)]), [Some(2), Some(0)]);
    assert_eq!(start(&[level(true, 2), level(true, 24), level(false, 48)]), [Some(1), Some(1)]);
    assert_eq!(start(&[]), [None, None]);
    assert_eq!(start(&[level(false, 2)]), [None, None]);
}

#[test]
fn descends_to_narrower_levels_that_balance() {
    let levels = [level(true, 2), level(true, 24), level(true, 48)];
    assert_eq!([48, 24, 2, 1000].map(|w| next_level(&levels, w)), [Some(1), Some(0), None, Some(2)]);
    assert_eq!(next_level(&[level(true, 2), level(false, 24)], 48), Some(0));
}

fn by_load(groups: &[&[u64]], capacity: u64, imbalance_pct: u32) -> GroupChoice {
    let mut s = ByLoad::default();
    for (i, cpus) in groups.iter().enumerate() {
        cpus.iter().for_each(|load| s.add(*load));
        s.close(i as u32, capacity, i == 0);
    }
    s.choose(imbalance_pct)
}

#[test]
fn the_least_loaded_group_wins_by_half_the_percentage() {
    // 125 % leaves 112 %: 100 * local against 112 * best.
    let choice = |local| by_load(&[&[local, 0], &[1000, 0], &[1000, 0]], 2048, 125);
    assert_eq!(choice(1119), GroupChoice::Stay(Stay::NotClearlyLess));
    assert_eq!(choice(1120), GroupChoice::Go(1), "and the first of equals");
    assert_eq!(by_load(&[&[1040, 0], &[1000, 0]], 2048, 100), GroupChoice::Go(1));
}

#[test]
fn an_idle_machine_forks_away_from_home() {
    assert_eq!(by_load(&[&[0], &[0], &[0]], 1024, 125), GroupChoice::Go(1), "0 is not below 0");
    assert_eq!(by_load(&[&[0]], 1024, 125), GroupChoice::Stay(Stay::NoOther));
    assert_eq!(by_load(&[&[0], &[1]], 1024, 125), GroupChoice::Stay(Stay::NotClearlyLess));
}

#[test]
fn loads_count_per_capacity() {
    let mut s = ByLoad::default();
    s.add(2000);
    s.close(0, 1024, true);
    s.add(1000);
    s.close(1, 512, false);
    s.add(1200);
    s.close(2, 1024, false);
    assert_eq!(s.choose(125), GroupChoice::Go(2), "1000 on half a CPU is more than 1200 on one");
}

const LLC: SpareDomain =
    SpareDomain { imbalance_pct: 117, numa: false, stays: NodeStay::NearlyAlikeBelow(0) };
const NUMA: SpareDomain = SpareDomain { numa: true, stays: NodeStay::NearlyAlikeBelow(4), ..LLC };

/// Groups of CPUs with these numbers of always-running tasks; the first group is local.
fn by_spare(domain: &SpareDomain, groups: &[&[u32]]) -> GroupChoice {
    let mut s = BySpare::default();
    for (i, cpus) in groups.iter().enumerate() {
        for &n in *cpus {
            s.add(&running(n));
        }
        let weight = cpus.len() as u32;
        let facts = SpareGroup {
            capacity: 1024 * u64::from(weight),
            weight,
            imbalanced: false,
            misfit: false,
            max_capacity: 1024,
        };
        s.close(i as u32, &facts, domain, i == 0);
    }
    s.choose(domain)
}
fn running(n: u32) -> SpareSample {
    let (load, util) = (1024 * u64::from(n), if n > 0 { 1024 } else { 0 });
    SpareSample { load, util, runnable: load, nr_running: n, idle: n == 0 }
}

#[test]
fn most_idle_cpus_win_among_groups_with_room() {
    assert_eq!(by_spare(&LLC, &[&[1, 1, 0], &[1, 0, 0], &[0, 0, 0]]), GroupChoice::Go(2));
    assert_eq!(by_spare(&LLC, &[&[1, 0, 0], &[1, 0, 0]]), GroupChoice::Stay(Stay::AsManyIdle));
    assert_eq!(by_spare(&LLC, &[&[0, 0]]), GroupChoice::Stay(Stay::NoOther));
}

#[test]
fn less_used_of_equally_idle_groups() {
    let mut s = BySpare::default();
    let group =
        SpareGroup { capacity: 2048, weight: 2, imbalanced: false, misfit: false, max_capacity: 1024 };
    for (i, util) in [0, 300, 200, 200].into_iter().enumerate() {
        let busy = if i == 0 { 1 } else { 0 };
        s.add(&SpareSample { nr_running: busy, idle: busy == 0, ..SpareSample::default() });
        s.add(&SpareSample { util, idle: true, ..SpareSample::default() });
        s.close(i as u32, &group, &LLC, i == 0);
    }
    assert_eq!(s.choose(&LLC), GroupChoice::Go(2));
}

#[test]
fn type_comes_before_numbers() {
    assert_eq!(by_spare(&LLC, &[&[1, 1], &[2, 2]]), GroupChoice::Stay(Stay::BetterType));
    assert_eq!(by_spare(&LLC, &[&[1, 1], &[1, 0]]), GroupChoice::Go(1), "full, the other has room");
    assert_eq!(by_spare(&LLC, &[&[2, 2], &[2, 2], &[1, 1]]), GroupChoice::Go(2));
}

#[test]
fn full_groups_compare_load_with_a_margin() {
    let close = GroupChoice::Stay(Stay::NotClearlyLess);
    assert_eq!(by_spare(&LLC, &[&[8, 8], &[7, 7]]), close, "8 is within 117% of 7");
    assert_eq!(by_spare(&LLC, &[&[9, 9], &[7, 7]]), GroupChoice::Go(1));
    assert_eq!(by_spare(&LLC, &[&[7, 7], &[9, 9]]), close);
    assert_eq!(is_close(&LLC, 2000, 1700), None, "more than 117%");
    assert_eq!(is_close(&LLC, 1000, 850), None, "within a node the difference need not be a task's part");
    assert!(is_close(&NUMA, 1000, 850).is_some(), "between nodes it must exceed 17% of a task");
    assert_eq!(is_close(&NUMA, 1100, 850), None);
}

#[test]
fn a_lightly_loaded_node_keeps_its_tasks() {
    let nodes: [&[u32]; 2] = [&[1, 1, 0, 0], &[0, 0, 0, 0]];
    assert_eq!(by_spare(&NUMA, &nodes), GroupChoice::Stay(Stay::NumaTolerated));
    assert_eq!(by_spare(&LLC, &nodes), GroupChoice::Go(1));
    let full: [&[u32]; 2] = [&[1, 1, 1, 0], &[0, 0, 0, 0]];
    assert_eq!(by_spare(&NUMA, &full), GroupChoice::Go(1), "three more idle CPUs are too many");
    let strict = SpareDomain { stays: NodeStay::NearlyAlikeBelow(2), ..NUMA };
    assert_eq!(by_spare(&strict, &nodes), GroupChoice::Go(1), "a third task is not tolerated here");
}

#[test]
fn each_era_has_its_rule_for_new_tasks_that_stay_on_their_node() {
    let nodes: [&[u32]; 2] = [&[1, 1, 1, 0], &[0, 0, 0, 0]];
    let of = |version: &str, allowed| {
        let history = History::of(schedlab_base::Version::parse(version).unwrap());
        // Sixteen CPUs in two nodes; the groups have only some of them.
        let stays = NodeStay::of(&history, 16, 4, allowed);
        (stays, by_spare(&SpareDomain { stays, ..NUMA }, &nodes))
    };
    let (stay, go) = (GroupChoice::Stay(Stay::NumaTolerated), GroupChoice::Go(1));
    for v in ["5.5", "5.6", "5.10"] {
        assert_eq!(of(v, 8), (NodeStay::WhileIdle, stay), "{v}: a CPU is idle");
    }
    assert_eq!(of("5.15", 8), (NodeStay::Below(4), stay), "three tasks are less than a quarter of 16");
    assert_eq!(of("5.19", 8), (NodeStay::Below(4), stay), "whatever is idle on the other node");
    assert_eq!(of("5.19", 2), (NodeStay::Below(4), stay), "and whatever CPUs the task may use");
    assert_eq!(of("6.0", 8), (NodeStay::NearlyAlikeBelow(4), go), "three more idle CPUs are too many");
    assert_eq!(of("6.12", 2), (NodeStay::NearlyAlikeBelow(2), go), "limited to the CPUs that it may use");
    let full: [&[u32]; 2] = [&[1, 1, 1, 1], &[0, 0, 0, 0]];
    let while_idle = SpareDomain { stays: NodeStay::WhileIdle, ..NUMA };
    assert_eq!(by_spare(&while_idle, &full), go, "none is idle");
}

#[test]
fn a_local_group_out_of_bounds_is_left_at_once() {
    let mut s = BySpare::default();
    (0..2).for_each(|_| s.add(&running(3)));
    s.close(
        5,
        &SpareGroup { capacity: 2048, weight: 2, imbalanced: false, misfit: false, max_capacity: 1024 },
        &LLC,
        false,
    );
    assert_eq!(s.choose(&LLC), GroupChoice::Go(5));
}

#[test]
fn an_imbalanced_group_yields_to_one_with_room_and_to_its_first_kind() {
    let mut s = BySpare::default();
    for (i, imbalanced) in [true, true, false].into_iter().enumerate() {
        s.add(&running(0));
        s.close(
            i as u32,
            &SpareGroup { capacity: 1024, weight: 1, imbalanced, misfit: false, max_capacity: 1024 },
            &LLC,
            false,
        );
        let expected = [0, 0, 2][i];
        assert_eq!(s.choose(&LLC), GroupChoice::Go(expected));
    }
}

/// `update_pick_idlest()`: whether `s` replaces the best so far.
fn is_idler(s: &SpareStats, best: &SpareStats) -> bool {
    if s.kind != best.kind {
        return s.kind < best.kind;
    }
    match s.kind {
        SpareType::Overloaded | SpareType::FullyBusy => s.avg_load < best.avg_load,
        SpareType::SharedCore | SpareType::Imbalanced => false,
        SpareType::Misfit => s.max_capacity > best.max_capacity,
        SpareType::HasSpare => {
            s.idle_cpus > best.idle_cpus || (s.idle_cpus == best.idle_cpus && s.util < best.util)
        }
    }
}

#[test]
fn ranks_are_in_the_kernels_order() {
    use SpareType::{FullyBusy, HasSpare, Imbalanced, Misfit, Overloaded, SharedCore};
    let mut all = Vec::new();
    for kind in [HasSpare, FullyBusy, Misfit, SharedCore, Imbalanced, Overloaded] {
        for (avg_load, util, idle_cpus, max_capacity) in [
            (0, 0, 0, 1024),
            (7, 900, 2, 446),
            (4_194_304, 4_194_304, 4096, 1),
            (7, 901, 3, 446),
            (8, 899, 2, 1024),
        ] {
            all.push(SpareStats { kind, avg_load, util, nr_running: 3, idle_cpus, max_capacity });
        }
    }
    for a in &all {
        for b in &all {
            assert_eq!(a.rank() < b.rank(), is_idler(a, b), "{a:?} before {b:?}");
        }
    }
}

#[test]
fn an_idle_cpu_with_a_task_queued_is_not_idle() {
    let mut s = BySpare::default();
    s.add(&SpareSample { nr_running: 1, idle: true, ..SpareSample::default() });
    assert_eq!(s.idle_cpus, 0);
}

#[test]
fn at_exec_the_group_with_the_emptiest_cpu_is_taken_if_it_is_clearly_emptier() {
    let choice = |local: &[u64], other: &[u64], util| {
        let mut rooms = ByRoom::default();
        local.iter().for_each(|r| rooms.add(*r));
        rooms.close(0, true);
        other.iter().for_each(|r| rooms.add(*r));
        rooms.close(1, false);
        rooms.choose(util, 125)
    };
    let stay = Some(GroupChoice::Stay(Stay::NotClearlyLess));
    assert_eq!(choice(&[900], &[1_000], 100), stay, "112 of 900 are more than 1,000");
    assert_eq!(choice(&[880], &[1_000], 100), Some(GroupChoice::Go(1)));
    assert_eq!(choice(&[100, 1_024], &[1_024, 0], 1_024), stay, "the emptiest CPU counts");
    assert_eq!(choice(&[0], &[100], 200), None, "no group has room for half of it: loads decide");
}
