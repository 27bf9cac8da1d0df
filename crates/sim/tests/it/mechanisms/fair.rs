//! Slices, weights, preemption at wakeup, sleeper credit.

use crate::support::{Load, Run, forever, hog, kernel, machine, once, run, run_seeded, run_us, sleep_us};
use schedlab_base::{Ns, TaskId};
use schedlab_kernel::{Attr, Policy};
use schedlab_trace::{EventKind, SwitchReason};
use schedlab_workload::Op;

const MS: u64 = 1_000_000;

/// Lengths of the stays of `nr` hogs on one CPU, the first ones left out, ns.
fn slices(cpus: u32, hz: u64, nr: usize) -> Vec<u64> {
    let mut load = Load::lasting_ms(600);
    load.builder.lasts(Ns::ms(500), Ns::ms(100));
    let tasks: Vec<TaskId> = (0..nr).map(|_| load.task("hog", Some("0"), hog())).collect();
    let mut kernel = kernel("v4.5");
    kernel.tunables.hz = hz;
    let seen = run_seeded(&machine(&format!("smp-{cpus}")), kernel, 1, load);
    let times: Vec<u64> = tasks.iter().map(|t| seen.cpu_ns(*t)).collect();
    let (least, most) = (times.iter().min(), times.iter().max());
    let spread = most.unwrap_or(&0) - least.unwrap_or(&0);
    let stays: Vec<u64> =
        tasks.iter().flat_map(|t| seen.stays(*t).split_off(3)).map(|(a, b)| b - a).collect();
    // Each end of the measured time may cut a slice.
    let slice = *stays.iter().max().unwrap_or(&0);
    assert!(spread <= 2 * slice + MS / 10, "shared unequally: {times:?}");
    stays
}

#[test]
fn a_slice_ends_at_the_first_tick_that_finds_it_exceeded() {
    // CPUs, HZ, hogs: slice in ms under 1.4 and 1.5. At a tick where exactly the slice has run, the task continues.
    for (cpus, hz, nr, ms) in [
        (2, 250, 2, 8),   // 6 ms
        (2, 1000, 2, 7),  // 6 ms
        (2, 250, 3, 8),   // 4 ms: met at the first tick, exceeded at the second
        (8, 250, 2, 16),  // 12 ms: met at the third tick
        (8, 1000, 2, 13), // 12 ms
        (8, 1000, 4, 7),  // 6 ms
        (8, 1000, 10, 4), // 3 ms: ten tasks stretch the period
    ] {
        let stays = slices(cpus, hz, nr);
        let near = stays.iter().filter(|s| s.abs_diff(ms * MS) < MS / 10).count();
        assert!(stays.len() > 20, "{} slices", stays.len());
        assert!(near * 100 >= stays.len() * 95, "{nr} hogs, {cpus} CPUs, HZ={hz}: not {ms} ms: {stays:?}");
    }
}

#[test]
fn cpu_time_follows_the_weights() {
    for profile in ["v2.6.27", "v2.6.30", "v3.4", "v4.5", "v6.5"] {
        for (nice, weight) in [(5, 335), (-3, 1991), (10, 110)] {
            let mut load = Load::lasting_ms(10_000);
            let (a, b) = (load.task("a", None, hog()), load.task("b", None, hog()));
            load.attr(b, Attr::nice(nice));
            let seen = run(&machine("smp-1"), profile, load);
            let ratio = seen.cpu_ns(b) * 1024 * 1000 / seen.cpu_ns(a) / weight;
            assert!((980..=1020).contains(&ratio), "{profile}, nice {nice}: {ratio} per mille of its share");
        }
    }
}

#[test]
fn idle_policy_gets_its_three_parts_of_1027() {
    let mut load = Load::lasting_ms(20_000);
    let (a, b) = (load.task("a", None, hog()), load.task("b", None, hog()));
    load.attr(b, Attr { policy: Policy::Idle, ..Attr::default() });
    let seen = run(&machine("smp-1"), "v4.5", load);
    let part = seen.cpu_ns(b) * 1027 * 100 / (seen.cpu_ns(a) + seen.cpu_ns(b)) / 3;
    assert!((80..=120).contains(&part), "{part} per cent of its share");
}

