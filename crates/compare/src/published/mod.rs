//! Holds our figures against published ones: what a posted series of patches did on real machines.
//!
//! A published change has a sign if it is beyond its own deviation: the root of the summed squares of the baseline's
//! and the variant's standard deviations, or [`UNSTATED_PCT`] where none was published. Ours is the geometric mean
//! over the seeds of the variant's value by the baseline's, with its 95 % interval (Student's t). A published value is
//! held against the mean of ours.

mod found;
mod mechanisms;

pub use found::{FoundSeries, LoadValues, LoadsMadeOf, MadeOf, fault, read, write};
pub use mechanisms::{MECHANISMS, doubts};

use crate::reports::{CHANGE, mean_and_interval, near};
use schedlab_base::Warning;
use schedlab_record::{Metric, PostedFigure, PostedFigures, PostedSeries};
use serde::Serialize;
use std::collections::BTreeMap;

/// The deviation of a published change whose authors state none, percent.
pub const UNSTATED_PCT: f64 = 2.0;
/// Where nothing changed, ours may change by so much, percent, or by the published deviation if that is larger.
pub const NIL_PCT: f64 = 2.0;
/// A value is near a published one if it is off by at most this factor.
pub const NEAR: f64 = 2.0;

/// How our figure of a row compares with the published one.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum RowVerdict {
    /// A change was published, and ours has its sign and its size: the logarithm is between half and double.
    Size,
    /// Ours has the sign, and another size.
    Sign,
    /// Ours has the other sign, or none.
    Miss,
    /// Neither changes.
    Nil,
    /// Ours changes, and the published one does not.
    FalseChange,
    /// A value was published, and ours is between half and double.
    Near,
    /// Ours is beyond.
    Far,
    /// The runs can't tell: `why` has the reason.
    NotKnown,
    /// The load was not run: it is not part of what was asked.
    NotRun,
    /// The simulated machine has no such load.
    NotModelled,
}

impl RowVerdict {
    pub fn words(self) -> &'static str {
        match self {
            RowVerdict::Size => "sign and size",
            RowVerdict::Sign => "sign",
            RowVerdict::Miss => "miss",
            RowVerdict::Nil => "nil",
            RowVerdict::FalseChange => "false change",
            RowVerdict::Near => "near",
            RowVerdict::Far => "far",
            RowVerdict::NotKnown => "not known",
            RowVerdict::NotRun => "not run",
            RowVerdict::NotModelled => "not modelled",
        }
    }
}

/// What was published of a row.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(untagged)]
pub enum Claimed {
    Change {
        /// The change of the metric's value, percent.
        published_pct: f64,
        /// Its deviation, percent.
        deviation_pct: f64,
        /// Whether the deviation was published.
        deviation_is_stated: bool,
    },
    Value {
        /// The variant whose value it is.
        variant: String,
        published: f64,
        /// Of the value and of ours.
        unit: String,
    },
}

#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct JudgedRow {
    /// The machine it ran on; "" if the load is not modelled.
    pub machine: String,
    /// Whether this is another reading of an unnamed machine than the one that counts.
    pub other_reading: bool,
    pub load: String,
    pub metric: String,
    #[serde(flatten)]
    pub claimed: Claimed,
    /// Our change in percent, or our value.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ours: Option<f64>,
    /// The 95 % interval of ours; `None` for a single run.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ci95: Option<[f64; 2]>,
    pub verdict: RowVerdict,
    /// Why the load is not modelled, or ours is not known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub why: Option<String>,
}

/// A series, held against its published figures.
#[derive(Clone, Debug, Serialize)]
pub struct JudgedSeries {
    pub name: String,
    pub title: String,
    pub posted: String,
    /// What carries its gain.
    pub mechanisms: Vec<String>,
    pub rows: Vec<JudgedRow>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub warnings: Vec<Warning>,
}

/// How many rows have which verdict.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug, Serialize)]
pub struct Score {
    /// Rows with a published change that were run.
    pub changed: usize,
    /// Of these: with the right sign, and with the right size, too.
    pub sign: usize,
    pub size: usize,
    /// Rows without a published change that were run.
    pub nil: usize,
    /// Of these: those that change here.
    pub false_changes: usize,
    /// Rows with a published value that were run.
    pub values: usize,
    /// Of these: those that ours is near.
    pub near: usize,
    /// Rows that were run, of which the runs can't tell.
    pub not_known: usize,
    pub not_run: usize,
    pub not_modelled: usize,
}

