//! Public reports, judged: what was published about an experiment, as claims that its runs can fail.
//!
//! A claim is a quotient of two metrics, or of a metric and a number. It has the direction that was reported, and often a
//! size. Values are means over the runs of a cell; times are ns.

use crate::Comparison;
use crate::compare::Cell;
use schedlab_base::{Error, Result};
use serde::{Deserialize, Serialize};

/// How far a value may lie outside the published size and still have it: a quarter. Reports come from other machines.
const VALUE: f64 = 1.25;
/// The same for a change, by its logarithm: 4 % is not 13 %, though 1.04 is near 1.13.
const CHANGE: f64 = 2.0;

/// A report, and what it claims.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Report {
    /// The name of its experiment.
    pub name: String,
    /// What is reported, in a line.
    pub title: String,
    /// Where.
    pub source: String,
    /// What was said.
    pub said: String,
    /// Why runs don't show all of it, where that is known.
    pub why: Option<String>,
    /// What of it runs can show.
    #[serde(rename = "claim")]
    pub claims: Vec<Claim>,
}

/// A claim.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Claim {
    /// The quotient, in words.
    pub says: String,
    /// The metric.
    metric: String,
    /// The variant whose value is divided.
    variant: String,
    /// The load; may be left out where there is one.
    load: Option<String>,
    /// What it is divided by.
    by: Divisor,
    /// The quotient is above this.
    above: Option<f64>,
    /// The quotient is below this.
    below: Option<f64>,
    /// The published quotient, from and to.
    pub published: Option<[f64; 2]>,
}

/// What a value is divided by.
#[derive(Clone, Debug, Deserialize)]
#[serde(untagged)]
enum Divisor {
    /// A number, in the metric's unit.
    Number(f64),
    /// A metric of a variant; the same metric unless it is named.
    Value {
        /// The variant.
        variant: String,
        /// The metric.
        metric: Option<String>,
    },
}

/// What becomes of a claim or a report.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Verdict {
    /// The runs do not show it.
    Not,
    /// The runs show the direction, and another size.
    Direction,
    /// The runs show it, with its size if that was published.
    Reproduced,
}

impl Verdict {
    /// The word in tables.
    pub fn word(self) -> &'static str {
        match self {
            Verdict::Not => "not",
            Verdict::Direction => "direction",
            Verdict::Reproduced => "reproduced",
        }
    }
}

/// A claim, judged.
#[derive(Clone, Debug, Serialize)]
pub struct JudgedClaim {
    /// The quotient, in words.
    pub says: String,
    /// The runs' quotient.
    pub ours: f64,
    /// The direction: the bound, and whether the quotient is to be above it.
    pub bound: f64,
    /// Whether it is to be above the bound.
    pub above: bool,
    /// The published quotient, from and to.
    pub published: Option<[f64; 2]>,
    /// The verdict.
    pub verdict: Verdict,
}

/// A report, judged.
#[derive(Clone, Debug, Serialize)]
pub struct JudgedReport {
    /// The name of its experiment.
    pub name: String,
    /// What is reported.
    pub title: String,
    /// Where.
    pub source: String,
    /// What was said.
    pub said: String,
    /// Why runs don't show all of it; `None` where they do, and where that is not known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub why: Option<String>,
    /// The lowest verdict of its claims.
    pub verdict: Verdict,
    /// Its claims.
    pub claims: Vec<JudgedClaim>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    report: Vec<Report>,
}

/// Reads a file of reports.
///
/// # Errors
/// Where it is not one, and for claims without a direction or with two.
pub fn read(text: &str) -> Result<Vec<Report>> {
    let file: File = toml::from_str(text).map_err(|e| Error::input(format!("reports: {e}")))?;
    for (report, claim) in file.report.iter().flat_map(|r| r.claims.iter().map(move |c| (r, c))) {
        if claim.above.is_some() == claim.below.is_some() {
            let text =
                format!("report {}: '{}' needs one direction: above or below", report.name, claim.says);
            return Err(Error::input(text));
        }
    }
    Ok(file.report)
}

