//! A database server's transactions, with a client and a server task per connection: the role of sysbench's OLTP test.
//!
//! As in the original: a transaction is a script of statements, each one exchange over the connection: begin, ten row
//! selects, four range selects, four writes, commit. Writes lock their rows until the commit. A commit waits until the
//! log is on the disk; all commits during one log write share the next (group commit, by the task `logger`). With
//! `rate`, transactions are due by the clock, and latency counts from then. Differences: rows are drawn uniformly, and
//! a transaction locks its rows in ascending order, so deadlocks and rollbacks do not occur. Locks are released when
//! the commit's record is in the log, before it is on the disk, as in InnoDB. No data are stored; work is CPU time,
//! each piece drawn between half and one and a half times its mean. Only the log waits for the disk: tables are in
//! memory.
//!
//! Clients and server share only the connections. Locks and log belong to the server.

use super::draws::Draws;
use super::log::{Commit, Log, Logger};
use super::mutex::Mutex;
use super::pace::Pace;
use super::params::{SECOND, in_mode, mode, runtime, warmup};
use crate::build::{Builder, ChannelKind};
use crate::op::{Env, Op, PortId, Program, SeriesId, WordId};
use crate::param::{Benchmark, Choice, Param, Params};
use schedlab_base::{Ns, Result, Stream};
use std::sync::Arc;

pub const OLTP: Benchmark = Benchmark {
    name: "oltp",
    about: "transactions of a database server: selects, writes under row locks, group commit (sysbench)",
    params: PARAMS,
    headline: &["oltp.rate", "oltp.latency.p50", "oltp.latency.p99"],
    own: &["oltp.rate", "oltp.latency.p99"],
    load_param: "threads",
    brief: &[("runtime", "500ms")],
    brief_loads: ["{cpus}", "{cpus*4}"],
    form_of: None,
    build,
};

const PARAMS: &[Param] = &[
    Param::count("threads", None, 16, (1, 40_000), "clients, each with a connection and a server task"),
    Param::count("points", None, 10, (0, 10_000), "selects of a row in a transaction"),
    Param::count("ranges", None, 4, (0, 10_000), "selects of a range in a transaction"),
    Param::count("writes", None, 4, (0, 1_000), "writes of a row in a transaction"),
    Param::time("point_work", None, "us", 30_000, (0, SECOND), "mean CPU time of the server for a row"),
    Param::time("range_work", None, "us", 100_000, (0, SECOND), "mean CPU time of the server for a range"),
    Param::time("write_work", None, "us", 50_000, (0, SECOND), "mean CPU time of the server for a write"),
    Param::count("rows", None, 10_000, (1, 100_000), "rows that writes choose from, each with a lock"),
    Param::time(
        "log_wait",
        None,
        "us",
        200_000,
        (0, 10 * SECOND),
        "mean time of a write of the log; 0: no log",
    ),
    Param::time("think", None, "us", 0, (0, 60 * SECOND), "time between two transactions of a client"),
    Param::count(
        "rate",
        None,
        0,
        (0, 10_000_000),
        "transactions per second, evenly paced; 0: the next follows the last",
    ),
    Param::choice("transport", &[Choice::word("unix"), Choice::word("tcp")], "kind of the connections"),
    runtime(Some('r'), 10 * SECOND),
    warmup(None),
    mode(&[Choice::word("process"), Choice::word("thread")]),
];

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Statement {
    Begin,
    Point,
    Range,
    Write,
    Commit,
}

/// CPU time of a begin or commit.
const SHORT_WORK: Ns = Ns::us(5);

impl Statement {
    /// Bytes of request and answer. A range has 100 rows.
    const fn bytes(self) -> (u32, u32) {
        match self {
            Statement::Begin => (12, 16),
            Statement::Point => (70, 220),
            Statement::Range => (90, 12_500),
            Statement::Write => (150, 60),
            Statement::Commit => (14, 16),
        }
    }
}

/// The statements of a transaction.
fn script(params: &Params) -> Result<Arc<[Statement]>> {
    let of = |kind, count| std::iter::repeat_n(kind, count);
    let all = of(Statement::Begin, 1)
        .chain(of(Statement::Point, params.count("points")?))
        .chain(of(Statement::Range, params.count("ranges")?))
        .chain(of(Statement::Write, params.count("writes")?))
        .chain(of(Statement::Commit, 1));
    Ok(all.collect())
}

