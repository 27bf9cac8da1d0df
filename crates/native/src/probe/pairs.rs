//! Two threads on one CPU: switches, wakeups of a task that may not preempt, sleeping on a futex, timers.

use super::{BATCHES_OF_PAIRS, Batches, Known, Peer};
use crate::sys::{self, Scope};
use schedlab_base::{CpuId, Result};
use schedlab_kernel::{Attr, Policy};
use std::sync::atomic::Ordering::{Relaxed, SeqCst};

/// Measures them on the caller's CPU.
pub(super) fn measure(known: &mut Known, here: CpuId) -> Result<()> {
    let entry = known.costs.syscall_ns;
    known.add(yields(here)?.cost(
        "context_switch_ns",
        entry,
        "two threads on a CPU that yield to each other",
    ));
    let queued = known.costs.enqueue_ns;
    let quiet = wakes_that_do_not_preempt(here)?;
    known.add(quiet.cost("futex_wake_ns", entry + queued, "waking a SCHED_IDLE waiter of the same CPU"));
    let rest = 2 * entry + known.costs.futex_wake_ns + queued + known.costs.context_switch_ns;
    known.add(ping_pong(here)?.cost(
        "futex_wait_ns",
        rest,
        "two threads on a CPU that wake each other and wait",
    ));
    let rest = queued + known.costs.context_switch_ns;
    known.add(overruns(here)?.cost(
        "timer_irq_ns",
        rest,
        "a sleeper beside a SCHED_IDLE thread: from its time on",
    ));
    Ok(())
}

fn yields(here: CpuId) -> Result<Batches> {
    const CALLS: u64 = 200;
    let peer = Peer::start(here, Attr::default(), |_, shared| {
        while shared.phase.load(Relaxed) == 0 {
            sys::yield_now();
        }
    })?;
    // Each of ours is answered by one of the other's.
    let batches = super::timed(BATCHES_OF_PAIRS, CALLS, sys::yield_now);
    peer.end();
    Ok(Batches::new(batches.0.iter().map(|t| t / 2).collect()))
}

fn idle_class() -> Attr {
    Attr { policy: Policy::Idle, ..Attr::default() }
}

fn wakes_that_do_not_preempt(here: CpuId) -> Result<Batches> {
    let peer = Peer::start(here, idle_class(), |_, shared| shared.wait_again_and_again())?;
    let mut times = Vec::new();
    for _ in 0..BATCHES_OF_PAIRS * 4 {
        // Time for it to fall asleep.
        sys::sleep_for(200_000);
        let began = sys::monotonic_ns();
        let woken = sys::futex_wake(&peer.shared.word, 1, Scope::Threads);
        let took = sys::monotonic_ns() - began;
        if woken == 1 {
            times.push(took);
        }
    }
    peer.end();
    Ok(Batches::new(times))
}

fn ping_pong(here: CpuId) -> Result<Batches> {
    const ROUNDS: u64 = 100;
    let peer = Peer::start(here, Attr::default(), |_, shared| {
        while shared.phase.load(Relaxed) == 0 {
            sys::futex_wait(&shared.word, 0, None, Scope::Threads);
            shared.word.store(0, SeqCst);
            shared.back.store(1, SeqCst);
            sys::futex_wake(&shared.back, 1, Scope::Threads);
        }
    })?;
    let shared = &peer.shared;
    let batches = super::timed(BATCHES_OF_PAIRS, ROUNDS, || {
        shared.word.store(1, SeqCst);
        sys::futex_wake(&shared.word, 1, Scope::Threads);
        while shared.back.swap(0, SeqCst) == 0 {
            sys::futex_wait(&shared.back, 0, None, Scope::Threads);
        }
    });
    shared.word.store(1, SeqCst);
    peer.end();
    Ok(Batches::new(batches.0.iter().map(|t| t / 2).collect()))
}

fn overruns(here: CpuId) -> Result<Batches> {
    let peer = Peer::start(here, idle_class(), |_, shared| {
        while shared.phase.load(Relaxed) == 0 {
            std::hint::spin_loop();
        }
    })?;
    let slack = sys::timer_slack();
    sys::set_timer_slack(1);
    let mut times = Vec::new();
    for _ in 0..BATCHES_OF_PAIRS * 4 {
        let at = sys::monotonic_ns() + 300_000;
        sys::sleep_until(at);
        times.push(sys::monotonic_ns().saturating_sub(at));
    }
    sys::set_timer_slack(slack);
    peer.end();
    Ok(Batches::new(times))
}
