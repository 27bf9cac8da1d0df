//! The order of the ping-pong, and its records.

use crate::op::Op;
use crate::rig::{Costs, Log, bench, spec};
use schedlab_base::Ns;

const COSTS: Costs = Costs { op: Ns::us(1), wakeup: Ns::us(4), slack: Ns::us(50) };

fn pipe(given: &[(&str, u64)]) -> Log {
    bench("pipe", given, 1, COSTS)
}

/// A task's operations between start and end, as letters.
fn letters(log: &Log, name: &str) -> String {
    let letter = |op: Op| match op {
        Op::Send { bytes: 4, .. } => 's',
        Op::Recv { bytes: 4, .. } => 'r',
        Op::Exit => '.',
        _ => '-',
    };
    log.steps_of(name).iter().map(|s| letter(s.op)).filter(|c| *c != '-').collect()
}

#[test]
fn one_sends_and_reads_the_other_reads_and_sends() {
    let log = pipe(&[("loops", 3)]);
    assert_eq!(
        (letters(&log, "first-0").as_str(), letters(&log, "second-0").as_str()),
        ("srsrsr.", "rsrsrs.")
    );
}

#[test]
fn a_round_trip_is_two_messages_and_two_wakeups() {
    let log = pipe(&[("loops", 1_000)]);
    let elapsed = log.values("pipe.elapsed");
    assert_eq!(elapsed.len(), 1);
    // Each way takes the call of 1 us, and 4 us until the other runs.
    assert_eq!(log.values("pipe.round_trip"), [10_000 + (elapsed[0] - 10_000_000 + 500) / 1_000]);
    assert!((10_000_000..10_020_000).contains(&elapsed[0]), "{elapsed:?}");
    assert!(log.stuck.is_empty() && log.left.len() == 2);
}

#[test]
fn several_pairs_end_with_the_last_and_record_once() {
    let log = pipe(&[("loops", 50), ("pairs", 4)]);
    assert_eq!((log.values("pipe.elapsed").len(), log.left.len()), (1, 8));
    assert_eq!(log.of("pipe.elapsed").next().unwrap().at, log.left.last().unwrap().1);
    let built = spec("pipe", &[("pairs", 4)]).build(1).unwrap();
    assert_eq!((built.channels.len(), built.processes), (8, true));
}

#[test]
fn a_token_larger_than_the_pipe_gets_through_and_a_cut_run_has_no_result() {
    assert_eq!(pipe(&[("loops", 5), ("size", 200_000)]).left.len(), 2);
    let cut = pipe(&[("runtime", 1_000_000)]);
    assert!(cut.values("pipe.elapsed").is_empty() && cut.values("pipe.round_trip").is_empty());
}

#[test]
fn each_task_may_work_for_a_token() {
    let log = pipe(&[("loops", 2), ("client_work", 3_000), ("server_work", 7_000)]);
    let works = |name: &str| {
        let ops = log.steps_of(name);
        ops.iter()
            .filter_map(|s| if let Op::Run { work } = s.op { Some(work) } else { None })
            .collect::<Vec<Ns>>()
    };
    assert_eq!((works("first-0"), works("second-0")), (vec![Ns::us(3); 2], vec![Ns::us(7); 2]));
    let both = log.values("pipe.round_trip")[0] - pipe(&[("loops", 2)]).values("pipe.round_trip")[0];
    assert!((10_000..=14_000).contains(&both), "{both}");
}
