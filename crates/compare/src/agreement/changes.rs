//! Whether a switched mechanism moves a real kernel as it moves the simulation, for the rows that must move.

use super::result::NotRun;
use super::rows::MetricRow;
use crate::predicted::{LoadOnMachine, MOVED_PCT, MeanMove, Predictions, predicted};
use schedlab_base::Warning;
use schedlab_kernel::Level;
use schedlab_record::{MODEL, Record};
use serde::Serialize;

/// The verdict on a row that must move.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Moves {
    /// Both sides move by [`MOVED_PCT`] or more, in one direction.
    Agrees,
    /// Both move, but in opposite directions.
    OtherWay,
    /// The real kernel moves, the simulation does not.
    SimulationStill,
    /// The whole interval of the real change is below [`MOVED_PCT`]: the case claims more than the kernel does.
    KernelStill,
    /// A side's change is unknown: its interval includes 0, or exceeds [`MOVED_PCT`] though the change does not; or
    /// there is no change.
    NotKnown,
}

impl Moves {
    pub fn words(self) -> &'static str {
        match self {
            Moves::Agrees => "agrees",
            Moves::OtherWay => "OTHER WAY",
            Moves::SimulationStill => "SIM STILL",
            Moves::KernelStill => "REAL STILL",
            Moves::NotKnown => "not known",
        }
    }
}

/// The rule. `real` is the real change with its interval, `simulated` the simulated change with half its interval, both
/// in per cent.
pub fn rule(real: Option<(f64, [f64; 2])>, simulated: Option<(f64, f64)>) -> Moves {
    let Some((pct, [low, high])) = real else { return Moves::NotKnown };
    let small = pct.abs() < MOVED_PCT;
    if small && low >= -MOVED_PCT && high <= MOVED_PCT {
        return Moves::KernelStill;
    }
    if small || (low <= 0.0 && high >= 0.0) {
        return Moves::NotKnown;
    }
    match simulated {
        Some((s, half)) if s.abs() < MOVED_PCT && s.abs() + half < 2.0 * MOVED_PCT => Moves::SimulationStill,
        Some((s, half)) if s.abs() > half && s.abs() >= MOVED_PCT => {
            if (s > 0.0) == (pct > 0.0) {
                Moves::Agrees
            } else {
                Moves::OtherWay
            }
        }
        _ => Moves::NotKnown,
    }
}

/// A row that must move, judged for a load.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct MustMove {
    /// The machine of the real runs.
    pub machine: String,
    /// Workload and load.
    pub load: String,
    /// The row.
    pub metric: &'static str,
    /// Change of the real mean, per cent; `None`: not measured.
    pub real_pct: Option<f64>,
    /// Its 95 % interval; `None`: not measured, or fewer than two pairs of runs.
    pub real_ci95_pct: Option<[f64; 2]>,
    /// Change of the simulated mean, per cent; `None`: not measured.
    pub simulated_pct: Option<f64>,
    pub verdict: Moves,
    /// The reason why a side has no change.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub why: Option<String>,
}

impl MustMove {
    fn of(row: &'static MetricRow, place: &LoadOnMachine) -> MustMove {
        let enough = |side: MeanMove| {
            if side.reaches(row.enough) {
                Ok(side)
            } else {
                Err(format!("less than {} before and after", row.enough))
            }
        };
        let (real, simulated) = (place.real(row).and_then(enough), place.simulated(row).and_then(enough));
        let interval = real.as_ref().ok().and_then(MeanMove::interval);
        let predicts = simulated.as_ref().ok().and_then(|m| Some((m.pct, m.half?)));
        let real_pct = real.as_ref().ok().map(|m| m.pct);
        let simulated_pct = simulated.as_ref().ok().map(|m| m.pct);
        let few = (real.is_ok() && interval.is_none()).then(|| "too few runs for an interval".to_owned());
        let why = real.err().or(few).map(|why| format!("real: {why}"));
        MustMove {
            machine: place.machine.clone(),
            load: place.load.clone(),
            metric: row.name,
            real_pct,
            real_ci95_pct: interval,
            simulated_pct,
            verdict: rule(real_pct.zip(interval), predicts),
            why: why.or_else(|| simulated.err().map(|why| format!("simulated: {why}"))),
        }
    }
}

