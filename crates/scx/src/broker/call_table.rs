//! The system calls of a program: which this machine's kernel does, which the broker answers, which have no effect, and
//! why. A call that no row names is refused by name.
//!
//! The first row that fits a call decides. Rows may depend on arguments that are numbers, never on memory: a program
//! can change that between a look and the call.

use super::notify::Call;

/// What must hold of an argument, by its place.
#[derive(Clone, Copy, Debug)]
pub enum Condition {
    /// Its lower half, masked, is one of these.
    In(usize, u32, &'static [u32]),
    /// Its lower half is at least this.
    AtLeast(usize, u32),
    /// It is not zero.
    Given(usize),
}
use Condition::{AtLeast, Given, In};

/// What happens to a call. Numbers are of errno.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Then {
    /// This machine's kernel does it.
    Let,
    /// The broker answers it.
    Ask,
    /// It does nothing, and gives 0.
    Nothing,
    /// It fails as on a kernel without it, for which each program and library has another way.
    Lacks(i32),
    /// It fails, and the record names it.
    Refuse(i32),
}

pub struct Row {
    pub calls: &'static [(i64, &'static str)],
    /// All of these hold.
    pub when: &'static [Condition],
    pub then: Then,
    #[cfg_attr(not(test), expect(dead_code, reason = "the page has it"))]
    pub why: &'static str,
}

/// What no row names fails so: programs know it from older kernels.
pub const NOT_NAMED: Then = Then::Refuse(libc::ENOSYS);

/// The file descriptors of links are put at this number or above, so that closing them can be seen without asking for
/// each close(2). Below the usual limit of 1,024 open files.
pub const FIRST_LINK: u32 = 1000;

macro_rules! calls {
    ($($name:ident)*) => { &[$((libc::$name, stringify!($name))),*] };
}

const fn row(
    calls: &'static [(i64, &'static str)],
    when: &'static [Condition],
    then: Then,
    why: &'static str,
) -> Row {
    Row { calls, when, then, why }
}

const ALL: u32 = u32::MAX;
/// What a thread shares with its process, all of which is needed; and namespaces, of which it may have no own.
const THREAD: u32 = (libc::CLONE_VM | libc::CLONE_FS | libc::CLONE_FILES | libc::CLONE_SIGHAND) as u32
    | libc::CLONE_THREAD as u32;
const NAMESPACES: u32 = (libc::CLONE_NEWNS | libc::CLONE_NEWCGROUP | libc::CLONE_NEWUTS) as u32
    | (libc::CLONE_NEWIPC | libc::CLONE_NEWUSER | libc::CLONE_NEWPID | libc::CLONE_NEWNET) as u32;
/// futex(2)'s operation without its flags; those of which the fourth argument is a limit of time.
pub const FUTEX: u32 = 127;
const FUTEX_TIMED: &[u32] = &[libc::FUTEX_WAIT as u32, libc::FUTEX_WAIT_BITSET as u32];
const FUTEX_TIMED_OTHERS: &[u32] =
    &[libc::FUTEX_LOCK_PI as u32, libc::FUTEX_LOCK_PI2 as u32, libc::FUTEX_WAIT_REQUEUE_PI as u32];
