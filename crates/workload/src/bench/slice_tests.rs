//! The slice test's logic: declared tasks, wakers' wakeup and move times, and the sampler's results.

use crate::bench::sample::Sample;
use crate::op::{Op, Usage};
use crate::rig::{Costs, bench, refused, spec};
use proptest::prelude::*;
use schedlab_base::{Ns, TaskId};
use schedlab_kernel::{Attr, Policy};

const COSTS: Costs = Costs { op: Ns(400), wakeup: Ns::us(3), slack: Ns::us(50) };
const FREE: Costs = Costs { op: Ns(0), wakeup: Ns(0), slack: Ns(0) };

fn used(ticked_us: u64, involuntary: u32) -> Usage {
    Usage { cpu: Ns::us(ticked_us), ticked: Ns::us(ticked_us), voluntary: 0, involuntary }
}

#[test]
fn the_printed_slice_is_whole_milliseconds_of_each_averaged() {
    // The document's figures are sixteenths: two of sixteen processes with a quotient of 1 print 0.12.
    let mut all = vec![used(125_500, 126); 14];
    all.extend([used(125_500, 125), used(125_500, 100)]);
    assert_eq!(Sample::of(&all, Ns::secs(1)).printed_ns, 2 * 1_000_000 / 16);
    // The quotient is computed in microseconds: 3 ms in 2 switches are 1500 us, thus 1 ms.
    assert_eq!(Sample::of(&[used(3_000, 2)], Ns::secs(1)).printed_ns, 1_000_000);
    // Never preempted: one slice.
    assert_eq!(Sample::of(&[used(80_000, 0), used(80_000, 8)], Ns::secs(1)).printed_ns, 45_000_000);
    assert_eq!(Sample::of(&[used(0, 5)], Ns::secs(1)).printed_ns, 0);
}

#[test]
fn exact_figures_count_all_stays_and_the_clock() {
    let a = Usage { cpu: Ns::ms(300), ticked: Ns::ms(296), voluntary: 1, involuntary: 29 };
    let b = Usage { cpu: Ns::ms(700), ticked: Ns::ms(704), voluntary: 0, involuntary: 20 };
    let s = Sample::of(&[a, b], Ns::ms(2_000));
    assert_eq!((s.exact_ns, s.involuntary), (Some(20_000_000), 49));
    assert_eq!((s.utime_ns, s.utime_rate, s.cpu_rate), (500_000_000, 250_000_000, 500_000_000));
    assert_eq!(Sample::of(&[used(9, 0)], Ns::secs(1)).exact_ns, None, "no stay has ended");
}

proptest! {
    #[test]
    fn the_printed_slice_is_a_multiple_of_one_nth(all in prop::collection::vec((0u64..3_000_000, 0u32..3_000), 1..40)) {
        let all: Vec<Usage> = all.into_iter().map(|(us, n)| used(us, n)).collect();
        let (n, printed) = (all.len() as u64, Sample::of(&all, Ns::secs(1)).printed_ns);
        let sum_ms = (printed * n).div_ceil(1_000_000);
        prop_assert_eq!(sum_ms * 1_000_000 / n, printed);
        let exact: u64 = all.iter().map(|u| u.ticked.0 / u64::from(u.involuntary.max(1))).sum();
        prop_assert!(sum_ms * 1_000_000 <= exact && exact < (sum_ms + n) * 1_000_000);
    }
}

#[test]
fn kinds_of_tasks_have_their_own_attributes_and_cpus() {
    let given = [
        ("tasks", 5),
        ("wakers", 2),
        ("hog_policy", 1),
        ("hog_nice", 25),
        ("waker_policy", 2),
        ("waker_slice", 300_000),
        ("sampler_policy", 1),
        ("placement", 1),
        ("cpus", 3),
    ];
    let built = spec("slice", &given).build(1).unwrap();
    let names: Vec<&str> = built.tasks.iter().map(|t| t.name.as_str()).collect();
    assert_eq!(names, ["hog/0", "hog/1", "hog/2", "hog/3", "hog/4", "waker/0", "waker/1", "sampler"]);
    let hog = Attr { policy: Policy::Batch, ..Attr::nice(5) };
    let waker = Attr { policy: Policy::Idle, slice: Ns::us(300).into(), ..Attr::default() };
    assert!(built.tasks[..5].iter().all(|t| t.attr == hog));
    assert!(built.tasks[5..7].iter().all(|t| t.attr == waker && t.affinity.is_none()));
    assert_eq!(built.tasks[7].attr, Attr { policy: Policy::Batch, ..Attr::default() });
    let on = |t: usize| built.tasks[t].affinity.as_ref().map(ToString::to_string);
    assert_eq!([0, 1, 2, 3].map(on), ["0", "1", "2", "0"].map(|c| Some(c.to_owned())));
    assert!(built.processes && built.masks.is_empty());
    for (none, tasks) in [([("rate", 0), ("sampler", 0)], 17), ([("wakers", 0), ("sampler", 1)], 16)] {
        assert_eq!(spec("slice", &none).build(1).unwrap().tasks.len(), tasks);
    }
    assert!(refused("slice", &[("hog_nice", 40)]).contains("it takes -20 to 19"));
}

