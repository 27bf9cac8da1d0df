//! False alarms and power of sequences of looks, over synthetic trials with rows of every kind.
//!
//! A trial has loads. A load's rows share what its runs share, so rows are correlated. The noise has many shapes: a
//! false alarm needs a test that believes the noise, not odd noise.

use super::looks::{Decided, Looks, Table, decide};
use super::{Direction, Limits, RunValue, Verdict};
use schedlab_base::Stream;
use schedlab_base::testing::page_has;

/// Loads of a trial.
const LOADS: u64 = 6;
/// The shapes of noise: one row of each in each load.
const SHAPES: [&str; 8] =
    ["skewed", "narrow", "uniform", "two values", "rare count", "few values", "wild", "two levels"];

/// A number in [0, 1).
fn unit(stream: Stream, i: u64) -> f64 {
    stream.below(i, 1 << 32) as f64 / (1u64 << 32) as f64
}

/// A run's value in a row of a shape.
fn value(shape: &str, shared: Stream, own: Stream, seed: u64) -> f64 {
    let both = |i: u64| 0.5 * unit(shared, 100 * seed + i) + 0.5 * unit(own, 100 * seed + i);
    let skew = own.exponential(seed, 1_000) as f64 + shared.exponential(seed, 1_000) as f64;
    match shape {
        "skewed" => 1_000.0 + skew,
        "narrow" => 1_000.0 + 20.0 * (both(1) + both(2) + both(3)),
        "uniform" => 1_000.0 + 500.0 * unit(own, seed),
        // Like a switch that was found in one of two states.
        "two values" => {
            if unit(own, seed) < 0.5 {
                7.0
            } else {
                14.0
            }
        }
        "rare count" => f64::from(u8::from(unit(own, seed) < 0.2)) + f64::from(u8::from(both(4) < 0.3)),
        "few values" => 40.0 + (4.0 * both(5)).floor(),
        "wild" => 1_000.0 + skew * if unit(own, 1_000 + seed) < 0.1 { 50.0 } else { 0.1 },
        // The whole load runs at one of two levels.
        _ => (1_000.0 + 10.0 * both(6)) * if unit(own, seed) < 0.5 { 1.0 } else { 1.4 },
    }
}

/// The rows of a trial with all runs of the last look; the variant's values are multiplied by `scale`.
fn trial(number: u64, looks: &Looks, scale: f64) -> Vec<Table> {
    let root = Stream::new(number).purpose("trial");
    let runs = looks.runs().last().copied().unwrap_or(10);
    let mut rows = Vec::new();
    for load in 0..LOADS {
        let shared = root.number(load).purpose("shared");
        for (at, shape) in SHAPES.iter().enumerate() {
            // Rows of a load share their draws in each cell, too.
            let cell = |c: u64| root.number(load).purpose("cell").number(c);
            let values = |c: u64, scale: f64| -> Vec<RunValue> {
                let one = |seed| RunValue { seed, value: scale * value(shape, shared, cell(c), seed) };
                (0..runs).map(one).collect()
            };
            rows.push(Table {
                base: values(0, 1.0),
                variant: values(1, scale),
                first_seed: 0,
                runs,
                own: at == (load % 2) as usize,
                direction: Direction::Lower,
                limits: Limits::both(2.0),
            });
        }
    }
    rows
}

fn is_change(d: &Decided) -> bool {
    !matches!(d.verdict, Verdict::Unclear | Verdict::Same)
}

/// The rows with the runs of their first `runs` seeds.
fn cut(rows: &[Table], runs: u64) -> Vec<Table> {
    let first = |all: &[RunValue]| all.iter().filter(|r| r.seed < runs).copied().collect();
    rows.iter()
        .map(|r| Table { base: first(&r.base), variant: first(&r.variant), runs, ..r.clone() })
        .collect()
}

