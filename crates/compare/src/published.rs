//! Holds our changes against published ones: what a posted series of patches did on real machines.
//!
//! A published change has a sign if it is beyond its own deviation: the root of the summed squares of the baseline's
//! and the variant's standard deviations, or [`UNSTATED_PCT`] where none was published. Ours is the geometric mean
//! over the seeds of the variant's value by the baseline's, with its 95 % interval (Student's t).

use crate::comparison::{Cell, Comparison};
use crate::reports::{CHANGE, mean_and_interval, near};
use schedlab_base::Warning;
use schedlab_record::{PostedSeries, PublishedChange, PublishedChanges};
use serde::Serialize;
use std::collections::BTreeMap;

/// The deviation of a published change whose authors state none, percent.
pub const UNSTATED_PCT: f64 = 2.0;
/// Where nothing changed, ours may change by so much, percent, or by the published deviation if that is larger.
pub const NIL_PCT: f64 = 2.0;

/// What carries the gain of a series: name and meaning.
pub const MECHANISMS: &[(&str, &str)] = &[
    ("data", "data of programs and channels that another CPU has, and that travels"),
    ("gathering", "threads of a process kept in one cache"),
    ("line", "a cache line of the kernel that many CPUs want"),
    ("lock", "run queue locks and those who wait for them"),
    ("newidle", "passes of CPUs that go idle, what they cost and find"),
    ("placement", "when a task is placed on a queue again, and with what lag"),
    ("preemption", "whether a woken task preempts"),
    ("search", "how far a wakeup looks for an idle CPU"),
    ("wake list", "who queues the woken task: the waker, or its CPU"),
];

/// How our change of a row compares with the published one.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum ChangeVerdict {
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
    /// The runs can't tell: `why` has the reason.
    NotKnown,
    /// The load was not run: it is not part of what was asked.
    NotRun,
    /// The simulated machine has no such load.
    NotModelled,
}

impl ChangeVerdict {
    pub fn words(self) -> &'static str {
        match self {
            ChangeVerdict::Size => "sign and size",
            ChangeVerdict::Sign => "sign",
            ChangeVerdict::Miss => "miss",
            ChangeVerdict::Nil => "nil",
            ChangeVerdict::FalseChange => "false change",
            ChangeVerdict::NotKnown => "not known",
            ChangeVerdict::NotRun => "not run",
            ChangeVerdict::NotModelled => "not modelled",
        }
    }
}

#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct JudgedChange {
    /// The machine it ran on; "" if the load is not modelled.
    pub machine: String,
    /// Whether this is another reading of an unnamed machine than the one that counts.
    pub other_reading: bool,
    pub load: String,
    pub metric: String,
    /// The published change of the metric's value, percent.
    pub published_pct: f64,
    /// Its deviation, percent.
    pub deviation_pct: f64,
    /// Whether the deviation was published.
    pub deviation_is_stated: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ours_pct: Option<f64>,
    /// The 95 % interval of ours; `None` for a single run.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ci95_pct: Option<[f64; 2]>,
    pub verdict: ChangeVerdict,
    /// Why the load is not modelled, or ours is not known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub why: Option<String>,
}

/// A series, held against its published changes.
#[derive(Clone, Debug, Serialize)]
pub struct JudgedSeries {
    pub name: String,
    pub title: String,
    pub posted: String,
    /// What carries its gain.
    pub mechanisms: Vec<String>,
    pub changes: Vec<JudgedChange>,
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
    /// Rows that were run, of which the runs can't tell.
    pub not_known: usize,
    pub not_run: usize,
    pub not_modelled: usize,
}

impl Score {
    /// The score of rows; other readings of a machine don't count.
    pub fn of<'r>(rows: impl IntoIterator<Item = &'r JudgedChange>) -> Score {
        let mut score = Score::default();
        for row in rows.into_iter().filter(|row| !row.other_reading) {
            match row.verdict {
                ChangeVerdict::Size | ChangeVerdict::Sign | ChangeVerdict::Miss => score.changed += 1,
                ChangeVerdict::Nil | ChangeVerdict::FalseChange => score.nil += 1,
                ChangeVerdict::NotKnown => score.not_known += 1,
                ChangeVerdict::NotRun => score.not_run += 1,
                ChangeVerdict::NotModelled => score.not_modelled += 1,
            }
            score.size += usize::from(row.verdict == ChangeVerdict::Size);
            score.sign += usize::from(matches!(row.verdict, ChangeVerdict::Size | ChangeVerdict::Sign));
            score.false_changes += usize::from(row.verdict == ChangeVerdict::FalseChange);
        }
        score
    }
}

