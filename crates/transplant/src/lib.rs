//! The kernel's own scheduler code on simulated machines.

#![allow(missing_docs)]

pub mod abi;
mod board;
mod calls;
mod channels;
mod cpu;
pub mod load;
mod machine;
mod notes;
mod properties;
mod run;
mod task;
mod turns;
mod user;

pub use run::{Setting, Setup, simulate};
