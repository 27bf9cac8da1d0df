//! Basics that all other crates share. Nothing here knows about scheduling.
//!
//! Three kinds of items are here. First, types of data that all crates pass around:
//!
//! | type | module |
//! | --- | --- |
//! | time in integer nanoseconds, [`Ns`]; calendar time for people | [`time`], [`utc`] |
//! | ids ([`CpuId`], [`TaskId`], [`GroupId`]) and vectors that only their own id can index | [`arena`] |
//! | sets of CPUs in the kernel's list notation | [`cpuset`] |
//! | kernel versions | [`version`] |
//! | backends of runs, and origins of records | [`backend`] |
//! | errors with place and remedy; warnings as data | [`error`] |
//! | keyed random draws: draw `i` is a pure function of seed, purpose and `i` | [`random`] |
//!
//! Second, operations that must be done in one way only:
//!
//! | operation | module |
//! | --- | --- |
//! | reading files that a user names: regular files and pipes, up to a limit | [`input`] |
//! | writing whole files and folders: under a temporary name, then renamed | [`temp`] |
//! | escaping foreign text before a terminal gets it | [`printable`] |
//! | loops over several threads, with results in order | [`parallel`] |
//! | names derived from content | [`hash`] |
//!
//! Third, text for people: [`count`] ("2 entries"), [`mod@natural`] (2 before 16), [`nearest`] ("did you mean"),
//! [`wrap`] (78 columns), [`row`] (fast rows of text, without `format!`).
//!
//! Rules. Units are in the names of fields. Simulated time is integer nanoseconds, and no clock is read here except for
//! names of temporary files and in [`testing`]. An [`Error`] is a kind, which sets the exit code; a message; a place;
//! and a remedy. Libraries return errors, and only the command line prints them.

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
pub use backend::{Backend, GuestMode, Origin};
pub use count::{counted, each_once, is_zero, one_or, things};
pub use cpuset::CpuSet;
pub use error::{Error, ErrorKind, Result, SchedulerFailure, Spot, Warning};
pub use hash::content_hash;
pub use natural::{Natural, natural};
pub use random::Stream;
pub use row::TextRow;
pub use time::{Ns, Ns32};
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
    /// A task, by its index in the run's task table: workload tasks first, in order of declaration.
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
