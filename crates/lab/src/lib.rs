//! Experiments: reading them, planning and making their runs, and comparing the results.
//!
//! `experiment.toml -> plan -> executor -> records -> comparison`; no later step calls an earlier one, and
//! this crate does not print. The knee search is the one other use of an executor.

pub mod bisect;
pub mod budget;
pub mod builds;
pub mod cell;
mod cutoffs;
pub mod drift;
pub mod events;
pub mod exec;
pub mod experiment;
pub mod guests;
pub mod hunt;
pub mod instruction_counts;
pub mod knee;
pub mod machines;
pub mod memory_estimate;
pub mod noise_floor;
pub mod plan;
pub mod profile;
pub mod replay;
pub mod rerun;
mod scx;
pub mod stat;
pub mod strips;
pub mod suite;
pub mod trial;
pub mod validate;
pub mod variant_checks;
pub mod watch;

pub use cell::Cell;
pub use exec::{Backends, Done, Engine, Executor, Finished, Made, Progress, RunOptions, Session, Silent};
pub use experiment::Experiment;
pub use guests::Guests;
pub use plan::{Options, Plan, plan, plan_in_guests};
pub use schedlab_base::Backend;
