//! The result of a validation: case by case and over all, as plain data (docs/formats.md).

use super::rows::{CLASSES, Class, ClassRow};
use super::rule::{Agreement, JudgedMetric};
use super::traits::{self, MachineCounts, TraitAgreement};
use super::wrong::{self, Discriminating, WrongRuns, WrongSchedulerResult};
use schedlab_base::{Origin, Warning};
use schedlab_kernel::Level;
use schedlab_record::Record;
use serde::{Deserialize, Serialize};
use std::borrow::Cow;

pub const VALIDATION_SCHEMA: &str = "schedlab/validation/1";
/// Fewest metrics that must be measured in a case for an outcome.
pub const LEAST_MEASURED: usize = 6;

/// The measured metrics that agree: the one figure of a case.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct AgreementShare {
    pub agree: usize,
    pub measured: usize,
}

impl AgreementShare {
    pub fn of<'a>(rows: impl IntoIterator<Item = &'a JudgedMetric>) -> AgreementShare {
        AgreementShare::count(rows.into_iter().map(|row| row.verdict))
    }
    pub fn count(verdicts: impl Iterator<Item = Agreement>) -> AgreementShare {
        let mut all = AgreementShare::default();
        verdicts.for_each(|verdict| all.add(verdict));
        all
    }
    pub fn add(&mut self, verdict: Agreement) {
        self.agree += usize::from(verdict == Agreement::Agree);
        self.measured += usize::from(verdict != Agreement::NotMeasured);
    }
    /// Whether at least `part` in `of` agree.
    pub fn at_least(self, part: usize, of: usize) -> bool {
        self.agree * of >= self.measured * part
    }
    /// In per cent; `None` if none was measured.
    pub fn pct(self) -> Option<f64> {
        (self.measured > 0).then(|| 100.0 * self.agree as f64 / self.measured as f64)
    }
}

#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Outcome {
    /// At least half of the measured metrics agree.
    Passed,
    /// Less than half of them do, or the simulated side agrees even when three times as large.
    Failed,
    /// A control, less than half of which agrees, as it should.
    Rejected,
    /// A control that was taken for the real side.
    Accepted,
    /// Fewer than [`LEAST_MEASURED`] metrics were measured.
    TooLittle,
}

impl Outcome {
    pub fn words(self) -> &'static str {
        match self {
            Outcome::Passed => "passed",
            Outcome::Failed => "FAILED",
            Outcome::Rejected => "rejected",
            Outcome::Accepted => "ACCEPTED",
            Outcome::TooLittle => "TOO LITTLE",
        }
    }
    /// Whether it is the outcome that the case should have.
    pub fn is_good(self) -> bool {
        matches!(self, Outcome::Passed | Outcome::Rejected)
    }
}

#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct CaseSide {
    /// The backend that made its runs.
    pub backend: Origin,
    /// How the kernel's own code was charged; `None` on other backends.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub level: Option<Level>,
    pub machine: String,
    /// The kernel's name: profile or release.
    pub kernel: String,
    /// The variant of the kernel; `None`: unchanged.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub variant: Option<String>,
    pub runs: usize,
}

impl CaseSide {
    pub(super) fn of(records: &[Record]) -> Option<CaseSide> {
        let first = records.first()?;
        Some(CaseSide {
            backend: first.backend.clone(),
            level: first.code.as_ref().map(|code| code.level),
            machine: first.machine.name.clone(),
            kernel: first.kernel.clone(),
            variant: (!first.variant.is_plain()).then(|| first.variant.name.clone()),
            runs: records.len(),
        })
    }
}

/// The negative control of every case: the simulated side three times as large, judged by the same rule. It is rejected
/// when less than half of it agrees and no metric agrees both times.
#[derive(Clone, PartialEq, Debug, Default, Serialize)]
pub struct Tripled {
    pub share: AgreementShare,
    /// Metrics that agree as they are and three times as large: their agreement means nothing.
    pub both: Vec<Cow<'static, str>>,
    pub rejected: bool,
}

