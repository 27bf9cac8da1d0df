//! The kernel's own scheduler code on simulated machines.

#![allow(missing_docs)]

pub mod abi;
mod blocks;
mod calls;
mod charge;
mod cpu;
mod engine;
pub mod fault;
mod findings;
mod fleet;
mod kernel;
pub mod load;
mod nested;
mod notes;
mod on_board;
mod oracle;
mod properties;
mod quotas;
mod run;
pub mod shim;
mod symbols;
mod task;
mod tree;
mod turns;
mod verbs;
pub mod visits;
pub mod watchdog;

pub use charge::Prices;
pub use kernel::{Debug, Kernel};
pub use run::{Setting, Setup, simulate};
pub use task::kthread_names;
