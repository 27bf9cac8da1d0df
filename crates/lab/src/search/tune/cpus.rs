//! Sets of CPUs that a search tries, by the names of what they share. Each is the one around the first CPU, and has its
//! name in the words of a setting: `cpus=llc`.

use schedlab_base::{CpuId, CpuSet, Error, Result};
use schedlab_kernel::Variant;
use schedlab_kernel::group::ROOT;
use schedlab_machine::topology::{Cpu, Topology};

/// The word before a set.
pub(super) const CPUS: &str = "cpus=";

/// A set by its name: whether a CPU is in it, beside the first.
struct Set {
    name: &'static str,
    has: fn(first: &Cpu, cpu: &Cpu) -> bool,
}

const SETS: &[Set] = &[
    Set { name: "core", has: |first, cpu| first.core == cpu.core },
    Set { name: "llc", has: |first, cpu| first.llc == cpu.llc },
    Set { name: "node", has: |first, cpu| first.node == cpu.node },
    Set { name: "no-smt", has: |_, cpu| cpu.thread == 0 },
    Set { name: "llc-no-smt", has: |first, cpu| first.llc == cpu.llc && cpu.thread == 0 },
];

/// The CPUs that may be used, and how they are connected.
#[derive(Clone, Debug)]
pub struct Cpus {
    topology: Topology,
    allowed: CpuSet,
}

impl Cpus {
    pub fn all(topology: Topology) -> Cpus {
        Cpus { allowed: CpuSet::first(topology.nr_cpus()), topology }
    }
    /// Those that this process may use, too.
    pub fn within(topology: Topology, allowed: &CpuSet) -> Cpus {
        let all = Cpus::all(topology);
        Cpus { allowed: all.allowed.and(allowed), ..all }
    }
    fn of(&self, set: &Set) -> CpuSet {
        let Some(first) = self.allowed.lowest() else { return CpuSet::new() };
        let first = self.topology.cpu(first);
        self.allowed.iter().filter(|cpu: &CpuId| (set.has)(first, self.topology.cpu(*cpu))).collect()
    }
    /// Checks that all CPUs to which a variant confines its tasks are among these.
    ///
    /// # Errors
    /// When one is not.
    pub(super) fn check(&self, variant: &Variant) -> Result<()> {
        let wanted = variant.groups.iter().filter(|group| group.path == ROOT).filter_map(|g| g.cpus.as_ref());
        let odd = wanted.flat_map(CpuSet::iter).find(|cpu| !self.allowed.contains(*cpu));
        let Some(odd) = odd else { return Ok(()) };
        Err(Error::input(format!("CPU {} is not among those that may be used: {}", odd.0, self.allowed)))
    }
    /// Words for the sets that differ from each other and from all CPUs.
    pub(super) fn words(&self) -> Vec<String> {
        let mut known = vec![self.allowed.clone()];
        let mut is_new = |set: &&Set| {
            let cpus = self.of(set);
            let is_new = !cpus.is_empty() && !known.contains(&cpus);
            known.push(cpus);
            is_new
        };
        SETS.iter().filter(|set| is_new(set)).map(|set| format!("{CPUS}{}", set.name)).collect()
    }
}

/// A change of a setting, with the CPUs themselves where it names a set; `None`: it does not.
pub(super) fn change(cpus: Option<&Cpus>, word: &str) -> Result<Option<String>> {
    let Some(set) = SETS.iter().find(|set| word.strip_prefix(CPUS) == Some(set.name)) else {
        return Ok(None);
    };
    let cpus = cpus.ok_or_else(|| {
        Error::input("the machines of the experiment differ in their CPUs")
            .help(format!("name them: {CPUS}0-3"))
    })?;
    Ok(Some(format!("{CPUS}{}", cpus.of(set).to_string().replace(',', "/"))))
}

#[cfg(test)]
mod tests {
    use super::*;
    use schedlab_machine::Machine;

    fn words(machine: &str) -> Vec<String> {
        Cpus::all(Machine::load(machine).unwrap().topology).words()
    }

    #[test]
    fn a_machine_has_the_sets_that_differ() {
        assert_eq!(words("smp-4"), ["cpus=core"]);
        assert_eq!(words("smt-8"), ["cpus=core", "cpus=no-smt"]);
        assert_eq!(words("nodes-2x4"), ["cpus=core", "cpus=llc"]);
        assert!(words("1cpu").is_empty());
    }

    #[test]
    fn a_name_becomes_its_cpus_and_others_stay() {
        let smt = Cpus::all(Machine::load("smt-8").unwrap().topology);
        assert_eq!(
            change(Some(&smt), "cpus=core").unwrap(),
            Some(format!("cpus={}", smt.of(&SETS[0])).replace(',', "/"))
        );
        assert_eq!(smt.of(&SETS[3]).len(), 4);
        assert_eq!(change(Some(&smt), "cpus=0-2").unwrap(), None);
        assert!(change(None, "cpus=llc").unwrap_err().to_string().contains("cpus=0-3"));
        let last = Cpus::within(smt.topology.clone(), &CpuSet::parse("7").unwrap());
        assert!(last.words().is_empty());
        let confined = |words: &str| crate::ask::variant_words::parse(&format!("v6.12:{words}")).unwrap();
        assert!(last.check(&confined("cpus=7")).is_ok() && last.check(&confined("nice=1")).is_ok());
        assert!(smt.check(&confined("cpus=0/8")).unwrap_err().to_string().contains("CPU 8"));
        assert!(
            last.check(&confined("cpus=6-7"))
                .unwrap_err()
                .to_string()
                .contains("CPU 6 is not among those that may be used: 7")
        );
    }
}
