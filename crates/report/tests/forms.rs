//! Every form of one small comparison against a golden file. To write these anew after an intended change:
//! `UPDATE_GOLDEN=1 cargo test -p schedlab-report`.

use schedlab_base::{Backend, Ns, Warning};
use schedlab_compare::comparison::overview;
use schedlab_compare::{Comparison, Published, Question, compare};
use schedlab_kernel::{Kernel, Variant};
use schedlab_machine::Machine;
use schedlab_record::{Better, Findings, Record, Series};
use schedlab_report::{EXPORTERS, form, schbench, schbench2016};
use schedlab_workload::{Params, Spec};
use std::collections::BTreeMap;
use std::path::Path;

/// A run whose latencies rise linearly from `low` to `high` ns, a little differently for each seed.
fn record(variant: &str, kernel: &str, load: (u64, u64), seed: u64, low: u64, high: u64) -> Record {
    let mut latency = Series::new("ns", Better::Lower);
    let samples = 3_000;
    for i in 0..samples {
        latency.record((low + (high - low) * i / samples) * (1000 + seed * 7 % 10) / 1000);
    }
    let given = Params([("message_threads".to_owned(), load.0), ("threads".to_owned(), load.1)].into());
    let spec = Spec::bench("schbench", &given).unwrap();
    let plain = schedlab_compare::testing::record(&[]);
    let odd = || Warning::new("test.odd", "the third run was odd, as third runs are");
    Record {
        machine: Machine::load("smp-4").unwrap(),
        kernel: kernel.into(),
        resolved: Some(Kernel::profile(kernel).unwrap()),
        variant: Variant { name: variant.into(), ..Variant::plain(kernel) },
        workload: "schbench".into(),
        spec: serde_json::to_value(&spec).unwrap(),
        load: format!("{}x{}", load.0, load.1),
        seed,
        found: Findings {
            duration: Ns::secs(30),
            series: BTreeMap::from([("schbench.latency".to_owned(), latency)]),
            counters: BTreeMap::from([("migrations".to_owned(), 100 + seed * 13 % 7)]),
            warnings: (seed == 3).then(odd).into_iter().collect(),
            ..plain.found
        },
        ..plain
    }
}

fn comparison() -> Comparison {
    let mut records = Vec::new();
    for load in [(1, 2), (2, 4)] {
        for seed in 1..=10 {
            records.push(record("v4.5", "v4.5", load, seed, 40_000, 5_000_000));
            records.push(record("first-idle", "v4.5", load, seed, 40_000, 90_000 + seed * 3 % 5 * 100));
            records.push(record(
                "today, with a long name",
                "v6.5",
                load,
                seed,
                40_000,
                4_000_000 + seed * 37 % 11 * 400_000,
            ));
        }
    }
    let question = Question {
        experiment: "golden".into(),
        metrics: ["p50", "p99", "p99.9"]
            .map(|p| format!("schbench.latency.{p}"))
            .into_iter()
            .chain(["migrations".into()])
            .collect(),
        published: vec![Published {
            variant: "v4.5".into(),
            metric: "schbench.latency.p99".into(),
            load: None,
            value: 4_680_000.0,
            unit: "ns".into(),
            source: "D000, Chris Mason, 5 Apr 2016".into(),
        }],
        ..Question::default()
    };
    compare(&records, &question.against(Some("v4.5".into())), &[]).unwrap()
}

fn written(name: &str, c: &Comparison) -> String {
    let mut out = Vec::new();
    form(name).unwrap_or_else(|e| panic!("{e}")).exporter.export(c, &mut out).unwrap();
    String::from_utf8(out).unwrap()
}

fn golden(file: &str, text: &str) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden").join(file);
    if std::env::var_os("UPDATE_GOLDEN").is_some() {
        std::fs::write(&path, text).unwrap();
    }
    let wanted = std::fs::read_to_string(&path).unwrap_or_default();
    assert_eq!(text, wanted, "{file} differs");
}

#[test]
fn every_form_is_as_its_golden_file() {
    let c = comparison();
    for f in EXPORTERS {
        golden(&format!("{}.{}", f.name, f.extension), &written(f.name, &c));
    }
}

