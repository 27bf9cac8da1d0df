//! Cases: one workload on one machine under one kernel, for runs on both sides, with its tolerances.
//!
//! A case is a TOML file. Its tolerances are all written out, so that the file's history shows that they existed before
//! the verdict. Everything but the machine is checked when the file is read: `host` depends on the computer that runs
//! the case.

use crate::ask::experiment::{Around, MAX_RUNS, number, only_workload, strings};
use crate::ask::{patch_names, scx};
use schedlab_base::{Backend, Error, Result, Version, input};
use schedlab_compare::agreement::rows::{CLASSES, Tolerances};
use schedlab_guest::Mode;
use schedlab_kernel::tunable::TUNABLES;
use schedlab_kernel::variant::RUNNING;
use schedlab_kernel::{Kernel, Scx, Toggle, Variant};
use schedlab_machine::reader::{Source, Table};
use schedlab_workload::Spec;
use schedlab_workload::command::only_live;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// The case that made a run, in the run's folder.
pub const CASE_FILE: &str = "case.toml";

const KEYS: &[&str] = &[
    "name",
    "about",
    "backend",
    "machine",
    "mode",
    "runs",
    "seed",
    "kernel",
    "workload",
    "beside",
    "group",
    "tolerance",
    "control",
];
const KERNEL_KEYS: &[&str] = &["simulated", "image", "features", "tunables", "built", "scx"];
const CONTROL_KEYS: &[&str] = &["why", "machine", "simulated", "features", "tunables"];
/// Default number of runs of each side of a case.
const DEFAULT_RUNS: u64 = 5;
/// Number of CPUs for which a workload is checked when a case is read; the machine's own number comes with
/// the plan.
const CHECKED_CPUS: u64 = 2;

/// Where the real kernel is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Real {
    /// It is the running one.
    Host,
    /// It is in a guest.
    Vm(Mode),
}

impl Real {
    /// The backend of that name, which must run real kernels.
    ///
    /// # Errors
    /// For another word.
    pub fn backend_of(word: &str) -> Result<Backend> {
        Backend::among(&[Backend::Host, Backend::Vm], "backend of a case", word)
    }
    pub fn backend(self) -> Backend {
        match self {
            Real::Host => Backend::Host,
            Real::Vm(_) => Backend::Vm,
        }
    }
}

/// The deliberate fault in the simulated side of a negative control.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Control {
    /// The reason why the case can't agree.
    pub why: String,
    /// The machine that is simulated instead; `None`: the case's.
    pub machine: Option<String>,
    /// The kernel that is simulated instead; `None`: the case's.
    pub simulated: Option<String>,
    /// Features switched in addition to the case's.
    pub features: Vec<String>,
    /// Tunables set in addition to the case's.
    pub tunables: BTreeMap<String, u64>,
}

/// A case, read and checked.
#[derive(Clone, Debug)]
pub struct Case {
    pub name: String,
    /// Its subject, for people.
    pub about: String,
    /// The file it was read from.
    pub file: PathBuf,
    /// The file's text, kept with every run.
    pub text: String,
    /// Where the real kernel is.
    pub real: Real,
    /// The simulated machine; guests are built like it.
    pub machine: String,
    /// The profile that is simulated.
    pub simulated: String,
    /// The real kernel: [`RUNNING`], or an image by version or path.
    pub image: String,
    /// Features switched on both sides.
    pub features: Vec<String>,
    /// Tunables set on both sides.
    pub tunables: BTreeMap<String, u64>,
    /// Tunables built into the real kernel; the simulated one also gets them.
    pub built: BTreeMap<String, u64>,
    /// The sched_ext scheduler that has the tasks on both sides. Only the kernel's own code can be its counterpart.
    pub scx: Option<Scx>,
    /// Runs of each side.
    pub runs: u64,
    /// Run i has seed `seed + i`, on both sides.
    pub seed: u64,
    /// The tolerance of each class.
    pub tolerance: Tolerances,
    /// Set in negative controls.
    pub control: Option<Control>,
}

