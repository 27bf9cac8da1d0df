//! CPUs that want the same cache line or lock, and hardware threads that share a core, where the kernel's own code is
//! woven.

use crate::code::{has_source, lab_of};
use crate::code_calls::{bench, figure};
use crate::common::Lab;

/// A patch of 6.1 by which each wakeup makes a trial of lines or locks; the sysctl `sched_trial` says which.
const TRIALS: &str = include_str!("cases/files/trial-of-lines.patch");

/// What a line on its way takes in trials: far more than all that a CPU looks ahead.
const LINE_NS: f64 = 2000.0;

/// A metric of pipe pairs that make these trials, woven, on eight CPUs of one cache.
fn trials<const N: usize>(lab: &Lab, pairs: u32, numbers: [u32; N], metrics: &[&str]) -> [Vec<f64>; N] {
    let costs = format!(
        "line_near_ns = {{ value = {LINE_NS}, range = [{LINE_NS}, {LINE_NS}], source = 'this test' }}"
    );
    lab.write("m.toml", &format!("name = 'm'\nabout = 'a test'\nlike = 'smp-8'\n[costs]\n{costs}\n"));
    lab.write("trials.patch", TRIALS);
    let variants = numbers.map(|number| {
        format!(
            "[[variant]]\nname = '{number}'\nkernel = '6.1'\npatch = ['trials.patch']\ntunables = {{ sched_trial = {number} }}\n"
        )
    });
    let workload = format!("[workload]\nname = 'pipe'\nloops = 400\npairs = {pairs}\n");
    let head = format!("name = 'trials'\nmachine = 'm.toml'\nruns = 1\nmetrics = {metrics:?}\n");
    lab.write("it.toml", &format!("{head}[code]\nlevel = 'woven'\n{workload}{}", variants.concat()));
    let all = lab.json("run it.toml --backend code --json --quiet");
    numbers.map(|number| {
        let cells = all["cells"].as_array().unwrap();
        let cell = cells.iter().find(|cell| cell["variant"].as_str() == Some(&number.to_string())).unwrap();
        let mean = |name: &&str| cell["metrics"][name]["mean"].as_f64();
        metrics.iter().map(|name| mean(name).unwrap_or_else(|| panic!("{name} in {cell:.300}"))).collect()
    })
}

/// Four times in each wakeup: four lines that the other CPU has are stored to, and the CPU computes for longer than
/// they take; or it computes first; then comes an atomic operation. A round trip has two wakeups.
#[test]
fn a_store_that_misses_is_waited_for_by_the_next_atomic_operation_only() {
    let Some(lab) = lab_of("6.1") else { return };
    let times = trials(&lab, 1, [1, 2, 3], &["pipe.round_trip.mean"]);
    let [none, long_before, right_before] = times.map(|time| time[0] / (8.0 * LINE_NS));
    let (long_before, right_before) = (long_before - none, right_before - none);
    assert!(
        long_before.abs() < 0.25,
        "{long_before} of a line's time is waited for before anything needs it"
    );
    assert!(
        (0.75..1.25).contains(&right_before),
        "{right_before} of a line's time, of four that come together"
    );
}

/// CPUs queue for a line that `trial_ask` reads, and have looked as far ahead as they can in `trial_compute`.
#[test]
fn a_wait_for_a_queued_line_stands_where_it_was_asked_for() {
    let Some(lab) = lab_of("6.1") else { return };
    let [shares] = trials(&lab, 8, [4], &["cycles.self.trial_ask", "cycles.self.trial_compute"]);
    let (asks, computes) = (shares[0], shares[1]);
    assert!(asks > 20.0 && asks > 2.0 * computes, "{asks} % of the cycles ask, {computes} % compute");
}

/// The next CPU gets the lock when the stores of the one before have come: 1.20 by engine 14, and 1.09 without that.
#[test]
fn a_lock_is_handed_on_after_its_holders_stores() {
    let Some(lab) = lab_of("6.1") else { return };
    let times = trials(&lab, 8, [5, 6], &["pipe.round_trip.mean"]);
    let [plain, stores] = times.map(|time| time[0]);
    let longer = stores / plain;
    assert!(longer > 1.14, "locks whose holders store to a line take {longer} times as long");
}

