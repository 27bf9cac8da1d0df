//! The kernel in a VM: any image, any topology that QEMU can build, and this same executable as init.
//!
//! # Problem
//!
//! The simulator must be held against real kernels, of several releases and on several topologies, without installing
//! one and without root. A guest has no network, no disk and no user space but schedlab, so nothing but the workload
//! disturbs a run. In real time a guest's figures are the host's. A *deterministic* guest counts instructions in place
//! of time and its CPUs take turns, so the same job gives the same bytes.
//!
//! # A run
//!
//! [`run()`] takes a [`Guest`] (image, QEMU, mode, memory, boot options), a machine and a live request, and returns the
//! same outcome as a live run on the host.
//!
//! 1. [`shape`] numbers the machine as QEMU does, and refuses machines that QEMU can't build; `qemu` writes both
//!    command lines.
//! 2. `initramfs` packs this executable, its libraries and the job (`job`, `cpio`, `elf`).
//! 3. `watch` runs QEMU. The kernel's log comes out on the first serial port, one reply on the second (`reply`, framed
//!    and checked). `symptoms` reads the log of a guest that dies or hangs, and `limits` ends one that takes too long.
//! 4. Inside, `init` is process 1: it mounts, sets up, and calls `schedlab_native::live::run`.
//! 5. A deterministic guest is booted once and kept at rest (`rest`; `warm` has its kernel make its workers first,
//!    `wake` is init's side, `monitor` leads QEMU). Each run loads that state, so no run has another one before it.
//!
//! [`counter`] has QEMU load a plugin (`counter.c`) that counts calls and instructions of each function of the
//! scheduler. [`kvm`] tests whether KVM really runs a guest. [`llc`] switches balancing by caches (7.2), which no
//! profile models.
//!
//! # Invariants
//!
//! QEMU never outlives the thread that watches it. Guests write to unnamed files and a private folder only. A torn
//! reply is an error, never a result. Images and QEMU are found and built by `schedlab_kernels`; control groups,
//! settings and measuring inside are those of `native`.

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
mod ports;
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