#[test]
fn nice_values_are_written_as_people_do() {
    let nice = crate::spec::find("slice").unwrap().param("hog_nice").unwrap();
    assert_eq!(
        (nice.parse("-20").unwrap(), nice.parse("0").unwrap(), nice.parse("19").unwrap()),
        (0, 20, 39)
    );
    assert_eq!((nice.kind.show(0), nice.kind.show(39)), ("-20".to_owned(), "19".to_owned()));
    assert!(nice.parse("20").unwrap_err().to_string().contains("-20 to 19"));
}

#[test]
fn a_waker_by_timer_stays_on_its_grid_and_skips_missed_points() {
    let given = [("tasks", 1), ("runtime", 100_000_000)];
    let sleeps = |given: &[(&str, u64)], costs| -> Vec<Ns> {
        let log = bench("slice", given, 3, costs);
        let at = log.steps_of("waker/0").into_iter().filter_map(|s| match s.op {
            Op::SleepTo { at } => Some(at),
            _ => None,
        });
        at.collect()
    };
    let grid = sleeps(&given, COSTS);
    assert!((95..=101).contains(&grid.len()), "{}", grid.len());
    assert!(grid.windows(2).all(|w| w[1].since(w[0]) == Ns::ms(1)), "{grid:?}");
    // Work takes two and a half periods: every third grid point is met.
    let late = sleeps(&[given[0], given[1], ("wake_work", 2_500_000)], FREE);
    assert!(late.windows(2).all(|w| w[1].since(w[0]) == Ns::ms(3)), "{late:?}");
}

#[test]
fn a_sleeping_waker_adds_its_period_to_its_work() {
    let log = bench("slice", &[("tasks", 1), ("waker", 1), ("runtime", 100_000_000)], 3, COSTS);
    let runs = log.times("waker/0", |op| *op == Op::Run { work: Ns::us(20) });
    // 1 ms, 50 us of slack, 3 us to wake, 20 us of work, two calls.
    assert!(runs.windows(2).all(|w| w[1].since(w[0]) == Ns(1_073_800)), "{runs:?}");
    assert!(log.steps_of("waker/0").iter().skip(1).all(|s| !matches!(s.op, Op::SleepTo { .. })));
}

#[test]
fn an_alternating_waker_visits_the_cpus_in_turn() {
    let given = [("tasks", 1), ("waker_cpu", 2), ("cpus", 3), ("runtime", 20_000_000)];
    let built = spec("slice", &given).build(1).unwrap();
    let masks: Vec<String> = built.masks.iter().map(ToString::to_string).collect();
    assert_eq!(
        (masks, built.tasks[1].affinity.as_ref().unwrap().to_string()),
        (["0", "1", "2"].map(String::from).to_vec(), "0".into())
    );
    let log = bench("slice", &given, 1, COSTS);
    let moves: Vec<u32> = log
        .steps_of("waker/0")
        .iter()
        .filter_map(|s| match s.op {
            Op::SetAffinity { mask } => Some(mask),
            _ => None,
        })
        .collect();
    assert!(moves.len() > 15 && moves.iter().zip([1, 2, 0].iter().cycle()).all(|(a, b)| a == b), "{moves:?}");
    assert!(
        bench("slice", &[given[0], ("waker_cpu", 1), given[3]], 1, COSTS)
            .times("waker/0", |op| matches!(op, Op::SetAffinity { .. }))
            .is_empty()
    );
}

#[test]
fn wakers_begin_apart() {
    let log = bench("slice", &[("tasks", 1), ("wakers", 40), ("runtime", 5_000_000)], 1, COSTS);
    let mut first: Vec<Op> = (0..40).map(|n| log.steps_of(&format!("waker/{n}"))[0].op).collect();
    assert!(first.iter().all(|op| matches!(op, Op::SleepTo { at } if *at > Ns::ZERO && *at <= Ns::ms(1))));
    first.dedup();
    assert!(first.len() > 35, "{first:?}");
}

#[test]
fn the_sampler_reads_every_process_after_each_sleep() {
    let given = [("tasks", 3), ("rate", 0), ("interval", 100_000_000), ("runtime", 450_000_000)];
    let log = bench("slice", &given, 1, COSTS);
    let ops: Vec<Op> = log.steps_of("sampler").iter().map(|s| s.op).take(8).collect();
    let read = |t| Op::Usage { task: TaskId(t) };
    let sleep = Op::Sleep { length: Ns::ms(100) };
    assert_eq!(ops, [sleep, read(0), read(1), read(2), sleep, read(0), read(1), read(2)]);
    // Sleep, slack, wakeup and four calls. The first interval counts from the run's start.
    assert_eq!(log.values("slice-test.interval"), vec![100_054_600; 4]);
    assert_eq!(log.values("slice-test.involuntary"), [0; 4]);
    assert!(log.values("slice-test.exact").is_empty(), "no stay has ended");
    // Three tasks always spin; an interval's readings are up to four calls apart.
    let rate = log.values("slice-test.utime_rate");
    assert!(rate.iter().all(|r| r.abs_diff(1_000_000_000) < 100_000), "{rate:?}");
}
