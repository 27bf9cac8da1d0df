//! Sessions: their rate, their bursts, and the time at which a call is due.

use crate::op::Op;
use crate::rig::{Costs, Log, bench, refused, spec};
use schedlab_base::Ns;

const COSTS: Costs = Costs { op: Ns(500), wakeup: Ns::us(2), slack: Ns::us(50) };

fn http(given: &[(&str, u64)]) -> Log {
    let mut all = vec![("clients", 2), ("rate", 100), ("runtime", 100_000_000)];
    all.retain(|(name, _)| given.iter().all(|(n, _)| n != name));
    all.extend(given);
    bench("http", &all, 1, COSTS)
}
/// A client's sends and receives, as letters "s" and "r".
fn word(log: &Log, client: &str) -> String {
    let ops = log.steps_of(client);
    ops.iter()
        .filter_map(|s| match s.op {
            Op::Send { .. } => Some('s'),
            Op::Recv { .. } => Some('r'),
            Op::SleepTo { .. } => Some('-'),
            _ => None,
        })
        .collect()
}

#[test]
fn a_burst_is_one_call_and_then_the_others_at_once() {
    let log = http(&[("clients", 1), ("calls", 7), ("burst", 4)]);
    let sessions = word(&log, "client/0");
    assert!(sessions.starts_with("-srsssrrrsrssrr-srsssrrrsrssrr-"), "{sessions}");
    assert!((8..=10).contains(&log.values("http.session").len()));
    assert!(log.values("http.latency").len().abs_diff(7 * log.values("http.session").len()) <= 7);
}

#[test]
fn clients_take_sessions_in_turn_and_count_from_the_time_they_were_due() {
    let log = http(&[("work", 0)]);
    let sleeps = |name: &str| -> Vec<u64> {
        log.steps_of(name)
            .iter()
            .filter_map(|s| if let Op::SleepTo { at } = s.op { Some(at.0) } else { None })
            .collect()
    };
    assert_eq!(sleeps("client/0")[..3], [10, 30, 50].map(|ms| ms * 1_000_000));
    assert_eq!(sleeps("client/1")[..3], [20, 40, 60].map(|ms| ms * 1_000_000));
    let first = log.values("http.latency")[0];
    assert!(first > 50_000, "the client's timer slack is part of it: {first}");
}

#[test]
fn a_server_that_does_not_keep_up_is_not_flattered() {
    // A session takes 10 x 2 ms = 20 ms of the server; one is due every 10 ms. So each is 10 ms later than the last.
    let log = http(&[("clients", 1), ("work", 2_000_000), ("runtime", 1_000_000_000)]);
    let sessions = log.values("http.session");
    assert!((40..=50).contains(&sessions.len()), "{}", sessions.len());
    assert!(sessions[sessions.len() - 1] > 300_000_000, "{sessions:?}");
    assert!(!word(&log, "client/0")[1..].contains('-'), "no session waits for its time");
}

#[test]
fn thinking_is_between_bursts_and_belongs_to_no_call() {
    let log = http(&[("clients", 1), ("work", 10_000), ("think", 1_000_000), ("calls", 4), ("burst", 2)]);
    assert!(word(&log, "client/0").starts_with("-srsr-srsr-srsr-"));
    assert!(log.values("http.latency").iter().all(|l| *l < 200_000));
    assert!(log.values("http.session").iter().all(|s| *s > 1_000_000));
}

#[test]
fn without_a_rate_sessions_follow_each_other() {
    let log = http(&[("rate", 0), ("clients", 3)]);
    for client in ["client/0", "client/1", "client/2"] {
        let sessions = word(&log, client);
        assert!(sessions.len() > 100 && !sessions.contains('-'), "{sessions}");
    }
}

#[test]
fn clients_and_server_share_only_connections() {
    let built = spec("http", &[]).build(1).unwrap();
    assert_eq!((built.words, built.slots, built.channels.len()), (0, 0, 16));
}

#[test]
fn a_burst_that_does_not_fit_is_refused() {
    let error = refused("http", &[("burst", 100), ("request", 1000)]);
    assert!(error.contains("burst of 100"), "{error}");
}

#[test]
fn a_few_workers_share_the_connections_and_answer_all() {
    let given =
        [("clients", 7), ("workers", 3), ("rate", 2_000), ("calls", 10), ("burst", 10), ("work", 20_000)];
    let log = http(&given);
    let calls = log.values("http.latency").len();
    assert!((1_900..=2_000).contains(&calls), "{calls} of 2,000");
    // Worker w has the connections w, w + 3 and w + 6. It answers on the connection that it read from.
    for w in 0..3u32 {
        let (mut heard, mut served) = (None, Vec::new());
        for step in log.steps_of(&format!("server/{w}")) {
            match step.op {
                Op::Recv { port, .. } => heard = Some(port),
                Op::Send { port, .. } => {
                    assert_eq!(heard.take(), Some(port));
                    served.push(port.channel() as u32);
                }
                _ => {}
            }
        }
        assert!(served.iter().all(|c| c % 3 == w), "{served:?}");
        assert!((w..7).step_by(3).all(|c| served.contains(&c)));
    }
    let built = spec("http", &[("clients", 2), ("workers", 5)]).build(1).unwrap();
    assert_eq!((built.tasks.len(), built.words, built.slots), (4, 0, 0), "no worker without a connection");
}
