//! The guest's process 1, from the initramfs to the reply and the power-off.
//!
//! Init mounts the file systems for measurements, lifts limits, and enables the kernel's counters. It enables loopback
//! if the run has TCP or UDP, and disables balancing by caches if the machine has several. If the run has groups and
//! the kernel's cgroup2 has no cpu controller (before 4.15), it mounts the controller as v1. It makes the kernel start
//! its workers ([`crate::warm`]), waits until the kernel is at rest, and makes the run with the code of live runs on
//! the host. A deterministic guest is stopped at rest, and reads the job when it continues ([`crate::wake`]). Then init
//! sends the reply over the second serial port and powers off. Init reaps no orphans: the agent reaps those of its run.

use crate::initramfs::BOOT_PATH;
use crate::job::{Answer, Boot, Job, Reply, joined};
use crate::symptoms::{INIT_FAILED, INIT_SAYS, INIT_UP};
use crate::{llc, reply, sys, wake, warm};
use schedlab_base::{Error, ErrorKind, Result, Warning};
use schedlab_kernel::variant::RUNNING;
use schedlab_machine::Machine;
use schedlab_native::{Fault, Outcome, live};
use schedlab_trace::kept::EVENTS_FILE;
use std::fs;
use std::io::Write;
use std::os::fd::AsFd;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::time::Duration;

const REPLY_PORT: &str = "/dev/ttyS1";

/// The folder in which a run's events are kept until they are sent.
const EVENTS_PLACE: &str = "/tmp";
/// The most events sent over the port, bytes: about a million events. Each byte takes some 20 of the guest's
/// instructions and two exits of QEMU on an emulated port.
const MOST_EVENTS_BYTES: u64 = 8 << 20;

/// The mount point of a v1 cpu controller.
const CPU_CONTROLLER: &str = "/cgroup/cpu";

/// Type, place, options, whether a run needs it, and the kernel option that provides it.
type Mount = (&'static str, &'static str, &'static str, bool, &'static str);

#[rustfmt::skip]
const MOUNTS: &[Mount] = &[
    ("proc", "/proc", "", true, "CONFIG_PROC_FS"),
    ("sysfs", "/sys", "", true, "CONFIG_SYSFS"),
    ("devtmpfs", "/dev", "", true, "CONFIG_DEVTMPFS"),
    ("tmpfs", "/tmp", "", false, "CONFIG_TMPFS"),
    ("tmpfs", "/run", "", false, "CONFIG_TMPFS"),
    ("tmpfs", "/dev/shm", "", false, "CONFIG_TMPFS"),
    ("debugfs", "/sys/kernel/debug", "", false, "CONFIG_DEBUG_FS"),
    ("tracefs", "/sys/kernel/tracing", "", false, "CONFIG_TRACING"),
    ("cgroup2", warm::CGROUPS, "", false, "CONFIG_CGROUPS"),
];

/// Files of /proc/sys and their values; files that a kernel lacks are skipped.
#[rustfmt::skip]
const SYSCTLS: &[(&str, &str)] = &[
    // Counts wakeups, placements and balancing.
    ("kernel/sched_schedstats", "1"),
    // The run may use counters and symbols.
    ("kernel/perf_event_paranoid", "-1"),
    ("kernel/kptr_restrict", "0"),
    // Only errors and worse reach the serial port: each byte takes time of the CPU that prints it.
    ("kernel/printk", "4 4 1 4"),
    // Workloads may have many small tasks in little memory.
    ("kernel/threads-max", "120000"),
    ("kernel/pid_max", "400000"),
    ("vm/max_map_count", "400000"),
    ("fs/nr_open", "1048576"),
];

/// Whether this process is a guest's init.
pub fn is_init() -> bool {
    std::process::id() == 1 && Path::new(BOOT_PATH).exists()
}

