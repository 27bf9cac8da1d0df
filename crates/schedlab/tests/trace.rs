//! `schedlab trace`: the events of a stored run as files for other tools, through the binary.

use crate::common::Lab;
use schedlab_base::testing::skipped;
use schedlab_trace::perfetto::message::Message;
use schedlab_trace::perfetto::messages::{Trace, TracePacket};
use serde_json::Value;
use std::collections::BTreeMap;
use std::path::Path;
use std::process::Command;

/// A run of schbench, with further options; its folder.
fn bench(lab: &Lab, more: &str) -> String {
    lab.kept(&format!("bench schbench --backend sim --machine smp-4 -m 1 -t 6 -r 0.2 {more}"))
}

fn packets(lab: &Lab, file: &str) -> Vec<TracePacket> {
    Trace::read(&std::fs::read(lab.path().join(file)).unwrap()).unwrap().packet
}

/// Running time by thread between the ends of the slice "measured".
fn running(packets: &[TracePacket]) -> BTreeMap<i32, u64> {
    let (from, until) = measured(packets);
    let mut since: BTreeMap<u32, (u64, i32)> = BTreeMap::new();
    let mut sums = BTreeMap::new();
    let mut add = |tid, begin: u64, end: u64| {
        if tid != 0 {
            *sums.entry(tid).or_insert(0) += end.min(until).saturating_sub(begin.max(from));
        }
    };
    for bundle in packets.iter().filter_map(|p| p.ftrace_events.as_ref()) {
        for switch in bundle.switches() {
            let before = since.insert(bundle.cpu.unwrap(), (switch.at, switch.next_pid));
            if let Some((begin, tid)) = before {
                assert!(switch.at >= begin && switch.prev_pid.is_none_or(|prev| prev == tid), "{switch:?}");
                add(tid, begin, switch.at);
            }
        }
    }
    since.into_values().for_each(|(begin, tid)| add(tid, begin, until));
    sums
}

/// Begin and end of the measured time.
fn measured(packets: &[TracePacket]) -> (u64, u64) {
    let mut names = BTreeMap::new();
    let mut begins = None;
    for p in packets {
        let told = p.interned_data.iter().flat_map(|d| &d.event_names);
        names.extend(told.map(|n| (n.iid.unwrap(), n.name.clone().unwrap())));
        let Some(event) = &p.track_event else { continue };
        let name = event.name_iid.and_then(|iid| names.get(&iid));
        if name.is_some_and(|n| n == "measured") {
            begins = Some((p.timestamp.unwrap(), event.track_uuid));
        } else if let Some((from, track)) = begins.filter(|(_, track)| event.track_uuid == *track) {
            let _ = track;
            return (from, p.timestamp.unwrap());
        }
    }
    panic!("no measured time");
}

/// CPU time by name, of the record's tasks.
fn accounts(record: &Value) -> BTreeMap<String, u64> {
    let one = |t: &Value| (t["name"].as_str().unwrap().to_owned(), t["cpu_time"].as_u64().unwrap());
    record["tasks"].as_array().unwrap().iter().map(one).collect()
}

/// Names of threads by number.
fn threads(packets: &[TracePacket]) -> BTreeMap<i32, String> {
    let mut names = BTreeMap::new();
    let bundles = packets.iter().filter_map(|p| p.ftrace_events.as_ref());
    names.extend(bundles.flat_map(|b| b.switches()).map(|s| (s.next_pid, s.next_comm)));
    names
}

/// Checks that each task ran in the trace for as long as the record says, to the nanosecond.
fn adds_up(packets: &[TracePacket], record: &Value) {
    let (sums, names, accounts) = (running(packets), threads(packets), accounts(record));
    assert!(accounts.len() == 7 && accounts.values().all(|ns| *ns > 0), "{accounts:?}");
    for (name, ns) in accounts {
        let tid = names.iter().find(|(_, n)| **n == name).unwrap().0;
        assert_eq!(sums[tid], ns, "{name}");
    }
}

