//! System calls of one thread: entry, futex without a waiter, timers, pipes and sockets, copying, threads.

use super::{Batches, Known, timed};
use crate::sys::{self, Scope};
use schedlab_base::{Error, Result};
use std::io;
use std::net::{TcpListener, TcpStream, UdpSocket};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::sync::atomic::AtomicU32;
use std::sync::mpsc;

const BATCHES: usize = 101;
/// Messages that fit into any channel's buffer.
const BURST: usize = 16;
/// Large enough for copying to outweigh the rest, small enough for one buffer of a pipe.
const LARGE: usize = 4096;

/// Measures them.
pub(super) fn measure(known: &mut Known) -> Result<()> {
    // SAFETY: getppid has no arguments and can't fail.
    let syscall = timed(BATCHES, 1_000, || _ = unsafe { libc::syscall(libc::SYS_getppid) });
    known.add(syscall.cost("syscall_ns", 0, "getppid"));
    let entry = known.costs.syscall_ns;
    let word = AtomicU32::new(0);
    let empty = timed(BATCHES, 1_000, || _ = sys::futex_wake(&word, 1, Scope::Threads));
    known.add(empty.cost("futex_wake_empty_ns", entry, "futex wake without a waiter"));
    let asks = timed(BATCHES, 500, || _ = sys::thread_cpu_ns());
    known.add(asks.cost("cpu_clock_ns", 0, "asking for the CPU time of the calling thread"));
    let far = lates()?;
    known.add(far.cost("timer_start_ns", entry, "arming a timerfd"));
    // A timer's interrupt ends with the same.
    let first = firsts()?;
    let how = "arming a timerfd as the CPU's first timer, the slower half of the calls";
    known.add(first.cost("timer_program_ns", far.median(), how));
    known.add(first.cost("timer_exit_ns", far.median(), how));
    channels(known)?;
    known.add(fork()?.cost("fork_ns", 0, "starting a thread, seen from its parent"));
    Ok(())
}

/// Arming one timer far and near in turn: ns of each call that might have made it the CPU's first. Those that did not, because
/// another timer came sooner, are the faster ones.
fn firsts() -> Result<Batches> {
    let timer = timerfd()?;
    let one = |_| {
        arm(&timer, LATE);
        let began = sys::monotonic_ns();
        arm(&timer, SOON);
        sys::monotonic_ns() - began
    };
    let mut all: Vec<u64> = (0..BATCHES * 20).map(one).collect();
    all.sort_unstable();
    Ok(Batches(all.split_off(all.len() / 2)))
}

/// After the next ticks.
const LATE: libc::timespec = libc::timespec { tv_sec: 100, tv_nsec: 0 };
/// Mostly before the next tick, and never reached.
const SOON: libc::timespec = libc::timespec { tv_sec: 0, tv_nsec: 300_000 };

/// Arming a timer that is not the CPU's first, ns a call.
fn lates() -> Result<Batches> {
    let timer = timerfd()?;
    Ok(timed(BATCHES, 500, || arm(&timer, LATE)))
}

