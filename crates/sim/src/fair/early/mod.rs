//! CFS before 2.6.32, as far as it differs from 3.4's (`sched_fair.c`). D004 was measured on 2.6.27, and its answers
//! date from 2.6.30.
//!
//! A sleeper's credit is a whole latency period. Slices end only at a tick, once they are exceeded. Every waking task
//! becomes the `next` buddy and every running one the `last`. The wakeup granularity adapts to how soon the wakee wakes
//! others ([`overlap`]) and to how long the running task has run. There is no skip buddy: a yield leaves the task in
//! its place, or puts it behind all others. Times are ns.
//!
//! The rules of 2.6.30 were read in its source. Those of 2.6.27 are from memory and unverified: one buddy (`next`) for
//! the length of a slice; a wakeup granularity of 10 ms; SCHED_IDLE without rules of its own and with a weight of 2.
//! Also from memory: 2.6.27's virtual time runs by the queue's weight instead of nice 0's. While the queue stays the
//! same, that only changes the unit of its credits and granularities; it is not modelled.
//!
//! Not modelled of either: child_runs_first (a child on its parent's CPU ran before it), the power saving policies, and
//! HRTICK, which is off.

mod class;
pub mod overlap;
pub mod pick;
pub mod preempt;

/// CFS before 2.6.32.
pub struct Early;
