//! Tests of the choice: each fact about a group, a domain or a pass changes some verdict.

use super::*;
use crate::balance::fits::{Asymmetry, Kinds};
use crate::balance::spare::imbalance::MigrationType;
use crate::balance::spare::{NodeTolerance, SpareLater};
use crate::balance::testing::{MC, spare_group};
use SpareType::{FullyBusy, HasSpare, Imbalanced, Overloaded, SharedCore};

const PLAIN: DomainFacts = DomainFacts { prefer_sibling: false, groups_are_cores: false, ..MC };

/// A group of `weight` CPUs with `nr` tasks of weight 1024, at most one on each CPU as long as CPUs are free.
fn group(kind: SpareType, weight: u32, nr: u32) -> GroupStats {
    let group = spare_group(kind, weight, nr, 1024);
    GroupStats { group_util: group.group_load.min(group.capacity), ..group }
}
fn seen(domain: &DomainFacts, local: GroupStats, others: &[GroupStats]) -> DomainStats {
    let mut s = DomainStats::new(local);
    for (i, g) in others.iter().enumerate() {
        s.push(domain, i as u32 + 1, g);
        s.accumulate(g);
    }
    s
}
fn busiest(domain: &DomainFacts, others: &[GroupStats]) -> Option<u32> {
    seen(domain, group(HasSpare, 2, 0), others).busiest.map(|(i, _)| i)
}
fn why(
    domain: &DomainFacts,
    pass: PassKind,
    local: GroupStats,
    other: GroupStats,
) -> std::result::Result<Pull, Balanced> {
    match seen(domain, local, &[other]).decide(domain, pass) {
        Decision::Balanced(why) => Err(why),
        Decision::Pull { why, amount, .. } => {
            assert_ne!(amount.amount, 0);
            Ok(why)
        }
    }
}

#[test]
fn totals_are_of_the_groups_added_overload_of_the_groups_seen() {
    let mut s = DomainStats::new(group(HasSpare, 2, 1));
    assert_eq!((s.total_load, s.total_capacity, s.sum_util, s.overload), (1024, 2048, 1024, false));
    let full = group(Overloaded, 2, 5);
    assert!(s.push(&MC, 4, &full));
    assert_eq!((s.total_load, s.overload), (1024, true), "not added up yet");
    s.accumulate(&full);
    assert_eq!((s.total_load, s.total_capacity, s.sum_util), (6144, 4096, 3072));
    assert_eq!(s.avg_load(), 1536);
    assert!(DomainStats::new(full).overload);
}

#[test]
fn a_group_without_fair_tasks_is_no_candidate() {
    let realtime = GroupStats { sum_h_nr_running: 0, ..group(Overloaded, 2, 5) };
    assert_eq!(busiest(&MC, &[realtime]), None);
    assert_eq!(busiest(&MC, &[realtime, group(HasSpare, 2, 1)]), Some(2), "the first with a task");
}

#[test]
fn type_comes_first() {
    let [spare, full] = [group(HasSpare, 2, 1), group(FullyBusy, 2, 2)];
    let [stuck, over] = [group(Imbalanced, 2, 2), group(Overloaded, 2, 3)];
    assert_eq!(busiest(&MC, &[spare, full, stuck, over]), Some(4));
    assert_eq!(busiest(&MC, &[over, stuck, full, spare]), Some(1));
    assert_eq!(busiest(&MC, &[spare, full, stuck, full]), Some(3));
}

#[test]
fn ties_of_each_type() {
    let over = |nr| group(Overloaded, 2, nr);
    assert_eq!(busiest(&MC, &[over(4), over(5), over(5)]), Some(2), "strictly more load");
    assert_eq!(busiest(&MC, &[group(Imbalanced, 2, 2), group(Imbalanced, 2, 9)]), Some(1), "the first");
    let full = [group(FullyBusy, 2, 2); 3];
    assert_eq!(busiest(&MC, &full), Some(1), "of cores the first");
    assert_eq!(busiest(&PLAIN, &full), Some(3), "of others the last");
    let spare = |idle_cpus, nr| GroupStats { idle_cpus, ..group(HasSpare, 8, nr) };
    assert_eq!(busiest(&MC, &[spare(3, 9), spare(2, 1), spare(4, 9)]), Some(2), "fewest idle CPUs");
    assert_eq!(busiest(&MC, &[spare(2, 5), spare(2, 6), spare(2, 6)]), Some(2), "then more tasks");
}

#[test]
fn push_says_whether_the_busiest_changed() {
    let mut s = DomainStats::new(group(HasSpare, 2, 0));
    let pushed = [(0, false), (1, true), (1, false), (2, true), (1, false)]
        .map(|(nr, became)| s.push(&MC, nr, &group(HasSpare, 2, nr)) == became);
    assert_eq!(pushed, [true; 5]);
}

