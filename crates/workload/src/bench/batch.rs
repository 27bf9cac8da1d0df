//! Throughput of many simultaneous jobs next to interactive tasks: shows the price of short slices in work per second.
//!
//! Takes the role of AIM and dbench in D004, but is our own program. A job touches its working set in passes, computes,
//! copies blocks into the kernel and back, and sleeps a moment; then the next job begins. An interrupted job finds its
//! caches cold; the length of slices decides how often. Optional wakers are the interactive load: each works a little
//! at every beat of its rate. Their latency is recorded, so that the gain of a remedy (SCHED_BATCH for jobs or wakers)
//! can be compared with its price. A late waker makes up for missed beats; otherwise jobs would gain time for a reason
//! other than slices.
//!
//! The file phase writes a block to a private pipe and reads it back. Like files in the page cache, this enters the
//! kernel and copies the data there and back, but without file system locks, disk or waiting. The sleep stands for all
//! waiting, for disks and for people; it is drawn between half and one and a half times its mean. So every backend does
//! the same operations. Work is stated in touched KB, not in passes, so that a sweep of the set's size does not change
//! it.

use super::draws::Draws;
use super::params::{SECOND, in_mode, mode, runtime, warmup};
use super::slice::{POLICIES, policy};
use crate::build::{Builder, ChannelKind};
use crate::op::{Env, Op, PortId, Program, SeriesId};
use crate::param::{Benchmark, Choice, Param, Params};
use schedlab_base::{Ns, Result};

pub const BATCH: Benchmark = Benchmark {
    name: "batch",
    about: "many jobs of passes over memory, computing, copying and sleeping; jobs per second",
    params: PARAMS,
    headline: &["batch.rate", "batch.latency.p50", "batch.latency.p99", "batch.waker_delay.p99"],
    own: &["batch.rate", "batch.waker_delay.p99"],
    load_param: "jobs",
    brief: &[("runtime", "2s")],
    brief_loads: ["{cpus}", "{cpus*2}"],
    form_of: None,
    build,
};

const US: u64 = 1_000;
const MS: u64 = 1_000_000;

const PARAMS: &[Param] = &[
    Param::count("jobs", None, 16, (1, 10_000), "tasks that do one job after the other"),
    Param::count("set", None, 128, (1, 1 << 20), "working set of each, KB"),
    Param::count(
        "touched",
        None,
        65_536,
        (0, 1 << 30),
        "KB of the set touched in a job, in passes over the set",
    ),
    Param::time("compute", None, "us", MS, (0, 60 * SECOND), "computing in a job"),
    Param::count("blocks", None, 16, (0, 100_000), "blocks of 4 KB copied into the kernel and back in a job"),
    Param::time("sleep", None, "us", 5 * MS, (0, 60 * SECOND), "mean sleep after a job"),
    Param::choice("job_policy", POLICIES, "scheduling policy of the jobs"),
    Param::count("wakers", None, 1, (0, 10_000), "interactive tasks beside the jobs"),
    Param::count("rate", None, 1_000, (1, 1_000_000), "beats of each waker a second"),
    Param::time("burst", None, "us", 50 * US, (0, SECOND), "work of a waker at each beat"),
    Param::choice("waker_policy", POLICIES, "scheduling policy of the wakers"),
    runtime(Some('r'), 10 * SECOND),
    warmup(None),
    mode(&[Choice::word("process"), Choice::word("thread")]),
];

/// Size of a block in the file phase: a page, which fits any pipe.
const BLOCK_BYTES: u32 = 4096;

