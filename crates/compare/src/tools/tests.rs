//! Tests every tool's reader on samples of its output, and on other text.

use super::*;
use proptest::prelude::*;
use schedlab_workload::command::{Place, Source, Take};
use std::path::{Path, PathBuf};

fn sample(name: &str) -> String {
    std::fs::read_to_string(samples().join(name)).unwrap()
}

fn samples() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/outputs")
}

/// The results of a sample: the tool, and the load and values of each result.
fn results_of(name: &str) -> String {
    let text = sample(name);
    // Bare numbers belong to no tool unless it is named.
    let tool = match name {
        "perf-bench-simple.txt" => &super::perf::BENCH,
        _ => detect(&text).unwrap_or_else(|| panic!("{name} is of no known tool")),
    };
    let mut all = format!("{}\n", tool.name);
    for r in (tool.read)(&text).unwrap() {
        all += &format!("  load {}\n", r.load.as_deref().unwrap_or("-"));
        for (name, f) in tool.figures("w", &r.values).unwrap() {
            all += &format!("  {name} {} {} {}\n", f.value, f.unit, f.better.name());
        }
        if let Some(variant) = &r.variant {
            all += &format!("  of variant {variant}\n");
        }
        if let Some(what) = &r.means {
            all += &format!("  means of {what}\n");
        }
        if !r.repeats.is_empty() {
            all += &format!("  {} repeats\n", r.repeats.len());
        }
    }
    all
}

#[test]
fn samples_of_every_tool_are_read() {
    let golden = samples().join("../outputs.golden");
    let mut names: Vec<String> = std::fs::read_dir(samples())
        .unwrap()
        .map(|f| f.unwrap().file_name().into_string().unwrap())
        .collect();
    names.sort();
    let all: String = names.iter().map(|n| format!("{n}: {}", results_of(n))).collect();
    if std::env::var_os("SCHEDLAB_BLESS").is_some() {
        std::fs::write(&golden, &all).unwrap();
    }
    assert_eq!(all, std::fs::read_to_string(&golden).unwrap());
    for tool in TOOLS.iter().filter(|t| !["tbench", "sysbench-mutex"].contains(&t.name)) {
        assert!(all.contains(&format!(": {}\n", tool.name)), "no sample of {}", tool.name);
    }
}

#[test]
fn the_table_is_sound() {
    for tool in TOOLS {
        assert!(tool.load.is_empty() == tool.load_about.is_empty(), "{}", tool.name);
        assert!(tool.load.is_empty() || tool.load.iter().any(|w| w.contains("{load}")), "{}", tool.name);
        for name in tool.headline {
            assert!(tool.row(name).is_some(), "{}: no figure {name}", tool.name);
        }
        assert_eq!(TOOLS.iter().filter(|t| t.name == tool.name).count(), 1);
    }
    assert!(find("hackbnech").err().unwrap().to_string().contains("'hackbench'"));
}

fn said(stdout: &str) -> CommandOutput {
    CommandOutput { stdout: stdout.to_owned(), stderr: String::new() }
}

fn wanting(place: Place, take: Take, unit: &str) -> CommandSpec {
    let mut spec = CommandSpec::new("x", vec!["x".into()]);
    let better = "lower".to_owned();
    spec.metrics.push(Extract {
        name: "x.t".into(),
        place,
        source: Source::Stdout,
        take,
        unit: unit.into(),
        better,
    });
    spec
}

#[test]
fn figures_are_taken_by_expression_and_by_pointer() {
    let regex =
        |take, text: &str| findings(&wanting(Place::Regex(r"t=([0-9.,]+)".into()), take, "ms"), &said(text));
    let value = |f: Findings| f.figures["x.t"].value;
    assert_eq!(value(regex(Take::Only, "t=1.5 ms").unwrap()), 1_500_000.0);
    assert_eq!(value(regex(Take::First, "t=1,000.5 t=2").unwrap()), 1_000_500_000.0);
    assert_eq!(value(regex(Take::Last, "t=1 t=2").unwrap()), 2e6);
    let series = regex(Take::All, "t=1 t=2 t=3").unwrap().series;
    assert_eq!((series["x.t"].count(), series["x.t"].max()), (3, Some(3_000_000)));
    let pointer = |pointer: &str, text: &str| {
        findings(&wanting(Place::JsonPointer(pointer.into()), Take::Only, ""), &said(text))
    };
    assert_eq!(value(pointer("/a/0/b", "warming up\n{\"a\": [{\"b\": \"7\"}]}").unwrap()), 7.0);
    for (result, words) in [
        (regex(Take::Only, "t=1 t=2"), "is found 2 times in standard output\n  its last lines:\n  t=1 t=2"),
        (regex(Take::Only, "nothing here"), "nothing matches 't=([0-9.,]+)'"),
        (regex(Take::Only, ""), "the command printed nothing"),
        (regex(Take::Only, "t=1.2.3"), "in standard output: '1.2.3' is not a number"),
        (regex(Take::Only, "t=1,000"), "'1,000' may mean 1000 or 1.000"),
        (regex(Take::First, "t=0,52 t=2"), "the number of '0,52' is written in the way of another locale"),
        (pointer("/a", "{\"b\": 1}"), "nothing is at '/a'"),
        (pointer("/a", "{\"a\": {}}"), "in standard output: '{}' is not a number"),
        (pointer("/a", "no JSON"), "there is no JSON"),
    ] {
        let e = result.unwrap_err();
        assert!(e.to_string().contains(words) && e.kind().exit_code() == 2, "{words}: {e}");
    }
}

