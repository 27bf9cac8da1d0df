//! Properties of comparisons for any data: symmetry, invariance to units, rare false alarms, robustness.

use super::effect::{Change, Corrected, Direction, Limits, RunValue, Verdict, change};
use proptest::prelude::*;
use schedlab_base::Stream;

/// The verdict without a floor that raises the minimum effect.
fn verdict(c: &Change, p: f64, direction: Direction, min_effect_pct: f64) -> (Verdict, Option<String>) {
    super::effect::verdict(c, Corrected::alone(p), direction, Limits::both(min_effect_pct))
}

fn runs(values: &[f64]) -> Vec<RunValue> {
    values.iter().enumerate().map(|(i, v)| RunValue { seed: i as u64, value: *v }).collect()
}

/// The same runs under seeds that pair with nothing.
fn strangers(values: &[f64]) -> Vec<RunValue> {
    values.iter().enumerate().map(|(i, v)| RunValue { seed: 1_000 + i as u64, value: *v }).collect()
}

/// A value like a run time: a common part by seed and an own part, both exponential (skewed, as latencies are).
fn draw(stream: Stream, cell: u64, run: u64) -> f64 {
    let shared = stream.purpose("shared").exponential(run, 1_000_000) as f64;
    let own = stream.purpose("own").number(cell).exponential(run, 1_000_000) as f64;
    10e6 + shared + own
}

#[test]
fn null_experiments_rarely_alarm() {
    let (mut paired, mut grouped) = (0, 0);
    for e in 0..2_000u64 {
        let stream = Stream::new(e).purpose("null");
        let cell = |c| (0..10).map(|i| draw(stream, c, i)).collect::<Vec<f64>>();
        let (a, b) = (cell(0), cell(1));
        let apart: Vec<f64> = (100..110).map(|i| draw(stream, 1, i)).collect();
        let alarm = |c: &super::Change| {
            !matches!(verdict(c, c.p, Direction::Lower, 0.0).0, Verdict::Unclear | Verdict::Same)
        };
        paired += usize::from(alarm(&change(&runs(&a), &runs(&b))));
        grouped += usize::from(alarm(&change(&runs(&a), &strangers(&apart))));
    }
    // 5 % is 100; three standard errors above it is 129.
    assert!((20..=129).contains(&paired), "{paired} of 2000 paired");
    assert!((20..=129).contains(&grouped), "{grouped} of 2000 unpaired");
}

#[test]
fn counts_do_not_fall_by_more_than_all_of_it() {
    let base = [24.0, 4.0, 31.0, 17.0, 2.0, 40.0, 1.0, 13.0];
    let variant = [0.0, 1.0, 0.0, 2.0, 0.0, 1.0, 0.0, 0.0];
    let c = change(&runs(&base), &runs(&variant));
    assert!(c.shift.unwrap().interval[0] < -1.0, "the test needs data whose interval reaches below");
    assert_eq!(c.ci95_pct.unwrap()[0], -100.0);
    // What may be negative has no such floor.
    let signed = change(&runs(&base), &runs(&variant.map(|v| v - 60.0)));
    assert!(signed.ci95_pct.unwrap()[0] < -100.0);
}

#[test]
fn a_wild_run_does_not_turn_a_verdict() {
    let base: Vec<f64> = (0..10).map(|i| 1000.0 + f64::from(i * 7 % 10)).collect();
    let mut faster: Vec<f64> = base.iter().map(|v| v * 0.9 + v % 3.0).collect();
    let judge = |b: &[f64], v: &[f64]| {
        let c = change(&runs(b), &runs(v));
        (verdict(&c, c.p, Direction::Lower, 2.0).0, c.change_pct.unwrap())
    };
    assert_eq!(judge(&base, &faster).0, Verdict::Better);
    faster[4] = 1e6;
    let (verdict, pct) = judge(&base, &faster);
    assert_eq!(verdict, Verdict::Better);
    assert!((pct + 10.0).abs() < 0.5, "{pct}");
    let mut same: Vec<f64> = base.iter().map(|v| v + 1.0).collect();
    same[0] *= 40.0;
    assert_eq!(judge(&base, &same).0, Verdict::Same);
}

#[test]
fn a_large_change_survives_a_table_of_two_hundred_rows() {
    let base: Vec<f64> = (0..10).map(|i| 4.6e6 + 1e5 * f64::from(i * 3 % 10)).collect();
    let variant: Vec<f64> = (0..10).map(|i| 1e5 + 3e3 * f64::from(i * 7 % 10)).collect();
    let c = change(&runs(&base), &runs(&variant));
    assert_eq!(verdict(&c, c.p * 200.0, Direction::Lower, 2.0).0, Verdict::Better);
}