/// All datagrams over loopback add to one counter, two in each transaction. CPUs of one cache get its line one after
/// the other, so that from some number of pairs on more of them transact no more.
#[test]
fn a_line_that_all_cpus_want_is_handed_on_to_one_after_the_other() {
    if !has_source() {
        return;
    }
    let line_ns = 600;
    let rate = |protocol: &str, pairs: u32| {
        let words = format!("rr --protocol {protocol} --pairs {pairs} -l 4ms");
        figure(&bench("woven", &words, "intel-112-1s", &[("line_near_ns", line_ns)]), "rr.rate")
    };
    let most = 1e9 / line_ns as f64 / 2.0;
    let [few, many, all] = [28, 56, 224].map(|pairs| rate("udp", pairs) / most);
    assert!((0.3..0.8).contains(&few), "28 pairs have {few} of the most");
    assert!((0.85..1.05).contains(&many) && (0.85..1.05).contains(&all), "{many} and {all} of the most");
    // Connections have counters of their own.
    let tcp = rate("tcp", 224) / most;
    assert!(tcp > 1.5 * all, "{tcp} over TCP, {all} over UDP");
}

/// Wakers take the run queue's lock of a CPU that others wake tasks on, too: the more pairs, the longer they wait.
#[test]
fn cpus_wait_for_run_queue_locks_where_many_pairs_wake_each_other() {
    if !has_source() {
        return;
    }
    let share = |pairs: u32| {
        let lab = Lab::new();
        lab.ok(&format!(
            "bench pipe --pairs {pairs} --loops 300 --feature NO_TTWU_QUEUE --backend code --kernel 6.1 --level woven --machine intel-112-1s"
        ));
        let cycles = &lab.records("runs")[0]["cycles"];
        let waits = cycles["functions"]["native_queued_spin_lock_slowpath"][0].as_f64();
        // The image has it, with or without samples.
        let is_there = cycles["unsampled"].as_str().unwrap().contains("native_queued_spin_lock_slowpath");
        assert_eq!(waits.is_none(), is_there, "{pairs} pairs");
        waits.unwrap_or(0.0) / cycles["samples"].as_f64().unwrap()
    };
    let (few, many) = (share(8), share(112));
    assert!(many > 0.01 && many > 5.0 * few, "{few} of the cycles with 8 pairs, {many} with 112");
}

/// A write to a pipe waits for the lines of mutex, slot and bytes before it releases the mutex, and so does a read.
/// Among many each also fetches the mutex to release it, and spinners fetch it twice: to see it free, and to take it.
#[test]
fn a_mutex_that_many_want_costs_more_lines_than_one_that_two_share() {
    if !has_source() {
        return;
    }
    const LINE_NS: u64 = 600;
    let lines_of_a_message = |fds: u32| {
        let words = format!("hackbench --pipe --groups 1 --fds {fds} --loops 200");
        let elapsed_ns = figure(
            &bench("woven", &words, "intel-112-1s", &[("line_near_ns", LINE_NS)]),
            "hackbench.elapsed.mean",
        );
        elapsed_ns / f64::from(fds * 200) / LINE_NS as f64
    };
    let (two, many) = (lines_of_a_message(1), lines_of_a_message(20));
    // Without stores before the release and without spinners 2 and 9.
    assert!((5.0..9.0).contains(&two), "{two} lines a message of one writer and one reader");
    assert!((10.0..16.0).contains(&many), "{many} lines with 20 writers");
}

/// A hardware thread beside a busy one has `smt_speed_pct` of its speed in the kernel, too.
#[test]
fn kernel_code_is_slower_beside_a_busy_hardware_thread() {
    if !has_source() {
        return;
    }
    let trip = |pct| {
        let costs = [("smt_speed_pct", pct), ("switch_entry_ns", 0), ("mm_switch_ns", 0)];
        figure(&bench("woven", "pipe --loops 400 --pairs 2", "smt-2", &costs), "pipe.round_trip.mean")
    };
    let times = trip(50) / trip(100);
    assert!((1.6..2.1).contains(&times), "{times} times as long on two threads of a core");
}
