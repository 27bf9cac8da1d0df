//! The losses of a specimen: losses of the variant in the metrics of three classes, over paired seeds.
//!
//! A loss is the median over seeds of the logarithm of the ratio between variant and baseline, positive when the
//! variant is worse. The *spread* is the distance between the baseline's own runs, which differ only in their seed
//! (A/A). Only the part of a loss beyond the spread counts. It is stated in units of its class, so that the classes can
//! be compared: a unit is 5 % less throughput, twice the latency, or a third less CPU time for one kind of tasks.
//!
//! Under a sched_ext scheduler two classes come first. A *failure* is a run in which the scheduler does not last: it
//! counts at once, whatever other seeds show. A *wait* is a task's that is longer than a limit, and longer than any
//! under the baseline with the same seed; a unit is twice as long.

use super::judge::Judge;
use super::specimen::{Specimen, name};
use crate::ask::scx;
use crate::make::exec::{Backends, Executor, LONGEST_WAIT};
use schedlab_base::{Error, Ns, Result};
use schedlab_compare::metrics::evaluate;
use schedlab_record::Record;
use schedlab_workload::Spec;
use std::sync::atomic::AtomicBool;

/// A class of metrics.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Class {
    /// The scheduler does not last.
    Failure,
    /// A task waits longer than the limit.
    Wait,
    /// Work done by all tasks.
    Throughput,
    /// Delays of wakeups, and lengths of runs.
    Latency,
    /// CPU time of one kind of tasks.
    Share,
}

impl Class {
    pub const ALL: [Class; 5] =
        [Class::Failure, Class::Wait, Class::Throughput, Class::Latency, Class::Share];
    /// The first class that a change to a kernel has.
    pub(super) const OF_CHANGES: usize = 2;
    pub const fn name(self) -> &'static str {
        match self {
            Class::Failure => "failure",
            Class::Wait => "wait",
            Class::Throughput => "throughput",
            Class::Latency => "latency",
            Class::Share => "share",
        }
    }
    /// The logarithm of the ratio that is one unit.
    fn unit(self) -> f64 {
        match self {
            Class::Throughput => -libm::log(0.95),
            Class::Latency | Class::Wait | Class::Failure => libm::log(2.0),
            Class::Share => libm::log(1.5),
        }
    }
}

/// Latencies below this count as this, ns.
const LEAST_LATENCY_NS: f64 = 100_000.0;
/// Smaller values count as this, since a ratio needs it.
const LEAST: f64 = 1.0;
/// CPU time of a kind below this counts as this, ns.
const LEAST_SHARE_NS: f64 = 5_000_000.0;
/// The metrics of latency.
const LATENCIES: &[&str] = &["wakeup_delay.p99", "wakeup_delay.p95", "rtapp.run.p95"];
/// A specimen whose first pair of runs shows less than this many units gets no more runs.
const WORTH_A_LOOK: f64 = 0.2;

/// A metric in which the variant may lose.
#[derive(Clone, PartialEq, Debug)]
pub struct Loss {
    pub class: Class,
    /// The metric; of a failure the kernel's words.
    pub metric: String,
    /// The longest wait of any task under the variant and under the baseline, in the pair of runs that shows the wait.
    pub waits: Option<[Ns; 2]>,
    /// Typical ratio of the variant to the baseline, above 1 if the variant is worse.
    pub ratio: f64,
    /// Ratio between the baseline's largest and smallest run.
    pub spread: f64,
    /// The part of the loss beyond the spread, in units of the class; negative if the loss is within. Values below the
    /// class's floor count as the floor here, since twice a tiny latency is not a loss.
    pub units: f64,
}

impl Loss {
    pub fn words(&self) -> String {
        match self.class {
            Class::Failure => self.metric.clone(),
            Class::Wait => match self.waits {
                Some([long, other]) => {
                    format!("a task waits {long} for a CPU, and {other} at most in the baseline")
                }
                None => self.metric.clone(),
            },
            Class::Throughput => format!("{:.1} % less {}", 100.0 * (1.0 - 1.0 / self.ratio), self.metric),
            Class::Latency if self.ratio >= 100.0 => format!("{:.0} times the {}", self.ratio, self.metric),
            Class::Latency => format!("{:.2} times the {}", self.ratio, self.metric),
            Class::Share => format!("{:.0} % less {}", 100.0 * (1.0 - 1.0 / self.ratio), self.metric),
        }
    }
}

