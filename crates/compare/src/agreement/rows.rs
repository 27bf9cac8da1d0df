//! The list of compared metrics: the same for every case, fixed before any case was run.
//!
//! Totals alone would agree with almost anything. So most rows are counts, shares and times of single decisions, and
//! two are whole distributions; workloads with groups add the groups' parts of the CPU time. A row has two limits
//! besides its class's tolerance. A difference below `slack` does not count. If both sides are below `enough`, the row
//! is not measured: agreement about next to nothing carries no information.

use schedlab_record::schedstat::IdleType;

/// The class of a row's metric; each class has one tolerance in a case.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Class {
    /// Sums over the run that follow mostly from the workload.
    Totals,
    /// Switches away from tasks, and wakeups.
    Switches,
    /// Changes of CPU.
    Migrations,
    /// Lengths of stays on a CPU.
    Slices,
    /// Lengths of waits for a CPU.
    Delays,
    /// Places of woken tasks.
    Placement,
    /// Counters of load balancing.
    Balance,
    /// Differences in CPU time between like tasks.
    Spread,
    Distributions,
}

/// A class in case files and tables.
#[derive(Debug)]
pub struct ClassRow {
    pub class: Class,
    /// Its key in a case's `[tolerance]`, and its name in tables.
    pub name: &'static str,
    /// Tolerance that cases on this host ship with, per cent.
    pub host_pct: f64,
    /// Tolerance that cases on deterministic guests ship with, per cent.
    pub vm_pct: f64,
    /// What the tolerance is a part of.
    pub about: &'static str,
}

const fn class(
    class: Class,
    name: &'static str,
    host_pct: f64,
    vm_pct: f64,
    about: &'static str,
) -> ClassRow {
    ClassRow { class, name, host_pct, vm_pct, about }
}

/// Every class, in the order of its declaration.
pub const CLASSES: &[ClassRow] = &[
    class(Class::Totals, "totals", 2.0, 10.0, "the real kernel's value"),
    class(Class::Switches, "switches", 25.0, 25.0, "the real kernel's value"),
    class(Class::Migrations, "migrations", 25.0, 25.0, "the real kernel's value"),
    class(Class::Slices, "slices", 20.0, 25.0, "the real kernel's value"),
    class(Class::Delays, "delays", 35.0, 35.0, "the real kernel's value"),
    class(Class::Placement, "placement", 25.0, 25.0, "the real kernel's share; 3 points are always allowed"),
    class(Class::Balance, "balance", 35.0, 35.0, "the real kernel's value"),
    class(Class::Spread, "spread", 50.0, 50.0, "the real kernel's value; 2 points are always allowed"),
    class(
        Class::Distributions,
        "distributions",
        25.0,
        25.0,
        "all values: as many may be farther off than their class's tolerance",
    ),
];

impl Class {
    pub fn row(self) -> &'static ClassRow {
        &CLASSES[self as usize]
    }
}

/// The tolerance of each class of metrics, per cent.
#[derive(Clone, PartialEq, Debug)]
pub struct Tolerances(pub [f64; CLASSES.len()]);

impl Tolerances {
    /// The tolerance of a class, per cent.
    pub fn of(&self, class: Class) -> f64 {
        self.0[class as usize]
    }
    /// The tolerances of shipped cases on the running kernel.
    pub fn on_host() -> Tolerances {
        Tolerances(std::array::from_fn(|at| CLASSES[at].host_pct))
    }
    /// The tolerances of shipped cases in guests.
    pub fn in_guests() -> Tolerances {
        Tolerances(std::array::from_fn(|at| CLASSES[at].vm_pct))
    }
}