#[test]
fn nothing_to_find_and_nothing_better() {
    let empty = group(HasSpare, 2, 0);
    assert_eq!(why(&MC, PassKind::Idle, empty, empty), Err(Balanced::NoBusiest));
    let fuller = why(&MC, PassKind::Idle, group(FullyBusy, 2, 2), group(HasSpare, 2, 9));
    assert_eq!(fuller, Err(Balanced::LocalFuller));
}

#[test]
fn an_imbalanced_group_is_pulled_from_even_by_a_fuller_one() {
    let stuck = group(Imbalanced, 2, 1);
    assert_eq!(why(&MC, PassKind::Busy, group(Overloaded, 2, 9), stuck), Ok(Pull::Imbalanced));
}

#[test]
fn overloaded_groups_are_compared_by_load() {
    let full = |load| GroupStats { group_load: load, avg_load: load / 2, ..group(Overloaded, 2, 5) };
    let compare = |local, other| why(&MC, PassKind::Busy, full(local), full(other));
    assert_eq!(compare(6000, 6000), Err(Balanced::LocalBusier));
    assert_eq!(compare(6000, 7000), Err(Balanced::WithinPct));
    assert_eq!(compare(6000, 7020), Err(Balanced::WithinPct), "exactly 117%");
    assert_eq!(compare(6000, 7022), Ok(Pull::Overloaded));
    // A third group without load raises the local one above the average.
    let domain = seen(&MC, full(6000), &[full(9000), group(HasSpare, 8, 0)]);
    assert_eq!(domain.decide(&MC, PassKind::Busy), Decision::Balanced(Balanced::LocalAboveAverage));
    let mut at = domain;
    at.total_load = at.total_capacity * 3000 / SCALE;
    assert_eq!(
        at.decide(&MC, PassKind::Busy),
        Decision::Balanced(Balanced::LocalAboveAverage),
        "at it is enough"
    );
    at.total_load = at.total_capacity * 3001 / SCALE;
    assert!(matches!(at.decide(&MC, PassKind::Busy), Decision::Pull { .. }));
}

#[test]
fn preferred_siblings_share_two_tasks_even_with_a_busy_cpu() {
    let pull = |domain, here, there| {
        why(domain, PassKind::Busy, group(HasSpare, 4, here), group(HasSpare, 4, there))
    };
    assert_eq!(pull(&MC, 0, 2), Ok(Pull::PreferSibling));
    assert_eq!(pull(&MC, 1, 3), Ok(Pull::PreferSibling));
    assert_eq!(pull(&MC, 1, 2), Err(Balanced::BusyCpu), "one more is not enough");
    assert_eq!(pull(&PLAIN, 0, 2), Err(Balanced::BusyCpu));
    let full = why(&MC, PassKind::Idle, group(FullyBusy, 2, 2), group(FullyBusy, 2, 9));
    assert_eq!(full, Err(Balanced::EnoughIdle), "no room here");
}

#[test]
fn an_idle_cpu_needs_two_idle_ones_more_and_a_waiting_task() {
    let pull = |pass, idle_here, idle_there, nr| {
        let local = GroupStats { idle_cpus: idle_here, ..group(HasSpare, 8, 0) };
        let other = GroupStats { idle_cpus: idle_there, ..group(HasSpare, 8, nr) };
        why(&PLAIN, pass, local, other)
    };
    for pass in [PassKind::Idle, PassKind::Newidle] {
        assert_eq!(pull(pass, 5, 4, 4), Err(Balanced::EnoughIdle));
        assert_eq!(pull(pass, 6, 4, 4), Ok(Pull::IdleCpus));
        assert_eq!(pull(pass, 6, 4, 1), Err(Balanced::SingleTask));
    }
    assert_eq!(pull(PassKind::Busy, 6, 4, 4), Err(Balanced::BusyCpu));
    let single = why(&PLAIN, PassKind::Idle, group(HasSpare, 1, 0), group(FullyBusy, 1, 2));
    assert_eq!(single, Ok(Pull::IdleCpus), "idle CPUs are not counted in groups of one");
}

#[test]
fn an_overloaded_group_gives_to_busy_cpus_too() {
    let over = group(Overloaded, 4, 9);
    for pass in [PassKind::Busy, PassKind::Idle] {
        assert_eq!(why(&PLAIN, pass, group(HasSpare, 8, 1), over), Ok(Pull::Overloaded));
    }
}

