//! Plans with a made-up backend: order, resuming, interruption, errors, comparison.

use crate::common::{Mock, SMALL, experiment, record};
use schedlab_base::Ns;
use schedlab_compare::stats::{Looks, Verdict};
use schedlab_compare::{Question, compare, compare_paths};
use schedlab_lab::make::budget::{Budget, LOOKS, Sequence, until_decided};
use schedlab_lab::make::plan::left_out;
use schedlab_lab::{Backend, Cell, Executor, Made, Options, Plan, Session, plan};
use schedlab_record::Published;
use schedlab_record::{Interval, Record, Store};
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};

fn work(
    plan: &Plan,
    mock: &Mock,
    store: Option<&Store>,
    jobs: usize,
) -> schedlab_base::Result<schedlab_lab::Finished> {
    let stop = AtomicBool::new(false);
    Session { store, attach: &[("experiment.toml", b"x")], jobs, ..Session::of(mock, &stop) }.work(plan)
}

fn records(runs: u64) -> Vec<Record> {
    let p = plan(
        &experiment(SMALL),
        Backend::Sim,
        Options { runs: Some(runs), seed: None, ..Options::default() },
    )
    .unwrap();
    work(&p, &Mock::default(), None, 1).unwrap().records
}

#[test]
fn jobs_do_not_change_the_result() {
    let p = plan(&experiment(SMALL), Backend::Sim, Options::default()).unwrap();
    assert_eq!((p.cells.len(), p.runs.len()), (4, 40));
    let one = work(&p, &Mock::default(), None, 1).unwrap().records;
    let two = work(&p, &Mock::default(), None, 2).unwrap().records;
    assert_eq!(one, two);
    assert_eq!(one[0].seed, 1);
    assert_eq!((one[4].seed, one[4].variant.name.as_str()), (2, "fast"), "the second round goes backwards");
}

/// Records with an interval.
struct WithInterval(Mock);

impl Executor for WithInterval {
    fn run(&self, cell: &Cell, seed: u64, stop: &AtomicBool) -> schedlab_base::Result<Option<Made>> {
        let mut made = self.0.run(cell, seed, stop)?;
        let interval = Interval { start: Ns(seed), length: Ns(1), values: BTreeMap::new() };
        made.iter_mut().for_each(|m| m.record.found.intervals.push(interval.clone()));
        Ok(made)
    }
    fn parallel(&self, cell: &Cell) -> bool {
        self.0.parallel(cell)
    }
}

#[test]
fn runs_in_a_store_may_stay_in_memory_as_outlines() {
    let dir = tempfile::tempdir().unwrap();
    let (store, stop, mock) =
        (Store::create(dir.path()).unwrap(), AtomicBool::new(false), WithInterval(Mock::default()));
    let p = plan(&experiment(SMALL), Backend::Sim, Options::default()).unwrap();
    let of = |store| Session { store, outlines: true, ..Session::of(&mock, &stop) };
    let whole = of(None).work(&p).unwrap().records;
    assert!(whole.iter().all(|r| !r.found.intervals.is_empty()), "what is not stored stays whole");
    let outlined = |mut r: Record| {
        r.found.outline();
        r
    };
    let outlines: Vec<Record> = whole.into_iter().map(outlined).collect();
    for times in ["made", "found"] {
        let records = of(Some(&store)).work(&p).unwrap().records;
        assert!(records == outlines && records.iter().all(|r| r.found.intervals.is_empty()), "{times}");
    }
}

#[test]
fn finished_runs_are_kept_and_not_made_again() {
    let dir = tempfile::tempdir().unwrap();
    let store = Store::create(dir.path()).unwrap();
    let p = plan(&experiment(SMALL), Backend::Sim, Options::default()).unwrap();
    let cut = Mock { stop_after: 7, ..Mock::default() };
    let first = work(&p, &cut, Some(&store), 1).unwrap();
    assert!(first.interrupted && first.records.len() == 7);
    assert!(first.warnings.iter().any(|w| w.code == "run.interrupted" && w.message.contains("7 of 40")));
    let rest = Mock::default();
    let second = work(&p, &rest, Some(&store), 2).unwrap();
    assert_eq!((second.found, rest.made.load(Ordering::SeqCst), second.interrupted), (7, 33, false));
    assert_eq!(second.warnings, p.warnings, "a resumed experiment's comparison is the same as a fresh one's");
    assert_eq!(second.records, work(&p, &Mock::default(), None, 1).unwrap().records);
    let again = compare_paths(
        &[dir.path().to_owned()],
        &Question { baseline: Some("slow".into()), ..Question::default() },
    );
    assert_eq!(again.unwrap().cells.len(), 4);
}

