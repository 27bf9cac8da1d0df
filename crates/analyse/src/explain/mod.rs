//! Explains why a run's longest waits were long: the tail split by cause, and a description of the worst waits.
//!
//! The tail is all waits that are longer than p99 of `wakeup_delay`: at most one in a hundred. p99 is a wait's length;
//! waits of the same length are ties and not in the tail, so the tail may be empty. A record keeps a limited number of
//! the longest waits. If the tail has more, the explanation says so and covers the kept ones; the percentile is then
//! known only to the histogram's resolution. Times are nanoseconds.

pub mod samples;
mod text;
mod versus;

pub use text::{beyond, explain_text, of_kept};
pub use versus::{CauseOfTwo, Versus, VersusPart, VersusSide, versus, versus_text};

use crate::conserve::Chance;
use schedlab_base::Backend;
use schedlab_record::metric::{Stat, Value};
use schedlab_record::wait::{Wait, WaitCause};
use schedlab_record::{Record, Series, evaluate};
use serde::Serialize;
use std::collections::BTreeMap;

const SERIES: &str = "wakeup_delay";

/// The percentile beyond which waits are in the tail.
const TAIL: &str = "p99";

/// The explanation of a run's longest waits.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct Explanation {
    pub run: String,
    /// Statistics of all waits: name and value in ns, and their number.
    pub delays: Vec<(String, Value)>,
    /// The statistic at which the tail begins.
    pub stat: String,
    /// Number of waits longer than the cut, kept or not.
    pub beyond: u64,
    /// The sum of their lengths. Waits that were not kept count with the histogram's resolution.
    pub beyond_time_ns: u64,
    pub tail: TailSplit,
    /// The worst waits, longest first.
    pub worst: Vec<Explained>,
    pub notes: Vec<String>,
}

/// A wait with its cause.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct Explained {
    pub cause: &'static str,
    #[serde(flatten)]
    pub wait: Wait,
    /// CPUs that were free during the wait, and the balancing done for them; known only if the run was made again.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub idle_meanwhile: Option<Chance>,
}

/// Waits beyond a cut, by cause.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct TailSplit {
    /// Waits longer than this are split; all kept waits if `None`.
    pub cut_ns: Option<u64>,
    /// Number of these waits.
    pub waits: u64,
    /// The sum of their lengths.
    pub time_ns: u64,
    /// Causes that occurred, largest time first.
    pub causes: Vec<TailCause>,
}

#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct TailCause {
    pub cause: &'static str,
    /// The cause in a sentence.
    pub about: &'static str,
    pub waits: u64,
    /// The sum of their lengths.
    pub time_ns: u64,
    /// How these waits ended, with counts: the reason why the task before left (a `SwitchReason` name; "idle": the CPU
    /// was idle).
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
    // Stable: causes with equal time stay in the table's order.
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

/// Explains the tail beyond another statistic of the waits. For `max` it is the longest wait only.
pub fn explain_beyond(record: &Record, tail_stat: &str, worst: usize) -> Explanation {
    let stat = |name: &str| evaluate(record, &format!("{SERIES}.{name}"));
    let cut = stat(tail_stat);
    let Tail { split: tail, counted, ties } = tail_beyond(record, tail_stat, &cut);
    let beyond_time_ns =
        tail.time_ns.saturating_add(time_of_least(record, tail.cut_ns, counted.saturating_sub(tail.waits)));
    let explained = |w: &Wait| Explained { cause: w.cause().name(), wait: w.clone(), idle_meanwhile: None };
    let mut shown = vec!["count", "p50", TAIL, "p99.9", "max"];
    if !shown.contains(&tail_stat) {
        shown.insert(2, tail_stat);
    }
    Explanation {
        run: run_of(record),
        delays: shown.iter().map(|name| ((*name).to_owned(), stat(name))).collect(),
        beyond: counted,
        stat: tail_stat.to_owned(),
        beyond_time_ns,
        notes: notes(record, tail_stat, &cut, (&tail, counted, ties)),
        tail,
        worst: record.found.waits.iter().take(worst).map(explained).collect(),
    }
}

