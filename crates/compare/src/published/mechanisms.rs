//! What carries the gain of a change, and how well that is shown here.
//!
//! A change touches a mechanism if it names one of the functions that make it, or one of its features or tunables: the
//! table has both. That is a hint and no proof: a change may touch a mechanism and gain by another.

use super::{JudgedSeries, by_mechanism};
use std::collections::BTreeSet;

/// What carries the gain of a series.
pub struct Mechanism {
    pub name: &'static str,
    pub about: &'static str,
    /// Features, tunables and functions, of 5.10 to 7.3.
    pub touched_by: &'static [&'static str],
}

/// Every mechanism that series name.
#[rustfmt::skip]
pub const MECHANISMS: &[Mechanism] = &[
    Mechanism {
        name: "data", about: "data of programs and channels that another CPU has, and that travels",
        touched_by: &["WA_IDLE", "WA_WEIGHT", "WA_BIAS", "wake_affine", "wake_wide", "select_task_rq_fair"],
    },
    Mechanism {
        name: "gathering", about: "threads of a process kept in one cache",
        touched_by: &["llc_balancing/enabled", "account_mm_sched", "can_migrate_llc", "can_migrate_llc_task", "task_cache_work"],
    },
    Mechanism {
        name: "line", about: "a cache line of the kernel that many CPUs want",
        touched_by: &["update_tg_load_avg", "update_cfs_group", "rebalance_domains", "sched_balance_domains"],
    },
    Mechanism {
        name: "lock", about: "run queue locks and those who wait for them",
        touched_by: &["raw_spin_rq_lock_nested", "double_rq_lock", "task_rq_lock", "__task_rq_lock", "ttwu_queue"],
    },
    Mechanism {
        name: "newidle", about: "passes of CPUs that go idle, what they cost and find",
        touched_by: &["NI_RANDOM", "newidle_balance", "sched_balance_newidle", "update_newidle_cost"],
    },
    Mechanism {
        name: "placement", about: "when a task is placed on a queue again, and with what lag",
        touched_by: &["DELAY_DEQUEUE", "PLACE_LAG", "PLACE_DEADLINE_INITIAL", "place_entity", "dequeue_entity",
            "requeue_delayed_entity", "update_entity_lag"],
    },
    Mechanism {
        name: "preemption", about: "whether a woken task preempts",
        touched_by: &["NEXT_BUDDY", "WAKEUP_PREEMPTION", "RUN_TO_PARITY", "PREEMPT_SHORT", "check_preempt_wakeup",
            "check_preempt_wakeup_fair", "wakeup_preempt_fair", "wakeup_preempt_entity"],
    },
    Mechanism {
        name: "search", about: "how far a wakeup looks for an idle CPU",
        touched_by: &["SIS_PROP", "SIS_UTIL", "SIS_NODE", "select_idle_sibling", "select_idle_cpu", "select_idle_core",
            "select_idle_smt", "select_idle_node", "update_idle_cpu_scan"],
    },
    Mechanism {
        name: "wake list", about: "who queues the woken task: the waker, or its CPU",
        touched_by: &["TTWU_QUEUE", "ttwu_queue", "ttwu_queue_cond", "ttwu_queue_wakelist", "sched_ttwu_pending"],
    },
];

/// The mechanisms of which fewer published changes than this, percent, have their sign here are doubted.
const SHOWN_PCT: usize = 75;

/// The mechanisms that a change touches, given the words of its patch, or its features (also those switched off,
/// `NO_NAME`) and tunables, of which the judged series show too few signs; each in a line.
pub fn doubts<'w>(touched: impl IntoIterator<Item = &'w str>, judged: &[JudgedSeries]) -> Vec<String> {
    let touched: BTreeSet<&str> =
        touched.into_iter().map(|word| word.strip_prefix("NO_").unwrap_or(word)).collect();
    let scores = by_mechanism(judged);
    let one = |mechanism: &Mechanism| {
        mechanism.touched_by.iter().find(|word| touched.contains(*word))?;
        let score = scores.get(mechanism.name)?;
        (score.sign * 100 < score.changed * SHOWN_PCT).then(|| {
            format!(
                "{} ({}): {} of {} published changes by it have their sign here (docs/published.md)",
                mechanism.name, mechanism.about, score.sign, score.changed
            )
        })
    };
    MECHANISMS.iter().filter_map(one).collect()
}

#[cfg(test)]
mod tests {
    use super::super::{Claimed, JudgedRow, RowVerdict};
    use super::*;

    /// A series by this mechanism, of whose changes some have their sign.
    fn series(mechanism: &str, signs: usize, misses: usize) -> JudgedSeries {
        let row = |verdict| JudgedRow {
            machine: "m".into(),
            other_reading: false,
            load: "l".into(),
            metric: "work".into(),
            claimed: Claimed::Change { published_pct: 5.0, deviation_pct: 2.0, deviation_is_stated: false },
            ours: None,
            ci95: None,
            verdict,
            why: None,
        };
        let verdicts = [RowVerdict::Sign].repeat(signs).into_iter().chain([RowVerdict::Miss].repeat(misses));
        JudgedSeries {
            name: "s".into(),
            title: String::new(),
            posted: String::new(),
            mechanisms: vec![mechanism.to_owned()],
            rows: verdicts.map(row).collect(),
            warnings: Vec::new(),
        }
    }

    #[test]
    fn the_page_has_the_table_of_mechanisms() {
        let page = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/published.md");
        let row = |m: &Mechanism| {
            let words = m.touched_by.iter().map(|word| format!("`{word}`")).collect::<Vec<_>>().join(", ");
            format!("| `{}` | {} | {words} |\n", m.name, m.about)
        };
        let rows: String = MECHANISMS.iter().map(row).collect();
        let table = format!("| mechanism | what it is | touched by |\n| --- | --- | --- |\n{rows}\n");
        assert!(std::fs::read_to_string(page).unwrap().contains(&table), "docs/published.md lacks\n{table}");
    }

    #[test]
    fn a_mechanism_is_doubted_where_too_few_signs_are_right() {
        let judged = [series("search", 3, 6), series("search", 1, 0), series("placement", 3, 1)];
        let found = doubts(["NO_SIS_UTIL", "select_idle_cpu", "place_entity"], &judged);
        assert_eq!(
            found,
            [
                "search (how far a wakeup looks for an idle CPU): 4 of 10 published changes by it have their sign here \
              (docs/published.md)"
            ]
        );
        assert!(doubts(["place_entity"], &judged).is_empty(), "three quarters are enough");
        assert!(doubts(["update_curr"], &judged).is_empty(), "it touches no mechanism");
    }

    #[test]
    fn without_a_record_nothing_is_doubted() {
        assert!(doubts(["SIS_UTIL", "place_entity"], &[]).is_empty());
        assert!(doubts(["SIS_UTIL"], &[series("search", 0, 0)]).is_empty());
    }
}
