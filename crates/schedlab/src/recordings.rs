//! Options of commands that make runs of recordings: which tasks are of interest, and how the run is stored.

use crate::common;
use clap::{Args, Command};
use schedlab_base::{Result, printable};
use schedlab_import::to_run::{ChosenTasks, Labels};
use schedlab_machine::Machine;
use std::path::PathBuf;

/// Which tasks of a recording are of interest.
#[derive(Args)]
pub struct TaskOptions {
    /// Only tasks of this name, or of names that begin so (NAME*); may be given more than once
    #[arg(long, value_name = "NAME")]
    task: Vec<String>,
    /// Only this thread, or the threads of this process; may be given more than once
    #[arg(long, value_name = "N")]
    pid: Vec<u32>,
}

impl TaskOptions {
    /// The chosen tasks.
    pub fn chosen(&self) -> ChosenTasks {
        ChosenTasks { names: self.task.clone(), pids: self.pid.clone(), ..ChosenTasks::default() }
    }
}

/// Where the run of a recording is stored, and under which names.
#[derive(Args)]
pub struct StoreOptions {
    /// Where the run is stored
    #[arg(short, long, value_name = "DIR", default_value = "runs")]
    pub out: PathBuf,
    /// The variant's name in tables; recordings of one name are runs of one variant
    #[arg(long, value_name = "NAME")]
    variant: Option<String>,
    /// The workload's name in tables
    #[arg(long, value_name = "NAME")]
    workload: Option<String>,
    /// The result as JSON
    #[arg(long)]
    pub json: bool,
}

impl StoreOptions {
    /// Adds the default names to the help.
    pub fn with_defaults(command: Command, variant: &str, workload: &str) -> Command {
        [("variant", variant), ("workload", workload)].into_iter().fold(
            command,
            |command, (name, default)| {
                command.mut_arg(name, |arg| {
                    let about = arg.get_help().map(ToString::to_string).unwrap_or_default();
                    arg.help(format!("{about} [default: {default}]"))
                })
            },
        )
    }
    /// Checks the names.
    ///
    /// # Errors
    /// When a table can't show one.
    pub fn check(&self) -> Result<()> {
        common::check_names(&[("--variant", self.variant.as_ref()), ("--workload", self.workload.as_ref())])
    }
    /// The labels of the run, with these names unless others are given.
    pub fn labels(&self, variant: String, workload: Option<String>, machine: Option<Machine>) -> Labels {
        Labels {
            variant: self.variant.clone().unwrap_or(variant),
            workload: self.workload.clone().or(workload),
            kernel: None,
            machine,
            file: None,
        }
    }
}

/// A file's or program's name as tables show it.
pub fn shown(name: &std::ffi::OsStr) -> String {
    printable::name(&name.to_string_lossy()).into_owned()
}
