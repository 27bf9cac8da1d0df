//! The sampler of the slice test: sleeps, reads each watched task's usage since the last sample, records the mean
//! slice.
//!
//! The mean slice is recorded in two ways. First, as the original prints it: per process, user time by ticks divided by
//! involuntary switches, in whole milliseconds; then averaged over processes. So it is a multiple of 1/N ms, and a
//! process with more switches than milliseconds counts as 0. Second, exactly: CPU time of all processes divided by
//! their stays on CPUs. An interval is the clock time between two readings, which is longer than the sleep.

use crate::build::Builder;
use crate::op::{Env, Op, Outcome, Program, SeriesId, Usage};
use schedlab_base::{Ns, TaskId};

#[derive(Clone, Copy)]
pub struct Watched {
    printed: SeriesId,
    exact: SeriesId,
    utime: SeriesId,
    utime_rate: SeriesId,
    cpu_rate: SeriesId,
    involuntary: SeriesId,
    interval: SeriesId,
}

impl Watched {
    /// Declares the series of a program.
    pub fn declare(program: &str, b: &mut Builder) -> Watched {
        let mut series = |name: &str, unit, better| b.series(&format!("{program}.{name}"), unit, better);
        Watched {
            // The document complains about short slices, so higher is better.
            printed: series("printed", "ns", "higher"),
            exact: series("exact", "ns", "higher"),
            utime: series("utime", "ns", "neither"),
            utime_rate: series("utime_rate", "ns/s", "higher"),
            cpu_rate: series("cpu_rate", "ns/s", "higher"),
            involuntary: series("involuntary", "", "lower"),
            interval: series("interval", "ns", "neither"),
        }
    }
}

/// Sleeps, and reads the watched tasks.
pub struct Sampler {
    sleep: Ns,
    /// Sleep before each reading; 0: none.
    pause: Ns,
    /// Whether it has slept before the next reading.
    paused: bool,
    tasks: Vec<TaskId>,
    /// The usage of each task at the last sample.
    before: Vec<Usage>,
    /// The usage of the tasks read so far in this sample.
    read: Vec<Usage>,
    /// Whether it has slept before this sample.
    slept: bool,
    /// Completion time of the last sample.
    since: Ns,
    to: Watched,
}

impl Sampler {
    /// Samples `tasks`, with `sleep` between samples and `pause` before each reading. The first interval counts from
    /// the run's start.
    pub fn new(sleep: Ns, pause: Ns, tasks: Vec<TaskId>, to: Watched) -> Sampler {
        let before = vec![Usage::default(); tasks.len()];
        let read = Vec::with_capacity(tasks.len());
        Sampler { sleep, pause, paused: false, tasks, before, read, slept: false, since: Ns::ZERO, to }
    }

    /// Records the usage since the last sample; the new one must be complete.
    fn record(&mut self, env: &mut dyn Env) {
        let now = env.now();
        let used: Vec<Usage> =
            self.read.iter().zip(&self.before).map(|(now, then)| since(*now, *then)).collect();
        let length = now.since(self.since);
        let seen = Sample::of(&used, length);
        let to = self.to;
        let mut values = vec![
            (to.printed, seen.printed_ns),
            (to.utime, seen.utime_ns),
            (to.utime_rate, seen.utime_rate),
            (to.cpu_rate, seen.cpu_rate),
            (to.involuntary, seen.involuntary),
            (to.interval, length.0),
        ];
        values.extend(seen.exact_ns.map(|ns| (to.exact, ns)));
        env.interval(self.since, length, &values);
        self.since = now;
        std::mem::swap(&mut self.before, &mut self.read);
        self.read.clear();
    }
}

impl Program for Sampler {
    fn next(&mut self, env: &mut dyn Env) -> Op {
        if let Outcome::Used(usage) = env.outcome() {
            self.read.push(usage);
        }
        if self.slept && self.read.len() < self.tasks.len() {
            self.paused = !self.paused && self.pause > Ns::ZERO;
            if self.paused {
                return Op::Sleep { length: self.pause };
            }
            return Op::Usage { task: self.tasks[self.read.len()] };
        }
        if self.slept {
            self.record(env);
        }
        self.slept = true;
        Op::Sleep { length: self.sleep }
    }
}

/// The usage between two readings.
fn since(now: Usage, then: Usage) -> Usage {
    Usage {
        cpu: now.cpu.since(then.cpu),
        ticked: now.ticked.since(then.ticked),
        voluntary: now.voluntary.saturating_sub(then.voluntary),
        involuntary: now.involuntary.saturating_sub(then.involuntary),
    }
}

/// The results of one interval.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Sample {
    /// The original's mean slice, ns.
    pub printed_ns: u64,
    /// CPU time divided by ended stays, over all tasks, ns; `None` without an ended stay.
    pub exact_ns: Option<u64>,
    /// User time by ticks, mean over tasks, ns.
    pub utime_ns: u64,
    /// The same per second of clock time, ns.
    pub utime_rate: u64,
    /// Exact CPU time of all tasks per second of clock time, ns.
    pub cpu_rate: u64,
    /// Involuntary switches of all tasks together.
    pub involuntary: u64,
}

impl Sample {
    /// Sums up the tasks' usage in an interval of `length`. There must be at least one task.
    pub fn of(used: &[Usage], length: Ns) -> Sample {
        let n = used.len().max(1) as u64;
        let sum = |of: fn(&Usage) -> u64| used.iter().map(of).sum::<u64>();
        let (cpu, ticked) = (sum(|u| u.cpu.0), sum(|u| u.ticked.0));
        let involuntary = sum(|u| u.involuntary.into());
        let stays = involuntary + sum(|u| u.voluntary.into());
        let per_second = |ns: u64, over: u64| {
            (u128::from(ns) * 1_000_000_000 / u128::from(length.0.max(1)) / u128::from(over)) as u64
        };
        Sample {
            printed_ns: used.iter().map(whole_ms).sum::<u64>() * 1_000_000 / n,
            exact_ns: cpu.checked_div(stays),
            utime_ns: ticked / n,
            utime_rate: per_second(ticked, n),
            cpu_rate: per_second(cpu, 1),
            involuntary,
        }
    }
}

/// A process's slice as in the original: microseconds of user time divided by involuntary switches, then truncated to
/// milliseconds. Without a preemption the whole user time counts as one slice; the original's behaviour is unknown
/// here.
fn whole_ms(used: &Usage) -> u64 {
    used.ticked.0 / 1_000 / u64::from(used.involuntary.max(1)) / 1_000
}
