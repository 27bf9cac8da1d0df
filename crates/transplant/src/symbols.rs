//! Calls of the image's code, and their names: function, file and line, where addr2line(1) is installed.

use crate::loader::{base_of, followed};
use std::ffi::c_void;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Calls in this file do the reporting and are not part of the cause.
const REPORTS: &str = "arch/sim/image/reports.c:";

/// Where the image is.
pub(crate) struct Code {
    pub object: PathBuf,
    /// Its address in memory.
    base: usize,
}

impl Code {
    /// The loaded object that holds an address; `None`: none does.
    pub(crate) fn of(object: &Path, inside: *const c_void) -> Option<Code> {
        // The first call loads the unwinder, which a handler could not do.
        followed();
        Some(Code { object: object.to_owned(), base: base_of(inside)? })
    }

    /// The address of the object's first byte.
    pub(crate) fn base(&self) -> usize {
        self.base
    }

    /// The calls within the image that lead here, innermost first, as addresses in the object. `interrupted` is the
    /// place of a signal: it is the instruction itself, all others are the instruction after a call.
    pub(crate) fn calls(&self, interrupted: Option<usize>) -> Vec<usize> {
        let all = followed();
        // The calls above belong to the signal's handler.
        let from = interrupted.and_then(|pc| all.iter().position(|at| *at == pc)).unwrap_or(0);
        all[from..].iter().filter_map(|at| self.inside(*at, interrupted)).collect()
    }
    /// As [`Code::calls`], for addresses that were kept.
    pub(crate) fn kept(&self, calls: &[usize]) -> Vec<usize> {
        calls.iter().filter_map(|at| self.inside(*at, None)).collect()
    }
    fn inside(&self, at: usize, interrupted: Option<usize>) -> Option<usize> {
        let is_here = base_of(at as *const c_void) == Some(self.base);
        is_here.then(|| at - self.base - usize::from(interrupted != Some(at)))
    }

    /// "function at file:line" of each address, after the functions inlined there, without those that only report;
    /// plain addresses without addr2line(1).
    pub(crate) fn names(&self, addresses: &[usize]) -> Vec<String> {
        let named = lines(&self.object, addresses);
        let named = named.unwrap_or_else(|| addresses.iter().map(|a| format!("+{a:#x}")).collect());
        named.into_iter().skip_while(|call| call.contains(REPORTS)).collect()
    }
}

/// Functions with files and lines, by addr2line(1); `None` where it is not installed.
fn lines(object: &Path, addresses: &[usize]) -> Option<Vec<String>> {
    if addresses.is_empty() {
        return Some(Vec::new());
    }
    let mut command = Command::new("addr2line");
    command.args(["-f", "-i", "-e"]).arg(object).args(addresses.iter().map(|a| format!("{a:#x}")));
    let said = command.output().ok().filter(|said| said.status.success())?;
    let text = String::from_utf8_lossy(&said.stdout).into_owned();
    let all: Vec<&str> = text.lines().collect();
    // One of several blocks of a line has a suffix: "kernel/sched/core.c:12 (discriminator 3)".
    let place = |text: &str| text.split(" (").next().unwrap_or_default().trim_start_matches("./").to_owned();
    let call = |pair: &[&str]| format!("{} at {}", pair[0], place(pair.get(1).unwrap_or(&"?")));
    let mut calls: Vec<String> = all.chunks(2).map(call).collect();
    // Macros make several functions on one line.
    calls.dedup();
    Some(calls)
}
