//! Why a run's longest waits were long: the tail split by cause, and the story of the worst waits.
//!
//! The tail is all waits beyond p99 of `wakeup_delay`. A record keeps a limited number of the longest waits. If the
//! tail has more, the explanation says so and covers those that were kept. Times are nanoseconds.

pub mod samples;
mod text;
mod versus;

pub use text::{beyond, explain_text, of_kept};
pub use versus::{CauseOfTwo, Versus, VersusPart, VersusSide, versus, versus_text};

use crate::conserve::Chance;
use crate::metric::{Stat, Value};
use crate::wait::{Wait, WaitCause};
use crate::{Record, evaluate};
use schedlab_base::Backend;
use serde::Serialize;
use std::collections::BTreeMap;

const SERIES: &str = "wakeup_delay";

/// The percentile beyond which waits are the tail.
const TAIL: &str = "p99";

/// The explanation of a run's longest waits.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct Explanation {
    /// The run, in words.
    pub run: String,
    /// Number of waits and their lengths: statistic and value in ns.
    pub delays: Vec<(String, Value)>,
    /// The statistic that cuts off the tail.
    pub stat: String,
    /// Waits longer than the cut, kept or not.
    pub beyond: u64,
    /// Their time, summed. Waits that were not kept count to the histogram's resolution.
    pub beyond_time_ns: u64,
    /// The tail by cause.
    pub tail: TailSplit,
    /// The worst waits, longest first.
    pub worst: Vec<Explained>,
    /// Notes for the reader.
    pub notes: Vec<String>,
}

/// A wait with its cause.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct Explained {
    /// The cause's name.
    pub cause: &'static str,
    /// The wait itself.
    #[serde(flatten)]
    pub wait: Wait,
    /// CPUs that were free meanwhile, and what was done for them; known when the run has been made again.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub idle_meanwhile: Option<Chance>,
}

/// Waits beyond a cut, by cause.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct TailSplit {
    /// Waits longer than this are split; `None`: all waits that were kept.
    pub cut_ns: Option<u64>,
    /// Number of those waits.
    pub waits: u64,
    /// Their time, summed.
    pub time_ns: u64,
    /// Causes that occurred, by time, largest first.
    pub causes: Vec<TailCause>,
}

/// One cause's share of the tail.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct TailCause {
    /// The cause's name.
    pub cause: &'static str,
    /// The cause in a sentence.
    pub about: &'static str,
    /// Waits with this cause.
    pub waits: u64,
    /// Their time, summed.
    pub time_ns: u64,
    /// How these waits ended: the reason why the task before left (a `SwitchReason` name; "idle": the CPU was idle),
    /// and its count.
    pub ended_why: BTreeMap<String, u64>,
}

/// Splits the waits longer than `cut_ns` (`None`: all) by cause.
pub fn split_tail(waits: &[Wait], cut_ns: Option<u64>) -> TailSplit {
    let mut shares: BTreeMap<WaitCause, TailCause> = BTreeMap::new();
    for wait in waits.iter().filter(|w| cut_ns.is_none_or(|cut| w.length_ns > cut)) {
        let cause = wait.cause();
        let share = shares.entry(cause).or_insert_with(|| TailCause {
            cause: cause.name(),
            about: cause.about(),
            waits: 0,
            time_ns: 0,
            ended_why: BTreeMap::new(),
        });
        share.waits += 1;
        share.time_ns = share.time_ns.saturating_add(wait.length_ns);
        *share.ended_why.entry(wait.ended_why.clone()).or_default() += 1;
    }
    let mut causes: Vec<TailCause> = shares.into_values().collect();
    // Stable: causes with the same time stay in the order of the table.
    causes.sort_by_key(|s| std::cmp::Reverse(s.time_ns));
    TailSplit {
        cut_ns,
        waits: causes.iter().map(|s| s.waits).sum(),
        time_ns: causes.iter().fold(0, |sum, s| sum.saturating_add(s.time_ns)),
        causes,
    }
}

/// Explains a run's tail beyond p99 and its `worst` longest waits.
pub fn explain(record: &Record, worst: usize) -> Explanation {
    explain_beyond(record, TAIL, worst)
}