/// The largest loss of each class, largest first.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Score(pub Vec<Loss>);

impl Score {
    /// The loss of a class.
    pub fn of(&self, class: Class) -> Option<&Loss> {
        self.0.iter().find(|l| l.class == class)
    }
}

/// Simulates a specimen and scores it; `None` if `stop` ended a run.
pub fn score(specimen: &Specimen, judge: &Judge, stop: &AtomicBool) -> Result<Option<Score>> {
    let text = super::write::rtapp(specimen, &judge.space);
    let spec = Spec::RtApp { file: "hunt.json".to_owned(), text, runtime: Some(judge.runtime) };
    let cells = judge.cells(specimen, &spec)?;
    let mut pairs: Vec<[Record; 2]> = Vec::new();
    for seed in &judge.seeds {
        let mut made = Vec::new();
        for cell in &cells {
            match Backends::default().run(cell, *seed, stop) {
                Ok(Some(run)) => made.push(run.record),
                Ok(None) => return Ok(None),
                Err(e) if scx::has_failed(&cell.variant, &e) => return Ok(Some(failed(&e))),
                Err(e) => return Err(e),
            }
        }
        let Ok(pair) = <[Record; 2]>::try_from(made) else { return Ok(None) };
        pairs.push(pair);
        if pairs.len() == 1 && judge.seeds.len() > 1 {
            let mut one = losses(specimen, judge.limit, &pairs);
            if one.0.first().is_none_or(|l| l.units < WORTH_A_LOOK) {
                // One pair has no spread, so this is not a loss yet.
                one.0.iter_mut().for_each(|l| l.units = l.units.min(0.0));
                return Ok(Some(one));
            }
        }
    }
    Ok(Some(losses(specimen, judge.limit, &pairs)))
}

/// The score of a specimen whose run the scheduler ended. What the image lacks is not the scheduler's fault.
fn failed(e: &Error) -> Score {
    if !scx::has_not_lasted(e) {
        return Score::default();
    }
    let metric = e.message().to_owned();
    Score(vec![Loss { class: Class::Failure, metric, waits: None, ratio: 1.0, spread: 1.0, units: 1.0 }])
}

/// The wait beyond the limit that is typical of the pairs of runs.
fn wait(limit: Ns, pairs: &[[Record; 2]]) -> Option<Loss> {
    let longest = |r: &Record| r.found.counters.get(LONGEST_WAIT).copied().map(Ns);
    let both = |[base, variant]: &[Record; 2]| Some([longest(variant)?, longest(base)?]);
    let mut waits = pairs.iter().map(both).collect::<Option<Vec<[Ns; 2]>>>()?;
    let beyond = |[long, other]: &[Ns; 2]| {
        libm::log(long.0.max(1) as f64) - libm::log((*other).max(limit).0.max(1) as f64)
    };
    waits.sort_by(|a, b| beyond(a).total_cmp(&beyond(b)));
    let typical = *waits.get((waits.len().max(1) - 1) / 2)?;
    Some(Loss {
        class: Class::Wait,
        metric: LONGEST_WAIT.to_owned(),
        ratio: typical[0].0 as f64 / typical[1].0.max(1) as f64,
        waits: Some(typical),
        spread: 1.0,
        units: beyond(&typical) / Class::Wait.unit(),
    })
}

/// The largest loss of each class that the pairs of runs show.
fn losses(specimen: &Specimen, limit: Option<Ns>, pairs: &[[Record; 2]]) -> Score {
    let kinds = (0..specimen.kinds.len()).map(|i| format!("task.{}.cpu_time", name(i)));
    let all = std::iter::once((Class::Throughput, "work".to_owned()))
        .chain(LATENCIES.iter().map(|m| (Class::Latency, (*m).to_owned())))
        .chain(kinds.map(|m| (Class::Share, m)));
    let mut largest: Vec<Loss> = limit.and_then(|limit| wait(limit, pairs)).into_iter().collect();
    for loss in all.filter_map(|(class, metric)| loss(class, metric, pairs)) {
        match largest.iter_mut().find(|l| l.class == loss.class) {
            Some(known) if known.units >= loss.units => {}
            Some(known) => *known = loss,
            None => largest.push(loss),
        }
    }
    largest.sort_by(|a, b| b.units.total_cmp(&a.units));
    Score(largest)
}