#[test]
fn impossible_figures_are_refused_before_any_run() {
    let error = |text: &str| metric_option("x", text, Place::Regex).unwrap_err().to_string();
    assert!(error("t[s,frob]=(a)").contains("'frob' is a second unit"), "{}", error("t[s,frob]=(a)"));
    assert!(error("t[lower,higher]=(a)").contains("'higher' is a second direction"));
    assert!(error("t=([0-9]").contains("not a regular expression"));
    assert!(error("t=a").contains("0 groups") && error("t=(a)(b)").contains("2 groups"));
    assert!(error("=(a)").contains("is not a metric") && error("t").contains("is not a metric"));
    assert!(
        metric_option("command", "elapsed=(a)", Place::Regex).unwrap_err().to_string().contains("already")
    );
    assert!(
        metric_option("x", "t=a/b", Place::JsonPointer).unwrap_err().to_string().contains("JSON pointer")
    );
    let m = metric_option("x", "rate[ops/s,last,stderr]=a=([0-9])", Place::Regex).unwrap();
    assert_eq!(
        (m.name.as_str(), m.better.as_str(), m.take, m.source),
        ("x.rate", "higher", Take::Last, Source::Stderr)
    );
    assert_eq!(m.place, Place::Regex("a=([0-9])".into()));
    let t = metric_option("x", "t[s]=T[a]=([0-9])", Place::Regex).unwrap();
    assert_eq!((t.better.as_str(), &t.place), ("lower", &Place::Regex("T[a]=([0-9])".into())));
}

#[test]
fn the_error_of_a_useless_output_shows_its_last_lines() {
    let mut spec = CommandSpec::new("hackbench", vec!["hackbench".into()]);
    spec.tool = Some("hackbench".into());
    let e = findings(&spec, &said("creating workers\nout of memory")).unwrap_err().to_string();
    assert!(e.contains("no line 'Time: SECONDS'") && e.contains("out of memory"), "{e}");
    let e = findings(&spec, &said("Time: 1\nTime: 2")).unwrap_err().to_string();
    assert!(e.contains("2 results"), "{e}");
}

#[test]
fn a_missing_program_names_its_package() {
    let absent = |tool: &'static Tool| {
        let mut spec = Template::tool(tool, Vec::new()).resolve(None, 1).unwrap();
        spec.env.insert("PATH".into(), "/nonexistent".into());
        check_installed(&spec).unwrap_err()
    };
    let e = absent(&hackbench::TOOL);
    assert_eq!((e.kind().exit_code(), e.remedy()), (3, Some("the package rt-tests has it")));
    assert!(absent(&schbench::TOOL).to_string().contains("from its source"));
}

#[test]
fn saved_outputs_become_runs_of_variants() {
    let dir = tempfile::tempdir().unwrap();
    let path = |name: &str| dir.path().join(name).display().to_string();
    for (name, time) in [("a.txt", "1.0"), ("b1.txt", "2.0"), ("b2.txt", "2.2")] {
        std::fs::write(path(name), format!("Time: {time}\n")).unwrap();
    }
    let both = format!("new={},{}", path("b1.txt"), path("b2.txt"));
    let (stored, runs) = saved::records(&[path("a.txt"), both], None).unwrap();
    let seen: Vec<(&str, f64)> =
        runs.iter().map(|r| (r.variant.name.as_str(), r.found.figures["hackbench.time"].value)).collect();
    assert_eq!((stored.len(), seen), (0, vec![("a", 1e9), ("new", 2e9), ("new", 2.2e9)]));
    assert!(runs[0].seed != runs[1].seed && runs[1].seed != runs[2].seed, "nothing pairs them");
    let repeats = saved::records(&[samples().join("hyperfine.json").display().to_string()], None).unwrap().1;
    assert_eq!((repeats.len(), repeats[0].load.as_str()), (3, "sleep 0.02"));
    std::fs::write(path("other.txt"), "hello").unwrap();
    let error = |source: String, tool: Option<&OutputReader>| {
        saved::records(&[source], tool).unwrap_err().to_string()
    };
    let e = error(path("other.txt"), None);
    assert!(e.contains("other.txt: not the output") && e.contains("hackbench, perf-messaging"), "{e}");
    assert!(error(path("other.txt"), Some(&OutputReader::Tool(&dbench::DBENCH))).contains("Throughput"));
    assert!(error(path("none.txt"), None).contains("none.txt"));
    assert!(error("old=".to_owned(), None).contains("names no file"));
}

