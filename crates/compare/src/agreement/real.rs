//! The real side of a case: its runs, or an earlier result, beside which the simulation alone is run again.

use super::result::CaseResult;
use super::rows::MetricRow;
use super::rule::spread_pct;
use super::values::{self, Pooled};
use crate::stats::describe::mean;
use schedlab_record::{Better, Record, Series};

#[derive(Clone, Copy, Debug)]
pub enum RealSide<'a> {
    Runs(&'a [Record]),
    /// A result that has its values.
    Earlier(&'a CaseResult),
}

/// The real kernel's value of a row that is a number.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct RealNumber {
    /// Mean over its runs.
    pub mean: f64,
    /// Half width of the mean's 95 % interval, per cent of it; `None` for a single run.
    pub spread_pct: Option<f64>,
}

impl RealSide<'_> {
    pub fn runs(self) -> u64 {
        match self {
            RealSide::Runs(records) => records.len() as u64,
            RealSide::Earlier(case) => case.real.as_ref().map_or(0, |side| side.runs as u64),
        }
    }
    pub(super) fn number(self, row: &MetricRow) -> Result<RealNumber, String> {
        match self {
            RealSide::Runs(records) => {
                let all = values::numbers(row.how, records)?;
                Ok(RealNumber { mean: mean(&all), spread_pct: spread_pct(&all) })
            }
            RealSide::Earlier(case) => {
                let judged = case.metrics.iter().find(|m| m.metric == row.name);
                let number =
                    judged.and_then(|m| Some(RealNumber { mean: m.real?, spread_pct: m.real_spread_pct }));
                number.ok_or_else(|| "the earlier result has no real value".to_owned())
            }
        }
    }
    /// The values of a distribution: the row's name, and its series in records.
    pub(super) fn pooled(self, row: &str, series: &str) -> Pooled {
        match self {
            RealSide::Runs(records) => values::pooled(series, records),
            RealSide::Earlier(case) => {
                let judged = case.metrics.iter().find(|m| m.metric == row);
                let kept = judged.map(|m| m.real_values.as_slice()).filter(|kept| !kept.is_empty());
                let kept = kept.ok_or("the earlier result has no values of the real distribution")?;
                let mut all = Series::new("ns", Better::Neither);
                kept.iter().for_each(|value| all.record(*value));
                Ok(all)
            }
        }
    }
}
