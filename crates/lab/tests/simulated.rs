//! The whole path with the real simulator: an experiment, its runs, the same bytes whatever the number of threads.

use crate::common::experiment;
use schedlab_base::Stream;
use schedlab_compare::compare;
use schedlab_compare::comparison::CellStat;
use schedlab_compare::stats::{Direction, Limits, Looks, RunValue, Table, Verdict, decide};
use schedlab_lab::{Backend, Backends, Options, RunOptions, Session, plan};
use schedlab_record::Record;
use std::sync::atomic::AtomicBool;

const TINY: &str = r#"
name = "tiny"
runs = 2
machines = ["smt-4"]
[workload]
name = "schbench"
runtime = "200ms"
sleeptime = "1ms"
cputime = "1ms"
[[load]]
name = "1x3"
message_threads = 1
threads = 3
[[variant]]
kernel = "v4.5"
[[variant]]
name = "first-idle"
kernel = "v4.5"
features = ["SIS_FIRST_IDLE"]
"#;

fn records(jobs: usize) -> Vec<Record> {
    let p = plan(&experiment(TINY), Backend::Sim, Options::default()).unwrap();
    let (sim, stop) =
        (Backends::new(RunOptions { check: true, ..RunOptions::default() }), AtomicBool::new(false));
    let session = Session { jobs, ..Session::of(&sim, &stop) };
    session.work(&p).unwrap_or_else(|e| panic!("{e}")).records
}

#[test]
fn the_same_bytes_whatever_the_number_of_threads() {
    let bytes = |r: &[Record]| r.iter().map(|r| serde_json::to_string(r).unwrap()).collect::<Vec<_>>();
    let (one, two) = (records(1), records(2));
    assert_eq!(bytes(&one), bytes(&two));
    assert_eq!(one.len(), 4);
    for r in &one {
        assert!(r.found.series["schbench.latency"].count() > 100, "{:?}", r.found.series.keys());
        assert!(r.found.counters["sim.events"] > 1_000 && r.found.duration.0 > 0);
    }
    assert_ne!(bytes(&one)[0], bytes(&one)[3], "another seed is another run");
    let c = compare(&one, &experiment(TINY).question(), &[]).unwrap();
    assert_eq!(c.cells.len(), 2);
    assert!(c.cells[0].metrics["schbench.latency.p50"].measured().is_some());
}

#[test]
fn a_stopped_run_gives_no_record() {
    use schedlab_lab::Executor;
    let p = plan(&experiment(TINY), Backend::Sim, Options::default()).unwrap();
    let stopped = Backends::default().run(&p.cells[0], 1, &AtomicBool::new(true)).unwrap();
    assert!(stopped.is_none());
}

/// One run of an experiment.
fn run(text: &str) -> Record {
    use schedlab_lab::Executor;
    let plan = plan(&experiment(text), Backend::Sim, Options::default()).unwrap();
    Backends::default().run(&plan.cells[0], 1, &AtomicBool::new(false)).unwrap().unwrap().record
}

/// Codes of its warnings.
fn codes(text: &str) -> Vec<String> {
    run(text).found.warnings.into_iter().map(|w| w.code).collect()
}

const HOGS: &str = "name = 'o'\nruns = 1\nmachine = 'smp-2'\n[workload]\nname = 'hogs'\nruntime = '1s'\n\
                    mode = 'thread'\ntasks = 3\n[[variant]]\nkernel = 'v2.6.18'\n";

#[test]
fn a_kernel_without_task_groups_refuses_them_and_without_a_policy_warns() {
    use schedlab_lab::Executor;
    let grouped = HOGS.replace("[[variant]]", "[[group]]\npath = '/a'\ntasks = ['hog']\n[[variant]]");
    let plan = plan(&experiment(&grouped), Backend::Sim, Options::default()).unwrap();
    let error = Backends::default().run(&plan.cells[0], 1, &AtomicBool::new(false)).map(|_| ()).unwrap_err();
    assert!(
        error.to_string().contains("group /a can't be made: kernel v2.6.18 has no task groups"),
        "{error}"
    );
    assert_eq!(codes(HOGS), [""; 0]);
    assert_eq!(codes(&format!("{HOGS}policy = 'idle'\n")), ["workload.policy"]);
    assert_eq!(codes(&format!("{HOGS}policy = 'batch'\n")), [""; 0]);
    let older = HOGS.replace("v2.6.18", "v2.6.12");
    assert_eq!(codes(&format!("{older}policy = 'batch'\n")), ["workload.policy"]);
}

#[test]
fn a_guest_may_have_the_o1_scheduler() {
    for kernel in ["v2.6.12", "v2.6.18"] {
        let nested =
            format!("[[nested]]\nname = 'vm'\nvcpus = 2\nkernel = '{kernel}'\ntasks = ['*']\n[[variant]]");
        let guest = run(&HOGS.replace("v2.6.18", "v3.4").replace("[[variant]]", &nested));
        // The host's two vCPU threads run all the time, and the guest's hogs share their time.
        let used: u64 = guest.found.counters["work"];
        assert!(used > 1_500_000_000, "{kernel}: {used} ns of work in a second on two CPUs");
    }
}

