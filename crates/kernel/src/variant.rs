//! Variants: a kernel with changes.

use crate::feature::BACKPORTED;
use crate::policy::{self, AttrChange, EVERY_TASK, group_of};
use crate::preempt::{self, Preempt};
use crate::{
    Attr, Feature, GroupChange, GroupSpec, Kernel, Level, MigrationCost, TaskChange, Tunables, effect,
    history,
};
use schedlab_base::{Error, Ns, Result, Version, Warning};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};

/// A feature switched on (`NAME`) or off (`NO_NAME`).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Toggle {
    pub feature: Feature,
    pub on: bool,
}

impl Toggle {
    /// Reads `NAME` or `NO_NAME`, in any case.
    ///
    /// # Errors
    /// When there is no such feature.
    pub fn parse(text: &str) -> Result<Toggle> {
        let upper = text.trim().to_ascii_uppercase();
        match upper.strip_prefix("NO_") {
            Some(name) => Ok(Toggle { feature: Feature::parse(name)?, on: false }),
            None => Ok(Toggle { feature: Feature::parse(&upper)?, on: true }),
        }
    }
}

/// A named kernel in an experiment.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Variant {
    pub name: String,
    /// The kernel's profile ("v4.5"), or `running` for the live one.
    pub kernel: String,
    /// Patches of the kernel's source, in order, as the experiment names them. Empty: none.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub patch: Vec<String>,
    /// A configuration fragment for building the kernel, as the experiment names it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub config: Option<String>,
    /// How the time of the kernel's code is charged, on backend code.
    #[serde(default, skip_serializing_if = "Level::is_free")]
    pub level: Level,
    /// A sched_ext scheduler that runs the tasks.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub scx: Option<Scx>,
    /// Toggles in order: `SIS_FIRST_IDLE`, `NO_LAST_BUDDY`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub features: Vec<String>,
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub tunables: BTreeMap<String, u64>,
    /// Attributes of the workload's tasks, by group of tasks ([`group_of`]) or [`EVERY_TASK`]. For a command, only the
    /// latter.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub tasks: BTreeMap<String, AttrChange>,
    /// Task groups added to the workload's; one with the same path replaces the workload's.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub groups: Vec<GroupSpec>,
    /// Changes during a run, in order of time.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub at: Vec<Change>,
    /// Other settings of a live system, by name ("governor", "numa_balancing").
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub settings: BTreeMap<String, String>,
    /// The time for which tasks stay cache hot, by distance; `None`: from the tunables.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub migration_cost: Option<MigrationCost>,
    /// Percentage that scales measured times.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub migration_factor: Option<u64>,
}

/// A sched_ext scheduler: a program that loads it and stays.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Scx {
    /// The program and its arguments, separated by spaces.
    pub command: String,
    /// Hash of the program's bytes; `None` in an experiment.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hash: Option<String>,
}

impl Scx {
    /// No scheduler from some time on, in a change.
    pub const NONE: &'static str = "none";

    pub fn is_none(&self) -> bool {
        let command = self.command.trim();
        command.is_empty() || command == Scx::NONE
    }
    /// The program's name: its file's, without the ending of an object.
    pub fn name(&self) -> &str {
        let file = self.words().map_or("", |(program, _)| program.rsplit('/').next().unwrap_or(program));
        file.strip_suffix(".bpf.o").unwrap_or(file)
    }
    /// Splits `command` into program and arguments.
    pub fn words(&self) -> Option<(&str, Vec<&str>)> {
        let mut words = self.command.split_whitespace();
        Some((words.next()?, words.collect()))
    }
}

/// Changes at one time during a run.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct Change {
    /// Time, counted from the end of the warm-up.
    pub time: Ns,
    /// Toggles in order.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub features: Vec<String>,
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub tunables: BTreeMap<String, u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub group: Option<GroupChange>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub task: Option<TaskChange>,
    /// The sched_ext scheduler from then on, instead of the one before, or none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub scx: Option<Scx>,
}

