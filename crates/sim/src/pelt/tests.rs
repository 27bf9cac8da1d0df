//! Half-life, averages for known duty ratios, moves between runqueues, and steps of any size.

use super::*;
use schedlab_base::{Stream, Version};

const MS: u64 = 1024 * 1024;
const V45: History = History::of(Version::new(4, 5));
const V65: History = History::of(Version::new(6, 5));

fn run(p: &mut Pelt, from_ns: u64, ns: u64, step_ns: u64, on: bool) -> u64 {
    let mut now = from_ns;
    while now < from_ns + ns {
        now = (now + step_ns).min(from_ns + ns);
        p.update(now, if on { 1024 } else { 0 }, u64::from(on), on);
    }
    now
}

#[test]
fn a_cpu_is_saturated_by_whole_periods() {
    let after_a_nap = |offset_us: u64| {
        let period_ns = 1_024 * 1_024;
        let mut avg = Pelt::default();
        avg.update(0, 1024, 1, true);
        avg.update(400 * period_ns, 1024, 1, true);
        avg.update(400 * period_ns + period_ns / 2, 0, 0, false);
        avg.update(440 * period_ns + offset_us * 1_024, 1024, 1, true);
        avg
    };
    assert!(!after_a_nap(0).is_saturated(0), "half a period of idle time, 40 periods ago");
    assert!(after_a_nap(1_000).is_saturated(0), "the current period comes on top");
}

#[test]
fn the_decay_table_is_powers_of_the_32nd_root_of_a_half() {
    assert_eq!(DECAY[16], 3_037_000_499, "2^32 / sqrt 2");
    assert_eq!(DECAY[8], 3_611_622_602, "2^32 / 2^(1/4)");
    // y = 0.978572
    assert_eq!((u64::from(DECAY[1]) * 1_000_000) >> 32, 978_572);
    assert!(DECAY.is_sorted_by(|a, b| a > b));
}

#[test]
fn half_life_is_32_periods() {
    let mut p = Pelt::settled(&V45, 1024, 0, ROOM);
    let now = run(&mut p, 0, 32 * MS, MS, false);
    assert!((510..=513).contains(&p.util_avg) && (510..=513).contains(&p.load_avg), "{p:?}");
    run(&mut p, now, 32 * MS, MS, false);
    assert!((254..=257).contains(&p.util_avg), "{p:?}");
}

#[test]
fn ninety_five_per_cent_after_140_ms_and_all_after_345() {
    let mut p = Pelt::default();
    let now = run(&mut p, 0, 139 * MS, MS, true);
    assert!((965..=976).contains(&p.util_avg), "{p:?}");
    let now = run(&mut p, now, 206 * MS, MS, true);
    assert!((1022..=1024).contains(&p.util_avg) && (1022..=1024).contains(&p.load_avg), "{p:?}");
    run(&mut p, now, 10_000 * MS, 3 * MS, true);
    assert!(p.util_avg <= 1024 && p.util_sum <= LOAD_AVG_MAX << 10, "{p:?}");
}

#[test]
fn short_sleeps_decay_by_the_true_duty_ratio() {
    // D001's nanosleep tasks: they run for 2.55 us every 56 us.
    let mut p = Pelt::default();
    let mut now = 0;
    while now < 1_000_000_000 {
        now += 2_550;
        p.update(now, 1024, 1, true);
        now += 53_450;
        p.update(now, 0, 0, false);
    }
    assert!((44..=49).contains(&p.util_avg), "{p:?}");
}

#[test]
fn load_is_weighted_and_runnable_counts_waiters() {
    let mut rq = Pelt::default();
    for k in 1..=400 {
        rq.update(k * MS, 3 * 820, 3, true);
    }
    // The limit of 47742 includes the rounding of sums of weight one. Larger sums lose less, and end 0.07 % above.
    assert!((2459..=2462).contains(&rq.load_avg) && (3071..=3075).contains(&rq.runnable_avg), "{rq:?}");
    assert!((1022..=1024).contains(&rq.util_avg), "{rq:?}");
}

