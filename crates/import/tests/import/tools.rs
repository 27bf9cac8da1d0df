//! Texts that tools print of the same trace give the same result. `options-*.txt` are 60 records of a guest of 7.3 in
//! the three forms of tracefs; `report-*.txt` are by trace-cmd 3.3.1 from one file; `babeltrace.txt` is by babeltrace2
//! 2.0.4 from that file's CTF.

use crate::made::found;
use schedlab_import::Form;

fn data(name: &str) -> Vec<u8> {
    std::fs::read(std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data").join(name)).unwrap()
}

#[test]
fn the_latency_format_reads_like_the_plain_one() {
    let (plain, of_plain) = found(&data("options-plain.txt")).unwrap();
    assert!(plain.counters["switches.voluntary"] > 5 && of_plain.cast.tasks.len() > 5, "{plain:?}");
    for name in ["options-latency.txt", "options-verbose.txt"] {
        let (got, imported) = found(&data(name)).unwrap();
        assert_eq!(imported.form, Some(Form::Ftrace));
        // Its times have another origin, and are cut to us where the plain form's are rounded.
        assert_eq!(
            got.counters.keys().collect::<Vec<_>>(),
            plain.counters.keys().collect::<Vec<_>>(),
            "{name}"
        );
        for (key, value) in &plain.counters {
            let other = got.counters[key];
            // Sums of times over 60 records differ by less than 60 us.
            let is_time = schedlab_record::Metric::find(key).is_ok_and(|metric| metric.row.unit == "ns");
            assert!(
                other.abs_diff(*value) <= if is_time { 60_000 } else { 0 },
                "{name}: {key} {other} instead of {value}"
            );
        }
        let names = |i: &schedlab_import::Imported| -> Vec<(String, u32)> {
            i.cast.tasks.iter().map(|t| (t.name.clone(), t.tid)).collect()
        };
        assert_eq!(names(&imported), names(&of_plain), "{name}: names of 8 bytes are not the tasks' names");
        assert_eq!(imported.cast.release, "7.3.4+deb13-cloud-amd64");
    }
    let (plain, _) = found(&data("report-plain.txt")).unwrap();
    assert_eq!(found(&data("report-latency.txt")).unwrap().0, plain);
}

#[test]
fn lines_of_two_files_are_refused_with_both_names() {
    let e = found(&data("report-two-files.txt")).unwrap_err();
    assert!(e.contains("trace73.dat, trace73b.dat") && e.contains("are not the same"), "{e}");
    assert!(e.contains("schedlab latency trace73.dat") && e.contains("sed -n"), "{e}");
    // The lines of one file alone, as the remedy advises, are read like that file.
    let text = String::from_utf8(data("report-two-files.txt")).unwrap();
    let one: String =
        text.lines().filter_map(|l| l.strip_prefix(" trace73.dat: ")).map(|l| format!("{l}\n")).collect();
    assert!(found(one.as_bytes()).is_ok());
}

#[test]
fn babeltraces_text_is_read_in_each_form_of_its_times() {
    let text = String::from_utf8(data("babeltrace.txt")).unwrap();
    let (want, imported) = found(text.as_bytes()).unwrap();
    assert_eq!((imported.form, imported.records), (Some(Form::Babeltrace), 60));
    assert!(want.counters["switches.voluntary"] > 0 && imported.cast.tasks.len() > 5);
    let dated = text.replace("[00:", "[2026-11-28 00:");
    let seconds = text.replace("[00:00:0", "[").replace("[00:00:", "[");
    for other in [dated, seconds] {
        assert_eq!(found(other.as_bytes()).unwrap().0, want);
    }
    // The second half is after midnight.
    let half = text.lines().count() / 2;
    let late = |(at, line): (usize, &str)| {
        line.replace("[00:00:", if at < half { "[23:59:" } else { "[00:00:" }) + "\n"
    };
    let over: String = text.lines().enumerate().map(late).collect();
    let (_, imported) = found(over.as_bytes()).unwrap();
    assert_eq!((imported.losses.late, imported.cast.end.0 / 1_000_000_000), (0, 60));
    let e = found(text.replace("cpu_id = ", "").as_bytes()).unwrap_err();
    assert!(e.contains("babeltrace2"), "fields without names: {e}");
    let cycles = text.replace("[00:00:00.", "[00000000000000");
    assert!(found(cycles.as_bytes()).unwrap_err().contains("line 1 "), "counts of an unknown clock");
    let cut = &text[..text.len() - 9];
    assert!(found(cut.as_bytes()).unwrap().1.losses.cut);
    let lost = format!("[warning] Tracer discarded 12 events between [1] and [2]\n{text}");
    assert_eq!(found(lost.as_bytes()).unwrap().1.losses.events, 12);
}

#[test]
fn a_tracer_of_one_wakeup_is_named() {
    let text = "# tracer: wakeup_rt\n#\n# wakeup_rt latency trace v1.1.5 on 6.12.107\n# latency: 24 us, #3/3, CPU#0\n\
        \x20 <idle>-0         0dN.5.    1us+:        0:120:R   + [000]      93: 98:R cyclictest\n\
        \x20 <idle>-0         0dN.5.    4us+: wake_up_process <-hrtimer_wakeup\n";
    let e = found(text.as_bytes()).unwrap_err();
    assert!(e.contains("the tracer 'wakeup_rt'") && e.contains("trace-cmd record"), "{e}");
}

#[test]
fn differences_of_times_and_clocks_that_count_no_time_are_refused_with_the_option() {
    let delta = |n: u32| {
        format!(
            " a 7 [000]     0.00000{}: sched:sched_waking: comm=b pid=8 prio=120 target_cpu=000\n",
            n * 5 % 7
        )
    };
    let e = found((0..300).map(delta).collect::<String>().as_bytes()).unwrap_err();
    assert!(e.contains("older than the one before") && e.contains("--deltatime"), "{e}");
    // A clock that restarts in a short text steps back once.
    let restarts = |n: u32| {
        let at = if n < 200 { 50_000 + n } else { n };
        format!(" a 7 [000]     1.{at:06}: sched:sched_waking: comm=b pid=8 prio=120 target_cpu=000\n")
    };
    assert!(found((0..1_500).map(restarts).collect::<String>().as_bytes()).is_ok());
    let counter =
        "# tracer: nop\n#\n a-7 [001] d..3.       2: sched_waking: comm=b pid=8 prio=120 target_cpu=001\n";
    let raw = "# tracer: nop\n#\n7 1 697951323795 type: 366\n";
    let fields = "# tracer: nop\n a-7 [001] d..3. 6.9: sched_waking: comm=b pid=0x8 (8) prio=0x78 (120) target_cpu=0x1 (1)\n";
    for text in [counter, raw, fields] {
        let e = found(text.as_bytes()).unwrap_err();
        assert!(e.contains("trace_options") && e.contains("trace_clock"), "{e}");
    }
}
