//! `schedlab pack`: the missing runs of an experiment as a file, for a machine that does not share the store.

use crate::cli::Entry;
use crate::experiments::{self, ExperimentOptions};
use crate::{cluster, output};
use clap::{ArgMatches, Args, Command, FromArgMatches};
use schedlab_base::{Error, Result, temp};
use schedlab_cluster::parcel::{self, place};
use schedlab_lab::ask::experiment::load;
use schedlab_lab::ask::studies::{self, STUDIES};
use std::path::PathBuf;

pub const ENTRY: Entry = Entry { command, run };

/// Options about results, which this command hides because it has no results.
const WITHOUT: [&str; 6] = ["format", "json", "plot", "predict", "timing", "at_once"];

#[derive(Args)]
struct PackArgs {
    /// The experiment's file, or the name of a study
    #[arg(value_name = "EXPERIMENT")]
    file: PathBuf,
    /// The parcel
    #[arg(short = 'o', long = "parcel", value_name = "FILE")]
    parcel: PathBuf,
    #[command(flatten)]
    options: ExperimentOptions,
}

fn command() -> Command {
    let command = PackArgs::augment_args(Command::new("pack"))
        .about("Write the missing runs of an experiment to a file that another machine works off");
    let hidden = WITHOUT.into_iter().chain(cluster::ids());
    hidden.fold(command, |command, id| command.mut_arg(id, |arg| arg.hide(true)))
}

fn run(matches: &ArgMatches) -> Result<()> {
    let args = PackArgs::from_arg_matches(matches).map_err(|e| Error::internal(e.to_string()))?;
    args.options.check()?;
    if args.options.on_cluster() {
        return Err(Error::input("pack has no engine: another machine makes the runs with 'schedlab work'")
            .help("leave --engine out"));
    }
    place::check(&args.parcel, parcel::SCHEMA, &args.file).map_err(|e| e.context("--parcel"))?;
    let name = args.file.to_str().filter(|name| STUDIES.iter().any(|(study, _)| study == name));
    let experiment = match name.filter(|_| !args.file.exists()) {
        Some(study) => studies::find(study)?,
        None => load(&args.file)?,
    };
    let Some(parcel) = experiments::parcel(experiment, &args.options)? else {
        if !args.options.quiet() {
            let out = args.options.out().display();
            output::note(&format!("{out} has all runs of it: there is nothing to pack"));
        }
        return Ok(());
    };
    temp::write_whole(&args.parcel, parcel.text()?.as_bytes())?;
    if !args.options.quiet() {
        let file = args.parcel.display();
        output::note(&format!(
            "{} in {file}: 'schedlab work {file} --results FILE' makes them, 'schedlab unpack FILE' brings them back",
            schedlab_base::counted(parcel.runs(), "run")
        ));
    }
    Ok(())
}
