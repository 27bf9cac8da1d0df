//! The system calls of the live backend, each in a safe function. `unsafe` is only in this folder, in tests, and where
//! a closure runs between fork and exec (`settings/attrs.rs`, `settings/exec.rs`).
//!
//! Times are nanoseconds of CLOCK_MONOTONIC (or of a CPU clock where the name says so). Results of calls show whether a
//! signal ended them early, because the engine ends a run by signals. Mirrors futex(2), clock_nanosleep(2),
//! sched_setattr(2), getrusage(2), getrlimit(2), prctl(2) as of Linux 3.14 and later.

use libc::{c_int, c_void};
use schedlab_base::CpuId;
use schedlab_kernel::{Attr, Policy};
use std::io;
use std::mem::MaybeUninit;
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::process::{Command, ExitStatus};
use std::ptr;
use std::sync::atomic::AtomicU32;

mod affinity;
mod area;
mod bare;
pub mod bpf;
mod exec;
mod gather;
pub mod limits;
mod memory;
pub mod offspring;
mod raw;
pub mod signals;
mod system;
mod timer;
mod tracing;
mod transfer;
pub use affinity::{affinity, affinity_of, set_affinity, set_affinity_of};
pub use area::Area;
pub use bare::{fork_alone, fork_bare, wait_for};
pub use exec::{exec, no_program};
pub use gather::Gathered;
pub use memory::{Line, Lines, populate};
use raw::{SECOND, check, clock, errno, nanoseconds, timespec};
pub use system::{boottime_ns, is_root, jiffy_ns, lock_now};
pub use timer::{arm_timer, enter_kernel, timer};
pub use tracing::{detached_tracefs, set_output};
pub use transfer::{read, write};

// ---- clocks and sleeping ----

/// CLOCK_MONOTONIC, ns; a vDSO read (about 27 ns) if the clock source allows it.
#[inline]
pub fn monotonic_ns() -> u64 {
    clock(libc::CLOCK_MONOTONIC)
}

/// CPU time of the calling thread, ns; always a system call.
pub fn thread_cpu_ns() -> u64 {
    clock(libc::CLOCK_THREAD_CPUTIME_ID)
}

/// CPU time so far of a thread of this process, or of another process's only thread, ns; `None` if there is no such
/// thread. The clock's number follows the kernel's definition (posix-timers: the inverted id; the lowest three bits are
/// the kind: 2 for the exact time, 4 for a thread's own).
pub fn cpu_clock_ns(process: u32, thread: u32) -> Option<u64> {
    let whole = process == thread && process != std::process::id();
    let id = (!(thread as libc::clockid_t) << 3) | if whole { 2 } else { 6 };
    let mut t = timespec(0);
    // SAFETY: `t` is a valid timespec for the kernel to fill; an invalid clock is refused.
    let refused = unsafe { libc::clock_gettime(id, &mut t) } != 0;
    (!refused).then(|| nanoseconds(t))
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Slept {
    /// The full time.
    Whole,
    /// A signal arrived; this many ns were left (0 for absolute sleeps).
    Interrupted(u64),
}

/// clock_nanosleep for a length of time.
pub fn sleep_for(length_ns: u64) -> Slept {
    let (wish, mut rest) = (timespec(length_ns), timespec(0));
    // SAFETY: both pointers are to live timespecs of this frame.
    let e = unsafe { libc::clock_nanosleep(libc::CLOCK_MONOTONIC, 0, &wish, &mut rest) };
    if e == libc::EINTR { Slept::Interrupted(nanoseconds(rest)) } else { Slept::Whole }
}

/// clock_nanosleep with TIMER_ABSTIME.
pub fn sleep_until(at_ns: u64) -> Slept {
    let at = timespec(at_ns);
    // SAFETY: `at` lives through the call; no remainder is asked for, as absolute sleeps have none.
    let e =
        unsafe { libc::clock_nanosleep(libc::CLOCK_MONOTONIC, libc::TIMER_ABSTIME, &at, ptr::null_mut()) };
    if e == libc::EINTR { Slept::Interrupted(0) } else { Slept::Whole }
}

pub fn yield_now() {
    // SAFETY: takes no argument and can't fail.
    unsafe { libc::sched_yield() };
}

/// The CPU of the calling thread; 0 if the kernel does not report it.
pub fn current_cpu() -> CpuId {
    // SAFETY: takes no argument.
    let cpu = unsafe { libc::sched_getcpu() };
    CpuId(u32::try_from(cpu).unwrap_or(0))
}

// ---- futexes ----

/// Who can wait on a futex word.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Scope {
    /// Threads of this process: the kernel need not look up the mapping (FUTEX_PRIVATE_FLAG).
    Threads,
    /// All processes that map the word.
    Processes,
}

