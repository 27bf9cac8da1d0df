//! Metrics that distinguish the right scheduler from wrong ones.
//!
//! A case is also simulated by schedulers that are wrong on purpose. A metric that agrees under a wrong scheduler, too,
//! says nothing about the right one.

use super::result::AgreementShare;
use super::rule::{Agreement, JudgedMetric};
use serde::{Deserialize, Serialize};
use std::borrow::Cow;

/// A case simulated by a wrong scheduler.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct WrongSchedulerResult {
    pub name: Cow<'static, str>,
    /// What is wrong about it.
    pub about: Cow<'static, str>,
    pub runs: usize,
    /// The share of metrics that agree with the real kernel.
    pub share: AgreementShare,
}

/// The verdicts on a case under a wrong scheduler, in the order of the list of metrics.
pub struct WrongRuns {
    pub name: &'static str,
    /// What is wrong about it.
    pub about: &'static str,
    pub runs: usize,
    pub verdicts: Vec<Agreement>,
}

/// Notes in each measured row which wrong schedulers pass it. Returns a sum for each wrong scheduler.
pub fn mark(rows: &mut [JudgedMetric], tried: &[WrongRuns]) -> Vec<WrongSchedulerResult> {
    let sum = |t: &WrongRuns| {
        let measured = rows.iter().zip(&t.verdicts).filter(|(r, _)| r.verdict != Agreement::NotMeasured);
        let share = AgreementShare::count(measured.map(|(_, verdict)| *verdict));
        WrongSchedulerResult { name: t.name.into(), about: t.about.into(), runs: t.runs, share }
    };
    let all = tried.iter().map(sum).collect();
    for (at, row) in rows.iter_mut().enumerate().filter(|(_, r)| r.verdict != Agreement::NotMeasured) {
        let passes = tried.iter().filter(|t| t.verdicts.get(at).is_some_and(|v| *v != Agreement::Disagree));
        row.passed_by = passes.map(|t| t.name.into()).collect();
    }
    all
}

/// The share of metrics that agree, without those that wrong schedulers pass, too.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize)]
pub struct Discriminating {
    /// Without metrics decided by the workload, which agree under every wrong scheduler, too.
    pub by_some: AgreementShare,
    /// Without metrics that agree under at least one wrong scheduler, too.
    pub by_every: AgreementShare,
}

impl Discriminating {
    /// Counts metrics, each given with the number of wrong schedulers that its case was simulated by; `None` if that is
    /// 0 for all.
    pub fn of<'a>(rows: impl Iterator<Item = (usize, &'a JudgedMetric)>) -> Option<Discriminating> {
        let mut discriminating = None;
        for (wrong, row) in rows.filter(|(wrong, _)| *wrong > 0) {
            let Discriminating { by_some, by_every } =
                discriminating.get_or_insert_with(Discriminating::default);
            // A disagreement counts, even if wrong schedulers share it.
            let counts = row.verdict != Agreement::Agree;
            if counts || row.passed_by.len() < wrong {
                by_some.add(row.verdict);
            }
            if counts || row.passed_by.is_empty() {
                by_every.add(row.verdict);
            }
        }
        discriminating
    }
}
