//! The simulator held against real kernels: cases, the one list of metrics, and the rule by which they agree.
//!
//! A simulation is a claim, so it is checked: a case says beforehand how far off each class of metrics may be; the same
//! list of metrics is compared in every case, and all of it is told. Everything here works on records: where they are
//! from is the plan's affair.

mod again;
pub mod case;
pub mod metrics;
mod result;
pub mod rule;
mod running;
pub mod sides;
#[cfg(test)]
mod testing;
mod values;

pub use again::Again;
pub use case::Case;
pub use result::{CaseResult, NotRun, Outcome, Share, Side, Tripled, VALIDATION_SCHEMA, Validation};
pub use rule::{Judged, Verdict};

use crate::drift::{Difference, compared, drift};
use crate::experiment::MAX_RUNS;
use metrics::LIST;
use schedlab_base::Warning;
use schedlab_record::Record;

/// Judges a case by the records of both its sides.
pub fn judge(case: &Case, simulated: &[Record], real: &[Record], warnings: Vec<Warning>) -> CaseResult {
    let rows = LIST.iter().map(|row| rule::judge(row, &case.tolerance, simulated, real)).collect();
    let warnings =
        warnings.into_iter().chain(drifted(case, simulated, real)).chain(again::told(real)).collect();
    CaseResult::of(case, rows, simulated, real, warnings)
}

/// How many times the runs that it asks for a case may make.
pub const MOST_RUNS: u64 = 4;

/// Whether a case needs more runs than `real` to be judged: see [`rule::unsure`]. A control is judged as it is, and so is what a
/// plan could not hold twice.
pub fn wants_more(case: &Case, real: &[Record]) -> bool {
    let made = real.len() as u64;
    let room = made < MOST_RUNS.saturating_mul(case.runs) && made <= MAX_RUNS / 2;
    case.control.is_none() && room && rule::unsure(&case.tolerance, real)
}

/// Where the profile is not the kernel that ran, by that one's own account. A control's is wrong on purpose, and says so
/// itself.
fn drifted(case: &Case, simulated: &[Record], real: &[Record]) -> Vec<Warning> {
    let (Some(mine), Some(theirs), None) = (simulated.first(), real.first(), &case.control) else {
        return Vec::new();
    };
    let Some(kernel) = &mine.resolved else { return Vec::new() };
    let warning = |text: String| Warning::new("validate.drift", text);
    if !compared(&theirs.environment) {
        let text = format!("{} does not tell its scheduler's features here (debugfs)", theirs.kernel);
        return vec![warning(format!(
            "{text}: whether profile {} has the same ones is not known",
            kernel.version
        ))];
    }
    let told = |d: Difference| warning(format!("profile and kernel differ: {}", d.text));
    drift(kernel, &mine.machine, &theirs.environment).into_iter().map(told).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use schedlab_kernel::Kernel;
    use schedlab_machine::Machine;
    use std::path::Path;

    /// What is warned of when the real kernel says this of its features, and v6.1 is simulated on 4 CPUs.
    fn told(features: Option<&str>, control: &str) -> Vec<String> {
        let mut text = String::from(
            "name = \"mine\"\nabout = \"spinning\"\nbackend = \"vm\"\nmachine = \"icount-4\"\n[kernel]\nsimulated = \"v6.1\"\n\
             image = \"6.1\"\n[workload]\nname = \"slice\"\nruntime = \"1s\"\n[tolerance]\n",
        );
        metrics::CLASSES.iter().for_each(|c| text.push_str(&format!("{} = {}\n", c.name, c.vm_pct)));
        let case = case::parse(Path::new("mine.toml"), &format!("{text}{control}")).unwrap();
        let mut mine = testing::record(&[]);
        mine.resolved = Some(Kernel::profile("v6.1").unwrap());
        mine.machine = Machine::load("icount-4").unwrap();
        let mut theirs = testing::record(&[]);
        theirs.kernel = "6.1.0-56".to_owned();
        theirs.environment =
            features.map(|f| ("sched.features".to_owned(), f.to_owned())).into_iter().collect();
        let warnings = judge(&case, &[mine], &[theirs], Vec::new()).warnings;
        warnings.into_iter().filter(|w| w.code == "validate.drift").map(|w| w.message).collect()
    }

    #[test]
    fn a_case_is_run_up_to_four_times_as_often_and_a_control_is_not() {
        let case = |more: &str| {
            let mut text = String::from(
                "name = \"mine\"\nabout = \"spinning\"\nbackend = \"vm\"\nmachine = \"icount-4\"\nruns = 2\n[kernel]\n\
                 simulated = \"v6.1\"\nimage = \"6.1\"\n[workload]\nname = \"slice\"\nruntime = \"1s\"\n[tolerance]\n",
            );
            metrics::CLASSES.iter().for_each(|c| text.push_str(&format!("{} = {}\n", c.name, c.vm_pct)));
            case::parse(Path::new("mine.toml"), &(text + more)).unwrap()
        };
        let wild =
            |n: u64| (1..=n).map(|i| testing::record(&[("migrations", 100 * i * i)])).collect::<Vec<_>>();
        let (mine, control) = (case(""), case("[control]\nwhy = \"slow\"\ntunables = { hz = 100 }\n"));
        assert!(wants_more(&mine, &wild(2)) && wants_more(&mine, &wild(4)));
        assert!(!wants_more(&mine, &wild(8)), "four times what it says");
        assert!(!wants_more(&control, &wild(2)));
        let steady = [testing::record(&[("migrations", 100)]), testing::record(&[("migrations", 101)])];
        assert!(!wants_more(&mine, &steady));
    }

    const OWN: &str = "GENTLE_FAIR_SLEEPERS START_DEBIT LAST_BUDDY CACHE_HOT_BUDDY WAKEUP_PREEMPTION TTWU_QUEUE SIS_UTIL \
                       WA_IDLE WA_WEIGHT WA_BIAS UTIL_EST NI_RANDOM ALT_PERIOD BASE_SLICE";

    #[test]
    fn a_profile_that_is_not_the_kernel_is_told_with_the_case() {
        assert_eq!(told(Some(OWN), ""), [""; 0]);
        let other = OWN.replace("SIS_UTIL", "NO_SIS_UTIL");
        assert_eq!(
            told(Some(&other), ""),
            ["profile and kernel differ: kernel has SIS_UTIL off, profile v6.1 on"]
        );
        let unread = told(None, "");
        assert!(unread.len() == 1 && unread[0].contains("6.1.0-56 does not tell"), "{unread:?}");
        let control = "[control]\nwhy = \"slow\"\ntunables = { hz = 100 }\n";
        assert_eq!(told(Some(&other), control), [""; 0], "a control is wrong on purpose");
    }
}
