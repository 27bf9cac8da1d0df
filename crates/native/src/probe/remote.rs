//! Waking a task of another CPU: one that runs something less important, one that polls, one that halted.

use super::{BATCHES_OF_PAIRS, Batches, Known, Peer};
use crate::sys::{self, Scope};
use schedlab_base::{CpuId, Result};
use schedlab_kernel::{Attr, Policy};
use schedlab_machine::probed::IDLE_EXIT;
use std::sync::atomic::Ordering::{Relaxed, SeqCst};

/// Idle for this long, every governor's CPU has halted, ns.
const ASLEEP_NS: u64 = 3_000_000;

/// Measures them, from the caller's CPU to another.
pub(super) fn measure(known: &mut Known, there: CpuId) -> Result<()> {
    let c = known.costs;
    let call = c.syscall_ns + c.futex_wake_ns + c.rq_lock_near_ns + c.enqueue_ns;
    let halted = wakes(there, ASLEEP_NS)?;
    known.add(halted.called.cost(
        "ipi_send_ns",
        call,
        "waking a task of a CPU that halted: the waker's part",
    ));
    let busy = {
        let attr = Attr { policy: Policy::Idle, ..Attr::default() };
        let hog = Peer::start(there, attr, |_, shared| {
            while shared.phase.load(Relaxed) == 0 {
                std::hint::spin_loop();
            }
        })?;
        let busy = wakes(there, 300_000)?;
        hog.end();
        busy
    };
    let rest = call + c.ipi_irq_ns + c.context_switch_ns;
    known.add(busy.until_running.cost(
        "ipi_near_ns",
        rest,
        "waking a task of a CPU that runs a SCHED_IDLE thread",
    ));
    let rest = call + c.idle_switch_ns;
    known.add(halted.until_running.cost(IDLE_EXIT, rest, "waking a task of a CPU that halted, IPI included"));
    Ok(())
}

struct Woken {
    /// How long the waker's call took.
    called: Batches,
    /// From the beginning of the call until the task runs.
    until_running: Batches,
}

fn wakes(there: CpuId, rest_ns: u64) -> Result<Woken> {
    let peer = Peer::start(there, Attr::default(), |_, shared| shared.wait_again_and_again())?;
    let (mut called, mut until) = (Vec::new(), Vec::new());
    for _ in 0..BATCHES_OF_PAIRS * 2 {
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
    peer.end();
    Ok(Woken { called: Batches::new(called), until_running: Batches::new(until) })
}
