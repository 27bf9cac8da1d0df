//! The guests of an experiment's variants: the images that a variant's kernel means, and the common part of
//! all cells of the vm backend.

use crate::ask::cell::Cell;
use crate::ask::{patch_names, scx, variant_checks};
use schedlab_base::{Error, Result, Version, Warning};
use schedlab_guest::{Accelerator, Guest, Image, LLC_TUNABLE, Mode, Qemu, boots_without_llc_balancing};
use schedlab_kernel::variant::RUNNING;
use schedlab_kernel::{Kernel, Level, Policy, Variant};
use schedlab_kernels::find_qemu;
use schedlab_machine::{Machine, Topology};
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

/// Default memory of a guest, MiB: enough for a distribution's kernel, 32 CPUs and hundreds of tasks.
pub const DEFAULT_MEMORY_MB: u32 = 2048;

/// The common settings of guests, and the images they may boot.
#[derive(Clone, Debug)]
pub struct Guests {
    pub qemu: Qemu,
    /// The mode of their time.
    pub mode: Mode,
    /// The accelerator that executes them.
    pub accelerator: Accelerator,
    /// Memory of each, MiB.
    pub memory_mb: u32,
    /// Words added to the kernel's command line.
    pub boot_options: Vec<String>,
    /// The images asked for, each with the word that named it. Empty: the images that the variants' kernels
    /// mean.
    pub images: Vec<(String, Image)>,
    /// Kernels that were built for variants, by the variant's name ([`crate::ask::builds`]).
    pub built: BTreeMap<String, Image>,
}

/// The requested setup of guests. Missing parts are the defaults.
#[derive(Clone, Debug, Default)]
pub struct GuestSetup {
    pub mode: Option<Mode>,
    pub accelerator: Option<Accelerator>,
    /// Memory of each, MiB.
    pub memory_mb: Option<u32>,
    /// Words added to the kernel's command line.
    pub boot_options: Vec<String>,
}

impl GuestSetup {
    /// Deterministic guests, the rest by default.
    pub fn deterministic() -> GuestSetup {
        GuestSetup { mode: Some(Mode::Deterministic), ..GuestSetup::default() }
    }
    /// Guests on this machine, only of these images if any are named. The default mode is `usual`; if that is `None`,
    /// it is deterministic where QEMU can do it.
    ///
    /// # Errors
    /// When QEMU is missing or lacks the mode, or an image is missing.
    pub fn guests(&self, kernels: &[String], usual: Option<Mode>) -> Result<Guests> {
        let qemu = find_qemu()?;
        let mode = self.mode.or(usual).unwrap_or_else(|| usual_mode(&qemu));
        qemu.can(mode)?;
        let images = kernels.iter().map(|word| named_image(word)).collect::<Result<_>>()?;
        Ok(Guests {
            accelerator: self.accelerator.unwrap_or(Accelerator::Tcg),
            qemu,
            mode,
            memory_mb: self.memory_mb.unwrap_or(DEFAULT_MEMORY_MB),
            boot_options: self.boot_options.clone(),
            images,
            built: BTreeMap::new(),
        })
    }
}

/// An image with its name in tables: the word that named it, or for a path the image's version.
///
/// # Errors
/// When the image does not exist.
pub fn named_image(word: &str) -> Result<(String, Image)> {
    if Path::new(word).is_dir() {
        let help = format!(
            "'schedlab kernel build --source {word}' builds a tree's image; --backend code runs a tree's scheduler"
        );
        return Err(Error::input(format!("{word} is a folder, and a guest boots an image")).help(help));
    }
    let image = Image::find(word)?;
    let is_path = word.contains('/') || image.path == Path::new(word);
    let version = image.version.to_string().trim_start_matches('v').to_owned();
    Ok((if is_path { version } else { word.to_owned() }, image))
}

/// Whether a variant's kernel is the path of an image.
fn is_path(kernel: &str) -> bool {
    kernel.contains('/') || kernel == "bzImage" || kernel.starts_with("vmlinuz")
}

