//! Keys of variants: attributes of tasks, changes in the middle, settings, and sweeps of them all.

use crate::common::{SMALL, experiment};
use schedlab_base::Ns;
use schedlab_kernel::{Cutoffs, MigrationCost, Policy, Variant};
use schedlab_lab::ask::experiment::{parse, set_migration};
use schedlab_lab::{Backend, Backends, Cell, Executor, Options, plan};
use schedlab_machine::{CacheLevel, Machine, Sharing};
use schedlab_record::Record;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

fn with(lines: &str) -> String {
    SMALL.replace("features = [\"SIS_FIRST_IDLE\"]", lines)
}
fn variants(lines: &str) -> Vec<Variant> {
    experiment(&with(lines)).variants
}
fn error(text: &str) -> String {
    parse(Path::new("e.toml"), text, 4)
        .err()
        .map_or_else(|| panic!("no error in:\n{text}"), |e| e.to_string())
}

#[test]
fn tasks_have_attributes_and_the_system_settings() {
    let v = variants(
        "policy = \"batch\"\nnice = -3\ntasks = { worker = { slice = \"3ms\", nice = 5 } }\n\
         settings = { governor = \"performance\", boost = false, autogroup = 1 }",
    );
    let all = v[1].tasks["*"];
    assert_eq!((all.policy, all.nice, all.slice), (Some(Policy::Batch), Some(-3), None));
    assert_eq!((v[1].tasks["worker"].nice, v[1].tasks["worker"].slice), (Some(5), Some(Ns::ms(3))));
    let settings: Vec<(&str, &str)> = v[1].settings.iter().map(|(k, v)| (k.as_str(), v.as_str())).collect();
    assert_eq!(settings, [("autogroup", "1"), ("boost", "false"), ("governor", "performance")]);
    assert!(v[0].tasks.is_empty() && v[0].settings.is_empty());
}

#[test]
fn how_long_tasks_stay_cache_hot_is_a_list_or_measured() {
    let v = variants("migration_cost = [0, 2500]\nmigration_factor = 120");
    assert_eq!(v[1].migration_cost, Some(MigrationCost::Given(vec![0, 2500])));
    assert_eq!(v[1].migration_factor, Some(120));
    assert_eq!(v[0].migration_cost, None);
    assert_eq!(variants("migration_cost = \"auto\"")[1].migration_cost, Some(MigrationCost::Auto));
    let v = variants("migration_cost = { sweep = [\"0,2500\", \"auto\"] }");
    assert_eq!(v[1].name, "fast,migration_cost=0,2500");
    assert_eq!(v[2].migration_cost, Some(MigrationCost::Auto));
}

/// Cutoffs by distance of a variant on a machine file with caches.
fn cutoffs(machine: &Machine, kernel: &str, cost: &str) -> Result<Option<Cutoffs>, String> {
    let mut variant = Variant::plain(kernel);
    set_migration(&mut variant, "migration_cost", cost).unwrap();
    let spec = experiment(SMALL).loads[0].spec.clone();
    let cell = Cell::simulated(&Arc::new(machine.clone()), variant, spec, "x".into());
    cell.map(|c| c.resolved.unwrap().cutoffs).map_err(|e| e.to_string())
}

#[test]
fn cutoffs_are_resolved_on_the_machine() {
    let mut machine = Machine::load("smp-2").unwrap();
    let given = cutoffs(&machine, "v2.6.12", "1,2").unwrap().unwrap();
    assert_eq!((given.ns(0), given.ns(1)), (None, Some(2_000)), "no pair is at distance 0");
    let error = cutoffs(&machine, "v2.6.12", "auto").unwrap_err();
    assert!(error.contains("caches of machine 'smp-2'"), "{error}");
    machine.caches =
        vec![CacheLevel { level: 2, size_kb: 256, line: 64, shared: Sharing::Core, hit_ns_per_kb: 50 }];
    let measured = cutoffs(&machine, "v2.6.12", "auto").unwrap().unwrap();
    let cost = 256 * machine.costs.refill_near_ns_per_kb;
    let found = measured.ns(1).unwrap();
    assert!(found > 2 * cost * 9 / 10 && found <= 2 * cost, "twice the cost of 256 KB, {cost}: {found}");
}

#[test]
fn changes_of_all_and_of_one_come_in_the_order_of_time() {
    let all = "[[at]]\ntime = \"200ms\"\nfeatures = [\"NO_LAST_BUDDY\"]\n[[at]]\ntime = \"600ms\"\nfeatures = [\"LAST_BUDDY\"]\n";
    let own = "[[variant.at]]\ntime = \"400ms\"\ntunables = { nr_migrate = 8 }\n";
    let e = experiment(&format!("{}{own}{all}", SMALL));
    let times = |v: &Variant| v.at.iter().map(|c| c.time.0 / 1_000_000).collect::<Vec<_>>();
    assert_eq!((times(&e.variants[0]), times(&e.variants[1])), (vec![200, 600], vec![200, 400, 600]));
    assert_eq!(e.variants[1].at[1].tunables["nr_migrate"], 8);
}

