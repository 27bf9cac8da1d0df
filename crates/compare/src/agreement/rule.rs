//! The rule by which two values of a metric agree.
//!
//! They agree when they differ by no more than the class's tolerance, a part of the real kernel's value, or by no more
//! than the row's slack. A row is measured only if at least one side has enough of it: else agreement means nothing.
//! Distributions must also fail with three times the real and three times the simulated values: agreement of a very
//! wide distribution says nothing, while disagreement always counts. If the real kernel has a value and the simulator
//! has none, they disagree. The same rule judges the simulated side three times as large, and must reject it.

use super::real::{RealNumber, RealSide};
use super::rows::Tolerances;
use super::rows::{Class, LIST, MetricRow, ValueFrom};
use super::values::{self, Pooled, RunValues};
use crate::stats::describe::{mean, std};
use crate::stats::special::{root, t_quantile};
use schedlab_record::{Record, Series};
use serde::{Deserialize, Serialize};
use std::borrow::Cow;

/// Whether two values of a metric agree.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Agreement {
    /// Within the tolerance.
    Agree,
    /// Not within it.
    Disagree,
    /// There is nothing to judge.
    NotMeasured,
}

impl Agreement {
    pub fn words(self) -> &'static str {
        match self {
            Agreement::Agree => "agree",
            Agreement::Disagree => "disagree",
            Agreement::NotMeasured => "not measured",
        }
    }
}

#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct JudgedMetric {
    pub metric: Cow<'static, str>,
    pub class: Cow<'static, str>,
    /// Unit of both values; "%" for distributions.
    pub unit: Cow<'static, str>,
    /// Mean over the simulated runs; `None` if missing, and for distributions.
    pub simulated: Option<f64>,
    /// Mean over the real runs; for distributions the part of the values that is off.
    pub real: Option<f64>,
    /// Distance of the simulated value from the real one, per cent of it; for distributions the part of the values that
    /// is off.
    pub off_pct: Option<f64>,
    pub tolerance_pct: f64,
    /// Half width of the 95 % interval of the real kernel's mean, per cent of it.
    pub real_spread_pct: Option<f64>,
    pub verdict: Agreement,
    /// Why it is not measured, or another remark.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub why: Option<String>,
    /// The verdict on a simulated side three times as large.
    pub tripled: Agreement,
    /// Wrong schedulers that pass it ([`super::wrong`]): under them it does not disagree.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub passed_by: Vec<Cow<'static, str>>,
    /// A hundred of the real kernel's values, for measured distributions: a later judgement uses them
    /// ([`super::stored`]).
    #[serde(skip)]
    pub real_values: Vec<u64>,
}

/// Judges a row of the list by the records of both sides.
pub fn judge(row: &MetricRow, tolerance: &Tolerances, simulated: &[Record], real: &[Record]) -> JudgedMetric {
    judge_beside(row, tolerance, simulated, RealSide::Runs(real))
}

/// The same with a real side of either kind.
pub fn judge_beside(
    row: &MetricRow,
    tolerance: &Tolerances,
    simulated: &[Record],
    real: RealSide<'_>,
) -> JudgedMetric {
    let empty = JudgedMetric {
        metric: row.name.into(),
        class: row.class.row().name.into(),
        unit: row.unit.into(),
        simulated: None,
        real: None,
        off_pct: None,
        tolerance_pct: tolerance.of(row.class),
        real_spread_pct: None,
        verdict: Agreement::NotMeasured,
        why: None,
        tripled: Agreement::NotMeasured,
        passed_by: Vec::new(),
        real_values: Vec::new(),
    };
    match row.how {
        ValueFrom::Distribution(series, within) => {
            let within = tolerance.of(within) / 100.0;
            shapes(empty, row, within, values::pooled(series, simulated), real.pooled(row.name, series))
        }
        how => numbers(empty, row, values::numbers(how, simulated), real.number(row)),
    }
}

fn numbers(
    judged: JudgedMetric,
    row: &MetricRow,
    simulated: RunValues,
    real: Result<RealNumber, String>,
) -> JudgedMetric {
    let found = JudgedMetric { simulated: simulated.as_ref().ok().map(|v| mean(v)), ..judged };
    let RealNumber { mean: value, spread_pct } = match real {
        Ok(real) => real,
        Err(why) => return JudgedMetric { why: Some(why), ..found },
    };
    let found = JudgedMetric { real: Some(value), real_spread_pct: spread_pct, ..found };
    let tolerance = found.tolerance_pct;
    let Some(mine) = found.simulated else {
        let measured = value >= row.enough;
        let verdict = if measured { Agreement::Disagree } else { Agreement::NotMeasured };
        let why = simulated.err().map(|why| format!("simulated: {why}"));
        return JudgedMetric { verdict, why, tripled: verdict, ..found };
    };
    let verdict = number(row, tolerance, mine, value);
    let few = (verdict == Agreement::NotMeasured).then(|| too_little(row, mine, value));
    // A row that is not measured stays so three times as large: else a share of no events on both sides would
    // disagree.
    let tripled = few.as_ref().map_or_else(|| number(row, tolerance, thrice(row, mine), value), |_| verdict);
    let uncertain = found.real_spread_pct.filter(|s| verdict != Agreement::NotMeasured && *s > tolerance);
    JudgedMetric {
        off_pct: (value > 0.0).then(|| 100.0 * (mine - value) / value),
        verdict,
        why: few.or_else(|| uncertain.map(|s| format!("the kernel's own mean is known to {s:.0} % only"))),
        tripled,
        ..found
    }
}

