//! Properties of courses for any data.

use super::*;
use proptest::prelude::*;

const RULES: Rules = Rules { alpha: 0.05, matters: 0.02 };

fn days(values: impl IntoIterator<Item = f64>) -> Vec<Day> {
    values.into_iter().map(|value| Day { value, year: 1.0 / 365.0 }).collect()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(40))]
    #[test]
    fn the_level_says_nothing_and_the_sign_turns_the_sign(
        noise in prop::collection::vec(-0.02f64..0.02, 30..60),
        level in -5.0f64..5.0,
        size in -0.2f64..0.2,
    ) {
        let with = |sign: f64, level: f64| {
            let one = |(i, e): (usize, &f64)| level + sign * (e + if i >= 20 { size } else { 0.0 });
            course(&days(noise.iter().enumerate().map(one)), RULES)
        };
        let (plain, moved, turned) = (with(1.0, 0.0), with(1.0, level), with(-1.0, 0.0));
        let at = |c: &Course| c.steps.iter().map(|s| (s.at, s.seen)).collect::<Vec<_>>();
        prop_assert_eq!(at(&plain), at(&moved));
        prop_assert_eq!(at(&plain), at(&turned));
        for (a, b) in plain.steps.iter().zip(&turned.steps) {
            prop_assert!((a.size.estimate + b.size.estimate).abs() < 1e-9);
        }
    }

    #[test]
    fn what_was_seen_stays_seen_when_days_are_added(
        noise in prop::collection::vec(-0.02f64..0.02, 50),
        size in 0.03f64..0.3,
    ) {
        let all = days(noise.iter().enumerate().map(|(i, e)| e + if i >= 25 { size } else { 0.0 }));
        for step in course(&all, RULES).steps {
            let then = course(&all[..=step.seen], RULES);
            prop_assert!(then.steps.iter().any(|s| s.seen == step.seen));
            prop_assert!(step.range[0] <= step.at && step.at <= step.range[1]);
            prop_assert!(course(&all[..step.seen], RULES).steps.iter().all(|s| s.seen < step.seen));
        }
    }

    #[test]
    fn gaps_of_any_length_are_taken(
        noise in prop::collection::vec(-0.02f64..0.02, 40..80),
        gaps in prop::collection::vec((0usize..80, 0.1f64..9.0), 0..5),
        size in -0.3f64..0.3,
    ) {
        let mut all = days(noise.iter().enumerate().map(|(i, e)| e + if i >= 25 { size } else { 0.0 }));
        for (at, years) in gaps {
            let at = at % all.len();
            all[at].year = years;
        }
        for step in course(&all, RULES).steps {
            prop_assert!(step.range[0] <= step.at && step.at <= step.range[1] && step.seen < all.len());
        }
    }
}

#[test]
fn a_gap_of_three_years_does_not_hide_the_change_after_it() {
    let mut all = days((0..80).map(|i| if i >= 50 { 0.03 } else { 0.0 }));
    all[25].year = 3.0;
    let found = course(&all, RULES);
    assert_eq!(found.steps.iter().map(|s| s.at).collect::<Vec<_>>(), [50]);
}

#[test]
fn one_wild_day_or_too_few_days_are_not_a_change() {
    let calm = |i: usize| 0.005 * f64::from((i * 7 % 11) as u8) / 11.0;
    let wild = course(&days((0..60).map(|i| calm(i) + if i == 30 { 0.5 } else { 0.0 })), RULES);
    assert_eq!(wild, Course::default());
    // Nor does it hide one: the change is a tenth of the wild day.
    let hidden = |i: usize| {
        if i == 30 {
            0.5
        } else if i >= 50 {
            0.05
        } else {
            0.0
        }
    };
    let found = course(&days((0..80).map(|i| calm(i) + hidden(i))), RULES);
    assert_eq!(found.steps.iter().map(|s| s.at).collect::<Vec<_>>(), [50]);
    let short = course(&days((0..13).map(|i| calm(i) + if i >= 7 { 0.5 } else { 0.0 })), RULES);
    assert_eq!(short, Course::default());
    assert_eq!(course(&[], RULES), Course::default());
}

#[test]
fn days_equal_to_the_last_digit_show_a_change_and_its_day() {
    let course = course(&days((0..40).map(|i| if i >= 20 { 0.03 } else { 0.0 })), RULES);
    let [step] = course.steps[..] else { panic!("{course:?}") };
    assert_eq!((step.at, step.range), (20, [20, 20]));
    assert!((step.size.estimate - 0.03).abs() < 1e-9 && step.seen <= 25, "{step:?}");
}

#[test]
fn a_change_and_its_repair_are_two() {
    let calm = |i: usize| 0.01 * f64::from((i * 7 % 11) as u8) / 11.0;
    let course =
        course(&days((0..120).map(|i| calm(i) + if (40..80).contains(&i) { 0.1 } else { 0.0 })), RULES);
    let at: Vec<(usize, bool)> = course.steps.iter().map(|s| (s.at, s.size.estimate > 0.0)).collect();
    assert_eq!(at, [(40, true), (80, false)]);
}
