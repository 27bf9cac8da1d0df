//! Recordings in, through the binary: `import`, `timehist`, `latency`. The expected numbers were worked out by hand
//! from the recordings in `crates/import/tests/data`.

use crate::common::Lab;

const FTRACE: &str = include_str!("../../import/tests/data/ftrace.txt");

/// The stored record of what was imported.
fn imported(lab: &Lab, words: &[&str]) -> (serde_json::Value, serde_json::Value) {
    let told = lab.json(&[&["import", "--json"], words].concat());
    let record = lab.record(told["folder"].as_str().unwrap());
    (told, record)
}

#[test]
fn a_file_whose_name_is_not_utf8_is_read() {
    use std::os::unix::ffi::OsStrExt;
    let lab = Lab::new();
    let name = std::ffi::OsStr::from_bytes(b"night\xff\xfe.txt");
    std::fs::write(lab.path().join(name), FTRACE).unwrap();
    for command in ["import", "timehist", "latency"] {
        lab.command(command).arg(name).assert().code(0);
    }
}

#[test]
fn a_file_that_is_not_a_recording_is_refused_with_a_remedy() {
    let lab = Lab::new();
    for (name, content, said) in [
        ("empty", &b""[..], "empty"),
        ("poem", b"roses are red\n", "not a recording"),
        ("binary", b"\x7fELF\0\0\0", "not a recording"),
        ("zip", b"\x1f\x8b\x08", "gzip"),
        ("irqs", b"a-1 [000] 1.0: irq_handler_entry: irq=4\n", "none of the scheduler"),
        ("strange", b"a-1 [000] 1.0: sched_switch: left for right\n", "line 1"),
        ("perf", b"PERFILE2\x68\0\0\0", "cut"),
        ("dat", b"\x17\x08\x44tracing6\0", "cut or damaged"),
        ("new", b"\x17\x08\x44tracing7\0\0\x08", "cut"),
    ] {
        std::fs::write(lab.path().join(name), content).unwrap();
        for command in ["import", "timehist", "latency"] {
            let (_, e) = lab.run(&format!("{command} {name}"), 2);
            assert!(e.contains(said) && e.contains(name), "{command} {name}: {e}");
            assert_eq!(e.matches("error:").count(), 1, "{e}");
        }
    }
    lab.says("import nowhere", 2, &["nowhere"]);
    lab.says("import poem --format perf-dat", 2, &["did you mean 'perf-data'?"]);
}

#[test]
fn a_simulated_run_comes_back_from_its_trace_with_its_figures() {
    let lab = Lab::new();
    let folder = lab.kept("bench schbench --backend sim --machine smp-4 -m 1 -t 6 -r 0.2");
    let simulated = lab.record(&folder);
    lab.ok(&["trace", &folder, "-o", "sim.pftrace"]);
    lab.ok(&["trace", &folder, "--format", "text", "--plain", "-o", "sim.txt"]);
    lab.ok(&["trace", &folder, "--format", "ctf", "-o", "sim.ctf"]);
    let (_, packets) = imported(&lab, &["sim.pftrace"]);
    let (_, lines) = imported(&lab, &["sim.txt"]);
    // A Perfetto file has no `sched_wakeup`, so it does not tell which moves were a wakeup's.
    let counters = "cpu_time idle_time run_delay.total migrations switches.voluntary switches.involuntary";
    for name in counters.split(' ') {
        assert!(lines["counters"][name].as_u64() > Some(0), "{name}");
        assert_eq!(packets["counters"][name], lines["counters"][name], "{name}: both forms tell the same");
    }
    // CTF is read as a folder, or by its description; it does not tell interrupts, and all else.
    let (told, ctf) = imported(&lab, &["sim.ctf"]);
    let (again, _) = imported(&lab, &["sim.ctf/metadata", "--variant", "sim"]);
    assert_eq!((&told["folder"], &again["was_there"]), (&again["folder"], &true.into()));
    for part in ["counters", "series", "tasks"] {
        assert_eq!(ctf[part], lines[part], "{part}: CTF and text tell the same");
    }
    assert_eq!(packets["counters"]["switches.involuntary"], simulated["counters"]["switches.involuntary"]);
    // The trace begins before the measured time, with the tasks' starts: a few short stays more.
    let of = |record: &serde_json::Value, at: &str| record.pointer(at).unwrap().as_f64().unwrap();
    for at in ["/series/slice/sum", "/series/slice/max", "/counters/run_delay.total"] {
        let (before, after) = (of(&simulated, at), of(&packets, at));
        assert!((before - after).abs() <= 0.01 * before, "{at}: {before} simulated, {after} from the trace");
    }
    // A stay whose end was not recorded does not count: one on each of the four CPUs at the most.
    let lost = of(&simulated, "/counters/cpu_time") - of(&packets, "/counters/cpu_time");
    let longest = of(&packets, "/series/slice/max");
    assert!(lost > 0.0 && lost <= 4.0 * longest, "{lost} of CPU time is missing, stays last up to {longest}");
}

