//! Options that put sched_ext schedulers in the place of a change to the kernel.

use clap::Args;
use schedlab_base::{Error, Result};
use schedlab_kernel::Variant;
use schedlab_kernel::variant::RUNNING;
use schedlab_kernels::cache;
use schedlab_lab::Backend;
use schedlab_lab::ask::scx;

/// Schedulers, each against the fair class of the same kernel or against another scheduler.
#[derive(Args, Default)]
pub struct SchedulerOptions {
    /// A sched_ext scheduler on the kernel's own code (--backend code), against the kernel's fair class: a program with
    /// its arguments, or a compiled object with the values that its program would set, where {cpus} is the machine's
    /// number (docs/sched-ext.md); may be given more than once
    #[arg(long, global = true, value_name = "[NAME=]PROGRAM|OBJECT", help_heading = "sched_ext")]
    scx: Vec<String>,
    /// The scheduler with which those of --scx are compared, in place of the fair class: an earlier version of them
    #[arg(long, global = true, value_name = "[NAME=]PROGRAM|OBJECT", help_heading = "sched_ext")]
    baseline_scx: Option<String>,
}

impl SchedulerOptions {
    /// Whether schedulers are named.
    ///
    /// # Errors
    /// For --baseline-scx alone.
    pub fn asked(&self) -> Result<bool> {
        if self.scx.is_empty() && self.baseline_scx.is_some() {
            return Err(Error::input("--baseline-scx is what the schedulers of --scx are compared with")
                .help("name one: --scx PROGRAM"));
        }
        Ok(!self.scx.is_empty())
    }
    /// The backend of schedulers: the one that was named, else code.
    ///
    /// # Errors
    /// For the simulator.
    pub fn backend(&self, named: Option<Backend>) -> Result<Backend> {
        match named.unwrap_or(Backend::Code) {
            Backend::Sim => {
                Err(Error::input("the simulator has no sched_ext").help("leave out --backend sim"))
            }
            backend => Ok(backend),
        }
    }
    /// The kernel under schedulers: the one that was named, else the newest series at hand, or the running one.
    ///
    /// # Errors
    /// Without a cache.
    pub fn kernel(&self, named: Option<&str>, backend: Backend) -> Result<String> {
        Ok(match (named, backend) {
            (Some(kernel), _) => kernel.to_owned(),
            (None, Backend::Host) => RUNNING.to_owned(),
            (None, _) => scx::usual_kernel(&cache::folder(None)?),
        })
    }
    /// A kernel under its own class or under --baseline-scx, and under each of the schedulers.
    ///
    /// # Errors
    /// When a program is not there, and when two have one name.
    pub fn sides(&self, kernel: &Variant) -> Result<(Variant, Vec<Variant>)> {
        scx::sides(&self.scx, self.baseline_scx.as_deref(), kernel).map_err(|e| e.context("--scx"))
    }
}
