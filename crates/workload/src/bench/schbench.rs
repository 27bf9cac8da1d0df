//! schbench as posted in 2016 (D000): message threads wake lists of workers; workers record their waiting times.
//!
//! Important semantics that are kept: the message thread takes one time stamp per wake list and walks a last-in
//! first-out list, so a worker's latency includes the serial wakes before it; the think time is spun on the wall clock,
//! so a preempted worker does not make up lost time; the sleep between lists has new jitter below a quarter of it, the
//! futex time-out has a jitter drawn once per thread; a latency of zero microseconds is not recorded. `-m` works (the
//! posted source parses it but ignores it; `-m 2` gives that behaviour). Times are ns, recorded unrounded.

use super::params::{SECOND, runtime, warmup};
use super::wake_list::{BLOCKED, Hub, NOBODY, Seat, post};
use crate::build::{Builder, MAX_TASKS};
use crate::op::{Env, Op, Outcome, Program, SeriesId};
use crate::param::{Benchmark, Param, Params};
use schedlab_base::{Error, Ns, Result, Stream, TaskId};

pub const SCHBENCH: Benchmark = Benchmark {
    name: "schbench",
    about: "message threads wake workers, workers record their wakeup latency (2016 form)",
    params: PARAMS,
    headline: &["schbench.latency.p50", "schbench.latency.p99", "schbench.latency.p99.9"],
    own: &["schbench.latency.p50", "schbench.latency.p99"],
    load_param: "threads",
    brief: &[("runtime", "5s"), ("message_threads", "1"), ("sleeptime", "1ms"), ("cputime", "1ms")],
    brief_loads: ["{cpus}", "{cpus*2}"],
    form_of: None,
    build,
};

const PARAMS: &[Param] = &[
    Param::count("message_threads", Some('m'), 2, (1, 10_000), "message threads, each with its own workers"),
    Param::count("threads", Some('t'), 16, (1, 10_000), "workers per message thread"),
    runtime(Some('r'), 30 * SECOND),
    Param::time(
        "sleeptime",
        Some('s'),
        "us",
        30_000_000,
        (4_000, 60 * SECOND),
        "sleep of a message thread between wake lists",
    ),
    Param::time(
        "cputime",
        Some('c'),
        "us",
        30_000_000,
        (0, 60 * SECOND),
        "think time a worker spins on the wall clock",
    ),
    warmup(None),
];

fn build(params: &Params, b: &mut Builder) -> Result<()> {
    let (hubs, workers) = (params.count("message_threads")?, params.count("threads")?);
    let (sleep, think) = (params.time("sleeptime")?, params.time("cputime")?);
    let tasks = hubs * (workers + 1);
    if tasks > MAX_TASKS {
        return Err(Error::input(format!(
            "message_threads = {hubs} with threads = {workers} each makes {tasks} tasks, more than {MAX_TASKS}"
        ))
        .help("lower message_threads (-m) or threads (-t)"));
    }
    let latency = b.series("schbench.latency", "ns", "lower");
    for h in 0..hubs {
        let hub = Hub::new(b);
        let seats: Vec<Seat> = (0..workers).map(|_| Seat::new(b)).collect();
        let jitter = b.stream("schbench.jitter", h as u64);
        let first_worker = TaskId(b.next_task().0 + 1);
        let message = b.task(
            format!("message-{h}"),
            Box::new(Message::new(hub.clone(), seats.clone(), first_worker, sleep, jitter)),
        )?;
        b.edit(message).footprint_kb = 16;
        for (w, seat) in seats.into_iter().enumerate() {
            let worker = Worker {
                hub: hub.clone(),
                seat,
                number: w as u64,
                think,
                latency,
                state: WorkerState::Think,
            };
            let task = b.task(format!("worker-{h}-{w}"), Box::new(worker))?;
            b.edit(task).spawned_by = Some(message);
        }
    }
    b.lasts(params.time("runtime")?, params.time("warmup")?);
    Ok(())
}

enum WorkerState {
    /// About to spin.
    Think,
    /// Has spun: gets on the list and posts the message thread.
    Post,
    /// Has posted: waits for the wake.
    Wait,
    Waiting,
}

