//! `schedlab man`: the manual page, or the page of one command.

use crate::cli::{self, Entry};
use crate::output;
use clap::{Arg, ArgMatches, Command};
use schedlab_base::{Error, Result};

pub const ENTRY: Entry = Entry { command, run };

fn command() -> Command {
    let name = Arg::new("command").value_name("COMMAND").help("the command whose page is printed");
    Command::new("man").about("Print the manual page, or the page of one command").arg(name)
}

fn run(matches: &ArgMatches) -> Result<()> {
    let mut all = cli::command();
    all.build();
    let page = match matches.get_one::<String>("command") {
        None => all,
        Some(name) => {
            let known = all.get_subcommands().map(Command::get_name);
            let error = Error::unknown("command", name, known);
            all.find_subcommand(name).cloned().ok_or(error)?
        }
    };
    output::result(|out| clap_mangen::Man::new(page).render(out))
}