/// Whether the real runs leave their own means unknown: for more than a quarter of the measured numbers they are less
/// exact than the tolerance. The simulation is not looked at, so more runs favour no verdict.
pub fn unsure(tolerance: &Tolerances, real: &[Record]) -> bool {
    let number = |row: &&MetricRow| !matches!(row.how, ValueFrom::Distribution(..));
    let measured: Vec<bool> = LIST
        .iter()
        .filter(number)
        .filter_map(|row| Some((row, values::numbers(row.how, real).ok()?)))
        .filter(|(row, values)| mean(values) >= row.enough)
        .map(|(row, values)| spread_pct(&values).is_none_or(|spread| spread > tolerance.of(row.class)))
        .collect();
    4 * measured.iter().filter(|wide| **wide).count() > measured.len()
}

/// The value of a simulator that is off by a factor of three. A share can't be: it moves by half of the whole, to the
/// other side of 50 %.
fn thrice(row: &MetricRow, simulated: f64) -> f64 {
    match row.class {
        Class::Placement => (simulated + 50.0) % 100.0,
        _ => 3.0 * simulated,
    }
}

/// The rule for two numbers; neither is negative.
fn number(row: &MetricRow, tolerance_pct: f64, simulated: f64, real: f64) -> Agreement {
    let allowed = (tolerance_pct / 100.0 * real).max(row.slack);
    match (simulated - real).abs() {
        _ if simulated.max(real) < row.enough => Agreement::NotMeasured,
        off if off <= allowed => Agreement::Agree,
        _ => Agreement::Disagree,
    }
}

fn too_little(row: &MetricRow, simulated: f64, real: f64) -> String {
    match row.unit {
        "" => format!("too few ({simulated:.0} against {real:.0})"),
        "ns" => format!("too short ({:.2} us against {:.2} us)", simulated / 1e3, real / 1e3),
        _ => format!("too little ({simulated:.1} % against {real:.1} %)"),
    }
}

/// Half the width of the 95 % interval of the mean, per cent of it; `None` for a single run.
pub(super) fn spread_pct(values: &[f64]) -> Option<f64> {
    let n = values.len() as f64;
    let half = t_quantile(0.975, n - 1.0) * std(values)? / root(n);
    let mean = mean(values);
    (mean > 0.0).then(|| 100.0 * half / mean)
}

fn shapes(
    judged: JudgedMetric,
    row: &MetricRow,
    within: f64,
    simulated: Pooled,
    real: Pooled,
) -> JudgedMetric {
    let real = match real {
        Ok(series) => series,
        Err(why) => return JudgedMetric { why: Some(why), ..judged },
    };
    let mine = simulated.unwrap_or_else(|_| Series::new(real.unit(), real.better()));
    let (few, many) = (mine.count().min(real.count()), mine.count().max(real.count()));
    if (many as f64) < row.enough {
        let why = format!("too few values ({} against {})", mine.count(), real.count());
        return JudgedMetric { why: Some(why), ..judged };
    }
    if few == 0 {
        let why = format!("{} values against {}", mine.count(), real.count());
        let verdict = Agreement::Disagree;
        return JudgedMetric { verdict, tripled: verdict, off_pct: Some(100.0), why: Some(why), ..judged };
    }
    let off = |series: &Series| 100.0 * values::apart(series, &real, within, row.slack);
    let tolerance = judged.tolerance_pct;
    let within = |pct: f64| if pct <= tolerance { Agreement::Agree } else { Agreement::Disagree };
    let (off_pct, tripled) = (off(&mine), within(off(&values::tripled(&mine))));
    let real_values = values::hundred(&real);
    let found = JudgedMetric { off_pct: Some(off_pct), tripled, real_values, ..judged };
    // Agreement does not count if anything would agree. A disagreement stays one.
    let takes_thrice =
        tripled == Agreement::Agree || within(off(&values::tripled(&real))) == Agreement::Agree;
    if within(off_pct) == Agreement::Agree && takes_thrice {
        let why = "so wide that three times as long would pass".to_owned();
        return JudgedMetric { why: Some(why), tripled: Agreement::NotMeasured, ..found };
    }
    JudgedMetric { verdict: within(off_pct), ..found }
}

#[cfg(test)]
#[path = "rule_tests.rs"]
mod tests;
