//! The kernel's own scheduler code on simulated machines.

#![allow(missing_docs)]

pub mod abi;
mod blocks;
mod board;
mod calls;
mod channels;
mod charge;
mod choices;
mod cpu;
pub mod fault;
mod findings;
mod fleet;
mod judged;
mod kernel;
pub mod load;
mod nested;
mod net;
mod notes;
mod oracle;
mod properties;
mod quotas;
mod run;
mod setting;
pub mod shim;
mod symbols;
mod task;
mod tree;
mod turns;
mod user;
mod verbs;
pub mod visits;
pub mod watchdog;

pub use charge::Prices;
pub use kernel::{Debug, Kernel};
pub use run::{Setup, simulate};
pub use setting::Setting;
pub use task::kthread_names;
