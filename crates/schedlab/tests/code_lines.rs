//! CPUs that want the same cache line or lock, and hardware threads that share a core, where the kernel's own code is
//! woven.

use crate::code::has_source;
use crate::code_calls::{bench, figure};
use crate::common::Lab;

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