/// The main function of process 1. Returns only if the machine can't power off.
pub fn init_main() {
    let mut events = Vec::new();
    let reply = match catch_unwind(AssertUnwindSafe(|| work(&mut events))) {
        Ok(Ok(answer)) => Reply::Done(Box::new(answer)),
        Ok(Err(e)) => Reply::Failed(Fault::from(&e)),
        Err(panic) => {
            let e = Error::internal(format!("schedlab panicked as a guest's init: {}", panic_words(&*panic)));
            Reply::Failed(Fault::from(&e))
        }
    };
    if let Err(e) = send(&reply, &events) {
        // The reply was not sent: report in the kernel's log.
        let first = match &reply {
            Reply::Failed(fault) => format!("{}; ", Error::from(fault.clone()).message()),
            Reply::Done(_) => String::new(),
        };
        say(&format!("{INIT_FAILED}{first}{}", e.message()));
        std::thread::sleep(Duration::from_millis(200));
    }
    let e = sys::power_off();
    say(&format!("{INIT_SAYS}can't switch off: {e}"));
}

fn panic_words(panic: &(dyn std::any::Any + Send)) -> String {
    let text = panic.downcast_ref::<&str>().map(|s| (*s).to_owned());
    text.or_else(|| panic.downcast_ref::<String>().cloned()).unwrap_or_else(|| "no words".to_owned())
}

fn work(events: &mut Vec<u8>) -> Result<Answer> {
    let mut warnings = mount_all()?;
    say(INIT_UP);
    lift_limits();
    for (file, value) in SYSCTLS {
        // A kernel without the file lacks the mechanism.
        let _ = fs::write(Path::new("/proc/sys").join(file), value);
    }
    let text = fs::read(BOOT_PATH).map_err(|e| Error::io(Path::new(BOOT_PATH), "read", &e))?;
    let boot: Boot = serde_json::from_slice(&text)
        .map_err(|e| Error::internal(format!("what the guest is started for can't be read: {e}")))?;
    let switched_off = boot.llc_balancing_off.then(llc::switch_off).flatten();
    let job = match boot.job {
        Some(job) => {
            warnings.extend(prepare(&job)?);
            warm::warm_up(cpus());
            std::thread::sleep(Duration::from_nanos(boot.settle.0));
            job
        }
        None => {
            warm::warm_up(cpus());
            wake::sleep_until_woken()?;
            let job = wake::read_job()?;
            warnings.extend(prepare(&job)?);
            wake::scatter(job.request.seed, cpus());
            job
        }
    };
    warnings.extend(switched_off.filter(|_| !llc::is_chosen(&job.request.variant)));
    let mut outcome = made(job, events)?;
    outcome.found.warnings.append(&mut warnings);
    Ok(Answer { outcome, topology: Machine::load("host")?.topology })
}

fn cpus() -> usize {
    std::thread::available_parallelism().map_or(1, usize::from)
}

/// Prepares the machine for the job's run.
fn prepare(job: &Job) -> Result<Option<Warning>> {
    let loopback = if job.loopback { sys::loopback_up() } else { Ok(()) };
    // A command may not need TCP and UDP; one that does reports the error itself.
    let needed = !matches!(job.request.spec, schedlab_workload::Spec::Command(_));
    if let (true, Err(e)) = (needed, loopback) {
        return Err(Error::machine(format!("can't switch the loopback interface on: {e}"))
            .help("for TCP and UDP the guest's kernel needs CONFIG_INET"));
    }
    let has_groups = job.request.spec.has_groups() || !job.request.variant.groups.is_empty();
    Ok(has_groups.then(mount_cpu_controller).flatten())
}

/// Makes the job's run, and appends the file of its events to `events` if it is wanted. If the run could not keep
/// events, there is none.
fn made(job: Job, events: &mut Vec<u8>) -> Result<Outcome> {
    let Job { mut request, marks, ring_kib, keep, .. } = job;
    // In the guest the variant's kernel is the running one, whatever the host calls it.
    RUNNING.clone_into(&mut request.variant.kernel);
    if marks {
        sys::mark();
    }
    let outcome = if keep {
        let file = Path::new(EVENTS_PLACE).join(EVENTS_FILE);
        let made = live::run_keeping_some(&request, ring_kib, file.clone(), MOST_EVENTS_BYTES);
        *events = fs::read(&file).unwrap_or_default();
        made
    } else {
        live::run_with_rings(&request, None, ring_kib)
    };
    if marks {
        sys::mark();
    }
    outcome
}

