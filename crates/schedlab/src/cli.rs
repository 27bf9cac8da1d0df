//! The commands, and the way from the words of the command line to one of them.

use crate::code_options::with_level;
use crate::{colour, commands, common, fault, output};
use clap::{Arg, ArgMatches, ColorChoice, Command};
use schedlab_base::Result;
use schedlab_base::wrap::wrapped;
use std::process::ExitCode;
use std::sync::LazyLock;

static VERSION: LazyLock<String> = LazyLock::new(output::version);

/// A row of the table of commands. Help, completions and man page derive from the table.
pub struct Entry {
    /// Name, options, help.
    pub command: fn() -> Command,
    /// Runs the command and prints its result.
    pub run: fn(&ArgMatches) -> Result<()>,
}

/// The commands, grouped by job as help prints them.
const JOBS: &[(&str, &[Entry])] = &[
    (
        "Make runs",
        &[
            commands::study::ENTRY,
            commands::run::ENTRY,
            commands::suite::ENTRY,
            commands::bench::ENTRY,
            commands::knee::ENTRY,
            commands::tune::ENTRY,
            commands::limits::ENTRY,
            commands::new::ENTRY,
        ],
    ),
    (
        "Judge a change",
        &[
            commands::trial::ENTRY,
            commands::bisect::ENTRY,
            commands::gate::ENTRY,
            commands::hunt::ENTRY,
            commands::validate::ENTRY,
        ],
    ),
    (
        "Look into runs",
        &[
            commands::compare::ENTRY,
            commands::report::ENTRY,
            commands::explain::ENTRY,
            commands::trace::ENTRY,
            commands::runs::ENTRY,
        ],
    ),
    (
        "Recordings of a kernel",
        &[
            commands::record::ENTRY,
            commands::import::ENTRY,
            commands::replay::ENTRY,
            commands::timehist::ENTRY,
            commands::latency::ENTRY,
        ],
    ),
    (
        "Measure this machine",
        &[
            commands::doctor::ENTRY,
            commands::machine::ENTRY,
            commands::migration_cost::ENTRY,
            commands::schedstat::ENTRY,
            commands::stat::ENTRY,
            commands::profile::ENTRY,
            commands::exec::ENTRY,
            commands::restore::ENTRY,
        ],
    ),
    ("Kernels", &[commands::kernel::ENTRY]),
    ("Other machines", &[commands::pack::ENTRY, commands::work::ENTRY, commands::unpack::ENTRY]),
    ("The shell", &[commands::completions::ENTRY, commands::man::ENTRY, commands::mcp::ENTRY]),
];

fn commands() -> impl Iterator<Item = &'static Entry> {
    JOBS.iter().flat_map(|(_, entries)| entries.iter())
}

/// The commands with their summaries, under their jobs.
fn by_job() -> String {
    let mut text = String::new();
    for (job, entries) in JOBS {
        text += &format!("\n{job}:\n");
        for entry in *entries {
            let command = (entry.command)();
            let about = command.get_about().map(ToString::to_string).unwrap_or_default();
            let first = format!("  {:<14}  ", command.get_name());
            let lines = wrapped(&first, &" ".repeat(first.len()), about.split_whitespace());
            lines.iter().for_each(|line| text += &format!("{}\n", line.trim_end()));
        }
    }
    text
}

const COLOR: &str = "color";
/// Display order after every command's own options, and before help.
const LAST: usize = 900;

/// Whether help and errors are coloured. clap prints them before `--color` is parsed, so this looks for the words
/// itself.
fn of_messages() -> ColorChoice {
    // A file's name need not be UTF-8.
    let words: Vec<String> = std::env::args_os().map(|w| w.to_string_lossy().into_owned()).collect();
    let is = |choice: &str| {
        words.iter().any(|w| *w == format!("--{COLOR}={choice}"))
            || words.windows(2).any(|w| w[0] == format!("--{COLOR}") && w[1] == choice)
    };
    match () {
        () if is("never") => ColorChoice::Never,
        () if is("always") => ColorChoice::Always,
        () => ColorChoice::Auto,
    }
}

/// The whole command line except for the agent, which is dispatched earlier.
pub fn command() -> Command {
    Command::new("schedlab")
        .version(VERSION.as_str())
        .about("A laboratory for the Linux CPU scheduler")
        .after_help(
            "'schedlab help COMMAND' has all options of a command, 'schedlab COMMAND -h' those that are used most. Exit codes: 0 done, 1 a check failed or interrupted, 2 bad input, 3 this machine can't do that, 4 a \
             fault of schedlab.",
        )
        .help_template(format!(
            "{{about}}\n\n{{usage-heading}} {{usage}}\n{}\nOptions:\n{{options}}{{after-help}}\n",
            by_job()
        ))
        .subcommand_required(true)
        .arg_required_else_help(true)
        .max_term_width(100)
        .arg(
            Arg::new(COLOR)
                .long(COLOR)
                .global(true)
                .value_name("WHEN")
                .display_order(LAST)
                .value_parser(["auto", "always", "never"])
                .hide_possible_values(true)
                .hide_default_value(true)
                .default_value("auto")
                .help("Colours for verdicts: auto (on a terminal, unless NO_COLOR is set), always or never"),
        )
        .subcommands(commands().map(|c| with_level((c.command)())))
}

/// Parses the command line and runs the command.
pub fn run() -> ExitCode {
    let matches = match command().color(of_messages()).try_get_matches() {
        Ok(matches) => matches,
        Err(e) => return output::usage(&e),
    };
    colour::decide(matches.get_one::<String>(COLOR).map_or("auto", String::as_str));
    let chosen = matches.subcommand().and_then(|(name, own)| {
        commands().find(|c| (c.command)().get_name() == name).map(|entry| (entry, own))
    });
    if let Some((entry, _)) = chosen {
        fault::remember(&(entry.command)());
    }
    // Without a command, clap has already printed help.
    let obeyed = common::walk_every().map(|_| ());
    output::conclude(obeyed.and_then(|()| chosen.map_or(Ok(()), |(entry, own)| (entry.run)(own))))
}

#[cfg(test)]
mod tests {
    #[test]
    fn options_do_not_clash() {
        super::command().debug_assert();
    }
}
