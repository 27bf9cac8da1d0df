//! Programs that want out: each tries what no scheduler needs, and says what came of it.

use std::ffi::CString;
use std::fs;
use std::io;
use std::os::raw::c_long;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};

/// A system call of which only the failure matters.
fn errno(number: c_long, arguments: [c_long; 6]) -> i32 {
    let [a, b, c, d, e, f] = arguments;
    // SAFETY: what is asked for is refused before a pointer is looked at, or points to a text that ends with a zero.
    let got = unsafe { libc::syscall(number, a, b, c, d, e, f) };
    if got < 0 { io::Error::last_os_error().raw_os_error().unwrap() } else { 0 }
}
fn path(text: &str) -> c_long {
    CString::new(text).unwrap().into_raw() as c_long
}

/// Calls with which programs have left filters that listed what is refused, and the number of errno that each gets.
pub fn calls() {
    let parent = c_long::from(parent_here());
    let file = path("/tmp/scx-broker-victim");
    let here = c_long::from(libc::AT_FDCWD);
    let all: &[(&str, c_long, [c_long; 6], i32)] = &[
        ("io_uring_setup", libc::SYS_io_uring_setup, [4, file, 0, 0, 0, 0], libc::ENOSYS),
        ("acct", libc::SYS_acct, [file, 0, 0, 0, 0, 0], libc::ENOSYS),
        ("mount", libc::SYS_mount, [file, file, file, 0, 0, 0], libc::ENOSYS),
        ("fsopen", libc::SYS_fsopen, [file, 0, 0, 0, 0, 0], libc::ENOSYS),
        ("open_tree", libc::SYS_open_tree, [here, file, 1, 0, 0, 0], libc::ENOSYS),
        ("setxattr", libc::SYS_setxattr, [file, file, file, 1, 0, 0], libc::ENOSYS),
        ("fchmodat2", libc::SYS_fchmodat2, [here, file, 0o777, 0, 0, 0], libc::ENOSYS),
        ("fchmod", libc::SYS_fchmod, [0, 0o777, 0, 0, 0, 0], libc::ENOSYS),
        ("ptrace", libc::SYS_ptrace, [16, parent, 0, 0, 0, 0], libc::ENOSYS),
        ("process_vm_readv", libc::SYS_process_vm_readv, [parent, 0, 0, 0, 0, 0], libc::ENOSYS),
        ("pidfd_open", libc::SYS_pidfd_open, [parent, 0, 0, 0, 0, 0], libc::ENOSYS),
        ("keyctl", libc::SYS_keyctl, [0, -3, 0, 0, 0, 0], libc::ENOSYS),
        ("userfaultfd", libc::SYS_userfaultfd, [1, 0, 0, 0, 0, 0], libc::ENOSYS),
        ("name_to_handle_at", libc::SYS_name_to_handle_at, [here, file, file, file, 0, 0], libc::ENOSYS),
        ("open_by_handle_at", libc::SYS_open_by_handle_at, [here, file, 0, 0, 0, 0], libc::ENOSYS),
        ("fanotify_init", libc::SYS_fanotify_init, [0; 6], libc::ENOSYS),
        ("unshare", libc::SYS_unshare, [libc::CLONE_NEWUSER.into(), 0, 0, 0, 0, 0], libc::ENOSYS),
        ("chroot", libc::SYS_chroot, [file, 0, 0, 0, 0, 0], libc::ENOSYS),
        ("seccomp", libc::SYS_seccomp, [2, 0, 0, 0, 0, 0], libc::ENOSYS),
        ("timer_create", libc::SYS_timer_create, [1, 0, file, 0, 0, 0], libc::ENOSYS),
        ("shmget", libc::SYS_shmget, [1, 4096, 0o1666, 0, 0, 0], libc::ENOSYS),
        ("setsid", libc::SYS_setsid, [0; 6], libc::ENOSYS),
        // What only some arguments permit.
        ("clone 0x11", libc::SYS_clone, [0x11, 0, 0, 0, 0, 0], libc::EPERM),
        ("clone 0x30010f00", libc::SYS_clone, [0x3001_0f00, 0, 0, 0, 0, 0], libc::EPERM),
        ("prctl 0x1", libc::SYS_prctl, [libc::PR_SET_PDEATHSIG.into(), 0, 0, 0, 0, 0], libc::ENOSYS),
        ("prctl 0x4", libc::SYS_prctl, [libc::PR_SET_DUMPABLE.into(), 0, 0, 0, 0, 0], libc::ENOSYS),
        ("socket 0x2 0x1", libc::SYS_socket, [2, 1, 0, 0, 0, 0], libc::EACCES),
        ("socket 0x1 0x2", libc::SYS_socket, [1, 2, 0, 0, 0, 0], libc::EACCES),
        ("socket 0x10 0x3", libc::SYS_socket, [16, 3, 0, 0, 0, 0], libc::EACCES),
        ("sendto 0x7b", libc::SYS_sendto, [1, file, 1, 0, 123, 16], libc::EACCES),
        ("kill 1", libc::SYS_kill, [1, 0, 0, 0, 0, 0], libc::ESRCH),
        ("fcntl 0x8", libc::SYS_fcntl, [0, libc::F_SETOWN.into(), 1, 0, 0, 0], libc::ENOSYS),
        ("ioctl 0x5412", libc::SYS_ioctl, [0, libc::TIOCSTI as c_long, file, 0, 0, 0], libc::ENOSYS),
        ("system call 999", 999, [0; 6], libc::ENOSYS),
        // Without a name in the record: there is another way, or no effect.
        ("", libc::SYS_clone3, [file, 88, 0, 0, 0, 0], libc::ENOSYS),
        ("", libc::SYS_wait4, [-1, 0, 0, 0, 0, 0], libc::ECHILD),
    ];
    for (name, number, arguments, wanted) in all {
        assert_eq!(errno(*number, *arguments), *wanted, "{name} ({number})");
        if !name.is_empty() {
            println!("refused {name}");
        }
    }
    assert_eq!(errno(libc::SYS_kill, [parent, 0, 0, 0, 0, 0]), libc::ESRCH);
    assert_eq!(errno(libc::SYS_tgkill, [parent, parent, 0, 0, 0, 0]), libc::ESRCH);
    fills_its_queue();
    assert_eq!(errno(libc::SYS_execve, [path("/bin/sh"), 0, 0, 0, 0, 0]), libc::EACCES);
    of_another_table();
    std::process::exit(7);
}

