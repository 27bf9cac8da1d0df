//! Every reason of the balancers and of `wake_affine` is one that some run has, or the test of its rule is named.

use crate::common::Lab;
use schedlab_trace::{ActiveReason, AffineReason, BalanceReason, KickReason, SkipReason};
use std::collections::{BTreeMap, BTreeSet};

/// Runs, and the reasons that each must show.
const RUNS: &[(&str, &[&str])] = &[
    (
        "ranks.json --machine 4cpu --kernel v4.5",
        &["balance.active.reduced_capacity", "balance.kick.reduced_capacity"],
    ),
    (
        "schbench -m 4 -t 14 -r 136ms -c 200us -s 1ms --machine icount-16 --kernel v6.6 --nice=10 --seed 5",
        &[
            "affine.neither",
            "affine.prev_idle",
            "affine.waker_lighter",
            "balance.busy_cpu",
            "balance.emptied",
            "balance.hot",
            "balance.kick.asked",
            "balance.kick.busy_cache",
            "balance.kick.idle",
            "balance.kick.next_balance",
            "balance.kick.nobody_idle",
            "balance.kick.nobody_tickless",
            "balance.kick.nothing_to_give",
            "balance.kick.too_early",
            "balance.kick.two_tasks",
            "balance.local_above_average",
            "balance.moved",
            "balance.no_busiest",
            "balance.no_queue",
            "balance.single_task",
            "balance.skip.no_overload",
            "balance.skip.not_due",
            "balance.skip.too_dear",
            "balance.small_difference",
            "balance.work_came",
        ],
    ),
    (
        "schbench -m 4 -t 14 -r 136ms -c 200us -s 1ms --machine icount-16 --kernel v6.6 --nice=10 --seed 11",
        &["balance.local_fuller"],
    ),
    (
        "schbench -m 4 -t 14 -r 136ms -c 200us -s 1ms --machine icount-16 --kernel v6.12 --nice=10 --seed 2",
        &["balance.local_busier", "balance.running"],
    ),
    (
        "schbench-modern -m 1 -t 10 -r 94ms -R 0 --machine spr-2x56 --kernel v2.6.27 --seed 5",
        &[
            "affine.waker_light",
            "affine.waker_loaded",
            "balance.active.failures",
            "balance.not_our_turn",
            "balance.pinned",
            "balance.skip.helper_busy",
            "balance.skip.no_newidle",
        ],
    ),
    (
        "embedded-db --clients 11 -r 78ms --machine nodes-2x4 --kernel v6.18 --tunable \
         probe_batch=0 --policy batch --seed 2",
        &[
            "balance.enough_idle",
            "balance.numa_tolerated",
            "balance.skip.averages_only",
            "balance.skip.dice",
            "balance.skip.locked",
        ],
    ),
    (
        "rr --pairs 3 --protocol tcp -l 31ms --machine 4cpu --kernel v5.4 --seed 1",
        &["affine.waker_alone", "balance.skip.short_idle"],
    ),
    (
        "schbench -m 2 -t 6 -r 300ms -c 6ms -s 4ms --machine 4cpu --kernel v5.4 --seed 1",
        &["balance.too_heavy"],
    ),
    (
        "schbench -m 2 -t 6 -r 300ms -c 6ms -s 4ms --machine 4cpu --kernel v2.6.12 --seed 2",
        &["affine.cache_cold", "affine.cache_hot"],
    ),
    (
        "slice --tasks 18 --wakers 1 --rate 2000 --wake-work 100us -r 150ms --machine \
         desktop-8-smt --kernel v7.3 --seed 9",
        &["balance.ineligible"],
    ),
    (
        "nanosleep --tasks 16 -r 100ms --machine desktop-8-smt --kernel v7.3 --seed 3",
        &["balance.kick.averages_only"],
    ),
    (
        "pipe -l 300 --pairs 4 --machine alone.toml --kernel v7.3 --tunable nr_migrate=4 --nice=8 \
         --seed 3",
        &["balance.skip.wakeup_pending"],
    ),
    ("rr --pairs 7 --protocol tcp -l 45ms --machine 8cpu --kernel v7.3 --seed 1", &["balance.delayed"]),
    (
        "stream-rr --clients 5 -t 46ms --machine icount-8-smt --kernel v2.6.30 --seed 6",
        &["affine.half_empty", "balance.within_pct"],
    ),
    (
        "batch --jobs 15 --touched 4096 --compute 400us --sleep 1ms --wakers 0 -r 137ms --machine \
         8cpu --kernel v6.12 --seed 2",
        &["affine.both_idle", "affine.waker_idle"],
    ),
    (
        "slice --tasks 3 --wakers 1 --rate 1000 -r 400ms --machine juno-4-2 --kernel v6.12 --seed 1",
        &["balance.active.misfit", "balance.kick.misfit"],
    ),
    (
        "hackbench -g 2 -f 4 -l 8 -P --machine spr-2x56 --kernel v7.3 --policy batch --seed 8",
        &["balance.locked"],
    ),
];