impl Scope {
    fn flag(self) -> c_int {
        if self == Scope::Threads { libc::FUTEX_PRIVATE_FLAG } else { 0 }
    }
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Waited {
    /// Woken, possibly spuriously.
    Woken,
    TimedOut,
    /// The word had another value.
    Mismatch,
    /// A signal arrived.
    Interrupted,
}

/// FUTEX_WAIT_BITSET: sleeps while `word` is `value`, until the absolute monotonic time `until_ns`, if given.
pub fn futex_wait(word: &AtomicU32, value: u32, until_ns: Option<u64>, scope: Scope) -> Waited {
    let until = until_ns.map(timespec);
    let until_ptr = until.as_ref().map_or(ptr::null(), ptr::from_ref);
    // SAFETY: `word` is a live, aligned 32-bit word; `until_ptr` is null or points to `until`, which outlives the call.
    let r = unsafe {
        libc::syscall(
            libc::SYS_futex,
            word.as_ptr(),
            libc::FUTEX_WAIT_BITSET | scope.flag(),
            value,
            until_ptr,
            ptr::null::<u32>(),
            libc::FUTEX_BITSET_MATCH_ANY,
        )
    };
    if r == 0 {
        return Waited::Woken;
    }
    match errno() {
        libc::ETIMEDOUT => Waited::TimedOut,
        libc::EAGAIN => Waited::Mismatch,
        _ => Waited::Interrupted,
    }
}

/// FUTEX_WAKE: wakes up to `count` waiters; returns how many.
pub fn futex_wake(word: &AtomicU32, count: u32, scope: Scope) -> u32 {
    let count = count.min(i32::MAX as u32);
    // SAFETY: `word` is a live, aligned 32-bit word; the call reads no other memory.
    let r = unsafe { libc::syscall(libc::SYS_futex, word.as_ptr(), libc::FUTEX_WAKE | scope.flag(), count) };
    u32::try_from(r).unwrap_or(0)
}

// ---- the calling thread's scheduling ----

/// Of `uapi/linux/sched.h`, since 6.12.
const SCHED_EXT: c_int = 7;

fn policy_number(policy: Policy) -> c_int {
    match policy {
        Policy::Other => libc::SCHED_OTHER,
        Policy::Batch => libc::SCHED_BATCH,
        Policy::Idle => libc::SCHED_IDLE,
        Policy::Fifo => libc::SCHED_FIFO,
        Policy::Rr => libc::SCHED_RR,
        Policy::Deadline => libc::SCHED_DEADLINE,
        Policy::Ext => SCHED_EXT,
    }
}

/// sched_setattr of the calling thread.
///
/// # Errors
/// EPERM without CAP_SYS_NICE, EINVAL for a priority that the policy does not have.
pub fn set_attr(attr: Attr) -> io::Result<()> {
    set_attr_of(0, attr)
}

/// sched_setattr of another thread.
///
/// # Errors
/// As [`set_attr`], and ESRCH when there is no such thread.
pub fn set_attr_of(thread: u32, attr: Attr) -> io::Result<()> {
    let wish = libc::sched_attr {
        size: size_of::<libc::sched_attr>() as u32,
        sched_policy: policy_number(attr.policy) as u32,
        sched_flags: 0,
        sched_nice: i32::from(attr.nice),
        sched_priority: u32::from(attr.rt_priority),
        // A fair task's requested slice, which kernels before 6.12 ignore, or a deadline task's runtime.
        sched_runtime: attr.slice.ns(),
        sched_deadline: attr.deadline.ns(),
        sched_period: attr.period.ns(),
    };
    // SAFETY: `wish` is a whole sched_attr that states its own size; the kernel only reads it.
    let r = unsafe { libc::syscall(libc::SYS_sched_setattr, thread, ptr::from_ref(&wish), 0) };
    check(r as c_int).map(drop)
}

/// sched_getattr of a thread (0: the caller), without the slice: the kernel does not show whether it was requested.
///
/// # Errors
/// ESRCH when there is no such thread; ENOSYS before 3.14; EINVAL for a policy that schedlab does not know.
pub fn attr_of(thread: u32) -> io::Result<Attr> {
    const SIZE: usize = size_of::<libc::sched_attr>();
    let mut seen = MaybeUninit::<libc::sched_attr>::zeroed();
    // SAFETY: the kernel fills at most the stated size of a live place; all zeroes are a valid sched_attr.
    let seen = unsafe {
        let r = libc::syscall(libc::SYS_sched_getattr, thread, seen.as_mut_ptr(), SIZE, 0);
        check(r as c_int)?;
        seen.assume_init()
    };
    let known =
        [Policy::Other, Policy::Batch, Policy::Idle, Policy::Fifo, Policy::Rr, Policy::Deadline, Policy::Ext];
    let policy = known.into_iter().find(|p| policy_number(*p) as u32 == seen.sched_policy);
    Ok(Attr {
        policy: policy.ok_or_else(|| io::Error::from_raw_os_error(libc::EINVAL))?,
        nice: seen.sched_nice.clamp(-20, 19) as i8,
        rt_priority: seen.sched_priority.min(99) as u8,
        ..Attr::default()
    })
}

/// Policy number and nice value of the calling thread.
pub fn attr() -> (c_int, c_int) {
    // SAFETY: both calls read only their integer arguments; 0 means the caller.
    unsafe { (libc::sched_getscheduler(0), libc::getpriority(libc::PRIO_PROCESS, 0)) }
}

/// Names the calling thread; the kernel keeps 15 bytes.
pub fn set_name(name: &str) {
    let mut text = [0u8; 16];
    let kept = name.len().min(15);
    text[..kept].copy_from_slice(&name.as_bytes()[..kept]);
    // SAFETY: `text` is 16 bytes with a final NUL.
    unsafe { libc::prctl(libc::PR_SET_NAME, text.as_ptr()) };
}

/// Timer slack of the calling thread: its sleeps may end this much late, ns (PR_GET_TIMERSLACK). 0 under real-time.
pub fn timer_slack() -> u64 {
    // SAFETY: takes integers only.
    let ns = unsafe { libc::prctl(libc::PR_GET_TIMERSLACK) };
    u64::try_from(ns).unwrap_or(0)
}

/// Sets the calling thread's timer slack, ns (PR_SET_TIMERSLACK). Real-time policies never have slack.
///
/// For the kernel, 0 means "as the thread's creator", so this function sets 1 instead of 0.
pub fn set_timer_slack(ns: u64) {
    // SAFETY: takes integers only; can't fail.
    unsafe { libc::prctl(libc::PR_SET_TIMERSLACK, ns.max(1) as libc::c_ulong) };
}

#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Usage {
    /// Switches at which it slept or yielded.
    pub voluntary: u64,
    /// Switches at which it was preempted.
    pub involuntary: u64,
    /// User and system time, ns.
    pub cpu_ns: u64,
}

