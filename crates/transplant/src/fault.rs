//! The end of a run in the image: a stub that was touched, BUG, a fault. The process reports what and where, and exits.
//!
//! The report is `image: REASON`, then the calls, innermost first, with file and line where addr2line(1) is installed.

use crate::abi::RawStubs;
use schedlab_base::{Error, Result};
use std::ffi::{CStr, c_char, c_int, c_void};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

/// The exit code of a run that the image ended.
pub const EXIT_CODE: c_int = 4;
/// Calls that a report shows.
const DEPTH: usize = 32;
const PAGE: usize = 4096;
/// Calls in this file are how the image ends a run, not why.
const OWN_END: &str = "arch/sim/image/lib.c:";
/// Signals by which a run ends.
const SIGNALS: [c_int; 5] = [libc::SIGSEGV, libc::SIGBUS, libc::SIGILL, libc::SIGFPE, libc::SIGABRT];

unsafe extern "C" {
    // glibc's, in no header of the libc crate for all targets.
    fn backtrace(buffer: *mut *mut c_void, size: c_int) -> c_int;
}

/// What a report needs to know of the image.
struct Known {
    object: PathBuf,
    /// Where it lies in memory.
    base: usize,
    /// The pages of stubs.
    stubs: std::ops::Range<usize>,
    names: Vec<String>,
    last_words: unsafe extern "C" fn() -> *const c_char,
}

static KNOWN: OnceLock<Known> = OnceLock::new();

/// Makes the stubs' pages inaccessible, and reports faults from now on. `inside` is any address of the image.
///
/// # Errors
/// When the system refuses.
pub(crate) fn watch(
    object: &Path,
    stubs: &RawStubs,
    inside: *const c_void,
    last_words: unsafe extern "C" fn() -> *const c_char,
) -> Result<()> {
    let range = stubs.start as usize..stubs.end as usize;
    let refused = |what: &str| Error::machine(format!("{what}: {}", std::io::Error::last_os_error()));
    if !range.is_empty() {
        // SAFETY: the pages are the image's, for nothing else, and named here by their first and last address.
        let failed = unsafe { libc::mprotect(range.start as *mut c_void, range.len(), libc::PROT_NONE) };
        if failed != 0 {
            return Err(refused("the image's stubs can't be closed"));
        }
    }
    // SAFETY: plain data for which zeros are a value; dladdr fills it.
    let mut about: libc::Dl_info = unsafe { std::mem::zeroed() };
    // SAFETY: the address is of a loaded object, and the structure lives through the call.
    if unsafe { libc::dladdr(inside, &raw mut about) } == 0 {
        return Err(Error::internal("the image is not where it was loaded"));
    }
    let known = Known {
        object: object.to_owned(),
        base: about.dli_fbase as usize,
        stubs: range,
        names: names(stubs.names),
        last_words,
    };
    KNOWN.set(known).map_err(|_| Error::internal("a second image"))?;
    let mut calls = [std::ptr::null_mut(); 1];
    // The first call loads the unwinder, which a handler could not do.
    // SAFETY: the buffer has room for one address.
    unsafe { backtrace(calls.as_mut_ptr(), 1) };
    for signal in SIGNALS {
        // SAFETY: zeros are a value of this plain data; the handler has the type that SA_SIGINFO asks for.
        let failed = unsafe {
            let mut action: libc::sigaction = std::mem::zeroed();
            action.sa_sigaction = handler as *const () as usize;
            action.sa_flags = libc::SA_SIGINFO | libc::SA_ONSTACK | libc::SA_NODEFER;
            libc::sigaction(signal, &raw const action, std::ptr::null_mut())
        };
        if failed != 0 {
            return Err(refused("faults of the image can't be watched"));
        }
    }
    Ok(())
}

/// The names of the list, each with a zero behind it.
fn names(list: *const c_char) -> Vec<String> {
    let mut all = Vec::new();
    let mut at = list;
    loop {
        // SAFETY: the list's texts end with a zero each, and an empty one ends the list.
        let name = unsafe { CStr::from_ptr(at) };
        if name.is_empty() {
            return all;
        }
        all.push(name.to_string_lossy().into_owned());
        // SAFETY: the next text begins behind the zero.
        at = unsafe { at.add(name.count_bytes() + 1) };
    }
}

/// The process ends here, so nothing that a handler must not call does harm: the image holds no lock of the library's.
extern "C" fn handler(signal: c_int, info: *mut libc::siginfo_t, context: *mut c_void) {
    let Some(known) = KNOWN.get() else { std::process::abort() };
    // SAFETY: with SA_SIGINFO the kernel gives a siginfo_t that has an address for these signals.
    let address = unsafe { (*info).si_addr() } as usize;
    let reason = match (signal, known.stub(address)) {
        (libc::SIGABRT, _) => known.words().unwrap_or_else(|| "abort".to_owned()),
        (_, Some(name)) => {
            let how = if leave_stub(context, known) { "calls" } else { "uses" };
            format!("the kernel code {how} `{name}`, which the image lacks")
        }
        (libc::SIGFPE, _) => "the kernel code divides by zero".to_owned(),
        (libc::SIGILL, _) => "the kernel code executes what is not an instruction".to_owned(),
        _ => format!("the kernel code reads or writes at {address:#x}, where nothing is"),
    };
    let calls = known.calls();
    // What a header has is in many functions; the one around it says more.
    let caller = calls.iter().find(|call| !call.contains(".h:")).or(calls.first());
    let from = caller.map_or(String::new(), |call| format!(" (from {call})"));
    eprintln!("image: {reason}{from}");
    calls.iter().for_each(|call| eprintln!("    {call}"));
    // SAFETY: ends the process without running what might touch the image again.
    unsafe { libc::_exit(EXIT_CODE) }
}

