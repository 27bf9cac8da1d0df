//! Names, the nearest names, values, and reasons for missing values.

use super::*;
use crate::tests::record;

#[test]
fn names_resolve_to_unit_direction_and_definition() {
    let unit = |name: &str| {
        let m = Metric::find(name).unwrap();
        (m.unit.clone(), m.better)
    };
    assert_eq!(unit("wakeup_delay.p99.9"), ("ns".into(), Better::Lower));
    assert_eq!(unit("wakeup_delay.count"), (String::new(), Better::Neither));
    assert_eq!(unit("schbench.latency.p99.5"), ("ns".into(), Better::Lower));
    assert_eq!(unit("work"), ("ns".into(), Better::Higher));
    assert_eq!(unit("balance.newidle.time"), ("ns".into(), Better::Lower));
    let m = Metric::find("placement.idle_core").unwrap();
    assert!(m.about.ends_with("a core with all threads idle was found"), "{}", m.about);
}

#[test]
fn wrong_names_get_the_nearest() {
    for (name, near) in [
        ("wakup_delay.p99", "wakeup_delay.p99"),
        ("placement.idle_cor", "placement.idle_core"),
        ("switches.volontary", "switches.voluntary"),
        ("slice.end.idle", "slice.end."),
    ] {
        let text = Metric::find(name).unwrap_err().to_string();
        assert!(text.contains(&format!("did you mean '{near}")), "{text}");
    }
    let text = Metric::find("utterly unlike anything there is at all").unwrap_err().to_string();
    assert!(text.contains("<program>.<series>.<stat>"), "{text}");
    for name in ["", ".", "p99", "placement.x.p99", "a..p99", ".a.p99"] {
        assert!(Metric::find(name).is_err(), "{name}");
    }
}

#[test]
fn an_unknown_statistic_is_named() {
    for name in ["schbench.latency.p101", "wakeup_delay.p100", "wakeup_delay.p0", "x.y.median"] {
        let e = Metric::find(name).unwrap_err();
        assert!(e.message().contains("is not a statistic"), "{e}");
    }
}

#[test]
fn programs_series_are_looked_up_among_those_declared() {
    let declared = [("pipe.rate", "1/s", Better::Higher)];
    let m = Metric::find_with("pipe.rate.mean", declared).unwrap();
    assert_eq!((m.unit.as_str(), m.better), ("1/s", Better::Higher));
    let e = Metric::find_with("pipe.rat.mean", declared).unwrap_err();
    assert!(e.to_string().contains("did you mean 'pipe.rate'"), "{e}");
    assert!(Metric::find_with("wakeup_delay.p50", declared).is_ok());
}

#[test]
fn a_rate_is_a_program_s_series_over_the_measured_time() {
    let mut r = record(1);
    r.found.duration = Ns::ms(500);
    let series = |unit: &str, values: &[u64]| {
        let mut s = Series::new(unit, Better::Neither);
        values.iter().for_each(|v| s.record(*v));
        s
    };
    r.found.series.insert("rr.latency".into(), series("ns", &[9_000, 9_000, 14_000]));
    r.found.series.insert("stream-rr.data".into(), series("B", &[4096, 65_536]));
    assert_eq!(evaluate(&r, "rr.rate"), Value::Number(6.0));
    assert_eq!(evaluate(&r, "stream-rr.throughput"), Value::Number(139_264.0));
    assert_eq!(Metric::find("rr.rate").unwrap().series(), Some("rr.latency"));
    let Value::Missing(why) = evaluate(&r, "embedded-db.rate") else { panic!("it is of another program") };
    assert!(why.contains("unknown series 'embedded-db.latency'"), "{why}");
    r.found.duration = Ns::ZERO;
    assert_eq!(evaluate(&r, "rr.rate"), Value::Missing("no time was measured".into()));
    // A program's series of a similar name is still found, with its own unit.
    let declared = [("rr.latency", "ns", Better::Lower)];
    let m = Metric::find_with("rr.latency.p50", declared).unwrap();
    assert_eq!((m.unit.as_str(), m.better), ("ns", Better::Lower));
    let m = Metric::find_with("rr.rate", declared).unwrap();
    assert_eq!((m.unit.as_str(), m.better), ("1/s", Better::Higher));
}

