//! `schedlab work`: makes the runs of a parcel. A task of a cluster's job is this command.

use crate::cli::Entry;
use crate::progress::Bar;
use crate::{common, interrupt, output};
use clap::{ArgMatches, Args, Command, FromArgMatches};
use schedlab_base::{Error, ErrorKind, Result};
use schedlab_cluster::parcel::worker::{Worked, Worker};
use schedlab_cluster::parcel::{Parcel, place, results};
use schedlab_lab::Progress;
use schedlab_record::Store;
use std::path::PathBuf;

pub const ENTRY: Entry = Entry { command, run };

#[derive(Args)]
struct WorkArgs {
    /// The parcel, as 'schedlab pack' writes it
    #[arg(value_name = "PARCEL")]
    file: PathBuf,
    /// Only the runs of this task of it
    #[arg(long, value_name = "N")]
    task: Option<usize>,
    /// Where runs are stored; runs that are there already are not made again
    #[arg(long, value_name = "DIR", default_value = "runs")]
    out: PathBuf,
    /// Then write the runs to this file, for 'schedlab unpack'
    #[arg(long, value_name = "FILE")]
    results: Option<PathBuf>,
    /// Simulations and deterministic guests side by side; all CPUs by default, in a job of Slurm those that it has
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..=1024))]
    jobs: Option<u64>,
    /// No progress and no notes on standard error
    #[arg(long, short)]
    quiet: bool,
}

fn command() -> Command {
    WorkArgs::augment_args(Command::new("work"))
        .about("Make the runs of a parcel, here or as a task of a cluster's job")
}

fn run(matches: &ArgMatches) -> Result<()> {
    let args = WorkArgs::from_arg_matches(matches).map_err(|e| Error::internal(e.to_string()))?;
    if let Some(file) = &args.results {
        place::check(file, results::SCHEMA, &args.file).map_err(|e| e.context("--results"))?;
    }
    let (parcel, store, worked) = work(&args)?;
    if worked.interrupted {
        let text = format!(
            "interrupted: {} made, kept in {}",
            schedlab_base::counted(worked.made, "run"),
            store.root().display()
        );
        return Err(Error::new(ErrorKind::CheckFailed, text).help("the same command continues from there"));
    }
    if let Some(file) = &args.results {
        let runs = results::write(&parcel, &store, file)?;
        if !args.quiet {
            output::note(&format!(
                "{} in {}: schedlab unpack puts them into a store",
                schedlab_base::counted(runs, "run"),
                file.display()
            ));
        }
    }
    if !args.quiet {
        output::note(&format!(
            "{} made, {} found; kept in {}",
            schedlab_base::counted(worked.made, "run"),
            worked.found,
            store.root().display()
        ));
    }
    Ok(())
}

fn work(args: &WorkArgs) -> Result<(Parcel, Store, Worked)> {
    let parcel = Parcel::read(&args.file)?;
    let store = Store::create(&args.out)?;
    let bar = Bar::runs(args.quiet);
    let worker = Worker {
        options: common::run_options()?,
        store: &store,
        jobs: args.jobs.or_else(of_slurm).unwrap_or_else(common::cpus) as usize,
        progress: &bar as &dyn Progress,
        stop: interrupt::stop_flag()?,
    };
    let worked = worker.work(&parcel, args.task)?;
    drop(bar);
    Ok((parcel, store, worked))
}

/// CPUs that Slurm gave this job on this node.
fn of_slurm() -> Option<u64> {
    let given = std::env::var("SLURM_CPUS_ON_NODE").ok()?.parse().ok();
    given.filter(|n| (1..=1024).contains(n))
}