#[test]
fn a_simulated_run_is_traced_to_the_nanosecond_with_and_without_kept_events() {
    let lab = Lab::new();
    let folder = bench(&lab, "--kernel v6.5");
    assert!(!lab.path().join(&folder).join("events.slt").exists());
    lab.run(&["trace", &folder, "-o", "again.pftrace"], 0);
    let again = packets(&lab, "again.pftrace");
    adds_up(&again, &lab.record(&folder));

    let kept = bench(&lab, "--kernel v6.5 --keep-events --out kept");
    assert_eq!(lab.record(&kept), lab.record(&folder), "keeping events changes nothing");
    assert!(lab.path().join(&kept).join("events.slt").exists());
    lab.run(&["trace", &kept, "-o", "kept.pftrace"], 0);
    let bytes = |file: &str| std::fs::read(lab.path().join(file)).unwrap();
    assert!(bytes("kept.pftrace") == bytes("again.pftrace"), "the same trace from both");
    // What is beside a run goes with it, and nothing is left in the store's folder.
    lab.run("runs rm --out kept --yes --load threads=6", 0);
    assert_eq!(std::fs::read_dir(lab.path().join("kept")).unwrap().count(), 0);
}

#[test]
fn another_run_than_the_stored_one_is_not_traced() {
    let lab = Lab::new();
    let folder = bench(&lab, "--kernel v4.5");
    let file = lab.path().join(&folder).join("record.json");
    let text = std::fs::read_to_string(&file).unwrap();
    let migrations = lab.record(&folder)["counters"]["migrations"].as_u64().unwrap();
    let (old, new) =
        (format!("\"migrations\":{migrations},\"migr"), format!("\"migrations\":{},\"migr", migrations + 1));
    assert!(text.contains(&old), "{text}");
    std::fs::write(&file, text.replacen(&old, &new, 1)).unwrap();
    lab.says(
        &["trace", &folder, "-o", "x.pftrace"],
        1,
        &["the run is another one than the stored: migrations differs"],
    );
    let left: Vec<_> = std::fs::read_dir(lab.path()).unwrap().map(|e| e.unwrap().file_name()).collect();
    assert!(!left.iter().any(|n| n.to_string_lossy().contains("pftrace")), "{left:?}");
}

#[test]
fn two_runs_are_shown_above_each_other() {
    let lab = Lab::new();
    lab.run("run small.toml --load 1x6 --runs 1", 0);
    let words = "trace small.toml --load 1x6 --variant v4.5 --vs first-idle -o two.pftrace";
    lab.run(words, 0);
    let packets = packets(&lab, "two.pftrace");
    let cpus: Vec<u32> = packets.iter().filter_map(|p| p.ftrace_events.as_ref()?.cpu).collect();
    assert!((0..8).all(|cpu| cpus.contains(&cpu)) && !cpus.contains(&8));
    let names: Vec<&String> = packets
        .iter()
        .filter_map(|p| p.process_tree.as_ref())
        .flat_map(|t| &t.processes)
        .flat_map(|p| &p.cmdline)
        .collect();
    assert!(names.iter().any(|n| *n == "A: schbench (v4.5)"), "{names:?}");
    assert!(names.iter().any(|n| *n == "B: schbench (first-idle)"), "{names:?}");
    lab.says(
        "trace small.toml --load 1x6 --variant v4.5 --vs first-idle --format text",
        2,
        &["--vs: only a Perfetto trace has two runs"],
    );
}