#[test]
fn columns_of_a_table_are_variants_and_means_count_once() {
    let path = samples().join("mmtests.txt").display().to_string();
    let seen = |source: String| -> Vec<String> {
        let (_, runs) = saved::records(&[source], None).unwrap();
        assert!(runs.iter().all(|r| r.found.warnings.iter().any(|w| w.code == "saved.means")));
        runs.iter().map(|r| format!("{} {}", r.load, r.variant.name)).collect()
    };
    let want = [
        "hackbench-process-pipes 6.1.0-rc1-vanilla",
        "hackbench-process-pipes 6.1.0-rc1-placement-v2r1",
        "netperf-udp baseline",
        "netperf-udp patched",
    ];
    assert_eq!(seen(path.clone()), want);
    assert_eq!(seen(format!("x={path}"))[3], "netperf-udp x patched");
    let repeated = samples().join("perf-stat-r.txt").display().to_string();
    let text = saved::records(&[repeated], None).unwrap().1[0].found.warnings[0].message.clone();
    assert!(text.contains("a mean of 5 runs"), "{text}");
}

#[test]
fn a_reader_is_named_or_found_by_content() {
    let simple = sample("perf-bench-simple.txt");
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("pipe.txt").display().to_string();
    std::fs::write(&path, simple).unwrap();
    let workloads = |from: Option<&str>| {
        let from = from.map(|name| reader(name).unwrap());
        let runs = saved::records(std::slice::from_ref(&path), from.as_ref()).unwrap().1;
        runs.iter().map(|r| r.workload.clone()).collect::<Vec<_>>()
    };
    let unnamed = saved::records(std::slice::from_ref(&path), None).unwrap_err().to_string();
    assert!(unnamed.contains("--from NAME"), "{unnamed}");
    assert_eq!(workloads(Some("perf-bench")), ["perf-bench", "perf-bench"]);
    assert_eq!(workloads(Some("perf-pipe")), ["perf-pipe", "perf-pipe"]);
    assert!(reader("comparisn").err().unwrap().to_string().contains("'comparison'"));
    assert!(matches!(reader("run"), Ok(OutputReader::Schedlab(form)) if form.name == "run"));
    let run = r#"{"schema": "schedlab/run/1", "seed": 1, "metrics": {"a": {"unit": "", "better": "lower", "value": 1}}}"#;
    assert!(matches!(reader_of(run), Some(OutputReader::Schedlab(form)) if form.name == "run"));
}

#[test]
fn two_files_of_one_name_are_pooled_only_on_request() {
    let dir = tempfile::tempdir().unwrap();
    let side = |side: &str| {
        std::fs::create_dir(dir.path().join(side)).unwrap();
        let path = dir.path().join(side).join("hackbench.txt");
        std::fs::write(&path, "Time: 1.0\n").unwrap();
        path.display().to_string()
    };
    let (old, new) = (side("old"), side("new"));
    let e = saved::records(&[old.clone(), new.clone()], None).unwrap_err().to_string();
    assert!(e.contains("both named 'hackbench'") && e.contains(&format!("old={old} new={new}")), "{e}");
    assert!(saved::records(&[old.clone(), old.clone()], None).is_err());
    let named = [format!("x={old}"), format!("x={new}")];
    assert_eq!(saved::records(&named, None).unwrap().1.len(), 2, "asked for");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]
    #[test]
    fn no_text_makes_a_reader_panic(text in "(\\PC|\n|\r){0,200}", at in 0usize..20, cut in 0usize..600, word in "\\PC{0,12}") {
        let mut names: Vec<_> = std::fs::read_dir(samples()).unwrap().map(|f| f.unwrap().path()).collect();
        names.sort();
        let known = std::fs::read_to_string(&names[at % names.len()]).unwrap();
        let cut = (0..=cut.min(known.len())).rev().find(|i| known.is_char_boundary(*i)).unwrap();
        let damaged = format!("{}{word}{}", &known[..cut], &known[cut..]);
        for text in [text.as_str(), &damaged, &known[..cut]] {
            for tool in TOOLS {
                (tool.knows)(text);
                for reading in (tool.read)(text).unwrap_or_default() {
                    prop_assert!(reading.values.values().all(|v| v.is_finite()));
                }
            }
            for form in schedlab_json::FORMS {
                (form.knows)(text);
                let _ = (form.read)(text);
            }
        }
    }
}

