//! The cost of scheduling: the instructions of the scheduler's functions, by operation.
//!
//! A deterministic guest counts the instructions of each function of `kernel/sched` ([`schedlab_guest::counter`]), and
//! so does an image of the kernel's code at other levels than free. Each function belongs to one operation by its name,
//! whichever operation called it. Functions that several operations share (`update_curr`, `update_rq_clock`) and those
//! of the tick are counted only in the sum. The cost of an operation is its instructions per call of its main function.
//! Names are those of 6.1 to 7.x. 6.10 renamed most of balancing, including the search for a CPU at fork and exec
//! (`sched_balance_find_dst_*`), which belongs to wakeups.

use schedlab_record::{Counts, FunctionCount};
use std::collections::BTreeMap;

/// An operation of the scheduler.
#[derive(Debug)]
pub struct Operation {
    /// Its name in metrics: `instructions.per_NAME`.
    pub name: &'static str,
    /// The functions whose calls are counted.
    pub calls: &'static [&'static str],
    /// Prefixes of its functions' names.
    pub begins: &'static [&'static str],
    /// Whole names of further functions.
    pub names: &'static [&'static str],
}

/// Every operation. A function belongs to the one that matches the longest part of its name.
#[rustfmt::skip]
pub const OPERATIONS: &[Operation] = &[
    Operation {
        name: "pass",
        calls: &["load_balance", "sched_balance_rq"],
        begins: &[
            "load_balance", "sched_balance_", "newidle_balance", "rebalance_domains", "_nohz_", "nohz_", "find_busiest_",
            "update_sd_", "update_sg_lb_", "detach_task", "detach_one_task", "can_migrate_task", "attach_task",
            "attach_one_task", "active_load_balance", "need_active_balance", "run_rebalance_domains", "trigger_load_balance",
            "kick_ilb", "update_group_capacity", "update_cpu_capacity", "update_blocked_averages", "__update_blocked_",
            "should_we_balance", "calculate_imbalance", "update_next_balance", "ilb_", "lb_",
        ],
        names: &[],
    },
    Operation {
        name: "wakeup",
        calls: &["try_to_wake_up"],
        begins: &[
            "try_to_wake_up", "ttwu_", "__ttwu_", "sched_ttwu_", "select_task_rq", "select_idle_", "__select_idle",
            "available_idle_cpu", "idle_cpu", "wake_affine", "wake_wide", "find_idlest_", "sched_balance_find_dst_",
            "update_sg_wakeup_", "update_pick_idlest", "cpus_share_cache", "enqueue_", "place_entity", "check_preempt_curr",
            "check_preempt_wakeup", "check_preempt_equal_", "wakeup_preempt", "activate_task", "set_task_cpu", "migrate_task_rq",
            "resched_curr", "default_wake_function", "wake_up_process", "wakeup_gran", "task_h_load", "sched_idle_cpu",
        ],
        names: &[],
    },
    Operation {
        name: "switch",
        calls: &["__schedule"],
        begins: &[
            "__schedule", "pick_", "__pick_", "put_prev_", "set_next_", "dequeue_", "deactivate_task",
            "finish_task_switch", "prepare_task_switch", "__update_idle_core", "prev_balance", "put_prev",
        ],
        // scheduler_tick and scheduler_ipi do not belong here.
        names: &["schedule", "schedule_idle", "schedule_preempt_disabled", "schedule_tail", "schedule_user"],
    },
];

/// The counter of all instructions of the scheduler.
pub const ALL: &str = "instructions.scheduler";

/// A run's counters: `instructions.OPERATION`, `calls.OPERATION`, and [`ALL`]. Empty if nothing was counted.
pub fn counters(counts: &Counts) -> BTreeMap<String, u64> {
    if counts.is_empty() {
        return BTreeMap::new();
    }
    let mut all = BTreeMap::from([(ALL.to_owned(), 0)]);
    for Operation { name, calls, .. } in OPERATIONS {
        let called = calls.iter().filter_map(|f| counts.get(*f)).map(|c| c.calls).sum();
        all.insert(format!("calls.{name}"), called);
        all.insert(format!("instructions.{name}"), 0);
    }
    for (function, FunctionCount { instructions, .. }) in counts {
        let of = operation(function).map(|o| format!("instructions.{}", o.name));
        for counter in of.iter().map(String::as_str).chain([ALL]) {
            *all.entry(counter.to_owned()).or_default() += instructions;
        }
    }
    all
}