#[test]
fn tables_for_mail_are_78_columns_wide_at_most_and_ascii() {
    let (c, wide) = (comparison(), variants(7, "wake_affine_with_idle_core"));
    for text in ["table", "detail"].iter().flat_map(|form| [written(form, &c), written(form, &wide)]) {
        for line in text.lines() {
            assert!(line.len() <= 78 && line.is_ascii(), "{} columns: {line}", line.len());
        }
    }
}

#[test]
fn tables_show_verdicts_published_figures_and_missing_values() {
    let words = |form| written(form, &comparison()).split_whitespace().collect::<Vec<_>>().join(" ");
    let (table, detail) = (words("table"), words("detail"));
    for part in ["4.68ms", "10 are needed", "(2 runs)", "(6 runs)", "D000"] {
        for text in [&table, &detail] {
            assert_eq!(text.contains(part), part != "(2 runs)", "{part} in:\n{text}");
        }
    }
    assert!(table.contains("-98% *") && detail.contains("*better"), "{table}{detail}");
}

/// One load with a plain baseline and `n` other variants.
fn variants(n: u64, name: &str) -> Comparison {
    let runs = |v: u64| (1..=10).map(move |seed| (v, seed));
    let name = |v: u64| if v == 0 { "v4.5".to_owned() } else { format!("{name}_{v}") };
    let records: Vec<Record> = (0..=n)
        .flat_map(runs)
        .map(|(v, seed)| record(&name(v), "v4.5", (1, 2), seed, 40_000, 5_000_000 << (4 * (v % 3))))
        .collect();
    let metrics = vec!["schbench.latency.p99".into(), "migrations".into()];
    compare(&records, &Question { metrics, ..Question::default() }, &[]).unwrap()
}

#[test]
fn variants_that_do_not_fit_continue_in_another_matrix() {
    let five = written("table", &variants(5, "hint"));
    assert_eq!(five.matches("v4.5 (std)").count(), 2, "{five}");
    let (matrices, below) = five.split_once(" rows changed: ").unwrap();
    for v in 1..=5 {
        assert_eq!(matrices.matches(&format!("hint_{v}")).count(), 1, "{five}");
    }
    assert!(below.starts_with("hint_1 latency.p99 x16.0 (worse), hint_2"), "{five}");
    let values: Vec<&str> = five.lines().filter(|l| l.starts_with("latency.p99")).collect();
    assert_eq!(values.len(), 2, "{five}");
    let first = |l: &str| l.split_whitespace().nth(1).map(str::to_owned);
    assert_eq!(first(values[0]), first(values[1]), "the baseline again");
    assert!(five.contains("x256 !") && five.contains("x20: 20 times as much"), "{five}");
}

#[test]
fn single_runs_side_by_side_have_full_names_units_and_no_spread() {
    let records: Vec<Record> = [("v6.1", 5_000_000), ("v7.3", 9_000_000)]
        .map(|(name, high)| record(name, "v4.5", (1, 2), 1, 40_000, high))
        .into();
    let metrics = overview(&records);
    assert!(metrics.starts_with(&["schbench.latency.p50".to_owned()]), "{metrics:?}");
    assert!(metrics.contains(&"migrations".to_owned()), "what is seen of any run");
    assert!(!metrics.contains(&"cpu_time".to_owned()), "but nothing that no run has: {metrics:?}");
    let c = compare(&records, &Question { metrics, ..Question::default() }, &[]).unwrap();
    let text = written("table", &c);
    let names = text.lines().find(|l| l.contains("v7.3") && !l.contains("simulated")).unwrap();
    assert_eq!(names.split_whitespace().collect::<Vec<_>>(), ["v6.1", "v7.3"], "{text}");
    assert!(!text.contains("(std)") && text.contains("One run each"), "{text}");
    assert!(text.lines().any(|l| l.starts_with("latency.p50") && l.contains("ms ")), "{text}");
}