#[test]
fn few_runs_are_unclear_and_say_how_many_are_needed() {
    let c = change(&runs(&[10.0, 11.0, 10.5]), &runs(&[20.0, 22.0, 21.0]));
    let (v, why) = verdict(&c, c.p, Direction::Lower, 2.0);
    assert_eq!(v, Verdict::Unclear);
    assert!(why.unwrap().contains("fewer than 6"));
    let c = change(&runs(&[10.0]), &runs(&[20.0]));
    assert_eq!((verdict(&c, c.p, Direction::Lower, 2.0).0, c.change_pct), (Verdict::Unclear, Some(100.0)));
}

#[test]
fn a_noise_floor_raises_what_counts_and_never_widens_what_is_the_same() {
    let floor = |c: &Change| {
        let at = Corrected::alone(c.p);
        super::effect::verdict(c, at, Direction::Lower, Limits::with_floor(2.0, Some(43.3)))
    };
    let base: Vec<f64> = (0..10).map(|i| 1000.0 + f64::from(i * 7 % 10)).collect();
    // Noise: some pairs half as long, some half as long again. The interval lies inside the floor and far outside 2 %.
    let noisy: Vec<f64> = (0..10).map(|i| base[i] * if i % 2 == 0 { 0.7 } else { 1.3 }).collect();
    let c = change(&runs(&base), &runs(&noisy));
    assert!(
        c.ci95_pct.is_some_and(|[low, high]| low > -43.3 && low < -10.0 && high < 43.3 && high > 10.0),
        "{c:?}"
    );
    assert_eq!(floor(&c).0, Verdict::Unclear);
    // A tenth faster in each run: shown, but below this machine's noise floor.
    let c = change(&runs(&base), &runs(&base.iter().map(|v| v * 0.9).collect::<Vec<f64>>()));
    let (v, why) = floor(&c);
    assert_eq!((verdict(&c, c.p, Direction::Lower, 2.0).0, v), (Verdict::Better, Verdict::Unclear));
    assert!(why.unwrap().contains("noise floor of 43.3%"));
    let c = change(&runs(&base), &runs(&base.iter().map(|v| v * 0.5).collect::<Vec<f64>>()));
    assert_eq!(floor(&c).0, Verdict::Better, "beyond the floor");
    let c = change(&runs(&base), &runs(&base.iter().map(|v| v + 1.0).collect::<Vec<f64>>()));
    assert_eq!(floor(&c).0, Verdict::Same, "within 2 %, whatever the floor");
}

#[test]
fn zeros_and_constants_are_handled() {
    let zeros = runs(&[0.0; 8]);
    let c = change(&zeros, &zeros);
    assert_eq!((verdict(&c, c.p, Direction::Lower, 2.0).0, c.change_pct), (Verdict::Same, Some(0.0)));
    let c = change(&zeros, &runs(&[3.0, 4.0, 5.0, 3.0, 4.0, 5.0, 3.0, 6.0]));
    assert_eq!((c.change_pct, c.ci95_pct), (None, None));
    assert_eq!(verdict(&c, c.p, Direction::Lower, 2.0).0, Verdict::Worse);
    assert_eq!(verdict(&c, c.p, Direction::Neither, 2.0).0, Verdict::Changed);
    let c = change(&runs(&[7.0; 10]), &runs(&[14.0; 10]));
    assert_eq!(verdict(&c, c.p, Direction::Higher, 2.0).0, Verdict::Better);
    assert!((c.change_pct.unwrap() - 100.0).abs() < 1e-9);
    let c = change(&runs(&[0.0, 2.0, 4.0, 2.0, 2.0, 1.0]), &runs(&[0.0, 2.0, 4.0, 2.0, 2.0, 1.0]));
    assert_eq!(verdict(&c, c.p, Direction::Higher, 2.0).0, Verdict::Same);
}

