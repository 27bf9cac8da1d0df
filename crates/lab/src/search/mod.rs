//! Searches: each makes experiments or cells of its own, and decides by their runs what it runs next or says.

pub mod bisect;
pub mod hunt;
pub mod knee;
pub mod limits;
mod limits_recorded;
pub mod suite;
pub mod trial;
pub mod tune;
