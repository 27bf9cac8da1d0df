//! Counters of queues and tasks, reported when the scheduler looks at them, and only to sinks that ask for them.
//!
//! They are not events: only tracks are made of them, records do not have them, and they do not change a run. The
//! simulator reports those of the affected CPU and tasks at switches, ticks and enqueues.

use schedlab_base::{CpuId, TaskId};

/// A counter of a CPU or of a task.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Counter {
    /// The load average of the CPU's fair tasks; a task of nice 0 that always runs has 1024.
    Load(CpuId),
    /// CFS and older: the task's virtual runtime minus its queue's minimum (`min_vruntime`), virtual ns.
    Vruntime(TaskId),
    /// EEVDF: the CPU time owed to the task: its queue's average virtual runtime minus its own, virtual ns.
    Lag(TaskId),
    /// The rest of the task's slice, ns. EEVDF: virtual ns until its deadline.
    Slice(TaskId),
}

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum CounterKind {
    Load,
    Vruntime,
    Lag,
    Slice,
}

impl CounterKind {
    pub const ALL: [CounterKind; 4] =
        [CounterKind::Load, CounterKind::Vruntime, CounterKind::Lag, CounterKind::Slice];
    pub const fn name(self) -> &'static str {
        match self {
            CounterKind::Load => "load",
            CounterKind::Vruntime => "vruntime",
            CounterKind::Lag => "lag",
            CounterKind::Slice => "slice",
        }
    }
    /// The description of its track.
    pub const fn about(self) -> &'static str {
        match self {
            CounterKind::Load => "load average of the CPU's fair tasks; 1024: one of nice 0 that always runs",
            CounterKind::Vruntime => "virtual runtime less the queue's min_vruntime, virtual ns",
            CounterKind::Lag => {
                "the queue's average virtual runtime less the task's, virtual ns: what it is owed"
            }
            CounterKind::Slice => "what is left of the slice, ns; EEVDF: virtual ns until the deadline",
        }
    }
}

impl Counter {
    pub const fn kind(self) -> CounterKind {
        match self {
            Counter::Load(_) => CounterKind::Load,
            Counter::Vruntime(_) => CounterKind::Vruntime,
            Counter::Lag(_) => CounterKind::Lag,
            Counter::Slice(_) => CounterKind::Slice,
        }
    }
}

/// The kinds of counters that a sink asks for.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Counters(u8);

impl Counters {
    pub const NONE: Counters = Counters(0);
    #[must_use]
    pub const fn and(self, kind: CounterKind) -> Counters {
        Counters(self.0 | 1 << kind as u8)
    }
    #[must_use]
    pub const fn or(self, other: Counters) -> Counters {
        Counters(self.0 | other.0)
    }
    #[inline]
    pub const fn has(self, kind: CounterKind) -> bool {
        self.0 & 1 << kind as u8 != 0
    }
    #[inline]
    pub const fn any(self) -> bool {
        self.0 != 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_set_has_the_added_kinds() {
        let set = Counters::NONE.and(CounterKind::Lag).or(Counters::NONE.and(CounterKind::Load));
        let has: Vec<&str> = CounterKind::ALL.iter().filter(|k| set.has(**k)).map(|k| k.name()).collect();
        assert_eq!(has, ["load", "lag"]);
        assert!(set.any() && !Counters::NONE.any());
        assert_eq!(Counter::Slice(TaskId(3)).kind().name(), "slice");
    }
}
