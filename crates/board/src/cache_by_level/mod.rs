//! The memory hierarchy: which cache holds which part of a working set, and what touching it costs.
//!
//! [`Hierarchy`] is the state: caches by level, size, line and sharing, as `[[cache]]` of a machine file lists them.
//! [`Sets`] has the working sets of a run's tasks in it; the drivers of both simulators pass operations through them.
//! On a machine without `[[cache]]`, [`crate::cache_by_core`] prices moves and displacement as a whole.
//!
//! The unit is a block, some lines in a row. Simplifications: only the caches of one CPU's path hold a block at a time
//! (working sets are private, and a reader or writer takes the block over); caches are fully associative, replace the
//! least recently used block, and include the contents of the smaller caches below them; there is no prefetch.
//!
//! Times are ns, sizes bytes unless a name says KB.

mod hierarchy;
mod sets;

pub use hierarchy::{FoundIn, Hierarchy, Prices, Touched};
pub use sets::{Chunk, Sets, Sources};
