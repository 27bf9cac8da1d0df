//! A web shop in three tiers, each with its own tasks and pools: a web server, an application server and a database.
//! The role of the Trade benchmark of application servers.
//!
//! A client's request goes to its web task, which borrows one of the web server's connections to the application server
//! and passes the request on. The application task of that connection works, and borrows a connection to the database
//! for each of its queries. On average one query per request waits for the disk (a commit). Pools are small, so that
//! requests also wait for a free connection. Each task serves one connection, as in blocking servers. CPU times and
//! disk waits are drawn between half and one and a half times their mean.
//!
//! Tiers share only connections. A pool belongs to the tier that borrows from it.

use super::draws::Draws;
use super::pace::Pace;
use super::params::{SECOND, in_mode, mode, runtime, warmup};
use super::pool::{Loan, Pool};
use crate::build::{Builder, ChannelKind};
use crate::op::{Env, Op, PortId, Program, SeriesId};
use crate::param::{Benchmark, Choice, Param, Params};
use schedlab_base::{Ns, Result, Stream};
use std::sync::Arc;

pub const TRADE: Benchmark = Benchmark {
    name: "trade",
    about: "requests through a web server, an application server and a database, with pools between them",
    params: PARAMS,
    headline: &["trade.rate", "trade.latency.p50", "trade.latency.p99"],
    own: &["trade.rate", "trade.latency.p99"],
    load_param: "clients",
    brief: &[("runtime", "500ms")],
    brief_loads: ["{cpus*2}", "{cpus*8}"],
    form_of: None,
    build,
};

const PARAMS: &[Param] = &[
    Param::count("clients", None, 32, (1, 30_000), "clients, each with a connection and a web task"),
    Param::count(
        "app_tasks",
        None,
        8,
        (1, 10_000),
        "connections to the application server, each with a task there",
    ),
    Param::count("db_tasks", None, 8, (1, 10_000), "connections to the database, each with a task there"),
    Param::count("queries", None, 4, (0, 10_000), "queries of a request"),
    Param::time("web_work", None, "us", 50_000, (0, SECOND), "mean CPU time of the web server for a request"),
    Param::time(
        "app_work",
        None,
        "us",
        200_000,
        (0, SECOND),
        "mean CPU time of the application for a request",
    ),
    Param::time("db_work", None, "us", 60_000, (0, SECOND), "mean CPU time of the database for a query"),
    Param::time(
        "disk",
        None,
        "us",
        300_000,
        (0, 10 * SECOND),
        "mean wait for the disk, at one query of a request",
    ),
    Param::time(
        "think",
        None,
        "ms",
        10_000_000,
        (0, 60 * SECOND),
        "mean time from an answer to the client's next request",
    ),
    Param::count(
        "rate",
        None,
        0,
        (0, 10_000_000),
        "requests per second, evenly paced; 0: clients think in between",
    ),
    runtime(Some('r'), 10 * SECOND),
    warmup(None),
    mode(&[Choice::word("process"), Choice::word("thread")]),
];

/// Bytes of request and answer.
#[derive(Clone, Copy)]
struct Size {
    request: u32,
    answer: u32,
}
/// Client and web server: a page.
const PAGE: Size = Size { request: 400, answer: 8_000 };
/// Web server and application server.
const CALL: Size = Size { request: 600, answer: 6_000 };
/// Application server and database.
const QUERY: Size = Size { request: 200, answer: 1_500 };

fn build(params: &Params, b: &mut Builder) -> Result<()> {
    b.client_side(&["client"]);
    let [clients, apps, dbs] =
        [params.count("clients")?, params.count("app_tasks")?, params.count("db_tasks")?];
    let queries = params.get("queries")?;
    let latency = b.series("trade.latency", "ns", "lower");
    let draws = |b: &Builder, name: &str, task: usize| -> Result<Draws> {
        Ok(Draws::new(params.time(name)?, b.stream(&format!("trade.{name}"), task as u64)))
    };
    let (to_app, at_app) = tier(apps, b);
    let (to_db, at_db) = tier(dbs, b);
    let (app_pool, db_pool) = (Pool::new(apps, b), Pool::new(dbs, b));
    let mut webs = Vec::new();
    for c in 0..clients {
        let (near, far) = b.link(ChannelKind::Tcp);
        let client = Client {
            port: near,
            pace: Pace::new(params.get("rate")?, c, clients),
            think: draws(b, "think", c)?,
            latency,
            due: Ns::ZERO,
            state: Turn::Think,
        };
        b.task(format!("client/{c}"), Box::new(client))?;
        let calls =
            Calls { loan: app_pool.loan(), ports: to_app.clone(), size: CALL, state: Calling::Borrow };
        webs.push(Tier::new(far, PAGE, draws(b, "web_work", c)?, 1, calls));
    }
    for (c, web) in webs.into_iter().enumerate() {
        b.task(format!("web/{c}"), Box::new(web))?;
    }
    for (a, port) in at_app.into_iter().enumerate() {
        let calls = Calls { loan: db_pool.loan(), ports: to_db.clone(), size: QUERY, state: Calling::Borrow };
        let app = Tier::new(port, CALL, draws(b, "app_work", a)?, queries, calls);
        b.task(format!("app/{a}"), Box::new(app))?;
    }
    for (d, port) in at_db.into_iter().enumerate() {
        let (work, disk) = (draws(b, "db_work", d)?, draws(b, "disk", d)?);
        let waits = params.time("disk")? > Ns::ZERO;
        let share = b.stream("trade.commit", d as u64);
        let database = Database { port, work, disk, waits, queries, share, query: 0, doing: Serving::Listen };
        let task = b.task(format!("db/{d}"), Box::new(database))?;
        // A disk's interrupt has no slack.
        b.edit(task).timer_slack = Some(Ns(1));
    }
    in_mode(params, b)?;
    b.lasts(params.time("runtime")?, params.time("warmup")?);
    Ok(())
}

