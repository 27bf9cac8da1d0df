//! The reference of features and tunables: every row of both tables as one value, with the defaults of each profile.
//!
//! Help, `schedlab kernel features`, its JSON and docs/features.md are made from it. It has no facts of its own.

use crate::feature::{FEATURES, FeatureRow};
use crate::origin::{Source, Span};
use crate::tunable::{TUNABLES, TunableRow};
use crate::{Feature, Kernel, PROFILES, Toggle, effect, preempt};
use schedlab_base::{Error, Result, Version};
use serde::Serialize;
use std::fmt;

#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
#[serde(untagged)]
pub enum Setting {
    Switch(bool),
    /// A tunable's value, in the unit its name ends with.
    Number(u64),
    /// The value of a tunable whose values have names.
    Word(&'static str),
}

impl fmt::Display for Setting {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Setting::Switch(true) => f.write_str("on"),
            Setting::Switch(false) => f.write_str("off"),
            Setting::Number(n) => write!(f, "{n}"),
            Setting::Word(word) => f.write_str(word),
        }
    }
}

/// Neighbouring profiles with the same default.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
pub struct Default {
    pub first: Version,
    pub last: Version,
    pub value: Setting,
}

impl fmt::Display for Default {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.first == self.last {
            write!(f, "{}", self.first)
        } else {
            write!(f, "{}..{}", self.first, self.last)
        }
    }
}

#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct Entry {
    /// A feature's name is in upper case; a tunable's ends with its unit.
    pub name: &'static str,
    /// "feature" or "tunable".
    pub kind: &'static str,
    /// Its effect, one sentence.
    pub about: &'static str,
    /// The owner of the name: "kernel", "patch" or "schedlab".
    pub source: &'static str,
    /// The kernel's file, call, code or patch; "" if `source` says everything.
    pub source_text: &'static str,
    pub released: bool,
    /// The first release with it; `None`: since before the oldest profile, or in no release.
    pub since: Option<Version>,
    /// The first release after its end; `None`: the newest still has it, or none ever had it.
    pub until: Option<Version>,
    /// Trees in which this was read.
    pub read: &'static str,
    /// Defaults, oldest profile first, without profiles whose kernel lacks the tunable.
    pub defaults: Vec<Default>,
    /// Versions whose simulated code asks for it.
    pub acts: Span,
    /// Another feature that must be on.
    pub leans_on: Option<&'static str>,
    /// Features that it switches off when it is on.
    pub excludes: Vec<&'static str>,
    /// Smallest and largest value, for a tunable.
    pub range: Option<(u64, u64)>,
    /// Names of a tunable's values, from 0 on.
    #[serde(skip_serializing_if = "<[_]>::is_empty")]
    pub words: &'static [&'static str],
}

impl Entry {
    /// The releases that have the name, in words.
    pub fn releases(&self) -> String {
        match (self.released, self.since, self.until) {
            (false, ..) => "none".to_owned(),
            (_, None, None) => "all".to_owned(),
            (_, Some(since), None) => format!("from {since}"),
            (_, None, Some(until)) => format!("before {until}"),
            (_, Some(since), Some(until)) => format!("from {since}, before {until}"),
        }
    }
    fn feature(row: &'static FeatureRow) -> Entry {
        let (acts, other) = effect::acts(row.feature);
        let rivals = |r: &&FeatureRow| !row.group.is_empty() && r.group == row.group && r.name != row.name;
        Entry {
            name: row.name,
            kind: "feature",
            about: row.about,
            source: row.source.word(),
            source_text: source_text(row.source, "sched/features"),
            released: row.kernels.is_some(),
            since: row.kernels.and_then(|k| k.since),
            until: row.kernels.and_then(|k| k.until),
            read: row.read,
            defaults: by_profile(|kernel| Some(Setting::Switch(kernel.features.has(row.feature)))),
            acts,
            leans_on: other.map(Feature::name),
            excludes: FEATURES.iter().filter(rivals).map(|r| r.name).collect(),
            range: None,
            words: &[],
        }
    }
    fn tunable(row: &'static TunableRow) -> Entry {
        // Every simulated kernel has schedlab's own tunables.
        let acts = row.kernels.unwrap_or(Span::ALL);
        let value = |kernel: &Kernel| {
            let value = kernel.tunables.get(row.name).filter(|_| acts.has(kernel.version))?;
            Some(row.words().get(value as usize).map_or(Setting::Number(value), |word| Setting::Word(word)))
        };
        Entry {
            name: row.name,
            kind: "tunable",
            about: row.about,
            source: row.source.word(),
            source_text: source_text(row.source, ""),
            released: row.kernels.is_some(),
            since: row.kernels.and_then(|k| k.since),
            until: row.kernels.and_then(|k| k.until),
            read: row.read,
            defaults: by_profile(value),
            acts,
            leans_on: None,
            excludes: Vec::new(),
            range: Some(row.range),
            words: row.words(),
        }
    }
    /// Whether it may act in the simulated kernel of that version.
    pub fn is_in(&self, version: Version) -> bool {
        self.acts.has(version)
    }
    pub fn value(&self, version: Version) -> Option<Setting> {
        self.defaults.iter().find(|d| d.first <= version && version <= d.last).map(|d| d.value)
    }
}

