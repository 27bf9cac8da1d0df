//! Profiles: the kernels the simulator models, by version.

use crate::preempt::Preempt;
use crate::stored::Stored;
use crate::{Cutoffs, FeatureSet, Tunables};
use schedlab_base::{Error, Result, Version};
use serde::{Deserialize, Serialize};

#[derive(Debug)]
pub struct Profile {
    pub version: Version,
    /// One line: the modelled mechanisms and the missing ones.
    pub about: &'static str,
}

macro_rules! profiles {
    ($($version:expr => $about:literal;)*) => {
        pub const PROFILES: &[Profile] = &[$(Profile { version: $version, about: $about },)*];
    };
}

profiles! {
    Version::v2_6(12) => "O(1) scheduler, D003's: arrays, interactivity bonus, wake_idle, cache_hot_time by domain, ticks and timers of jiffies; real-time tasks are pushed and pulled as in later kernels; without SMT nice (dependent_sleeper)";
    Version::v2_6(18) => "O(1) scheduler of D002's guest: as 2.6.12, with loads by slices (smpnice), three load averages and SCHED_BATCH; cache_hot_time is set, not measured at boot; without SMT nice, power-saving policies and priority inheritance";
    Version::v2_6(27) => "CFS of SLE11, on which D004's test ran: a `next` buddy only; its wakeup_granularity and buddies are unverified";
    Version::v2_6(30) => "CFS with NEW_FAIR_SLEEPERS, ADAPTIVE_GRAN, `next` and `last` buddies, slices ended by the tick alone";
    Version::new(3, 4) => "CFS, cpu_load[] balancing, whole-idle-group wakeup search";
    Version::new(4, 5) => "CFS with PELT, group search that passes over the target's group";
    Version::new(4, 14) => "CFS of its long-term series, balances by average load as 4.5: core search with SIS_PROP, early WA_IDLE/WA_WEIGHT; its quota starves queues that were throttled first";
    Version::new(4, 19) => "CFS of RHEL 8's time, balances by average load with the loads of 4.5: WA_IDLE/WA_WEIGHT as in 5.4, UTIL_EST, short naps keep the tick; its quota loses the rests of slices";
    Version::new(5, 4) => "last kernel that balances by average load: WA_IDLE/WA_WEIGHT, idle core/CPU/sibling search, SIS_PROP";
    Version::new(5, 10) => "CFS, balances by spare capacity with the rules of 6.5 (NUMA imbalances and active balance were others); separate searches with SIS_PROP; unverified";
    Version::new(5, 15) => "CFS as 5.10, with one search for core or CPU, ALT_PERIOD and BASE_SLICE; newidle still gated by sched_migration_cost; unverified";
    Version::new(5, 19) => "CFS as 5.15, with newidle passes by cost; the last whose scan is bounded by SIS_PROP";
    Version::new(6, 1) => "CFS as 6.5, as in 6.1.192: with newidle passes at random (NI_RANDOM), which that stable tree backported";
    Version::new(6, 5) => "last CFS: WA_IDLE/WA_WEIGHT, idle core/CPU/sibling search, SIS_UTIL; balances by spare capacity; D001's features";
    Version::new(6, 6) => "first EEVDF: lag, RUN_TO_PARITY to the deadline, no custom slices, no delayed dequeue; without the backports of stable 6.6; picks and balances as 6.12; unverified";
    Version::new(6, 12) => "EEVDF as in 6.12.117 (0.70 ms slices, a yield moves vruntime): lag, custom slices, RUN_TO_PARITY to the deadline, DELAY_DEQUEUE, PREEMPT_SHORT";
    Version::new(6, 18) => "EEVDF with slice protection as in 7.3, resched at once; lag limited as in 6.12 (unverified); balances as 7.3 but for find_new_ilb and SD_SERIALIZE (unverified)";
    Version::new(7, 3) => "EEVDF with flat picking, protection by the queue's smallest slice, HRTICK, lazy preemption, as in 7.3.4; without its balancing by cache (SCHED_CACHE)";
}

/// The stable release that a profile follows, with the mechanisms backported to it. `None`: the profile follows the
/// first release of its series, or this is not known.
pub fn release(profile: Version) -> Option<&'static str> {
    RELEASES.iter().find(|(version, _)| *version == profile).map(|(_, release)| *release)
}

const RELEASES: &[(Version, &str)] =
    &[(Version::new(6, 1), "6.1.192"), (Version::new(6, 12), "6.12.117"), (Version::new(7, 3), "7.3.4")];

/// The profile for a kernel of that version: the newest that is not newer, or the oldest for still older kernels.
pub fn nearest(version: Version) -> Version {
    let known = || PROFILES.iter().map(|p| p.version);
    known().filter(|v| *v <= version).max().or_else(|| known().min()).unwrap_or(DEFAULT_PROFILE)
}

/// The default profile on machines other than this host: the last CFS, with which most of the model was checked.
pub const DEFAULT_PROFILE: Version = Version::new(6, 5);

/// A kernel with everything resolved, for a run.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(from = "StoredKernel")]
pub struct Kernel {
    pub version: Version,
    pub features: FeatureSet,
    pub tunables: Tunables,
    /// The time for which tasks stay cache hot, by distance; `None`: from the tunables.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cutoffs: Option<Cutoffs>,
    /// Features that the variant's patches bring: the kernel asks for them in any version. `None`: no patches.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub brought: Option<FeatureSet>,
}

/// The form in records. Records of 0.2 have the lazy model as a feature.
#[derive(Deserialize)]
struct StoredKernel {
    version: Version,
    features: Stored,
    tunables: Tunables,
    #[serde(default)]
    cutoffs: Option<Cutoffs>,
    #[serde(default)]
    brought: Option<FeatureSet>,
}

impl From<StoredKernel> for Kernel {
    fn from(stored: StoredKernel) -> Kernel {
        let StoredKernel { version, features, mut tunables, cutoffs, brought } = stored;
        if features.lazy {
            tunables.preempt = Preempt::Lazy as u64;
        }
        Kernel { version, features: features.on, tunables, cutoffs, brought }
    }
}

impl Kernel {
    pub fn of(version: Version) -> Kernel {
        let (features, tunables) = (FeatureSet::defaults(version), Tunables::defaults(version));
        Kernel { version, features, tunables, cutoffs: None, brought: None }
    }
    /// The profile with that name ("v4.5").
    ///
    /// # Errors
    /// When there is no such profile.
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_nearest_profile_is_never_newer_unless_all_are() {
        let of = |text: &str| nearest(Version::parse(text).unwrap()).to_string();
        assert_eq!(
            ["6.18.44-fc", "6.17", "6.5.13", "6.4", "99.0"].map(of),
            ["v6.18", "v6.12", "v6.5", "v6.1", "v7.3"]
        );
        assert_eq!(
            ["5.3", "5.14", "6.0", "6.6.87", "6.11"].map(of),
            ["v4.19", "v5.10", "v5.19", "v6.6", "v6.6"]
        );
        assert_eq!(
            ["2.6.9", "2.6.17", "2.6.18", "2.6.26"].map(of),
            ["v2.6.12", "v2.6.12", "v2.6.18", "v2.6.18"]
        );
        assert_eq!(["2.6.29", "4.13", "4.15.18"].map(of), ["v2.6.27", "v4.5", "v4.14"]);
    }
}