#[test]
fn a_share_of_cycles_is_of_one_function() {
    let mut r = record(1);
    r.backend = Backend::Code.into();
    let why = |value: Value| match value {
        Value::Missing(reason) => reason,
        Value::Number(n) => panic!("{n} was measured"),
    };
    assert_eq!(why(evaluate(&r, "cycles.self.schedule")), "not measured in this run", "at level free");
    let chains = [("schedule;pick_eevdf".to_owned(), 1), ("schedule".to_owned(), 3)];
    r.found.cycles = crate::Cycles::of(&chains.into(), &["schedule_idle".to_owned()]);
    assert_eq!(evaluate(&r, "cycles.self.schedule"), Value::Number(75.0));
    assert_eq!(evaluate(&r, "cycles.total.schedule"), Value::Number(100.0));
    assert_eq!(evaluate(&r, "cycles.total.schedule_idle"), Value::Number(0.0));
    let inlined = "no sample of 4 is in scheduled, which is inlined or not in the image";
    assert_eq!(why(evaluate(&r, "cycles.self.scheduled")), inlined);
    assert!(Metric::find("cycles.self.").is_err() && Metric::find("cycles.schedule").is_err());
    assert!(beyond_index("cycles.self.schedule"));
    assert_eq!(Metric::find("cycles.self.schedule").unwrap().unit, "%");
}

#[test]
fn missing_values_give_the_reason() {
    let mut r = record(1);
    r.found.counters.insert("migrations".into(), 0);
    assert_eq!(evaluate(&r, "migrations"), Value::Number(0.0));
    assert_eq!(evaluate(&r, "schbench.latency.count"), Value::Number(5000.0));
    assert_eq!(evaluate(&r, "schbench.latency.min"), Value::Number(0.0));
    let why = |v: Value| match v {
        Value::Missing(reason) => reason,
        Value::Number(n) => panic!("{n} was measured"),
    };
    assert_eq!(why(evaluate(&r, "wakeups")), "not measured in this run");
    assert!(why(evaluate(&r, "schbench.latency.p99.9")).contains("10 are needed"));
    assert!(why(evaluate(&r, "other.latency.p50")).contains("unknown series"));
    r.backend = Backend::Code.into();
    for name in ["slice.end.wakeup", "slice.slice.p50", "slice.preempted_by.a", "placement.idle_core"] {
        assert!(why(evaluate(&r, name)).contains("rules were not asked"), "{name}");
    }
    assert_eq!(why(evaluate(&r, "slice.end.preempted")), "not measured in this run");
    r.backend = Backend::Host.into();
    assert_eq!(why(evaluate(&r, "placement.idle_core")), "the host backend does not measure it");
    assert!(why(evaluate(&r, "woken.prev")).contains("--events"));
    assert!(why(evaluate(&r, "woken.prev.share")).contains("--events"));
    r.observe = Some(crate::Observe::Accounts);
    for unwatched in
        ["slice.p50", "slice.end.blocked", "perf.ipc", "perf.cycles.rate", "perf.context_switches"]
    {
        assert_eq!(why(evaluate(&r, unwatched)), "not watched: add --counters", "{unwatched}");
    }
    assert!(why(evaluate(&r, "woken.prev")).contains("--events"));
    r.observe = Some(crate::Observe::Stays);
    assert_eq!(why(evaluate(&r, "slice.p50")), "not measured in this run");
    assert_eq!(why(evaluate(&r, "perf.ipc")), "not watched: add --counters");
    r.observe = Some(crate::Observe::Events);
    assert_eq!(why(evaluate(&r, "perf.ipc")), "not measured in this run");
    r.found.environment.insert("uncounted.events".into(), "records were lost".into());
    assert_eq!(why(evaluate(&r, "wakeups")), "records were lost");
    r.found.counters.extend([("woken".to_owned(), 8), ("woken.prev".to_owned(), 6)]);
    assert_eq!(evaluate(&r, "woken.prev.share"), Value::Number(75.0));
}

