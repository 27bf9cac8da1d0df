//! Clients of a file server, each with its own TCP connection: the role of tbench.
//!
//! As in the original: a server process per client; clients play a script of file server calls, one at a time: small
//! calls about names and attributes, mixed with reads and writes of 4 to 64 KB; clients do no work themselves.
//! Throughput counts the bytes of files read and written, not calls. Differences: the script is the table below, not a
//! recording; each client begins at a place in it drawn by the seed; nothing is stored, so CPU time stands for the
//! server's look-ups and copies; there is no clean-up between two passes.

use super::exchange::{Exchange, Turn};
use super::params::{SECOND, runtime, warmup, work};
use crate::build::{Builder, ChannelKind};
use crate::op::{Env, Op, PortId, Program, SeriesId};
use crate::param::{Benchmark, Param, Params};
use schedlab_base::{Ns, Result};

pub const STREAM_RR: Benchmark = Benchmark {
    name: "stream-rr",
    about: "clients of a file server over TCP, small calls mixed with reads and writes (tbench)",
    params: PARAMS,
    headline: &["stream-rr.throughput", "stream-rr.latency.p50", "stream-rr.latency.p99"],
    own: &["stream-rr.throughput", "stream-rr.latency.p99"],
    load_param: "clients",
    brief: &[("runtime", "100ms")],
    brief_loads: ["{cpus}", "{cpus*2}"],
    form_of: None,
    build,
};

const PARAMS: &[Param] = &[
    Param::count("clients", None, 1, (1, 50_000), "clients, each with a server of its own"),
    work("client_work", "CPU time of a client for each answer"),
    work("server_work", "CPU time of a server for each call, beside the script's"),
    runtime(Some('t'), 10 * SECOND),
    warmup(None),
];

/// A call: bytes in each direction, the server's work, and the bytes that are file data.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Call {
    request: u32,
    response: u32,
    work: Ns,
    data: u32,
}

const KB: u32 = 1024;
/// Bytes of a call without file data.
const HEADER: u32 = 64;

/// A call about names or attributes.
const fn meta(request: u32, response: u32, work_ns: u64) -> Call {
    Call { request, response, work: Ns(work_ns), data: 0 }
}
const fn read(bytes: u32, work_ns: u64) -> Call {
    Call { request: HEADER, response: HEADER + bytes, work: Ns(work_ns), data: bytes }
}
const fn write(bytes: u32, work_ns: u64) -> Call {
    Call { request: HEADER + bytes, response: HEADER, work: Ns(work_ns), data: bytes }
}

const LOOKUP: Call = meta(96, 112, 1_500);
const OPEN: Call = meta(128, 140, 3_000);
const ATTRIBUTES: Call = meta(76, 116, 1_000);
const LIST: Call = meta(92, 2_100, 5_000);
const FLUSH: Call = meta(48, 40, 2_000);
const RENAME: Call = meta(180, 40, 4_000);
const REMOVE: Call = meta(104, 40, 3_500);
const CLOSE: Call = meta(48, 40, 800);

/// A client's calls: it saves documents, looks through a folder, copies files.
const SCRIPT: &[Call] = &[
    LOOKUP,
    OPEN,
    ATTRIBUTES,
    write(4 * KB, 1_500),
    write(16 * KB, 3_000),
    write(64 * KB, 9_000),
    FLUSH,
    ATTRIBUTES,
    CLOSE,
    RENAME,
    LIST,
    LOOKUP,
    ATTRIBUTES,
    LOOKUP,
    OPEN,
    ATTRIBUTES,
    read(4 * KB, 1_500),
    read(32 * KB, 5_000),
    read(64 * KB, 9_000),
    read(64 * KB, 9_000),
    CLOSE,
    LOOKUP,
    OPEN,
    write(32 * KB, 5_000),
    CLOSE,
    ATTRIBUTES,
    LOOKUP,
    REMOVE,
];

fn build(params: &Params, b: &mut Builder) -> Result<()> {
    b.client_side(&["client"]);
    let latency = b.series("stream-rr.latency", "ns", "lower");
    let data = b.series("stream-rr.data", "B", "neither");
    for c in 0..params.count("clients")? {
        let (near, far) = b.link(ChannelKind::Tcp);
        let at = b.stream("stream-rr.start", c as u64).below(0, SCRIPT.len() as u64) as usize;
        let work = |side: &str| Ns(params.newer(side));
        let client =
            Client { port: near, at, data, work: work("client_work"), exchange: Exchange::new(latency) };
        b.task(format!("client-{c}"), Box::new(client))?;
        b.task(
            format!("server-{c}"),
            Box::new(Server { port: far, at, work: work("server_work"), doing: Doing::Listen }),
        )?;
    }
    b.as_processes();
    b.lasts(params.time("runtime")?, params.time("warmup")?);
    Ok(())
}

struct Client {
    port: PortId,
    /// Index into the script.
    at: usize,
    data: SeriesId,
    /// Work between an answer and the next call.
    work: Ns,
    exchange: Exchange,
}

impl Program for Client {
    fn next(&mut self, env: &mut dyn Env) -> Op {
        if self.work > Ns::ZERO && self.exchange.close(env) {
            return Op::Run { work: self.work };
        }
        let call = SCRIPT[self.at];
        let Turn::Ask { answered } = self.exchange.turn(env) else {
            return Op::Recv { port: self.port, bytes: call.response };
        };
        if answered {
            if call.data > 0 {
                env.record(self.data, u64::from(call.data));
            }
            self.at = (self.at + 1) % SCRIPT.len();
        }
        Op::Send { port: self.port, bytes: SCRIPT[self.at].request }
    }
}

enum Doing {
    Listen,
    Work,
    Answer,
}

/// Plays the client's script from the same place, so messages need no content.
struct Server {
    port: PortId,
    at: usize,
    /// Additional work per call.
    work: Ns,
    doing: Doing,
}

impl Program for Server {
    fn next(&mut self, _: &mut dyn Env) -> Op {
        let call = SCRIPT[self.at];
        match self.doing {
            Doing::Listen => {
                self.doing = Doing::Work;
                Op::Recv { port: self.port, bytes: call.request }
            }
            Doing::Work => {
                self.doing = Doing::Answer;
                Op::Run { work: call.work.plus(self.work) }
            }
            Doing::Answer => {
                self.doing = Doing::Listen;
                self.at = (self.at + 1) % SCRIPT.len();
                Op::Send { port: self.port, bytes: call.response }
            }
        }
    }
}

#[cfg(test)]
#[path = "stream_rr_tests.rs"]
mod tests;
