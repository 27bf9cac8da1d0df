//! CFS, the fair class from 2.6.32 to 6.5: the task with the smallest vruntime runs, unless a buddy is close enough.
//!
//! The decisions are pure functions (`placement`, `preempt`, `slice`, `tick`, `pick`); `class` and `queueing` apply
//! them. CFS before 2.6.32 ([`crate::fair::early`]) orders its queues in the same way and shares the common parts.

mod class;
pub mod pick;
pub mod placement;
pub mod preempt;
mod queueing;
pub mod slice;
pub mod tick;

use super::entity::EntityId;
use super::rules::FairRules;
use super::runqueue::CfsRqId;
use crate::system::System;

/// CFS, 2.6.32 to 6.5.
pub struct Cfs;

/// The rules of a class whose queues are in vruntime order.
pub(crate) trait Ordered: FairRules {
    /// Whether NORMALIZED_SLEEPER converts a sleeper's credit to the virtual time of its weight.
    const NORMALIZES: bool;
    /// The next entity to run on `queue`, whose leftmost is `left`.
    fn pick_entity(sys: &mut System<'_>, queue: CfsRqId, left: EntityId) -> EntityId;
}
