//! `schedlab machine`: lists the presets, or shows one machine with its topology, domains, groups and costs.

use super::{background, probe};
use crate::cli::Entry;
use crate::{common, output};
use clap::{ArgMatches, Args, Command, FromArgMatches};
use schedlab_base::{CpuId, Error, Result, Version, printable};
use schedlab_kernel::DEFAULT_PROFILE;
use schedlab_lab::ask::machines;
use schedlab_machine::sysfs::HOST;
use schedlab_machine::{Machine, Shown, show};
use schedlab_report::text::wrap;
use std::path::PathBuf;

pub const ENTRY: Entry = Entry { command, run };

#[derive(Args)]
struct MachineArgs {
    /// A preset, smp-N, smt-N, host or a file; without a name the presets are listed
    #[arg(value_name = "NAME|FILE")]
    name: Option<String>,
    /// Kernel whose domains and costs are shown [default: for host the running kernel, else v6.5]
    #[arg(long, value_name = "VERSION")]
    kernel: Option<String>,
    /// CPU whose groups are shown
    #[arg(long, value_name = "N", default_value_t = 0)]
    cpu: u32,
    /// A background in place of the machine's own: a file, a shipped one (idle-guest-2) or none
    #[arg(long, value_name = "FILE|NAME")]
    background: Option<String>,
    /// The result as JSON
    #[arg(long)]
    json: bool,
}

#[derive(Args)]
struct Import {
    /// The text or the folder; - is standard input
    #[arg(value_name = "FILE|FOLDER")]
    path: PathBuf,
    /// The machine's name [default: the file's]
    #[arg(long, value_name = "NAME")]
    name: Option<String>,
}

#[derive(Args)]
struct Sized {
    /// Packages and cores of each, as 2x16; or the cores of one
    #[arg(value_name = "PACKAGESxCORES")]
    size: String,
    /// Two hardware threads in each core
    #[arg(long)]
    smt: bool,
    /// The machine's name [default: made of its size]
    #[arg(long, value_name = "NAME")]
    name: Option<String>,
}

fn command() -> Command {
    let about = "Show a machine: topology, domains, groups, costs";
    MachineArgs::augment_args(Command::new("machine"))
        .about(about)
        .subcommand(Import::augment_args(Command::new("import")).about(
            "Print a machine file made of what a computer says of itself: lscpu -J, lscpu -e -J, hwloc's XML, or a copy of \
             /sys/devices/system",
        ))
        .subcommand(Sized::augment_args(Command::new("new")).about("Print the machine file of a size"))
        .subcommand(probe::command())
        .subcommand(background::command())
        .args_conflicts_with_subcommands(true)
}

fn run(matches: &ArgMatches) -> Result<()> {
    match matches.subcommand() {
        Some(("background", sub)) => return background::run(sub),
        Some(("import", sub)) => return import(sub),
        Some(("new", sub)) => return sized(sub),
        Some((_, sub)) => return probe::run(sub),
        None => {}
    }
    let args = MachineArgs::from_arg_matches(matches).map_err(|e| Error::internal(e.to_string()))?;
    let Some(name) = &args.name else {
        return match args.background {
            Some(_) => Err(Error::input("--background without a machine")
                .help("schedlab machine smp-2 --background FILE")),
            None => list(args.json),
        };
    };
    if name == "host" {
        schedlab_lab::ask::state::warn_if_unreadable(&output::note);
    }
    let machine = common::machine(name, args.background.as_deref())?;
    let kernel = match &args.kernel {
        Some(text) => Version::parse(text)?,
        None => usual_kernel(name),
    };
    let machine = machine.under(kernel);
    let cpus = machine.topology.nr_cpus();
    if args.cpu as usize >= cpus {
        let e = Error::input(format!("{} has no CPU {}", machine.name, args.cpu));
        return Err(e.help(format!("its CPUs are 0 to {}", cpus - 1)));
    }
    if args.json {
        return output::json_as("schedlab/machine/1", &Shown::new(&machine, kernel));
    }
    output::result(|out| out.write_all(show(&machine, kernel, Some(CpuId(args.cpu))).as_bytes()))
}

/// Prints a machine file made of another tool's text.
fn import(matches: &ArgMatches) -> Result<()> {
    let args = Import::from_arg_matches(matches).map_err(|e| Error::internal(e.to_string()))?;
    let machine = machines::import(&args.path)?;
    print(
        &machine,
        args.name.as_deref(),
        &format!("Made of {} by schedlab machine import.", args.path.display()),
    )
}

/// Prints the machine file of a size.
fn sized(matches: &ArgMatches) -> Result<()> {
    let args = Sized::from_arg_matches(matches).map_err(|e| Error::internal(e.to_string()))?;
    let machine = machines::sized(&args.size, args.smt)?;
    print(&machine, args.name.as_deref(), "Made by schedlab machine new.")
}

fn print(machine: &Machine, name: Option<&str>, made: &str) -> Result<()> {
    let name = name.unwrap_or(&machine.name);
    let comment = format!(
        "{}\nCosts, and idle states that are not known, are those of a machine of no make.",
        printable::name(made)
    );
    let text = machine.text(name, &comment)?;
    output::result(|out| out.write_all(text.as_bytes()))
}

fn usual_kernel(machine: &str) -> Version {
    if machine == HOST { common::running_kernel().unwrap_or(DEFAULT_PROFILE) } else { DEFAULT_PROFILE }
}

fn list(json: bool) -> Result<()> {
    if json {
        let rows: Vec<_> = Machine::presets()
            .map(|(name, about)| serde_json::json!({ "name": name, "about": about }))
            .collect();
        return output::json_as("schedlab/machines/1", &serde_json::json!({ "machines": rows }));
    }
    output::result(|out| {
        Machine::presets()
            .try_for_each(|(name, about)| write!(out, "{}", wrap(&format!("{name:<18} "), &about)))
    })
}
