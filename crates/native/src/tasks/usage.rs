//! The usage of another task of the run, from its CPU clock and from /proc.
//!
//! A task's CPU clock is exact (a system call, Linux 2.6.12); user time and switches come from the task's `stat` and
//! `status`. A task that has not begun has used nothing. For a task that has ended, the last reading is kept.

use crate::sys;
use schedlab_base::Ns;
use schedlab_workload::Usage;
use std::collections::BTreeMap;

/// One task's last readings of other tasks.
#[derive(Default)]
pub struct Readings(BTreeMap<usize, Usage>);

impl Readings {
    /// The usage of task number `task`; it is thread `thread` (0 if it does not exist) of process `process`.
    pub fn of(&mut self, task: usize, process: u32, thread: u32) -> Usage {
        if let Some(now) = (thread > 0).then(|| read(process, thread)).flatten() {
            self.0.insert(task, now);
        }
        self.0.get(&task).copied().unwrap_or_default()
    }
}

fn read(process: u32, thread: u32) -> Option<Usage> {
    let text = |file: &str| std::fs::read_to_string(format!("/proc/{process}/task/{thread}/{file}")).ok();
    let (voluntary, involuntary) = switches(&text("status")?)?;
    let ticked = Ns(user_ticks(&text("stat")?)?.saturating_mul(sys::stat_tick_ns()));
    let cpu = Ns(sys::cpu_clock_ns(process, thread)?);
    Some(Usage { cpu, ticked, voluntary, involuntary })
}

/// User time in accounting ticks: field 14 of `stat`, counted from the end of the name, which may contain anything.
fn user_ticks(stat: &str) -> Option<u64> {
    stat.rsplit_once(')')?.1.split_whitespace().nth(11)?.parse().ok()
}

/// Voluntary and involuntary switches from `status`.
fn switches(status: &str) -> Option<(u32, u32)> {
    let of = |key: &str| {
        let line = status.lines().find_map(|l| l.strip_prefix(key))?;
        line.trim_start_matches(':').trim().parse().ok()
    };
    Some((of("voluntary_ctxt_switches")?, of("nonvoluntary_ctxt_switches")?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_of_proc_are_read_by_their_fields() {
        let stat = "812 (a) b (c) R 1 2 3 4 5 6 7 8 9 10 1234 56 0 0 20 0 1";
        assert_eq!((user_ticks(stat), user_ticks("812 (cut) R 1")), (Some(1234), None));
        let status = "Name:\tx\nvoluntary_ctxt_switches:\t7\nnonvoluntary_ctxt_switches:\t90\n";
        assert_eq!((switches(status), switches("Name:\tx\n")), (Some((7, 90)), None));
    }

    #[test]
    fn ended_tasks_keep_their_last_reading() {
        let (process, thread) = (std::process::id(), sys::thread_id());
        let end = sys::thread_cpu_ns() + 3_000_000;
        while sys::thread_cpu_ns() < end {}
        let mut readings = Readings::default();
        assert_eq!(readings.of(4, process, 0), Usage::default(), "it has not begun");
        let used = readings.of(4, process, thread);
        assert!(used.cpu.0 > 3_000_000 && used.cpu.0 <= sys::thread_cpu_ns(), "{used:?}");
        assert_eq!(readings.of(4, process, 0), used);
        assert_eq!(readings.of(4, process, u32::MAX >> 4), used, "no such thread");
        assert_eq!(readings.of(5, process, 0), Usage::default());
    }
}
