//! What a sched_ext scheduler has done, for a record: calls, instructions, the kernel's counters of its events, and how
//! it ended.
//!
//! The kernel counts events since 6.15 (`struct scx_event_stats`, read by `scx_bpf_events()`): their names and places
//! are those of the image's BTF. They go with the scheduler, so they are read before it is taken off.

use crate::ext::Functions;
use schedlab_base::{Error, Result};
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

/// What errors say of a scheduler that the kernel threw out, and of a program that left or took it off.
pub const NOT_LASTING: [&str; 3] = ["did not last", "has left before the run was over", "has taken it off"];
/// `SCX_EXIT_UNREG`: its own side has taken it off.
const EXIT_UNREG: i32 = 64;

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
        Err(Error::input(format!("scheduler {} {}: {} ({words})", self.name, NOT_LASTING[0], self.reason))
            .help("from there on the tasks ran under the fair class: this is not a run of the scheduler"))
    }
    /// Into a record: counters by operation and by the kernel's function, and how it ended. A second scheduler of the
    /// run adds to the counters, and to the words of the first.
    pub(crate) fn report_in(&self, found: &mut Findings) {
        let ops = self.ops.iter().flat_map(|(name, calls, executed)| {
            [(format!("scx.calls.{name}"), *calls), (format!("scx.instructions.{name}"), *executed)]
        });
        let called = self.called.iter().map(|(name, calls)| (format!("scx.kfunc.{name}"), *calls));
        let events = self.events.iter().map(|(name, n)| (format!("scx.event.{name}"), *n));
        for (name, n) in ops.chain(called).chain(events) {
            *found.counters.entry(name).or_default() += n;
        }
        found.counters.insert("scx.exit_kind".to_owned(), self.exit_kind.unsigned_abs().into());
        let exit = match self.exit_kind {
            0 => "it has run to the end".to_owned(),
            kind => format!("kind {kind}, code {}: {}", self.exit_code, self.reason),
        };
        let sent = self.sent.iter().map(|(name, entries)| format!("{name}: {entries}"));
        let sent = sent.collect::<Vec<_>>().join(", ");
        let rare = [("scx.untraced", self.untraced.join(", ")), ("scx.rings", sent)];
        let rare = rare.iter().filter(|(_, value)| !value.is_empty()).map(|(name, value)| (*name, value));
        let always = [("scx.ops", &self.name), ("scx.exit", &exit), ("scx.said", &self.message)];
        for (name, value) in always.into_iter().chain(rare) {
            let words = found.environment.entry(name.to_owned()).or_default();
            let between = if words.is_empty() || value.is_empty() { "" } else { ", then " };
            words.push_str(&format!("{between}{value}"));
        }
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
    fn a_second_scheduler_adds_to_the_first() {
        let one = |name: &str, n| Account {
            name: name.to_owned(),
            exit_kind: if n > 1 { 0 } else { EXIT_UNREG },
            reason: "unregistered from user space".to_owned(),
            ops: vec![("enqueue".to_owned(), n, 10 * n)],
            events: vec![("reenq_immed".to_owned(), n)],
            ..Account::default()
        };
        let mut found = Findings::default();
        one("a", 1).report_in(&mut found);
        one("b", 2).report_in(&mut found);
        let of = |name: &str| found.counters[name];
        assert_eq!((of("scx.calls.enqueue"), of("scx.instructions.enqueue")), (3, 30));
        assert_eq!((of("scx.event.reenq_immed"), of("scx.exit_kind")), (3, 0));
        assert_eq!(found.environment["scx.ops"], "a, then b");
        let exit = "kind 64, code 0: unregistered from user space, then it has run to the end";
        assert_eq!(found.environment["scx.exit"], exit);
    }
}
