//! The report on the time in which a run was not work-conserving, with names in place of ids: printed, and written as
//! JSON.

use super::chances::{Chance, Window};
use super::stretches::{IdleWhileWaitingTimes, Stretch, StretchEnd};
use crate::{TaskName, explain};
use schedlab_base::{CpuId, Ns};
use schedlab_record::Record;
use serde::Serialize;

/// The stretches of a run.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct IdleWhileWaiting {
    pub run: String,
    /// The measured time, ns.
    pub duration_ns: u64,
    /// Time in which at least one task waited while a CPU was free, ns.
    pub time_ns: u64,
    /// `time_ns` in percent of the measured time.
    pub share_pct: f64,
    pub stretches: u64,
    /// Sum of the stretches' times over tasks, ns. It exceeds `time_ns` if several tasks waited at once.
    pub task_time_ns: u64,
    /// Stretches by cause, the cause with most time first.
    pub causes: Vec<CauseShare>,
    /// The longest stretches, longest first.
    pub longest: Vec<Listed>,
    pub notes: Vec<String>,
}

#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct CauseShare {
    pub cause: &'static str,
    /// The cause in a sentence.
    pub about: &'static str,
    /// The decision's reason, if a decision was the cause.
    pub reason: Option<&'static str>,
    pub reason_about: Option<&'static str>,
    pub stretches: u64,
    /// Sum of the stretches' times over tasks, ns.
    pub time_ns: u64,
    /// `time_ns` in percent of `task_time_ns`.
    pub time_pct: f64,
}

#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct Listed {
    pub task: String,
    pub cpu: CpuId,
    pub from: Ns,
    pub length_ns: u64,
    pub cause: &'static str,
    pub reason: Option<&'static str>,
    /// How it ended: `ran`, `moved`, `taken` (the last free CPU got other work) or `run_over`.
    pub ended: &'static str,
    /// Why it was moved (`MoveReason` name).
    pub moved: Option<&'static str>,
    /// The free CPUs, and what was done about the wait.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub idle_meanwhile: Option<Chance>,
}

impl StretchEnd {
    /// The word in JSON.
    pub const fn name(self) -> &'static str {
        match self {
            StretchEnd::Ran => "ran",
            StretchEnd::Moved(_) => "moved",
            StretchEnd::Taken => "taken",
            StretchEnd::RunOver => "run_over",
        }
    }
}

impl Stretch {
    /// The wait whose chances are wanted.
    pub fn window(&self) -> Window {
        Window { task: self.task, from: self.from, until: self.until }
    }
}

impl IdleWhileWaiting {
    /// Makes the report from the times of the record's run when made again. `names` are its tasks by id; `chances`
    /// belong to the longest stretches, in their order.
    pub fn of(
        record: &Record,
        found: &IdleWhileWaitingTimes,
        names: &[TaskName],
        chances: Vec<Option<Chance>>,
    ) -> Self {
        let duration_ns = record.found.duration.0;
        let task_time_ns: u64 = found.causes.values().map(|(_, time_ns)| time_ns).sum();
        let pct = |part: u64, whole: u64| 100.0 * part as f64 / whole.max(1) as f64;
        let share = |(cause, (stretches, time_ns)): (&super::Cause, &(u64, u64))| CauseShare {
            cause: cause.kind.name(),
            about: cause.kind.about(),
            reason: cause.reason.map(|(name, _)| name),
            reason_about: cause.reason.map(|(_, about)| about),
            stretches: *stretches,
            time_ns: *time_ns,
            time_pct: pct(*time_ns, task_time_ns),
        };
        let mut causes: Vec<CauseShare> = found.causes.iter().map(share).collect();
        // Stable: causes with equal time stay in the table's order.
        causes.sort_by_key(|c| std::cmp::Reverse(c.time_ns));
        let chances = chances.into_iter().chain(std::iter::repeat(None));
        let listed = |(s, idle_meanwhile): (&Stretch, Option<Chance>)| Listed {
            task: names.get(s.task.index()).map_or_else(|| format!("task {}", s.task.0), |t| t.name.clone()),
            cpu: s.on,
            from: Ns(s.from),
            length_ns: s.length(),
            cause: s.cause.kind.name(),
            reason: s.cause.reason.map(|(name, _)| name),
            ended: s.end.name(),
            moved: match s.end {
                StretchEnd::Moved(why) => Some(why.name()),
                _ => None,
            },
            idle_meanwhile,
        };
        let reasons = explain::reasons_missing(record).or_else(|| explain::rules_share(record));
        let warnings = record.found.warnings.iter().map(|w| w.message.clone());
        IdleWhileWaiting {
            run: explain::run_of(record),
            duration_ns,
            time_ns: found.covered_ns,
            share_pct: pct(found.covered_ns, duration_ns),
            stretches: causes.iter().map(|c| c.stretches).sum(),
            task_time_ns,
            longest: found.longest.iter().zip(chances).map(listed).collect(),
            notes: warnings.chain(reasons).collect(),
            causes,
        }
    }
}