/// Whether a variant's kernel means an image: a path, or a series without the v of profiles.
pub fn means_image(kernel: &str) -> bool {
    is_path(kernel) || kernel.starts_with(|c: char| c.is_ascii_digit())
}

/// Whether a variant's kernel can only be an image: it means one, and no profile can simulate it.
pub fn is_real(kernel: &str) -> bool {
    means_image(kernel) && (is_path(kernel) || Kernel::profile(kernel).is_err())
}

/// Whether our rules can't simulate a variant: its kernel has no profile, or it has patches or tunables that the
/// simulator does not know. The simulator knows a patch if the table has all features that the variant switches.
pub fn is_real_variant(variant: &Variant) -> bool {
    let known = !variant.features.is_empty() && patch_names::knows(variant);
    let own = means_image(&variant.kernel) && !patch_names::knows_tunables(variant);
    is_real(&variant.kernel) || own || variant.has_schedulers() || (!variant.patch.is_empty() && !known)
}

/// Whether a variant's kernel means an image and the profile of its series can simulate it.
pub fn has_profile(kernel: &str) -> bool {
    means_image(kernel) && !is_real(kernel)
}

/// The name of a variant without one: its kernel, or the release of a path /boot/vmlinuz-RELEASE.
pub fn short_name(kernel: &str) -> &str {
    let file = kernel.rsplit('/').next().unwrap_or(kernel);
    file.strip_prefix("vmlinuz-").filter(|release| !release.is_empty()).unwrap_or(kernel)
}

/// The image that a variant's kernel means; paths are relative to `folder`.
fn image_of(kernel: &str, folder: &Path) -> Result<Image> {
    if is_path(kernel) { Image::open(&folder.join(kernel)) } else { Image::find(kernel) }
}

/// A variant in a guest.
#[derive(Clone, Debug)]
pub struct Hosted {
    /// The variant, with its name among the others.
    pub variant: Variant,
    /// The image it boots.
    pub image: Image,
    /// Its name in the experiment; `None`: the experiment has no variant of the image's series.
    pub of: Option<String>,
}

impl Guests {
    /// The guest of a variant: its image, and boot options that pass its cutoffs by distance to a kernel with the
    /// migration-cost patch. Other kernels leave unknown options to init, which ignores them.
    pub fn guest_of(&self, hosted: &Hosted) -> Guest {
        let mut guest = self.guest(hosted.image.clone());
        guest.boot_options.extend(cutoff_options(&hosted.variant));
        guest
    }
    /// The guest that boots an image.
    pub fn guest(&self, image: Image) -> Guest {
        Guest {
            image,
            qemu: self.qemu.clone(),
            mode: self.mode,
            accelerator: self.accelerator,
            memory_mb: self.memory_mb,
            boot_options: self.boot_options.clone(),
        }
    }
    /// The variants of an experiment in guests, each with its image; paths are relative to `folder`. A missing image is
    /// an error if the variant is meant for a real kernel, as all are under `strict`. Otherwise the variant is left out
    /// with a warning.
    ///
    /// # Errors
    /// When no image is found, or a required one is missing.
    pub fn variants(
        &self,
        all: &[Variant],
        strict: bool,
        folder: &Path,
        warnings: &mut Vec<Warning>,
    ) -> Result<Vec<Hosted>> {
        let own = all.iter().filter(|v| v.kernel != RUNNING);
        let resolved: Vec<Variant> = own.map(|v| scx::live(v, folder)).collect::<Result<_>>()?;
        let simulated: Vec<&Variant> = resolved.iter().collect();
        let not_built = simulated.iter().copied().filter(|v| !self.built.contains_key(&v.name));
        without_patches(&not_built.collect::<Vec<_>>())?;
        if !self.images.is_empty() {
            let images = self.images.iter().map(|(word, image)| (word.clone(), image.version, image.clone()));
            let given = on_given(&images.collect::<Vec<_>>(), &simulated).into_iter();
            return Ok(given.map(|(variant, image, of)| Hosted { variant, image, of }).collect());
        }
        let (mut found, mut left, mut last) = (Vec::new(), Vec::new(), None);
        for variant in simulated {
            let built = self.built.get(&variant.name).cloned();
            match built.map_or_else(|| image_of(&variant.kernel, folder), Ok) {
                Ok(image) => {
                    let (of, variant) = (Some(variant.name.clone()), variant.clone());
                    found.push(Hosted { variant, image, of });
                }
                Err(e) if strict || means_image(&variant.kernel) => {
                    return Err(e.context(format!("variant '{}'", variant.name)));
                }
                Err(e) => {
                    left.push(variant.name.as_str());
                    last = Some(e);
                }
            }
        }
        match last {
            Some(e) if found.is_empty() => Err(e),
            None if found.is_empty() => Err(Error::input("all variants are of the running kernel")
                .help("use --backend host, or name a kernel: kernel = \"6.1\"")),
            Some(_) => {
                let text = format!("left out, no image of their kernels is here: {}", left.join(", "));
                warnings.push(Warning::new("vm.variants", text));
                Ok(found)
            }
            None => Ok(found),
        }
    }
}

