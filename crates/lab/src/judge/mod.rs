//! Judgements of the lab itself: the simulator against real kernels, our rules against the kernel's code, this machine
//! against itself.

pub mod drift;
pub mod noise_floor;
pub mod rules;
pub mod validate;
