//! Limits of this machine and user that a workload may exceed: threads, open files, memory, CPUs. Errors have each
//! limit's name and value, so that the user can change it.

use crate::sys;
use schedlab_base::cpuset::MAX_CPUS;
use schedlab_base::{CpuSet, Error, Result};
use schedlab_workload::Built;
use std::collections::HashMap;
use std::io;

/// The files with limits of threads, and the names of the limits.
const LIMITS: &[(&str, &str)] = &[
    ("kernel.threads-max", "/proc/sys/kernel/threads-max"),
    ("kernel.pid_max", "/proc/sys/kernel/pid_max"),
    ("vm.max_map_count (two mappings a thread)", "/proc/sys/vm/max_map_count"),
];

/// The error about a thread that could not be made in addition to `alive` others, in a workload of `asked` tasks.
pub fn too_many(name: &str, alive: u32, asked: usize, error: &io::Error) -> Error {
    let user = sys::process_limit().map_or("unlimited".to_owned(), |n| n.to_string());
    let mut text = format!("limits here: RLIMIT_NPROC {user}");
    let value = |file: &str| std::fs::read_to_string(file).ok().map(|v| v.trim().to_owned());
    for (limit, file) in LIMITS {
        if let Some(value) = value(file) {
            text += &format!(", {limit} {value}");
        }
    }
    let group = std::fs::read_to_string("/proc/self/cgroup").unwrap_or_default();
    if let Some(path) = cgroup2(&group)
        && let Some(max) = value(&format!("/sys/fs/cgroup{path}/pids.max"))
    {
        text += &format!(", cgroup pids.max {max}");
    }
    Error::machine(format!("can't start the thread of '{name}' beside {alive} others: {error}")).help(
        format!(
            "the workload has {}; use fewer, or raise what is in the way\n  {text}",
            schedlab_base::counted(asked, "task")
        ),
    )
}

/// Checks that `tasks` tasks can exist at once, before the first is made. Other programs run, too, so an accepted
/// number may still be too large ([`too_many`]).
///
/// # Errors
/// When a limit of this machine, user or group is lower.
pub fn room_for_tasks(tasks: usize) -> Result<()> {
    let value = |file: &str| std::fs::read_to_string(file).ok()?.trim().parse::<u64>().ok();
    // The first two files are limits for all users; RLIMIT_NPROC does not apply to root.
    let mut limits: Vec<(&str, u64)> =
        LIMITS[..2].iter().filter_map(|(name, file)| Some((*name, value(file)?))).collect();
    if !sys::is_root() {
        limits.extend(sys::process_limit().map(|n| ("RLIMIT_NPROC", n)));
    }
    let group = std::fs::read_to_string("/proc/self/cgroup").unwrap_or_default();
    let most = cgroup2(&group).and_then(|path| value(&format!("/sys/fs/cgroup{path}/pids.max")));
    limits.extend(most.map(|n| ("cgroup pids.max", n)));
    fewer_than_all(tasks as u64, &limits)
}

/// Checks that the working sets of all tasks fit this machine's memory. The kernel overcommits memory, so without this
/// check tasks would be killed when they use theirs.
///
/// # Errors
/// When they need more than is available.
pub fn room_for_memory(footprints_kb: u64) -> Result<()> {
    let text = std::fs::read_to_string("/proc/meminfo").unwrap_or_default();
    match available_kb(&text) {
        Some(available) if footprints_kb > available => Err(Error::machine(format!(
            "the tasks' working sets take {} MB, and {} MB are available",
            footprints_kb >> 10,
            available >> 10
        ))
        .help("use fewer tasks, or smaller working sets")),
        _ => Ok(()),
    }
}

/// MemAvailable of a /proc/meminfo text.
fn available_kb(text: &str) -> Option<u64> {
    text.lines().find_map(|l| l.strip_prefix("MemAvailable:"))?.trim().trim_end_matches(" kB").parse().ok()
}

fn fewer_than_all(tasks: u64, limits: &[(&str, u64)]) -> Result<()> {
    let Some((name, most)) = limits.iter().min_by_key(|(_, most)| most).filter(|(_, most)| *most <= tasks)
    else {
        return Ok(());
    };
    Err(Error::machine(format!("{tasks} tasks can't run here at once: {name} is {most}"))
        .help("use fewer tasks, or raise that limit"))
}

/// Descriptors reserved for everything except channels: the tasks' reads of /proc, the bell, the results.
const SPARE_FILES: u64 = 64;

/// Checks that two descriptors per channel can be open; raises the soft limit if necessary.
///
/// # Errors
/// When the hard limit is lower.
pub fn room_for_channels(channels: usize) -> Result<()> {
    if channels == 0 {
        return Ok(());
    }
    let open = std::fs::read_dir("/proc/self/fd").map_or(0, |d| d.count() as u64);
    let (needed, (soft, hard)) = (2 * channels as u64 + open + SPARE_FILES, sys::file_limit());
    if needed <= soft || (needed <= hard && sys::set_file_limit(hard).is_ok()) {
        return Ok(());
    }
    let text = format!("{channels} channels need {needed} open files, which this process may not have");
    Err(Error::machine(text).help(of_files()))
}

/// The limits of open files here, and how to raise them.
pub fn of_files() -> String {
    let (soft, hard) = sys::file_limit();
    let value =
        |file: &str| std::fs::read_to_string(file).map_or("unknown".to_owned(), |v| v.trim().to_owned());
    format!(
        "use fewer channels, or raise what is in the way (ulimit -Hn as root, LimitNOFILE=)\n  limits here: \
         RLIMIT_NOFILE soft {soft} hard {hard}, fs.nr_open {}, fs.file-max {}",
        value("/proc/sys/fs/nr_open"),
        value("/proc/sys/fs/file-max")
    )
}

