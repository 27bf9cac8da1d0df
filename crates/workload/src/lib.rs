//! The programs that tasks run, the operations they yield, and the benchmarks made of them.
//!
//! A [`Program`] is a small state machine. The simulator advances it in simulated time; the live agent runs the same
//! value on a thread; the program can't tell the difference. A [`Benchmark`] is one file under `bench/` and one row of
//! [`BENCHMARKS`]: its parameters, and a pure function that builds its tasks.

pub mod bench;
pub mod beside;
pub mod build;
pub mod command;
mod decl;
pub mod expression;
mod gather;
pub mod group;
pub mod later;
pub mod nested;
pub mod op;
pub mod param;
pub mod place;
pub mod remote;
pub mod replay;
pub mod rtapp;
pub mod spec;
mod surroundings;
pub mod together;

#[cfg(test)]
mod doc_tests;
#[cfg(test)]
mod rig;
#[cfg(test)]
mod spec_tests;

pub use bench::BENCHMARKS;
pub use build::{Builder, Built, ChannelKind, SeriesDecl, TaskDecl};
pub use command::{CommandOutput, CommandSpec};
pub use gather::{Guest, gathered};
pub use group::{GroupDecl, GroupSpec, ROOT_GROUP};
pub use later::Later;
pub use nested::{NestedDecl, NestedSpec};
pub use op::{Env, Op, Outcome, PortId, Program, SeriesId, SetId, SlotId, Usage, WordId};
pub use param::{Benchmark, Choice, Param, ParamKind, Params};
pub use place::Place;
pub use remote::{RemoteDecl, RemoteSpec};
pub use spec::Spec;
pub use together::Beside;