/// Refuses patches together with kernels that the command line names.
///
/// # Errors
/// When a variant has patches.
pub(crate) fn without_patches(variants: &[&Variant]) -> Result<()> {
    let Some(v) = variants.iter().find(|v| !v.patch.is_empty()) else { return Ok(()) };
    let text = format!("variant '{}' has patches, but --kernel names another kernel than its own", v.name);
    Err(Error::input(text).help("without --kernel its kernel is built"))
}

/// Every given image under the variants of its series, with their names in the experiment. An image without such
/// variants runs unchanged. Images come with the words that named them and their versions.
pub(crate) fn on_given<I: Clone>(
    images: &[(String, Version, I)],
    variants: &[&Variant],
) -> Vec<(Variant, I, Option<String>)> {
    let mut all = Vec::new();
    for (word, version, image) in images {
        let of_series = |v: Version| (v.major, v.minor) == (version.major, version.minor);
        let is_own = |v: &&&Variant| Version::parse(&v.kernel).is_ok_and(of_series);
        let own: Vec<&&Variant> = variants.iter().filter(is_own).collect();
        if own.is_empty() {
            let series = Version::new(version.major, version.minor).to_string();
            all.push((Variant { name: word.clone(), ..Variant::plain(&series) }, image.clone(), None));
        }
        let several = images.iter().filter(|(_, v, _)| of_series(*v)).count() > 1;
        all.extend(own.into_iter().map(|v| {
            let name = if several { format!("{} {word}", v.name) } else { v.name.clone() };
            (Variant { name, ..(*v).clone() }, image.clone(), Some(v.name.clone()))
        }));
    }
    all
}

/// The boot options of a variant's `migration_cost` and `migration_factor` (patches/6.1/migration-cost.patch).
pub fn cutoff_options(variant: &Variant) -> Vec<String> {
    let cost = variant.migration_cost.as_ref().map(|cost| format!("migration_cost={cost}"));
    let factor = variant.migration_factor.map(|percent| format!("migration_factor={percent}"));
    cost.into_iter().chain(factor).collect()
}

/// The series of an image's kernel, as profiles are called ("v6.1").
pub fn series(image: &Image) -> String {
    Version::new(image.version.major, image.version.minor).to_string()
}

/// The simulation of a variant to compare with its guest: under the profile of the image's series, with the
/// experiment's name.
///
/// # Errors
/// When a part of it can't be simulated.
pub fn simulated(hosted: &Hosted) -> Result<Variant> {
    let name = hosted.of.clone().unwrap_or_else(|| hosted.variant.name.clone());
    simulated_as(&hosted.variant, name, series(&hosted.image))
}

