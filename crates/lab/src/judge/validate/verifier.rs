//! Whether a kernel's verifier takes a sched_ext scheduler: its program is run in a guest, beside a very short load.

use crate::ask::cell::Cell;
use crate::ask::guests::DEFAULT_MEMORY_MB;
use crate::ask::scx;
use crate::ask::verdict::Verdict;
use crate::make::exec::{Backends, Executor};
use schedlab_base::{Error, Result};
use schedlab_guest::{Accelerator, Guest, Image, Mode};
use schedlab_kernel::variant::RUNNING;
use schedlab_kernel::{Scx, Variant};
use schedlab_kernels::find_qemu;
use schedlab_machine::Machine;
use schedlab_workload::{Params, Spec};
use std::path::Path;
use std::sync::Arc;

/// The kernel that is asked.
const KERNEL: &str = "7.3";
const MACHINE: &str = "smp-4";

/// Asks a guest about a scheduler, a program and its arguments. The verdict is kept.
///
/// # Errors
/// When the guest can't be run, or the scheduler fails for another reason than its load.
pub fn ask(command: &str, backends: &Backends) -> Result<Verdict> {
    let named = Scx { command: command.to_owned(), hash: None };
    scx::is_named(&named)?;
    let variant = Variant { name: command.to_owned(), scx: Some(named), ..Variant::plain(RUNNING) };
    let variant = scx::live(&variant, Path::new(""))?;
    let (image, accelerator) = (Image::find(KERNEL)?, Accelerator::Tcg);
    let (mode, memory_mb, boot_options) = (Mode::RealTime, DEFAULT_MEMORY_MB, Vec::new());
    let guest =
        Guest { image: image.clone(), qemu: find_qemu()?, mode, accelerator, memory_mb, boot_options };
    let once = Params([("loops".to_owned(), 1)].into());
    let (machine, spec) = (Arc::new(Machine::load(MACHINE)?), Spec::bench("pipe", &once)?);
    let cell = Cell::in_guest(&machine, guest, variant, spec, "verifier".to_owned())?;
    let made = backends.run(&cell, 1, &Default::default());
    // The run itself keeps it.
    match (Verdict::of(&image, made.as_ref().err()), made) {
        (Some(verdict), _) => Ok(verdict),
        (None, Err(e)) => Err(e),
        (None, Ok(_)) => Err(Error::internal("a run without a verdict")),
    }
}