#[test]
fn a_text_goes_to_standard_output_in_order_of_time() {
    let lab = Lab::new();
    let folder = bench(&lab, "--kernel v6.12");
    let text = lab.ok(&["trace", &folder, "--format", "text", "-o", "-"]);
    assert!(text.starts_with("# tracer: nop\n"), "{}", &text[..200]);
    let lines: Vec<&str> = text.lines().filter(|l| !l.starts_with('#')).collect();
    assert!(
        lines.iter().any(|l| l.contains(" sched_switch: prev_comm=") && l.contains(" prev_state=R+ ==> "))
    );
    assert!(lines.iter().any(|l| l.contains("tracing_mark_write: placed ")));
    let time = |l: &&&str| l.split(": ").next().and_then(|head| head.rsplit(' ').next()?.parse::<f64>().ok());
    let times: Vec<f64> = lines.iter().map(|l| time(&l).unwrap()).collect();
    assert!(times.is_sorted(), "in order of time");
    // The run has no warm-up, so every switch away from a task of the workload is in its record.
    let own = |l: &&&str| (1000..1007).any(|tid| l.contains(&format!(" prev_pid={tid} ")));
    let slept = |l: &&&str| ["S", "X"].iter().any(|s| l.contains(&format!(" prev_state={s} ")));
    let (voluntary, involuntary): (Vec<&&str>, Vec<&&str>) = lines.iter().filter(own).partition(slept);
    let counted = |name: &str| lab.record(&folder)["counters"][name].as_u64().unwrap() as usize;
    assert_eq!(voluntary.len(), counted("switches.voluntary"));
    assert_eq!(involuntary.len(), counted("switches.involuntary"));
    let plain = lab.ok(&["trace", &folder, "--format", "text", "--plain", "-o", "-"]);
    assert_eq!(plain.lines().count(), text.lines().filter(|l| !l.contains("tracing_mark_write")).count());
}

#[test]
fn the_events_of_another_run_are_refused() {
    let lab = Lab::new();
    let [one, two] = ["", " --seed 2"].map(|more| bench(&lab, &format!("--kernel v6.5 --keep-events{more}")));
    let file = |folder: &str| lab.path().join(folder).join("events.slt");
    std::fs::copy(file(&two), file(&one)).unwrap();
    let said = ["events.slt: these events are of run", "/2, and the record", "/1", "remove the file"];
    lab.says(&["trace", &one, "-o", "x.pftrace"], 2, &said);
    // Older files do not say whose they are.
    let bytes = std::fs::read(file(&two)).unwrap();
    let (end, foot) = bytes.split_at(bytes.len() - 16);
    let run_at = end.windows(9).rposition(|w| w.starts_with(b"R") && w[2..5] == [0; 3]).unwrap();
    std::fs::write(file(&two), [&end[..run_at], foot].concat()).unwrap();
    lab.run(&["trace", &two, "-o", "old.pftrace"], 0);
    std::fs::remove_file(file(&one)).unwrap();
    lab.run(&["trace", &one, "-o", "again.pftrace"], 0);
}

#[test]
fn damage_and_wrong_words_are_reported() {
    let lab = Lab::new();
    let folder = bench(&lab, "--kernel v6.5 --keep-events");
    let file = lab.path().join(&folder).join("events.slt");
    let bytes = std::fs::read(&file).unwrap();
    std::fs::write(&file, &bytes[..bytes.len() / 2]).unwrap();
    lab.says(&["trace", &folder, "-o", "x.pftrace"], 2, &["events.slt: damaged at byte", "no end"]);
    lab.says(&["trace", &folder, "--plain"], 2, &["--plain is for texts and CTF"]);
}

#[test]
fn counters_are_written_on_request_and_change_nothing() {
    let lab = Lab::new();
    let folder = bench(&lab, "--kernel v6.12");
    lab.run(&["trace", &folder, "-o", "plain.pftrace"], 0);
    lab.run(&["trace", &folder, "--counters", "lag,load", "-o", "counted.pftrace"], 0);
    let (plain, counted) = (packets(&lab, "plain.pftrace"), packets(&lab, "counted.pftrace"));
    let tracks = |packets: &[TracePacket]| -> Vec<String> {
        packets.iter().filter_map(|p| p.track_descriptor.as_ref()?.name.clone()).collect()
    };
    let has = |name: &str| tracks(&counted).iter().any(|n| n.starts_with(name));
    assert!(has("lag worker") && has("load 3") && !has("slice") && !has("vruntime"));
    assert!(!tracks(&plain).iter().any(|n| n.starts_with("lag")));
    assert_eq!(running(&plain), running(&counted));
    lab.says(&["trace", &folder, "--counters", "speed"], 2, &["speed", "slice"]);
}