const PRCTL: &[u32] = &[
    libc::PR_SET_NAME as u32,
    libc::PR_GET_NAME as u32,
    libc::PR_GET_DUMPABLE as u32,
    libc::PR_GET_PDEATHSIG as u32,
    libc::PR_CAPBSET_READ as u32,
    libc::PR_SET_TIMERSLACK as u32,
    libc::PR_GET_TIMERSLACK as u32,
    libc::PR_SET_NO_NEW_PRIVS as u32,
    libc::PR_GET_NO_NEW_PRIVS as u32,
    libc::PR_SET_VMA as u32,
];
const FCNTL: &[u32] = &[
    libc::F_DUPFD as u32,
    libc::F_DUPFD_CLOEXEC as u32,
    libc::F_GETFD as u32,
    libc::F_SETFD as u32,
    libc::F_GETFL as u32,
    libc::F_SETFL as u32,
    libc::F_ADD_SEALS as u32,
    libc::F_GET_SEALS as u32,
];
const IOCTL: &[u32] = &[
    libc::FIONBIO as u32,
    libc::FIONREAD as u32,
    libc::FIOCLEX as u32,
    libc::FIONCLEX as u32,
    libc::TCGETS as u32,
    libc::TIOCGWINSZ as u32,
];
/// `PERF_EVENT_IOC_ENABLE` and `_DISABLE`.
const EVENT_ON: u32 = 0x2400;
const EVENT_OFF: u32 = 0x2401;
const UNIX: Condition = In(0, ALL, &[libc::AF_UNIX as u32]);
/// Kinds of sockets whose messages go to the other end only, whatever address they have.
const CONNECTED: Condition = In(1, 0xf, &[libc::SOCK_STREAM as u32, libc::SOCK_SEQPACKET as u32]);
const OF_SOCKET: Condition = In(1, ALL, &[libc::SOL_SOCKET as u32]);
const SET_OPTIONS: &[u32] =
    &[libc::SO_REUSEADDR as u32, libc::SO_SNDBUF as u32, libc::SO_RCVBUF as u32, libc::SO_KEEPALIVE as u32];
const GET_OPTIONS: &[u32] = &[
    libc::SO_REUSEADDR as u32,
    libc::SO_TYPE as u32,
    libc::SO_ERROR as u32,
    libc::SO_SNDBUF as u32,
    libc::SO_RCVBUF as u32,
    libc::SO_ACCEPTCONN as u32,
    libc::SO_PROTOCOL as u32,
    libc::SO_DOMAIN as u32,
];

