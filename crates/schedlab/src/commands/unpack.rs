//! `schedlab unpack`: puts runs that another machine made into a store.

use crate::cli::Entry;
use crate::output;
use clap::{ArgMatches, Args, Command, FromArgMatches};
use schedlab_base::{Error, ErrorKind, Result};
use schedlab_cluster::parcel::results::unpack;
use schedlab_record::Store;
use std::path::PathBuf;

pub const ENTRY: Entry = Entry { command, run };

#[derive(Args)]
struct UnpackArgs {
    /// Files that 'schedlab work PARCEL --results FILE' wrote
    #[arg(value_name = "FILE", required = true)]
    files: Vec<PathBuf>,
    /// The store; runs that it has already stay as they are
    #[arg(long, value_name = "DIR", default_value = "runs")]
    out: PathBuf,
    /// No notes on standard error
    #[arg(long, short)]
    quiet: bool,
}

fn command() -> Command {
    UnpackArgs::augment_args(Command::new("unpack")).about("Put runs that another machine made into a store")
}

fn run(matches: &ArgMatches) -> Result<()> {
    let args = UnpackArgs::from_arg_matches(matches).map_err(|e| Error::internal(e.to_string()))?;
    let store = Store::create(&args.out)?;
    let mut other = 0;
    for file in &args.files {
        let done = unpack(file, &store)?;
        other += done.other;
        if !args.quiet {
            let (file, out) = (file.display(), store.root().display());
            output::note(&format!(
                "{file}: {} put into {out}, {} {} there",
                schedlab_base::counted(done.stored, "run"),
                done.kept,
                schedlab_base::one_or(done.kept, "was", "were")
            ));
        }
    }
    if other == 0 {
        return Ok(());
    }
    let text = format!("{other} of the runs that were there have other bytes; they stay as they are");
    Err(Error::new(ErrorKind::CheckFailed, text).help(
        "live runs are measured anew each time; of simulated ones this is a fault: keep both and report it",
    ))
}
