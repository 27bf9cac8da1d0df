//! The CPUs of all groups in one array: a pass over groups of one CPU reads a few cache lines of it.

use schedlab_base::CpuId;
use schedlab_machine::Group;

#[derive(Debug)]
pub struct GroupCpus {
    cpus: Vec<CpuId>,
    /// Where each group's CPUs begin and end.
    spans: Vec<(u32, u32)>,
    /// The first CPU of each group.
    firsts: Vec<CpuId>,
}

impl GroupCpus {
    /// For groups in the order of their numbers.
    pub fn new(groups: &[Group]) -> GroupCpus {
        let mut all = GroupCpus { cpus: Vec::new(), spans: Vec::new(), firsts: Vec::new() };
        for group in groups {
            let from = all.cpus.len() as u32;
            all.cpus.extend_from_slice(&group.cpus);
            all.spans.push((from, all.cpus.len() as u32));
            all.firsts.push(group.cpus[0]);
        }
        all
    }
    /// A group's lowest CPU.
    #[inline]
    pub fn first(&self, group: u32) -> CpuId {
        self.firsts[group as usize]
    }
    /// A group's CPUs, ascending.
    #[inline]
    pub fn of(&self, group: u32) -> &[CpuId] {
        let (from, to) = self.spans[group as usize];
        &self.cpus[from as usize..to as usize]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use schedlab_base::Version;
    use schedlab_machine::{Domains, Machine};

    #[test]
    fn each_group_has_its_own_cpus() {
        for name in ["smp-4", "nodes-2x4", "fb-2x24-smt"] {
            let machine = Machine::load(name).expect("a machine");
            let groups = Domains::build(&machine.topology, Version::new(6, 5)).groups;
            let all = GroupCpus::new(&groups);
            for (number, group) in groups.iter().enumerate() {
                assert_eq!(all.of(number as u32), &group.cpus[..], "{name}, group {number}");
                assert_eq!(all.first(number as u32), group.cpus[0], "{name}, group {number}");
            }
        }
    }
}
