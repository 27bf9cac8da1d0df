//! Slow state: state that lasts longer than a short run, set as on a machine that was up and idle when the run began.
//!
//! - When domains are due (`sd->last_balance`, `rq->next_balance`): all at the first tick, since no CPU has balanced
//!   for longer than the longest interval.
//! - A domain's interval (`sd->balance_interval`): the longest. Passes that found nothing to move have doubled it.
//! - Failed passes of a domain (`sd->nr_balance_failed`): none. A pass that finds balance clears them.
//! - The most expensive newidle pass (`sd->max_newidle_lb_cost`): 0, because it decays by 1 % a second. In a
//!   deterministic guest it is drawn from the values that guests have after their boot.
//! - Mean idle time (`rq->avg_idle`): its upper bound, twice the longest pass.
//! - CPUs that SIS_UTIL scans (`nr_idle_scan`): all of the cache, and with SMT an idle core exists (`has_idle_cores`);
//!   see [`crate::wakeup::llc::LlcShared::new`].
//! - Load averages and `cpu_load[]`: 0. Capacity for fair tasks: all.
//! - Success of newidle passes (`sd->newidle_ratio`, NI_RANDOM): as when the domain was built.
//! - History of the idle governor: none; it forgets within eight idle periods. CPUs are in their shallowest idle state,
//!   unlike those of an idle machine. If they began in the deepest state, the CPUs of two communicating tasks would
//!   stay in deep ones by our governor's rules; whether a kernel's governor leaves them was not examined.
//!
//! Before 2.6.23 intervals are counted from an offset of each CPU, and a domain is as built.
//!
//! A run may still be too short for such state to follow its load: [`slow`] says how long that takes.

use crate::balance::interval::IntervalFacts;
use crate::balance::newidle_gate::{DomainCost, longest_pass};
use crate::balance::state::LevelState;
use crate::cpu::Cpu;
use crate::o1::cpu_offset;
use schedlab_base::{CpuId, Ns, Stream};
use schedlab_kernel::{Feature, History, Kernel, effect};
use schedlab_machine::{Domain, Domains, Machine};

pub(crate) fn cpu(
    machine: &Machine,
    kernel: &Kernel,
    history: &History,
    seed: u64,
    cpu: CpuId,
    own: &[Domain],
) -> Cpu {
    let mut levels: Vec<LevelState> = own.iter().map(LevelState::new).collect();
    let of_cpu = Stream::new(seed).purpose("boot").number(cpu.index() as u64);
    for (at, level) in levels.iter_mut().enumerate() {
        if history.o1 {
            level.last_balance = cpu_offset(cpu, kernel.tunables.hz, machine.topology.nr_cpus());
            continue;
        }
        level.state.interval_ms = level.bounds.max_interval_ms;
        if let Some(turns) = &machine.turns {
            let known = turns.newidle_ns[of_cpu.below(at as u64, turns.newidle_ns.len() as u64) as usize];
            level.cost = DomainCost::known(known.into());
        }
    }
    let known_ns = levels.iter().map(|l| l.cost.max_ns).sum();
    let mut cpu = Cpu::new(levels, longest_pass(kernel.tunables.migration_cost_ns, known_ns));
    if history.periodic_tick {
        cpu.tick_at = 1_000_000_000 / kernel.tunables.hz;
    }
    cpu
}

/// Ticks since boot when the run begins, as balancing counts them; see [`crate::system::Fixed::first_jiffy`].
pub(crate) fn first_jiffy(kernel: &Kernel, history: &History, nr_cpus: usize) -> u64 {
    if history.o1 { 0 } else { intervals(kernel, history, nr_cpus).longest() }
}

fn intervals(kernel: &Kernel, history: &History, nr_cpus: usize) -> IntervalFacts {
    IntervalFacts {
        busy_is_short: history.busy_interval_short,
        hz: kernel.tunables.hz,
        nr_cpus: nr_cpus as u64,
    }
}

/// State that follows its load so slowly that a short run may not show it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Slow {
    /// The kernel's name for it.
    pub name: &'static str,
    pub reader: &'static str,
    /// How often it is computed on busy CPUs.
    pub every: Ns,
}

/// The slow state on which a kernel's decisions on a machine depend, each with the time between two computations.
pub fn slow(machine: &Machine, kernel: &Kernel) -> Vec<Slow> {
    let history = History::of(kernel.version);
    let clock = intervals(kernel, &history, machine.topology.nr_cpus());
    let scans =
        kernel.features.has(Feature::SisUtil) && effect::idle_because(Feature::SisUtil, kernel).is_none();
    let cache = |domain: &&Domain| {
        let llc = |c: &CpuId| machine.topology.cpus[c.index()].llc;
        domain.cpus.iter().map(llc).all(|own| own == llc(&domain.cpus[0]))
    };
    if !scans {
        return Vec::new();
    }
    let own = Domains::of_first(&machine.topology, kernel.version);
    own.iter()
        .rfind(cache)
        .map(|domain| {
            let p = &domain.params;
            let ticks = clock.interval(p.max_interval_ms, true, p.busy_factor);
            Slow {
                name: "nr_idle_scan",
                reader: "SIS_UTIL",
                every: Ns(ticks * 1_000_000_000 / kernel.tunables.hz),
            }
        })
        .into_iter()
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(kernel: &str, name: &str) -> Vec<Slow> {
        slow(&Machine::load(name).unwrap(), &Kernel::profile(kernel).unwrap())
    }

    #[test]
    fn sis_utils_depth_is_computed_when_busy_cpus_balance_their_cache() {
        assert_eq!(of("v5.15", "smp-32"), [], "SIS_PROP has no slow state");
        let every = |name: &str| of("v6.1", name)[0].every;
        // 64 ms, sixteen times as long on busy CPUs, minus a tick.
        assert_eq!(every("smp-32"), Ns::ms(1_020));
        assert!(every("smp-4") < Ns::ms(200));
    }

    #[test]
    fn domains_are_due_at_the_first_tick_and_at_their_longest_interval() {
        let (machine, kernel) = (Machine::load("smp-4").unwrap(), Kernel::profile("v6.5").unwrap());
        let history = History::of(kernel.version);
        let domains = Domains::build(&machine.topology, kernel.version);
        let first = cpu(&machine, &kernel, &history, 1, CpuId(0), &domains.of_cpu[CpuId(0)]);
        let level = &first.levels[0];
        assert_eq!(level.state.interval_ms, level.bounds.max_interval_ms);
        assert!(first_jiffy(&kernel, &history, 4) >= 100, "longer than 4 CPUs' longest interval");
        let old = Kernel::profile("v2.6.18").unwrap();
        assert_eq!(first_jiffy(&old, &History::of(old.version), 4), 0);
    }
}