impl Report {
    /// Judges the report by its experiment's runs.
    ///
    /// # Errors
    /// When a claim names a cell or metric that the comparison lacks.
    pub fn judge(&self, runs: &Comparison) -> Result<JudgedReport> {
        let judged = |c: &Claim| c.judge(runs).map_err(|e| e.context(format!("report {}", self.name)));
        let claims = self.claims.iter().map(judged).collect::<Result<Vec<_>>>()?;
        let verdict = claims.iter().map(|c| c.verdict).min().unwrap_or(Verdict::Not);
        Ok(JudgedReport {
            name: self.name.clone(),
            title: self.title.clone(),
            source: self.source.clone(),
            said: self.said.clone(),
            why: self.why.clone().filter(|_| verdict != Verdict::Reproduced),
            verdict,
            claims,
        })
    }
}

impl Claim {
    fn judge(&self, runs: &Comparison) -> Result<JudgedClaim> {
        let value = |variant: &str, metric: &str| mean(runs, variant, self.load.as_deref(), metric);
        let by = match &self.by {
            Divisor::Number(n) => *n,
            Divisor::Value { variant, metric } => value(variant, metric.as_ref().unwrap_or(&self.metric))?,
        };
        let ours = value(&self.variant, &self.metric)? / by;
        let (bound, above) =
            self.above.map_or((self.below.unwrap_or(f64::NAN), false), |bound| (bound, true));
        let changes = matches!(self.by, Divisor::Value { .. });
        let size = self.published.map(|published| if changes { log(published) } else { published });
        let (measured, room) = if changes { (ours.ln(), CHANGE) } else { (ours, VALUE) };
        let verdict =
            verdict(if above { ours > bound } else { ours < bound }, size.map(|s| near(measured, s, room)));
        Ok(JudgedClaim { says: self.says.clone(), ours, bound, above, published: self.published, verdict })
    }
}

fn verdict(direction: bool, size: Option<bool>) -> Verdict {
    match (direction, size) {
        (false, _) => Verdict::Not,
        (true, Some(false)) => Verdict::Direction,
        (true, _) => Verdict::Reproduced,
    }
}

fn log(range: [f64; 2]) -> [f64; 2] {
    range.map(f64::ln)
}

/// Whether a value lies in a range, or outside it by a factor of `room` at most; on the same side of 0.
fn near(ours: f64, [from, to]: [f64; 2], room: f64) -> bool {
    let (least, most) = (from.abs().min(to.abs()), from.abs().max(to.abs()));
    ours * from > 0.0 && (least / room..=most * room).contains(&ours.abs())
}

fn mean(runs: &Comparison, variant: &str, load: Option<&str>, metric: &str) -> Result<f64> {
    let is_it = |c: &&Cell| c.variant == variant && load.is_none_or(|load| c.load == load);
    let cell = runs.cells.iter().find(is_it);
    let stat = cell.and_then(|c| c.metrics.get(metric)).and_then(|stat| stat.measured());
    stat.map(|m| m.mean).ok_or_else(|| {
        Error::input(format!("{metric} of variant '{variant}' was not measured"))
            .help("metrics of the experiment have it, or its load is named")
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_holds_within_a_quarter_and_a_change_within_half_and_double() {
        let value = |ours| near(ours, [50.0, 50.0], VALUE);
        assert_eq!([39.0, 41.0, 62.0, 63.0, f64::NAN].map(value), [false, true, true, false, false]);
        let change = |ours: f64| near(ours.ln(), log([1.13, 1.13]), CHANGE);
        assert_eq!([0.9, 1.04, 1.07, 1.25, 1.4].map(change), [false, false, true, true, false]);
        let fall = |ours: f64| near(ours.ln(), log([0.01, 0.1]), CHANGE);
        assert_eq!([0.001, 0.05, 0.3, 0.9].map(fall), [true, true, true, false]);
        assert_eq!(
            [(false, Some(true)), (true, Some(false)), (true, None)].map(|(d, s)| verdict(d, s)),
            [Verdict::Not, Verdict::Direction, Verdict::Reproduced]
        );
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