fn usage(who: c_int) -> Usage {
    let mut r = MaybeUninit::<libc::rusage>::zeroed();
    // SAFETY: `r` is a whole rusage, zeroed, so initialised whatever the call does.
    let r = unsafe {
        libc::getrusage(who, r.as_mut_ptr());
        r.assume_init()
    };
    let ns = |t: libc::timeval| t.tv_sec as u64 * SECOND + t.tv_usec as u64 * 1_000;
    Usage {
        voluntary: r.ru_nvcsw as u64,
        involuntary: r.ru_nivcsw as u64,
        cpu_ns: ns(r.ru_utime) + ns(r.ru_stime),
    }
}

pub fn thread_usage() -> Usage {
    usage(libc::RUSAGE_THREAD)
}

/// CPU time of this process with all its threads, including dead ones, and of reaped children, ns.
pub fn process_cpu_ns() -> u64 {
    usage(libc::RUSAGE_SELF).cpu_ns + usage(libc::RUSAGE_CHILDREN).cpu_ns
}

// ---- threads ----

pub fn thread_id() -> u32 {
    // SAFETY: takes no argument and can't fail.
    unsafe { libc::gettid() as u32 }
}

type Body = Box<dyn FnOnce() + Send>;

extern "C" fn enter(body: *mut c_void) -> *mut c_void {
    // SAFETY: `body` is the pointer that `spawn_thread` made of a Box<Body>, handed to exactly one thread.
    let body: Box<Body> = unsafe { Box::from_raw(body.cast()) };
    body();
    ptr::null_mut()
}

