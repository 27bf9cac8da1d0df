//! Which system calls of the program come to the broker: a table, and the filter that is made of it.

use libc::{sock_filter, sock_fprog};

/// When a row of the table applies.
#[derive(Clone, Copy, Debug)]
enum When {
    Always,
    /// This argument, masked, has this value.
    Masked(usize, u32, u32),
    /// As [`When::Masked`], and another argument is not zero.
    MaskedAnd(usize, u32, u32, usize),
    /// This argument is not zero.
    Given(usize),
    /// The lower half of this argument is at least this.
    AtLeast(usize, u32),
}

/// What happens to it.
#[derive(Clone, Copy, Debug)]
enum Then {
    Ask,
    /// It fails with this number of errno; 0: it does nothing and succeeds.
    Fail(i32),
}

type Row = (i64, When, Then);

/// The file descriptors of links are put at this number or above, so that closing them can be seen without asking for
/// each close(2). Below the usual limit of 1,024 open files.
pub const FIRST_LINK: u32 = 1000;
/// `FUTEX_WAIT` and `FUTEX_WAIT_BITSET` without their flags.
const FUTEX_COMMAND: u32 = 127;
const FUTEX_WAIT: u32 = 0;
const FUTEX_WAIT_BITSET: u32 = 9;
/// `RLIMIT_MEMLOCK`, whose type differs between libraries.
const MEMLOCK: u32 = 8;

/// Calls of every architecture.
const TABLE: &[Row] = &[
    (libc::SYS_bpf, When::Always, Then::Ask),
    (libc::SYS_perf_event_open, When::Always, Then::Ask),
    (libc::SYS_close, When::AtLeast(0, FIRST_LINK), Then::Ask),
    // Files, by path.
    (libc::SYS_openat, When::Always, Then::Ask),
    (libc::SYS_openat2, When::Always, Then::Ask),
    (libc::SYS_faccessat, When::Always, Then::Ask),
    (libc::SYS_faccessat2, When::Always, Then::Ask),
    (libc::SYS_newfstatat, When::Always, Then::Ask),
    (libc::SYS_statx, When::Always, Then::Ask),
    (libc::SYS_readlinkat, When::Always, Then::Ask),
    (libc::SYS_statfs, When::Always, Then::Ask),
    // What would change files: refused, with its path.
    (libc::SYS_mkdirat, When::Always, Then::Ask),
    (libc::SYS_unlinkat, When::Always, Then::Ask),
    (libc::SYS_renameat2, When::Always, Then::Ask),
    (libc::SYS_renameat, When::Always, Then::Ask),
    (libc::SYS_linkat, When::Always, Then::Ask),
    (libc::SYS_symlinkat, When::Always, Then::Ask),
    (libc::SYS_mknodat, When::Always, Then::Ask),
    (libc::SYS_fchmodat, When::Always, Then::Ask),
    (libc::SYS_fchownat, When::Always, Then::Ask),
    (libc::SYS_utimensat, When::Always, Then::Ask),
    (libc::SYS_truncate, When::Always, Then::Ask),
    (libc::SYS_mount, When::Always, Then::Fail(libc::EPERM)),
    (libc::SYS_umount2, When::Always, Then::Fail(libc::EPERM)),
    (libc::SYS_bind, When::Always, Then::Ask),
    (libc::SYS_connect, When::Always, Then::Ask),
    // The network is none of its business.
    (libc::SYS_socket, When::Masked(0, u32::MAX, libc::AF_INET as u32), Then::Fail(libc::EACCES)),
    (libc::SYS_socket, When::Masked(0, u32::MAX, libc::AF_INET6 as u32), Then::Fail(libc::EACCES)),
    // The machine.
    (libc::SYS_sched_getaffinity, When::Always, Then::Ask),
    (libc::SYS_uname, When::Always, Then::Ask),
    (libc::SYS_getrandom, When::Always, Then::Ask),
    // Needs rights in a real kernel, and has no meaning here.
    (libc::SYS_sched_setaffinity, When::Always, Then::Ask),
    (libc::SYS_sched_setscheduler, When::Always, Then::Fail(0)),
    (libc::SYS_sched_setattr, When::Always, Then::Fail(0)),
    (libc::SYS_setpriority, When::Always, Then::Fail(0)),
    (libc::SYS_mlock, When::Always, Then::Fail(0)),
    (libc::SYS_mlockall, When::Always, Then::Fail(0)),
    (libc::SYS_setrlimit, When::Masked(0, u32::MAX, MEMLOCK), Then::Fail(0)),
    (libc::SYS_prlimit64, When::MaskedAnd(1, u32::MAX, MEMLOCK, 2), Then::Fail(0)),
    // Time.
    (libc::SYS_clock_gettime, When::Always, Then::Ask),
    (libc::SYS_gettimeofday, When::Always, Then::Ask),
    (libc::SYS_sched_yield, When::Always, Then::Ask),
    (libc::SYS_nanosleep, When::Always, Then::Ask),
    (libc::SYS_clock_nanosleep, When::Always, Then::Ask),
    (libc::SYS_ppoll, When::Given(2), Then::Ask),
    (libc::SYS_pselect6, When::Given(4), Then::Ask),
    (libc::SYS_epoll_pwait, When::Given(3), Then::Ask),
    (libc::SYS_epoll_pwait2, When::Given(3), Then::Ask),
    (libc::SYS_futex, When::MaskedAnd(1, FUTEX_COMMAND, FUTEX_WAIT, 3), Then::Ask),
    (libc::SYS_futex, When::MaskedAnd(1, FUTEX_COMMAND, FUTEX_WAIT_BITSET, 3), Then::Ask),
];

