//! Both sides of a case as plans: the same workload with the same seeds, simulated and on the real kernel.

use super::case::{Case, Real};
use super::running::Running;
use crate::ask::cell::Cell;
use crate::ask::code;
use crate::ask::experiment::MAX_RUNS;
use crate::ask::guests::{self, DEFAULT_MEMORY_MB, twin_machine};
use crate::ask::patch_names;
use crate::listener::Listener;
use crate::make::plan::{Plan, order};
use schedlab_base::{Error, Result, Version, Warning};
use schedlab_compare::agreement::CaseResult;
use schedlab_guest::{Accelerator, Guest, Image, Mode};
use schedlab_kernel::{Feature, Kernel, Level, PROFILES, Variant};
use schedlab_kernels::find_qemu;
use schedlab_machine::{Machine, probed::Probed};
use schedlab_native::{settings, tracepoints};
use schedlab_record::Observe;
use schedlab_workload::Spec;
use std::path::Path;
use std::sync::Arc;

/// The name of the load in records: a case has one.
const LOAD: &str = "default";

/// Default time to record an event on a host, ns, if it was not measured (docs/live.md).
const TRACE_EVENT_NS: u64 = 350;

/// Number of simulated runs for each real run.
const SIMULATED_TIMES: u64 = 4;

/// The plans of both sides of a case.
#[derive(Clone, Debug)]
pub struct Sides {
    /// The simulation by our rules. Deliberately wrong schedulers are derived from it.
    pub simulated: Plan,
    /// The kernel's own code, if it is judged instead of our rules.
    pub code: Option<Plan>,
    /// The real kernel. Without cells if an earlier result stands for it.
    pub real: Plan,
    /// The real kernel's release.
    pub release: String,
}

impl Sides {
    /// What deliberately wrong schedulers are derived from: our rules, or of a sched_ext scheduler, which these lack,
    /// the kernel's own code.
    pub fn right(&self, case: &Case) -> &Plan {
        self.code.as_ref().filter(|_| case.scx.is_some()).unwrap_or(&self.simulated)
    }
    /// The sides with `runs` runs of the real side, and four times as many simulated ones; finished runs count among
    /// them.
    ///
    /// # Errors
    /// When there are not enough seeds.
    pub fn with_runs(self, case: &Case, runs: u64) -> Result<Sides> {
        let simulated_runs = order(1, simulated_runs(runs), case.seed)?;
        let code = self.code.map(|code| Plan { runs: simulated_runs.clone(), ..code });
        let simulated = Plan { runs: simulated_runs, ..self.simulated };
        let real = match self.real.cells.as_slice() {
            [] => Vec::new(),
            _ => order(1, runs, case.seed)?,
        };
        Ok(Sides { simulated, code, real: Plan { runs: real, ..self.real }, release: self.release })
    }
    /// The sides with the kernel's own code to judge: the image of the kernel that the guest boots.
    ///
    /// # Errors
    /// When the real kernel is not in a guest, and when the image can't be built.
    pub fn by_code(mut self, case: &Case, level: Level, listener: &dyn Listener) -> Result<Sides> {
        if case.real == Real::Host {
            let text = "the running kernel's source is not known, so its own code can't be simulated";
            return Err(Error::machine(text).help("cases with backend = \"vm\" can: --backend vm"));
        }
        let Some(cell) = self.simulated.cells.first() else { return Ok(self) };
        let (features, tunables) = (case.features.clone(), case.tunables.clone());
        let variant = Variant { features, tunables, level, ..Variant::plain(&case.image) };
        let variant = case.scheduled(variant)?;
        let variant = guests::as_booted(&self.release, &cell.machine.topology, variant);
        let folder = case.file.parent().unwrap_or(Path::new("."));
        let image = code::image_of(&variant, folder, listener)?;
        let code = Cell::of_code(&cell.machine, image, variant, cell.spec.clone(), cell.load.clone())?;
        // Gaps of our rules do not concern the code's runs.
        let (runs, warnings) = (self.simulated.runs.clone(), Vec::new());
        self.code = Some(Plan { cells: vec![code], runs, warnings });
        Ok(self)
    }
    /// The sides with the measured costs on the simulated host; another machine keeps its costs.
    ///
    /// # Errors
    /// When a cost is out of range.
    pub fn costing(mut self, probed: &Probed) -> Result<Sides> {
        for cell in self.simulated.cells.iter_mut().filter(|cell| &*cell.machine.name == "host") {
            let mut host = probed.host()?;
            if cell.machine.costs.trace_event_ns > 0 {
                host.costs.trace_event_ns = probed.watched_ns().unwrap_or(cell.machine.costs.trace_event_ns);
            }
            cell.machine = Arc::new(match &cell.resolved {
                Some(kernel) => host.under(kernel.version),
                None => host,
            });
        }
        Ok(self)
    }
}

