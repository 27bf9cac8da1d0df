//! The commands: each has a file and an entry.

mod background;
pub mod bench;
pub mod compare;
pub mod completions;
pub mod doctor;
pub mod exec;
pub mod explain;
mod explain_again;
pub mod hunt;
pub mod kernel;
pub mod kernel_build;
pub mod knee;
pub mod machine;
pub mod man;
pub mod migration_cost;
mod migration_simulated;
pub mod new;
mod probe;
pub mod profile;
pub mod restore;
pub mod run;
pub mod runs;
pub mod schedstat;
pub mod stat;
pub mod study;
pub mod suite;
pub mod validate;
