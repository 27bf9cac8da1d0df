//! Server processes of a database: many tasks with large working sets that run briefly and then wait for a disk. D003
//! was written for such a load: the cost of moving to another CPU decides whether balancing pays.
//!
//! A transaction has several steps. A step waits for a disk read, touches part of the process's working set, and
//! computes. A writing transaction then takes a lock shared by all, briefly, and commits: it waits until its log record
//! is on the disk ([`super::log`]). The next transaction follows at once: requests are always available. Disk waits are
//! milliseconds, so many processes share a CPU.
//!
//! Without adapters a read is a sleep, which ends on the CPU where it began. With adapters it is an exchange with the
//! process's task `disk/N`, over one connection per adapter; each read draws its adapter. On a machine behind a link
//! these tasks are an array of disks, and each adapter interrupts its own CPU, wherever the process ran. Data are
//! transferred by DMA: a message is only a command or its completion.

use super::draws::Draws;
use super::log::{Commit, Log, Logger};
use super::mutex::Mutex;
use super::params::{SECOND, in_mode, mode, runtime, warmup};
use crate::build::{Builder, ChannelKind};
use crate::op::{Env, Op, Outcome, PortId, Program, SeriesId, SetId};
use crate::param::{Benchmark, Choice, Param, Params};
use schedlab_base::{Error, Ns, Result, Stream};

pub const DATABASE: Benchmark = Benchmark {
    name: "database",
    about: "server processes with large working sets and waits for disks; transactions per second",
    params: PARAMS,
    headline: &["database.rate", "database.latency.p50", "database.latency.p99"],
    own: &["database.rate", "database.latency.p99"],
    load_param: "tasks",
    brief: &[("runtime", "500ms")],
    brief_loads: ["{cpus*4}", "{cpus*16}"],
    form_of: None,
    build,
};

const US: u64 = 1_000;

const PARAMS: &[Param] = &[
    Param::count("tasks", None, 32, (1, 10_000), "server processes"),
    Param::count("set", None, 1024, (1, 1 << 20), "working set of each, KB"),
    Param::count("touched", None, 256, (0, 1 << 20), "KB of its set that a process goes over in a step"),
    Param::time("work", None, "us", 200 * US, (0, SECOND), "mean computing in a step"),
    Param::count("reads", None, 4, (1, 1_000), "steps of a transaction, each after a read from a disk"),
    Param::time("disk", None, "us", 5_000 * US, (US, 10 * SECOND), "mean time of a read"),
    Param::count(
        "adapters",
        None,
        0,
        (0, 64),
        "adapters between processes and disks, tasks `disk/N`; 0: a read is a sleep",
    ),
    Param::count("writes", None, 90, (0, 100), "per cent of the transactions that take the lock and commit"),
    Param::time("locked", None, "us", 10 * US, (0, SECOND), "CPU time under the lock"),
    Param::time("log_wait", None, "us", 1_000 * US, (US, 10 * SECOND), "mean time of a write of the log"),
    runtime(Some('r'), 10 * SECOND),
    warmup(None),
    mode(&[Choice::word("process"), Choice::word("thread")]),
];

/// Bytes of a command to a disk, and of its completion.
const MESSAGE: u32 = 64;

fn build(params: &Params, b: &mut Builder) -> Result<()> {
    let (tasks, adapters) = (params.count("tasks")?, params.count("adapters")?);
    if adapters > 0 {
        b.client_side(&["disk"]);
    }
    let (set_kb, touched_kb) = (params.get("set")? as u32, params.get("touched")? as u32);
    if touched_kb > set_kb {
        let what =
            format!("touched = {touched_kb}: a step goes over a part of the set, which has {set_kb} KB");
        return Err(Error::input(what));
    }
    let latency = b.series("database.latency", "ns", "lower");
    let (lock, log) = (b.word(), Log::new(b));
    let mut disks = Vec::new();
    for n in 0..tasks {
        let wait = Draws::new(params.time("disk")?, b.stream("database.disk", n as u64));
        let reads = if adapters == 0 {
            Reads::Sleep(wait)
        } else {
            let links: Vec<_> = (0..adapters).map(|_| b.link(ChannelKind::Tcp)).collect();
            // The disks are the client side, so they have the first end.
            let (far, near) = links.into_iter().unzip();
            disks.push(Disk { set: b.set(far), wait, doing: Serving::Idle });
            Reads::Adapters { ports: near, draws: b.stream("database.adapter", n as u64), drawn: 0 }
        };
        let server = Server {
            steps: params.get("reads")?,
            touched_kb,
            reads,
            work: Draws::new(params.time("work")?, b.stream("database.work", n as u64)),
            writes_pct: params.get("writes")?,
            kinds: b.stream("database.writes", n as u64),
            done: 0,
            lock: Mutex::new(lock),
            locked: params.time("locked")?,
            commit: Commit::new(log),
            latency,
            begun: Ns::ZERO,
            doing: Doing::Begin,
        };
        let task = b.task(format!("server/{n}"), Box::new(server))?;
        b.edit(task).footprint_kb = set_kb;
        // A disk's interrupt has no slack.
        b.edit(task).timer_slack = Some(Ns(1));
    }
    let disk = Draws::new(params.time("log_wait")?, b.stream("database.log_wait", 0));
    let logger = b.task("logger", Box::new(Logger::new(log, disk, tasks)))?;
    b.edit(logger).timer_slack = Some(Ns(1));
    for (n, disk) in disks.into_iter().enumerate() {
        let task = b.task(format!("disk/{n}"), Box::new(disk))?;
        b.edit(task).timer_slack = Some(Ns(1));
    }
    in_mode(params, b)?;
    b.lasts(params.time("runtime")?, params.time("warmup")?);
    Ok(())
}

