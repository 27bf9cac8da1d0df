//! Both sides of a case as plans: the same workload with the same seeds, simulated and on the real kernel.

use super::case::{Case, Real};
use crate::guests::{DEFAULT_MEMORY_MB, twin_machine};
use crate::plan::{Cell, Plan, order};
use schedlab_base::{Error, Result, Version, Warning};
use schedlab_guest::fetch::find_qemu;
use schedlab_guest::{Accelerator, DETERMINISTIC_SINCE, Guest, Image, Mode};
use schedlab_kernel::PROFILES;
use schedlab_machine::Machine;
use schedlab_native::{settings, tracepoints};
use schedlab_record::Observe;
use std::sync::Arc;

/// The name of the load in records: a case has one.
const LOAD: &str = "default";

/// What recording an event takes on a host, ns, where nobody has measured it (docs/live.md).
const TRACE_EVENT_NS: u64 = 350;

/// What is run for a case.
#[derive(Clone, Debug)]
pub struct Sides {
    /// The simulation.
    pub simulated: Plan,
    /// The real kernel.
    pub real: Plan,
}

/// The plans of a case; `runs` over what the case says.
///
/// # Errors
/// A machine that is unknown or can't be read, and what can't run here.
pub fn plan(case: &Case, runs: Option<u64>) -> Result<Sides> {
    let (real, unseen) = real(case)?;
    let (simulated, warnings) = simulated(case, &real)?;
    let runs = order(1, runs.unwrap_or(case.runs), case.seed)?;
    let plan = |cell, warnings| Plan { cells: vec![cell], runs: runs.clone(), warnings };
    Ok(Sides { simulated: plan(simulated, warnings), real: plan(real, unseen.into_iter().collect()) })
}

fn machine(case: &Case, name: &str) -> Result<Machine> {
    let is_file = name.contains('/') || name.ends_with(".toml");
    let beside = case.file.parent().map(|folder| folder.join(name));
    let path = beside.as_deref().and_then(|p| p.to_str()).filter(|_| is_file);
    Machine::load(path.unwrap_or(name)).map_err(|e| e.context(format!("case {}", case.name)))
}

/// The real side, and what the reader must know of how it is watched.
fn real(case: &Case) -> Result<(Cell, Option<Warning>)> {
    let machine = Arc::new(machine(case, &case.machine)?);
    let spec = case.workload(machine.topology.nr_cpus() as u64)?;
    match case.real {
        Real::Host => {
            settings::Plan::of(&case.variant_real()).map(drop)?;
            let cell = Cell::live(&machine, case.variant_real(), spec, LOAD.to_owned());
            Ok(match tracepoints::check() {
                Ok(()) => (Cell { observe: Observe::Events, ..cell }, None),
                Err(e) => {
                    let text = format!("the kernel's events are not recorded: {}", e.message());
                    (cell, Some(Warning::new("validate.events", text)))
                }
            })
        }
        Real::Vm(mode) => {
            let guest = guest(mode, image(&case.image)?)?;
            Ok((Cell::in_guest(&machine, guest, case.variant_real(), spec, LOAD.to_owned())?, None))
        }
    }
}

/// The case's image. One that is not here is this machine's lack, not the case's fault: other cases go on.
fn image(word: &str) -> Result<Image> {
    Image::find(word).map_err(|e| {
        let lacking = Error::machine(e.message());
        match e.remedy() {
            Some(remedy) => lacking.help(remedy),
            None => lacking,
        }
    })
}

/// A guest of the usual make.
fn guest(mode: Mode, image: Image) -> Result<Guest> {
    let qemu = find_qemu()?;
    if mode == Mode::Deterministic && qemu.version < DETERMINISTIC_SINCE {
        let text = format!("QEMU {} has no deterministic mode for several CPUs", qemu.version);
        return Err(Error::machine(text).help("'schedlab kernel fetch qemu' fetches one that has"));
    }
    let (accelerator, memory_mb) = (Accelerator::Tcg, DEFAULT_MEMORY_MB);
    Ok(Guest { image, qemu, mode, accelerator, memory_mb, boot_options: Vec::new() })
}

/// The simulation of what the real side's cell runs.
fn simulated(case: &Case, real: &Cell) -> Result<(Cell, Vec<Warning>)> {
    let other = case.control.as_ref().and_then(|c| c.machine.as_deref());
    let machine = other.map_or(Ok(real.machine.clone()), |name| machine(case, name).map(Arc::new))?;
    // Who is watched takes longer, so the simulated one is too.
    let machine = match case.real {
        Real::Host if real.observe == Observe::Events => {
            let mut watched = (*machine).clone();
            if watched.costs.trace_event_ns == 0 {
                watched.costs.trace_event_ns = TRACE_EVENT_NS;
            }
            Arc::new(watched)
        }
        Real::Host => machine,
        // Whose CPUs take turns is compared with CPUs that do, whatever the case's machine is otherwise.
        Real::Vm(mode) => Arc::new(twin_machine(&machine, mode)?),
    };
    let (profile, warning) = match case.real {
        Real::Host => nearest(&case.simulated, &real.kernel),
        Real::Vm(_) => (case.simulated.clone(), None),
    };
    let variant = case.variant_simulated(&profile);
    let cell = Cell::simulated(&machine, variant, real.spec.clone(), LOAD.to_owned())?;
    Ok((cell, warning.into_iter().collect()))
}

/// The profile for a running kernel: the latest that is not later than it, whatever the case was written for.
fn nearest(written_for: &str, release: &str) -> (String, Option<Warning>) {
    let profiles = || PROFILES.iter().map(|p| p.version);
    let Ok(running) = Version::parse(release) else { return (written_for.to_owned(), None) };
    let Some(profile) = profiles().filter(|v| *v <= running).max().or_else(|| profiles().min()) else {
        return (written_for.to_owned(), None);
    };
    let exact = (profile.major, profile.minor) == (running.major, running.minor);
    let text = format!("{release} is running; {profile}, the nearest profile, is simulated");
    (profile.to_string(), (!exact).then(|| Warning::new("validate.profile", text)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_profile_follows_the_running_kernel() {
        let of = |release: &str| nearest("v6.18", release);
        assert_eq!(of("6.18.44-arch1"), ("v6.18".to_owned(), None));
        let (profile, warning) = of("6.17.3-arch1");
        assert_eq!(profile, "v6.12");
        assert!(warning.is_some_and(|w| w.message.contains("6.17.3-arch1")));
        assert_eq!(of("running").0, "v6.18", "a release nobody can read");
    }
}
