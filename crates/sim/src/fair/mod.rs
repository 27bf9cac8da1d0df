//! The fair classes (`kernel/sched/fair.c`): [`early`], CFS before 2.6.32; [`cfs`], up to 6.5; [`eevdf`], since 6.6.
//!
//! Tasks, entities and cfs_rqs are in separate arenas, and every path walks from an entity to its parents, even at
//! depth one. Times and vruntime are integer ns; vruntime is signed and only differences within one cfs_rq mean
//! anything.
//!
//! The three are equals: each implements `rules` for an entity on a queue, and `class` makes a scheduling class of any
//! of them. This folder holds their common parts: the entity, the cfs_rq, charging and the load averages. The decisions
//! of each are pure functions; its `class` and `queueing` apply them.

mod averages;
pub mod cfs;
mod class;
mod counters;
pub mod early;
pub mod eevdf;
pub mod entity;
pub mod granularity;
pub mod group;
mod invariants;
pub mod oracle;
pub(crate) mod rules;
pub mod runqueue;
pub(crate) mod slope;
pub mod state;

pub(crate) use cfs::Cfs;
pub(crate) use class::Fair;
pub(crate) use early::Early;
pub(crate) use eevdf::Eevdf;
pub use entity::{Entity, EntityId};
pub use runqueue::{CfsRq, CfsRqId};
