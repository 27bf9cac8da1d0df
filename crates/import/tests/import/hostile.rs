//! Arbitrary bytes never make an importer panic. `SCHEDLAB_FUZZ_SECONDS=600` makes it a long run.

use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};
use schedlab_import::states::States;
use schedlab_import::timehist::Timehist;
use schedlab_import::to_run::{ChosenTasks, RunBuilder};
use schedlab_import::{Form, Recording, read, text};
use std::io::Write;
use std::time::{Duration, Instant};

const SEEDS: [&str; 8] = [
    include_str!("../data/ftrace.txt"),
    include_str!("../data/perf-script.txt"),
    include_str!("../data/report.txt"),
    include_str!("../data/options-latency.txt"),
    include_str!("../data/options-verbose.txt"),
    include_str!("../data/report-latency.txt"),
    include_str!("../data/report-two-files.txt"),
    include_str!("../data/babeltrace.txt"),
];

/// Reads the bytes into a record and into a history, and checks that the counts add up.
fn survive(bytes: &[u8], form: Option<Form>) {
    let mut file = tempfile::NamedTempFile::new().unwrap();
    file.write_all(bytes).unwrap();
    let recording = Recording { path: file.path().to_owned(), form, kernel: None, hashed: true };
    let mut watch = RunBuilder::new(ChosenTasks::default(), None);
    if let Ok(mut imported) = read(&recording, &mut watch) {
        let found = watch.finish(&mut imported);
        let cpu_ns: u128 = found.tasks.iter().map(|t| u128::from(t.cpu_time.0)).sum();
        let most = imported.cast.cpus as u128 * u128::from(imported.cast.end.0);
        assert!(cpu_ns <= most, "tasks ran for {cpu_ns} ns of {most}");
    }
    let mut rows = 0_u64;
    let _ = read(&recording, &mut Timehist::new(|_| rows += 1));
}

/// A way to damage a good recording.
#[derive(Clone, Debug)]
enum Damage {
    Byte(usize, u8),
    Cut(usize),
    Swap(usize, usize),
    Double(usize),
    Insert(usize, Vec<u8>),
}

fn damages() -> impl Strategy<Value = Vec<Damage>> {
    let one = prop_oneof![
        (any::<usize>(), any::<u8>()).prop_map(|(at, b)| Damage::Byte(at, b)),
        any::<usize>().prop_map(Damage::Cut),
        (any::<usize>(), any::<usize>()).prop_map(|(a, b)| Damage::Swap(a, b)),
        any::<usize>().prop_map(Damage::Double),
        (any::<usize>(), prop::collection::vec(any::<u8>(), 0..40)).prop_map(|(at, b)| Damage::Insert(at, b)),
    ];
    prop::collection::vec(one, 0..12)
}

fn damaged(text: &str, damages: &[Damage]) -> Vec<u8> {
    let mut bytes = text.as_bytes().to_vec();
    for damage in damages {
        if bytes.is_empty() {
            break;
        }
        let n = bytes.len();
        match damage {
            Damage::Byte(at, b) => bytes[at % n] = *b,
            Damage::Cut(at) => bytes.truncate(at % n),
            Damage::Insert(at, more) => drop(bytes.splice(at % n..at % n, more.iter().copied())),
            Damage::Swap(..) | Damage::Double(_) => {
                let mut lines: Vec<Vec<u8>> = bytes.split(|b| *b == b'\n').map(<[u8]>::to_vec).collect();
                let n = lines.len();
                match damage {
                    Damage::Swap(a, b) => lines.swap(a % n, b % n),
                    Damage::Double(a) => lines.push(lines[a % n].clone()),
                    _ => {}
                }
                bytes = lines.join(&b'\n');
            }
        }
    }
    bytes
}

/// Runs the property for as long as the environment says, else for `cases` cases.
fn run<S: Strategy>(cases: u32, strategy: &S, test: impl Fn(S::Value)) {
    let seconds = std::env::var("SCHEDLAB_FUZZ_SECONDS").ok().and_then(|s| s.parse().ok());
    let until = seconds.map(|s| Instant::now() + Duration::from_secs(s));
    loop {
        let config = Config { cases, failure_persistence: None, ..Config::default() };
        let mut runner = TestRunner::new(config);
        runner
            .run(strategy, |value| {
                test(value);
                Ok(())
            })
            .unwrap();
        if until.is_none_or(|until| Instant::now() >= until) {
            return;
        }
    }
}

#[test]
fn damaged_recordings_are_read_or_refused() {
    run(400, &(0..SEEDS.len(), damages()), |(seed, damages)| survive(&damaged(SEEDS[seed], &damages), None));
}

#[test]
fn any_bytes_are_read_or_refused() {
    let forms = prop::option::of(prop::sample::select(Form::ALL.to_vec()));
    let magic = prop::sample::select(vec![
        &b""[..],
        b"PERFILE2",
        b"\x17\x08\x44tracing6\0",
        b"\n\x05",
        b"a-1 [000] 1.0: ",
    ]);
    let bytes = prop::collection::vec(any::<u8>(), 0..3000);
    run(300, &(magic, bytes, forms), |(magic, bytes, form)| survive(&[magic, &bytes].concat(), form));
}

#[test]
fn no_line_makes_it_panic() {
    let words = prop::sample::select(vec![
        "a-1",
        " [001] ",
        "[",
        "]",
        "1.5:",
        " 12.000001: ",
        "sched_switch:",
        "sched:sched_waking:",
        "prev_comm=",
        " prev_pid=",
        "7",
        " prev_prio=120",
        " prev_state=S",
        " ==> ",
        "next_comm=x",
        " next_pid=9 next_prio=1",
        "comm=b pid=2 prio=3",
        " target_cpu=004",
        " orig_cpu=1 dest_cpu=2",
        "x:7 [120]",
        "CPU:",
        " [LOST ",
        " EVENTS]",
        "(",
        ")",
        "-",
        "/",
        "99999999999999",
    ]);
    run(4000, &prop::collection::vec(words, 0..16), |words| {
        let _ = text::line(words.concat().as_bytes(), &mut States::default());
    });
}

#[test]
fn every_beginning_of_a_recording_is_read_or_refused() {
    for seed in SEEDS {
        // Longer samples: every beginning within the first lines, and some later ones.
        for end in (0..seed.len()).filter(|end| *end < 2500 || end % 41 == 0) {
            survive(&seed.as_bytes()[..end], None);
        }
    }
}

#[test]
fn four_thousand_cpus_are_read() {
    let mut all = String::new();
    for cpu in 0..4096 {
        let us = cpu + 1;
        all += &format!(
            "t{cpu}-{0} [{cpu:03}] d... 1.{us:06}: sched_switch: prev_comm=t{cpu} prev_pid={0} prev_prio=120 prev_state=S ==> next_comm=swapper/{cpu} next_pid=0 next_prio=120\n",
            cpu + 1
        );
    }
    let mut file = tempfile::NamedTempFile::new().unwrap();
    file.write_all(all.as_bytes()).unwrap();
    let mut watch = RunBuilder::new(ChosenTasks::default(), None);
    let mut imported = read(&Recording::at(file.path()), &mut watch).unwrap();
    let found = watch.finish(&mut imported);
    assert_eq!((imported.cast.cpus, imported.cast.tasks.len()), (4096, 4096));
    assert_eq!(found.counters["switches.voluntary"], 4096);
}