/// The score of each mechanism over the series that it carries.
pub fn by_mechanism(all: &[JudgedSeries]) -> BTreeMap<&str, Score> {
    let names = all.iter().flat_map(|s| &s.mechanisms).map(String::as_str);
    let of = |name: &str| {
        let with = all.iter().filter(|s| s.mechanisms.iter().any(|m| m == name));
        Score::of(with.flat_map(|s| &s.changes))
    };
    names.map(|name| (name, of(name))).collect()
}

/// Judges a series by the runs of its experiment; `None`: it had none. A load without runs was not asked for.
pub fn judge(
    (name, series): (&str, &PostedSeries),
    published: &[PublishedChanges],
    (baseline, runs): (&str, Option<&Comparison>),
) -> JudgedSeries {
    let mut changes = Vec::new();
    for table in published {
        for change in &table.changes {
            if let Some(why) = &table.not_modelled {
                changes.push(JudgedChange { why: Some(why.clone()), ..unjudged(table, change, "") });
                continue;
            }
            for (at, machine) in table.machines.iter().enumerate() {
                let row = JudgedChange { other_reading: at > 0, ..unjudged(table, change, machine) };
                changes.push(match runs {
                    Some(runs) => judged(row, table, (baseline, runs)),
                    None => row,
                });
            }
        }
    }
    // Other warnings concern the comparison's rows, which are not shown.
    let all = runs.into_iter().flat_map(|runs| &runs.warnings);
    let of_runs = all.map(|w| w.warning.clone()).filter(|w| w.code.starts_with("run."));
    JudgedSeries {
        name: name.to_owned(),
        title: series.title.clone(),
        posted: series.posted.clone(),
        mechanisms: series.mechanisms.clone(),
        changes,
        warnings: of_runs.collect(),
    }
}

fn unjudged(table: &PublishedChanges, change: &PublishedChange, machine: &str) -> JudgedChange {
    let deviation = change.deviations_pct.map(|[base, variant]| base.hypot(variant));
    JudgedChange {
        machine: machine.to_owned(),
        other_reading: false,
        load: change.load.clone(),
        metric: table.metric.clone(),
        published_pct: change.change_pct,
        deviation_pct: deviation.unwrap_or(UNSTATED_PCT),
        deviation_is_stated: deviation.is_some(),
        ours_pct: None,
        ci95_pct: None,
        verdict: if machine.is_empty() { ChangeVerdict::NotModelled } else { ChangeVerdict::NotRun },
        why: None,
    }
}

fn judged(
    row: JudgedChange,
    table: &PublishedChanges,
    (baseline, runs): (&str, &Comparison),
) -> JudgedChange {
    let of = |variant: &str| {
        let is_it = |c: &&Cell| c.variant == variant && c.load == row.load && c.machine == row.machine;
        runs.cells.iter().filter(is_it).find_map(|c| c.metrics.get(&row.metric))
    };
    let (Some(base), Some(variant)) = (of(baseline), of(&table.variant)) else { return row };
    let not_known = |row: JudgedChange, why: &str| JudgedChange {
        verdict: ChangeVerdict::NotKnown,
        why: Some(why.to_owned()),
        ..row
    };
    let measured = base.measured().zip(variant.measured());
    let Some((base, variant)) = measured.filter(|(b, v)| b.missing_runs + v.missing_runs == 0) else {
        return not_known(row, "not measured in each run");
    };
    if base.values.iter().chain(&variant.values).any(|value| *value <= 0.0) {
        return not_known(row, "a run has 0");
    }
    let logs: Vec<f64> = base.values.iter().zip(&variant.values).map(|(b, v)| (v / b).ln()).collect();
    let (log, ci) = mean_and_interval(&logs);
    let row = JudgedChange { ours_pct: Some(in_pct(log)), ci95_pct: ci.map(|ends| ends.map(in_pct)), ..row };
    match ci {
        Some(ci) => JudgedChange { verdict: verdict((row.published_pct, row.deviation_pct), log, ci), ..row },
        None => not_known(row, "a single run has no interval"),
    }
}

