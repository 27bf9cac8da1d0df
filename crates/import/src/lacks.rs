//! Finds tracepoints that a recording lacks, and the figures that can't be given without them.
//!
//! A recording that lacks some tracepoints is still a good recording of the rest. Nothing is guessed: figures that
//! depend on a missing tracepoint are not measured.

use crate::sched_record::RecordKind;
use schedlab_base::{Error, Result, Warning};
use schedlab_trace::SwitchReason;

/// How to record the needed tracepoints with other tools.
pub const HOW_TO_RECORD: &str = "record sched_switch, sched_waking and sched_wakeup: perf sched record, or trace-cmd record -e sched_switch \
     -e sched_waking -e sched_wakeup";
/// The warning's code for a recording without wakeups.
pub const LACKS_WAKEUPS: &str = "recording.lacks_wakeups";

/// The number of records of each kind.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Kinds {
    /// sched_switch.
    pub switches: u64,
    /// Of these, those of a task that went to sleep.
    pub sleeps: u64,
    /// sched_waking.
    pub wakings: u64,
    /// sched_wakeup, without those of new tasks.
    pub wakeups: u64,
    /// sched_migrate_task.
    pub moves: u64,
    /// sched_wakeup_new, sched_process_fork and task_newtask.
    pub births: u64,
}

impl Kinds {
    #[inline]
    pub fn note(&mut self, what: &RecordKind) {
        let count = match what {
            RecordKind::Switch { why, .. } => {
                self.sleeps += u64::from(*why == SwitchReason::Blocked);
                &mut self.switches
            }
            RecordKind::Waking { .. } => &mut self.wakings,
            RecordKind::Queued { new: false, .. } => &mut self.wakeups,
            RecordKind::Queued { new: true, .. } | RecordKind::Fork { .. } => &mut self.births,
            RecordKind::Migrate { .. } => &mut self.moves,
            RecordKind::Exit { .. } | RecordKind::Rename { .. } | RecordKind::Lost { .. } => return,
        };
        *count += 1;
    }

    /// Whether wakeups were recorded in any way. A recording in which no task slept needs none.
    pub fn has_wakeups(&self) -> bool {
        self.wakings > 0 || self.wakeups > 0 || self.sleeps == 0
    }

    /// Refuses a recording of which nothing can be computed.
    ///
    /// # Errors
    /// When it has no sched_switch.
    pub fn check(&self, records: u64) -> Result<()> {
        if self.switches > 0 {
            return Ok(());
        }
        let text = format!(
            "the recording has {} of the scheduler and no sched_switch: it does not say which task ran",
            schedlab_base::counted(records, "event")
        );
        Err(Error::input(text).help(HOW_TO_RECORD))
    }

    /// Names the missing tracepoints and the figures that can't be given for that.
    pub fn warnings(&self) -> Vec<Warning> {
        let mut all = Vec::new();
        if !self.has_wakeups() {
            all.push(Warning::new(
                LACKS_WAKEUPS,
                "the recording has no sched_waking and no sched_wakeup: how often and by whom tasks were woken, and how \
                 long they waited for a CPU after that, is not known and not measured; 'replay' lets each sleep last \
                 until the task ran again, and lets no task wake another",
            ));
        } else if self.wakings == 0 && self.wakeups > 0 {
            all.push(Warning::new(
                "recording.lacks_waking",
                "the recording has no sched_waking: delays begin with sched_wakeup, when a task is queued, and lack the \
                 choice of its CPU before that; a task that was queued by an interrupt of its CPU has no known waker",
            ));
        }
        all
    }

    /// The missing tracepoints, each with the figures that can't be given. Some may just have had nothing to report.
    pub fn lacks(&self) -> Vec<(&'static str, &'static str)> {
        let rows = [
            (
                self.wakings,
                "sched_waking",
                "when wakeups began, and the wakers of tasks that an interrupt queued",
            ),
            (self.wakeups, "sched_wakeup", "when a woken task was queued: it counts from sched_waking"),
            (self.moves, "sched_migrate_task", "moves of tasks that wait: a move is seen when the task runs"),
            (self.births, "sched_process_fork", "who made a task: it begins when it is first met"),
        ];
        rows.into_iter().filter(|(n, ..)| *n == 0).map(|(_, name, what)| (name, what)).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn missing_tracepoints_are_named_with_the_figures_that_need_them() {
        let codes = |k: Kinds| k.warnings().into_iter().map(|w| w.code).collect::<Vec<_>>();
        let all = Kinds { switches: 9, sleeps: 4, wakings: 4, wakeups: 4, moves: 1, births: 1 };
        assert!(codes(all).is_empty() && all.lacks().is_empty() && all.check(9).is_ok());
        assert_eq!(codes(Kinds { wakings: 0, ..all }), ["recording.lacks_waking"]);
        let alone = Kinds { wakings: 0, wakeups: 0, ..all };
        assert_eq!(codes(alone), ["recording.lacks_wakeups"]);
        assert_eq!(alone.lacks().len(), 2);
        assert!(codes(Kinds { wakeups: 0, ..all }).is_empty(), "perf sched record");
        assert!(codes(Kinds { switches: 9, ..Kinds::default() }).is_empty(), "no task slept");
        let e = Kinds { switches: 0, ..all }.check(7).unwrap_err();
        assert!(e.message().contains("7 events") && e.message().contains("no sched_switch"), "{e}");
    }
}
