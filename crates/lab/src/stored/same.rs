//! The check that a run made again is the stored one.

use schedlab_base::{Error, ErrorKind, Result};
use schedlab_record::findings::{is_of_reasons, is_of_task_group};
use schedlab_record::{Findings, Series, Wait};
use std::collections::BTreeMap;

/// Whether a run that was made to be explained may have another value than one that was not. Rules move stays from
/// `preempted` to another reason.
fn moves_with_reasons(name: &str) -> bool {
    is_of_reasons(name) || name == "slice.end.preempted" || name == "slice.preempted"
}

/// The first name, of those that are compared, whose values differ or that only one side has.
fn differing<'a, T: PartialEq>(
    a: &'a BTreeMap<String, T>,
    b: &'a BTreeMap<String, T>,
    compared: impl Fn(&str) -> bool,
) -> Option<String> {
    a.keys().chain(b.keys()).find(|name| compared(name) && a.get(*name) != b.get(*name)).cloned()
}

/// Stays of tasks, summed over the reasons of their ends: how many are counted, how many there are, and how long they
/// are together. Rules move a stay from one reason to another.
fn stays(found: &Findings) -> (u64, u64, u128) {
    let counted =
        found.counters.iter().filter(|(name, _)| name.starts_with("slice.end.")).map(|(_, n)| n).sum();
    let stays = || found.series.iter().filter(|(name, _)| name.starts_with("slice.")).map(|(_, s)| s);
    (counted, stays().map(Series::count).sum(), stays().map(Series::sum).sum())
}

/// A wait without the facts that only a run made to be explained has.
fn unexplained(wait: &Wait) -> Wait {
    Wait { placement: None, probes: 0, ended_why: String::new(), ..wait.clone() }
}

/// Refuses a run made again whose findings differ from the stored record.
pub(crate) fn check_same(stored: &Findings, again: &Findings) -> Result<()> {
    let of = |same: bool, what: &str| (!same).then(|| what.to_owned());
    let is_explained = |found: &Findings| found.counters.contains_key("rules.choices");
    let explains = is_explained(again) && !is_explained(stored);
    let compared = |name: &str| !(explains && moves_with_reasons(name));
    let is_new = |name: &str| {
        name.starts_with("group./") && name.ends_with(".cpu_time") && !stored.counters.contains_key(name)
    };
    let counter = differing(&again.counters, &stored.counters, |name| compared(name) && !is_new(name));
    // Records of older versions have no times of task groups.
    let lacks = |name: &str| is_of_task_group(name) && !stored.series.contains_key(name);
    let series = differing(&again.series, &stored.series, |name| compared(name) && !lacks(name));
    let bare = |found: &Findings| found.waits.iter().map(unexplained).collect::<Vec<_>>();
    let same_waits = stored.waits == again.waits || explains && bare(stored) == bare(again);
    let other = of(stored.duration == again.duration, "its length")
        .or(counter)
        .or(series)
        .or_else(|| of(stays(stored) == stays(again), "slice.*"))
        .or_else(|| of(stored.tasks == again.tasks, "the accounts of its tasks"))
        .or_else(|| of(stored.stays == again.stays, "its stays by CPU"))
        .or_else(|| of(same_waits, "its longest waits"));
    match other {
        None => Ok(()),
        Some(what) => Err(Error::new(
            ErrorKind::CheckFailed,
            format!("simulated again, the run is another one than the stored: {what} differs"),
        )
        .help("this build does not simulate as the one that made the run; make it anew, with --keep-events to keep its events")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use schedlab_base::Ns;

    #[test]
    fn another_run_is_refused_and_named() {
        let stored = Findings {
            duration: Ns(10),
            counters: [("migrations".to_owned(), 3), ("sim.events".to_owned(), 9)].into(),
            ..Findings::default()
        };
        let again = |migrations| Findings {
            duration: Ns(10),
            counters: [("migrations".to_owned(), migrations), ("sim.events".to_owned(), 9)].into(),
            ..Findings::default()
        };
        assert!(check_same(&stored, &again(3)).is_ok());
        let e = check_same(&stored, &again(4)).unwrap_err();
        assert!(e.message().contains("migrations differs"), "{e}");
        let less = Findings { counters: [("sim.events".to_owned(), 9)].into(), ..again(3) };
        let e = check_same(&stored, &less).unwrap_err();
        assert!(e.message().contains("migrations differs"), "only the stored run has it: {e}");
        let longer = Findings { duration: Ns(11), ..again(3) };
        assert!(check_same(&stored, &longer).unwrap_err().message().contains("its length"));
    }

    #[test]
    fn stays_may_have_other_reasons_in_a_run_that_is_explained_and_no_other_number() {
        let of = |counters: &[(&str, u64)]| Findings {
            counters: counters.iter().map(|(name, n)| ((*name).to_owned(), *n)).collect(),
            ..Findings::default()
        };
        let stored = of(&[("slice.end.blocked", 2), ("slice.end.preempted", 5)]);
        let asked = ("rules.choices", 1);
        let again = [("slice.end.blocked", 2), ("slice.end.wakeup", 4), ("slice.end.slice", 1), asked];
        assert!(check_same(&stored, &of(&again)).is_ok());
        let fewer = of(&[("slice.end.blocked", 2), ("slice.end.wakeup", 4), asked]);
        assert!(check_same(&stored, &fewer).unwrap_err().message().contains("slice.* differs"));
        let slept = of(&[("slice.end.blocked", 3), ("slice.end.wakeup", 4), asked]);
        assert!(check_same(&stored, &slept).unwrap_err().message().contains("slice.end.blocked differs"));
    }
}
