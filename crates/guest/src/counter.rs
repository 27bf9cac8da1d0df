//! Exact counts of the scheduler's instructions: a QEMU plugin counts calls and instructions of each function of
//! `kernel/sched` between two marks that init sets around each run.
//!
//! Counting does not change a guest's time, because the plugin's instructions are not the guest's. It needs a table of
//! the scheduler's functions next to the image (kernels built by schedlab have one), a C compiler, and QEMU 9.0 or
//! later, the first with version 3 of the interface.

use crate::Guest;
use schedlab_base::content_hash;
use schedlab_base::{Error, Result, Version, temp};
use schedlab_kernels::cache;
use schedlab_kernels::functions::{FUNCTIONS_FILE, MARK};
use schedlab_record::{Counts, FunctionCount};
use std::fmt::Write;
use std::path::{Path, PathBuf};
use std::process::Command;

const SOURCE: &str = include_str!("counter.c");
const SINCE: Version = Version::new(9, 0);

/// The plugin with its table of functions.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Counter {
    plugin: PathBuf,
    names: Vec<String>,
    /// The table in the plugin's form.
    map: String,
    mark: u64,
}

impl Counter {
    /// The counter for a guest's image; `None` if no table of functions is next to it.
    ///
    /// # Errors
    /// When the table can't be read, the plugin can't be compiled, or this QEMU does not support such plugins.
    pub fn of(guest: &Guest) -> Result<Option<Counter>> {
        let table = guest.image.path.with_file_name(FUNCTIONS_FILE);
        if !table.is_file() || guest.qemu.version < SINCE {
            return Ok(None);
        }
        let text = std::fs::read_to_string(&table).map_err(|e| Error::io(&table, "read", &e))?;
        let plugin = plugin(&cache::folder(None)?)?;
        parsed(&text, plugin).map(Some).ok_or_else(|| {
            Error::input(format!("{}: no table of functions", table.display()))
                .help("remove the folder; the kernel is then built again")
        })
    }
    /// QEMU's option. Writes the table to `map`.
    pub fn option(&self, map: &Path, out: &Path) -> Result<String> {
        temp::write_whole(map, self.map.as_bytes())?;
        let doubled = |path: &Path| path.display().to_string().replace(',', ",,");
        let (plugin, map, out) = (doubled(&self.plugin), doubled(map), doubled(out));
        Ok(format!("file={plugin},map={map},mark={:x},out={out}", self.mark))
    }
    /// Reads a run's counts from the plugin's output.
    pub fn read(&self, out: &Path) -> Counts {
        let text = std::fs::read_to_string(out).unwrap_or_default();
        let mut run = Counts::new();
        for line in text.lines() {
            let mut numbers = line.split(' ').map_while(|n| n.parse::<u64>().ok());
            let (Some(index), Some(calls), Some(instructions)) =
                (numbers.next(), numbers.next(), numbers.next())
            else {
                continue;
            };
            if let Some(name) = self.names.get(index as usize) {
                run.insert(name.clone(), FunctionCount { calls, instructions });
            }
        }
        run
    }
}

fn parsed(text: &str, plugin: PathBuf) -> Option<Counter> {
    let mut all: Vec<(u64, u64, &str)> = Vec::new();
    for line in text.lines() {
        let mut words = line.split_whitespace();
        let address = u64::from_str_radix(words.next()?, 16).ok()?;
        let size = u64::from_str_radix(words.next()?, 16).ok()?;
        all.push((address, address.checked_add(size)?, words.next()?));
    }
    all.sort_unstable();
    let mark = all.iter().find(|(_, _, name)| *name == MARK)?.0;
    let (mut names, mut map, mut last) = (Vec::<String>::new(), String::new(), 0);
    for (start, end, name) in all.into_iter().filter(|(start, end, name)| end > start && *name != MARK) {
        // Aliases of a function have the same address.
        if start < last {
            continue;
        }
        last = end;
        let name = base_name(name);
        let index = names.iter().position(|n| n == name).unwrap_or_else(|| {
            names.push(name.to_owned());
            names.len() - 1
        });
        let _ = writeln!(map, "{start:x} {end:x} {index:x}");
    }
    (!names.is_empty()).then_some(Counter { plugin, names, map, mark })
}

