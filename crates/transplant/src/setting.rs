//! Settings of the running kernel: words of `sched/features`, and tunables.

use crate::kernel::Kernel;
use schedlab_base::Result;
use schedlab_kernel::preempt::Preempt;

/// A setting of the running kernel.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Setting {
    /// A word of `sched/features`.
    Feature(String, bool),
    /// A tunable by its name, and its value as text.
    Tunable(String, String),
}

impl Setting {
    /// Whether the kernel groups tasks by session with it, so that a workload's tasks need sessions.
    pub(crate) fn asks_for_sessions(&self) -> bool {
        matches!(self, Setting::Tunable(name, value) if name == "sched_autogroup_enabled" && value == "1")
    }
    /// Whether it is of the servers of fair tasks. 6.12 gives each CPU's its own runtime and period when the first fair
    /// task comes there, and refuses most values before.
    pub(crate) fn is_of_server(&self) -> bool {
        matches!(self, Setting::Tunable(name, _) if name.starts_with("fair_server/"))
    }
    /// The preemption model that it sets (`sched/preempt` of debugfs); `None`: it sets something else.
    pub fn preempt(&self) -> Option<Preempt> {
        match self {
            Setting::Tunable(name, word) if name == "preempt" => Preempt::parse(word),
            Setting::Tunable(..) | Setting::Feature(..) => None,
        }
    }
}

/// Settings of the kernel take effect. What it refuses is set again behind the others: a period may be shorter than a
/// runtime only once that is set, too.
///
/// # Errors
/// A setting that the kernel lacks, or refuses both times.
pub(crate) fn set<'s>(kernel: &mut Kernel, settings: impl IntoIterator<Item = &'s Setting>) -> Result<()> {
    let refused: Vec<&Setting> =
        settings.into_iter().filter(|setting| set_one(kernel, setting).is_err()).collect();
    refused.into_iter().try_for_each(|setting| set_one(kernel, setting))
}

fn set_one(kernel: &mut Kernel, setting: &Setting) -> Result<()> {
    match setting {
        Setting::Feature(name, on) => kernel.set_feature(name, *on),
        Setting::Tunable(name, value) => kernel.set_tunable(name, value),
    }
}