/// A listener that takes nobody: the broker, which connects, does not wait for it.
fn fills_its_queue() {
    let mut address = [0u8; 110];
    address[0] = libc::AF_UNIX as u8;
    address[2..14].copy_from_slice(b"/run/scx/sta");
    let at = address.as_ptr() as c_long;
    // SAFETY: takes integers only.
    let socket = || c_long::from(unsafe { libc::socket(libc::AF_UNIX, libc::SOCK_STREAM, 0) });
    let listener = socket();
    assert_eq!(errno(libc::SYS_connect, [socket(), at, 110, 0, 0, 0]), libc::ECONNREFUSED);
    assert_eq!(errno(libc::SYS_bind, [listener, at, 110, 0, 0, 0]), 0);
    assert_eq!(errno(libc::SYS_listen, [listener, 0, 0, 0, 0, 0]), 0);
    assert_eq!(errno(libc::SYS_connect, [socket(), at, 110, 0, 0, 0]), 0);
    assert_eq!(errno(libc::SYS_connect, [socket(), at, 110, 0, 0, 0]), libc::EAGAIN);
}

/// The same calls by the tables of 32 bits.
#[cfg(target_arch = "x86_64")]
fn of_another_table() {
    const X32: c_long = 0x4000_0000;
    assert_eq!(errno(X32 | libc::SYS_getpid, [0; 6]), libc::ENOSYS);
    let got: i64;
    // SAFETY: getpid(2) of the other table takes nothing; the gate changes these registers.
    unsafe {
        std::arch::asm!("int 0x80", inlateout("rax") 20i64 => got, out("r8") _, out("r9") _, out("r10") _, out("r11") _);
    }
    assert_eq!(got as i32, -libc::ENOSYS);
}
#[cfg(not(target_arch = "x86_64"))]
fn of_another_table() {}

