//! CPUs that share one processor's time. `sharing`: the state. `drive`: a run in
//! turns. The rule whose turn it is: `schedlab_board::ring`.

pub(crate) mod drive;

#[cfg(test)]
mod tests;
