//! A recorded schedule in the question about a limit: its groups, and the metrics by which a limit is judged there.
//!
//! A schedule has no programs that measure their requests. The group's busy periods stand for them; where it never
//! sleeps, or requests queue up and so are one period, its threads' waits for a CPU tell more.

use schedlab_base::Result;
use schedlab_compare::stats::series::MIN_TAIL_SAMPLES;
use schedlab_workload::Spec;
use schedlab_workload::replay::{Schedule, Step};
use std::collections::BTreeMap;

/// Tails that are shown, the farthest first, with the samples of which one lies beyond.
const TAILS: [(&str, u64); 4] = [("p99", 100), ("p95", 20), ("p90", 10), ("p75", 4)];
/// Under another limit a group may have this much fewer busy periods than it had.
const FEWER: u64 = 2;
/// Other groups whose waits are shown.
const MOST_OTHERS: usize = 2;

/// The paths of the groups in a recorded schedule.
///
/// # Errors
/// When the workload can't be built.
pub fn recorded_groups(spec: &Spec) -> Result<Vec<String>> {
    Ok(spec.build(0)?.groups.into_iter().skip(1).map(|group| group.path).collect())
}

/// The metrics of a recorded group; `periods` is how often it was busy in the recording, if that is known. The mean is
/// always there, so that two recordings of one service have answers that compare.
pub(super) fn metrics(group: &str, periods: Option<u64>) -> Vec<String> {
    let own = |metric: &str| format!("group.{group}.{metric}");
    let tail = TAILS.iter().find(|(_, of)| periods.is_none_or(|n| n >= FEWER * of * MIN_TAIL_SAMPLES));
    let busy = ["mean", "p50"].into_iter().chain(tail.map(|(tail, _)| *tail));
    let busy = busy.filter(|_| periods != Some(0)).map(|stat| own(&format!("busy.{stat}")));
    let waits = ["run_delay.mean"].map(own);
    busy.chain(waits).collect()
}

/// The waits of the other groups that used most: those in no relation to this one, at the highest level.
///
/// # Errors
/// When the schedule can't be read.
pub fn other_groups(spec: &Spec, group: &str) -> Result<Vec<String>> {
    let Spec::Replay { file, text, .. } = spec else { return Ok(Vec::new()) };
    let top = |path: &str| format!("/{}", path.split('/').nth(1).unwrap_or_default());
    let mut used: BTreeMap<String, u64> = BTreeMap::new();
    for part in Schedule::read(file, text)?.parts.iter().filter(|part| !part.background) {
        let Some(path) = part.group.as_deref().map(top).filter(|path| *path != top(group)) else { continue };
        let work = part.steps.iter().map(|step| if let Step::Run(ns) = step { ns.0 } else { 0 });
        *used.entry(path).or_default() += work.sum::<u64>();
    }
    let mut all: Vec<(u64, String)> = used.into_iter().map(|(path, work)| (work, path)).collect();
    all.sort_by(|a, b| b.cmp(a));
    Ok(all.into_iter().take(MOST_OTHERS).map(|(_, path)| format!("group.{path}.run_delay.mean")).collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use schedlab_workload::replay::Prices;

    #[test]
    fn the_tail_is_one_that_the_periods_have_and_a_group_that_never_sleeps_has_waits_alone() {
        let text = "schedlab-schedule 1 9000
task start=0 nice=0 rt=0 background=0 tid=1 group=/a/b name=x
r9
task start=0 nice=0 rt=0 background=0 tid=2 group=/a/c name=sibling
r99
task start=0 nice=0 rt=0 background=0 tid=3 group=/light name=y
r8
task start=0 nice=0 rt=0 background=0 tid=4 group=/heavy/z name=y
r80
task start=0 nice=0 rt=0 background=1 tid=5 group=/machine name=y
r800
";
        let spec = Spec::replay("x", text.to_owned(), Prices::default()).unwrap();
        let of = |periods| metrics("/a/b", periods).join(" ").replace("group./a/b.", "");
        assert_eq!(of(None), "busy.mean busy.p50 busy.p99 run_delay.mean");
        assert_eq!(of(Some(2000)), "busy.mean busy.p50 busy.p99 run_delay.mean");
        assert_eq!(of(Some(1999)), "busy.mean busy.p50 busy.p95 run_delay.mean");
        assert_eq!(of(Some(30)), "busy.mean busy.p50 run_delay.mean");
        assert_eq!(of(Some(0)), "run_delay.mean");
        let beside = other_groups(&spec, "/a/b").unwrap();
        assert_eq!(beside, ["group./heavy.run_delay.mean", "group./light.run_delay.mean"]);
    }
}
