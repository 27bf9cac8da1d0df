//! Today's schbench (2023 and later): message threads hand out requests; workers sleep, compute and answer.
//!
//! As in the original: a request is a short sleep (like a network wait) and then `operations` multiplications of
//! matrices that together fill the footprint. They run under the lock of the worker's CPU; other workers on that CPU
//! spin for it, so preempting the holder hurts. Wakeup latency counts from the message thread's time stamp, one per
//! list of workers. Request latency counts from the start of the sleep. A separate task counts requests once a second.
//! A multiplication is `n` rounds over the footprint, where `n` is the edge of the matrices, because it reads each
//! element that often.
//!
//! Intended differences: with `-R` the original sends all requests of a second in one burst, then sleeps; at low rates
//! it mostly shows the burst's own queue. Here request k is due k/R seconds after the start, and the message threads
//! take turns. A late message thread sends all due requests at once and skips none. Latency counts from a request's due
//! time, so it includes queueing (no coordinated omission). Latencies are ns, including those below a microsecond. The
//! first second's count is not a false zero. The end wakes no task, so no shutdown counts as a latency. The number of
//! workers does not depend on the number of CPUs.

mod lock;
mod message;
mod worker;

use self::lock::CpuLocks;
use self::message::{Message, Paced};
use self::worker::{Inbox, Listed, Queued, Source, Worker};
use super::params::{SECOND, runtime, warmup};
use super::wake_list::{Hub, Seat};
use crate::build::{Builder, MAX_TASKS};
use crate::op::{Env, Op, Program, SeriesId, SlotId};
use crate::param::{Benchmark, Param, Params};
use schedlab_base::{Error, Ns, Result, TaskId};
use std::sync::atomic::Ordering::Relaxed;

pub const SCHBENCH_MODERN: Benchmark = Benchmark {
    name: "schbench-modern",
    about: "today's schbench: wakeup and request latency, requests per second",
    params: PARAMS,
    headline: &[
        "schbench-modern.wakeup_latency.p99",
        "schbench-modern.request_latency.p99",
        "schbench-modern.rps.p50",
    ],
    own: &["schbench-modern.wakeup_latency.p99", "schbench-modern.request_latency.p99"],
    load_param: "threads",
    brief: &[("runtime", "2s")],
    brief_loads: ["{cpus}", "{cpus*2}"],
    form_of: Some(("schbench", "modern")),
    build,
};

const PARAMS: &[Param] = &[
    Param::count("message_threads", Some('m'), 1, (1, 10_000), "message threads, each with its own workers"),
    Param::count(
        "threads",
        Some('t'),
        16,
        (1, 10_000),
        "workers per message thread (the original: one per CPU in all)",
    ),
    runtime(Some('r'), 30 * SECOND),
    Param::time(
        "sleep_usec",
        Some('s'),
        "us",
        100_000,
        (0, 60 * SECOND),
        "sleep at the beginning of a request",
    ),
    Param::count("operations", Some('n'), 5, (0, 1_000_000), "matrix multiplications of a request"),
    Param::count("cache_footprint", Some('F'), 256, (1, 1 << 20), "KB that the matrices take"),
    Param::count(
        "rps",
        Some('R'),
        0,
        (0, 10_000_000),
        "requests per second, evenly paced; 0: each worker asks for the next",
    ),
    Param::flag("no_locking", Some('L'), "compute without taking the lock of the CPU"),
    warmup(Some('w')),
];

#[derive(Clone, Copy)]
struct Recorded {
    wakeup: SeriesId,
    request: SeriesId,
}

/// The parts of a request.
#[derive(Clone, Copy)]
struct Request {
    sleep: Ns,
    operations: u64,
    footprint_kb: u32,
    /// Rounds over the footprint per operation.
    rounds: u32,
}

