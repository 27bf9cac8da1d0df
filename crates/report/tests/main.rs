//! Tests of the output, as modules of one executable.

mod agree;
mod common;
mod fidelity;
mod figures;
mod forms;
mod knee;
mod validation;
