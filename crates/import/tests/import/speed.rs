//! How fast text is read, and that memory does not grow with its length. Run by hand on an idle machine:
//! `SCHEDLAB_EVENTS=5000000 cargo test --release -p schedlab-import --test import speed -- --ignored --nocapture`

use schedlab_base::testing::skipped;
use schedlab_import::latency::Latency;
use schedlab_import::to_run::{ChosenTasks, RunBuilder};
use schedlab_import::{Recording, read};
use std::fs::File;
use std::io::{BufWriter, Write};
use std::process::Command;
use std::time::Instant;

/// Writes `events` events as ftrace prints them: on each CPU, pairs of tasks wake each other in turn.
fn generate(file: &File, events: u64, cpus: u64) -> u64 {
    let mut out = BufWriter::with_capacity(1 << 20, file);
    let mut written = 0;
    let mut us = 1_000_000_u64;
    while written < events {
        let (cpu, turn) = (written / 3 % cpus, written / 3 / cpus % 2);
        let (from, to) = (1000 + 2 * cpu + turn, 1000 + 2 * cpu + 1 - turn);
        us += 1;
        let (s, us) = (us / 1_000_000, us % 1_000_000);
        let head = |flags| format!("        bench {cpu}-{from}    [{cpu:03}] {flags} {s:>5}.{us:06}: ");
        for event in ["sched_waking", "sched_wakeup"] {
            let head = head("d..4.");
            writeln!(out, "{head}{event}: comm=bench {cpu} pid={to} prio=120 target_cpu={cpu:03}").unwrap();
        }
        let prev = format!("prev_comm=bench {cpu} prev_pid={from} prev_prio=120 prev_state=S");
        let next = format!("next_comm=bench {cpu} next_pid={to} next_prio=120");
        writeln!(out, "{}sched_switch: {prev} ==> {next}", head("d..2.")).unwrap();
        written += 3;
    }
    out.flush().unwrap();
    written
}

/// The peak memory of this process, kB.
fn peak_kb() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find(|l| l.starts_with("VmHWM")).unwrap();
    line.split_whitespace().nth(1).unwrap().parse().unwrap()
}

/// Events per second, read into a record.
fn speed(events: u64) -> f64 {
    let file = tempfile::NamedTempFile::new().unwrap();
    let written = generate(file.as_file(), events, 16);
    let began = Instant::now();
    let mut watch = RunBuilder::new(ChosenTasks::default(), None);
    let mut imported = read(&Recording::at(file.path()), &mut watch).unwrap();
    let found = watch.finish(&mut imported);
    let took = began.elapsed().as_secs_f64();
    assert_eq!((imported.records, found.counters["wakeups"]), (written, written / 3));
    let mb = file.as_file().metadata().unwrap().len() >> 20;
    println!(
        "{written} events, {mb} MB: {took:.2} s, {:.2} M events/s; peak {} kB",
        written as f64 / took / 1e6,
        peak_kb()
    );
    written as f64 / took
}

/// The test runs itself again in another process: a process has one peak, and other tests add to it.
#[test]
fn memory_does_not_grow_with_the_length() {
    const ALONE: &str = "SCHEDLAB_TEST_ALONE";
    if std::env::var_os(ALONE).is_none() {
        let mut alone = Command::new(std::env::current_exe().unwrap());
        alone.args(["--exact", "speed::memory_does_not_grow_with_the_length"]).env(ALONE, "1");
        let output = alone.output().unwrap();
        return assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stdout));
    }
    speed(100_000);
    let before = peak_kb();
    speed(1_000_000);
    let more = peak_kb() - before;
    assert!(more < 8 << 10, "ten times the events took {more} kB more");
}

#[test]
#[ignore = "measures speed; needs an idle machine"]
fn a_million_events_per_second_are_read() {
    let events = std::env::var("SCHEDLAB_EVENTS").ok().and_then(|n| n.parse().ok()).unwrap_or(2_000_000);
    let reached = speed(events);
    assert!(reached >= 1e6, "{reached:.0} events per second");
}

#[test]
#[ignore = "reads the file of SCHEDLAB_RECORDING"]
fn a_file_of_your_own() {
    let Some(path) = std::env::var_os("SCHEDLAB_RECORDING") else { return skipped("SCHEDLAB_RECORDING") };
    let began = Instant::now();
    let mut latency = Latency::default();
    let imported = read(&Recording::at(path.as_ref()), &mut latency).unwrap();
    let (n, took) = (imported.records + imported.others, began.elapsed().as_secs_f64());
    println!("{n} events: {took:.3} s, {:.2} M events/s; peak {} kB", n as f64 / took / 1e6, peak_kb());
    println!("{:?}; losses: {:?}", imported.form, imported.losses);
    let mut rows = Latency::by_name(latency.rows());
    rows.sort_by_key(|r| std::cmp::Reverse(r.run));
    rows.iter().take(5).for_each(|r| println!("{} {:?} {} {:?}", r.name, r.run, r.waits, r.mean()));
    assert!(imported.records > 0);
}
