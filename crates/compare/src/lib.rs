//! Judges runs: from records to verdicts.
//!
//! A *record* is the stored result of a run ([`schedlab_record::Record`]). This crate reads records and the saved
//! output of other tools, and judges them. It makes no run and prints nothing. It does not know the simulator, the
//! running kernel or guests: no backend is among its dependencies.
//!
//! From a record to a verdict:
//!
//! | step | module |
//! | --- | --- |
//! | find stored runs by name, load or variant | [`runs`] |
//! | read another tool's output as a record | [`tools`] |
//! | take a metric's value out of a record | [`metrics`] |
//! | group records into cells, cells into rows, rows into a table | [`comparison`] |
//! | intervals, ranks, corrections, looks | [`stats`] |
//! | read a history of many days and machines, and find its changes | [`history`] |
//! | how much repeats of one build differ | [`noise`] |
//! | which uncertain cost of a machine moves a result | [`uncertainty`] |
//!
//! Some questions have their own results, plain data that can be stored and printed: the knee of a load ([`knees`]);
//! whether a simulated and a real kernel agree ([`agreement`]); whether a change moves both alike ([`predicted`],
//! [`agreement::changes`]); the cost of a patch ([`trial`]); whether runs show the claims of public reports
//! ([`reports`]); whether changes are those that posted series have made on real machines ([`published`]); which task
//! ran where over time ([`strips`]); counted and sampled commands ([`command_counters`], [`cpu_profile`]).
//!
//! Terms:
//!
//! - A *cell* is the runs of one workload, load, machine, kernel and variant, which differ in their seeds only.
//! - A *group* is the cells that differ in kernel and variant only; one of them is the *baseline*.
//! - A *row* compares one cell with its baseline in one metric. All rows of a comparison are one family: their p-values
//!   are corrected together.
//! - A *pair* is two runs of equal seed under two variants. They draw the same numbers, so their difference is the
//!   variant's.
//! - A *verdict* is better, worse, changed, same or unclear. "Unclear" means that the data can't tell.
//!
//! Rules: The run is the unit of replication, never the event. "Not measured" is a value with its reason. All
//! transcendental functions come from one library, so that the same records give the same verdicts on every machine.

pub mod agreement;
pub mod command_counters;
pub mod comparison;
pub mod cpu_profile;
pub mod growth;
pub mod history;
pub mod knees;
pub mod metrics;
pub mod noise;
pub mod predicted;
pub mod published;
pub mod reports;
pub mod runs;
pub mod strips;
#[doc(hidden)]
pub mod testing;
pub mod tools;
pub mod trial;
pub mod tuned;
pub mod uncertainty;

pub use comparison::{Comparison, Question, compare, compare_paths, compare_sources};
pub use schedlab_record::Published;
/// The statistics of verdicts, as comparisons use them.
pub use schedlab_stats as stats;
