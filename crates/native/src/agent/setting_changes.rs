//! Changes of settings during a run. The loop that waits for the run's end makes them when due.
//!
//! The parent process has written the old values to its journal before the run. So this module only writes texts to
//! files.

use crate::settings::{Later, System, make};
use schedlab_base::{Ns, Result, Warning};
use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;

/// The changes of one run, and the number made so far.
#[derive(Debug, Default)]
pub struct Changes {
    later: Vec<Later>,
    from_ns: Cell<Option<u64>>,
    made: Cell<usize>,
    told: RefCell<BTreeMap<String, String>>,
}

impl Changes {
    pub fn new(mut later: Vec<Later>) -> Changes {
        later.sort_by_key(|l| l.time);
        Changes { later, ..Changes::default() }
    }
    /// Starts the measured time.
    pub fn begin(&self, now_ns: u64) {
        self.from_ns.set(Some(now_ns));
    }
    /// Start of the measured time; `None` before it.
    pub fn begun(&self) -> Option<u64> {
        self.from_ns.get()
    }
    /// Makes due changes; returns the time of the next one.
    ///
    /// # Errors
    /// When the kernel refuses a value.
    pub fn make_due(&self, now_ns: u64) -> Result<Option<u64>> {
        let Some(from) = self.from_ns.get() else { return Ok(None) };
        while let Some(next) = self.later.get(self.made.get()) {
            let due = from.saturating_add(next.time.0);
            if due > now_ns {
                return Ok(Some(due));
            }
            next.writes.iter().try_for_each(|write| make(&System::live(), write))?;
            self.made.set(self.made.get() + 1);
            let values: Vec<String> =
                next.writes.iter().map(|w| format!("{} = {}", w.setting, w.value)).collect();
            let text = format!("{}, {} late", values.join(", "), Ns(now_ns - due));
            self.told.borrow_mut().insert(format!("setting.at.{}", next.time), text);
        }
        Ok(None)
    }
    /// The changes and their times, for the record.
    pub fn changes_made(&self) -> BTreeMap<String, String> {
        self.told.borrow().clone()
    }
    /// A warning if the run ended before all changes were made.
    pub fn missed(&self) -> Option<Warning> {
        let left = self.later.get(self.made.get())?;
        let text = format!("the run was over before its change at {} was made", left.time);
        Some(Warning::new("settings.missed", text))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::settings::{Form, Write};

    #[test]
    fn each_is_made_once_when_it_is_due() {
        let folder = tempfile::tempdir().unwrap();
        let knob = folder.path().join("knob");
        std::fs::write(&knob, "0\n").unwrap();
        let later = |at, value: &str| {
            let (setting, path, value) = ("k".to_owned(), knob.clone(), value.to_owned());
            Later { time: Ns(at), writes: vec![Write { setting, path, form: Form::Plain, value }] }
        };
        let changes = Changes::new(vec![later(200, "2"), later(100, "1")]);
        let seen = || std::fs::read_to_string(&knob).unwrap().trim().to_owned();
        assert_eq!((changes.make_due(5_000).unwrap(), seen().as_str()), (None, "0"), "not begun");
        changes.begin(1_000);
        assert_eq!((changes.make_due(1_099).unwrap(), seen().as_str()), (Some(1_100), "0"));
        assert_eq!((changes.make_due(1_150).unwrap(), seen().as_str()), (Some(1_200), "1"));
        assert!(changes.missed().unwrap().message.contains("200ns"));
        assert_eq!((changes.make_due(1_250).unwrap(), seen().as_str()), (None, "2"));
        assert_eq!(changes.changes_made()["setting.at.100ns"], "k = 1, 50ns late");
        assert!(changes.missed().is_none());
    }
}