const WAKEUP_ONLY: &str = include_str!("cases/files/ftrace-wakeup-only.txt");
const BOTH: &str = include_str!("cases/files/ftrace-waking-and-wakeup.txt");
const RAW: &str = include_str!("cases/files/trace-cmd-report-R.txt");

/// Runtime (ms) and switches of each row of `latency`.
fn runtimes(told: &str) -> Vec<(String, String, String)> {
    let rows = told.lines().skip(1).map(|l| l.split_whitespace().map(str::to_owned).collect::<Vec<_>>());
    rows.filter(|r| r.len() >= 3).map(|r| (r[0].clone(), r[1].clone(), r[2].clone())).collect()
}

fn row(name: &str, ms: &str, switches: &str) -> (String, String, String) {
    (name.to_owned(), ms.to_owned(), switches.to_owned())
}

#[test]
fn figures_that_a_recording_lacks_are_reported_as_not_measured() {
    let lab = Lab::new();
    let switches: String =
        WAKEUP_ONLY.lines().filter(|l| !l.contains("sched_wakeup")).map(|l| format!("{l}\n")).collect();
    let wakeups: String =
        WAKEUP_ONLY.lines().filter(|l| !l.contains("sched_switch")).map(|l| format!("{l}\n")).collect();
    for (name, text) in
        [("both", BOTH), ("wakeup", WAKEUP_ONLY), ("switch", &switches), ("no-switch", &wakeups)]
    {
        lab.write(name, text);
    }
    let (_, both) = imported(&lab, &["both"]);
    let (told, wakeup) = imported(&lab, &["wakeup"]);
    for counter in ["wakeups", "switches.voluntary", "cpu_time"] {
        assert_eq!(wakeup["counters"][counter], both["counters"][counter], "{counter}");
    }
    assert!(wakeup["warnings"].to_string().contains("no sched_waking"), "{}", wakeup["warnings"]);
    assert!(told["lacks"].to_string().contains("sched_waking"), "{}", told["lacks"]);
    // Each wakeup of helper was worker's, as its switches and the other recording say.
    assert_eq!(wakeup["waits"][0]["waker"], "worker");
    let (_, switch) = imported(&lab, &["switch"]);
    assert!(switch["warnings"].to_string().contains("not measured"), "{}", switch["warnings"]);
    assert_eq!(switch["counters"]["cpu_time"], both["counters"]["cpu_time"]);
    for absent in ["wakeups", "run_delay.total"] {
        assert!(switch["counters"][absent].is_null(), "{absent}: {}", switch["counters"]);
    }
    assert!(switch["series"]["wakeup_delay"].is_null() && switch["series"]["slice"].is_object());
    assert!(lab.ok("import switch").contains("sched_waking        when wakeups began"));
    for command in ["import", "latency", "timehist"] {
        let (out, err) = lab.run(&[command, "no-switch"], 2);
        assert!(
            out.trim().is_empty() && err.contains("no sched_switch") && err.contains("help: record"),
            "{out}{err}"
        );
    }
}

#[test]
fn raw_fields_and_packed_files_give_the_same_run() {
    let lab = Lab::new();
    lab.write("raw", RAW);
    let want = [
        row("helper:2002", "120.000", "60"),
        row("worker:2001", "240.000", "60"),
        row("all", "360.000", "120"),
    ];
    assert_eq!(runtimes(&lab.ok("latency raw")), want);
    let write = |name: &str, bytes: &[u8]| std::fs::write(lab.path().join(name), bytes).unwrap();
    let packed = miniz_oxide::deflate::compress_to_vec(BOTH.as_bytes(), 6);
    let sum = crc32(BOTH.as_bytes()).to_le_bytes();
    let length = (BOTH.len() as u32).to_le_bytes();
    let gzip = [&b"\x1f\x8b\x08\0\0\0\0\0\0\x03"[..], &packed, &sum, &length].concat();
    let zlib = miniz_oxide::deflate::compress_to_vec_zlib(BOTH.as_bytes(), 6);
    write("trace.gz", &gzip);
    write("atrace.z", &[b"capturing trace... done\nTRACE:\n", &zlib[..]].concat());
    lab.write("plain", BOTH);
    let (plain, _) = imported(&lab, &["plain", "--variant", "x"]);
    for name in ["trace.gz", "atrace.z"] {
        assert_eq!(runtimes(&lab.ok(&["latency", name])), want, "{name}");
        let (told, _) = imported(&lab, &[name, "--variant", "x"]);
        assert_eq!(
            (&told["folder"], &told["was_there"]),
            (&plain["folder"], &true.into()),
            "{name}: the same run"
        );
    }
    // Cut: what there is, and a warning.
    write("cut.gz", &gzip[..gzip.len() / 2]);
    let (out, err) = lab.run("latency cut.gz", 0);
    assert!(err.contains("it is not whole") && runtimes(&out).len() == 3, "{out}{err}");
    let mut damaged = gzip.clone();
    let last = damaged.len() - 1;
    damaged[last] ^= 1;
    write("damaged.gz", &damaged);
    lab.says("latency damaged.gz", 2, &["damaged"]);
    // A form that is read in no order is unpacked to a file without a name.
    let dat = include_bytes!("../../import/tests/data/trace-6.dat");
    let packed = miniz_oxide::deflate::compress_to_vec_zlib(dat, 6);
    write("dat.z", &packed);
    write("dat", dat);
    assert_eq!(lab.ok("latency dat.z"), lab.ok("latency dat"));
}

