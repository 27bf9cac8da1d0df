//! Every reason of the balancers and of `wake_affine` is one that some run has, or it is said why no run can have it.

mod common;

use common::Lab;
use schedlab_trace::{ActiveReason, AffineReason, BalanceReason, KickReason, SkipReason};
use std::collections::{BTreeMap, BTreeSet};

/// Runs, and the reasons that each must show.
const RUNS: &[(&str, &[&str])] = &[
    (
        "ranks.json --machine 4cpu --kernel v4.5",
        &["balance.active.reduced_capacity", "balance.kick.reduced_capacity"],
    ),
    (
        "schbench -m 3 -t 6 -r 134ms -c 1500us -s 12ms --machine smt-8 --kernel v6.1 --feature NO_WA_IDLE@30ms \
         --feature NO_GENTLE_FAIR_SLEEPERS --feature NO_ILB_UTIL --nice=-9 --seed 2",
        &[
            "affine.neither",
            "affine.prev_idle",
            "affine.waker_lighter",
            "balance.busy_cpu",
            "balance.emptied",
            "balance.enough_idle",
            "balance.hot",
            "balance.kick.asked",
            "balance.kick.averages_only",
            "balance.kick.busy_cache",
            "balance.kick.idle",
            "balance.kick.nobody_idle",
            "balance.kick.nobody_tickless",
            "balance.kick.nothing_to_give",
            "balance.kick.too_early",
            "balance.moved",
            "balance.no_busiest",
            "balance.not_our_turn",
            "balance.single_task",
            "balance.skip.dice",
            "balance.skip.no_overload",
            "balance.skip.not_due",
        ],
    ),
    (
        "hackbench -g 3 -f 7 -l 29 -P --machine icount-16 --kernel v5.4 --feature NO_WA_WEIGHT --nice=7 --seed 6",
        &[
            "affine.waker_alone",
            "balance.local_above_average",
            "balance.local_busier",
            "balance.no_queue",
            "balance.skip.short_idle",
            "balance.skip.too_dear",
            "balance.too_heavy",
        ],
    ),
    (
        "schbench-modern -m 2 -t 7 -r 42ms -R 400 --machine 8cpu --kernel v2.6.27 --policy idle --nice=3 --seed 5",
        &[
            "affine.waker_light",
            "affine.waker_loaded",
            "balance.kick.two_tasks",
            "balance.skip.helper_busy",
            "balance.skip.no_newidle",
        ],
    ),
    (
        "stream-rr --clients 4 -t 31ms --machine icount-8-smt --kernel v6.18 --seed 1",
        &["balance.numa_tolerated", "balance.running", "balance.work_came"],
    ),
    (
        "slice --tasks 4 --wakers 0 --rate 4000 --wake-work 120us --interval 50ms --hog-nice 5 --placement pinned \
         -r 365ms --machine 2cpu --kernel v5.15 --feature NO_WA_BIAS@18ms --seed 7",
        &["balance.pinned", "balance.within_pct"],
    ),
    (
        "slice --tasks 14 --wakers 3 --rate 4000 --wake-work 30us --interval 50ms --hog-nice -1 -r 325ms \
         --machine smt-8 --kernel v6.1 --tunable probe_batch=1 --seed 6",
        &["balance.local_fuller", "balance.small_difference"],
    ),
    (
        "embedded-db --clients 8 -r 65ms --machine fb-2x12-smt --kernel v6.5 --feature NO_ILB_SNAPSHOT --seed 6",
        &["balance.skip.averages_only", "balance.skip.locked"],
    ),
    (
        "rr --pairs 1 --protocol tcp -l 28ms --machine fb-2x12-smt --kernel v2.6.30 --policy idle --nice=9 --seed 9",
        &["affine.half_empty"],
    ),
    (
        "schbench -m 1 -t 9 -r 90ms -c 2600us -s 11ms --machine smt-16 --kernel v5.4 --feature NO_SD_NR_GROUPS \
         --tunable hz=1000 --seed 2",
        &["balance.active.failures"],
    ),
    (
        "pipe -l 300 --pairs 4 --machine celeron-2 --kernel v7.3 --tunable nr_migrate=4 --nice=8 --seed 3",
        &["balance.skip.wakeup_pending"],
    ),
    (
        "slice --tasks 20 --wakers 1 --rate 100 --wake-work 190us --interval 50ms --hog-nice -7 -r 286ms \
         --machine fb-2x12-smt --kernel v2.6.30 --seed 6",
        &["balance.one_task"],
    ),
];

/// Reasons that no run has, and why. The rules that give them are tested beside them.
const NEVER: &[(&str, &str)] = &[
    (
        "affine.both_idle",
        "a CPU that an interrupt finds idle wakes only tasks that slept there: it is their previous one",
    ),
    ("affine.waker_idle", "the same"),
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
    ("balance.too_little", "balance/reasons.rs: an_amount_of_nothing_tells_its_rule"),
];

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
    let words: Vec<&str> = line.split_whitespace().collect();
    let words = [&["bench"][..], &words, &["--backend", "sim"]].concat();
    let (_, err) = lab.run(&words, 0);
    let folder = err.trim().rsplit(' ').next().unwrap();
    let text = std::fs::read_to_string(lab.path().join(folder).join("record.json")).unwrap();
    let record: serde_json::Value = serde_json::from_str(&text).unwrap();
    serde_json::from_value(record["counters"].clone()).unwrap()
}

#[test]
fn every_reason_occurs_or_it_is_said_why_it_cannot() {
    let (lab, table) = (Lab::new(), table());
    lab.write("ranks.json", include_str!("../../../cases/rt/ranks.json"));
    let mut seen: BTreeSet<&str> = BTreeSet::new();
    for (line, reasons) in RUNS {
        let counters = counters(&lab, line);
        for reason in *reasons {
            assert!(counters[*reason] > 0, "{reason} does not occur in {line}");
            seen.insert(reason);
        }
        for (reason, why) in NEVER {
            assert_eq!(counters[*reason], 0, "{reason} can't occur: {why}; yet it does in {line}");
        }
        assert!(table.iter().all(|name| counters.contains_key(name)), "all are counted, if as 0");
        // Each pass ends in one way.
        let ends = BalanceReason::ALL.iter().map(|r| counters[&format!("balance.{}", r.name())]);
        let passes = ["newidle", "idle", "busy", "nohz"].map(|t| counters[&format!("balance.{t}.passes")]);
        assert_eq!(ends.sum::<u64>(), passes.iter().sum::<u64>(), "{line}");
    }
    let excused = NEVER.iter().chain(RARE).map(|(name, _)| *name);
    let told: BTreeSet<String> = seen.into_iter().chain(excused).map(str::to_owned).collect();
    assert_eq!(told, table);
}