/// The verdict on a change of ours, as a logarithm with its interval.
fn verdict((published_pct, deviation_pct): (f64, f64), log: f64, [low, high]: [f64; 2]) -> ChangeVerdict {
    let is_known = low > 0.0 || high < 0.0;
    if published_pct.abs() <= deviation_pct {
        let moves = is_known && in_pct(log).abs() > deviation_pct.max(NIL_PCT);
        return if moves { ChangeVerdict::FalseChange } else { ChangeVerdict::Nil };
    }
    let moves = is_known && in_pct(log).abs() > deviation_pct;
    let published = (published_pct / 100.0).ln_1p();
    match moves && log * published > 0.0 {
        false => ChangeVerdict::Miss,
        true if near(log, [published; 2], CHANGE) => ChangeVerdict::Size,
        true => ChangeVerdict::Sign,
    }
}

fn in_pct(log: f64) -> f64 {
    log.exp_m1() * 100.0
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::switched;
    use crate::{Question, compare};
    use schedlab_base::Backend;

    fn of(published_pct: f64, deviation_pct: f64, ours_pct: [f64; 3]) -> ChangeVerdict {
        let [low, log, high] = ours_pct.map(|pct| (pct / 100.0).ln_1p());
        verdict((published_pct, deviation_pct), log, [low, high])
    }

    #[test]
    fn the_page_has_the_table_of_mechanisms() {
        let page = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/published.md");
        let rows = MECHANISMS.iter().map(|(name, about)| format!("| `{name}` | {about} |\n"));
        let table = format!("| mechanism | what it is |\n| --- | --- |\n{}\n", rows.collect::<String>());
        assert!(std::fs::read_to_string(page).unwrap().contains(&table), "docs/published.md lacks\n{table}");
    }

    #[test]
    fn a_change_needs_its_sign_and_a_size_between_half_and_double() {
        assert_eq!(of(20.0, 2.0, [9.0, 10.0, 11.0]), ChangeVerdict::Size);
        assert_eq!(of(20.0, 2.0, [8.0, 9.0, 10.0]), ChangeVerdict::Sign);
        assert_eq!(of(20.0, 2.0, [40.0, 45.0, 50.0]), ChangeVerdict::Sign);
        assert_eq!(of(20.0, 2.0, [-1.0, 10.0, 21.0]), ChangeVerdict::Miss, "it may be none");
        assert_eq!(of(20.0, 2.0, [0.5, 1.0, 1.5]), ChangeVerdict::Miss, "within the deviation");
        assert_eq!(of(-20.0, 2.0, [9.0, 10.0, 11.0]), ChangeVerdict::Miss);
        assert_eq!(of(-20.0, 2.0, [-19.0, -18.0, -17.0]), ChangeVerdict::Size);
    }

    #[test]
    fn where_nothing_changed_nothing_may_change() {
        assert_eq!(of(0.5, 1.0, [-1.0, 0.3, 1.6]), ChangeVerdict::Nil);
        assert_eq!(of(0.5, 0.6, [1.0, 1.5, 1.9]), ChangeVerdict::Nil, "below what counts");
        assert_eq!(of(0.5, 0.6, [2.0, 3.0, 4.0]), ChangeVerdict::FalseChange);
        assert_eq!(of(0.5, 5.0, [2.0, 3.0, 4.0]), ChangeVerdict::Nil, "the published deviation is larger");
        assert_eq!(of(0.5, 5.0, [-9.0, -8.0, -7.0]), ChangeVerdict::FalseChange);
    }

    fn table(machines: &[&str]) -> PublishedChanges {
        PublishedChanges {
            variant: "on".into(),
            metric: "work".into(),
            machines: machines.iter().map(|&name| name.to_owned()).collect(),
            source: String::new(),
            not_modelled: None,
            changes: vec![PublishedChange {
                load: "default".into(),
                change_pct: 9.0,
                deviations_pct: Some([3.0, 4.0]),
            }],
        }
    }

    #[test]
    fn a_series_is_judged_by_the_runs_of_each_reading() {
        let on = |variant, factor: u64| {
            switched(
                Backend::Code,
                variant,
                "work",
                [1_000 * factor, 1_010 * factor, 990 * factor, 1_005 * factor],
            )
        };
        let records: Vec<_> = on("off", 1).chain(on("on", 3)).collect();
        let question =
            Question { metrics: vec!["work".into()], baseline: Some("off".into()), ..Question::default() };
        let runs = compare(&records, &question, &[]).unwrap();
        let series = PostedSeries {
            title: "t".into(),
            posted: "p".into(),
            mechanisms: vec!["line".into()],
            quick: Vec::new(),
        };
        let missing = PublishedChanges { not_modelled: Some("no disk".into()), ..table(&[]) };
        let published = [table(&["tiny", "huge"]), missing];
        let judged = judge(("s", &series), &published, ("off", Some(&runs)));
        let verdicts: Vec<ChangeVerdict> = judged.changes.iter().map(|row| row.verdict).collect();
        assert_eq!(verdicts, [ChangeVerdict::Sign, ChangeVerdict::NotRun, ChangeVerdict::NotModelled]);
        let ours = judged.changes[0].ours_pct.unwrap();
        assert!((ours - 200.0).abs() < 1e-6, "{ours}: thrice as much, seed by seed");
        assert_eq!(judged.changes[1].machine, "huge");
        assert!(judged.changes[1].other_reading);
        let score = by_mechanism(std::slice::from_ref(&judged))["line"];
        assert_eq!((score.changed, score.sign, score.size, score.not_run), (1, 1, 0, 0));
        let single = compare(&[records[0].clone(), records[4].clone()], &question, &[]).unwrap();
        let judged = judge(("s", &series), &published, ("off", Some(&single)));
        let first = &judged.changes[0];
        assert_eq!((first.verdict, first.ci95_pct), (ChangeVerdict::NotKnown, None), "{first:?}");
        let zero: Vec<_> = on("off", 0).chain(on("on", 3)).collect();
        let zero = compare(&zero, &question, &[]).unwrap();
        let first = &judge(("s", &series), &published, ("off", Some(&zero))).changes[0];
        assert_eq!((first.verdict, first.ours_pct), (ChangeVerdict::NotKnown, None), "{first:?}");
        let none = judge(("s", &series), &published, ("off", None));
        assert_eq!(none.changes[0].verdict, ChangeVerdict::NotRun);
        let strange = [PublishedChanges { metric: "nothing".into(), ..table(&["tiny"]) }];
        let judged = judge(("s", &series), &strange, ("off", Some(&runs)));
        assert_eq!(judged.changes[0].verdict, ChangeVerdict::NotRun, "a metric that was not asked for");
    }

    #[test]
    fn other_readings_and_loads_that_are_not_there_are_counted_apart() {
        let table = table(&["a"]);
        let row = unjudged(&table, &table.changes[0], "a");
        assert_eq!((row.deviation_pct, row.verdict), (5.0, ChangeVerdict::NotRun));
        let with = |verdict| JudgedChange { verdict, ..row.clone() };
        let rows = [
            with(ChangeVerdict::Size),
            with(ChangeVerdict::Sign),
            with(ChangeVerdict::Miss),
            JudgedChange { other_reading: true, ..with(ChangeVerdict::Size) },
            with(ChangeVerdict::FalseChange),
            with(ChangeVerdict::NotKnown),
            with(ChangeVerdict::NotModelled),
            row.clone(),
        ];
        let wanted = Score {
            changed: 3,
            sign: 2,
            size: 1,
            nil: 1,
            false_changes: 1,
            not_known: 1,
            not_run: 1,
            not_modelled: 1,
        };
        assert_eq!(Score::of(&rows), wanted);
    }
}
