//! Reads kernels and variants from words of a command line: `v6.5+SIS_FIRST_IDLE`, `mine=v4.5:hz=1000`.

use crate::ask::experiment::{MIGRATION, set_attribute, set_migration};
use crate::ask::{guests, here, patch_names, variant_checks};
use schedlab_base::{Backend, CpuSet, Error, Ns, Result, Version, printable};
use schedlab_kernel::group::ROOT;
use schedlab_kernel::policy::EVERY_TASK;
use schedlab_kernel::variant::RUNNING;
use schedlab_kernel::{Change, DEFAULT_PROFILE, GroupSpec, Level, Variant, nearest};
use schedlab_machine::sysfs::HOST;
use std::collections::BTreeMap;

/// Reads `[NAME=]KERNEL[:CHANGE[,CHANGE...]]`. A change is one of these:
///
/// - a feature (`SIS_FIRST_IDLE`, `NO_LAST_BUDDY`) or a tunable (`hz=1000`), maybe from a time in the run on
///   (`NO_LAST_BUDDY@10s`);
/// - an attribute of tasks (`policy=batch`, `nice=5`, `slice=3ms`), maybe of one group of them (`hog.policy=batch`);
/// - the CPUs that all tasks may use (`cpus=0-1/4`);
/// - how long tasks stay cache hot by distance (`migration_cost=0/2500/10000` in us, `migration_cost=auto`,
///   `migration_factor=120`);
/// - a part of its kernel's build (`patch=first-idle`, a name or a file; `config=FRAGMENT`);
/// - how its code is charged (`level=counted`).
///
/// Without a name, the whole text is the variant's name.
///
/// # Errors
/// When the text has another form, or the kernel's tables lack a name in it.
pub fn parse(text: &str) -> Result<Variant> {
    let (front, changes) = text.split_once(':').unwrap_or((text, ""));
    let (name, kernel) = front.split_once('=').unwrap_or((text, front));
    if let Some(what) = printable::unfit(name) {
        return Err(Error::input(format!("variant {text:?}: its name {what}"))
            .help("write [NAME=]KERNEL[:CHANGE,...]"));
    }
    let mut variant = Variant { name: name.to_owned(), ..Variant::plain(kernel) };
    for text in changes.split(',').filter(|c| !c.is_empty()) {
        change(&mut variant, text)?;
    }
    variant.at.sort_by_key(|change| change.time);
    checked(variant.renamed()?)
}

/// As [`parse`], also in the short form with plus signs: `v6.5+SIS_FIRST_IDLE+hz=1000`. A kernel may also be an image:
/// a series such as `6.1`, or the path of a bzImage, after which changes follow a colon only.
pub fn in_short(text: &str) -> Result<Variant> {
    let colons = match text.split_once('+') {
        Some((kernel, changes)) if !text.contains(['/', ':']) => {
            format!("{kernel}:{}", changes.replace('+', ","))
        }
        _ => text.to_owned(),
    };
    let front = colons.split(':').next().unwrap_or_default();
    let kernel = front.split_once('=').map_or(front, |(_, kernel)| kernel);
    if !guests::is_real(kernel) {
        return parse(&colons);
    }
    // No table of profiles has a real kernel.
    let (named, changes) = (&front[..front.len() - kernel.len()], &colons[front.len()..]);
    let variant = parse(&format!("{named}{RUNNING}{changes}"))?;
    let name = if front.contains('=') { variant.name } else { colons.clone() };
    Ok(Variant { name, kernel: kernel.to_owned(), ..variant })
}

/// The kernel of a variant without its changes.
pub fn without_changes(variant: &Variant) -> Variant {
    Variant::plain(&variant.kernel)
}

