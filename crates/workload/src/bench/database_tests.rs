//! Transactions of the server processes: order of steps, commits, disks behind adapters.

use crate::op::Op;
use crate::rig::{Costs, Log, Step, bench, refused, spec};
use schedlab_base::Ns;

const COSTS: Costs = Costs { op: Ns(300), wakeup: Ns::us(2), slack: Ns::ZERO };

fn database(given: &[(&str, u64)]) -> Log {
    bench("database", given, 1, COSTS)
}
fn reads(steps: &[Step]) -> Vec<u64> {
    let length = |s: &Step| if let Op::Sleep { length } = s.op { Some(length.0) } else { None };
    steps.iter().filter_map(length).collect()
}

#[test]
fn a_step_reads_goes_over_a_part_of_the_set_and_computes() {
    let log = database(&[("tasks", 1), ("writes", 0), ("reads", 3), ("runtime", 400_000_000)]);
    let steps = log.steps_of("server/0");
    for transaction in steps.chunks_exact(9) {
        for step in transaction.chunks_exact(3) {
            let [read, touch, work] = step else { panic!("three operations") };
            let Op::Sleep { length } = read.op else { panic!("{read:?}") };
            assert!((2_500_000..7_500_000).contains(&length.0), "{length}");
            assert_eq!(touch.op, Op::Touch { kb: 256, rounds: 1 });
            let Op::Run { work } = work.op else { panic!("{work:?}") };
            assert!((100_000..300_000).contains(&work.0), "{work}");
        }
    }
    let latencies = log.values("database.latency");
    assert!(latencies.len() > 20 && latencies.iter().all(|l| (8_000_000..24_000_000).contains(l)));
}

#[test]
fn transactions_that_write_take_the_lock_and_wait_for_the_log() {
    let of = |writes: u64| database(&[("tasks", 4), ("writes", writes), ("runtime", 1_000_000_000)]);
    let commits = |log: &Log| {
        let steps = log.steps_of("server/0");
        steps.iter().filter(|s| s.op == Op::Run { work: Ns::us(10) }).count()
    };
    let (none, most, all) = (of(0), of(90), of(100));
    assert_eq!((commits(&none), none.steps_of("logger").len()), (0, 1), "the logger sleeps");
    let done = most.values("database.latency").len() / 4;
    assert!((done * 7 / 10..done).contains(&commits(&most)), "{} of {done}", commits(&most));
    assert!(reads(&all.steps_of("logger")).iter().all(|l| (500_000..1_500_000).contains(l)));
    let mean = |log: &Log| {
        let l = log.values("database.latency");
        l.iter().sum::<u64>() / l.len() as u64
    };
    assert!(mean(&all) > mean(&none) + 500_000, "a commit waits for half a millisecond at least");
}

#[test]
fn each_read_goes_to_a_drawn_adapter_and_takes_as_long_as_a_sleep() {
    let given = [("tasks", 2), ("adapters", 3), ("runtime", 400_000_000)];
    let log = database(&given);
    let sent = |name: &str| -> Vec<u32> {
        let port = |s: &Step| if let Op::Send { port, .. } = s.op { Some(port.0) } else { None };
        log.steps_of(name).iter().filter_map(port).collect()
    };
    let mut used = sent("server/1");
    assert!(used.len() > 50 && used.windows(2).any(|w| w[0] != w[1]));
    used.sort_unstable();
    used.dedup();
    assert_eq!(used.len(), 3, "its own connection to each adapter");
    assert!(used.iter().all(|port| !sent("server/0").contains(port)));
    let slept = reads(&log.steps_of("disk/1"));
    let asleep = database(&[("tasks", 2), ("runtime", 400_000_000)]);
    assert_eq!(slept[..40], reads(&asleep.steps_of("server/1"))[..40]);
}

#[test]
fn sets_and_modes() {
    let built = spec("database", &[("tasks", 2), ("adapters", 1), ("set", 2048)]).build(1).unwrap();
    let names: Vec<&str> = built.tasks.iter().map(|t| t.name.as_str()).collect();
    assert_eq!(names, ["server/0", "server/1", "logger", "disk/0", "disk/1"]);
    assert!(built.processes && built.tasks[0].footprint_kb == 2048);
    assert!(built.tasks.iter().all(|t| t.timer_slack == Some(Ns(1))));
    assert!(refused("database", &[("set", 100)]).contains("a part of the set, which has 100 KB"));
}