#[test]
fn an_error_names_the_run() {
    let text = SMALL.replace("\"fast\"", "\"broken\"");
    let p = plan(&experiment(&text), Backend::Sim, Options::default()).unwrap();
    let e = work(&p, &Mock::default(), None, 2).unwrap_err();
    assert!(e.to_string().contains("schbench 1x2 broken on smp-4, seed 1: it broke"), "{e}");
    assert_eq!(e.kind().exit_code(), 3);
}

#[test]
fn background_is_part_of_a_cell() {
    let hash = |text: &str| {
        plan(&experiment(text), Backend::Sim, Options::default()).unwrap().cells[0].hash().unwrap()
    };
    assert_ne!(hash(SMALL), hash(&SMALL.replace("runs = 10", "background = false")));
    assert_eq!(hash(SMALL), hash(&SMALL.replace("runs = 10", "runs = 20")), "more runs are the same cells");
}

#[test]
fn the_live_kernel_is_never_changed_unawares() {
    let p = plan(&experiment(SMALL), Backend::Host, Options::default()).unwrap();
    assert_eq!((p.cells.len(), p.cells[0].variant.name.as_str()), (2, "running"));
    assert_eq!(left_out(&experiment(SMALL), Backend::Host), [""; 0], "the plan's warning says it");
    assert_eq!(p.warnings[0].code, "host.variants");
    let live = format!("{SMALL}[[variant]]\nname = \"live\"\nkernel = \"running\"\n");
    let told = |backend| left_out(&experiment(&live), backend);
    assert_eq!(told(Backend::Host).len(), 2);
    assert!(told(Backend::Host).iter().all(|t| t.ends_with(" (simulated)")), "{:?}", told(Backend::Host));
    assert_eq!(told(Backend::Sim), ["live (the running kernel)"]);
    let text = SMALL.replace("kernel = \"v4.5\"\nfeatures", "kernel = \"running\"\nfeatures");
    let e = plan(&experiment(&text), Backend::Host, Options::default()).unwrap_err();
    assert_eq!(e.kind().exit_code(), 3);
    let e = e.to_string();
    assert!(e.contains("variant 'fast'") && e.contains("feature"), "{e}");
}

#[test]
fn a_comparison_shows_the_results_of_the_runs() {
    let q = experiment(SMALL).question();
    let c = compare(&records(10), &q, &[]).unwrap();
    assert_eq!((c.schema.as_str(), c.cells.len(), c.comparisons.len()), ("schedlab/comparison/1", 4, 6));
    let row = |load: &str, metric: &str| {
        c.comparisons.iter().find(|r| r.load == load && r.metric == metric).cloned().unwrap()
    };
    let p99 = row("1x4", "schbench.latency.p99");
    assert_eq!((p99.verdict, p99.pairs, p99.baseline.as_str()), (Verdict::Better, 10, "slow"));
    assert!((-90.0..-80.0).contains(&p99.change_pct.unwrap()), "{p99:?}");
    assert!(p99.correlation.unwrap() > 0.5, "common random numbers pair the runs");
    let same = row("1x2", "migrations");
    assert_eq!((same.verdict, same.change_pct, same.ci95_pct), (Verdict::Same, Some(0.0), Some([0.0, 0.0])));
    let missing = serde_json::to_value(&c.cells[0].metrics["schbench.latency.p99.9"]).unwrap();
    assert!(missing["missing"].as_str().unwrap().contains("2000 samples"), "{missing}");
    assert_eq!((c.warnings.len(), c.warnings[0].runs), (1, 40), "equal warnings are merged and counted");
}

