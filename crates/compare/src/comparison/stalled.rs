//! Finds work that only one side of a comparison does: runs that are cut off, and tasks that hardly run.
//!
//! A kernel that loses a wakeup may improve every other figure, because a stopped task waits for nothing. So this is
//! checked before any row is judged, and needs no statistics: a workload that ends under one kernel in all seeds, and
//! not under the other, has stopped. Times are CPU time of single tasks in the measured time.

use super::group::CellRuns;
use super::{ComparisonRow, CountedWarning};
use crate::stats::Verdict;
use schedlab_base::{Ns, Origin, Warning, counted, one_or};
use schedlab_kernel::policy::group_of;
use schedlab_record::Record;
use serde::{Deserialize, Serialize};

/// The code of the warning about a run that was cut off ([`schedlab_workload::build::cut_off`]).
pub(super) const CUT_OFF: &str = "run.cut_off";
/// A task that has less than this fraction (1/N) of its partner's CPU time did next to nothing.
const NEXT_TO_NOTHING: u64 = 100;
/// A task counts only if it has at least this fraction (1/N) of the measured time: others may lack work by chance.
const COUNTS_FROM: u64 = 100;

/// A load that only one side of a comparison ran to the end.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Stalled {
    pub backend: Origin,
    pub machine: String,
    pub workload: String,
    pub load: String,
    pub baseline: String,
    pub variant: String,
    /// Whether it stopped under the baseline.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub in_baseline: bool,
    /// The observation, in words.
    pub what: String,
}

impl Stalled {
    /// "pipe pairs on smp-8: cut off under patched after 600s in 6 of 6 runs, under base in none".
    pub fn words(&self) -> String {
        let on = if self.machine.is_empty() { String::new() } else { format!(" on {}", self.machine) };
        format!("{} {}{on}: {}", self.workload, self.load, self.what)
    }
    /// Whether it concerns the variant of a row and is the variant's loss.
    pub fn is_loss_of(&self, variant: &str, baseline: &str) -> bool {
        !self.in_baseline && self.variant == variant && self.baseline == baseline
    }
}

/// The loads that stopped in a group whose baseline is its cell `base`.
pub(super) fn of_group(cells: &[CellRuns<'_>], base: usize) -> Vec<Stalled> {
    let others = cells.iter().enumerate().filter(|(at, _)| *at != base);
    others.flat_map(|(_, cell)| of_pair(&cells[base], cell)).collect()
}

/// A row of a load that stopped under the variant can't be a gain: stopped tasks wait for nothing.
pub(super) fn without_gains(row: ComparisonRow, all: &[Stalled]) -> ComparisonRow {
    let is_of = |s: &Stalled| {
        s.is_loss_of(&row.variant, &row.baseline)
            && (&s.backend, &s.machine, &s.workload, &s.load)
                == (&row.backend, &row.machine, &row.workload, &row.load)
    };
    if row.verdict != Verdict::Better || !all.iter().any(is_of) {
        return row;
    }
    ComparisonRow { verdict: Verdict::Unclear, why: Some("the load stopped".to_owned()), ..row }
}

/// The warnings about runs that were cut off, a line for each cell, except for those that the stalled loads in `known`
/// already mention.
pub(super) fn cut_off_warnings(groups: &[Vec<CellRuns<'_>>], known: &[Stalled]) -> Vec<CountedWarning> {
    let is_known = |cell: &CellRuns<'_>| {
        let run = cell.runs[0];
        let place = (&run.backend, &run.machine.name, &run.workload, &cell.load);
        known.iter().any(|s| (&s.backend, &s.machine, &s.workload, &s.load) == place)
    };
    let one = |cell: &CellRuns<'_>| {
        let cut: Vec<&Warning> =
            cell.runs.iter().filter_map(|r| r.found.warnings.iter().find(|w| w.code == CUT_OFF)).collect();
        let first = cut.first().filter(|_| !is_known(cell))?;
        let text = format!("{} {}, {}: {}", cell.runs[0].workload, cell.load, cell.label, first.message);
        Some(CountedWarning { warning: Warning::new(CUT_OFF, text), runs: cut.len() as u64 })
    };
    groups.iter().flatten().filter_map(one).collect()
}

