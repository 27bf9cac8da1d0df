//! A server of one process with a pool of threads and a garbage collector that runs on the same threads: the role of a
//! Go program with GOMAXPROCS threads.
//!
//! Requests are due at a rate, whether the server keeps up or not, each within its turn at a time that the seed draws.
//! A request is cut into `parts`, which any threads of the pool take in order; its latency counts from when it was due
//! to the end of its last part. After every `gc_every` requests the thread that ended one begins a collection:
//!
//! 1. It stops the world: it waits until every other thread has come to a safepoint or has nothing to do. A thread
//!    comes to one after at most `safepoint` of work, so that only one that does not run holds the pause up: one that
//!    waits for a CPU, or whose group has used its quota.
//! 2. The pool marks, `gc_work` of CPU time in all. A quarter of the threads do nothing else until that is done, as
//!    Go's dedicated workers; if a quarter is not a whole number that comes near, each thread marks for a part of its
//!    time instead. Threads without a request mark, too.
//! 3. The thread that marks the last piece stops the world again.
//!
//! Left out of Go: assists (threads that allocate much while the pool marks help), the pacer (when a collection begins)
//! and the threads that wait in system calls.

mod thread;

use super::params::{SECOND, runtime, warmup};
use crate::build::Builder;
use crate::op::{Env, Op, Program, SeriesId, SlotId, WordId};
use crate::param::{Benchmark, Param, Params};
use schedlab_base::{Ns, Result, Stream};
use std::sync::Arc;
use std::sync::atomic::Ordering::SeqCst;
use thread::Thread;

pub const POOL: Benchmark = Benchmark {
    name: "pool",
    about: "a pool of threads that serves requests at a rate, and its garbage collector (a Go server)",
    params: PARAMS,
    headline: &["pool.latency.p50", "pool.latency.p99", "pool.pause.mean"],
    own: &["pool.latency.p99", "pool.pause.mean"],
    load_param: "rate",
    brief: &[("runtime", "500ms"), ("gc_every", "50")],
    brief_loads: ["{cpus*100}", "{cpus*400}"],
    form_of: None,
    build,
};

const PARAMS: &[Param] = &[
    Param::count("threads", None, 8, (1, 1024), "threads of the pool (GOMAXPROCS)"),
    Param::count("rate", None, 500, (1, 1_000_000), "requests per second"),
    Param::time("work", None, "us", 1_000_000, (1_000, 10 * SECOND), "mean CPU time of a request"),
    Param::count("parts", None, 1, (1, 1024), "parts of a request, which threads serve side by side"),
    Param::count("gc_every", None, 200, (0, 1_000_000_000), "requests between two collections; 0: none"),
    Param::time("gc_work", None, "ms", 100_000_000, (0, 100 * SECOND), "CPU time of a collection's marking"),
    Param::time(
        "gc_pause",
        None,
        "us",
        50_000,
        (0, SECOND),
        "CPU time of what is done while the world stands",
    ),
    Param::time("safepoint", None, "us", 50_000, (1_000, SECOND), "longest work between two safepoints"),
    runtime(Some('r'), 10 * SECOND),
    warmup(None),
];

/// Requests that are served at a time, at most, before counts of their parts mix: far more than threads.
const OPEN: usize = 4096;
/// From this distance of a whole number of threads from a quarter, threads mark for a part of their time, as in Go.
const FAR_PCT: u64 = 30;

fn build(params: &Params, b: &mut Builder) -> Result<()> {
    b.callers(&["client"]);
    let pool = Pool {
        work: params.time("work")?,
        rate: params.get("rate")?,
        parts: params.get("parts")?,
        gc_every: params.get("gc_every")?,
        gc_work: params.time("gc_work")?,
        gc_pause: params.time("gc_pause")?,
        safepoint: params.time("safepoint")?,
        threads: params.get("threads")?,
        draws: b.stream("pool.request", 0),
        dues: b.stream("pool.due", 0),
        latency: b.series("pool.latency", "ns", "lower"),
        pause: b.series("pool.pause", "ns", "lower"),
        collection: b.series("pool.collection", "ns", "lower"),
        words: Words::new(b),
    };
    let pool = Arc::new(pool);
    b.task("client/0".to_owned(), Box::new(Client { pool: pool.clone(), request: 0, ring: 0 }))?;
    for n in 0..params.count("threads")? {
        b.task(format!("worker/{n}"), Box::new(Thread::of(&pool)))?;
    }
    b.lasts(params.time("runtime")?, params.time("warmup")?);
    Ok(())
}