/// A function's name without the compiler's suffix: parts of a function count as the function.
fn base_name(name: &str) -> &str {
    name.split('.').next().unwrap_or(name)
}

/// The compiled plugin; the cache stores it by its source.
fn plugin(cache: &Path) -> Result<PathBuf> {
    let folder = cache.join("plugins");
    let place = folder.join(format!("counter-{}.so", &content_hash(SOURCE.as_bytes())[..12]));
    if place.is_file() {
        return Ok(place);
    }
    std::fs::create_dir_all(&folder).map_err(|e| Error::io(&folder, "make", &e))?;
    let made = temp::TempFolder::create(&folder, ".counter-", 0o700)?;
    let (source, object) = (made.path.join("counter.c"), made.path.join("counter.so"));
    temp::write_whole(&source, SOURCE.as_bytes())?;
    let compiler =
        Command::new("cc").args(["-O2", "-shared", "-fPIC", "-o"]).arg(&object).arg(&source).output();
    let said = compiler.map_err(|e| {
        Error::machine(format!("can't start the C compiler cc: {e}"))
            .help("install gcc; it builds kernels, too")
    })?;
    if !said.status.success() {
        let words = String::from_utf8_lossy(&said.stderr).trim().to_owned();
        return Err(Error::machine(format!("the counter of instructions does not compile: {words}")));
    }
    std::fs::rename(&object, &place).map_err(|e| Error::io(&place, "make", &e))?;
    Ok(place)
}

#[cfg(test)]
mod tests {
    use super::*;

    const TABLE: &str = "ffffffff81000100 40 try_to_wake_up\nffffffff81000000 80 schedule\n\
                         ffffffff81000100 40 alias\nffffffff82000000 10 schedule.cold\n\
                         ffffffff81f00000 20 __x64_sys_syncfs\nffffffff81000200 0 empty\n";

    #[test]
    fn parts_of_a_function_and_aliases_count_once() {
        let counter = parsed(TABLE, "p.so".into()).unwrap();
        assert_eq!(counter.names, ["schedule", "alias"]);
        assert_eq!(counter.mark, 0xffff_ffff_81f0_0000);
        assert_eq!(
            counter.map,
            "ffffffff81000000 ffffffff81000080 0\nffffffff81000100 ffffffff81000140 1\nffffffff82000000 ffffffff82000010 0\n"
        );
        assert!(parsed("ffffffff81000100 40 try_to_wake_up\n", "p.so".into()).is_none(), "no mark");
        assert!(parsed("garbage\n", "p.so".into()).is_none());
    }

    #[test]
    fn the_plugins_output_is_read() {
        let folder = tempfile::tempdir().unwrap();
        let out = folder.path().join("out");
        std::fs::write(&out, "run\n0 1 90\n1 2 10\n7 1 1\n").unwrap();
        let run = parsed(TABLE, "p.so".into()).unwrap().read(&out);
        assert_eq!(run["schedule"], FunctionCount { calls: 1, instructions: 90 });
        assert_eq!((run.len(), run["alias"].calls), (2, 2));
    }

    #[test]
    fn the_plugin_compiles_without_warnings() {
        let folder = tempfile::tempdir().unwrap();
        let source = folder.path().join("counter.c");
        std::fs::write(&source, SOURCE).unwrap();
        let Ok(said) = Command::new("cc")
            .args(["-Wall", "-Wextra", "-Werror", "-O2", "-fPIC", "-c", "-o", "/dev/null"])
            .arg(&source)
            .output()
        else {
            return schedlab_base::testing::skipped("a C compiler");
        };
        assert!(said.status.success(), "{}", String::from_utf8_lossy(&said.stderr));
    }
}
