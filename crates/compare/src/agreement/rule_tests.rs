//! The rule on records made by hand: agreement, disagreement, too little, missing, and three times the value.

use super::*;
use crate::testing::{record, with_series};
use proptest::prelude::*;

fn row(name: &str) -> &'static MetricRow {
    LIST.iter().find(|r| r.name == name).unwrap()
}

fn on_host(name: &str, simulated: &[Record], real: &[Record]) -> JudgedMetric {
    judge(row(name), &Tolerances::on_host(), simulated, real)
}

fn counted(name: &str, simulated: &[u64], real: &[u64]) -> JudgedMetric {
    let side = |values: &[u64]| values.iter().map(|v| record(&[(name, *v)])).collect::<Vec<_>>();
    on_host(name, &side(simulated), &side(real))
}

#[test]
fn means_over_runs_agree_within_the_tolerance_of_the_real_one() {
    let j = counted("migrations", &[110, 130], &[90, 110]);
    assert_eq!(
        (j.verdict, j.simulated, j.real, j.off_pct),
        (Agreement::Agree, Some(120.0), Some(100.0), Some(20.0))
    );
    assert_eq!(counted("migrations", &[126], &[100]).verdict, Agreement::Disagree);
    assert_eq!(counted("migrations", &[74], &[100]).verdict, Agreement::Disagree);
    assert_eq!(
        counted("cpu_time", &[1_030_000_000], &[1_000_000_000]).verdict,
        Agreement::Disagree,
        "2 % of totals"
    );
}

#[test]
fn too_few_on_both_sides_is_not_agreement() {
    let j = counted("switches.involuntary", &[3], &[5]);
    assert_eq!((j.verdict, j.why.as_deref()), (Agreement::NotMeasured, Some("too few (3 against 5)")));
    assert_eq!(
        counted("switches.involuntary", &[40], &[5]).verdict,
        Agreement::Disagree,
        "one side has enough"
    );
    assert_eq!(counted("switches.involuntary", &[0], &[20]).verdict, Agreement::Disagree);
    assert_eq!(
        counted("switches.involuntary", &[16], &[20]).verdict,
        Agreement::Agree,
        "five more or less are none"
    );
}

#[test]
fn what_the_real_kernel_does_not_tell_is_not_measured_with_its_reason() {
    let j = on_host("newidle lb_count", &[record(&[])], &[record(&[])]);
    assert_eq!(
        (j.verdict, j.why.as_deref()),
        (Agreement::NotMeasured, Some("this kernel keeps no schedstat"))
    );
    let j = on_host("migrations", &[record(&[("migrations", 100)])], &[record(&[])]);
    assert_eq!(j.verdict, Agreement::NotMeasured);
    assert!(j.why.is_some() && j.simulated == Some(100.0) && j.real.is_none());
}

#[test]
fn what_only_the_real_kernel_has_disagrees() {
    let j = on_host("slice.p50", &[with_series("slice", &[])], &[with_series("slice", &[4_000_000; 50])]);
    assert_eq!((j.verdict, j.why.as_deref()), (Agreement::Disagree, Some("simulated: no samples")));
    let j = on_host(
        "slice distribution",
        &[with_series("slice", &[])],
        &[with_series("slice", &[4_000_000; 150])],
    );
    assert_eq!((j.verdict, j.off_pct), (Agreement::Disagree, Some(100.0)));
}

#[test]
fn a_distribution_is_judged_by_the_part_that_is_elsewhere() {
    let real = with_series("slice", &[4_000_000; 200]);
    let mine = |elsewhere: usize| {
        let mut values = vec![4_100_000; 200 - elsewhere];
        values.extend(vec![12_000_000; elsewhere]);
        with_series("slice", &values)
    };
    let of = |elsewhere| on_host("slice distribution", &[mine(elsewhere)], std::slice::from_ref(&real));
    assert_eq!(of(40).verdict, Agreement::Agree);
    assert!((of(40).off_pct.unwrap() - 20.0).abs() < 1e-9);
    assert_eq!(of(60).verdict, Agreement::Disagree);
    let few =
        on_host("slice distribution", &[with_series("slice", &[1; 60])], &[with_series("slice", &[1; 90])]);
    assert_eq!(
        (few.verdict, few.why.as_deref()),
        (Agreement::NotMeasured, Some("too few values (60 against 90)"))
    );
}

#[test]
fn an_agreement_that_three_times_the_simulated_values_would_share_is_none() {
    // Spread evenly, by their logarithm, over a factor of ten.
    let spread = |from: f64| (0..1_000).map(|i| (from * 10f64.powf(f64::from(i) / 1_000.0)) as u64).collect();
    let judged = |from: f64| {
        let (mine, theirs): (Vec<u64>, Vec<u64>) = (spread(from), spread(300_000.0));
        on_host("slice distribution", &[with_series("slice", &mine)], &[with_series("slice", &theirs)])
    };
    assert_eq!(judged(300_000.0).verdict, Agreement::Agree, "three times the real ones would not pass");
    let low = judged(200_000.0);
    assert_eq!((low.verdict, low.tripled), (Agreement::NotMeasured, Agreement::NotMeasured));
    assert!(low.why.is_some_and(|why| why.contains("three times as long")));
    assert_eq!(judged(100_000.0).verdict, Agreement::Disagree, "what is off is measured, whatever passes");
}