fn of_pair(base: &CellRuns<'_>, variant: &CellRuns<'_>) -> Option<Stalled> {
    let (in_baseline, what) = cut_off(base, variant).or_else(|| idle_tasks(base, variant))?;
    let run = variant.runs[0];
    Some(Stalled {
        backend: run.backend.clone(),
        machine: run.machine.name.clone(),
        workload: run.workload.clone(),
        load: variant.load.clone(),
        baseline: base.label.clone(),
        variant: variant.label.clone(),
        in_baseline,
        what,
    })
}

/// Whether runs of one side were cut off and none or far fewer of the other. If so: whether that side is the baseline,
/// and a description.
fn cut_off(base: &CellRuns<'_>, variant: &CellRuns<'_>) -> Option<(bool, String)> {
    let number = |cell: &CellRuns<'_>| cell.runs.iter().filter(|r| is_cut_off(r)).count();
    let (of_base, of_variant) = (number(base), number(variant));
    // Compares shares without a division.
    let (b, v) = (of_base * variant.runs.len(), of_variant * base.runs.len());
    let in_baseline = b > v;
    if b.max(v) <= 2 * b.min(v) {
        return None;
    }
    let (stalled, other) = if in_baseline { (base, variant) } else { (variant, base) };
    let after = stalled.runs.iter().find(|r| is_cut_off(r)).map_or(Ns::ZERO, |r| r.found.duration);
    let none = match number(other) {
        0 => "in none".to_owned(),
        n => format!("in {n}"),
    };
    let text = format!(
        "cut off under {} after {after} in {} of {}, under {} {none}{}",
        stalled.label,
        number(stalled),
        counted(stalled.runs.len(), "run"),
        other.label,
        longest(other).map_or_else(String::new, |time| format!(", where it takes {time} at most")),
    );
    Some((in_baseline, text))
}

fn is_cut_off(run: &Record) -> bool {
    run.found.warnings.iter().any(|w| w.code == CUT_OFF)
}

/// The longest run that was not cut off.
fn longest(cell: &CellRuns<'_>) -> Option<Ns> {
    cell.runs.iter().filter(|r| !is_cut_off(r)).map(|r| r.found.duration).max()
}

/// Whether tasks of one side did next to nothing in most seeds, and none of the other side. If so: whether that side is
/// the baseline, and a description.
fn idle_tasks(base: &CellRuns<'_>, variant: &CellRuns<'_>) -> Option<(bool, String)> {
    let partner = |b: &&Record| variant.runs.iter().find(|v| v.seed == b.seed).copied();
    let pairs: Vec<(&Record, &Record)> =
        base.runs.iter().filter_map(|b| Some((*b, partner(b)?))).filter(|(b, v)| are_alike(b, v)).collect();
    let of_variant: Vec<Vec<String>> = pairs.iter().map(|(b, v)| idle_in(v, b)).collect();
    let of_base: Vec<Vec<String>> = pairs.iter().map(|(b, v)| idle_in(b, v)).collect();
    let number = |all: &[Vec<String>]| all.iter().filter(|names| !names.is_empty()).count();
    let (b, v) = (number(&of_base), number(&of_variant));
    let in_baseline = b > v;
    let (all, stalled, other) =
        if in_baseline { (&of_base, base, variant) } else { (&of_variant, variant, base) };
    if 2 * b.max(v) <= pairs.len() || b.min(v) > 0 {
        return None;
    }
    let most = all.iter().max_by_key(|names| names.len())?;
    let mut groups: Vec<&str> = most.iter().map(|name| group_of(name)).collect();
    groups.dedup();
    let text = format!(
        "{} of '{}' {} next to nothing under {} in {} of {}, less than a {NEXT_TO_NOTHING}th of the CPU time that \
         {} under {}",
        counted(most.len(), "task"),
        groups.join("', '"),
        one_or(most.len(), "does", "do"),
        stalled.label,
        b.max(v),
        counted(pairs.len(), "run"),
        one_or(most.len(), "it has", "they have"),
        other.label,
    );
    Some((in_baseline, text))
}

/// Whether two runs have the same tasks.
fn are_alike(a: &Record, b: &Record) -> bool {
    let names = |r: &Record| r.found.tasks.iter().map(|t| t.name.clone()).collect::<Vec<_>>();
    !a.found.tasks.is_empty() && names(a) == names(b)
}

/// The names of tasks that do next to nothing in a run, but something in the `other`.
fn idle_in(run: &Record, other: &Record) -> Vec<String> {
    let least = other.found.duration.0 / COUNTS_FROM;
    let tasks = run.found.tasks.iter().zip(&other.found.tasks);
    let idle = tasks.filter(|(own, theirs)| {
        theirs.cpu_time.0 >= least.max(1) && own.cpu_time.0 < theirs.cpu_time.0 / NEXT_TO_NOTHING
    });
    idle.map(|(own, _)| own.name.clone()).collect()
}

