//! Measures the costs of steps on this machine: those of `schedlab_machine` that user space can see without root.
//!
//! Each step is timed separately, as a primitive of one or two threads, in batches. The value is the median batch, its
//! range is the 5th to the 95th percentile. The costs of a step's known parts are subtracted, just as the simulator
//! adds them up. No benchmark runs here, since figures for a later comparison must not determine costs. Of the costs
//! inside the kernel, only the visit of a balance pass is measured, by the same reads in user space. Times are ns.

mod batches;
mod calls;
mod channels;
pub mod counting;
mod instructions;
mod lines;
pub mod migration;
mod pairs;
mod peer;
mod place;
mod process;
mod remote;
mod tick;
mod watched;

use crate::sys;
use batches::KnownCosts;
use place::on;
use schedlab_base::{Error, Result};
use schedlab_machine::Costs;
use schedlab_machine::probed::Probed;

/// Effort for the long measurements.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Effort {
    /// Measurements of each length of a halt.
    halts: usize,
    /// How long ticks are observed, ns.
    tick_ns: u64,
    /// Whether to measure caches and the refill after a move.
    caches: bool,
}

impl Effort {
    /// For a single probe of a machine: about fifteen seconds.
    pub const FULL: Effort = Effort { halts: 7, tick_ns: 1_000_000_000, caches: true };
    /// For one of many probes that are averaged: about two seconds.
    pub const GLANCE: Effort = Effort { halts: 1, tick_ns: 250_000_000, caches: false };
}

/// Measures this machine, on two of the CPUs that this process may use.
///
/// # Errors
/// With fewer than two CPUs, or without threads, pipes or sockets.
pub fn measure(effort: Effort) -> Result<Probed> {
    let cpus = sys::affinity().map_err(|e| Error::machine(format!("can't read the CPU mask: {e}")))?;
    let mut first_two = cpus.iter();
    let (Some(here), Some(there)) = (first_two.next(), first_two.next()) else {
        return Err(Error::machine("only one CPU: the cost of waking another can't be measured")
            .help("let schedlab use two CPUs at least, or write a machine file"));
    };
    let mut known = KnownCosts { costs: Costs::default(), found: Vec::new() };
    let measured = on(here, || {
        let mut apart = channels::Apart::default();
        calls::measure(&mut known)?;
        channels::measure(&mut known, here)?;
        apart.measure(there)?;
        let ticks = tick::measure(effort.tick_ns);
        if !ticks.0.is_empty() {
            known.add(ticks.cost("tick_ns", 0, "what a thread that reads the clock loses once a jiffy"));
        }
        instructions::measure(&mut known)?;
        lines::measure(&mut known, here, there)?;
        pairs::measure(&mut known, here)?;
        channels::waits(&mut known, here)?;
        apart.measure(there)?;
        remote::measure(&mut known, (here, there), effort.halts)?;
        apart.measure(there)?;
        apart.known(&mut known);
        Ok(())
    });
    // Restores the caller's CPUs.
    let back =
        sys::set_affinity(&cpus).map_err(|e| Error::machine(format!("can't go back to CPUs {cpus}: {e}")));
    measured.and(back)?;
    if !effort.caches {
        return Ok(Probed::here(known.found));
    }
    let caches = migration::caches()?;
    caches.measured.into_iter().for_each(|cost| known.add(cost));
    Ok(Probed::here(known.found).with_caches(caches.levels))
}

#[cfg(test)]
mod tests {
    use super::*;
    use schedlab_base::testing::skipped;
    use schedlab_machine::probed::IDLE_EXIT;

    #[test]
    fn every_cost_measured_is_one_of_the_table_and_plausible() {
        let Ok(probed) = measure(Effort::GLANCE) else {
            return skipped("two CPUs");
        };
        let found = probed.measured;
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