/// What all tasks of a pool know.
struct Pool {
    work: Ns,
    rate: u64,
    parts: u64,
    gc_every: u64,
    gc_work: Ns,
    gc_pause: Ns,
    safepoint: Ns,
    threads: u64,
    draws: Stream,
    dues: Stream,
    latency: SeriesId,
    pause: SeriesId,
    collection: SeriesId,
    words: Words,
}

/// What they share.
struct Words {
    /// Parts that have arrived, and those that were taken.
    arrived: SlotId,
    taken: SlotId,
    /// Rises with every reason for an idle thread to look again. They wait on it.
    bell: WordId,
    /// Threads that wait on the bell, or are about to.
    idle: SlotId,
    /// Threads that may run anything.
    active: SlotId,
    /// 1 while the world is to stand. Threads that came to a safepoint wait on it.
    stop: WordId,
    /// Rises when a thread has come to rest while the world is to stand. The thread that stops it waits on it.
    quiet: WordId,
    /// 1 from the beginning of a collection to its end.
    collects: SlotId,
    /// Number of the collection whose marking is under way; 0: none.
    marking: SlotId,
    /// Collections begun.
    cycles: SlotId,
    /// When the collection began.
    began: SlotId,
    /// Pieces of marking that were taken, and those that are done.
    pieces: SlotId,
    done: SlotId,
    /// Threads that are dedicated to this marking.
    dedicated: SlotId,
    /// Requests served since the last collection.
    served: SlotId,
    /// By request, parts that are done.
    open: Arc<[SlotId]>,
}

impl Words {
    fn new(b: &mut Builder) -> Words {
        Words {
            arrived: b.slot(),
            taken: b.slot(),
            bell: b.word(),
            idle: b.slot(),
            active: b.slot(),
            stop: b.word(),
            quiet: b.word(),
            collects: b.slot(),
            marking: b.slot(),
            cycles: b.slot(),
            began: b.slot(),
            pieces: b.slot(),
            done: b.slot(),
            dedicated: b.slot(),
            served: b.slot(),
            open: (0..OPEN).map(|_| b.slot()).collect(),
        }
    }
}

impl Pool {
    /// When a request is due: somewhere in its turn.
    fn due(&self, request: u64) -> Ns {
        let at = u128::from(request) * u128::from(SECOND) + u128::from(self.dues.below(request, SECOND));
        Ns((at / u128::from(self.rate)) as u64)
    }
    /// CPU time of each of its parts.
    fn part(&self, request: u64) -> Ns {
        Ns((self.work.0 / 2 + self.draws.below(request, self.work.0)) / self.parts)
    }
    /// Threads that only mark: a quarter, rounded; less, if that is far too many, as in Go.
    fn dedicated(&self) -> u64 {
        let whole = (self.threads + 2) / 4;
        if self.is_far_from_a_quarter(whole) && 4 * whole > self.threads { whole - 1 } else { whole }
    }
    fn is_far_from_a_quarter(&self, whole: u64) -> bool {
        100 * (4 * whole).abs_diff(self.threads) > FAR_PCT * self.threads
    }
    /// Whether a thread that is not dedicated has marked for its part of the time, where the dedicated ones are less
    /// than a quarter.
    fn has_marked(&self, marked: Ns, elapsed: Ns) -> bool {
        let rest = self.threads.saturating_sub(4 * self.dedicated());
        !self.is_far_from_a_quarter((self.threads + 2) / 4)
            || u128::from(marked.0) * u128::from(4 * self.threads) >= u128::from(rest) * u128::from(elapsed.0)
    }
    fn all_pieces(&self) -> u64 {
        self.gc_work.0.div_ceil(self.safepoint.0)
    }
}

/// The source of requests.
struct Client {
    pool: Arc<Pool>,
    request: u64,
    /// Threads to wake.
    ring: u32,
}

impl Program for Client {
    fn next(&mut self, env: &mut dyn Env) -> Op {
        let Words { arrived, bell, idle, .. } = self.pool.words;
        if self.ring > 0 {
            return Op::Wake { word: bell, count: std::mem::take(&mut self.ring) };
        }
        let now = env.now();
        let due = self.pool.due(self.request);
        if now < due {
            return Op::SleepTo { at: due };
        }
        self.request += 1;
        env.slot(arrived).fetch_add(self.pool.parts, SeqCst);
        env.word(bell).fetch_add(1, SeqCst);
        // Add first, then look. Idle threads do the reverse, so one side sees the other.
        self.ring = env.slot(idle).load(SeqCst).min(self.pool.parts) as u32;
        self.next(env)
    }
}

#[cfg(test)]
mod tests;
