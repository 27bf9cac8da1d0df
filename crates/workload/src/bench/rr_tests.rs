//! Request and response: order, sizes, and one latency per transaction.

use crate::build::ChannelKind;
use crate::op::{Op, PortId};
use crate::rig::{Costs, bench, refused, spec};
use schedlab_base::Ns;

const COSTS: Costs = Costs { op: Ns::us(2), wakeup: Ns::us(5), slack: Ns::us(50) };

#[test]
fn a_transaction_is_a_request_and_its_response() {
    for udp in [0, 1] {
        let given = [("protocol", udp), ("request", 100), ("response", 300), ("runtime", 10_000_000)];
        let log = bench("rr", &given, 1, COSTS);
        let (ask, answer) =
            (Op::Send { port: PortId(0), bytes: 100 }, Op::Recv { port: PortId(0), bytes: 300 });
        let ops: Vec<Op> = log.steps_of("client-0").iter().take(4).map(|s| s.op).collect();
        assert_eq!(ops, [ask, answer, ask, answer]);
        let (hear, reply) =
            (Op::Recv { port: PortId(1), bytes: 100 }, Op::Send { port: PortId(1), bytes: 300 });
        let ops: Vec<Op> = log.steps_of("server-0").iter().take(4).map(|s| s.op).collect();
        assert_eq!(ops, [hear, reply, hear, reply]);
    }
}

#[test]
fn every_transaction_counts_from_the_end_of_the_one_before() {
    let log = bench("rr", &[("pairs", 3), ("runtime", 50_000_000)], 1, COSTS);
    // Two calls of 2 us, each waking the other after 5 us; at first the servers have not slept yet.
    let values = log.values("rr.latency");
    assert!(values[..3].iter().all(|v| *v == 9_000) && values[3..].iter().all(|v| *v == 14_000));
    assert_eq!(values.len(), 3 * (1 + (50_000_000 - 1 - 9_000) / 14_000));
    assert!(log.of("rr.latency").all(|s| log.names[s.task.index()].starts_with("client-")));
}

#[test]
fn clients_start_one_after_the_other() {
    let given = [("pairs", 3), ("gap", 1_000_000), ("runtime", 10_000_000)];
    let log = bench("rr", &given, 1, COSTS);
    for p in 0..3 {
        let sends = |s: &&crate::rig::Step| matches!(s.op, Op::Send { .. });
        let first = log.steps_of(&format!("client-{p}")).iter().find(sends).unwrap().at;
        assert!((Ns::ms(p)..Ns::ms(p).plus(Ns::us(200))).contains(&first), "client-{p}: {first:?}");
    }
}

#[test]
fn protocol_and_sizes_must_fit() {
    let kinds = |udp| spec("rr", &[("pairs", 2), ("protocol", udp)]).build(1).unwrap().channels;
    assert_eq!((kinds(0), kinds(1)), (vec![ChannelKind::Tcp; 2], vec![ChannelKind::Udp; 2]));
    assert_eq!(
        refused("rr", &[("protocol", 1), ("response", 70_000)]),
        "response = 70000 does not fit a datagram\n  help: over udp it takes 1 to 65507"
    );
    let late = [("pairs", 11), ("gap", 1_000_000), ("runtime", 10_000_000)];
    assert!(refused("rr", &late).starts_with("the last client would start after 10ms, when the run is over"));
    let big = [("request", 500_000), ("response", 400_000), ("runtime", 1_000_000)];
    assert!(bench("rr", &big, 1, COSTS).values("rr.latency").len() > 5, "larger than the socket's buffer");
}

#[test]
fn each_side_may_work_for_a_message() {
    let given = [("client_work", 3_000), ("server_work", 7_000), ("runtime", 10_000_000)];
    let log = bench("rr", &given, 1, COSTS);
    let ops = |name| log.steps_of(name).iter().skip(2).take(3).map(|s| s.op).collect::<Vec<Op>>();
    let (work, ask) = (Op::Run { work: Ns::us(3) }, Op::Send { port: PortId(0), bytes: 1 });
    assert_eq!(ops("client-0")[..2], [work, ask]);
    let server = log.steps_of("server-0");
    assert_eq!(server[1].op, Op::Run { work: Ns::us(7) });
    assert!(matches!((server[0].op, server[2].op), (Op::Recv { .. }, Op::Send { .. })));
    // The latency includes the server's work and call, but not the client's.
    assert!(
        log.values("rr.latency")[1..].iter().all(|v| *v == 14_000 + 2_000 + 7_000),
        "{:?}",
        log.values("rr.latency")
    );
}