/// How a row's value comes from records.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ValueFrom {
    /// A metric of the record, by its name.
    Metric(&'static str),
    /// Attempts to balance (`lb_count`) by CPUs of that idle type, summed over all domains.
    Attempts(IdleType),
    /// A counter of balancing by CPUs of that idle type, by the kernel's name for it, summed over all domains.
    Balancing(IdleType, &'static str),
    /// Groups that a pass of that idle type reads: `lb_sg_scan` by `lb_count`, over all domains.
    GroupsPerScan(IdleType),
    /// Tasks moved by load balancing of any kind, over all domains.
    Pulled,
    /// One counter of all CPUs as a part of another, per cent.
    Share(&'static str, &'static str),
    /// The spread of CPU time within groups of tasks: standard deviation in per cent of the mean, over the
    /// groups with at least two tasks, weighted by their CPU time.
    Uneven,
    /// The part of the tasks' CPU time used by the workload's n-th `[[group]]`, per cent.
    OfGroup(usize),
    /// A whole series. Its values may be off by the tolerance of this class.
    Distribution(&'static str, Class),
}

/// A metric of the list.
#[derive(Debug)]
pub struct MetricRow {
    /// Its name in tables and JSON: the record's own name if there is one.
    pub name: &'static str,
    pub class: Class,
    /// Unit: "ns", "%", "" for counts. For distributions it is "%", the part of the values that is off.
    pub unit: &'static str,
    /// With less than this on both sides it is not measured: in `unit` per run; for distributions, values in all.
    pub enough: f64,
    /// Differences up to this do not count, in `unit`.
    pub slack: f64,
    pub how: ValueFrom,
}

/// Times of single decisions below this are too short to compare (1 us).
const SHORT_NS: f64 = 1_000.0;
/// The accuracy of the clocks and tracepoints of both sides (0.5 us).
const TICKING_NS: f64 = 500.0;
/// The events from which a rate means something, and the difference that means nothing.
const EVENTS: (f64, f64) = (20.0, 5.0);
/// The same for shares, in percentage points.
const POINTS: (f64, f64) = (5.0, 3.0);

const fn count(class: Class, name: &'static str, how: ValueFrom) -> MetricRow {
    MetricRow { name, class, unit: "", enough: EVENTS.0, slack: EVENTS.1, how }
}
const fn counted(class: Class, name: &'static str) -> MetricRow {
    count(class, name, ValueFrom::Metric(name))
}
const fn time(class: Class, name: &'static str) -> MetricRow {
    MetricRow { name, class, unit: "ns", enough: SHORT_NS, slack: TICKING_NS, how: ValueFrom::Metric(name) }
}
/// A sum of times. A millisecond of a run is enough.
const fn sum(class: Class, name: &'static str) -> MetricRow {
    MetricRow { name, class, unit: "ns", enough: 1_000_000.0, slack: 0.0, how: ValueFrom::Metric(name) }
}
const fn share(name: &'static str, how: ValueFrom) -> MetricRow {
    MetricRow { name, class: Class::Placement, unit: "%", enough: POINTS.0, slack: POINTS.1, how }
}
const fn placed(name: &'static str) -> MetricRow {
    share(name, ValueFrom::Metric(name))
}
/// A group's part of the CPU time, which weights and limits decide. A difference of one point means nothing.
const fn of_group(name: &'static str, group: usize) -> MetricRow {
    MetricRow {
        name,
        class: Class::Totals,
        unit: "%",
        enough: POINTS.0,
        slack: 1.0,
        how: ValueFrom::OfGroup(group),
    }
}
const fn whole(name: &'static str, series: &'static str, within: Class) -> MetricRow {
    MetricRow {
        name,
        class: Class::Distributions,
        unit: "%",
        enough: 100.0,
        slack: 0.0,
        how: ValueFrom::Distribution(series, within),
    }
}

pub const LIST: &[MetricRow] = &[
    sum(Class::Totals, "cpu_time"),
    sum(Class::Delays, "run_delay.total"),
    counted(Class::Switches, "switches.voluntary"),
    counted(Class::Switches, "switches.involuntary"),
    counted(Class::Switches, "woken"),
    counted(Class::Migrations, "migrations"),
    time(Class::Slices, "slice.mean"),
    time(Class::Slices, "slice.p50"),
    whole("slice distribution", "slice", Class::Slices),
    time(Class::Delays, "run_delay.p50"),
    time(Class::Delays, "wakeup_delay.p50"),
    whole("run_delay distribution", "run_delay", Class::Delays),
    placed("woken.prev.share"),
    placed("woken.waker.share"),
    placed("woken.core.share"),
    placed("woken.llc.share"),
    placed("woken.node.share"),
    placed("woken.far.share"),
    placed("woken.idle.share"),
    share("ttwu_local share", ValueFrom::Share("sched.ttwu_local", "sched.ttwu_count")),
    count(Class::Balance, "newidle lb_count", ValueFrom::Attempts(IdleType::Newidle)),
    count(Class::Balance, "idle lb_count", ValueFrom::Attempts(IdleType::Idle)),
    count(Class::Balance, "busy lb_count", ValueFrom::Attempts(IdleType::Busy)),
    count(Class::Balance, "lb_gained", ValueFrom::Pulled),
    MetricRow {
        name: "cpu_time spread",
        class: Class::Spread,
        unit: "%",
        enough: 5.0,
        slack: 2.0,
        how: ValueFrom::Uneven,
    },
    of_group("cpu_time of group 1", 0),
    of_group("cpu_time of group 2", 1),
    of_group("cpu_time of group 3", 2),
    of_group("cpu_time of group 4", 3),
];

const fn newidle(name: &'static str, counter: &'static str) -> MetricRow {
    count(Class::Balance, name, ValueFrom::Balancing(IdleType::Newidle, counter))
}

/// More rows that changes are compared by. Validation does not judge by them: its list was fixed before any case was
/// run.
pub const CHANGE_ROWS: &[MetricRow] = &[
    time(Class::Delays, "run_delay.p99"),
    time(Class::Delays, "wakeup_delay.p99"),
    newidle("newidle lb_balanced", "lb_balanced"),
    newidle("newidle lb_failed", "lb_failed"),
    newidle("newidle lb_gained", "lb_gained"),
    newidle("newidle lb_nobusyg", "lb_nobusyg"),
    newidle("newidle lb_nobusyq", "lb_nobusyq"),
    MetricRow {
        name: "newidle groups per scan",
        class: Class::Balance,
        unit: "",
        enough: 0.5,
        slack: 0.1,
        how: ValueFrom::GroupsPerScan(IdleType::Newidle),
    },
];

/// Every row whose change can be judged: the numbers of [`LIST`], then [`CHANGE_ROWS`].
pub fn of_changes() -> impl Iterator<Item = &'static MetricRow> {
    LIST.iter().chain(CHANGE_ROWS).filter(|row| !matches!(row.how, ValueFrom::Distribution(..)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use schedlab_record::Metric;

    #[test]
    fn classes_stand_at_their_own_place() {
        for (at, row) in CLASSES.iter().enumerate() {
            assert_eq!(row.class as usize, at, "{}", row.name);
        }
    }

    #[test]
    fn no_row_could_take_three_times_a_value_for_the_value() {
        for row in LIST.iter().chain(CHANGE_ROWS) {
            // A measured row reaches `enough` at three times its value; it is then off by two thirds of that.
            assert!(row.slack < row.enough * 2.0 / 3.0, "{}", row.name);
        }
        assert!(CLASSES.iter().all(|c| c.host_pct < 100.0 && c.vm_pct < 100.0));
    }

    #[test]
    fn names_are_metrics_and_stand_once() {
        let all: Vec<&MetricRow> = LIST.iter().chain(CHANGE_ROWS).collect();
        for (at, row) in all.iter().enumerate() {
            assert!(!all[..at].iter().any(|r| r.name == row.name), "{}", row.name);
            let names = match row.how {
                ValueFrom::Metric(name) => vec![name.to_owned()],
                ValueFrom::Attempts(idle) => vec![format!("domain0.{}.lb_count", idle.name())],
                ValueFrom::Balancing(idle, counter) => vec![format!("domain0.{}.{counter}", idle.name())],
                ValueFrom::GroupsPerScan(idle) => vec![format!("domain0.{}.lb_sg_scan", idle.name())],
                ValueFrom::Share(part, of) => vec![part.to_owned(), of.to_owned()],
                ValueFrom::Distribution(series, _) => vec![format!("{series}.p50")],
                ValueFrom::Pulled | ValueFrom::Uneven | ValueFrom::OfGroup(_) => Vec::new(),
            };
            for name in names {
                assert!(Metric::find(&name).is_ok(), "{name}");
            }
        }
    }
}
