//! `schedlab profile`: a command's CPU time in the kernel, by function.

use crate::cli::Entry;
use crate::{common, interrupt, output};
use clap::{ArgMatches, Args, Command, FromArgMatches};
use schedlab_base::{Error, Result};
use schedlab_lab::make::profile::{self, Ask};
use schedlab_lab::make::stat::{Output, WatchOptions};
use schedlab_report::profile as show;
use schedlab_workload::command::one_line;

pub const ENTRY: Entry = Entry { command, run };

#[derive(Args)]
struct ProfileArgs {
    /// The command with its arguments
    #[arg(value_name = "COMMAND", trailing_var_arg = true)]
    command: Vec<String>,
    /// Sample the whole system, while the command runs or for the time of --for
    #[arg(short = 'a', long)]
    all_cpus: bool,
    /// With -a and without a command: for how long [default: until Ctrl-C]
    #[arg(long = "for", value_name = "TIME", requires = "all_cpus", conflicts_with = "command")]
    length: Option<String>,
    /// Samples per second of CPU time
    #[arg(long, value_name = "HZ", default_value_t = 999, value_parser = clap::value_parser!(u64).range(1..))]
    freq: u64,
    /// How many functions are shown; functions with most samples of their own come first
    #[arg(long, value_name = "N", default_value_t = 30)]
    top: usize,
    /// Functions to show, even without samples; names from before and since 6.10 are both known
    #[arg(long, value_name = "NAMES", value_delimiter = ',')]
    symbols: Vec<String>,
    /// Print call chains for flame graphs, a line each: comm;frame;frame COUNT. Frames in user mode are files; code
    /// without frame pointers ends a chain
    #[arg(long, conflicts_with_all = ["json", "symbols"])]
    folded: bool,
    /// The result as JSON, all functions
    #[arg(long)]
    json: bool,
}

fn command() -> Command {
    ProfileArgs::augment_args(Command::new("profile"))
        .about("Sample where a command's CPU time goes in the kernel, by function")
        .override_usage("schedlab profile [OPTIONS] [--] COMMAND...\n       schedlab profile -a --for TIME")
        .arg_required_else_help(true)
        .after_help(
            "Needs root, CAP_PERFMON, or kernel.perf_event_paranoid at most 1 (-a: 0), and addresses in /proc/kallsyms. \
             Compare with the simulator's balance.*_time (schedlab bench --backend sim).",
        )
}

fn run(matches: &ArgMatches) -> Result<()> {
    let args = ProfileArgs::from_arg_matches(matches).map_err(|e| Error::internal(e.to_string()))?;
    if args.symbols.iter().any(|name| name.trim().is_empty()) {
        return Err(Error::input("--symbols: a name is empty")
            .help("write --symbols newidle_balance,update_sd_lb_stats"));
    }
    let stop = interrupt::stop_flag()?;
    let ask = Ask { rate: args.freq, chains: args.folded };
    let sampled = if args.command.is_empty() {
        if !args.all_cpus {
            return Err(Error::input("no command").help("schedlab profile -- COMMAND..., or -a --for 10s"));
        }
        let length = args.length.as_deref().map(common::length_of_time);
        profile::system(length.transpose()?, ask, stop)?
    } else {
        let output = if args.json || args.folded { Output::Aside } else { Output::Kept };
        let how = WatchOptions { system: args.all_cpus, output, ..WatchOptions::default() };
        profile::command(&args.command, how, ask, stop)?
    };
    let line = one_line(&args.command);
    let shares = profile::shares(&sampled, &line, args.all_cpus, args.freq, &args.symbols);
    let top = if args.symbols.is_empty() { args.top } else { args.symbols.len() };
    if args.json {
        output::json(&shares)?;
    } else if args.folded {
        common::warn(&shares.warnings);
        output::result(|out| show::folded(&sampled.profile.stacks, out))?;
    } else {
        output::result(|out| show::export(&shares, top, out))?;
    }
    match sampled.watched.code() {
        0 => Ok(()),
        code => std::process::exit(code.into()),
    }
}