/// Explains the tail beyond another statistic of the waits; `max` is the longest wait alone.
pub fn explain_beyond(record: &Record, tail_stat: &str, worst: usize) -> Explanation {
    let stat = |name: &str| evaluate(record, &format!("{SERIES}.{name}"));
    let cut = stat(tail_stat);
    let below = u64::from(tail_stat == "max");
    let cut_ns = cut.number().map(|n| (n as u64).saturating_sub(below));
    let tail = split_tail(&record.found.waits, cut_ns);
    let counted = record.found.series.get(SERIES).map_or(0, |s| match cut_ns {
        Some(cut) => s.count_above(cut),
        None => s.count(),
    });
    let kept_ns = tail.time_ns;
    let beyond_time_ns =
        kept_ns.saturating_add(time_of_least(record, cut_ns, counted.saturating_sub(tail.waits)));
    let explained = |w: &Wait| Explained { cause: w.cause().name(), wait: w.clone(), idle_meanwhile: None };
    let mut shown = vec!["count", "p50", TAIL, "p99.9", "max"];
    if !shown.contains(&tail_stat) {
        shown.insert(2, tail_stat);
    }
    Explanation {
        run: run_of(record),
        delays: shown.iter().map(|name| ((*name).to_owned(), stat(name))).collect(),
        // A wait in the bucket of the cut may be kept but not counted.
        beyond: counted.max(tail.waits),
        stat: tail_stat.to_owned(),
        beyond_time_ns,
        notes: notes(record, tail_stat, &cut, counted, tail.waits),
        tail,
        worst: record.found.waits.iter().take(worst).map(explained).collect(),
    }
}

/// The time of the `waits` shortest waits beyond the cut, by the histogram: of those that were not kept.
fn time_of_least(record: &Record, cut_ns: Option<u64>, waits: u64) -> u64 {
    let Some(series) = record.found.series.get(SERIES) else { return 0 };
    let (mut left, mut time_ns) = (waits, 0_u64);
    for (value, n) in series.values().filter(|(value, _)| cut_ns.is_none_or(|cut| *value > cut)) {
        let taken = n.min(left);
        time_ns = time_ns.saturating_add(value.saturating_mul(taken));
        left -= taken;
    }
    time_ns
}

impl Explanation {
    /// Adds the chances of the worst waits, in their order; `None` where the run made again had no such wait.
    pub fn add_chances(&mut self, chances: Vec<Option<Chance>>) {
        if chances.iter().any(Option::is_none) {
            self.notes.push(
                "made again, the run had not all of these waits: which CPUs were idle is shown for the others only"
                    .to_owned(),
            );
        }
        for (worst, chance) in self.worst.iter_mut().zip(chances) {
            worst.idle_meanwhile = chance;
        }
    }
}

/// The run of a record in one line.
pub fn run_of(record: &Record) -> String {
    let Record { workload, load, machine, variant, backend, seed, .. } = record;
    format!("{workload} {load} on {}, {}, {backend}, seed {seed}", machine.name, variant.name)
}

fn notes(record: &Record, stat: &str, cut: &Value, counted: u64, kept: u64) -> Vec<String> {
    let mut notes = Vec::new();
    match (cut, record.found.series.get(SERIES)) {
        (Value::Missing(why), Some(_)) => {
            notes.push(format!("there is no {stat} ({why}): all waits that were kept are split"));
        }
        (Value::Missing(why), None) => notes.push(format!("{SERIES} is missing: {why}")),
        (Value::Number(_), _) => {}
    }
    if kept < counted {
        notes.push(format!(
            "the record keeps the {kept} longest of {} there: the split leaves the shorter ones out",
            schedlab_base::counted(counted, "wait")
        ));
    }
    notes.extend(record.found.warnings.iter().map(|w| w.message.clone()));
    notes.extend(reasons_missing(record));
    notes
}

/// What is said of a run that shows what the kernel did, and not why.
pub fn reasons_missing(record: &Record) -> Option<String> {
    let text = "reasons are missing: the kernel's own code does not say why it decides, only the simulator's rules do";
    (record.backend == Backend::Code).then(|| text.to_owned())
}

