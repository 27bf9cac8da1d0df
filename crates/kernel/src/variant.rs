//! Variants: a kernel plus what is changed about it.

use crate::{Feature, Kernel, effect};
use schedlab_base::{Result, Warning};
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
        }
    }
    /// Whether nothing is changed about the kernel.
    pub fn is_plain(&self) -> bool {
        self.features.is_empty() && self.tunables.is_empty()
    }
    /// The kernel to simulate.
    ///
    /// # Errors
    /// Unknown profile, feature or tunable, or a tunable out of range; the variant is named.
    pub fn resolve(&self) -> Result<Kernel> {
        let resolve = || {
            let mut kernel = Kernel::profile(&self.kernel)?;
            for text in &self.features {
                let t = Toggle::parse(text)?;
                kernel.features.switch(t.feature, t.on);
            }
            for (name, value) in &self.tunables {
                kernel.tunables.set(name, *value)?;
            }
            Ok(kernel)
        };
        resolve().map_err(|e: schedlab_base::Error| e.context(format!("variant '{}'", self.name)))
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
    fn an_error_names_the_variant_and_the_nearest_feature() {
        let mut v = Variant::plain("v4.5");
        v.features = vec!["NO_GENTLE_FAIR_SLEPERS".into()];
        let text = v.resolve().unwrap_err().to_string();
        assert!(text.contains("variant 'v4.5'") && text.contains("GENTLE_FAIR_SLEEPERS"), "{text}");
        assert!(Variant::plain("v9.9").resolve().is_err());
    }
}
