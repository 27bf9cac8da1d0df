//! The re-executed agent: this executable is its own agent, as in schedlab.

use crate::single::steps;
use schedlab_base::testing::{in_time, skipped, stretch};
use schedlab_base::{ErrorKind, Ns, TaskId};
use schedlab_kernel::{AttrChange, Policy};
use schedlab_native::engine::run_built;
use schedlab_native::{Job, execute, run, run_with};
use schedlab_record::Observe;
use schedlab_workload::{Builder, ChannelKind, CommandSpec, Op, Params, Spec};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{
    AtomicBool,
    Ordering::{Relaxed, SeqCst},
};
use std::time::{Duration, Instant};

/// A workload of processes. This program has one thread here, as an agent has.
fn processes(duration: Ns) -> Builder {
    let mut b = Builder::new(1);
    b.lasts(duration, Ns::ZERO);
    b.as_processes();
    b
}

/// A parent spawns a child and plays ping-pong with it; the child reports its process in a cell.
pub fn processes_share_words_and_cells_and_nothing_else() {
    const ROUNDS: u64 = 1000;
    let mut b = processes(Ns::secs(30));
    let (words, who) = ([b.word(), b.word()], [b.slot(), b.slot()]);
    let rounds = b.series("rounds", "", "higher");
    let child = TaskId(1);
    for me in [0, 1] {
        let (mut round, mut begun) = (0, false);
        let program = steps(move |env| {
            if !begun {
                begun = true;
                env.slot(who[me]).store(u64::from(std::process::id()), SeqCst);
                if me == 0 {
                    env.word(words[0]).store(1, SeqCst);
                    return Op::Spawn { task: child };
                }
            }
            if round == ROUNDS {
                let (mine, other) = (env.slot(who[me]).load(SeqCst), env.slot(who[1 - me]).load(SeqCst));
                assert!(mine != other && other != 0, "two processes: {mine} and {other}");
                return Op::Exit;
            }
            if env.word(words[me]).compare_exchange(1, 0, SeqCst, SeqCst).is_err() {
                return Op::Wait { word: words[me], value: 0, until: Ns::MAX };
            }
            round += 1;
            env.record(rounds, round);
            env.word(words[1 - me]).store(1, SeqCst);
            Op::Wake { word: words[1 - me], count: 1 }
        });
        b.task(format!("player-{me}"), program).unwrap();
    }
    b.edit(child).spawned_by = Some(TaskId(0));
    let m = run_built(b.finish().unwrap(), None).unwrap();
    assert_eq!(m.own.series["rounds"].count(), 2 * ROUNDS);
    assert!(m.own.counters["cpu_time"] > 0 && m.own.duration < Ns::secs(20), "{:?}", m.own.counters);
}

/// The calling thread's page faults so far.
fn page_faults() -> u64 {
    let stat = std::fs::read_to_string("/proc/thread-self/stat").unwrap();
    stat.rsplit_once(')').unwrap().1.split_whitespace().nth(7).unwrap().parse().unwrap()
}

/// Pairs that pass tokens have few page faults in their first message, and hardly any later.
pub fn processes_have_their_pages_before_the_start() {
    let mut b = processes(Ns::secs(30));
    let faults = b.series("faults", "", "lower");
    for pair in 0..4 {
        let (there, back) = (b.channel(ChannelKind::Pipe), b.channel(ChannelKind::Pipe));
        for first in [true, false] {
            let (out, input) = if first { (there.1, back.0) } else { (back.1, there.0) };
            let (mut turn, mut before) = (0, 0);
            let program = steps(move |env| {
                turn += 1;
                match turn {
                    1 => before = page_faults(),
                    200 => {
                        env.record(faults, page_faults() - before);
                        return Op::Exit;
                    }
                    _ => {}
                }
                if (turn % 2 == 1) == first {
                    Op::Send { port: out, bytes: 100 }
                } else {
                    Op::Recv { port: input, bytes: 100 }
                }
            });
            b.task(format!("player-{pair}-{first}"), program).unwrap();
        }
    }
    let m = run_built(b.finish().unwrap(), None).unwrap();
    let mean = m.own.series["faults"].mean().unwrap_or_default();
    assert!(m.own.series["faults"].count() == 8 && mean <= 4.0, "{mean} page faults each");
}

