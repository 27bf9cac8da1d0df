//! The engine on the running kernel, with programs written for these tests.

use crate::single::steps;
use schedlab_base::testing::{in_time, skipped, stretch};
use schedlab_base::{CpuId, CpuSet, Error, ErrorKind, Ns, TaskId};
use schedlab_kernel::{Attr, Policy};
use schedlab_native::engine::{Measured, run_built};
use schedlab_workload::{Builder, Op, Outcome, Program, WordId};
use std::os::fd::AsFd;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::SeqCst;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

/// A program that makes the given operations and then leaves; it notes each outcome.
fn list(ops: Vec<Op>, seen: &Arc<Mutex<Vec<Outcome>>>) -> Box<dyn Program> {
    let (mut at, seen) = (0, seen.clone());
    steps(move |env| {
        if at > 0 {
            seen.lock().unwrap().push(env.outcome());
        }
        at += 1;
        ops.get(at - 1).copied().unwrap_or(Op::Exit)
    })
}

fn builder(duration: Ns) -> Builder {
    let mut b = Builder::new(1);
    b.lasts(duration, Ns::ZERO);
    b
}

fn run(b: Builder) -> Result<Measured, Error> {
    run_built(b.finish().unwrap(), None)
}

/// Runs one task with these operations in a workload with `words` words.
fn outcomes(ops: Vec<Op>, words: usize) -> Vec<Outcome> {
    let (mut b, seen) = (builder(Ns::secs(20)), Arc::<Mutex<Vec<Outcome>>>::default());
    for _ in 0..words {
        b.word();
    }
    b.task("list", list(ops, &seen)).unwrap();
    run(b).unwrap();
    std::mem::take(&mut seen.lock().unwrap())
}

pub fn a_wait_ends_by_time_out_or_does_not_begin() {
    let word = WordId(0);
    let wait = |value, until| Op::Wait { word, value, until };
    let seen = outcomes(vec![wait(0, Ns::ms(5)), wait(1, Ns::MAX), wait(0, Ns::ZERO)], 1);
    assert_eq!(seen, [Outcome::TimedOut, Outcome::WouldNotWait, Outcome::TimedOut]);
}

pub fn a_wake_counts_whom_it_woke() {
    let (mut b, seen) = (builder(Ns::secs(20)), Arc::default());
    let word = b.word();
    for i in 0..4 {
        let mut calls = 0;
        let sleeper = steps(move |_| {
            calls += 1;
            if calls == 1 { Op::Wait { word, value: 0, until: Ns::MAX } } else { Op::Exit }
        });
        b.task(format!("sleeper-{i}"), sleeper).unwrap();
    }
    let nap = Op::Sleep { length: Ns::ms(100 * stretch()) };
    let wake = |count| Op::Wake { word, count };
    b.task("waker", list(vec![nap, wake(3), wake(9), wake(1)], &seen)).unwrap();
    let m = run(b).unwrap();
    let counts = [Outcome::Done, Outcome::Count(3), Outcome::Count(1), Outcome::Count(0)];
    assert_eq!(*seen.lock().unwrap(), counts);
    assert!(m.own.duration < Ns::secs(10) && !m.stopped, "all left early: {}", m.own.duration);
}

pub fn computing_takes_cpu_time_and_sleeping_takes_wall_time() {
    let (mut b, times) = (builder(Ns::secs(20)), Arc::new(Mutex::new(Vec::new())));
    let noted = times.clone();
    let mut at = 0;
    let ops = [
        Op::Run { work: Ns::ms(30) },
        Op::Sleep { length: Ns::ms(20) },
        Op::SleepTo { at: Ns::ms(1) },
        Op::SpinTo { at: Ns::ms(90) },
        Op::Yield,
        Op::Exit,
    ];
    let program = steps(move |env| {
        noted.lock().unwrap().push(env.now());
        at += 1;
        ops[at - 1]
    });
    b.task("timed", program).unwrap();
    let m = run(b).unwrap();
    let t = times.lock().unwrap().clone();
    assert!(t[1].since(t[0]) >= Ns::ms(30), "30 ms of computing: {t:?}");
    assert!(t[2].since(t[1]) >= Ns::ms(20), "20 ms of sleep: {t:?}");
    assert!(t[4] >= Ns::ms(90), "spun to 90 ms: {t:?}");
    let cpu = m.own.counters["cpu_time"];
    let spun = t[4].since(t[3]).0;
    assert!(cpu >= 30_000_000 && cpu <= 36_000_000 + spun, "30 ms and at most {spun} ns of spinning: {cpu}");
    assert!(m.own.counters["switches.voluntary"] >= 1, "{:?}", m.own.counters);
}

