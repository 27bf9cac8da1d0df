//! Web clients' sessions at a rate, answered by a web server: the role of httperf and of the server that it loads.
//!
//! As in the original (`--wsess`, `--burst-length`, `--rate`): sessions begin at a fixed rate, even if the server can't
//! keep up. A session is a number of calls in bursts over one connection. The first call of a burst is sent alone;
//! after its answer the others are sent back to back. The user thinks between bursts. Differences: the clients are
//! tasks with at most one session at a time (the original is one process with all sessions in one loop); their
//! connections exist from the beginning; the run has a length instead of a number of sessions. If its client is busy, a
//! session begins late, but its time counts from when it was due. Within a session, the rest of a burst is due at the
//! first answer, and the next burst after the thinking time. So a stalled server does not look better because requests
//! are missing.
//!
//! The server has a task per connection, or a few workers that serve several connections in one loop: wait for any of
//! them (epoll), read a request, work, answer. Clients and server share only the connections.

use super::draws::Draws;
use super::pace::Pace;
use super::params::{SECOND, in_mode, mode, runtime, warmup};
use crate::build::{Builder, ChannelKind};
use crate::op::{Env, Op, Outcome, PortId, Program, SeriesId, SetId};
use crate::param::{Benchmark, Choice, Param, Params};
use schedlab_base::{Error, Ns, Result};

pub const HTTP: Benchmark = Benchmark {
    name: "http",
    about: "web sessions in bursts of calls at a rate, and the server that answers (httperf)",
    params: PARAMS,
    headline: &["http.rate", "http.latency.p50", "http.latency.p99"],
    own: &["http.rate", "http.latency.p99"],
    load_param: "rate",
    brief: &[("runtime", "500ms")],
    brief_loads: ["{cpus*100}", "{cpus*400}"],
    form_of: None,
    build,
};

/// Limit for the rest of a burst, bytes. It must fit the server's receive buffer, because the client sends all of it
/// before it reads an answer.
const MAX_BURST_BYTES: u64 = 64 * 1024;

const PARAMS: &[Param] = &[
    Param::count(
        "clients",
        None,
        16,
        (1, 50_000),
        "clients, each with a connection and one session at a time",
    ),
    Param::count(
        "rate",
        None,
        100,
        (0, 10_000_000),
        "sessions per second, evenly paced; 0: the next follows the last",
    ),
    Param::count("calls", None, 10, (1, 1_000_000), "calls of a session"),
    Param::count("burst", None, 5, (1, 100_000), "calls of a burst"),
    Param::time("think", None, "s", 0, (0, 60 * SECOND), "time between two bursts of a session"),
    Param::count("request", None, 80, (1, 1 << 16), "bytes of a request"),
    Param::count("response", None, 2048, (1, 1 << 20), "bytes of a response"),
    Param::time("work", None, "us", 50_000, (0, SECOND), "mean CPU time of the server for a call"),
    Param::count(
        "workers",
        None,
        0,
        (0, 10_000),
        "server tasks that share the connections; 0: one for each connection",
    ),
    runtime(Some('r'), 10 * SECOND),
    warmup(None),
    mode(&[Choice::word("process"), Choice::word("thread")]),
];

fn build(params: &Params, b: &mut Builder) -> Result<()> {
    b.client_side(&["client"]);
    let (burst, request) = (params.get("burst")?, params.get("request")?);
    if (burst - 1) * request > MAX_BURST_BYTES {
        return Err(Error::input(format!("a burst of {burst} requests of {request} bytes is too long"))
            .help(format!("the calls after the first may have {MAX_BURST_BYTES} bytes together")));
    }
    let clients = params.count("clients")?;
    let recorded = Recorded {
        latency: b.series("http.latency", "ns", "lower"),
        session: b.series("http.session", "ns", "lower"),
    };
    let size = Size { request: request as u32, response: params.get("response")? as u32 };
    let mut servers = Vec::new();
    for c in 0..clients {
        let (near, far) = b.link(ChannelKind::Tcp);
        let client = Client {
            port: near,
            size,
            pace: Pace::new(params.get("rate")?, c, clients),
            calls: params.get("calls")?,
            burst,
            think: params.time("think")?,
            recorded,
            begun: Ns::ZERO,
            due: Ns::ZERO,
            left: 0,
            state: State::Between,
        };
        b.task(format!("client/{c}"), Box::new(client))?;
        servers.push((far, Draws::new(params.time("work")?, b.stream("http.work", c as u64))));
    }
    serve(servers, params.count("workers")?, size, b)?;
    in_mode(params, b)?;
    b.lasts(params.time("runtime")?, params.time("warmup")?);
    Ok(())
}

/// Declares the server's tasks: one per connection, or `workers` that share them.
fn serve(servers: Vec<(PortId, Draws)>, workers: usize, size: Size, b: &mut Builder) -> Result<()> {
    if workers == 0 {
        for (c, (port, work)) in servers.into_iter().enumerate() {
            b.task(format!("server/{c}"), Box::new(Server { port, size, work, doing: Doing::Listen }))?;
        }
        return Ok(());
    }
    // There are at most as many workers as connections, because a worker without one would be idle.
    let mut shares: Vec<Vec<(PortId, Draws)>> = Vec::new();
    shares.resize_with(workers.min(servers.len()), Vec::new);
    let all = shares.len();
    for (c, server) in servers.into_iter().enumerate() {
        shares[c % all].push(server);
    }
    for (w, connections) in shares.into_iter().enumerate() {
        let set = b.set(connections.iter().map(|(port, _)| *port).collect());
        b.task(
            format!("server/{w}"),
            Box::new(Worker { set, connections, size, serves: 0, doing: Serving::Wait }),
        )?;
    }
    Ok(())
}

