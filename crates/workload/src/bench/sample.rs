//! The sampler of the slice test: sleeps, reads the usage of every watched task since then, and records the mean slice.
//!
//! The mean slice is recorded in two ways. The first is as the original prints it: user time as ticks see it, divided
//! by involuntary switches, in whole milliseconds, for each process by itself, then averaged over processes. So it is a
//! multiple of 1/N ms, and a process with more switches than milliseconds counts as 0. The second is exact: time on a
//! CPU divided by stays on a CPU, of all processes together. An interval is the time between two readings by the clock,
//! which is longer than the sleep.

use crate::build::Builder;
use crate::op::{Env, Op, Outcome, Program, SeriesId, Usage};
use schedlab_base::{Ns, TaskId};

/// The series that the sampler records to.
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
    /// Declares the series, under a program's name.
    pub fn declare(program: &str, b: &mut Builder) -> Watched {
        let mut series = |name: &str, unit, better| b.series(&format!("{program}.{name}"), unit, better);
        Watched {
            // The document complains of short slices.
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

/// The sampler: sleeps, and reads the tasks it watches.
pub struct Sampler {
    sleep: Ns,
    /// The sleep before each reading; 0: none.
    pause: Ns,
    /// Whether it has slept for the next reading.
    paused: bool,
    tasks: Vec<TaskId>,
    /// The usage of each task at the last sample.
    before: Vec<Usage>,
    /// The usage of the tasks that were read so far in this sample.
    read: Vec<Usage>,
    /// Whether it has slept yet.
    slept: bool,
    /// The time at which the last sample was complete.
    since: Ns,
    to: Watched,
}

impl Sampler {
    /// A sampler of `tasks` that sleeps for `sleep` between two samples, and for `pause` before each reading. The first
    /// interval counts from the run's start.
    pub fn new(sleep: Ns, pause: Ns, tasks: Vec<TaskId>, to: Watched) -> Sampler {
        let before = vec![Usage::default(); tasks.len()];
        let read = Vec::with_capacity(tasks.len());
        Sampler { sleep, pause, paused: false, tasks, before, read, slept: false, since: Ns::ZERO, to }
    }

    /// Records the usage since the last sample, now that the new one is complete.
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

/// One interval.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Sample {
    /// The mean slice as the original prints it, ns.
    pub printed_ns: u64,
    /// Time on a CPU divided by the stays that ended, of all tasks together, ns; `None` when none ended.
    pub exact_ns: Option<u64>,
    /// User time by ticks, mean over tasks, ns.
    pub utime_ns: u64,
    /// The same per second of the clock, ns.
    pub utime_rate: u64,
    /// Exact time on a CPU per second of the clock, all tasks together, ns.
    pub cpu_rate: u64,
    /// Involuntary switches of all tasks together.
    pub involuntary: u64,
}

impl Sample {
    /// Sums up the usage of tasks in an interval of `length`; there must be one task at least.
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

/// A process's slice as the original computes it: microseconds of user time divided by involuntary switches, then whole
/// milliseconds. The user time of a process that was never preempted counts as one slice; the original's behaviour is
/// not known there.
fn whole_ms(used: &Usage) -> u64 {
    used.ticked.0 / 1_000 / u64::from(used.involuntary.max(1)) / 1_000
}