/// A field of /proc/thread-self/status or sched.
fn own(file: &str, key: &str) -> String {
    let text = std::fs::read_to_string(format!("/proc/thread-self/{file}")).unwrap();
    let line = text.lines().find(|l| l.starts_with(key)).unwrap();
    line.rsplit(':').next().unwrap().trim().to_owned()
}

pub fn attributes_names_and_cpus_are_the_kernels() {
    let (mut b, seen) = (builder(Ns::secs(20)), Arc::new(Mutex::new(Vec::new())));
    let mask = b.mask(CpuSet::from_iter([CpuId(0)]));
    let look = |seen: &Arc<Mutex<Vec<String>>>, who: &str| {
        let stat = std::fs::read_to_string("/proc/thread-self/stat").unwrap();
        let fields: Vec<&str> = stat.rsplit(')').next().unwrap().split_whitespace().collect();
        let (nice, policy) = (fields[16], fields[38]);
        let (name, cpus) = (own("status", "Name"), own("status", "Cpus_allowed_list"));
        seen.lock().unwrap().push(format!("{who} {name} policy {policy} nice {nice} cpus {cpus}"));
    };
    let (mut at, noted) = (0, seen.clone());
    let attr = Attr { policy: Policy::Batch, nice: 5, ..Attr::default() };
    let child = schedlab_base::TaskId(1);
    let parent = b
        .task(
            "a-name-of-more-than-15",
            steps(move |_| {
                at += 1;
                match at {
                    1 => Op::SetAttr { attr },
                    2 => Op::SetAffinity { mask },
                    3 => Op::Spawn { task: child },
                    _ => {
                        look(&noted, "parent");
                        Op::Exit
                    }
                }
            }),
        )
        .unwrap();
    let noted = seen.clone();
    let task = steps(move |_| {
        look(&noted, "child");
        Op::Exit
    });
    b.task("child", task).unwrap();
    b.edit(child).spawned_by = Some(parent);
    b.edit(child).attr = Attr { policy: Policy::Idle, nice: 5, ..Attr::default() };
    run(b).unwrap();
    let mut seen = seen.lock().unwrap().clone();
    seen.sort();
    let all = own("status", "Cpus_allowed_list");
    let child = format!("child child policy 5 nice 5 cpus {all}");
    let parent = "parent a-name-of-more- policy 3 nice 5 cpus 0";
    assert_eq!(seen, [child.as_str(), parent], "a child has its own attributes and CPUs");
}

pub fn cpus_that_are_not_there_are_named() {
    let mut b = builder(Ns::ms(10));
    let task = b.task("far", steps(|_| Op::Exit)).unwrap();
    b.edit(task).affinity = Some(CpuSet::from_iter([CpuId(4000)]));
    let e = run(b).unwrap_err();
    assert_eq!(e.kind(), ErrorKind::Machine);
    assert!(e.message().contains("'far'") && e.message().contains("4000"), "{e}");
}

pub fn a_failing_task_ends_the_run_and_is_named() {
    let mut b = builder(Ns::secs(20));
    let attr = Attr { policy: Policy::Fifo, ..Attr::default() };
    b.task("sleeper", steps(|_| Op::Sleep { length: Ns::secs(9) })).unwrap();
    b.task("wrong", steps(move |_| Op::SetAttr { attr })).unwrap();
    let begun = Instant::now();
    let e = run(b).unwrap_err();
    assert!(e.message().contains("task 'wrong'") && e.message().contains("SCHED_FIFO"), "{e}");
    assert!(begun.elapsed().as_secs() < 5);
}

pub fn the_end_reaches_tasks_in_every_kind_of_sleep() {
    in_time(all_end);
}

fn all_end(factor: u64) -> Result<(), String> {
    let mut b = builder(Ns::ms(50));
    let word = b.word();
    let forever = [
        Op::Wait { word, value: 0, until: Ns::MAX },
        Op::Wait { word, value: 0, until: Ns::secs(3000) },
        Op::Sleep { length: Ns::secs(3000) },
        Op::SleepTo { at: Ns::secs(3000) },
        Op::SpinTo { at: Ns::secs(3000) },
        Op::Run { work: Ns::secs(3000) },
        Op::Yield,
    ];
    let after = Arc::new(AtomicU64::new(0));
    for op in forever {
        let (after, mut calls) = (after.clone(), 0);
        let program = steps(move |_| {
            calls += 1;
            if calls > 1 && op != Op::Yield {
                after.fetch_add(1, SeqCst);
            }
            op
        });
        b.task("forever", program).unwrap();
    }
    let begun = Instant::now();
    let m = run(b).unwrap();
    let (took, lasted) = (begun.elapsed(), m.own.duration);
    assert!(lasted >= Ns::ms(50), "{lasted}");
    assert_eq!(after.load(SeqCst), 0, "a nudge must not look like a wakeup");
    let soon = took < Duration::from_millis(500 * factor) && lasted < Ns::ms(300 * factor);
    if soon { Ok(()) } else { Err(format!("{took:?} {lasted}")) }
}