#[test]
fn a_value_that_its_change_does_not_explain_is_flagged() {
    let wild = |seed: u64| if seed == 7 { 400_000_000 } else { 5_000_000 };
    let records: Vec<Record> = (1..=10)
        .flat_map(|seed| {
            [("plain", 5_000_000), ("wild", wild(seed))]
                .map(|(name, high)| record(name, "v4.5", (1, 2), seed, 40_000, high))
        })
        .collect();
    let c = |records: &[Record]| compare(records, &Question::default(), &[]).unwrap();
    let text = written("table", &c(&records));
    assert!(text.contains("44.4ms' 0.0% ="), "{text}");
    let calm: Vec<Record> = records.into_iter().filter(|r| r.seed != 7).collect();
    assert!(!written("table", &c(&calm)).contains('\''));
}

#[test]
fn a_noise_floor_is_shown_with_the_limit_for_the_same() {
    let mut c = comparison();
    let words = |form, c: &Comparison| written(form, c).split_whitespace().collect::<Vec<_>>().join(" ");
    for form in ["table", "detail", "lkml", "markdown"] {
        assert!(!words(form, &c).contains("floor"), "{form}");
    }
    c.comparisons[0].min_effect_pct = Some(43.3);
    for form in ["table", "detail", "lkml", "markdown"] {
        let text = words(form, &c);
        let limits = "at least 2%, or this machine's noise floor where that is higher (43.3%)";
        assert!(text.contains(limits) && text.contains("the 95% interval lies within 2%"), "{form}: {text}");
    }
    c.comparisons[1].min_effect_pct = Some(3.0);
    assert!(words("table", &c).contains("(3.0% to 43.3%)"));
}

#[test]
fn the_load_that_fits_the_published_figures_is_named() {
    let mut c = comparison();
    let line = |c: &Comparison, start: &str| {
        written("table", c).lines().filter(|l| l.starts_with(start)).map(str::to_owned).collect::<Vec<_>>()
    };
    c.fits[0].factor = 2.5;
    assert_eq!(
        line(&c, "fit of"),
        [
            "fit of v4.5 to its published figures: off by a factor 2.50",
            "fit of v4.5 to its published figures: off by a factor 1.06 (best of 2 loads)"
        ]
    );
    assert!(line(&c, "best fit")[0].starts_with("best fit of v4.5: schbench 2x4 on smp-4 (factor 1.06)"));
    c.fits.truncate(1);
    assert!(line(&c, "best fit").is_empty(), "one load is no choice");
}

#[test]
fn lkml_signs_mean_better() {
    let text = written("lkml", &comparison());
    let line = text.lines().find(|l| l.starts_with("latency.p99 ")).unwrap();
    assert!(line.contains("\t 1.00 (") && line.contains("\t+98.") && line.ends_with('*'), "{line}");
}

#[test]
fn csv_has_a_line_for_each_cell_and_metric() {
    let text = written("csv", &comparison());
    assert_eq!(text.lines().count(), 1 + 6 * 4);
    assert!(text.contains("\"today, with a long name\""));
    assert!(text.lines().nth(3).unwrap().contains("3000 samples leave 3 above p99.9"));
}

#[test]
fn schbench_layouts_are_as_their_golden_files() {
    let mut r = record("v4.5", "v4.5", (2, 24), 1, 40_000, 5_000_000);
    r.found.series.get_mut("schbench.latency").unwrap().record(60_000_000);
    golden("schbench-2016.out", &schbench2016::text(&r).unwrap());
    golden("schbench.out", &schbench::text(&r).unwrap());
    r.found.series.clear();
    assert_eq!(schbench::text(&r).unwrap_err().kind().exit_code(), 2);
}

