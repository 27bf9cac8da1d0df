//! Measures the costs of steps on this machine: those costs of `schedlab_machine` that user space can see without root.
//!
//! Each step is timed by itself, as a primitive of one or two threads, in batches. The value is the median batch, its
//! range the fifth to the ninety-fifth percentile. The costs of a step's known parts are subtracted, in the way in
//! which the simulator adds them up. No benchmark runs here: figures that are compared later must not be a source of
//! costs. Costs inside the kernel (balancing, probing of runqueues) are not measured. Times are ns.

mod calls;
mod channels;
mod pairs;
mod peer;
mod process;
mod remote;
mod tick;
mod watched;

pub(crate) use peer::Peer;

use crate::sys;
use schedlab_base::{CpuId, CpuSet, Error, Result};
use schedlab_kernel::{Attr, Policy};
use schedlab_machine::Costs;
use schedlab_machine::probed::Measured;

/// Number of batches, or of rounds that are timed one by one, for primitives of two threads.
const BATCHES_OF_PAIRS: usize = 101;

/// Times of one primitive: one value per batch, ns per call.
#[derive(Default)]
pub(crate) struct Batches(Vec<u64>);

impl Batches {
    fn new(mut values: Vec<u64>) -> Batches {
        values.sort_unstable();
        Batches(values)
    }
    /// The value that `percent` of the batches do not exceed; 0 if there are none.
    fn quantile(&self, percent: usize) -> u64 {
        let last = self.0.len().saturating_sub(1);
        self.0.get(last * percent / 100).copied().unwrap_or(0)
    }
    fn median(&self) -> u64 {
        self.quantile(50)
    }
    /// The cost that is left when the `known` parts of a call are subtracted; at least 1 ns.
    fn cost(&self, name: &str, known: u64, how: &str) -> Measured {
        let less = |percent| self.quantile(percent).saturating_sub(known).max(1);
        Measured { name: name.into(), value: less(50), range: (less(5), less(95)), how: how.into() }
    }
}

/// The costs known so far: measured ones, else the table's.
pub(crate) struct Known {
    costs: Costs,
    found: Vec<Measured>,
}

impl Known {
    fn add(&mut self, measured: Measured) {
        self.costs.set(&measured.name, measured.value);
        // A better measurement replaces an earlier one.
        self.found.retain(|m| m.name != measured.name);
        self.found.push(measured);
    }
}

/// The time spent on the long measurements.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Effort {
    /// How often each length of a halt is measured.
    halts: usize,
    /// How long the tick is watched, ns.
    tick_ns: u64,
}

impl Effort {
    /// For a single probe that describes a machine: about eight seconds.
    pub const FULL: Effort = Effort { halts: 7, tick_ns: 1_000_000_000 };
    /// For one of many probes that are averaged: about two seconds.
    pub const GLANCE: Effort = Effort { halts: 1, tick_ns: 250_000_000 };
}

/// Measures this machine, on two of the CPUs this process may use.
///
/// # Errors
/// With fewer than two CPUs, or when threads, pipes or sockets can't be had.
pub fn measure(effort: Effort) -> Result<Vec<Measured>> {
    let cpus = sys::affinity().map_err(|e| Error::machine(format!("can't read the CPU mask: {e}")))?;
    let mut first_two = cpus.iter();
    let (Some(here), Some(there)) = (first_two.next(), first_two.next()) else {
        return Err(Error::machine("only one CPU: the cost of waking another can't be measured")
            .help("let schedlab use two CPUs at least, or write a machine file"));
    };
    let mut known = Known { costs: Costs::default(), found: Vec::new() };
    let measured = on(here, || {
        let mut apart = channels::Apart::default();
        calls::measure(&mut known)?;
        channels::measure(&mut known, here)?;
        apart.measure(there)?;
        let ticks = tick::measure(effort.tick_ns);
        if !ticks.0.is_empty() {
            known.add(ticks.cost("tick_ns", 0, "what a thread that reads the clock loses once a jiffy"));
        }
        pairs::measure(&mut known, here)?;
        channels::waits(&mut known, here)?;
        apart.measure(there)?;
        remote::measure(&mut known, (here, there), effort.halts)?;
        apart.measure(there)?;
        apart.known(&mut known);
        Ok(())
    });
    // Give the caller its old CPUs back.
    let back =
        sys::set_affinity(&cpus).map_err(|e| Error::machine(format!("can't go back to CPUs {cpus}: {e}")));
    measured.and(back).map(|()| known.found)
}

/// Calls `body` on one CPU.
fn on<T>(cpu: CpuId, body: impl FnOnce() -> Result<T>) -> Result<T> {
    let mask: CpuSet = [cpu].into_iter().collect();
    sys::set_affinity(&mask).map_err(|e| Error::machine(format!("can't stay on CPU {}: {e}", cpu.0)))?;
    body()
}

/// Attributes of tasks that do not preempt their waker: the waker goes on to its own wait.
fn batch_class() -> Attr {
    Attr { policy: Policy::Batch, ..Attr::default() }
}

/// Calls `body` in a thread with these attributes on one CPU, which the caller's thread does not use meanwhile.
fn as_batch<T: Send + 'static>(cpu: CpuId, body: impl FnOnce() -> T + Send + 'static) -> Result<T> {
    let (tell, told) = std::sync::mpsc::channel();
    // If the caller is gone, it needs no answer.
    let peer = Peer::start(cpu, batch_class(), move |_, _| _ = tell.send(body()))?;
    let answer = told.recv();
    peer.end();
    answer.map_err(|_| Error::internal("a thread of the probe ended without an answer"))
}

/// Times `batches` batches of `calls` calls each.
fn timed(batches: usize, calls: u64, mut call: impl FnMut()) -> Batches {
    let one = |_| {
        let began = sys::monotonic_ns();
        (0..calls).for_each(|_| call());
        (sys::monotonic_ns() - began) / calls
    };
    Batches::new((0..batches).map(one).collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use schedlab_machine::probed::IDLE_EXIT;

    #[test]
    fn what_is_known_is_taken_off_and_never_all() {
        let batches = Batches::new(vec![900, 1_000, 1_100, 5_000, 800]);
        let cost = batches.cost("syscall_ns", 300, "");
        assert_eq!((cost.value, cost.range), (700, (500, 800)));
        assert_eq!(batches.cost("syscall_ns", 2_000, "").value, 1);
    }

    #[test]
    fn every_cost_measured_is_one_of_the_table_and_plausible() {
        let Ok(found) = measure(Effort::GLANCE) else {
            println!("skipped: two CPUs are needed");
            return;
        };
        for cost in &found {
            assert!(
                cost.name.starts_with(IDLE_EXIT) || Costs::default().get(&cost.name).is_some(),
                "{cost:?}"
            );
            assert!(cost.range.0 <= cost.value && cost.value <= cost.range.1, "{cost:?}");
            assert!(cost.value < 10_000_000, "{cost:?}");
        }
        let names: Vec<&str> = found.iter().map(|c| c.name.as_str()).collect();
        for name in ["syscall_ns", "context_switch_ns", "futex_wake_ns", "ipi_near_ns", "timer_irq_ns"] {
            assert_eq!(names.iter().filter(|n| **n == name).count(), 1, "{name}");
        }
    }
}
