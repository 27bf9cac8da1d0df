//! The space that is searched: machines from small to large, and whether tasks may be in groups.

use schedlab_base::Result;
use schedlab_kernel::{History, Variant};
use schedlab_machine::Machine;
use std::sync::Arc;

/// The usual machines, simple and small ones first: shrinking goes towards the front.
pub const MACHINES: &[&str] =
    &["smp-2", "smp-4", "smt-4", "smp-8", "smt-8", "nodes-2x4", "epyc-2x4", "smp-16", "x5570-2x4-smt"];

/// The space.
#[derive(Clone, Debug)]
pub struct Space {
    /// Names by which experiments know the machines, with the machines; without background tasks.
    pub machines: Vec<(String, Arc<Machine>)>,
    /// Whether both kernels have task groups.
    pub groups: bool,
}

impl Space {
    /// The space of these machines, [`MACHINES`] if none is named, under two kernels.
    ///
    /// # Errors
    /// An unknown machine or kernel.
    pub fn of(machines: &[String], kernels: [&Variant; 2]) -> Result<Space> {
        let usual: Vec<String> = MACHINES.iter().map(|m| (*m).to_owned()).collect();
        let names = if machines.is_empty() { &usual } else { machines };
        let load = |name: &String| {
            let mut machine = Machine::load(name).map_err(|e| e.context("--machine"))?;
            machine.background.clear();
            machine.background_from = None;
            Ok((name.clone(), Arc::new(machine)))
        };
        let mut groups = true;
        for kernel in kernels {
            groups &= History::of(kernel.resolve()?.version).task_groups;
        }
        Ok(Space { machines: names.iter().map(load).collect::<Result<_>>()?, groups })
    }
    /// CPUs of a machine.
    pub fn cpus(&self, machine: usize) -> u32 {
        self.machines[machine].1.topology.nr_cpus() as u32
    }
}
