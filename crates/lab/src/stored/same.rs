//! Parts for the events of a simulated run outside the simulator: two sinks for one run, the cast, and the check that a
//! run made again is the stored one.

use schedlab_base::{Error, ErrorKind, Result};
use schedlab_record::{Findings, Wait};

/// Whether a counter or series gives reasons for decisions: a run of the kernel's own code has it only if it was made
/// to be explained.
fn is_of_reasons(name: &str) -> bool {
    ["placement.", "rules.", "slice."].iter().any(|begin| name.starts_with(begin))
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
    let compared = |name: &str| !(explains && is_of_reasons(name));
    let counter =
        again.counters.iter().find(|(name, n)| compared(name) && stored.counters.get(*name) != Some(n));
    let series = again.series.iter().find(|(name, s)| compared(name) && stored.series.get(*name) != Some(s));
    let bare = |found: &Findings| found.waits.iter().map(unexplained).collect::<Vec<_>>();
    let same_waits = stored.waits == again.waits || explains && bare(stored) == bare(again);
    let other = of(stored.duration == again.duration, "its length")
        .or_else(|| counter.map(|(name, _)| name.clone()))
        .or_else(|| series.map(|(name, _)| name.clone()))
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
            counters: [("migrations".to_owned(), migrations)].into(),
            ..Findings::default()
        };
        assert!(check_same(&stored, &again(3)).is_ok());
        let e = check_same(&stored, &again(4)).unwrap_err();
        assert!(e.message().contains("migrations differs"), "{e}");
        let longer = Findings { duration: Ns(11), ..again(3) };
        assert!(check_same(&stored, &longer).unwrap_err().message().contains("its length"));
    }
}
