//! Validation of the simulator against real kernels: cases, the one list of metrics, and the rule of
//! agreement.
//!
//! A case states beforehand how far off each class of metrics may be. The same list of metrics is compared in every
//! case, and all of it is reported. This module works on records; the plan decides where they are made.

pub mod case;
pub mod changes;
pub mod draw;
pub mod facts;
pub mod limits;
mod probing;
mod repeat_disturbed;
mod running;
pub mod sides;
#[cfg(test)]
pub(crate) mod testing;
pub mod verifier;
pub mod wrong;

pub use case::Case;
pub use probing::Probing;
pub use repeat_disturbed::RepeatDisturbed;

use crate::ask::experiment::MAX_RUNS;
use crate::judge::drift::{Difference, compared, drift};
use crate::{Finished, Plan};
use schedlab_base::{Result, Warning};
use schedlab_compare::agreement::rows::LIST;
use schedlab_compare::agreement::{CaseResult, Judgement, RealSide, rule};
use schedlab_record::Record;
use sides::Sides;

/// Judges a case by the records of both its sides.
pub fn judge(case: &Case, simulated: &[Record], real: &[Record], warnings: Vec<Warning>) -> CaseResult {
    let rows = LIST.iter().map(|row| rule::judge(row, &case.tolerance, simulated, real)).collect();
    let warnings = warnings
        .into_iter()
        .chain(drifted(case, simulated, real))
        .chain(repeat_disturbed::warning(real))
        .chain(probing::missing(real))
        .collect();
    CaseResult::of(&judgement(case), rows, simulated, real, warnings)
}

/// Most runs of a case in guests, as a multiple of its requested runs. Counts of hackbench vary much from run to run:
/// even four times three runs give their means only to 30 to 100 %.
pub const MOST_RUNS: u64 = 16;
/// As [`MOST_RUNS`], on the host: its runs take long, and its costs are different a quarter of an hour later.
pub const MOST_HOST_RUNS: u64 = 4;

/// Whether a case needs more runs than `real` to be judged: see [`rule::unsure`]. A control never does, nor does a case
/// whose plan could not hold twice as many.
fn wants_more(case: &Case, real: &[Record]) -> bool {
    let made = real.len() as u64;
    let most = if case.real == case::Real::Host { MOST_HOST_RUNS } else { MOST_RUNS };
    let room = made < most.saturating_mul(case.runs) && made <= MAX_RUNS / 2;
    case.control.is_none() && room && rule::unsure(&case.tolerance, real)
}

/// Runs both sides with `work` and judges them. If the real kernel varies so much that its own means are unknown, the
/// runs are doubled repeatedly, unless their number is `fixed`.
///
/// # Errors
/// The errors of `work`.
pub fn run_and_judge(
    case: &Case,
    mut sides: Sides,
    fixed: bool,
    mut work: impl FnMut(&Plan) -> Result<Finished>,
) -> Result<CaseResult> {
    let mut real = work(&sides.real)?;
    while !fixed && wants_more(case, &real.records) {
        sides = sides.with_runs(case, 2 * real.records.len() as u64)?;
        real = work(&sides.real)?;
    }
    if let Some(probed) = probing::mean(&real.records) {
        sides = sides.costing(&probed)?;
    }
    let simulated = work(sides.code.as_ref().unwrap_or(&sides.simulated))?;
    let tried = wrong::tried(case, sides.right(case), RealSide::Runs(&real.records), &mut work)?;
    let warnings = simulated.warnings.into_iter().chain(real.warnings).collect();
    Ok(judge(case, &simulated.records, &real.records, warnings).beside(&tried))
}

/// Runs only the simulated side and judges it by the real side of an earlier result. Only that result is known about
/// the real kernel.
///
/// # Errors
/// The errors of `work`.
pub fn judge_beside(
    case: &Case,
    sides: &Sides,
    earlier: &CaseResult,
    mut work: impl FnMut(&Plan) -> Result<Finished>,
) -> Result<CaseResult> {
    let real = RealSide::Earlier(earlier);
    let simulated = work(sides.code.as_ref().unwrap_or(&sides.simulated))?;
    let tried = wrong::tried(case, sides.right(case), real, &mut work)?;
    let judge = |row| rule::judge_beside(row, &case.tolerance, &simulated.records, real);
    let rows = LIST.iter().map(judge).collect();
    let result = CaseResult::of(&judgement(case), rows, &simulated.records, &[], simulated.warnings);
    Ok(result.with_real_of(earlier).beside(&tried))
}

fn judgement(case: &Case) -> Judgement<'_> {
    let control = case.control.as_ref().map(|c| c.why.as_str());
    Judgement { name: &case.name, about: &case.about, control }
}

/// Warnings about differences between the profile and the kernel that ran, according to the kernel's own description. A
/// control gets none, since its fault is deliberate.
fn drifted(case: &Case, simulated: &[Record], real: &[Record]) -> Vec<Warning> {
    let (Some(mine), Some(theirs), None) = (simulated.first(), real.first(), &case.control) else {
        return Vec::new();
    };
    let Some(kernel) = &mine.resolved else { return Vec::new() };
    let warning = |text: String| Warning::new("validate.drift", text);
    if !compared(&theirs.found.environment) {
        let text = format!("{} does not show its scheduler's features here (debugfs)", theirs.kernel);
        return vec![warning(format!(
            "{text}: whether profile {} has the same ones is not known",
            kernel.version
        ))];
    }
    let as_warning = |d: Difference| warning(format!("profile and kernel differ: {}", d.text));
    drift(kernel, &mine.machine, &theirs.found.environment).into_iter().map(as_warning).collect()
}

