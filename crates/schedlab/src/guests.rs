//! Options of the vm backend: how its guests are set up. Each command applies them to its own kernels and machines.

use clap::Args;
use schedlab_base::{Error, Ns, Result};
use schedlab_guest::{Accelerator, Mode};
use schedlab_lab::Backend;
use schedlab_lab::ask::guests::GuestSetup;

/// The default machine of guests: small enough for any host, and more than one CPU.
pub const DEFAULT_MACHINE: &str = "4cpu";
/// The default runtime in a guest, by mode, of a program without an end of its own. With it, boot and run of a `bench`
/// take well under a minute.
const USUAL_RUNTIME: [(Mode, Ns); 2] = [(Mode::RealTime, Ns::secs(10)), (Mode::Deterministic, Ns::secs(2))];
const HEADING: &str = "Guests (--backend vm)";

/// How guests are set up.
#[derive(Args, Default)]
pub struct GuestOptions {
    /// How a guest's time passes: real-time or deterministic (the same bytes every time; QEMU 8.1 or later)
    #[arg(long, global = true, help_heading = HEADING, hide_short_help = true, value_name = "MODE")]
    guest_mode: Option<String>,
    /// Accelerator of a guest: tcg (QEMU's translator) or kvm (this machine's CPUs, in real time only) [default: tcg]
    #[arg(long, global = true, help_heading = HEADING, hide_short_help = true, value_name = "NAME")]
    accelerator: Option<String>,
    /// Memory of a guest in MiB [default: 2048]
    #[arg(long, global = true, help_heading = HEADING, hide_short_help = true, value_name = "MIB", value_parser = clap::value_parser!(u32).range(256..=1_048_576))]
    memory: Option<u32>,
    /// Word of the guest kernel's command line; may be given more than once
    #[arg(long, global = true, help_heading = HEADING, hide_short_help = true, value_name = "OPTION")]
    boot: Vec<String>,
}

impl GuestOptions {
    /// Refuses options of guests on other backends.
    ///
    /// # Errors
    /// When one was given; the error names the first.
    pub fn check(&self, backend: Backend) -> Result<()> {
        let given = [
            ("--guest-mode", self.guest_mode.is_some()),
            ("--accelerator", self.accelerator.is_some()),
            ("--memory", self.memory.is_some()),
            ("--boot", !self.boot.is_empty()),
        ];
        match given.iter().find(|(_, given)| *given && backend != Backend::Vm) {
            Some((name, _)) => {
                Err(Error::input(format!("{name} is for guests, but this runs on {}", backend.name()))
                    .help("add --backend vm"))
            }
            None => Ok(()),
        }
    }
    /// What these options ask for.
    ///
    /// # Errors
    /// When a word is not a mode or an accelerator.
    pub fn setup(&self) -> Result<GuestSetup> {
        Ok(GuestSetup {
            mode: self.mode()?,
            accelerator: self.accelerator()?,
            memory_mb: self.memory,
            boot_options: self.boot.clone(),
        })
    }
    fn mode(&self) -> Result<Option<Mode>> {
        self.guest_mode.as_deref().map(Mode::parse).transpose().map_err(|e| e.context("--guest-mode"))
    }
    fn accelerator(&self) -> Result<Option<Accelerator>> {
        let all = [Accelerator::Tcg, Accelerator::Kvm];
        let Some(name) = &self.accelerator else { return Ok(None) };
        let unknown = || Error::unknown("accelerator", name, all.iter().map(|a| a.name()));
        all.into_iter().find(|a| a.name() == name).map(Some).ok_or_else(unknown)
    }
    /// The default runtime of programs without an end of their own.
    pub fn usual_runtime(&self, usual: Mode) -> Result<Option<Ns>> {
        let mode = self.mode()?.unwrap_or(usual);
        Ok(USUAL_RUNTIME.iter().find(|(m, _)| *m == mode).map(|(_, time)| *time))
    }
}
