//! Judges public reports by runs of their experiments: a report is a set of claims that runs can refute.
//!
//! A claim is a quotient: of two metrics, seed by seed, or of a metric and a number. It has the reported direction, and
//! often a size. Times are ns.

use crate::Comparison;
use crate::comparison::Cell;
use crate::stats::special::t_quantile;
use schedlab_base::{Error, Result, Warning};
use serde::{Deserialize, Serialize};

/// A value counts as the published size if it is off by at most this factor, because reports come from other machines.
const VALUE: f64 = 1.25;
/// The same for the logarithm of a change: 4 % is not 13 %, though 1.04 is near 1.13.
pub(crate) const CHANGE: f64 = 2.0;

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PublicReport {
    pub name: String,
    /// The reported result, in a line.
    pub title: String,
    /// Where it was published.
    pub source: String,
    /// The words of the report.
    pub said: String,
    /// Why runs show the direction but another size, if known.
    why_size: Option<String>,
    /// Why runs don't show it, if known.
    why_not: Option<String>,
    /// The claims that runs can check.
    #[serde(rename = "claim")]
    pub claims: Vec<Claim>,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Claim {
    /// The quotient, in words.
    pub says: String,
    metric: String,
    /// The variant whose value is the dividend.
    variant: String,
    /// The load; may be omitted if there is only one.
    load: Option<String>,
    by: Divisor,
    /// The quotient must be above this.
    above: Option<f64>,
    /// The quotient must be below this.
    below: Option<f64>,
    /// The published quotient, from and to.
    pub published: Option<[f64; 2]>,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(untagged)]
enum Divisor {
    /// A number, in the metric's unit.
    Number(f64),
    /// A metric of a variant; by default the same metric.
    Value { variant: String, metric: Option<String> },
}

/// The judgement of a claim or a report by runs.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum ClaimVerdict {
    /// The runs do not show it.
    Not,
    /// The runs can't tell: the bound is inside their 95 % interval.
    Unclear,
    /// The runs show the direction but another size.
    Direction,
    /// The runs show it, with its size if one was published.
    Reproduced,
}

impl ClaimVerdict {
    pub fn word(self) -> &'static str {
        match self {
            ClaimVerdict::Not => "not",
            ClaimVerdict::Unclear => "unclear",
            ClaimVerdict::Direction => "direction",
            ClaimVerdict::Reproduced => "reproduced",
        }
    }
}

#[derive(Clone, Debug, Serialize)]
pub struct JudgedClaim {
    /// The quotient, in words.
    pub says: String,
    /// The runs' quotient: the geometric mean over the seeds.
    pub ours: f64,
    /// Its 95 % interval; `None` for a single run.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ci95: Option<[f64; 2]>,
    /// The bound that decides the direction. It is ours, not the report's.
    pub bound: f64,
    /// Whether the quotient must be above the bound.
    pub above: bool,
    /// The published quotient, from and to.
    pub published: Option<[f64; 2]>,
    pub verdict: ClaimVerdict,
}

#[derive(Clone, Debug, Serialize)]
pub struct JudgedReport {
    pub name: String,
    /// The reported result, in a line.
    pub title: String,
    /// Where it was published.
    pub source: String,
    /// The words of the report.
    pub said: String,
    /// Why runs don't show all of it, if known; `None` if they do.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub why: Option<String>,
    /// The lowest verdict of its claims.
    pub verdict: ClaimVerdict,
    pub claims: Vec<JudgedClaim>,
    /// Warnings about its runs.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub warnings: Vec<Warning>,
}

