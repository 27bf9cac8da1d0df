//! Kernels as tables: the chronology of mechanisms, profiles, features, tunables, task policies, variants.
//!
//! # Problem
//!
//! "v6.5 with NO_SIS_UTIL and hz=100" must mean the same in the simulator, on the running kernel and in a guest. So
//! names, releases, defaults and ranges are here, once, with the tree in which each was read. Behaviour is elsewhere:
//! `sim` implements the mechanisms, and the live backends apply the same names to a real kernel.
//!
//! # Terms
//!
//! - *Mechanism* ([`history`]): a piece of scheduler code that some releases have. [`History`] has a flag for each. A
//!   run resolves the flags from its version, and no other code compares versions.
//! - *Feature* ([`feature`]): a mechanism that can be switched while the kernel runs, as in its `sched/features`.
//! - *Tunable* ([`tunable`]): a number or a word, as in `/proc/sys/kernel/sched_*` or `debugfs`.
//! - *Profile* ([`profile`]): a release with its default features and tunables. A [`Kernel`] is a profile with changes.
//! - *Variant* ([`variant`]): a named kernel of an experiment: a profile, features, tunables, attributes of tasks and
//!   groups, and changes during the run. [`Variant::resolve`] makes kernels of it, or reports the error.
//! - *Policy* and attributes ([`policy`]): the values of `sched_setattr` for a task. [`group`] has those of task
//!   groups, and [`cpu_limit`] the words of container tools for them.
//!
//! # Layers
//!
//! Tables (`history/table.rs`, `feature.rs`, `tunable.rs`, `profile.rs`) come first. [`effect`] derives the kernels in
//! which a feature has an effect. [`reference`](mod@reference), [`docs`] and `history/docs.rs` make the pages
//! docs/features.md and docs/chronology.md; tests compare the pages with the tables. `stored.rs` reads old records.
//!
//! # Changes that are not modelled
//!
//! Changes that were found in kernel trees, but that the simulator lacks, are rows of `history/unmodelled.rs`.

// The crate is not published: a comment adds to its item's name.

pub mod cpu_limit;
pub mod distribution;
pub mod docs;
pub mod effect;
pub mod feature;
pub mod group;
pub mod history;
pub mod level;
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
pub use level::Level;
pub use migration::{Cutoffs, MigrationCost};
pub use policy::{Attr, AttrChange, Policy};
pub use profile::{DEFAULT_PROFILE, Kernel, PROFILES, Profile, nearest};
pub use tunable::Tunables;
pub use variant::{Change, Scx, Toggle, Variant};