/// Starts a detached thread with a stack of `stack` bytes. std's threads each map an alternative signal stack, which
/// halves the number of threads that fit vm.max_map_count; these do not. A panic of `body` aborts, so it must catch
/// panics.
///
/// # Errors
/// EAGAIN at a limit of threads, mappings or memory.
pub fn spawn_thread(stack: usize, body: Body) -> io::Result<()> {
    let body: *mut Body = Box::into_raw(Box::new(body));
    let mut attr = MaybeUninit::<libc::pthread_attr_t>::uninit();
    let mut thread = MaybeUninit::<libc::pthread_t>::uninit();
    // SAFETY: `attr` is initialised before use and destroyed after; `enter` takes over `body` if the thread starts.
    let error = unsafe {
        let mut e = libc::pthread_attr_init(attr.as_mut_ptr());
        if e == 0 {
            libc::pthread_attr_setstacksize(attr.as_mut_ptr(), stack);
            libc::pthread_attr_setdetachstate(attr.as_mut_ptr(), libc::PTHREAD_CREATE_DETACHED);
            e = libc::pthread_create(thread.as_mut_ptr(), attr.as_ptr(), enter, body.cast());
            libc::pthread_attr_destroy(attr.as_mut_ptr());
        }
        e
    };
    if error == 0 {
        return Ok(());
    }
    // SAFETY: no thread was started, so the box is still ours alone.
    drop(unsafe { Box::from_raw(body) });
    Err(io::Error::from_raw_os_error(error))
}

// ---- processes ----