#[test]
fn todays_schbench_prints_requests_too() {
    let mut r = record("v4.5", "v4.5", (2, 24), 1, 40_000, 5_000_000);
    let latency = r.found.series.remove("schbench.latency").unwrap();
    let mut rps = Series::new("1/s", Better::Higher);
    (0..30).for_each(|i| rps.record(100 + i));
    r.workload = "schbench-modern".into();
    r.found.series.insert("schbench-modern.wakeup_latency".into(), latency.clone());
    r.found.series.insert("schbench-modern.request_latency".into(), latency);
    r.found.series.insert("schbench-modern.rps".into(), rps);
    golden("schbench-modern.out", &schbench::text(&r).unwrap());
    assert_eq!(schbench::left_out(&r), ["sched delay"]);
    assert_eq!(schbench2016::text(&r).unwrap_err().kind().exit_code(), 2);
    // The reader of the original's text reads this output.
    let text = schbench::text(&r).unwrap();
    let tool = schedlab_compare::tools::detect(&text).unwrap();
    let values = &(tool.read)(&text).unwrap()[0].values;
    assert_eq!((tool.name, values["rps.mean"], values["rps.p50"]), ("schbench", 100.0, 114.0));
}

#[test]
fn a_load_shows_its_own_metrics_only() {
    let mut c = comparison();
    c.cells.iter_mut().filter(|c| c.load == "2x4").for_each(|c| c.metrics.retain(|m, _| m == "migrations"));
    c.comparisons.retain(|r| r.load == "1x2" || r.metric == "migrations");
    let lines = |form: &str, part: &str| written(form, &c).lines().filter(|l| l.contains(part)).count();
    assert_eq!((lines("csv", ",1x2,"), lines("csv", ",2x4,")), (12, 3));
    assert_eq!((lines("markdown", "schbench 1x2"), lines("markdown", "schbench 2x4")), (12, 3));
    assert_eq!((lines("detail", "schbench.latency.p99 "), lines("detail", "migrations")), (1, 2));
}

#[test]
fn knees_are_tabled() {
    use schedlab_compare::knees::{KNEE_SCHEMA, Knee, Knees, Limit, TriedLoad};
    let knee = |variant: &str, knees: Vec<u64>, at_cap| Knee {
        variant: variant.into(),
        mean: 24.0,
        ci95: Some([22.5, 25.5]),
        at_cap,
        unknown: 0,
        unjudged: 0,
        uncertainty: None,
        knees,
    };
    let knees = Knees {
        schema: KNEE_SCHEMA.into(),
        workload: "schbench".into(),
        parameter: "threads".into(),
        backend: Backend::Sim.into(),
        machine: "smp-4".into(),
        limit: Limit { metric: "schbench.latency.p99".into(), below: true, value: 2e6 },
        cap: 25,
        seeds: vec![1, 2, 3],
        variants: vec![knee("v4.5", vec![23, 24, 25], 1)],
        unit: "ns".into(),
        tried: [1u64, 2, 4]
            .map(|load| TriedLoad {
                variant: "v4.5".into(),
                load,
                values: vec![load as f64 * 1e6, load as f64 * 1.2e6],
                missing: 0,
            })
            .into(),
        interrupted: true,
        warnings: Vec::new(),
    };
    let drawn = schedlab_report::knee::curve(&knees);
    let svg = schedlab_report::plot::plot(&drawn, schedlab_report::plot::PlotFile::Svg).unwrap();
    let svg = String::from_utf8(svg).unwrap();
    for part in [">threads<", "limit &lt; 2.00ms", "stroke-dasharray", "schbench.latency.p99, ms"] {
        assert!(svg.contains(part), "{part}: {svg}");
    }
    let mut out = Vec::new();
    schedlab_report::knee::export(&knees, &mut out).unwrap();
    golden("knee.txt", &String::from_utf8(out).unwrap());
}

