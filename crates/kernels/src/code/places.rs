//! Finds the addresses of source lines in an image's code, by its line table (`objdump --dwarf=decodedline`).
//!
//! A line may have several addresses: a compiler repeats and inlines code. Only beginnings of statements count.

use crate::diff::ChangedLines;
use crate::functions::FUNCTIONS_FILE;
use schedlab_base::{Error, Result};
use std::path::Path;
use std::process::Command;

/// A place of the code where a statement of a changed line begins.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct CodePlace {
    pub change: usize,
    pub address: u64,
    /// The function of `kernel/sched` that holds the address; empty if none does.
    pub function: String,
}

/// The places of changed lines in an image.
///
/// # Errors
/// When objdump(1) is missing or can't read the image, or the table of functions is not next to it.
pub fn places(object: &Path, changes: &[ChangedLines]) -> Result<Vec<CodePlace>> {
    let said = Command::new("objdump").arg("--dwarf=decodedline").arg(object).output();
    let said =
        said.map_err(|e| Error::machine(format!("can't start objdump: {e}")).help("install binutils"))?;
    if !said.status.success() {
        let words = String::from_utf8_lossy(&said.stderr).trim().to_owned();
        return Err(Error::machine(format!("objdump can't read {}: {words}", object.display())));
    }
    let path = object.with_file_name(FUNCTIONS_FILE);
    let functions = std::fs::read_to_string(&path).map_err(|e| Error::io(&path, "read", &e))?;
    Ok(in_table(&String::from_utf8_lossy(&said.stdout), &Functions::of(&functions), changes))
}

/// Functions as (address, size, name), sorted.
struct Functions(Vec<(u64, u64, String)>);

impl Functions {
    fn of(table: &str) -> Functions {
        let hex = |word: &str| u64::from_str_radix(word, 16).ok();
        let one = |line: &str| {
            let mut words = line.split(' ');
            let (at, size) = (hex(words.next()?)?, hex(words.next()?)?);
            Some((at, size, words.next()?.to_owned()))
        };
        let mut all: Vec<(u64, u64, String)> = table.lines().filter_map(one).collect();
        all.sort();
        Functions(all)
    }
    fn at(&self, address: u64) -> &str {
        let behind = self.0.partition_point(|(start, ..)| *start <= address);
        let before = behind.checked_sub(1).map(|at| &self.0[at]);
        before.filter(|(at, size, _)| address < at + size).map_or("", |(.., name)| name.as_str())
    }
}

/// Reads the places from objdump's text: a line "path/of/file.c:" stands before the lines of that file, which are
/// "file.c LINE 0xADDRESS [VIEW] [x]", with an x where a statement begins.
fn in_table(text: &str, functions: &Functions, changes: &[ChangedLines]) -> Vec<CodePlace> {
    let mut file = "";
    let mut all: Vec<CodePlace> = Vec::new();
    for line in text.lines() {
        if let Some(path) = line.strip_suffix(':') {
            file = path.strip_prefix("CU: ").unwrap_or(path).trim_start_matches("./");
            continue;
        }
        let words: Vec<&str> = line.split_whitespace().collect();
        let [_, number, address, .., "x"] = words[..] else { continue };
        let (Ok(number), Some(Ok(address))) =
            (number.parse::<usize>(), address.strip_prefix("0x").map(|hex| u64::from_str_radix(hex, 16)))
        else {
            continue;
        };
        let is_of = |c: &ChangedLines| c.lines.contains(&number) && is_file(file, &c.path);
        for change in changes.iter().enumerate().filter(|(_, c)| is_of(c)).map(|(at, _)| at) {
            let place = CodePlace { change, address, function: functions.at(address).to_owned() };
            if !all.contains(&place) {
                all.push(place);
            }
        }
    }
    all
}

/// Whether a file's name in the table means that path of the tree. The first file of an object has its name alone.
fn is_file(name: &str, path: &str) -> bool {
    name == path || name.ends_with(&format!("/{path}")) || path.rsplit('/').next() == Some(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn statements_of_a_line_are_found_with_their_functions() {
        let table = "0000000000001000 0000000000000080 ttwu\n0000000000002000 0000000000000010 other\n";
        let text = "core.c:\nFile name     Line number    Starting address    View    Stmt\n\
                    core.c        4191             0x1010               x\n\
                    core.c        4195             0x1020               x\n\
                    core.c        4195             0x1024\n\
                    core.c        4195             0x1030       1       x\n\n\
                    include/linux/sched.h:\n\
                    sched.h       4195             0x1040               x\n\n\
                    ./kernel/sched/core.c:\n\
                    core.c        4196             0x2008               x\n\
                    core.c        4196             END\n";
        let of = |path: &str, lines| ChangedLines { path: path.to_owned(), lines };
        let changes = [of("kernel/sched/core.c", 4194..=4196), of("include/linux/sched.h", 1..=2)];
        let found = in_table(text, &Functions::of(table), &changes);
        let seen: Vec<(usize, u64, &str)> =
            found.iter().map(|p| (p.change, p.address, p.function.as_str())).collect();
        assert_eq!(seen, [(0, 0x1020, "ttwu"), (0, 0x1030, "ttwu"), (0, 0x2008, "other")]);
        assert!(is_file("/tmp/tree/kernel/sched/core.c", "kernel/sched/core.c"));
        assert!(!is_file("kernel/sched/mycore.c", "kernel/sched/core.c"));
    }
}
