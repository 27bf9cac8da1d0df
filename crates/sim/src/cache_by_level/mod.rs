//! The memory hierarchy of a machine ([`schedlab_world::cache_by_level`]) asked and driven.
//!
//! [`Model`] runs D003's procedure on it ([`schedlab_machine::migration::measure`]), so that any machine can be asked
//! what the kernel would have found at boot. [`survey`] answers for all distances, `cutoffs` for a kernel's domains.
//! `drive` takes tasks' operations over their working sets.
//!
//! Times are ns, sizes bytes unless a name says KB.

mod cutoffs;
mod model;

pub use cutoffs::{by_domain, check, cutoffs};
pub use model::{Model, Survey, survey};
