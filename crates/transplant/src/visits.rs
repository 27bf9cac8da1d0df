//! Counts how often a run reaches chosen places of the image's code, on any image: an instruction there is a
//! breakpoint.
//!
//! A breakpoint is the byte of `int3` in place of an instruction's first byte. Its trap counts the visit, puts the byte
//! back, and has the processor execute that one instruction; the next trap sets the breakpoint again. The simulated run
//! does not change, since its time is not this host's. A place that was visited [`MOST`] times is left alone.
//!
//! A process has one image and one thread that runs it, so there is one list of places.

use crate::fault;
use schedlab_base::{Error, Result};

/// Visits that are counted at one place: each costs two signals.
pub const MOST: u64 = 100_000;

/// Counts visits to places of the image from now on, by address in the object. The image is loaded.
///
/// # Errors
/// When the system refuses, and on hosts other than x86-64.
pub fn watch(places: &[u64]) -> Result<()> {
    if places.is_empty() {
        return Ok(());
    }
    let base = fault::code().ok_or_else(|| Error::internal("no image is loaded"))?.base();
    breakpoints::set(places.iter().map(|at| base + *at as usize).collect())
}

/// Forgets the visits so far.
pub(crate) fn forget() {
    breakpoints::forget();
}

/// The visits of each place, in the order of [`watch`].
pub fn counts() -> Vec<u64> {
    breakpoints::counts()
}

#[cfg(target_arch = "x86_64")]
mod breakpoints {
    use super::MOST;
    use crate::fault::on_signal;
    use schedlab_base::{Error, Result};
    use std::ffi::{c_int, c_void};
    use std::sync::OnceLock;
    use std::sync::atomic::{AtomicU8, AtomicU64, AtomicUsize, Ordering::Relaxed};

    /// `int3`.
    const BREAKPOINT: u8 = 0xcc;
    /// The flag that has the processor trap after each instruction.
    const SINGLE_STEP: i64 = 0x100;
    const PAGE: usize = 4096;
    /// No place.
    const NONE: usize = usize::MAX;

    struct Place {
        at: usize,
        /// The byte that the breakpoint replaces.
        byte: AtomicU8,
        count: AtomicU64,
    }

    struct Places {
        /// By address.
        all: Vec<Place>,
        /// Indices into `all`, in the caller's order.
        asked: Vec<usize>,
    }

    static PLACES: OnceLock<Places> = OnceLock::new();
    /// The place whose instruction is single-stepped.
    static STEPPED: AtomicUsize = AtomicUsize::new(NONE);

    pub(super) fn set(asked: Vec<usize>) -> Result<()> {
        let refused =
            |e: std::io::Error| Error::machine(format!("breakpoints in the image are refused: {e}"));
        let mut sorted = asked.clone();
        sorted.sort_unstable();
        sorted.dedup();
        for at in &sorted {
            let page = at & !(PAGE - 1);
            let all = libc::PROT_READ | libc::PROT_WRITE | libc::PROT_EXEC;
            // SAFETY: the page is the image's code, of which an instruction's first byte is replaced.
            if unsafe { libc::mprotect(page as *mut c_void, PAGE, all) } != 0 {
                return Err(refused(std::io::Error::last_os_error()));
            }
        }
        let place = |at: &usize| Place { at: *at, byte: AtomicU8::new(0), count: AtomicU64::new(0) };
        let all: Vec<Place> = sorted.iter().map(place).collect();
        let asked = asked.iter().filter_map(|at| sorted.binary_search(at).ok()).collect();
        PLACES.set(Places { all, asked }).map_err(|_| Error::internal("places are watched already"))?;
        on_signal(libc::SIGTRAP, handler, 0).map_err(refused)?;
        PLACES.get().into_iter().flat_map(|places| &places.all).for_each(arm);
        Ok(())
    }

    pub(super) fn forget() {
        for place in PLACES.get().into_iter().flat_map(|places| &places.all) {
            place.count.store(0, Relaxed);
            arm(place);
        }
    }

    pub(super) fn counts() -> Vec<u64> {
        let Some(places) = PLACES.get() else { return Vec::new() };
        places.asked.iter().map(|at| places.all[*at].count.load(Relaxed)).collect()
    }

    /// Sets a breakpoint. Static keys write code, so the byte is the one that is there now.
    fn arm(place: &Place) {
        // SAFETY: the address is of an instruction of the loaded image.
        let now = unsafe { (place.at as *const u8).read_volatile() };
        if now != BREAKPOINT {
            place.byte.store(now, Relaxed);
            write(place.at, BREAKPOINT);
        }
    }

    fn write(at: usize, byte: u8) {
        // SAFETY: the page was made writable, and no other thread executes the image.
        unsafe { (at as *mut u8).write_volatile(byte) }
    }

    extern "C" fn handler(_: c_int, _: *mut libc::siginfo_t, context: *mut c_void) {
        // SAFETY: the kernel gives a handler with SA_SIGINFO a ucontext_t, and takes the registers from it again.
        let registers = unsafe { &mut (*context.cast::<libc::ucontext_t>()).uc_mcontext.gregs };
        let (ip, flags) = (libc::REG_RIP as usize, libc::REG_EFL as usize);
        let Some(places) = PLACES.get() else { std::process::abort() };
        let stepped = STEPPED.swap(NONE, Relaxed);
        if let Some(place) = places.all.get(stepped) {
            registers[flags] &= !SINGLE_STEP;
            if place.count.load(Relaxed) < MOST {
                arm(place);
            }
            return;
        }
        let at = registers[ip] as usize - 1;
        // Any other breakpoint in the process does not belong to us, so the process ends as it would without us.
        let Ok(found) = places.all.binary_search_by_key(&at, |place| place.at) else { std::process::abort() };
        let place = &places.all[found];
        place.count.fetch_add(1, Relaxed);
        write(at, place.byte.load(Relaxed));
        registers[ip] = at as i64;
        registers[flags] |= SINGLE_STEP;
        STEPPED.store(found, Relaxed);
    }

    #[cfg(test)]
    mod tests {
        use super::*;

        #[inline(never)]
        extern "C" fn visited(n: u64) -> u64 {
            std::hint::black_box(n) + 1
        }

        #[test]
        fn visits_are_counted_and_change_nothing() {
            let at = visited as *const () as usize;
            set(vec![at]).unwrap();
            let sum: u64 =
                (0..5).map(|n| std::hint::black_box(visited as extern "C" fn(u64) -> u64)(n)).sum();
            assert_eq!((sum, counts()), (15, vec![5]));
            forget();
            assert_eq!(counts(), [0]);
        }
    }
}

#[cfg(not(target_arch = "x86_64"))]
mod breakpoints {
    use schedlab_base::{Error, Result};

    pub(super) fn set(_: Vec<usize>) -> Result<()> {
        Err(Error::machine("visits are counted on x86-64 alone"))
    }
    pub(super) fn forget() {}
    pub(super) fn counts() -> Vec<u64> {
        Vec::new()
    }
}
