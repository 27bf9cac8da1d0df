//! Features and tunables that change in the middle of a run. Before the change the run equals one without it, byte for
//! byte. After it the kernel acts by the new values. Merging of steps makes no difference.

use crate::support::{Load, forever, kernel, machine, run_us, sleep_us};
use schedlab_base::{Ns, TaskId};
use schedlab_kernel::{Feature, Kernel};
use schedlab_sim::{Setup, SimReport, simulate, simulate_unmerged};
use schedlab_trace::{Event, EventKind, Keep};
use schedlab_workload::Built;

const AT: Ns = Ns::ms(60);

/// Hogs, and on each of two CPUs a sleeper that wakes often: it shows at once which tasks a wakeup may preempt.
fn load() -> Built {
    let mut load = Load::lasting_ms(120);
    for i in 0..2 {
        load.task(&format!("hog/{i}"), None, forever(vec![run_us(900)]));
        load.task(&format!("hog/{}", i + 2), None, forever(vec![run_us(1_100)]));
        load.task(&format!("napper/{i}"), None, forever(vec![run_us(30), sleep_us(900)]));
    }
    load.built()
}

struct Seen {
    report: SimReport,
    events: Vec<Event>,
}

fn seen(profile: &str, seed: u64, merged: bool, changes: &[(Ns, Kernel)]) -> Seen {
    let machine = machine("smp-2");
    let setup = Setup {
        machine: &machine,
        kernel: kernel(profile),
        changes: changes.to_vec(),
        workload: load(),
        seed,
        background: true,
        check: false,
        stop: None,
        clock: None,
    };
    let mut keep = Keep::default();
    let report = if merged { simulate(setup, &mut keep) } else { simulate_unmerged(setup, &mut keep) }
        .expect("it ends well");
    Seen { report, events: keep.events }
}

impl Seen {
    fn before(&self, at: Ns) -> &[Event] {
        &self.events[..self.events.partition_point(|e| e.at < at)]
    }
    /// Switches from a hog to a napper in a window: wakeups that preempted.
    fn preemptions(&self, from: Ns, to: Ns) -> usize {
        let napper = |t: TaskId| self.report.tasks[t.index()].name.starts_with("napper");
        let hog = |t: TaskId| self.report.tasks[t.index()].name.starts_with("hog");
        let counts = |e: &&Event| match e.kind {
            EventKind::Switch { prev: Some(prev), next: Some(next), .. } => hog(prev) && napper(next),
            _ => false,
        };
        self.events.iter().filter(|e| (from..to).contains(&e.at)).filter(counts).count()
    }
}

#[test]
fn until_the_change_nothing_differs_and_after_it_the_new_rule_holds() {
    let off = kernel("v4.5 NO_WAKEUP_PREEMPTION");
    for seed in 1..4 {
        let plain = seen("v4.5", seed, true, &[]);
        let flipped = seen("v4.5", seed, true, &[(AT, off)]);
        assert_eq!(plain.before(AT), flipped.before(AT));
        let (first, second) = (flipped.preemptions(Ns::ZERO, AT), flipped.preemptions(AT, Ns::ms(120)));
        assert!(first > 20 && second < first / 3, "{first} preemptions before, {second} after");
        let kept = plain.preemptions(AT, Ns::ms(120));
        assert!(kept > 2 * second, "{kept} without the change");
    }
}

#[test]
fn changes_can_be_undone_and_changes_to_the_same_values_have_no_effect() {
    let (on, off) = (kernel("v4.5"), kernel("v4.5 NO_WAKEUP_PREEMPTION"));
    let window = |from: u64| move |s: &Seen| s.preemptions(Ns::ms(from), Ns::ms(from + 40));
    let s = seen("v4.5", 1, true, &[(Ns::ms(40), off), (Ns::ms(80), on)]);
    let [a, b, c] = [0, 40, 80].map(|from| window(from)(&s));
    assert!(b < a / 3 && b < c / 3, "{a}, {b}, {c} preemptions");
    // A change to the same values has no effect: every tie and every scan comes out the same.
    let same = seen("v4.5", 1, true, &[(AT, on), (AT, on)]);
    let plain = seen("v4.5", 1, true, &[]);
    assert_eq!(same.events, plain.events);
}

#[test]
fn granularities_are_scaled_anew() {
    // One hog less than above, next to the sleepers. With a minimum of 30 ms the tick no longer cuts slices of two
    // equal hogs at 6 ms.
    let mut long = kernel("v4.5");
    for (name, value) in [("sched_latency_ns", 100_000_000), ("min_granularity_ns", 50_000_000)] {
        long.tunables.set(name, value).expect("a tunable");
    }
    long.features.switch(Feature::WakeupPreemption, false);
    let base = "v4.5 NO_WAKEUP_PREEMPTION";
    let s = seen(base, 1, true, &[(AT, long)]);
    let switches = |from: Ns, to: Ns| {
        let counts = |e: &&Event| matches!(e.kind, EventKind::Switch { .. }) && (from..to).contains(&e.at);
        s.events.iter().filter(counts).count()
    };
    let (first, second) = (switches(Ns::ZERO, AT), switches(AT, Ns::ms(120)));
    assert!(second * 2 < first, "{first} switches before, {second} after");
}

#[test]
fn a_changed_run_is_the_same_merged_or_not() {
    for (profile, other) in [
        ("v3.4", "v3.4 NO_WAKEUP_PREEMPTION"),
        ("v4.5", "v4.5 SIS_FIRST_IDLE"),
        ("v6.5", "v6.5 NO_SIS_UTIL"),
        ("v6.5", "v6.5 ILB_FAST ILB_SNAPSHOT ILB_UTIL"),
    ] {
        for seed in 1..4 {
            // Changes at the end of the warm-up, in mid-step, and at a tick, where both CPUs act, too.
            let changes = [(Ns::ZERO, kernel(other)), (Ns(33_333_333), kernel(profile)), (AT, kernel(other))];
            let (merged, unmerged) =
                (seen(profile, seed, true, &changes), seen(profile, seed, false, &changes));
            assert_eq!(merged.events, unmerged.events, "{profile} to {other}");
            assert_eq!(merged.report, unmerged.report);
        }
    }
}
