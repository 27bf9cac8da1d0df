//! Waits for files: poll(2), select(2) and epoll_wait(2), looked at by the broker, which writes what is ready.

use super::errno::Errno;
use super::memory::Memory;
use super::notify::{Call, Reply};
use super::process::Process;
use std::os::fd::{AsRawFd, OwnedFd};

/// A file descriptor, and what it is asked for (`POLLIN`, ...).
pub type Asked = Vec<(i32, i16)>;

/// As many as a program may have open.
const MOST_FILES: u64 = 4096;
const MOST_EVENTS: usize = 1024;
/// `struct pollfd`, and the place of its result.
const POLL_BYTES: usize = 8;
const RESULT_AT: usize = 6;
/// The sets of select(2), by argument; and what makes a file ready for each.
const SETS: [(usize, i16, i16); 3] = [
    (1, libc::POLLIN, libc::POLLIN | libc::POLLHUP | libc::POLLERR),
    (2, libc::POLLOUT, libc::POLLOUT | libc::POLLERR),
    (3, libc::POLLPRI, libc::POLLPRI),
];

#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    Poll,
    Select,
    Epoll,
}

fn kind(call: &Call) -> Kind {
    match call.number {
        libc::SYS_ppoll => Kind::Poll,
        libc::SYS_pselect6 => Kind::Select,
        #[cfg(target_arch = "x86_64")]
        libc::SYS_poll => Kind::Poll,
        #[cfg(target_arch = "x86_64")]
        libc::SYS_select => Kind::Select,
        _ => Kind::Epoll,
    }
}

/// What a call waits for.
pub fn asked(call: &Call) -> Result<Asked, Errno> {
    match kind(call) {
        Kind::Epoll => Ok(vec![(call.arguments[0] as i32, libc::POLLIN)]),
        Kind::Poll => Ok(polled(&array(call)?).filter(|(number, _)| *number >= 0).collect()),
        Kind::Select => {
            let mut files = Vec::new();
            for (set, events, _) in SETS {
                let bits = bits(call, set)?;
                files.extend(numbers(call, &bits).map(|number| (number as i32, events)));
            }
            Ok(files)
        }
    }
}

/// What of it is ready now: the call's result, written to the program's memory.
pub fn look(call: &Call, process: &Process) -> Result<Reply, Errno> {
    let count = match kind(call) {
        Kind::Epoll => look_epoll(call, process)?,
        Kind::Poll => look_poll(call, process)?,
        Kind::Select => look_select(call, process)?,
    };
    Ok(Reply::Value(count))
}

fn array(call: &Call) -> Result<Vec<u8>, Errno> {
    if call.arguments[1] > MOST_FILES {
        return Err(Errno(libc::EINVAL));
    }
    Memory { pid: call.thread }.bytes(call.arguments[0], call.arguments[1] as usize * POLL_BYTES)
}
fn polled(array: &[u8]) -> impl Iterator<Item = (i32, i16)> {
    array.chunks_exact(POLL_BYTES).map(|bytes| {
        let number = i32::from_le_bytes(bytes[..4].try_into().expect("4 bytes"));
        (number, i16::from_le_bytes([bytes[4], bytes[5]]))
    })
}

/// One of select(2)'s sets; empty: it has none.
fn bits(call: &Call, set: usize) -> Result<Vec<u8>, Errno> {
    let count = call.arguments[0].min(MOST_FILES) as usize;
    match call.arguments[set] {
        0 => Ok(Vec::new()),
        at => Memory { pid: call.thread }.bytes(at, count.div_ceil(64) * 8),
    }
}
fn numbers(call: &Call, bits: &[u8]) -> impl Iterator<Item = usize> {
    let count = call.arguments[0].min(bits.len() as u64 * 8) as usize;
    (0..count).filter(|number| bits[number / 8] >> (number % 8) & 1 != 0)
}

/// What these files are ready for; `POLLNVAL`: there is no such file.
fn ready(files: &[(i32, i16)], process: &Process) -> Result<Vec<i16>, Errno> {
    let open: Vec<Option<OwnedFd>> = files.iter().map(|(number, _)| process.file(*number)).collect();
    let number = |file: &Option<OwnedFd>| file.as_ref().map_or(-1, AsRawFd::as_raw_fd);
    let asked = open.iter().zip(files);
    let mut asked: Vec<libc::pollfd> = asked
        .map(|(file, (_, events))| libc::pollfd { fd: number(file), events: *events, revents: 0 })
        .collect();
    // SAFETY: the array has as many elements as are said.
    Errno::check(unsafe { libc::poll(asked.as_mut_ptr(), asked.len() as libc::nfds_t, 0) }.into())?;
    let result = |(file, asked): (&Option<OwnedFd>, &libc::pollfd)| match file {
        None => libc::POLLNVAL,
        Some(_) => asked.revents,
    };
    Ok(open.iter().zip(&asked).map(result).collect())
}

fn look_poll(call: &Call, process: &Process) -> Result<i64, Errno> {
    let mut array = array(call)?;
    let files: Asked = polled(&array).collect();
    let mut count = 0;
    for ((bytes, (number, _)), events) in
        array.chunks_exact_mut(POLL_BYTES).zip(&files).zip(ready(&files, process)?)
    {
        let events = if *number < 0 { 0 } else { events };
        bytes[RESULT_AT..].copy_from_slice(&events.to_le_bytes());
        count += i64::from(events != 0);
    }
    Memory { pid: call.thread }.write(call.arguments[0], &array).map(|()| count)
}

fn look_select(call: &Call, process: &Process) -> Result<i64, Errno> {
    let mut count = 0;
    for (set, events, makes_ready) in SETS {
        let mut bits = bits(call, set)?;
        let files: Asked = numbers(call, &bits).map(|number| (number as i32, events)).collect();
        for ((number, _), events) in files.iter().zip(ready(&files, process)?) {
            if events & libc::POLLNVAL != 0 {
                return Err(Errno(libc::EBADF));
            }
            if events & makes_ready == 0 {
                bits[*number as usize / 8] &= !(1 << (number % 8));
            } else {
                count += 1;
            }
        }
        if !bits.is_empty() {
            Memory { pid: call.thread }.write(call.arguments[set], &bits)?;
        }
    }
    Ok(count)
}

fn look_epoll(call: &Call, process: &Process) -> Result<i64, Errno> {
    let file = process.file(call.arguments[0] as i32).ok_or(Errno(libc::EBADF))?;
    let most = usize::try_from(call.arguments[2] as i32).ok().filter(|most| *most > 0);
    let most = most.ok_or(Errno(libc::EINVAL))?.min(MOST_EVENTS);
    let mut events = vec![libc::epoll_event { events: 0, u64: 0 }; most];
    // SAFETY: the array has as many elements as are said.
    let count = unsafe { libc::epoll_wait(file.as_raw_fd(), events.as_mut_ptr(), most as i32, 0) };
    let count = Errno::check(count.into())?;
    let bytes: Vec<u8> =
        events[..count as usize].iter().flat_map(|event| super::stat::bytes_of(event).to_vec()).collect();
    Memory { pid: call.thread }.write(call.arguments[1], &bytes).map(|()| count)
}
