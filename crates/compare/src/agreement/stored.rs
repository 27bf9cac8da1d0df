//! Results of `schedlab validate` as files that are kept (`cases/results`): JSON with one line for each metric.
//!
//! A line has no more than its reader can't know: class and unit of a metric are those of its row in the list
//! ([`super::rows`]), shares and outcomes are counted again, and a simulation three times as large disagrees where it
//! is not said to agree. Rows without a real value are left out. Numbers have six digits. The real side of a kept
//! result can be held against another simulation ([`super::real::RealSide`]).

use super::AgreementShare;
use super::result::{CaseResult, CaseSide, NotRun, Outcome, Tripled, Validation};
use super::rows::LIST;
use super::rule::{Agreement, JudgedMetric};
use super::traits::MachineCounts;
use super::wrong::WrongSchedulerResult;
use schedlab_base::Warning;
use serde::{Deserialize, Serialize};
use std::borrow::Cow;
use std::fmt::Write;

pub const AGREEMENT_SCHEMA: &str = "schedlab/agreement/1";

#[derive(Serialize, Deserialize)]
struct StoredMetric<'a> {
    metric: Cow<'a, str>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    simulated: Option<f64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    real: Option<f64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    off_pct: Option<f64>,
    tolerance_pct: f64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    real_spread_pct: Option<f64>,
    verdict: Agreement,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    why: Option<Cow<'a, str>>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    tripled: Option<Agreement>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    passed_by: Vec<Cow<'a, str>>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    real_values: Vec<u64>,
}

/// A case without its metrics, which follow line by line.
#[derive(Serialize, Deserialize)]
struct StoredCase<'a> {
    name: Cow<'a, str>,
    about: Cow<'a, str>,
    workload: Cow<'a, str>,
    simulated: Option<CaseSide>,
    real: Option<CaseSide>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    control: Option<Cow<'a, str>>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    counts: Option<MachineCounts>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    wrong: Vec<WrongSchedulerResult>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    warnings: Vec<Warning>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    metrics: Vec<StoredMetric<'a>>,
}

#[derive(Serialize, Deserialize)]
struct StoredResult<'a> {
    schema: Cow<'a, str>,
    model: u32,
    engine: u32,
    not_run: Vec<NotRun>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    cases: Vec<StoredCase<'a>>,
}

/// A number with six digits.
pub(crate) fn rounded(number: f64) -> f64 {
    format!("{number:.5e}").parse().unwrap_or(number)
}

/// The verdict on three times the simulation where a line does not have it.
fn usual_tripled(verdict: Agreement) -> Agreement {
    if verdict == Agreement::NotMeasured { Agreement::NotMeasured } else { Agreement::Disagree }
}

fn metric_line(row: &JudgedMetric) -> StoredMetric<'_> {
    let is_number = row.real.is_some() && row.simulated.is_some();
    StoredMetric {
        metric: Cow::Borrowed(&row.metric),
        simulated: row.simulated.map(rounded),
        real: row.real.map(rounded),
        off_pct: row.off_pct.filter(|_| !is_number).map(rounded),
        tolerance_pct: row.tolerance_pct,
        real_spread_pct: row.real_spread_pct.map(rounded),
        verdict: row.verdict,
        why: row.why.as_deref().map(Cow::Borrowed),
        tripled: (row.tripled != usual_tripled(row.verdict)).then_some(row.tripled),
        passed_by: row.passed_by.iter().map(|name| Cow::Borrowed(&**name)).collect(),
        real_values: row.real_values.clone(),
    }
}

fn case_line(case: &CaseResult) -> StoredCase<'_> {
    StoredCase {
        name: Cow::Borrowed(&case.name),
        about: Cow::Borrowed(&case.about),
        workload: Cow::Borrowed(&case.workload),
        simulated: case.simulated.clone(),
        real: case.real.clone(),
        control: case.control.as_deref().map(Cow::Borrowed),
        counts: case.counts,
        wrong: case.wrong.clone(),
        warnings: case.warnings.clone(),
        metrics: Vec::new(),
    }
}