#[test]
fn an_amount_of_nothing_is_balanced() {
    // D001's machine: a newly idle thread, its sibling idle, against a pair with one task.
    let local = GroupStats { idle_cpus: 1, ..group(HasSpare, 2, 0) };
    assert_eq!(why(&MC, PassKind::Newidle, local, group(HasSpare, 2, 1)), Err(Balanced::EnoughIdle));
    // The same against a pair with two running tasks: one task is to move.
    let s = seen(&MC, local, &[group(FullyBusy, 2, 2)]);
    let Decision::Pull { group: 1, amount, why: Pull::PreferSibling } = s.decide(&MC, PassKind::Newidle)
    else {
        panic!("{:?}", s.decide(&MC, PassKind::Newidle));
    };
    assert_eq!((amount.migration, amount.amount), (MigrationType::Task, 1));
    // Nodes: within their tolerance.
    let tolerance = NodeTolerance::Difference(14);
    let numa = DomainFacts { numa: true, share_llc: false, tolerance, ..PLAIN };
    let nodes = why(&numa, PassKind::Newidle, group(HasSpare, 112, 3), group(HasSpare, 112, 5));
    assert_eq!(nodes, Err(Balanced::NothingToMove(AmountRule::NumaTolerated)));
}

#[test]
fn of_full_groups_the_first_is_busiest_before_6_5() {
    let full = [group(FullyBusy, 2, 2); 3];
    let early = DomainFacts { later: SpareLater::default(), ..PLAIN };
    assert_eq!((busiest(&early, &full), busiest(&PLAIN, &full)), (Some(1), Some(3)));
}

#[test]
fn a_shared_core_is_busier_than_a_full_one_and_gives_one_task() {
    let shared = GroupStats { idle_cpus: 0, ..group(SharedCore, 2, 2) };
    let [full, stuck] = [group(FullyBusy, 2, 2), group(Imbalanced, 2, 2)];
    assert_eq!(busiest(&MC, &[full, shared, full]), Some(2));
    assert_eq!(busiest(&MC, &[shared, stuck]), Some(2));
    let longer = GroupStats { sum_nr_running: 5, ..shared };
    assert_eq!(busiest(&MC, &[shared, longer]), Some(1), "no thread idles: the first core stays");
    let s = seen(&MC, group(HasSpare, 2, 0), &[longer]);
    match s.decide(&MC, PassKind::Newidle) {
        Decision::Pull { amount, .. } => {
            assert_eq!((amount.amount, amount.how), (1, imbalance::AmountRule::SharedCore))
        }
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_misfit_goes_to_a_faster_cpu_with_room_and_tasks_stay_on_faster_cpus() {
    let kinds = |capacity, misfit_load| Kinds {
        misfit_load,
        min_capacity: capacity,
        max_capacity: capacity,
        is_core: false,
    };
    let of = |kind, nr, capacity, misfit| GroupStats { kinds: kinds(capacity, misfit), ..group(kind, 4, nr) };
    let to = |capacity, local: GroupStats, others: &[GroupStats]| {
        let asym = Asymmetry {
            marked: true,
            by_target: true,
            before_types: true,
            dst_capacity: capacity,
            ..Asymmetry::NONE
        };
        let domain = DomainFacts { asym, ..PLAIN };
        let s = seen(&domain, local, others);
        (s.busiest.map(|(i, _)| i), s.decide(&domain, PassKind::Newidle))
    };
    let (misfit, larger) = (of(SpareType::Misfit, 4, 446, 900), of(SpareType::Misfit, 4, 446, 1000));
    let (found, verdict) = to(1024, of(HasSpare, 1, 1024, 0), &[misfit, larger]);
    assert_eq!(found, Some(2), "the largest misfit");
    let Decision::Pull { amount, why: Pull::Misfit, .. } = verdict else { panic!("{verdict:?}") };
    assert_eq!((amount.migration, amount.amount), (MigrationType::Misfit, 1));
    assert_eq!(to(1024, of(FullyBusy, 4, 1024, 0), &[misfit]).0, None, "there is no room");
    assert_eq!(to(446, of(HasSpare, 1, 446, 0), &[misfit]).0, None, "no faster CPU");
    // Four tasks have four fast CPUs: an idle slow CPU takes none of them. A fifth task waits.
    assert_eq!(to(446, of(HasSpare, 0, 446, 0), &[of(FullyBusy, 4, 1024, 0)]).0, None);
    assert_eq!(to(446, of(HasSpare, 0, 446, 0), &[of(Overloaded, 5, 1024, 0)]).0, Some(1));
    assert_eq!(to(1024, of(HasSpare, 0, 1024, 0), &[of(FullyBusy, 4, 446, 0)]).0, Some(1));
}
