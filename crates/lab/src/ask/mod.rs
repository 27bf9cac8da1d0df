//! What is to be run: experiments, and what they name. Nothing here makes a run.

pub mod builds;
pub mod cell;
pub mod code;
mod cutoffs;
pub mod experiment;
pub mod guests;
pub mod here;
pub mod levels;
pub mod machines;
mod made_of;
pub(crate) mod patch_names;
pub mod scx;
pub mod state;
pub mod studies;
pub mod variant_checks;
pub mod variant_words;
pub mod verdict;