/// A hog and a task that sleeps long, on one CPU of eight; returns the sleeper's delays and the reasons that ended the
/// hog's stays.
fn hog_and_sleeper(
    kernel_text: &str,
    hog_attr: Attr,
    sleeper_attr: Attr,
    run: u64,
    sleep: u64,
) -> (Run, TaskId, TaskId) {
    let mut load = Load::lasting_ms(1_000);
    let hog = load.task("hog", Some("0"), hog());
    let sleeper = load.task("sleeper", Some("0"), forever(vec![run_us(run), sleep_us(sleep)]));
    load.attr(hog, hog_attr);
    load.attr(sleeper, sleeper_attr);
    (crate::support::run(&machine("smp-8"), kernel_text, load), hog, sleeper)
}

fn ends(run: &Run, task: TaskId) -> Vec<SwitchReason> {
    run.events(|e| match e.kind {
        EventKind::Switch { prev, why, .. } if prev == Some(task) => Some(why),
        _ => None,
    })
}

#[test]
fn a_long_sleeper_preempts_a_hog_at_once() {
    for profile in ["v2.6.30", "v3.4", "v4.5", "v6.5"] {
        let (run, hog, sleeper) = hog_and_sleeper(profile, Attr::default(), Attr::default(), 100, 30_000);
        let delays = run.wakeup_delays(sleeper).split_off(1);
        assert!(delays.len() > 25 && delays.iter().all(|d| *d < 10_000), "{profile}: {delays:?}");
        assert!(ends(&run, hog).iter().skip(1).all(|why| *why == SwitchReason::WakeupPreempt));
    }
}

#[test]
fn batch_never_preempts_but_a_batch_hog_is_preempted_like_others() {
    let batch = Attr { policy: Policy::Batch, ..Attr::default() };
    let (run, hog, sleeper) = hog_and_sleeper("v4.5", Attr::default(), batch, 100, 30_000);
    let delays = run.wakeup_delays(sleeper);
    assert!(ends(&run, hog).iter().all(|w| [SwitchReason::TickSlice, SwitchReason::TickBehind].contains(w)));
    assert!(delays.iter().any(|d| *d > MS) && delays.iter().all(|d| *d < 16 * MS + MS / 10), "{delays:?}");
    let (run, _, sleeper) = hog_and_sleeper("v4.5", batch, Attr::default(), 100, 30_000);
    assert!(run.wakeup_delays(sleeper).iter().skip(1).all(|d| *d < 10_000));
}

#[test]
fn without_wakeup_preemption_the_tick_decides() {
    let on = hog_and_sleeper("v4.5", Attr::default(), Attr::default(), 100, 30_000);
    let off = hog_and_sleeper("v4.5 NO_WAKEUP_PREEMPTION", Attr::default(), Attr::default(), 100, 30_000);
    assert!(ends(&on.0, on.1).contains(&SwitchReason::WakeupPreempt));
    assert!(!ends(&off.0, off.1).contains(&SwitchReason::WakeupPreempt));
    let (a, b): (u64, u64) = (on.0.wakeup_delays(on.2).iter().sum(), off.0.wakeup_delays(off.2).iter().sum());
    assert!(b > 10 * a, "{a} and {b} ns");
}

#[test]
fn an_idle_policy_task_gives_way_however_little_the_wakee_slept() {
    let idle = Attr { policy: Policy::Idle, ..Attr::default() };
    let (run, _, wakee) = hog_and_sleeper("v4.5", idle, Attr::default(), 500, 10);
    let delays = run.wakeup_delays(wakee).split_off(1);
    assert!(delays.len() > 1_000 && delays.iter().all(|d| *d < 10_000), "{:?}", delays.iter().max());
    let (run, _, wakee) = hog_and_sleeper("v4.5", Attr::default(), Attr::default(), 500, 10);
    let waits = run.wakeup_delays(wakee).iter().filter(|d| **d > MS).count();
    assert!(waits > 20, "against a normal hog its short sleeps earn nothing: {waits} long waits");
}

