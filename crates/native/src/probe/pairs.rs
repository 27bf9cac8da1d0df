//! Two threads on one CPU: switches, waking and waiting on a futex, timers.

use super::batches::{BATCHES_OF_PAIRS, Batches, KnownCosts, timed};
use super::peer::Peer;
use super::place::{as_batch, batch_class};
use super::{process, watched};
use crate::sys::{self, Scope};
use schedlab_base::{CpuId, Result};
use schedlab_kernel::{Attr, Policy};
use std::sync::atomic::Ordering::{Relaxed, SeqCst};

pub(super) fn measure(known: &mut KnownCosts, here: CpuId) -> Result<()> {
    let entry = known.costs.syscall_ns;
    let switches = yields(here)?;
    known.add(switches.cost("context_switch_ns", entry, "two threads on a CPU that yield to each other"));
    process::measure(known, &switches)?;
    let queued = known.costs.enqueue_ns;
    wake_and_wait(known, &ping_pong(here, Timed::Half)?, &ping_pong(here, Timed::Wakes)?);
    watched::measure(known, || ping_pong(here, Timed::Half))?;
    let sleeps = sleeps(here)?;
    let c = known.costs;
    let rest = c.context_switch_ns + c.syscall_ns + c.timer_start_ns + c.timer_program_ns;
    let how = "a sleeper beside a SCHED_IDLE thread: from the switch to it until it sleeps again";
    match &sleeps.seen {
        Some(seen) => {
            known.add(seen.stays.cost("timer_return_ns", rest + c.trace_event_ns, how));
            let how = "a sleeper beside a SCHED_IDLE thread: from its wakeup to the switch";
            known.add(seen.delays.cost("timer_exit_ns", queued + 2 * c.trace_event_ns, how));
        }
        // The kernel charges the sleeper from its wakeup on, including the rest of the interrupt.
        None => known.add(sleeps.cpu.cost(
            "timer_return_ns",
            rest + c.timer_exit_ns,
            "CPU time of a sleep beside a SCHED_IDLE thread",
        )),
    }
    let rest = queued + known.costs.context_switch_ns + known.costs.timer_exit_ns;
    known.add(sleeps.overruns.cost(
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
    // Each yield of this thread is followed by one of the other.
    let batches = timed(BATCHES_OF_PAIRS, CALLS, sys::yield_now);
    peer.end();
    Ok(Batches::new(batches.0.iter().map(|t| t / 2).collect()))
}

fn idle_class() -> Attr {
    Attr { policy: Policy::Idle, ..Attr::default() }
}

/// Half a round is a wake, a wait and a switch. The wake is also timed separately. Its time minus the call and the
/// enqueue is the futex's part and the choice of a CPU, which is quick here: the task stays on its CPU.
fn wake_and_wait(known: &mut KnownCosts, half_round: &Batches, wakes: &Batches) {
    let clock = timed(BATCHES_OF_PAIRS, 1_000, || _ = sys::monotonic_ns()).median();
    let (entry, queued) = (known.costs.syscall_ns, known.costs.enqueue_ns);
    let how = "two threads on a CPU that wake each other and wait: the call that wakes, less its enqueue";
    known.add(wakes.cost("futex_wake_ns", entry + queued + clock, how));
    let rest = 2 * entry + queued + known.costs.context_switch_ns + known.costs.futex_wake_ns;
    let how = "two threads on a CPU that wake each other and wait: the rest of it";
    known.add(half_round.cost("futex_wait_ns", rest, how));
}

/// The timed part of two threads that wake each other.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Timed {
    Half,
    /// The caller's wake calls, including one clock reading each.
    Wakes,
}

/// Times of two threads that wake each other in turns. Each waits once per round, and neither preempts the other.
fn ping_pong(here: CpuId, part: Timed) -> Result<Batches> {
    const ROUNDS: u64 = 100;
    let peer = Peer::start(here, batch_class(), |_, shared| {
        while shared.phase.load(Relaxed) == 0 {
            sys::futex_wait(&shared.word, 0, None, Scope::Threads);
            shared.word.store(0, SeqCst);
            shared.back.store(1, SeqCst);
            sys::futex_wake(&shared.back, 1, Scope::Threads);
        }
    })?;
    let shared = peer.shared.clone();
    let rounds = as_batch(here, move || {
        let wake = || _ = sys::futex_wake(&shared.word, 1, Scope::Threads);
        let round = |woken: &mut u64| {
            shared.word.store(1, SeqCst);
            match part {
                Timed::Half => wake(),
                Timed::Wakes => {
                    let began = sys::monotonic_ns();
                    wake();
                    *woken += sys::monotonic_ns() - began;
                }
            }
            while shared.back.swap(0, SeqCst) == 0 {
                sys::futex_wait(&shared.back, 0, None, Scope::Threads);
            }
        };
        let batch = |_| {
            let (began, mut woken) = (sys::monotonic_ns(), 0);
            (0..ROUNDS).for_each(|_| round(&mut woken));
            match part {
                Timed::Half => (sys::monotonic_ns() - began) / ROUNDS / 2,
                Timed::Wakes => woken / ROUNDS,
            }
        };
        Batches::new((0..BATCHES_OF_PAIRS).map(batch).collect())
    });
    peer.end();
    rounds
}

struct Sleeps {
    /// Time from the requested end of the sleep until the sleeper runs.
    overruns: Batches,
    /// Measurements from events, if they can be recorded.
    seen: Option<watched::ThreadTimes>,
    /// CPU time per sleep.
    cpu: Batches,
}

fn sleeps(here: CpuId) -> Result<Sleeps> {
    const IN_A_ROW: u64 = 20;
    let peer = Peer::start(here, idle_class(), |_, shared| {
        while shared.phase.load(Relaxed) == 0 {
            std::hint::spin_loop();
        }
    })?;
    let slack = sys::timer_slack();
    sys::set_timer_slack(1);
    let overrun = |_| {
        let at = sys::monotonic_ns() + 300_000;
        sys::sleep_until(at);
        sys::monotonic_ns().saturating_sub(at)
    };
    let overruns = (0..BATCHES_OF_PAIRS * 4).map(overrun).collect();
    let seen = watched::seen(|| {
        (0..BATCHES_OF_PAIRS * 4).for_each(|n| _ = overrun(n));
        Ok(sys::thread_id())
    })?;
    let used = |_| {
        let before = sys::thread_cpu_ns();
        (0..IN_A_ROW).for_each(|_| _ = sys::sleep_for(100_000));
        (sys::thread_cpu_ns() - before) / IN_A_ROW
    };
    let cpu = (0..BATCHES_OF_PAIRS).map(used).collect();
    sys::set_timer_slack(slack);
    peer.end();
    Ok(Sleeps { overruns: Batches::new(overruns), seen, cpu: Batches::new(cpu) })
}