#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum ChangeOutcome {
    /// At least one row that must move is known, and all known ones agree.
    Passed,
    /// A known row does not agree.
    Failed,
    /// No row that must move is known.
    NothingKnown,
}

impl ChangeOutcome {
    fn of(rows: &[MustMove]) -> ChangeOutcome {
        let all = |wanted: &[Moves]| rows.iter().all(|r| wanted.contains(&r.verdict));
        match () {
            () if all(&[Moves::NotKnown]) => ChangeOutcome::NothingKnown,
            () if all(&[Moves::NotKnown, Moves::Agrees]) => ChangeOutcome::Passed,
            () => ChangeOutcome::Failed,
        }
    }
    pub fn words(self) -> &'static str {
        match self {
            ChangeOutcome::Passed => "passed",
            ChangeOutcome::Failed => "FAILED",
            ChangeOutcome::NothingKnown => "NOTHING KNOWN: more --runs",
        }
    }
}

/// A case that was run.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct ChangeResult {
    pub name: String,
    /// Its subject.
    pub about: String,
    /// The variant before the change.
    pub from: String,
    /// The variant after it.
    pub to: String,
    /// How the kernel's own code was charged, if it is judged; `None`: our rules are.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub level: Option<Level>,
    /// Real runs of each load under each variant; the fewest where they differ.
    pub runs: usize,
    pub moves: Vec<MustMove>,
    /// All rows that moved.
    pub predicted: Predictions,
    pub outcome: ChangeOutcome,
    pub warnings: Vec<Warning>,
}

#[derive(Clone, Copy, Debug)]
pub struct SwitchedCase<'a> {
    pub name: &'a str,
    /// Its subject.
    pub about: &'a str,
    /// The variant before the change.
    pub from: &'a str,
    /// The variant after it.
    pub to: &'a str,
    /// The rows that must move.
    pub moves: &'a [&'static MetricRow],
}

impl ChangeResult {
    /// Judges a case by the records of both its sides.
    pub fn of(case: &SwitchedCase<'_>, records: &[Record], warnings: Vec<Warning>) -> ChangeResult {
        let places = LoadOnMachine::all(records, case.from, case.to);
        let of = |place| case.moves.iter().map(move |row| MustMove::of(row, place));
        let moves: Vec<MustMove> = places.iter().flat_map(of).collect();
        ChangeResult {
            name: case.name.to_owned(),
            about: case.about.to_owned(),
            from: case.from.to_owned(),
            to: case.to.to_owned(),
            level: records.iter().find_map(|record| record.code.as_ref()).map(|code| code.level),
            runs: places.iter().map(LoadOnMachine::runs).min().unwrap_or(0),
            predicted: predicted(records, case.from, case.to),
            outcome: ChangeOutcome::of(&moves),
            moves,
            warnings,
        }
    }
}

#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct Changes {
    /// Version of the simulator's model.
    pub model: u32,
    /// The cases that were run, in order.
    pub cases: Vec<ChangeResult>,
    /// The cases that could not be run.
    pub not_run: Vec<NotRun>,
    /// Rows of all cases that moved, with a real change that is known.
    pub known: usize,
    /// Those of them that agree in sign and size ([`crate::predicted`]).
    pub agree: usize,
    /// Those whose real change has a sign: 0 is outside its interval.
    pub signed: usize,
    /// Those of them that have the real change's sign.
    pub same_sign: usize,
    /// Rows that moved, but whose real change is unknown.
    pub unknown: usize,
    /// Whether every case was run and passed.
    pub passed: bool,
}

impl Changes {
    pub fn of(cases: Vec<ChangeResult>, not_run: Vec<NotRun>) -> Changes {
        let rows = || cases.iter().flat_map(|c| &c.predicted.rows);
        let good = cases.iter().all(|c| c.outcome == ChangeOutcome::Passed) && !cases.is_empty();
        Changes {
            model: MODEL,
            known: rows().count(),
            agree: rows().filter(|r| r.agrees).count(),
            signed: rows().filter(|r| r.same_sign.is_some()).count(),
            same_sign: rows().filter(|r| r.same_sign == Some(true)).count(),
            unknown: cases.iter().map(|c| c.predicted.unknown).sum(),
            passed: good && not_run.is_empty(),
            cases,
            not_run,
        }
    }
}