/// Calls of every architecture.
const TABLE: &[Row] = &[
    row(
        calls![SYS_brk SYS_mmap SYS_munmap SYS_mprotect SYS_mremap SYS_madvise SYS_msync SYS_mincore
            SYS_membarrier SYS_memfd_create],
        &[],
        Then::Let,
        "memory of its own",
    ),
    row(calls![SYS_clone], &[In(0, THREAD | NAMESPACES, &[THREAD])], Then::Let, "a thread"),
    row(calls![SYS_clone], &[], Then::Refuse(libc::EPERM), "another process, or a namespace"),
    row(
        calls![SYS_clone3 SYS_rseq SYS_close_range SYS_sendfile SYS_splice SYS_copy_file_range],
        &[],
        Then::Lacks(libc::ENOSYS),
        "older calls do the same, and show the broker what is done",
    ),
    row(
        calls![SYS_set_tid_address SYS_set_robust_list SYS_exit SYS_exit_group SYS_restart_syscall
            SYS_rt_sigaction SYS_rt_sigprocmask SYS_rt_sigreturn SYS_rt_sigsuspend SYS_rt_sigpending
            SYS_sigaltstack SYS_signalfd4 SYS_sched_get_priority_max SYS_sched_get_priority_min],
        &[],
        Then::Let,
        "threads and signals of its own",
    ),
    row(calls![SYS_rt_sigtimedwait], &[Given(2)], Then::Refuse(libc::ENOSYS), "a wait in the machine's time"),
    row(calls![SYS_rt_sigtimedwait], &[], Then::Let, "threads and signals of its own"),
    row(calls![SYS_wait4 SYS_waitid], &[], Then::Lacks(libc::ECHILD), "it has no children"),
    row(calls![SYS_prctl], &[In(0, ALL, PRCTL)], Then::Let, "names, and questions about itself"),
    row(calls![SYS_futex], &[In(1, FUTEX, FUTEX_TIMED), Given(3)], Then::Ask, "simulated time"),
    row(
        calls![SYS_futex],
        &[In(1, FUTEX, FUTEX_TIMED_OTHERS), Given(3)],
        Then::Refuse(libc::ENOSYS),
        "a wait in the machine's time",
    ),
    row(calls![SYS_futex], &[], Then::Let, "threads and signals of its own"),
    row(
        calls![SYS_kill SYS_tkill SYS_tgkill],
        &[],
        Then::Ask,
        "to its own threads, under the numbers that it knows",
    ),
    // Files.
    row(calls![SYS_epoll_ctl], &[], Then::Ask, "rings of the simulated kernel can be waited for"),
    row(calls![SYS_close], &[AtLeast(0, FIRST_LINK)], Then::Ask, "its link may take a scheduler off"),
    row(calls![SYS_dup3], &[AtLeast(1, FIRST_LINK)], Then::Refuse(libc::EBADF), "numbers of links"),
    row(
        calls![SYS_read SYS_write SYS_readv SYS_writev SYS_pread64 SYS_pwrite64 SYS_preadv SYS_pwritev SYS_lseek
            SYS_close SYS_dup SYS_dup3 SYS_ftruncate SYS_fallocate SYS_fadvise64 SYS_pipe2 SYS_eventfd2
            SYS_epoll_create1 SYS_inotify_init1 SYS_getcwd SYS_umask],
        &[],
        Then::Let,
        "files that it has open: each is its own, or came from the broker",
    ),
    row(calls![SYS_fcntl], &[In(1, ALL, FCNTL)], Then::Let, "numbers and flags of files"),
    row(calls![SYS_ioctl], &[In(1, ALL, IOCTL)], Then::Let, "pipes, sockets, and whether it is a terminal"),
    row(
        calls![SYS_ioctl],
        &[In(1, ALL, &[EVENT_ON, EVENT_OFF])],
        Then::Nothing,
        "its link switches an event",
    ),
    row(
        calls![SYS_fsync SYS_fdatasync SYS_flock SYS_inotify_rm_watch],
        &[],
        Then::Nothing,
        "nothing of it lasts",
    ),
    row(
        calls![SYS_openat SYS_openat2 SYS_faccessat SYS_faccessat2 SYS_newfstatat SYS_fstat SYS_statx SYS_readlinkat
            SYS_getdents64 SYS_inotify_add_watch],
        &[],
        Then::Ask,
        "paths: the broker opens what it is shown, and hands it in",
    ),
    row(
        calls![SYS_mkdirat SYS_unlinkat SYS_renameat SYS_renameat2 SYS_linkat SYS_symlinkat SYS_mknodat SYS_fchmodat
            SYS_fchownat SYS_utimensat SYS_truncate SYS_statfs SYS_execve SYS_execveat SYS_chdir],
        &[],
        Then::Ask,
        "paths: refused with their name",
    ),
    // Sockets.
    row(
        calls![SYS_socket SYS_socketpair],
        &[UNIX, CONNECTED],
        Then::Let,
        "sockets between its own threads and tools",
    ),
    row(
        calls![SYS_socket SYS_socketpair],
        &[],
        Then::Refuse(libc::EACCES),
        "the network, and others' sockets",
    ),
    row(calls![SYS_bind SYS_connect], &[], Then::Ask, "names of sockets: without any outside of it"),
    row(calls![SYS_sendto], &[Given(4)], Then::Refuse(libc::EACCES), "the network, and others' sockets"),
    row(
        calls![SYS_listen SYS_accept SYS_accept4 SYS_getsockname SYS_getpeername SYS_shutdown SYS_sendto SYS_recvfrom
            SYS_sendmsg SYS_recvmsg],
        &[],
        Then::Let,
        "sockets between its own threads and tools",
    ),
    row(
        calls![SYS_setsockopt],
        &[OF_SOCKET, In(2, ALL, SET_OPTIONS)],
        Then::Let,
        "sockets between its own threads and tools",
    ),
    row(
        calls![SYS_getsockopt],
        &[OF_SOCKET, In(2, ALL, GET_OPTIONS)],
        Then::Let,
        "sockets between its own threads and tools",
    ),
    // What it asks for is simulated.
    row(calls![SYS_bpf SYS_perf_event_open], &[], Then::Ask, "the simulated kernel"),
    row(
        calls![SYS_getpid SYS_gettid SYS_getppid SYS_getpgid SYS_getsid],
        &[],
        Then::Ask,
        "the same numbers in each run",
    ),
    row(
        calls![SYS_getuid SYS_geteuid SYS_getgid SYS_getegid SYS_getgroups SYS_sched_getscheduler],
        &[],
        Then::Nothing,
        "root, without further groups, under SCHED_OTHER",
    ),
    row(
        calls![SYS_uname SYS_sysinfo SYS_getrandom SYS_sched_getaffinity SYS_sched_setaffinity SYS_getcpu SYS_getrusage
            SYS_times
            SYS_clock_getres SYS_getpriority],
        &[],
        Then::Ask,
        "the simulated machine",
    ),
    row(
        calls![SYS_clock_gettime SYS_gettimeofday SYS_sched_yield SYS_nanosleep SYS_clock_nanosleep
            SYS_timerfd_create SYS_timerfd_settime SYS_timerfd_gettime SYS_setitimer SYS_getitimer],
        &[],
        Then::Ask,
        "simulated time",
    ),
    row(calls![SYS_ppoll], &[Given(2)], Then::Ask, "simulated time"),
    row(calls![SYS_pselect6], &[Given(4)], Then::Ask, "simulated time"),
    row(calls![SYS_epoll_pwait SYS_epoll_pwait2], &[Given(3)], Then::Ask, "simulated time"),
    row(
        calls![SYS_ppoll SYS_pselect6 SYS_epoll_pwait SYS_epoll_pwait2],
        &[],
        Then::Let,
        "a look, or a wait without end",
    ),
    // Needs rights in a real kernel, and has no meaning here.
    row(
        calls![SYS_sched_setscheduler SYS_sched_setparam SYS_sched_setattr SYS_setpriority
            SYS_ioprio_set SYS_mlock SYS_mlock2 SYS_mlockall SYS_munlock SYS_munlockall SYS_setrlimit],
        &[],
        Then::Nothing,
        "its own work takes no simulated time and no memory of the machine's",
    ),
    row(
        calls![SYS_prlimit64],
        &[Given(2)],
        Then::Nothing,
        "its own work takes no simulated time and no memory of the machine's",
    ),
    row(calls![SYS_prlimit64], &[In(0, ALL, &[0])], Then::Let, "its limits, which the broker has set"),
    row(calls![SYS_getrlimit], &[], Then::Let, "its limits, which the broker has set"),
];

