//! Profiles: the kernels the simulator models, by version.

use crate::{FeatureSet, Tunables};
use schedlab_base::{Error, Result, Version};
use serde::{Deserialize, Serialize};

/// A kernel that can be simulated.
#[derive(Debug)]
pub struct Profile {
    /// Its version.
    pub version: Version,
    /// One line: what is modelled and what is not.
    pub about: &'static str,
}

/// Every profile.
pub const PROFILES: &[Profile] = &[
    Profile {
        version: Version::new(3, 4),
        about: "CFS, cpu_load[] balancing, whole-idle-group wakeup search",
    },
    Profile {
        version: Version::new(4, 5),
        about: "CFS with PELT, group search that passes over the target's group",
    },
    Profile {
        version: Version::new(6, 5),
        about: "last CFS: WA_IDLE/WA_WEIGHT, idle core/CPU/sibling search, SIS_UTIL; balances by spare capacity; D001's features",
    },
];

/// A kernel with everything resolved: what a run runs under.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Kernel {
    /// Its version.
    pub version: Version,
    /// Features that are on.
    pub features: FeatureSet,
    /// Tunables.
    pub tunables: Tunables,
}

impl Kernel {
    /// A profile with its defaults.
    pub fn of(version: Version) -> Kernel {
        Kernel { version, features: FeatureSet::defaults(version), tunables: Tunables::defaults(version) }
    }
    /// The profile of that name ("v4.5").
    ///
    /// # Errors
    /// When no such profile is modelled.
    pub fn profile(name: &str) -> Result<Kernel> {
        let known: Vec<String> = PROFILES.iter().map(|p| p.version.to_string()).collect();
        Version::parse(name)
            .ok()
            .filter(|v| PROFILES.iter().any(|p| p.version == *v))
            .map(Kernel::of)
            .ok_or_else(|| {
                Error::input(format!("no simulated kernel '{name}'"))
                    .help(format!("there are: {}", known.join(", ")))
            })
    }
}