/// Adds one change to a variant.
pub(crate) fn change(variant: &mut Variant, text: &str) -> Result<()> {
    if let Some((what, time)) = text.split_once('@') {
        let time = Ns::parse(time, "").map_err(|e| e.context(format!("'{text}'")))?;
        let at = later(variant, time);
        match what.split_once('=') {
            Some(_) => tunable(&mut at.tunables, what)?,
            None => at.features.push(what.to_owned()),
        }
        return Ok(());
    }
    let Some((word, value)) = text.split_once('=') else {
        variant.features.push(text.to_owned());
        return Ok(());
    };
    match word.rsplit_once('.') {
        Some((group, key)) => attribute(variant, group, key, value),
        None if ATTRIBUTES.contains(&word) => attribute(variant, EVERY_TASK, word, value),
        None if word == "cpus" => {
            // Commas separate changes.
            let cpus =
                CpuSet::parse(&value.replace('/', ",")).map_err(|e| e.context(format!("cpus={value}")))?;
            confine(variant, cpus);
            Ok(())
        }
        None if word == "patch" => {
            variant.patch.push(value.to_owned());
            Ok(())
        }
        None if word == "config" => {
            variant.config = Some(value.to_owned());
            Ok(())
        }
        None if word == "level" => {
            variant.level = Level::parse(value)?;
            Ok(())
        }
        None if MIGRATION.contains(&word) => {
            // Commas separate changes.
            let text = value.replace('/', ",");
            set_migration(variant, word, &text).map_err(|e| e.context(format!("{word}={value}")))
        }
        None => tunable(&mut variant.tunables, text),
    }
}

/// The variant's change at that time.
fn later(variant: &mut Variant, time: Ns) -> &mut Change {
    let found = variant.at.iter().position(|c| c.time == time);
    let at = found.unwrap_or_else(|| {
        variant.at.push(Change { time, ..Change::default() });
        variant.at.len() - 1
    });
    &mut variant.at[at]
}

/// All tasks of the variant may use these CPUs only. What it says about the root besides stays.
fn confine(variant: &mut Variant, cpus: CpuSet) {
    match variant.groups.iter_mut().find(|group| group.path == ROOT) {
        Some(root) => root.cpus = Some(cpus),
        None => variant.groups.push(GroupSpec { cpus: Some(cpus), ..GroupSpec::at(ROOT) }),
    }
}

/// Words of [`set_attribute`], in their order in a variant's name.
pub const ATTRIBUTES: [&str; 3] = ["policy", "nice", "slice"];

fn attribute(variant: &mut Variant, group: &str, key: &str, value: &str) -> Result<()> {
    set_attribute(variant.tasks.entry(group.to_owned()).or_default(), key, value)
        .map_err(|e| e.context(format!("{key}={value}")))
}

/// Reads several variants with different names.
///
/// # Errors
/// As [`parse`], and when two have the same name.
pub fn parse_all(texts: &[String]) -> Result<Vec<Variant>> {
    let mut all: Vec<Variant> = Vec::new();
    for text in texts {
        let variant = parse(text)?;
        if all.iter().any(|v| v.name == variant.name) {
            let name = &variant.name;
            return Err(Error::input(format!("two variants have the name '{name}'"))
                .help("name one: --variant NAME=KERNEL[:CHANGE,...]"));
        }
        all.push(variant);
    }
    Ok(all)
}

/// The options of a command that change a kernel or its tasks.
#[derive(Clone, Copy, Default)]
pub struct Changes<'a> {
    /// Features, with their times.
    pub features: &'a [String],
    /// Tunables, with their times.
    pub tunables: &'a [String],
    /// Values of [`ATTRIBUTES`], in that order.
    pub attributes: [Option<&'a String>; 3],
}

/// A kernel with changes given one by one; the variant's name holds them.
pub fn with_changes(kernel: &str, changes: Changes<'_>) -> Result<Variant> {
    if let Some(odd) = changes.tunables.iter().find(|t| !t.contains('=')) {
        return Err(no_tunable(odd));
    }
    let attributes = ATTRIBUTES.iter().zip(changes.attributes);
    let attributes = attributes.filter_map(|(word, value)| value.map(|v| format!("{word}={v}")));
    let all: Vec<String> =
        changes.features.iter().chain(changes.tunables).cloned().chain(attributes).collect();
    parse(&if all.is_empty() { kernel.to_owned() } else { format!("{kernel}:{}", all.join(",")) })
}

fn tunable(all: &mut BTreeMap<String, u64>, text: &str) -> Result<()> {
    let (name, value) = text.split_once('=').ok_or_else(|| no_tunable(text))?;
    // Whether the kernel may have a name of its own is known only when all words are read.
    let value = patch_names::read_tunable(name, value, true).map_err(|e| match e.remedy() {
        Some(_) => e,
        None => e.help("write it as hz=1000"),
    })?;
    all.insert(name.to_owned(), value);
    Ok(())
}

fn no_tunable(text: &str) -> Error {
    Error::input(format!("'{text}' is not a tunable with its value")).help("write it as hz=1000")
}