/// CRC-32, bit by bit.
fn crc32(bytes: &[u8]) -> u32 {
    let bit = |sum: u32, _: u32| if sum & 1 == 1 { sum >> 1 ^ 0xedb8_8320 } else { sum >> 1 };
    !bytes.iter().fold(!0, |sum, b| (0..8).fold(sum ^ u32::from(*b), bit))
}

#[test]
fn a_recording_in_place_of_a_run_is_sent_to_import() {
    let lab = Lab::new();
    lab.write("a.txt", FTRACE);
    let packed = miniz_oxide::deflate::compress_to_vec_zlib(FTRACE.as_bytes(), 6);
    let dat = include_bytes!("../../import/tests/data/trace-6.dat");
    for (name, bytes) in [("a.dat", &dat[..]), ("a.txt.z", &packed)] {
        std::fs::write(lab.path().join(name), bytes).unwrap();
    }
    lab.write("list.txt", "milk\n");
    for command in ["explain", "replay", "trace", "compare", "report"] {
        for file in ["a.txt", "a.dat", "a.txt.z"] {
            let (_, err) = lab.run(&format!("{command} {file}"), 2);
            assert!(err.contains(&format!("'schedlab import {file}' makes a run of it")), "{command}: {err}");
            assert!(!err.contains("take the run's folder away"), "{command}: {err}");
        }
        let (_, err) = lab.run(&[command, "list.txt"], 2);
        assert!(
            !err.contains("is a recording") && !err.contains("take the run's folder away"),
            "{command}: {err}"
        );
    }
}

#[test]
fn explaining_an_import_without_wakeups_names_the_events_to_record() {
    let lab = Lab::new();
    let switches: Vec<&str> = FTRACE.lines().filter(|l| !l.contains("sched_wak")).collect();
    lab.write("switches.txt", &(switches.join("\n") + "\n"));
    let (told, _) = imported(&lab, &["switches.txt"]);
    let (_, err) = lab.run(&["explain", told["folder"].as_str().unwrap()], 2);
    assert!(
        err.contains("no wakeups") && err.contains("-e sched_waking") && !err.contains("--backend"),
        "{err}"
    );
    for more in [&["--idle-while-waiting"][..], &["--metric", "run_delay"]] {
        let (_, err) = lab.run(&[&["explain", told["folder"].as_str().unwrap()], more].concat(), 3);
        assert!(err.contains("schedlab replay") && !err.contains("--backend"), "{err}");
    }
}

#[test]
fn names_with_terminal_codes_are_refused_in_options_and_harmless_in_files() {
    let lab = Lab::new();
    lab.write("a.txt", FTRACE);
    for option in ["--variant", "--workload", "--kernel"] {
        for name in ["a\u{1b}[31mred", "a\nb", "a\u{202e}b", " "] {
            let (_, err) = lab.run(&["import", "a.txt", option, name], 2);
            assert!(err.contains(option) && !err.contains('\u{1b}') && !err.contains('\u{202e}'), "{err}");
        }
    }
    lab.write("b\u{1b}[31m.txt", &FTRACE.replacen("# tracer", "# os release : 6.1\u{1b}[32m\n# tracer", 1));
    let (_, record) = imported(&lab, &["b\u{1b}[31m.txt"]);
    assert!(
        !record["variant"].to_string().contains("\\u001b[31m\"")
            || record["variant"]["name"] == "b\\u001b[31m"
    );
    assert_eq!(record["variant"]["name"], "b\\u001b[31m");
    std::fs::write(lab.path().join("names"), include_bytes!("cases/hostile/comm-names.ftrace")).unwrap();
    for command in ["import", "latency", "timehist"] {
        let told = lab.ok(&[command, "names"]);
        assert!(!told.contains(['\u{1b}', '\u{202e}', '\u{7}']), "{command}: {told}");
    }
}

#[test]
fn names_of_several_lines_stay_in_their_row() {
    let lab = Lab::new();
    // Perfetto has names as they are; in text they would end the line.
    let mut named = include_bytes!("../../import/tests/data/story.pftrace").to_vec();
    let at: Vec<usize> = (0..named.len() - 3).filter(|at| &named[*at..at + 3] == b"b c").collect();
    at.iter().for_each(|at| named[at + 1] = b'\n');
    std::fs::write(lab.path().join("p.pftrace"), named).unwrap();
    let told = lab.ok("latency p.pftrace");
    assert!(told.lines().any(|l| l.starts_with("b\\u000ac:20")), "{told}");
}