#[test]
fn averages_change_only_when_a_period_ends() {
    let mut p = Pelt::default();
    assert!(!p.update(1023, 1024, 1, true) && p == Pelt::default(), "less than a unit is kept for later");
    assert!(!p.update(1023 * 1024, 1024, 1, true) && p.util_avg == 0 && p.util_sum == 1023 << 10);
    assert!(p.update(1024 * 1024, 1024, 1, true) && p.util_avg > 0);
    assert!(!p.update(5, 1024, 1, true), "time does not run backwards");
}

const ROOM: FirstUtilFacts = FirstUtilFacts { cfs_util_avg: 0, cfs_load_avg: 0, capacity: 1024 };

#[test]
fn a_new_task_has_full_load_and_the_utilisation_of_its_era() {
    let new = |v, room| {
        let p = Pelt::settled(&v, 1024, 7, room);
        (p.load_avg, p.util_avg)
    };
    assert_eq!(new(V45, ROOM), (1024, 1024));
    assert_eq!(new(V65, ROOM), (1024, 512), "half of an idle CPU");
    let used = FirstUtilFacts { cfs_util_avg: 200, cfs_load_avg: 1023, ..ROOM };
    assert_eq!(new(V65, used), (1024, 412), "half the room, by the fine weight");
    assert_eq!(
        new(V65, FirstUtilFacts { cfs_util_avg: 1, cfs_load_avg: 700, ..ROOM }),
        (1024, 511),
        "however little it was"
    );
    let v610 = History::of(Version::new(6, 10));
    assert_eq!(new(v610, used), (1024, 200), "the queue's own");
    assert_eq!(
        new(v610, FirstUtilFacts { cfs_util_avg: 900, cfs_load_avg: 1023, ..ROOM }),
        (1024, 62),
        "half the room"
    );
    assert_eq!(
        new(V65, FirstUtilFacts { cfs_util_avg: 900, cfs_load_avg: 1023, ..ROOM }),
        (1024, 62),
        "half the room"
    );
    assert_eq!(new(V65, FirstUtilFacts { cfs_util_avg: 1030, cfs_load_avg: 1023, ..ROOM }), (1024, 0));
}

#[test]
fn a_moved_entity_takes_its_averages_along() {
    let mut task = Pelt::default();
    run(&mut task, 0, 50 * MS + 300_000, 700_000, true);
    let (mut from, mut to) = (task, Pelt::default());
    to.update(90 * MS + 5_000, 0, 0, false);
    from.sub(&task, SumRule::Bounded);
    assert_eq!((from.load_avg, from.load_sum, from.util_avg, from.util_sum), (0, 0, 0, 0));
    let before = (task.load_avg, task.util_avg, task.runnable_avg);
    task.align_to(&to);
    to.add(&task, SumRule::Bounded);
    assert_eq!((to.load_avg, to.util_avg, to.runnable_avg), before);
    to.sub(&Pelt { load_avg: 5000, load_sum: u64::MAX, ..task }, SumRule::Bounded);
    assert_eq!((to.load_avg, to.load_sum), (0, 0), "never below zero");
}

#[test]
fn a_new_weight_scales_the_load_at_once() {
    let mut p = Pelt::settled(&V65, 1024, 0, ROOM);
    let util = p.util_avg;
    p.reweight(1024, 335);
    assert_eq!((p.load_avg, p.util_avg), (335, util));
}

#[test]
fn one_long_step_equals_many_short_ones() {
    let draws = Stream::new(1).purpose("steps");
    let (mut fine, mut coarse) = (Pelt::default(), Pelt::default());
    let mut now = 0;
    for i in 0..5_000 {
        let on = draws.below(2 * i, 3) != 0;
        let weight = if on { 1024 } else { 0 };
        let end = now + draws.exponential(2 * i + 1, 6_000_000);
        coarse.update(end, weight, u64::from(on), on);
        while now < end {
            now = (now + 100_000).min(end);
            fine.update(now, weight, u64::from(on), on);
        }
        assert_eq!(fine.last_update_ns, coarse.last_update_ns);
        // Averages are those at the last period's end, which the two see at different instants; sums differ by
        // rounding.
        assert!(fine.util_sum.abs_diff(coarse.util_sum) <= LOAD_AVG_MAX, "{i}: {fine:?} {coarse:?}");
        assert!(fine.load_sum.abs_diff(coarse.load_sum) <= LOAD_AVG_MAX, "{i}: {fine:?} {coarse:?}");
        assert!(coarse.util_avg <= 1024 && coarse.util_sum <= LOAD_AVG_MAX << 10, "{coarse:?}");
    }
}