#[test]
fn intervals_that_begin_with_the_run_are_measured_in_a_simulated_guest_too() {
    for machine in ["smp-2", "icount-2"] {
        let sampled = run(&format!(
            "name = \"s\"\nmachines = [\"{machine}\"]\n[workload]\nname = \"slice\"\nruntime = \"2s\"\ninterval = \"400ms\"\n\
             [[load]]\nname = \"4\"\ntasks = 4\n[[variant]]\nname = \"v\"\nkernel = \"v6.1\"\n"
        ));
        let starts: Vec<u64> = sampled.found.intervals.iter().map(|i| i.start.0).collect();
        assert_eq!(starts.first(), Some(&0), "{machine}: {starts:?}");
        assert_eq!(sampled.found.series["slice-test.printed"].count(), starts.len() as u64, "{machine}");
        assert!(starts.len() >= 3, "{machine}: {starts:?}");
    }
}

#[test]
fn reports_programs_without_result_and_changes_without_effect() {
    let hackbench = |runtime: &str, change: &str| {
        codes(&format!(
            "name = \"h\"\nmachines = [\"smp-2\"]\n[workload]\nname = \"hackbench\"\nruntime = \"{runtime}\"\n\
             [[load]]\nname = \"g\"\ngroups = 1\nfds = 2\nloops = 500\n\
             [[variant]]\nname = \"v\"\nkernel = \"v4.5\"\n{change}\n"
        ))
    };
    assert_eq!(hackbench("10s", "features = [\"NO_LAST_BUDDY\"]"), [""; 0]);
    assert_eq!(hackbench("1ms", "features = [\"NO_LAST_BUDDY\"]"), ["run.cut_off"]);
    assert_eq!(hackbench("10s", "features = [\"ILB_UTIL\"]"), ["feature.idle"]);
    assert_eq!(hackbench("10s", "tunables = { base_slice_ns = 3000000 }"), ["tunable.idle"]);
}

#[test]
fn every_simulated_wakeup_has_its_place() {
    for r in records(1) {
        let n = |name: &str| r.found.counters[name];
        let places = ["prev", "waker", "core", "llc", "node", "far"].map(|p| n(&format!("woken.{p}")));
        assert_eq!(places.iter().sum::<u64>(), n("woken"), "{places:?}");
        assert_eq!(n("woken.idle") + n("woken.busy"), n("woken"));
        // A task without a last CPU has not run since the start.
        assert!(n("woken") > 100 && n("wakeups") - n("woken") <= 4, "{} of {}", n("woken"), n("wakeups"));
        // Four tasks on four cores of two threads in one cache: none is far, and hardly any finds its CPU taken.
        assert_eq!((n("woken.node"), n("woken.far")), (0, 0));
        assert!(n("woken.busy") * 10 < n("woken"), "{} of {}", n("woken.busy"), n("woken"));
    }
}

/// Loads of a few milliseconds, whose rows vary from seed to seed.
const ROWS: &str = r#"
name = "rows"
machines = ["smp-4"]
metrics = ["migrations", "switches.involuntary", "woken.idle.share", "run_delay.total", "wakeup_delay.p50"]
[[workload]]
name = "schbench"
runtime = "60ms"
sleeptime = "1ms"
cputime = "1ms"
[[load]]
workload = "schbench"
message_threads = 1
threads = 5
own = ["wakeup_delay.p50"]
[[workload]]
name = "hackbench"
groups = 1
fds = 3
loops = 5
[[load]]
workload = "hackbench"
name = "process"
own = ["run_delay.total"]
[[workload]]
name = "forks"
forks = 5
[[load]]
workload = "forks"
parents = 4
own = ["run_delay.total"]
[[workload]]
name = "nanosleep"
runtime = "10ms"
[[load]]
workload = "nanosleep"
tasks = 6
own = ["wakeup_delay.p50"]
[[variant]]
kernel = "v6.5"
"#;

/// Seeds of the pool from which trials draw.
const POOL: u64 = 160;

/// The values of every row over the pool's seeds, and whether it is an own result.
fn pool() -> Vec<(String, bool, Vec<f64>)> {
    let wanted = Options { runs: Some(POOL), ..Options::default() };
    let e = experiment(ROWS);
    let p = plan(&e, Backend::Sim, wanted).unwrap();
    let (sim, stop) = (Backends::default(), AtomicBool::new(false));
    let session = Session { jobs: 2, ..Session::of(&sim, &stop) };
    let made = session.work(&p).unwrap().records;
    let c = compare(&made, &e.question(), &[]).unwrap();
    let mut rows = Vec::new();
    for cell in &c.cells {
        let own =
            &e.loads.iter().find(|l| l.name == cell.load && l.spec.name() == cell.workload).unwrap().own;
        for (name, stat) in &cell.metrics {
            let CellStat::Measured(m) = stat else { continue };
            // The same seeds in all rows, so that rows of a load are correlated as in reality.
            if m.values.len() == POOL as usize {
                rows.push((format!("{} {name}", cell.workload), own.contains(name), m.values.clone()));
            }
        }
    }
    rows
}