/// The tail of a record's waits.
struct Tail {
    split: TailSplit,
    /// Number of waits beyond the cut, kept or not.
    counted: u64,
    /// Number of waits that rank above the percentile but are as long as it.
    ties: u64,
}

/// The waits beyond a statistic whose value is `cut`. `found.waits` are the longest ones, longest first.
fn tail_beyond(record: &Record, stat: &str, cut: &Value) -> Tail {
    let waits = &record.found.waits;
    let series = record.found.series.get(SERIES);
    let Some((value, series)) = cut.number().map(|n| n as u64).zip(series) else {
        let split = split_tail(waits, None);
        return Tail { counted: series.map_or(split.waits, |s| s.count()), split, ties: 0 };
    };
    let ranked = match Stat::parse(stat) {
        Some(Stat::Percentile(milli)) => series.tail_samples_above(f64::from(milli) / 1000.0),
        // Only the longest wait, and its ties.
        Some(Stat::Max) => {
            let split = split_tail(waits, Some(value.saturating_sub(1)));
            return Tail { counted: split.waits.max(1), split, ties: 0 };
        }
        _ => {
            let split = split_tail(waits, Some(value));
            return Tail { counted: series.count_above(value).max(split.waits), split, ties: 0 };
        }
    };
    // The kept wait of that rank gives the percentile to the ns.
    let exact = usize::try_from(ranked).ok().and_then(|rank| waits.get(rank));
    if let Some(exact) = exact.filter(|w| Series::bucket_end(w.length_ns) == Series::bucket_end(value)) {
        let split = split_tail(waits, Some(exact.length_ns));
        return Tail { counted: split.waits, ties: ranked.saturating_sub(split.waits), split };
    }
    let end = Series::bucket_end(value);
    let split = TailSplit { cut_ns: Some(value), ..split_tail(waits, Some(end)) };
    let counted = series.count_above(end).max(split.waits);
    Tail { counted, ties: ranked.saturating_sub(counted), split }
}

/// The summed time of the `waits` shortest waits beyond the cut, which were not kept, from the histogram.
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
    /// Adds the chances of the worst waits, in their order; `None` if the run made again lacks the wait.
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

/// Describes the run of a record in one line.
pub fn run_of(record: &Record) -> String {
    let Record { workload, load, machine, variant, backend, seed, .. } = record;
    format!("{workload} {load} on {}, {}, {backend}, seed {seed}", machine.name, variant.name)
}

fn notes(
    record: &Record,
    stat: &str,
    cut: &Value,
    (tail, counted, ties): (&TailSplit, u64, u64),
) -> Vec<String> {
    let mut notes = Vec::new();
    match (cut, record.found.series.get(SERIES)) {
        (Value::Missing(why), Some(_)) => {
            notes.push(format!("there is no {stat} ({why}): all waits that were kept are split"));
        }
        (Value::Missing(why), None) => notes.push(format!("{SERIES} is missing: {why}")),
        (Value::Number(_), _) => {}
    }
    if ties > 0 {
        let ties = format!("{ties} of the {} that rank above {stat} are as long as {stat}", ties + counted);
        notes.push(match counted {
            0 => format!("no wait is longer than {stat}: {ties}, so there is no tail to split"),
            _ => format!("{ties}: they are ties, and not in the tail"),
        });
    }
    if tail.waits < counted {
        notes.push(format!(
            "the record keeps the {} longest of {} there: the split leaves the shorter ones out",
            tail.waits,
            schedlab_base::counted(counted, "wait")
        ));
    }
    notes.extend(record.found.warnings.iter().map(|w| w.message.clone()));
    notes.extend(scheduler(record));
    notes.extend(reasons_missing(record).or_else(|| rules_share(record)));
    notes
}

/// The sched_ext scheduler of a run, and how it ended.
pub fn scheduler(record: &Record) -> Option<String> {
    let about = |name: &str| record.found.environment.get(name).filter(|text| !text.is_empty());
    let (ops, exit) = (about("scx.ops")?, about("scx.exit")?);
    let said = about("scx.said").map_or_else(String::new, |said| format!(" ({said})"));
    Some(format!("the tasks ran under the sched_ext scheduler {ops}: {exit}{said}"))
}

