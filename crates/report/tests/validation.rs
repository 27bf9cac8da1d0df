//! The forms of a validation, whole.

use schedlab_base::{Backend, Warning};
use schedlab_lab::validate::{
    CaseResult, Judged, NotRun, Outcome, Share, Side, Tripled, Validation, Verdict,
};
use schedlab_report::validation::{markdown, text};

fn judged(metric: &'static str, class: &'static str, unit: &'static str, values: [Option<f64>; 4]) -> Judged {
    let [simulated, real, off_pct, real_spread_pct] = values;
    let verdict = match off_pct {
        Some(off) if off.abs() <= 25.0 => Verdict::Agree,
        Some(_) => Verdict::Disagree,
        None => Verdict::NotMeasured,
    };
    let why = (verdict == Verdict::NotMeasured).then(|| "this kernel keeps no schedstat".to_owned());
    let (tolerance_pct, tripled) = (25.0, Verdict::Disagree);
    Judged {
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
    }
}

fn side(backend: Backend, kernel: &str, variant: &str) -> Option<Side> {
    let (backend, kernel, variant) = (backend.into(), kernel.to_owned(), Some(variant.to_owned()));
    Some(Side { backend, machine: "icount-8-smt".to_owned(), kernel, variant, runs: 3 })
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
        share: Share::of(&metrics),
        tripled: Tripled { share: Share { agree: 0, measured: 4 }, both: Vec::new(), rejected: true },
        metrics,
        outcome: Outcome::Passed,
        warnings: vec![Warning::new("vm.mode", "real: counts compare, throughput does not")],
    };
    let control = CaseResult {
        name: "control-slices".to_owned(),
        control: Some("a slower tick".to_owned()),
        metrics: Vec::new(),
        share: Share { agree: 1, measured: 7 },
        outcome: Outcome::Rejected,
        warnings: Vec::new(),
        ..case.clone()
    };
    let not_run = NotRun { name: "eevdf-8".to_owned(), why: "no image of 7.3 is here".to_owned() };
    Validation::of(vec![case, control], vec![not_run])
}

fn check(name: &str, made: impl Fn(&Validation, &mut dyn std::io::Write) -> std::io::Result<()>) {
    let mut out = Vec::new();
    made(&validation(), &mut out).unwrap();
    let (file, text) =
        (format!("{}/tests/golden/{name}", env!("CARGO_MANIFEST_DIR")), String::from_utf8(out).unwrap());
    if std::env::var_os("SCHEDLAB_BLESS").is_some() {
        std::fs::write(&file, &text).unwrap();
    }
    assert_eq!(text, std::fs::read_to_string(&file).unwrap(), "{file}");
}

#[test]
fn the_table_is_whole_and_fits_78_columns() {
    let mut out = Vec::new();
    text(&validation(), &mut out).unwrap();
    let wide: Vec<&str> =
        std::str::from_utf8(&out).unwrap().lines().filter(|l| l.chars().count() > 78).collect();
    assert!(wide.is_empty(), "{wide:?}");
    check("validation.txt", |v, out| text(v, out));
}

#[test]
fn markdown_has_the_same_figures() {
    check("validation.md", |v, out| markdown(v, out));
}
