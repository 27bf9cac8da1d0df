//! The O(1) scheduler, before 2.6.23 (`kernel/sched.c`; 2.6.12 and 2.6.18 were read).
//!
//! Each CPU has two arrays of lists, one list for each priority. The first task of the best list of the *active* array
//! runs. A task that has used up its slice gets a new one and waits in the *expired* array; when the active array is
//! empty the two are swapped. A task's priority is its nice value's, improved or worsened by up to five by the average
//! of its sleep: so tasks that sleep much preempt at wakeup, and *interactive* ones go back to the active array.
//!
//! Rules: [`array`], [`prio`] (priorities, slices, weights), [`bonus`] (the average of sleep and its effect),
//! [`expiry`] (the end of a slice), [`wake`] (the waker's or the previous CPU), [`busiest`], [`detach`] and [`settle`]
//! (balancing). State: [`state`]. `class` and `drive` apply them over time. Slices and averages are counted in ticks
//! (jiffies), as in the kernel; loads are in units of 1024 for one task of nice 0, eight times as fine as the kernel's.
//!
//! Not modelled: SMT nice (`dependent_sleeper`), uninterruptible sleep (no simulated sleep is one), power-saving
//! policies, real-time tasks in the same arrays and in the balancer (they are in [`crate::rt`]).

pub mod array;
pub mod bonus;
pub mod busiest;
mod class;
#[cfg(test)]
mod class_tests;
pub mod detach;
mod drive;
pub mod expiry;
pub mod prio;
pub mod settle;
pub mod state;
pub mod wake;

pub(crate) use drive::cpu_offset;

pub(crate) struct O1;