pub fn processes_end_when_the_run_does() {
    in_time(ended_processes);
}

fn ended_processes(factor: u64) -> Result<(), String> {
    let mut b = processes(Ns::ms(100));
    let word = b.word();
    for i in 0..50 {
        let (op, series) = match i % 2 {
            0 => (Op::Wait { word, value: 0, until: Ns::MAX }, None),
            _ => (Op::Sleep { length: Ns::ms(1) }, Some(b.series("naps", "", "higher"))),
        };
        let program = steps(move |env| {
            series.into_iter().for_each(|s| env.record(s, 1));
            op
        });
        b.task(format!("sleeper-{i}"), program).unwrap();
    }
    let begun = Instant::now();
    let m = run_built(b.finish().unwrap(), None).unwrap();
    let (took, naps) = (begun.elapsed(), m.own.series["naps"].count());
    let children = std::fs::read_to_string("/proc/thread-self/children").unwrap_or_default();
    assert_eq!(children.trim(), "", "no process is left");
    let soon = took < Duration::from_secs(2 * factor) && naps >= 50;
    if soon { Ok(()) } else { Err(format!("{took:?}, {naps} naps")) }
}

pub fn a_process_that_dies_fails_the_run() {
    let mut b = processes(Ns::secs(30));
    b.task("bystander", steps(|_| Op::Sleep { length: Ns::secs(60) })).unwrap();
    b.task("victim", steps(|_| std::process::abort())).unwrap();
    let begun = Instant::now();
    let e = run_built(b.finish().unwrap(), None).unwrap_err();
    assert!(e.message().contains("'victim'") && e.message().contains("SIGABRT"), "{e}");
    assert!(begun.elapsed() < Duration::from_secs(5), "{:?}", begun.elapsed());
}

pub fn a_failing_process_is_named() {
    let mut b = processes(Ns::secs(30));
    b.task("bystander", steps(|_| Op::Sleep { length: Ns::secs(60) })).unwrap();
    b.task("wrong", steps(|_| Op::SetAffinity { mask: 3 })).unwrap();
    let e = run_built(b.finish().unwrap(), None).unwrap_err();
    assert!(e.message().contains("task 'wrong'") && e.message().contains("mask 3"), "{e}");
}

fn job(workload: Spec) -> Job {
    Job {
        workload,
        seed: 1,
        attrs: [].into(),
        changes: Vec::new(),
        later: Vec::new(),
        groups: Default::default(),
        session: false,
        observe: Observe::Counters,
        ring_kib: 0,
        keep: None,
        keep_most_bytes: 0,
    }
}

/// 2016 schbench with times in us and a runtime in ms.
fn schbench(threads: u64, runtime_ms: u64) -> Job {
    let given = [
        ("message_threads", 1),
        ("threads", threads),
        ("runtime", Ns::ms(runtime_ms).0),
        ("cputime", Ns::us(1000).0),
        ("sleeptime", Ns::us(1000).0),
    ];
    let params = Params(given.map(|(name, value)| (name.to_owned(), value)).into());
    job(Spec::bench("schbench", &params).unwrap())
}

/// Whether there are as many samples, or wakeups, as in a second of that schbench on an idle machine; or, if this
/// program gets little CPU time, as many as fit it: each takes a millisecond.
fn enough(samples: u64, cpu_time: u64) -> bool {
    // One per task may be unfinished at the end.
    samples > 100 || stretch() > 1 && (samples + 3) * Ns::ms(2).0 > cpu_time
}

