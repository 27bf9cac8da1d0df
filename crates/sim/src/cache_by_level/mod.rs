//! Questions to the memory hierarchy of a machine ([`schedlab_board::cache_by_level`]), and its use during a run.
//!
//! [`Model`] runs D003's procedure on it ([`schedlab_machine::migration::measure`]), which gives the values that the
//! kernel would have found at boot on any machine. [`survey`] answers for all distances, `cutoffs` for a kernel's
//! domains. `drive` takes tasks' operations over their working sets.
//!
//! Times are ns, sizes bytes unless a name says KB.

mod cutoffs;
mod model;

pub use cutoffs::{by_domain, check, cutoffs};
pub use model::{Model, Survey, survey};