#[test]
fn any_number_of_a_variant_may_be_swept() {
    let v = variants(
        "tunables = { hz = { sweep = [100, 1_000] }, nr_migrate = 8 }\nnice = { range = [-5, 5], step = 5 }\n",
    );
    let names: Vec<&str> = v.iter().map(|v| v.name.as_str()).collect();
    let of = |hz, nice| format!("fast,hz={hz},nice={nice}");
    let want = [of(100, -5), of(100, 0), of(100, 5), of(1000, -5), of(1000, 0), of(1000, 5)];
    assert_eq!((names[0], &names[1..]), ("slow", &want.each_ref().map(String::as_str)[..]));
    assert!(v[1..].iter().all(|v| v.tunables["nr_migrate"] == 8));
    assert_eq!((v[6].tunables["hz"], v[6].tasks["*"].nice), (1000, Some(5)));

    let v = variants(
        "features = { sweep = [\"LAST_BUDDY\", \"NO_LAST_BUDDY\"] }\nslice = { range = [\"1ms\", \"2ms\"], step = \"500us\" }",
    );
    assert_eq!((v.len(), v[6].name.as_str()), (7, "fast,features=NO_LAST_BUDDY,slice=2ms"));
    let v = variants(
        "[[variant.at]]\ntime = { sweep = [\"0s\", \"500ms\"] }\ntunables = { nr_migrate = { sweep = [1, 2] } }",
    );
    assert_eq!(
        (v.len(), v[3].name.as_str(), v[3].at[0].time),
        (5, "fast,at=500ms,at.nr_migrate=1", Ns::ms(500))
    );
}

#[test]
fn the_name_of_a_swept_variant_means_all_of_it() {
    let text = with("tunables = { hz = { sweep = [100, 1000] } }");
    let first = |t: &str| experiment(t).baseline;
    assert_eq!(first(&text.replace("runs = 10", "runs = 1\nbaseline = \"fast\"")), "fast,hz=100");
    assert_eq!(first(&text.replace("runs = 10", "runs = 1\nbaseline = \"fast,hz=1000\"")), "fast,hz=1000");
    let kept =
        experiment(&text.replacen("threads = 2\n", "threads = 2\nvariants = [\"slow\", \"fast\"]\n", 1));
    assert_eq!(kept.loads[0].variants, ["slow", "fast,hz=100", "fast,hz=1000"]);
}

#[test]
fn errors_have_their_place() {
    let at = "e.toml:24:8";
    for (lines, place, says) in [
        ("policy = \"btach\"", "e.toml:23:10", "did you mean 'batch'"),
        ("nice = 20", "e.toml:23:8", "-20 to 19"),
        ("nice = { sweep = [0, 20] }", "e.toml:23:22", "-20 to 19"),
        ("nice = \"low\"", "e.toml:23:8", "whole number"),
        ("slice = \"1us\"", "e.toml:23:9", "100us to 100ms"),
        ("migration_cost = \"measure\"", "e.toml:23:18", "is not a migration cost"),
        ("migration_cost = [2000000]", "e.toml:23:18", "at most a second"),
        ("migration_cost = [\"auto\"]", "e.toml:23", "migration_cost"),
        ("migration_factor = 120", "e.toml:", "without migration_cost"),
        ("slice = 3", "e.toml:23:9", "unit"),
        ("tasks = { wroker = { nice = 1 } }", "e.toml:23:9", "did you mean 'worker'"),
        ("tasks = { worker = { nise = 1 } }", "e.toml:23:22", "did you mean 'nice'"),
        ("settings = { Governor = 1 }", "e.toml:23:25", "'governor'"),
        ("settings = { governor = [1] }", "e.toml:23:25", "a sweep"),
        ("tunables = { hz = { sweep = [100, 0] } }", "e.toml:23:35", "out of range"),
        ("tunables = { hz = { range = [1, 100000] } }", "e.toml:23:19", "more than 10000"),
        (
            "tunables = { hz = { range = [100, 200] }, nr_migrate = { range = [1, 1000] } }",
            "e.toml",
            "combinations",
        ),
        ("features = { sweep = [\"SIS_FRIST_IDLE\"] }", "e.toml:23:23", "SIS_FIRST_IDLE"),
        (
            "[[variant.at]]\ntime = \"1s\"\nfeatures = [\"NO_LAST_BUDDY\"]",
            at,
            "comes too late: schbench lasts 1s",
        ),
        ("[[variant.at]]\ntime = \"1 parsec\"\nfeatures = []", at, "parsec"),
        ("[[variant.at]]\nfeatures = [\"NO_LAST_BUDDY\"]", "e.toml:23:1", "no time"),
        ("[[variant.at]]\ntime = \"1ms\"", "e.toml:24:8", "nothing changes"),
        (
            "[[variant.at]]\ntime = \"1ms\"\nfeatures = [\"SD_SHARED_ALL\"]",
            "e.toml:25:12",
            "can't change in the middle",
        ),
        ("[[variant.at]]\ntime = \"1ms\"\ntunables = { hz = 100 }", "e.toml:24", "hz can't change"),
        (
            "[[variant.at]]\ntime = \"2ms\"\nfeatures = [\"NO_LAST_BUDDY\"]\n[[variant.at]]\ntime = \"1ms\"\nfeatures = [\"LAST_BUDDY\"]",
            "e.toml:27:8",
            "in the order of their times",
        ),
    ] {
        let text = error(&with(lines));
        assert!(text.starts_with(place) && text.contains(says), "{lines}: {text}");
    }
}