#[test]
fn the_baseline_is_compared_with_its_published_figures_load_by_load() {
    let published = |variant: &str, metric: &str, value: f64| Published {
        variant: variant.into(),
        metric: metric.into(),
        load: None,
        value,
        unit: "ns".into(),
        source: String::new(),
    };
    let mut q = experiment(SMALL).question();
    q.published = vec![
        published("slow", "schbench.latency.p99", 20_000.0),
        published("slow", "schbench.latency.p99.9", 25_000.0),
        published("fast", "schbench.latency.p99", 1.0),
    ];
    let c = compare(&records(10), &q, &[]).unwrap();
    let fits: Vec<_> = c.fits.iter().map(|f| (f.load.as_str(), f.metrics, f.missing)).collect();
    assert_eq!(fits, [("1x2", 1, 1), ("1x4", 1, 1)], "p99.9 has too few samples; fast is a prediction");
    let ours = c.cells[0].metrics["schbench.latency.p99"].measured().unwrap().mean;
    assert!((c.fits[0].factor - ours / 20_000.0).abs() < 1e-9, "{:?}", c.fits);
    assert_eq!(c.best_fit().map(|f| f.load.as_str()), Some("1x2"));
    assert_eq!(c.fit(&c.cells[3]).map(|f| f.load.as_str()), Some("1x4"));
    q.published.remove(0);
    assert!(compare(&records(10), &q, &[]).unwrap().fits.is_empty(), "nothing published was measured");
}

#[test]
fn three_runs_are_unclear() {
    let c = compare(&records(3), &experiment(SMALL).question(), &[]).unwrap();
    let row = &c.comparisons[0];
    assert_eq!(row.verdict, Verdict::Unclear);
    assert!(row.why.as_ref().unwrap().contains("fewer than 6"), "{row:?}");
}

#[test]
fn too_few_runs_are_reported_in_one_line_with_the_needed_number() {
    let told = |runs| {
        let c = compare(&records(runs), &experiment(SMALL).question(), &[]).unwrap();
        let few = c.warnings.into_iter().filter(|w| w.warning.code == "runs.few");
        few.map(|w| w.warning.message).collect::<Vec<_>>()
    };
    let five = told(5);
    assert_eq!(five.len(), 1, "{five:?}");
    assert!(five[0].contains("5 runs of a cell") && five[0].contains("6 runs or more"), "{five:?}");
    assert_eq!((told(6), told(1)), (Vec::<String>::new(), Vec::new()), "one run is a look");
    let question = experiment(SMALL).question();
    let needed = |runs, question: &Question| compare(&records(runs), question, &[]).unwrap().runs_needed;
    assert_eq!([1, 2, 6].map(|runs| needed(runs, &question)), [Some(6), Some(6), None], "one run pairs, too");
    // Runs between two looks do not count.
    let looked = question.clone().at_looks(Looks::doubling(2, 4));
    assert_eq!([2, 6, 8].map(|runs| needed(runs, &looked)), [Some(8), Some(8), None]);
    // Cells without a common seed are two groups.
    let mut apart = records(1);
    apart.iter_mut().filter(|r| r.variant.name == "fast").for_each(|r| r.seed += 100);
    assert_eq!(compare(&apart, &question, &[]).unwrap().runs_needed, Some(4));
}

#[test]
fn the_json_is_the_documented_one_and_reads_back() {
    let c = compare(&records(6), &experiment(SMALL).question(), &[]).unwrap();
    let json = serde_json::to_value(&c).unwrap();
    let cell = &json["cells"][0];
    for key in ["backend", "machine", "kernel", "workload", "load", "params", "variant", "runs", "metrics"] {
        assert!(!cell[key].is_null(), "{key}");
    }
    assert_eq!(cell["params"]["threads"], 2);
    let metric = &cell["metrics"]["schbench.latency.p99"];
    assert_eq!((metric["unit"].as_str(), metric["better"].as_str()), (Some("ns"), Some("lower")));
    assert!(metric["mean"].is_number() && metric["std_pct"].is_number());
    assert_eq!(metric["values"].as_array().unwrap().len(), 6);
    let row = &json["comparisons"][0];
    for key in ["workload", "load", "metric", "baseline", "variant", "change_pct", "ci95_pct", "p", "verdict"]
    {
        assert!(!row[key].is_null(), "{key}");
    }
    let back: schedlab_compare::Comparison = serde_json::from_value(json).unwrap();
    assert_eq!(back, c);
}

