//! The seccomp filter that is made of the table of system calls ([`super::call_table`]): what this machine's kernel
//! does passes, what the broker answers or refuses by name comes to it, and the rest has its result at once.

use super::call_table::{Condition, NOT_NAMED, Row, Then, rows};
use libc::{sock_filter, sock_fprog};

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
/// The argument of execve(2) that has the secret: behind its own three.
pub const SECRET_AT: u32 = 5;

fn step(code: u32, k: u32) -> sock_filter {
    sock_filter { code: code as u16, jt: 0, jf: 0, k }
}
fn load(place: u32) -> sock_filter {
    step(libc::BPF_LD | libc::BPF_W | libc::BPF_ABS, place)
}
fn give(value: u32) -> sock_filter {
    step(libc::BPF_RET | libc::BPF_K, value)
}

/// A jump to the row's end, which is filled in when its length is known.
const PAST: u8 = u8::MAX;

/// A test, and whether the row continues where it holds; else its end comes.
fn test(code: u32, k: u32, on: bool) -> sock_filter {
    let (jt, jf) = if on { (0, PAST) } else { (PAST, 0) };
    sock_filter { code: (libc::BPF_JMP | code | libc::BPF_K) as u16, jt, jf, k }
}

fn given(argument: usize) -> Vec<sock_filter> {
    let low = ARGUMENTS + argument as u32 * 8;
    vec![
        load(low),
        step(libc::BPF_MISC | libc::BPF_TAX, 0),
        load(low + 4),
        step(libc::BPF_ALU | libc::BPF_OR | libc::BPF_X, 0),
        test(libc::BPF_JEQ, 0, false),
    ]
}
fn one_of(argument: usize, mask: u32, values: &[u32]) -> Vec<sock_filter> {
    let mut steps =
        vec![load(ARGUMENTS + argument as u32 * 8), step(libc::BPF_ALU | libc::BPF_AND | libc::BPF_K, mask)];
    for (at, value) in values.iter().enumerate() {
        let mut test = test(libc::BPF_JEQ, *value, true);
        // Only the last one leaves the row when it does not hold.
        test.jt = (values.len() - at - 1) as u8;
        test.jf = if at + 1 == values.len() { PAST } else { 0 };
        steps.push(test);
    }
    steps
}

fn holds(condition: &Condition) -> Vec<sock_filter> {
    match *condition {
        Condition::In(argument, mask, values) => one_of(argument, mask, values),
        Condition::Given(argument) => given(argument),
        Condition::AtLeast(argument, least) => {
            vec![load(ARGUMENTS + argument as u32 * 8), test(libc::BPF_JGE, least, true)]
        }
    }
}

fn result(then: Then) -> sock_filter {
    give(match then {
        Then::Let => libc::SECCOMP_RET_ALLOW,
        Then::Ask | Then::Refuse(_) => libc::SECCOMP_RET_USER_NOTIF,
        Then::Nothing => libc::SECCOMP_RET_ERRNO,
        Then::Lacks(errno) => libc::SECCOMP_RET_ERRNO | errno as u32,
    })
}

fn ended(mut steps: Vec<sock_filter>) -> Vec<sock_filter> {
    let past = steps.len();
    for (at, step) in steps.iter_mut().enumerate() {
        let rest = (past - at - 1) as u8;
        step.jt = if step.jt == PAST { rest } else { step.jt };
        step.jf = if step.jf == PAST { rest } else { step.jf };
    }
    steps
}

/// One call of a row.
fn row(number: i64, row: &Row) -> Vec<sock_filter> {
    let mut steps = vec![load(NUMBER), test(libc::BPF_JEQ, number as u32, true)];
    steps.extend(row.when.iter().flat_map(holds));
    steps.push(result(row.then));
    ended(steps)
}

/// execve(2) with this number behind its arguments passes: the start of the program, which does not know the number.
fn start(secret: u64) -> Vec<sock_filter> {
    let mut steps = vec![load(NUMBER), test(libc::BPF_JEQ, libc::SYS_execve as u32, true)];
    for (at, half) in [(0, secret as u32), (4, (secret >> 32) as u32)] {
        steps.extend([load(ARGUMENTS + SECRET_AT * 8 + at), test(libc::BPF_JEQ, half, true)]);
    }
    steps.push(result(Then::Let));
    ended(steps)
}

/// The filter. A call of another architecture's table does not exist.
pub fn filter(secret: u64) -> Vec<sock_filter> {
    let no_such = result(Then::Lacks(libc::ENOSYS));
    let mut steps = vec![load(ARCH), test(libc::BPF_JEQ, ARCHITECTURE, true), no_such];
    (steps[1].jt, steps[1].jf) = (1, 0);
    steps.extend([load(NUMBER), test(libc::BPF_JGE, X32, true), no_such]);
    (steps[4].jt, steps[4].jf) = (0, 1);
    steps.extend(start(secret));
    steps.extend(rows().flat_map(|r| r.calls.iter().flat_map(|(number, _)| row(*number, r))));
    steps.push(result(NOT_NAMED));
    steps
}

pub fn program(filter: &[sock_filter]) -> sock_fprog {
    sock_fprog { len: filter.len() as u16, filter: filter.as_ptr().cast_mut() }
}

#[cfg(test)]
mod tests;
