//! An endless loop in the kernel's code is noticed: a timer of the CPU time looks whether the engine got on.
//!
//! Kernel code that a verb runs is over in microseconds, a boot in seconds. A verb that takes longer than
//! [`LIMIT_VARIABLE`] allows ends the run with the function that loops. The timer changes nothing that a run computes.

use crate::fault;
use crate::symbols::Code;
use schedlab_base::{Error, Result};
use std::ffi::{c_int, c_void};
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// CPU time that one call of kernel code may take, s.
pub const LIMIT_VARIABLE: &str = "SCHEDLAB_CODE_TIMEOUT";
const DEFAULT_LIMIT_S: u64 = 20;
/// Looks within a second, at first and where a loop is suspected.
const LOOKS: u64 = 4;
const CLOSE_LOOKS: u64 = 200;
/// Calls that are compared: what changes between them is within the loop.
const SAMPLES: usize = 12;

/// Verbs so far.
static VERBS: AtomicU64 = AtomicU64::new(0);
static SEEN: AtomicU64 = AtomicU64::new(0);
/// Looks since the last one that found a new verb.
static STILL: AtomicU64 = AtomicU64::new(0);
static LIMIT: AtomicU64 = AtomicU64::new(DEFAULT_LIMIT_S);
static TIMER: Mutex<Option<Timer>> = Mutex::new(None);
static FOUND: Mutex<Vec<Vec<usize>>> = Mutex::new(Vec::new());

/// Another verb begins.
#[inline]
pub(crate) fn gets_on() {
    // One thread writes it.
    VERBS.store(VERBS.load(Relaxed) + 1, Relaxed);
}

/// A timer of this thread's CPU time.
struct Timer(libc::timer_t);
// SAFETY: the kernel's number of a timer, which any thread may use.
unsafe impl Send for Timer {}

impl Timer {
    fn new() -> std::io::Result<Timer> {
        let mut timer = std::ptr::null_mut();
        // SAFETY: zeros are a value of this plain data; the call fills the timer's number.
        let failed = unsafe {
            let mut event: libc::sigevent = std::mem::zeroed();
            event.sigev_notify = libc::SIGEV_THREAD_ID;
            event.sigev_signo = libc::SIGPROF;
            event.sigev_notify_thread_id = libc::gettid();
            libc::timer_create(libc::CLOCK_THREAD_CPUTIME_ID, &raw mut event, &raw mut timer)
        };
        if failed != 0 { Err(std::io::Error::last_os_error()) } else { Ok(Timer(timer)) }
    }
    fn every(&self, looks_a_second: u64) -> std::io::Result<()> {
        let ns = (1_000_000_000 / looks_a_second) as libc::c_long;
        let every = libc::timespec { tv_sec: 0, tv_nsec: ns };
        let spec = libc::itimerspec { it_interval: every, it_value: every };
        // SAFETY: the timer was made, and the structure lives through the call.
        match unsafe { libc::timer_settime(self.0, 0, &raw const spec, std::ptr::null_mut()) } {
            0 => Ok(()),
            _ => Err(std::io::Error::last_os_error()),
        }
    }
}

/// Watches this thread from now on; it is the one that calls the image.
///
/// # Errors
/// A limit that is not a number, and what the system refuses.
pub(crate) fn begin() -> Result<()> {
    if let Ok(text) = std::env::var(LIMIT_VARIABLE) {
        let wrong = || Error::input(format!("{LIMIT_VARIABLE}={text} is not a number of seconds above 0"));
        let limit = text.parse().ok().filter(|s: &u64| (1..=1_000_000).contains(s)).ok_or_else(wrong)?;
        LIMIT.store(limit, Relaxed);
    }
    let refused = |e: std::io::Error| Error::machine(format!("the kernel's code can't be watched: {e}"));
    fault::on_signal(libc::SIGPROF, look, libc::SA_RESTART).map_err(refused)?;
    let timer = Timer::new().map_err(refused)?;
    timer.every(LOOKS).map_err(refused)?;
    *TIMER.lock().unwrap_or_else(std::sync::PoisonError::into_inner) = Some(timer);
    Ok(())
}

/// The timer has expired. In the image nothing holds a lock of the C library's, so the handler may use it there.
extern "C" fn look(_: c_int, _: *mut libc::siginfo_t, context: *mut c_void) {
    let verbs = VERBS.load(Relaxed);
    if SEEN.swap(verbs, Relaxed) != verbs {
        return STILL.store(0, Relaxed);
    }
    let still = STILL.fetch_add(1, Relaxed) + 1;
    if still < LIMIT.load(Relaxed) * LOOKS {
        return;
    }
    let Some(code) = fault::code() else { return };
    let calls = code.calls(fault::interrupted(context));
    if calls.is_empty() {
        // The engine itself is at work.
        return STILL.store(0, Relaxed);
    }
    let (Ok(mut found), Ok(timer)) = (FOUND.try_lock(), TIMER.try_lock()) else { return };
    if found.is_empty()
        && let Some(timer) = timer.as_ref()
    {
        let _ = timer.every(CLOSE_LOOKS);
    }
    found.push(calls);
    if found.len() == SAMPLES {
        end(code, &found);
    }
}

/// The loop is in the innermost function that is there at all looks.
fn end(code: &Code, found: &[Vec<usize>]) -> ! {
    let calls = &found[SAMPLES - 1];
    let names = code.names(&calls[calls.len() - 1 - common(found).min(calls.len() - 1)..]);
    let seconds = LIMIT.load(Relaxed);
    fault::end(&format!("the kernel code is in an endless loop: a call has taken {seconds} s of CPU time"), &names)
}

/// Outer calls that are the same in all samples.
fn common(found: &[Vec<usize>]) -> usize {
    let Some((first, others)) = found.split_first() else { return 0 };
    let with = |other: &Vec<usize>| first.iter().rev().zip(other.iter().rev()).take_while(|(a, b)| a == b).count();
    others.iter().map(with).min().unwrap_or(first.len())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_all_samples_share_is_outside_the_loop() {
        let samples = [vec![1, 20, 30, 40], vec![7, 8, 21, 30, 40], vec![22, 30, 40]];
        assert_eq!(common(&samples), 2);
        assert_eq!(common(&samples[..1]), 4);
        assert_eq!(common(&[vec![5, 9], vec![5, 9]]), 2);
    }
}