/// Features that are built in when a kernel starts: shared states, counts of groups, columns of counters.
const BUILT: &[Feature] =
    &[Feature::SdSharedAll, Feature::SdNrGroups, Feature::SdSharedNuma, Feature::LbSgScan, Feature::IlbShare];
/// Tunables that must be set before a kernel starts, or that a task copies when it is made.
const SET_BEFORE: &[&str] = &["hz", "scale_by_cpus", "timer_slack_ns", "autogroup"];

impl Change {
    /// Checks that the change can be made while a kernel runs.
    ///
    /// # Errors
    /// For unknown features and tunables, those that need a kernel's start, and an empty change.
    pub fn check(&self) -> Result<()> {
        let toggles = self.features.iter().map(|f| Toggle::parse(f)).collect::<Result<Vec<_>>>()?;
        let feature = toggles.iter().map(|t| t.feature).find(|f| BUILT.contains(f)).map(Feature::name);
        let tunable = self.tunables.keys().map(String::as_str).find(|t| SET_BEFORE.contains(t));
        if let Some(name) = feature.or(tunable) {
            let text =
                format!("{name} can't change in the middle of a run: it shapes what is built at the start");
            return Err(Error::input(text).help("let two variants differ in it"));
        }
        self.group.as_ref().map_or(Ok(()), GroupChange::check)?;
        self.task.as_ref().map_or(Ok(()), TaskChange::check)?;
        let is_empty = self.group.is_none() && self.task.is_none() && self.scx.is_none();
        if !self.is_of_kernel() && is_empty {
            return Err(Error::input(format!("nothing changes at {}", self.time))
                .help("features = [\"NO_NAME\"], tunables = { name = value }, group = \"/path\" with weight or quota, or scx = \"./scx_mine\""));
        }
        let mut tried = Tunables::defaults(Version::v2_6(23));
        self.tunables.iter().try_for_each(|(name, value)| tried.set(name, *value))
    }
    /// Whether it changes the kernel, not only groups or tasks.
    pub fn is_of_kernel(&self) -> bool {
        !self.features.is_empty() || !self.tunables.is_empty()
    }
    /// Applies the change to a kernel.
    ///
    /// # Errors
    /// For an unknown feature or tunable, a tunable out of range, a preemption model that the release lacks, or a
    /// runtime above its period.
    pub fn apply(&self, kernel: &mut Kernel) -> Result<()> {
        if self.tunables.contains_key("preempt") {
            Preempt::check_change(kernel.version)?;
        }
        apply(kernel, &self.features, &self.tunables)
    }
}

fn apply(kernel: &mut Kernel, features: &[String], tunables: &BTreeMap<String, u64>) -> Result<()> {
    for text in features {
        let t = Toggle::parse(text)?;
        kernel.features.switch(t.feature, t.on);
    }
    tunables.iter().try_for_each(|(name, value)| kernel.tunables.set(name, *value))?;
    // Values are set in alphabetical order, so a pair is checked after both are set.
    if tunables.is_empty() {
        return Ok(());
    }
    Preempt::check(kernel)?;
    kernel.tunables.check()
}

/// The first kernel whose tasks can ask for a slice.
pub const SLICES_SINCE: Version = history::came("custom-slices");

pub const RUNNING: &str = "running";

