//! `schedlab stat`: performance counters of any command, of two commands side by side, or of the whole system.

use crate::cli::Entry;
use crate::common::{self, FormOptions};
use crate::gate::GateOptions;
use crate::{interrupt, output};
use clap::{ArgMatches, Args, Command, FromArgMatches};
use schedlab_base::{Error, ErrorKind, Result, Warning};
use schedlab_compare::tools::one_word_or_line;
use schedlab_compare::{Question, compare};
use schedlab_lab::make::stat::{self, Commands, Output, WatchOptions, Watched, Width};
use schedlab_record::Record;
use schedlab_report::stat::CountedCommand;
use schedlab_workload::command::one_line;
use std::sync::atomic::{AtomicBool, Ordering};

pub const ENTRY: Entry = Entry { command, run };

/// The default number of runs of each of two commands.
const RUNS_OF_TWO: u64 = 10;

#[derive(Args)]
struct StatArgs {
    /// The command with its arguments
    #[arg(value_name = "COMMAND", trailing_var_arg = true)]
    command: Vec<String>,
    /// How often it is run [default: 1, with --vs 10]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..=1_000_000))]
    runs: Option<u64>,
    /// Another command to compare with: one line, split into words as a shell would
    #[arg(long, value_name = "LINE", requires = "command")]
    vs: Option<String>,
    /// With --vs: A B A B instead of A B B A
    #[arg(long, requires = "vs")]
    repeat_order: bool,
    /// Count the whole system, while the command runs or for the time of --for
    #[arg(short = 'a', long)]
    all_cpus: bool,
    /// With -a and without a command: for how long [default: until Ctrl-C]
    #[arg(long = "for", value_name = "TIME", requires = "all_cpus", conflicts_with = "command")]
    length: Option<String>,
    /// Also count references to the last-level cache and its misses
    #[arg(short = 'd', long)]
    detailed: bool,
    /// With --vs: smallest change that counts, percent
    #[arg(long, value_name = "PERCENT", requires = "vs", default_value_t = Question::default().min_effect_pct)]
    min_effect: f64,
    #[command(flatten)]
    form: FormOptions,
}

impl StatArgs {
    fn width(&self) -> Width {
        if self.detailed { Width::Caches } else { Width::Usual }
    }
}

fn command() -> Command {
    StatArgs::augment_args(Command::new("stat"))
        .about("Count a command's CPU time, switches, cycles and the like, or compare two commands")
        .override_usage("schedlab stat [OPTIONS] [--] COMMAND...\n       schedlab stat -a --for TIME")
        .arg_required_else_help(true)
        .after_help(
            "The command keeps its terminal; the counters follow on standard output when it has ended. With --json the \
             command's standard output goes to standard error; with --vs it is dropped. A single run ends with the \
             command's exit code.",
        )
}

/// Where the commands' standard output goes. The output of two commands is dropped: ten runs each would bury the table.
fn output_of(two: bool, json: bool) -> Output {
    match (two, json) {
        (true, _) => Output::Dropped,
        (false, true) => Output::Aside,
        (false, false) => Output::Kept,
    }
}

/// The commands to run, and how to run them.
struct Plan {
    /// Name, words.
    commands: Vec<(String, Vec<String>)>,
    how: WatchOptions,
    runs: u64,
    repeat_order: bool,
}