/// The way in which a process reads from the disk.
enum Reads {
    Sleep(Draws),
    /// Sends a command to one of the adapters.
    Adapters {
        ports: Vec<PortId>,
        draws: Stream,
        drawn: u64,
    },
}

impl Reads {
    /// Begins a read. Returns the operation, and the connection for the completion.
    fn begin(&mut self) -> (Op, Option<PortId>) {
        match self {
            Reads::Sleep(wait) => (Op::Sleep { length: wait.next() }, None),
            Reads::Adapters { ports, draws, drawn } => {
                *drawn += 1;
                let port = ports[draws.below(*drawn, ports.len() as u64) as usize];
                (Op::Send { port, bytes: MESSAGE }, Some(port))
            }
        }
    }
}

/// A process's next action. A number is the number of steps left.
#[derive(Clone, Copy)]
enum Doing {
    Begin,
    Read(u64),
    Complete(PortId, u64),
    Touch(u64),
    Work(u64),
    Lock,
    Unlock,
    Commit,
    End,
}

struct Server {
    steps: u64,
    touched_kb: u32,
    reads: Reads,
    work: Draws,
    writes_pct: u64,
    /// Draws whether a transaction writes.
    kinds: Stream,
    /// Number of transactions done.
    done: u64,
    lock: Mutex,
    locked: Ns,
    commit: Commit,
    latency: SeriesId,
    begun: Ns,
    doing: Doing,
}

impl Server {
    /// The action after a step.
    fn after_step(&self, left: u64) -> Doing {
        match left - 1 {
            0 if self.kinds.below(self.done, 100) < self.writes_pct => Doing::Lock,
            0 => Doing::End,
            left => Doing::Read(left),
        }
    }
}

impl Program for Server {
    fn next(&mut self, env: &mut dyn Env) -> Op {
        loop {
            match self.doing {
                Doing::Begin => {
                    self.begun = env.now();
                    self.doing = Doing::Read(self.steps);
                }
                Doing::Read(left) => {
                    let (op, port) = self.reads.begin();
                    self.doing = port.map_or(Doing::Touch(left), |port| Doing::Complete(port, left));
                    return op;
                }
                Doing::Complete(port, left) => {
                    self.doing = Doing::Touch(left);
                    return Op::Recv { port, bytes: MESSAGE };
                }
                Doing::Touch(left) => {
                    self.doing = Doing::Work(left);
                    if self.touched_kb > 0 {
                        return Op::Touch { kb: self.touched_kb, rounds: 1 };
                    }
                }
                Doing::Work(left) => {
                    self.doing = self.after_step(left);
                    return Op::Run { work: self.work.next() };
                }
                Doing::Lock => {
                    if let Some(wait) = self.lock.take(env) {
                        return wait;
                    }
                    self.doing = Doing::Unlock;
                    return Op::Run { work: self.locked };
                }
                Doing::Unlock => {
                    self.doing = Doing::Commit;
                    if let Some(wake) = self.lock.release(env) {
                        return wake;
                    }
                }
                Doing::Commit => match self.commit.next(env) {
                    Some(op) => return op,
                    None => self.doing = Doing::End,
                },
                Doing::End => {
                    let took = env.now().since(self.begun);
                    env.record(self.latency, took.0);
                    self.done += 1;
                    self.doing = Doing::Begin;
                }
            }
        }
    }
}

enum Serving {
    /// Waits for a command on any connection.
    Idle,
    /// A command has arrived.
    Called,
    Read(PortId),
    Complete(PortId),
}

/// The disks for one process: one read at a time.
struct Disk {
    /// The ends of the process's connections.
    set: SetId,
    wait: Draws,
    doing: Serving,
}

impl Program for Disk {
    fn next(&mut self, env: &mut dyn Env) -> Op {
        match self.doing {
            Serving::Idle => {
                self.doing = Serving::Called;
                Op::Poll { set: self.set }
            }
            Serving::Called => {
                let Outcome::Ready(port) = env.outcome() else { return Op::Poll { set: self.set } };
                self.doing = Serving::Read(port);
                Op::Recv { port, bytes: MESSAGE }
            }
            Serving::Read(port) => {
                self.doing = Serving::Complete(port);
                Op::Sleep { length: self.wait.next() }
            }
            Serving::Complete(port) => {
                self.doing = Serving::Idle;
                Op::Send { port, bytes: MESSAGE }
            }
        }
    }
}

#[cfg(test)]
#[path = "database_tests.rs"]
mod tests;
