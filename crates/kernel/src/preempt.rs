//! Preemption models: where a task in the kernel gives way to another one that is to run.
//!
//! A switch that was asked for always happens at the return to user mode. The models differ in how long a task may stay
//! in the kernel before that (`cond_resched`, `might_sleep`, `preempt_schedule`, `irqentry_exit_cond_resched`), and
//! the lazy one in how urgent a request is (`resched_curr_lazy`, 6.13). A kernel that was built with PREEMPT_DYNAMIC
//! (5.12) has them all, and takes the one of `preempt=` or of `sched/preempt` in debugfs; the numbers are its own
//! (`preempt_dynamic_none` and so on).

use crate::history::{came, span};
use crate::origin::Span;
use crate::{Kernel, history};
use schedlab_base::{Error, Result, Version};

/// A preemption model.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Preempt {
    /// A task in the kernel gives way when it returns to user mode or sleeps (PREEMPT_NONE).
    None,
    /// Also where it might sleep anyway, as when it takes a mutex (PREEMPT_VOLUNTARY, 2.6.13).
    Voluntary,
    /// Anywhere without a lock: when an interrupt ends, and right after a wakeup (PREEMPT).
    Full,
    /// As full for real-time tasks. A fair task's request waits for the return to user mode, and becomes urgent at the
    /// next tick (PREEMPT_LAZY, 6.13).
    Lazy,
}

/// The models, by the kernel's numbers.
const MODELS: [Preempt; 4] = [Preempt::None, Preempt::Voluntary, Preempt::Full, Preempt::Lazy];

/// The kernel's words for them, by its numbers.
pub const WORDS: &[&str] = &["none", "voluntary", "full", "lazy"];

impl Preempt {
    /// The model of a kernel.
    pub fn of(kernel: &Kernel) -> Preempt {
        MODELS[(kernel.tunables.preempt as usize).min(MODELS.len() - 1)]
    }
    /// The kernel's word for it.
    pub fn word(self) -> &'static str {
        WORDS[self as usize]
    }
    /// The model of that word.
    pub fn parse(word: &str) -> Option<Preempt> {
        WORDS.iter().position(|w| *w == word).map(|at| MODELS[at])
    }
    /// The releases that have it, on x86, arm64 and other machines that can be lazy.
    pub const fn releases(self) -> Span {
        let short = came("no-voluntary-preemption");
        match self {
            Preempt::None => Span { since: None, until: Some(short) },
            Preempt::Voluntary => Span { since: Some(came("voluntary-preemption")), until: Some(short) },
            Preempt::Full => Span::ALL,
            Preempt::Lazy => span("lazy-preemption"),
        }
    }
    /// The model of a release where nothing else is asked for: what distributions' servers run.
    pub fn default_of(version: Version) -> Preempt {
        let best = [Preempt::Voluntary, Preempt::None].into_iter().find(|m| m.releases().has(version));
        best.unwrap_or(Preempt::Lazy)
    }
    /// Whether the kernel's code is built to be preempted (CONFIG_PREEMPTION), whatever it runs as.
    pub fn is_built_in(kernel: &Kernel) -> bool {
        let dynamic = span("dynamic-preemption").has(kernel.version);
        dynamic || matches!(Preempt::of(kernel), Preempt::Full | Preempt::Lazy)
    }
    /// Checks that a kernel's release has its model.
    ///
    /// # Errors
    /// With the models that it has.
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

/// What earlier releases of schedlab called a model: the feature PREEMPT_LAZY. The value of the tunable `preempt`.
pub fn of_old_feature(text: &str) -> Option<u64> {
    let model = match text.trim().to_ascii_uppercase().as_str() {
        "PREEMPT_LAZY" => Preempt::Lazy,
        "NO_PREEMPT_LAZY" => Preempt::Full,
        _ => return None,
    };
    Some(model as u64)
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
    fn since_5_12_every_kernel_is_built_to_be_preempted() {
        let built = |kernel: &str, model| Preempt::is_built_in(&asks(kernel, model).unwrap());
        assert!(!built("v5.10", Preempt::Voluntary) && built("v5.10", Preempt::Full));
        assert!(built("v5.15", Preempt::None));
    }
}
