//! Channels: the cost of calls when one CPU uses both ends, the cost of waiting, and the extra cost of calls when
//! another CPU used the other end.
//!
//! The extra cost comes from messages, buffers and locks in the other CPU's cache. In a burst each message pays it,
//! because its memory was also last used or freed on the other CPU.

use super::batches::{BATCHES_OF_PAIRS, Batches, KnownCosts};
use super::peer::Peer;
use super::place::{as_batch, batch_class};
use crate::agent::engine::run_built;
use crate::sys;
use crate::tasks::channel::pair;
use schedlab_base::{CpuId, Error, Ns, Result};
use schedlab_kernel::Attr;
use schedlab_workload::{Builder, ChannelKind, Env, Op, PortId, Program, SeriesId};
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::atomic::Ordering::SeqCst;

const BATCHES: usize = 404;
/// Number of messages in a burst; they fit any channel's buffer.
const BURST: usize = 16;
/// Bytes: large enough that copying dominates, small enough for one buffer of a pipe.
const LARGE: usize = 4096;

/// Measures calls and waits on the caller's CPU.
pub(super) fn measure(known: &mut KnownCosts, here: CpuId) -> Result<()> {
    let entry = known.costs.syscall_ns;
    let pipe = bursts(ChannelKind::Pipe, 1)?;
    let both = Batches::new(pipe.sent.0.iter().zip(&pipe.received.0).map(|(w, r)| (w + r) / 2).collect());
    known.add(both.cost("pipe_io_ns", entry, "a byte through a pipe, half of write and read"));
    let large = bursts(ChannelKind::Pipe, LARGE)?;
    let per_kb = |t: &u64| t.saturating_sub(pipe.sent.median()) * 1024 / (LARGE as u64 - 1);
    let per_kb = Batches::new(large.sent.0.iter().map(per_kb).collect());
    known.add(per_kb.cost("copy_ns_per_kb", 0, "4 KB into a pipe against a byte"));
    for (kind, names, how) in [
        (ChannelKind::Unix, ["unix_send_ns", "unix_recv_ns"], "a byte through a UNIX socket"),
        (ChannelKind::Tcp, ["tcp_send_ns", "tcp_recv_ns"], "a byte by TCP over loopback"),
        (ChannelKind::Udp, ["udp_send_ns", "udp_recv_ns"], "a datagram over loopback"),
    ] {
        let alone = bursts(kind, 1)?;
        known.add(alone.sent.cost(names[0], entry, how));
        known.add(alone.received.cost(names[1], entry, how));
    }
    programs(known, here)
}

/// Measures the cost of waiting. In a round each of two threads makes a write, a read, a switch and a wait.
pub(super) fn waits(known: &mut KnownCosts, here: CpuId) -> Result<()> {
    let c = known.costs;
    let rest = 2 * c.syscall_ns + c.enqueue_ns + c.context_switch_ns;
    for (kind, name, calls, how) in [
        (
            ChannelKind::Pipe,
            "pipe_wait_ns",
            2 * c.pipe_io_ns,
            "two threads on a CPU that answer each other by pipes",
        ),
        (
            ChannelKind::Unix,
            "socket_wait_ns",
            c.unix_send_ns + c.unix_recv_ns,
            "two threads on a CPU that answer each other by UNIX sockets",
        ),
    ] {
        known.add(ping_pong(kind, here)?.cost(name, rest + calls, how));
    }
    Ok(())
}

/// The extra cost of calls when the other end is used on another CPU. It is measured several times during the probe,
/// because a hypervisor moves its CPUs closer together or farther apart.
#[derive(Default)]
pub(super) struct Apart {
    sent: Vec<u64>,
    received: Vec<u64>,
}

impl Apart {
    /// Measures it once more, with the other end on the CPU `there`.
    pub fn measure(&mut self, there: CpuId) -> Result<()> {
        let apart = bursts_between(ChannelKind::Unix, there)?;
        self.sent.extend(apart.sent.0);
        self.received.extend(apart.received.0);
        Ok(())
    }
    /// Adds the median of all measurements.
    pub fn known(self, known: &mut KnownCosts) {
        let c = known.costs;
        let how = "a byte through a UNIX socket from one CPU to another, against one on one CPU";
        let (send, receive) = (c.syscall_ns + c.unix_send_ns, c.syscall_ns + c.unix_recv_ns);
        known.add(Batches::new(self.sent).cost("remote_send_ns", send, how));
        known.add(Batches::new(self.received).cost("remote_recv_ns", receive, how));
    }
}

pub(super) fn fault(e: io::Error) -> Error {
    Error::machine(format!("can't use a channel of our own: {e}"))
}

/// The end to read from, and the end to write to.
pub(super) fn open(kind: ChannelKind) -> Result<[OwnedFd; 2]> {
    pair(kind, &mut None).map_err(fault)
}

/// Times of each side's calls, ns.
struct Bursts {
    sent: Batches,
    received: Batches,
}

/// ns per call over `count` calls.
fn each(count: usize, mut call: impl FnMut() -> io::Result<usize>) -> io::Result<u64> {
    let began = sys::monotonic_ns();
    for _ in 0..count {
        call()?;
    }
    Ok((sys::monotonic_ns() - began) / count as u64)
}