/// A JSON object whose last key holds these elements, a line each.
pub(crate) fn with_list(head: &impl Serialize, key: &str, elements: &[String]) -> serde_json::Result<String> {
    let head = serde_json::to_string(head)?;
    let mut text = head.strip_suffix('}').unwrap_or(&head).to_owned();
    // Writing to a string can't fail.
    _ = write!(text, ",\"{key}\":[\n{}\n]}}", elements.join(",\n"));
    Ok(text)
}

/// The text of a file that keeps a result.
///
/// # Errors
/// None that is known: all is plain data.
pub fn write(all: &Validation) -> serde_json::Result<String> {
    let mut cases = Vec::new();
    for case in &all.cases {
        let said = |m: &&JudgedMetric| m.real.is_some() || m.off_pct.is_some();
        let lines: Vec<String> = (case.metrics.iter().filter(said))
            .map(|m| serde_json::to_string(&metric_line(m)))
            .collect::<serde_json::Result<_>>()?;
        cases.push(with_list(&case_line(case), "metrics", &lines)?);
    }
    let head = StoredResult {
        schema: AGREEMENT_SCHEMA.into(),
        model: all.model,
        engine: all.engine,
        not_run: all.not_run.clone(),
        cases: Vec::new(),
    };
    Ok(with_list(&head, "cases", &cases)? + "\n")
}

fn metric_of(line: StoredMetric<'_>) -> Result<JudgedMetric, String> {
    let row = LIST.iter().find(|row| row.name == line.metric);
    let row = row.ok_or_else(|| format!("unknown metric '{}'", line.metric))?;
    let off = |mine: f64, real: f64| (real > 0.0).then(|| 100.0 * (mine - real) / real);
    let number = line.simulated.zip(line.real).and_then(|(mine, real)| off(mine, real));
    Ok(JudgedMetric {
        metric: row.name.into(),
        class: row.class.row().name.into(),
        unit: row.unit.into(),
        simulated: line.simulated,
        real: line.real,
        off_pct: line.off_pct.or(number),
        tolerance_pct: line.tolerance_pct,
        real_spread_pct: line.real_spread_pct,
        verdict: line.verdict,
        why: line.why.map(Cow::into_owned),
        tripled: line.tripled.unwrap_or(usual_tripled(line.verdict)),
        passed_by: line.passed_by.into_iter().map(|name| Cow::Owned(name.into_owned())).collect(),
        real_values: line.real_values,
    })
}

fn case_of(stored: StoredCase<'_>) -> Result<CaseResult, String> {
    let metrics = stored.metrics.into_iter().map(metric_of).collect::<Result<Vec<_>, _>>();
    let case = CaseResult {
        metrics: metrics.map_err(|e| format!("case {}: {e}", stored.name))?,
        name: stored.name.into_owned(),
        about: stored.about.into_owned(),
        workload: stored.workload.into_owned(),
        simulated: stored.simulated,
        real: stored.real,
        control: stored.control.map(Cow::into_owned),
        counts: stored.counts,
        wrong: stored.wrong,
        warnings: stored.warnings,
        share: AgreementShare::default(),
        tripled: Tripled::default(),
        discriminating: None,
        outcome: Outcome::TooLittle,
    };
    Ok(case.counted())
}

/// Reads such a file.
///
/// # Errors
/// When it is another file, or has a metric that the list lacks.
pub fn read(text: &str) -> Result<Validation, String> {
    let stored: StoredResult<'_> = serde_json::from_str(text).map_err(|e| e.to_string())?;
    if stored.schema != AGREEMENT_SCHEMA {
        return Err(format!("its schema is '{}', not {AGREEMENT_SCHEMA}", stored.schema));
    }
    let cases = stored.cases.into_iter().map(case_of).collect::<Result<_, _>>()?;
    let all = Validation::of(cases, stored.not_run);
    Ok(Validation { model: stored.model, engine: stored.engine, ..all })
}
