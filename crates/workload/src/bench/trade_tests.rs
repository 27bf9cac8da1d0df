//! Three tiers: each request passes all of them; pools limit concurrent requests; times count from when a request is
//! due.

use crate::op::{Op, PortId};
use crate::rig::{Costs, Log, bench, spec};
use schedlab_base::Ns;

const COSTS: Costs = Costs { op: Ns(300), wakeup: Ns::us(2), slack: Ns::ZERO };

fn trade(given: &[(&str, u64)]) -> Log {
    let mut all =
        vec![("clients", 6), ("app_tasks", 3), ("db_tasks", 2), ("think", 0), ("runtime", 100_000_000)];
    all.retain(|(name, _)| given.iter().all(|(n, _)| n != name));
    all.extend(given);
    bench("trade", &all, 1, COSTS)
}
const WORK: fn(&Op) -> bool = |op| matches!(op, Op::Run { .. });
fn all(log: &Log, tier: &str, tasks: usize, pick: impl Fn(&Op) -> bool + Copy) -> usize {
    (0..tasks).map(|t| log.times(&format!("{tier}/{t}"), pick).len()).sum()
}

#[test]
fn a_request_passes_all_tiers() {
    let log = trade(&[]);
    let requests = log.values("trade.latency").len();
    assert!(requests > 300, "{requests}");
    // A web task works before and after its call, an application task around each of its four calls.
    for (tier, tasks, pieces) in [("web", 6, 2), ("app", 3, 5), ("db", 2, 4)] {
        let works = all(&log, tier, tasks, WORK);
        assert!(works.abs_diff(requests * pieces) <= 6 * pieces, "{tier}: {works} for {requests}");
    }
    let waits = all(&log, "db", 2, |op| matches!(op, Op::Sleep { .. }));
    assert!(waits.abs_diff(requests) < requests / 5, "one disk wait a request on average: {waits}");
    let least = 25_000 + 100_000 + 4 * 30_000;
    assert!(log.values("trade.latency").iter().all(|l| *l > least * 9 / 10));
}

#[test]
fn pools_bound_the_requests_under_way() {
    let few = trade(&[("app_tasks", 1), ("disk", 0)]).values("trade.latency").len();
    let more = trade(&[("app_tasks", 6), ("db_tasks", 6), ("disk", 0)]).values("trade.latency").len();
    assert!(more > 4 * few, "{few} and {more}");
    let log = trade(&[("clients", 20), ("db_tasks", 1)]);
    for c in 0..20 {
        assert!(log.steps_of(&format!("client/{c}")).last().unwrap().at > Ns::ms(80), "client {c} goes on");
    }
}

#[test]
fn the_time_counts_from_when_a_request_was_due() {
    let log = trade(&[("rate", 1_000), ("runtime", 200_000_000)]);
    assert!((190..=200).contains(&log.values("trade.latency").len()));
    // Single requests take 1 ms or more, but three are due per millisecond.
    let late = trade(&[("rate", 3_000), ("app_tasks", 1), ("clients", 50)]);
    let values = late.values("trade.latency");
    assert!(values[values.len() - 1] > 30_000_000, "{:?}", values.last());
    let slow = trade(&[("think", 50_000_000), ("clients", 1)]);
    assert!((1..=4).contains(&slow.values("trade.latency").len()));
    assert!(slow.values("trade.latency").iter().all(|l| *l < 3_000_000), "thinking is no part of it");
}

#[test]
fn tiers_touch_their_own_connections_only() {
    let log = trade(&[]);
    // Connections are numbered: three to the application, two to the database, one per client.
    let ports = |task: &str| -> Vec<PortId> {
        let mut all: Vec<PortId> = log
            .steps_of(task)
            .iter()
            .filter_map(|s| match s.op {
                Op::Send { port, .. } | Op::Recv { port, .. } => Some(port),
                _ => None,
            })
            .collect();
        all.sort_unstable_by_key(|p| p.0);
        all.dedup();
        all
    };
    assert_eq!(ports("client/0"), [PortId(10)]);
    assert_eq!(ports("db/1"), [PortId(9)]);
    assert!(ports("web/0").iter().all(|p| p.0 == 11 || (p.0 < 6 && p.0 % 2 == 0)));
    assert!(ports("app/2").iter().all(|p| p.0 == 5 || ((6..10).contains(&p.0) && p.0 % 2 == 0)));
    let built = spec("trade", &[]).build(1).unwrap();
    assert_eq!(built.tasks.len(), 32 + 32 + 8 + 8);
}
