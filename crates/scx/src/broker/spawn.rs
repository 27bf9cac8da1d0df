//! Starts the program: filtered, without new rights, at fixed addresses, and without the kernel's shortcut for the
//! time.
//!
//! The filter's listener is made in the child and comes to the broker over a socket. Then the child executes the
//! program, and stops there once, because it lets itself be traced: the broker takes the shortcut (vDSO) out of what
//! the program learns about its process (the auxiliary vector), and lets go of it. From then on reading a clock is a
//! system call as any other.

use super::Request;
use super::call_table::FIRST_LINK;
use super::errno::Errno;
use super::filter;
use super::memory::Memory;
use super::notify::Listener;
use schedlab_base::{Error, Result};
use std::ffi::CString;
use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};
use std::os::unix::ffi::OsStrExt;
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
/// When this machine has no seccomp notification or lets too few files be open, or the program can't be executed.
pub fn start(request: &Request) -> Result<Started> {
    let files = open_files()?;
    let (ours, theirs) = UnixStream::pair().map_err(|e| failed("make a socket", &e))?;
    let secret = secret().map_err(|e| failed("draw a number", &e))?;
    let filter = filter::filter(secret);
    let image = Image::of(request)?;
    let mut command = Command::new(&request.program);
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let parent = std::process::id();
    // SAFETY: the closure makes system calls only, and allocates nothing: it runs in the child of a process that may
    // have more threads. `filter` and `image` live until the call of `spawn` is over.
    unsafe {
        command.pre_exec(move || {
            confine(parent, files)?;
            hand_listener(&filter, theirs.as_raw_fd())?;
            Err(image.execute(secret))
        });
    }
    let child = command.spawn().map_err(|e| why_not_started(request, &e))?;
    // The closure holds the child's end of the socket in this process, too: without it a child that sent nothing is
    // seen as the end of the stream.
    drop(command);
    let clock_is_seen = at_exec(child.id() as i32);
    let listener = receive(&ours).map_err(|e| failed("get the filter's listener", &e))?;
    Ok(Started { child, listener: Listener(listener), clock_is_seen })
}

/// What execve(2) takes. The filter lets the program be executed once, by a caller who knows a number.
struct Image {
    path: CString,
    /// The texts to which the pointers point.
    _texts: Vec<CString>,
    arguments: Vec<*const libc::c_char>,
    environment: Vec<*const libc::c_char>,
}

// SAFETY: the pointers point to what the value itself owns, and nothing of it changes.
unsafe impl Send for Image {}
// SAFETY: as above.
unsafe impl Sync for Image {}

impl Image {
    fn of(request: &Request) -> Result<Image> {
        let text = |bytes: &[u8]| {
            let wrong = |_| Error::input("a word of a scheduler's program has a zero in it");
            CString::new(bytes).map_err(wrong)
        };
        let path = text(request.program.as_os_str().as_bytes())?;
        let words = request.arguments.iter().map(|word| text(word.as_bytes()));
        let mut words = [Ok(path.clone())].into_iter().chain(words).collect::<Result<Vec<_>>>()?;
        let pairs =
            request.environment.iter().map(|(name, value)| text(format!("{name}={value}").as_bytes()));
        let pairs = pairs.collect::<Result<Vec<_>>>()?;
        let pointers =
            |texts: &[CString]| texts.iter().map(|text| text.as_ptr()).chain([std::ptr::null()]).collect();
        let (arguments, environment) = (pointers(&words), pointers(&pairs));
        // Texts that are moved stay where they are in memory.
        words.extend(pairs);
        Ok(Image { path, _texts: words, arguments, environment })
    }
    /// Returns only when it fails.
    fn execute(&self, secret: u64) -> io::Error {
        // SAFETY: both lists end with a null pointer, and each text with a zero. The kernel does not look at what comes
        // behind them, but for the filter.
        unsafe {
            let (arguments, environment) = (self.arguments.as_ptr(), self.environment.as_ptr());
            libc::syscall(libc::SYS_execve, self.path.as_ptr(), arguments, environment, 0, 0, secret);
        }
        io::Error::last_os_error()
    }
}
const _: () = assert!(filter::SECRET_AT == 5, "the place of the secret among the arguments");

