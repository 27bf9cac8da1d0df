//! The counters of /proc/schedstat: one table for each place. Fields, reader, printer, metrics and docs derive from it.
//!
//! Names and meanings are those of kernels 6.1 (layout 15), 6.12 (16) and 7.3 (17); `lb_sg_scan` is from D001. Rows are
//! in the order of the file. Counters are 64 bits wide here. The kernel's own widths matter when a counter wraps
//! ([`CounterRow::bits`]).

/// The layouts that have a row's column.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Since {
    /// All layouts.
    Always,
    /// 15 and 16: one number for imbalances of all kinds.
    Mixed,
    /// 17: one number per kind of imbalance.
    Split,
    /// Kernels with D001's last patch, which appends the column to each idle type.
    SgScan,
}

/// One counter: name, column, meaning, and access to its field.
pub struct CounterRow<S: 'static> {
    /// The kernel's name.
    pub name: &'static str,
    /// Width in the kernel, 32 or 64 bits; the counter wraps there.
    pub bits: u32,
    /// The files that have it.
    pub since: Since,
    /// "" for counts.
    pub unit: &'static str,
    pub about: &'static str,
    /// Reads the value. For `lb_imbalance` it is the sum over all kinds; if the file does not split kinds, the field is
    /// that sum.
    pub get: fn(&S) -> u64,
    pub field: fn(&mut S) -> &mut u64,
}

macro_rules! counters {
    ($(#[$doc:meta])* $Name:ident, $(#[$table_doc:meta])* $TABLE:ident:
     $($field:ident $name:literal $bits:literal $since:ident $unit:literal $about:literal $(= $get:expr)?;)*) => {
        $(#[$doc])*
        #[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
        pub struct $Name {
            $(#[doc = $about] pub $field: u64,)*
        }
        $(#[$table_doc])*
        pub const $TABLE: &[CounterRow<$Name>] = &[$(CounterRow {
            name: $name,
            bits: $bits,
            since: Since::$since,
            unit: $unit,
            about: $about,
            get: counters!(@get $field $($get)?),
            field: |s| &mut s.$field,
        },)*];
    };
    (@get $field:ident) => { |s| s.$field };
    (@get $field:ident $get:expr) => { $get };
}

counters! {
    /// Counters of a CPU's runqueue: the numbers of a `cpu` line.
    CpuCounters,
    /// The rows of [`CpuCounters`]. The file has a 0 between the first two.
    CPU_ROWS:
    yld_count "yld_count" 32 Always "" "calls of sched_yield";
    sched_count "sched_count" 32 Always "" "calls of schedule(), those that pick the idle task included";
    sched_goidle "sched_goidle" 32 Always "" "times the idle task was picked";
    ttwu_count "ttwu_count" 32 Always ""
        "wakeups done by this CPU as the waker, wherever the task went; of a timer the CPU it fired on";
    ttwu_local "ttwu_local" 32 Always "" "those of ttwu_count whose task went to the waking CPU itself";
    rq_cpu_time "rq_cpu_time" 64 Always "ns" "time tasks, not idle, were on the CPU";
    run_delay "run_delay" 64 Always "ns" "time tasks waited runnable for this CPU";
    pcount "pcount" 64 Always "" "arrivals of tasks on the CPU";
}

counters! {
    /// Counters of `load_balance()` on one domain, for one idle type of the balancing CPU.
    Balance,
    BALANCE_ROWS:
    lb_count "lb_count" 32 Always "" "attempts: each entry of load_balance()";
    lb_balanced "lb_balanced" 32 Always ""
        "attempts that found nothing to do: not this CPU's turn, no busiest group, no busiest queue, or all its tasks pinned";
    lb_failed "lb_failed" 32 Always "" "attempts that found a queue and moved nothing";
    lb_imbalance_mixed "lb_imbalance" 32 Mixed ""
        "imbalances found, summed over attempts that found a queue; units (load, utilisation, tasks) are mixed"
        = |s| [s.lb_imbalance_load, s.lb_imbalance_util, s.lb_imbalance_task, s.lb_imbalance_misfit]
            .iter().fold(s.lb_imbalance_mixed, |sum, n| sum.saturating_add(*n));
    lb_imbalance_load "lb_imbalance_load" 32 Split "" "imbalances that were to be moved as load";
    lb_imbalance_util "lb_imbalance_util" 32 Split "" "imbalances that were to be moved as utilisation";
    lb_imbalance_task "lb_imbalance_task" 32 Split "" "imbalances that were to be moved as a number of tasks";
    lb_imbalance_misfit "lb_imbalance_misfit" 32 Split "" "imbalances of a task too big for its CPU";
    lb_gained "lb_gained" 32 Always "" "tasks taken from the busiest queue";
    lb_hot_gained "lb_hot_gained" 32 Always "" "tasks moved although their cache was hot";
    lb_nobusyq "lb_nobusyq" 32 Always "" "attempts that found a busiest group but no queue in it";
    lb_nobusyg "lb_nobusyg" 32 Always "" "attempts that found no busiest group";
    lb_sg_scan "lb_sg_scan" 32 SgScan "" "groups read for statistics, the CPU's own not counted (D001)";
}

counters! {
    /// Counters of a CPU's domain that are not split by idle type.
    DomainCounters,
    /// The rows of [`DomainCounters`].
    DOMAIN_ROWS:
    alb_count "alb_count" 32 Always "" "active balances begun: a running task is to be pushed away";
    alb_failed "alb_failed" 32 Always "" "active balances that moved nothing";
    alb_pushed "alb_pushed" 32 Always "" "tasks moved by active balance";
    sbe_count "sbe_count" 32 Always "" "balances at exec (not counted by these kernels)";
    sbe_balanced "sbe_balanced" 32 Always "" "balances at exec with nothing to do (not counted by these kernels)";
    sbe_pushed "sbe_pushed" 32 Always "" "tasks placed elsewhere at exec (not counted by these kernels)";
    sbf_count "sbf_count" 32 Always "" "balances at fork (not counted by these kernels)";
    sbf_balanced "sbf_balanced" 32 Always "" "balances at fork with nothing to do (not counted by these kernels)";
    sbf_pushed "sbf_pushed" 32 Always "" "tasks placed elsewhere at fork (not counted by these kernels)";
    ttwu_wake_remote "ttwu_wake_remote" 32 Always ""
        "wakeups by this CPU whose task went to another one, this being the lowest domain that holds both";
    ttwu_move_affine "ttwu_move_affine" 32 Always ""
        "wakeups for which wake_affine() brought the waking CPU into play";
    ttwu_move_balance "ttwu_move_balance" 32 Always "" "wakeups moved by passive balance (not counted by these kernels)";
}
