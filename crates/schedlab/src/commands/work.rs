//! `schedlab work`: makes the runs of a parcel. A task of a cluster's job is this command.

use crate::cli::Entry;
use crate::progress::Bar;
use crate::{common, interrupt, output};
use clap::{ArgMatches, Args, Command, FromArgMatches};
use schedlab_base::{Error, ErrorKind, Result, temp};
use schedlab_cluster::parcel::worker::{Worked, Worker};
use schedlab_cluster::parcel::{Parcel, place, results};
use schedlab_cluster::slurm::journal::{Failure, REPORT_SCHEMA, Report};
use schedlab_lab::Progress;
use schedlab_record::Store;
use std::path::{Path, PathBuf};

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
    /// Write what was done, or why not, to this file, for the command that submitted the task
    #[arg(long, value_name = "FILE", hide = true)]
    report: Option<PathBuf>,
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
    if let Some(report) = &args.report {
        // That of a try before is not this one's. Where this one can't be written, the one at the end is an error.
        let _ = std::fs::remove_file(report);
        let _ = write(report, Worked::default(), None);
    }
    if let Some(file) = &args.results {
        place::check(file, results::SCHEMA, &args.file).map_err(|e| e.context("--results"))?;
    }
    let worked = work(&args);
    if let Some(report) = &args.report {
        let did = worked.as_ref().map(|(_, _, did)| did.clone()).unwrap_or_default();
        let written = write(report, did, worked.as_ref().err().map(Failure::of));
        // The command ends with the error of the work, not with the report's.
        if worked.is_ok() {
            written?;
        }
    }
    let (parcel, store, worked) = worked?;
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
    of_env("SLURM_CPUS_ON_NODE").filter(|n| (1..=1024).contains(n))
}

/// Writes the report of a task.
fn write(file: &Path, worked: Worked, failed: Option<Failure>) -> Result<()> {
    let node = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default().trim().to_owned();
    let report = Report {
        schema: REPORT_SCHEMA.to_owned(),
        job: of_env("SLURM_ARRAY_JOB_ID").unwrap_or(0),
        node,
        // Slurm sets it from the second begin on.
        restarts: of_env("SLURM_RESTART_COUNT").unwrap_or(0),
        worked,
        failed,
    };
    let text = serde_json::to_string(&report)
        .map_err(|e| Error::internal(format!("a report can't be written as JSON: {e}")))?;
    temp::write_whole(file, text.as_bytes())
}

/// A number in a task's environment, set by Slurm.
fn of_env<T: std::str::FromStr>(name: &str) -> Option<T> {
    std::env::var(name).ok()?.parse().ok()
}
