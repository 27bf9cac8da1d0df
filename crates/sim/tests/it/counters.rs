//! Counters go to sinks that ask for them, have the values of their definitions, and change nothing.

use crate::support::{Load, hog, kernel, machine, simulated};
use schedlab_base::{Ns, TaskId};
use schedlab_kernel::Attr;
use schedlab_trace::{Counter, CounterKind, Counters, Event, Sink};

/// Keeps events and the requested counters.
struct Kept {
    wants: Counters,
    events: Vec<Event>,
    counters: Vec<(Ns, Counter, i64)>,
}

impl Sink for Kept {
    fn event(&mut self, event: &Event) {
        self.events.push(*event);
    }
    fn sample(&mut self, _: Ns, _: TaskId, _: u16, _: u64) {}
    fn counter(&mut self, at: Ns, counter: Counter, value: i64) {
        self.counters.push((at, counter, value));
    }
    fn wants_counters(&self) -> Counters {
        self.wants
    }
}

/// Two tasks that compute, the second one with a nice value, on one CPU.
fn run(profile: &str, nice: i8, wants: Counters) -> Kept {
    let mut load = Load::lasting_ms(200);
    load.task("a", Some("0"), hog());
    let b = load.task("b", Some("0"), hog());
    load.attr(b, Attr { nice, ..Attr::default() });
    let mut kept = Kept { wants, events: Vec::new(), counters: Vec::new() };
    simulated(&machine("smp-2"), kernel(profile), 1, load.built(), &mut kept).expect("the run ends well");
    kept
}

fn all() -> Counters {
    CounterKind::ALL.into_iter().fold(Counters::NONE, Counters::and)
}

#[test]
fn a_run_is_the_same_with_and_without_counters() {
    for profile in ["v2.6.30", "v3.4", "v4.5", "v6.5", "v6.12"] {
        let (with, without) = (run(profile, 0, all()), run(profile, 0, Counters::NONE));
        assert!(with.events == without.events, "{profile}");
        assert!(!with.counters.is_empty() && without.counters.is_empty(), "{profile}");
    }
}

#[test]
fn each_class_has_its_own_counters() {
    let kinds = |profile: &str| {
        let told = run(profile, 0, all()).counters;
        CounterKind::ALL.map(|kind| told.iter().any(|(_, counter, _)| counter.kind() == kind))
    };
    // load, vruntime, lag, slice
    assert_eq!(kinds("v4.5"), [true, true, false, true]);
    assert_eq!(kinds("v6.12"), [true, false, true, true]);
    let only = run("v6.12", 0, Counters::NONE.and(CounterKind::Load)).counters;
    assert!(only.iter().all(|(_, counter, _)| counter.kind() == CounterKind::Load));
}

#[test]
fn counters_have_the_values_of_two_equal_tasks() {
    const MS: i64 = 1_000_000;
    let eevdf = run("v6.12", 0, all()).counters;
    for (at, counter, value) in &eevdf {
        match counter {
            // No lag is larger than two slices or a tick; one that still runs may be a tick further.
            Counter::Lag(_) => assert!(value.abs() <= 8 * MS, "{value} at {at:?}"),
            // A deadline that has passed is set anew at the next look.
            Counter::Slice(_) => assert!((-4 * MS..=8 * MS).contains(value), "{value} at {at:?}"),
            _ => {}
        }
    }
    let lags: Vec<i64> =
        eevdf.iter().filter(|(_, c, _)| matches!(c, Counter::Lag(_))).map(|(.., v)| *v).collect();
    assert!(lags.iter().any(|v| *v > 0) && lags.iter().any(|v| *v < 0), "one is owed what the other one had");
    let cfs = run("v4.5", 0, all()).counters;
    let last_load = cfs.iter().rev().find(|(_, c, v)| matches!(c, Counter::Load(_)) && *v > 0).unwrap().2;
    assert!((1800..=2100).contains(&last_load), "two tasks of nice 0 that always run: {last_load}");
    assert!(
        cfs.iter().all(|(_, c, v)| !matches!(c, Counter::Vruntime(_)) || (-20 * MS..20 * MS).contains(v))
    );
}
