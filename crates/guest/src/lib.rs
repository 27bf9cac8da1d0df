//! The kernel in a VM: any image, any topology that QEMU can build, and this same executable as init.
//!
//! A guest has no network, no disk and no user space except schedlab. In real time each run boots, and an initramfs
//! contains the job. A deterministic guest is booted once and kept at rest; each run continues from there. The kernel's
//! log is on the first serial port, and the reply on the second.

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
pub use llc::TUNABLE as LLC_TUNABLE;
pub use rest::AtRest;
pub use run::{Visit, run};
pub use schedlab_kernels::{Image, Mode, Qemu, find_qemu};

use schedlab_base::GuestMode;
use schedlab_machine::Machine;
use schedlab_record::{GuestSetup, environment};

/// The method of executing a guest's instructions.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Accelerator {
    /// QEMU's translator.
    Tcg,
    /// The host's CPUs.
    Kvm,
}

impl Accelerator {
    /// QEMU's name.
    pub fn name(self) -> &'static str {
        match self {
            Accelerator::Tcg => "tcg",
            Accelerator::Kvm => "kvm",
        }
    }
}

/// The settings of a guest, except machine and workload.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Guest {
    pub image: Image,
    pub qemu: Qemu,
    pub mode: Mode,
    pub accelerator: Accelerator,
    pub memory_mb: u32,
    /// Additions to the kernel's command line.
    pub boot_options: Vec<String>,
}

impl Guest {
    /// The settings that a guest's runs depend on, for the record; `machine` is the guest's.
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
