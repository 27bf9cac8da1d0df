//! Preemption models: the points at which a task in the kernel gives way to another.
//!
//! A requested switch always happens at the return to user mode. The models differ in how long a task may stay in the
//! kernel before that (`cond_resched`, `might_sleep`, `preempt_schedule`, `irqentry_exit_cond_resched`). The lazy model
//! also differs in the urgency of a request (`resched_curr_lazy`, 6.13). A kernel with PREEMPT_DYNAMIC (5.12) has all
//! models and uses the one in `preempt=` or in debugfs's `sched/preempt`; the numbers are the kernel's
//! (`preempt_dynamic_none` and so on).

use crate::history::{came, span};
use crate::origin::Span;
use crate::{Kernel, history};
use schedlab_base::{Error, Result, Version};
use std::collections::BTreeMap;

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Preempt {
    /// A task in the kernel gives way when it returns to user mode or sleeps (PREEMPT_NONE).
    None,
    /// Also where it might sleep, as when it takes a mutex (PREEMPT_VOLUNTARY, 2.6.13).
    Voluntary,
    /// Everywhere except under a lock: when an interrupt ends, and right after a wakeup (PREEMPT).
    Full,
    /// As `Full` for real-time tasks. A fair task's request waits for the return to user mode, and becomes urgent at
    /// the next tick (PREEMPT_LAZY, 6.13).
    Lazy,
}

const MODELS: [Preempt; 4] = [Preempt::None, Preempt::Voluntary, Preempt::Full, Preempt::Lazy];

/// The kernel's words, by number.
pub const WORDS: &[&str] = &["none", "voluntary", "full", "lazy"];

impl Preempt {
    pub fn numbered(number: u8) -> Preempt {
        MODELS[usize::from(number).min(MODELS.len() - 1)]
    }
    #[inline]
    pub fn of(kernel: &Kernel) -> Preempt {
        MODELS[(kernel.tunables.preempt as usize).min(MODELS.len() - 1)]
    }
    pub fn word(self) -> &'static str {
        WORDS[self as usize]
    }
    pub fn parse(word: &str) -> Option<Preempt> {
        WORDS.iter().position(|w| *w == word).map(|at| MODELS[at])
    }
    /// The releases that have it on x86, arm64 and other architectures with lazy preemption.
    pub const fn releases(self) -> Span {
        let short = came("no-voluntary-preemption");
        match self {
            Preempt::None => Span { since: None, until: Some(short) },
            Preempt::Voluntary => Span { since: Some(came("voluntary-preemption")), until: Some(short) },
            Preempt::Full => Span::ALL,
            Preempt::Lazy => span("lazy-preemption"),
        }
    }
    /// The default model of a release, as on distributions' servers.
    pub fn default_of(version: Version) -> Preempt {
        let best = [Preempt::Voluntary, Preempt::None].into_iter().find(|m| m.releases().has(version));
        best.unwrap_or(Preempt::Lazy)
    }
    /// Whether the kernel's code is built to be preempted (CONFIG_PREEMPTION), whichever model it uses.
    pub fn is_built_in(kernel: &Kernel) -> bool {
        // A constant: a balancing kernel asks for each queue that it takes tasks from.
        const DYNAMIC: Span = span("dynamic-preemption");
        DYNAMIC.has(kernel.version) || matches!(Preempt::of(kernel), Preempt::Full | Preempt::Lazy)
    }
    /// # Errors
    /// When the kernel's release lacks its model. The message has the models of the release.
    pub(crate) fn check(kernel: &Kernel) -> Result<()> {
        let model = Preempt::of(kernel);
        if model.releases().has(kernel.version) {
            return Ok(());
        }
        let has: Vec<&str> =
            MODELS.iter().filter(|m| m.releases().has(kernel.version)).map(|m| m.word()).collect();
        let text = format!("{} has no preemption model '{}'", kernel.version, model.word());
        Err(Error::input(text).help(format!("preempt is one of {}", has.join(", "))))
    }
    /// Checks that a running kernel can change its model.
    ///
    /// # Errors
    /// Before 5.12.
    pub(crate) fn check_change(version: Version) -> Result<()> {
        let first = history::came("dynamic-preemption");
        if version >= first {
            return Ok(());
        }
        let text = format!("kernels before {first} can't change their preemption model while they run");
        Err(Error::input(text).help("let two variants differ in it"))
    }
}

/// The old name of the tunable `preempt`; 1 meant that the kernel is built to be preempted.
pub const OLD_TUNABLE: &str = "preemption";

/// Whether a toggle is the old feature for the lazy model.
pub fn is_old_feature(text: &str) -> bool {
    matches!(text.trim().to_ascii_uppercase().as_str(), "PREEMPT_LAZY" | "NO_PREEMPT_LAZY")
}