impl JudgedReport {
    pub fn has_size(&self) -> bool {
        self.claims.iter().any(|c| c.published.is_some())
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ReportsFile {
    report: Vec<PublicReport>,
}

/// Reads a file of reports.
///
/// # Errors
/// When the text is something else, and for claims with no direction or two.
pub fn read(text: &str) -> Result<Vec<PublicReport>> {
    let file: ReportsFile = toml::from_str(text).map_err(|e| Error::input(format!("reports: {e}")))?;
    for (report, claim) in file.report.iter().flat_map(|r| r.claims.iter().map(move |c| (r, c))) {
        if claim.above.is_some() == claim.below.is_some() {
            let text =
                format!("report {}: '{}' needs one direction: above or below", report.name, claim.says);
            return Err(Error::input(text));
        }
    }
    Ok(file.report)
}

impl PublicReport {
    /// Judges the report by its experiment's runs.
    ///
    /// # Errors
    /// When a claim names a cell or metric that the comparison lacks.
    pub fn judge(&self, runs: &Comparison) -> Result<JudgedReport> {
        let judged = |c: &Claim| c.judge(runs).map_err(|e| e.context(format!("report {}", self.name)));
        let claims = self.claims.iter().map(judged).collect::<Result<Vec<_>>>()?;
        let verdict = claims.iter().map(|c| c.verdict).min().unwrap_or(ClaimVerdict::Not);
        Ok(JudgedReport {
            name: self.name.clone(),
            title: self.title.clone(),
            source: self.source.clone(),
            said: self.said.clone(),
            why: match verdict {
                ClaimVerdict::Not => self.why_not.clone(),
                ClaimVerdict::Direction => self.why_size.clone(),
                ClaimVerdict::Unclear | ClaimVerdict::Reproduced => None,
            },
            verdict,
            claims,
            warnings: runs.warnings_of_runs(),
        })
    }
}

impl Claim {
    fn judge(&self, runs: &Comparison) -> Result<JudgedClaim> {
        let values = |variant: &str, metric: &str| values(runs, variant, self.load.as_deref(), metric);
        let over = values(&self.variant, &self.metric)?;
        let logs: Vec<f64> = match &self.by {
            Divisor::Number(n) => over.iter().map(|x| (x / n).ln()).collect(),
            Divisor::Value { variant, metric } => {
                let under = values(variant, metric.as_ref().unwrap_or(&self.metric))?;
                over.iter().zip(under).map(|(x, y)| (x / y).ln()).collect()
            }
        };
        let (log, ci95) = mean_and_interval(&logs);
        let (bound, above) =
            self.above.map_or((self.below.unwrap_or(f64::NAN), false), |bound| (bound, true));
        let changes = matches!(self.by, Divisor::Value { .. });
        let size = self.published.map(|published| {
            if changes {
                near(log, published.map(f64::ln), CHANGE)
            } else {
                near(log.exp(), published, VALUE)
            }
        });
        let [low, high] = ci95.unwrap_or([log; 2]);
        let [least, most] = if above { [low, high] } else { [-high, -low] };
        let at = if above { bound.ln() } else { -bound.ln() };
        let direction = match () {
            () if least > at => Some(true),
            () if most > at => None,
            () => Some(false),
        };
        Ok(JudgedClaim {
            says: self.says.clone(),
            ours: log.exp(),
            ci95: ci95.map(|ends| ends.map(f64::exp)),
            bound,
            above,
            published: self.published,
            verdict: verdict(direction, size),
        })
    }
}

/// The mean of logarithms and its 95 % interval (Student's t); without an interval for a single value.
pub(crate) fn mean_and_interval(logs: &[f64]) -> (f64, Option<[f64; 2]>) {
    let n = logs.len() as f64;
    let mean = logs.iter().sum::<f64>() / n;
    if logs.len() < 2 {
        return (mean, None);
    }
    let variance = logs.iter().map(|x| (x - mean).powi(2)).sum::<f64>() / (n - 1.0);
    let half = t_quantile(0.975, n - 1.0) * (variance / n).sqrt();
    (mean, Some([mean - half, mean + half]))
}

/// `direction`: whether it is the reported one; `None` if the runs can't tell.
fn verdict(direction: Option<bool>, size: Option<bool>) -> ClaimVerdict {
    match (direction, size) {
        (Some(false), _) => ClaimVerdict::Not,
        (None, _) => ClaimVerdict::Unclear,
        (Some(true), Some(false)) => ClaimVerdict::Direction,
        (Some(true), _) => ClaimVerdict::Reproduced,
    }
}

/// Whether a value is in a range, or outside of it by a factor of at most `room`, on the same side of 0.
pub(crate) fn near(ours: f64, [from, to]: [f64; 2], room: f64) -> bool {
    let (least, most) = (from.abs().min(to.abs()), from.abs().max(to.abs()));
    ours * from > 0.0 && (least / room..=most * room).contains(&ours.abs())
}

/// A metric's values in the runs of a cell, in the order of the seeds.
fn values<'r>(runs: &'r Comparison, variant: &str, load: Option<&str>, metric: &str) -> Result<&'r [f64]> {
    let is_it = |c: &&Cell| c.variant == variant && load.is_none_or(|load| c.load == load);
    let cell = runs.cells.iter().find(is_it);
    cell.and_then(|c| c.metrics.get(metric)?.of_each_run()).ok_or_else(|| {
        Error::internal(format!("{metric} of variant '{variant}' was not measured in each run"))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_holds_within_a_quarter_and_a_change_within_half_and_double() {
        let value = |ours| near(ours, [50.0, 50.0], VALUE);
        assert_eq!([39.0, 41.0, 62.0, 63.0, f64::NAN].map(value), [false, true, true, false, false]);
        let change = |ours: f64| near(ours.ln(), [1.13f64.ln(); 2], CHANGE);
        assert_eq!([0.9, 1.04, 1.07, 1.25, 1.4].map(change), [false, false, true, true, false]);
        let fall = |ours: f64| near(ours.ln(), [0.01f64.ln(), 0.1f64.ln()], CHANGE);
        assert_eq!([0.001, 0.05, 0.3, 0.9].map(fall), [true, true, true, false]);
        let rows = [(Some(false), Some(true)), (None, None), (Some(true), Some(false)), (Some(true), None)];
        assert_eq!(
            rows.map(|(direction, size)| verdict(direction, size)),
            [ClaimVerdict::Not, ClaimVerdict::Unclear, ClaimVerdict::Direction, ClaimVerdict::Reproduced]
        );
    }

    #[test]
    fn an_interval_is_students() {
        let (mean, ci95) = mean_and_interval(&[1.0, 2.0, 3.0]);
        let [low, high] = ci95.unwrap();
        assert!((mean - 2.0).abs() < 1e-9 && (high - 4.484).abs() < 0.001 && (low + 0.484).abs() < 0.001);
        assert_eq!(mean_and_interval(&[1.5]), (1.5, None));
    }

    #[test]
    fn a_claim_has_one_direction() {
        let report = |direction: &str| {
            read(&format!(
                "[[report]]\nname = \"a\"\ntitle = \"\"\nsource = \"\"\nsaid = \"\"\n\
                 [[report.claim]]\nsays = \"x\"\nmetric = \"work\"\nvariant = \"v4.5\"\nby = 1.0\n{direction}"
            ))
        };
        assert!(report("above = 1.0").is_ok());
        for wrong in ["", "above = 1.0\nbelow = 2.0"] {
            assert!(report(wrong).unwrap_err().to_string().contains("one direction"), "{wrong}");
        }
        assert!(report("above = 1.0\nabov = 2").is_err());
    }
}
