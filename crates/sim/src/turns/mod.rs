//! CPUs that share one processor's time. `ring`: the rule whose turn it is. `sharing`: the state. `drive`: a run in
//! turns.

pub(crate) mod drive;
pub mod ring;
pub mod sharing;

#[cfg(test)]
mod tests;
