//! The machine that a guest sees, made of its host's costs and the cost of exits.
//!
//! An exit is charged where the guest asks for it: by an interrupt (its arrival and its end), by setting a timer, by
//! signalling another vCPU. Halts are charged on the host's side. Costs are ns.

use schedlab_base::{Ns, Result};
use schedlab_machine::shape::Shape;
use schedlab_machine::{Costs, IdleGovernor, IdleState, Machine};

/// The machine of a guest with `vcpus` vCPUs on `host`: cores that share one cache, without idle states of their own.
///
/// # Errors
/// For a number of vCPUs that no topology has.
pub fn guest(host: &Machine, name: &str, vcpus: u32) -> Result<Machine> {
    let exit_ns = host.costs.vm_exit_ns;
    let mut costs = host.costs;
    costs.tick_ns += 2 * exit_ns;
    costs.timer_irq_ns += 2 * exit_ns;
    costs.timer_program_ns += exit_ns;
    costs.ipi_irq_ns += 2 * exit_ns;
    // The host's interrupt controller delivers at once; the sender exits.
    (costs.ipi_send_ns, costs.ipi_near_ns, costs.ipi_far_ns) = (exit_ns, exit_ns, exit_ns);
    costs.cpu_clock_ns = 0;
    bare(name, format!("a guest of {}", host.name), vcpus, costs)
}

/// A machine of cores that share one cache, without background tasks, caches or real idle states of its own.
///
/// # Errors
/// For a number of CPUs that no topology has.
pub fn bare(name: &str, about: String, cpus: u32, costs: Costs) -> Result<Machine> {
    let state = |name: &str| IdleState {
        name: name.to_owned(),
        exit: Ns::ZERO,
        residency: Ns::ZERO,
        typical: Ns::ZERO,
    };
    Ok(Machine {
        name: name.to_owned(),
        about,
        topology: Shape::flat(cpus, 1).topology()?,
        costs,
        kernels: Vec::new(),
        idle_states: ["POLL", "HLT"].map(state).into(),
        idle_governor: IdleGovernor::Halt,
        background: Vec::new(),
        background_from: None,
        caches: Vec::new(),
        migration: None,
        turns: None,
        unfit: None,
        provenance: Vec::new(),
        os_cpu: Vec::new(),
    })
}
