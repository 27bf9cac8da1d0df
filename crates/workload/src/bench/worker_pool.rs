//! A server of one process with a pool of threads and a garbage collector that runs on the same threads: the role of a
//! Go program with GOMAXPROCS threads.
//!
//! Requests are due at a rate, whether the server keeps up or not, each within its turn at a time that the seed draws.
//! A request is cut into `parts`, which any threads of the pool take in order; its latency counts from when it was due
//! to the end of its last part. After every `gc_every` requests the thread that ended one begins a collection:
//!
//! 1. It stops the world: it waits until every other thread has come to a safepoint or has nothing to do. A thread comes
//!    to one after at most `safepoint` of work, so that only one that does not run holds the pause up: one that waits
//!    for a CPU, or whose group has used its quota.
//! 2. The pool marks, `gc_work` of CPU time in all. A quarter of the threads do nothing else until that is done, as Go's
//!    dedicated workers; if a quarter is not a whole number that comes near, each thread marks for a part of its time
//!    instead. Threads without a request mark, too.
//! 3. The thread that marks the last piece stops the world again.
//!
//! Left out of Go: assists (threads that allocate much while the pool marks help), the pacer (when a collection begins)
//! and the threads that wait in system calls.

use super::params::{SECOND, runtime, warmup};
use crate::build::Builder;
use crate::op::{Env, Op, Program, SeriesId, SlotId, WordId};
use crate::param::{Benchmark, Param, Params};
use schedlab_base::{Ns, Result, Stream};
use std::sync::Arc;
use std::sync::atomic::Ordering::SeqCst;

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
        let thread = Thread { pool: pool.clone(), state: State::Wake, cycle: 0, marked: Ns::ZERO };
        b.task(format!("worker/{n}"), Box::new(thread))?;
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

#[derive(Clone, Copy)]
enum State {
    /// It is about to run: at the start, after a rest, after a stop.
    Wake,
    /// It looks for something to do; a safepoint.
    Look,
    /// It has come to rest, and waits until the world runs.
    Rests(Doing),
    /// As `Wake`, with work in hand.
    Resumes(Doing),
    /// It waits for the bell.
    Idles,
    Works(Doing),
    /// It stops the world; whether that is the first stop of a collection.
    Stops(bool, Ns),
    /// It works while the world stands.
    Stands(bool, Ns),
    /// The world runs: it wakes the others.
    Starts(bool),
    /// It has rung the bell, and those who wait are woken.
    Rings,
}

/// Work in hand.
#[derive(Clone, Copy)]
enum Doing {
    Nothing,
    /// A part of a request, and what is left of it.
    Part {
        request: u64,
        left: Ns,
    },
    /// A piece of marking.
    Piece {
        left: Ns,
    },
}

/// A thread of the pool.
struct Thread {
    pool: Arc<Pool>,
    state: State,
    /// The collection to which it is dedicated.
    cycle: u64,
    /// What it has marked in this collection, for its fraction.
    marked: Ns,
}

impl Program for Thread {
    fn next(&mut self, env: &mut dyn Env) -> Op {
        loop {
            if let Some(op) = self.step(env) {
                return op;
            }
        }
    }
}

impl Thread {
    fn step(&mut self, env: &mut dyn Env) -> Option<Op> {
        match self.state {
            State::Wake => {
                env.slot(self.pool.words.active).fetch_add(1, SeqCst);
                self.state = State::Look;
                None
            }
            State::Look => self.look(env),
            State::Rests(doing) => self.rests(doing, env),
            State::Resumes(doing) => {
                env.slot(self.pool.words.active).fetch_add(1, SeqCst);
                self.goes_on(doing, env)
            }
            State::Idles => {
                env.slot(self.pool.words.idle).fetch_sub(1, SeqCst);
                self.state = State::Wake;
                None
            }
            State::Works(doing) => self.worked(doing, env),
            State::Stops(first, since) => self.stops(first, since, env),
            State::Stands(first, since) => Some(self.stood(first, since, env)),
            State::Starts(first) => self.starts(first, env),
            State::Rings => {
                self.state = State::Look;
                Some(Op::Wake { word: self.pool.words.bell, count: self.pool.threads as u32 })
            }
        }
    }

    /// Whether the world is to stand.
    fn is_to_stand(&self, env: &mut dyn Env) -> bool {
        env.word(self.pool.words.stop).load(SeqCst) == 1
    }

