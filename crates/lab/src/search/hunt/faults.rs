//! Seeded faults: schedulers that are wrong on purpose, to show that a hunt finds them.

use super::specimen::{Policy, Specimen, name};
use schedlab_base::{Error, Result};
use schedlab_kernel::{AttrChange, Policy as KernelPolicy, Variant};

/// A fault, made by changes that a variant can state.
#[derive(Debug)]
pub struct Fault {
    /// Its name in `--wrong`.
    pub name: &'static str,
    /// Its effect.
    pub about: &'static str,
    apply: fn(&Specimen, &mut Variant),
}

/// The nice value whose tasks do not preempt.
const NICE: i8 = -5;

pub const FAULTS: &[Fault] = &[Fault {
    name: "nice-preemption",
    about: "woken tasks of nice -5 never preempt, as if they were SCHED_BATCH",
    apply: |specimen, variant| {
        for (i, kind) in specimen.kinds.iter().enumerate() {
            if kind.nice == NICE && kind.policy == Policy::Other {
                let change = AttrChange { policy: Some(KernelPolicy::Batch), nice: None, slice: None };
                variant.tasks.insert(name(i), change);
            }
        }
    },
}];

impl Fault {
    /// The fault of that name.
    pub fn find(name: &str) -> Result<&'static Fault> {
        let found = FAULTS.iter().find(|f| f.name == name);
        found.ok_or_else(|| Error::unknown("fault", name, FAULTS.iter().map(|f| f.name)).context("--wrong"))
    }
    /// The variant with the fault, for the tasks of a specimen.
    pub fn in_variant(&self, variant: &Variant, specimen: &Specimen) -> Variant {
        let mut wrong = variant.clone();
        (self.apply)(specimen, &mut wrong);
        wrong
    }
}
