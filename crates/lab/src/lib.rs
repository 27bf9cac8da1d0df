//! Making runs: from an experiment to its records.
//!
//! A question about a scheduler is answered by runs: the same workload on the same machine under two kernels, several
//! times, with everything else held. The lab reads such a question, plans its runs, has each made by a backend, and
//! keeps the records. What records say is the business of `schedlab-compare`; this crate calls it where a decision
//! further runs needs a comparison (budget, bisection, knee, hunt). The lab does not print and has no options: a
//! [`Listener`] hears about its work, and results are plain data.
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
//! ask/experiment/read    TOML -> Experiment          every error with its place
//! ask/experiment/narrow                              the part that the command line asks for
//! ask/builds             variants -> kernels         built by `schedlab-kernels`, images back
//! make/plan              Experiment -> Plan          kernels resolved, cells hashed, runs ordered
//! make/request           Lab::compared               the steps above and below, look by look; the comparison
//! make/exec              Session::work               found in the store, or made and stored one by one
//!   make/exec/sim, code, host, vm                    the backend of the cell -> Record
//!   make/exec/simulated                              what sim and code share: workload, analyser, record
//! ```
//!
//! Runs that would disturb each other are made one at a time, after those that may run side by side. Records come back
//! in the plan's order for any number of threads. The first error in that order is the one that is returned.
//!
//! # Folders
//!
//! 1. [`cell`], [`experiment`], [`machines`], [`guests`], [`builds`], [`variant_words`]: what is to be run. They make
//!    no run.
//! 2. [`mod@plan`], [`memory_estimate`], [`variant_checks`]: which runs, and whether they fit.
//! 3. [`exec`]: makes them.
//! 4. Searches and judgements that call an executor more than once: [`budget`] (more runs until rows are decided),
//!    [`knee`] (the largest load that holds a limit), [`bisect`] (the commit that moved a metric), [`hunt`] (the
//!    workload that loses most), [`validate`] (simulation against real kernel), [`replay`] (a recording under
//!    another scheduler), [`noise_floor`] (A/A runs).
//! 5. [`request`] leads an experiment through layers 1 to 4. [`suite`] and [`trial`] make experiments of a variant or a
//!    patch, and [`studies`] are experiments that ship. [`bisect::CommitRuns`] asks for runs, commit by commit.
//!
//! 1. [`ask`]: what is to be run. An [`experiment`](ask::experiment) with its [`machines`](ask::machines), kernels
//!    ([`guests`](ask::guests), images of [`code`](ask::code), [`builds`](ask::builds)), and a variant in words
//!    ([`variant_words`](ask::variant_words)); the [`studies`](ask::studies) that ship; a [`cell`](ask::cell).
//! 2. [`make`]: the runs. A [`mod@plan`](make::plan), whether it fits ([`memory_estimate`](make::memory_estimate)), how
//!    closely live runs are watched ([`watch`](make::watch)), the backends ([`exec`](make::exec)), and more runs until
//!    rows are decided ([`budget`](make::budget)). [`request`](make::request) leads an experiment through all of them.
//!    [`stat`](make::stat) and [`profile`](make::profile) make records and shares of what `native` counted and sampled.
//! 3. [`stored`]: runs that are there. [`named`](stored::named) finds them by the names that people give them.
//!    [`events`](stored::events) are what `--keep-events` wrote, or [`rerun`](stored::rerun) makes the run again (our
//!    rules in this process, the kernel's code in another one) and refuses it if it is not the same to the nanosecond.
//!    [`replay`](stored::replay) lowers events to a schedule (`lower`; `silent` infers the work of tasks that stayed
//!    awake), which runs under another scheduler, and says how far that is off (`fit`).
//! 4. [`judge`]: [`validate`](judge::validate) (simulation next to the real kernel), [`rules`](judge::rules) (our rules
//!    next to the kernel's code, decision by decision), [`noise_floor`](judge::noise_floor) (A/A runs),
//!    [`drift`](judge::drift) (a kernel's description next to our table's).
//! 5. [`search`]: [`knee`](search::knee) (the largest load that holds a limit), [`bisect`](search::bisect) (the commit
//!    that moved a metric), [`hunt`](search::hunt) (the workload that loses most), and experiments of a variant
//!    ([`suite`](search::suite)) or of a patch ([`trial`](search::trial)).

pub mod ask;
pub mod judge;
pub mod listener;
pub mod make;
pub mod search;
pub mod stored;

pub use ask::cell::Cell;
pub use ask::experiment::Experiment;
pub use ask::guests::Guests;
pub use listener::{Done, Listener, Progress, Silent};
pub use make::exec::{Backends, Engine, Executor, Finished, Made, RunOptions, Session};
pub use make::plan::{Options, Plan, plan, plan_in_guests};
pub use make::request::{Compared, ComparedCells, Lab, RunRequest};
pub use schedlab_base::Backend;