fn run(matches: &ArgMatches) -> Result<()> {
    let args = StatArgs::from_arg_matches(matches).map_err(|e| Error::internal(e.to_string()))?;
    let form = args.form.form()?;
    let json = form.name == "json";
    if args.vs.is_none() && !json && form.name != "table" {
        return Err(Error::input(format!("--format {} is for --vs", form.name))
            .help("without --vs use table or json"));
    }
    if args.vs.is_none() && (args.form.plots() || args.form.outlets.asked()) {
        let text = "--plot, --junit and --print are for --vs: one command alone is not a comparison";
        return Err(Error::input(text));
    }
    let stop = interrupt::stop_flag()?;
    if args.command.is_empty() {
        return whole_system(&args, json, stop);
    }
    if args.command[0].is_empty() {
        return Err(Error::input("the command is empty").help("schedlab stat -- COMMAND..."));
    }
    let mut commands = vec![("A".to_owned(), args.command.clone())];
    if let Some(line) = &args.vs {
        commands.push(("B".to_owned(), one_word_or_line(line).map_err(|e| e.context("--vs"))?));
    }
    let two = commands.len() > 1;
    let plan = Plan {
        commands,
        how: WatchOptions { system: args.all_cpus, width: args.width(), output: output_of(two, json) },
        runs: args.runs.unwrap_or(if two { RUNS_OF_TWO } else { 1 }),
        repeat_order: args.repeat_order,
    };
    let (records, code) = work(&plan, stop)?;
    let wanted = plan.commands.len() as u64 * plan.runs;
    let interrupted = (records.len() as u64) < wanted;
    if two {
        let question = Question {
            metrics: counted(&records),
            baseline: Some("A".to_owned()),
            min_effect_pct: args.min_effect,
            ..Question::default()
        };
        let cut =
            format!("interrupted: {} of {} finished", records.len(), schedlab_base::counted(wanted, "run"));
        let cut = interrupted.then(|| Warning::new("run.interrupted", cut));
        common::print(&compare(&records, &question, cut.as_slice())?, &args.form, &GateOptions::default())?;
    } else {
        print(&CountedCommand::of(&records, &one_line(&args.command), args.all_cpus), json)?;
    }
    if interrupted {
        return Err(Error::new(ErrorKind::CheckFailed, "interrupted: not all runs were made"));
    }
    if wanted == 1 && code != 0 {
        std::process::exit(code.into());
    }
    Ok(())
}

/// The runs that were made before the stop, and the exit code of the last.
fn work(plan: &Plan, stop: &AtomicBool) -> Result<(Vec<Record>, u8)> {
    let lines: Commands = plan.commands.iter().map(|(name, words)| (name.clone(), one_line(words))).collect();
    let (mut records, mut code) = (Vec::new(), 0);
    let order = stat::order(plan.commands.len(), plan.runs, plan.repeat_order)?;
    let single = order.len() == 1;
    for run in order {
        let (name, words) = &plan.commands[run.cell];
        let seen = stat::command(words, plan.how, stop)?;
        // A run that was cut short can't be compared with others; a single one is still printed.
        if stop.load(Ordering::Relaxed) && !single {
            break;
        }
        code = seen.code();
        records.push(stat::record(seen, &lines, name, run.seed)?);
    }
    if records.is_empty() {
        Err(Error::new(ErrorKind::CheckFailed, "interrupted: no run was finished"))
    } else {
        Ok((records, code))
    }
}

fn whole_system(args: &StatArgs, json: bool, stop: &AtomicBool) -> Result<()> {
    if !args.all_cpus {
        return Err(Error::input("no command").help("schedlab stat -- COMMAND..., or -a --for 10s"));
    }
    let length = args.length.as_deref().map(common::length_of_time);
    let length = length.transpose()?;
    let runs = args.runs.unwrap_or(1);
    let mut records = Vec::new();
    for run in stat::order(1, runs, false)? {
        let seen: Watched = stat::system(length, args.width(), stop)?;
        records.push(stat::record(seen, &Commands::new(), "system", run.seed)?);
        if stop.load(Ordering::Relaxed) {
            break;
        }
    }
    print(&CountedCommand::of(&records, "", true), json)
}

/// The metrics that at least one run has, so that a table of two commands does not list each counter that is missing.
fn counted(records: &[Record]) -> Vec<String> {
    let has = |name: &String| records.iter().any(|r| schedlab_record::evaluate(r, name).number().is_some());
    schedlab_compare::command_counters::metrics().into_iter().filter(has).collect()
}

fn print(stat: &CountedCommand, json: bool) -> Result<()> {
    if json { output::json(stat) } else { output::result(|out| stat.export(out)) }
}