/// Starts a process that runs `body` and exits. It is a child of the caller's parent if `sibling`, else of the caller.
/// A panic of `body` ends the process with exit code 101.
///
/// Uses the bare system call, because libc's fork(2) can't make siblings.
///
/// # Errors
/// EAGAIN at a limit of processes, ENOMEM.
pub fn spawn_process(sibling: bool, body: impl FnOnce()) -> io::Result<()> {
    let flags = libc::SIGCHLD | if sibling { libc::CLONE_PARENT } else { 0 };
    // SAFETY: without CLONE_VM this is a fork: the child has a copy of everything. The caller is its process's only
    // thread, so no lock of the allocator or of libc can be held by another that does not exist in the child.
    let child = unsafe { libc::syscall(libc::SYS_clone, flags, 0, 0, 0, 0) };
    if child != 0 {
        return check(child as c_int).map(drop);
    }
    let code = if catch_unwind(AssertUnwindSafe(body)).is_ok() { 0 } else { 101 };
    // SAFETY: ends the process at once; its parent's exit handlers and buffers are not its own to run.
    unsafe { libc::_exit(code) }
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Reaped {
    Child(u32, ExitStatus),
    Running,
    /// There are no children.
    None,
}

/// Reaps one ended child; with `wait`, waits for one.
pub fn reap(wait: bool) -> Reaped {
    let mut status = 0;
    let flags = if wait { 0 } else { libc::WNOHANG };
    // SAFETY: `status` is a live integer for the kernel to fill.
    match unsafe { libc::waitpid(-1, &mut status, flags) } {
        0 => Reaped::Running,
        child if child > 0 => Reaped::Child(child as u32, ExitStatus::from_raw(status)),
        _ if errno() == libc::EINTR => Reaped::Running,
        _ => Reaped::None,
    }
}

/// Memory with a descriptor (memfd_create), in which processes leave their results.
///
/// # Errors
/// EMFILE, ENOMEM.
pub fn memory_file() -> io::Result<std::fs::File> {
    // SAFETY: the name is a NUL-terminated literal.
    let fd = check(unsafe { libc::memfd_create(c"schedlab-results".as_ptr(), libc::MFD_CLOEXEC) })?;
    // SAFETY: a fresh descriptor, owned by nobody else.
    Ok(unsafe { std::fs::File::from_raw_fd(fd) })
}

// ---- signals ----

/// The signal that interrupts tasks' sleeps when a run ends.
const NUDGE: c_int = libc::SIGUSR1;

extern "C" fn nudged(_: c_int) {}

/// Installs the nudge's empty handler without SA_RESTART: interrupted calls return EINTR.
///
/// # Errors
/// Never on Linux, except with a seccomp filter.
pub fn install_nudge() -> io::Result<()> {
    // SAFETY: an all-zero sigaction is valid; the handler does nothing, so it is async-signal-safe.
    check(unsafe {
        let mut action: libc::sigaction = MaybeUninit::zeroed().assume_init();
        action.sa_sigaction = nudged as extern "C" fn(c_int) as libc::sighandler_t;
        libc::sigaction(NUDGE, &action, ptr::null_mut())
    })
    .map(drop)
}

/// Makes writes to a pipe or socket without readers return EPIPE instead of ending the process.
pub fn ignore_broken_pipes() {
    // SAFETY: SIG_IGN is a valid disposition of SIGPIPE.
    unsafe { libc::signal(libc::SIGPIPE, libc::SIG_IGN) };
}

/// Nudges a thread of this process, or the only thread of a process. It is not an error if the thread has just ended.
pub fn nudge(thread: u32, scope: Scope) {
    // SAFETY: getpid takes no argument; tgkill checks both ids; the signal has a handler.
    unsafe {
        let process = if scope == Scope::Threads { libc::getpid() } else { thread as c_int };
        libc::syscall(libc::SYS_tgkill, process, thread, NUDGE)
    };
}

/// Makes the kernel kill this process when the thread that started it ends.
pub fn die_with_parent() {
    // SAFETY: takes integers only.
    unsafe { libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL) };
}

/// A command's process gets the same addresses each time: what has an address as a number, as a scheduler's program
/// may, then does the same. A container may refuse that, and the command runs all the same.
pub fn fix_addresses(command: &mut Command) {
    let fix = || {
        // SAFETY: takes an integer only.
        unsafe { libc::personality(libc::ADDR_NO_RANDOMIZE as libc::c_ulong) };
        Ok(())
    };
    // SAFETY: the closure makes one system call and allocates nothing.
    unsafe { command.pre_exec(fix) };
}

// ---- descriptors ----

/// A descriptor by which tasks wake the controller (eventfd).
#[derive(Debug)]
pub struct Bell(OwnedFd);