/// The note for a run whose source reports the kernel's actions but not its reasons.
pub fn reasons_missing(record: &Record) -> Option<String> {
    let by = match record.found.environment.contains_key("scx.ops") {
        true => "the sched_ext scheduler's operations, and our rules where the kernel decides",
        false => "our rules",
    };
    (record.backend == Backend::Code && !record.found.counters.contains_key("rules.choices")).then(|| {
        format!("reasons are missing: the kernel's own code does not say why it decides; the run made again does, by {by}")
    })
}

/// How many decisions of the kernel's own code our rules share, where they were asked.
pub fn rules_share(record: &Record) -> Option<String> {
    let count = |name: &str| record.found.counters.get(name).copied();
    let (choices, asked, shared) = (count("rules.choices")?, count("rules.asked")?, count("rules.shared")?);
    let without = count("rules.unexplained").unwrap_or(0).saturating_add(asked.saturating_sub(shared));
    let (checks, same) = (count("rules.checks_asked")?, count("rules.checks_shared")?);
    let all_but = |but: u64, whole: u64| match but {
        0 => format!("all {whole}"),
        _ => format!("all but {but} of {whole}"),
    };
    let by_ext = count("rules.by_ext").unwrap_or(0);
    let mut text = match by_ext {
        0 => String::new(),
        n => format!("{n} choices of a CPU are the sched_ext scheduler's, as are their reasons; the other "),
    };
    text.push_str(&format!(
        "reasons are our rules': {} choices of a CPU by the kernel's own code have one",
        all_but(without, choices)
    ));
    if asked > 0 {
        let other = asked.saturating_sub(shared);
        text.push_str(&format!(
            "; where our rules were asked they chose the same CPU in {}",
            all_but(other, asked)
        ));
    }
    if checks > 0 {
        let other = checks.saturating_sub(same);
        text.push_str(&format!("; they judged {} preemption checks as the code", all_but(other, checks)));
    }
    let (picks, same) = (count("rules.picks_asked").unwrap_or(0), count("rules.picks_shared").unwrap_or(0));
    if picks > 0 {
        let other = picks.saturating_sub(same);
        text.push_str(&format!("; they picked the same entity in {} picks", all_but(other, picks)));
    }
    text.push_str("; what balancing was tried is not explained");
    Some(text)
}

