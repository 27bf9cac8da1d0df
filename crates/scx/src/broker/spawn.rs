//! Starts the program: filtered, without new rights, at fixed addresses, and without the kernel's shortcut for the
//! time.
//!
//! The filter's listener is made in the child and comes to the broker over a socket. Then the child executes the
//! program, and stops there once, because it lets itself be traced: the broker takes the shortcut (vDSO) out of what
//! the program learns about its process (the auxiliary vector), and lets go of it. From then on reading a clock is a
//! system call as any other.

use super::Request;
use super::errno::Errno;
use super::filter;
use super::memory::Memory;
use super::notify::Listener;
use schedlab_base::{Error, Result};
use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Stdio};

/// A program that was started: its first instruction is still to come.
pub struct Started {
    pub child: Child,
    pub listener: Listener,
    /// Clocks are system calls.
    pub clock_is_seen: bool,
}

/// # Errors
/// When this machine has no seccomp notification, or the program can't be executed.
pub fn start(request: &Request) -> Result<Started> {
    let (ours, theirs) = UnixStream::pair().map_err(|e| failed("make a socket", &e))?;
    let filter = filter::filter();
    let mut command = Command::new(&request.program);
    command.args(&request.arguments).env_clear().envs(request.environment.iter().cloned());
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let parent = std::process::id();
    // SAFETY: the closure makes system calls only, and allocates nothing: it runs in the child of a process that may
    // have more threads. `filter` lives until the call of `spawn` is over.
    unsafe {
        command.pre_exec(move || confine(parent).and_then(|()| hand_listener(&filter, theirs.as_raw_fd())));
    }
    let child = command.spawn().map_err(|e| why_not_started(request, &e))?;
    // The closure holds the child's end of the socket in this process, too: without it a child that sent nothing is
    // seen as the end of the stream.
    drop(command);
    let clock_is_seen = at_exec(child.id() as i32);
    let listener = receive(&ours).map_err(|e| failed("get the filter's listener", &e))?;
    Ok(Started { child, listener: Listener(listener), clock_is_seen })
}

fn failed(what: &str, error: &io::Error) -> Error {
    Error::machine(format!("can't {what} for a scheduler's program: {error}"))
}

/// The filter is refused with EBUSY, EINVAL, EACCES or ENOSYS where there is no notification; executing the program
/// fails with what execve(2) says.
fn why_not_started(request: &Request, error: &io::Error) -> Error {
    if let Err(why) = is_available() {
        return why;
    }
    Error::io(&request.program, "execute", error)
}

/// Whether this machine has seccomp notification.
///
/// # Errors
/// When it has not, with the reason.
pub fn is_available() -> Result<()> {
    let action: u32 = libc::SECCOMP_RET_USER_NOTIF;
    // SAFETY: the call reads one u32.
    let got =
        unsafe { libc::syscall(libc::SYS_seccomp, libc::SECCOMP_GET_ACTION_AVAIL, 0, &raw const action) };
    Errno::check(got).map(drop).map_err(|Errno(errno)| {
        let why = io::Error::from_raw_os_error(errno);
        Error::machine(format!("this machine has no seccomp user notification: {why}"))
            .help("a scheduler's program needs Linux 5.5 or later, and a container that allows seccomp(2)")
    })
}

/// In the child: it ends with its parent, may be traced by it, has fixed addresses, and gets no rights by execve(2).
fn confine(parent: u32) -> io::Result<()> {
    // SAFETY: these calls take integers only.
    unsafe {
        check(libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL).into())?;
        if libc::getppid() as u32 != parent {
            return Err(io::Error::from_raw_os_error(libc::ESRCH));
        }
        // A ^C at the terminal is the broker's business.
        check(libc::setpgid(0, 0).into())?;
        // Both may be refused in a container: the run is then not repeatable in every byte.
        libc::personality(libc::ADDR_NO_RANDOMIZE as libc::c_ulong);
        stay_on_one_cpu();
        libc::ptrace(libc::PTRACE_TRACEME, 0, 0, 0);
        check(libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0).into())
    }
}

/// Threads of a program that has several then run in nearly the same order each time. Which CPU it is follows from the
/// process id, so that several programs spread. If it can't be had, only the order suffers.
fn stay_on_one_cpu() {
    // SAFETY: sets of CPUs are plain bits, zeroed here, of the size that is said; the numbers are within them.
    unsafe {
        let mut may: libc::cpu_set_t = std::mem::zeroed();
        libc::sched_getaffinity(0, size_of::<libc::cpu_set_t>(), &mut may);
        let count = libc::CPU_COUNT(&may).max(1) as usize;
        let all = 0..libc::CPU_SETSIZE as usize;
        let chosen = all.filter(|cpu| libc::CPU_ISSET(*cpu, &may)).nth(libc::getpid() as usize % count);
        let mut one: libc::cpu_set_t = std::mem::zeroed();
        libc::CPU_SET(chosen.unwrap_or(0), &mut one);
        libc::sched_setaffinity(0, size_of::<libc::cpu_set_t>(), &one);
    }
}

