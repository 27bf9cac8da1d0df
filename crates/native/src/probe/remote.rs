//! Waking a task on another CPU, which runs a less important task, polls, or has halted.

use super::batches::{Batches, KnownCosts};
use super::peer::Peer;
use super::place::on;
use super::watched;
use crate::sys::{self, Scope};
use schedlab_base::{CpuId, Result};
use schedlab_kernel::{Attr, Policy};
use schedlab_machine::probed::{IDLE_EXIT, idle_exit_after};
use std::sync::atomic::Ordering::{Relaxed, SeqCst};

/// Lengths of measured halts, each with the shortest halt that uses its cost, ns: about halfway to the previous length,
/// on a logarithmic scale. KVM polls for up to 0.2 ms before it yields the processor.
const HALTS: [(u64, u64); 6] = [
    (25_000, 0),
    (100_000, 50_000),
    (300_000, 170_000),
    (1_000_000, 550_000),
    (3_000_000, 1_700_000),
    (10_000_000, 5_500_000),
];
/// Index of the length after which a CPU has halted under every governor.
const ASLEEP: usize = 4;
/// Consecutive wakeups of each kind.
const WAKEUPS: usize = 36;
/// Wakeups made by each of the two CPUs.
const EACH: usize = WAKEUPS / 2;

/// Measures wakeups between the caller's CPU and another. Each length of a halt is measured `turns` times, alternating
/// with the others, because a hypervisor's behaviour depends on its history.
pub(super) fn measure(known: &mut KnownCosts, (here, there): (CpuId, CpuId), turns: usize) -> Result<()> {
    let halted = halts((here, there), turns)?;
    let c = known.costs;
    let rest = c.syscall_ns + c.futex_wait_ns + c.idle_switch_ns;
    let mut until = Batches::default();
    let seen = watched::seen(|| {
        let woken = wakes(there, HALTS[0].0, WAKEUPS * turns)?;
        until = woken.until_running;
        Ok(woken.thread)
    })?;
    match &seen {
        Some(seen) => known.add(seen.stays.cost(
            "idle_return_ns",
            rest + c.trace_event_ns,
            "a task that is woken on a CPU that has just halted: from the switch to it until it waits again",
        )),
        // The kernel charges the task from its wakeup on.
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
    // The task's own CPU queues it from the wake list.
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
        let busy = wakes(there, 300_000, WAKEUPS * turns)?;
        hog.end();
        busy
    };
    let rest = call + c.rq_lock_near_ns + c.ipi_irq_ns + c.context_switch_ns;
    known.add(busy.until_running.cost(
        "ipi_near_ns",
        rest,
        "waking a task of a CPU that runs a SCHED_IDLE thread",
    ));
    let around = match seen {
        // The parts before the wakeup's event and after the switch's event; the exit from the halt is in between.
        Some(seen) => {
            until.median().saturating_sub(seen.delays.median()).saturating_sub(c.trace_event_ns)
                + c.enqueue_ns
        }
        None => call + c.idle_switch_ns + known.costs.idle_return_ns,
    };
    let rest = around + known.costs.ipi_send_ns + c.tick_restart_ns;
    let how = "waking a task of a CPU that halted, without the waker's part";
    known.add(asleep.until_running.cost(IDLE_EXIT, rest, how));
    for ((_, from_ns), halt) in HALTS.iter().zip(&halted) {
        known.add(halt.until_running.cost(&idle_exit_after(*from_ns), rest, how));
    }
    Ok(())
}

/// Wakeups from halts of each length, in both directions. One CPU of a virtual machine may be a fifth slower than the
/// other, for seconds.
fn halts((here, there): (CpuId, CpuId), turns: usize) -> Result<Vec<Woken>> {
    let mut all: Vec<Woken> = HALTS.iter().map(|_| Woken::default()).collect();
    for _ in 0..turns {
        for ((length_ns, _), all) in HALTS.iter().zip(&mut all) {
            let forth = wakes(there, *length_ns, EACH)?;
            let back = on(there, || wakes(here, *length_ns, EACH))?;
            on(here, || Ok(()))?;
            all.add(&forth.halfway(&back));
        }
    }
    Ok(all)
}

#[derive(Default)]
struct Woken {
    thread: u32,
    /// Times of the waker's call.
    called: Batches,
    /// Time from the beginning of the call until the task runs.
    until_running: Batches,
    /// CPU time of the woken task per wakeup; a single mean.
    used: Batches,
}

impl Woken {
    fn add(&mut self, more: &Woken) {
        let joined =
            |all: &Batches, more: &Batches| Batches::new(all.0.iter().chain(&more.0).copied().collect());
        *self = self.with(more, joined);
    }
    /// The mean of two CPUs, by quantile. The median of both together would be that of one of them.
    fn halfway(&self, other: &Woken) -> Woken {
        self.with(other, |a, b| Batches::new(a.0.iter().zip(&b.0).map(|(a, b)| a.midpoint(*b)).collect()))
    }
    fn with(&self, other: &Woken, of: impl Fn(&Batches, &Batches) -> Batches) -> Woken {
        Woken {
            thread: self.thread,
            called: of(&self.called, &other.called),
            until_running: of(&self.until_running, &other.until_running),
            used: of(&self.used, &other.used),
        }
    }
}

fn wakes(there: CpuId, rest_ns: u64, times: usize) -> Result<Woken> {
    let peer = Peer::start(there, Attr::default(), |_, shared| shared.wait_again_and_again())?;
    let (mut called, mut until) = (Vec::new(), Vec::new());
    let thread = peer.shared.thread.load(SeqCst);
    let clock = || sys::cpu_clock_ns(std::process::id(), thread);
    let before = clock();
    for _ in 0..times {
        // Spin, so that the waker's own CPU stays awake.
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
