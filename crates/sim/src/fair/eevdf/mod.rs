//! EEVDF, the fair class since 6.6 (`kernel/sched/fair.c`): earliest eligible virtual deadline first.
//!
//! Every entity has a virtual runtime v, a slice it asks for, and a virtual deadline one slice after v. The queue's
//! virtual time V is the mean of all v by weight; an entity whose v is not beyond V has not had more than its share and
//! is *eligible*; of the eligible ones the earliest deadline runs. V - v is an entity's *lag*: it takes it along when
//! it sleeps and gets it back when it is placed, so there is no credit for sleeping.
//!
//! Units: v, V, deadlines and lag are virtual ns (ns at nice 0), signed; only differences within one queue mean
//! anything. Slices are real ns. The rules are pure functions (`average`, `timeline`, `lag`, `placement`, `pick`,
//! `protect`, `preempt`); `class`, `queueing`, `delay` and `hrtick` apply them to the arenas.
//!
//! By version: 6.6 to 6.16 protect the running entity until its deadline, 6.17 and later until the end of the queue's
//! shortest slice, and judge wakeups as 6.19 does, which the stable releases of 6.18 took back; lag is limited to two slices or a tick before 7.0, to the queue's longest slice and a tick since
//! (read in 6.12.107 and 7.3 sources; that 6.18.0 still had the former is unverified, and stable releases take such
//! fixes back). Tasks ask for slices of their own since 6.12.
//!
//! Not modelled: 7.x's flat picking weighs a task by the product of its groups' shares, which is its own weight where
//! there are no groups, and nothing builds groups yet. Balancers and idle tests count delayed entities as not runnable
//! and pass over them in every version (6.12 still counted them, and a balancer that moves load may take them).

mod average;
mod class;
mod delay;
mod hrtick;
mod lag;
mod pick;
mod placement;
mod preempt;
mod protect;
mod queueing;
#[cfg(test)]
mod tests;
pub mod timeline;

pub use queueing::Leave;

use crate::system::System;
use schedlab_base::Version;

/// The first kernel whose fair class is EEVDF.
pub const EEVDF: Version = Version::new(6, 6);
/// Since then a task may ask for a slice of its own (`sched_attr.sched_runtime`).
const CUSTOM_SLICES: Version = Version::new(6, 12);
/// Since then there is the lazy preemption model.
pub const LAZY: Version = Version::new(6, 13);
/// Since then the queue's shortest slice ends protection, and its end asks for a switch.
const PROTECTS_SHORTEST: Version = Version::new(6, 17);
/// Since then the queue's longest slice limits lag.
const LIMITS_BY_LONGEST: Version = Version::new(7, 0);
/// Since then protection is set when somebody is picked and at no other time: a change of attributes keeps it.
const PROTECTS_AT_PICK: Version = Version::new(7, 0);
/// Since then, at the latest (read in 7.3.4; which release between 6.18 and that brought it is not known): a wakee with a
/// shorter slice that is eligible preempts and is picked next even if it has not the earliest deadline, who is picked
/// while shorter slices wait is protected for as long as it is eligible, and wakees that may not preempt bound its
/// protection like those that lost.
const SHORT_BUDDIES: Version = Version::new(7, 3);
/// Since then a delayed entity's debt can only shrink.
const DEBT_SHRINKS: Version = Version::new(7, 1);

/// Since then, at the latest (read in 7.3.4, as SHORT_BUDDIES): the running entity is charged before one that is delayed goes
/// on, so that all of what it has worked off is known.
const CHARGES_BEFORE_REQUEUE: Version = Version::new(7, 3);

impl System<'_> {
    /// Whether the fair class is EEVDF.
    #[inline]
    pub fn eevdf(&self) -> bool {
        self.version() >= EEVDF
    }
}