#[test]
fn every_name_of_the_table_finds_its_own_row() {
    let mut all = Vec::new();
    for row in METRICS.iter().filter(|r| r.name != PROGRAM_SERIES) {
        for name in row.names() {
            let found = Metric::find(&name).unwrap();
            assert_eq!(found.row.name, row.name, "{name}");
            all.push(name);
        }
    }
    let total = all.len();
    all.sort_unstable();
    all.dedup();
    assert_eq!(all.len(), total, "no name stands in two rows");
}

#[test]
fn counters_of_schedstat_are_metrics() {
    let mut r = record(1);
    let number = |r: &crate::Record, name: &str| evaluate(r, name).number();
    assert_eq!(number(&r, "sched.ttwu_count"), None, "a run without schedstat counted nothing, not 0");
    r.found.schedstat = Some(crate::schedstat::tests::sample(1));
    for (name, value) in [
        ("sched.ttwu_count", 4.0 * 89_392.0),
        ("cpu3.pcount", 89_393.0),
        ("domain1.ttwu_wake_remote", 4.0 * 626.0),
        ("cpu2.domain1.ttwu_wake_remote", 626.0),
        ("domain1.newidle.lb_count", 4.0 * 822.0),
        ("cpu2.domain1.newidle.lb_sg_scan", 45_231.0),
        ("cpu2.domain1.busy.lb_imbalance", 2_048.0),
        ("cpu2.domain0.newidle.lb_nobusyq", 235.0),
        ("domain0.busy.past_balanced", 10.0),
        ("cpu0.domain1.newidle.groups_per_balance", 45_211.0 / 822.0),
    ] {
        assert_eq!(number(&r, name), Some(value), "{name}");
    }
    for (name, why) in [
        ("domain2.newidle.lb_count", "there is no domain2"),
        ("cpu9.pcount", "there is no cpu9"),
        ("domain1.newidle.lb_imbalance_task", "does not tell kinds"),
    ] {
        assert!(matches!(evaluate(&r, name), Value::Missing(w) if w.contains(why)), "{name}");
    }
    let m = Metric::find("domain1.newidle.groups_per_balance").unwrap();
    assert_eq!((m.unit.as_str(), m.better), ("", Better::Lower));
    assert_eq!(Metric::find("cpu0.run_delay").unwrap().unit, "ns");
}

#[test]
fn wrong_names_of_schedstat_get_the_nearest() {
    for (name, near) in [
        ("sched.ttwu_cuont", "'ttwu_count'"),
        ("domain1.newidle.lb_cuont", "'lb_count'"),
        ("domain1.newidle.past_balance", "'past_balanced'"),
        ("domain1.newidel.lb_count", "'newidle'"),
        ("domain1.lb_count", "newidle.lb_count"),
        ("cpu1.domain0.ttwu_wake_remot", "'ttwu_wake_remote'"),
    ] {
        let text = Metric::find(name).unwrap_err().to_string();
        assert!(text.contains(near) && text.contains(name), "{text}");
    }
}

#[test]
fn shares_of_busy_time_follow_from_counters() {
    let mut r = record(1);
    r.found.duration = Ns::ms(10);
    r.machine = schedlab_machine::Machine::load("smp-2").unwrap();
    let cpus = r.machine.topology.nr_cpus() as u64;
    assert!(evaluate(&r, "balance.newidle_share").number().is_none(), "not measured");
    r.found.counters.insert("idle_time".into(), r.found.duration.0 * cpus - 1_000_000);
    r.found.counters.insert("balance.newidle_time".into(), 93_800);
    assert!((evaluate(&r, "balance.newidle_share").number().unwrap() - 9.38).abs() < 1e-9);
    r.found.counters.insert("idle_time".into(), r.found.duration.0 * cpus);
    assert!(evaluate(&r, "balance.newidle_share").number().is_none(), "of no time there is no part");
}

#[test]
fn newidle_entries_are_counted_from_schedstat() {
    let mut r = record(1);
    assert!(evaluate(&r, "balance.newidle_entries").number().is_none());
    let mut stat = crate::schedstat::tests::sample(1);
    for cpu in &mut stat.cpus {
        cpu.sched_goidle = 1_000;
        cpu.domains[0].lb[2].lb_count = 9;
    }
    r.found.schedstat = Some(stat);
    assert!((evaluate(&r, "balance.newidle_entries").number().unwrap() - 0.9).abs() < 1e-9);
}
