//! How long a variant's tasks stay cache hot on a machine: measured once for all cells with the same question.
//!
//! The procedure takes seconds for caches of many MB, and its result depends on nothing but its arguments.

use schedlab_base::{Result, Version};
use schedlab_kernel::{Cutoffs, Variant};
use schedlab_machine::Machine;
use schedlab_machine::migration::Distances;
use schedlab_sim::cache_by_level;
use std::sync::{Mutex, PoisonError};

/// A question with its answer.
struct KnownCutoffs {
    machine: Machine,
    version: Version,
    variant: Variant,
    cutoffs: Cutoffs,
}

static KNOWN: Mutex<Vec<KnownCutoffs>> = Mutex::new(Vec::new());

/// The cutoffs that a variant asks for; `None` if it asks for none.
///
/// # Errors
/// As [`cache_by_level::cutoffs`]; the variant is named.
pub fn of_variant(variant: &Variant, machine: &Machine, version: Version) -> Result<Option<Cutoffs>> {
    let Some(cost) = &variant.migration_cost else { return Ok(None) };
    let mut known = KNOWN.lock().unwrap_or_else(PoisonError::into_inner);
    let asked = |k: &&KnownCutoffs| {
        let same = k.variant.migration_cost.as_ref() == Some(cost) && k.version == version;
        same && k.variant.migration_factor == variant.migration_factor && k.machine == *machine
    };
    if let Some(found) = known.iter().find(asked) {
        return Ok(Some(found.cutoffs));
    }
    let distances = Distances::new(&machine.topology, version);
    let found = cache_by_level::cutoffs(machine, &distances, cost, variant.migration_factor);
    let cutoffs = found.map_err(|e| e.context(format!("variant '{}': migration_cost", variant.name)))?;
    known.push(KnownCutoffs { machine: machine.clone(), version, variant: variant.clone(), cutoffs });
    Ok(Some(cutoffs))
}