/// Reasons so rare that no short run is known to show them, and the test of the rule that gives them.
const RARE: &[(&str, &str)] = &[
    (
        "affine.waker_is_load",
        "wakeup/affine.rs: wa_weight_needs_strictly_less_load_and_bias_leans_to_the_waker",
    ),
    ("balance.no_room", "balance/reasons.rs: an_amount_of_nothing_tells_its_rule"),
    (
        "balance.nothing_wanted",
        "balance/reasons.rs: a_walk_in_vain_tells_the_refusal_that_came_nearest_to_a_move",
    ),
    ("balance.one_task", "balance/average/busiest.rs: one_task_is_no_imbalance_before_2_6_32"),
    ("balance.too_little", "balance/reasons.rs: an_amount_of_nothing_tells_its_rule"),
];

/// Two CPUs that share no cache.
const ALONE: &str = include_str!("cases/files/alone.toml");

fn table() -> BTreeSet<String> {
    let mut all = BTreeSet::new();
    let mut family = |of: &str, names: Vec<&str>| all.extend(names.iter().map(|n| format!("{of}.{n}")));
    family("affine", AffineReason::ALL.iter().map(|r| r.name()).collect());
    family("balance", BalanceReason::ALL.iter().map(|r| r.name()).collect());
    family("balance.skip", SkipReason::ALL.iter().map(|r| r.name()).collect());
    family("balance.kick", KickReason::ALL.iter().map(|r| r.name()).collect());
    family("balance.active", ActiveReason::ALL.iter().map(|r| r.name()).collect());
    all
}

fn counters(lab: &Lab, line: &str) -> BTreeMap<String, u64> {
    let folder = lab.kept(&format!("bench {line} --backend sim"));
    serde_json::from_value(lab.record(&folder)["counters"].take()).unwrap()
}

#[test]
fn every_reason_occurs_or_its_test_is_named() {
    let (lab, table) = (Lab::new(), table());
    lab.write("ranks.json", include_str!("../../../cases/rt/ranks.json"));
    lab.write("alone.toml", ALONE);
    let mut seen: BTreeSet<&str> = BTreeSet::new();
    for (line, reasons) in RUNS {
        let counters = counters(&lab, line);
        for reason in *reasons {
            assert!(counters[*reason] > 0, "{reason} does not occur in {line}");
            seen.insert(reason);
        }
        // Two reasons of the O(1) scheduler are left out of the records in which they do not occur.
        let rare = ["affine.cache_cold", "affine.cache_hot"];
        let counted = |name: &&String| counters.contains_key(*name) || rare.contains(&name.as_str());
        assert!(table.iter().all(|name| counted(&name)), "all are counted, if as 0");
        // Each pass ends in one way.
        let ends = BalanceReason::ALL.iter().map(|r| counters[&format!("balance.{}", r.name())]);
        let passes = ["newidle", "idle", "busy", "nohz"].map(|t| counters[&format!("balance.{t}.passes")]);
        assert_eq!(ends.sum::<u64>(), passes.iter().sum::<u64>(), "{line}");
    }
    let excused = RARE.iter().map(|(name, _)| *name);
    let told: BTreeSet<String> = seen.into_iter().chain(excused).map(str::to_owned).collect();
    assert_eq!(told, table);
}