/// Whether the statistic is a count and not a time.
fn is_count(stat: &str) -> bool {
    Stat::parse(stat) == Some(Stat::Count)
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use crate::wait::Occupant;
    use crate::{Better, Series};
    use schedlab_base::{Backend, CpuId, Ns};

    pub(crate) fn wait(length_ns: u64) -> Wait {
        Wait {
            task: "worker-3".into(),
            woken_at: Ns::ms(1234),
            length_ns,
            enqueue_ns: 2_000,
            waker: Some("message-0".into()),
            waker_cpu: CpuId(4),
            chosen_cpu: CpuId(5),
            placement: Some("target_busy".into()),
            probes: 12,
            occupant: Some(Occupant { task: "worker-9".into(), ran_ns: 50_000, fresh: true }),
            nr_running: 2,
            ran_on: CpuId(5),
            moved: None,
            ended_by: Some("worker-9".into()),
            ended_why: "slice".into(),
            idle_exit_ns: 0,
        }
    }

    pub(crate) fn idle(length_ns: u64) -> Wait {
        Wait {
            waker: None,
            occupant: None,
            nr_running: 1,
            ended_by: None,
            ended_why: "idle".into(),
            idle_exit_ns: 50_000,
            placement: Some("idle_core".into()),
            ..wait(length_ns)
        }
    }

    pub(crate) fn record() -> Record {
        let mut r = crate::tests::record(1);
        let mut delays = Series::new("ns", Better::Lower);
        (0..1980).for_each(|_| delays.record(50_000));
        r.found.waits = (0..20).map(|i| wait(10_000_000 - i * 100_000)).collect();
        r.found.waits[19] = idle(800_000);
        r.found.waits.iter().for_each(|w| delays.record(w.length_ns));
        r.found.series.insert(SERIES.into(), delays);
        r
    }

    #[test]
    fn the_tail_is_split_by_cause_and_time() {
        let e = explain(&record(), 3);
        assert_eq!((e.beyond, e.tail.waits, e.worst.len()), (20, 20, 3));
        let got: Vec<(&str, u64)> = e.tail.causes.iter().map(|s| (s.cause, s.waits)).collect();
        assert_eq!(got, [("stacked", 19), ("idle_exit", 1)]);
        assert_eq!(e.tail.causes[0].ended_why, BTreeMap::from([("slice".to_owned(), 19)]));
        assert_eq!(e.tail.time_ns, e.tail.causes.iter().map(|s| s.time_ns).sum::<u64>());
        assert!(e.notes.is_empty(), "{:?}", e.notes);
    }

    #[test]
    fn what_was_not_kept_or_not_measured_is_said() {
        let mut r = record();
        r.found.waits.truncate(5);
        let e = explain(&r, 10);
        assert_eq!((e.beyond, e.tail.waits, e.worst.len()), (20, 5, 5));
        // All 20 waits, to the resolution of the histogram, and not the 5 alone.
        let all: u64 = record().found.waits.iter().map(|w| w.length_ns).sum();
        assert!(e.beyond_time_ns.abs_diff(all) < all / 50 && e.tail.time_ns < all / 2, "{e:?}");
        let text = explain_text(&e).replace('\n', " ");
        assert!(
            text.contains("20 waits beyond p99 (50us); about 173") && text.contains("of the 5 longest"),
            "{text}"
        );
        assert!(e.notes[0].contains("5 longest of 20"), "{:?}", e.notes);
        r.found.series.clear();
        r.found.waits.clear();
        r.backend = Backend::Host.into();
        assert!(explain(&r, 10).notes[0].contains("it takes every event"));
    }

    #[test]
    fn each_cause_has_its_wait() {
        let moved = Wait { moved: Some("idle".into()), ran_on: CpuId(7), ..wait(9) };
        let placing = Wait { enqueue_ns: 8, ..wait(9) };
        let base = || Wait { enqueue_ns: 0, ..wait(9) };
        let stale = || Some(Occupant { task: "x".into(), ran_ns: 5_000_000, fresh: false });
        let raced = Wait { occupant: None, nr_running: 2, ..base() };
        let queue = Wait { occupant: stale(), nr_running: 3, ..base() };
        let preempted = Wait { occupant: stale(), ended_why: "wakeup".into(), ..base() };
        let behind = Wait { occupant: stale(), ..base() };
        let causes = [moved, placing, idle(90_000), raced, queue, preempted, behind].map(|w| w.cause());
        assert_eq!(causes, WaitCause::ALL);
    }

    #[test]
    fn the_text_tells_it_within_78_columns() {
        let mut r = record();
        r.found.waits[1] = Wait { moved: Some("newidle".into()), ran_on: CpuId(47), ..wait(9_900_000) };
        r.found.waits[2] = idle(9_800_000);
        let text = explain_text(&explain(&r, 3));
        assert!(text.lines().all(|l| l.chars().count() <= 78), "{text}");
        let golden = include_str!("golden.txt");
        assert!(text == golden, "{text}");
    }
}