pub fn events_show_the_waits_of_schbench() {
    let job = Job { observe: Observe::Events, ..schbench(2, 1000) };
    let outcome = run(&job, None).unwrap();
    if let Err(e) = schedlab_native::tracepoints::check() {
        skipped(format!("tracepoints: {e}"));
        assert!(
            outcome.found.environment.contains_key("uncounted.events"),
            "{:?}",
            outcome.found.environment
        );
        return assert!(!outcome.found.counters.contains_key("woken"));
    }
    let n = |name: &str| outcome.found.counters.get(name).copied().unwrap_or_else(|| panic!("no {name}"));
    let delays = &outcome.found.series["wakeup_delay"];
    // A task that was woken before the window and runs in it has a wait without a counted wakeup: at most one per task.
    let (tasks, wakeups) = (outcome.found.tasks.len() as u64, n("wakeups"));
    let cpu_time = n("cpu_time");
    assert!(
        enough(delays.count(), cpu_time) && wakeups + tasks >= delays.count(),
        "{} of {wakeups} in {cpu_time} ns: {:?}",
        delays.count(),
        outcome.found.warnings
    );
    let places = ["prev", "waker", "core", "llc", "node", "far"].map(|p| n(&format!("woken.{p}")));
    assert_eq!(places.iter().sum::<u64>(), n("woken"));
    assert!(enough(n("woken"), cpu_time) && cpu_time > 0, "{}", n("woken"));
    // Contradictory switches leave time without an owner. If that is much, idle time is not reported.
    let gaps = outcome.found.warnings.iter().any(|w| w.code == "trace.gaps");
    assert!(gaps || n("idle_time") + n("background.cpu_time") > 0, "{:?}", outcome.found.warnings);
    // Counters of each task would slow down the recorded switches.
    assert!(!outcome.found.counters.contains_key("perf.context_switches"));
    assert!(outcome.found.environment.values().any(|why| why.contains("while events are recorded")));
    assert_eq!(outcome.found.tasks.iter().map(|t| t.name.as_str()).collect::<Vec<_>>().len(), 3);
    assert!(outcome.found.stays.iter().any(|s| s.group == "worker") && !outcome.found.waits.is_empty());
}

pub fn schbench_has_samples_in_microseconds() {
    let factor = stretch();
    let outcome = run(&schbench(2, 1000 * factor), None).unwrap();
    let (latency, lasted) = (&outcome.found.series["schbench.latency"], outcome.found.duration);
    let median = latency.percentile(50.0).number().unwrap();
    let (samples, cpu_time) = (latency.count(), outcome.found.counters["cpu_time"]);
    assert!(enough(samples, cpu_time), "{samples} samples in {cpu_time} ns");
    // Next to other tasks a wakeup may take as long as they need, but not longer than the run.
    let longest = if factor == 1 { 5e6 } else { lasted.0 as f64 };
    assert!(median < longest, "median {median} ns");
    assert!(!outcome.stopped && lasted >= Ns::secs(factor) && lasted < Ns::secs(2 * factor), "{lasted}");
    for counter in ["cpu_time", "switches.voluntary", "switches.involuntary"] {
        assert!(outcome.found.counters.contains_key(counter), "{counter}: {:?}", outcome.found.counters);
    }
    assert!(outcome.found.environment.contains_key("run.foreign_cpu_ns"), "{:?}", outcome.found.environment);
}

pub fn a_stop_ends_it_with_a_partial_outcome() {
    in_time(stopped_run);
}

fn stopped_run(factor: u64) -> Result<(), String> {
    let stop = Arc::new(AtomicBool::new(false));
    let (flag, begun) = (stop.clone(), Instant::now());
    let stopper = std::thread::spawn(move || {
        std::thread::sleep(Duration::from_millis(500 * factor));
        flag.store(true, Relaxed);
        Instant::now()
    });
    let outcome = run(&schbench(40, 60_000), Some(&stop)).unwrap();
    let took = stopper.join().unwrap().elapsed();
    assert!(outcome.stopped && outcome.found.duration.0 < begun.elapsed().as_nanos() as u64);
    let samples = outcome.found.series["schbench.latency"].count();
    let soon = took < Duration::from_secs(factor) && samples > 0;
    if soon { Ok(()) } else { Err(format!("{took:?} from the stop to the outcome, {samples} samples")) }
}

pub fn an_agents_error_comes_back_as_it_was() {
    let workload = Spec::Bench { name: "schbnech".into(), params: Params::default() };
    let e = run(&job(workload), None).unwrap_err();
    assert_eq!(e.kind(), ErrorKind::Input);
    assert!(e.to_string().contains("did you mean 'schbench'?"), "{e}");
}

/// A shell script instead of the agent.
fn script(name: &str, text: &str) -> PathBuf {
    let path = std::env::temp_dir().join(format!("schedlab-{}-{name}", std::process::id()));
    std::fs::write(&path, format!("#!/bin/sh\n{text}\n")).unwrap();
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o700)).unwrap();
    path
}

