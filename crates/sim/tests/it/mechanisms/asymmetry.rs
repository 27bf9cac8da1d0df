//! Machines whose CPUs differ in capacity: speed, misfits, the search for an idle CPU.

use crate::support::{Load, Run, forever, hog, machine, once, run, run_us, sleep_us};
use schedlab_base::TaskId;
use schedlab_machine::topology::FULL_CAPACITY;
use schedlab_machine::{Machine, Topology};
use schedlab_trace::{EventKind, MoveReason, PlaceReason};

const MS: u64 = 1_000_000;

/// Four CPUs of 446 and two of 1024, in two caches or in one.
fn phone(one_cache: bool) -> Machine {
    let mut machine = machine("smp-6");
    let cpus = machine.topology.cpus.clone();
    let llc = |c: usize| if one_cache { 0 } else { u32::from(c > 3) };
    let cpus = cpus.into_iter().enumerate().map(|(c, cpu)| schedlab_machine::Cpu { llc: llc(c), ..cpu });
    machine.topology = Topology::plain(cpus.collect(), machine.topology.node_distance.clone());
    machine.topology.capacity = (0..6).map(|c| if c < 4 { 446 } else { FULL_CAPACITY }).collect();
    machine.topology.check().expect("a topology");
    machine
}

/// CPU time on each kind of CPU, ns: slow, fast.
fn time_by_kind(seen: &Run, task: TaskId) -> (u64, u64) {
    let (mut by, mut since, mut on) = ((0, 0), 0, None);
    for e in seen.events(|e| match e.kind {
        EventKind::Switch { prev, next, .. } if prev == Some(task) || next == Some(task) => {
            Some((e.at.0, e.cpu.0, next == Some(task)))
        }
        _ => None,
    }) {
        let (at, cpu, comes) = e;
        if comes {
            (since, on) = (at, Some(cpu));
        } else if let Some(cpu) = on.take() {
            *(if cpu < 4 { &mut by.0 } else { &mut by.1 }) += at - since;
        }
    }
    by
}

#[test]
fn work_takes_longer_on_a_cpu_of_less_capacity() {
    for kernel in ["v4.5", "v6.12"] {
        let took = |cpu: &str| {
            let mut load = Load::lasting_ms(200);
            let task = load.task("t", Some(cpu), once(vec![run_us(20_000)]));
            let seen = run(&phone(false), kernel, load);
            seen.cpu_ns(task)
        };
        let (slow, fast) = (took("0"), took("4"));
        assert!((20 * MS..21 * MS).contains(&fast), "{kernel}: {fast}");
        assert!((45 * MS..48 * MS).contains(&slow), "{kernel}: 20 ms * 1024 / 446 and little more: {slow}");
    }
}

/// When a hog that starts on a slow CPU and may run anywhere comes to a fast one, and why.
fn upmigration(machine: &Machine, kernel: &str) -> Option<(u64, MoveReason)> {
    let mut load = Load::lasting_ms(1_000);
    let everywhere = load.builder.mask(crate::support::cpus("0-5"));
    let ops = vec![
        run_us(1_000),
        schedlab_workload::Op::SetAffinity { mask: everywhere },
        schedlab_workload::Op::Run { work: schedlab_base::Ns::secs(100) },
    ];
    let task = load.task("hog", Some("0"), once(ops));
    let seen = run(machine, kernel, load);
    let to_fast = |e: &schedlab_trace::Event| match e.kind {
        EventKind::Migrate { task: t, why, .. } if t == task && e.cpu.0 > 3 => Some((e.at.0, why)),
        _ => None,
    };
    seen.events(to_fast).first().copied()
}

#[test]
fn a_task_too_large_for_a_slow_cpu_is_pushed_to_a_fast_one_since_4_20() {
    for one_cache in [false, true] {
        let machine = phone(one_cache);
        for kernel in ["v5.4", "v5.10", "v6.1", "v6.12", "v7.3"] {
            let moved = upmigration(&machine, kernel);
            let Some((at, MoveReason::Active)) = moved else { panic!("{kernel} {one_cache}: {moved:?}") };
            assert!(at < 300 * MS, "{kernel} {one_cache}: {at}");
        }
    }
    assert_eq!(upmigration(&phone(true), "v4.19"), None, "4.19 leaves it there");
}

#[test]
fn a_small_task_stays_on_a_slow_cpu() {
    for kernel in ["v6.1", "v7.3"] {
        let mut load = Load::lasting_ms(1_000);
        let task = load.task("small", None, forever(vec![run_us(500), sleep_us(4_500)]));
        let seen = run(&phone(false), kernel, load);
        let (slow, fast) = time_by_kind(&seen, task);
        assert!(slow > 0 && fast < slow / 4, "{kernel}: {slow} {fast}");
    }
}

#[test]
fn a_wakeup_looks_for_an_idle_cpu_that_the_task_fits_since_5_7() {
    for kernel in ["v5.10", "v6.1", "v6.12", "v7.3"] {
        let mut load = Load::lasting_ms(1_000);
        // Half of a fastest CPU: it fits no slow one.
        let task = load.task("large", None, forever(vec![run_us(10_000), sleep_us(10_000)]));
        let seen = run(&phone(false), kernel, load);
        let (slow, fast) = time_by_kind(&seen, task);
        assert!(fast > 5 * slow, "{kernel}: {slow} {fast}");
    }
    let mut load = Load::lasting_ms(1_000);
    // If its fast CPUs are taken, the search finds another one, or the fastest idle one.
    for cpu in ["4", "5"] {
        load.task("hog", Some(cpu), hog());
    }
    let task = load.task("large", None, forever(vec![run_us(10_000), sleep_us(10_000)]));
    let seen = run(&phone(false), "v6.12", load);
    let by = |wanted: PlaceReason| {
        seen.events(|e| match e.kind {
            EventKind::Placed { task: t, reason, .. } if t == task && reason == wanted => Some(()),
            _ => None,
        })
        .len()
    };
    assert!(by(PlaceReason::IdleFastest) > 5, "{}", by(PlaceReason::IdleFastest));
}

#[test]
fn idle_slow_cpus_take_no_task_from_fast_ones_that_have_one_each() {
    for kernel in ["v5.10", "v6.1", "v6.12", "v7.3"] {
        let mut load = Load::lasting_ms(2_000);
        let hogs: Vec<TaskId> = (0..2).map(|_| load.task("hog", None, hog())).collect();
        let seen = run(&phone(false), kernel, load);
        for hog in hogs.iter().copied() {
            let late = |e: &schedlab_trace::Event| match e.kind {
                EventKind::Migrate { task, .. } if task == hog && e.at.0 > 500 * MS => Some(e.cpu.0),
                _ => None,
            };
            assert_eq!(seen.events(late), [0u32; 0], "{kernel}");
        }
        let fast = seen.events(|e| match e.kind {
            EventKind::Switch { next: Some(task), .. } if hogs.contains(&task) => Some((task, e.cpu.0 > 3)),
            _ => None,
        });
        let ended = |hog: &TaskId| fast.iter().rfind(|(task, _)| task == hog).is_some_and(|(_, fast)| *fast);
        assert!(hogs.iter().all(ended), "{kernel}: {fast:?}");
    }
}
