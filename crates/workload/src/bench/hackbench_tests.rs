//! hackbench's structure: who writes to whom, how often, and the end.

use crate::build::ChannelKind;
use crate::op::{Op, PortId};
use crate::rig::{Costs, Log, bench, refused, spec};
use schedlab_base::{Ns, TaskId};

const COSTS: Costs = Costs { op: Ns::us(1), wakeup: Ns::us(4), slack: Ns::us(50) };

fn hackbench(given: &[(&str, u64)]) -> Log {
    bench("hackbench", given, 3, COSTS)
}
fn sent(log: &Log, name: &str) -> Vec<PortId> {
    let ops = log.steps_of(name);
    ops.iter().filter_map(|s| if let Op::Send { port, .. } = s.op { Some(port) } else { None }).collect()
}

#[test]
fn each_sender_writes_to_each_receiver_of_its_group_in_turn() {
    let log = hackbench(&[("groups", 2), ("fds", 3), ("loops", 4)]);
    let turns = |first: u32| -> Vec<PortId> { (0..12).map(|i| PortId(first + 2 * (i % 3) + 1)).collect() };
    for s in 0..3 {
        assert_eq!(sent(&log, &format!("sender-0-{s}")), turns(0));
        assert_eq!(sent(&log, &format!("sender-1-{s}")), turns(6));
    }
}

#[test]
fn receivers_read_all_that_is_sent_to_them_and_everybody_leaves() {
    let log = hackbench(&[("groups", 2), ("fds", 3), ("loops", 4), ("datasize", 57)]);
    for g in 0..2 {
        for r in 0..3 {
            let port = PortId(2 * (3 * g + r));
            let reads = log.times(&format!("receiver-{g}-{r}"), |op| *op == Op::Recv { port, bytes: 57 });
            assert_eq!(reads.len(), 3 * 4);
        }
    }
    assert_eq!((log.left.len(), log.stuck.len()), (12, 0));
}

#[test]
fn all_tasks_are_there_before_the_first_message_and_the_last_to_leave_stops_the_clock() {
    let log = hackbench(&[("groups", 1), ("fds", 5), ("loops", 20)]);
    let talks = |op: &Op| matches!(op, Op::Send { .. } | Op::Recv { .. });
    let first = log.steps.iter().find(|s| talks(&s.op)).unwrap().at;
    let signal = log.steps.iter().find(|s| matches!(s.op, Op::Wake { .. })).unwrap();
    assert_eq!(signal.op, Op::Wake { word: crate::WordId(0), count: 10 });
    assert!(first > signal.at && log.steps.iter().filter(|s| s.at <= signal.at).count() >= 10);
    let samples: Vec<_> = log.of("hackbench.elapsed").collect();
    let (last, at) = *log.left.last().unwrap();
    assert_eq!(samples.len(), 1, "recorded once");
    assert_eq!((samples[0].task, samples[0].at, samples[0].value), (last, at, at.since(signal.at).0));
}

#[test]
fn a_full_buffer_stops_the_senders() {
    // 20 senders write 4 KB each to one pipe of 64 KB at once; a socket holds more.
    let slowest = |transport| {
        let given = [("groups", 1), ("fds", 20), ("loops", 1), ("datasize", 4096), ("transport", transport)];
        let log = hackbench(&given);
        assert_eq!(log.left.len(), 40);
        let sends = |name: &str| log.times(name, |op| matches!(op, Op::Send { .. } | Op::Exit));
        let gaps = |name: String| sends(&name).windows(2).map(|w| w[1].since(w[0])).max();
        (0..20).filter_map(|s| gaps(format!("sender-0-{s}"))).max()
    };
    assert_eq!(slowest(0), Some(Ns::us(1)), "no sender sleeps");
    assert!(slowest(1) > Some(Ns::us(4)), "some had to be woken");
}

#[test]
fn a_run_cut_short_has_no_result() {
    let log = hackbench(&[("loops", 1_000), ("runtime", 1_000_000)]);
    assert!(log.values("hackbench.elapsed").is_empty() && log.left.is_empty());
}

#[test]
fn parameters_choose_channel_and_kind_of_task() {
    let built = spec("hackbench", &[("groups", 1)]).build(1).unwrap();
    assert_eq!((built.tasks.len(), built.channels.len(), built.processes), (40, 20, true));
    assert!(built.channels.iter().all(|k| *k == ChannelKind::Unix));
    let built = spec("hackbench", &[("groups", 1), ("transport", 1), ("mode", 1)]).build(1).unwrap();
    assert!(built.channels.iter().all(|k| *k == ChannelKind::Pipe) && !built.processes);
    assert_eq!(
        refused("hackbench", &[("groups", 5_000)]),
        "groups = 5000 with fds = 20 senders and receivers each makes 200000 tasks, more than 100000\n  \
         help: lower groups (-g) or fds (-f)"
    );
    assert_eq!(built.tasks[20].name, "sender-0-0");
    assert_eq!(built.tasks[TaskId(0).index()].name, "receiver-0-0");
}
