//! Timers of the program, of simulated time: files of timers (timerfd_create(2)), and the one that sends SIGALRM
//! (setitimer(2), alarm(2)).
//!
//! A file of a timer is a file of events (eventfd(2)), which counts expiries in the same way. Timers of CPU time never
//! expire, because the program's work takes no simulated time.

use super::errno::Errno;
use super::memory::Memory;
use super::notify::{Call, Reply, poll};
use super::process::{self, Process};
use super::time::{Clock, pair, span};
use std::fs::File;
use std::io::{Read, Write};
use std::os::fd::{AsFd, AsRawFd, FromRawFd, OwnedFd};

/// A program that makes more of them than this has lost count.
const MOST: usize = 1_000;
/// Bytes of a moment or a span in memory; a setting has the period first.
const SPAN: u64 = 16;
const MICRO: u64 = 1_000;

#[derive(Debug, Default)]
struct Timer {
    /// When it expires next; `None`: it does not run.
    at_ns: Option<u64>,
    /// 0: it expires once.
    period_ns: u64,
}

impl Timer {
    fn left_ns(&self, now_ns: u64) -> u64 {
        self.at_ns.map_or(0, |at| at.saturating_sub(now_ns).max(1))
    }
    /// How often it has expired up to now.
    fn expire(&mut self, now_ns: u64) -> u64 {
        let Some(at) = self.at_ns.filter(|at| *at <= now_ns) else { return 0 };
        let more = (now_ns - at).checked_div(self.period_ns);
        self.at_ns = more.map(|more| at.saturating_add((more + 1).saturating_mul(self.period_ns)));
        more.unwrap_or(0) + 1
    }
}

#[derive(Debug)]
struct TimerFile {
    timer: Timer,
    clock: i64,
    events: File,
    id: u64,
}

/// What expired.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Expired {
    Nothing,
    Files,
    /// The process gets SIGALRM.
    Alarm,
}

#[derive(Debug, Default)]
pub struct Timers {
    alarm: Timer,
    files: Vec<TimerFile>,
}

