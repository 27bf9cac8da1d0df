//! Tables about kernels: the chronology of mechanisms, profiles, features, tunables, task policies, variants.
//!
//! This crate holds tables and validation only. `sim` holds the behaviour; the live backends apply the same
//! names to a real kernel.

// The crate is not published: a comment says what its item does not.
#![allow(missing_docs)]

pub mod docs;
pub mod effect;
pub mod feature;
pub mod group;
pub mod history;
pub mod migration;
pub mod origin;
pub mod policy;
pub mod preempt;
pub mod profile;
pub mod reference;
mod stored;
pub mod tunable;
pub mod variant;

pub use feature::{Feature, FeatureSet};
pub use group::{GroupChange, GroupSpec, Limit, TaskChange};
pub use history::History;
pub use migration::{Cutoffs, MigrationCost};
pub use policy::{Attr, AttrChange, Policy};
pub use profile::{DEFAULT_PROFILE, Kernel, PROFILES, Profile, nearest};
pub use tunable::Tunables;
pub use variant::{Change, Scx, Toggle, Variant};