#[test]
fn a_distribution_that_takes_anything_is_not_measured() {
    // From a nanosecond to minutes, each power of two as often as the others.
    let wide: Vec<u64> = (0..36).flat_map(|i| [1u64 << i; 10]).collect();
    let j = on_host("slice distribution", &[with_series("slice", &wide)], &[with_series("slice", &wide)]);
    assert_eq!(j.verdict, Agreement::NotMeasured);
    assert!(j.why.is_some_and(|w| w.contains("three times")));
}

#[test]
fn a_kernel_that_does_not_agree_with_itself_is_told_beside_the_verdict() {
    let j = counted("migrations", &[100], &[50, 150]);
    assert_eq!(j.verdict, Agreement::Agree);
    assert!(j.real_spread_pct.unwrap() > 25.0 && j.why.unwrap().contains("known to"));
    assert_eq!(counted("migrations", &[100], &[99, 101]).why, None);
}

#[test]
fn a_simulator_three_times_off_is_judged_by_the_same_rule() {
    let j = counted("migrations", &[100], &[100]);
    assert_eq!((j.verdict, j.tripled), (Agreement::Agree, Agreement::Disagree));
    let j = counted("migrations", &[34], &[100]);
    assert_eq!(
        (j.verdict, j.tripled),
        (Agreement::Disagree, Agreement::Agree),
        "a third of it is recognised"
    );
    assert_eq!(counted("migrations", &[8], &[8]).tripled, Agreement::NotMeasured, "too few are too few");
    let slices = |values: &[u64]| with_series("slice", values);
    let j = on_host("slice distribution", &[slices(&[4_000_000; 200])], &[slices(&[4_100_000; 200])]);
    assert_eq!((j.verdict, j.tripled), (Agreement::Agree, Agreement::Disagree));
}

#[test]
fn shares_are_put_on_the_other_side_of_the_half() {
    let shares = row("woken.prev.share");
    let all: Vec<f64> = [0.0, 10.0, 50.0, 80.0, 100.0].iter().map(|s| thrice(shares, *s)).collect();
    assert_eq!(all, [50.0, 60.0, 0.0, 30.0, 50.0]);
    assert_eq!(thrice(row("cpu_time spread"), 7.0), 21.0, "a spread is no share of anything");
}

proptest! {
    /// With the tolerances of shipped cases, a value that agrees does not agree three times as large. The
    /// exceptions are the very edges of a tolerance of one half (the spread's) and of the slack of times.
    #[test]
    fn three_times_what_agrees_does_not(
        at in 0..LIST.len(),
        simulated in 0u64..4_000_000_000,
        real in 0u64..4_000_000_000,
        shift in 0u32..30,
    ) {
        let row = &LIST[at];
        let (simulated, real) = ((simulated >> shift) as f64, (real >> shift) as f64);
        let (simulated, real) = match row.class {
            Class::Placement => (simulated % 100.0, real % 100.0),
            _ => (simulated, real),
        };
        let edge = [0.5 * real, real - row.slack].contains(&simulated);
        for of in [Tolerances::on_host(), Tolerances::in_guests()] {
            let pct = of.of(row.class);
            if number(row, pct, simulated, real) == Agreement::Agree && !edge {
                prop_assert_eq!(number(row, pct, thrice(row, simulated), real), Agreement::Disagree);
            }
        }
    }
    /// The negative control by itself: no row that was measured takes three times the real value.
    #[test]
    fn three_times_the_value_never_passes(
        at in 0..LIST.len(),
        simulated in 0u64..4_000_000_000,
        real in 0u64..4_000_000_000,
        shift in 0u32..30,
    ) {
        let row = &LIST[at];
        let (simulated, real) = ((simulated >> shift) as f64, (real >> shift) as f64);
        for of in [Tolerances::on_host(), Tolerances::in_guests()] {
            let pct = of.of(row.class);
            prop_assert_ne!(number(row, pct, 3.0 * real, real), Agreement::Agree);
            // Any value that agrees would be distinguished from three times itself.
            if number(row, pct, simulated, real) == Agreement::Agree {
                prop_assert_eq!(number(row, pct, 3.0 * real, real), Agreement::Disagree);
            }
        }
    }
}

#[test]
fn more_runs_are_wanted_while_the_kernels_own_means_are_not_known() {
    let unsure = |runs: &[[u64; 2]]| {
        let made =
            |[moved, waited]: &[u64; 2]| record(&[("migrations", *moved), ("switches.voluntary", *waited)]);
        super::unsure(&Tolerances::on_host(), &runs.iter().map(made).collect::<Vec<_>>())
    };
    assert!(unsure(&[[100, 100], [150, 101], [200, 102]]), "one of two is known to 80 % only");
    assert!(!unsure(&[[100, 100], [101, 101], [102, 102]]));
    assert!(!unsure(&[[1, 100], [3, 101], [9, 102]]), "too few say nothing");
    assert!(unsure(&[[100, 100]]), "a single run tells nothing of its own spread");
}