pub fn a_stop_ends_a_run_with_what_it_has() {
    in_time(stopped_run);
}

fn stopped_run(factor: u64) -> Result<(), String> {
    let mut b = builder(Ns::secs(60));
    let series = b.series("ticks", "ns", "neither");
    let program = steps(move |env| {
        let now = env.now();
        env.record(series, now.0);
        Op::Sleep { length: Ns::ms(1) }
    });
    b.task("ticker", program).unwrap();
    let (reader, writer) = std::io::pipe().unwrap();
    let begun = Instant::now();
    // Before its tasks begin, the controller sleeps for a quarter of a second.
    let stopper = std::thread::spawn(move || {
        std::thread::sleep(Duration::from_millis(500 * factor));
        drop(writer);
    });
    let m = run_built(b.finish().unwrap(), Some(reader.as_fd())).unwrap();
    stopper.join().unwrap();
    let (took, ticks) = (begun.elapsed(), m.own.series["ticks"].count());
    assert!(m.stopped);
    let soon = took < Duration::from_millis(1200 * factor) && (10..=250 * factor).contains(&ticks);
    if soon { Ok(()) } else { Err(format!("{took:?}, {ticks} ticks")) }
}

pub fn nothing_of_the_warm_up_is_measured() {
    in_time(warmed_up);
}

fn warmed_up(factor: u64) -> Result<(), String> {
    let mut b = builder(Ns::ZERO);
    let length = Ns::ms(150 * factor);
    b.lasts(length, length);
    let series = b.series("at", "ns", "neither");
    let program = steps(move |env| {
        let now = env.now();
        env.record(series, now.0);
        Op::SpinTo { at: now.plus(Ns::ms(1)) }
    });
    b.task("spinner", program).unwrap();
    let m = run(b).unwrap();
    let at = &m.own.series["at"];
    assert!(at.min().is_none_or(|first| first >= length.0), "{:?}", at.min());
    // CPU time of the warm-up would double the measured time.
    let (lasted, cpu_time) = (m.own.duration, m.own.counters["cpu_time"]);
    assert!(lasted.plus(Ns::ms(10)) >= length && cpu_time < lasted.0 + Ns::ms(50).0, "{lasted} {cpu_time}");
    // A round takes a millisecond of CPU time, or less if something else runs at the same time.
    let rounds = at.count();
    let enough = rounds > 20 || factor > 1 && rounds > 0 && (rounds + 1) * Ns::ms(2).0 > cpu_time;
    let soon = lasted <= Ns::ms(400 * factor);
    if soon && enough { Ok(()) } else { Err(format!("{lasted}, {rounds} rounds in {cpu_time} ns")) }
}

pub fn a_workload_that_is_cut_off_before_its_end_warns() {
    for (busy, told) in [(Ns::ms(1), false), (Ns::secs(60), true)] {
        let mut b = builder(Ns::ZERO);
        b.ends_within(Ns::ms(100));
        let mut asleep = false;
        let program = steps(move |env| match std::mem::replace(&mut asleep, true) {
            false => Op::SleepTo { at: env.now().plus(busy) },
            true => Op::Exit,
        });
        b.task("t", program).unwrap();
        let m = run(b).unwrap();
        assert_eq!(m.own.warnings.iter().any(|w| w.code == "run.cut_off"), told, "{:?}", m.own.warnings);
    }
}

/// A ring of tasks that pass a token by futexes: one lost wakeup stops it. Returns how long before the end of the run
/// the last hop was, too.
fn ring(tasks: u64, rounds: u64) -> (Measured, Ns) {
    let mut b = builder(Ns::secs(20));
    let began = Instant::now();
    let last = Arc::new(AtomicU64::new(0));
    let words: Vec<WordId> = (0..tasks).map(|_| b.word()).collect();
    let hops = b.series("hops", "", "higher");
    for i in 0..tasks {
        let (mine, next) = (words[i as usize], words[((i + 1) % tasks) as usize]);
        let (mut round, mut begun, last) = (0, i != 0, Arc::clone(&last));
        b.task(
            format!("ring-{i}"),
            steps(move |env| {
                if !begun {
                    begun = true;
                    env.word(mine).store(1, SeqCst);
                }
                if round == rounds {
                    return Op::Exit;
                }
                if env.word(mine).compare_exchange(1, 0, SeqCst, SeqCst).is_err() {
                    return Op::Wait { word: mine, value: 0, until: Ns::MAX };
                }
                round += 1;
                env.record(hops, round);
                last.store(began.elapsed().as_nanos() as u64, SeqCst);
                env.word(next).store(1, SeqCst);
                Op::Wake { word: next, count: 1 }
            }),
        )
        .unwrap();
    }
    let measured = run(b).unwrap();
    let still = began.elapsed().as_nanos() as u64 - last.load(SeqCst);
    (measured, Ns(still))
}