/// A trial: 96 different seeds of the pool, half of them under each label; the variant's values in `planted` rows are
/// multiplied.
fn judged(rows: &[(String, bool, Vec<f64>)], trial: u64, planted: &str, scale: f64) -> Vec<(bool, bool)> {
    let stream = Stream::new(trial).purpose("permuted");
    let mut order: Vec<usize> = (0..POOL as usize).collect();
    order.sort_by_key(|i| stream.bits(*i as u64));
    let looks = Looks::doubling(6, 4);
    let asked: Vec<Table> = rows
        .iter()
        .map(|(name, own, values)| {
            let by = if name.starts_with(planted) { scale } else { 1.0 };
            let side = |from: usize, by: f64| -> Vec<RunValue> {
                let one = |i: usize| RunValue { seed: i as u64, value: by * values[order[from + i]] };
                (0..48).map(one).collect()
            };
            Table {
                base: side(0, 1.0),
                variant: side(48, by),
                first_seed: 0,
                runs: 48,
                own: *own,
                direction: Direction::Neither,
                limits: Limits::both(2.0),
            }
        })
        .collect();
    let is_planted = |i: usize| rows[i].0.starts_with(planted);
    let told = decide(&asked, &looks).into_iter().enumerate();
    told.map(|(i, d)| (is_planted(i), d.verdict == Verdict::Changed)).collect()
}

#[test]
fn two_hundred_trials_of_one_kernel_raise_few_alarms_and_planted_changes_are_found() {
    let rows = pool();
    assert!(rows.len() >= 16, "{:?}", rows.iter().map(|r| &r.0).collect::<Vec<_>>());
    let alarms = (0..200).filter(|t| judged(&rows, *t, "nothing", 1.0).iter().any(|(_, told)| *told)).count();
    println!("{} rows: {alarms} of 200 trials of one kernel raised an alarm", rows.len());
    assert!(alarms <= 10, "{alarms} of 200");
    for (name, own, values) in &rows {
        let spread = schedlab_compare::stats::Summary::of(values).and_then(|s| s.std_pct()).unwrap_or(0.0);
        let power: Vec<String> = [5.0, 10.0, 20.0, 50.0]
            .into_iter()
            .map(|pct| {
                let found =
                    |t: &u64| judged(&rows, *t, name, 1.0 + pct / 100.0).iter().any(|(p, told)| *p && *told);
                format!("{:3}", (0..20).filter(found).count())
            })
            .collect();
        println!("{name:<34} own {own:<5} std {spread:5.1}% told of 20: {}", power.join(" "));
        // A change of five standard deviations of a run is found in each trial.
        let large = 1.0 + (5.0 * spread / 100.0).max(0.03);
        let found = |t: &u64| judged(&rows, *t, name, large).iter().any(|(p, told)| *p && *told);
        let is_there = values.iter().filter(|v| **v == 0.0).count() < 8;
        assert!(!is_there || (0..5).filter(found).count() == 5, "{name} x {large}");
    }
}

#[test]
fn a_switch_that_does_nothing_is_named_with_the_reason() {
    let told = |variant: &str, text: &str| -> Vec<String> {
        let e = experiment(&TINY.replace("features = [\"SIS_FIRST_IDLE\"]", variant));
        let p = plan(&e, Backend::Sim, Options::default()).unwrap();
        let (sim, stop) = (Backends::default(), AtomicBool::new(false));
        let session = Session { outlines: text.is_empty(), ..Session::of(&sim, &stop) };
        let c = compare(&session.work(&p).unwrap().records, &e.question(), &[]).unwrap();
        let all = c.warnings.into_iter().filter(|w| w.warning.code == "variants.equal");
        all.map(|w| w.warning.message).collect()
    };
    let of = told("features = [\"ILB_UTIL\"]", "whole");
    assert!(
        of.len() == 1 && of[0].contains("all 2 seeds of schbench 1x3 on smt-4: the switch did nothing"),
        "{of:?}"
    );
    assert!(of[0].contains("only kernels from v5.5 on ask for it"), "{of:?}");
    let already = told("features = [\"NO_ILB_UTIL\"]", "");
    assert!(already.len() == 1 && already[0].contains("both are the same kernel"), "{already:?}");
    assert_eq!(told("tunables = { hz = 1000 }", ""), [""; 0]);
}