fn check(result: i64) -> io::Result<()> {
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

/// In the child: sets the filter, and sends its listener. Threads of the caller are killable while they wait, if the
/// kernel can (5.19): else any signal starts a call anew, and its answer may be done twice.
fn hand_listener(filter: &[libc::sock_filter], socket: RawFd) -> io::Result<()> {
    let program = filter::program(filter);
    let listen = libc::SECCOMP_FILTER_FLAG_NEW_LISTENER;
    let set = |flags: libc::c_ulong| {
        // SAFETY: the program points to the filter, which outlives the call.
        unsafe { libc::syscall(libc::SYS_seccomp, libc::SECCOMP_SET_MODE_FILTER, flags, &raw const program) }
    };
    let mut listener = set(listen | libc::SECCOMP_FILTER_FLAG_WAIT_KILLABLE_RECV);
    if listener < 0 {
        listener = set(listen);
    }
    check(listener)?;
    send(socket, listener as RawFd)
}

/// Room for one file descriptor beside a message.
#[repr(C, align(8))]
struct Beside([u8; 32]);

fn message<'a>(byte: &'a mut libc::iovec, beside: &'a mut Beside) -> libc::msghdr {
    // SAFETY: a struct of integers and pointers, for which zero is a value.
    let mut message: libc::msghdr = unsafe { std::mem::zeroed() };
    message.msg_iov = byte;
    message.msg_iovlen = 1;
    message.msg_control = beside.0.as_mut_ptr().cast();
    // SAFETY: these compute sizes.
    message.msg_controllen = unsafe { libc::CMSG_SPACE(4) } as _;
    message
}

fn send(socket: RawFd, file: RawFd) -> io::Result<()> {
    let mut byte = [0u8];
    let mut iov = libc::iovec { iov_base: byte.as_mut_ptr().cast(), iov_len: 1 };
    let mut beside = Beside([0; 32]);
    let message = message(&mut iov, &mut beside);
    // SAFETY: the header lies in `beside`, which has room for one file descriptor.
    unsafe {
        let header = libc::CMSG_FIRSTHDR(&message);
        (*header).cmsg_level = libc::SOL_SOCKET;
        (*header).cmsg_type = libc::SCM_RIGHTS;
        (*header).cmsg_len = libc::CMSG_LEN(4) as _;
        libc::CMSG_DATA(header).cast::<RawFd>().write_unaligned(file);
        check(libc::sendmsg(socket, &message, 0) as i64)
    }
}

fn receive(socket: &UnixStream) -> io::Result<OwnedFd> {
    let mut byte = [0u8];
    let mut iov = libc::iovec { iov_base: byte.as_mut_ptr().cast(), iov_len: 1 };
    let mut beside = Beside([0; 32]);
    let mut message = message(&mut iov, &mut beside);
    // SAFETY: the message points to buffers of this function with their sizes.
    let got = unsafe { libc::recvmsg(socket.as_raw_fd(), &mut message, libc::MSG_CMSG_CLOEXEC) };
    check(got as i64)?;
    // SAFETY: the header is looked for in what was received.
    let header = unsafe { libc::CMSG_FIRSTHDR(&message) };
    if got == 0 || header.is_null() {
        return Err(io::Error::from(io::ErrorKind::UnexpectedEof));
    }
    // SAFETY: a message of one file descriptor, which is new in this process and owned by nobody.
    Ok(unsafe { OwnedFd::from_raw_fd(libc::CMSG_DATA(header).cast::<RawFd>().read_unaligned()) })
}

/// Waits for the stop at execve(2), hides the shortcut, and lets the program go. False: it is not traced.
fn at_exec(pid: i32) -> bool {
    let mut status = 0;
    // SAFETY: waits for the child that this thread has started; WNOHANG, because it does not stop if it is not traced:
    // `spawn` has returned, so execve(2) has gone so far that the stop is a matter of microseconds.
    let stopped = (0..STOP_TRIES).any(|_| unsafe {
        libc::usleep(STOP_PAUSE_US);
        libc::waitpid(pid, &mut status, libc::WNOHANG | libc::__WALL) == pid && libc::WIFSTOPPED(status)
    });
    if !stopped {
        return false;
    }
    let hidden = hide_shortcut(pid).is_ok();
    // SAFETY: lets a child go that this thread traces. It gets no signal.
    unsafe { libc::ptrace(libc::PTRACE_DETACH, pid, 0, 0) };
    hidden
}

const STOP_TRIES: u32 = 2_000;
const STOP_PAUSE_US: u32 = 500;
/// Entries of the auxiliary vector: where the vDSO is, where 16 random bytes are, and one that says nothing.
const AT_SYSINFO_EHDR: u64 = 33;
const AT_RANDOM: u64 = 25;
const AT_IGNORE: u64 = 1;
const RANDOM: [u8; 16] = *b"schedlab's draw.";

/// The vector lies on the stack. Its bytes are known from /proc, its place is found by them.
fn hide_shortcut(pid: i32) -> std::result::Result<(), Errno> {
    let memory = Memory { pid };
    let vector = std::fs::read(format!("/proc/{pid}/auxv"))?;
    let stack = stack(pid).ok_or(Errno(libc::ESRCH))?;
    let bytes = memory.bytes(stack.start, (stack.end - stack.start) as usize)?;
    let at = bytes.windows(vector.len()).rposition(|w| w == vector).ok_or(Errno(libc::ESRCH))?;
    for (entry, pair) in vector.chunks_exact(16).enumerate() {
        let word = |i: usize| u64::from_le_bytes(pair[i * 8..i * 8 + 8].try_into().expect("8 bytes"));
        match word(0) {
            AT_SYSINFO_EHDR => {
                memory.write(stack.start + (at + entry * 16) as u64, &AT_IGNORE.to_le_bytes())?;
            }
            AT_RANDOM => memory.write(word(1), &RANDOM)?,
            _ => {}
        }
    }
    Ok(())
}

fn stack(pid: i32) -> Option<std::ops::Range<u64>> {
    let maps = std::fs::read_to_string(format!("/proc/{pid}/maps")).ok()?;
    let line = maps.lines().find(|line| line.ends_with("[stack]"))?;
    let (start, end) = line.split(' ').next()?.split_once('-')?;
    Some(u64::from_str_radix(start, 16).ok()?..u64::from_str_radix(end, 16).ok()?)
}