/// A call of a stub faults at its first instruction, for which there is no unwind table. The context becomes that of
/// the caller behind the call, so that the calls can be followed. False: the stub was read or written as data.
fn leave_stub(context: *mut c_void, known: &Known) -> bool {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: the kernel gives a ucontext_t, which is written back to no register: the process ends. The stack's top
    // holds the return address, since the fault was at a function's first instruction.
    unsafe {
        let registers = &mut (*context.cast::<libc::ucontext_t>()).uc_mcontext.gregs;
        let (ip, sp) = (libc::REG_RIP as usize, libc::REG_RSP as usize);
        let is_call = known.stubs.contains(&(registers[ip] as usize));
        if is_call {
            registers[ip] = *(registers[sp] as *const i64);
            registers[sp] += 8;
        }
        is_call
    }
    #[cfg(target_arch = "aarch64")]
    // SAFETY: as above; the link register holds the return address.
    unsafe {
        let registers = &mut (*context.cast::<libc::ucontext_t>()).uc_mcontext;
        let is_call = known.stubs.contains(&(registers.pc as usize));
        if is_call {
            registers.pc = registers.regs[30];
        }
        is_call
    }
}

impl Known {
    fn stub(&self, address: usize) -> Option<&str> {
        let index = self.stubs.contains(&address).then(|| (address - self.stubs.start) / PAGE)?;
        self.names.get(index).map(String::as_str)
    }
    fn words(&self) -> Option<String> {
        // SAFETY: the image's function gives a text that ends with a zero, or nothing.
        let said = unsafe { (self.last_words)() };
        // SAFETY: as above.
        (!said.is_null()).then(|| unsafe { CStr::from_ptr(said) }.to_string_lossy().into_owned())
    }
    /// The calls within the image, innermost first: "function at file:line".
    fn calls(&self) -> Vec<String> {
        let mut at = [std::ptr::null_mut(); DEPTH];
        // SAFETY: the buffer has room for so many addresses.
        let count = unsafe { backtrace(at.as_mut_ptr(), DEPTH as c_int) };
        let is_here = |address: &usize| {
            // SAFETY: zeros are a value of this plain data; dladdr fills it, and takes any address.
            unsafe {
                let mut about: libc::Dl_info = std::mem::zeroed();
                libc::dladdr(*address as *const c_void, &raw mut about) != 0
                    && about.dli_fbase as usize == self.base
            }
        };
        // A return address is behind the call, perhaps on the next line.
        let addresses: Vec<usize> = at[..count.max(0) as usize]
            .iter()
            .map(|a| *a as usize)
            .filter(is_here)
            .map(|a| a - 1 - self.base)
            .collect();
        lines(&self.object, &addresses)
            .unwrap_or_else(|| addresses.iter().map(|a| format!("+{a:#x}")).collect())
    }
}

/// Functions with files and lines, inlined ones too, by addr2line(1); `None` where it is not installed.
fn lines(object: &Path, addresses: &[usize]) -> Option<Vec<String>> {
    let mut command = Command::new("addr2line");
    command.args(["-a", "-i", "-f", "-e"]).arg(object).args(addresses.iter().map(|a| format!("{a:#x}")));
    let said = command.output().ok().filter(|said| said.status.success())?;
    let text = String::from_utf8_lossy(&said.stdout).into_owned();
    Some(of_addr2line(&text).into_iter().skip_while(|call| call.contains(OWN_END)).collect())
}

/// "function at file:line" of each pair of lines. Before the pairs of an address stands the address.
fn of_addr2line(text: &str) -> Vec<String> {
    let all: Vec<&str> = text.lines().filter(|line| !line.starts_with("0x")).collect();
    all.chunks(2).map(|pair| pair.join(" at ").replace(" at ./", " at ")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_function_that_was_inlined_stands_before_the_one_around_it() {
        let text = "0x0000000000012345\narch_write_lock\n./arch/sim/include/asm/spinlock.h:45\nall_weights\n\
                    kernel/sched/bore.c:276\n0x0000000000023456\nimg_tunable\narch/sim/image/tunables.c:206\n";
        let known = [
            "arch_write_lock at arch/sim/include/asm/spinlock.h:45",
            "all_weights at kernel/sched/bore.c:276",
            "img_tunable at arch/sim/image/tunables.c:206",
        ];
        assert_eq!(of_addr2line(text), known);
    }
}