/// The older names of some, which newer architectures lack.
#[cfg(target_arch = "x86_64")]
const OLDER: &[Row] = &[
    row(
        calls![SYS_arch_prctl],
        &[In(0, ALL, &[ARCH_SET_FS, ARCH_GET_FS])],
        Then::Let,
        "the start of a C library",
    ),
    row(
        calls![SYS_arch_prctl],
        &[In(0, 0xf000, &[ARCH_SHADOW_STACK, ARCH_SHADOW_STACK_OLDER])],
        Then::Lacks(libc::EINVAL),
        "the start of a C library, without shadow stacks",
    ),
    row(calls![SYS_dup2], &[AtLeast(1, FIRST_LINK)], Then::Refuse(libc::EBADF), "numbers of links"),
    row(
        calls![SYS_dup2 SYS_pipe SYS_eventfd SYS_epoll_create SYS_inotify_init],
        &[],
        Then::Let,
        "files that it has open: each is its own, or came from the broker",
    ),
    row(calls![SYS_signalfd SYS_pause], &[], Then::Let, "threads and signals of its own"),
    row(
        calls![SYS_open SYS_access SYS_stat SYS_lstat SYS_readlink],
        &[],
        Then::Ask,
        "paths: the broker opens what it is shown, and hands it in",
    ),
    row(
        calls![SYS_creat SYS_mkdir SYS_rmdir SYS_unlink SYS_rename SYS_link SYS_symlink SYS_mknod SYS_chmod SYS_chown
            SYS_lchown SYS_utimes SYS_utime],
        &[],
        Then::Ask,
        "paths: refused with their name",
    ),
    row(calls![SYS_getpgrp], &[], Then::Ask, "the same numbers in each run"),
    row(calls![SYS_time SYS_alarm], &[], Then::Ask, "simulated time"),
    row(calls![SYS_poll], &[Given(2)], Then::Ask, "simulated time"),
    row(calls![SYS_select], &[Given(4)], Then::Ask, "simulated time"),
    row(calls![SYS_epoll_wait], &[Given(3)], Then::Ask, "simulated time"),
    row(calls![SYS_poll SYS_select SYS_epoll_wait], &[], Then::Let, "a look, or a wait without end"),
];
#[cfg(target_arch = "x86_64")]
const ARCH_SET_FS: u32 = 0x1002;
#[cfg(target_arch = "x86_64")]
const ARCH_GET_FS: u32 = 0x1003;
/// `ARCH_SHSTK_*`, and what C libraries asked for before it.
#[cfg(target_arch = "x86_64")]
const ARCH_SHADOW_STACK: u32 = 0x5000;
#[cfg(target_arch = "x86_64")]
const ARCH_SHADOW_STACK_OLDER: u32 = 0x3000;
#[cfg(not(target_arch = "x86_64"))]
const OLDER: &[Row] = &[];

