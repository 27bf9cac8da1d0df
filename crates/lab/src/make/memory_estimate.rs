//! An estimate, made before the first run, of whether the runs fit this machine's memory.
//!
//! The estimate adds the sizes of all CPUs, pairs of CPUs, tasks and channels in the simulator. It stands for the
//! largest resident size; tests/room.rs checks it within a factor of 2. Every pair counts because each CPU remembers
//! what it last read of every other. Sizes are in bytes.

use crate::make::plan::{Plan, Run};
use schedlab_base::{Error, Result};
use schedlab_native::limits::cgroup2;
use schedlab_workload::Built;
use std::fs;
use std::path::Path;

const PER_CPU: u64 = 6 << 10;
const PER_PAIR: u64 = 9;
const PER_TASK: u64 = 1600;
const PER_CHANNEL: u64 = 4 << 10;
/// The analyser's histograms and other parts of fixed size.
const PER_RUN: u64 = 1 << 20;
/// Parts of a record that are kept until all are compared: a task's account, and the counters of a CPU's
/// domains.
const KEPT_PER_TASK: u64 = 160;
const KEPT_PER_CPU: u64 = 2 << 10;

/// The numbers that decide a run's memory.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Size {
    /// CPUs of the machine.
    pub cpus: u64,
    /// Tasks of the workload.
    pub tasks: u64,
    /// Its pipes and sockets.
    pub channels: u64,
}

impl Size {
    /// The size of a workload on `cpus` CPUs.
    pub fn of(cpus: usize, built: &Built) -> Size {
        Size { cpus: cpus as u64, tasks: built.tasks.len() as u64, channels: built.channels.len() as u64 }
    }
    /// Most bytes of its simulation.
    pub fn simulated(self) -> u64 {
        let parts = [
            (self.cpus, PER_CPU),
            (self.cpus * self.cpus, PER_PAIR),
            (self.tasks, PER_TASK),
            (self.channels, PER_CHANNEL),
        ];
        PER_RUN + parts.iter().map(|(n, each)| n.saturating_mul(*each)).sum::<u64>()
    }
    /// Bytes of its record.
    fn kept(self) -> u64 {
        self.cpus * KEPT_PER_CPU + self.tasks * KEPT_PER_TASK
    }
    fn words(self) -> String {
        format!(
            "{}, {}, {}",
            schedlab_base::counted(self.cpus, "CPU"),
            schedlab_base::counted(self.tasks, "task"),
            schedlab_base::counted(self.channels, "channel")
        )
    }
}

/// Checks that one simulation fits.
///
/// # Errors
/// When it takes more memory than this machine has left.
pub fn for_one(size: Size) -> Result<()> {
    within(&[size], 1, available())
}

/// Checks that the missing simulations of a plan fit, `jobs` side by side.
///
/// # Errors
/// When they take more memory than this machine has left, or a workload can't be built.
pub fn for_plan<'a>(plan: &Plan, runs: impl IntoIterator<Item = &'a Run>, jobs: usize) -> Result<()> {
    let mut known: Vec<Option<Size>> = vec![None; plan.cells.len()];
    let mut sizes = Vec::new();
    for run in runs {
        let cell = &plan.cells[run.cell];
        if !cell.is_simulated() {
            continue;
        }
        let size = match known[run.cell] {
            Some(size) => size,
            None => Size::of(cell.machine.topology.nr_cpus(), &cell.grouped()?.build(run.seed)?),
        };
        known[run.cell] = Some(size);
        sizes.push(size);
    }
    within(&sizes, jobs, available())
}

/// Compares the memory of `jobs` runs side by side, and of all records, with the memory available.
fn within(runs: &[Size], jobs: usize, available: Option<u64>) -> Result<()> {
    let mut largest = runs.to_vec();
    largest.sort_by_key(|size| std::cmp::Reverse(size.simulated()));
    let (Some(first), Some(available)) = (largest.first(), available) else { return Ok(()) };
    let kept = runs.iter().map(|size| size.kept()).sum::<u64>();
    let beside = |jobs: usize| largest.iter().take(jobs).map(|size| size.simulated()).sum::<u64>();
    if beside(jobs) + kept <= available {
        return Ok(());
    }
    let jobs = jobs.min(largest.len());
    let fits = (1..jobs).rev().find(|fewer| beside(*fewer) + kept <= available);
    let beside =
        if jobs > 1 { format!("{jobs} simulations side by side") } else { "the simulation".to_owned() };
    let records = if kept > available / 10 {
        format!(" and the records of {} {}", schedlab_base::counted(runs.len(), "run"), shown(kept))
    } else {
        String::new()
    };
    let text = format!(
        "{beside} would take about {}{records}, and {} of memory are available; the largest has {}",
        shown(largest.iter().take(jobs).map(|size| size.simulated()).sum()),
        shown(available),
        first.words()
    );
    Err(Error::machine(text).help(match fits {
        Some(fewer) => format!("--jobs {fewer} fits"),
        None if runs.len() > jobs && kept > available / 2 => "make fewer runs at a time".to_owned(),
        None => "use fewer tasks or CPUs, or a machine with more memory".to_owned(),
    }))
}