/// The counts as CSV: function, calls, instructions.
pub fn as_text(counts: &Counts) -> String {
    let line = |(name, c): (&String, &FunctionCount)| format!("{name},{},{}\n", c.calls, c.instructions);
    std::iter::once("function,calls,instructions\n".to_owned()).chain(counts.iter().map(line)).collect()
}

/// Reads [`as_text`]; lines of another form are left out.
pub fn of_text(text: &str) -> Counts {
    let line = |line: &str| {
        let mut parts = line.split(',');
        let name = parts.next()?.to_owned();
        let counted =
            FunctionCount { calls: parts.next()?.parse().ok()?, instructions: parts.next()?.parse().ok()? };
        Some((name, counted))
    };
    text.lines().skip(1).filter_map(line).collect()
}

/// The operation of a function.
pub fn operation(function: &str) -> Option<&'static Operation> {
    // The compiler names a part or a copy of a function `name.part.0`.
    let name = function.split('.').next().unwrap_or(function);
    let fit = |o: &Operation| {
        let begins = o.begins.iter().filter(|b| name.starts_with(**b));
        begins.chain(o.names.iter().filter(|n| name == **n)).map(|known| known.len()).max()
    };
    OPERATIONS.iter().filter_map(|o| Some((fit(o)?, o))).max_by_key(|(length, _)| *length).map(|(_, o)| o)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn instructions_go_to_one_operation_and_to_the_sum() {
        let of = |calls, instructions| FunctionCount { calls, instructions };
        let counts: Counts = [
            ("try_to_wake_up", of(10, 1_000)),
            ("select_idle_cpu", of(0, 500)),
            ("update_curr", of(70, 7_000)),
            ("sched_balance_rq", of(2, 300)),
            ("load_balance", of(1, 100)),
        ]
        .map(|(name, c)| (name.to_owned(), c))
        .into();
        let all = counters(&counts);
        assert_eq!((all["instructions.wakeup"], all["calls.wakeup"]), (1_500, 10));
        assert_eq!((all["instructions.pass"], all["calls.pass"]), (400, 3));
        assert_eq!((all["instructions.switch"], all["calls.switch"], all[ALL]), (0, 0, 8_900));
        assert!(counters(&Counts::new()).is_empty());
        assert_eq!(of_text(&as_text(&counts)), counts);
    }

    #[test]
    fn a_function_belongs_to_the_operation_that_matches_most_of_its_name() {
        for (function, of) in [
            ("schedule", Some("switch")),
            ("schedule_idle", Some("switch")),
            ("pick_next_task_fair", Some("switch")),
            ("scheduler_tick", None),
            ("sched_tick", None),
            ("task_tick_fair", None),
            ("check_preempt_tick", None),
            ("update_rq_clock", None),
            ("update_rq_clock.part.0", None),
            ("update_curr", None),
            ("check_preempt_wakeup", Some("wakeup")),
            ("find_idlest_group", Some("wakeup")),
            ("sched_balance_find_dst_group", Some("wakeup")),
            ("sched_balance_find_dst_cpu.isra.0", Some("wakeup")),
            ("sched_balance_find_src_group", Some("pass")),
            ("sched_balance_newidle", Some("pass")),
            ("update_sg_lb_stats", Some("pass")),
        ] {
            assert_eq!(operation(function).map(|o| o.name), of, "{function}");
        }
    }

    #[test]
    fn every_operation_counts_calls_of_a_function_of_its_own() {
        for o in OPERATIONS {
            assert!(o.calls.iter().all(|f| operation(f).is_some_and(|of| of.name == o.name)), "{}", o.name);
        }
    }
}
