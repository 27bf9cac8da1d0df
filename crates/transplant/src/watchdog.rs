//! Notices an endless loop in the kernel's code: a timer of CPU time checks whether the engine makes progress.
//!
//! A verb's kernel code ends in microseconds, a boot in seconds. A verb that takes longer than [`LIMIT_VARIABLE`]
//! allows ends the run with the function that loops. The timer changes nothing that a run computes.

use crate::fault;
use crate::symbols::Code;
use schedlab_base::{Error, Result};
use std::ffi::{c_int, c_void};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// CPU time that one call of kernel code may take, s.
pub const LIMIT_VARIABLE: &str = "SCHEDLAB_CODE_TIMEOUT";
const DEFAULT_LIMIT_S: u64 = 20;
/// Checks per second.
const LOOKS: u64 = 4;
/// Instructions to single-step when a loop is suspected: the function that is not left has the loop.
#[cfg(target_arch = "x86_64")]
const FOLLOWED: u64 = 100_000;
/// The processor's flag that makes each instruction a trap.
#[cfg(target_arch = "x86_64")]
const TRAP: i64 = 0x100;

/// Verbs so far.
static VERBS: AtomicU64 = AtomicU64::new(0);
static SEEN: AtomicU64 = AtomicU64::new(0);
/// Checks since the last one that found a new verb.
static STILL: AtomicU64 = AtomicU64::new(0);
static LIMIT: AtomicU64 = AtomicU64::new(DEFAULT_LIMIT_S);
/// Instructions that were followed, and the outermost place of the stack among them.
static STEPS: AtomicU64 = AtomicU64::new(0);
#[cfg(target_arch = "x86_64")]
static OUTERMOST: AtomicU64 = AtomicU64::new(0);

/// Another verb begins.
#[inline]
pub(crate) fn gets_on() {
    // One thread writes it.
    VERBS.store(VERBS.load(Relaxed) + 1, Relaxed);
}

/// A timer of this thread's CPU time gives this many signals a second.
fn start_timer(looks: u64) -> std::io::Result<()> {
    let every = libc::timespec { tv_sec: 0, tv_nsec: (1_000_000_000 / looks) as libc::c_long };
    let spec = libc::itimerspec { it_interval: every, it_value: every };
    let mut timer: libc::timer_t = std::ptr::null_mut();
    // SAFETY: zeros are a value of this plain data; the first call fills the timer's number, and the structures live
    // through the calls.
    let failed = unsafe {
        let mut event: libc::sigevent = std::mem::zeroed();
        event.sigev_notify = libc::SIGEV_THREAD_ID;
        event.sigev_signo = libc::SIGPROF;
        event.sigev_notify_thread_id = libc::gettid();
        libc::timer_create(libc::CLOCK_THREAD_CPUTIME_ID, &raw mut event, &raw mut timer) != 0
            || libc::timer_settime(timer, 0, &raw const spec, std::ptr::null_mut()) != 0
    };
    if failed { Err(std::io::Error::last_os_error()) } else { Ok(()) }
}

/// Watches this thread, which calls the image, from now on.
///
/// # Errors
/// When the limit is not a number, and when the system refuses.
pub(crate) fn begin() -> Result<()> {
    if let Some(text) = std::env::var(LIMIT_VARIABLE).ok().filter(|text| !text.is_empty()) {
        let wrong = || Error::input(format!("{LIMIT_VARIABLE}={text}: it takes 1 to 1000000 seconds"));
        let limit = text.parse().ok().filter(|s: &u64| (1..=1_000_000).contains(s)).ok_or_else(wrong)?;
        LIMIT.store(limit, Relaxed);
    }
    let refused = |e: std::io::Error| Error::machine(format!("the kernel's code can't be watched: {e}"));
    fault::on_signal(libc::SIGPROF, look, libc::SA_RESTART).map_err(refused)?;
    #[cfg(target_arch = "x86_64")]
    fault::on_signal(libc::SIGTRAP, step, 0).map_err(refused)?;
    watch()
}

/// Watches this thread from now on: a copy of a process has no timer.
///
/// # Errors
/// When the system refuses.
pub(crate) fn watch() -> Result<()> {
    start_timer(LOOKS).map_err(|e| Error::machine(format!("the kernel's code can't be watched: {e}")))
}

/// The timer has expired.
extern "C" fn look(_: c_int, _: *mut libc::siginfo_t, context: *mut c_void) {
    let verbs = VERBS.load(Relaxed);
    if SEEN.swap(verbs, Relaxed) != verbs {
        return STILL.store(0, Relaxed);
    }
    let still = STILL.fetch_add(1, Relaxed) + 1;
    if still < LIMIT.load(Relaxed) * LOOKS || STEPS.load(Relaxed) > 0 {
        return;
    }
    let Some(code) = fault::code() else { return };
    if code.calls(fault::interrupted(context)).is_empty() {
        // The engine itself is at work.
        return STILL.store(0, Relaxed);
    }
    follow(code, context);
}

/// From here on each instruction traps.
#[cfg(target_arch = "x86_64")]
fn follow(_: &Code, context: *mut c_void) {
    OUTERMOST.store(0, Relaxed);
    STEPS.store(1, Relaxed);
    // SAFETY: the kernel gives a handler with SA_SIGINFO a ucontext_t.
    unsafe { (*context.cast::<libc::ucontext_t>()).uc_mcontext.gregs[libc::REG_EFL as usize] |= TRAP };
}
/// On other processors the loop is near the place where the timer came in.
#[cfg(not(target_arch = "x86_64"))]
fn follow(code: &Code, context: *mut c_void) {
    end(code, context);
}

/// An instruction was followed. Calls lie deeper in the stack than their caller, so the loop is where the stack is at
/// its outermost.
#[cfg(target_arch = "x86_64")]
extern "C" fn step(_: c_int, _: *mut libc::siginfo_t, context: *mut c_void) {
    let steps = STEPS.fetch_add(1, Relaxed);
    // SAFETY: as above.
    let registers = unsafe { &mut (*context.cast::<libc::ucontext_t>()).uc_mcontext.gregs };
    if VERBS.load(Relaxed) != SEEN.load(Relaxed) {
        // The call has returned after all.
        registers[libc::REG_EFL as usize] &= !TRAP;
        STEPS.store(0, Relaxed);
        return STILL.store(0, Relaxed);
    }
    let stack = registers[libc::REG_RSP as usize] as u64;
    let outermost = OUTERMOST.fetch_max(stack, Relaxed);
    if steps > FOLLOWED
        && (stack >= outermost || steps > 2 * FOLLOWED)
        && let Some(code) = fault::code()
    {
        end(code, context);
    }
}

fn end(code: &Code, context: *mut c_void) -> ! {
    let at = code.calls(fault::interrupted(context));
    // Functions inlined at the place of the loop are part of the function that loops.
    let inlined = code.names(&at[..at.len().min(1)]).len().saturating_sub(1);
    let calls = code.names(&at).split_off(inlined);
    let seconds = LIMIT.load(Relaxed);
    fault::end(
        &format!("the kernel code is in an endless loop: a call has taken {seconds} s of CPU time"),
        &calls,
    )
}