fn ran(lines: &str) -> Vec<Record> {
    let text = with(lines)
        .replace("runtime = \"1s\"", "runtime = \"300ms\"\ncputime = \"2ms\"\nsleeptime = \"3ms\"");
    let text =
        text.replace("threads = 4", "threads = 8").replace("\"smp-4\"]", "\"smp-2\"]\nbackground = false");
    let e = experiment(&text);
    let plan = plan(&e, Backend::Sim, Options { runs: Some(1), seed: None, ..Options::default() }).unwrap();
    let stop = AtomicBool::new(false);
    plan.cells.iter().map(|c| Backends::default().run(c, 1, &stop).unwrap().unwrap().record).collect()
}

#[test]
fn the_simulator_gives_tasks_their_attributes_and_makes_the_changes() {
    // Four workers a CPU. The messenger's wakeups preempt them, unless it is SCHED_BATCH or, from half-time on, the
    // feature is off.
    let preempted = |r: &Record| r.found.counters["switches.involuntary"];
    let records = ran("tasks = { message = { policy = \"batch\" } }");
    let (plain, batch) = (preempted(&records[2]), preempted(&records[3]));
    assert!(batch * 4 < plain, "{plain} preemptions, {batch} as SCHED_BATCH");
    let records = ran("[[variant.at]]\ntime = \"150ms\"\nfeatures = [\"NO_WAKEUP_PREEMPTION\"]");
    let half = preempted(&records[3]);
    assert!(plain / 4 < half && half < plain * 3 / 4, "{plain} preemptions, {half} with half a run of them");
    assert_eq!(preempted(&records[2]), plain, "the baseline is the same run");
}

#[test]
fn machines_may_differ_in_costs_and_size() {
    let text = SMALL.replace(
        "machines = [\"smp-4\"]",
        "machines = [\"small\", \"smp-4\"]\nmachine = [{ name = \"small\", base = \"smp-2\", cpus = { sweep = [2, 3] }, \
         costs = { tick_ns = 1500, probe_hit_ns = { range = [20, 40], step = 20 } } }]",
    );
    let e = experiment(&text);
    let of = |cpus, probe| format!("small,cpus={cpus},probe_hit_ns={probe}");
    let names: Vec<&str> = e.machines.iter().map(|m| m.name.as_str()).collect();
    assert_eq!(names, [&of(2, 20), &of(2, 40), &of(3, 20), &of(3, 40), "smp-4"]);
    let m = &e.machines[3];
    assert_eq!((m.topology.nr_cpus(), m.costs.tick_ns, m.costs.probe_hit_ns), (3, 1500, 40));
    assert_eq!((m.note("tick_ns").source.as_str(), e.loads.len()), ("set by the experiment", 10));
    for (from, to, place, says) in [
        ("tick_ns = 1500", "tick_n = 1500", "e.toml:5", "did you mean 'tick_ns'"),
        ("tick_ns = 1500", "smt_speed_pct = 0", "e.toml:5", "1 to 100 per cent"),
        ("tick_ns = 1500", "tick_ns = 60000000001", "e.toml:5", "out of range"),
        ("[2, 3]", "[2, 5000]", "e.toml:5", "5000"),
        ("smp-2", "spr-2x56", "e.toml:5", "the CPUs that its file says"),
        ("smp-2", "smq-2", "e.toml:5", "smq-2"),
        ("base = \"smp-2\", ", "", "e.toml:5", "no base"),
    ] {
        let error = error(&text.replace(from, to));
        assert!(error.starts_with(place) && error.contains(says), "{to}: {error}");
    }
}
