//! Waking a task of another CPU: one that runs something less important, one that polls, one that halted.

use super::{Batches, Known, Peer, watched};
use crate::sys::{self, Scope};
use schedlab_base::{CpuId, Result};
use schedlab_kernel::{Attr, Policy};
use schedlab_machine::probed::{IDLE_EXIT, idle_exit_after};
use std::sync::atomic::Ordering::{Relaxed, SeqCst};

/// Halts of these lengths are ended, and how long one has lasted, ns, from which on that is taken for it: about halfway,
/// by the logarithm. KVM polls for up to 0.2 ms before it gives the processor away.
const HALTS: [(u64, u64); 6] = [
    (25_000, 0),
    (100_000, 50_000),
    (300_000, 170_000),
    (1_000_000, 550_000),
    (3_000_000, 1_700_000),
    (10_000_000, 5_500_000),
];
/// The one that every governor's CPU has halted after.
const ASLEEP: usize = 4;
/// Wakeups of each kind, and how often each length has its turn: what a hypervisor does follows what was before.
const WAKEUPS: usize = 35;
const TURNS: usize = 7;

/// Measures them, from the caller's CPU to another.
pub(super) fn measure(known: &mut Known, there: CpuId) -> Result<()> {
    let halted = halts(there)?;
    let c = known.costs;
    let rest = c.syscall_ns + c.futex_wait_ns + c.idle_switch_ns;
    let again = || wakes(there, HALTS[0].0, WAKEUPS * TURNS).map(|woken| woken.thread);
    match watched::seen(again)? {
        Some(seen) => known.add(seen.stays.cost(
            "idle_return_ns",
            rest + c.trace_event_ns,
            "a task that is woken on a CPU that has just halted: from the switch to it until it waits again",
        )),
        // The kernel charges it from its wakeup on.
        None if !halted[0].used.0.is_empty() => known.add(halted[0].used.cost(
            "idle_return_ns",
            rest + c.enqueue_ns,
            "CPU time of a task that is woken on a CPU that has just halted and waits again",
        )),
        None => {}
    }
    let c = known.costs;
    let call = c.syscall_ns + c.futex_wake_ns + c.enqueue_ns;
    let asleep = &halted[ASLEEP];
    // Whom a wake list takes is queued by its own CPU.
    let listed = c.syscall_ns + c.futex_wake_ns;
    known.add(halted[0].called.cost(
        "ipi_send_ns",
        listed,
        "waking a task of a CPU that has just halted: the waker's part",
    ));
    let busy = {
        let attr = Attr { policy: Policy::Idle, ..Attr::default() };
        let hog = Peer::start(there, attr, |_, shared| {
            while shared.phase.load(Relaxed) == 0 {
                std::hint::spin_loop();
            }
        })?;
        let busy = wakes(there, 300_000, WAKEUPS * TURNS)?;
        hog.end();
        busy
    };
    let rest = call + c.rq_lock_near_ns + c.ipi_irq_ns + c.context_switch_ns;
    known.add(busy.until_running.cost(
        "ipi_near_ns",
        rest,
        "waking a task of a CPU that runs a SCHED_IDLE thread",
    ));
    let way_back = c.tick_restart_ns + c.idle_switch_ns + c.idle_return_ns;
    let rest = call + known.costs.ipi_send_ns + way_back;
    let how = "waking a task of a CPU that halted, without the waker's part";
    known.add(asleep.until_running.cost(IDLE_EXIT, rest, how));
    for ((_, from_ns), halt) in HALTS.iter().zip(&halted) {
        known.add(halt.until_running.cost(&idle_exit_after(*from_ns), rest, how));
    }
    Ok(())
}

/// Wakeups out of halts of each length.
fn halts(there: CpuId) -> Result<Vec<Woken>> {
    let mut all: Vec<Woken> = HALTS.iter().map(|_| Woken::default()).collect();
    for _ in 0..TURNS {
        for ((length_ns, _), all) in HALTS.iter().zip(&mut all) {
            let more = wakes(there, *length_ns, WAKEUPS)?;
            all.called = Batches::new(all.called.0.iter().chain(&more.called.0).copied().collect());
            let until = all.until_running.0.iter().chain(&more.until_running.0);
            all.until_running = Batches::new(until.copied().collect());
            all.used = Batches::new(all.used.0.iter().chain(&more.used.0).copied().collect());
        }
    }
    Ok(all)
}

#[derive(Default)]
struct Woken {
    /// Its thread id.
    thread: u32,
    /// How long the waker's call took.
    called: Batches,
    /// From the beginning of the call until the task runs.
    until_running: Batches,
    /// CPU time of the woken task each time, one mean for all.
    used: Batches,
}

fn wakes(there: CpuId, rest_ns: u64, times: usize) -> Result<Woken> {
    let peer = Peer::start(there, Attr::default(), |_, shared| shared.wait_again_and_again())?;
    let (mut called, mut until) = (Vec::new(), Vec::new());
    let thread = peer.shared.thread.load(SeqCst);
    let clock = || sys::cpu_clock_ns(std::process::id(), thread);
    let before = clock();
    for _ in 0..times {
        // Spinning, so that the waker's own CPU is awake.
        let at = sys::monotonic_ns() + rest_ns;
        while sys::monotonic_ns() < at {
            std::hint::spin_loop();
        }
        peer.shared.ran_at.store(0, SeqCst);
        let began = sys::monotonic_ns();
        let woken = sys::futex_wake(&peer.shared.word, 1, Scope::Threads);
        let took = sys::monotonic_ns() - began;
        let ran_at = peer.shared.when_it_ran(began + 50_000_000);
        if let (1, Some(ran_at)) = (woken, ran_at) {
            called.push(took);
            until.push(ran_at.saturating_sub(began));
        }
    }
    let used =
        before.zip(clock()).and_then(|(from, to)| to.saturating_sub(from).checked_div(called.len() as u64));
    peer.end();
    let used = Batches::new(used.into_iter().collect());
    Ok(Woken { thread, called: Batches::new(called), until_running: Batches::new(until), used })
}
