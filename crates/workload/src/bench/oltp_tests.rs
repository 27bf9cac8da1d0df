//! Transactions: their script, released locks, and commits that share a log write.

use crate::op::{Op, PortId};
use crate::rig::{Costs, Log, bench, spec};
use schedlab_base::Ns;

const COSTS: Costs = Costs { op: Ns(300), wakeup: Ns::us(2), slack: Ns::ZERO };

fn oltp(given: &[(&str, u64)]) -> Log {
    let mut all = vec![("threads", 2), ("runtime", 50_000_000)];
    all.retain(|(name, _)| given.iter().all(|(n, _)| n != name));
    all.extend(given);
    bench("oltp", &all, 1, COSTS)
}
fn runs(log: &Log, task: &str) -> Vec<u64> {
    let ops = log.steps_of(task);
    ops.iter().filter_map(|s| if let Op::Run { work } = s.op { Some(work.0) } else { None }).collect()
}

#[test]
fn a_transaction_is_the_script_and_both_sides_play_it() {
    let log = oltp(&[("threads", 1)]);
    let statements = 20;
    let transactions = log.values("oltp.latency").len();
    let sent = log.times("client/0", |op| matches!(op, Op::Send { .. })).len();
    assert!(transactions > 20 && sent.abs_diff(transactions * statements) <= statements);
    let work = runs(&log, "server/0");
    assert_eq!((work[0], work[19], work[20]), (5_000, 5_000, 5_000), "begin, commit, begin");
    assert!(work[1..11].iter().all(|w| (15_000..45_000).contains(w)));
    assert!(work[11..15].iter().all(|w| (50_000..150_000).contains(w)));
    assert!(work[15..19].iter().all(|w| (25_000..75_000).contains(w)));
    assert!(log.values("oltp.latency").iter().all(|l| *l > 515_000 + 100_000), "least work and log wait");
}

#[test]
fn writers_of_one_row_wait_for_each_other_until_the_commit() {
    let with = |rows| {
        let given = [("threads", 8), ("points", 0), ("ranges", 0), ("log_wait", 0), ("runtime", 100_000_000)];
        oltp(&[&given[..], &[("rows", rows)]].concat()).values("oltp.latency").len() as u64
    };
    // A transaction excludes others from its first write to the commit: 4 writes of 25 us or more, a commit of 5 us.
    let alone = 4 * 25_000 + 5_000;
    let one = with(1);
    assert!(one * alone < 100_000_000, "{one}");
    assert!(with(10_000) > 4 * one, "{one}");
}

#[test]
fn no_order_of_rows_ends_in_a_deadlock() {
    let given =
        [("threads", 12), ("rows", 6), ("writes", 6), ("points", 0), ("ranges", 0), ("write_work", 10_000)];
    let log = oltp(&given);
    for c in 0..12 {
        let last = log.steps_of(&format!("server/{c}")).last().unwrap().at;
        assert!(last > Ns::ms(40), "server {c} goes on: {last}");
    }
}

#[test]
fn commits_share_a_write_of_the_log() {
    let given =
        [("threads", 20), ("log_wait", 1_000_000), ("point_work", 0), ("range_work", 0), ("write_work", 0)];
    let log = oltp(&given);
    let writes = log.times("logger", |op| matches!(op, Op::Sleep { .. })).len();
    let commits = log.values("oltp.latency").len();
    assert!((30..=100).contains(&writes) && commits > 5 * writes, "{commits} in {writes}");
}

#[test]
fn readers_have_no_locks_and_no_log() {
    let built = spec("oltp", &[("writes", 0)]).build(1).unwrap();
    assert_eq!((built.words, built.slots, built.tasks.len()), (0, 0, 32));
    let log = oltp(&[("writes", 0)]);
    assert!(log.values("oltp.latency").len() > 50);
}

#[test]
fn a_rate_is_kept_and_thinking_is_outside() {
    let log = oltp(&[("rate", 200), ("runtime", 500_000_000)]);
    assert!((95..=100).contains(&log.values("oltp.latency").len()));
    let log = oltp(&[("think", 10_000_000), ("threads", 1), ("runtime", 200_000_000)]);
    assert!((15..=20).contains(&log.values("oltp.latency").len()));
    assert!(log.values("oltp.latency").iter().all(|l| *l < 2_500_000));
}

#[test]
fn clients_touch_nothing_but_their_connection() {
    let log = oltp(&[("threads", 3)]);
    for c in 0..3u32 {
        let own = PortId(2 * c);
        assert!(log.steps_of(&format!("client/{c}")).iter().all(|s| match s.op {
            Op::Send { port, .. } | Op::Recv { port, .. } => port == own,
            _ => false,
        }));
    }
}
