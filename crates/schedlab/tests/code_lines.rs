//! CPUs that want the same cache line or lock, and hardware threads that share a core, where the kernel's own code is
//! woven.

use crate::code::has_source;
use crate::code_calls::{bench, figure};

/// All datagrams over loopback add to one counter. 112 CPUs of one cache get its line one after the other, however many
/// wait; connections have counters of their own.
#[test]
fn a_line_that_all_cpus_want_is_handed_on_to_one_after_the_other() {
    if !has_source() {
        return;
    }
    let rate = |protocol: &str, line_ns: u64| {
        let words = format!("rr --protocol {protocol} --pairs 112 -l 4ms");
        figure(&bench("woven", &words, "intel-112-1s", &[("line_near_ns", line_ns)]), "rr.rate")
    };
    // Two datagrams a transaction.
    let most = |line_ns: f64| 1e9 / line_ns / 2.0;
    let (near, far) = (rate("udp", 300), rate("udp", 600));
    assert!((0.6..1.05).contains(&(near / most(300.0))), "{near} transactions a second");
    assert!((0.6..1.05).contains(&(far / most(600.0))), "{far} transactions a second");
    assert!(rate("tcp", 600) > 2.0 * far, "a connection has no such counter");
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
