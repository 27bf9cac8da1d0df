//! What a kernel says of the BPF programs that are loaded: bpf(2), as root.

use super::raw::check;
use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};

/// `BPF_PROG_TYPE_STRUCT_OPS`.
pub const STRUCT_OPS: u32 = 27;
const PROG_GET_NEXT_ID: libc::c_long = 11;
const PROG_GET_FD_BY_ID: libc::c_long = 13;
const OBJ_GET_INFO_BY_FD: libc::c_long = 15;
/// The longest name of a program that a kernel keeps.
pub const MOST_NAME: usize = 15;

/// A loaded program.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct BpfProgram {
    pub kind: u32,
    /// As far as the kernel keeps it.
    pub name: String,
    /// How often it has run since /proc/sys/kernel/bpf_stats_enabled is 1; 0 if it is not.
    pub runs: u64,
}

/// The beginning of `struct bpf_prog_info`, up to `run_cnt` (5.1).
#[repr(C)]
#[derive(Clone, Copy)]
struct Info {
    kind: u32,
    id: u32,
    before_name: [u64; 7],
    name: [u8; MOST_NAME + 1],
    before_runs: [u64; 15],
    runs: u64,
}

fn call<T>(command: libc::c_long, attr: &mut T) -> io::Result<libc::c_int> {
    // SAFETY: the kernel reads and writes `attr` within its size, and what it names: its maker's buffer.
    check(unsafe { libc::syscall(libc::SYS_bpf, command, std::ptr::from_mut(attr), size_of::<T>()) }
        as libc::c_int)
}

fn info(id: u32) -> io::Result<Info> {
    let mut by_id = [id, 0, 0];
    // SAFETY: the descriptor is new, and belongs to nobody else.
    let program = unsafe { OwnedFd::from_raw_fd(call(PROG_GET_FD_BY_ID, &mut by_id)?) };
    let zeros = (0, [0; 7], [0; MOST_NAME + 1], [0; 15], 0);
    let mut found =
        Info { kind: zeros.0, id, before_name: zeros.1, name: zeros.2, before_runs: zeros.3, runs: zeros.4 };
    let place = std::ptr::from_mut(&mut found) as u64;
    let mut asked = [program.as_raw_fd() as u64 | (size_of::<Info>() as u64) << 32, place];
    call(OBJ_GET_INFO_BY_FD, &mut asked)?;
    Ok(found)
}

/// All programs that are loaded. One that goes away meanwhile is left out.
///
/// # Errors
/// When the kernel has no bpf(2), or does not tell this user.
pub fn bpf_programs() -> io::Result<Vec<BpfProgram>> {
    let (mut all, mut last) = (Vec::new(), 0);
    loop {
        let mut next = [last, 0, 0];
        match call(PROG_GET_NEXT_ID, &mut next) {
            Err(e) if e.raw_os_error() == Some(libc::ENOENT) => return Ok(all),
            done => done?,
        };
        last = next[1];
        if let Ok(found) = info(last) {
            let name = found.name.split(|byte| *byte == 0).next().unwrap_or_default();
            let name = String::from_utf8_lossy(name).into_owned();
            all.push(BpfProgram { kind: found.kind, name, runs: found.runs });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn members_lie_where_the_kernel_has_them() {
        assert_eq!((std::mem::offset_of!(Info, name), std::mem::offset_of!(Info, runs)), (64, 200));
    }
}
