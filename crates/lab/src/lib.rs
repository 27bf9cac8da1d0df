//! Making runs: from an experiment to its records.
//!
//! A question about a scheduler is answered by runs: the same workload on the same machine under two kernels, several
//! times, with everything else held. The lab reads such a question, plans its runs, has each made by a backend, and
//! keeps the records. What records say is the business of `schedlab-compare`; this crate calls it where a decision
//! about further runs needs a comparison (budget, bisection, knee, hunt). The lab does not print and has no
//! options: what it does is heard by a [`Listener`], and results are plain data.
//!
//! # Terms
//!
//! * [`Experiment`]: a TOML file, read and checked: machines, loads, variants, metrics. An existing one
//!   has no further errors of its file.
//! * *Variant*: a kernel with its changes. *Load*: a workload with all parameters set.
//! * [`Cell`]: the common part of all runs of one load on one machine under one variant. Its hash covers everything on
//!   which its runs depend, and names its folder in the store.
//! * *Run*: a cell and a seed. A simulated run is a function of the two, so a stored run is never made again.
//! * [`Plan`]: cells, and their runs in an order in which variants alternate (A B B A).
//! * [`Executor`]: makes the record of one cell and seed. [`Backends`] is the executor of all backends: the simulator,
//!   the kernel's own code (`code`), the running kernel (`host`), and kernels in guests (`vm`).
//! * *Store*: the folder that keeps records, by cell and seed (`schedlab_record::Store`).
//! * [`RunRequest`]: what is asked of an experiment: backend, part, number of runs, budget. A [`Lab`] makes its runs,
//!   and compares them.
//! * [`Session`]: the settings with which a plan's runs are made: executor, store, threads, progress, the stop flag.
//! * [`Engine`]: makes missing runs in other processes, and puts them into the store. The crate `cluster` has one.
//!
//! # How a run is made
//!
//! ```text
//! experiment/read  TOML -> Experiment            every error with its place
//! experiment/narrow                              the part that the command line asks for
//! builds           variants -> kernels to build  built by `schedlab-kernels`, images back
//! plan             Experiment -> Plan            kernels resolved, cells hashed, runs ordered
//! request          Lab::compared                 the steps above and below, look by look; the comparison
//! exec             Session::work                 found in the store, or made and stored one by one
//!   exec/sim, exec/code, exec/host, exec/vm      the backend of the cell -> Record
//!   exec/simulated                               what sim and code share: the workload, the analyser, the record
//! ```
//!
//! Runs that would disturb each other are made one at a time, after those that may run side by side. Records come back
//! in the plan's order for any number of threads. The first error in that order is the one that is returned.
//!
//! # Layers
//!
//! 1. [`cell`], [`experiment`], [`machines`], [`guests`], [`builds`], [`variant_words`]: what is to be run. They make
//!    no run.
//! 2. [`mod@plan`], [`memory_estimate`], [`variant_checks`]: which runs, and whether they fit.
//! 3. [`exec`]: makes them.
//! 4. Searches and judgements that call an executor more than once: [`budget`] (more runs until rows are decided),
//!    [`knee`] (the largest load that holds a limit), [`bisect`] (the commit that moved a metric), [`hunt`] (the
//!    workload that loses most), [`validate`] (simulation beside the real kernel), [`replay`] (a recording under
//!    another scheduler), [`noise_floor`] (A/A runs).
//! 5. [`request`] leads an experiment through layers 1 to 4. [`suite`] and [`trial`] make experiments of a variant or a
//!    patch, and [`studies`] are experiments that ship. [`bisect::CommitRuns`] asks for runs, commit by commit.
//!
//! The events of a stored run are what `--keep-events` wrote, or [`rerun`] makes the run again (our rules in this
//! process, the kernel's code in another one) and compares the findings. [`replay`] lowers events to a schedule
//! (`lower`; `silent` infers the work of tasks that stayed awake) and says how far a replay is off (`fit`); the
//! schedule's program is in `schedlab_workload::replay`.
//!
//! [`named`] finds stored runs by the names that people give them. Readers of single runs: [`events`] and [`rerun`]
//! simulate a stored run again and refuse it if it is not the same to the nanosecond; [`strips`],
//! [`instruction_counts`] and [`drift`] read what a run left. [`stat`] and [`profile`] make records and shares of what
//! `native` counted and sampled; [`watch`] says how closely a live run is watched.

pub mod bisect;
pub mod budget;
pub mod builds;
pub mod cell;
pub mod code;
mod code_events;
mod cutoffs;
pub mod drift;
pub mod events;
pub mod exec;
pub mod experiment;
pub mod guests;
pub mod here;
pub mod hunt;
pub mod instruction_counts;
pub mod knee;
pub mod levels;
pub mod listener;
pub mod machines;
pub mod memory_estimate;
pub mod named;
pub mod noise_floor;
pub mod packed_cell;
mod patch_names;
pub mod plan;
pub mod profile;
pub mod replay;
pub mod request;
pub mod rerun;
pub mod rules;
mod scx;
mod simulated_events;
pub mod stat;
pub mod state;
pub mod strips;
pub mod studies;
pub mod suite;
pub mod trial;
pub mod validate;
pub mod variant_checks;
pub mod variant_words;
pub mod watch;

pub use cell::Cell;
pub use exec::{Backends, Done, Engine, Executor, Finished, Made, Progress, RunOptions, Session, Silent};
pub use experiment::Experiment;
pub use guests::Guests;
pub use listener::Listener;
pub use plan::{Options, Plan, plan, plan_in_guests};
pub use request::{Compared, ComparedCells, Lab, RunRequest};
pub use schedlab_base::Backend;
