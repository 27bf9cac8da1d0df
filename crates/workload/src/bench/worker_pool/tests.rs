//! Requests, their parts, and the collector's pauses.

use crate::op::Op;
use crate::rig::{Costs, Log, bench, spec};
use schedlab_base::Ns;

const COSTS: Costs = Costs { op: Ns(300), wakeup: Ns::us(2), slack: Ns::ZERO };

fn pool(given: &[(&str, u64)]) -> Log {
    let mut all = vec![("threads", 4), ("rate", 100), ("gc_every", 0), ("runtime", 1_000_000_000)];
    all.retain(|(name, _)| given.iter().all(|(n, _)| n != name));
    all.extend(given);
    bench("pool", &all, 1, COSTS)
}

fn median(mut values: Vec<u64>) -> u64 {
    values.sort_unstable();
    values[values.len() / 2]
}

/// CPU time that a task asked for.
fn worked(log: &Log, task: &str) -> u64 {
    log.steps_of(task)
        .iter()
        .filter_map(|s| if let Op::Run { work } = s.op { Some(work.0) } else { None })
        .sum()
}

#[test]
fn requests_are_due_at_the_rate_and_take_their_work() {
    let log = pool(&[]);
    let latencies = log.values("pool.latency");
    assert!(latencies.len().abs_diff(100) <= 1, "{}", latencies.len());
    assert!(latencies.iter().all(|l| (500_000..1_600_000).contains(l)), "half to one and a half times 1 ms");
    assert!(log.values("pool.pause").is_empty());
}

#[test]
fn parts_of_a_request_are_served_side_by_side() {
    let of = |threads| {
        let given = [("threads", threads), ("parts", 10), ("work", 50_000_000), ("rate", 10)];
        median(pool(&given).values("pool.latency"))
    };
    let (many, few) = (of(10), of(2));
    // The work of 50 ms on 10 and on 2 threads.
    assert!((4_000_000..6_500_000).contains(&many), "{many}");
    assert!((20_000_000..32_000_000).contains(&few), "{few}");
}

#[test]
fn a_collection_is_marked_by_all_idle_threads_between_two_pauses() {
    let log = pool(&[("gc_every", 10), ("gc_work", 40_000_000), ("runtime", 2_000_000_000)]);
    let (pauses, cycles) = (log.values("pool.pause"), log.values("pool.collection"));
    assert!(cycles.len() > 10, "{}", cycles.len());
    assert!(pauses.len().abs_diff(2 * cycles.len()) <= 1);
    // Every thread runs at once here, so that a pause is a stretch to a safepoint and the work in it.
    assert!(pauses.iter().all(|p| (50_000..150_000).contains(p)), "{pauses:?}");
    // 40 ms of marking on four threads, and at least 10 ms if one is taken up by requests.
    let typical = median(cycles);
    assert!((10_000_000..20_000_000).contains(&typical), "{typical}");
    let all: u64 = (0..4).map(|n| worked(&log, &format!("worker/{n}"))).sum();
    assert!(all > 10 * 40_000_000, "{all}");
    assert!((0..4).all(|n| worked(&log, &format!("worker/{n}")) > all / 10), "all of them mark");
}

#[test]
fn a_quarter_of_busy_threads_marks() {
    // Eight threads that are never idle: two are dedicated, so that 100 ms of marking take 50 ms.
    let given = [
        ("threads", 8),
        ("rate", 20_000),
        ("gc_every", 100),
        ("gc_work", 100_000_000),
        ("runtime", 1_000_000_000),
    ];
    let typical = median(pool(&given).values("pool.collection"));
    assert!((45_000_000..60_000_000).contains(&typical), "{typical}");
}

#[test]
fn two_busy_threads_each_mark_for_a_quarter_of_their_time() {
    let given = [
        ("threads", 2),
        ("rate", 20_000),
        ("gc_every", 100),
        ("gc_work", 20_000_000),
        ("runtime", 1_000_000_000),
    ];
    let typical = median(pool(&given).values("pool.collection"));
    // Half a thread in all: 20 ms of marking in 40 ms.
    assert!((35_000_000..48_000_000).contains(&typical), "{typical}");
}

#[test]
fn the_client_is_not_of_the_pool() {
    assert_eq!(spec("pool", &[]).clients().unwrap(), ["client"]);
    assert_eq!(spec("http", &[]).clients().unwrap(), ["client"]);
    assert!(spec("hogs", &[]).clients().unwrap().is_empty());
}
