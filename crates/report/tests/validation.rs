//! The forms of a validation, in full.

use schedlab_base::{Backend, Warning};
use schedlab_compare::agreement::{
    Agreement, AgreementShare, CaseResult, CaseSide, Discriminating, JudgedMetric, MachineCounts, NotRun,
    Outcome, Tripled, Validation, WrongSchedulerResult,
};
use schedlab_report::validation::{markdown, text};

fn judged(
    metric: &'static str,
    class: &'static str,
    unit: &'static str,
    values: [Option<f64>; 4],
) -> JudgedMetric {
    let [simulated, real, off_pct, real_spread_pct] = values;
    let verdict = match off_pct {
        Some(off) if off.abs() <= 25.0 => Agreement::Agree,
        Some(_) => Agreement::Disagree,
        None => Agreement::NotMeasured,
    };
    let why = (verdict == Agreement::NotMeasured).then(|| "this kernel keeps no schedstat".to_owned());
    let (tolerance_pct, tripled) = (25.0, Agreement::Disagree);
    JudgedMetric {
        metric: metric.into(),
        class: class.into(),
        unit: unit.into(),
        simulated,
        real,
        off_pct,
        tolerance_pct,
        real_spread_pct,
        verdict,
        why,
        tripled,
        passed_by: Vec::new(),
        real_values: Vec::new(),
    }
}

fn side(backend: Backend, kernel: &str, variant: &str) -> Option<CaseSide> {
    let (backend, kernel, variant) = (backend.into(), kernel.to_owned(), Some(variant.to_owned()));
    Some(CaseSide { backend, level: None, machine: "icount-8-smt".to_owned(), kernel, variant, runs: 3 })
}

fn validation() -> Validation {
    let mut uncertain =
        judged("migrations", "migrations", "", [Some(120.0), Some(100.0), Some(20.0), Some(40.0)]);
    uncertain.why = Some("the kernel's own mean is known to 40 % only".to_owned());
    let metrics = vec![
        judged("cpu_time", "totals", "ns", [Some(7.9e9), Some(7.8e9), Some(1.28), Some(0.2)]),
        judged("switches.involuntary", "switches", "", [Some(90_000.0), Some(4_500.0), Some(1900.0), None]),
        uncertain,
        judged("slice distribution", "distributions", "%", [None, None, Some(12.5), None]),
        judged("newidle lb_count", "balance", "", [None; 4]),
        judged("idle lb_count", "balance", "", [None; 4]),
    ];
    let case = CaseResult {
        name: "cfs-8-slice".to_owned(),
        about: "Spinning processes.".to_owned(),
        workload: "slice".to_owned(),
        simulated: side(Backend::Sim, "v6.1", "NO_SIS_UTIL"),
        real: side(Backend::Vm, "6.1.0-56-cloud-amd64", "NO_SIS_UTIL"),
        control: None,
        share: AgreementShare::of(&metrics),
        counts: None,
        wrong: Vec::new(),
        discriminating: None,
        tripled: Tripled {
            share: AgreementShare { agree: 0, measured: 4 },
            both: Vec::new(),
            rejected: true,
        },
        metrics,
        outcome: Outcome::Passed,
        warnings: vec![Warning::new("vm.mode", "real: counts compare, throughput does not")],
    };
    let control = CaseResult {
        name: "control-slices".to_owned(),
        control: Some("a slower tick".to_owned()),
        metrics: Vec::new(),
        share: AgreementShare { agree: 1, measured: 7 },
        outcome: Outcome::Rejected,
        warnings: Vec::new(),
        ..case.clone()
    };
    let not_run = NotRun { name: "eevdf-8".to_owned(), why: "no image of 7.3 is here".to_owned() };
    Validation::of(vec![case, control], vec![not_run])
}

/// A validation with two wrong schedulers: one passes CPU time and switches, the other only CPU time.
fn tried() -> Validation {
    let Validation { mut cases, not_run, .. } = validation();
    let mut other = cases[0].clone();
    let wrong = |name: &'static str, agree: usize| WrongSchedulerResult {
        name: name.into(),
        about: "wrong on purpose".into(),
        runs: 3,
        share: AgreementShare { agree, measured: 4 },
    };
    for case in cases.iter_mut().chain([&mut other]).filter(|c| c.control.is_none()) {
        case.counts = Some(MachineCounts { cpus: 8, smt: true, llcs: 2, nodes: 2 });
        case.wrong = vec![wrong("slices", 2), wrong("machine", 1)];
        case.metrics[0].passed_by = vec!["slices".into(), "machine".into()];
        case.metrics[2].passed_by = vec!["slices".into()];
        case.discriminating = Discriminating::of(case.rows());
    }
    other.name = "cfs-4-slice".to_owned();
    other.counts = Some(MachineCounts { cpus: 4, smt: false, llcs: 1, nodes: 1 });
    cases.push(other);
    Validation::of(cases, not_run)
}

fn check(name: &str, made: impl Fn(&mut dyn std::io::Write) -> std::io::Result<()>) {
    let mut out = Vec::new();
    made(&mut out).unwrap();
    schedlab_base::testing::page_is(
        &format!("crates/report/tests/golden/{name}"),
        &String::from_utf8(out).unwrap(),
    );
}

#[test]
fn the_kernels_own_code_is_named_with_its_level() {
    let Validation { mut cases, .. } = validation();
    let level = Some(schedlab_kernel::Level::Counted);
    cases[0].simulated = cases[0].simulated.take().map(|side| CaseSide { level, ..side });
    let mut out = Vec::new();
    schedlab_report::validation::text(&Validation::of(cases, Vec::new()), &mut out).unwrap();
    let text = String::from_utf8(out).unwrap().split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(text.contains("the kernel's own code (level counted) of v6.1 against"), "{text}");
}

#[test]
fn the_table_is_whole_and_fits_78_columns() {
    let mut out = Vec::new();
    text(&validation(), &mut out).unwrap();
    let wide: Vec<&str> =
        std::str::from_utf8(&out).unwrap().lines().filter(|l| l.chars().count() > 78).collect();
    assert!(wide.is_empty(), "{wide:?}");
    check("validation.txt", |out| text(&validation(), out));
}

#[test]
fn metrics_passed_by_wrong_schedulers_follow_the_share() {
    let mut out = Vec::new();
    text(&tried(), &mut out).unwrap();
    assert!(std::str::from_utf8(&out).unwrap().lines().all(|l| l.chars().count() <= 78));
    check("validation-tried.txt", |out| text(&tried(), out));
    check("validation-tried.md", |out| markdown(&tried(), out));
}

#[test]
fn markdown_has_the_same_figures() {
    check("validation.md", |out| markdown(&validation(), out));
}