#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct CaseResult {
    pub name: String,
    /// Its subject.
    pub about: String,
    /// The workload's name.
    pub workload: String,
    pub simulated: Option<CaseSide>,
    pub real: Option<CaseSide>,
    /// For a control: why it can't agree.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub control: Option<String>,
    pub metrics: Vec<JudgedMetric>,
    pub share: AgreementShare,
    /// The simulated side three times as large.
    pub tripled: Tripled,
    /// The machine of its real side.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub counts: Option<MachineCounts>,
    /// The case under wrong schedulers. Empty for a control.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub wrong: Vec<WrongSchedulerResult>,
    /// The share without metrics that wrong schedulers pass; `None` if none was tried.
    #[serde(rename = "told", skip_serializing_if = "Option::is_none")]
    pub discriminating: Option<Discriminating>,
    pub outcome: Outcome,
    pub warnings: Vec<Warning>,
}

/// What a result needs to know of its case.
#[derive(Clone, Copy, Debug)]
pub struct Judgement<'a> {
    /// The case's name.
    pub name: &'a str,
    /// Its subject.
    pub about: &'a str,
    /// For a control: why it can't agree.
    pub control: Option<&'a str>,
}

impl CaseResult {
    /// The result of a case whose metrics have been judged.
    pub fn of(
        case: &Judgement<'_>,
        metrics: Vec<JudgedMetric>,
        simulated: &[Record],
        real: &[Record],
        warnings: Vec<Warning>,
    ) -> CaseResult {
        let judged = CaseResult {
            name: case.name.to_owned(),
            about: case.about.to_owned(),
            workload: real.first().map_or_else(String::new, |r| r.workload.clone()),
            simulated: CaseSide::of(simulated),
            real: CaseSide::of(real),
            control: case.control.map(str::to_owned),
            outcome: Outcome::TooLittle,
            counts: real.first().and_then(|r| MachineCounts::of(&r.machine.topology)),
            wrong: Vec::new(),
            discriminating: None,
            metrics,
            share: AgreementShare::default(),
            tripled: Tripled::default(),
            warnings: warnings
                .into_iter()
                .chain(side_warnings(simulated, "simulated"))
                .chain(side_warnings(real, REAL))
                .collect(),
        };
        judged.counted()
    }
    /// The result with its shares and its outcome, which follow from its metrics.
    pub(super) fn counted(mut self) -> CaseResult {
        let control = self.control.is_some();
        self.share = AgreementShare::of(&self.metrics);
        self.tripled = tripled(&self.metrics, control);
        self.outcome = outcome(self.share, &self.tripled, control);
        self.discriminating = Discriminating::of(self.rows());
        self
    }
    /// The result with the real side of an earlier one, by whose values it was judged.
    #[must_use]
    pub fn with_real_of(mut self, earlier: &CaseResult) -> CaseResult {
        self.workload.clone_from(&earlier.workload);
        (self.real, self.counts) = (earlier.real.clone(), earlier.counts);
        let real = |w: &&Warning| w.message.starts_with(REAL);
        self.warnings.extend(earlier.warnings.iter().filter(real).cloned());
        self
    }
    /// Adds the verdicts of wrong schedulers.
    #[must_use]
    pub fn beside(mut self, tried: &[WrongRuns]) -> CaseResult {
        self.wrong = wrong::mark(&mut self.metrics, tried);
        self.discriminating = Discriminating::of(self.rows());
        self
    }
    /// Its metrics, each with the number of wrong schedulers tried.
    pub fn rows(&self) -> impl Iterator<Item = (usize, &JudgedMetric)> {
        self.metrics.iter().map(|row| (self.wrong.len(), row))
    }
}

/// Judges the simulated side three times as large. A control may come nearer to the real side so; whether the metrics
/// can tell sides apart is checked all the same.
fn tripled(metrics: &[JudgedMetric], control: bool) -> Tripled {
    let share = AgreementShare::count(metrics.iter().map(|m| m.tripled));
    let agree = |v: Agreement| v == Agreement::Agree;
    let both: Vec<_> =
        metrics.iter().filter(|m| agree(m.verdict) && agree(m.tripled)).map(|m| m.metric.clone()).collect();
    let rejected = both.is_empty() && (control || share.measured == 0 || !share.at_least(1, 2));
    Tripled { share, both, rejected }
}