fn build(params: &Params, b: &mut Builder) -> Result<()> {
    b.client_side(&["client"]);
    let threads = params.count("threads")?;
    let script = script(params)?;
    let kind = if params.get("transport")? == 1 { ChannelKind::Tcp } else { ChannelKind::Unix };
    let latency = b.series("oltp.latency", "ns", "lower");
    let writes = params.count("writes")?;
    let rows: Arc<[WordId]> =
        if writes == 0 { Arc::default() } else { (0..params.count("rows")?).map(|_| b.word()).collect() };
    let log = (params.time("log_wait")? > Ns::ZERO && writes > 0).then(|| Log::new(b));
    let mut servers = Vec::new();
    for c in 0..threads {
        let (near, far) = b.link(kind);
        let client = Client {
            port: near,
            script: script.clone(),
            pace: Pace::new(params.get("rate")?, c, threads),
            think: params.time("think")?,
            latency,
            due: Ns::ZERO,
            at: 0,
            state: Waiting::Before,
        };
        b.task(format!("client/{c}"), Box::new(client))?;
        let work = |name: &str| -> Result<Draws> {
            Ok(Draws::new(params.time(name)?, b.stream(&format!("oltp.{name}"), c as u64)))
        };
        servers.push(Server {
            port: far,
            script: script.clone(),
            at: 0,
            work: [work("point_work")?, work("range_work")?, work("write_work")?],
            locks: Locks::new(rows.clone(), writes, b.stream("oltp.rows", c as u64)),
            commit: log.map(Commit::new),
            doing: Doing::Listen,
        });
    }
    for (c, server) in servers.into_iter().enumerate() {
        b.task(format!("server/{c}"), Box::new(server))?;
    }
    if let Some(log) = log {
        let disk = Draws::new(params.time("log_wait")?, b.stream("oltp.log_wait", 0));
        let logger = b.task("logger", Box::new(Logger::new(log, disk, threads)))?;
        // A disk's interrupt has no slack.
        b.edit(logger).timer_slack = Some(Ns(1));
    }
    in_mode(params, b)?;
    b.lasts(params.time("runtime")?, params.time("warmup")?);
    Ok(())
}

enum Waiting {
    /// Waits until the transaction is due.
    Before,
    /// Sends the statement.
    Ask,
    Answer,
    /// The answer has arrived.
    Answered,
}

struct Client {
    port: PortId,
    script: Arc<[Statement]>,
    pace: Pace,
    think: Ns,
    latency: SeriesId,
    /// Due time of the transaction.
    due: Ns,
    /// Index into the script.
    at: usize,
    state: Waiting,
}

impl Client {
    /// Begins the transaction; returns the sleep until it is due.
    fn begin(&mut self, env: &mut dyn Env) -> Option<Op> {
        let now = env.now();
        let due = self.pace.due().unwrap_or(now);
        if now < due {
            return Some(Op::SleepTo { at: due });
        }
        self.pace.take();
        (self.due, self.state) = (due, Waiting::Ask);
        None
    }
    /// Handles an answer; returns the sleep after the last one.
    fn answered(&mut self, env: &mut dyn Env) -> Option<Op> {
        self.at += 1;
        if self.at < self.script.len() {
            self.state = Waiting::Ask;
            return None;
        }
        let now = env.now();
        env.record(self.latency, now.since(self.due).0);
        (self.at, self.state) = (0, Waiting::Before);
        (self.think > Ns::ZERO).then_some(Op::Sleep { length: self.think })
    }
}

impl Program for Client {
    fn next(&mut self, env: &mut dyn Env) -> Op {
        loop {
            match self.state {
                Waiting::Before => {
                    if let Some(sleep) = self.begin(env) {
                        return sleep;
                    }
                }
                Waiting::Ask => {
                    self.state = Waiting::Answer;
                    return Op::Send { port: self.port, bytes: self.script[self.at].bytes().0 };
                }
                Waiting::Answer => {
                    self.state = Waiting::Answered;
                    return Op::Recv { port: self.port, bytes: self.script[self.at].bytes().1 };
                }
                Waiting::Answered => {
                    if let Some(think) = self.answered(env) {
                        return think;
                    }
                }
            }
        }
    }
}