/// Reduces every CPU mask of the workload to CPUs that are online and that this process may use. A mask of all possible
/// CPUs means the CPUs of a task without a mask. Each mask is tried on the calling thread, because only the kernel
/// knows the parent cpusets.
///
/// # Errors
/// When a mask has no usable CPU.
pub fn confine(built: &mut Built) -> Result<()> {
    let fault = |e| Error::machine(format!("can't read or set the CPU mask: {e}"));
    let own = sys::affinity().map_err(fault)?;
    let all = CpuSet::first(MAX_CPUS as usize);
    let mut tried: HashMap<CpuSet, CpuSet> = HashMap::from([(all, own.clone())]);
    built.confine(|wanted| {
        if let Some(known) = tried.get(wanted) {
            return Ok(known.clone());
        }
        let set = sys::set_affinity(wanted);
        let got = if set.is_ok() { sys::affinity().map_err(fault)? } else { CpuSet::new() };
        sys::set_affinity(&own).map_err(fault)?;
        if got.is_empty() {
            let text = format!("may run on CPUs {wanted} only, and none of them can be used here");
            return Err(Error::machine(text).help(format!("this run may use CPUs {own}")));
        }
        tried.insert(wanted.clone(), got.clone());
        Ok(got)
    })
}

/// The cgroup v2 path of a /proc/self/cgroup text, without a final slash.
pub fn cgroup2(text: &str) -> Option<&str> {
    text.lines().find_map(|l| l.strip_prefix("0::")).map(|p| p.trim_end_matches('/'))
}

#[cfg(test)]
mod tests {
    use super::*;
    use schedlab_base::CpuId;
    use schedlab_workload::{Builder, Env, Op, Program};

    struct Leaves;

    impl Program for Leaves {
        fn next(&mut self, _: &mut dyn Env) -> Op {
            Op::Exit
        }
    }

    /// A workload of one task with this mask, which changes to `later` during the run.
    fn masked(first: &CpuSet, later: &CpuSet) -> Built {
        let mut b = Builder::new(1);
        let task = b.task("t", Box::new(Leaves)).unwrap();
        b.edit(task).affinity = Some(first.clone());
        b.mask(later.clone());
        b.finish().unwrap()
    }

    #[test]
    fn masks_keep_usable_cpus_and_a_full_mask_means_all_of_them() {
        let own = sys::affinity().unwrap();
        let mut wide = CpuSet::from_iter(own.lowest());
        wide.insert(CpuId(MAX_CPUS - 1));
        let mut built = masked(&wide, &CpuSet::first(MAX_CPUS as usize));
        confine(&mut built).unwrap();
        assert_eq!(built.tasks[0].affinity, Some(CpuSet::from_iter(own.lowest())));
        assert_eq!((built.masks, sys::affinity().unwrap()), (vec![own.clone()], own.clone()));
        let none = CpuSet::from_iter([CpuId(MAX_CPUS - 1)]);
        let told = confine(&mut masked(&own, &none)).unwrap_err().to_string();
        assert!(told.contains("a task: may run on CPUs 4095 only"), "{told}");
        assert_eq!(sys::affinity().unwrap(), own, "the thread's own mask is back");
    }

    #[test]
    fn working_sets_beyond_memory_are_refused() {
        assert_eq!(available_kb("MemTotal: 8 kB\nMemAvailable:    2048 kB\n"), Some(2048));
        assert!(room_for_memory(1 << 10).is_ok());
        let told = room_for_memory(1 << 50).unwrap_err().to_string();
        assert!(told.contains("working sets take 1099511627776 MB"), "{told}");
    }

    #[test]
    fn a_refused_thread_names_how_many_and_which_limits() {
        let e = too_many("worker-7", 41, 100, &io::Error::from_raw_os_error(libc::EAGAIN)).to_string();
        for part in ["worker-7", "41 others", "100 tasks", "RLIMIT_NPROC", "kernel.threads-max"] {
            assert!(e.contains(part), "{part}: {e}");
        }
    }

    #[test]
    fn more_tasks_than_a_limit_are_refused_before_they_start() {
        room_for_tasks(1).unwrap();
        let limits = [("kernel.threads-max", 192_730), ("kernel.pid_max", 32_768)];
        fewer_than_all(32_767, &limits).unwrap();
        let e = fewer_than_all(32_768, &limits).unwrap_err();
        assert_eq!(e.kind().exit_code(), 3);
        assert!(
            e.to_string().contains("32768 tasks") && e.to_string().contains("kernel.pid_max is 32768"),
            "{e}"
        );
        assert!(room_for_tasks(usize::MAX).is_err());
    }

    #[test]
    fn more_channels_than_files_are_refused_with_limit_and_remedy() {
        assert!(room_for_channels(2).is_ok());
        let e = room_for_channels(1 << 40).unwrap_err().to_string();
        for part in ["1099511627776 channels", "RLIMIT_NOFILE soft", "ulimit -Hn", "fs.nr_open"] {
            assert!(e.contains(part), "{part}: {e}");
        }
    }

    #[test]
    fn finds_the_unified_group() {
        assert_eq!(cgroup2("8:pids:/\n0::/user.slice/a\n"), Some("/user.slice/a"));
        assert_eq!((cgroup2("0::/\n"), cgroup2("1:cpu:/x\n")), (Some(""), None));
    }
}
