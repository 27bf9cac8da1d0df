//! hackbench: groups of senders and receivers that all talk to each other. The result is the time for all messages.
//!
//! As in the original (rt-tests): a group has `fds` senders, `fds` receivers and a channel per receiver. Each sender
//! writes one message to each receiver in turn, `loops` times, and ends. Each receiver reads messages of `datasize`
//! bytes until all of its group have arrived, and ends. All tasks exist before the first message. Defaults, option
//! letters and their meanings are the original's, including sockets and processes. Differences: the last task to get
//! ready gives the start signal, instead of a parent. The last task to finish stops the clock, instead of a parent that
//! waits for its exit. A run cut off by `runtime` has no result.

use super::gate::{Gate, Pass};
use super::params::{SECOND, at_most, in_mode, mode};
use crate::build::{Builder, ChannelKind, MAX_TASKS};
use crate::op::{Env, Op, PortId, Program, SeriesId};
use crate::param::{Benchmark, Choice, Param, Params};
use schedlab_base::{Error, Result};
use std::sync::Arc;

pub const HACKBENCH: Benchmark = Benchmark {
    name: "hackbench",
    about: "groups of senders and receivers, all talking to each other; time until all messages have come",
    params: PARAMS,
    headline: &["hackbench.elapsed.mean"],
    own: &["hackbench.elapsed.mean"],
    load_param: "groups",
    brief: &[("loops", "10")],
    brief_loads: ["1", "{cpus*2}"],
    form_of: None,
    build,
};

const PARAMS: &[Param] = &[
    Param::count("groups", Some('g'), 10, (1, 10_000), "groups"),
    Param::count("fds", Some('f'), 20, (1, 1_000), "senders of a group, and as many receivers"),
    Param::count("loops", Some('l'), 100, (1, 1_000_000_000), "messages from each sender to each receiver"),
    Param::count("datasize", Some('s'), 100, (1, 1 << 20), "bytes of a message"),
    Param::choice(
        "transport",
        &[Choice::word("socket"), Choice::switch("pipe", "pipe", 'p')],
        "what messages go through: AF_UNIX stream sockets, or pipes",
    ),
    mode(&[Choice::switch("process", "process", 'P'), Choice::switch("thread", "threads", 'T')]),
    at_most(600 * SECOND),
];

fn build(params: &Params, b: &mut Builder) -> Result<()> {
    let (groups, fds) = (params.count("groups")?, params.count("fds")?);
    let (loops, bytes) = (params.get("loops")?, params.get("datasize")? as u32);
    let kind = if params.get("transport")? == 0 { ChannelKind::Unix } else { ChannelKind::Pipe };
    let tasks = groups * fds * 2;
    if tasks > MAX_TASKS {
        return Err(Error::input(format!(
            "groups = {groups} with fds = {fds} senders and receivers each makes {tasks} tasks, more than {MAX_TASKS}"
        ))
        .help("lower groups (-g) or fds (-f)"));
    }
    let elapsed = b.series("hackbench.elapsed", "ns", "lower");
    let gate = Gate::new(tasks, b);
    for g in 0..groups {
        let ends: Vec<(PortId, PortId)> = (0..fds).map(|_| b.channel(kind)).collect();
        let messages = loops * fds as u64;
        let talk = |ports, sends| {
            Box::new(Talker { ports, turn: 0, sends, bytes, left: messages, pass: gate.pass(), elapsed })
        };
        for (r, (read, _)) in ends.iter().enumerate() {
            b.task(format!("receiver-{g}-{r}"), talk(Arc::new([*read]), false))?;
        }
        let outs: Arc<[PortId]> = ends.iter().map(|(_, write)| *write).collect();
        for s in 0..fds {
            b.task(format!("sender-{g}-{s}"), talk(outs.clone(), true))?;
        }
    }
    in_mode(params, b)?;
    b.ends_within(params.time("runtime")?);
    Ok(())
}

/// A sender or a receiver. It changes with every message, so two threads' values must not share a cache line (or a pair
/// of lines that are fetched together).
#[repr(align(128))]
struct Talker {
    /// The ends that it writes to in turn, or reads from.
    ports: Arc<[PortId]>,
    /// Index of the current end.
    turn: usize,
    sends: bool,
    bytes: u32,
    /// Number of messages left.
    left: u64,
    pass: Pass,
    elapsed: SeriesId,
}

impl Program for Talker {
    fn next(&mut self, env: &mut dyn Env) -> Op {
        if let Some(op) = self.pass.enter(env) {
            return op;
        }
        if self.left == 0 {
            if let Some(elapsed) = self.pass.leave(env) {
                env.record(self.elapsed, elapsed.0);
            }
            return Op::Exit;
        }
        let (port, bytes) = (self.ports[self.turn], self.bytes);
        // No division here: a message costs little more than its system call.
        self.turn = if self.turn + 1 == self.ports.len() { 0 } else { self.turn + 1 };
        self.left -= 1;
        if self.sends { Op::Send { port, bytes } } else { Op::Recv { port, bytes } }
    }
}

#[cfg(test)]
#[path = "hackbench_tests.rs"]
mod tests;