/// Whether the statistic is a count and not a time.
fn is_count(stat: &str) -> bool {
    Stat::parse(stat) == Some(Stat::Count)
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use schedlab_base::{Backend, CpuId, Ns};
    use schedlab_record::wait::{Decision, Occupant};
    use schedlab_record::{Better, Series};

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
            decided: Vec::new(),
            decisions: 0,
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
        let mut r: Record = serde_json::from_value(serde_json::json!({
            "schema": schedlab_record::RECORD_SCHEMA, "model": schedlab_record::MODEL, "backend": Backend::Sim,
            "machine": {
                "name": "tiny", "about": "", "costs": {}, "idle_states": [], "background": [],
                "topology": { "cpus": [], "node_distance": [] },
            },
            "kernel": "v4.5", "variant": schedlab_kernel::Variant::plain("v4.5"),
            "workload": "schbench", "spec": {"threads": 24}, "load": "2x24", "seed": 1, "duration": Ns::secs(1),
            "series": {}, "counters": {}, "waits": [], "warnings": [], "resolved": null,
            "environment": schedlab_record::environment::simulated(),
        }))
        .unwrap();
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
    fn ties_at_the_percentile_are_not_beyond_it() {
        // The longest 30 of 1000 waits are equal except for two, and p99 is one of the equal ones.
        let of = |longest: &[u64]| {
            let mut r = record();
            r.found.waits = longest.iter().chain(&[7_000_000; 30]).map(|ns| wait(*ns)).collect();
            let mut delays = Series::new("ns", Better::Lower);
            (r.found.waits.len()..1000).for_each(|_| delays.record(50_000));
            r.found.waits.iter().for_each(|w| delays.record(w.length_ns));
            r.found.series.insert(SERIES.into(), delays);
            r
        };
        let some = of(&[9_000_000, 8_000_000]);
        let e = explain(&some, 3);
        assert_eq!((e.beyond, e.tail.waits, e.tail.cut_ns), (2, 2, Some(7_000_000)));
        assert!(e.notes[0].contains("8 of the 10 that rank above p99 are as long as p99"), "{:?}", e.notes);
        // Longer than the percentile, but in its bucket.
        let near = explain(&of(&[7_001_000, 7_000_001]), 3);
        assert_eq!((near.beyond, near.tail.cut_ns), (2, Some(7_000_000)));
        let none = explain(&of(&[]), 3);
        assert_eq!((none.beyond, none.tail.waits, none.beyond_time_ns), (0, 0, 0));
        assert!(none.notes[0].contains("no wait is longer than p99"), "{:?}", none.notes);
        assert!(explain_text(&none).contains("no tail"), "{}", explain_text(&none));
        // The two runs differ only in which ties were kept.
        let v = versus(&of(&[]), &none_by_cause(&of(&[])));
        assert!(
            v.causes.is_empty() && v.notes.iter().all(|n| n.contains("no wait is longer")),
            "{:?}",
            v.notes
        );
    }

    /// The same waits with another cause.
    fn none_by_cause(r: &Record) -> Record {
        let mut r = r.clone();
        r.found.waits = r.found.waits.iter().map(|w| idle(w.length_ns)).collect();
        r
    }

    #[test]
    fn a_tail_with_waits_not_kept_is_at_most_one_percent() {
        let mut r = record();
        let mut delays = Series::new("ns", Better::Lower);
        (0..20_000_u64).for_each(|i| delays.record(1_000_000 + i));
        r.found.waits = (0..100).map(|i| wait(1_019_999 - i)).collect();
        r.found.series.insert(SERIES.into(), delays);
        let e = explain(&r, 0);
        assert!(e.beyond <= 200 && e.tail.waits <= e.beyond, "{} of 20000, {} kept", e.beyond, e.tail.waits);
    }

    #[test]
    fn notes_name_waits_not_kept_and_values_not_measured() {
        let mut r = record();
        r.found.waits.truncate(5);
        let e = explain(&r, 10);
        assert_eq!((e.beyond, e.tail.waits, e.worst.len()), (20, 5, 5));
        // All 20 waits count, to the histogram's resolution, and not only the 5 kept.
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
        let into = |to: &str, after_ns| Decision {
            after_ns,
            by: "enqueue".into(),
            on: CpuId(4),
            to: to.into(),
            of: None,
            dsq: None,
        };
        let held = Wait { enqueue_ns: 0, decided: vec![into("held", 0), into("local", 6)], ..wait(9) };
        let shared = Wait {
            enqueue_ns: 0,
            decided: vec![into("user", 0), into("kicked", 1), into("local", 8)],
            moved: Some("ext_taken".into()),
            ran_on: CpuId(7),
            ..wait(9)
        };
        let moved = Wait { moved: Some("idle".into()), ran_on: CpuId(7), ..wait(9) };
        let placing = Wait { enqueue_ns: 8, ..wait(9) };
        let base = || Wait { enqueue_ns: 0, ..wait(9) };
        let stale = || Some(Occupant { task: "x".into(), ran_ns: 5_000_000, fresh: false });
        let raced = Wait { occupant: None, nr_running: 2, ..base() };
        let queue = Wait { occupant: stale(), nr_running: 3, ..base() };
        let preempted = Wait { occupant: stale(), ended_why: "wakeup".into(), ..base() };
        let behind = Wait { occupant: stale(), ..base() };
        assert_eq!(shared.queue_words(), "enqueue: user DSQ for 8ns, enqueue: local DSQ for 1ns");
        let causes =
            [held, shared, moved, placing, idle(90_000), raced, queue, preempted, behind].map(|w| w.cause());
        assert_eq!(causes, WaitCause::ALL);
    }

    #[test]
    fn the_text_has_at_most_78_columns() {
        let mut r = record();
        r.found.waits[1] = Wait { moved: Some("newidle".into()), ran_on: CpuId(47), ..wait(9_900_000) };
        r.found.waits[2] = idle(9_800_000);
        let text = explain_text(&explain(&r, 3));
        assert!(text.lines().all(|l| l.chars().count() <= 78), "{text}");
        let golden = include_str!("golden.txt");
        assert!(text == golden, "{text}");
    }
}
