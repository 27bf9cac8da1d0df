//! More runs until each row is decided, or a budget is used.
//!
//! After the first look at all rows, loads with undecided rows get twice as many seeds, the loads nearest to a verdict
//! first, and the table is looked at again ([`schedlab_compare::stats::looks`] keeps the chance of a false alarm). Any
//! rule may choose the loads that get more, since the correction holds for each choice. The maker of runs is only asked
//! for seeds a to b of some of a plan's cells.

use crate::make::exec::Finished;
use crate::make::plan::{Plan, Run};
use schedlab_base::{Backend, Error, Ns, Result, Warning, counted, one_or};
use schedlab_compare::comparison::{Comparison, ComparisonRow, Look};
use schedlab_compare::stats::Verdict;
use schedlab_record::Record;
use std::ops::Range;
use std::time::Duration;

/// Looks of a sequence: the last one has eight times the runs of the first.
pub const LOOKS: u32 = 4;

/// The cost that further runs may have.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Budget {
    /// Time, from the first run on. The first look is made anyway.
    Time(Duration),
    /// Runs in addition to the first look's.
    Runs(u64),
    /// Per cent of the first look's runs, in addition to them.
    Part(u64),
}

impl Budget {
    /// The most runs in addition to the `first` look's; `None` if time decides.
    pub fn further_runs(self, first: u64) -> Option<u64> {
        match self {
            Budget::Time(_) => None,
            Budget::Runs(runs) => Some(runs),
            Budget::Part(per_cent) => Some(first * per_cent / 100),
        }
    }
    /// Reads "10m", or a number of further runs.
    ///
    /// # Errors
    /// When it is neither.
    pub fn parse(text: &str) -> Result<Budget> {
        if let Ok(runs) = text.parse() {
            return Ok(Budget::Runs(runs));
        }
        match Ns::parse(text, "") {
            Ok(time) => Ok(Budget::Time(Duration::from_nanos(time.0))),
            Err(_) => Err(Error::input(format!("'{text}' is not a budget"))
                .help("write a time (10m, 90s) or a number of runs (200)")),
        }
    }
}

/// Makes and compares the runs of a sequence of looks.
pub trait LookRuns {
    /// Makes the runs of a part of the plan, or finds them.
    fn make(&mut self, part: &Plan) -> Result<Finished>;
    /// Compares all runs so far.
    ///
    /// # Errors
    /// When they can't be compared.
    fn compare(&self, records: &[Record], warnings: &[Warning]) -> Result<Comparison>;
    /// Time since the first run began.
    fn elapsed(&self) -> Duration;
}

/// The outcome of a sequence of looks.
pub struct Sequence {
    pub finished: Finished,
    /// The plan of all runs.
    pub plan: Plan,
    /// The comparison; after an interruption the one of the finished runs, `None` if they can't be compared.
    pub comparison: Option<Comparison>,
}

