//! Outcomes of cases and validations.

use super::super::real::RealSide;
use super::super::rows::{LIST, Tolerances};
use super::super::{rule, stored};
use super::*;
use crate::testing::record;

/// A case of the running kernel.
struct Case {
    tolerance: Tolerances,
    is_control: bool,
}

impl Case {
    fn judgement(&self) -> Judgement<'static> {
        Judgement { name: "mine", about: "spinning", control: self.is_control.then_some("slow") }
    }
}

fn case(is_control: bool) -> Case {
    Case { tolerance: Tolerances::on_host(), is_control }
}

fn judge(case: &Case, simulated: &[Record], real: &[Record], warnings: Vec<Warning>) -> CaseResult {
    let rows = LIST.iter().map(|row| rule::judge(row, &case.tolerance, simulated, real)).collect();
    CaseResult::of(&case.judgement(), rows, simulated, real, warnings)
}

const COUNTED: [&str; 6] =
    ["cpu_time", "run_delay.total", "switches.voluntary", "switches.involuntary", "woken", "migrations"];

/// A case in which `agreeing` of six metrics agree.
fn of(agreeing: usize, control: bool) -> CaseResult {
    let real = COUNTED.map(|name| (name, 50_000_000));
    let mine: Vec<(&str, u64)> =
        real.iter().enumerate().map(|(i, (n, v))| (*n, if i < agreeing { *v } else { v * 2 })).collect();
    judge(&case(control), &[record(&mine)], &[record(&real)], Vec::new())
}

#[test]
fn a_case_needs_half_and_a_control_must_not_have_it() {
    assert_eq!(
        (of(3, false).outcome, of(3, false).share),
        (Outcome::Passed, AgreementShare { agree: 3, measured: 6 })
    );
    assert_eq!(of(2, false).outcome, Outcome::Failed);
    assert_eq!(of(2, true).outcome, Outcome::Rejected);
    assert_eq!(of(3, true).outcome, Outcome::Accepted);
}

#[test]
fn five_metrics_say_nothing() {
    let five = COUNTED[..5].iter().map(|n| (*n, 50_000_000)).collect::<Vec<_>>();
    let same = |control| judge(&case(control), &[record(&five)], &[record(&five)], Vec::new()).outcome;
    assert_eq!((same(false), same(true)), (Outcome::TooLittle, Outcome::TooLittle));
}

#[test]
fn every_metric_of_the_list_is_in_the_result_and_three_times_its_value_is_rejected() {
    let case = of(6, false);
    assert_eq!(case.metrics.len(), crate::agreement::rows::LIST.len());
    assert!(case.metrics.iter().all(|m| m.verdict != Agreement::NotMeasured || m.why.is_some()));
    let share = AgreementShare { agree: 0, measured: 6 };
    assert_eq!(case.tripled, Tripled { share, both: Vec::new(), rejected: true });
}

#[test]
fn a_tolerance_that_takes_three_times_a_simulation_fails_the_case() {
    // All is simulated at 0.6 of the real value. Three times that, 1.8, must not pass for 1.
    let with = |tolerance: f64| {
        let mut case = case(false);
        case.tolerance.0[Class::Migrations as usize] = tolerance;
        let real = COUNTED.map(|name| (name, 50_000_000));
        let mine = COUNTED.map(|name| (name, if name == "migrations" { 30_000_000 } else { 50_000_000 }));
        judge(&case, &[record(&mine)], &[record(&real)], Vec::new())
    };
    let wide = with(100.0);
    assert_eq!((wide.outcome, wide.tripled.both), (Outcome::Failed, vec!["migrations".into()]));
    let judged = with(25.0);
    assert_eq!((judged.outcome, judged.tripled.both), (Outcome::Passed, vec![]));
}

#[test]
fn a_rule_that_takes_anything_fails_every_case() {
    let mut metrics = of(6, false).metrics;
    metrics.iter_mut().for_each(|m| (m.verdict, m.tripled) = (Agreement::Agree, Agreement::Agree));
    for control in [false, true] {
        let case = CaseResult::of(&case(control).judgement(), metrics.clone(), &[], &[], Vec::new());
        assert_eq!((case.outcome, case.tripled.both.len()), (Outcome::Failed, metrics.len()));
    }
}