/// The older names of some, which newer architectures lack.
#[cfg(target_arch = "x86_64")]
const OLDER: &[Row] = &[
    (libc::SYS_open, When::Always, Then::Ask),
    (libc::SYS_creat, When::Always, Then::Ask),
    (libc::SYS_access, When::Always, Then::Ask),
    (libc::SYS_stat, When::Always, Then::Ask),
    (libc::SYS_lstat, When::Always, Then::Ask),
    (libc::SYS_readlink, When::Always, Then::Ask),
    (libc::SYS_mkdir, When::Always, Then::Ask),
    (libc::SYS_rmdir, When::Always, Then::Ask),
    (libc::SYS_unlink, When::Always, Then::Ask),
    (libc::SYS_rename, When::Always, Then::Ask),
    (libc::SYS_link, When::Always, Then::Ask),
    (libc::SYS_symlink, When::Always, Then::Ask),
    (libc::SYS_mknod, When::Always, Then::Ask),
    (libc::SYS_chmod, When::Always, Then::Ask),
    (libc::SYS_chown, When::Always, Then::Ask),
    (libc::SYS_lchown, When::Always, Then::Ask),
    (libc::SYS_utimes, When::Always, Then::Ask),
    (libc::SYS_utime, When::Always, Then::Ask),
    (libc::SYS_time, When::Always, Then::Ask),
    (libc::SYS_poll, When::Given(2), Then::Ask),
    (libc::SYS_select, When::Given(4), Then::Ask),
    (libc::SYS_epoll_wait, When::Given(3), Then::Ask),
];
#[cfg(not(target_arch = "x86_64"))]
const OLDER: &[Row] = &[];

#[cfg(target_arch = "x86_64")]
const ARCHITECTURE: u32 = 0xC000_003E;
#[cfg(target_arch = "aarch64")]
const ARCHITECTURE: u32 = 0xC000_00B7;
#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
compile_error!("the filter needs the architecture's number (AUDIT_ARCH_*)");

