//! Virtual machines on the simulated machine, and machines behind a link.

use crate::support::{kernel, machine};
use schedlab_base::Ns;
use schedlab_sim::{Setup, SimReport, simulate, simulate_unmerged};
use schedlab_trace::Keep;
use schedlab_workload::{Beside, GroupSpec, NestedSpec, Params, RemoteSpec, Spec};
use std::collections::BTreeMap;

const SECOND: u64 = 1_000_000_000;

fn bench(name: &str, params: &[(&str, u64)]) -> Spec {
    let given = params.iter().map(|(name, value)| ((*name).to_owned(), *value)).collect();
    Spec::bench(name, &Params(given)).expect("parameters")
}

fn hogs(n: u64, called: &str) -> Beside {
    let Spec::Bench { name, params } = bench("hogs", &[("tasks", n)]) else { panic!("a benchmark") };
    Beside { name, params, rtapp: None, called: Some(called.to_owned()) }
}

fn vm(vcpus: u64, tasks: &[&str]) -> NestedSpec {
    NestedSpec {
        name: "vm".to_owned(),
        vcpus,
        kernel: "v3.4".to_owned(),
        features: vec![],
        tunables: BTreeMap::new(),
        periodic_tick: false,
        halt_poll: Ns::ZERO,
        tasks: tasks.iter().map(|t| (*t).to_owned()).collect(),
    }
}

fn clients(delay_us: u64) -> RemoteSpec {
    RemoteSpec {
        name: "clients".to_owned(),
        kernel: "v3.4".to_owned(),
        delay: Ns::us(delay_us),
        queues: 1,
        tasks: vec!["client".to_owned()],
    }
}

fn group(path: &str, shares: u64, task: &str) -> GroupSpec {
    GroupSpec { shares, tasks: vec![task.to_owned()], ..GroupSpec::at(path) }
}

fn setup<'a>(machine: &'a schedlab_machine::Machine, spec: &Spec, seed: u64, check: bool) -> Setup<'a> {
    Setup {
        machine,
        kernel: kernel("v3.4"),
        changes: Vec::new(),
        workload: spec.build(seed).expect("a workload"),
        seed,
        background: false,
        check,
        stop: None,
        clock: None,
    }
}

fn run(on: &str, spec: &Spec) -> (SimReport, Keep) {
    let (machine, mut seen) = (machine(on), Keep::default());
    let report = simulate(setup(&machine, spec, 1, true), &mut seen).expect("the run ends well");
    (report, seen)
}

/// CPU time of the tasks whose names begin with `name`, ns.
fn time(report: &SimReport, name: &str) -> u64 {
    report.tasks.iter().filter(|t| t.name.starts_with(name)).map(|t| t.cpu_time_ns).sum()
}

fn counter(report: &SimReport, name: &str) -> u64 {
    *report.found.counters.get(name).unwrap_or_else(|| panic!("no counter {name}"))
}

fn median(seen: &Keep) -> u64 {
    let mut values: Vec<u64> = seen.samples.iter().map(|s| s.3).collect();
    values.sort_unstable();
    values[values.len() / 2]
}

#[test]
fn a_guests_task_gets_the_time_of_its_vcpus_thread() {
    let base = bench("hogs", &[("tasks", 1), ("runtime", SECOND)]);
    let alone = base.clone().together(vec![], vec![], (vec![vm(1, &["hog"])], vec![])).unwrap();
    let (report, _) = run("smp-1", &alone);
    assert!(time(&report, "hog") > 990_000_000, "{}", time(&report, "hog"));
    assert!(time(&report, "vm/0") > 990_000_000);
    let beside = base.together(vec![hogs(1, "other")], vec![], (vec![vm(1, &["hog"])], vec![])).unwrap();
    let (report, _) = run("smp-1", &beside);
    let (thread, stolen) = (time(&report, "vm/0"), counter(&report, "guest.steal_time"));
    assert!(thread.abs_diff(SECOND / 2) < SECOND / 50, "half: {thread}");
    assert!(stolen.abs_diff(SECOND / 2) < SECOND / 50, "the other half: {stolen}");
    let work = report.tasks.iter().find(|t| t.name == "hog/0").map(|t| t.work_ns);
    assert!(
        work.is_some_and(|w| w.abs_diff(thread) < SECOND / 50),
        "it works while its vCPU executes: {work:?}"
    );
    // Without a clock of stolen time the guest also charges stolen time.
    assert!(time(&report, "hog") > 990_000_000);
}

