//! The guest's side: process 1, from the initramfs to the reply and the power-off.
//!
//! Init mounts the file systems that measuring reads, lifts limits, switches the kernel's counters on, switches
//! loopback on where the run has TCP or UDP, and switches balancing by caches off where the job says so. If the run has
//! groups and the kernel's cgroup2 has no cpu controller (before 4.15), it mounts the controller as v1. It lets the
//! kernel come to rest and makes the run by the same code as a live run on the host. Then it sends the reply through
//! the second serial port and switches the machine off. Init reaps no orphans: the agent reaps those of its run, and
//! then the machine ends.

use crate::initramfs::JOB_PATH;
use crate::job::{Answer, Job, Reply, joined};
use crate::symptoms::{INIT_FAILED, INIT_SAYS, INIT_UP};
use crate::{llc, reply, sys};
use schedlab_base::{Error, ErrorKind, Result, Warning};
use schedlab_kernel::variant::RUNNING;
use schedlab_machine::Machine;
use schedlab_native::live::Request;
use schedlab_native::{Fault, Outcome, live};
use schedlab_trace::kept::EVENTS_FILE;
use std::fs;
use std::io::Write;
use std::os::fd::AsFd;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::time::Duration;

/// The port that the reply goes through.
const REPLY_PORT: &str = "/dev/ttyS1";

/// Size of the rings of events in a sitting, KiB: its runs are short.
const RING_KIB: u32 = 2048;
/// Where a run's events are written before they are sent.
const EVENTS_PLACE: &str = "/tmp";
/// The most events that come through the port, bytes: about a million. An emulated port takes some 20 instructions of
/// the guest and two exits of QEMU for each.
const MOST_EVENTS_BYTES: u64 = 8 << 20;
/// How long the kernel comes to rest between two runs of one boot.
const BETWEEN: Duration = Duration::from_millis(100);

/// Where the cpu controller of control groups is mounted if it is one of v1.
const CPU_CONTROLLER: &str = "/cgroup/cpu";

/// Type, place, options, whether a run needs it, and the kernel option that has it.
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
    ("cgroup2", "/sys/fs/cgroup", "", false, "CONFIG_CGROUPS"),
];

/// Files of /proc/sys and the values written to them; files that a kernel lacks are left out.
#[rustfmt::skip]
const SYSCTLS: &[(&str, &str)] = &[
    // Count wakeups, placements and balancing.
    ("kernel/sched_schedstats", "1"),
    // The run may use counters and symbols.
    ("kernel/perf_event_paranoid", "-1"),
    ("kernel/kptr_restrict", "0"),
    // Only errors and worse reach the serial port, because each byte takes time of the CPU that prints it.
    ("kernel/printk", "4 4 1 4"),
    // Workloads may have many small tasks, in little memory.
    ("kernel/threads-max", "120000"),
    ("kernel/pid_max", "400000"),
    ("vm/max_map_count", "400000"),
    ("fs/nr_open", "1048576"),
];

/// Whether this process is a guest's init.
pub fn is_init() -> bool {
    std::process::id() == 1 && Path::new(JOB_PATH).exists()
}

