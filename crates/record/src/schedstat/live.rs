//! Reads the running kernel's /proc/schedstat, and saved copies.

use super::{Schedstat, parse};
use schedlab_base::{Error, Result, input};
use std::fs;
use std::path::Path;

pub const PROC_FILE: &str = "/proc/schedstat";
/// The kernel's switch for counting.
const SWITCH: &str = "/proc/sys/kernel/sched_schedstats";

/// Reads a saved file.
///
/// # Errors
/// When it can't be read, is longer than the limit of inputs, or is not a complete /proc/schedstat.
pub fn load(file: &Path) -> Result<Schedstat> {
    parse(file, &input::bytes(file)?)
}

/// Reads the running kernel's counters.
///
/// # Errors
/// When the kernel lacks them or has them switched off. The error names the remedy.
pub fn read_live() -> Result<Schedstat> {
    read_from(Path::new(PROC_FILE), Path::new(SWITCH))
}

fn read_from(file: &Path, switch: &Path) -> Result<Schedstat> {
    if !file.exists() {
        return Err(Error::machine(format!("this kernel has no {}", file.display())).help(
            "it is built without CONFIG_SCHEDSTATS: boot one that has it, or give saved files or a simulated run",
        ));
    }
    let stat = load(file)?;
    let switched_off = fs::read_to_string(switch).is_ok_and(|t| t.trim() == "0");
    if switched_off || !stat.is_counting() {
        return Err(Error::machine("this kernel's schedstat is switched off: it does not count")
            .help("as root: sysctl kernel.sched_schedstats=1, or boot with schedstats=enable"));
    }
    Ok(stat)
}

#[cfg(test)]
mod tests {
    use super::*;
    use schedlab_base::ErrorKind;

    const OFF: &str = "version 15\ntimestamp 1\ncpu0 0 0 0 0 0 0 123 45 6\n";
    const ON: &str = "version 15\ntimestamp 1\ncpu0 0 0 9 4 0 0 123 45 6\n";

    #[test]
    fn a_kernel_without_counters_and_one_with_counters_off_are_distinguished() {
        let dir = tempfile::tempdir().unwrap();
        let (file, switch) = (dir.path().join("schedstat"), dir.path().join("switch"));
        let fails = |part: &str| {
            let e = read_from(&file, &switch).unwrap_err();
            assert_eq!(e.kind(), ErrorKind::Machine);
            assert!(e.to_string().contains(part), "{e}");
        };
        fails("CONFIG_SCHEDSTATS");
        fs::write(&file, OFF).unwrap();
        fails("kernel.sched_schedstats=1");
        fs::write(&file, ON).unwrap();
        assert_eq!(read_from(&file, &switch).unwrap().cpus[0].sched_count, 9);
        fs::write(&switch, "0\n").unwrap();
        fails("schedstats=enable");
    }
}
