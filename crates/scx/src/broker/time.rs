//! The program's time is simulated: its clocks show what the far side says, and its sleeps end there.

use super::call_table::FUTEX;
use super::errno::Errno;
use super::memory::Memory;
use super::notify::{Call, Reply};
use super::waits::{self, Asked};

/// CLOCK_REALTIME when the simulated time is 0: 2026-01-01, the same in each run.
pub const EPOCH_S: u64 = 1_767_225_600;
const EPOCH_NS: u64 = EPOCH_S * SECOND_NS;
/// So many looks at a clock between two sleeps do not move it: how often threads look depends on how they race. Each
/// further one moves it, so that a program that waits for it without sleeping comes to an end.
const FREE_LOOKS: u32 = 1_000;
const LOOK_NS: u64 = 1_000;
/// A program that gives way instead of sleeping (a scheduler that decides in user space) looks again after this.
const YIELD_NS: u64 = 20_000;
pub const SECOND_NS: u64 = 1_000_000_000;
const FUTEX_BITSET: u64 = 9;
const FUTEX_CLOCK_REALTIME: u64 = 256;

#[derive(Clone, Copy, Debug, Default)]
pub struct Clock {
    pub now_ns: u64,
    /// Since it has moved.
    looks: u32,
}

impl Clock {
    pub fn at(now_ns: u64) -> Clock {
        Clock { now_ns, looks: 0 }
    }
    pub fn advance(&mut self, to_ns: u64) {
        if to_ns > self.now_ns {
            *self = Clock::at(to_ns);
        }
    }
    fn look(&mut self, clock: i64) -> u64 {
        self.looks = self.looks.saturating_add(1);
        if self.looks > FREE_LOOKS {
            self.now_ns += LOOK_NS;
        }
        match clock {
            // What it costs the machine is not simulated.
            _ if clock < 0 || is_cpu_time(clock) => 0,
            _ if is_date(clock) => EPOCH_NS + self.now_ns,
            _ => self.now_ns,
        }
    }
    /// A point on this clock, as simulated time.
    pub fn point(self, clock: i64, at_ns: u64) -> u64 {
        if is_date(clock) { at_ns.saturating_sub(EPOCH_NS) } else { at_ns }
    }
}

fn is_date(clock: i64) -> bool {
    [libc::CLOCK_REALTIME, libc::CLOCK_REALTIME_COARSE, libc::CLOCK_REALTIME_ALARM, libc::CLOCK_TAI]
        .contains(&(clock as i32))
}
fn is_cpu_time(clock: i64) -> bool {
    [libc::CLOCK_PROCESS_CPUTIME_ID, libc::CLOCK_THREAD_CPUTIME_ID].contains(&(clock as i32))
}

/// What ends a sleep before its time.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Waits {
    Nothing,
    /// The word at this address is another one than this.
    Word(u64, u32),
    /// One of these file descriptors is ready for what it is asked for (`POLLIN`, ...).
    Files(Asked),
}

#[derive(Clone, Debug)]
pub struct Sleeper {
    pub call: Call,
    pub until_ns: u64,
    pub waits: Waits,
}

impl Sleeper {
    /// Sleepers wake in this order: of two at the same time the thread that was started first.
    pub fn order(&self) -> (u64, i32) {
        (self.until_ns, self.call.thread)
    }
    /// What the call gives when its time is over.
    pub fn over(&self) -> Result<Reply, Errno> {
        match self.waits {
            Waits::Word(..) => Err(Errno(libc::ETIMEDOUT)),
            Waits::Nothing | Waits::Files(_) => Ok(Reply::Value(0)),
        }
    }
    /// What it gives when a signal comes, at this time. A sleep for a time says how much of it is left.
    pub fn interrupted(&self, now_ns: u64) -> Result<Reply, Errno> {
        let [_, at_1, _, at_3, ..] = self.call.arguments;
        let rest = match self.call.number {
            libc::SYS_nanosleep => at_1,
            libc::SYS_clock_nanosleep if at_1 & libc::TIMER_ABSTIME as u64 == 0 => at_3,
            _ => 0,
        };
        if rest != 0 {
            let left = pair(self.until_ns.saturating_sub(now_ns), 1);
            Memory { pid: self.call.thread }.write(rest, &left)?;
        }
        Err(Errno(libc::EINTR))
    }
}

/// What a call about time comes to.
pub enum Timed {
    Reply(Reply),
    /// Files are looked at now.
    Look,
    Sleep(Sleeper),
}

type Answer = Result<Timed, Errno>;
type Ask = fn(&mut Clock, &Call, Memory) -> Answer;