/// The broker's number on this machine, which a program can only guess: the test says it.
fn parent_here() -> i32 {
    std::env::var("SCX_TEST_BROKER_PID").unwrap().parse().unwrap()
}

/// Ways to files that it is not shown.
pub fn files() {
    let parent = parent_here();
    let shown = std::env::var("SCX_TEST_FOLDER").unwrap();
    let gone = [
        "/etc/passwd".to_owned(),
        "/proc/self/root/etc/passwd".to_owned(),
        "/proc/self/cwd/Cargo.toml".to_owned(),
        "/proc/thread-self/root/etc/passwd".to_owned(),
        format!("/proc/{parent}/mem"),
        format!("/proc/{parent}/root/etc/passwd"),
        "/proc/1/environ".to_owned(),
        "/lib/../etc/passwd".to_owned(),
        "/sys/../etc/passwd".to_owned(),
        "/proc/self/stat".to_owned(),
        "/proc/self/mem".to_owned(),
        "/proc/self/cgroup".to_owned(),
        // A link in a folder that it is shown leads out of it.
        format!("{shown}/link"),
        format!("{shown}/folder/passwd"),
    ];
    for path in &gone {
        assert_eq!(fs::read(path).unwrap_err().raw_os_error(), Some(libc::ENOENT), "{path}");
        assert!(fs::metadata(path).is_err(), "{path}");
    }
    assert_eq!(fs::read(format!("{shown}/file")).unwrap(), b"shown");
    assert_eq!(fs::read(format!("{shown}/good")).unwrap(), b"shown", "a link that stays inside");
    let memory = fs::OpenOptions::new().write(true).open("/proc/self/exe");
    assert_eq!(memory.unwrap_err().raw_os_error(), Some(libc::EACCES));
    // Its own files by number are not opened again, but named.
    assert!(fs::read("/proc/self/fd/1").is_err());
    assert!(fs::read_link("/proc/self/fd/1").unwrap().to_str().unwrap().starts_with("pipe:"));
    // SAFETY: the path ends with a zero.
    let sys = unsafe { libc::open(c"/sys/devices".as_ptr(), libc::O_RDONLY) };
    assert!(sys >= 0);
    let outside = path("../../etc/passwd");
    assert_eq!(errno(libc::SYS_openat, [sys.into(), outside, 0, 0, 0, 0]), libc::ENOENT);
    let how = [0u64; 3];
    assert_eq!(
        errno(libc::SYS_openat2, [sys.into(), outside, how.as_ptr() as c_long, 24, 0, 0]),
        libc::ENOENT
    );
    let inside = path("system/cpu/possible");
    assert_eq!(errno(libc::SYS_openat2, [sys.into(), inside, how.as_ptr() as c_long, 24, 0, 0]), 0);
    races();
    std::process::exit(7);
}