fn source_text(source: Source, word: &'static str) -> &'static str {
    match (source, source.words()) {
        (Source::Kernel(_), "") => word,
        (_, words) => words,
    }
}

/// The defaults of all profiles. Neighbours with the same value are merged.
fn by_profile(value: impl Fn(&Kernel) -> Option<Setting>) -> Vec<Default> {
    let mut all: Vec<Default> = Vec::new();
    let mut gap = true;
    for profile in PROFILES {
        let Some(value) = value(&Kernel::of(profile.version)) else {
            gap = true;
            continue;
        };
        match all.last_mut().filter(|d| !gap && d.value == value) {
            Some(before) => before.last = profile.version,
            None => all.push(Default { first: profile.version, last: profile.version, value }),
        }
        gap = false;
    }
    all
}

/// Every feature, then every tunable, in table order.
pub fn all() -> Vec<Entry> {
    FEATURES.iter().map(Entry::feature).chain(TUNABLES.iter().map(Entry::tunable)).collect()
}

/// The entries that may act in a profile's kernel.
pub fn of(version: Version) -> Vec<Entry> {
    all().into_iter().filter(|e| e.is_in(version)).collect()
}

/// The feature or tunable with that name, in any case; `NO_` before a feature is ignored.
///
/// # Errors
/// When there is none; the error offers the nearest name.
pub fn find(name: &str) -> Result<Entry> {
    let name = if preempt::is_old_feature(name) || name == preempt::OLD_TUNABLE { "preempt" } else { name };
    let feature = Toggle::parse(name).ok().map(|t| t.feature.name());
    let same = |e: &Entry| feature == Some(e.name) || e.name.eq_ignore_ascii_case(name.trim());
    let known = all();
    let found = known.iter().find(|e| same(e)).cloned();
    found.ok_or_else(|| Error::unknown("feature or tunable", name, known.iter().map(|e| e.name)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::preempt::Preempt;

    fn told(name: &str) -> Vec<String> {
        find(name).unwrap().defaults.iter().map(|d| format!("{d} {}", d.value)).collect()
    }

    #[test]
    fn defaults_are_those_of_the_profiles_with_neighbours_together() {
        assert_eq!(told("GENTLE_FAIR_SLEEPERS"), ["v2.6.12..v2.6.30 off", "v3.4..v6.5 on", "v6.6..v7.3 off"]);
        assert_eq!(told("no_ni_random")[1..], ["v6.1 on", "v6.5..v6.6 off", "v6.12..v7.3 on"]);
        assert_eq!(told("sched_latency_ns"), ["v2.6.27..v2.6.30 20000000", "v3.4..v6.5 6000000"]);
        assert_eq!(told("base_slice_ns"), ["v6.6 750000", "v6.12..v7.3 700000"]);
        for entry in all() {
            for profile in PROFILES {
                let kernel = Kernel::of(profile.version);
                let value = match Feature::parse(entry.name) {
                    Ok(f) => Some(Setting::Switch(kernel.features.has(f))),
                    Err(_) if entry.name == "preempt" => Some(Setting::Word(Preempt::of(&kernel).word())),
                    Err(_) => kernel.tunables.get(entry.name).map(|n| {
                        entry.words.get(n as usize).map_or(Setting::Number(n), |word| Setting::Word(word))
                    }),
                };
                let stated = entry.value(profile.version);
                assert!(
                    stated == value || stated.is_none() && !entry.is_in(profile.version),
                    "{}",
                    entry.name
                );
            }
        }
    }

    #[test]
    fn the_default_of_a_tunable_with_words_is_a_word() {
        assert_eq!(told("preempt"), ["v2.6.12 none", "v2.6.18..v6.18 voluntary", "v7.3 lazy"]);
    }

    #[test]
    fn a_profile_has_what_its_code_asks_for() {
        let names = |v: Version| of(v).iter().map(|e| e.name).collect::<Vec<_>>();
        let (v65, v73) = (names(Version::new(6, 5)), names(Version::new(7, 3)));
        assert!(
            v65.contains(&"SIS_UTIL") && v65.contains(&"ILB_FAST") && v65.contains(&"min_granularity_ns")
        );
        assert!(!v65.contains(&"PLACE_LAG") && !v65.contains(&"base_slice_ns"));
        assert!(
            v73.contains(&"PLACE_LAG") && !v73.contains(&"ALT_PERIOD") && !v73.contains(&"sched_latency_ns")
        );
    }

    #[test]
    fn one_is_found_by_any_spelling_and_a_wrong_one_gets_the_nearest() {
        assert_eq!(find("no_sis_util").unwrap().name, "SIS_UTIL");
        assert_eq!(find("HZ").unwrap().name, "hz");
        assert_eq!(find("SIS_CORE").unwrap().excludes, ["SIS_GROUP", "SIS_FIRST_IDLE", "SIS_WAKE_IDLE"]);
        assert!(find("SIS_UTLI").unwrap_err().to_string().contains("'SIS_UTIL'"));
        assert!(find("migration_cost").unwrap_err().to_string().contains("'migration_cost_ns'"));
        assert!(find("bananas").is_err());
    }
}