/// The plans of a case; `runs` overrides the case's number.
///
/// # Errors
/// When the machine is unknown or can't be read, the image is of another series than the simulated profile,
/// or the case can't run here.
pub fn plan(case: &Case, runs: Option<u64>) -> Result<Sides> {
    let (real, real_warnings) = real(case)?;
    let beside =
        Beside { machine: &real.machine, spec: &real.spec, kernel: &real.kernel, observe: real.observe };
    let (simulated, warnings) = simulated(case, &beside)?;
    let plan = |cell, warnings| Plan { cells: vec![cell], runs: Vec::new(), warnings };
    let simulated = plan(simulated, warnings);
    let release = real.guest.as_ref().map_or(&real.kernel, |guest| &guest.image.release).clone();
    let sides = Sides { simulated, code: None, real: plan(real, real_warnings), release };
    sides.with_runs(case, runs.unwrap_or(case.runs))
}

/// The plan of only the simulated side, to compare with the real side of an earlier result.
///
/// # Errors
/// For a case on the host, whose costs were measured with its runs and are not in a result; when the result's kernel is
/// of another series; and as [`plan`].
pub fn plan_beside(case: &Case, earlier: &CaseResult) -> Result<Sides> {
    let Some(side) = earlier.real.as_ref().filter(|side| side.runs > 0) else {
        return Err(Error::machine("the earlier result has no real side of this case"));
    };
    if case.real == Real::Host {
        let text =
            "the costs of the host were measured beside its runs, and the earlier result does not have them";
        return Err(Error::machine(text).help("--backend vm leaves such cases out"));
    }
    case.is_of_series(Version::parse(&side.kernel)?)?;
    let machine = Arc::new(machine(case, &case.machine)?);
    let spec = case.workload(machine.topology.nr_cpus() as u64)?;
    let beside = Beside { machine: &machine, spec: &spec, kernel: &side.kernel, observe: Observe::Counters };
    let (simulated, warnings) = simulated(case, &beside)?;
    let simulated = Plan { cells: vec![simulated], runs: Vec::new(), warnings };
    let real = Plan { cells: Vec::new(), runs: Vec::new(), warnings: Vec::new() };
    let sides = Sides { simulated, code: None, real, release: side.kernel.clone() };
    sides.with_runs(case, side.runs as u64)
}

/// The part of the real side that its simulation needs.
struct Beside<'a> {
    machine: &'a Arc<Machine>,
    spec: &'a Spec,
    kernel: &'a str,
    observe: Observe,
}

/// Number of simulated runs for `real` real ones. They cost little, and with fewer the chance in their mean would be as
/// large as in the kernel's.
pub fn simulated_runs(real: u64) -> u64 {
    real.saturating_mul(SIMULATED_TIMES).min(MAX_RUNS).max(real)
}

fn machine(case: &Case, name: &str) -> Result<Machine> {
    let is_file = name.contains('/') || name.ends_with(".toml");
    let beside = case.file.parent().map(|folder| folder.join(name));
    let path = beside.as_deref().and_then(|p| p.to_str()).filter(|_| is_file);
    Machine::load(path.unwrap_or(name)).map_err(|e| e.context(format!("case {}", case.name)))
}

/// The real side, with warnings for the reader.
fn real(case: &Case) -> Result<(Cell, Vec<Warning>)> {
    let machine = Arc::new(machine(case, &case.machine)?);
    let spec = case.workload(machine.topology.nr_cpus() as u64)?;
    match case.real {
        Real::Host => {
            let variant = case.variant_real()?;
            settings::Plan::of(&variant).map(drop)?;
            let cell = Cell::live(&machine, variant, spec, LOAD.to_owned());
            Ok(match tracepoints::check() {
                Ok(()) => (Cell { observe: Observe::Events, ..cell }, Vec::new()),
                Err(e) => {
                    let text = format!("the kernel's events are not recorded: {}", e.message());
                    // The next best observation: stays and switches of the workload's own tasks.
                    (Cell { observe: Observe::Counters, ..cell }, vec![Warning::new("validate.events", text)])
                }
            })
        }
        Real::Vm(mode) => {
            let image = image(&case.image)?;
            case.is_of_series(image.version).map_err(|e| e.context(image.path.display().to_string()))?;
            let guest = guest(mode, image)?;
            let cell = Cell::in_guest(&machine, guest, case.variant_real()?, spec, LOAD.to_owned())?;
            Ok((cell, unlike(mode).into_iter().collect()))
        }
    }
}