fn checked(variant: Variant) -> Result<Variant> {
    let named = |e: Error| e.context(format!("variant '{}'", variant.name));
    // A patch may bring features and tunables: its kernel is asked when it is built, or runs.
    let own = patch_names::has_own(&variant);
    if !own {
        variant.at.iter().try_for_each(Change::check).map_err(named)?;
    }
    variant_checks::attributes(&variant).map_err(named)?;
    patch_names::check_tunables(&variant)?;
    if variant.kernel != RUNNING && !own {
        variant.changes()?;
    }
    Ok(variant)
}

/// The default kernel. A simulation of this host takes the profile nearest to the running kernel.
///
/// # Errors
/// Guests have no default kernel.
pub fn default_kernel(backend: Backend, machine: &str) -> Result<String> {
    match backend {
        Backend::Sim => Ok(default_profile(machine, here::running_kernel()).to_string()),
        Backend::Host => Ok(RUNNING.to_owned()),
        Backend::Code => {
            let help =
                "--kernel 6.1, or the folder of a kernel's tree; 'schedlab kernel list' lists what is built";
            Err(Error::input("--backend code: no kernel is named").help(help))
        }
        Backend::Vm => {
            let help = "--kernel 6.1, or the path of a bzImage; 'schedlab kernel list' lists the images here";
            Err(Error::input("--backend vm: no kernel is named").help(help))
        }
    }
}

/// The default profile to simulate.
fn default_profile(machine: &str, running: Option<Version>) -> Version {
    running.filter(|_| machine == HOST).map_or(DEFAULT_PROFILE, nearest)
}

/// An image with changes given one by one; `word` names the image, and begins the variant's name.
pub fn of_image(word: &str, changes: Changes<'_>) -> Result<Variant> {
    // A path may have any character, so it does not go through the parser.
    let variant = with_changes(RUNNING, changes)?;
    let name = variant.name.replacen(RUNNING, word, 1);
    Ok(Variant { name, kernel: word.to_owned(), ..variant })
}

#[cfg(test)]
mod tests {
    use super::*;
    use schedlab_kernel::Policy;

    #[test]
    fn variants_have_name_kernel_and_changes() {
        let v = parse("first=v4.5:SIS_FIRST_IDLE,hz=1000").unwrap();
        assert_eq!((v.name.as_str(), v.kernel.as_str(), v.features.len()), ("first", "v4.5", 1));
        assert_eq!(v.tunables["hz"], 1000);
        assert_eq!(parse("v4.5:NO_SIS_SKIP_TARGET").unwrap().name, "v4.5:NO_SIS_SKIP_TARGET");
        assert!(parse("v4.5").unwrap().is_plain());
        let features = &["NO_SIS_SKIP_TARGET".to_owned()];
        let same = with_changes("v4.5", Changes { features, ..Changes::default() }).unwrap();
        assert_eq!(same, parse("v4.5:NO_SIS_SKIP_TARGET").unwrap());
    }

    #[test]
    fn plus_signs_are_a_short_form_and_images_need_no_profile() {
        let long = parse("v6.5:SIS_FIRST_IDLE,NO_WA_IDLE,hz=1000").unwrap();
        assert_eq!(in_short("v6.5+SIS_FIRST_IDLE+NO_WA_IDLE,hz=1000").unwrap(), long);
        assert_eq!(in_short("v6.5:SIS_FIRST_IDLE,NO_WA_IDLE,hz=1000").unwrap(), long);
        let named = in_short("mine=v6.5+SIS_FIRST_IDLE").unwrap();
        assert_eq!((named.name.as_str(), named.kernel.as_str()), ("mine", "v6.5"));
        let image = in_short("/boot/a+b/bzImage:NO_WA_IDLE").unwrap();
        assert_eq!(
            (image.name.as_str(), image.kernel.as_str()),
            ("/boot/a+b/bzImage:NO_WA_IDLE", "/boot/a+b/bzImage")
        );
        assert_eq!((image.features.len(), without_changes(&image).is_plain()), (1, true));
        let named = in_short("a6.7=6.7+NO_SIS_UTIL").unwrap();
        assert_eq!(
            (named.name.as_str(), named.kernel.as_str()),
            ("a6.7", "6.7"),
            "a name that holds its kernel"
        );
        let patched = in_short("6.1+patch=first-idle+patch=x+SIS_FIRST_IDLE").unwrap();
        assert_eq!((patched.kernel.as_str(), patched.patch.len(), patched.features.len()), ("6.1", 2, 1));
        assert!(in_short("6.1+patch=x+MINE").is_ok(), "a patch may add any feature");
        assert!(in_short("v6.5+SIS_FRST_IDLE").unwrap_err().to_string().contains("'SIS_FIRST_IDLE'"));
    }

