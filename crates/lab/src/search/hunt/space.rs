//! The space of the search: machines from small to large, and whether tasks may be in groups.

use schedlab_base::{Result, Version, each_once};
use schedlab_kernel::{History, Variant};
use schedlab_machine::Machine;
use std::sync::Arc;

/// The usual machines, small ones first; of equal size the simple ones first.
pub const MACHINES: &[&str] =
    &["smp-2", "smp-4", "smt-4", "smp-8", "smt-8", "nodes-2x4", "epyc-2x4", "smp-16", "x5570-2x4-smt"];

#[derive(Clone, Debug)]
pub struct Space {
    /// Names of the machines in experiments, with the machines; without background tasks. Machines with fewer CPUs come
    /// first, because shrinking goes towards the front.
    pub machines: Vec<(String, Arc<Machine>)>,
    /// Whether both kernels have task groups.
    pub groups: bool,
    /// The possible surroundings of tasks; `None`: none, as in a hunt for losses.
    pub wide: Option<Words>,
}

/// What the kernels at hand have.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Words {
    pub quotas: bool,
    pub bursts: bool,
    pub idle_groups: bool,
}

impl Space {
    /// The space of these machines, [`MACHINES`] if none is named, under two kernels.
    ///
    /// # Errors
    /// An unknown machine or kernel.
    pub fn of(machines: &[String], kernels: [&Variant; 2]) -> Result<Space> {
        let [baseline, variant] = kernels.map(|kernel| kernel.resolve().map(|kernel| kernel.version));
        Space::under(machines, [baseline?, variant?])
    }
    /// As [`Space::of`], under kernels of these releases.
    ///
    /// # Errors
    /// An unknown machine.
    pub fn under(machines: &[String], releases: [Version; 2]) -> Result<Space> {
        Ok(Space { machines: Space::machines(machines)?, groups: Space::groups(releases), wide: None })
    }
    /// The machines of a space.
    ///
    /// # Errors
    /// An unknown machine.
    pub(super) fn machines(names: &[String]) -> Result<Vec<(String, Arc<Machine>)>> {
        let usual: Vec<String> = MACHINES.iter().map(|m| (*m).to_owned()).collect();
        let names = if names.is_empty() { usual } else { each_once(names) };
        let load = |name: String| {
            let mut machine = Machine::load(&name).map_err(|e| e.context("--machine"))?;
            machine.background.clear();
            machine.background_from = None;
            Ok((name, Arc::new(machine)))
        };
        let mut machines = names.into_iter().map(load).collect::<Result<Vec<_>>>()?;
        machines.sort_by_key(|(_, machine)| machine.topology.nr_cpus());
        Ok(machines)
    }
    /// Whether kernels of these releases all have task groups.
    pub(super) fn groups(releases: [Version; 2]) -> bool {
        releases.iter().all(|release| History::of(*release).task_groups)
    }
    /// The possible surroundings of tasks of a kernel of that release.
    pub(super) fn words(release: Version) -> Option<Words> {
        let history = History::of(release);
        let (quotas, bursts, idle_groups) =
            (history.bandwidth, history.bandwidth_bursts, history.idle_groups);
        history.task_groups.then_some(Words { quotas, bursts, idle_groups })
    }
    /// CPUs of a machine.
    pub fn cpus(&self, machine: usize) -> u32 {
        self.machines[machine].1.topology.nr_cpus() as u32
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(machines: &[&str]) -> Vec<String> {
        let machines: Vec<String> = machines.iter().map(|m| (*m).to_owned()).collect();
        let kernel = Variant::plain("v6.5");
        Space::of(&machines, [&kernel, &kernel]).unwrap().machines.into_iter().map(|(name, _)| name).collect()
    }

    #[test]
    fn smaller_machines_come_first_whatever_their_order() {
        assert_eq!(names(&["smp-16", "smt-4", "smp-2", "smp-4"]), ["smp-2", "smt-4", "smp-4", "smp-16"]);
        assert_eq!(names(&[]), MACHINES, "the usual ones are in order");
    }
}