#[cfg(test)]
mod tests {
    use super::testing::case;
    use super::*;
    use crate::ask::cell::Cell;
    use schedlab_compare::testing::record;
    use schedlab_kernel::{Kernel, Variant};
    use schedlab_machine::Machine;
    use schedlab_workload::{Params, Spec};
    use std::sync::Arc;

    /// The warnings when the real kernel has these features, and v6.1 is simulated on 4 CPUs.
    fn warnings_of(features: Option<&str>, control: &str) -> Vec<String> {
        let case = case(control);
        let mut mine = record(&[]);
        mine.resolved = Some(Kernel::profile("v6.1").unwrap());
        mine.machine = Machine::load("icount-4").unwrap();
        let mut theirs = record(&[]);
        theirs.kernel = "6.1.0-56".to_owned();
        theirs.found.environment =
            features.map(|f| ("sched.features".to_owned(), f.to_owned())).into_iter().collect();
        let warnings = judge(&case, &[mine], &[theirs], Vec::new()).warnings;
        warnings.into_iter().filter(|w| w.code == "validate.drift").map(|w| w.message).collect()
    }

    /// The number of runs requested by each call, the real side's first, if migrations grow by `step` from run to run.
    fn asked_for(step: u64, fixed: bool) -> (Vec<usize>, usize) {
        let machine = Arc::new(Machine::load("smp-2").unwrap());
        let spec = Spec::bench("slice", &Params::default()).unwrap();
        let plan = |load: &str| {
            let cell = Cell::simulated(&machine, Variant::plain("v6.1"), spec.clone(), load.to_owned());
            Plan { cells: vec![cell.unwrap()], runs: Vec::new(), warnings: Vec::new() }
        };
        let release = "6.1.0".to_owned();
        let sides = Sides { simulated: plan("simulated"), code: None, real: plan("real"), release };
        let (case, mut asked) = (case(""), Vec::new());
        let sides = sides.with_runs(&case, case.runs).unwrap();
        let judged = run_and_judge(&case, sides, fixed, |plan| {
            if !plan.cells[0].variant.name.starts_with("wrong") {
                asked.push((plan.cells[0].load.clone(), plan.runs.len()));
            }
            let moved = |i: usize| record(&[("migrations", 100 + step * i as u64)]);
            let records = (0..plan.runs.len()).map(moved).collect();
            Ok(Finished { records, found: 0, interrupted: false, warnings: Vec::new() })
        });
        let simulated = judged.unwrap().simulated.unwrap().runs;
        assert_eq!(asked.pop(), Some(("simulated".to_owned(), simulated)), "once, after the real ones");
        assert!(asked.iter().all(|(side, _)| side == "real"));
        (asked.into_iter().map(|(_, runs)| runs).collect(), simulated)
    }

    #[test]
    fn the_real_side_is_run_until_it_is_known_and_the_simulated_one_four_times_as_often() {
        assert_eq!(asked_for(0, false), (vec![2], 8), "steady");
        assert_eq!(asked_for(20, false), (vec![2, 4, 8], 32), "known to 24 % by then");
        assert_eq!(asked_for(500, false), (vec![2, 4, 8, 16, 32], 128), "sixteen times two at most");
        assert_eq!(asked_for(500, true), (vec![2], 8), "the command line says how often");
    }

    #[test]
    fn a_case_is_run_up_to_sixteen_times_as_often_and_a_control_is_not() {
        let wild = |n: u64| (1..=n).map(|i| record(&[("migrations", 100 * i * i)])).collect::<Vec<_>>();
        let (mine, control) = (case(""), case("[control]\nwhy = \"slow\"\ntunables = { hz = 100 }\n"));
        assert!(wants_more(&mine, &wild(2)) && wants_more(&mine, &wild(16)));
        assert!(!wants_more(&mine, &wild(32)), "sixteen times what it says");
        let host = Case { real: case::Real::Host, ..case("") };
        assert!(wants_more(&host, &wild(4)) && !wants_more(&host, &wild(8)), "four times on the host");
        assert!(!wants_more(&control, &wild(2)));
        let steady = [record(&[("migrations", 100)]), record(&[("migrations", 101)])];
        assert!(!wants_more(&mine, &steady));
    }

    const OWN: &str = "GENTLE_FAIR_SLEEPERS START_DEBIT LAST_BUDDY CACHE_HOT_BUDDY WAKEUP_PREEMPTION TTWU_QUEUE SIS_UTIL \
                       WA_IDLE WA_WEIGHT WA_BIAS UTIL_EST NI_RANDOM ALT_PERIOD BASE_SLICE";

    #[test]
    fn a_profile_that_is_not_the_kernel_is_reported_with_the_case() {
        assert_eq!(warnings_of(Some(OWN), ""), [""; 0]);
        let other = OWN.replace("SIS_UTIL", "NO_SIS_UTIL");
        assert_eq!(
            warnings_of(Some(&other), ""),
            ["profile and kernel differ: kernel has SIS_UTIL off, profile v6.1 on"]
        );
        let unread = warnings_of(None, "");
        assert!(unread.len() == 1 && unread[0].contains("6.1.0-56 does not show"), "{unread:?}");
        let control = "[control]\nwhy = \"slow\"\ntunables = { hz = 100 }\n";
        assert_eq!(warnings_of(Some(&other), control), [""; 0], "a control is wrong on purpose");
    }
}