/// For readers of text with numbers in words: a damaged number is neither taken for another number nor does it move a
/// figure to another name.
#[test]
fn a_damaged_number_does_not_change_other_figures() {
    let families =
        ["stress-ng", "cyclictest", "rtla", "runqlat", "runqslower", "perf-sched-stats", "perf-stat"];
    let of = |text: &str| -> Option<std::collections::BTreeMap<String, Vec<f64>>> {
        let mut all = std::collections::BTreeMap::<_, Vec<f64>>::new();
        for reading in (detect(text)?.read)(text).ok()? {
            for (name, value) in reading.values {
                all.entry(name).or_default().push(value);
            }
        }
        Some(all)
    };
    let mut wrong = Vec::new();
    for name in std::fs::read_dir(samples()).unwrap().map(|f| f.unwrap().file_name().into_string().unwrap()) {
        if !families.iter().any(|family| name.starts_with(family)) {
            continue;
        }
        let text = sample(&name);
        let whole = of(&text).unwrap();
        let is_begin = |at: &usize| {
            let byte = |at: usize| text.as_bytes().get(at).copied().unwrap_or(b' ');
            byte(*at).is_ascii_digit() && (*at == 0 || b" :\t\n".contains(&byte(at - 1)))
        };
        for at in (0..text.len()).filter(is_begin) {
            for garbage in ["1x", "1..2", "1,5,"] {
                let damaged = format!("{}{garbage}{}", &text[..at], &text[at..]);
                for (figure, values) in of(&damaged).unwrap_or_default() {
                    let known = whole.get(&figure).is_some_and(|w| values.iter().all(|v| w.contains(v)));
                    if !known {
                        let line = text[..at].lines().count();
                        wrong.push(format!("{name}:{line} '{garbage}': {figure:?} {values:?}"));
                    }
                }
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn printed_runs_of_one_seed_are_the_same_run_if_their_figures_agree() {
    let dir = tempfile::tempdir().unwrap();
    let file = |name: &str, value: f64| {
        let path = dir.path().join(name);
        let run = serde_json::json!({
            "schema": "schedlab/run/1", "backend": "host", "workload": "pipe", "seed": 1,
            "metrics": { "pipe.rate": { "unit": "1/s", "better": "higher", "value": value } },
        });
        std::fs::write(&path, run.to_string()).unwrap();
        path.display().to_string()
    };
    let (a, b, again, c, d) =
        (file("a", 10.0), file("b", 11.0), file("again", 10.0), file("c", 20.0), file("d", 21.0));
    let sources = [format!("old={a},{b},{again}"), format!("new={c},{d}")];
    let all =
        crate::comparison::compare_sources(&sources, None, &crate::comparison::Question::default()).unwrap();
    let values = |i: usize| match &all.cells[i].metrics["pipe.rate"] {
        crate::comparison::CellStat::Measured(m) => m.values.clone(),
        missing => panic!("{missing:?}"),
    };
    assert_eq!((values(0), values(1)), (vec![10.0, 11.0], vec![20.0, 21.0]));
    assert_eq!((&all.cells[0].seeds[..], &all.cells[1].seeds[..]), (&[1, 2][..], &[1, 3][..]));
    let said: Vec<_> = all.warnings.iter().filter(|w| w.warning.code == "compare.same_seed").collect();
    assert!(said.len() == 1 && said[0].warning.message.starts_with("2 runs"), "{said:?}");
}

#[test]
fn printed_runs_say_how_they_were_watched() {
    let dir = tempfile::tempdir().unwrap();
    let file = |name: &str, watched: &str| {
        let path = dir.path().join(name);
        let run = serde_json::json!({
            "schema": "schedlab/run/1", "backend": "host", "workload": "pipe", "seed": 1, "watched": watched,
            "metrics": { "pipe.rate": { "unit": "1/s", "better": "higher", "value": 1.0 } },
        });
        std::fs::write(&path, run.to_string()).unwrap();
        path.display().to_string()
    };
    let of = |sources: &[String]| {
        crate::comparison::compare_sources(sources, None, &crate::comparison::Question::default()).unwrap()
    };
    let warns = |all: &crate::comparison::Comparison| {
        all.warnings.iter().any(|w| w.warning.code == "watched.differently")
    };
    let (plain, events) = (file("plain", "accounts"), file("events", "events"));
    let differently = of(&[plain.clone(), events]);
    assert!(warns(&differently), "{:?}", differently.warnings);
    assert!(!warns(&of(&[plain, file("alike", "accounts")])));
    // A printed comparison shows it, too.
    let path = dir.path().join("both.json");
    std::fs::write(&path, serde_json::to_string(&differently).unwrap()).unwrap();
    assert!(warns(&of(&[path.display().to_string()])));
}