/// The simulation of a variant to compare with a real kernel of this series, under that name.
///
/// # Errors
/// When a part of it can't be simulated.
pub fn simulated_as(variant: &Variant, name: String, series: String) -> Result<Variant> {
    let profile = Kernel::profile(&series)?;
    let knows_patch = patch_names::knows(variant) && variant.brings_a_feature(profile.version);
    if !variant.patch.is_empty() && !knows_patch {
        return Err(Error::input("the simulator does not know its patch"));
    }
    if variant.has_schedulers() || variant.tasks.values().any(|change| change.policy == Some(Policy::Ext)) {
        return Err(Error::input("the simulator has no sched_ext"));
    }
    // Its patches stay: the simulated kernel then asks for their features, whatever its version.
    let bare = Variant { config: None, settings: [].into(), level: Level::Free, ..variant.clone() };
    let twin = Variant { name, kernel: series, ..bare };
    variant_checks::attributes(&twin)?;
    twin.resolve()?;
    twin.changes()?;
    Ok(twin)
}

/// The machine to simulate for guests with this machine's topology. For deterministic guests its CPUs take turns and
/// its costs are the guests', whatever the machine's file says.
///
/// # Errors
/// Only through faults of schedlab's own files.
pub fn twin_machine(machine: &Machine, mode: Mode) -> Result<Machine> {
    if mode == Mode::RealTime || machine.turns.is_some() {
        return Ok(machine.clone());
    }
    let Machine { name, about, topology, os_cpu, .. } = machine.clone();
    Ok(Machine { name, about, topology, os_cpu, ..Machine::load("icount-2")? })
}

/// The simulation of a guest's cell: the profile of its image's series on a machine like the guest's.
///
/// # Errors
/// When the cell has no guest, and as [`simulated`].
pub fn twin(cell: &Cell) -> Result<Cell> {
    let guest = cell.guest.as_ref().ok_or_else(|| Error::internal("the cell of a twin has no guest"))?;
    let hosted = Hosted { variant: cell.variant.clone(), image: guest.image.clone(), of: None };
    let machine = Arc::new(twin_machine(&cell.machine, guest.mode)?);
    Cell::simulated(&machine, simulated(&hosted)?, cell.spec.clone(), cell.load.clone())
}

/// A variant for the kernel's own code to compare with a guest's cell: balancing by last-level caches is off if the
/// guest boots with it off, unless the variant sets it.
pub fn as_in(cell: &Cell, variant: Variant) -> Variant {
    match &cell.guest {
        Some(guest) => as_booted(&guest.image.release, &cell.machine.topology, variant),
        None => variant,
    }
}

/// As [`as_in`], for a guest of that release on these CPUs.
pub fn as_booted(release: &str, topology: &Topology, mut variant: Variant) -> Variant {
    if boots_without_llc_balancing(release, topology) {
        variant.tunables.entry(LLC_TUNABLE.to_owned()).or_insert(0);
    }
    variant
}

/// The default mode: deterministic if QEMU can do it.
pub fn usual_mode(qemu: &Qemu) -> Mode {
    [Mode::Deterministic].into_iter().find(|m| qemu.can(*m).is_ok()).unwrap_or(Mode::RealTime)
}

/// A warning about the limits of a mode. For emulated CPUs in real time the guest itself gives it.
pub fn caveat(guest: &Guest) -> Option<Warning> {
    let text = match (guest.mode, guest.accelerator) {
        (Mode::Deterministic, _) => {
            "deterministic guest: its CPUs share one CPU's time in turns. Counts, orders and decisions compare; throughput \
             and speed-up by more CPUs don't, and latencies hold the turns' length"
        }
        (Mode::RealTime, Accelerator::Kvm) => {
            "guest in real time under KVM: what else runs on this host, and more CPUs than it has, are part of all times"
        }
        (Mode::RealTime, Accelerator::Tcg) => return None,
    };
    Some(Warning::new("vm.mode", text))
}

