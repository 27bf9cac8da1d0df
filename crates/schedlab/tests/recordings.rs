//! Hostile recordings of every form, through the binary: each ends with one clear error, or with a counted loss.

use crate::common::Lab;

/// The same story in each form, put together by hand (`SCHEDLAB_SAMPLES=DIR cargo test -p schedlab-import samples`).
const FORMS: [(&str, &[u8]); 5] = [
    ("trace-6.dat", include_bytes!("../../import/tests/data/trace-6.dat")),
    ("trace-7.dat", include_bytes!("../../import/tests/data/trace-7.dat")),
    ("trace-7-zstd.dat", include_bytes!("../../import/tests/data/trace-7-zstd.dat")),
    ("perf.data", include_bytes!("../../import/tests/data/perf.data")),
    ("story.pftrace", include_bytes!("../../import/tests/data/story.pftrace")),
];
const FTRACE: &[u8] = include_bytes!("../../import/tests/data/ftrace.txt");
const PERF_SCRIPT: &[u8] = include_bytes!("../../import/tests/data/perf-script.txt");

fn all() -> impl Iterator<Item = (&'static str, &'static [u8])> {
    FORMS.into_iter().chain([("ftrace.txt", FTRACE), ("perf-script.txt", PERF_SCRIPT)])
}

/// Runs a command on these bytes: its output, or the one error that it ended with.
fn on(lab: &Lab, command: &[&str], name: &str, bytes: &[u8]) -> Result<String, String> {
    std::fs::write(lab.path().join(name), bytes).unwrap();
    let words = [command, &[name]].concat();
    let done = lab.command(&words).output().unwrap();
    let (out, e) = (String::from_utf8(done.stdout).unwrap(), String::from_utf8(done.stderr).unwrap());
    match done.status.code() {
        Some(0) => Ok(out + &e),
        Some(2) => {
            assert_eq!(e.matches("error:").count(), 1, "{words:?}: {e}");
            assert!(e.contains(name), "{words:?}: the error names the file: {e}");
            Err(e)
        }
        code => panic!("{words:?} ended with {code:?}: {e}"),
    }
}

/// Replaces bytes wherever they stand.
fn replaced(bytes: &[u8], from: &[u8], to: &[u8]) -> Vec<u8> {
    assert_eq!(from.len(), to.len());
    let mut all = bytes.to_vec();
    for at in 0..=all.len().saturating_sub(from.len()) {
        if all[at..].starts_with(from) {
            all[at..at + to.len()].copy_from_slice(to);
        }
    }
    all
}

#[test]
fn whole_recordings_are_read() {
    let lab = Lab::new();
    for (name, bytes) in FORMS {
        let told = on(&lab, &["latency"], name, bytes).unwrap_or_else(|e| panic!("{name}: {e}"));
        assert!(told.contains("b c") && !told.contains("warning"), "{name}: {told}");
        on(&lab, &["import"], name, bytes).unwrap_or_else(|e| panic!("{name}: {e}"));
    }
}

#[test]
fn truncated_recordings_are_refused_or_get_a_warning() {
    let lab = Lab::new();
    for (name, bytes) in all() {
        for part in [1, 2, 5, 8, 11, 13, 15] {
            let cut = &bytes[..bytes.len() * part / 16];
            if let Ok(told) = on(&lab, &["latency"], name, cut) {
                let lines = name.ends_with(".txt");
                assert!(lines || told.contains("warning"), "{name}, {part}/16: {told}");
            }
        }
    }
}

#[test]
fn files_of_another_kind_are_refused_whatever_form_is_asked_for() {
    let lab = Lab::new();
    for kind in [
        &b"\x7fELF\x02\x01\x01\0\0\0"[..],
        b"\x89PNG\r\n\x1a\n\0\0",
        b"{\"events\": []}\n",
        b"\n\x02\x08\x01",
    ] {
        for form in ["ftrace", "perf-script", "trace-dat", "perf-data", "perfetto"] {
            on(&lab, &["import", "--format", form], "other", kind).unwrap_err();
        }
        on(&lab, &["import"], "other", kind).unwrap_err();
    }
    // One form under the name of another.
    for (name, bytes) in FORMS {
        let form = if name == "perf.data" { "trace-dat" } else { "perf-data" };
        on(&lab, &["latency", "--format", form], name, bytes).unwrap_err();
    }
}