#[test]
fn a_simulation_that_would_be_as_good_three_times_as_large_fails() {
    // Three agree as they are, the other three are a third of the real value.
    let real = COUNTED.map(|name| (name, 90_000_000));
    let mut mine = real;
    mine[3..].iter_mut().for_each(|(_, value)| *value /= 3);
    let found = judge(&case(false), &[record(&mine)], &[record(&real)], Vec::new());
    assert_eq!((found.share.agree, found.tripled.share.agree), (3, 3));
    assert!(found.tripled.both.is_empty() && found.outcome == Outcome::Failed);
    let control = judge(&case(true), &[record(&mine[..]), record(&mine[..])], &[record(&real)], Vec::new());
    assert_eq!(control.outcome, Outcome::Accepted, "half agrees, which is judged as what it is");
}

#[test]
fn the_whole_needs_three_quarters_and_all_cases_run_and_every_control_rejected() {
    let passed = |cases: &[(usize, bool)], not_run: usize| {
        let missing = NotRun { name: "far".to_owned(), why: "no image".to_owned() };
        let cases = cases.iter().map(|(agreeing, control)| of(*agreeing, *control)).collect();
        Validation::of(cases, vec![missing; not_run]).passed
    };
    assert!(passed(&[(6, false), (3, false), (0, true)], 0), "9 of 12; controls do not count");
    assert!(!passed(&[(5, false), (3, false)], 0), "8 of 12");
    assert!(!passed(&[(6, false), (6, false), (6, false), (2, false)], 0), "one case is below half");
    assert!(!passed(&[(6, false), (6, true)], 0), "a control was accepted");
    assert!(!passed(&[(6, false)], 1), "one was not run");
    assert!(!passed(&[], 0));
}

#[test]
fn decisions_are_counted_apart_from_totals() {
    let all = Validation::of(vec![of(2, false)], Vec::new());
    assert_eq!(all.decisions, AgreementShare { agree: 0, measured: 4 });
    assert_eq!(all.classes[Class::Totals as usize].share, AgreementShare { agree: 1, measured: 1 });
    assert_eq!(all.share, AgreementShare { agree: 2, measured: 6 });
}

/// A side whose distribution of slices is a peak, and whose counters are given.
fn with_slices(values: &[(&str, u64)], slice_ns: u64) -> Record {
    let mut record = record(values);
    let mut slices = schedlab_record::Series::new("ns", schedlab_record::Better::Neither);
    slices.record_n(slice_ns, 300);
    record.found.series.insert("slice".to_owned(), slices);
    record
}

#[test]
fn a_kept_result_judges_another_simulation_as_its_runs_do() {
    let real: Vec<Record> =
        (0..3).map(|i| with_slices(&COUNTED.map(|name| (name, 50_000_000 + i)), 3_000_000)).collect();
    let first =
        judge(&case(false), &[with_slices(&COUNTED.map(|n| (n, 50_000_000)), 3_100_000)], &real, Vec::new());
    let text = stored::write(&Validation::of(vec![first.clone()], Vec::new())).unwrap();
    let kept = &stored::read(&text).unwrap().cases[0];
    assert_eq!((kept.share, &kept.tripled, kept.outcome), (first.share, &first.tripled, first.outcome));
    for (times, slice_ns) in [(1, 3_100_000), (2, 9_000_000)] {
        let other = [with_slices(&COUNTED.map(|name| (name, times * 50_000_000)), slice_ns)];
        let verdicts = |real: RealSide<'_>| -> Vec<_> {
            let judge = |row| rule::judge_beside(row, &Tolerances::on_host(), &other, real);
            LIST.iter().map(judge).map(|m| (m.metric, m.verdict, m.tripled)).collect()
        };
        let by_runs = verdicts(RealSide::Runs(&real));
        assert_eq!(by_runs, verdicts(RealSide::Earlier(kept)));
        assert!(by_runs.iter().filter(|(_, verdict, _)| *verdict != Agreement::NotMeasured).count() >= 7);
    }
    let other =
        CaseResult::of(&case(false).judgement(), Vec::new(), &real, &[], Vec::new()).with_real_of(kept);
    assert_eq!((other.real, other.workload), (first.real, first.workload));
}