/// The loss in one metric; `None` if a run does not have it.
fn loss(class: Class, metric: String, pairs: &[[Record; 2]]) -> Option<Loss> {
    let least = match class {
        Class::Throughput | Class::Failure | Class::Wait => LEAST,
        Class::Latency => LEAST_LATENCY_NS,
        Class::Share => LEAST_SHARE_NS,
    };
    let value = |record: &Record| evaluate(record, &metric).value.number();
    let values =
        pairs.iter().map(|[b, v]| Some((value(b)?, value(v)?))).collect::<Option<Vec<(f64, f64)>>>()?;
    let sign = if class == Class::Latency { 1.0 } else { -1.0 };
    let (typical, spread) = shift_and_spread(&values, sign, least)?;
    let units = (typical - spread) / class.unit();
    let (ratio, spread) = shift_and_spread(&values, sign, LEAST)?;
    Some(Loss { class, metric, waits: None, ratio: libm::exp(ratio), spread: libm::exp(spread), units })
}

/// The median of the logarithms of the pairs' ratios, and the distance between the baseline's logarithms; values below
/// `least` count as `least`.
fn shift_and_spread(values: &[(f64, f64)], sign: f64, least: f64) -> Option<(f64, f64)> {
    let log = |value: f64| libm::log(value.max(least));
    let mut shifts: Vec<f64> = values.iter().map(|(b, v)| sign * (log(*v) - log(*b))).collect();
    shifts.sort_by(f64::total_cmp);
    let typical = *shifts.get((shifts.len().max(1) - 1) / 2)?;
    let base = || values.iter().map(|(b, _)| log(*b));
    Some((typical, base().fold(f64::MIN, f64::max) - base().fold(f64::MAX, f64::min)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use schedlab_base::SchedulerFailure;
    use schedlab_compare::testing::record;

    #[test]
    fn a_wait_counts_beyond_the_limit_and_beyond_the_baselines() {
        let pair =
            |base: u64, variant: u64| [base, variant].map(|ms| record(&[(LONGEST_WAIT, ms * 1_000_000)]));
        let of = |pairs: &[[Record; 2]]| wait(Ns::ms(100), pairs).unwrap();
        let long = of(&[pair(10, 400), pair(10, 200), pair(10, 800)]);
        assert!((long.units - 2.0).abs() < 1e-9, "the typical pair is twice twice the limit: {long:?}");
        assert_eq!(long.words(), "a task waits 400ms for a CPU, and 10ms at most in the baseline");
        assert!(of(&[pair(10, 90)]).units < 0.0, "within the limit");
        assert!(of(&[pair(500, 400)]).units < 0.0, "the baseline's tasks wait longer");
    }

    #[test]
    fn a_scheduler_that_is_thrown_out_fails_and_a_lack_of_ours_does_not() {
        use SchedulerFailure::{Fault, Left, Refused, Stalled, StandsStill, ThrownOut};
        let of = |failure| failed(&Error::input("in any words").of_scheduler(failure));
        for failure in [Stalled, ThrownOut(1025), Left, Fault, StandsStill] {
            let words = of(failure).of(Class::Failure).map(Loss::words);
            assert_eq!(words.as_deref(), Some("in any words"), "{failure:?}");
        }
        assert!(of(Refused).0.is_empty(), "that is not the workload's");
        assert!(failed(&Error::input("the kernel's code failed: it did not last")).0.is_empty());
    }

    #[test]
    fn a_loss_has_the_ratio_of_the_runs_and_units_above_its_floor() {
        let pairs = [[record(&[("migrations", 10_000)]), record(&[("migrations", 28_000_000)])]];
        let one = loss(Class::Latency, "migrations".to_owned(), &pairs).unwrap();
        assert_eq!(one.words(), "2800 times the migrations");
        assert!((one.units - libm::log2(280.0)).abs() < 1e-9, "{}", one.units);
        let small = loss(
            Class::Latency,
            "migrations".to_owned(),
            &[[record(&[("migrations", 10)]), record(&[("migrations", 99)])]],
        );
        assert!(small.is_some_and(|l| l.units == 0.0 && l.words() == "9.90 times the migrations"));
    }
}
