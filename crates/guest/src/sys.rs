//! The system calls of guests and of init, each in a safe function. All `unsafe` of this crate is here
//! and in `ports`.
//!
//! Mirrors kill(2), memfd_create(2), mount(2), setrlimit(2), sched_setaffinity(2), netdevice(7), random(4), termios(3),
//! reboot(2), as of Linux 3.17 and later.

use std::ffi::CString;
use std::fs::File;
use std::io;
use std::mem::MaybeUninit;
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::os::unix::process::CommandExt;
use std::process::Command;

fn check(result: libc::c_int) -> io::Result<()> {
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

/// Kills a process group by its leader. It is not an error if the group has just ended.
pub fn kill_group(leader: u32) {
    // SAFETY: takes integers only; a child that was not waited for keeps its number.
    unsafe { libc::kill(-(leader as libc::pid_t), libc::SIGKILL) };
}

/// An unnamed file in memory. It disappears when the last process that has it open ends, however it ends.
pub fn memory_file() -> io::Result<File> {
    // SAFETY: the name is NUL-terminated; a descriptor that the call returns belongs to nobody else.
    unsafe {
        let fd = libc::memfd_create(c"schedlab-guest".as_ptr(), libc::MFD_CLOEXEC);
        check(fd)?;
        Ok(File::from_raw_fd(fd))
    }
}

/// Keeps these files open in the command's process, under the same numbers.
pub fn inherit(command: &mut Command, files: &[File]) {
    let numbers: Vec<libc::c_int> = files.iter().map(AsRawFd::as_raw_fd).collect();
    let keep = move || {
        // SAFETY: takes integers only and is async-signal-safe.
        numbers.iter().try_for_each(|fd| check(unsafe { libc::fcntl(*fd, libc::F_SETFD, 0) }))
    };
    // SAFETY: between fork and exec the closure makes system calls and allocates nothing.
    unsafe { command.pre_exec(keep) };
}

/// Makes the kernel take new random numbers from the CPU.
///
/// # Errors
/// EINVAL from kernels before 4.14; EPERM without CAP_SYS_ADMIN.
pub fn draw_anew() -> io::Result<()> {
    const RNDRESEEDCRNG: libc::Ioctl = 0x5207;
    let random = File::open("/dev/urandom")?;
    // SAFETY: the request has no argument; the descriptor is open through the call.
    check(unsafe { libc::ioctl(random.as_raw_fd(), RNDRESEEDCRNG) })
}

/// Restricts this thread to the CPUs for which `may` holds.
///
/// # Errors
/// EINVAL if no such CPU is online.
pub fn run_on(may: impl Fn(usize) -> bool) -> io::Result<()> {
    // SAFETY: a cpu_set_t is bits, for which zeros are valid; CPU_SET checks the number against the set's size; the
    // kernel only reads the set.
    unsafe {
        let mut set: libc::cpu_set_t = MaybeUninit::zeroed().assume_init();
        (0..libc::CPU_SETSIZE as usize).filter(|cpu| may(*cpu)).for_each(|cpu| libc::CPU_SET(cpu, &mut set));
        check(libc::sched_setaffinity(0, size_of::<libc::cpu_set_t>(), &raw const set))
    }
}

/// Mounts a file system without a device.
///
/// # Errors
/// ENODEV when the kernel has no file system of that type.
pub fn mount(kind: &str, at: &str, options: &str) -> io::Result<()> {
    let [kind, at, options] = [CString::new(kind)?, CString::new(at)?, CString::new(options)?];
    // SAFETY: all four are NUL-terminated strings that live through the call.
    check(unsafe { libc::mount(kind.as_ptr(), at.as_ptr(), kind.as_ptr(), 0, options.as_ptr().cast()) })
}

/// Sets the soft and hard limit of this process and its children.
///
/// # Errors
/// EPERM beyond the system's limit.
pub fn lift_limit(which: libc::c_int, to: u64) -> io::Result<()> {
    let limit = libc::rlimit { rlim_cur: to, rlim_max: to };
    // SAFETY: `limit` is a whole rlimit that the kernel only reads.
    check(unsafe { libc::setrlimit(which as _, &limit) })
}

/// Enables the loopback interface. The kernel assigns 127.0.0.1 itself.
///
/// # Errors
/// EAFNOSUPPORT from a kernel without IPv4, ENODEV from one without the interface.
pub fn loopback_up() -> io::Result<()> {
    // SAFETY: takes integers only; a descriptor that it returns belongs to nobody else.
    let socket = unsafe {
        let fd = libc::socket(libc::AF_INET, libc::SOCK_DGRAM | libc::SOCK_CLOEXEC, 0);
        check(fd)?;
        OwnedFd::from_raw_fd(fd)
    };
    // SAFETY: an ifreq is numbers and bytes, for which zeros are valid.
    let mut request: libc::ifreq = unsafe { MaybeUninit::zeroed().assume_init() };
    for (to, from) in request.ifr_name.iter_mut().zip(b"lo") {
        *to = *from as libc::c_char;
    }
    // SAFETY: the name is NUL-terminated, and both calls read and write the flags of a whole ifreq; the first has set
    // them when they are read.
    unsafe {
        check(libc::ioctl(socket.as_raw_fd(), libc::SIOCGIFFLAGS as libc::Ioctl, &mut request))?;
        request.ifr_ifru.ifru_flags |= libc::IFF_UP as libc::c_short;
        check(libc::ioctl(socket.as_raw_fd(), libc::SIOCSIFFLAGS as libc::Ioctl, &request))
    }
}

/// Makes a terminal pass bytes unchanged.
///
/// # Errors
/// ENOTTY when it is not a terminal.
pub fn make_raw(terminal: BorrowedFd<'_>) -> io::Result<()> {
    let mut settings = MaybeUninit::<libc::termios>::zeroed();
    // SAFETY: the descriptor is open for the time of the borrow; `settings` is filled before it is changed and used.
    unsafe {
        check(libc::tcgetattr(terminal.as_raw_fd(), settings.as_mut_ptr()))?;
        libc::cfmakeraw(settings.as_mut_ptr());
        check(libc::tcsetattr(terminal.as_raw_fd(), libc::TCSANOW, settings.as_ptr()))
    }
}

/// Waits until a terminal has sent everything.
///
/// # Errors
/// As tcdrain(3).
pub fn drain(terminal: BorrowedFd<'_>) -> io::Result<()> {
    // SAFETY: the descriptor is open for the time of the borrow.
    check(unsafe { libc::tcdrain(terminal.as_raw_fd()) })
}

/// A system call without effect that schedlab makes nowhere else: the instruction counter looks for it.
pub fn mark() {
    // SAFETY: the call takes a number only; there is no file of that number.
    let _ = unsafe { libc::syncfs(-1) };
}

/// Powers the machine off. Returns only if that fails.
pub fn power_off() -> io::Error {
    // SAFETY: takes an integer only.
    unsafe { libc::reboot(libc::RB_POWER_OFF) };
    io::Error::last_os_error()
}
