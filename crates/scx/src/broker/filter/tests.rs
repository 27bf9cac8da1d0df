//! The filter, executed here, against the table that it is made of.

use super::super::call_table::{self, page};
use super::super::notify::Call;
use super::*;

const SECRET: u64 = 0x1234_5678_9abc_def0;

/// Executes the filter on a call: the few instructions that it consists of.
fn executed(filter: &[sock_filter], call: &Call, architecture: u32) -> u32 {
    let mut data = vec![call.number as u32, architecture, 0, 0];
    data.extend(call.arguments.iter().flat_map(|argument| [*argument as u32, (*argument >> 32) as u32]));
    let (mut a, mut x, mut at) = (0u32, 0u32, 0);
    loop {
        let step = filter[at];
        let jump = |holds: bool| usize::from(if holds { step.jt } else { step.jf });
        at += 1;
        match u32::from(step.code) {
            code if code == libc::BPF_LD | libc::BPF_W | libc::BPF_ABS => a = data[step.k as usize / 4],
            code if code == libc::BPF_MISC | libc::BPF_TAX => x = a,
            code if code == libc::BPF_ALU | libc::BPF_OR | libc::BPF_X => a |= x,
            code if code == libc::BPF_ALU | libc::BPF_AND | libc::BPF_K => a &= step.k,
            code if code == libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K => at += jump(a == step.k),
            code if code == libc::BPF_JMP | libc::BPF_JGE | libc::BPF_K => at += jump(a >= step.k),
            code if code == libc::BPF_RET | libc::BPF_K => return step.k,
            code => panic!("instruction {code:#x}"),
        }
    }
}

fn call(number: i64, arguments: [u64; 6]) -> Call {
    Call { id: 0, thread: 0, number, arguments }
}

#[test]
fn the_filter_does_what_the_table_says() {
    let filter = filter(SECRET);
    assert!(filter.len() <= 4096, "{} steps, of which a kernel takes 4,096", filter.len());
    let values =
        [0, 1, 2, 3, 6, 9, 15, 0x80, 999, 1000, 0x1003, 0x5001, 0x5401, 0x3d_0f00, 1 << 32, u64::MAX];
    let mut passed = 0;
    for number in 0..500 {
        for first in values {
            for second in values {
                for rest in [0, 1, 20] {
                    let call = call(number, [first, second, rest, rest, rest, rest]);
                    let wanted = result(call_table::then(&call)).k;
                    assert_eq!(executed(&filter, &call, ARCHITECTURE), wanted, "{call:?}");
                    passed += u32::from(wanted == libc::SECCOMP_RET_ALLOW);
                }
            }
        }
    }
    assert!(passed > 40_000, "{passed}");
}

#[test]
fn only_who_knows_the_number_executes_and_other_tables_have_no_calls() {
    let filter = filter(SECRET);
    let start = |secret| call(libc::SYS_execve, [1, 2, 3, 0, 0, secret]);
    assert_eq!(executed(&filter, &start(SECRET), ARCHITECTURE), libc::SECCOMP_RET_ALLOW);
    for wrong in [0, SECRET ^ 1, SECRET ^ 1 << 63] {
        assert_eq!(executed(&filter, &start(wrong), ARCHITECTURE), libc::SECCOMP_RET_USER_NOTIF);
    }
    let none = libc::SECCOMP_RET_ERRNO | libc::ENOSYS as u32;
    let read = call(libc::SYS_read, [0; 6]);
    assert_eq!(executed(&filter, &read, ARCHITECTURE), libc::SECCOMP_RET_ALLOW);
    assert_eq!(executed(&filter, &read, ARCHITECTURE ^ 1 << 31), none);
    assert_eq!(executed(&filter, &call(i64::from(X32) | libc::SYS_read, [0; 6]), ARCHITECTURE), none);
}

#[test]
fn docs_have_the_table() {
    let marks = ["<!-- calls: made from broker/call_table.rs -->\n", "<!-- end calls -->"];
    schedlab_base::testing::page_has("docs/sched-ext.md", marks, &page());
}