fn build(params: &Params, b: &mut Builder) -> Result<()> {
    let (jobs, wakers) = (params.count("jobs")?, params.count("wakers")?);
    let set_kb = params.get("set")? as u32;
    let latency = b.series("batch.latency", "ns", "lower");
    let delay = b.series("batch.waker_delay", "ns", "lower");
    let phases = Phases {
        set_kb,
        rounds: params.get("touched")?.div_ceil(u64::from(set_kb)) as u32,
        compute: params.time("compute")?,
        blocks: params.get("blocks")? as u32,
    };
    for n in 0..jobs {
        let file = b.channel(ChannelKind::Pipe);
        let sleep = Draws::new(params.time("sleep")?, b.stream("batch.sleep", n as u64));
        let job = Job { phases, file, sleep, latency, begun: Ns::ZERO, next: Phase::Begin };
        let task = b.task(format!("job/{n}"), Box::new(job))?;
        b.edit(task).footprint_kb = set_kb;
        b.edit(task).attr.policy = policy(params, "job_policy")?;
    }
    let period = Ns(SECOND / params.get("rate")?);
    for n in 0..wakers {
        let first = Ns(b.stream("batch.beat", n as u64).below(0, period.0.max(1)));
        let waker = Waker { burst: params.time("burst")?, period, due: first, delay, asleep: false };
        let task = b.task(format!("waker/{n}"), Box::new(waker))?;
        b.edit(task).attr.policy = policy(params, "waker_policy")?;
    }
    in_mode(params, b)?;
    b.lasts(params.time("runtime")?, params.time("warmup")?);
    Ok(())
}

/// The parts of a job.
#[derive(Clone, Copy)]
struct Phases {
    set_kb: u32,
    rounds: u32,
    compute: Ns,
    blocks: u32,
}

#[derive(Clone, Copy)]
enum Phase {
    Begin,
    Compute,
    /// Number of blocks left to write.
    Write(u32),
    Read(u32),
    Sleep,
}

struct Job {
    phases: Phases,
    /// The pipe's ends, for reading and writing.
    file: (PortId, PortId),
    sleep: Draws,
    latency: SeriesId,
    begun: Ns,
    next: Phase,
}

impl Program for Job {
    fn next(&mut self, env: &mut dyn Env) -> Op {
        let Phases { set_kb, rounds, compute, blocks } = self.phases;
        loop {
            match self.next {
                Phase::Begin => {
                    self.begun = env.now();
                    self.next = Phase::Compute;
                    if rounds > 0 {
                        return Op::Touch { kb: set_kb, rounds };
                    }
                }
                Phase::Compute => {
                    self.next = Phase::Write(blocks);
                    if compute > Ns::ZERO {
                        return Op::Run { work: compute };
                    }
                }
                Phase::Write(0) => self.next = Phase::Sleep,
                Phase::Write(left) => {
                    self.next = Phase::Read(left);
                    return Op::Send { port: self.file.1, bytes: BLOCK_BYTES };
                }
                Phase::Read(left) => {
                    self.next = Phase::Write(left - 1);
                    return Op::Recv { port: self.file.0, bytes: BLOCK_BYTES };
                }
                Phase::Sleep => {
                    let took = env.now().since(self.begun);
                    env.record(self.latency, took.0);
                    self.next = Phase::Begin;
                    return Op::Sleep { length: self.sleep.next() };
                }
            }
        }
    }
}

struct Waker {
    burst: Ns,
    period: Ns,
    /// Time of the next beat.
    due: Ns,
    delay: SeriesId,
    asleep: bool,
}

impl Program for Waker {
    fn next(&mut self, env: &mut dyn Env) -> Op {
        if self.asleep {
            self.asleep = false;
            let now = env.now();
            env.record(self.delay, now.since(self.due).0);
            // A late waker does the work of all missed beats at once: its work is the same under every variant.
            let beats = 1 + now.since(self.due).0 / self.period.0;
            self.due = self.due.plus(Ns(self.period.0 * beats));
            if self.burst > Ns::ZERO {
                return Op::Run { work: Ns(self.burst.0 * beats) };
            }
        }
        self.asleep = true;
        Op::SleepTo { at: self.due }
    }
}

#[cfg(test)]
#[path = "batch_tests.rs"]
mod tests;