fn shown(bytes: u64) -> String {
    match bytes {
        b if b >= 10 << 30 => format!("{} GB", b >> 30),
        b if b >= 1 << 30 => format!("{:.1} GB", b as f64 / (1_u64 << 30) as f64),
        b => format!("{} MB", (b >> 20).max(1)),
    }
}

/// Bytes still available: the kernel's figure, or the rest of this process's cgroup if that is less. `None`
/// if it can't be read.
fn available() -> Option<u64> {
    let read = |path: &Path| fs::read_to_string(path).ok();
    let free = from_meminfo(&read(Path::new("/proc/meminfo"))?)?;
    let own = read(Path::new("/proc/self/cgroup")).unwrap_or_default();
    let group = cgroup2(&own).map(|path| Path::new("/sys/fs/cgroup").join(path.trim_start_matches('/')));
    let number = |file: &str| read(&group.as_ref()?.join(file))?.trim().parse::<u64>().ok();
    let left = number("memory.max").map(|most| {
        let stat = group.as_ref().and_then(|g| read(&g.join("memory.stat"))).unwrap_or_default();
        left_in_group(most, number("memory.current").unwrap_or(0), &stat)
    });
    Some(left.map_or(free, |left| left.min(free)))
}

/// Bytes that a cgroup may still take. Pages of files in its `memory.stat` count as free, since they are
/// given back when memory is short; pages of shared memory do not.
fn left_in_group(most: u64, current: u64, stat: &str) -> u64 {
    let of = |name: &str| {
        let line = stat.lines().find_map(|l| l.strip_prefix(name)?.strip_prefix(' '));
        line.and_then(|n| n.trim().parse::<u64>().ok()).unwrap_or(0)
    };
    let cache = of("inactive_file").saturating_add(of("active_file"));
    most.saturating_sub(current.saturating_sub(cache))
}

fn from_meminfo(text: &str) -> Option<u64> {
    let line = text.lines().find_map(|l| l.strip_prefix("MemAvailable:"))?;
    Some(line.trim().strip_suffix("kB")?.trim().parse::<u64>().ok()?.saturating_mul(1024))
}

#[cfg(test)]
mod tests {
    use super::*;

    const LARGE: Size = Size { cpus: 4096, tasks: 100_000, channels: 50_000 };
    const SMALL: Size = Size { cpus: 4, tasks: 10, channels: 0 };

    #[test]
    fn simulations_that_fit_are_accepted() {
        within(&[LARGE, SMALL], 2, Some(2 * LARGE.simulated())).unwrap();
        within(&[LARGE], 8, None).unwrap();
        within(&[], 8, Some(0)).unwrap();
        for_one(SMALL).unwrap();
    }

    #[test]
    fn simulations_that_do_not_fit_are_refused_with_estimate_memory_and_remedy() {
        let one = LARGE.simulated();
        let said = |runs: &[Size], jobs, available| {
            let e = within(runs, jobs, Some(available)).unwrap_err();
            assert_eq!(e.kind().exit_code(), 3);
            e.to_string()
        };
        let alone = said(&[SMALL, LARGE], 1, one / 2);
        for part in
            ["the simulation would take", " MB", "4096 CPUs, 100000 tasks, 50000 channels", "fewer tasks"]
        {
            assert!(alone.contains(part), "{part}: {alone}");
        }
        let beside = said(&[LARGE; 8], 8, 4 * one);
        assert!(
            beside.contains("8 simulations side by side") && beside.contains("--jobs 3 fits"),
            "{beside}"
        );
        let many = said(&[LARGE; 1000], 2, 3 * one);
        assert!(many.contains("records of 1000 runs") && many.contains("fewer runs at a time"), "{many}");
    }

    #[test]
    fn page_cache_of_a_group_counts_as_free() {
        let stat =
            "anon 100\nfile 700\ninactive_anon 50\nactive_anon 50\ninactive_file 400\nactive_file 200\n";
        assert_eq!(left_in_group(1000, 900, stat), 700);
        assert_eq!(left_in_group(1000, 900, ""), 100);
        assert_eq!((left_in_group(1000, 1100, ""), left_in_group(1000, 500, stat)), (0, 1000));
    }

    #[test]
    fn memory_is_read_as_the_kernel_writes_it() {
        assert_eq!(from_meminfo("MemTotal: 8 kB\nMemAvailable:    2048 kB\n"), Some(2 << 20));
        assert_eq!(from_meminfo("MemTotal: 8 kB\n"), None);
        assert!(available().is_some_and(|free| free > 1 << 20));
        assert_eq!(["3 MB", "1.5 GB", "12 GB"].map(str::to_owned), [3 << 20, 3 << 29, 12 << 30].map(shown));
    }
}
