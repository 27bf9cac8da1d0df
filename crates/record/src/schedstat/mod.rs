//! The scheduler's own statistics, /proc/schedstat: data, reader, printer, differences, derived figures.
//!
//! The simulator increments the same counters in the same places as the kernel, so one type serves live files, saved
//! files and simulated runs. Mirrors `kernel/sched/stats.c` of kernels 6.1 (layout 15), 6.12 (16), 7.3 (17) and D001's
//! `lb_sg_scan`. Counts have no unit, times are nanoseconds, the time stamp is in jiffies.

mod check;
mod counters;
mod delta;
mod derived;
mod identities;
mod live;
mod model;
mod print;
mod query;
mod read;
mod stored;
#[cfg(test)]
pub(crate) mod tests;
mod totals;

pub use counters::{
    BALANCE_ROWS, Balance, CPU_ROWS, CounterRow, CpuCounters, DOMAIN_ROWS, DomainCounters, Since,
};
pub use delta::delta;
pub use derived::{DERIVED, Derived};
pub use identities::{identities, identities_within};
pub use live::{PROC_FILE, load, read_live};
pub use model::{CpuStat, DomainStat, IdleType, Layout, Schedstat, VERSIONS};
pub use query::Query;
pub use read::parse;
pub use totals::{DomainTotal, Totals};
