//! Options of the code backend: how the time of the kernel's own code is charged.

use clap::{Args, Command};
use schedlab_base::{Error, Result};
use schedlab_kernel::{Level, Variant};
use schedlab_lab::Backend;
use schedlab_lab::ask::levels::LEVELS;

/// How the kernel's own code is charged.
#[derive(Args, Default)]
pub struct CodeOptions {
    /// How the time of the kernel's own code is charged: free (constants by verb), counted (what it executes), woven
    /// (CPUs also act while another one is in kernel code), exact (a check of woven)
    #[arg(
        long,
        global = true,
        help_heading = "The kernel's own code (--backend code)",
        value_name = "LEVEL"
    )]
    level: Option<String>,
}

/// The command, whose help of `--level` names its default level.
pub fn with_level(command: Command) -> Command {
    let name = command.get_name().to_owned();
    let Some(own) = LEVELS.iter().find(|one| one.command == name) else { return command };
    if !command.get_arguments().any(|arg| arg.get_id() == "level") {
        return command;
    }
    command.mut_arg("level", |arg| {
        let help = arg.get_help().map(ToString::to_string).unwrap_or_default();
        arg.help(format!("{help} [default: {}; {name} asks {}]", own.level.word(), own.asks))
    })
}

impl CodeOptions {
    /// Refuses a level on other backends.
    ///
    /// # Errors
    /// When one was given, and for an unknown word.
    pub fn check(&self, backend: Backend) -> Result<()> {
        if self.level()?.is_some() && backend != Backend::Code {
            let text = format!("--level is for the kernel's own code, but this runs on {}", backend.name());
            return Err(Error::input(text).help("add --backend code"));
        }
        Ok(())
    }
    /// The level that is asked for.
    ///
    /// # Errors
    /// For an unknown word.
    pub fn level(&self) -> Result<Option<Level>> {
        self.level.as_deref().map(Level::parse).transpose().map_err(|e| e.context("--level"))
    }
    /// A variant at the level that is asked for; without one it keeps its own.
    ///
    /// # Errors
    /// For an unknown word.
    pub fn of(&self, variant: Variant) -> Result<Variant> {
        Ok(Variant { level: self.level()?.unwrap_or(variant.level), ..variant })
    }
}