/// Mounts everything; returns a warning for each file system that the kernel lacks.
fn mount_all() -> Result<Vec<Warning>> {
    let mut missing = Vec::new();
    for (kind, at, options, needed, config) in MOUNTS {
        // Fails within sysfs, where the kernel makes folders itself.
        let _ = fs::create_dir_all(at);
        match sys::mount(kind, at, options) {
            // A kernel may have mounted it itself (CONFIG_DEVTMPFS_MOUNT).
            Err(e) if e.raw_os_error() == Some(libc::EBUSY) => {}
            Err(e) if *needed => {
                return Err(Error::machine(format!("can't mount {kind} on {at}: {e}"))
                    .help(format!("the guest's kernel needs {config}")));
            }
            Err(e) => {
                let text = format!("the guest's kernel has no {kind} at {at} ({config}): {e}");
                missing.push(Warning::new("guest.missing", text));
            }
            Ok(()) => {}
        }
    }
    Ok(missing)
}

/// Mounts the cpu controller as v1 if the unified hierarchy lacks it. Without either, the run reports what is missing.
fn mount_cpu_controller() -> Option<Warning> {
    let unified = fs::read_to_string("/sys/fs/cgroup/cgroup.controllers").unwrap_or_default();
    if unified.split_whitespace().any(|name| name == "cpu") {
        return None;
    }
    let mounted =
        fs::create_dir_all(CPU_CONTROLLER).and_then(|()| sys::mount("cgroup", CPU_CONTROLLER, "cpu"));
    let e = mounted.err()?;
    Some(Warning::new(
        "guest.missing",
        format!("the guest's kernel has no cpu controller (CONFIG_CGROUP_SCHED): {e}"),
    ))
}

fn lift_limits() {
    let unlimited = libc::RLIM_INFINITY;
    let limits = [
        (libc::RLIMIT_NOFILE, 1 << 20),
        (libc::RLIMIT_NPROC, unlimited),
        (libc::RLIMIT_MEMLOCK, unlimited),
        (libc::RLIMIT_RTPRIO, 99),
    ];
    for (which, to) in limits {
        // If a limit stays low, a workload that needs more reports an error.
        let _ = sys::lift_limit(which as libc::c_int, to);
    }
}

/// Writes a line to the kernel's log, at a level that reaches the console at any log level of the user.
fn say(words: &str) {
    let line = format!("<0>{}\n", words.replace('\n', " "));
    if fs::write("/dev/kmsg", &line).is_err() {
        eprintln!("{words}");
    }
}

fn send(reply: &Reply, events: &[u8]) -> Result<()> {
    let reply = serde_json::to_vec(reply).map_err(|e| Error::internal(format!("the guest's reply: {e}")))?;
    let payload = joined(reply, events);
    // Compression pays off, because each byte costs the guest a port access.
    let payload = miniz_oxide::deflate::compress_to_vec_zlib(&payload, 1);
    let fault = |doing: &str, e: &std::io::Error| {
        let kind = ErrorKind::Machine;
        Error::new(kind, format!("can't {doing} {REPLY_PORT}, the second serial port: {e}"))
            .help("the guest's kernel needs CONFIG_SERIAL_8250 with two ports at least (8250.nr_uarts)")
    };
    let mut port =
        fs::OpenOptions::new().read(true).write(true).open(REPLY_PORT).map_err(|e| fault("open", &e))?;
    sys::make_raw(port.as_fd()).map_err(|e| fault("set up", &e))?;
    port.write_all(&reply::framed(&payload)).map_err(|e| fault("write to", &e))?;
    sys::drain(port.as_fd()).map_err(|e| fault("write to", &e))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_of_the_host_is_not_init() {
        assert!(!is_init());
    }

    #[test]
    fn basic_file_systems_are_mounted_first() {
        let at = |place: &str| MOUNTS.iter().position(|m| m.1 == place).unwrap();
        assert!(at("/dev") < at("/dev/shm") && at("/sys") < at("/sys/kernel/debug"));
        let needed: Vec<&str> = MOUNTS.iter().filter(|m| m.3).map(|m| m.1).collect();
        assert_eq!(needed, ["/proc", "/sys", "/dev"]);
    }

    #[test]
    fn a_panic_keeps_its_words() {
        let caught = catch_unwind(|| panic!("index {}", 7)).unwrap_err();
        assert_eq!(panic_words(&*caught), "index 7");
    }
}
