//! What a sched_ext scheduler has done, for a record: calls, instructions, the kernel's counters of its events, and how
//! it ended.
//!
//! The kernel counts events since 6.15 (`struct scx_event_stats`, read by `scx_bpf_events()`): their names and places
//! are those of the image's BTF. They go with the scheduler, so they are read before it is taken off.

use crate::ext::Functions;
use schedlab_base::{Error, Result, SchedulerFailure};
use schedlab_record::Findings;
use schedlab_scx::btf::{Btf, Kind};
use std::cell::RefCell;
use std::collections::HashMap;
use std::ffi::{c_ulong, c_void};

/// Why and how a scheduler ended, and what it has done.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Account {
    pub name: String,
    /// Programs whose targets the image does not have: they never ran.
    pub untraced: Vec<String>,
    /// `enum scx_exit_kind`; 0: it has not ended.
    pub exit_kind: i32,
    pub exit_code: i64,
    pub reason: String,
    pub message: String,
    /// Calls and instructions of each operation.
    pub ops: Vec<(String, u64, u64)>,
    /// Calls of each of the kernel's functions.
    pub called: Vec<(String, u64)>,
    /// The kernel's counters of its events.
    pub events: Vec<(String, u64)>,
    /// Entries of each ring to user space.
    pub sent: Vec<(String, u64)>,
}

/// `enum scx_exit_kind`: its own side has taken it off; it has ended itself by `scx_bpf_exit()`; the watchdog.
const EXIT_UNREG: i32 = 64;
const EXIT_UNREG_BPF: i32 = 65;
const EXIT_ERROR_STALL: i32 = 1026;

impl Account {
    /// Whether it had the tasks to the end: else they ran under the kernel's own classes.
    ///
    /// # Errors
    /// Why it ended, in the kernel's words.
    pub(crate) fn has_lasted(&self) -> Result<()> {
        if matches!(self.exit_kind, 0 | EXIT_UNREG) {
            return Ok(());
        }
        let words = if self.message.is_empty() { &self.reason } else { &self.message };
        let failure = match self.exit_kind {
            EXIT_UNREG_BPF => SchedulerFailure::Left,
            EXIT_ERROR_STALL => SchedulerFailure::Stalled,
            kind => SchedulerFailure::ThrownOut(kind),
        };
        Err(Error::input(format!("scheduler {} did not last: {} ({words})", self.name, self.reason))
            .of_scheduler(failure)
            .help("from there on the tasks ran under the fair class: this is not a run of the scheduler"))
    }
    /// Into a record: counters by operation and by the kernel's function, added to those of another scheduler.
    pub(crate) fn count_in(&self, found: &mut Findings) {
        let ops = self.ops.iter().flat_map(|(name, calls, executed)| {
            [(format!("scx.calls.{name}"), *calls), (format!("scx.instructions.{name}"), *executed)]
        });
        let called = self.called.iter().map(|(name, calls)| (format!("scx.kfunc.{name}"), *calls));
        let events = self.events.iter().map(|(name, n)| (format!("scx.event.{name}"), *n));
        for (name, n) in ops.chain(called).chain(events) {
            *found.counters.entry(name).or_default() += n;
        }
        found.counters.insert("scx.exit_kind".to_owned(), self.exit_kind.unsigned_abs().into());
    }
    /// How it ended, for a record; and what rarely is.
    pub(crate) fn facts(&self) -> Vec<(&'static str, String)> {
        let exit = match self.exit_kind {
            0 => "it has run to the end".to_owned(),
            kind => format!("kind {kind}, code {}: {}", self.exit_code, self.reason),
        };
        let sent = self.sent.iter().map(|(name, entries)| format!("{name}: {entries}"));
        let sent = sent.collect::<Vec<_>>().join(", ");
        let rare = [("scx.untraced", self.untraced.join(", ")), ("scx.rings", sent)];
        let always = [("scx.exit", exit), ("scx.said", self.message.clone())];
        always.into_iter().chain(rare.into_iter().filter(|(_, value)| !value.is_empty())).collect()
    }
}

/// The kernel's counters of a scheduler's events.
pub(crate) struct Events {
    function: *const c_void,
    /// Words of 8 bytes that it fills.
    words: usize,
    /// Names and places among the words.
    names: Vec<(String, usize)>,
    /// What was read last while the scheduler was there.
    last: RefCell<Vec<u64>>,
}

impl Events {
    /// `None`: this kernel counts none.
    pub fn of(symbols: &HashMap<String, usize>, btf: &Btf) -> Option<Events> {
        let function = *symbols.get("scx_bpf_events")? as *const c_void;
        let id = btf.find("scx_event_stats", Kind::Struct)?;
        let words = btf.size(id)?.div_ceil(8) as usize;
        let name = |name: &str| name.trim_start_matches("SCX_EV_").to_ascii_lowercase();
        let names = btf.items(id).iter().map(|item| (name(btf.item_name(item)), (item.value / 64) as usize));
        let names = names.filter(|(_, at)| *at < words).collect();
        Some(Events { function, words, names, last: RefCell::new(vec![0; words]) })
    }
    /// Their values; those of the last time if the scheduler has gone.
    pub fn read(&self, functions: &Functions) -> Vec<(String, u64)> {
        let mut last = self.last.borrow_mut();
        let to = last.as_mut_ptr().cast();
        // SAFETY: the function is the kernel's own, which fills at most so many bytes; without a scheduler it is not
        // called.
        unsafe { (functions.img_ext_events)(self.function, to, (self.words * 8) as c_ulong) };
        self.names.iter().map(|(name, at)| (name.clone(), last[*at])).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_end_before_the_runs_has_the_kernels_kind() {
        let of = |exit_kind| {
            let account = Account { exit_kind, ..Account::default() };
            account.has_lasted().err().and_then(|e| e.scheduler())
        };
        assert_eq!([0, EXIT_UNREG].map(of), [None, None]);
        assert_eq!(of(1026), Some(SchedulerFailure::Stalled));
        assert_eq!(of(1025), Some(SchedulerFailure::ThrownOut(1025)));
        assert_eq!(of(65), Some(SchedulerFailure::Left));
    }
}
