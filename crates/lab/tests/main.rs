//! Tests of the lab as a whole, as modules of one executable: linking takes longer than most of them.

mod again;
mod common;
mod drift;
mod experiment;
mod groups;
mod guests;
mod noise;
mod room;
mod session;
mod simulated;
mod uncertainty;
mod variants;
