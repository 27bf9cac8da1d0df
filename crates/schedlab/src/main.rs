//! The command line of schedlab: parses words, calls the crates below, and prints.
//!
//! Each command has a file in `commands/`: its options (a struct `...Args`), a `run` that turns them into calls, and
//! its row of the table in [`commands`]. [`cli`] finds the command by that table; help, completions and man pages are
//! made of it. Options that several commands share are structs of their own: [`common`], [`outlets`], [`gate`],
//! [`guests`], [`cluster`], [`workloads`], [`recordings`].
//!
//! Whatever makes runs is a request to the lab (`schedlab_lab::RunRequest`): [`experiments`] makes one of options for
//! `run`, `study` and `suite`; `try`, `hunt`, `bisect` and `validate --changes` each make their own. [`listener`]
//! shows what the lab does meanwhile: notes, bars for runs, the progress of a kernel's build. [`reporting`] writes
//! pages for a browser.
//!
//! Results go to standard output, progress and warnings to standard error. A result is made in memory and written at
//! once ([`output`]). Errors are typed below and become one message here, with the place and the remedy; [`fault`] adds
//! the command that repeats a run that failed by a fault of schedlab.
//!
//! Exit codes: 0 done, 1 a check did not hold or the work was interrupted, 2 bad input, 3 this machine can't do that,
//! 4 a fault of schedlab.

mod cases;
mod cells;
mod cli;
mod cluster;
mod code_options;
mod colour;
mod commands;
mod common;
mod experiments;
mod external;
mod fault;
mod gate;
mod guests;
mod interrupt;
mod listener;
mod names;
mod outlets;
mod output;
mod progress;
mod published;
mod recordings;
mod reporting;
mod reports;
mod rerun_command;
mod scheduler_options;
mod timing;
mod workloads;

use schedlab_lab::judge::rules;
use schedlab_lab::make::exec::code;
use std::process::ExitCode;

fn main() -> ExitCode {
    if schedlab_guest::is_init() {
        schedlab_guest::init_main();
        return ExitCode::from(output::FAULT);
    }
    // The agent measures, so it starts its tasks before any other thread, signal handler or parser of schedlab exists.
    if std::env::args_os().nth(1).is_some_and(|word| word == "agent") {
        return output::conclude(schedlab_native::agent_main());
    }
    if std::env::args_os().nth(1).is_some_and(|word| word == schedlab_native::facts::COMMAND) {
        return output::conclude(schedlab_native::facts::print());
    }
    // A machine under the kernel's own code is a process of its own, and each run on it a copy of that.
    if std::env::args_os().nth(1).is_some_and(|word| word == code::COMMAND) {
        return output::conclude(code::child());
    }
    if std::env::args_os().nth(1).is_some_and(|word| word == rules::COMMAND) {
        return output::conclude(rules::child::child());
    }
    fault::report_panics();
    let said = std::panic::catch_unwind(cli::run).unwrap_or_else(|_| ExitCode::from(output::FAULT));
    code::end_waiting();
    said
}