/// Reads a case from its file.
///
/// # Errors
/// When the file is unreadable, and for any fault in it, with file, line and column.
pub fn load(file: &Path) -> Result<Case> {
    let text = input::text(file)?;
    parse(file, &text)
}

/// Reads a case's text.
///
/// # Errors
/// Any fault in it, with file, line and column.
pub fn parse(file: &Path, text: &str) -> Result<Case> {
    let source = Source { file, text };
    let document = source.parse()?;
    let top = Table::new(source, "the case", document.span(), document.get_ref(), KEYS)?;
    let real = real(&top)?;
    let kernel = top.required("kernel", top.table("kernel", KERNEL_KEYS)?)?;
    let case = Case {
        name: top.required("name", top.label("name")?)?.to_owned(),
        about: top.required("about", top.string("about")?)?.to_owned(),
        file: file.to_owned(),
        text: text.to_owned(),
        machine: machine(&top, real)?,
        simulated: kernel.required("simulated", kernel.string("simulated")?)?.to_owned(),
        image: image(&kernel, real)?,
        features: features(&kernel)?,
        tunables: tunables(&kernel, "tunables", matches!(real, Real::Vm(_)))?,
        built: tunables(&kernel, "built", false)?,
        scx: scheduler(&kernel, real)?,
        runs: within(&top, "runs", DEFAULT_RUNS, 1..=MAX_RUNS)?,
        seed: within(&top, "seed", 1, 0..=u64::MAX >> 1)?,
        tolerance: tolerance(&top, real)?,
        control: control(&top)?,
        real,
    };
    let profile = Kernel::profile(&case.simulated).map_err(|e| kernel.place("simulated", e))?;
    if case.scx.is_some() && (profile.version < scx::FIRST || case.control.is_some()) {
        let text = format!("scx is for kernels from {} on, and not for controls", scx::FIRST);
        return Err(kernel.error_at("scx", text));
    }
    // The version of a path, or of a series without its second number, is known only once the image is opened.
    if let Ok(named) = Version::parse(&case.image) {
        case.is_of_series(named).map_err(|e| kernel.place("image", e))?;
    }
    case.variant_simulated(&case.simulated, |_| {}).resolve().map_err(|e| kernel.place("features", e))?;
    case.workload(CHECKED_CPUS)?;
    Ok(case)
}

fn real(top: &Table<'_>) -> Result<Real> {
    let mode = top.string("mode")?;
    let backend = top.required("backend", top.string("backend")?)?;
    match Real::backend_of(backend).map_err(|e| top.place("backend", e))? {
        Backend::Vm => {
            let mode = mode.map_or(Ok(Mode::Deterministic), Mode::parse);
            mode.map(Real::Vm).map_err(|e| top.place("mode", e))
        }
        _ if mode.is_some() => {
            Err(top.error_at("mode", "mode is for guests; this kernel is the running one"))
        }
        _ => Ok(Real::Host),
    }
}

fn machine(top: &Table<'_>, real: Real) -> Result<String> {
    let name = top.required("machine", top.string("machine")?)?;
    if real == Real::Host && name != "host" {
        let text = format!("the running kernel is on this host, not on {name}");
        return Err(top
            .error_at("machine", text)
            .help("machine = \"host\"; another one to simulate: [control]"));
    }
    Ok(name.to_owned())
}

fn image(kernel: &Table<'_>, real: Real) -> Result<String> {
    match (real, kernel.string("image")?) {
        (Real::Host, None | Some(RUNNING)) => Ok(RUNNING.to_owned()),
        (Real::Host, Some(_)) => Err(kernel.error_at("image", "on the host the kernel is the running one")),
        (Real::Vm(_), Some(RUNNING) | None) => {
            Err(kernel.error("[kernel] has no image for the guest").help("image = \"6.1\", or a file"))
        }
        (Real::Vm(_), Some(image)) => Ok(image.to_owned()),
    }
}