/// Bursts of messages of `bytes`: sent, then read.
fn bursts(kind: ChannelKind, bytes: usize) -> Result<Bursts> {
    let [from, to] = open(kind)?;
    let mut buffer = vec![0u8; bytes];
    let burst = if bytes == 1 { BURST } else { 4 };
    let (mut sent, mut received) = (Vec::new(), Vec::new());
    for _ in 0..BATCHES {
        sent.push(each(burst, || sys::write(to.as_fd(), &buffer)).map_err(fault)?);
        received.push(each(burst, || sys::read(from.as_fd(), &mut buffer)).map_err(fault)?);
    }
    Ok(Bursts { sent: Batches::new(sent), received: Batches::new(received) })
}

/// Bursts of bytes, sent by the caller, then read by a thread on the CPU `there`. Both always stay awake.
fn bursts_between(kind: ChannelKind, there: CpuId) -> Result<Bursts> {
    let [from, to] = open(kind)?;
    let peer = Peer::start(there, Attr::default(), move |_, shared| {
        while shared.phase.load(SeqCst) == 0 {
            // Wait for `back`, not for `word`: `word` also ends this thread, and then there is no data.
            if shared.back.swap(0, SeqCst) == 0 {
                std::hint::spin_loop();
                continue;
            }
            // Without an answer the other side gives up.
            let Ok(took) = each(BURST, || sys::read(from.as_fd(), &mut [0])) else { return };
            shared.ran_at.store(took.max(1), SeqCst);
        }
    })?;
    let (mut sent, mut received) = (Vec::new(), Vec::new());
    let mut round = || -> Result<()> {
        sent.push(each(BURST, || sys::write(to.as_fd(), &[0])).map_err(fault)?);
        peer.shared.ran_at.store(0, SeqCst);
        peer.shared.back.store(1, SeqCst);
        let late = || Error::machine("a thread on another CPU did not answer within a second");
        received.push(peer.shared.when_it_ran(sys::monotonic_ns() + 1_000_000_000).ok_or_else(late)?);
        Ok(())
    };
    let done = (0..BATCHES).try_for_each(|_| round());
    peer.end();
    done?;
    // Before the first burst the other CPU had not used the channel.
    sent.remove(0);
    Ok(Bursts { sent: Batches::new(sent), received: Batches::new(received) })
}

/// Half a round of two threads on one CPU, each of which runs only while the other waits.
fn ping_pong(kind: ChannelKind, here: CpuId) -> Result<Batches> {
    const ROUNDS: usize = 100;
    let ([back_from, back_to], [from, to]) = (open(kind)?, open(kind)?);
    let answer = |from: BorrowedFd<'_>, to: BorrowedFd<'_>| {
        sys::read(from, &mut [0]).is_ok_and(|n| n == 1) && sys::write(to, &[0]).is_ok()
    };
    let peer = Peer::start(here, batch_class(), move |_, _| while answer(from.as_fd(), back_to.as_fd()) {})?;
    let halves = as_batch(here, move || {
        let mut halves = Vec::new();
        for _ in 0..BATCHES_OF_PAIRS {
            let round = each(ROUNDS, || {
                sys::write(to.as_fd(), &[0])?;
                sys::read(back_from.as_fd(), &mut [0])
            });
            halves.push(round.map_err(fault)? / 2);
        }
        Ok(Batches::new(halves))
    });
    // This thread's end of the channel is closed by now, which ends the other thread.
    peer.end();
    halves?
}

/// A live task that sends bursts to itself and records the total time of a call.
struct Monologue {
    ports: (PortId, PortId),
    calls: usize,
    began: Ns,
    each: SeriesId,
}

impl Program for Monologue {
    fn next(&mut self, env: &mut dyn Env) -> Op {
        let (within, rounds) = (self.calls % (2 * BURST), self.calls / (2 * BURST));
        if within == 0 {
            let now = env.now();
            if rounds > 0 {
                env.record(self.each, now.since(self.began).0 / (2 * BURST as u64));
            }
            self.began = now;
            if rounds == ROUNDS {
                return Op::Exit;
            }
        }
        self.calls += 1;
        match within < BURST {
            true => Op::Send { port: self.ports.1, bytes: 1 },
            false => Op::Recv { port: self.ports.0, bytes: 1 },
        }
    }
}

/// Number of rounds: a tenth of a second, so that the beginning of the run does not matter.
const ROUNDS: usize = 10 * BATCHES;

/// Measures a live task's extra time per call, in addition to the call.
fn programs(known: &mut KnownCosts, here: CpuId) -> Result<()> {
    let mut b = Builder::new(1);
    let each = b.series("probe.call", "ns", "lower");
    let ports = b.channel(ChannelKind::Unix);
    let task = b.task("probe", Box::new(Monologue { ports, calls: 0, began: Ns::ZERO, each }))?;
    b.edit(task).affinity = Some([here].into_iter().collect());
    b.ends_within(Ns::secs(10));
    let measured = run_built(b.finish()?, None)?;
    let c = known.costs;
    let call = c.syscall_ns + (c.unix_send_ns + c.unix_recv_ns) / 2;
    if let Some(seen) = measured.own.series.get("probe.call").filter(|s| s.count() > 0) {
        let all = seen.values().flat_map(|(value, count)| std::iter::repeat_n(value, count as usize));
        let how = "a live task's calls on a UNIX socket of its own, against the calls alone";
        known.add(Batches::new(all.collect()).cost("program_ns", call, how));
    }
    Ok(())
}
