//! Clients of an embedded database: short transactions, a common lock, frequent short waits for the disk.
//!
//! Takes the role of the sqlite test in D001, whose CPUs entered idle so often that newidle balancing took 7% of their
//! time; but it is our own program. A transaction prepares its statement, changes pages under the database's lock, and
//! then waits `fsyncs` times for the disk (journal, then database) without the lock, like a database with a write-ahead
//! log. Each client draws its own work and waits: half to one and a half times the given mean. Waits are sleeps with
//! the least timer slack, since a disk's interrupt has none. The tasks are processes.

use super::draws::Draws;
use super::mutex::Mutex;
use super::params::{SECOND, runtime, warmup};
use crate::build::Builder;
use crate::op::{Env, Op, Program, SeriesId, WordId};
use crate::param::{Benchmark, Choice, Param, Params};
use schedlab_base::{Ns, Result};

pub const EMBEDDED_DB: Benchmark = Benchmark {
    name: "embedded-db",
    about: "short transactions around a common lock, with frequent short waits for the disk",
    params: PARAMS,
    headline: &["embedded-db.rate", "embedded-db.latency.p50", "embedded-db.latency.p99"],
    own: &["embedded-db.rate", "embedded-db.latency.p99"],
    load_param: "clients",
    brief: &[("runtime", "500ms")],
    brief_loads: ["{cpus}", "{cpus*4}"],
    form_of: None,
    build,
};

const PARAMS: &[Param] = &[
    Param::count("clients", None, 1, (1, 100_000), "clients of the one database"),
    Param::time("work", None, "us", 20_000, (0, SECOND), "mean CPU time of a transaction outside the lock"),
    Param::time("locked", None, "us", 3_000, (0, SECOND), "CPU time under the lock"),
    Param::choice(
        "lock",
        &[Choice::word("mutex"), Choice::word("spin")],
        "mutex: who waits for the lock sleeps (futex); spin: who waits spins in user mode",
    ),
    Param::count("fsyncs", None, 2, (0, 1_000), "waits for the disk in a transaction"),
    Param::time("fsync", None, "us", 60_000, (1_000, 10 * SECOND), "mean length of such a wait"),
    runtime(Some('r'), 10 * SECOND),
    warmup(None),
];

fn build(params: &Params, b: &mut Builder) -> Result<()> {
    let latency = b.series("embedded-db.latency", "ns", "lower");
    let (lock, spins) = (b.word(), params.newer("lock") == 1);
    for c in 0..params.count("clients")? {
        let client = Client {
            lock: if spins { Lock::Spin(lock) } else { Lock::Mutex(Mutex::new(lock)) },
            work: Draws::new(params.time("work")?, b.stream("embedded-db.work", c as u64)),
            locked: params.time("locked")?,
            fsyncs: params.get("fsyncs")?,
            fsync: Draws::new(params.time("fsync")?, b.stream("embedded-db.fsync", c as u64)),
            latency,
            begun: Ns::ZERO,
            state: State::First,
        };
        let task = b.task(format!("client-{c}"), Box::new(client))?;
        b.edit(task).timer_slack = Some(Ns(1));
    }
    b.as_processes();
    b.lasts(params.time("runtime")?, params.time("warmup")?);
    Ok(())
}

enum State {
    /// Before the first transaction.
    First,
    /// Prepared: take the lock.
    Lock,
    Locked,
    /// Pages are changed: release the lock.
    Unlock,
    /// Number of disk waits left.
    Commit(u64),
}

/// The lock that all clients share.
enum Lock {
    Mutex(Mutex),
    Spin(WordId),
}

struct Client {
    lock: Lock,
    work: Draws,
    locked: Ns,
    fsyncs: u64,
    fsync: Draws,
    latency: SeriesId,
    /// Start of the transaction.
    begun: Ns,
    state: State,
}

impl Client {
    fn begin(&mut self, now: Ns) -> Op {
        self.begun = now;
        self.state = State::Lock;
        Op::Run { work: self.work.next() }
    }
}

impl Program for Client {
    fn next(&mut self, env: &mut dyn Env) -> Op {
        loop {
            match self.state {
                State::First => return self.begin(env.now()),
                State::Lock => {
                    let op = match &mut self.lock {
                        Lock::Mutex(mutex) => mutex.take(env),
                        Lock::Spin(word) => {
                            let word = *word;
                            self.state = State::Locked;
                            return Op::SpinLock { word };
                        }
                    };
                    if let Some(wait) = op {
                        return wait;
                    }
                    self.state = State::Locked;
                }
                State::Locked => {
                    self.state = State::Unlock;
                    return Op::Run { work: self.locked };
                }
                State::Unlock => {
                    self.state = State::Commit(self.fsyncs);
                    let op = match &self.lock {
                        Lock::Mutex(mutex) => mutex.release(env),
                        Lock::Spin(word) => Some(Op::SpinUnlock { word: *word }),
                    };
                    if let Some(op) = op {
                        return op;
                    }
                }
                State::Commit(0) => {
                    let now = env.now();
                    env.record(self.latency, now.since(self.begun).0);
                    return self.begin(now);
                }
                State::Commit(left) => {
                    self.state = State::Commit(left - 1);
                    return Op::Sleep { length: self.fsync.next() };
                }
            }
        }
    }
}

#[cfg(test)]
#[path = "embedded_db_tests.rs"]
mod tests;
