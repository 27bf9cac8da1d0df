//! The table of counters: metric names, the kernel's events, and the groups that are counted together.

use perf_event::Builder;
use perf_event::events::{Hardware, Software};
use schedlab_record::Observe;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Counted by the kernel itself.
    Software(Software),
    /// Counted by one of the CPU's few registers.
    Hardware(Hardware),
}

/// Which rows are counted. Each counter of the CPU makes each switch longer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum Width {
    /// The rows of `perf stat`.
    #[default]
    Usual,
    /// Also last-level cache rows, as with `perf stat -d`.
    Caches,
}

/// A row of the table.
#[derive(Clone, Copy, Debug)]
pub struct Event {
    /// Unit and definition are in the table of metrics.
    pub name: &'static str,
    pub(super) kind: Kind,
    /// Rows of the same group are counted together, so that their ratios refer to the same time.
    pub(super) group: u8,
    /// The least width that includes it.
    pub(super) width: Width,
    /// Whether the event happens only in the kernel, so that a user who may count only user mode would read 0.
    pub(super) in_kernel: bool,
}

const fn soft(name: &'static str, event: Software, in_kernel: bool) -> Event {
    Event { name, kind: Kind::Software(event), group: 0, width: Width::Usual, in_kernel }
}
const fn hard(name: &'static str, event: Hardware, group: u8, width: Width) -> Event {
    Event { name, kind: Kind::Hardware(event), group, width, in_kernel: false }
}

/// Every counter, in printing order. The kernel refuses a group that does not fit the CPU's registers; its members are
/// then counted individually.
#[rustfmt::skip]
pub const EVENTS: &[Event] = &[
    soft("perf.task_clock", Software::TASK_CLOCK, false),
    soft("perf.context_switches", Software::CONTEXT_SWITCHES, true),
    soft("perf.migrations", Software::CPU_MIGRATIONS, true),
    soft("perf.page_faults", Software::PAGE_FAULTS, false),
    hard("perf.cycles", Hardware::CPU_CYCLES, 1, Width::Usual),
    hard("perf.instructions", Hardware::INSTRUCTIONS, 1, Width::Usual),
    hard("perf.branches", Hardware::BRANCH_INSTRUCTIONS, 1, Width::Usual),
    hard("perf.branch_misses", Hardware::BRANCH_MISSES, 1, Width::Usual),
    hard("perf.cache_references", Hardware::CACHE_REFERENCES, 2, Width::Caches),
    hard("perf.cache_misses", Hardware::CACHE_MISSES, 2, Width::Caches),
];

impl Width {
    /// The width for this kind of recording; `None`: no counters.
    pub fn of(observe: Observe) -> Option<Width> {
        match observe {
            Observe::Accounts | Observe::Stays => None,
            Observe::Counters | Observe::Events => Some(Width::Usual),
            Observe::Caches => Some(Width::Caches),
        }
    }
    /// The names of counters beyond this width.
    pub fn beyond(self) -> impl Iterator<Item = &'static str> {
        EVENTS.iter().filter(move |e| e.width > self).map(|e| e.name)
    }
}

impl Event {
    /// The event alone, without watched tasks and not started.
    pub(super) fn builder(&self) -> Builder<'static> {
        match self.kind {
            Kind::Software(event) => Builder::new(event),
            Kind::Hardware(event) => Builder::new(event),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use schedlab_record::Metric;
    use schedlab_record::metric::COUNTERS;

    #[test]
    fn every_counter_is_a_metric_and_a_group_stands_together() {
        for event in EVENTS {
            let metric = Metric::find(event.name).unwrap();
            assert_eq!(metric.unit, if event.name == "perf.task_clock" { "ns" } else { "" });
        }
        // Table order and names for people are in `record`.
        assert!(EVENTS.iter().map(|e| e.name).eq(COUNTERS.iter().map(|(name, _)| *name)));
        let hardware =
            |width| EVENTS.iter().filter(move |e| e.group > 0 && e.width == width).map(|e| e.group);
        assert!(hardware(Width::Usual).eq([1; 4]) && hardware(Width::Caches).eq([2; 2]));
        assert!(EVENTS.is_sorted_by_key(|e| e.group), "members of a group stand together");
    }

    /// Also checks counters that this machine lacks: type and number must be those of include/uapi/linux/perf_event.h.
    #[test]
    fn events_have_the_kernels_numbers() {
        let numbers: Vec<(u32, u64)> = EVENTS
            .iter()
            .map(|e| {
                let b = e.builder();
                (b.attrs().type_, b.attrs().config)
            })
            .collect();
        let (software, hardware) = (1, 0);
        let want = [(software, 1), (software, 3), (software, 4), (software, 2)];
        assert_eq!(numbers[..4], want);
        let want = [0, 1, 4, 5, 2, 3].map(|n| (hardware, n));
        assert_eq!(numbers[4..], want);
    }
}