#[test]
fn looks_at_5_percent_each_would_raise_more_alarms() {
    let (looks, trials) = (Looks::doubling(6, 4), 100);
    let raises = |number: &u64| {
        let rows = trial(*number, &looks, 1.0);
        looks.runs().iter().any(|runs| decide(&cut(&rows, *runs), &Looks::once()).iter().any(is_change))
    };
    let alarms = (0..trials).filter(raises).count();
    println!("{alarms} of {trials} trials raised an alarm at 5 % after each look");
    assert!(alarms > trials as usize / 20, "{alarms} of {trials}");
}

#[test]
fn of_many_trials_without_effect_one_in_twenty_at_most_raises_an_alarm() {
    let (looks, trials) = (Looks::doubling(6, 4), 400);
    let mut alarms = 0;
    for number in 0..trials {
        alarms += usize::from(decide(&trial(number, &looks, 1.0), &looks).iter().any(is_change));
    }
    println!("{alarms} of {trials} trials of {} rows raised an alarm", LOADS as usize * SHAPES.len());
    assert!(alarms <= trials as usize / 20, "{alarms} of {trials}");
}

/// A row with a planted change among rows that never vary, judged at several looks: how often it is found, and with how
/// many runs on average.
fn power_of_row(noise_pct: f64, planted_pct: f64, own: bool, trials: u64) -> (u64, f64) {
    let looks = Looks::doubling(6, 4);
    let (mut changes, mut runs) = (0, 0);
    for number in 0..trials {
        let stream = Stream::new(number).purpose("power");
        // The sum of twelve uniform numbers is nearly normal, with a variance of 1.
        let normal =
            |c: u64, seed: u64| (0..12).map(|i| unit(stream.number(c), 12 * seed + i)).sum::<f64>() - 6.0;
        let values = |c: u64, level: f64| -> Vec<RunValue> {
            let one = |seed| RunValue { seed, value: level * libm::exp(noise_pct / 100.0 * normal(c, seed)) };
            (0..48).map(one).collect()
        };
        let row = |base: Vec<RunValue>, variant: Vec<RunValue>, own| Table {
            base,
            variant,
            first_seed: 0,
            runs: 48,
            own,
            direction: Direction::Lower,
            limits: Limits::both(2.0),
        };
        let still = || values(2, 1.0).iter().map(|r| RunValue { value: 1.0, ..*r }).collect::<Vec<_>>();
        let mut rows = vec![row(values(0, 1_000.0), values(1, 1_000.0 * (1.0 + planted_pct / 100.0)), own)];
        rows.extend((0..49).map(|i| row(still(), still(), i < if own { 7 } else { 8 })));
        let found = &decide(&rows, &looks)[0];
        changes += u64::from(is_change(found));
        runs += looks.runs()[found.look.unwrap_or(0)];
    }
    (changes, runs as f64 / trials as f64)
}

/// The table of docs/statistics.md: power of a row among fifty, eight of them own results.
fn power_table() -> String {
    const TRIALS: u64 = 100;
    let mut text =
        String::from("| a run's spread | row | 5 % | 10 % | 20 % | 50 % |\n|---|---|---|---|---|---|\n");
    for noise in [1.0, 3.0, 10.0, 30.0] {
        for (own, which) in [(true, "own result"), (false, "any other")] {
            let cell = |planted: f64| {
                let (times, runs) = power_of_row(noise, planted, own, TRIALS);
                format!("{times} ({runs:.0})")
            };
            let cells: Vec<String> = [5.0, 10.0, 20.0, 50.0].into_iter().map(cell).collect();
            text += &format!("| {noise} % | {which} | {} |\n", cells.join(" | "));
        }
    }
    text
}

#[test]
fn the_power_of_the_page_is_what_these_looks_have() {
    let begin = "<!-- begin: power of looks, made from crates/stats/src/false_alarms.rs -->\n";
    page_has("docs/statistics.md", [begin, "<!-- end: power of looks -->"], &power_table());
}
