//! Drives balancing through time: each step reads the state of its own instant, and has its cost.

mod asked;
mod counts;
mod groups;
mod hints;
mod idlest_walk;
mod load_estimates;
mod misfit;
mod newidle;
mod nohz;
mod pass;
mod periodic;
mod push;
mod ring;
mod take;
mod take_spare;
