//! `schedlab completions`: prints a completion script for a shell.

use crate::cli::{self, Entry};
use crate::output;
use clap::{Arg, ArgMatches, Command, value_parser};
use clap_complete::Shell;
use schedlab_base::{Error, Result};

pub const ENTRY: Entry = Entry { command, run };

fn command() -> Command {
    let shell = Arg::new("shell").required(true).value_name("SHELL").value_parser(value_parser!(Shell));
    Command::new("completions").about("Print a completion script for a shell").arg(shell)
}

fn run(matches: &ArgMatches) -> Result<()> {
    let shell = matches.get_one::<Shell>("shell").ok_or_else(|| Error::internal("no shell was parsed"))?;
    output::result(|out| {
        // The generator can't report a failed write; writing to memory does not fail.
        let mut script = Vec::new();
        clap_complete::generate(*shell, &mut cli::command(), "schedlab", &mut script);
        out.write_all(&script)
    })
}
