//! Workloads: the programs that tasks run, the operations they ask for, and the benchmarks made of them.
//!
//! # Problem
//!
//! A comparison of a simulator with a real kernel needs the same programs on both sides, and a comparison of two
//! variants needs the same random draws. So a workload is data, and its programs are values that do not know who runs
//! them. The simulators advance a [`Program`] in simulated time; the live agent runs the very same value on a thread or
//! in a process.
//!
//! # From words to tasks
//!
//! 1. A [`Spec`] says which workload with which parameters. Experiments state it, records embed it. It may hold a
//!    benchmark, an rt-app file ([`rtapp`]), a recorded schedule ([`replay`]), a command ([`command`], live only), or
//!    several workloads side by side ([`together`]), in task groups ([`group`]), virtual machines ([`nested`]) and
//!    behind links ([`remote`]).
//! 2. [`Spec::build`] makes a [`Built`] for a seed: tasks with their programs and attributes, words, channels, series,
//!    groups. It uses a [`Builder`], which hands out ids. Building is pure.
//! 3. A backend runs the tasks. It asks a program for its next [`Op`] whenever the last one is done, by
//!    [`Program::next`]. The program reads the clock, shared words and the last [`Outcome`] through [`Env`], and
//!    records values of its series there.
//!
//! # Where to start
//!
//! [`op`] is the contract of programs and backends; read it first. `bench/nanosleep.rs` is a small benchmark,
//! `bench/schbench.rs` a typical one. A [`Benchmark`] is a file under `bench/` and a row of [`BENCHMARKS`]: a table of
//! parameters ([`param`]), from which options, TOML keys, help and docs/workloads.md follow, and a function that builds
//! its tasks. `rig.rs` runs programs in tests with a CPU for each task, so that a test sees the program's logic alone.
//!
//! # Invariants
//!
//! - The same spec and seed give the same [`Built`]. Random draws are keyed by purpose and number (`Builder::stream`).
//! - A program is asked when its task is on a CPU, never at the moment of its wakeup, so that it reads the values that
//!   a thread would read there. Every operation takes some time.
//! - Tasks share words and cells within one place ([`place`]) only; machines meet at channels.
//! - A file's error names line and column. No backend is known here, and nothing is looked up on the machine.

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
