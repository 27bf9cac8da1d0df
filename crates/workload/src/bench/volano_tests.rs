//! Rooms: every message reaches every user of its room once, in rounds.

use crate::op::Op;
use crate::rig::{Costs, Log, bench, refused, spec};
use schedlab_base::Ns;

const COSTS: Costs = Costs { op: Ns(300), wakeup: Ns::us(2), slack: Ns::ZERO };

fn volano(given: &[(&str, u64)]) -> Log {
    let mut all = vec![("rooms", 2), ("users", 5), ("runtime", 50_000_000)];
    all.retain(|(name, _)| given.iter().all(|(n, _)| n != name));
    all.extend(given);
    bench("volano", &all, 1, COSTS)
}
fn count(log: &Log, task: &str, pick: impl Fn(&Op) -> bool) -> usize {
    log.times(task, pick).len()
}
const SENT: fn(&Op) -> bool = |op| matches!(op, Op::Send { .. });
const RECEIVED: fn(&Op) -> bool = |op| matches!(op, Op::Recv { .. });

#[test]
fn a_message_goes_to_all_users_of_its_room() {
    let log = volano(&[]);
    for user in 0..10 {
        let rounds = count(&log, &format!("sender/{user}"), SENT);
        assert!(rounds > 50, "{rounds}");
        assert!(
            log.steps_of(&format!("sender/{user}")).last().unwrap().at > Ns::ms(49),
            "it goes on to the end"
        );
        // The last receive and the last round may be unfinished.
        let came = count(&log, &format!("receiver/{user}"), RECEIVED);
        assert!(came.abs_diff(5 * rounds) <= 6, "user {user}: {came} of {rounds} rounds");
        assert!(count(&log, &format!("writer/{user}"), SENT).abs_diff(came) <= 5);
        assert!(count(&log, &format!("reader/{user}"), RECEIVED).abs_diff(rounds) <= 1);
    }
    let rounds = log.values("volano.latency").len();
    assert_eq!(log.values("volano.delivered"), vec![5; rounds]);
}

#[test]
fn users_of_a_room_stay_in_the_same_round() {
    let log = volano(&[("users", 12), ("rooms", 1)]);
    let rounds: Vec<usize> = (0..12).map(|u| count(&log, &format!("sender/{u}"), SENT)).collect();
    let (least, most) = (rounds.iter().min().unwrap(), rounds.iter().max().unwrap());
    assert!(most - least <= 1, "{rounds:?}");
    assert!(log.values("volano.latency").iter().all(|l| *l > 5_000));
}

#[test]
fn rooms_do_not_wait_for_each_other_and_users_may_think() {
    let one = volano(&[("rooms", 1)]).values("volano.latency").len();
    let four = volano(&[("rooms", 4)]).values("volano.latency").len();
    assert!(four.abs_diff(4 * one) < one / 2, "{one} and {four}: each task has a CPU of its own here");
    let slow = volano(&[("think", 10_000_000), ("rooms", 1)]);
    assert!((20..=25).contains(&slow.values("volano.latency").len()));
    assert!(slow.values("volano.latency").iter().all(|l| *l < 2_000_000), "thinking is no part of it");
}

#[test]
fn the_sides_are_four_tasks_a_user() {
    let built = spec("volano", &[("rooms", 3), ("users", 4)]).build(1).unwrap();
    assert_eq!((built.tasks.len(), built.channels.len()), (48, 12));
    assert!(refused("volano", &[("rooms", 10_000), ("users", 10)]).contains("400000 tasks"));
}