impl Timers {
    /// When the next one expires.
    pub fn next_ns(&self) -> Option<u64> {
        self.files.iter().map(|file| &file.timer).chain([&self.alarm]).filter_map(|timer| timer.at_ns).min()
    }
    /// Those that expire by now. Files that the program has closed are forgotten.
    pub fn expire(&mut self, now_ns: u64, process: &Process) -> Expired {
        let mut expired = Expired::Nothing;
        self.files.retain_mut(|file| {
            let count = file.timer.expire(now_ns);
            if count == 0 {
                return true;
            }
            expired = Expired::Files;
            let is_read = !has_events(&file.events);
            // It does not block: the sum of all expiries is far below the limit.
            let written = (&file.events).write_all(&count.to_le_bytes());
            written.is_ok() && (is_read || process.has_event(file.id))
        });
        if self.alarm.expire(now_ns) > 0 { Expired::Alarm } else { expired }
    }
    /// # Errors
    /// What the call fails with. None: it is not about timers.
    pub fn answer(&mut self, clock: Clock, call: &Call, process: &Process) -> Option<Result<Reply, Errno>> {
        Some(match call.number {
            libc::SYS_timerfd_create => self.create(call, process),
            libc::SYS_timerfd_settime => self.set(clock, call, process),
            libc::SYS_timerfd_gettime => self.file(call, process).and_then(|file| {
                give(Memory { pid: call.thread }, call.arguments[1], &file.timer, clock.now_ns, 1)
            }),
            libc::SYS_setitimer => self.set_alarm(clock, call),
            libc::SYS_getitimer => self.get_alarm(clock, call, call.arguments[1]),
            #[cfg(target_arch = "x86_64")]
            libc::SYS_alarm => Ok(self.alarm_in(clock, call.arguments[0] as u32)),
            _ => return None,
        })
    }
    fn create(&mut self, call: &Call, process: &Process) -> Result<Reply, Errno> {
        if self.files.len() >= MOST {
            self.files.retain(|file| process.has_event(file.id));
        }
        if self.files.len() >= MOST {
            return Err(Errno(libc::EMFILE));
        }
        let flags = call.arguments[1] as i32;
        if flags & !(libc::TFD_CLOEXEC | libc::TFD_NONBLOCK) != 0 {
            return Err(Errno(libc::EINVAL));
        }
        // SAFETY: takes integers only. The flags of both kinds of files are those of open(2).
        let number = Errno::check(unsafe { libc::eventfd(0, flags | libc::EFD_CLOEXEC) }.into())?;
        // SAFETY: just made, and owned by nobody.
        let events = unsafe { OwnedFd::from_raw_fd(number as i32) };
        let id =
            process::event_id(std::process::id() as i32, events.as_raw_fd()).ok_or(Errno(libc::ENOSYS))?;
        let file = events.try_clone()?;
        let clock = i64::from(call.arguments[0] as i32);
        self.files.push(TimerFile { timer: Timer::default(), clock, events: events.into(), id });
        Ok(Reply::File { file, at: None, close_on_exec: flags & libc::TFD_CLOEXEC != 0 })
    }
    fn file(&mut self, call: &Call, process: &Process) -> Result<&mut TimerFile, Errno> {
        let id = process.event_id(call.arguments[0] as i32).ok_or(Errno(libc::EINVAL))?;
        self.files.iter_mut().find(|file| file.id == id).ok_or(Errno(libc::EINVAL))
    }
    fn set(&mut self, clock: Clock, call: &Call, process: &Process) -> Result<Reply, Errno> {
        let memory = Memory { pid: call.thread };
        let [_, flags, new, old, ..] = call.arguments;
        let file = self.file(call, process)?;
        let (period_ns, first_ns) = (span(memory, new, 1)?, span(memory, new + SPAN, 1)?);
        if old != 0 {
            give(memory, old, &file.timer, clock.now_ns, 1)?;
        }
        let is_point = flags & libc::TFD_TIMER_ABSTIME as u64 != 0;
        let at_ns =
            if is_point { clock.point(file.clock, first_ns) } else { clock.now_ns.saturating_add(first_ns) };
        file.timer = Timer { at_ns: (first_ns > 0).then_some(at_ns), period_ns };
        // Earlier expiries that nobody has read are gone.
        if has_events(&file.events) {
            file.events.read_exact(&mut [0; 8])?;
        }
        Ok(Reply::Value(0))
    }
    fn set_alarm(&mut self, clock: Clock, call: &Call) -> Result<Reply, Errno> {
        let memory = Memory { pid: call.thread };
        let [_, new, old, ..] = call.arguments;
        let (period_ns, first_ns) = match new {
            0 => (0, 0),
            new => (span(memory, new, MICRO)?, span(memory, new + SPAN, MICRO)?),
        };
        if old != 0 {
            self.get_alarm(clock, call, old)?;
        }
        if call.arguments[0] as i32 == libc::ITIMER_REAL {
            let at_ns = (first_ns > 0).then(|| clock.now_ns.saturating_add(first_ns));
            self.alarm = Timer { at_ns, period_ns };
        }
        Ok(Reply::Value(0))
    }
    fn get_alarm(&self, clock: Clock, call: &Call, at: u64) -> Result<Reply, Errno> {
        let memory = Memory { pid: call.thread };
        let is_real = call.arguments[0] as i32 == libc::ITIMER_REAL;
        give(
            memory,
            at,
            if is_real { &self.alarm } else { &Timer { at_ns: None, period_ns: 0 } },
            clock.now_ns,
            MICRO,
        )
    }
    /// The result is what was left of the last one, in whole seconds and at least one.
    #[cfg(target_arch = "x86_64")]
    fn alarm_in(&mut self, clock: Clock, seconds: u32) -> Reply {
        use super::time::SECOND_NS;
        let left = self.alarm.left_ns(clock.now_ns);
        let at_ns = (seconds > 0).then(|| clock.now_ns.saturating_add(u64::from(seconds) * SECOND_NS));
        self.alarm = Timer { at_ns, period_ns: 0 };
        Reply::Value(left.div_ceil(SECOND_NS) as i64)
    }
}

fn has_events(events: &File) -> bool {
    poll(&[(events.as_fd(), libc::POLLIN)], 0) == [true]
}

/// Writes a timer's period and the rest of its time.
fn give(memory: Memory, at: u64, timer: &Timer, now_ns: u64, unit_ns: u64) -> Result<Reply, Errno> {
    let words = [pair(timer.period_ns, unit_ns), pair(timer.left_ns(now_ns), unit_ns)].concat();
    memory.write(at, &words).map(|()| Reply::Value(0))
}