#[test]
fn a_task_just_woken_is_not_preempted_by_the_next_wakee() {
    // Both have slept through the hog's 90 ms and get the same credit, so neither is behind the other.
    let mut load = Load::lasting_ms(200);
    load.task("hog", Some("0"), once(vec![run_us(90_000)]));
    let wake_at = |us: u64, work: u64| once(vec![Op::SleepTo { at: Ns::us(us) }, run_us(work)]);
    let first = load.task("first", Some("0"), wake_at(100_000, 10_000));
    let second = load.task("second", Some("0"), wake_at(100_500, 1_000));
    let seen = run(&machine("smp-8"), "v4.5", load);
    let delay = seen.wakeup_delays(second)[1];
    assert!((9 * MS..10 * MS).contains(&delay), "it waits until the first is done: {delay}");
    assert_eq!(ends(&seen, first).last(), Some(&SwitchReason::Exited));
}

#[test]
fn gentle_sleepers_have_half_the_credit() {
    // The sleeper starts 12 or 24 ms to the left and keeps the CPU until a tick after it has caught up.
    let first_stay = |kernel_text: &str| {
        let mut load = Load::lasting_ms(400);
        load.task("hog", Some("0"), hog());
        let sleeper = load.task("sleeper", Some("0"), once(vec![sleep_us(200_000), run_us(190_000)]));
        let stays = run(&machine("smp-8"), kernel_text, load).stays(sleeper);
        let (from, to) = stays.into_iter().find(|(from, _)| *from > 150 * MS).expect("it ran");
        to - from
    };
    // Before 3.15 a second pick at 16 ms starts a new slice; since then every tick tests again.
    for (profile, most) in [("v3.4", 32), ("v4.5", 28), ("v6.5", 28)] {
        let (gentle, whole) =
            (first_stay(profile), first_stay(&format!("{profile} NO_GENTLE_FAIR_SLEEPERS")));
        assert!((12 * MS..17 * MS).contains(&gentle), "{profile}: {gentle}");
        assert!((24 * MS..most * MS).contains(&whole) && whole > (most - 1) * MS, "{profile}: {whole}");
    }
}

/// Mean stay of a task that yields every 100 us next to a hog, us.
fn stays_of_a_yielder(kernel: schedlab_kernel::Kernel, policy: Policy) -> u64 {
    let mut load = Load::lasting_ms(1_000);
    load.task("hog", Some("0"), hog());
    let yielder = load.task("yielder", Some("0"), forever(vec![run_us(100), Op::Yield]));
    load.attr(yielder, Attr { policy, ..Attr::default() });
    let stays = run_seeded(&machine("smp-2"), kernel, 1, load).stays(yielder);
    stays.iter().map(|(from, to)| to - from).sum::<u64>() / stays.len() as u64 / 1_000
}

#[test]
fn early_yields_only_look_for_a_task_further_left() {
    for profile in ["v2.6.27", "v2.6.30"] {
        let plain = stays_of_a_yielder(kernel(profile), Policy::Other);
        assert!(plain > 4_000, "{profile}: picked again until the hog is to the left: {plain} us");
        let batch = stays_of_a_yielder(kernel(profile), Policy::Batch);
        let mut compat = kernel(profile);
        compat.tunables.compat_yield = 1;
        let compat = stays_of_a_yielder(compat, Policy::Other);
        assert!(batch < 150 && compat < 150, "{profile}: behind the hog at once: {batch}, {compat} us");
    }
}

#[test]
fn a_new_task_starts_a_slice_to_the_right() {
    // With START_DEBIT a child on its parent's CPU waits until the parent has used up the child's debit.
    let first_wait = |kernel_text: &str| {
        let mut load = Load::lasting_ms(100);
        let child = load.builder.next_task();
        let parent = TaskId(child.0 + 1);
        load.task("child", Some("0"), hog());
        load.builder.edit(child).spawned_by = Some(parent);
        load.task("parent", Some("0"), once(vec![run_us(5_000), Op::Spawn { task: child }, run_us(90_000)]));
        run(&machine("smp-8"), kernel_text, load).wakeup_delays(child)[0]
    };
    let (debit, none) = (first_wait("v4.5"), first_wait("v4.5 NO_START_DEBIT"));
    assert!(debit >= none && debit > 10 * MS, "{debit} and {none}");
}
