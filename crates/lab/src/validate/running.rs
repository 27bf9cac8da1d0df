//! The configuration of the running kernel, read or measured, so that a host case simulates this kernel.
//!
//! The version's text tells whether the kernel was built to be preempted. The length of a tick is the resolution of the
//! coarse clock. The slice and the preemption model are read in debugfs if it has them (from 5.13 on). Else the model
//! is read from the command line (`preempt=`) and from the config, if there is a text file of it. Values that can't be
//! known are the profile's.

use schedlab_kernel::{Feature, Kernel, Variant};
use schedlab_native::jiffy;
use schedlab_record::environment::capture;
use std::collections::BTreeMap;

/// The known values.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Running {
    /// Ticks a second.
    hz: Option<u64>,
    /// Slice in force for a task that asks for none, ns.
    base_slice_ns: Option<u64>,
    /// Whether fair preemptions are lazy.
    lazy: Option<bool>,
    /// Whether the kernel was built to be preempted.
    preemption: Option<bool>,
}

impl Running {
    /// The values of this kernel.
    pub fn here() -> Running {
        let read = |path: &str| std::fs::read_to_string(path).unwrap_or_default();
        let release = read("/proc/sys/kernel/osrelease");
        let release = release.trim();
        let places = [format!("/boot/config-{release}"), format!("/lib/modules/{release}/config")];
        let config = places.iter().map(|p| read(p)).find(|text| !text.is_empty()).unwrap_or_default();
        Running::of(jiffy().0, &capture(), &read("/proc/cmdline"), &config, &read("/proc/sys/kernel/version"))
    }

    fn of(
        jiffy_ns: u64,
        told: &BTreeMap<String, String>,
        command_line: &str,
        config: &str,
        build: &str,
    ) -> Running {
        let model = told.get("sched.preempt").and_then(|text| {
            text.split_whitespace().find_map(|w| w.strip_prefix('(')?.strip_suffix(')')).map(str::to_owned)
        });
        let asked = command_line.split_whitespace().filter_map(|w| w.strip_prefix("preempt=")).next_back();
        let built = || {
            let has = |option: &str| config.lines().any(|line| line == option);
            (!config.is_empty()).then(|| has("CONFIG_PREEMPT_LAZY=y"))
        };
        let lazy = model.as_deref().or(asked).map(|model| model == "lazy");
        // What was built is also in the version's text: PREEMPT, PREEMPT_DYNAMIC, PREEMPT_RT.
        let preemption = build.split_whitespace().any(|w| w.starts_with("PREEMPT"));
        Running {
            // A tick may be some ns off a part of a second.
            hz: (1_000_000_000 + jiffy_ns / 2).checked_div(jiffy_ns),
            base_slice_ns: told.get("sched.base_slice_ns").and_then(|ns| ns.parse().ok()),
            lazy: lazy.or_else(built),
            preemption: (!build.trim().is_empty()).then_some(preemption),
        }
    }

    /// Applies the values to a simulated variant on `nr_cpus` CPUs.
    pub fn apply(&self, kernel: &Kernel, nr_cpus: usize, variant: &mut Variant) {
        let mut set = |name: &str, value: u64| _ = variant.tunables.insert(name.to_owned(), value);
        if let Some(hz) = self.hz {
            set("hz", hz);
        }
        if let Some(slice) = self.base_slice_ns.and_then(|ns| ns.checked_div(kernel.tunables.factor(nr_cpus)))
        {
            set("base_slice_ns", slice);
        }
        if let Some(preemption) = self.preemption {
            set("preemption", preemption.into());
        }
        match self.lazy {
            Some(lazy) if lazy != kernel.features.has(Feature::PreemptLazy) => {
                let name = Feature::PreemptLazy.name();
                variant.features.push(if lazy { name.to_owned() } else { format!("NO_{name}") });
            }
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn told(pairs: &[(&str, &str)]) -> BTreeMap<String, String> {
        pairs.iter().map(|(k, v)| ((*k).to_owned(), (*v).to_owned())).collect()
    }

    #[test]
    fn what_the_kernel_tells_goes_before_its_command_line_and_that_before_its_config() {
        let lazy = |told: &BTreeMap<_, _>, line, config| Running::of(4_000_000, told, line, config, "").lazy;
        let none = told(&[]);
        assert_eq!(lazy(&told(&[("sched.preempt", "none (full) lazy")]), "preempt=lazy", ""), Some(false));
        assert_eq!(lazy(&none, "quiet preempt=lazy", "CONFIG_PREEMPT_NONE=y\n"), Some(true));
        assert_eq!(lazy(&none, "quiet", "CONFIG_PREEMPT_LAZY=y\n"), Some(true));
        assert_eq!(lazy(&none, "quiet", "# CONFIG_PREEMPT_LAZY is not set\n"), Some(false));
        assert_eq!(lazy(&none, "quiet", ""), None);
    }

    #[test]
    fn the_simulated_kernel_has_the_running_ones_ticks_and_slices() {
        let known = Running::of(
            1_000_000,
            &told(&[("sched.base_slice_ns", "3000000")]),
            "preempt=lazy",
            "",
            "#1 SMP PREEMPT_DYNAMIC",
        );
        let kernel = Kernel::profile("v6.18").unwrap();
        let mut variant = Variant::plain("v6.18");
        known.apply(&kernel, 2, &mut variant);
        let simulated = variant.resolve().unwrap();
        assert_eq!((simulated.tunables.hz, simulated.tunables.base_slice_ns), (1_000, 1_500_000));
        assert!(simulated.features.has(Feature::PreemptLazy));
        let mut unchanged = Variant::plain("v6.18");
        Running::default().apply(&kernel, 2, &mut unchanged);
        assert_eq!(unchanged.resolve().unwrap(), kernel);
    }

    #[test]
    fn the_versions_text_tells_whether_the_kernel_was_built_to_be_preempted() {
        let built = |text| Running::of(4_000_000, &told(&[]), "", "", text).preemption;
        assert_eq!(built("#1 SMP PREEMPT_DYNAMIC Debian 6.1.192-1 (2026-01-01)"), Some(true));
        assert_eq!((built("#1 SMP Debian 5.10.1-1\n"), built("")), (Some(false), None));
    }
}