    /// Comes to rest; returns a wake of the thread that waits for this.
    fn comes_to_rest(&self, env: &mut dyn Env) -> Option<Op> {
        let Words { active, quiet, .. } = self.pool.words;
        // Count first, then look: the thread that stops the world does the reverse.
        env.slot(active).fetch_sub(1, SeqCst);
        self.is_to_stand(env).then(|| {
            env.word(quiet).fetch_add(1, SeqCst);
            Op::Wake { word: quiet, count: 1 }
        })
    }

    /// A safepoint with work in hand, or none.
    fn goes_on(&mut self, doing: Doing, env: &mut dyn Env) -> Option<Op> {
        if self.is_to_stand(env) {
            self.state = State::Rests(doing);
            return self.comes_to_rest(env);
        }
        self.state = match doing {
            Doing::Nothing => State::Look,
            _ => State::Works(doing),
        };
        self.chunk()
    }

    fn rests(&mut self, doing: Doing, env: &mut dyn Env) -> Option<Op> {
        if self.is_to_stand(env) {
            return Some(Op::Wait { word: self.pool.words.stop, value: 1, until: Ns::MAX });
        }
        self.state = State::Resumes(doing);
        None
    }

    /// The next stretch of the work in hand, up to a safepoint.
    fn chunk(&self) -> Option<Op> {
        match self.state {
            State::Works(Doing::Part { left, .. } | Doing::Piece { left }) => {
                Some(Op::Run { work: left.min(self.pool.safepoint) })
            }
            _ => None,
        }
    }

    fn look(&mut self, env: &mut dyn Env) -> Option<Op> {
        if self.is_to_stand(env) {
            return self.goes_on(Doing::Nothing, env);
        }
        let marking = env.slot(self.pool.words.marking).load(SeqCst);
        if marking != 0 && self.marks_first(marking, env) && self.take_piece(env) {
            return self.chunk();
        }
        if self.take_part(env) || (marking != 0 && self.take_piece(env)) {
            return self.chunk();
        }
        self.idles(env)
    }

    /// Whether it marks although requests may wait.
    fn marks_first(&mut self, marking: u64, env: &mut dyn Env) -> bool {
        if self.cycle != marking {
            self.cycle = marking;
            let place = env.slot(self.pool.words.dedicated).fetch_add(1, SeqCst);
            self.marked = if place < self.pool.dedicated() { Ns::MAX } else { Ns::ZERO };
        }
        if self.marked == Ns::MAX {
            return true;
        }
        let began = Ns(env.slot(self.pool.words.began).load(SeqCst));
        !self.pool.has_marked(self.marked, env.now().since(began))
    }

    /// Takes one of what `most` are, if any is left.
    fn take(taken: SlotId, most: u64, env: &mut dyn Env) -> Option<u64> {
        let taken = env.slot(taken);
        let mut next = taken.load(SeqCst);
        while next < most {
            match taken.compare_exchange(next, next + 1, SeqCst, SeqCst) {
                Ok(_) => return Some(next),
                Err(seen) => next = seen,
            }
        }
        None
    }

    fn take_part(&mut self, env: &mut dyn Env) -> bool {
        let arrived = env.slot(self.pool.words.arrived).load(SeqCst);
        let Some(part) = Self::take(self.pool.words.taken, arrived, env) else { return false };
        let request = part / self.pool.parts;
        self.state = State::Works(Doing::Part { request, left: self.pool.part(request) });
        true
    }

    fn take_piece(&mut self, env: &mut dyn Env) -> bool {
        if Self::take(self.pool.words.pieces, self.pool.all_pieces(), env).is_none() {
            return false;
        }
        self.state = State::Works(Doing::Piece { left: self.pool.safepoint });
        true
    }

    fn idles(&mut self, env: &mut dyn Env) -> Option<Op> {
        let Words { arrived, taken, bell, idle, marking, pieces, .. } = self.pool.words;
        env.slot(idle).fetch_add(1, SeqCst);
        let value = env.word(bell).load(SeqCst);
        let waits = env.slot(taken).load(SeqCst) >= env.slot(arrived).load(SeqCst);
        let marks =
            env.slot(marking).load(SeqCst) != 0 && env.slot(pieces).load(SeqCst) < self.pool.all_pieces();
        if !waits || marks {
            env.slot(idle).fetch_sub(1, SeqCst);
            return None;
        }
        self.state = State::Idles;
        if let Some(wake) = self.comes_to_rest(env) {
            // It waits at its next step: the bell may have rung meanwhile.
            return Some(wake);
        }
        Some(Op::Wait { word: bell, value, until: Ns::MAX })
    }

