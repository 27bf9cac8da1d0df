//! The cost of moving a task, measured as D003 does at boot (2.6.12 with the patch; `measure_migration_cost`).
//!
//! The cost of a move is the time to bring a working set from one CPU's caches into another's. A [`Ground`] is a
//! machine on which this can be timed: the host's threads, or a simulated memory hierarchy. Both share the procedure,
//! its options, the distances of pairs and the printed matrix.
//!
//! A *cost* is half of a *cutoff*: a task is cache hot for twice the time that a move costs. Times are ns, sizes bytes.

mod calibration;
mod distance;
mod matrix;
mod options;
mod pattern;
mod procedure;

pub use calibration::{Calibration, Cost, Curve, DistanceCosts, Hit, Levels, PairCost, RevisitTime, States};
pub use distance::{Class, Distances};
pub use matrix::{Entry, Matrix, Origin};
pub use options::{Overrides, parse_costs};
pub use pattern::{Pattern, touch_2005};
pub use procedure::{PairResult, Point, SMALLEST, Search, cutoff, measure};

use schedlab_base::{CpuId, Result};

/// A machine on which a move can be timed.
pub trait Ground {
    /// `source` touches `size` bytes, then `target` touches the same bytes; both flush their caches before and after.
    /// The result is the time from the first's begin to the second's end, ns.
    ///
    /// # Errors
    /// When the machine can't be timed.
    fn go_over(&mut self, size: u64, source: CpuId, target: CpuId) -> Result<u64>;
}
