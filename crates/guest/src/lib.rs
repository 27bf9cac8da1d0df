//! The kernel in a VM: any image, any topology QEMU can build, and inside it this same executable as init.
//!
//! A guest has no network, no disk and no user space but schedlab. In real time each run has a boot, and an initramfs
//! carries the job in. A deterministic guest is booted once and kept at rest, and each run continues from there. The
//! kernel's log comes out on the first serial port, and one reply on the second.

pub mod counter;
mod cpio;
mod elf;
mod init;
mod initramfs;
mod job;
pub mod kvm;
mod limits;
pub mod llc;
mod monitor;
mod qemu;
mod reply;
mod rest;
mod run;
pub mod shape;
mod symptoms;
mod sys;
mod wake;
mod warm;
mod watch;

pub use init::{init_main, is_init};
pub use initramfs::OWN;
pub use limits::LIMIT_VARIABLE;
pub use llc::{TUNABLE as LLC_TUNABLE, is_switched_off as boots_without_llc_balancing};
pub use rest::AtRest;
pub use run::{Visit, run};
pub use schedlab_kernels::{Image, Mode, Qemu, find_qemu};

use schedlab_base::GuestMode;
use schedlab_machine::Machine;
use schedlab_record::{GuestSetup, environment};

/// The executor of a guest's instructions.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Accelerator {
    /// QEMU's translator.
    Tcg,
    /// The host's CPUs.
    Kvm,
}

impl Accelerator {
    /// QEMU's name for it.
    pub fn name(self) -> &'static str {
        match self {
            Accelerator::Tcg => "tcg",
            Accelerator::Kvm => "kvm",
        }
    }
}

/// The parts of a guest other than machine and workload.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Guest {
    pub image: Image,
    /// The emulator.
    pub qemu: Qemu,
    pub mode: Mode,
    /// The executor of its instructions.
    pub accelerator: Accelerator,
    /// Memory, MiB.
    pub memory_mb: u32,
    /// Words added to the kernel's command line.
    pub boot_options: Vec<String>,
}

impl Guest {
    /// The part of a guest that its runs depend on, as the record keeps it; `machine` is the guest's.
    pub fn setup(&self, machine: &Machine) -> GuestSetup {
        GuestSetup {
            image: self.image.hash.clone(),
            mode: match self.mode {
                Mode::Deterministic => GuestMode::Deterministic,
                Mode::RealTime => GuestMode::RealTime,
            },
            qemu: self.qemu.number(),
            accelerator: self.accelerator.name().to_owned(),
            memory_mb: self.memory_mb,
            boot_options: self.boot_options.clone(),
            sitting: None,
            at_rest: self.mode == Mode::Deterministic,
            host_cpu: (self.mode == Mode::RealTime).then(environment::cpu_model).flatten(),
            llc_balancing_off: llc::is_switched_off(&self.image.release, &machine.topology),
        }
    }
}
