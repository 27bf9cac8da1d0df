//! The kernel in a VM: any image, any topology QEMU can build, and inside it this same executable as init.
//!
//! A guest has no network, no disk and no user space but schedlab. In real time each run has a boot, and an initramfs
//! carries the job in. A deterministic guest is booted once and kept at rest, and each run goes on from there. The
//! kernel's log comes out on the first serial port, and one reply on the second.

pub mod counter;
mod cpio;
mod elf;
pub mod fetch;
pub mod images;
mod init;
mod initramfs;
mod job;
pub mod kvm;
mod limits;
mod llc;
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

pub use fetch::find_qemu;
pub use init::{init_main, is_init};
pub use limits::LIMIT_VARIABLE;
pub use rest::AtRest;
pub use run::{Visit, run};
pub use sys::end_with_parent;

use schedlab_base::{Error, Result, Version};
use schedlab_machine::Machine;
use schedlab_record::{GuestSetup, environment};
use std::path::PathBuf;

/// The first QEMU that saves the state of a guest to a file by itself. Since 8.1 `-icount` divides virtual time among
/// the CPUs of a guest; older ones hang at SMP boot.
const DETERMINISTIC_SINCE: Version = Version::new(8, 2);

/// A kernel image.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Image {
    /// The bzImage.
    pub path: PathBuf,
    /// The release as `uname -r` prints it ("6.1.0-56-cloud-amd64").
    pub release: String,
    /// The upstream version, as far as the image tells it.
    pub version: Version,
    /// Hash of its bytes. Records identify the image by it, wherever the file lies.
    pub hash: String,
}

/// A QEMU that can be started.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Qemu {
    /// The executable (qemu-system-x86_64).
    pub program: PathBuf,
    /// Its version.
    pub version: Version,
    /// Folders of libraries it needs beside the system's (LD_LIBRARY_PATH).
    pub libraries: Vec<PathBuf>,
    /// Folder of its modules; `None` for its own.
    pub modules: Option<PathBuf>,
    /// Folders of firmware (-L); empty for its own.
    pub data: Vec<PathBuf>,
}

impl Qemu {
    /// The version as QEMU writes it.
    pub fn number(&self) -> String {
        plain_number(self.version)
    }
    /// Checks that this QEMU can run guests of several CPUs in the mode.
    ///
    /// # Errors
    /// When it can't: which QEMU can, and what to do without one.
    pub fn can(&self, mode: Mode) -> Result<()> {
        if mode == Mode::RealTime || self.version >= DETERMINISTIC_SINCE {
            return Ok(());
        }
        let (have, need) = (self.number(), plain_number(DETERMINISTIC_SINCE));
        let text = format!(
            "QEMU {have} ({}) can't run deterministic guests of several CPUs",
            self.program.display()
        );
        Err(Error::machine(text).help(format!(
            "QEMU {need} or later can: 'schedlab kernel fetch qemu' fetches one; --guest-mode real-time needs none"
        )))
    }
}

/// A version without the `v` that kernel versions begin with.
fn plain_number(version: Version) -> String {
    version.to_string().trim_start_matches('v').to_owned()
}

/// How a guest's time passes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Mode {
    /// As on the host, so that figures are those of the host, too.
    RealTime,
    /// By instructions executed: a run gives the same bytes every time. All CPUs share one CPU's time, in turns.
    Deterministic,
}

impl Mode {
    /// Its name in options and records.
    pub fn name(self) -> &'static str {
        match self {
            Mode::RealTime => "real-time",
            Mode::Deterministic => "deterministic",
        }
    }
    /// Reads "real-time" or "deterministic".
    ///
    /// # Errors
    /// Another word.
    pub fn parse(text: &str) -> Result<Mode> {
        match text {
            "real-time" => Ok(Mode::RealTime),
            "deterministic" => Ok(Mode::Deterministic),
            other => Err(Error::unknown("mode", other, ["real-time", "deterministic"])),
        }
    }
}

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
    /// The kernel.
    pub image: Image,
    /// The emulator.
    pub qemu: Qemu,
    /// How time passes.
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
            mode: self.mode.name().to_owned(),
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn modes_read_as_they_are_written() {
        for mode in [Mode::RealTime, Mode::Deterministic] {
            assert_eq!(Mode::parse(mode.name()).unwrap(), mode);
        }
        assert!(Mode::parse("determinstic").unwrap_err().to_string().contains("'deterministic'"));
    }
}
