//! The words every schedlab crate shares: time, ids and their arenas, CPU sets, versions, backends, errors, counts,
//! keyed random draws, rows of text, the own user, skipped tests.
//!
//! Nothing here knows of scheduling. Units are in the names; all simulated time is integer nanoseconds.

pub mod arena;
pub mod backend;
pub mod count;
pub mod cpuset;
pub mod error;
pub mod hash;
pub mod input;
pub mod natural;
pub mod nearest;
pub mod parallel;
pub mod printable;
pub mod random;
pub mod row;
pub mod temp;
pub mod testing;
pub mod time;
pub mod user;
pub mod utc;
pub mod version;
pub mod wrap;

pub use arena::{Arena, Id};
pub use backend::{Backend, Origin};
pub use count::{counted, one_or, things};
pub use cpuset::CpuSet;
pub use error::{Error, ErrorKind, Result, Spot, Warning};
pub use hash::content_hash;
pub use natural::{Natural, natural};
pub use random::Stream;
pub use row::TextRow;
pub use time::Ns;
pub use user::own_uid;
pub use version::Version;

use serde::{Deserialize, Serialize};

macro_rules! id {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default, Serialize, Deserialize)]
        #[serde(transparent)]
        pub struct $name(pub u32);

        impl $name {
            /// The id as an array index.
            #[inline]
            pub const fn index(self) -> usize {
                self.0 as usize
            }
        }

        impl Id for $name {
            #[inline]
            fn at(self) -> usize {
                self.0 as usize
            }
            #[inline]
            fn of(at: usize) -> $name {
                $name(at as u32)
            }
        }

        impl From<usize> for $name {
            /// Ids come from arenas far smaller than 2^32 entries.
            #[inline]
            fn from(i: usize) -> Self {
                $name(i as u32)
            }
        }
    };
}

id!(
    /// A logical CPU, numbered as the kernel numbers it.
    CpuId
);
id!(
    /// A task, by its place in the run's task table: workload tasks first, in the order they were declared.
    TaskId
);
id!(
    /// A task group (cgroup); 0 is the root group.
    GroupId
);

impl std::fmt::Display for CpuId {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "cpu{}", self.0)
    }
}