impl Score {
    /// The score of rows; other readings of a machine don't count.
    pub fn of<'r>(rows: impl IntoIterator<Item = &'r JudgedRow>) -> Score {
        let mut score = Score::default();
        for row in rows.into_iter().filter(|row| !row.other_reading) {
            match row.verdict {
                RowVerdict::Size | RowVerdict::Sign | RowVerdict::Miss => score.changed += 1,
                RowVerdict::Nil | RowVerdict::FalseChange => score.nil += 1,
                RowVerdict::Near | RowVerdict::Far => score.values += 1,
                RowVerdict::NotKnown => score.not_known += 1,
                RowVerdict::NotRun => score.not_run += 1,
                RowVerdict::NotModelled => score.not_modelled += 1,
            }
            score.size += usize::from(row.verdict == RowVerdict::Size);
            score.sign += usize::from(matches!(row.verdict, RowVerdict::Size | RowVerdict::Sign));
            score.false_changes += usize::from(row.verdict == RowVerdict::FalseChange);
            score.near += usize::from(row.verdict == RowVerdict::Near);
        }
        score
    }
}

/// The score of each mechanism over the series that it carries.
pub fn by_mechanism(all: &[JudgedSeries]) -> BTreeMap<&str, Score> {
    let names = all.iter().flat_map(|s| &s.mechanisms).map(String::as_str);
    let of = |name: &str| {
        let with = all.iter().filter(|s| s.mechanisms.iter().any(|m| m == name));
        Score::of(with.flat_map(|s| &s.rows))
    };
    names.map(|name| (name, of(name))).collect()
}

/// Judges a series by values of its loads. A load without values was not run.
pub fn judge(
    (name, series): (&str, &PostedSeries),
    posted: &[PostedFigures],
    baseline: &str,
    found: &[LoadValues],
) -> JudgedSeries {
    let mut rows = Vec::new();
    for table in posted {
        for (load, figure) in &table.figures {
            let row = |machine| unjudged(table, (load, figure), machine);
            if let Some(why) = &table.not_modelled {
                rows.push(JudgedRow { why: Some(why.clone()), ..row("") });
                continue;
            }
            for (at, machine) in table.machines.iter().enumerate() {
                let row = JudgedRow { other_reading: at > 0, ..row(machine) };
                let values = found.iter().find(|v| v.is_of(machine, load, &table.metric));
                rows.push(match values {
                    Some(values) => judged(row, [baseline, &table.variant], values),
                    None => row,
                });
            }
        }
    }
    JudgedSeries {
        name: name.to_owned(),
        title: series.title.clone(),
        posted: series.posted.clone(),
        mechanisms: series.mechanisms.clone(),
        rows,
        warnings: Vec::new(),
    }
}

fn unjudged(table: &PostedFigures, (load, figure): (&str, &PostedFigure), machine: &str) -> JudgedRow {
    let claimed = match *figure {
        PostedFigure::Change { pct, deviations_pct } => Claimed::Change {
            published_pct: pct,
            deviation_pct: deviations_pct.map_or(UNSTATED_PCT, |[base, variant]| base.hypot(variant)),
            deviation_is_stated: deviations_pct.is_some(),
        },
        PostedFigure::Value(published) => Claimed::Value {
            variant: table.variant.clone(),
            published,
            unit: Metric::find(&table.metric).map(|metric| metric.unit).unwrap_or_default(),
        },
    };
    JudgedRow {
        machine: machine.to_owned(),
        other_reading: false,
        load: load.to_owned(),
        metric: table.metric.clone(),
        claimed,
        ours: None,
        ci95: None,
        verdict: if machine.is_empty() { RowVerdict::NotModelled } else { RowVerdict::NotRun },
        why: None,
    }
}

fn judged(row: JudgedRow, [baseline, variant]: [&str; 2], found: &LoadValues) -> JudgedRow {
    let not_known = |row: JudgedRow, why: &str| JudgedRow {
        verdict: RowVerdict::NotKnown,
        why: Some(why.to_owned()),
        ..row
    };
    let of = |variant: &str| found.values.get(variant).map(Vec::as_slice);
    let (Some(base), Some(values)) = (of(baseline), of(variant)) else { return row };
    // The baseline's value alone needs no variant.
    let is_change = matches!(row.claimed, Claimed::Change { .. });
    if values.is_empty() || is_change && base.len() != values.len() {
        return not_known(row, "not measured in each run");
    }
    if is_change && base.iter().chain(values).any(|value| *value <= 0.0) {
        return not_known(row, "a run has 0");
    }
    let logs = || base.iter().zip(values).map(|(b, v)| (v / b).ln()).collect::<Vec<f64>>();
    let (mean, ci) = if is_change { mean_and_interval(&logs()) } else { mean_and_interval(values) };
    let shown = |ours: f64| if is_change { in_pct(ours) } else { ours };
    let row = JudgedRow { ours: Some(shown(mean)), ci95: ci.map(|ends| ends.map(shown)), ..row };
    let Some(ci) = ci else { return not_known(row, "a single run has no interval") };
    let verdict = match row.claimed {
        Claimed::Change { published_pct, deviation_pct, .. } => {
            verdict((published_pct, deviation_pct), mean, ci)
        }
        Claimed::Value { published, .. } if near(mean, [published; 2], NEAR) => RowVerdict::Near,
        Claimed::Value { .. } => RowVerdict::Far,
    };
    let why = (verdict == RowVerdict::NotKnown).then(|| "the seeds differ too much".to_owned());
    JudgedRow { verdict, why, ..row }
}

