//! The kernel's performance counters of a workload, as in `perf stat`, for runs that request them.
//!
//! Counters are opened by perf_event_open(2) (Linux 2.6.31) before the tasks are made. The tasks inherit them, so that
//! each task has its own counts without sampling. The CPU counts a group of counters together or not at all; only a
//! group's leader is enabled and disabled, and its members follow. A counter that the machine lacks or this user may
//! not have is absent, with the reason. Counts are whole numbers, times ns.

mod counts;
mod scale;
mod set;
mod table;
pub mod watch;

pub use counts::Counts;
pub use set::{Set, Whom, denied, masked, not_allowed};
pub use table::{EVENTS, Event, Width};

use schedlab_base::Result;

/// Counts the tasks that this thread makes from now on. The thread's own part is counted separately and subtracted.
pub struct Offspring {
    all: Set,
    own: Set,
}

impl Offspring {
    /// Opens the counters, disabled.
    pub fn open(width: Width) -> Offspring {
        Offspring { all: Set::open(&Whom::Offspring, width), own: Set::open(&Whom::Myself, width) }
    }
    /// No counters, because none were requested.
    pub fn unwanted() -> Offspring {
        Offspring { all: Set::unwanted(), own: Set::unwanted() }
    }
    pub fn none(why: &str) -> Offspring {
        Offspring { all: Set::none(why), own: Set::none(why) }
    }
    /// Starts counting in all existing tasks.
    ///
    /// # Errors
    /// When the kernel refuses.
    pub fn start(&mut self) -> Result<()> {
        self.all.enable()?;
        self.own.enable()
    }
    /// Stops counting in all tasks.
    ///
    /// # Errors
    /// When the kernel refuses.
    pub fn stop(&mut self) -> Result<()> {
        self.own.disable()?;
        self.all.disable()
    }
    /// The tasks' counts in between. Call it after they have ended.
    pub fn read(&mut self) -> Counts {
        let own = self.own.read();
        self.all.read().less(&own)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use schedlab_base::testing::skipped;
    use schedlab_record::Findings;
    use std::collections::BTreeMap;

    fn counts(list: &[(&str, u64)]) -> Counts {
        let counters = list.iter().map(|(n, v)| ((*n).to_owned(), *v)).collect();
        Counts { counters, ..Counts::default() }
    }

    #[test]
    fn the_controllers_part_is_taken_off_and_never_more_than_there_is() {
        let all = counts(&[("perf.task_clock", 100), ("perf.context_switches", 3)]);
        let own = counts(&[("perf.task_clock", 101), ("perf.context_switches", 1), ("perf.cycles", 9)]);
        assert_eq!(all.less(&own), counts(&[("perf.task_clock", 0), ("perf.context_switches", 2)]));
    }

    #[test]
    fn unwanted_counters_are_missing_for_that_reason() {
        let mut none = Offspring::none("not now");
        none.start().unwrap();
        none.stop().unwrap();
        let counts = none.read();
        assert!(counts.counters.is_empty());
        let reasons: Vec<&str> = counts.uncounted.values().map(String::as_str).collect();
        assert_eq!(reasons, vec!["not now"; EVENTS.len()]);
    }

    #[test]
    fn reasons_are_in_the_environment_under_the_counters_name() {
        let uncounted = BTreeMap::from([("perf.cycles".to_owned(), "none here".to_owned())]);
        let counts = Counts { uncounted, ..counts(&[("perf.page_faults", 7)]) };
        let mut found = Findings::default();
        counts.join(&mut found);
        assert_eq!((found.counters["perf.page_faults"], found.warnings.len()), (7, 0));
        assert_eq!(found.environment["uncounted.perf.cycles"], "none here");
    }

    /// Two threads pass a byte back and forth: the kernel's counter must agree with each thread's usage.
    #[test]
    fn switches_of_tasks_are_those_the_kernel_accounts_to_them() {
        use std::io::{Read, Write};
        let mut counting = Offspring::open(Width::Usual);
        if let Some(why) = counting.all.why("perf.context_switches") {
            return skipped(format!("perf.context_switches: {why}"));
        }
        counting.start().unwrap();
        let (mut there_in, mut there_out) = std::io::pipe().unwrap();
        let (mut back_in, mut back_out) = std::io::pipe().unwrap();
        let switches = || {
            let usage = crate::sys::thread_usage();
            usage.voluntary + usage.involuntary
        };
        let used: u64 = std::thread::scope(|scope| {
            let answer = scope.spawn(move || {
                let mut byte = [0];
                while there_in.read(&mut byte).unwrap() > 0 {
                    back_out.write_all(&byte).unwrap();
                }
                switches()
            });
            let ask = scope.spawn(move || {
                let mut byte = [1];
                for _ in 0..500 {
                    there_out.write_all(&byte).unwrap();
                    back_in.read_exact(&mut byte).unwrap();
                }
                drop(there_out);
                switches()
            });
            ask.join().unwrap() + answer.join().unwrap()
        });
        counting.stop().unwrap();
        let counts = counting.read();
        let counted = counts.counters["perf.context_switches"];
        // A thread's last switch, at its end, comes after it has read its usage.
        assert!((used..=used + 2).contains(&counted), "{used} by getrusage, {counted} counted");
        assert!(used >= 500, "{used}");
        assert!(counts.counters["perf.task_clock"] > 100_000, "{counts:?}");
    }
}