fn timerfd() -> Result<OwnedFd> {
    // SAFETY: the call takes no pointers.
    let fd = unsafe { libc::timerfd_create(libc::CLOCK_MONOTONIC, libc::TFD_CLOEXEC) };
    if fd < 0 {
        return Err(Error::machine(format!("can't make a timerfd: {}", io::Error::last_os_error())));
    }
    // SAFETY: a new descriptor that nobody else owns.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

fn arm(timer: &OwnedFd, it_value: libc::timespec) {
    let spec = libc::itimerspec { it_interval: libc::timespec { tv_sec: 0, tv_nsec: 0 }, it_value };
    // SAFETY: `spec` outlives the call; the old value is not asked for.
    unsafe { libc::timerfd_settime(timer.as_raw_fd(), 0, &spec, std::ptr::null_mut()) };
}

fn channels(known: &mut Known) -> Result<()> {
    let fault = |e: io::Error| Error::machine(format!("can't open a channel: {e}"));
    let entry = known.costs.syscall_ns;
    let (reader, writer) = io::pipe().map_err(fault)?;
    let (write, read) = bursts(writer.as_fd(), reader.as_fd(), 1)?;
    let both: Vec<u64> = write.0.iter().zip(&read.0).map(|(w, r)| (w + r) / 2).collect();
    known.add(Batches::new(both).cost("pipe_io_ns", entry, "a byte through a pipe, half of write and read"));
    let (large, _) = bursts(writer.as_fd(), reader.as_fd(), LARGE)?;
    let per_kb =
        large.0.iter().map(|t| t.saturating_sub(write.median()) * 1024 / (LARGE as u64 - 1)).collect();
    known.add(Batches::new(per_kb).cost("copy_ns_per_kb", 0, "4 KB into a pipe against a byte"));
    let (a, b) = UnixStream::pair().map_err(fault)?;
    pair(known, ["unix_send_ns", "unix_recv_ns"], a.as_fd(), b.as_fd(), "a byte through a UNIX socket")?;
    let listener = TcpListener::bind("127.0.0.1:0").map_err(fault)?;
    let client = TcpStream::connect(listener.local_addr().map_err(fault)?).map_err(fault)?;
    client.set_nodelay(true).map_err(fault)?;
    let (server, _) = listener.accept().map_err(fault)?;
    pair(
        known,
        ["tcp_send_ns", "tcp_recv_ns"],
        client.as_fd(),
        server.as_fd(),
        "a byte by TCP over loopback",
    )?;
    let (from, to) = (udp().map_err(fault)?, udp().map_err(fault)?);
    from.connect(to.local_addr().map_err(fault)?).map_err(fault)?;
    pair(known, ["udp_send_ns", "udp_recv_ns"], from.as_fd(), to.as_fd(), "a datagram over loopback")?;
    Ok(())
}

fn udp() -> io::Result<UdpSocket> {
    UdpSocket::bind("127.0.0.1:0")
}

fn pair(
    known: &mut Known,
    names: [&str; 2],
    from: BorrowedFd<'_>,
    to: BorrowedFd<'_>,
    how: &str,
) -> Result<()> {
    let (send, receive) = bursts(from, to, 1)?;
    let entry = known.costs.syscall_ns;
    known.add(send.cost(names[0], entry, how));
    known.add(receive.cost(names[1], entry, how));
    Ok(())
}

/// Messages of `bytes` sent in bursts, then read: ns a call for each side.
fn bursts(from: BorrowedFd<'_>, to: BorrowedFd<'_>, bytes: usize) -> Result<(Batches, Batches)> {
    let fault = |e: io::Error| Error::machine(format!("can't send through a channel of our own: {e}"));
    let mut buffer = vec![0u8; bytes];
    let burst = if bytes == 1 { BURST } else { 4 };
    let (mut sent, mut received) = (Vec::new(), Vec::new());
    for _ in 0..BATCHES * 4 {
        let began = sys::monotonic_ns();
        for _ in 0..burst {
            sys::write(from, &buffer).map_err(fault)?;
        }
        let between = sys::monotonic_ns();
        for _ in 0..burst {
            sys::read(to, &mut buffer).map_err(fault)?;
        }
        sent.push((between - began) / burst as u64);
        received.push((sys::monotonic_ns() - between) / burst as u64);
    }
    Ok((Batches::new(sent), Batches::new(received)))
}

fn fork() -> Result<Batches> {
    let (done, wait) = mpsc::channel();
    let mut times = Vec::new();
    for _ in 0..BATCHES {
        let done = done.clone();
        let began = sys::monotonic_ns();
        sys::spawn_thread(64 * 1024, Box::new(move || _ = done.send(())))
            .map_err(|e| Error::machine(format!("can't start a thread: {e}")))?;
        times.push(sys::monotonic_ns() - began);
        // It ends when the parent does; nothing is left to be told.
        let _ = wait.recv();
    }
    Ok(Batches::new(times))
}
