//! EEVDF's guarantees for tasks that never sleep, seen from outside: lag bounded, equal tasks equal, weights kept.
//!
//! (Every test of an EEVDF kernel asserts at every pick that only eligible entities are picked.)

use crate::support::{Load, Run, hog, kernel, machine, run_seeded};
use proptest::prelude::*;
use schedlab_base::{Ns, TaskId, Version};
use schedlab_kernel::{Attr, History};
use schedlab_trace::EventKind;

const MS: u64 = 1_000_000;
const NEWEST: &History = &History::of(Version::new(7, 3));
const KERNELS: [&str; 5] = ["v6.12", "v6.18", "v7.3", "v7.3 NO_HRTICK", "v6.18 NO_RUN_TO_PARITY"];
/// The time that a switch and the interrupts of a stay may take from it or add to it, ns.
const OVERHEAD: u64 = MS / 10;

/// Hogs on one CPU of two, whose slices are 1.4 ms.
fn hogs(text: &str, hz: u64, seed: u64, attrs: &[Attr]) -> Run {
    let mut load = Load::lasting_ms(400);
    for attr in attrs {
        let task = load.task("hog", Some("0"), hog());
        load.attr(task, *attr);
    }
    let mut kernel = kernel(text);
    kernel.tunables.hz = hz;
    run_seeded(&machine("smp-2"), kernel, seed, load)
}

/// At every switch: the CPU time of each task until then, ns.
fn service(run: &Run, nr: usize) -> Vec<Vec<u64>> {
    let (mut had, mut on, mut seen) = (vec![0; nr], None, Vec::new());
    for e in &run.seen.events {
        let EventKind::Switch { next, .. } = e.kind else { continue };
        if e.cpu.0 != 0 {
            continue;
        }
        if let Some((task, since)) = on.take() {
            let task: TaskId = task;
            had[task.index()] += e.at.0 - since;
        }
        on = next.map(|n| (n, e.at.0));
        seen.push(had.clone());
    }
    seen
}

fn hz() -> impl Strategy<Value = u64> {
    prop_oneof![Just(250u64), Just(1000), 100u64..1000]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn lag_is_bounded_on_both_sides(
        text in prop::sample::select(&KERNELS[..]),
        hz in hz(),
        seed in any::<u64>(),
        tasks in prop::collection::vec((-8i8..8, prop_oneof![Just(0u64), 100u64..5_000]), 2..9),
    ) {
        let attr = |(nice, us): &(i8, u64)| Attr { slice: Ns::us(*us).into(), ..Attr::nice(*nice) };
        let attrs: Vec<Attr> = tasks.iter().map(attr).collect();
        let run = hogs(text, hz, seed, &attrs);
        let total: u64 = attrs.iter().map(|a| a.weight(NEWEST)).sum();
        let longest = attrs.iter().map(|a| a.slice.ns()).max().unwrap_or(0).max(1_400_000);
        // A picked task is not ahead, and a grant lasts a slice and then to the next tick. So no task gets further
        // ahead.
        let tick = 1_000_000_000 / hz;
        let granted = longest + tick + OVERHEAD;
        for had in service(&run, attrs.len()) {
            let all: u64 = had.iter().sum();
            for (attr, had) in attrs.iter().zip(had) {
                let due = (u128::from(all) * u128::from(attr.weight(NEWEST)) / u128::from(total)) as u64;
                prop_assert!(had <= due + granted, "{}: {} ns ahead, {} granted", text, had - due, granted);
                // A waiting task is passed over until its deadline, which lies one of its own slices ahead. Each of the
                // others may run a tick beyond that, and one may be protected when the wait begins. The waiting task
                // would have had its share of this time.
                let others = (attrs.len() as u64 - 1) * (tick + OVERHEAD) + granted;
                let share = u128::from(others) * u128::from(attr.weight(NEWEST)) / u128::from(total);
                let bound = attr.slice.ns().max(1_400_000) + share as u64 + OVERHEAD;
                prop_assert!(due <= had + bound, "{}: {} ns behind, at most {}", text, due - had, bound);
            }
        }
    }

    #[test]
    fn equal_tasks_are_equal_over_any_window(
        text in prop::sample::select(&KERNELS[..]),
        hz in hz(),
        seed in any::<u64>(),
        nr in 2usize..9,
    ) {
        let run = hogs(text, hz, seed, &vec![Attr::default(); nr]);
        // A slice, and the wait for a tick. 7.3's slice timer makes the tick needless, with one exception: if the task
        // is behind when the timer fires and continues, the timer is not armed anew, so the task runs until the tick.
        // At some tick lengths that happens every time.
        let timed = text == "v7.3" && [250, 1000].contains(&hz);
        let granted = 1_400_000 + if timed { 0 } else { 1_000_000_000 / hz } + OVERHEAD;
        let seen = service(&run, nr);
        let spread = |gains: &mut dyn Iterator<Item = u64>| {
            let (least, most) = gains.fold((u64::MAX, 0), |(a, b), g| (a.min(g), b.max(g)));
            most - least
        };
        for (i, from) in seen.iter().enumerate() {
            let apart = spread(&mut from.iter().copied());
            prop_assert!(apart <= granted, "{} ns apart, {} granted at a time", apart, granted);
            // A task that was behind when a window began may be ahead when it ends.
            for to in &seen[i..] {
                let apart = spread(&mut from.iter().zip(to).map(|(a, b)| b - a));
                prop_assert!(apart <= 2 * granted, "{} ns apart in a window", apart);
            }
        }
    }

    #[test]
    fn the_same_seed_gives_the_same_events(text in prop::sample::select(&KERNELS[..]), seed in any::<u64>()) {
        let attrs = [Attr::default(), Attr::nice(3), Attr::default()];
        let (a, b) = (hogs(text, 250, seed, &attrs), hogs(text, 250, seed, &attrs));
        prop_assert!(a.seen.events == b.seen.events);
    }
}
