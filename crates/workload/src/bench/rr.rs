//! Request and response over loopback in client-server pairs: the role of netperf's TCP_RR and UDP_RR.
//!
//! As in the original: each client sends a one-byte request, waits for the one-byte response, and sends the next. Each
//! pair has one transaction at a time, no delay (TCP_NODELAY) and its own connection; tasks are processes. Differences:
//! each transaction's latency is recorded, which costs one clock reading each (the end of one is the start of the
//! next); the rate is that of all pairs together. There is no control connection and no CPU accounting.

use super::exchange::{Exchange, Turn};
use super::params::{SECOND, gap, runtime, starts_after, warmup, work};
use crate::build::{Builder, ChannelKind};
use crate::op::{Env, Op, PortId, Program};
use crate::param::{Benchmark, Choice, Param, Params};
use schedlab_base::{Error, Ns, Result};

pub const RR: Benchmark = Benchmark {
    name: "rr",
    about: "clients and servers, a small request and its response over loopback (netperf TCP_RR, UDP_RR)",
    params: PARAMS,
    headline: &["rr.rate", "rr.latency.p50", "rr.latency.p99"],
    own: &["rr.rate", "rr.latency.p99"],
    load_param: "pairs",
    brief: &[("runtime", "100ms")],
    brief_loads: ["{cpus}", "{cpus*2}"],
    form_of: None,
    build,
};

/// The largest datagram, bytes.
const MAX_DATAGRAM: u64 = 65_507;

const PARAMS: &[Param] = &[
    Param::count("pairs", None, 1, (1, 50_000), "clients, each with a server of its own"),
    Param::choice("protocol", &[Choice::word("tcp"), Choice::word("udp")], "transport protocol"),
    Param::count("request", None, 1, (1, 1 << 20), "bytes of a request; over udp at most 65507"),
    Param::count("response", None, 1, (1, 1 << 20), "bytes of a response; over udp at most 65507"),
    work("client_work", "CPU time of a client for each response"),
    work("server_work", "CPU time of a server for each request"),
    gap(),
    runtime(Some('l'), 10 * SECOND),
    warmup(None),
];

fn build(params: &Params, b: &mut Builder) -> Result<()> {
    b.client_side(&["client"]);
    let udp = params.get("protocol")? == 1;
    for name in ["request", "response"] {
        let size = params.get(name)?;
        if udp && size > MAX_DATAGRAM {
            return Err(Error::input(format!("{name} = {size} does not fit a datagram"))
                .help(format!("over udp it takes 1 to {MAX_DATAGRAM}")));
        }
    }
    let (runtime, warmup) = (params.time("runtime")?, params.time("warmup")?);
    let last = starts_after(params, params.count("pairs")? - 1);
    if last >= warmup.plus(runtime) {
        return Err(Error::input(format!("the last client would start after {last}, when the run is over"))
            .help("take a shorter gap, or a longer warmup"));
    }
    let (request, response) = (params.get("request")? as u32, params.get("response")? as u32);
    let latency = b.series("rr.latency", "ns", "lower");
    for p in 0..params.count("pairs")? {
        let kind = if udp { ChannelKind::Udp } else { ChannelKind::Tcp };
        let (near, far) = b.link(kind);
        let work = |side: &str| Ns(params.newer(side));
        let exchange = Exchange::new(latency);
        let starts_after = starts_after(params, p);
        let client =
            Client { port: near, request, response, work: work("client_work"), starts_after, exchange };
        b.task(format!("client-{p}"), Box::new(client))?;
        b.task(
            format!("server-{p}"),
            Box::new(Server {
                port: far,
                request,
                response,
                work: work("server_work"),
                doing: Doing::Answered,
            }),
        )?;
    }
    b.as_processes();
    b.lasts(runtime, warmup);
    Ok(())
}

struct Client {
    port: PortId,
    request: u32,
    response: u32,
    /// Work between a response and the next request.
    work: Ns,
    /// It sleeps so long first.
    starts_after: Ns,
    exchange: Exchange,
}

impl Program for Client {
    fn next(&mut self, env: &mut dyn Env) -> Op {
        let length = std::mem::take(&mut self.starts_after);
        if length > Ns::ZERO {
            return Op::Sleep { length };
        }
        if self.work > Ns::ZERO && self.exchange.close(env) {
            return Op::Run { work: self.work };
        }
        match self.exchange.turn(env) {
            Turn::Ask { .. } => Op::Send { port: self.port, bytes: self.request },
            Turn::Await => Op::Recv { port: self.port, bytes: self.response },
        }
    }
}

struct Server {
    port: PortId,
    request: u32,
    response: u32,
    /// Work per request.
    work: Ns,
    doing: Doing,
}

/// A server's last action.
enum Doing {
    Received,
    Worked,
    Answered,
}

impl Program for Server {
    fn next(&mut self, _: &mut dyn Env) -> Op {
        match self.doing {
            Doing::Answered => {
                self.doing = Doing::Received;
                Op::Recv { port: self.port, bytes: self.request }
            }
            Doing::Received if self.work > Ns::ZERO => {
                self.doing = Doing::Worked;
                Op::Run { work: self.work }
            }
            Doing::Received | Doing::Worked => {
                self.doing = Doing::Answered;
                Op::Send { port: self.port, bytes: self.response }
            }
        }
    }
}

#[cfg(test)]
#[path = "rr_tests.rs"]
mod tests;
