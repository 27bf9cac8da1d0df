//! CPUs that share one processor's time: whose turn it is (`ring`), and a run that goes by it (`drive`).

pub(crate) mod drive;
pub mod ring;
pub mod sharing;

#[cfg(test)]
mod tests;