const TABLE: &[(i64, Ask)] = &[
    (libc::SYS_clock_gettime, |clock, call, memory| {
        let ns = clock.look(i64::from(call.arguments[0] as i32));
        give(memory, call.arguments[1], ns, 1)
    }),
    (libc::SYS_gettimeofday, |clock, call, memory| {
        let ns = clock.look(libc::CLOCK_REALTIME.into());
        give(memory, call.arguments[0], ns, 1_000)
    }),
    (libc::SYS_sched_yield, |clock, call, _| sleep(call, clock.now_ns + YIELD_NS, Waits::Nothing)),
    (libc::SYS_nanosleep, |clock, call, memory| {
        let for_ns = span(memory, call.arguments[0], 1)?;
        sleep(call, clock.now_ns.saturating_add(for_ns), Waits::Nothing)
    }),
    (libc::SYS_clock_nanosleep, |clock, call, memory| {
        let ns = span(memory, call.arguments[2], 1)?;
        let is_point = call.arguments[1] & libc::TIMER_ABSTIME as u64 != 0;
        let point = clock.point(call.arguments[0] as i64, ns);
        sleep(call, if is_point { point } else { clock.now_ns.saturating_add(ns) }, Waits::Nothing)
    }),
    (libc::SYS_futex, futex),
    (libc::SYS_ppoll, |clock, call, memory| wait(clock, call, Some(span(memory, call.arguments[2], 1)?))),
    (libc::SYS_pselect6, |clock, call, memory| wait(clock, call, Some(span(memory, call.arguments[4], 1)?))),
    (libc::SYS_epoll_pwait, |clock, call, _| wait(clock, call, milliseconds(call.arguments[3]))),
    (libc::SYS_epoll_pwait2, |clock, call, memory| {
        wait(clock, call, Some(span(memory, call.arguments[3], 1)?))
    }),
];

#[cfg(target_arch = "x86_64")]
const OLDER: &[(i64, Ask)] = &[
    (libc::SYS_time, |clock, call, memory| {
        let seconds = clock.look(libc::CLOCK_REALTIME.into()) / SECOND_NS;
        if call.arguments[0] != 0 {
            memory.write(call.arguments[0], &seconds.to_le_bytes())?;
        }
        Ok(Timed::Reply(Reply::Value(seconds as i64)))
    }),
    (libc::SYS_poll, |clock, call, _| wait(clock, call, milliseconds(call.arguments[2]))),
    (libc::SYS_select, |clock, call, memory| {
        wait(clock, call, Some(span(memory, call.arguments[4], 1_000)?))
    }),
    (libc::SYS_epoll_wait, |clock, call, _| wait(clock, call, milliseconds(call.arguments[3]))),
];
#[cfg(not(target_arch = "x86_64"))]
const OLDER: &[(i64, Ask)] = &[];

/// None: the call is not about time.
pub fn answer(clock: &mut Clock, call: &Call) -> Option<Answer> {
    let (_, ask) = TABLE.iter().chain(OLDER).find(|(number, _)| *number == call.number)?;
    Some(ask(clock, call, Memory { pid: call.thread }))
}

/// Writes seconds and the rest in units of so many nanoseconds.
fn give(memory: Memory, at: u64, ns: u64, unit_ns: u64) -> Answer {
    if at != 0 {
        memory.write(at, &pair(ns, unit_ns))?;
    }
    Ok(Timed::Reply(Reply::Value(0)))
}
pub fn pair(ns: u64, unit_ns: u64) -> Vec<u8> {
    [ns / SECOND_NS, ns % SECOND_NS / unit_ns].map(u64::to_le_bytes).concat()
}
/// Reads such a pair.
pub fn span(memory: Memory, at: u64, unit_ns: u64) -> Result<u64, Errno> {
    let (seconds, rest) = (memory.u64(at)?, memory.u64(at + 8)?);
    if (seconds as i64) < 0 || rest >= SECOND_NS / unit_ns {
        return Err(Errno(libc::EINVAL));
    }
    Ok(seconds.saturating_mul(SECOND_NS).saturating_add(rest * unit_ns))
}
/// Negative: for ever.
fn milliseconds(count: u64) -> Option<u64> {
    u64::try_from(count as i32).ok().map(|count| count * 1_000_000)
}

fn sleep(call: &Call, until_ns: u64, waits: Waits) -> Answer {
    Ok(Timed::Sleep(Sleeper { call: *call, until_ns, waits }))
}
/// A wait for files. This machine's kernel does one without end, which only a number in the call says.
fn wait(clock: &Clock, call: &Call, for_ns: Option<u64>) -> Answer {
    match for_ns {
        None => Ok(Timed::Reply(Reply::Continue)),
        Some(0) => Ok(Timed::Look),
        Some(ns) => sleep(call, clock.now_ns.saturating_add(ns), Waits::Files(waits::asked(call)?)),
    }
}

fn futex(clock: &mut Clock, call: &Call, memory: Memory) -> Answer {
    let [at, operation, value, timeout, ..] = call.arguments;
    if memory.u32(at)? != value as u32 {
        return Err(Errno(libc::EAGAIN));
    }
    let ns = span(memory, timeout, 1)?;
    let date =
        if operation & FUTEX_CLOCK_REALTIME != 0 { libc::CLOCK_REALTIME } else { libc::CLOCK_MONOTONIC };
    let until_ns = if operation & u64::from(FUTEX) == FUTEX_BITSET {
        clock.point(date.into(), ns)
    } else {
        clock.now_ns.saturating_add(ns)
    };
    sleep(call, until_ns, Waits::Word(at, value as u32))
}
