//! The table of counters: metric names, the kernel's events, and the groups that are counted together.

use perf_event::Builder;
use perf_event::events::{Hardware, Software};

/// An event of the kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Counted by the kernel itself.
    Software(Software),
    /// Counted by the CPU, in one of few registers.
    Hardware(Hardware),
}

/// A row of the table.
#[derive(Clone, Copy, Debug)]
pub struct Event {
    /// Metric name; unit and definition are those of the table of metrics.
    pub name: &'static str,
    pub(super) kind: Kind,
    /// Rows of the same group are counted together, so that their ratios are of the same time.
    pub(super) group: u8,
    /// Whether the event happens in the kernel only, so that a user who may count user mode alone would read 0.
    pub(super) in_kernel: bool,
}

const fn soft(name: &'static str, event: Software, in_kernel: bool) -> Event {
    Event { name, kind: Kind::Software(event), group: 0, in_kernel }
}
const fn hard(name: &'static str, event: Hardware, group: u8) -> Event {
    Event { name, kind: Kind::Hardware(event), group, in_kernel: false }
}

/// Every counter, in the order they are printed. Pairs of hardware events fit into the registers of any CPU that has
/// two, also beside the watchdog's.
#[rustfmt::skip]
pub const EVENTS: &[Event] = &[
    soft("perf.task_clock", Software::TASK_CLOCK, false),
    soft("perf.context_switches", Software::CONTEXT_SWITCHES, true),
    soft("perf.migrations", Software::CPU_MIGRATIONS, true),
    soft("perf.page_faults", Software::PAGE_FAULTS, false),
    hard("perf.cycles", Hardware::CPU_CYCLES, 1),
    hard("perf.instructions", Hardware::INSTRUCTIONS, 1),
    hard("perf.cache_references", Hardware::CACHE_REFERENCES, 2),
    hard("perf.cache_misses", Hardware::CACHE_MISSES, 2),
    hard("perf.branches", Hardware::BRANCH_INSTRUCTIONS, 3),
    hard("perf.branch_misses", Hardware::BRANCH_MISSES, 3),
];

impl Event {
    /// The event alone, without the tasks it watches and without a start.
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
    fn every_counter_is_a_metric_and_groups_are_pairs() {
        for event in EVENTS {
            let metric = Metric::find(event.name).unwrap();
            assert_eq!(metric.unit, if event.name == "perf.task_clock" { "ns" } else { "" });
        }
        // record has the order of tables, and the names for people.
        assert!(EVENTS.iter().map(|e| e.name).eq(COUNTERS.iter().map(|(name, _)| *name)));
        for group in 1..=3 {
            assert_eq!(EVENTS.iter().filter(|e| e.group == group).count(), 2, "group {group}");
        }
        assert!(EVENTS.is_sorted_by_key(|e| e.group), "members of a group stand together");
    }

    /// Checks counters that this machine lacks, too: type and number must be those of include/uapi/linux/perf_event.h.
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
        let want = [0, 1, 2, 3, 4, 5].map(|n| (hardware, n));
        assert_eq!(numbers[4..], want);
    }
}