/// A task of weight 335 with a load of 300, on a queue that is 500 units into its period.
fn moved(version: Version) -> (Pelt, Pelt) {
    let history = History::of(version);
    let mut task = Pelt { load_avg: 300, ..Pelt::settled(&history, 335, 0, ROOM) };
    let mut queue = Pelt { period_contrib: 500, ..Pelt::default() };
    task.align_to(&queue);
    queue.add(&task, SumRule::of(&history));
    (task, queue)
}

#[test]
fn a_queue_adds_the_sum_that_the_division_by_the_weight_has_left() {
    let whole = 300 * (LEAST_DIVIDER + 500);
    assert_ne!(whole % 335, 0);
    let (old, new) = (moved(Version::new(5, 4)), moved(Version::new(6, 1)));
    assert_eq!((old.0.load_sum, old.1.load_sum), (whole, whole), "the weight is in the sum");
    assert_eq!((new.0.load_sum, new.1.load_sum), (whole / 335, whole / 335 * 335));
    assert_eq!((old.1.load_avg, new.1.load_avg), (300, 300));
}

#[test]
fn a_load_that_comes_is_bound_by_its_average_in_newer_kernels() {
    let load = |version| {
        let history = History::of(version);
        let mut task = Pelt { load_avg: 300, ..Pelt::settled(&history, 335, 0, ROOM) };
        let mut queue = Pelt::default();
        task.align_to(&queue);
        queue.add(&task, SumRule::of(&history));
        queue.load_sum
    };
    let least = 300 * LEAST_DIVIDER;
    assert_eq!((load(Version::new(6, 12)), load(Version::new(7, 3))), (least / 335 * 335, least));
}

#[test]
fn sums_follow_from_averages_up_to_5_16() {
    let left = |version: Version| {
        let rule = SumRule::of(&History::of(version));
        let (mut task, mut queue) = moved(version);
        // Another entity stays, with sums larger than those that correspond to its averages.
        queue.add(&Pelt { util_avg: 100, util_sum: 100 * 47_000, load_avg: 50, ..Pelt::default() }, rule);
        task.util_sum -= 10_000;
        queue.sub(&task, rule);
        (queue.util_sum, queue.load_sum)
    };
    let divider = LEAST_DIVIDER + 500;
    assert_eq!(left(Version::new(5, 10)), (100 * divider, 0), "but not that of the load");
    assert_eq!(left(Version::new(6, 1)), (100 * 47_000 + 10_000, 50 * LEAST_DIVIDER));
    let removed = |version: Version| {
        let rule = SumRule::of(&History::of(version));
        let (task, mut queue) = moved(version);
        queue.load_sum += 70_000;
        let mut gone = Removed::default();
        gone.add(&Pelt { load_avg: 299, ..task });
        queue.remove(&gone, rule);
        (queue.load_avg, queue.load_sum)
    };
    assert_eq!(removed(Version::new(5, 10)), (1, divider));
    assert_eq!(removed(Version::new(6, 1)).1 - 70_000, 300 * divider / 335 * 335 - 299 * divider);
}

#[test]
fn a_large_load_loses_its_upper_bits_where_sums_are_bound_in_32() {
    let left = |version: Version| {
        let rule = SumRule::of(&History::of(version));
        let (task, mut queue) = moved(version);
        queue.load_avg += 100_000;
        queue.load_sum += 100_000 * (LEAST_DIVIDER + 500);
        queue.sub(&task, rule);
        queue.load_sum
    };
    let whole = 100_000 * (LEAST_DIVIDER + 500);
    assert_eq!(left(Version::new(7, 3)), whole);
    assert_eq!(left(Version::new(6, 12)), (whole % (1 << 32)).max(100_000 * LEAST_DIVIDER % (1 << 32)));
}

#[test]
fn an_entity_off_its_queue_neither_runs_nor_is_runnable() {
    let mut queue = Pelt::default();
    queue.update(5 * MS, 0, 2, true);
    assert_eq!((queue.load_sum, queue.runnable_sum, queue.util_sum), (0, 0, 0));
}