/// Places in `struct seccomp_data`.
const NUMBER: u32 = 0;
const ARCH: u32 = 4;
const ARGUMENTS: u32 = 16;
/// Numbers from here on are of x86-64's 32-bit form (x32).
const X32: u32 = 0x4000_0000;

fn step(code: u32, k: u32) -> sock_filter {
    sock_filter { code: code as u16, jt: 0, jf: 0, k }
}
fn load(place: u32) -> sock_filter {
    step(libc::BPF_LD | libc::BPF_W | libc::BPF_ABS, place)
}
fn give(value: u32) -> sock_filter {
    step(libc::BPF_RET | libc::BPF_K, value)
}
fn fail(errno: i32) -> sock_filter {
    give(libc::SECCOMP_RET_ERRNO | errno as u32)
}

/// A test, and whether the row continues where it holds. Jumps past the row's end are filled in afterwards.
fn test(code: u32, k: u32, on: bool) -> sock_filter {
    const PAST: u8 = u8::MAX;
    let (jt, jf) = if on { (0, PAST) } else { (PAST, 0) };
    sock_filter { code: (libc::BPF_JMP | code | libc::BPF_K) as u16, jt, jf, k }
}

fn argument_given(argument: usize) -> [sock_filter; 5] {
    let low = ARGUMENTS + argument as u32 * 8;
    [
        load(low),
        step(libc::BPF_MISC | libc::BPF_TAX, 0),
        load(low + 4),
        step(libc::BPF_ALU | libc::BPF_OR | libc::BPF_X, 0),
        test(libc::BPF_JEQ, 0, false),
    ]
}
fn argument_is(argument: usize, mask: u32, value: u32) -> [sock_filter; 3] {
    [
        load(ARGUMENTS + argument as u32 * 8),
        step(libc::BPF_ALU | libc::BPF_AND | libc::BPF_K, mask),
        test(libc::BPF_JEQ, value, true),
    ]
}

fn row((number, when, then): &Row) -> Vec<sock_filter> {
    let mut steps = vec![load(NUMBER), test(libc::BPF_JEQ, *number as u32, true)];
    match *when {
        When::Always => {}
        When::Masked(argument, mask, value) => steps.extend(argument_is(argument, mask, value)),
        When::MaskedAnd(argument, mask, value, other) => {
            steps.extend(argument_is(argument, mask, value));
            steps.extend(argument_given(other));
        }
        When::Given(argument) => steps.extend(argument_given(argument)),
        When::AtLeast(argument, least) => {
            steps.extend([load(ARGUMENTS + argument as u32 * 8), test(libc::BPF_JGE, least, true)]);
        }
    }
    steps.push(match then {
        Then::Ask => give(libc::SECCOMP_RET_USER_NOTIF),
        Then::Fail(errno) => fail(*errno),
    });
    let past = steps.len();
    for (at, step) in steps.iter_mut().enumerate() {
        let rest = (past - at - 1) as u8;
        step.jt = if step.jt == u8::MAX { rest } else { step.jt };
        step.jf = if step.jf == u8::MAX { rest } else { step.jf };
    }
    steps
}

/// The filter. A call of another architecture's table does not exist.
pub fn filter() -> Vec<sock_filter> {
    let no_such = fail(libc::ENOSYS);
    let mut steps = vec![load(ARCH), test(libc::BPF_JEQ, ARCHITECTURE, true), no_such];
    (steps[1].jt, steps[1].jf) = (1, 0);
    steps.extend([load(NUMBER), test(libc::BPF_JGE, X32, true), no_such]);
    (steps[4].jt, steps[4].jf) = (0, 1);
    steps.extend(TABLE.iter().chain(OLDER).flat_map(row));
    steps.push(give(libc::SECCOMP_RET_ALLOW));
    steps
}

pub fn program(filter: &[sock_filter]) -> sock_fprog {
    sock_fprog { len: filter.len() as u16, filter: filter.as_ptr().cast_mut() }
}
