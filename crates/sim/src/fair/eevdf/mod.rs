//! EEVDF, the fair class since 6.6 (`kernel/sched/fair.c`): earliest eligible virtual deadline first.
//!
//! Every entity has a virtual runtime v, a requested slice, and a virtual deadline one slice after v. The queue's
//! virtual time V is the mean of all v, weighted. An entity whose v is not beyond V has not had more than its share and
//! is *eligible*; of the eligible ones the one with the earliest deadline runs. V - v is an entity's *lag*. The entity
//! keeps its lag when it sleeps and gets it back when it is placed, so there is no credit for sleeping.
//!
//! Units: v, V, deadlines and lag are virtual ns (ns at nice 0), signed; only differences within one queue mean
//! anything. Slices are real ns. The rules are pure functions (`average`, `timeline`, `lag`, `placement`, `pick`,
//! `protect`, `preempt`); `class`, `queueing`, `delay` and `hrtick` apply them to the arenas.
//!
//! By version:
//!
//! - Protection: 6.6 to 6.16 protect the running entity until its deadline, 6.17 and later until the end of the queue's
//!   shortest slice.
//! - Wakeups: 6.17 and later judge them as 6.19 does; the stable releases of 6.18 have that as a backport.
//! - Lag: limited to two slices or a tick before 7.0, to the queue's longest slice and a tick since (read in 6.12.107
//!   and 7.3 sources). The limit of 6.18.0 is unverified, and stable releases backport such fixes.
//! - Tasks may request slices of their own since 6.12.
//! - Groups: since 7.3 tasks of all groups are on one timeline (`flat`).

mod average;
mod class;
mod delay;
mod flat;
mod hrtick;
mod invariants;
mod lag;
mod pick;
mod placement;
mod preempt;
mod protect;
mod queueing;
#[cfg(test)]
mod tests;
pub mod timeline;

/// EEVDF, since 6.6.
pub struct Eevdf;