fn scheduler(kernel: &Table<'_>, real: Real) -> Result<Option<Scx>> {
    let Some(command) = kernel.string("scx")? else { return Ok(None) };
    let scx = Scx { command: command.to_owned(), hash: None };
    match (scx.words(), real) {
        (None, _) => Err(kernel.error_at("scx", "scx names no program")),
        (_, Real::Host) => Err(kernel.error_at("scx", "a case on the host has no sched_ext scheduler")),
        _ => Ok(Some(scx)),
    }
}

fn features(table: &Table<'_>) -> Result<Vec<String>> {
    let toggle = |(text, value): (&str, _)| {
        Toggle::parse(text).map_err(|e| table.error_on(value, e))?;
        Ok(text.to_owned())
    };
    strings(table, "features")?.into_iter().map(toggle).collect()
}

/// Tunables by name. With `folders` also names in folders of debugfs, which a guest's kernel may have.
fn tunables(table: &Table<'_>, key: &str, folders: bool) -> Result<BTreeMap<String, u64>> {
    let Some(inner) = table.open_table(key)? else { return Ok(BTreeMap::new()) };
    let names: Vec<&str> = TUNABLES.iter().map(|row| row.name).collect();
    let in_folder = inner.keys().filter(|name| folders && patch_names::is_in_folder(name));
    let known: Vec<&str> = names.into_iter().chain(in_folder).collect();
    inner.only(&format!("key in [{key}]"), &known, |_| None)?;
    let value =
        |name: &str| -> Result<_> { Ok((name.to_owned(), inner.required(name, inner.number(name)?)?)) };
    inner.keys().map(value).collect()
}

fn within(top: &Table<'_>, key: &str, default: u64, range: std::ops::RangeInclusive<u64>) -> Result<u64> {
    let value = top.number::<u64>(key)?.unwrap_or(default);
    if range.contains(&value) {
        return Ok(value);
    }
    Err(top.error_at(key, format!("{key} is {} to {}", range.start(), range.end())))
}

/// The tolerances of shipped cases.
pub fn usual(real: Real) -> Tolerances {
    if real == Real::Host { Tolerances::on_host() } else { Tolerances::in_guests() }
}

/// The tolerances. All must be written down, since a default could be changed afterwards.
fn tolerance(top: &Table<'_>, real: Real) -> Result<Tolerances> {
    let names: Vec<&str> = CLASSES.iter().map(|c| c.name).collect();
    let usual = usual(real);
    let lines = CLASSES.iter().map(|c| format!("{} = {}", c.name, usual.of(c.class)));
    let help = || format!("usual are {}", lines.clone().collect::<Vec<_>>().join(", "));
    let Some(table) = top.table("tolerance", &names)? else {
        return Err(top.error("the case has no [tolerance]").help(help()));
    };
    let mut all = [0.0; CLASSES.len()];
    for (place, class) in all.iter_mut().zip(CLASSES) {
        let Some(value) = table.get(class.name) else {
            return Err(table.error(format!("[tolerance] has no {}", class.name)).help(help()));
        };
        let pct = number(value).filter(|pct| (0.0..=100.0).contains(pct));
        let wrong = || table.error_at(class.name, format!("{} is 0 to 100 per cent", class.name));
        *place = pct.ok_or_else(wrong)?;
    }
    Ok(Tolerances(all))
}

fn control(top: &Table<'_>) -> Result<Option<Control>> {
    let Some(table) = top.table("control", CONTROL_KEYS)? else { return Ok(None) };
    let owned = |key: &str| -> Result<Option<String>> { Ok(table.string(key)?.map(str::to_owned)) };
    let control = Control {
        why: table.required("why", table.string("why")?)?.to_owned(),
        machine: owned("machine")?,
        simulated: owned("simulated")?,
        features: features(&table)?,
        tunables: tunables(&table, "tunables", false)?,
    };
    if let Some(name) = &control.simulated {
        Kernel::profile(name).map_err(|e| table.place("simulated", e))?;
    }
    let nothing = control.features.is_empty() && control.tunables.is_empty();
    if nothing && control.machine.is_none() && control.simulated.is_none() {
        return Err(table
            .error("nothing is wrong about this control's simulation")
            .help("say machine, simulated, features or tunables"));
    }
    Ok(Some(control))
}