pub fn no_wakeup_is_lost_in_rings_small_and_large() {
    for (tasks, rounds) in [(2, 5_000), (64, 100), (500, 10)] {
        let (m, still) = ring(tasks, rounds);
        let hops = m.own.series["hops"].count();
        // At nice 19 next to other work, a ring is slow and its time ends before its rounds; but it moves until then.
        assert!(
            hops == tasks * rounds || still < Ns::secs(8),
            "{tasks} tasks: {hops} hops, none for {still}"
        );
    }
}

pub fn ten_thousand_tasks_start_and_end() {
    // Long enough for the last task to sleep once, even on a busy machine.
    let mut b = builder(Ns::secs(2));
    let word = b.word();
    for i in 0..10_000 {
        let sleeper = steps(move |_| Op::Wait { word, value: 0, until: Ns::MAX });
        b.task(format!("sleeper-{i}"), sleeper).unwrap();
    }
    let m = match run(b) {
        Ok(m) => m,
        // A container may allow fewer threads; then the error must name the limit.
        Err(e) => return assert!(e.to_string().contains("RLIMIT_NPROC"), "{e}"),
    };
    assert!(m.own.duration < Ns::secs(8), "{}", m.own.duration);
    assert!(m.own.counters["switches.voluntary"] >= 10_000, "{:?}", m.own.counters);
}

pub fn the_controller_rests_before_tasks_whose_beginning_is_measured() {
    let took = |warmup: Ns| {
        let mut b = builder(Ns::ms(1));
        b.lasts(Ns::ms(1), warmup);
        b.task("brief", list(Vec::new(), &Arc::default())).unwrap();
        let began = Instant::now();
        run(b).unwrap();
        Ns(began.elapsed().as_nanos() as u64)
    };
    assert!(took(Ns::ZERO) >= Ns::ms(16 * 16));
    // At least one of five is not delayed by other tests.
    let soonest = (0..5).map(|_| took(Ns::ms(1))).min();
    if soonest >= Some(Ns::ms(16 * 16)) && stretch() > 1 {
        return skipped("a quarter of a CPU");
    }
    assert!(soonest < Some(Ns::ms(16 * 16)), "{soonest:?}");
}

pub fn a_panicking_program_is_named() {
    let mut b = builder(Ns::secs(20));
    b.task("broken", steps(|_| panic!("on purpose"))).unwrap();
    let e = run(b).unwrap_err();
    assert!(e.kind() == ErrorKind::Internal && e.message().contains("'broken'"), "{e}");
}

pub fn a_task_can_be_spawned_once() {
    let mut b = builder(Ns::secs(20));
    let child = schedlab_base::TaskId(1);
    let parent = b.task("parent", steps(move |_| Op::Spawn { task: child })).unwrap();
    b.task("child", steps(|_| Op::Exit)).unwrap();
    b.edit(child).spawned_by = Some(parent);
    let e = run(b).unwrap_err();
    assert!(e.message().contains("started before"), "{e}");
}

/// Four tasks that spin on all CPUs.
fn spinning(length: Ns) -> Measured {
    let mut b = builder(length);
    for i in 0..4 {
        b.task(format!("hog/{i}"), steps(|_| Op::Run { work: Ns::secs(3600) })).unwrap();
    }
    run(b).unwrap()
}

/// The time that interrupts and the host took from all CPUs so far, ns: a stay has it, a task's CPU time does not.
fn taken_ns() -> u64 {
    let stat = std::fs::read_to_string("/proc/stat").unwrap();
    let fields = stat.lines().next().unwrap().split_whitespace();
    fields.skip(6).take(3).map(|ticks| ticks.parse::<u64>().unwrap() * 10_000_000).sum()
}