#[derive(Clone, Copy)]
struct Size {
    request: u32,
    response: u32,
}

#[derive(Clone, Copy)]
struct Recorded {
    latency: SeriesId,
    session: SeriesId,
}

enum State {
    /// No session.
    Between,
    /// The first call of a burst is due.
    First,
    /// That call was sent.
    AwaitFirst,
    /// Its answer has arrived.
    FirstAnswered,
    /// Calls of the burst to send, and all unanswered calls.
    Ask(u64, u64),
    /// An answer has arrived. Value: unanswered calls, including this one.
    Answered(u64),
}

/// A client: one session after another.
struct Client {
    port: PortId,
    size: Size,
    pace: Pace,
    calls: u64,
    burst: u64,
    think: Ns,
    recorded: Recorded,
    /// Due time of the session.
    begun: Ns,
    /// Due time of the call.
    due: Ns,
    /// Unanswered calls of the session.
    left: u64,
    state: State,
}

impl Client {
    fn send(&self) -> Op {
        Op::Send { port: self.port, bytes: self.size.request }
    }
    fn receive(&self) -> Op {
        Op::Recv { port: self.port, bytes: self.size.response }
    }
    /// Begins the next session; returns the sleep until it is due.
    fn begin(&mut self, env: &mut dyn Env) -> Option<Op> {
        let now = env.now();
        let due = self.pace.due().unwrap_or(now);
        if now < due {
            return Some(Op::SleepTo { at: due });
        }
        self.pace.take();
        (self.begun, self.due, self.left) = (due, due, self.calls);
        self.state = State::First;
        None
    }
    /// Counts a new answer.
    fn answered(&mut self, env: &mut dyn Env) -> Ns {
        let now = env.now();
        env.record(self.recorded.latency, now.since(self.due).0);
        self.left -= 1;
        if self.left == 0 {
            env.record(self.recorded.session, now.since(self.begun).0);
        }
        now
    }
    /// The burst ended at `now`: the user thinks, or the session ends, too.
    fn burst_over(&mut self, now: Ns) -> Option<Op> {
        if self.left == 0 {
            self.state = State::Between;
            return None;
        }
        (self.due, self.state) = (now + self.think, State::First);
        (self.think > Ns::ZERO).then_some(Op::SleepTo { at: self.due })
    }
}

impl Program for Client {
    fn next(&mut self, env: &mut dyn Env) -> Op {
        loop {
            match self.state {
                State::Between => {
                    if let Some(sleep) = self.begin(env) {
                        return sleep;
                    }
                }
                State::First => {
                    self.state = State::AwaitFirst;
                    return self.send();
                }
                State::AwaitFirst => {
                    self.state = State::FirstAnswered;
                    return self.receive();
                }
                State::FirstAnswered => {
                    let now = self.answered(env);
                    let rest = (self.burst - 1).min(self.left);
                    if rest > 0 {
                        (self.due, self.state) = (now, State::Ask(rest, rest));
                    } else if let Some(think) = self.burst_over(now) {
                        return think;
                    }
                }
                State::Ask(0, missing) => {
                    self.state = State::Answered(missing);
                    return self.receive();
                }
                State::Ask(left, missing) => {
                    self.state = State::Ask(left - 1, missing);
                    return self.send();
                }
                State::Answered(missing) => {
                    let now = self.answered(env);
                    if missing > 1 {
                        self.state = State::Ask(0, missing - 1);
                    } else if let Some(think) = self.burst_over(now) {
                        return think;
                    }
                }
            }
        }
    }
}

enum Doing {
    Listen,
    Work,
    Answer,
}

/// The server's task for one connection.
struct Server {
    port: PortId,
    size: Size,
    work: Draws,
    doing: Doing,
}

impl Program for Server {
    fn next(&mut self, _: &mut dyn Env) -> Op {
        match self.doing {
            Doing::Listen => {
                self.doing = Doing::Work;
                Op::Recv { port: self.port, bytes: self.size.request }
            }
            Doing::Work => {
                self.doing = Doing::Answer;
                Op::Run { work: self.work.next() }
            }
            Doing::Answer => {
                self.doing = Doing::Listen;
                Op::Send { port: self.port, bytes: self.size.response }
            }
        }
    }
}

enum Serving {
    /// Waits for a request on any connection.
    Wait,
    Come,
    Work,
    Answer,
}

/// A server's task that serves several connections.
struct Worker {
    set: SetId,
    /// Sorted by number.
    connections: Vec<(PortId, Draws)>,
    size: Size,
    /// Index of the connection being served.
    serves: usize,
    doing: Serving,
}

impl Program for Worker {
    fn next(&mut self, env: &mut dyn Env) -> Op {
        match self.doing {
            Serving::Wait => {
                self.doing = Serving::Come;
                Op::Poll { set: self.set }
            }
            Serving::Come => {
                let Outcome::Ready(port) = env.outcome() else { return Op::Poll { set: self.set } };
                self.serves = self.connections.binary_search_by_key(&port.0, |(own, _)| own.0).unwrap_or(0);
                self.doing = Serving::Work;
                Op::Recv { port, bytes: self.size.request }
            }
            Serving::Work => {
                self.doing = Serving::Answer;
                Op::Run { work: self.connections[self.serves].1.next() }
            }
            Serving::Answer => {
                self.doing = Serving::Wait;
                Op::Send { port: self.connections[self.serves].0, bytes: self.size.response }
            }
        }
    }
}

#[cfg(test)]
#[path = "http_tests.rs"]
mod tests;
