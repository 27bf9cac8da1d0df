//! Runs made by a process other than the one that wants them.
//!
//! A run is a pure function of its cell and seed, and a run in the store is done. So any process may make it.
//! A [`parcel`] is a file of cells, with all figures resolved, and of runs cut into tasks. `schedlab work` makes a
//! parcel's runs into a store, on this machine or another one ([`parcel::worker`]); [`parcel::results`] carries results
//! back by hand. [`slurm`] is the engine of a cluster: it cuts the missing runs of a plan into tasks, submits them as
//! a job array whose tasks are that command, and waits until the store has the runs.
//!
//! In [`slurm`] `cut` makes tasks, `job` holds a job's folder, and `ask` calls Slurm's programs and reads their output.
//! The module itself submits, and looks at the store until it has the runs.
//!
//! The lab sees one trait of this: [`schedlab_lab::make::exec::Engine`].

pub mod parcel;
pub mod slurm;

pub use slurm::Cluster;