#[test]
fn shares_of_a_machines_group_are_shares_of_its_guest() {
    let base = bench("hogs", &[("tasks", 2), ("runtime", 4 * SECOND)]);
    let groups = vec![group("/vm", 3072, "vm"), group("/other", 1024, "other")];
    let spec = base.together(vec![hogs(2, "other")], groups, (vec![vm(2, &["hog"])], vec![])).unwrap();
    let (report, _) = run("smp-2", &spec);
    let (inside, other) = (time(&report, "vm/"), time(&report, "other"));
    let share = inside * 1000 / (inside + other);
    assert!(share.abs_diff(750) < 25, "{share} per mille, not 750");
}

#[test]
fn an_idle_vcpu_with_a_periodic_tick_wakes_at_every_tick() {
    let sleeps = |periodic_tick, hz| {
        // A task that sleeps for the whole run: its vCPU, and the other one, are idle.
        let base = bench("nanosleep", &[("tasks", 1), ("sleep", 900_000_000), ("runtime", SECOND)]);
        let tunables = [("hz".to_owned(), hz)].into();
        let machine = NestedSpec { periodic_tick, tunables, ..vm(2, &["sleeper"]) };
        let (report, _) = run("smp-2", &base.together(vec![], vec![], (vec![machine], vec![])).unwrap());
        counter(&report, "guest.sleeps")
    };
    assert!(sleeps(true, 100).abs_diff(200) < 10, "two vCPUs, 100 ticks a second: {}", sleeps(true, 100));
    assert!(sleeps(true, 1000).abs_diff(2000) < 50, "{}", sleeps(true, 1000));
    assert!(sleeps(false, 1000) < 30, "{}", sleeps(false, 1000));
}

#[test]
fn polling_for_a_halted_vcpu_saves_its_thread_the_sleep() {
    let run = |halt_poll| {
        let base = bench("nanosleep", &[("tasks", 1), ("sleep", 100_000), ("runtime", SECOND / 2)]);
        let machine = NestedSpec { halt_poll, ..vm(1, &["sleeper"]) };
        let (report, _) = run("smp-1", &base.together(vec![], vec![], (vec![machine], vec![])).unwrap());
        (counter(&report, "guest.halts"), counter(&report, "guest.sleeps"), time(&report, "vm/0"))
    };
    let (sleeping, polling) = (run(Ns::ZERO), run(Ns::ms(1)));
    assert!(sleeping.1 == sleeping.0 && sleeping.0 > 2000, "{sleeping:?}");
    assert!(polling.1 < 20 && polling.0 > 2000, "{polling:?}");
    assert!(polling.2 > 4 * sleeping.2, "polling costs CPU time: {polling:?} {sleeping:?}");
}

#[test]
fn a_message_to_another_machine_takes_the_links_delay_each_way() {
    let latency = |delay_us, machines: Vec<NestedSpec>| {
        let base = bench("rr", &[("pairs", 1), ("runtime", SECOND / 4)]);
        let (report, seen) =
            run("smp-4", &base.together(vec![], vec![], (machines, vec![clients(delay_us)])).unwrap());
        (median(&seen), report)
    };
    let near = latency(20, vec![]).0;
    let far = latency(120, vec![]).0;
    assert!(near > 40_000 && near < 70_000, "{near}");
    assert_eq!(far - near, 200_000, "a hundred us more each way");
    let (inside, report) = latency(20, vec![vm(2, &["server"])]);
    assert!(
        inside > near + 10_000,
        "vhost, exits and a second kernel take their time: {inside} against {near}"
    );
    let calls = counter(&report, "guest.packets");
    assert!(calls > 1000 && calls.abs_diff(SECOND / 4 / inside) < 20, "one message a call: {calls}");
    assert!(time(&report, "vm/vhost") > calls * 2 * 2_500, "it moves each message in and out");
}

#[test]
fn tasks_that_share_memory_cannot_be_on_two_machines() {
    let base = bench("schbench", &[("message_threads", 1), ("threads", 2), ("runtime", SECOND)]);
    let machine = vm(2, &["worker"]);
    let error = base.together(vec![], vec![], (vec![machine], vec![])).expect_err("refused").to_string();
    assert!(error.contains("must be on the same machine"), "{error}");
}

