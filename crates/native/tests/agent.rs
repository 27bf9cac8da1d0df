//! The re-executed agent: this very test is its own agent, as the command line is in earnest.

use schedlab_base::{ErrorKind, Ns};
use schedlab_native::{Job, agent_main, run, run_with};
use schedlab_workload::{Params, Spec};
use std::os::unix::fs::PermissionsExt;
use std::panic::catch_unwind;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::{Duration, Instant};

const CHECKS: &[(&str, fn())] = &[
    ("schbench_has_samples_in_microseconds", schbench_has_samples_in_microseconds),
    ("a_stop_ends_it_with_a_partial_outcome", a_stop_ends_it_with_a_partial_outcome),
    ("an_agents_error_comes_back_as_it_was", an_agents_error_comes_back_as_it_was),
    ("an_agent_that_dies_is_told", an_agent_that_dies_is_told),
    ("an_agent_that_is_not_there_is_told", an_agent_that_is_not_there_is_told),
    ("no_job_is_an_input_error", no_job_is_an_input_error),
];

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    if args.first().is_some_and(|a| a == "agent") {
        return match agent_main() {
            Ok(()) => ExitCode::SUCCESS,
            Err(e) => {
                eprintln!("{e}");
                ExitCode::from(e.kind().exit_code())
            }
        };
    }
    let wanted = |name: &str| args.iter().filter(|a| !a.starts_with('-')).all(|a| name.contains(a.as_str()));
    if args.iter().any(|a| a == "--list") {
        CHECKS.iter().for_each(|(name, _)| println!("{name}: test"));
        return ExitCode::SUCCESS;
    }
    let mut failed = 0;
    for (name, check) in CHECKS.iter().filter(|(name, _)| wanted(name)) {
        let ok = catch_unwind(check).is_ok();
        println!("test {name} ... {}", if ok { "ok" } else { "FAILED" });
        failed += u8::from(!ok);
    }
    ExitCode::from(failed)
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
    Job { workload: Spec::bench("schbench", &params).unwrap(), seed: 1 }
}

fn schbench_has_samples_in_microseconds() {
    let outcome = run(&schbench(2, 1000), &AtomicBool::new(false)).unwrap();
    let latency = &outcome.series["schbench.latency"];
    let median = latency.percentile(50.0).number().unwrap();
    assert!(latency.count() > 100 && median < 5e6, "{} samples, median {median} ns", latency.count());
    assert!(!outcome.stopped && outcome.duration >= Ns::secs(1) && outcome.duration < Ns::secs(2));
    for counter in ["cpu_time", "switches.voluntary", "switches.involuntary"] {
        assert!(outcome.counters.contains_key(counter), "{counter}: {:?}", outcome.counters);
    }
    assert!(outcome.environment.contains_key("run.foreign_cpu_ns"), "{:?}", outcome.environment);
}

fn a_stop_ends_it_with_a_partial_outcome() {
    let stop = Arc::new(AtomicBool::new(false));
    let (flag, begun) = (stop.clone(), Instant::now());
    let stopper = std::thread::spawn(move || {
        std::thread::sleep(Duration::from_millis(500));
        flag.store(true, Relaxed);
        Instant::now()
    });
    let outcome = run(&schbench(40, 60_000), &stop).unwrap();
    let took = stopper.join().unwrap().elapsed();
    assert!(took < Duration::from_secs(1), "{took:?} from the stop to the outcome");
    assert!(outcome.stopped && outcome.duration.0 < begun.elapsed().as_nanos() as u64);
    assert!(outcome.series["schbench.latency"].count() > 0);
}

fn an_agents_error_comes_back_as_it_was() {
    let workload = Spec::Bench { name: "schbnech".into(), params: Params::default() };
    let e = run(&Job { workload, seed: 1 }, &AtomicBool::new(false)).unwrap_err();
    assert_eq!(e.kind(), ErrorKind::Input);
    assert!(e.to_string().contains("did you mean 'schbench'?"), "{e}");
}

/// A shell script in place of the agent.
fn script(name: &str, text: &str) -> PathBuf {
    let path = std::env::temp_dir().join(format!("schedlab-{}-{name}", std::process::id()));
    std::fs::write(&path, format!("#!/bin/sh\n{text}\n")).unwrap();
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o700)).unwrap();
    path
}

fn an_agent_that_dies_is_told() {
    let cases = [
        ("killed", "echo almost done >&2; kill -9 $$", "SIGKILL", "almost done"),
        ("quit", "echo cannot go on >&2; exit 7", "exit code 7", "cannot go on"),
        ("half", "echo '{\"done\":{'", "without a reply", ""),
    ];
    for (name, text, how, words) in cases {
        let path = script(name, text);
        let e = run_with(&path, &schbench(2, 100), &AtomicBool::new(false)).unwrap_err().to_string();
        let _ = std::fs::remove_file(&path);
        assert!(e.contains(how) && e.contains(words), "{name}: {e}");
    }
}

fn an_agent_that_is_not_there_is_told() {
    let e =
        run_with(Path::new("/nonexistent/agent"), &schbench(2, 100), &AtomicBool::new(false)).unwrap_err();
    assert!(e.kind() == ErrorKind::Machine && e.to_string().contains("SCHEDLAB_AGENT"), "{e}");
}

fn no_job_is_an_input_error() {
    let agent = std::env::current_exe().unwrap();
    let out =
        std::process::Command::new(agent).arg("agent").stdin(std::process::Stdio::null()).output().unwrap();
    let said = String::from_utf8_lossy(&out.stderr);
    assert_eq!(out.status.code(), Some(2));
    assert!(said.contains("holds no job") && out.stdout.is_empty(), "{said}");
}
