//! The database's transactions: order of phases, the lock, random times.

use crate::op::Op;
use crate::rig::{Costs, Log, bench, spec};
use schedlab_base::Ns;

const COSTS: Costs = Costs { op: Ns(300), wakeup: Ns::us(2), slack: Ns::ZERO };

fn db(given: &[(&str, u64)], seed: u64) -> Log {
    bench("embedded-db", given, seed, COSTS)
}
fn sleeps(log: &Log, name: &str) -> Vec<u64> {
    let ops = log.steps_of(name);
    ops.iter().filter_map(|s| if let Op::Sleep { length } = s.op { Some(length.0) } else { None }).collect()
}

#[test]
fn a_transaction_works_changes_pages_and_waits_for_the_disk() {
    let log = db(&[("runtime", 50_000_000)], 1);
    for transaction in log.steps_of("client-0").chunks_exact(4) {
        let [prepare, locked, first, second] = transaction else { panic!("four steps") };
        let Op::Run { work } = prepare.op else { panic!("{prepare:?}") };
        assert!((10_000..30_000).contains(&work.0), "{work}");
        assert_eq!(locked.op, Op::Run { work: Ns::us(3) });
        for wait in [first, second] {
            let Op::Sleep { length } = wait.op else { panic!("{wait:?}") };
            assert!((30_000..90_000).contains(&length.0), "{length}");
        }
    }
    let latencies = log.values("embedded-db.latency");
    assert!(latencies.len() > 250 && latencies.iter().all(|l| (75_000..220_000).contains(l)));
}

#[test]
fn clients_draw_for_themselves_and_by_seed() {
    let given = [("clients", 3), ("runtime", 20_000_000)];
    let log = db(&given, 1);
    assert_ne!(sleeps(&log, "client-0")[..20], sleeps(&log, "client-1")[..20]);
    assert_eq!(log.steps, db(&given, 1).steps);
    assert_ne!(log.steps, db(&given, 2).steps);
    // A client has its own random stream: more clients do not change it.
    let alone = db(&[("clients", 1), ("runtime", 20_000_000)], 1);
    assert_eq!(sleeps(&alone, "client-0")[..20], sleeps(&log, "client-0")[..20]);
}

#[test]
fn many_clients_share_the_lock_and_all_continue() {
    let log = db(&[("clients", 60), ("runtime", 50_000_000)], 1);
    assert!(log.steps.iter().any(|s| matches!(s.op, Op::Wait { .. })), "3 us x 60 of 150 us");
    for c in 0..60 {
        let steps = log.steps_of(&format!("client-{c}"));
        assert!(steps.last().is_some_and(|s| s.at > Ns::us(49_500)), "client {c} goes on to the end");
    }
}

#[test]
fn a_wait_for_the_disk_has_no_slack_and_may_be_left_out() {
    let built = spec("embedded-db", &[("clients", 2)]).build(1).unwrap();
    assert!(built.processes && built.tasks.iter().all(|t| t.timer_slack == Some(Ns(1))));
    let log = db(&[("fsyncs", 0), ("work", 0), ("runtime", 1_000_000)], 1);
    assert!(log.values("embedded-db.latency").len() > 200 && sleeps(&log, "client-0").is_empty());
}

#[test]
fn the_lock_may_be_one_to_spin_for() {
    let log = db(&[("clients", 60), ("lock", 1), ("fsyncs", 0), ("runtime", 20_000_000)], 1);
    assert!(!log.steps.iter().any(|s| matches!(s.op, Op::Wait { .. } | Op::Wake { .. } | Op::Sleep { .. })));
    for transaction in log.steps_of("client-0").chunks_exact(4).take(3) {
        let [work, lock, locked, unlock] = transaction else { panic!("four steps") };
        assert!(matches!((work.op, lock.op), (Op::Run { .. }, Op::SpinLock { .. })), "{work:?} {lock:?}");
        assert!(matches!((locked.op, unlock.op), (Op::Run { work: Ns(3_000) }, Op::SpinUnlock { .. })));
    }
    // Each transaction is under the lock for 3 us and two calls.
    assert!(log.values("embedded-db.latency").len() > 4_000, "{}", log.values("embedded-db.latency").len());
}