/// The connections to a tier: the callers' ends, and the tier's own.
fn tier(connections: usize, b: &mut Builder) -> (Arc<[PortId]>, Vec<PortId>) {
    let (near, far): (Vec<_>, Vec<_>) = (0..connections).map(|_| b.channel(ChannelKind::Tcp)).unzip();
    (near.into(), far)
}

enum Turn {
    /// Waits until the next request is due.
    Think,
    /// The drawn thinking time is over, or the request is due.
    Ask,
    Await,
    Answered,
}

struct Client {
    port: PortId,
    pace: Pace,
    think: Draws,
    latency: SeriesId,
    /// Due time of the request.
    due: Ns,
    state: Turn,
}

impl Program for Client {
    fn next(&mut self, env: &mut dyn Env) -> Op {
        loop {
            match self.state {
                Turn::Think => {
                    let due = self.pace.due();
                    self.pace.take();
                    self.due = due.unwrap_or_else(|| env.now() + self.think.next());
                    self.state = Turn::Ask;
                    return Op::SleepTo { at: self.due };
                }
                Turn::Ask => {
                    self.state = Turn::Await;
                    return Op::Send { port: self.port, bytes: PAGE.request };
                }
                Turn::Await => {
                    self.state = Turn::Answered;
                    return Op::Recv { port: self.port, bytes: PAGE.answer };
                }
                Turn::Answered => {
                    let now = env.now();
                    env.record(self.latency, now.since(self.due).0);
                    self.state = Turn::Think;
                }
            }
        }
    }
}

enum Calling {
    Borrow,
    Ask,
    Await,
    GiveBack,
}

/// A task's calls to the next tier, one at a time.
struct Calls {
    loan: Loan,
    ports: Arc<[PortId]>,
    size: Size,
    state: Calling,
}

impl Calls {
    /// The next operation of a call; `None`: it is over.
    fn next(&mut self, env: &mut dyn Env) -> Option<Op> {
        if let Calling::Borrow = self.state {
            if let Some(op) = self.loan.borrow(env) {
                return Some(op);
            }
            self.state = Calling::Ask;
        }
        let port = self.ports[self.loan.connection()];
        match self.state {
            Calling::Borrow | Calling::Ask => {
                self.state = Calling::Await;
                return Some(Op::Send { port, bytes: self.size.request });
            }
            Calling::Await => {
                self.state = Calling::GiveBack;
                return Some(Op::Recv { port, bytes: self.size.answer });
            }
            Calling::GiveBack => {}
        }
        let op = self.loan.give_back(env);
        if op.is_none() {
            self.state = Calling::Borrow;
        }
        op
    }
}

enum Doing {
    Listen,
    Begin,
    Worked,
    Call,
    Answer,
}

/// A task of the web or application server: works before, between and after its calls to the next tier.
struct Tier {
    port: PortId,
    size: Size,
    work: Draws,
    /// Number of calls per request.
    each: u64,
    calls: Calls,
    /// Number of calls left for this request.
    left: u64,
    /// Work before, between and after calls.
    piece: Ns,
    doing: Doing,
}

impl Tier {
    fn new(port: PortId, size: Size, work: Draws, each: u64, calls: Calls) -> Tier {
        Tier { port, size, work, each, calls, left: 0, piece: Ns::ZERO, doing: Doing::Listen }
    }
}

impl Program for Tier {
    fn next(&mut self, env: &mut dyn Env) -> Op {
        loop {
            match self.doing {
                Doing::Listen => {
                    self.doing = Doing::Begin;
                    return Op::Recv { port: self.port, bytes: self.size.request };
                }
                Doing::Begin => {
                    (self.left, self.piece) = (self.each, Ns(self.work.next().0 / (self.each + 1)));
                    self.doing = Doing::Worked;
                    return Op::Run { work: self.piece };
                }
                Doing::Worked if self.left == 0 => self.doing = Doing::Answer,
                Doing::Worked => {
                    self.left -= 1;
                    self.doing = Doing::Call;
                }
                Doing::Call => match self.calls.next(env) {
                    Some(op) => return op,
                    None => {
                        self.doing = Doing::Worked;
                        return Op::Run { work: self.piece };
                    }
                },
                Doing::Answer => {
                    self.doing = Doing::Listen;
                    return Op::Send { port: self.port, bytes: self.size.answer };
                }
            }
        }
    }
}

enum Serving {
    Listen,
    Work,
    Disk,
    Answer,
}

/// A database task: looks up data, and for one query per request waits for the disk.
struct Database {
    port: PortId,
    work: Draws,
    disk: Draws,
    waits: bool,
    queries: u64,
    /// Draws whether a query commits.
    share: Stream,
    query: u64,
    doing: Serving,
}

impl Program for Database {
    fn next(&mut self, _: &mut dyn Env) -> Op {
        loop {
            match self.doing {
                Serving::Listen => {
                    self.doing = Serving::Work;
                    return Op::Recv { port: self.port, bytes: QUERY.request };
                }
                Serving::Work => {
                    self.doing = Serving::Disk;
                    return Op::Run { work: self.work.next() };
                }
                Serving::Disk => {
                    self.query += 1;
                    self.doing = Serving::Answer;
                    if self.waits && self.share.below(self.query, self.queries) == 0 {
                        return Op::Sleep { length: self.disk.next() };
                    }
                }
                Serving::Answer => {
                    self.doing = Serving::Listen;
                    return Op::Send { port: self.port, bytes: QUERY.answer };
                }
            }
        }
    }
}

#[cfg(test)]
#[path = "trade_tests.rs"]
mod tests;
