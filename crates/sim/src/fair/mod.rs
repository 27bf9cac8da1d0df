//! The fair class: CFS up to 6.5, EEVDF since (`kernel/sched/fair.c`).
//!
//! Tasks, entities and cfs_rqs are separate arenas and every path walks from an entity to its parents, also at depth
//! one. Times and vruntime are integer ns; vruntime is signed and only differences within one cfs_rq mean anything.
//! The decisions are pure functions (`placement`, `preempt`, `slice`, `tick`, `pick`); `class` and `queueing` apply
//! them. [`early`] has what was otherwise before 2.6.32, [`eevdf`] what replaced them in 6.6; the functions of `class`
//! and `queueing` ask first which it is.

mod class;
pub mod early;
pub mod eevdf;
pub mod entity;
pub mod pick;
pub mod placement;
pub mod preempt;
mod queueing;
pub mod runqueue;
pub mod slice;
pub mod tick;

pub use entity::{Entity, EntityId};
pub use queueing::Enqueue;
pub use runqueue::{CfsRq, CfsRqId};