fn build(params: &Params, b: &mut Builder) -> Result<()> {
    let (hubs, workers) = (params.count("message_threads")?, params.count("threads")?);
    let tasks = hubs * (workers + 1) + 1;
    if tasks > MAX_TASKS {
        return Err(Error::input(format!(
            "message_threads = {hubs} with threads = {workers} each makes {tasks} tasks, more than {MAX_TASKS}"
        ))
        .help("lower message_threads (-m) or threads (-t)"));
    }
    let footprint = params.get("cache_footprint")?;
    let request = Request {
        sleep: params.time("sleep_usec")?,
        operations: params.get("operations")?,
        footprint_kb: footprint as u32,
        // Three matrices of 8-byte elements.
        rounds: (footprint * 1024 / 24).isqrt().max(1) as u32,
    };
    let series = Recorded {
        wakeup: b.series("schbench-modern.wakeup_latency", "ns", "lower"),
        request: b.series("schbench-modern.request_latency", "ns", "lower"),
    };
    let rps = b.series("schbench-modern.rps", "1/s", "higher");
    let locks = (params.get("no_locking")? == 0).then(|| CpuLocks::new(b));
    let mut answered = Vec::new();
    for h in 0..hubs {
        let pace = Pace { rps: params.get("rps")?, hubs: hubs as u64, hub: h as u64 };
        let message = b.next_task();
        let sources = message_thread(pace, h, workers, series, b)?;
        for (w, source) in sources.into_iter().enumerate() {
            let count = b.slot();
            answered.push(count);
            let worker = Worker::new(source, request, locks.clone(), count, series.request);
            let task = b.task(format!("worker-{h}-{w}"), Box::new(worker))?;
            b.edit(task).spawned_by = Some(message);
            b.edit(task).footprint_kb = request.footprint_kb;
        }
    }
    let main = b.task("main", Box::new(Main { answered, rps, at: Ns::ZERO, seen: 0, second: 0 }))?;
    b.edit(main).footprint_kb = 16;
    b.lasts(params.time("runtime")?, params.time("warmup")?);
    Ok(())
}

/// Declares message thread `h`; returns the source of each worker's requests.
fn message_thread(
    pace: Pace,
    h: usize,
    workers: usize,
    series: Recorded,
    b: &mut Builder,
) -> Result<Vec<Source>> {
    let first_worker = TaskId(b.next_task().0 + 1);
    let (program, sources): (Box<dyn Program>, Vec<Source>) = if pace.rps == 0 {
        let hub = Hub::new(b);
        let seats: Vec<Seat> = (0..workers).map(|_| Seat::new(b)).collect();
        let listed = |(n, seat): (usize, &Seat)| {
            Source::Listed(Listed::new(hub.clone(), seat.clone(), n as u64, series.wakeup))
        };
        let sources = seats.iter().enumerate().map(listed).collect();
        (Box::new(Message::new(hub.clone(), seats.clone(), first_worker)), sources)
    } else {
        let inboxes: Vec<Inbox> = (0..workers).map(|_| Inbox::new(b)).collect();
        let queued = |(n, inbox): (usize, &Inbox)| {
            Source::Queued(Queued::new(inbox.clone(), pace, n as u64, workers as u64, series.wakeup))
        };
        let sources = inboxes.iter().enumerate().map(queued).collect();
        (Box::new(Paced::new(pace, inboxes.clone(), first_worker)), sources)
    };
    let message = b.task(format!("message-{h}"), program)?;
    b.edit(message).footprint_kb = 16;
    if pace.rps > 0 {
        b.edit(message).timer_slack = Some(Ns(1));
    }
    Ok(sources)
}

/// The due times of requests: evenly spaced, with the message threads in turn.
#[derive(Clone, Copy)]
struct Pace {
    /// Total requests per second; 0: not paced.
    rps: u64,
    hubs: u64,
    hub: u64,
}

impl Pace {
    /// Due time of this message thread's request `k`.
    fn due(&self, k: u64) -> Ns {
        let number = u128::from(k) * u128::from(self.hubs) + u128::from(self.hub) + 1;
        Ns((number * u128::from(SECOND) / u128::from(self.rps)) as u64)
    }
}

/// Counts answered requests once a second.
struct Main {
    answered: Vec<SlotId>,
    rps: SeriesId,
    /// Time and value of the last count.
    at: Ns,
    seen: u64,
    second: u64,
}

impl Program for Main {
    fn next(&mut self, env: &mut dyn Env) -> Op {
        if self.second > 0 {
            let now = env.now();
            let all = self.answered.iter().map(|s| env.slot(*s).load(Relaxed)).sum::<u64>();
            let length = now.since(self.at).0.max(1);
            let rate = u128::from(all - self.seen) * u128::from(SECOND) / u128::from(length);
            env.record(self.rps, rate as u64);
            (self.at, self.seen) = (now, all);
        }
        self.second += 1;
        Op::SleepTo { at: Ns(self.second * SECOND) }
    }
}

#[cfg(test)]
#[path = "tests.rs"]
mod tests;
