//! System calls of one thread: entry, futex without a waiter, timers, threads.

use super::batches::{Batches, KnownCosts, timed};
use crate::sys::{self, Scope};
use schedlab_base::{Error, Result};
use std::os::fd::OwnedFd;
use std::sync::atomic::AtomicU32;
use std::sync::mpsc;

const BATCHES: usize = 101;

pub(super) fn measure(known: &mut KnownCosts) -> Result<()> {
    let syscall = timed(BATCHES, 1_000, sys::enter_kernel);
    known.add(syscall.cost("syscall_ns", 0, "getppid"));
    let entry = known.costs.syscall_ns;
    let word = AtomicU32::new(0);
    let empty = timed(BATCHES, 1_000, || _ = sys::futex_wake(&word, 1, Scope::Threads));
    known.add(empty.cost("futex_wake_empty_ns", entry, "futex wake without a waiter"));
    let how = "computing by a thread's CPU clock just after a sleep: half of what it takes beyond that";
    known.add(asks().cost("cpu_clock_ns", 0, how));
    let far = lates()?;
    known.add(far.cost("timer_start_ns", entry, "arming a timerfd"));
    // A timer's interrupt ends by programming the next timer, too.
    let first = firsts()?;
    let how = "arming a timerfd as the CPU's first timer, beside arming a later one";
    known.add(first.cost("timer_program_ns", far.median(), how));
    known.add(first.cost("timer_exit_ns", far.median(), how));
    // A restarted tick becomes its CPU's first timer and is programmed.
    known.add(first.cost("tick_restart_ns", far.median(), how));
    known.add(fork()?.cost("fork_ns", 0, "starting a thread, seen from its parent"));
    if let Ok(file) = sys::no_program()
        && sys::exec(&file).is_ok()
    {
        let exec = timed(BATCHES, 20, || _ = sys::exec(&file));
        known.add(exec.cost("exec_ns", entry, "executing a file in memory of no known format, on one CPU"));
    }
    Ok(())
}

/// Reading the calling thread's CPU time, as programs do before and after they compute for a while after a wait. The
/// first read finds cold caches. In a loop a read takes half as long.
fn asks() -> Batches {
    const WORK_NS: u64 = 10_000;
    let one = |_| {
        sys::sleep_for(100_000);
        let began = sys::monotonic_ns();
        let end = sys::thread_cpu_ns() + WORK_NS;
        loop {
            let left = end.saturating_sub(sys::thread_cpu_ns());
            if left == 0 {
                break (sys::monotonic_ns() - began).saturating_sub(WORK_NS) / 2;
            }
            let until = sys::monotonic_ns() + left;
            while sys::monotonic_ns() < until {
                std::hint::spin_loop();
            }
        }
    };
    Batches::new((0..BATCHES * 4).map(one).collect())
}

/// Arms one timer alternately far and near: ns of each call that made it the CPU's first and so programmed the
/// hardware.
fn firsts() -> Result<Batches> {
    let timer = timer()?;
    let one = |_| {
        sys::arm_timer(&timer, LATE);
        let began = sys::monotonic_ns();
        sys::arm_timer(&timer, SOON);
        sys::monotonic_ns() - began
    };
    Ok(slower_kind(&Batches::new((0..BATCHES * 20).map(one).collect())))
}

/// The slower of two kinds of calls: those slower than the middle between the fast and the slow end. The fast calls did
/// not program the hardware, because another timer came sooner; their share does not matter. If there is only one kind,
/// this is its slower half.
fn slower_kind(all: &Batches) -> Batches {
    let middle = all.quantile(5).midpoint(all.quantile(95));
    Batches(all.0.iter().copied().filter(|ns| *ns >= middle).collect())
}

/// A time after the next few ticks.
const LATE: libc::timespec = libc::timespec { tv_sec: 100, tv_nsec: 0 };
/// A time that is usually before the next tick and any other timer, and is never reached.
const SOON: libc::timespec = libc::timespec { tv_sec: 0, tv_nsec: 100_000 };

/// Arming a timer that is not the CPU's first, ns per call.
fn lates() -> Result<Batches> {
    let timer = timer()?;
    Ok(timed(BATCHES, 500, || sys::arm_timer(&timer, LATE)))
}

fn timer() -> Result<OwnedFd> {
    sys::timer().map_err(|e| Error::machine(format!("can't make a timerfd: {e}")))
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
        // The thread ends with its parent; the message is not used.
        let _ = wait.recv();
    }
    Ok(Batches::new(times))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_slower_kind_is_found_whether_most_calls_are_of_it_or_few() {
        let mixed = |slow: u64| {
            let one = |n| if n < slow { 6_000 + n } else { 490 + n % 12 };
            let found = slower_kind(&Batches::new((0..1_000).map(one).collect()));
            (found.0.len() as u64, found.quantile(0) >= 6_000)
        };
        assert_eq!(mixed(700), (700, true));
        assert_eq!(mixed(120), (120, true));
        let alike = slower_kind(&Batches::new((0..1_000).map(|n| 490 + n % 20).collect()));
        assert!((495..510).contains(&alike.median()), "no second kind is invented: {}", alike.median());
    }
}
