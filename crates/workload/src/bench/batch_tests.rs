//! Jobs: their phases in order, work that does not depend on the set's size, wakers on their beat.

use crate::op::Op;
use crate::rig::{Costs, Log, bench, refused, spec};
use schedlab_base::Ns;
use schedlab_kernel::Policy;

const COSTS: Costs = Costs { op: Ns(300), wakeup: Ns::us(2), slack: Ns::ZERO };

fn batch(given: &[(&str, u64)]) -> Log {
    bench("batch", given, 1, COSTS)
}

#[test]
fn a_job_goes_over_its_set_computes_copies_and_sleeps() {
    let given =
        [("jobs", 1), ("wakers", 0), ("set", 100), ("touched", 950), ("blocks", 2), ("runtime", 100_000_000)];
    let log = batch(&given);
    let steps = log.steps_of("job/0");
    assert!(steps.len() > 70);
    for job in steps.chunks_exact(7) {
        let [touch, compute, there, back, again, and_back, sleep] = job else { panic!("seven steps") };
        assert_eq!(touch.op, Op::Touch { kb: 100, rounds: 10 });
        assert_eq!(compute.op, Op::Run { work: Ns::ms(1) });
        assert!(matches!((there.op, back.op), (Op::Send { bytes: 4096, .. }, Op::Recv { bytes: 4096, .. })));
        assert_eq!((there.op, back.op), (again.op, and_back.op), "the same pipe, read back at once");
        let Op::Sleep { length } = sleep.op else { panic!("{sleep:?}") };
        assert!((2_500_000..7_500_000).contains(&length.0), "{length}");
    }
    // Without the sleep.
    let latencies = log.values("batch.latency");
    assert!(latencies.len() > 10 && latencies.iter().all(|l| (1_000_000..1_010_000).contains(l)));
}

#[test]
fn the_work_does_not_depend_on_the_size_of_the_set() {
    for set in [16, 64, 256, 1024] {
        let log = batch(&[("jobs", 1), ("set", set), ("runtime", 20_000_000)]);
        let Op::Touch { kb, rounds } = log.steps_of("job/0")[0].op else { panic!("it begins with its set") };
        assert_eq!((u64::from(kb), u64::from(kb) * u64::from(rounds)), (set, 65_536));
    }
}

#[test]
fn a_waker_keeps_its_beat_and_makes_up_for_missed_beats() {
    let log = batch(&[("jobs", 1), ("wakers", 2), ("rate", 1_000), ("runtime", 50_000_000)]);
    let beats = |name| log.times(name, |op| matches!(op, Op::SleepTo { .. }));
    assert_eq!((beats("waker/0").len(), beats("waker/1").len()), (51, 51), "the first one included");
    assert_ne!(beats("waker/0")[3], beats("waker/1")[3], "each has a beat of its own");
    assert!(log.values("batch.waker_delay").iter().all(|d| *d < 10_000));
    // Three milliseconds of work per millisecond: after 3 ms 3 beats are done, after 12 ms 9 more.
    let late = batch(&[("jobs", 1), ("burst", 3_000_000), ("runtime", 60_000_000)]);
    let steps = late.steps_of("waker/0");
    let work = steps.iter().filter_map(|s| match s.op {
        Op::Run { work } => Some(work.0 / 1_000_000),
        _ => None,
    });
    assert_eq!(work.collect::<Vec<u64>>(), [3, 9, 27, 81]);
}

#[test]
fn phases_may_be_left_out_and_policies_chosen() {
    let bare = [("jobs", 2), ("touched", 0), ("compute", 0), ("blocks", 0), ("runtime", 50_000_000)];
    let log = batch(&bare);
    assert!(log.steps_of("job/1").iter().all(|s| matches!(s.op, Op::Sleep { .. })));
    let built = spec("batch", &[("jobs", 2), ("job_policy", 1), ("waker_policy", 2)]).build(1).unwrap();
    let policies: Vec<Policy> = built.tasks.iter().map(|t| t.attr.policy).collect();
    assert_eq!(policies, [Policy::Batch, Policy::Batch, Policy::Idle]);
    assert!(built.processes && built.tasks[0].footprint_kb == 128);
    assert!(refused("batch", &[("set", 0)]).contains("out of range"));
}