#[test]
fn names_that_are_not_utf_8_are_shown_with_replaced_characters() {
    let lab = Lab::new();
    for (name, bytes) in FORMS.into_iter().filter(|(name, _)| !name.contains("zstd")) {
        let told = on(&lab, &["latency"], name, &replaced(bytes, b"b c", b"b\xff\xfe")).unwrap();
        assert!(told.contains("b\u{fffd}\u{fffd}"), "{name}: {told}");
        on(&lab, &["import"], name, &replaced(bytes, b"b c", b"\xff\xfe\xfd")).unwrap();
    }
    let told = on(&lab, &["latency"], "t", &replaced(FTRACE, b"worker", b"w\xffrk\xc3r")).unwrap();
    assert!(told.contains("w\u{fffd}rk\u{fffd}r"), "{told}");
}

/// Without a switch, figures are refused.
const SWITCH: &str = "a-1 [000] 1.0: sched_switch: prev_comm=a prev_pid=1 prev_prio=120 prev_state=R ==> next_comm=b \
                      next_pid=2 next_prio=120\n";

#[test]
fn time_that_goes_backwards_is_counted() {
    let lab = Lab::new();
    // The second record's time becomes one of an hour before; other records follow on its CPU.
    let times = |ns: u64| ns.to_ne_bytes();
    let (_, perf) = FORMS[3];
    let told = on(&lab, &["latency"], "perf.data", &replaced(perf, &times(1_330_000), &times(1))).unwrap();
    assert!(told.contains("b c"), "{told}");
    let mut text = SWITCH.as_bytes().to_vec();
    text.extend(b"a-1 [000] 100.0: sched_waking: comm=b pid=2 prio=120 target_cpu=000\n");
    text.extend(b"a-1 [000] 50.0: sched_waking: comm=b pid=2 prio=120 target_cpu=000\n");
    let told = on(&lab, &["latency"], "t", &text).unwrap();
    assert!(told.contains("time goes backwards"), "{told}");
}

#[test]
fn four_thousand_cpus_are_read_and_more_are_not() {
    let lab = Lab::new();
    let line = |cpu: u32, us: u32| {
        format!("a-1 [{cpu:03}] 1.{us:06}: sched_waking: comm=b pid=2 prio=120 target_cpu={cpu:03}\n")
    };
    let all: String = SWITCH.to_owned() + &(0..4096).map(|cpu| line(cpu, cpu)).collect::<String>();
    let told = on(&lab, &["import", "--json"], "t", all.as_bytes()).unwrap();
    assert!(told.contains("\"cpus\": 4096"), "{told}");
    let e = on(&lab, &["import"], "t", line(4096, 0).as_bytes()).unwrap_err();
    assert!(e.contains("line 1") || e.contains("not a recording"), "{e}");
    // A bundle of one event on each CPU: packet, bundle, number of the CPU, event.
    let varint = |n: u32| if n < 128 { vec![n as u8] } else { vec![n as u8 | 0x80, (n >> 7) as u8] };
    let mut trace = Vec::new();
    for cpu in 0..4096 {
        let waking = [&[0x0a, 1, b'b', 0x10, 2, 0x28][..], &varint(cpu)].concat();
        let switch = b"\x0a\x01a\x10\x01\x20\x01\x2a\x01b\x30\x02";
        let event = match cpu {
            0 => [&[0x08, 1, 0x10, 1, 0x22, switch.len() as u8][..], switch].concat(),
            _ => [&[0x08, 1, 0x10, 1, 0xa2, 0x01, waking.len() as u8][..], &waking].concat(),
        };
        let bundle = [&[0x08][..], &varint(cpu), &[0x12, event.len() as u8], &event].concat();
        trace.extend([&[0x0a, bundle.len() as u8 + 2, 0x0a, bundle.len() as u8][..], &bundle].concat());
    }
    let told = on(&lab, &["import", "--json", "--format", "perfetto"], "p", &trace).unwrap();
    assert!(told.contains("\"cpus\": 4096"), "{told}");
}
