//! A cell as plain data, from which another process makes its runs: elsewhere, or as a child of this process.

use crate::ask::cell::Cell;
use crate::ask::code::CodeImage;
use schedlab_base::{Backend, Error, Origin, Result};
use schedlab_guest::{Accelerator, Guest, Image, Mode};
use schedlab_kernel::{Kernel, Variant};
use schedlab_kernels::find_qemu;
use schedlab_machine::Machine;
use schedlab_record::Observe;
use schedlab_workload::Spec;
use serde::{Deserialize, Serialize};
use std::path::PathBuf;
use std::sync::Arc;

/// A cell as plain data.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PackedCell {
    /// Its hash, which names its folder.
    pub hash: String,
    backend: Origin,
    machine: Machine,
    /// Whether each run draws costs from their ranges.
    uncertain: bool,
    kernel: String,
    resolved: Option<Kernel>,
    #[serde(skip_serializing_if = "Option::is_none")]
    guest: Option<PackedGuest>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    code: Option<CodeImage>,
    variant: Variant,
    spec: Spec,
    pub load: String,
    observe: Observe,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct PackedGuest {
    image: PathBuf,
    mode: String,
    accelerator: String,
    memory_mb: u32,
    boot_options: Vec<String>,
}

impl PackedCell {
    /// A cell as plain data.
    pub fn of(cell: &Cell) -> Result<PackedCell> {
        let guest = cell.guest.as_ref().map(|g| PackedGuest {
            image: std::path::absolute(&g.image.path).unwrap_or_else(|_| g.image.path.clone()),
            mode: g.mode.name().to_owned(),
            accelerator: g.accelerator.name().to_owned(),
            memory_mb: g.memory_mb,
            boot_options: g.boot_options.clone(),
        });
        Ok(PackedCell {
            hash: cell.hash()?,
            backend: cell.backend.into(),
            machine: (*cell.machine).clone(),
            uncertain: !cell.uncertain.is_empty(),
            kernel: cell.kernel.clone(),
            resolved: cell.resolved,
            guest,
            code: cell.code.clone(),
            variant: cell.variant.clone(),
            spec: cell.spec.clone(),
            load: cell.load.clone(),
            observe: cell.observe,
        })
    }
    /// The cell, as this machine would run it.
    ///
    /// # Errors
    /// When this machine, its kernel, its QEMU or an image differs from the parcel's.
    pub fn cell(&self) -> Result<Cell> {
        let no_backend = || Error::input("a parcel's cell names no backend");
        let backend = self.backend.made_by().ok_or_else(no_backend)?;
        let mut cell = Cell {
            backend,
            machine: Arc::new(self.machine.clone()),
            uncertain: Vec::new(),
            kernel: self.kernel.clone(),
            resolved: self.resolved,
            guest: self.guest.as_ref().map(PackedGuest::guest).transpose()?,
            code: self.code.clone(),
            variant: self.variant.clone(),
            spec: self.spec.clone(),
            load: self.load.clone(),
            observe: self.observe,
        };
        if self.uncertain {
            cell = cell.with_uncertainty()?;
        }
        if backend == Backend::Host {
            let machine = Arc::new(Machine::load("host")?);
            let here = Cell::live(&machine, cell.variant, cell.spec, cell.load);
            cell = Cell { observe: self.observe, ..here };
        }
        let hash = cell.hash()?;
        if hash == self.hash {
            return Ok(cell);
        }
        let (what, help) = match backend {
            Backend::Sim | Backend::Code => ("", "use the same schedlab on both sides"),
            Backend::Host => (
                ": this machine or its kernel is another one than the one on which the runs were planned",
                "start the command on a node of the kind that makes the runs",
            ),
            Backend::Vm => {
                (": the image or QEMU is another one", "use the same image and QEMU on both sides")
            }
        };
        let text = format!("{} would be cell {hash} here, and is {}{what}", cell.title(), self.hash);
        Err(Error::machine(text).help(help))
    }
}

impl PackedGuest {
    fn guest(&self) -> Result<Guest> {
        let known = [Accelerator::Tcg, Accelerator::Kvm];
        let named = known.into_iter().find(|a| a.name() == self.accelerator);
        let unknown = || Error::unknown("accelerator", &self.accelerator, known.map(Accelerator::name));
        Ok(Guest {
            image: Image::open(&self.image)?,
            qemu: find_qemu()?,
            mode: Mode::parse(&self.mode)?,
            accelerator: named.ok_or_else(unknown)?,
            memory_mb: self.memory_mb,
            boot_options: self.boot_options.clone(),
        })
    }
}