pub fn the_mean_stay_of_spinning_tasks_is_their_time_over_their_switches() {
    let before_ns = taken_ns();
    let m = spinning(Ns::secs(2));
    let taken_ns = (taken_ns() - before_ns) as f64;
    if let Some(why) = m.found.unmeasured.get("slice") {
        return assert!(why.contains("can't be recorded"), "{why}");
    }
    let slices = &m.found.seen.series["slice"];
    let switches = m.own.counters["switches.voluntary"] + m.own.counters["switches.involuntary"];
    // The end cuts off each task's last stay; its waits for other tests while it leaves are counted only by the task
    // itself.
    let near = |a: u64, b: u64| a.abs_diff(b) <= 12 + b / 10;
    assert!(near(slices.count(), switches), "{} stays, {switches} switches", slices.count());
    let preempted = m.found.seen.counters.get("slice.end.preempted").copied().unwrap_or(0);
    assert!(near(preempted, m.own.counters["switches.involuntary"]), "{:?} {:?}", m.found, m.own.counters);
    let (sum, cpu) = (slices.sum() as f64, m.own.counters["cpu_time"] as f64);
    assert!(sum > 0.85 * cpu, "{sum} of {cpu}: four stays are cut off");
    assert!(sum < 1.05 * cpu + taken_ns, "{sum} of {cpu}, and {taken_ns} were taken from the CPUs");
    assert!(m.found.seen.warnings.is_empty(), "{:?}", m.found.seen.warnings);
}

pub fn tasks_that_switch_too_often_are_not_recorded_with_a_reason() {
    let mut b = builder(Ns::secs(1));
    let mask = b.mask(std::iter::once(CpuId(0)).collect());
    for i in 0..2 {
        let mut pinned = false;
        let task =
            steps(
                move |_| {
                    if std::mem::replace(&mut pinned, true) { Op::Yield } else { Op::SetAffinity { mask } }
                },
            );
        b.task(format!("t/{i}"), task).unwrap();
    }
    let m = run(b).unwrap();
    let per_s = (m.own.counters["switches.involuntary"] + m.own.counters["switches.voluntary"]) as f64
        / (m.own.duration.0 as f64 / 1e9);
    match m.found.unmeasured.get("slice") {
        Some(why) => assert!(why.contains("context switches"), "{why}"),
        None => assert!(per_s < 25_000.0, "{per_s} switches a second were recorded"),
    }
}

pub fn tasks_spin_for_a_lock_and_one_holds_it() {
    let mut b = builder(Ns::ms(200));
    let (lock, holders) = (b.word(), b.slot());
    let turns = b.series("turns", "", "higher");
    for n in 0..4 {
        let mut stage = 0;
        let program = steps(move |env| {
            stage += 1;
            match stage {
                1 => Op::SpinLock { word: lock },
                2 => {
                    assert_eq!(env.slot(holders).fetch_add(1, SeqCst), 0, "held by one");
                    Op::SpinTo { at: env.now().plus(Ns::us(20)) }
                }
                _ => {
                    env.slot(holders).fetch_sub(1, SeqCst);
                    env.record(turns, 1);
                    stage = 0;
                    Op::SpinUnlock { word: lock }
                }
            }
        });
        b.task(format!("t{n}"), program).unwrap();
    }
    let m = run(b).unwrap();
    assert!(m.own.series["turns"].count() > 4, "{}", m.own.series["turns"].count());
    // Each may sleep once at the gate, and for its first pages.
    let sleeps = m.own.counters["switches.voluntary"];
    assert!(
        sleeps < 16 && sleeps * 4 < m.own.series["turns"].count(),
        "nobody sleeps for the lock: {sleeps}"
    );
}

pub fn parallel_parts_end_with_the_workload() {
    let mut b = builder(Ns::ZERO);
    b.ends_within(Ns::secs(60));
    let mut worked = false;
    let ends = steps(move |env| match std::mem::replace(&mut worked, true) {
        false => Op::SpinTo { at: env.now().plus(Ns::ms(30)) },
        true => Op::Exit,
    });
    b.task("ends", ends).unwrap();
    let child = TaskId(2);
    let mut begun = false;
    let hog = steps(move |_| match std::mem::replace(&mut begun, true) {
        false => Op::Spawn { task: child },
        true => Op::Run { work: Ns::ms(1) },
    });
    let beside = b.task("hog", hog).unwrap();
    b.task("short", steps(|_| Op::Exit)).unwrap();
    b.edit(child).spawned_by = Some(beside);
    [beside, child].into_iter().for_each(|task| b.edit(task).part = 1);
    let m = run(b).unwrap();
    assert!(m.own.duration < Ns::secs(30), "{}", m.own.duration);
    assert!(!m.own.warnings.iter().any(|w| w.code == "run.cut_off"), "{:?}", m.own.warnings);
}