#[test]
fn the_folders_of_stored_runs_are_shown() {
    let c = comparison();
    assert!(!written("table", &c).contains("kept in") && !written("json", &c).contains("folders"));
    let mut stored = c.clone();
    for (i, cell) in stored.cells.iter_mut().enumerate() {
        cell.folders = vec![format!("runs/{i:032x}")];
    }
    let last = written("table", &stored);
    let line = "runs: kept in runs; 'schedlab runs' lists each cell's folder\n";
    assert!(last.contains(line) && last.replace(line, "") == written("table", &c), "{last}");
    let detail = written("detail", &stored);
    for cell in &stored.cells {
        assert!(detail.contains(&cell.folders[0]), "{detail}");
    }
    let json: serde_json::Value = serde_json::from_str(&written("json", &stored)).unwrap();
    assert_eq!(json["cells"][1]["folders"][0], stored.cells[1].folders[0].as_str());
    let text = |c: &Comparison, form: &str| written(form, c);
    assert!(["table", "detail"].iter().all(|f| text(&stored, f).lines().all(|l| l.chars().count() <= 78)));
    stored.cells[0].folders = vec!["elsewhere/x".into()];
    assert!(written("table", &stored).contains("kept in elsewhere, runs; 'schedlab runs --out DIR'"));
}

#[test]
fn many_rows_end_in_a_line_that_names_those_that_changed() {
    let c = comparison();
    let mover = |c: &Comparison| {
        let text = written("table", c).replace('\n', " ");
        let at = text.find(" rows changed").map(|at| text[..at].rfind(' ').unwrap_or(0));
        at.map(|at| text[at - 5..].to_owned())
    };
    let rows = c.comparisons.len();
    let mut many = c.clone();
    while many.comparisons.len() <= 8 {
        let more = c.comparisons.clone();
        many.comparisons.extend(more);
    }
    let mut few = c.clone();
    few.comparisons.truncate(8.min(rows));
    assert_eq!(mover(&few), None);
    let text = mover(&many).unwrap();
    let changed =
        many.comparisons.iter().filter(|r| ["better", "worse", "changed"].contains(&r.verdict.word()));
    assert!(
        text.contains(&format!("{} of {} rows changed: ", changed.count(), many.comparisons.len())),
        "{text}"
    );
    let first = many.comparisons.iter().find(|r| r.verdict.word() == "better").unwrap();
    assert!(
        text.contains(&format!("{} {} ", first.load, first.variant)) && text.contains("(better)"),
        "{text}"
    );
}

#[test]
fn the_page_of_a_trial_shows_all_undecided_rows() {
    use schedlab_compare::predicted::Predictions;
    use schedlab_compare::stats::Verdict;
    use schedlab_compare::trial::Tried;
    let mut comparison = comparison();
    comparison.comparisons.retain(|r| r.variant != "first-idle");
    let tried = Tried {
        patches: Vec::new(),
        base: "v4.5".to_owned(),
        patched: "today, with a long name".to_owned(),
        source: "6.1".to_owned(),
        features: Vec::new(),
        counters: Vec::new(),
        options: Vec::new(),
        comparison: comparison.clone(),
        costs: Vec::new(),
        functions: Vec::new(),
        predicted: Predictions::default(),
        reached: Ok(Vec::new()),
        unfinished: None,
    };
    let page = |all: bool| {
        let mut out = Vec::new();
        schedlab_report::trial::page(&tried, all, &mut out).unwrap();
        String::from_utf8(out).unwrap()
    };
    let (short, long) = (page(false), page(true));
    let of = |verdict| comparison.comparisons.iter().filter(|r| r.verdict == verdict).count();
    let (unclear, same, all) = (of(Verdict::Unclear), of(Verdict::Same), comparison.comparisons.len());
    assert!(unclear > 1 && same > 0, "{unclear} {same}");
    let flat = short.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(
        flat.contains(&format!("{unclear} of {all} rows: cannot tell (half of them would have shown")),
        "{short}"
    );
    let (above, below) = short.split_once(&"-".repeat(78)).unwrap();
    assert!(
        above.contains("For a mail:") && below.contains(&format!("Cannot tell: {unclear} of {all} rows")),
        "{short}"
    );
    // Each undecided row has its interval and the change that could have been shown; own results come first.
    let rows: Vec<&str> = below.lines().filter(|l| l.contains(" to ") && l.contains('%')).collect();
    assert_eq!(rows.len(), unclear, "{below}");
    let own = comparison.comparisons.iter().filter(|r| r.own && r.verdict == Verdict::Unclear).count();
    assert!(own > 0 && rows[..own].iter().all(|l| l.starts_with("> ")), "{below}");
    assert!(rows[own..].iter().all(|l| l.starts_with("  ")), "{below}");
    assert!(
        !short.contains("Unchanged: 1 of 8 rows\n\n ") && long.matches("Unchanged: ").count() == 2,
        "{long}"
    );
    assert!(long.lines().all(|l| l.chars().count() <= 78), "{long}");
}