#[cfg(test)]
mod tests {
    use super::*;
    use schedlab_kernel::MigrationCost;
    use schedlab_workload::{Params, Spec};

    /// A guest's image whose file need not exist.
    fn image(release: &str) -> Image {
        let version = Version::parse(release).unwrap();
        Image { path: "/nowhere".into(), release: release.to_owned(), version, hash: format!("h{release}") }
    }
    /// Guests of given images.
    fn guests(images: &[(&str, &str)]) -> Guests {
        let qemu = Qemu {
            program: "qemu".into(),
            version: Version::new(10, 0),
            libraries: Vec::new(),
            modules: None,
            data: Vec::new(),
        };
        Guests {
            mode: usual_mode(&qemu),
            qemu,
            accelerator: Accelerator::Tcg,
            memory_mb: DEFAULT_MEMORY_MB,
            boot_options: Vec::new(),
            images: images.iter().map(|(word, release)| ((*word).to_owned(), image(release))).collect(),
            built: BTreeMap::new(),
        }
    }

    #[test]
    fn cutoffs_by_distance_are_boot_options_of_the_guest() {
        let cutoffs = MigrationCost::Given(vec![0, 2500]);
        let variant =
            Variant { migration_cost: Some(cutoffs), migration_factor: Some(120), ..Variant::plain("6.1") };
        let all = Guests { boot_options: vec!["nosmt".into()], ..guests(&[]) };
        let options = |variant: Variant| {
            all.guest_of(&Hosted { variant, image: image("6.1.1"), of: None }).boot_options.join(" ")
        };
        assert_eq!(options(variant), "nosmt migration_cost=0,2500 migration_factor=120");
        assert_eq!(options(Variant::plain("6.1")), "nosmt");
    }

    fn names(images: &[(&str, &str)], variants: &[Variant]) -> Vec<String> {
        let all = guests(images).variants(variants, false, Path::new("."), &mut Vec::new()).unwrap();
        let text = |h: Hosted| format!("{}|{}|{}", h.variant.name, h.variant.kernel, h.image.release);
        all.into_iter().map(text).collect()
    }

    #[test]
    fn given_images_run_the_variants_of_their_series() {
        let off =
            Variant { name: "off".into(), features: vec!["NO_SIS_UTIL".into()], ..Variant::plain("v6.1") };
        let variants = [Variant::plain("6.1"), off, Variant::plain("v4.5"), Variant::plain(RUNNING)];
        assert_eq!(
            names(&[("6.1", "6.1.0-56-cloud"), ("7.3", "7.3.4+deb13")], &variants),
            ["6.1|6.1|6.1.0-56-cloud", "off|v6.1|6.1.0-56-cloud", "7.3|v7.3|7.3.4+deb13"]
        );
        assert_eq!(
            names(&[("a", "6.1.1"), ("b", "6.1.2")], &variants[..1]),
            ["6.1 a|6.1|6.1.1", "6.1 b|6.1|6.1.2"],
            "two kernels of one series differ in what they were called"
        );
    }

    #[test]
    fn paths_and_series_without_a_profile_are_real() {
        for kernel in
            ["/boot/vmlinuz-6.1.0-56-cloud", "linux-a/bzImage", "vmlinuz-6.1", "6.8", "7", "6.8.1-mine"]
        {
            assert!(is_real(kernel) && !has_profile(kernel), "{kernel}");
        }
        assert!(!is_real("6.1") && has_profile("6.1"), "an image of the series, and a profile");
        for kernel in ["v6.1", "v6.8", RUNNING, "mine"] {
            assert!(!is_real(kernel) && !has_profile(kernel), "{kernel}");
        }
        assert_eq!(short_name("/boot/vmlinuz-6.1.0-56-cloud"), "6.1.0-56-cloud");
        assert_eq!(short_name("linux-a/bzImage"), "linux-a/bzImage");
    }

