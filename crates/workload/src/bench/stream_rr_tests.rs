//! The file server: both sides play the same script, and file data are counted.

use super::SCRIPT;
use crate::op::Op;
use crate::rig::{Costs, Log, bench};
use schedlab_base::Ns;

const COSTS: Costs = Costs { op: Ns::us(2), wakeup: Ns::us(5), slack: Ns::us(50) };

fn run(clients: u64, seed: u64) -> Log {
    bench("stream-rr", &[("clients", clients), ("runtime", 50_000_000)], seed, COSTS)
}
/// Bytes of a client's requests, in order.
fn requests(log: &Log, client: usize) -> Vec<u32> {
    let ops = log.steps_of(&format!("client-{client}"));
    ops.iter().filter_map(|s| if let Op::Send { bytes, .. } = s.op { Some(bytes) } else { None }).collect()
}

#[test]
fn a_client_goes_round_the_script_from_its_own_place() {
    let log = run(4, 1);
    let starts: Vec<usize> = (0..4)
        .map(|c| {
            let sent = requests(&log, c);
            assert!(sent.len() > 3 * SCRIPT.len());
            let from =
                |at: usize| (0..sent.len()).all(|i| sent[i] == SCRIPT[(at + i) % SCRIPT.len()].request);
            (0..SCRIPT.len()).find(|at| from(*at)).expect("the script")
        })
        .collect();
    assert!(starts.iter().any(|s| *s != starts[0]), "{starts:?}");
    assert_eq!(log.steps, run(4, 1).steps);
    assert_ne!(requests(&log, 0)[..9], requests(&run(4, 2), 0)[..9], "the place is drawn by seed");
}

#[test]
fn the_server_does_the_calls_work_between_request_and_response() {
    let log = run(1, 1);
    let server = log.steps_of("server-0");
    for call in server.chunks_exact(3) {
        let [hear, work, answer] = call else { panic!("three steps") };
        let (Op::Recv { bytes: asked, .. }, Op::Run { work }, Op::Send { bytes: answered, .. }) =
            (hear.op, work.op, answer.op)
        else {
            panic!("{call:?}")
        };
        assert!(SCRIPT.iter().any(|c| (c.request, c.work, c.response) == (asked, work, answered)));
    }
}

#[test]
fn throughput_counts_the_bytes_of_files() {
    let log = run(1, 1);
    let calls = log.values("stream-rr.latency").len();
    let of_files: u64 = SCRIPT.iter().map(|c| u64::from(c.data)).sum();
    let (rounds, data) = (calls / SCRIPT.len(), log.values("stream-rr.data"));
    let sum: u64 = data.iter().sum();
    assert!((rounds as u64 * of_files..=(rounds as u64 + 1) * of_files).contains(&sum), "{sum}");
    assert!(data.iter().all(|d| *d >= 4096), "calls about names are none");
    assert!(log.values("stream-rr.latency").iter().all(|l| *l >= 14_000));
}

#[test]
fn most_calls_are_small_and_most_bytes_are_in_large_ones() {
    let small = SCRIPT.iter().filter(|c| c.data == 0).count();
    assert!(2 * small > SCRIPT.len());
    let (bytes, large): (u32, u32) =
        SCRIPT.iter().fold((0, 0), |(b, l), c| (b + c.data, l + if c.data >= 32 << 10 { c.data } else { 0 }));
    assert!(4 * large > 3 * bytes, "{large} of {bytes}");
}

#[test]
fn each_side_may_work_for_a_call() {
    let given = [("client_work", 3_000), ("server_work", 100_000), ("runtime", 50_000_000)];
    let log = bench("stream-rr", &given, 1, COSTS);
    let server = log.steps_of("server-0");
    let Op::Run { work } = server[1].op else { panic!("{:?}", server[1]) };
    assert!(work > Ns::us(100) && work < Ns::us(110), "{work}");
    let client: Vec<Op> = log.steps_of("client-0").iter().map(|s| s.op).collect();
    assert!(
        matches!(client[..3], [Op::Send { .. }, Op::Recv { .. }, Op::Run { work: Ns(3_000) }]),
        "{client:?}"
    );
    let sent = requests(&log, 0);
    assert!(
        (0..SCRIPT.len())
            .any(|at| (0..sent.len()).all(|i| sent[i] == SCRIPT[(at + i) % SCRIPT.len()].request))
    );
}