#[test]
fn runs_of_two_kernels_with_one_variant_name_are_distinguished() {
    let mut all = records(6);
    all.retain(|r| r.variant.name == "slow" && r.load == "1x2");
    let mut other = all.clone();
    other.iter_mut().for_each(|r| r.kernel = "6.99".into());
    all.extend(other);
    let c = compare(&all, &Question { baseline: Some("6.99".into()), ..Question::default() }, &[]).unwrap();
    let names: Vec<&str> = c.cells.iter().map(|c| c.variant.as_str()).collect();
    assert_eq!(names, ["slow v4.5", "slow 6.99"]);
    assert_eq!(c.comparisons[0].variant, "slow v4.5");
    let e =
        compare(&all, &Question { baseline: Some("slwo".into()), ..Question::default() }, &[]).unwrap_err();
    assert_eq!(e.kind().exit_code(), 2);
}

#[test]
fn loads_of_one_name_are_distinguished_when_the_workloads_differ() {
    let mut all = records(10);
    all.iter_mut().for_each(|r| r.load = "same".to_owned());
    let c = compare(&all, &Question { baseline: Some("v4.5".into()), ..Question::default() }, &[]).unwrap();
    let mut loads: Vec<&str> = c.cells.iter().map(|c| c.load.as_str()).collect();
    loads.dedup();
    assert_eq!(loads, ["same #1", "same #2"]);
    for row in &c.comparisons {
        let has = |v: &str| c.cells.iter().filter(|c| c.load == row.load && c.variant == v).count();
        assert_eq!((has(&row.baseline), has(&row.variant)), (1, 1), "a row is about one cell: {row:?}");
    }
}

#[test]
fn a_workload_shows_its_own_first_metrics_when_none_are_asked_for() {
    let mut all = records(6);
    for r in all.iter_mut().filter(|r| r.load == "1x2") {
        r.workload = "hackbench".into();
        let series = r.found.series.remove("schbench.latency").unwrap();
        r.found.series.insert("hackbench.elapsed".into(), series);
    }
    let c = compare(&all, &Question::default(), &[]).unwrap();
    for cell in &c.cells {
        let own = format!("{}.", cell.workload);
        assert!(
            cell.metrics.keys().all(|m| m.starts_with(&own)),
            "{}: {:?}",
            cell.workload,
            cell.metrics.keys()
        );
    }
    assert!(c.metrics.contains(&"hackbench.elapsed.mean".to_owned()), "the whole has both: {:?}", c.metrics);
}

#[test]
fn knees_are_found_per_variant_and_seed() {
    use schedlab_compare::knees::Limit;
    use schedlab_lab::search::knee::{Raised, Search, search};
    let cells = plan(&experiment(SMALL), Backend::Sim, Options::default()).unwrap().cells;
    let limit = Limit { metric: "schbench.latency.p50".into(), below: true, value: 100_000.0 };
    let raised = Raised::of(&cells[0].spec).unwrap();
    let s = Search { cells: cells[..2].to_vec(), raised, limit, seeds: vec![1, 2, 3], start: 1, cap: 64 };
    let k = search(&s, &Mock::default(), &|_, _, _, _| {}, &AtomicBool::new(false)).unwrap();
    assert_eq!((k.parameter.as_str(), k.variants.len(), k.interrupted), ("threads", 2, false));
    // The slow one adds 10 us a thread and 1 us of ramp: 100 us at about 9 or 10 threads.
    assert!(k.variants[0].knees.iter().all(|n| (8..=11).contains(n)), "{k:?}");
    let doubled: Vec<u64> = k.tried.iter().take_while(|t| t.load <= 8).map(|t| t.load).collect();
    assert_eq!((k.unit.as_str(), &doubled[..4]), ("ns", &[1, 2, 4, 8][..]));
    assert!(k.tried.iter().all(|t| (1..=3).contains(&t.values.len())), "{:?}", k.tried);
    assert_eq!((k.variants[1].at_cap, k.variants[1].mean), (3, 64.0), "the fast one is not done at the cap");
    for (seed, knee) in s.seeds.iter().zip(&k.variants[0].knees) {
        let at = |threads: u64| {
            let mut cell = cells[0].clone();
            let schedlab_workload::Spec::Bench { params, .. } = &mut cell.spec else { panic!() };
            params.0.insert("threads".into(), threads);
            record(&cell, *seed).unwrap().found.series["schbench.latency"].percentile(50.0).number().unwrap()
        };
        assert!(at(*knee) < 100_000.0 && at(*knee + 1) >= 100_000.0);
    }
}

/// Makes runs with a made-up backend, look by look.
struct Looking {
    question: Question,
    /// The runs of each call.
    asked: Vec<usize>,
}