fn outcome(share: AgreementShare, tripled: &Tripled, control: bool) -> Outcome {
    match (share.at_least(1, 2), control) {
        _ if share.measured < LEAST_MEASURED => Outcome::TooLittle,
        _ if !tripled.rejected => Outcome::Failed,
        (true, false) => Outcome::Passed,
        (false, false) => Outcome::Failed,
        (false, true) => Outcome::Rejected,
        (true, true) => Outcome::Accepted,
    }
}

/// The side in a warning's message.
const REAL: &str = "real";

/// The warnings of a side's runs, each once.
fn side_warnings(records: &[Record], side: &str) -> Vec<Warning> {
    let mut all: Vec<Warning> = Vec::new();
    for warning in records.iter().flat_map(|r| &r.found.warnings) {
        if !all.iter().any(|w| w.code == warning.code) {
            all.push(warning.clone());
        }
    }
    all.into_iter().map(|w| Warning::new(&w.code, format!("{side}: {}", w.message))).collect()
}

/// A case that could not be run here.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct NotRun {
    pub name: String,
    /// The reason.
    pub why: String,
}

/// The agreement in one class of metrics, over all cases except controls.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct ClassAgreement {
    pub class: Cow<'static, str>,
    #[serde(flatten)]
    pub share: AgreementShare,
    /// The same without metrics that wrong schedulers pass; `None` if none was tried.
    #[serde(rename = "told", skip_serializing_if = "Option::is_none")]
    pub discriminating: Option<Discriminating>,
}

#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct Validation {
    /// [`VALIDATION_SCHEMA`].
    pub schema: Cow<'static, str>,
    /// Version of the simulator's model.
    pub model: u32,
    /// Version of the engine that drives the kernel's own code.
    pub engine: u32,
    /// The cases that were run, in order.
    pub cases: Vec<CaseResult>,
    /// The cases that could not be run.
    pub not_run: Vec<NotRun>,
    /// Over all cases except controls.
    pub share: AgreementShare,
    /// The share of decisions: switches, migrations and placement.
    pub decisions: AgreementShare,
    /// The share of all metrics without those that wrong schedulers pass; `None` if none was tried.
    #[serde(rename = "told", skip_serializing_if = "Option::is_none")]
    pub discriminating: Option<Discriminating>,
    /// The share of decisions without metrics that wrong schedulers pass; likewise.
    #[serde(rename = "decisions_told", skip_serializing_if = "Option::is_none")]
    pub decisions_discriminating: Option<Discriminating>,
    pub classes: Vec<ClassAgreement>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub traits: Vec<TraitAgreement>,
    /// Whether at least three quarters agree, every case has its outcome, and all could be run.
    pub passed: bool,
}

impl Validation {
    pub fn of(cases: Vec<CaseResult>, not_run: Vec<NotRun>) -> Validation {
        let judged = || cases.iter().filter(|c| c.control.is_none()).flat_map(CaseResult::rows);
        let of = |wanted: &dyn Fn(&str) -> bool| {
            let rows = || judged().filter(|(_, row)| wanted(&row.class));
            (AgreementShare::of(rows().map(|(_, row)| row)), Discriminating::of(rows()))
        };
        let in_class = |class: &ClassRow| {
            let (share, discriminating) = of(&|name| name == class.name);
            ClassAgreement { class: class.name.into(), share, discriminating }
        };
        let deciding = [Class::Switches, Class::Migrations, Class::Placement];
        let (share, discriminating) = of(&|_| true);
        let (decisions, decisions_discriminating) = of(&|name| deciding.iter().any(|c| c.row().name == name));
        let controls = || cases.iter().all(|c| c.control.is_some());
        let good = cases.iter().all(|c| c.outcome.is_good()) && !cases.is_empty();
        Validation {
            schema: VALIDATION_SCHEMA.into(),
            model: schedlab_record::MODEL,
            engine: schedlab_record::ENGINE,
            classes: CLASSES.iter().map(in_class).collect(),
            traits: traits::of(&cases),
            decisions,
            decisions_discriminating,
            discriminating,
            passed: good && not_run.is_empty() && (controls() || share.at_least(3, 4)),
            share,
            cases,
            not_run,
        }
    }
}

#[cfg(test)]
#[path = "result_tests.rs"]
mod tests;