struct Worker {
    hub: Hub,
    seat: Seat,
    number: u64,
    think: Ns,
    latency: SeriesId,
    state: WorkerState,
}

impl Worker {
    /// Records the time to wake up, once woken.
    fn woken(&self, env: &mut dyn Env) {
        let now = env.now();
        let latency = self.seat.waited(now, env);
        if latency.0 >= 1_000 {
            env.record(self.latency, latency.0);
        }
    }
}

impl Program for Worker {
    fn next(&mut self, env: &mut dyn Env) -> Op {
        loop {
            match self.state {
                WorkerState::Think => {
                    self.state = WorkerState::Post;
                    return Op::SpinTo { at: env.now().plus(self.think) };
                }
                WorkerState::Post => {
                    self.seat.enlist(&self.hub, self.number, env);
                    self.state = WorkerState::Wait;
                    if let Some(wake) = post(self.hub.word, env) {
                        return wake;
                    }
                }
                WorkerState::Wait => {
                    self.state = WorkerState::Waiting;
                    return Op::Wait { word: self.seat.word, value: BLOCKED, until: Ns::MAX };
                }
                WorkerState::Waiting if self.seat.blocked(env) => {
                    self.state = WorkerState::Wait; // woken by a signal or spuriously
                }
                WorkerState::Waiting => {
                    self.woken(env);
                    self.state = WorkerState::Think;
                }
            }
        }
    }
}

enum MessageState {
    /// Starting worker number n.
    Start(usize),
    /// About to take the list.
    Splice,
    /// Wakes the worker in the cell (number plus one).
    Walk(u64),
    /// The list is done: waits for a post.
    Rest,
    /// Waits, or has waited.
    Rested,
}

struct Message {
    hub: Hub,
    seats: Vec<Seat>,
    first_worker: TaskId,
    sleep: Ns,
    /// Draw 0 is the futex time-out's jitter; draws 1.. are the sleeps'.
    jitter: Stream,
    draws: u64,
    state: MessageState,
}

impl Message {
    fn new(hub: Hub, seats: Vec<Seat>, first_worker: TaskId, sleep: Ns, jitter: Stream) -> Message {
        Message { hub, seats, first_worker, sleep, jitter, draws: 0, state: MessageState::Start(0) }
    }
    /// Uniform jitter below a quarter of the sleep, in whole microseconds as in the original.
    fn jitter(&self, draw: u64) -> Ns {
        Ns::us(self.jitter.below(draw, self.sleep.0 / 4_000))
    }
}

impl Program for Message {
    fn next(&mut self, env: &mut dyn Env) -> Op {
        loop {
            match self.state {
                MessageState::Start(n) if n < self.seats.len() => {
                    self.state = MessageState::Start(n + 1);
                    return Op::Spawn { task: TaskId(self.first_worker.0 + n as u32) };
                }
                MessageState::Start(_) => self.state = MessageState::Splice,
                MessageState::Splice => {
                    self.state = MessageState::Walk(self.hub.splice(&self.seats, env));
                }
                MessageState::Walk(NOBODY) => self.state = MessageState::Rest,
                MessageState::Walk(cell) => {
                    let seat = &self.seats[cell as usize - 1];
                    self.state = MessageState::Walk(seat.below(env));
                    if let Some(wake) = post(seat.word, env) {
                        return wake;
                    }
                }
                MessageState::Rest => {
                    self.state = MessageState::Rested;
                    let until = env.now().plus(self.sleep).plus(self.jitter(0));
                    return Op::Wait { word: self.hub.word, value: BLOCKED, until };
                }
                MessageState::Rested => {
                    debug_assert!(!matches!(env.outcome(), Outcome::Count(_)));
                    self.state = MessageState::Splice;
                    self.draws += 1;
                    return Op::Sleep { length: self.sleep.plus(self.jitter(self.draws)) };
                }
            }
        }
    }
}

#[cfg(test)]
#[path = "schbench_tests.rs"]
mod tests;
