//! Options and helps that several commands share.

use crate::output;
use clap::Args;
use schedlab_base::{Result, Warning};
use schedlab_lab::{Backend, Comparison, Executor, Host, Sim};
use schedlab_report::Form;
use std::sync::atomic::AtomicU64;

/// CPUs this process may use.
pub fn cpus() -> u64 {
    std::thread::available_parallelism().map_or(1, std::num::NonZero::get) as u64
}

/// How far the simulation under way is, simulated ns; of use where one run is made at a time.
pub static SIMULATED: AtomicU64 = AtomicU64::new(0);

static SIM: Sim = Sim { check: false, clock: Some(&SIMULATED) };

/// The executor of a backend.
pub fn executor(backend: Backend) -> &'static dyn Executor {
    match backend {
        Backend::Sim => &SIM,
        Backend::Host => &Host,
    }
}

/// In which form a comparison is printed.
#[derive(Args)]
pub struct FormOptions {
    /// Form of the result: table, detail, lkml, markdown, csv, json or go
    #[arg(long, value_name = "FORM", default_value = "table", conflicts_with = "json")]
    format: String,
    /// The result as JSON, the same as --format json
    #[arg(long)]
    json: bool,
}

impl FormOptions {
    /// The form that was asked for.
    ///
    /// # Errors
    /// An unknown one; the nearest is offered.
    pub fn form(&self) -> Result<&'static Form> {
        let name = if self.json { "json" } else { &self.format };
        schedlab_report::form(if name == "go" { "gobench" } else { name })
    }
}

/// Prints a comparison.
///
/// # Errors
/// When standard output can't be written.
pub fn print(comparison: &Comparison, form: &Form) -> Result<()> {
    output::result(|out| form.exporter.export(comparison, out))
}

/// Prints warnings beside a result whose form has no place for them.
pub fn warn(warnings: &[Warning]) {
    for w in warnings {
        output::note(&format!("warning: {}", w.message));
    }
}
