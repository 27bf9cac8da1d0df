//! Two tasks that pass a token back and forth over two pipes: `perf bench sched pipe`.
//!
//! As in the original: one task writes then reads, the other reads then writes, `loops` times, four bytes each time. A
//! loop is a round trip, with at least two switches if both are on one CPU. Processes by default, `-T` for threads.
//! Differences: the time excludes the making of the tasks, which exist when it begins; there may be several pairs at
//! once, and the last one ends the run; `size` can be changed. A run cut off by `runtime` has no result.

use super::gate::{Gate, Pass};
use super::params::{SECOND, at_most, in_mode, mode, work};
use crate::build::{Builder, ChannelKind};
use crate::op::{Env, Op, PortId, Program, SeriesId};
use crate::param::{Benchmark, Choice, Param, Params};
use schedlab_base::{Ns, Result};

pub const PIPE: Benchmark = Benchmark {
    name: "pipe",
    about: "two tasks that pass a token to and fro over two pipes (perf bench sched pipe)",
    params: PARAMS,
    headline: &["pipe.round_trip.mean", "pipe.elapsed.mean"],
    own: &["pipe.round_trip.mean", "pipe.elapsed.mean"],
    load_param: "pairs",
    brief: &[("loops", "2000")],
    brief_loads: ["1", "{cpus*2}"],
    form_of: None,
    build,
};

const PARAMS: &[Param] = &[
    Param::count("loops", Some('l'), 1_000_000, (1, 1_000_000_000), "round trips"),
    // A token larger than the pipe can still be passed, since the other side reads.
    Param::count("size", None, 4, (1, 1 << 20), "bytes of the token"),
    Param::count("pairs", None, 1, (1, 50_000), "pairs of tasks, each with pipes of its own"),
    work("client_work", "CPU time of the first task for each token that it reads"),
    work("server_work", "CPU time of the second task for each token that it reads"),
    mode(&[Choice::word("process"), Choice::switch("thread", "threaded", 'T')]),
    at_most(600 * SECOND),
];

fn build(params: &Params, b: &mut Builder) -> Result<()> {
    let (loops, bytes, pairs) = (params.get("loops")?, params.get("size")? as u32, params.count("pairs")?);
    let round_trip = b.series("pipe.round_trip", "ns", "lower");
    let elapsed = b.series("pipe.elapsed", "ns", "lower");
    let gate = Gate::new(2 * pairs, b);
    for p in 0..pairs {
        let (there, back) = (b.channel(ChannelKind::Pipe), b.channel(ChannelKind::Pipe));
        for (name, write, read, serves) in
            [("first", there.1, back.0, true), ("second", back.1, there.0, false)]
        {
            let pass = gate.pass();
            let player = Player {
                write,
                read,
                bytes,
                sends: serves,
                left: 2 * loops,
                loops,
                work: Ns(params.newer(if serves { "client_work" } else { "server_work" })),
                has_read: false,
                pass,
                round_trip,
                elapsed,
            };
            b.task(format!("{name}-{p}"), Box::new(player))?;
        }
    }
    in_mode(params, b)?;
    b.ends_within(params.time("runtime")?);
    Ok(())
}

/// One of the two tasks. It changes with every call, so two threads' values must not share a cache line (or a pair of
/// lines that are fetched together).
#[repr(align(128))]
struct Player {
    write: PortId,
    read: PortId,
    bytes: u32,
    /// Whether it writes next.
    sends: bool,
    /// Number of calls left, two per loop.
    left: u64,
    loops: u64,
    /// Work for each token that it reads; and whether it has just read one.
    work: Ns,
    has_read: bool,
    pass: Pass,
    round_trip: SeriesId,
    elapsed: SeriesId,
}

impl Program for Player {
    fn next(&mut self, env: &mut dyn Env) -> Op {
        if let Some(op) = self.pass.enter(env) {
            return op;
        }
        if std::mem::take(&mut self.has_read) && self.work > Ns::ZERO {
            return Op::Run { work: self.work };
        }
        if self.left == 0 {
            if let Some(elapsed) = self.pass.leave(env) {
                env.record(self.elapsed, elapsed.0);
                env.record(self.round_trip, (elapsed.0 + self.loops / 2) / self.loops);
            }
            return Op::Exit;
        }
        self.left -= 1;
        let bytes = self.bytes;
        self.sends = !self.sends;
        self.has_read = self.sends;
        if self.sends { Op::Recv { port: self.read, bytes } } else { Op::Send { port: self.write, bytes } }
    }
}

#[cfg(test)]
#[path = "pipe_tests.rs"]
mod tests;