pub fn an_agent_that_dies_is_reported() {
    let cases = [
        ("killed", "echo almost done >&2; kill -9 $$", "SIGKILL", "almost done"),
        ("quit", "echo cannot go on >&2; exit 7", "exit code 7", "cannot go on"),
        ("half", "echo '{\"done\":{'", "without a reply", ""),
    ];
    for (name, text, how, words) in cases {
        let path = script(name, text);
        let e = run_with(&path, &schbench(2, 100), None).unwrap_err().to_string();
        let _ = std::fs::remove_file(&path);
        assert!(e.contains(how) && e.contains(words), "{name}: {e}");
    }
}

pub fn a_missing_agent_is_reported() {
    let e = run_with(Path::new("/nonexistent/agent"), &schbench(2, 100), None).unwrap_err();
    assert!(e.kind() == ErrorKind::Machine && e.to_string().contains("SCHEDLAB_AGENT"), "{e}");
}

pub fn no_job_is_an_input_error() {
    let agent = std::env::current_exe().unwrap();
    let out =
        std::process::Command::new(agent).arg("agent").stdin(std::process::Stdio::null()).output().unwrap();
    let said = String::from_utf8_lossy(&out.stderr);
    assert_eq!(out.status.code(), Some(2));
    assert!(said.contains("holds no job") && out.stdout.is_empty(), "{said}");
}

/// Two spinning processes share this machine with everything else on it; the sampler reads their usage.
pub fn the_slice_test_reads_the_usage_of_processes() {
    let factor = stretch();
    for mode in [0, 1] {
        let given = [
            ("tasks", 2),
            ("rate", 200),
            ("interval", Ns::ms(250 * factor).0),
            ("runtime", Ns::ms(1100 * factor).0),
            ("mode", mode),
        ];
        let given = given.map(|(name, value)| (name.to_owned(), value));
        let spec = Spec::bench("slice", &Params(given.into_iter().collect())).unwrap();
        let outcome = execute(&job(spec), None).unwrap();
        let series = |name: &str| &outcome.found.series[&format!("slice-test.{name}")];
        let intervals = series("interval").count();
        assert!(
            (2..=4).contains(&intervals) && series("interval").min() >= Some(Ns::ms(250 * factor).0),
            "{intervals}"
        );
        // The two tasks' time in the intervals is at most that of two CPUs, and at most that of the run's own accounts.
        let length = series("interval").sum() as u64;
        let shared = 2 * series("utime").sum() as u64;
        let exact = series("cpu_rate").mean().unwrap() * length as f64 / 1e9;
        assert!(exact > 50e6 && exact <= outcome.found.counters["cpu_time"] as f64 + 50e6, "{exact}");
        // Hundredths of a second, of two tasks, at both ends of each interval.
        assert!((shared as f64 - exact).abs() < 20e6 * (intervals as f64 + 1.0), "{shared} of {exact}");
        assert!(series("printed").count() == intervals && series("exact").count() <= intervals);
    }
}

/// A command prints its own nice value and policy (fields 19 and 41 of its stat). An impossible nice value shows that
/// the group's change reaches its task and no other.
pub fn a_variants_attributes_reach_tasks_and_commands() {
    let change = |nice| AttrChange { policy: Some(Policy::Batch), nice: Some(nice), slice: None };
    let line = ["cut", "-d ", "-f19,41", "/proc/self/stat"].map(str::to_owned);
    let workload = Spec::Command(Box::new(CommandSpec::new("cut", line.to_vec())));
    let command = Job { attrs: [("*".to_owned(), change(7))].into(), ..job(workload) };
    let said = run(&command, None).unwrap().said.unwrap();
    assert_eq!(said.stdout.trim(), "7 3");

    let fifo = AttrChange { policy: Some(Policy::Fifo), nice: None, slice: None };
    let mut job = schbench(2, 50);
    // Workers begin with their message thread's values, and a user without privileges can't lower a nice value.
    job.attrs = [("message".to_owned(), change(1)), ("worker".to_owned(), change(2))].into();
    run(&job, None).unwrap();
    job.attrs = [("worker".to_owned(), fifo)].into();
    // Only workers request the real-time policy, whether this user may have it or not.
    if let Err(e) = run(&job, None) {
        assert!(e.to_string().contains("worker") && e.to_string().contains("SCHED_FIFO"), "{e}");
    }
}