/// Another thread changes the path between a look and the call.
fn races() {
    static DONE: AtomicBool = AtomicBool::new(false);
    let shown = *b"/sys/devices/system/cpu/possible\0";
    let wanted = *b"/etc/passwd\0";
    let place: &'static mut [u8; 33] = Box::leak(Box::new(shown));
    let at = place.as_mut_ptr() as usize;
    let changes = std::thread::spawn(move || {
        while !DONE.load(Ordering::Relaxed) {
            for text in [&wanted[..], &shown[..]] {
                // SAFETY: both fit; that the other side reads a mixture is the test.
                unsafe { std::ptr::copy_nonoverlapping(text.as_ptr(), at as *mut u8, text.len()) };
            }
        }
    });
    let passwd = fs::metadata("/proc/self/exe").unwrap().len();
    for _ in 0..300 {
        // SAFETY: the path ends with a zero at all times; the buffers are as long as is said.
        unsafe {
            let file = libc::open(at as *const libc::c_char, libc::O_RDONLY);
            if file >= 0 {
                let mut bytes = [0u8; 64];
                let count = libc::read(file, bytes.as_mut_ptr().cast(), bytes.len());
                assert_eq!(&bytes[..count as usize], b"0-5\n", "a file that it is not shown");
                libc::close(file);
            }
            let mut about: libc::stat = std::mem::zeroed();
            let empty = libc::AT_EMPTY_PATH;
            if libc::fstatat(0, at as *const libc::c_char, &mut about, empty) == 0 {
                assert_eq!(about.st_size, 4);
            }
        }
    }
    DONE.store(true, Ordering::Relaxed);
    changes.join().unwrap();
    assert!(passwd > 0);
}

/// What it can learn of the machine that it runs on, printed: two runs must say the same.
pub fn looks_for_the_host() {
    // SAFETY: these take nothing, or structs and buffers of this function.
    unsafe {
        println!("process {} parent {} group {}", libc::getpid(), libc::getppid(), libc::getpgrp());
        println!("user {} {}", libc::getuid(), libc::getegid());
        let mut about: libc::sysinfo = std::mem::zeroed();
        assert_eq!(libc::sysinfo(&mut about), 0);
        println!("memory {} up {} processes {}", about.totalram, about.uptime, about.procs);
        let mut used: libc::rusage = std::mem::zeroed();
        assert_eq!(libc::getrusage(libc::RUSAGE_SELF, &mut used), 0);
        println!("used {} {}", used.ru_maxrss, used.ru_stime.tv_usec);
        println!("on CPU {} of nice {}", libc::sched_getcpu(), libc::getpriority(libc::PRIO_PROCESS, 0));
        let mut limit: libc::rlimit = std::mem::zeroed();
        libc::getrlimit(libc::RLIMIT_STACK, &mut limit);
        println!("stack {}", limit.rlim_cur);
    }
    let numbers: Vec<i32> = (0..3).map(|_| std::thread::spawn(number).join().unwrap()).collect();
    println!("threads {} {numbers:?}", number());
    let about = fs::metadata("/sys/devices/system/cpu").unwrap();
    println!("changed {:?}", about.modified().unwrap());
    let own = fs::metadata(std::env::current_exe().unwrap()).unwrap();
    println!("changed {:?}", own.modified().unwrap());
    let names: Vec<_> =
        fs::read_dir("/sys/devices/system/cpu").unwrap().map(|e| e.unwrap().file_name()).collect();
    println!("{names:?}");
    assert!(!Path::new("/dev/urandom").exists());
    // SAFETY: sends a signal to this thread, which nobody handles.
    assert_eq!(unsafe { libc::raise(libc::SIGWINCH) }, 0);
    std::process::exit(7);
}
fn number() -> i32 {
    // SAFETY: takes nothing.
    unsafe { libc::gettid() }
}

static ALARMS: std::sync::atomic::AtomicU32 = std::sync::atomic::AtomicU32::new(0);
extern "C" fn count_alarm(_: i32) {
    ALARMS.fetch_add(1, Ordering::Relaxed);
}

