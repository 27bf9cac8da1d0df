//! What is said of records: a room below the making of runs and below every backend.
//!
//! A *record* is what a run leaves ([`schedlab_record::Record`]). This crate reads records, and what other tools have
//! saved, and says what they show. It makes no run and prints nothing; that the simulator, the running kernel and
//! guests are unknown here is the compiler's to hold.
//!
//! From a record to a verdict:
//!
//! | step | module |
//! | --- | --- |
//! | find stored runs by name, load or variant | [`runs`] |
//! | read what another tool has printed, as a record | [`tools`] |
//! | take a metric's value out of a record | [`metrics`] |
//! | group records into cells, cells into rows, rows into a table | [`comparison`] |
//! | intervals, ranks, corrections, looks | [`stats`] |
//! | what repeats of one build differ by | [`noise`] |
//! | which uncertain cost of a machine sways a result | [`uncertainty`] |
//!
//! Special questions have results of their own, as plain data that [`schedlab_record`]'s readers can store and the
//! report can print: the knee of a load ([`knees`]), whether a simulated and a real kernel agree ([`agreement`]),
//! whether a change moves both alike ([`predicted`], [`agreement::changes`]), what a patch costs ([`trial`]), what
//! public reports claim ([`reports`]), who ran where over time ([`strips`]), counted and sampled commands ([`counted`],
//! [`shares`]).
//!
//! Rules: the run is the unit of replication, never the event. "Not measured" is a value. A verdict may be "unclear".

pub mod agreement;
pub mod comparison;
pub mod counted;
pub mod knees;
pub mod metrics;
pub mod noise;
pub mod predicted;
pub mod reports;
pub mod runs;
pub mod shares;
pub mod stats;
pub mod strips;
#[doc(hidden)]
pub mod testing;
pub mod tools;
pub mod trial;
pub mod uncertainty;

pub use comparison::{Comparison, Question, compare, compare_paths, compare_sources};
pub use schedlab_record::Published;
