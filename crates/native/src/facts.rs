//! A kernel's defaults as figures: settings, and behaviour that no file shows. `schedlab validate --facts` asks kernels
//! in guests by a process of this executable; it must be root there, and changes settings.

use crate::sys;
use libc::c_long;
use schedlab_base::{CpuId, Error, Ns, Result};
use schedlab_kernel::{Attr, Policy};
use std::fs;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// The word on the command line for [`print`].
pub const COMMAND: &str = "facts";

/// The executable of process 1 in schedlab's guests.
const FIRST_OF_GUESTS: &str = "/init";
const DEBUG: &str = "/sys/kernel/debug/sched";
/// The slice that a task requests; not a kernel's default.
const ASKED_NS: u64 = 3_000_000;

/// Prints a line per fact: name and figure, 0 if the kernel lacks it.
///
/// # Errors
/// When a call fails that every kernel supports.
pub fn print() -> Result<()> {
    let first = fs::read_link("/proc/1/exe").unwrap_or_default();
    if first != Path::new(FIRST_OF_GUESTS) {
        return Err(Error::input("facts change settings of the machine: they are asked in a guest")
            .help("schedlab validate --facts"));
    }
    let failed = |e: std::io::Error| Error::machine(format!("a fact can't be asked for: {e}"));
    for (name, figure) in facts().map_err(failed)? {
        println!("{name} {figure}");
    }
    Ok(())
}

fn facts() -> std::io::Result<Vec<(&'static str, f64)>> {
    let files = [
        ("autogroup", "/proc/sys/kernel/sched_autogroup_enabled"),
        ("rt_runtime_us", "/proc/sys/kernel/sched_rt_runtime_us"),
        ("base_slice_ns", "/sys/kernel/debug/sched/base_slice_ns"),
    ];
    let read = |path: &str| fs::read_to_string(path).ok()?.trim().parse().ok();
    let mut all: Vec<(&str, f64)> =
        files.into_iter().map(|(name, path)| (name, read(path).unwrap_or(0.0))).collect();
    let has = |path: &str| f64::from(Path::new(path).exists());
    all.push(("uclamp", has("/proc/sys/kernel/sched_util_clamp_min")));
    // Guests boot with sched_verbose.
    let _ = fs::write(format!("{DEBUG}/verbose"), "N");
    all.push(("quiet_domains", has(&format!("{DEBUG}/domains/cpu0/domain0"))));
    sys::set_attr(Attr { policy: Policy::Fifo, rt_priority: 1, ..Attr::default() })?;
    all.push(("rt_timer_slack_ns", sys::timer_slack() as f64));
    sys::set_attr(Attr::default())?;
    let asks = Attr { slice: Ns(ASKED_NS).into(), ..Attr::default() };
    for (name, by_setpriority) in [("slice_by_setpriority_ns", true), ("slice_by_setattr_ns", false)] {
        sys::set_attr(asks)?;
        match by_setpriority {
            true => set_nice(5)?,
            false => sys::set_attr(Attr { nice: 5, ..Attr::default() })?,
        }
        all.push((name, slice_ns()? as f64));
        sys::set_attr(Attr::default())?;
    }
    sys::set_affinity(&[CpuId(1)].into_iter().collect())?;
    all.push(("yielder_pct", yielder_pct()));
    let waits = ["NO_HRTICK", "HRTICK"].map(|feature| {
        fs::write(format!("{DEBUG}/features"), feature).ok()?;
        Some(batch_wait_ns())
    });
    if let [Some(without), Some(with)] = waits {
        all.push(("hrtick_wait_pct", 100.0 * with as f64 / without.max(1) as f64));
    }
    Ok(all)
}

fn set_nice(nice: i32) -> std::io::Result<()> {
    // SAFETY: takes integers only; 0 is the caller.
    done(unsafe { libc::setpriority(libc::PRIO_PROCESS, 0, nice) }.into())
}

/// The error of a call that returned less than 0.
fn done(result: c_long) -> std::io::Result<()> {
    if result < 0 { Err(std::io::Error::last_os_error()) } else { Ok(()) }
}

/// The caller's slice from sched_getattr; 0 before 6.12.
fn slice_ns() -> std::io::Result<u64> {
    // SAFETY: all zeroes are a valid sched_attr, and the kernel fills at most the stated size.
    unsafe {
        let mut seen: libc::sched_attr = std::mem::zeroed();
        let size = size_of::<libc::sched_attr>() as c_long;
        done(libc::syscall(libc::SYS_sched_getattr, 0, &raw mut seen, size, 0))?;
        Ok(seen.sched_runtime)
    }
}

/// Runs `task` together with a computing task, both on the caller's CPU.
fn beside_a_hog<T: Send>(task: impl FnOnce() -> T + Send) -> (T, u64) {
    let (ends, hog_ns) = (AtomicBool::new(false), AtomicU64::new(0));
    let told = std::thread::scope(|scope| {
        scope.spawn(|| {
            while !ends.load(Ordering::Relaxed) {
                std::hint::spin_loop();
            }
            hog_ns.store(sys::thread_cpu_ns(), Ordering::Relaxed);
        });
        let told = scope.spawn(task).join();
        ends.store(true, Ordering::Relaxed);
        told
    });
    (told.unwrap_or_else(|panic| std::panic::resume_unwind(panic)), hog_ns.into_inner())
}

/// The CPU share of a task that always calls sched_yield, against a computing task.
fn yielder_pct() -> f64 {
    let until = sys::monotonic_ns() + 300_000_000;
    let (own, hog) = beside_a_hog(|| {
        while sys::monotonic_ns() < until {
            sys::yield_now();
        }
        sys::thread_cpu_ns()
    });
    100.0 * own as f64 / (own + hog).max(1) as f64
}

/// How long a SCHED_BATCH task that repeatedly sleeps for 5 ms waits for its CPU against a computing task: the mean.
fn batch_wait_ns() -> u64 {
    const TIMES: u64 = 40;
    let (late, _) = beside_a_hog(|| {
        let _ = sys::set_attr(Attr { policy: Policy::Batch, ..Attr::default() });
        let one = |_| {
            let due = sys::monotonic_ns() + 5_000_000;
            sys::sleep_for(5_000_000);
            sys::monotonic_ns().saturating_sub(due)
        };
        (0..TIMES).map(one).sum::<u64>()
    });
    late / TIMES
}