/// Running time by thread as babeltrace2 reads it from the CTF trace, if SCHEDLAB_TEST_BABELTRACE is 1.
#[test]
fn babeltrace_reads_the_same_sums() {
    if std::env::var("SCHEDLAB_TEST_BABELTRACE").as_deref() != Ok("1") {
        skipped("babeltrace2 (SCHEDLAB_TEST_BABELTRACE=1)");
        return;
    }
    let lab = Lab::new();
    let folder = bench(&lab, "--kernel v6.5");
    lab.run(&["trace", &folder, "--format", "ctf", "-o", "run.ctf"], 0);
    let out = Command::new("babeltrace2")
        .args(["--clock-seconds", "--no-delta"])
        .arg(lab.path().join("run.ctf"))
        .output()
        .unwrap();
    let (text, err) = (String::from_utf8_lossy(&out.stdout), String::from_utf8_lossy(&out.stderr));
    assert!(out.status.success() && err.is_empty(), "{err}");
    let end = 200_000_000;
    let mut since: BTreeMap<String, (u64, String)> = BTreeMap::new();
    let mut sums: BTreeMap<String, u64> = BTreeMap::new();
    for line in text.lines().filter(|l| l.contains("sched_switch:")) {
        let field = |name: &str| {
            let rest = line.split(&format!("{name} = ")).nth(1).unwrap_or_else(|| panic!("{name}: {line}"));
            rest.split([',', ' ', '}']).next().unwrap().trim_matches('"').to_owned()
        };
        let (seconds, ns) = line[1..line.find(']').unwrap()].split_once('.').unwrap();
        let at = seconds.parse::<u64>().unwrap() * 1_000_000_000 + ns.parse::<u64>().unwrap();
        if let Some((from, name)) = since.insert(field("cpu_id"), (at, field("next_comm"))) {
            assert_eq!(name, field("prev_comm"));
            *sums.entry(name).or_default() += at.min(end) - from.min(end);
        }
    }
    since.into_values().for_each(|(from, name)| *sums.entry(name).or_default() += end - from.min(end));
    let accounts = accounts(&lab.record(&folder));
    assert!(!accounts.is_empty());
    for (name, ns) in accounts {
        assert_eq!(sums[&name], ns, "{name}");
    }
    let kinds = ["sched_waking:", "power_cpu_idle:", "sched_migrate_task:", "schedlab_placed:"];
    assert!(kinds.iter().all(|kind| text.contains(kind)));
}

/// The same sums by Perfetto's own message definitions: the Python package `perfetto`, if SCHEDLAB_TEST_PERFETTO is 1.
#[test]
fn perfettos_own_definitions_read_the_same() {
    if std::env::var("SCHEDLAB_TEST_PERFETTO").as_deref() != Ok("1") {
        skipped("the Python package perfetto (SCHEDLAB_TEST_PERFETTO=1)");
        return;
    }
    let lab = Lab::new();
    let folder = bench(&lab, "--kernel v6.5");
    lab.run(&["trace", &folder, "-o", "run.pftrace"], 0);
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/perfetto_sums.py");
    let python = std::env::var("SCHEDLAB_PYTHON").unwrap_or_else(|_| "python3".to_owned());
    let out = Command::new(python).arg(script).arg(lab.path().join("run.pftrace")).output().unwrap();
    assert!(out.status.success(), "{}", String::from_utf8_lossy(&out.stderr));
    let sums: BTreeMap<String, u64> = serde_json::from_slice(&out.stdout).unwrap();
    for (name, ns) in accounts(&lab.record(&folder)) {
        assert_eq!(sums[&name], ns, "{name}");
    }
}
