//! Executors make a record of a cell and a seed; a session makes all runs of a plan.
//!
//! A run that is in the store already is not made again: cell and seed decide a simulated run. Runs are
//! stored as they end, so that an interruption loses only those under way. Records come back in the plan's
//! order, whatever the number of threads. Runs that would disturb each other are made one at a time, after
//! the others.

mod backends;
pub(crate) mod cast;
pub mod code;
mod executor;
mod host;
pub(crate) mod image_process;
mod keep;
mod live;
mod options;
pub(crate) mod prepared;
mod session;
pub(crate) mod sim;
pub(crate) mod simulated;
pub mod under_way;
mod vm;
mod warnings;

pub use backends::Backends;
pub use executor::{Executor, Made};
pub use options::RunOptions;
pub use session::{Engine, Finished, LEFT_OUT, MissingRuns, Session};
pub(crate) use simulated::LONGEST_WAIT;
pub use vm::KERNEL_LOG;
pub(crate) use warnings::guessed;
