//! Files of other tools, read through the binary: read right, or refused with the remedy. The files of `cases/files`
//! were written for this; real output of the tools is in crates `compare`, `import` and `lab`.

use crate::common::Lab;

macro_rules! case {
    ($name:literal) => {
        include_str!(concat!("cases/files/", $name))
    };
}

#[test]
fn a_whole_log_of_stress_ng_has_its_rates() {
    let lab = Lab::new();
    lab.write("a.txt", case!("stress-ng-full-log.txt"));
    let all = lab.json(&["compare", "A=a.txt", "B=a.txt", "--json"]).to_string();
    assert!(all.contains("stress-ng.switch.rate") && all.contains("200010"), "{all}");
    assert!(all.contains("stress-ng.switch.per_op") && all.contains("4990.1"), "{all}");
}

#[test]
fn kinds_of_cpus_of_hwloc_become_capacities() {
    let lab = Lab::new();
    lab.write("box.xml", case!("hwloc-kind-a-cache.xml"));
    let text = lab.ok(&["machine", "import", "box.xml"]);
    assert!(text.contains("capacity = [700, 1024]") && text.contains("cores = [4, 4]"), "{text}");
    lab.write("box.toml", &text);
    assert!(lab.ok(&["machine", "box.toml"]).contains("700"));
}

/// helper's stays: its number, CPU time and switches by `latency`.
fn helper(lab: &Lab, file: &str) -> (String, String) {
    let table = lab.ok(&["latency", file]);
    let row = table.lines().find(|l| l.starts_with("helper")).unwrap_or_else(|| panic!("{table}"));
    let words: Vec<&str> = row.split_whitespace().collect();
    (words[1].to_owned(), words[2].to_owned())
}

#[test]
fn the_latency_format_and_babeltraces_text_are_recordings() {
    let lab = Lab::new();
    lab.write("latency.txt", case!("latency-format.txt"));
    lab.write("babeltrace.txt", case!("babeltrace2.txt"));
    for file in ["latency.txt", "babeltrace.txt"] {
        assert_eq!(helper(&lab, file), ("120.000".to_owned(), "40".to_owned()), "{file}");
    }
    let named = lab.ok(&["latency", "--format", "babeltrace", "babeltrace.txt"]);
    assert_eq!(named, lab.ok(&["latency", "babeltrace.txt"]));
}

#[test]
fn lines_of_a_host_and_its_guest_are_refused() {
    let lab = Lab::new();
    lab.write("both.txt", include_str!("../../import/tests/data/report-two-files.txt"));
    let e = lab.run(&["latency", "both.txt"], 2).1;
    assert!(e.contains("trace73.dat, trace73b.dat") && e.contains("schedlab latency trace73.dat"), "{e}");
}

#[test]
fn an_unknown_text_gets_the_option_that_reads_any() {
    let lab = Lab::new();
    lab.write("a.txt", "throughput 12.5 ops/s\n");
    for words in [&["compare", "A=a.txt", "B=a.txt"][..], &["latency", "a.txt"]] {
        let e = lab.run(words, 2).1.split_whitespace().collect::<Vec<_>>().join(" ");
        assert!(e.contains("--metric-regex 'NAME[UNIT]=REGEX'"), "{e}");
    }
    // As the remedy has it.
    let regex = "rate[ops/s]=([0-9.]+) ops/s";
    let all = lab.ok(&["compare", "A=a.txt", "B=a.txt", "--metric-regex", regex]);
    assert!(all.contains("12.5"), "{all}");
}