/// The warning about a guest in real time, which is not a counterpart of a simulated machine.
fn unlike(mode: Mode) -> Option<Warning> {
    let text = "like is not compared with like: a guest in real time is as slow as its CPUs' emulation and whatever else \
                runs on this host make it, the simulated machine is neither. Only mode = \"deterministic\" has a \
                simulated counterpart";
    (mode == Mode::RealTime).then(|| Warning::new("validate.real_time", text))
}

/// The case's image. A missing image is an error of this machine, not of the case, so that other cases are run.
fn image(word: &str) -> Result<Image> {
    Image::find(word).map_err(|e| {
        let lacking = Error::machine(e.message());
        match e.remedy() {
            Some(remedy) => lacking.help(remedy),
            None => lacking,
        }
    })
}

/// A guest with the usual settings.
fn guest(mode: Mode, image: Image) -> Result<Guest> {
    let qemu = find_qemu()?;
    qemu.can(mode)?;
    let (accelerator, memory_mb) = (Accelerator::Tcg, DEFAULT_MEMORY_MB);
    Ok(Guest { image, qemu, mode, accelerator, memory_mb, boot_options: Vec::new() })
}

/// The simulation of the real side's cell.
fn simulated(case: &Case, real: &Beside<'_>) -> Result<(Cell, Vec<Warning>)> {
    let other = case.control.as_ref().and_then(|c| c.machine.as_deref());
    let machine = other.map_or(Ok(real.machine.clone()), |name| machine(case, name).map(Arc::new))?;
    // Watching costs time on the real side, so the simulated side gets the same cost.
    let machine = match case.real {
        Real::Host if real.observe == Observe::Events => {
            let mut watched = (*machine).clone();
            watched.costs.trace_event_ns =
                Probed::kept()?.and_then(|p| p.watched_ns()).unwrap_or(TRACE_EVENT_NS);
            Arc::new(watched)
        }
        Real::Host => machine,
        // The CPUs of a deterministic guest take turns, so the simulated CPUs do so too, whatever the case's machine
        // says.
        Real::Vm(mode) => Arc::new(twin_machine(&machine, mode)?),
    };
    let (profile, warning) = match case.real {
        Real::Host => nearest(&case.simulated, real.kernel),
        Real::Vm(_) => (case.simulated.clone(), None),
    };
    let kernel = Kernel::profile(&profile)?;
    let mut variant = case.variant_simulated(&profile, |variant| {
        if case.real == Real::Host {
            Running::here().apply(&kernel, machine.topology.nr_cpus(), variant);
        }
    });
    let mut warnings: Vec<Warning> = warning.into_iter().collect();
    if case.real == Real::Host && packs(&std::fs::read_to_string("/proc/cmdline").unwrap_or_default()) {
        variant.features.push(Feature::VcpuPack.name().to_owned());
        let text = "the running kernel was started with sched_vcpu_pack, which no kernel of kernel.org knows: VCPU_PACK is \
                    simulated, as far as what it does has been seen";
        warnings.push(Warning::new("validate.vcpu_pack", text.to_owned()));
    }
    if let Some(name) = case.tunables.keys().find(|name| patch_names::is_in_folder(name)) {
        let text =
            format!("our rules do not have {name}: the simulation is without it (--judged code has it)");
        warnings.push(Warning::new("validate.tunables", text));
    }
    let cell = Cell::simulated(&machine, variant, real.spec.clone(), LOAD.to_owned())?;
    Ok((cell, warnings))
}

/// Whether a kernel started with this line packs wakeups on CPUs that are awake (`sched_vcpu_pack=`, not 0).
fn packs(line: &str) -> bool {
    let mut values = line.split_whitespace().filter_map(|word| word.strip_prefix("sched_vcpu_pack="));
    values.next_back().is_some_and(|value| value != "0")
}

/// The profile for a running kernel: the latest that is not newer, even if the case was written for another.
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
    fn only_guests_in_real_time_are_unlike_their_simulation() {
        assert_eq!(unlike(Mode::Deterministic), None);
        assert!(unlike(Mode::RealTime).is_some_and(|w| w.message.contains("like is not compared with like")));
    }

    #[test]
    fn a_kernel_that_packs_is_known_by_its_command_line() {
        assert!(packs("quiet sched_vcpu_pack=15 ro\n") && !packs("sched_vcpu_pack=0") && !packs("quiet"));
    }

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
