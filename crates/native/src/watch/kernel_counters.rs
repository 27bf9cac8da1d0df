//! The counts of /proc/schedstat over the measured time, from copies of the file before and after it.
//!
//! On machines with many CPUs the text is long, and the kernel needs time to make it. So both copies are made outside
//! the measured time, as close to it as possible, into memory allocated in advance, and read after the run. In addition
//! to the measured time they cover one such copy and a wakeup of the controller.

use schedlab_base::{Error, Result, Warning};
use schedlab_record::{Schedstat, schedstat};
use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};

/// Copies of the file around the measured time.
pub struct KernelCounters {
    file: PathBuf,
    /// `None` if this kernel has no schedstat, or it is disabled.
    copies: Option<Copies>,
}

struct Copies {
    before: Vec<u8>,
    after: Vec<u8>,
    /// Number of copies, and the error if one failed.
    made: u8,
    fault: Option<io::Error>,
}

impl KernelCounters {
    pub fn live() -> KernelCounters {
        let keeps = schedstat::read_live().is_ok();
        KernelCounters::of(Path::new(schedstat::PROC_FILE), keeps)
    }

    /// The counters in `file`, if the kernel `keeps` any.
    pub fn of(file: &Path, keeps: bool) -> KernelCounters {
        let copies = keeps.then(|| {
            // One copy in advance, so that no memory is allocated later.
            let mut before = Vec::new();
            let fault = copy(file, &mut before).err();
            Copies { after: before.clone(), before, made: 0, fault }
        });
        KernelCounters { file: file.to_owned(), copies }
    }

    /// Copies the file before the measured time.
    pub fn before(&mut self) {
        self.copy(|c| &mut c.before);
    }
    /// Copies the file after the measured time.
    pub fn after(&mut self) {
        self.copy(|c| &mut c.after);
    }

    fn copy(&mut self, which: impl Fn(&mut Copies) -> &mut Vec<u8>) {
        let Some(copies) = &mut self.copies else { return };
        match copy(&self.file, which(copies)) {
            Ok(_) => copies.made += 1,
            Err(e) => copies.fault = Some(e),
        }
    }

    /// The counts in between; `None` if nothing was counted or measured. If the kernel stopped counting in between,
    /// there is a warning instead.
    pub fn counted(self, warnings: &mut Vec<Warning>) -> Option<Schedstat> {
        let copies = self.copies.filter(|c| c.made == 2 || c.fault.is_some())?;
        match between(&self.file, copies) {
            Ok((counted, wrapped)) => {
                warnings.extend(wrapped);
                Some(counted)
            }
            Err(e) => {
                let text = format!("schedstat is not kept: {}", e.message());
                warnings.push(Warning::new("schedstat.lost", text));
                None
            }
        }
    }
}

fn between(file: &Path, copies: Copies) -> Result<(Schedstat, Vec<Warning>)> {
    if let Some(e) = copies.fault {
        return Err(Error::io(file, "read", &e));
    }
    let before = schedstat::parse(file, &copies.before)?;
    schedstat::delta(&before, &schedstat::parse(file, &copies.after)?)
}

/// Copies the file over the content of `to`; returns the length.
fn copy(file: &Path, to: &mut Vec<u8>) -> io::Result<usize> {
    to.clear();
    File::open(file)?.read_to_end(to)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn counting(picks: u32) -> String {
        format!("version 15\ntimestamp {picks}\ncpu0 0 0 {picks} 4 0 0 123 45 6\n")
    }

    #[test]
    fn only_counts_between_the_copies_count() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("schedstat");
        let now = |picks| std::fs::write(&file, counting(picks)).unwrap();
        now(9);
        let mut counters = KernelCounters::of(&file, true);
        now(100);
        counters.before();
        now(130);
        counters.after();
        now(1000);
        let mut warnings = Vec::new();
        let counted = counters.counted(&mut warnings).unwrap();
        assert_eq!((counted.cpus[0].sched_count, counted.timestamp, warnings.len()), (30, 30, 0));
    }

    #[test]
    fn unmeasured_counts_are_absent_and_lost_ones_reported() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("schedstat");
        let mut warnings = Vec::new();
        let mut none = KernelCounters::of(&file, false);
        none.before();
        none.after();
        assert_eq!((none.counted(&mut warnings), warnings.len()), (None, 0));
        std::fs::write(&file, counting(3)).unwrap();
        assert_eq!((KernelCounters::of(&file, true).counted(&mut warnings), warnings.len()), (None, 0));
        let mut lost = KernelCounters::of(&file, true);
        lost.before();
        std::fs::remove_file(&file).unwrap();
        lost.after();
        assert_eq!((lost.counted(&mut warnings), warnings[0].code.as_str()), (None, "schedstat.lost"));
    }
}
