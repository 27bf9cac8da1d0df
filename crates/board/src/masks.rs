//! CPU masks of workloads, on machines that may have fewer CPUs than the masks.

use schedlab_base::{CpuSet, Error, Result};
use schedlab_machine::Machine;
use schedlab_workload::Built;

/// Shrinks the CPU masks of a workload to a machine's CPUs (rt-app's "all" is larger).
///
/// # Errors
/// A mask of which no CPU is left.
pub fn confine(workload: &mut Built, machine: &Machine) -> Result<()> {
    let all = CpuSet::first(machine.topology.nr_cpus());
    workload.confine(|mask| {
        let both = mask.and(&all);
        if both.is_empty() {
            let text = format!("may run on CPUs {mask} only, but {} has {all}", machine.name);
            return Err(Error::input(text).help("choose a larger machine, or change the CPUs"));
        }
        Ok(both)
    })
}