#[test]
fn runs_that_do_not_overlap_are_a_change_also_from_zeros() {
    let judge = |b: &[f64], v: &[f64]| {
        let c = change(&runs(b), &runs(v));
        (verdict(&c, c.p, Direction::Lower, 2.0).0, c)
    };
    // Found with schbench: switches of six runs. The median of the baseline is 1, so that means say "x363".
    let (few, many) = ([2.0, 2.0, 0.0, 0.0, 4.0, 0.0], [776.0, 210.0, 102.0, 363.0, 35.0, 777.0]);
    let (found, c) = judge(&few, &many);
    assert_eq!(found, Verdict::Worse, "{c:?}");
    // The U test of 6 and 6 can't go below 2 of 924 ways, and it is the second test.
    assert!((c.p - 4.0 / 924.0).abs() < 1e-12, "{c:?}");
    assert!(c.ci95_pct.unwrap()[0] > 2_000.0, "{c:?}");
    assert_eq!(judge(&many, &few).0, Verdict::Better);
    assert_eq!(judge(&[0.0; 6], &[1.0, 900.0, 3.0, 1.0, 2.0, 4_000.0]).0, Verdict::Worse);
    // One run that reaches into the other side is enough to stay in doubt.
    assert_eq!(judge(&few, &[776.0, 210.0, 3.0, 363.0, 35.0, 777.0]).0, Verdict::Unclear);
    // Five pairs can show nothing, whatever they are.
    assert_eq!(judge(&few[..5], &many[..5]).0, Verdict::Unclear);
    // In a table of thirty such rows the chance is too large: Holm's correction holds.
    let held = verdict(&c, (c.p * 30.0).min(1.0), Direction::Lower, 2.0).0;
    assert_eq!(held, Verdict::Unclear);
}

#[test]
fn equal_runs_beside_some_that_differ_are_not_the_same() {
    let (zeros, mut up, mut down) = ([0.0; 8], [0.0; 8], [0.0; 8]);
    up[2] = 1.39e6;
    down[5] = 1.1e6;
    let one = change(&runs(&zeros), &runs(&up));
    assert_eq!(verdict(&one, one.p, Direction::Lower, 2.0).0, Verdict::Same, "one wild run decides nothing");
    let c = change(&runs(&down), &runs(&up));
    let (v, why) = verdict(&c, c.p, Direction::Lower, 2.0);
    assert_eq!((v, c.change_pct), (Verdict::Unclear, Some(0.0)), "{c:?}");
    assert!(why.unwrap().contains("a few are not"));
    // Runs that differ by less than the minimum effect take nothing away from `same`.
    let c = change(&runs(&[1000.0; 6]), &runs(&[1000.0, 999.0, 1001.0, 1000.0, 1000.0, 1000.0]));
    assert_eq!(verdict(&c, c.p, Direction::Lower, 2.0).0, Verdict::Same);
}

proptest! {
    #[test]
    fn swapping_the_cells_turns_the_sign(
        a in prop::collection::vec(1.0f64..1e6, 2..14), b in prop::collection::vec(1.0f64..1e6, 2..14)
    ) {
        let (there, back) = (change(&runs(&a), &runs(&b)), change(&runs(&b), &runs(&a)));
        let (x, y) = (there.shift.unwrap(), back.shift.unwrap());
        prop_assert!((x.estimate + y.estimate).abs() < 1e-9);
        prop_assert!((x.interval[0] + y.interval[1]).abs() < 1e-9);
        prop_assert!((there.p - back.p).abs() < 1e-9 && (there.rank_p - back.rank_p).abs() < 1e-12);
    }

    #[test]
    fn units_do_not_matter(
        a in prop::collection::vec(0.0f64..1e6, 6..12), b in prop::collection::vec(0.0f64..1e6, 6..12)
    ) {
        // A power of two scales exactly.
        let scale = |v: &[f64]| v.iter().map(|x| x * 1024.0).collect::<Vec<f64>>();
        let (x, y) = (change(&runs(&a), &runs(&b)), change(&runs(&scale(&a)), &runs(&scale(&b))));
        prop_assert!((x.p - y.p).abs() < 1e-9 && x.rank_p == y.rank_p);
        let close = |(u, v): (f64, f64)| (u - v).abs() < 1e-6 * (1.0 + u.abs());
        let near = |u: Option<f64>, v: Option<f64>| u.zip(v).is_none_or(close);
        prop_assert!(near(x.change_pct, y.change_pct) && near(x.mean_change_pct, y.mean_change_pct));
    }

    #[test]
    fn the_estimate_lies_in_its_interval_and_nothing_is_nan(
        a in prop::collection::vec(-3i8..4, 1..12), b in prop::collection::vec(-3i8..4, 1..12)
    ) {
        let v = |x: &[i8]| x.iter().map(|i| f64::from(*i)).collect::<Vec<f64>>();
        for c in [change(&runs(&v(&a)), &runs(&v(&b))), change(&runs(&v(&a)), &strangers(&v(&b)))] {
            prop_assert!(c.p.is_finite() && c.rank_p.is_finite());
            if let Some(s) = c.shift {
                prop_assert!(s.interval[0] <= s.estimate && s.estimate <= s.interval[1], "{s:?}");
            }
        }
    }
}