impl Case {
    /// The workload for a machine of `cpus` CPUs.
    ///
    /// # Errors
    /// When a parameter does not exist or does not fit, for a sweep, and for a command, which has no
    /// simulation.
    pub fn workload(&self, cpus: u64) -> Result<Spec> {
        let source = Source { file: &self.file, text: &self.text };
        let document = source.parse()?;
        let top = Table::new(source, "the case", document.span(), document.get_ref(), KEYS)?;
        let folder = self.file.parent().unwrap_or(Path::new("."));
        let spec = only_workload(&top, folder, cpus)?;
        if let Spec::Command(_) = spec {
            return Err(top.place("workload", only_live()));
        }
        Around::read(&top, folder)?.around("", spec, cpus)
    }
    /// Checks that a guest's kernel is of the series that the case simulates: decisions of another series prove nothing
    /// about the profile, however well they agree.
    ///
    /// # Errors
    /// When it is of another series.
    /// When it is of another series.
    pub fn is_of_series(&self, kernel: Version) -> Result<()> {
        let profile = Version::parse(&self.simulated)?;
        if (kernel.major, kernel.minor) == (profile.major, profile.minor) {
            return Ok(());
        }
        let series = Version::new(kernel.major, kernel.minor);
        let text = format!("the image's kernel is of {series}, but {profile} is simulated");
        Err(Error::input(text).help(format!("image = \"{}.{}\"", profile.major, profile.minor)))
    }
    /// The simulated variant, with `profile` as its kernel and, for a control, its fault. `known` sets the kernel's
    /// values before any change. They override values that the case states as built in, and the case's changes override
    /// them.
    pub fn variant_simulated(&self, profile: &str, known: impl FnOnce(&mut Variant)) -> Variant {
        let kernel = self.control.as_ref().and_then(|c| c.simulated.as_deref()).unwrap_or(profile);
        let mut variant = self.variant(kernel);
        // Our rules lack these, whatever their value.
        variant.tunables.retain(|name, _| !patch_names::is_in_folder(name));
        let features = std::mem::take(&mut variant.features);
        let tunables = std::mem::replace(&mut variant.tunables, self.built.clone());
        known(&mut variant);
        variant.features.extend(features);
        variant.tunables.extend(tunables);
        if let Some(control) = &self.control {
            variant.features.extend(control.features.clone());
            variant.tunables.extend(control.tunables.clone());
        }
        variant
    }
    /// The variant of the real kernel; a guest's has the name of the compared profile.
    ///
    /// # Errors
    /// When its scheduler's program is not there.
    pub fn variant_real(&self) -> Result<Variant> {
        self.scheduled(self.variant(if self.real == Real::Host { RUNNING } else { &self.simulated }))
    }
    /// The variant with the case's scheduler.
    ///
    /// # Errors
    /// When its program is not there.
    pub fn scheduled(&self, variant: Variant) -> Result<Variant> {
        let Some(given) = &self.scx else { return Ok(variant) };
        let name = given
            .words()
            .map_or(String::new(), |(program, _)| program.rsplit('/').next().unwrap_or(program).to_owned());
        let folder = self.file.parent().unwrap_or(Path::new("."));
        scx::resolved(&Variant { name, scx: Some(given.clone()), ..variant }, folder)
    }
    fn variant(&self, kernel: &str) -> Variant {
        let (features, tunables) = (self.features.clone(), self.tunables.clone());
        let mut name = features.clone();
        name.extend(tunables.iter().map(|(name, value)| format!("{name}={value}")));
        let name = if name.is_empty() { kernel.to_owned() } else { name.join(",") };
        Variant { name, features, tunables, ..Variant::plain(kernel) }
    }
}

#[cfg(test)]
#[path = "case_tests.rs"]
mod tests;