/// The verdict on a change of ours, as a logarithm with its interval.
fn verdict((published_pct, deviation_pct): (f64, f64), log: f64, [low, high]: [f64; 2]) -> RowVerdict {
    let is_known = low > 0.0 || high < 0.0;
    if published_pct.abs() <= deviation_pct {
        let most = deviation_pct.max(NIL_PCT);
        return match is_known && in_pct(log).abs() > most {
            true => RowVerdict::FalseChange,
            // It may be a change as well as none.
            false if in_pct(low) < -most && in_pct(high) > most => RowVerdict::NotKnown,
            false => RowVerdict::Nil,
        };
    }
    let moves = is_known && in_pct(log).abs() > deviation_pct;
    let published = (published_pct / 100.0).ln_1p();
    match moves && log * published > 0.0 {
        false => RowVerdict::Miss,
        true if near(log, [published; 2], CHANGE) => RowVerdict::Size,
        true => RowVerdict::Sign,
    }
}

fn in_pct(log: f64) -> f64 {
    log.exp_m1() * 100.0
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(published_pct: f64, deviation_pct: f64, ours_pct: [f64; 3]) -> RowVerdict {
        let [low, log, high] = ours_pct.map(|pct| (pct / 100.0).ln_1p());
        verdict((published_pct, deviation_pct), log, [low, high])
    }

    #[test]
    fn a_change_needs_its_sign_and_a_size_between_half_and_double() {
        assert_eq!(of(20.0, 2.0, [9.0, 10.0, 11.0]), RowVerdict::Size);
        assert_eq!(of(20.0, 2.0, [8.0, 9.0, 10.0]), RowVerdict::Sign);
        assert_eq!(of(20.0, 2.0, [40.0, 45.0, 50.0]), RowVerdict::Sign);
        assert_eq!(of(20.0, 2.0, [-1.0, 10.0, 21.0]), RowVerdict::Miss, "it may be none");
        assert_eq!(of(20.0, 2.0, [0.5, 1.0, 1.5]), RowVerdict::Miss, "within the deviation");
        assert_eq!(of(-20.0, 2.0, [9.0, 10.0, 11.0]), RowVerdict::Miss);
        assert_eq!(of(-20.0, 2.0, [-19.0, -18.0, -17.0]), RowVerdict::Size);
    }

    #[test]
    fn where_nothing_changed_nothing_may_change() {
        assert_eq!(of(0.5, 1.0, [-1.0, 0.3, 1.6]), RowVerdict::Nil);
        assert_eq!(of(0.5, 0.6, [1.0, 1.5, 1.9]), RowVerdict::Nil, "below what counts");
        assert_eq!(of(0.5, 0.6, [2.0, 3.0, 4.0]), RowVerdict::FalseChange);
        assert_eq!(of(0.5, 5.0, [2.0, 3.0, 4.0]), RowVerdict::Nil, "the published deviation is larger");
        assert_eq!(of(0.5, 5.0, [-9.0, -8.0, -7.0]), RowVerdict::FalseChange);
        assert_eq!(of(0.5, 1.0, [-30.0, 1.0, 40.0]), RowVerdict::NotKnown, "noise");
    }

    fn table(machines: &[&str]) -> PostedFigures {
        let change = PostedFigure::Change { pct: 9.0, deviations_pct: Some([3.0, 4.0]) };
        PostedFigures {
            variant: "on".into(),
            metric: "work".into(),
            machines: machines.iter().map(|&name| name.to_owned()).collect(),
            source: String::new(),
            not_modelled: None,
            figures: vec![("default".into(), change)],
        }
    }

    fn series() -> PostedSeries {
        PostedSeries {
            title: "t".into(),
            posted: "p".into(),
            mechanisms: vec!["line".into()],
            quick: Vec::new(),
        }
    }

    fn found(off: &[f64], on: &[f64]) -> [LoadValues; 1] {
        let values = [("off".to_owned(), off.to_vec()), ("on".to_owned(), on.to_vec())].into();
        let made_of = MadeOf::default();
        [LoadValues {
            machine: "tiny".into(),
            load: "default".into(),
            metric: "work".into(),
            made_of,
            values,
        }]
    }

    fn first(posted: &[PostedFigures], found: &[LoadValues]) -> JudgedRow {
        judge(("s", &series()), posted, "off", found).rows.remove(0)
    }

    const OFF: [f64; 4] = [1_000.0, 1_010.0, 990.0, 1_005.0];

    #[test]
    fn a_series_is_judged_by_the_runs_of_each_reading() {
        let missing = PostedFigures { not_modelled: Some("no disk".into()), ..table(&[]) };
        let posted = [table(&["tiny", "huge"]), missing];
        let thrice = found(&OFF, &OFF.map(|n| 3.0 * n));
        let judged = judge(("s", &series()), &posted, "off", &thrice);
        let verdicts: Vec<RowVerdict> = judged.rows.iter().map(|row| row.verdict).collect();
        assert_eq!(verdicts, [RowVerdict::Sign, RowVerdict::NotRun, RowVerdict::NotModelled]);
        let ours = judged.rows[0].ours.unwrap();
        assert!((ours - 200.0).abs() < 1e-6, "{ours}: thrice as much, seed by seed");
        assert_eq!(judged.rows[1].machine, "huge");
        assert!(judged.rows[1].other_reading);
        let score = by_mechanism(std::slice::from_ref(&judged))["line"];
        assert_eq!((score.changed, score.sign, score.size, score.not_run), (1, 1, 0, 0));
        let single = first(&posted, &found(&[1_000.0], &[3_000.0]));
        assert_eq!((single.verdict, single.ci95), (RowVerdict::NotKnown, None), "{single:?}");
        for (off, on) in [(&[0.0; 4], &OFF), (&OFF, &[0.0; 4])] {
            let row = first(&posted, &found(off, on));
            assert_eq!((row.verdict, row.ours), (RowVerdict::NotKnown, None), "{row:?}");
        }
        let unmeasured = first(&posted, &found(&OFF, &[]));
        assert_eq!(unmeasured.why.as_deref(), Some("not measured in each run"));
        assert_eq!(first(&posted, &[]).verdict, RowVerdict::NotRun);
        let strange = [PostedFigures { metric: "nothing".into(), ..table(&["tiny"]) }];
        assert_eq!(first(&strange, &thrice).verdict, RowVerdict::NotRun, "a metric that was not asked for");
    }

    #[test]
    fn a_value_is_near_within_a_factor_of_two() {
        let of = |value, variant: &str| {
            let figures = vec![("default".to_owned(), PostedFigure::Value(value))];
            let posted = [PostedFigures { variant: variant.into(), figures, ..table(&["tiny"]) }];
            first(&posted, &found(&OFF, &[500.0; 4]))
        };
        assert_eq!(of(1_900.0, "off").verdict, RowVerdict::Near);
        assert_eq!(of(2_100.0, "off").verdict, RowVerdict::Far);
        assert_eq!((of(400.0, "on").verdict, of(400.0, "on").ours), (RowVerdict::Near, Some(500.0)));
        let score = Score::of(&[of(1_900.0, "off"), of(2_100.0, "off")]);
        assert_eq!((score.values, score.near, score.changed), (2, 1, 0));
        let zero = [PostedFigures {
            figures: vec![("default".to_owned(), PostedFigure::Value(5.0))],
            ..table(&["tiny"])
        }];
        assert_eq!(first(&zero, &found(&OFF, &[0.0; 4])).verdict, RowVerdict::Far, "0 is a value");
    }

    #[test]
    fn other_readings_and_loads_that_are_not_there_are_counted_apart() {
        let row = first(&[table(&["a"])], &[]);
        let Claimed::Change { deviation_pct, .. } = row.claimed else { panic!("{row:?}") };
        assert_eq!((deviation_pct, row.verdict), (5.0, RowVerdict::NotRun));
        let with = |verdict| JudgedRow { verdict, ..row.clone() };
        let rows = [
            with(RowVerdict::Size),
            with(RowVerdict::Sign),
            with(RowVerdict::Miss),
            JudgedRow { other_reading: true, ..with(RowVerdict::Size) },
            with(RowVerdict::FalseChange),
            with(RowVerdict::Far),
            with(RowVerdict::NotKnown),
            with(RowVerdict::NotModelled),
            row.clone(),
        ];
        let wanted = Score {
            changed: 3,
            sign: 2,
            size: 1,
            nil: 1,
            false_changes: 1,
            values: 1,
            near: 0,
            not_known: 1,
            not_run: 1,
            not_modelled: 1,
        };
        assert_eq!(Score::of(&rows), wanted);
    }
}