    /// A stretch of work has ended, at a safepoint.
    fn worked(&mut self, doing: Doing, env: &mut dyn Env) -> Option<Op> {
        let left = |left: Ns| left.since(left.min(self.pool.safepoint));
        match doing {
            Doing::Part { request, left: had } if left(had) > Ns::ZERO => {
                self.goes_on(Doing::Part { request, left: left(had) }, env)
            }
            Doing::Part { request, .. } => self.served(request, env),
            Doing::Piece { .. } | Doing::Nothing => self.marked_piece(env),
        }
    }

    fn served(&mut self, request: u64, env: &mut dyn Env) -> Option<Op> {
        let Words { served, collects, .. } = self.pool.words;
        self.state = State::Look;
        let open = self.pool.words.open[request as usize % OPEN];
        if env.slot(open).fetch_add(1, SeqCst) + 1 < self.pool.parts {
            return None;
        }
        env.slot(open).store(0, SeqCst);
        let now = env.now();
        env.record(self.pool.latency, now.since(self.pool.due(request)).0);
        let all = env.slot(served).fetch_add(1, SeqCst) + 1;
        let is_due = self.pool.gc_every > 0 && all >= self.pool.gc_every;
        if is_due && env.slot(collects).swap(1, SeqCst) == 0 {
            self.begins_to_stop(true, env);
        }
        None
    }

    fn marked_piece(&mut self, env: &mut dyn Env) -> Option<Op> {
        if self.marked != Ns::MAX {
            self.marked = self.marked + self.pool.safepoint;
        }
        self.state = State::Look;
        let done = env.slot(self.pool.words.done).fetch_add(1, SeqCst) + 1;
        if done == self.pool.all_pieces() {
            self.begins_to_stop(false, env);
        }
        None
    }

    fn begins_to_stop(&mut self, first: bool, env: &mut dyn Env) {
        let now = env.now();
        if first {
            env.slot(self.pool.words.began).store(now.0, SeqCst);
        }
        env.word(self.pool.words.stop).store(1, SeqCst);
        self.state = State::Stops(first, now);
    }

    /// Waits until it alone may run.
    fn stops(&mut self, first: bool, since: Ns, env: &mut dyn Env) -> Option<Op> {
        let Words { active, quiet, .. } = self.pool.words;
        let value = env.word(quiet).load(SeqCst);
        if env.slot(active).load(SeqCst) > 1 {
            return Some(Op::Wait { word: quiet, value, until: Ns::MAX });
        }
        self.state = State::Stands(first, since);
        (self.pool.gc_pause > Ns::ZERO).then_some(Op::Run { work: self.pool.gc_pause })
    }

    /// What was to be done while the world stood is done: it runs again.
    fn stood(&mut self, first: bool, since: Ns, env: &mut dyn Env) -> Op {
        let Words { stop, marking, cycles, pieces, done, dedicated, .. } = self.pool.words;
        let now = env.now();
        env.record(self.pool.pause, now.since(since).0);
        if first && self.pool.all_pieces() > 0 {
            [pieces, done, dedicated].into_iter().for_each(|slot| env.slot(slot).store(0, SeqCst));
            let number = env.slot(cycles).fetch_add(1, SeqCst) + 1;
            env.slot(marking).store(number, SeqCst);
        } else {
            self.ends(now, env);
        }
        env.word(stop).store(0, SeqCst);
        self.state = State::Starts(first);
        Op::Wake { word: stop, count: self.pool.threads as u32 }
    }

    /// The collection is over.
    fn ends(&mut self, now: Ns, env: &mut dyn Env) {
        let Words { marking, began, served, collects, .. } = self.pool.words;
        let began = Ns(env.slot(began).load(SeqCst));
        env.record(self.pool.collection, now.since(began).0);
        env.slot(marking).store(0, SeqCst);
        env.slot(served).store(0, SeqCst);
        env.slot(collects).store(0, SeqCst);
    }

    /// Wakes idle threads, which mark.
    fn starts(&mut self, first: bool, env: &mut dyn Env) -> Option<Op> {
        self.state = if first { State::Rings } else { State::Look };
        if first {
            env.word(self.pool.words.bell).fetch_add(1, SeqCst);
        }
        None
    }
}

#[cfg(test)]
#[path = "worker_pool_tests.rs"]
mod tests;
