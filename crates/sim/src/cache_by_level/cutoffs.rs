//! Turns cutoffs by distance into the `cache_hot_time` of each CPU's domains. Cutoffs are given, or measured by D003's
//! procedure on the machine's simulated caches, as its kernel measures them at boot.

use super::survey;
use schedlab_base::{Arena, CpuId, Result};
use schedlab_kernel::Kernel;
use schedlab_kernel::migration::{Cutoffs, MigrationCost};
use schedlab_machine::migration::{Distances, Overrides, Pattern};
use schedlab_machine::{Domains, Machine, Topology};

/// The cutoffs that a variant asks for, on a machine with these distances under its kernel. `factor_pct` applies to
/// measured ones.
///
/// # Errors
/// For numbers out of range, and for a machine without `[[cache]]` if a cutoff must be measured.
pub fn cutoffs(
    machine: &Machine,
    distances: &Distances,
    cost: &MigrationCost,
    factor_pct: Option<u64>,
) -> Result<Cutoffs> {
    let given = match cost {
        MigrationCost::Given(us) => Some(us.as_slice()),
        MigrationCost::Auto => None,
    };
    let overrides = machine.migration.clone().unwrap_or_default().with(given, factor_pct);
    overrides.check()?;
    let matrix = survey(machine, distances, Pattern::Shuffled, &overrides, None)?.matrix;
    let distances = matrix.entries.iter().map(|e| e.distance + 1).max().unwrap_or(0);
    Ok((0..distances).map(|d| matrix.cutoff_ns(d)).collect::<Vec<_>>().into())
}

/// The overrides of a list and a factor, as given in text.
///
/// # Errors
/// For numbers out of range.
pub fn check(cost_us: &[u64], factor_pct: u64) -> Result<()> {
    Overrides { cost_us: cost_us.to_vec(), factor_pct }.check()
}

/// The cutoff of each domain of each CPU, ns; empty lists under a kernel without cutoffs.
pub fn by_domain(kernel: &Kernel, topology: &Topology, domains: &Domains) -> Arena<CpuId, Vec<Option<u64>>> {
    let Some(cutoffs) = kernel.cutoffs else { return Arena::filled(Vec::new(), topology.nr_cpus()) };
    let distances = Distances::new(topology, kernel.version);
    let of = |domain| distances.of_domain(domain).and_then(|distance| cutoffs.ns(distance));
    domains.of_cpu.iter().map(|own| own.iter().map(of).collect()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use schedlab_base::Version;

    const O1: Version = Version::v2_6(12);

    fn on(machine: &Machine, cost: &MigrationCost, factor_pct: Option<u64>) -> Vec<Option<u64>> {
        cutoffs(machine, &Distances::new(&machine.topology, O1), cost, factor_pct).unwrap().into()
    }

    #[test]
    fn measured_given_and_scaled() {
        let p4 = Machine::load("p4-ht-2").unwrap();
        let measured = on(&p4, &MigrationCost::Auto, None);
        let [Some(0), Some(across)] = measured[..] else { panic!("{measured:?}") };
        assert!(across > 300_000);
        let given = |us: &[u64]| MigrationCost::Given(us.to_vec());
        assert_eq!(
            on(&p4, &given(&[0, 2000]), Some(50)),
            [Some(0), Some(2_000_000)],
            "no factor on a given one"
        );
        assert_eq!(on(&p4, &given(&[7]), Some(50)), [Some(7_000), Some(across / 2)], "the rest is measured");
    }

    #[test]
    fn the_machines_own_overrides_hold_for_auto() {
        let mut celeron = Machine::load("celeron-2").unwrap();
        celeron.migration = Some(Overrides { cost_us: vec![0, 1700], factor_pct: 100 });
        assert_eq!(
            on(&celeron, &MigrationCost::Auto, None),
            [None, Some(1_700_000)],
            "no pair is at distance 0"
        );
        assert_eq!(on(&celeron, &MigrationCost::Given(vec![1, 2]), None), [None, Some(2_000)]);
    }

    #[test]
    fn domains_have_the_cutoff_of_their_level() {
        let p4 = Machine::load("p4-ht-2").unwrap();
        let mut kernel = Kernel::of(O1);
        let domains = Domains::build(&p4.topology, O1);
        assert!(by_domain(&kernel, &p4.topology, &domains)[CpuId(0)].is_empty());
        kernel.cutoffs = Some(vec![Some(1), Some(2)].into());
        assert_eq!(by_domain(&kernel, &p4.topology, &domains)[CpuId(3)], [Some(1), Some(2)]);
    }
}