#[cfg(test)]
mod tests {
    use super::super::group::group;
    use super::*;
    use crate::testing;
    use schedlab_kernel::Variant;
    use schedlab_record::TaskAccount;

    /// Runs with seeds 1 to 6 in which tasks have these CPU times, ms; `cut`: the seeds whose runs are cut off.
    fn runs(variant: &str, cpu_ms: [u64; 2], cut: std::ops::RangeInclusive<u64>) -> Vec<Record> {
        let one = |seed: u64| {
            let mut r = testing::record(&[]);
            (r.variant, r.seed) = (Variant::plain(variant), seed);
            let task = |(at, ms): (usize, &u64)| TaskAccount {
                name: format!("worker/{at}"),
                cpu_time: Ns::ms(*ms),
                voluntary: 1,
                involuntary: 0,
                migrations: None,
            };
            r.found.tasks = cpu_ms.iter().enumerate().map(task).collect();
            if cut.contains(&seed) {
                r.found.warnings.push(Warning::new(CUT_OFF, "cut off"));
            }
            r
        };
        (1..=6).map(one).collect()
    }

    fn found(base: Vec<Record>, variant: Vec<Record>) -> Vec<Stalled> {
        let records = [base, variant].concat();
        of_group(&group(&records)[0], 0)
    }

    const NONE: std::ops::RangeInclusive<u64> = 0..=0;

    #[test]
    fn a_side_that_is_cut_off_alone_has_stopped() {
        let whole = || runs("base", [500, 500], NONE);
        let [one] = &found(whole(), runs("patched", [500, 500], 1..=6))[..] else { panic!("it is cut off") };
        assert!(!one.in_baseline && one.is_loss_of("patched", "base"), "{one:?}");
        let words = one.words();
        for part in ["slice default on tiny", "under patched after 1s in 6 of 6 runs", "under base in none"] {
            assert!(words.contains(part), "{part}: {words}");
        }
        let gain = found(runs("base", [500, 500], 1..=2), runs("patched", [500, 500], NONE));
        assert!(gain[0].in_baseline && !gain[0].is_loss_of("patched", "base"));
        assert_eq!(found(runs("base", [1, 1], 1..=4), runs("patched", [1, 1], 1..=6)), [], "both are");
    }

    #[test]
    fn a_stopped_load_gains_nothing() {
        let waits = |variant: &str, n: u64, cut| {
            let mut all = runs(variant, [500, 500], cut);
            all.iter_mut().for_each(|r| {
                r.found.counters.insert("migrations".to_owned(), n + r.seed);
            });
            all
        };
        let records = [waits("base", 900, NONE), waits("patched", 100, 1..=6)].concat();
        let question = super::super::Question {
            metrics: vec!["migrations".to_owned()],
            ..super::super::Question::default()
        };
        let c = super::super::compare(&records, &question, &[]).unwrap();
        let row = &c.comparisons[0];
        assert!(row.change_pct.unwrap() < -80.0, "{row:?}");
        assert_eq!((row.verdict, row.why.as_deref()), (Verdict::Unclear, Some("the load stopped")));
        assert_eq!(c.stalled.len(), 1);
    }

    #[test]
    fn a_task_that_hardly_runs_on_one_side_has_stopped() {
        let whole = || runs("base", [500, 300], NONE);
        let [one] = &found(whole(), runs("patched", [500, 1], NONE))[..] else {
            panic!("a task stands still")
        };
        assert!(one.what.starts_with("1 task of 'worker' does next to nothing under patched in 6 of 6 runs"));
        assert!(found(runs("base", [500, 0], NONE), runs("patched", [500, 300], NONE))[0].in_baseline);
        assert_eq!(found(whole(), runs("patched", [500, 4], NONE)), [], "a slow task is a row's matter");
        assert_eq!(
            found(whole(), whole().into_iter().map(|r| Record { seed: r.seed + 9, ..r }).collect()),
            []
        );
        // Tasks that swap roles have not stopped.
        assert_eq!(found(runs("base", [500, 0], NONE), runs("patched", [0, 500], NONE)), []);
        let idle = || runs("base", [500, 5], NONE);
        assert_eq!(found(idle(), runs("patched", [500, 0], NONE)), [], "it had hardly anything to do before");
    }
}