#[test]
fn a_terminal_shows_some_rows_and_every_change() {
    use schedlab_report::table::limit;
    let mut c = comparison();
    assert_eq!(limit::shorten(&mut c.clone()), 0, "few rows stay");
    for i in 0..80 {
        let name = format!("m{i}");
        for cell in &mut c.cells {
            let stat = cell.metrics["migrations"].clone();
            cell.metrics.insert(name.clone(), stat);
        }
        c.metrics.push(name);
    }
    let lost =
        c.comparisons.iter().find(|r| r.verdict == schedlab_compare::stats::Verdict::Better).unwrap().clone();
    c.comparisons.push(schedlab_compare::comparison::ComparisonRow { metric: "m79".into(), ..lost });
    let all = c.clone();
    assert_eq!(limit::shorten(&mut c), all.metrics.len() - limit::ROWS);
    assert!(c.cells.iter().all(|cell| cell.metrics.len() == limit::ROWS && cell.metrics.contains_key("m79")));
    assert_eq!(c.comparisons, all.comparisons, "the counts below the table are of all rows");
}

#[test]
fn the_warning_about_few_runs_is_shown_once() {
    let mut c = comparison();
    let few = Warning::new(schedlab_compare::comparison::FEW_RUNS, "2 of 4 rows can show no change");
    c.warnings = vec![schedlab_compare::comparison::CountedWarning { warning: few, runs: 0 }];
    c.comparisons.truncate(4);
    c.runs_needed = Some(6);
    let with = |c: &Comparison| {
        let text = written("table", c);
        (text.contains("No row can show a change"), text.contains("2 of 4 rows can show no change"))
    };
    c.cells.iter_mut().for_each(|cell| cell.runs = 2);
    assert_eq!(with(&c), (true, false));
    c.cells[0].runs = 1;
    assert_eq!(with(&c), (false, true), "one load has a single run");
}

#[test]
fn junit_has_a_test_for_each_row() {
    use schedlab_compare::comparison::CellStat;
    use schedlab_compare::stats::Verdict;
    let mut c = comparison();
    // One variant loses a figure that its baseline has.
    let lost = c.comparisons.remove(0);
    let cell = c.cells.iter_mut().find(|cell| lost.is_of(cell)).unwrap();
    cell.metrics.insert(lost.metric, CellStat::Missing { missing: "too few samples".into() });
    let mut out = Vec::new();
    let verdicts = [Verdict::Worse, Verdict::Unclear];
    schedlab_report::junit::junit(&c, &verdicts, &mut out).unwrap();
    let text = String::from_utf8(out).unwrap();
    let of = |word: &str| text.matches(word).count();
    // A missing row counts as unclear. Figures that neither side measured are not compared.
    let missing = 1;
    assert_eq!(of("<testcase "), c.comparisons.len() + missing);
    let rows = |verdict: Verdict| c.comparisons.iter().filter(|r| r.verdict == verdict).count();
    let unclear = rows(Verdict::Unclear) + missing;
    let failing = rows(Verdict::Worse) + unclear;
    assert_eq!((of("<failure "), of("<skipped ")), (failing, 0), "{text}");
    let mut out = Vec::new();
    schedlab_report::junit::junit(&c, &[Verdict::Worse], &mut out).unwrap();
    let usual = String::from_utf8(out).unwrap();
    let of_usual = |word: &str| usual.matches(word).count();
    assert_eq!((of_usual("<failure "), of_usual("<skipped ")), (rows(Verdict::Worse), unclear), "{usual}");
    assert_eq!(of("<testsuite "), 2);
    let whole = text.lines().find(|l| l.starts_with("<testsuites ")).unwrap();
    assert!(whole.contains(&format!(" failures=\"{failing}\"")), "{whole}");
}
