//! Idle CPUs: which idle state they enter, how long they stay, and what their idle time is worth to the scheduler.

pub mod avg;
pub mod governor;
pub mod idle_loop;