/// The work of process 1. Returns only when the machine can't be switched off.
pub fn init_main() {
    let mut files = Vec::new();
    let reply = match catch_unwind(AssertUnwindSafe(|| work(&mut files))) {
        Ok(Ok(answer)) => Reply::Done(Box::new(answer)),
        Ok(Err(e)) => Reply::Failed(Fault::from(&e)),
        Err(panic) => {
            let e = Error::internal(format!("schedlab panicked as a guest's init: {}", panic_words(&*panic)));
            Reply::Failed(Fault::from(&e))
        }
    };
    if let Err(e) = send(&reply, &files) {
        // The reply did not get through: report in the kernel's log.
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

fn work(files: &mut Vec<Vec<u8>>) -> Result<Answer> {
    let mut warnings = mount_all()?;
    say(INIT_UP);
    lift_limits();
    for (file, value) in SYSCTLS {
        // A kernel without the file lacks the mechanism that it would switch.
        let _ = fs::write(Path::new("/proc/sys").join(file), value);
    }
    let text = fs::read(JOB_PATH).map_err(|e| Error::io(Path::new(JOB_PATH), "read", &e))?;
    let job: Job = serde_json::from_slice(&text)
        .map_err(|e| Error::internal(format!("the guest's job can't be read: {e}")))?;
    let loopback = if job.loopback { sys::loopback_up() } else { Ok(()) };
    // A command may do without TCP and UDP; a command that can't reports it itself.
    let needed = requests(&job).any(|r| !matches!(r.spec, schedlab_workload::Spec::Command(_)));
    if let (true, Err(e)) = (needed, loopback) {
        return Err(Error::machine(format!("can't switch the loopback interface on: {e}"))
            .help("for TCP and UDP the guest's kernel needs CONFIG_INET"));
    }
    if requests(&job).any(|r| r.spec.has_groups()) {
        warnings.extend(mount_cpu_controller());
    }
    if job.llc_balancing_off {
        warnings.extend(llc::switch_off());
    }
    std::thread::sleep(Duration::from_nanos(job.settle.0));
    let ring_kib = if job.more.is_empty() { 0 } else { RING_KIB };
    let keeps = job.keep.then_some(());
    let mut outcome = made(job.request, job.marks, ring_kib, keeps.map(|()| &mut *files))?;
    outcome.found.warnings.append(&mut warnings);
    let mut more = Vec::new();
    for request in job.more {
        std::thread::sleep(BETWEEN);
        more.push(made(request, job.marks, ring_kib, keeps.map(|()| &mut *files))?);
    }
    let events = files.iter().map(|file| file.len() as u64).collect();
    Ok(Answer { outcome, more, topology: Machine::load("host")?.topology, events })
}

/// All runs of a job.
fn requests(job: &Job) -> impl Iterator<Item = &Request> {
    std::iter::once(&job.request).chain(&job.more)
}

/// Makes a run; the file of its events goes to `files`, if they are wanted. A run that could not keep them has an empty
/// one.
fn made(
    mut request: Request,
    marks: bool,
    ring_kib: u32,
    files: Option<&mut Vec<Vec<u8>>>,
) -> Result<Outcome> {
    // In the guest the variant's kernel is the running one, whatever its name outside.
    RUNNING.clone_into(&mut request.variant.kernel);
    if marks {
        sys::mark();
    }
    let outcome = match files {
        None => live::run_with_rings(&request, None, ring_kib),
        Some(files) => {
            let file = Path::new(EVENTS_PLACE).join(EVENTS_FILE);
            let made = live::run_keeping_some(&request, ring_kib, file.clone(), MOST_EVENTS_BYTES);
            files.push(fs::read(&file).unwrap_or_default());
            // The next run's file must not be there.
            let _ = fs::remove_file(&file);
            made
        }
    };
    if marks {
        sys::mark();
    }
    outcome
}

/// Mounts everything; returns a warning for each file system that this kernel lacks.
fn mount_all() -> Result<Vec<Warning>> {
    let mut missing = Vec::new();
    for (kind, at, options, needed, config) in MOUNTS {
        // Fails within sysfs, where the kernel makes the folders itself.
        let _ = fs::create_dir_all(at);
        match sys::mount(kind, at, options) {
            // A kernel may mount it by itself (CONFIG_DEVTMPFS_MOUNT).
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

/// Mounts the cpu controller as v1 where the unified hierarchy lacks it. Without either the run itself says what is
/// missing.
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
        // A limit that stays low shows as an error of the workload that needs more.
        let _ = sys::lift_limit(which, to);
    }
}

/// Writes a line to the kernel's log, at a level that reaches the console whatever the user's log level.
fn say(words: &str) {
    let line = format!("<0>{}\n", words.replace('\n', " "));
    if fs::write("/dev/kmsg", &line).is_err() {
        eprintln!("{words}");
    }
}

fn send(reply: &Reply, files: &[Vec<u8>]) -> Result<()> {
    let reply = serde_json::to_vec(reply).map_err(|e| Error::internal(format!("the guest's reply: {e}")))?;
    let payload = joined(reply, files);
    // Each byte costs the guest an access to the port, so packing is worth its time.
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
    fn a_process_of_the_host_is_no_init() {
        assert!(!is_init());
    }

    #[test]
    fn what_everything_else_needs_is_mounted_first() {
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