/// Replaces the old names by the tunable `preempt` with the same meaning. A name that asks for the release's default is
/// dropped. `version`: the kernel's, if known.
///
/// # Errors
/// When the names ask for different models.
pub fn rename(
    version: Option<Version>,
    features: &mut Vec<String>,
    tunables: &mut BTreeMap<String, u64>,
) -> Result<()> {
    let lazy_by_default = version.is_none_or(|v| Preempt::default_of(v) == Preempt::Lazy);
    let dynamic = version.is_none_or(|v| v >= came("dynamic-preemption"));
    let toggle = features.iter().rfind(|text| is_old_feature(text)).cloned();
    let by_toggle = toggle.and_then(|text| {
        if text.trim().to_ascii_uppercase().starts_with("NO_") {
            lazy_by_default.then_some(Preempt::Full)
        } else {
            Some(Preempt::Lazy)
        }
    });
    features.retain(|text| !is_old_feature(text));
    let by_number = tunables.remove(OLD_TUNABLE).and_then(|value| match value {
        0 => Some(Preempt::None),
        _ => (!dynamic).then_some(Preempt::Full),
    });
    for model in [by_toggle, by_number].into_iter().flatten() {
        let before = tunables.insert("preempt".to_owned(), model as u64);
        if before.is_some_and(|before| before != model as u64) {
            return Err(Error::input("two preemption models are asked for, one of them by an old name")
                .help("keep the tunable preempt: none, voluntary, full or lazy"));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Variant;

    fn asks(kernel: &str, model: Preempt) -> Result<Kernel> {
        let mut v = Variant::plain(kernel);
        v.tunables = [("preempt".to_owned(), model as u64)].into();
        v.resolve()
    }

    #[test]
    fn a_release_has_the_models_that_it_can_be_built_with() {
        let has = |kernel: &str| MODELS.map(|m| asks(kernel, m).is_ok());
        assert_eq!(has("v2.6.12"), [true, false, true, false]);
        assert_eq!(has("v2.6.18"), [true, true, true, false]);
        assert_eq!(has("v6.12"), [true, true, true, false]);
        assert_eq!(has("v6.18"), [true; 4]);
        assert_eq!(has("v7.3"), [false, false, true, true]);
        let refused = format!("{:#}", asks("v7.3", Preempt::None).unwrap_err());
        assert!(refused.contains("v7.3 has no preemption model 'none'"), "{refused}");
    }

    #[test]
    fn servers_are_voluntary_until_that_model_goes() {
        let of = |kernel: &str| Preempt::of(&Kernel::profile(kernel).unwrap());
        assert_eq!(
            ["v2.6.12", "v2.6.18", "v6.18", "v7.3"].map(of),
            [Preempt::None, Preempt::Voluntary, Preempt::Voluntary, Preempt::Lazy]
        );
    }

    #[test]
    fn old_names_mean_what_they_meant() {
        let of = |kernel: &str, features: &[&str], tunables: &[(&str, u64)]| {
            let mut v = Variant::plain(kernel);
            v.features = features.iter().map(|f| (*f).to_owned()).collect();
            v.tunables = tunables.iter().map(|(name, value)| ((*name).to_owned(), *value)).collect();
            v.renamed().map(|v| (v.features.len(), v.tunables.get("preempt").copied()))
        };
        let model = |m: Preempt| Some(m as u64);
        assert_eq!(of("v6.18", &["PREEMPT_LAZY"], &[]).unwrap(), (0, model(Preempt::Lazy)));
        assert_eq!(of("v6.18", &["NO_PREEMPT_LAZY"], &[]).unwrap(), (0, None), "it was not lazy anyway");
        assert_eq!(of("v7.3", &["NO_PREEMPT_LAZY"], &[]).unwrap(), (0, model(Preempt::Full)));
        assert_eq!(of("v6.12", &[], &[("preemption", 0)]).unwrap().1, model(Preempt::None));
        assert_eq!(of("v6.12", &[], &[("preemption", 1)]).unwrap().1, None, "it was built so anyway");
        assert_eq!(of("v5.10", &[], &[("preemption", 1)]).unwrap().1, model(Preempt::Full));
        assert!(of("v6.12", &[], &[("preemption", 0), ("preempt", 2)]).is_err());
        assert!(of("v7.3", &["NO_PREEMPT_LAZY"], &[("preempt", 3)]).is_err());
    }

    #[test]
    fn since_5_12_every_kernel_is_built_to_be_preempted() {
        let built = |kernel: &str, model| Preempt::is_built_in(&asks(kernel, model).unwrap());
        assert!(!built("v5.10", Preempt::Voluntary) && built("v5.10", Preempt::Full));
        assert!(built("v5.15", Preempt::None));
    }
}
