//! What the kernel's own /proc/schedstat counted in the measured time: one copy of it before, one after.
//!
//! The text is long where there are many CPUs, and making it takes the kernel time. So both copies are taken outside of what
//! is measured, as near to it as can be, into memory that is there already, and read when the run is over. What they hold
//! more than the measured time is one such copy and a wakeup of the controller.

use schedlab_base::{Error, Result, Warning};
use schedlab_record::{Schedstat, schedstat};
use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};

/// The file's copies around the measured time.
pub struct KernelCounters {
    file: PathBuf,
    /// `None`: this kernel keeps none, or they are switched off.
    copies: Option<Copies>,
}

struct Copies {
    before: Vec<u8>,
    after: Vec<u8>,
    /// How far the copies are made, and what went wrong.
    made: u8,
    fault: Option<io::Error>,
}

impl KernelCounters {
    /// Those of the running kernel.
    pub fn live() -> KernelCounters {
        let keeps = schedstat::read_live().is_ok();
        KernelCounters::of(Path::new(schedstat::PROC_FILE), keeps)
    }

    /// Those of `file`, where it `keeps` any.
    pub fn of(file: &Path, keeps: bool) -> KernelCounters {
        let copies = keeps.then(|| {
            // Made once beforehand, so that no memory is asked for later.
            let mut before = Vec::new();
            let fault = copy(file, &mut before).err();
            Copies { after: before.clone(), before, made: 0, fault }
        });
        KernelCounters { file: file.to_owned(), copies }
    }

    /// The measured time is about to begin.
    pub fn before(&mut self) {
        self.copy(|c| &mut c.before);
    }
    /// The measured time is over.
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

    /// What was counted in between; `None` where nothing is counted, or nothing was measured. A kernel that stopped counting
    /// in the middle leaves none, with a warning.
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

/// Copies the file in place of what `to` holds; tells how long it is.
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
    fn only_what_is_counted_between_the_copies_counts() {
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
    fn what_is_not_kept_or_not_measured_is_absent_and_what_was_lost_is_told() {
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