/// Waits with a limit for a file that is ready every ten milliseconds.
unsafe fn waits_for(file: i32, now: &dyn Fn() -> u128) {
    // SAFETY: structs and buffers of this function; the file is open.
    unsafe {
        let mut count = 0u64;
        let mut read = |what: &str| {
            assert_eq!(libc::read(file, (&raw mut count).cast(), 8), 8);
            println!("{what} at {} ms", now());
        };
        let mut set: libc::fd_set = std::mem::zeroed();
        libc::FD_SET(file, &mut set);
        libc::FD_SET(0, &mut set);
        let mut most = libc::timeval { tv_sec: 1, tv_usec: 0 };
        let null = std::ptr::null_mut();
        let found = libc::select(file + 1, &mut set, null, null, &mut most);
        // /dev/null is always ready to be read.
        assert!(found >= 1 && libc::FD_ISSET(0, &set));
        libc::FD_ZERO(&mut set);
        libc::FD_SET(file, &mut set);
        assert_eq!(libc::select(file + 1, &mut set, null, null, &mut most), 1);
        assert!(libc::FD_ISSET(file, &set) && !libc::FD_ISSET(0, &set));
        read("select");
        let many = libc::epoll_create1(0);
        let mut event = libc::epoll_event { events: libc::EPOLLIN as u32, u64: 77 };
        assert_eq!(libc::epoll_ctl(many, libc::EPOLL_CTL_ADD, file, &mut event), 0);
        event.u64 = 0;
        assert_eq!(libc::epoll_wait(many, &mut event, 1, 1000), 1);
        assert_eq!({ event.u64 }, 77);
        read("epoll");
        let none = libc::timespec { tv_sec: 0, tv_nsec: 0 };
        let mut polls = [
            libc::pollfd { fd: file, events: libc::POLLIN, revents: 9 },
            libc::pollfd { fd: 1, events: libc::POLLOUT, revents: 0 },
            libc::pollfd { fd: 900, events: libc::POLLIN, revents: 0 },
        ];
        assert_eq!(libc::ppoll(polls.as_mut_ptr(), 3, &none, std::ptr::null()), 2);
        assert_eq!(polls.map(|poll| poll.revents), [0, libc::POLLOUT, libc::POLLNVAL]);
        assert_eq!(libc::epoll_wait(many, &mut event, 1, 3), 0);
        println!("nothing at {} ms", now());
        libc::close(many);
    }
}

/// Timers of the kernel, all of simulated time.
pub fn timers() {
    let since = std::time::Instant::now();
    let now = || since.elapsed().as_millis();
    // SAFETY: structs and buffers of this function; the function that is set takes an integer.
    unsafe {
        libc::signal(libc::SIGALRM, count_alarm as *const () as libc::sighandler_t);
        assert_eq!(libc::alarm(2), 0);
        // It comes to the process's first thread, which is not this one: here nothing is interrupted.
        std::thread::sleep(std::time::Duration::from_secs(3));
        println!("alarm {} at {} ms", ALARMS.load(Ordering::Relaxed), now());
        let file = libc::timerfd_create(libc::CLOCK_MONOTONIC, 0);
        let span = |ms: i64| libc::timespec { tv_sec: 0, tv_nsec: ms * 1_000_000 };
        let set = libc::itimerspec { it_interval: span(10), it_value: span(25) };
        assert_eq!(libc::timerfd_settime(file, 0, &set, std::ptr::null_mut()), 0);
        let mut count = 0u64;
        for _ in 0..2 {
            assert_eq!(libc::read(file, (&raw mut count).cast(), 8), 8);
            println!("timer {count} at {} ms", now());
        }
        std::thread::sleep(std::time::Duration::from_millis(35));
        let mut poll = libc::pollfd { fd: file, events: libc::POLLIN, revents: 0 };
        assert_eq!(libc::poll(&mut poll, 1, 1000), 1);
        assert_eq!(libc::read(file, (&raw mut count).cast(), 8), 8);
        println!("timer {count} at {} ms", now());
        waits_for(file, &now);
        libc::close(file);
        let every = libc::itimerval {
            it_interval: libc::timeval { tv_sec: 0, tv_usec: 5_000 },
            it_value: libc::timeval { tv_sec: 0, tv_usec: 5_000 },
        };
        assert_eq!(libc::setitimer(libc::ITIMER_REAL, &every, std::ptr::null_mut()), 0);
        std::thread::sleep(std::time::Duration::from_millis(17));
        println!("alarm {} at {} ms", ALARMS.load(Ordering::Relaxed), now());
    }
    std::process::exit(7);
}

/// Prints, and asks, without end.
pub fn prints() {
    loop {
        println!("{}", number());
    }
}