impl Bell {
    /// # Errors
    /// EMFILE and similar.
    pub fn new() -> io::Result<Bell> {
        // SAFETY: takes integers only.
        let fd = check(unsafe { libc::eventfd(0, libc::EFD_CLOEXEC | libc::EFD_NONBLOCK) })?;
        // SAFETY: a fresh descriptor, owned by nobody else.
        Ok(Bell(unsafe { OwnedFd::from_raw_fd(fd) }))
    }
    pub fn ring(&self) {
        // SAFETY: writes the eight bytes of a local; a full counter already rings.
        unsafe { libc::write(self.0.as_raw_fd(), ptr::from_ref(&1u64).cast(), 8) };
    }
    pub fn quiet(&self) {
        let mut count = 0u64;
        // SAFETY: reads at most eight bytes into a local.
        unsafe { libc::read(self.0.as_raw_fd(), ptr::from_mut(&mut count).cast(), 8) };
    }
    pub fn fd(&self) -> BorrowedFd<'_> {
        use std::os::fd::AsFd;
        self.0.as_fd()
    }
}

/// Waits until one of `fds` is readable or hung up, or `timeout_ns` is over; returns which are ready.
pub fn wait_readable<const N: usize>(fds: [Option<BorrowedFd<'_>>; N], timeout_ns: u64) -> [bool; N] {
    // A negative descriptor is skipped by poll(2).
    let mut set = fds.map(|fd| libc::pollfd {
        fd: fd.map_or(-1, |fd| fd.as_raw_fd()),
        events: libc::POLLIN,
        revents: 0,
    });
    let timeout = timespec(timeout_ns);
    // SAFETY: `set` has N entries; `timeout` lives through the call; no signal mask is given.
    let ready = unsafe { libc::ppoll(set.as_mut_ptr(), N as libc::nfds_t, &timeout, ptr::null()) };
    set.map(|p| ready > 0 && p.revents != 0)
}

pub fn set_nonblocking(fd: BorrowedFd<'_>) -> io::Result<()> {
    // SAFETY: fcntl on a descriptor that is open for the time of the borrow.
    unsafe {
        let flags = check(libc::fcntl(fd.as_raw_fd(), libc::F_GETFL))?;
        check(libc::fcntl(fd.as_raw_fd(), libc::F_SETFL, flags | libc::O_NONBLOCK)).map(drop)
    }
}

/// Capacity of a pipe, bytes (F_GETPIPE_SZ); `None` if the descriptor is not a pipe.
pub fn pipe_size(fd: BorrowedFd<'_>) -> Option<u32> {
    // SAFETY: fcntl on a descriptor that is open for the time of the borrow.
    u32::try_from(unsafe { libc::fcntl(fd.as_raw_fd(), libc::F_GETPIPE_SZ) }).ok()
}

// ---- limits ----

/// Soft limit of this user's processes and threads (RLIMIT_NPROC); `None`: no limit.
pub fn process_limit() -> Option<u64> {
    let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: `limit` is a whole rlimit for the kernel to fill.
    let r = unsafe { libc::getrlimit(libc::RLIMIT_NPROC, &mut limit) };
    (r == 0 && limit.rlim_cur != libc::RLIM_INFINITY).then_some(limit.rlim_cur)
}

/// Soft and hard limit of this process's open descriptors (RLIMIT_NOFILE).
pub fn file_limit() -> (u64, u64) {
    let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: `limit` is a whole rlimit for the kernel to fill.
    unsafe { libc::getrlimit(libc::RLIMIT_NOFILE, &mut limit) };
    (limit.rlim_cur, limit.rlim_max)
}

/// Sets the soft limit of open descriptors.
///
/// # Errors
/// EINVAL above the hard limit.
pub fn set_file_limit(soft: u64) -> io::Result<()> {
    let limit = libc::rlimit { rlim_cur: soft, rlim_max: file_limit().1 };
    // SAFETY: `limit` is a whole rlimit that the kernel only reads.
    check(unsafe { libc::setrlimit(libc::RLIMIT_NOFILE, &limit) }).map(drop)
}

/// Length of the kernel's accounting tick in /proc/stat, ns (1/USER_HZ).
pub fn stat_tick_ns() -> u64 {
    // SAFETY: takes an integer only.
    let hz = unsafe { libc::sysconf(libc::_SC_CLK_TCK) };
    SECOND / u64::try_from(hz).unwrap_or(100).max(1)
}