/// Names of calls that no row has, for the record. Others are named by their number.
const OTHERS: &[(i64, &str)] = calls![SYS_acct SYS_add_key SYS_adjtimex SYS_capget SYS_capset SYS_chroot
    SYS_clock_adjtime SYS_clock_settime SYS_delete_module SYS_fanotify_init SYS_fanotify_mark SYS_fchdir SYS_fchmod
    SYS_fchown SYS_fgetxattr SYS_finit_module SYS_flistxattr SYS_fremovexattr SYS_fsconfig SYS_fsetxattr
    SYS_fsmount SYS_fsopen SYS_fspick SYS_fstatfs SYS_futex_waitv SYS_get_mempolicy SYS_get_robust_list
    SYS_getresgid SYS_getresuid SYS_getxattr SYS_init_module
    SYS_io_cancel SYS_io_destroy SYS_io_getevents SYS_io_setup SYS_io_submit SYS_io_uring_enter
    SYS_io_uring_register SYS_io_uring_setup SYS_ioprio_get SYS_kcmp SYS_kexec_file_load SYS_kexec_load SYS_keyctl
    SYS_landlock_add_rule SYS_landlock_create_ruleset SYS_landlock_restrict_self SYS_lgetxattr SYS_listxattr
    SYS_llistxattr SYS_lremovexattr SYS_lsetxattr SYS_mbind SYS_memfd_secret SYS_migrate_pages SYS_mount
    SYS_mount_setattr SYS_move_mount SYS_move_pages SYS_mq_getsetattr SYS_mq_notify SYS_mq_open SYS_mq_timedreceive
    SYS_mq_timedsend SYS_mq_unlink SYS_mseal SYS_msgctl SYS_msgget SYS_msgrcv SYS_msgsnd SYS_name_to_handle_at
    SYS_open_by_handle_at SYS_open_tree SYS_personality SYS_pidfd_getfd SYS_pidfd_open SYS_pidfd_send_signal
    SYS_pivot_root SYS_pkey_alloc SYS_pkey_free SYS_pkey_mprotect SYS_preadv2 SYS_process_madvise
    SYS_process_mrelease SYS_process_vm_readv SYS_process_vm_writev SYS_ptrace SYS_pwritev2 SYS_quotactl
    SYS_quotactl_fd SYS_readahead SYS_reboot SYS_recvmmsg SYS_remap_file_pages SYS_removexattr SYS_request_key
    SYS_rt_sigqueueinfo SYS_rt_tgsigqueueinfo SYS_sched_getattr SYS_sched_getparam SYS_sched_rr_get_interval
    SYS_seccomp SYS_semctl SYS_semget SYS_semop SYS_semtimedop SYS_sendmmsg SYS_set_mempolicy
    SYS_set_mempolicy_home_node SYS_setdomainname SYS_setfsgid SYS_setfsuid SYS_setgid SYS_setgroups SYS_sethostname
    SYS_setns SYS_setpgid SYS_setregid SYS_setresgid SYS_setresuid SYS_setreuid SYS_setsid SYS_settimeofday
    SYS_setuid SYS_setxattr SYS_shmat SYS_shmctl SYS_shmdt SYS_shmget SYS_swapoff SYS_swapon SYS_sync
    SYS_sync_file_range SYS_syncfs SYS_syslog SYS_tee SYS_timer_create SYS_timer_delete SYS_timer_getoverrun
    SYS_timer_gettime SYS_timer_settime SYS_umount2 SYS_unshare SYS_userfaultfd SYS_vhangup SYS_vmsplice];