impl Variant {
    pub fn plain(kernel: &str) -> Variant {
        Variant {
            name: kernel.to_owned(),
            kernel: kernel.to_owned(),
            patch: Vec::new(),
            config: None,
            level: Level::Free,
            scx: None,
            features: Vec::new(),
            tunables: BTreeMap::new(),
            tasks: BTreeMap::new(),
            groups: Vec::new(),
            at: Vec::new(),
            settings: BTreeMap::new(),
            migration_cost: None,
            migration_factor: None,
        }
    }
    /// The same variant with current names for old ones of the tunable `preempt` ([`preempt::rename`]).
    ///
    /// # Errors
    /// When old and new names ask for different models.
    pub fn renamed(mut self) -> Result<Variant> {
        let version = Version::parse(&self.kernel).ok();
        let lists = self.at.iter_mut().map(|c| (&mut c.features, &mut c.tunables));
        for (features, tunables) in lists.chain([(&mut self.features, &mut self.tunables)]) {
            preempt::rename(version, features, tunables)?;
        }
        Ok(self)
    }
    /// Whether the system is unchanged; tasks may still have other attributes.
    pub fn is_plain(&self) -> bool {
        let unset = self.settings.is_empty() && self.migration_cost.is_none() && !self.has_schedulers();
        let at = self.at.iter().any(Change::is_of_kernel);
        self.features.is_empty() && self.tunables.is_empty() && !at && unset
    }
    /// Whether a sched_ext scheduler has its tasks, at the start or later.
    pub fn has_schedulers(&self) -> bool {
        let later = self.at.iter().filter_map(|change| change.scx.as_ref());
        self.scx.iter().chain(later).any(|scx| !scx.is_none())
    }
    /// Whether all features, at the start or later, are in the table. Features of a patch need not be.
    pub fn knows_its_features(&self) -> bool {
        let later = self.at.iter().flat_map(|c| &c.features);
        self.features.iter().chain(later).all(|text| Toggle::parse(text).is_ok())
    }
    /// Whether it switches a feature that the release lacks, so that its patches bring it.
    pub fn brings_a_feature(&self, release: Version) -> bool {
        let has = |f: Feature| {
            let backported = BACKPORTED.iter().any(|(feature, of, _)| (*feature, *of) == (f, release));
            backported || f.row().kernels.is_some_and(|span| span.has(release))
        };
        let later = self.at.iter().flat_map(|c| &c.features);
        let all = self.features.iter().chain(later);
        all.filter_map(|text| Toggle::parse(text).ok()).any(|toggle| !has(toggle.feature))
    }
    /// The attributes of a task: `own` from the workload, changed for every task, then for its group.
    pub fn attr_of(&self, name: &str, own: Attr) -> Attr {
        policy::changed(&self.tasks, name, own)
    }
    /// Checks that every group in the variant belongs to a task in `names`.
    ///
    /// # Errors
    /// For a group without a task; the error offers the nearest one.
    pub fn check_groups<'a>(&self, names: impl Iterator<Item = &'a str>) -> Result<()> {
        let groups: BTreeSet<&str> = names.map(group_of).collect();
        let unknown = self.tasks.keys().find(|g| *g != EVERY_TASK && !groups.contains(g.as_str()));
        unknown.map_or(Ok(()), |g| {
            let error = Error::unknown("group of tasks", g, groups.iter().copied());
            Err(error.context(format!("variant '{}'", self.name)))
        })
    }
    /// The kernel to simulate.
    ///
    /// # Errors
    /// For an unknown profile, feature or tunable, a tunable out of range, or a runtime above its period. The message
    /// names the variant.
    pub fn resolve(&self) -> Result<Kernel> {
        let resolve = || {
            let mut kernel = Kernel::profile(&self.kernel)?;
            if self.migration_factor.is_some() && self.migration_cost.is_none() {
                return Err(Error::input("migration_factor changes nothing without migration_cost")
                    .help("migration_cost = \"auto\" has the cutoffs measured"));
            }
            apply(&mut kernel, &self.features, &self.tunables)?;
            if !self.patch.is_empty() {
                let toggles = self.features.iter().map(|f| Toggle::parse(f)).collect::<Result<Vec<_>>>()?;
                kernel.brought = Some(toggles.into_iter().map(|t| t.feature).collect());
            }
            Ok(kernel)
        };
        resolve().map_err(|e: Error| e.context(format!("variant '{}'", self.name)))
    }
    /// The later kernels of a run, each with its starting time.
    ///
    /// # Errors
    /// As [`Variant::resolve`].
    pub fn changes(&self) -> Result<Vec<(Ns, Kernel)>> {
        let mut kernel = self.resolve()?;
        let one = |change: &Change| {
            change.apply(&mut kernel)?;
            Ok((change.time, kernel))
        };
        self.at
            .iter()
            .filter(|change| change.is_of_kernel())
            .map(one)
            .collect::<Result<_>>()
            .map_err(|e: Error| e.context(format!("variant '{}'", self.name)))
    }
    /// Warnings about changes without effect: features, tunables (at the start or later) and slices that the kernel
    /// does not know, and settings, which only live systems have.
    ///
    /// # Errors
    /// As [`Variant::resolve`].
    pub fn without_effect(&self) -> Result<Vec<Warning>> {
        let mut kernel = self.resolve()?;
        let asked = |features: &[String]| -> Result<BTreeSet<Feature>> {
            features.iter().map(|text| Toggle::parse(text).map(|t| t.feature)).collect()
        };
        let mut all = effect::warnings(&self.name, asked(&self.features)?.into_iter(), &kernel);
        all.extend(effect::of_tunables(&self.name, self.tunables.keys(), &kernel));
        for change in &self.at {
            change.apply(&mut kernel)?;
            all.extend(effect::warnings(&self.name, asked(&change.features)?.into_iter(), &kernel));
            all.extend(effect::of_tunables(&self.name, change.tunables.keys(), &kernel));
        }
        if kernel.version < SLICES_SINCE && self.tasks.values().any(|t| t.slice.is_some()) {
            let text = format!(
                "variant '{}' has tasks ask for a slice, which kernels before {SLICES_SINCE} take no notice of",
                self.name
            );
            all.push(Warning::new("variant.slice", text));
        }
        all.extend(effect::of_cutoffs(&self.name, self.migration_cost.is_some(), &kernel));
        if self.level.counts() {
            let text = format!(
                "variant '{}': level '{}' is of the kernel's own code (backend code); our rules have constant costs",
                self.name,
                self.level.word()
            );
            all.push(Warning::new("variant.level", text));
        }
        if let Some(setting) = self.settings.keys().next() {
            let text = format!(
                "variant '{}': settings ({setting}) are of live systems; simulated, they do nothing",
                self.name
            );
            all.push(Warning::new("variant.settings", text));
        }
        Ok(all)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Policy;

    #[test]
    fn a_patch_brings_features_that_the_release_lacks() {
        let brings = |feature: &str, release| {
            Variant { features: vec![feature.to_owned()], ..Variant::plain("6.1") }.brings_a_feature(release)
        };
        let v6_1 = Version::new(6, 1);
        assert!(brings("SIS_FIRST_IDLE", v6_1) && brings("NO_SIS_FIRST_IDLE", v6_1));
        assert!(!brings("NO_SIS_UTIL", v6_1));
        assert!(!brings("NO_NI_RANDOM", v6_1), "a backport");
        assert!(brings("NO_NI_RANDOM", Version::new(6, 5)));
        assert!(!Variant::plain("6.1").brings_a_feature(v6_1));
    }

    #[test]
    fn toggles_apply_in_order_over_the_profile() {
        let mut v = Variant::plain("v4.5");
        v.features = vec!["SIS_FIRST_IDLE".into(), "no_last_buddy".into()];
        v.tunables.insert("hz".into(), 1000);
        let k = v.resolve().unwrap();
        assert!(
            k.features.has(Feature::SisFirstIdle)
                && !k.features.has(Feature::LastBuddy)
                && k.tunables.hz == 1000
        );
    }

    #[test]
    fn changes_in_the_middle_add_up() {
        let mut v = Variant::plain("v2.6.30");
        let change = |at, feature: &str| Change {
            time: Ns::secs(at),
            features: vec![feature.to_owned()],
            ..Change::default()
        };
        v.at = vec![change(10, "NO_NEW_FAIR_SLEEPERS"), change(20, "NO_LAST_BUDDY")];
        let on = |k: &Kernel| [Feature::NewFairSleepers, Feature::LastBuddy].map(|f| k.features.has(f));
        assert_eq!(on(&v.resolve().unwrap()), [true, true]);
        let changes = v.changes().unwrap();
        assert_eq!((changes[0].0, on(&changes[0].1)), (Ns::secs(10), [false, true]));
        assert_eq!((changes[1].0, on(&changes[1].1)), (Ns::secs(20), [false, false]));
    }

    #[test]
    fn features_built_in_at_the_start_do_not_change_later() {
        let change = |feature: &str, tunable: &str, value| Change {
            time: Ns::secs(1),
            features: [feature].iter().filter(|f| !f.is_empty()).map(|f| (*f).to_owned()).collect(),
            tunables: [(tunable.to_owned(), value)].into_iter().filter(|(t, _)| !t.is_empty()).collect(),
            ..Change::default()
        };
        let error = |f, t, v| change(f, t, v).check().unwrap_err().to_string();
        assert!(error("no_sd_shared_all", "", 0).contains("SD_SHARED_ALL can't change in the middle"));
        assert!(error("", "hz", 1000).contains("hz can't change"));
        assert!(error("", "", 0).contains("nothing changes at 1s"));
        assert!(error("", "migration_cost", 1).contains("'migration_cost_ns'"));
        assert!(error("", "nr_migrate", 0).contains("out of range"));
        assert!(change("NO_LAST_BUDDY", "min_granularity_ns", 1_000_000).check().is_ok());
    }

    #[test]
    fn a_pair_that_kernels_refuse_is_refused_also_in_mid_run() {
        let mut v = Variant::plain("v6.1");
        v.tunables.insert("rt_period_ns".into(), 100_000_000);
        let text = v.resolve().unwrap_err().to_string();
        assert!(
            text.contains("variant 'v6.1'") && text.contains("rt_runtime_ns = 950000000 is above"),
            "{text}"
        );
        v.tunables.insert("rt_runtime_ns".into(), 100_000_000);
        assert!(v.resolve().is_ok(), "both are set before they are checked");
        let tunables = [("rt_runtime_ns".to_owned(), 100_000_001)].into();
        v.at.push(Change { time: Ns::secs(1), tunables, ..Change::default() });
        assert!(v.changes().unwrap_err().to_string().contains("rt_runtime_ns = 100000001"));
    }

    #[test]
    fn a_slice_that_the_kernel_ignores_is_reported() {
        let mut v = Variant::plain("v4.5");
        v.tasks.insert("*".into(), AttrChange { slice: Some(Ns::ms(3)), ..AttrChange::default() });
        assert!(v.without_effect().unwrap()[0].message.contains("before v6.12"));
    }

    #[test]
    fn settings_do_nothing_in_the_simulator() {
        let mut v = Variant::plain("v6.18");
        v.settings.insert("autogroup".into(), "0".into());
        let told = v.without_effect().unwrap();
        assert_eq!((told.len(), told[0].code.as_str()), (1, "variant.settings"));
        assert!(told[0].message.contains("autogroup"), "{}", told[0].message);
    }

    #[test]
    fn a_level_does_nothing_in_the_simulator() {
        let mut v = Variant::plain("v6.1");
        v.level = Level::Woven;
        let warnings = v.without_effect().unwrap();
        assert_eq!((warnings.len(), warnings[0].code.as_str()), (1, "variant.level"));
        assert!(warnings[0].message.contains("'woven'"), "{}", warnings[0].message);
    }

    #[test]
    fn tasks_are_named_by_group() {
        let mut v = Variant::plain("v6.5");
        let change = |policy, nice| AttrChange { policy, nice, slice: None };
        v.tasks.insert("*".into(), change(None, Some(3)));
        v.tasks.insert("hog".into(), change(Some(Policy::Batch), None));
        assert_eq!(v.attr_of("hog/1", Attr::default()), Attr { policy: Policy::Batch, ..Attr::nice(3) });
        assert_eq!(v.attr_of("waker", Attr::nice(1)), Attr::nice(3));
        assert!(v.check_groups(["hog/0", "waker"].into_iter()).is_ok());
        let error = v.check_groups(["hogs/0", "waker"].into_iter()).unwrap_err().to_string();
        assert!(error.contains("'hogs'"), "{error}");
    }

    #[test]
    fn an_error_names_the_variant_and_the_nearest_feature() {
        let mut v = Variant::plain("v4.5");
        v.features = vec!["NO_GENTLE_FAIR_SLEPERS".into()];
        let text = v.resolve().unwrap_err().to_string();
        assert!(text.contains("variant 'v4.5'") && text.contains("GENTLE_FAIR_SLEEPERS"), "{text}");
        assert!(Variant::plain("v9.9").resolve().is_err());
    }
}
