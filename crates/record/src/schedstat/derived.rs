//! Figures that are ratios of counters of balancing.

use super::{Balance, Since};

/// A ratio of counters.
pub struct Derived {
    /// Its name in metrics and JSON.
    pub name: &'static str,
    /// Its name in tables.
    pub title: &'static str,
    /// "%" or "".
    pub unit: &'static str,
    /// The layouts that have its counters.
    pub since: Since,
    /// Whether lower is better; otherwise neither direction is.
    pub lower_is_better: bool,
    pub about: &'static str,
    /// The dividend; the divisor is always `lb_count`.
    part: fn(&Balance) -> u64,
}

impl Derived {
    /// The figure; `None` if there was no attempt.
    pub fn of(&self, balance: &Balance) -> Option<f64> {
        let scale = if self.unit == "%" { 100.0 } else { 1.0 };
        let part = (self.part)(balance) as f64;
        (balance.lb_count > 0).then(|| scale * part / balance.lb_count as f64)
    }
}

const fn share(
    name: &'static str,
    title: &'static str,
    about: &'static str,
    part: fn(&Balance) -> u64,
) -> Derived {
    Derived { name, title, unit: "%", since: Since::Always, lower_is_better: false, about, part }
}

/// Every derived figure.
pub const DERIVED: &[Derived] = &[
    Derived {
        name: "groups_per_balance",
        title: "groups per balance",
        unit: "",
        since: Since::SgScan,
        lower_is_better: true,
        about: "groups read for each attempt: lb_sg_scan / lb_count",
        part: |b| b.lb_sg_scan,
    },
    share(
        "past_balanced",
        "past balanced",
        "attempts past the balanced exits, (lb_count - lb_balanced) / lb_count; D001 calls it the success ratio, but \
         attempts that failed are in it",
        |b| b.lb_count.saturating_sub(b.lb_balanced),
    ),
    share(
        "failed_share",
        "failed",
        "attempts that found a queue and moved nothing: lb_failed / lb_count",
        |b| b.lb_failed,
    ),
    share(
        "nobusyq_share",
        "no busiest queue",
        "attempts that found a group but no queue: lb_nobusyq / lb_count",
        |b| b.lb_nobusyq,
    ),
    share("nobusyg_share", "no busiest group", "attempts that found no group: lb_nobusyg / lb_count", |b| {
        b.lb_nobusyg
    }),
    Derived {
        name: "gained_per_attempt",
        title: "gained per attempt",
        unit: "",
        since: Since::Always,
        lower_is_better: false,
        about: "tasks moved for each attempt: lb_gained / lb_count; those of active balance are among them (idle type only)",
        part: |b| b.lb_gained,
    },
];