#[test]
fn merged_steps_and_repeated_runs_give_the_same() {
    let base = bench("rr", &[("pairs", 6), ("runtime", SECOND / 5)]);
    let machines = vec![NestedSpec { periodic_tick: true, ..vm(4, &["server"]) }];
    let groups = vec![group("/vm", 8192, "vm"), group("/hogs", 1024, "other")];
    let spec = base.together(vec![hogs(4, "other")], groups, (machines, vec![clients(30)])).unwrap();
    let machine = machine("x5570-2x4-smt");
    let run = |merged: bool| {
        let (mut seen, setup) = (Keep::default(), setup(&machine, &spec, 3, false));
        let report = if merged { simulate(setup, &mut seen) } else { simulate_unmerged(setup, &mut seen) };
        let mut report = report.expect("the run ends well");
        report.events = 0;
        (report, seen.samples, seen.events)
    };
    let first = run(true);
    assert!(first.0.found.counters["guest.packets"] > 500);
    assert!(first == run(true), "the same run twice");
    let unmerged = run(false);
    assert_eq!(first.0, unmerged.0);
    assert!(first == unmerged);
}

#[test]
fn accounts_agree_over_many_seeds_of_a_crowded_machine() {
    let base = bench("rr", &[("pairs", 8), ("runtime", SECOND / 5)]);
    let machines = vec![NestedSpec { periodic_tick: true, ..vm(8, &["server", "client"]) }];
    let spec =
        base.together(vec![hogs(16, "other")], vec![group("/vm", 8192, "vm")], (machines, vec![])).unwrap();
    let machine = machine("x5570-2x4-smt");
    for seed in 1..=12 {
        let run = simulate(setup(&machine, &spec, seed, false), &mut schedlab_trace::Discard);
        assert!(run.is_ok(), "seed {seed}: {:?}", run.err());
    }
}

#[test]
fn a_halted_vcpu_has_nothing_stolen() {
    // A server whose client is far away: each message ends a halt of some 240 us. Only the way from the wakeup to the
    // CPU, idle exit included, counts as a wait.
    let base = bench("rr", &[("pairs", 1), ("runtime", SECOND / 4)]);
    let machines = (vec![vm(1, &["server"])], vec![clients(120)]);
    let (report, _) = run("smp-4", &base.together(vec![], vec![], machines).unwrap());
    let (stolen, calls) = (counter(&report, "guest.steal_time"), counter(&report, "guest.packets"));
    assert!(calls > 500 && stolen / calls < 60_000, "{} ns for each of {calls} calls", stolen / calls);
    let sleeper = bench("nanosleep", &[("tasks", 1), ("sleep", 1_000_000), ("runtime", SECOND / 4)]);
    let (report, _) =
        run("smp-2", &sleeper.together(vec![], vec![], (vec![vm(1, &["sleeper"])], vec![])).unwrap());
    let stolen = counter(&report, "guest.steal_time");
    assert!(counter(&report, "guest.sleeps") > 100 && stolen < SECOND / 4 / 20, "{stolen}");
}

#[test]
fn accounts_agree_where_vcpus_stand_still_between_a_wakeup_and_its_switch() {
    let base = bench("hackbench", &[("groups", 2), ("loops", 20)]);
    let machine = vm(5, &["*"]);
    let spec = base.together(vec![], vec![], (vec![machine], vec![])).unwrap();
    let on = machine_of_one();
    for seed in 1..=4 {
        let run = simulate(setup(&on, &spec, seed, false), &mut schedlab_trace::Discard);
        assert!(run.is_ok(), "seed {seed}: {:?}", run.err());
    }
}

fn machine_of_one() -> schedlab_machine::Machine {
    machine("smp-1")
}

#[test]
fn channels_that_lead_to_another_machine_are_sockets_of_the_network() {
    let base = bench("oltp", &[("threads", 2), ("runtime", SECOND / 4)]);
    let split = |base: Spec| base.together(vec![], vec![], (vec![], vec![clients(50)]));
    let error = split(base).expect_err("refused").to_string();
    assert!(error.contains("do not lead to another machine"), "{error}");
    let tcp = split(bench("oltp", &[("threads", 2), ("runtime", SECOND / 4), ("transport", 1)])).unwrap();
    assert!(run("smp-2", &tcp).1.samples.len() > 100);
}

#[test]
fn tasks_inside_keep_to_the_cpus_of_their_own_machine() {
    // The test's hogs are pinned to four CPUs; the machine inside has two.
    let spec = bench("slice", &[("placement", 1), ("cpus", 4), ("runtime", SECOND / 10)]);
    let inside = spec.together(vec![], vec![], (vec![vm(2, &["*"])], vec![])).unwrap();
    let machine = machine("smp-4");
    let ended = simulate(setup(&machine, &inside, 1, false), &mut schedlab_trace::Discard);
    let error = ended.expect_err("refused").to_string();
    assert!(error.contains("may run on CPUs") && error.contains("vm has 0-1"), "{error}");
}