/// The same of names that newer architectures, or libc for them, lack.
#[cfg(target_arch = "x86_64")]
const OLDER_OTHERS: &[(i64, &str)] = calls![SYS_fchmodat2 SYS_fork SYS_futimesat SYS_getdents SYS_get_thread_area
    SYS_ioperm SYS_iopl SYS_modify_ldt SYS_set_thread_area SYS_sysfs SYS_uselib SYS_ustat SYS_vfork];
#[cfg(not(target_arch = "x86_64"))]
const OLDER_OTHERS: &[(i64, &str)] = &[];

pub fn rows() -> impl Iterator<Item = &'static Row> {
    TABLE.iter().chain(OLDER)
}

impl Condition {
    fn holds(self, arguments: &[u64; 6]) -> bool {
        match self {
            In(at, mask, values) => values.contains(&(arguments[at] as u32 & mask)),
            AtLeast(at, least) => arguments[at] as u32 >= least,
            Given(at) => arguments[at] != 0,
        }
    }
    fn argument(self) -> usize {
        match self {
            In(at, ..) | AtLeast(at, _) | Given(at) => at,
        }
    }
}

/// What happens to this call, as the filter decides it.
pub fn then(call: &Call) -> Then {
    let fits = |row: &&Row| {
        row.calls.iter().any(|(number, _)| *number == call.number)
            && row.when.iter().all(|condition| condition.holds(&call.arguments))
    };
    rows().find(fits).map_or(NOT_NAMED, |row| row.then)
}

/// The name of a call, for the record, with the arguments that decide.
pub fn name(call: &Call) -> String {
    let of_rows = rows().flat_map(|row| row.calls);
    let known = of_rows.chain(OTHERS).chain(OLDER_OTHERS).find(|(number, _)| *number == call.number);
    let mut text =
        known.map_or_else(|| format!("system call {}", call.number), |(_, name)| short(name).to_owned());
    let own = rows().filter(|row| row.calls.iter().any(|(number, _)| *number == call.number));
    let mut decide: Vec<usize> = own.flat_map(|row| row.when).map(|condition| condition.argument()).collect();
    decide.sort_unstable();
    decide.dedup();
    for at in decide {
        text.push_str(&format!(" {:#x}", call.arguments[at]));
    }
    text
}

/// A call's name as its manual page has it.
pub fn short(name: &str) -> &str {
    name.strip_prefix("SYS_").unwrap_or(name)
}

/// The table as docs/sched-ext.md has it.
#[cfg(test)]
pub fn page() -> String {
    let happens = |then| match then {
        Then::Let => "this machine's kernel does it",
        Then::Ask => "the broker answers",
        Then::Nothing => "it gives 0",
        Then::Lacks(_) => "it fails as on an older kernel",
        Then::Refuse(_) => "refused, and named",
    };
    let mut text = "| what | happens | system calls |\n| --- | --- | --- |\n".to_owned();
    let mut done: Vec<(&str, &str)> = Vec::new();
    for row in rows() {
        let key = (row.why, happens(row.then));
        if done.contains(&key) {
            continue;
        }
        done.push(key);
        let same = rows().filter(|other| (other.why, happens(other.then)) == key);
        let mut names: Vec<&str> = Vec::new();
        for (_, name) in same.flat_map(|other| other.calls) {
            if !names.contains(&short(name)) {
                names.push(short(name));
            }
        }
        text.push_str(&format!("| {} | {} | {} |\n", key.0, key.1, names.join(", ")));
    }
    text + "| all else | refused, and named | |\n"
}
