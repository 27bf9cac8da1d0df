//! The configuration of the running kernel, read or measured, so that a host case simulates this kernel.
//!
//! The length of a tick is the resolution of the coarse clock. The slice and the preemption model are read from debugfs
//! if it has them (from 5.13 on). Otherwise the model is read from the command line (`preempt=`), from the config if
//! there is a text file of it, and from the version's text, which names the full model of kernels without a choice.
//! Unknown values are the profile's.

use schedlab_kernel::preempt::Preempt;
use schedlab_kernel::{Kernel, Variant};
use schedlab_native::jiffy;
use schedlab_record::environment::capture;
use std::collections::BTreeMap;

/// The known values.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Running {
    /// Ticks a second.
    hz: Option<u64>,
    /// The present slice of a task that asks for none, ns.
    base_slice_ns: Option<u64>,
    /// The preemption model.
    model: Option<Preempt>,
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
        environment: &BTreeMap<String, String>,
        command_line: &str,
        config: &str,
        build: &str,
    ) -> Running {
        let model = environment.get("sched.preempt").and_then(|text| {
            text.split_whitespace().find_map(|w| w.strip_prefix('(')?.strip_suffix(')')).map(str::to_owned)
        });
        let asked = command_line.split_whitespace().filter_map(|w| w.strip_prefix("preempt=")).next_back();
        let built =
            || MODELS.iter().find(|(option, _)| config.lines().any(|line| line == *option)).map(|m| m.1);
        // The version's text names the built-in model, except none and voluntary: PREEMPT, PREEMPT_DYNAMIC, PREEMPT_RT.
        let full = || build.split_whitespace().any(|w| w == "PREEMPT").then_some(Preempt::Full);
        let said = model.as_deref().or(asked).and_then(Preempt::parse);
        Running {
            // A tick may differ by some ns from a fraction of a second.
            hz: (1_000_000_000 + jiffy_ns / 2).checked_div(jiffy_ns),
            base_slice_ns: environment.get("sched.base_slice_ns").and_then(|ns| ns.parse().ok()),
            model: said.or_else(built).or_else(full),
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
        if let Some(model) = self.model.filter(|m| m.releases().has(kernel.version)) {
            set("preempt", model as u64);
        }
    }
}

/// The options of a kernel's configuration, and the models that they build in or make the default.
const MODELS: [(&str, Preempt); 4] = [
    ("CONFIG_PREEMPT_NONE=y", Preempt::None),
    ("CONFIG_PREEMPT_VOLUNTARY=y", Preempt::Voluntary),
    ("CONFIG_PREEMPT=y", Preempt::Full),
    ("CONFIG_PREEMPT_LAZY=y", Preempt::Lazy),
];

#[cfg(test)]
mod tests {
    use super::*;

    fn told(pairs: &[(&str, &str)]) -> BTreeMap<String, String> {
        pairs.iter().map(|(k, v)| ((*k).to_owned(), (*v).to_owned())).collect()
    }

    #[test]
    fn debugfs_overrides_the_command_line_and_that_the_config() {
        let model =
            |told: &BTreeMap<_, _>, line, config| Running::of(4_000_000, told, line, config, "").model;
        let none = told(&[]);
        let read = told(&[("sched.preempt", "none (full) lazy")]);
        assert_eq!(model(&read, "preempt=lazy", ""), Some(Preempt::Full));
        assert_eq!(model(&none, "quiet preempt=lazy", "CONFIG_PREEMPT_NONE=y\n"), Some(Preempt::Lazy));
        assert_eq!(model(&none, "quiet", "CONFIG_PREEMPT_VOLUNTARY=y\n"), Some(Preempt::Voluntary));
        assert_eq!(model(&none, "quiet", "# CONFIG_PREEMPT_LAZY is not set\n"), None);
        assert_eq!(model(&none, "quiet", ""), None);
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
        assert_eq!(Preempt::of(&simulated), Preempt::Lazy);
        let mut unchanged = Variant::plain("v6.18");
        Running::default().apply(&kernel, 2, &mut unchanged);
        assert_eq!(unchanged.resolve().unwrap(), kernel);
    }

    #[test]
    fn the_versions_text_names_the_full_model_of_kernels_without_a_choice() {
        let built = |text| Running::of(4_000_000, &told(&[]), "", "", text).model;
        assert_eq!(built("#1 SMP PREEMPT Debian 5.10.1-1 (2026-01-01)"), Some(Preempt::Full));
        assert_eq!((built("#1 SMP PREEMPT_DYNAMIC Debian 6.1.192-1\n"), built("")), (None, None));
    }

    #[test]
    fn a_model_that_the_profile_lacks_is_left_out() {
        let none = Running { model: Some(Preempt::None), ..Running::default() };
        let mut variant = Variant::plain("v7.3");
        none.apply(&Kernel::profile("v7.3").unwrap(), 2, &mut variant);
        assert!(variant.tunables.is_empty() && variant.resolve().is_ok());
    }
}