/// Makes the runs of a plan as the first look, and continues look by look.
pub fn until_decided(mut plan: Plan, budget: Budget, lab: &mut dyn LookRuns) -> Result<Sequence> {
    let mut finished = lab.make(&plan)?;
    let (first_runs, seed) = (plan.runs.len() as u64, plan.runs.iter().map(|r| r.seed).min().unwrap_or(0));
    let groups = groups(&plan);
    let mut looked = vec![0_usize; groups.len()];
    loop {
        if finished.interrupted {
            let comparison = lab.compare(&finished.records, &finished.warnings).ok();
            return Ok(Sequence { finished, plan, comparison });
        }
        let mut comparison = lab.compare(&finished.records, &finished.warnings)?;
        let made = finished.records.len() - finished.found;
        let each = if made == 0 { Duration::ZERO } else { lab.elapsed() / made as u32 };
        let mut open: Vec<(f64, usize)> = Vec::new();
        for (at, group) in
            groups.iter().enumerate().filter(|(at, _)| looked[*at] + 1 < comparison.looks.len())
        {
            let undecided =
                comparison.comparisons.iter().filter(|r| r.verdict == Verdict::Unclear && group.has(r));
            let near = undecided
                .map(|r| nearness(r, comparison.min_effect_pct))
                .fold(None, |a: Option<f64>, b| Some(a.map_or(b, |a| a.max(b))));
            open.extend(near.map(|near| (near, at)));
        }
        open.sort_by(|a, b| b.0.total_cmp(&a.0).then(a.1.cmp(&b.1)));
        if made == 0 && matches!(budget, Budget::Time(_)) {
            // All runs so far were found, so the duration of one is not known yet: the nearest load shows it.
            open.truncate(1);
        }
        let mut left = Left::of(budget, first_runs, plan.runs.len() as u64, lab.elapsed());
        let seeds = |at: usize| next_seeds(&comparison.looks, looked[at], seed);
        let runs = |at: usize| groups[at].cells.len() as u64 * (seeds(at).end - seeds(at).start);
        let chosen = choose(&open, |at| left.take(runs(at), each));
        if chosen.is_empty() {
            comparison.warnings.extend(left.words(&comparison, open.first().map(|(_, at)| runs(*at)), each));
            return Ok(Sequence { finished, plan, comparison: Some(comparison) });
        }
        let part: Vec<Run> =
            chosen.iter().flat_map(|at| rounds(&groups[*at].cells, seeds(*at), seed)).collect();
        chosen.iter().for_each(|at| looked[*at] += 1);
        plan.runs.extend(&part);
        let more = lab.make(&Plan { cells: plan.cells.clone(), runs: part, warnings: Vec::new() })?;
        finished.found += more.found;
        finished.interrupted = more.interrupted;
        finished.records.extend(more.records);
        finished.warnings.extend(more.warnings);
    }
}

/// The groups with undecided rows that get more seeds now, nearest first. A row whose interval excludes 0 only waits
/// for the correction over the other rows. Such groups come first and alone, up to their last look, since a budget that
/// all groups share would end before any is decided.
fn choose(open: &[(f64, usize)], mut fits: impl FnMut(usize) -> bool) -> Vec<usize> {
    let mut some = |least: f64| -> Vec<usize> {
        open.iter().filter(|(near, at)| *near >= least && fits(*at)).map(|(_, at)| *at).collect()
    };
    let nearly = some(1.0);
    if nearly.is_empty() { some(0.0) } else { nearly }
}

/// The cells that get more seeds together.
struct Group {
    backend: Backend,
    machine: String,
    workload: String,
    load: String,
    cells: Vec<usize>,
}

impl Group {
    fn has(&self, row: &ComparisonRow) -> bool {
        let own = (&self.machine, &self.workload, &self.load);
        row.backend == self.backend && (&row.machine, &row.workload, &row.load) == own
    }
}

fn groups(plan: &Plan) -> Vec<Group> {
    let mut all: Vec<Group> = Vec::new();
    for (at, cell) in plan.cells.iter().enumerate() {
        let is_of = |g: &Group| {
            g.backend == cell.backend
                && (g.machine.as_str(), g.workload.as_str(), g.load.as_str())
                    == (cell.machine.name.as_str(), cell.spec.name(), cell.load.as_str())
        };
        match all.iter_mut().find(|g| is_of(g)) {
            Some(group) => group.cells.push(at),
            None => all.push(Group {
                backend: cell.backend,
                machine: cell.machine.name.clone(),
                workload: cell.spec.name().to_owned(),
                load: cell.load.clone(),
                cells: vec![at],
            }),
        }
    }
    all
}

/// How near an undecided row is to a verdict; 1 would be a verdict. A row shows a change if the interval excludes 0,
/// and sameness if the interval lies within the minimum effect.
fn nearness(row: &ComparisonRow, min_effect_pct: f64) -> f64 {
    let Some((pct, [low, high])) = row.change_pct.zip(row.ci95_pct) else { return 0.5 };
    let to_zero = if pct > 0.0 { pct - low } else { high - pct };
    let change = pct.abs() / to_zero.max(1e-9);
    let same = min_effect_pct / low.abs().max(high.abs()).max(1e-9);
    // A row whose interval excludes 0 already waits for the correction over the other rows.
    if change.is_finite() { change.max(same) } else { same }
}