    #[test]
    fn the_simulator_knows_a_patch_by_its_features() {
        let patched = |features: &[&str]| Variant {
            patch: vec!["x.patch".into()],
            features: features.iter().map(|f| (*f).to_owned()).collect(),
            ..Variant::plain("6.1")
        };
        let of = |v: Variant| simulated(&Hosted { variant: v, image: image("6.1.192"), of: None });
        assert!(is_real_variant(&patched(&[])) && is_real_variant(&patched(&["MINE"])));
        assert!(!is_real_variant(&patched(&["NO_SIS_FIRST_IDLE"])));
        assert!(of(patched(&["MINE"])).unwrap_err().to_string().contains("does not know its patch"));
        let twin = of(patched(&["SIS_FIRST_IDLE"])).unwrap();
        assert_eq!((twin.patch.len(), twin.features.len()), (1, 1));
        let brought = twin.resolve().unwrap().brought.unwrap();
        assert!(brought.has(schedlab_kernel::Feature::parse("SIS_FIRST_IDLE").unwrap()));
    }

    #[test]
    fn a_built_kernel_is_the_variants_own() {
        let patched = Variant { patch: vec!["x.patch".into()], name: "p".into(), ..Variant::plain("6.1") };
        let mut guests = guests(&[]);
        let of =
            |g: &Guests| g.variants(std::slice::from_ref(&patched), true, Path::new("."), &mut Vec::new());
        assert!(of(&guests).unwrap_err().to_string().contains("'p' has patches"));
        guests.built.insert("p".into(), image("6.1.192"));
        assert_eq!(of(&guests).unwrap()[0].image.release, "6.1.192");
    }

    #[test]
    fn the_twin_has_the_profile_of_the_image() {
        let plain = |release| Hosted { variant: Variant::plain("6.1"), image: image(release), of: None };
        let kernel = simulated(&plain("6.1.192")).unwrap().resolve().unwrap();
        assert_eq!(kernel.version, Version::new(6, 1));
        assert!(simulated(&plain("6.8.1")).unwrap_err().to_string().contains("no simulated kernel"));
    }

    #[test]
    fn the_twin_of_a_deterministic_guest_takes_turns() {
        let machine = Machine::load("smt-4").unwrap();
        assert_eq!(twin_machine(&machine, Mode::RealTime).unwrap(), machine);
        let twin = twin_machine(&machine, Mode::Deterministic).unwrap();
        assert_eq!((&twin.name, &twin.topology), (&machine.name, &machine.topology));
        assert!(twin.turns.is_some() && twin.costs != machine.costs);
    }

    #[test]
    fn the_code_for_a_guest_balances_by_caches_only_if_the_guest_does() {
        let machine = |name: &str| Arc::new(Machine::load(name).unwrap());
        let of = |name: &str, release: &str, given: Option<u64>| {
            let mut variant = Variant::plain("7.3");
            variant.tunables.extend(given.map(|value| (LLC_TUNABLE.to_owned(), value)));
            let spec = Spec::bench("slice", &Params::default()).unwrap();
            let guest = guests(&[]).guest(image(release));
            let cell = Cell::in_guest(&machine(name), guest, variant.clone(), spec, "default".to_owned());
            as_in(&cell.unwrap(), variant).tunables.get(LLC_TUNABLE).copied()
        };
        assert_eq!(of("icount-2x1x4", "7.3.4", None), Some(0));
        assert_eq!(of("icount-2x1x4", "7.3.4", Some(1)), Some(1));
        assert_eq!((of("icount-8", "7.3.4", None), of("icount-2x1x4", "6.1.192", None)), (None, None));
    }

    #[test]
    fn the_usual_mode_is_one_that_qemu_can() {
        let mut qemu = guests(&[]).qemu;
        assert_eq!(usual_mode(&qemu), Mode::Deterministic);
        qemu.version = Version::new(7, 2);
        assert_eq!(usual_mode(&qemu), Mode::RealTime);
    }
}