/// The rows that a transaction locks, in ascending order.
struct Locks {
    rows: Arc<[WordId]>,
    draws: Stream,
    drawn: u64,
    /// The rows that this transaction writes, in descending order without repetitions.
    wanted: Vec<u64>,
    held: Vec<Mutex>,
    /// The lock that is being taken.
    taking: Option<Mutex>,
    writes: usize,
}

impl Locks {
    fn new(rows: Arc<[WordId]>, writes: usize, draws: Stream) -> Locks {
        let (wanted, held) = (Vec::with_capacity(writes), Vec::with_capacity(writes));
        Locks { rows, draws, drawn: 0, wanted, held, taking: None, writes }
    }
    /// Draws the rows of a transaction.
    fn draw(&mut self) {
        for _ in 0..self.writes {
            self.drawn += 1;
            self.wanted.push(self.draws.below(self.drawn, self.rows.len() as u64));
        }
        self.wanted.sort_unstable_by(|a, b| b.cmp(a));
        self.wanted.dedup();
    }
    /// Takes the next row's lock. Returns the wait after which to call again; `None`: held. A row that is written twice
    /// is locked once.
    fn take(&mut self, env: &mut dyn Env) -> Option<Op> {
        if self.taking.is_none() {
            self.taking = Some(Mutex::new(self.rows[self.wanted.pop()? as usize]));
        }
        if let Some(wait) = self.taking.as_mut()?.take(env) {
            return Some(wait);
        }
        self.held.extend(self.taking.take());
        None
    }
    /// Releases all locks; returns a wake after which to call again.
    fn release(&mut self, env: &mut dyn Env) -> Option<Op> {
        while let Some(lock) = self.held.pop() {
            if let Some(wake) = lock.release(env) {
                return Some(wake);
            }
        }
        None
    }
}

enum Doing {
    /// Waits for the next statement.
    Listen,
    /// Takes the lock of the statement's row, if it writes.
    Lock,
    /// The work is done: a commit releases the locks.
    Worked,
    Log,
    Answer,
}

/// The server's task for one connection. It follows the client's script, so messages need no content.
struct Server {
    port: PortId,
    script: Arc<[Statement]>,
    at: usize,
    /// For row selects, range selects and writes.
    work: [Draws; 3],
    locks: Locks,
    commit: Option<Commit>,
    doing: Doing,
}

impl Server {
    /// The CPU time of a statement.
    fn work(&mut self, statement: Statement) -> Ns {
        match statement {
            Statement::Begin | Statement::Commit => SHORT_WORK,
            Statement::Point => self.work[0].next(),
            Statement::Range => self.work[1].next(),
            Statement::Write => self.work[2].next(),
        }
    }
}

impl Program for Server {
    fn next(&mut self, env: &mut dyn Env) -> Op {
        let statement = self.script[self.at];
        loop {
            match self.doing {
                Doing::Listen => {
                    self.doing = Doing::Lock;
                    return Op::Recv { port: self.port, bytes: statement.bytes().0 };
                }
                Doing::Lock => {
                    match statement {
                        Statement::Begin => self.locks.draw(),
                        Statement::Write => {
                            if let Some(wait) = self.locks.take(env) {
                                return wait;
                            }
                        }
                        _ => {}
                    }
                    self.doing = Doing::Worked;
                    return Op::Run { work: self.work(statement) };
                }
                Doing::Worked if statement != Statement::Commit => self.doing = Doing::Answer,
                Doing::Worked => match self.locks.release(env) {
                    Some(wake) => return wake,
                    None => self.doing = Doing::Log,
                },
                Doing::Log => match self.commit.as_mut().and_then(|c| c.next(env)) {
                    Some(op) => return op,
                    None => self.doing = Doing::Answer,
                },
                Doing::Answer => {
                    self.doing = Doing::Listen;
                    self.at = (self.at + 1) % self.script.len();
                    return Op::Send { port: self.port, bytes: statement.bytes().1 };
                }
            }
        }
    }
}

#[cfg(test)]
#[path = "oltp_tests.rs"]
mod tests;
