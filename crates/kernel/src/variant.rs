//! Variants: a kernel plus what is changed about it.

use crate::policy::{AttrChange, EVERY_TASK, group_of};
use crate::{Attr, Feature, Kernel, effect};
use schedlab_base::{Error, Ns, Result, Warning};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};

/// A feature switched on (`NAME`) or off (`NO_NAME`).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Toggle {
    /// The feature.
    pub feature: Feature,
    /// Its new state.
    pub on: bool,
}

impl Toggle {
    /// Reads `NAME` or `NO_NAME`, in any case.
    ///
    /// # Errors
    /// When no feature has the name.
    pub fn parse(text: &str) -> Result<Toggle> {
        let upper = text.trim().to_ascii_uppercase();
        match upper.strip_prefix("NO_") {
            Some(name) => Ok(Toggle { feature: Feature::parse(name)?, on: false }),
            None => Ok(Toggle { feature: Feature::parse(&upper)?, on: true }),
        }
    }
}

/// A named variant of a kernel, as an experiment states it.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Variant {
    /// Name in tables.
    pub name: String,
    /// The kernel's profile ("v4.5"), or `running` for the live one.
    pub kernel: String,
    /// Feature toggles in order: `SIS_FIRST_IDLE`, `NO_LAST_BUDDY`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub features: Vec<String>,
    /// Tunables by name.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub tunables: BTreeMap<String, u64>,
    /// Attributes of the workload's tasks by group of tasks ([`group_of`]) or [`EVERY_TASK`]; of a command, the latter.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub tasks: BTreeMap<String, AttrChange>,
    /// What is switched while a run goes on, in the order of time.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub at: Vec<Change>,
    /// Settings of a live system beside features and tunables, by name ("governor", "numa_balancing").
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub settings: BTreeMap<String, String>,
}

/// Features and tunables that change in the middle of a run.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Change {
    /// When, counted from the end of the warm-up.
    pub time: Ns,
    /// Feature toggles in order.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub features: Vec<String>,
    /// Tunables by name.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub tunables: BTreeMap<String, u64>,
}

impl Change {
    /// Makes the change to a kernel.
    ///
    /// # Errors
    /// Unknown feature or tunable, or a tunable out of range.
    pub fn apply(&self, kernel: &mut Kernel) -> Result<()> {
        apply(kernel, &self.features, &self.tunables)
    }
}

fn apply(kernel: &mut Kernel, features: &[String], tunables: &BTreeMap<String, u64>) -> Result<()> {
    for text in features {
        let t = Toggle::parse(text)?;
        kernel.features.switch(t.feature, t.on);
    }
    tunables.iter().try_for_each(|(name, value)| kernel.tunables.set(name, *value))
}

/// The word for the kernel that is running.
pub const RUNNING: &str = "running";

impl Variant {
    /// A plain kernel.
    pub fn plain(kernel: &str) -> Variant {
        Variant {
            name: kernel.to_owned(),
            kernel: kernel.to_owned(),
            features: Vec::new(),
            tunables: BTreeMap::new(),
            tasks: BTreeMap::new(),
            at: Vec::new(),
            settings: BTreeMap::new(),
        }
    }
    /// Whether nothing is changed about the system; its tasks may still be of another policy.
    pub fn is_plain(&self) -> bool {
        self.features.is_empty() && self.tunables.is_empty() && self.at.is_empty() && self.settings.is_empty()
    }
    /// The attributes of a task that the workload gives `own`: those for every task, then those for its group.
    pub fn attr_of(&self, name: &str, own: Attr) -> Attr {
        let changes = [EVERY_TASK, group_of(name)].map(|group| self.tasks.get(group));
        changes.into_iter().flatten().fold(own, |attr, change| change.over(attr))
    }
    /// Checks that every group the variant names is one of `names`' groups.
    ///
    /// # Errors
    /// A group without a task; the nearest one is offered.
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
    /// Unknown profile, feature or tunable, or a tunable out of range; the variant is named.
    pub fn resolve(&self) -> Result<Kernel> {
        let resolve = || {
            let mut kernel = Kernel::profile(&self.kernel)?;
            apply(&mut kernel, &self.features, &self.tunables)?;
            Ok(kernel)
        };
        resolve().map_err(|e: Error| e.context(format!("variant '{}'", self.name)))
    }
    /// The kernels that a run goes through: each with the time from which on it holds, after the first one.
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
            .map(one)
            .collect::<Result<_>>()
            .map_err(|e: Error| e.context(format!("variant '{}'", self.name)))
    }
    /// Warnings about features that it switches on and that do nothing in its kernel.
    ///
    /// # Errors
    /// As [`Variant::resolve`].
    pub fn without_effect(&self) -> Result<Vec<Warning>> {
        let kernel = self.resolve()?;
        let asked: BTreeSet<Feature> =
            self.features.iter().map(|text| Toggle::parse(text).map(|t| t.feature)).collect::<Result<_>>()?;
        Ok(effect::warnings(&self.name, asked.into_iter(), &kernel))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Policy;

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
            tunables: BTreeMap::new(),
        };
        v.at = vec![change(10, "NO_NEW_FAIR_SLEEPERS"), change(20, "NO_LAST_BUDDY")];
        let on = |k: &Kernel| [Feature::NewFairSleepers, Feature::LastBuddy].map(|f| k.features.has(f));
        assert_eq!(on(&v.resolve().unwrap()), [true, true]);
        let changes = v.changes().unwrap();
        assert_eq!((changes[0].0, on(&changes[0].1)), (Ns::secs(10), [false, true]));
        assert_eq!((changes[1].0, on(&changes[1].1)), (Ns::secs(20), [false, false]));
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