impl schedlab_lab::make::budget::LookRuns for Looking {
    fn make(&mut self, part: &Plan) -> schedlab_base::Result<schedlab_lab::Finished> {
        self.asked.push(part.runs.len());
        work(part, &Mock::default(), None, 1)
    }
    fn compare(
        &self,
        records: &[Record],
        warnings: &[schedlab_base::Warning],
    ) -> schedlab_base::Result<schedlab_compare::Comparison> {
        compare(records, &self.question, warnings)
    }
    fn elapsed(&self) -> std::time::Duration {
        std::time::Duration::from_secs(self.asked.iter().sum::<usize>() as u64)
    }
}

/// The sequence of an experiment with six runs at the first look, and the runs of each call.
fn in_looks(text: &str, budget: Budget) -> (Sequence, Vec<usize>) {
    let experiment = experiment(text);
    let six = Options { runs: Some(6), ..Options::default() };
    let first = plan(&experiment, Backend::Sim, six).unwrap();
    let question = experiment.question().at_looks(Looks::doubling(6, LOOKS));
    let mut looking = Looking { question, asked: Vec::new() };
    let done = until_decided(first, budget, &mut looking).unwrap();
    (done, looking.asked)
}

#[test]
fn loads_get_more_seeds_until_their_rows_are_decided() {
    let (done, asked) = in_looks(SMALL, Budget::Runs(1_000));
    // A tenfold decrease is obvious, but six pairs are too few for an exact test among eight rows.
    assert_eq!(asked, [24, 24]);
    let c = done.comparison.unwrap();
    let latencies: Vec<_> = c.comparisons.iter().filter(|r| r.metric != "migrations").collect();
    assert!(
        latencies.iter().all(|r| (r.verdict, r.look, r.pairs) == (Verdict::Better, Some(2), 12)),
        "{latencies:?}"
    );
    let still = c.comparisons.iter().find(|r| r.metric == "migrations").unwrap();
    assert_eq!(
        (still.verdict, still.look),
        (Verdict::Same, Some(1)),
        "a row that is decided stays as it was"
    );
    assert_eq!(c.looks.iter().map(|l| l.runs).collect::<Vec<_>>(), [6, 12, 24, 48]);
    assert!((c.looks.iter().map(|l| l.alpha).sum::<f64>() - 0.05).abs() < 1e-12);
    assert_eq!((done.finished.records.len(), done.plan.runs.len()), (48, 48));
    assert!(c.warnings.iter().all(|w| w.warning.code != "budget.used"));
}

#[test]
fn a_budget_is_kept_and_rows_that_it_left_undecided_are_reported() {
    for (budget, asked) in [
        (Budget::Runs(0), vec![24]),
        (Budget::Runs(12), vec![24, 12]),
        (Budget::Part(50), vec![24, 12]),
        // A run takes a second: 16 of 40 seconds are left, for one load.
        (Budget::Time(std::time::Duration::from_secs(40)), vec![24, 12]),
    ] {
        let (done, made) = in_looks(SMALL, budget);
        assert_eq!(made, asked, "{budget:?}");
        let c = done.comparison.unwrap();
        let undecided = c.comparisons.iter().filter(|r| r.verdict == Verdict::Unclear).count();
        let told = c.warnings.iter().find(|w| w.warning.code == "budget.used").unwrap();
        let wanted = format!("{undecided} of {} rows are undecided", c.comparisons.len());
        assert!(undecided > 0 && told.warning.message.starts_with(&wanted), "{}", told.warning.message);
    }
    assert_eq!(Budget::parse("10m").unwrap(), Budget::Time(std::time::Duration::from_secs(600)));
    assert!(Budget::parse("soon").unwrap_err().to_string().contains("10m"));
}

#[test]
fn rows_that_noise_hides_get_all_looks_and_no_more() {
    let noise = SMALL.replace("\"fast\"", "\"another\"");
    let (done, asked) = in_looks(&noise, Budget::Runs(1_000));
    let c = done.comparison.unwrap();
    assert!(asked.iter().sum::<usize>() <= 4 * 48 && c.cells.iter().all(|cell| cell.runs <= 48), "{asked:?}");
    assert!(
        c.comparisons.iter().all(|r| matches!(r.verdict, Verdict::Same | Verdict::Unclear)),
        "{:?}",
        c.comparisons
    );
}
