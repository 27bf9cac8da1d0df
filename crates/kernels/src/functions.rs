//! The table of the scheduler's functions in a built kernel, for counters of instructions.

use schedlab_base::{Error, Result};
use std::collections::BTreeSet;
use std::fmt::Write;
use std::path::Path;
use std::process::Command;

/// The file of functions, next to an image: lines "ADDRESS SIZE NAME", numbers in hexadecimal.
pub const FUNCTIONS_FILE: &str = "functions";
/// The function whose calls are the marks: a system call that only init makes here, around each run.
pub const MARK: &str = "__x64_sys_syncfs";
/// The archive of the scheduler's objects.
const SCHEDULER: &str = "kernel/sched/built-in.a";
const KERNEL: &str = "vmlinux";

/// Lines "ADDRESS SIZE NAME" in hexadecimal: functions of `kernel/sched`, and the function of the counter's mark. A
/// static function elsewhere with the name of one of the scheduler's is included.
///
/// # Errors
/// When nm(1) fails.
pub fn table_of(objects: &Path) -> Result<String> {
    let own = nm(&objects.join(SCHEDULER), &["--defined-only"])?;
    let all = nm(&objects.join(KERNEL), &["-S", "--defined-only"])?;
    Ok(table(&own, &all))
}

/// The table from nm's outputs: the functions that `own` names, with their lines of `all`.
pub(crate) fn table(own: &str, all: &str) -> String {
    let is_code = |kind: &str| matches!(kind, "t" | "T" | "w" | "W");
    let mut names: BTreeSet<&str> = BTreeSet::from([MARK]);
    for line in own.lines() {
        let words: Vec<&str> = line.split_whitespace().collect();
        if let [_, kind, name] = words[..]
            && is_code(kind)
        {
            names.insert(name);
        }
    }
    let mut out = String::new();
    for line in all.lines() {
        let words: Vec<&str> = line.split_whitespace().collect();
        if let [address, size, kind, name] = words[..]
            && is_code(kind)
            && names.contains(name)
        {
            let _ = writeln!(out, "{address} {size} {name}");
        }
    }
    out
}

fn nm(file: &Path, options: &[&str]) -> Result<String> {
    let said = Command::new("nm").args(options).arg(file).output();
    let said = said.map_err(|e| Error::machine(format!("can't start nm: {e}")).help("install binutils"))?;
    if !said.status.success() {
        let words = String::from_utf8_lossy(&said.stderr).trim().to_owned();
        return Err(Error::machine(format!("nm can't read {}: {words}", file.display())));
    }
    Ok(String::from_utf8_lossy(&said.stdout).into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn code_of_the_scheduler_and_the_mark_are_in_the_table() {
        let own = "\nfair.o:\n0000000000000000 t place_entity\n0000000000000010 D sysctl_x\n0000000000000000 T schedule\n";
        let all = "ffffffff81000000 0000000000000040 T schedule\nffffffff81000040 0000000000000020 t place_entity\n\
                   ffffffff81000060 0000000000000020 T __x64_sys_syncfs\nffffffff81000080 0000000000000020 T vfs_read\n\
                   ffffffff82000000 0000000000000004 D sysctl_x\n";
        let table = table(own, all);
        let names: Vec<&str> = table.lines().filter_map(|l| l.split(' ').nth(2)).collect();
        assert_eq!(names, ["schedule", "place_entity", MARK]);
        assert!(table.starts_with("ffffffff81000000 0000000000000040 schedule\n"));
    }
}