/// The seeds between a look and the next one.
fn next_seeds(looks: &[Look], looked: usize, first: u64) -> Range<u64> {
    let at = |k: usize| first + looks.get(k).map_or(0, |l| l.runs);
    at(looked)..at(looked + 1)
}

/// All cells once per seed, forwards and backwards in turn, as in [`crate::plan::order`].
fn rounds(cells: &[usize], seeds: Range<u64>, first: u64) -> impl Iterator<Item = Run> {
    let cells = cells.to_vec();
    seeds.flat_map(move |seed| {
        let forwards = (seed - first).is_multiple_of(2);
        let n = cells.len();
        let at = |i: usize| if forwards { i } else { n - 1 - i };
        (0..n).map(|i| Run { cell: cells[at(i)], seed }).collect::<Vec<_>>()
    })
}

/// "0.1 s", "7.2 s", "600 s".
fn seconds(time: Duration) -> String {
    let s = time.as_secs_f64();
    if s < 10.0 { format!("{s:.1} s") } else { format!("{s:.0} s") }
}

/// The rest of a budget.
enum Left {
    Time { used: Duration, all: Duration },
    Runs(u64),
}

impl Left {
    fn of(budget: Budget, first: u64, planned: u64, elapsed: Duration) -> Left {
        let beyond = planned - first;
        match budget {
            Budget::Time(all) => Left::Time { used: elapsed, all },
            Budget::Runs(_) | Budget::Part(_) => {
                Left::Runs(budget.further_runs(first).unwrap_or(0).saturating_sub(beyond))
            }
        }
    }
    /// Takes this many runs if they fit.
    fn take(&mut self, runs: u64, each: Duration) -> bool {
        match self {
            Left::Time { used, all } => {
                let then = *used + each * u32::try_from(runs).unwrap_or(u32::MAX);
                let fits = then <= *all;
                *used = if fits { then } else { *used };
                fits
            }
            Left::Runs(left) => match left.checked_sub(runs) {
                Some(rest) => {
                    *left = rest;
                    true
                }
                None => false,
            },
        }
    }
    /// The reason why no more runs are made; `None` if no row needs any.
    fn words(
        &self,
        c: &Comparison,
        next: Option<u64>,
        each: Duration,
    ) -> Option<schedlab_compare::comparison::CountedWarning> {
        let undecided = c.comparisons.iter().filter(|r| r.verdict == Verdict::Unclear).count();
        if undecided == 0 || c.looks.is_empty() {
            return None;
        }
        let rows = format!(
            "{undecided} of {} {} undecided",
            counted(c.comparisons.len(), "row"),
            one_or(undecided, "is", "are")
        );
        let text = match (next, self) {
            (None, _) => {
                format!("{rows} after the last look, of {} runs", c.looks.last().map_or(0, |l| l.runs))
            }
            (Some(runs), Left::Time { used, all }) => format!(
                "{rows}, and the budget of {} is used: {} of it, and the next {} would take about {} more",
                seconds(*all),
                seconds(*used),
                counted(runs, "run"),
                seconds(each * u32::try_from(runs).unwrap_or(u32::MAX))
            ),
            (Some(runs), Left::Runs(left)) => {
                format!(
                    "{rows}, and the budget is used: {} {} left of it, and the next load needs {runs}; --budget 10m buys more",
                    counted(*left, "run"),
                    one_or(*left, "is", "are")
                )
            }
        };
        Some(schedlab_compare::comparison::CountedWarning {
            warning: Warning::new("budget.used", text),
            runs: 0,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_that_only_wait_for_the_correction_get_their_runs_first() {
        let open = [(3.0, 7), (1.2, 4), (0.9, 1), (0.1, 2)];
        assert_eq!(choose(&open, |_| true), [7, 4]);
        assert_eq!(choose(&open[2..], |_| true), [1, 2]);
        assert_eq!(choose(&open, |at| at < 3), [1, 2], "those that fit, if the nearest do not");
        assert_eq!(choose(&open, |_| false), [0_usize; 0]);
    }
}