/// This machine's own random number: the program can't know it, and nothing simulated depends on it.
fn secret() -> io::Result<u64> {
    let mut bytes = [0u8; 8];
    // SAFETY: the buffer is as long as is said.
    let got = unsafe { libc::getrandom(bytes.as_mut_ptr().cast(), bytes.len(), 0) };
    check(got as i64)?;
    Ok(u64::from_ne_bytes(bytes))
}

/// Links have numbers from [`FIRST_LINK`] on; so many files more may be open.
const BESIDE_LINKS: u64 = 64;
/// The program sees the same limit on each machine that allows as much.
const FILES: u64 = 4096;
/// The limit of a stack decides where memory lies, and how large the stacks of threads are.
const STACK_BYTES: u64 = 8 << 20;

/// Raises this process's limit of open files to the highest that it may have, because it holds the memory of each of
/// the program's maps; gives the program's.
fn open_files() -> Result<u64> {
    let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: the struct is the one that the call fills.
    unsafe { libc::getrlimit(libc::RLIMIT_NOFILE, &mut limit) };
    let least = u64::from(FIRST_LINK) + BESIDE_LINKS;
    if limit.rlim_max < least {
        let text =
            format!("a scheduler's program needs {least} open files, and {} are allowed", limit.rlim_max);
        return Err(Error::machine(text).help("raise the hard limit: ulimit -Hn 4096, or as root: prlimit"));
    }
    let files = limit.rlim_max.min(FILES);
    limit.rlim_cur = limit.rlim_cur.max(limit.rlim_max.min(MOST_FILES));
    // SAFETY: the struct is read.
    unsafe { libc::setrlimit(libc::RLIMIT_NOFILE, &limit) };
    Ok(files)
}
/// No more than this: some systems have no limit, and tables as large.
const MOST_FILES: u64 = 1 << 16;

fn failed(what: &str, error: &io::Error) -> Error {
    Error::machine(format!("can't {what} for a scheduler's program: {error}"))
}

/// The filter is refused with EBUSY, EINVAL, EACCES or ENOSYS where there is no notification; a process more with
/// EAGAIN; executing the program fails with what execve(2) says.
fn why_not_started(request: &Request, error: &io::Error) -> Error {
    if let Err(why) = is_available() {
        return why;
    }
    if error.raw_os_error() == Some(libc::EAGAIN) {
        return failed("make a process", error)
            .help("the user may have no more processes: end some, or raise ulimit -u");
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
fn confine(parent: u32, files: u64) -> io::Result<()> {
    // SAFETY: these calls take integers only, or a struct that they read.
    unsafe {
        check(libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL).into())?;
        if libc::getppid() as u32 != parent {
            return Err(io::Error::from_raw_os_error(libc::ESRCH));
        }
        // A ^C at the terminal is the broker's business.
        check(libc::setpgid(0, 0).into())?;
        // Files that the caller's own caller has left open are not for the program.
        libc::syscall(libc::SYS_close_range, 3, u32::MAX, libc::CLOSE_RANGE_CLOEXEC);
        for (what, most) in
            [(libc::RLIMIT_NOFILE, files), (libc::RLIMIT_STACK, STACK_BYTES), (libc::RLIMIT_CORE, 0)]
        {
            let limit = libc::rlimit { rlim_cur: most, rlim_max: most };
            // The stack's may be lower already.
            libc::setrlimit(what, &limit);
        }
        // Both may be refused in a container: the run is then not repeatable in every byte.
        libc::personality(libc::ADDR_NO_RANDOMIZE as libc::c_ulong);
        stay_on_one_cpu();
        libc::ptrace(libc::PTRACE_TRACEME, 0, 0, 0);
        // Also root's program has no capabilities. Who is not root may not set this, and has none.
        libc::prctl(libc::PR_SET_SECUREBITS, NO_ROOT, 0, 0, 0);
        libc::prctl(libc::PR_CAP_AMBIENT, libc::PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0);
        check(libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0).into())
    }
}
/// `SECBIT_NOROOT` and its lock: execve(2) gives root nothing.
const NO_ROOT: libc::c_ulong = 3;

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