    #[test]
    fn tasks_and_times_have_words() {
        let v = parse(
            "b=v4.5:policy=batch,nice=-5,hog.slice=3ms,NO_LAST_BUDDY@10s,nr_migrate=8@10s,LAST_BUDDY@5s",
        );
        let v = v.unwrap();
        let all = v.tasks["*"];
        assert_eq!(
            (all.policy, all.nice, v.tasks["hog"].slice),
            (Some(Policy::Batch), Some(-5), Some(Ns::ms(3)))
        );
        let times: Vec<u64> = v.at.iter().map(|c| c.time.0 / 1_000_000_000).collect();
        assert_eq!((times, v.at[1].tunables["nr_migrate"]), (vec![5, 10], 8));
        let (batch, slice) = ("batch".to_owned(), "3ms".to_owned());
        let changes = Changes { attributes: [Some(&batch), None, Some(&slice)], ..Changes::default() };
        let v = with_changes(RUNNING, changes).unwrap();
        assert_eq!((v.name.as_str(), v.is_plain()), ("running:policy=batch,slice=3ms", true));
    }

    #[test]
    fn cpus_confine_all_tasks_and_leave_the_rest_of_the_root() {
        let mut variant = parse("v6.12:cpus=0-1/4").unwrap();
        assert_eq!(variant.groups[0].cpus, CpuSet::parse("0-1,4").ok());
        variant.groups[0].tasks = vec!["hog".to_owned()];
        change(&mut variant, "cpus=3").unwrap();
        let root =
            GroupSpec { cpus: CpuSet::parse("3").ok(), tasks: vec!["hog".to_owned()], ..GroupSpec::at(ROOT) };
        assert_eq!(variant.groups, [root]);
    }

    #[test]
    fn cutoffs_by_distance_have_slashes_for_commas() {
        let v = parse("v2.6.12:migration_cost=0/2500,migration_factor=120").unwrap();
        assert_eq!(v.migration_cost.map(|c| c.to_string()).as_deref(), Some("0,2500"));
        assert_eq!(v.migration_factor, Some(120));
        assert!(
            parse("v2.6.12:migration_factor=120").unwrap_err().to_string().contains("without migration_cost")
        );
        assert!(parse("running:migration_cost=auto").unwrap_err().to_string().contains("simulated kernels"));
    }

    #[test]
    fn this_host_is_simulated_with_the_nearest_profile_and_others_with_a_stated_one() {
        let running = Some(Version::new(6, 18));
        assert_eq!(default_profile("host", running), Version::new(6, 18));
        assert_eq!(default_profile("host", Some(Version::new(6, 17))), Version::new(6, 12));
        assert_eq!(default_profile("smp-4", running), DEFAULT_PROFILE);
        assert_eq!(default_profile("host", None), DEFAULT_PROFILE);
    }

    #[test]
    fn errors_name_the_fault() {
        let error = |text: &str| parse(text).unwrap_err().to_string();
        assert!(error("v4.5:SIS_FRST_IDLE").contains("'SIS_FIRST_IDLE'"));
        assert!(error("v9.9").contains("v4.5"));
        assert!(error("v4.5:hz=x").contains("hz=1000"));
        assert!(error("v4.5:hzz=1").contains("'hz'"));
        assert!(error("v4.5:hog.polcy=batch").contains("'policy'"));
        assert!(error("v4.5:policy=btach").contains("'batch'"));
        assert!(parse("v4.5:policy=fifo").is_ok());
        assert!(error("v4.5:nice=20").contains("-20 to 19"));
        assert!(error("v4.5:slice=1us").contains("100us to 100ms"));
        assert!(error("v4.5:hz=1000@1s").contains("hz can't change"));
        assert!(error("v4.5:NO_LAST_BUDDY@soon").contains("soon"));
        assert!(error("=v4.5").contains("name is empty"));
        let twice = parse_all(&["v4.5".into(), "v4.5".into()]).unwrap_err().to_string();
        assert!(twice.contains("two variants have the name 'v4.5'"));
    }
}
