//! Determinism is a contract: same version, workload, variant and seed give the same events, on any thread.

use crate::support::{Load, forever, kernel, machine, run_us, simulated, sleep_us};
use schedlab_base::{Ns, TaskId};
use schedlab_kernel::Kernel;
use schedlab_sim::{Setup, SimReport, simulate};
use schedlab_trace::{Event, Sink};
use schedlab_workload::{Params, Spec};
use std::fmt::Write;
use std::sync::atomic::AtomicU64;

/// Folds all events and samples into one number.
struct Digest {
    hash: u64,
    events: u64,
    text: String,
}

impl Digest {
    fn new() -> Digest {
        Digest { hash: 0xcbf2_9ce4_8422_2325, events: 0, text: String::new() }
    }
    fn take(&mut self, seen: &impl std::fmt::Debug) {
        self.text.clear();
        write!(self.text, "{seen:?}").expect("a string takes all");
        for byte in self.text.bytes() {
            self.hash = (self.hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3);
        }
        self.events += 1;
    }
}

impl Sink for Digest {
    fn event(&mut self, event: &Event) {
        self.take(event);
    }
    fn sample(&mut self, at: Ns, task: TaskId, series: u16, value: u64) {
        self.take(&(at, task, series, value));
    }
}

/// schbench with the machine's background on a two-socket machine.
fn schbench(kernel: Kernel, seed: u64) -> (u64, u64, SimReport) {
    let times = [("runtime", 150_000_000), ("sleeptime", 5_000_000), ("cputime", 3_000_000)];
    let params = times.into_iter().chain([("message_threads", 2), ("threads", 60)]);
    let params = Params(params.map(|(name, value)| (name.to_owned(), value)).collect());
    let workload = Spec::bench("schbench", &params).and_then(|s| s.build(seed)).expect("schbench");
    let machine = machine("fb-2x12-smt");
    let mut digest = Digest::new();
    let watched = AtomicU64::new(0);
    let setup = Setup {
        machine: &machine,
        kernel,
        changes: Vec::new(),
        workload,
        seed,
        background: true,
        check: false,
        stop: None,
        clock: Some(&watched),
    };
    let report = simulate(setup, &mut digest).expect("the run ends well");
    assert!(digest.events > 3_000, "{} events are no test", digest.events);
    let seen = watched.into_inner();
    assert!((1..150_000_000).contains(&seen), "the watcher was last told {seen} ns");
    (digest.hash, digest.events, report)
}

#[test]
fn the_same_seed_gives_the_same_events_and_report() {
    for profile in ["v3.4", "v4.5", "v4.5 SIS_FIRST_IDLE", "v6.5"] {
        assert_eq!(schbench(kernel(profile), 7), schbench(kernel(profile), 7), "{profile}");
    }
}

#[test]
fn another_seed_gives_other_events() {
    for profile in ["v3.4", "v4.5", "v6.5"] {
        assert_ne!(schbench(kernel(profile), 7).0, schbench(kernel(profile), 8).0, "{profile}");
    }
}

#[test]
fn a_changed_kernel_changes_the_events() {
    let of = |k| schbench(kernel(k), 7).0;
    let mut all =
        ["v3.4", "v4.5", "v6.5", "v4.5 SIS_FIRST_IDLE", "v4.5 NO_WAKEUP_PREEMPTION"].map(of).to_vec();
    all.sort_unstable();
    all.dedup();
    assert_eq!(all.len(), 5);
}

#[test]
fn threads_do_not_matter() {
    let alone: Vec<u64> = (0..6).map(|seed| schbench(kernel("v4.5"), seed).0).collect();
    let together: Vec<u64> = std::thread::scope(|s| {
        let runs: Vec<_> = (0..6).map(|seed| s.spawn(move || schbench(kernel("v4.5"), seed).0)).collect();
        runs.into_iter().map(|r| r.join().expect("no panic")).collect()
    });
    assert_eq!(alone, together);
}

/// Eight pinned tasks with equal acts at equal times: the seed decides only their ties.
#[test]
fn only_the_seed_decides_ties() {
    let machine = machine("smp-8");
    let order = |seed| {
        let mut load = Load::lasting_ms(20);
        for cpu in 0..8 {
            load.task("t", Some(&cpu.to_string()), forever(vec![run_us(100), sleep_us(900)]));
        }
        let mut digest = Digest::new();
        simulated(&machine, kernel("v4.5"), seed, load.built(), &mut digest).expect("the run ends well");
        digest.hash
    };
    let orders: Vec<u64> = (0..4).map(order).collect();
    assert_eq!(orders, (0..4).map(order).collect::<Vec<_>>());
    assert!(orders.iter().any(|o| *o != orders[0]), "four seeds, one order of ties");
}
