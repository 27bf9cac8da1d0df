//! The end of a run in the image: a stub that was touched, BUG, a fault. The process reports the reason and the place,
//! and exits.
//!
//! The report is `image: REASON`, then the calls, innermost first ([`crate::symbols`]).

use crate::abi::RawStubs;
use crate::ext_place;
use crate::symbols::Code;
use schedlab_base::{Error, Result};
use std::ffi::{CStr, c_char, c_int, c_void};
use std::path::Path;
use std::sync::OnceLock;

/// The exit code of a run that the image ended, and of one that a program of BPF ended there.
pub const EXIT_CODE: c_int = 4;
pub const EXIT_CODE_OF_PROGRAM: c_int = 5;
/// Calls that a report shows.
const DEPTH: usize = 32;
const PAGE: usize = 4096;
/// The beginning of words that name their own place.
const PLACED: &str = "BUG in ";
/// Signals by which a run ends.
const SIGNALS: [c_int; 5] = [libc::SIGSEGV, libc::SIGBUS, libc::SIGILL, libc::SIGFPE, libc::SIGABRT];

/// The image's own words about a fault.
#[derive(Clone, Copy)]
pub(crate) struct Words {
    /// `img_last_words`.
    pub last: unsafe extern "C" fn() -> *const c_char,
    /// `img_memory_at`.
    pub memory: unsafe extern "C" fn(*const c_void, *mut *mut c_void) -> *const c_char,
}

/// The parts of the image that a report needs.
struct Known {
    code: Code,
    /// The pages of stubs.
    stubs: std::ops::Range<usize>,
    names: Vec<String>,
    words: Words,
}

static KNOWN: OnceLock<Known> = OnceLock::new();

/// The image's code, once it is watched.
pub(crate) fn code() -> Option<&'static Code> {
    KNOWN.get().map(|known| &known.code)
}

/// Makes the stubs' pages inaccessible, and reports faults from now on. `inside` is any address of the image.
///
/// # Errors
/// When the system refuses.
pub(crate) fn watch(object: &Path, stubs: &RawStubs, inside: *const c_void, words: Words) -> Result<()> {
    let range = stubs.start as usize..stubs.end as usize;
    let refused = |what: &str| Error::machine(format!("{what}: {}", std::io::Error::last_os_error()));
    if !range.is_empty() {
        // SAFETY: the pages are the image's, for nothing else, and named here by their first and last address.
        let failed = unsafe { libc::mprotect(range.start as *mut c_void, range.len(), libc::PROT_NONE) };
        if failed != 0 {
            return Err(refused("the image's stubs can't be closed"));
        }
    }
    let code =
        Code::of(object, inside).ok_or_else(|| Error::internal("the image is not where it was loaded"))?;
    let known = Known { code, stubs: range, names: names(stubs.names), words };
    KNOWN.set(known).map_err(|_| Error::internal("a second image"))?;
    for signal in SIGNALS {
        on_signal(signal, handler, libc::SA_NODEFER)
            .map_err(|_| refused("faults of the image can't be watched"))?;
    }
    Ok(())
}

/// The type of a signal's handler that asks for its context.
pub(crate) type Handler = extern "C" fn(c_int, *mut libc::siginfo_t, *mut c_void);

/// A handler takes a signal from now on, on the stack for signals.
pub(crate) fn on_signal(signal: c_int, handler: Handler, flags: c_int) -> std::io::Result<()> {
    // SAFETY: zeros are a value of this plain data; the handler has the type that SA_SIGINFO asks for.
    let failed = unsafe {
        let mut action: libc::sigaction = std::mem::zeroed();
        action.sa_sigaction = handler as *const () as usize;
        action.sa_flags = libc::SA_SIGINFO | libc::SA_ONSTACK | flags;
        libc::sigaction(signal, &raw const action, std::ptr::null_mut())
    };
    if failed != 0 { Err(std::io::Error::last_os_error()) } else { Ok(()) }
}

/// The names of the list; a zero ends each.
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
        // SAFETY: the next text begins after the zero.
        at = unsafe { at.add(name.count_bytes() + 1) };
    }
}

/// The process ends here, so calls that a handler must not make are harmless: the image holds no lock of the library's.
extern "C" fn handler(signal: c_int, info: *mut libc::siginfo_t, context: *mut c_void) {
    let Some(known) = KNOWN.get() else { std::process::abort() };
    // SAFETY: with SA_SIGINFO the kernel gives a siginfo_t that has an address for these signals.
    let address = unsafe { (*info).si_addr() } as usize;
    let is_call = is_call_to(address, context);
    let reason = match (signal, known.stub(address)) {
        (libc::SIGABRT, _) => known.last_words().unwrap_or_else(|| "abort".to_owned()),
        (_, Some(name)) => {
            let how = if is_call { "calls" } else { "uses" };
            format!("the kernel code {how} `{name}`, which the image lacks")
        }
        (libc::SIGSEGV, None) if is_call => {
            format!("the kernel code calls {address:#x}, where no function is")
        }
        (libc::SIGSEGV, None) if is_beyond_stack(address, context) => {
            "the kernel code has used up its stack".to_owned()
        }
        (libc::SIGFPE, _) => "the kernel code divides by zero".to_owned(),
        (libc::SIGILL, _) => "the kernel code executes what is not an instruction".to_owned(),
        _ => {
            let there = known.memory_at(address).unwrap_or_else(|| "where nothing is".to_owned());
            format!("the kernel code reads or writes at {address:#x}, {there}")
        }
    };
    if is_call {
        leave_callee(context);
    }
    // abort() raises its signal some calls deep in the library, and the context was set to a caller.
    let at = if signal == libc::SIGABRT { None } else { interrupted(context) };
    let at = at.filter(|_| known.stub(address).is_none() && !is_call);
    let calls = known.code.names(&known.code.calls(at));
    let (values, stack) = (registers(context), stack_pointer(context) as *const c_void);
    match ext_place::blamed(&calls, &reason, signal == libc::SIGABRT, (&values, stack)) {
        Some(blamed) => end_with(&blamed, &calls, EXIT_CODE_OF_PROGRAM),
        None => end(&reason, &calls),
    }
}

/// Reports and ends the process.
pub(crate) fn end(reason: &str, calls: &[String]) -> ! {
    // Headers, locks and shims are part of many functions; the function around them says more.
    let is_common = |call: &str| {
        let places = [".h:", " at kernel/locking/", " at arch/sim/"];
        call.starts_with("raw_spin_") || places.iter().any(|of| call.contains(of))
    };
    let caller = calls.iter().find(|call| !is_common(call)).or(calls.first());
    let from = caller.filter(|_| !reason.starts_with(PLACED));
    end_with(
        &format!("{reason}{}", from.map_or(String::new(), |call| format!(" (from {call})"))),
        calls,
        EXIT_CODE,
    )
}

fn end_with(words: &str, calls: &[String], code: c_int) -> ! {
    eprintln!("image: {words}");
    calls.iter().take(DEPTH).for_each(|call| eprintln!("    {call}"));
    // SAFETY: ends the process without running code that might touch the image again.
    unsafe { libc::_exit(code) }
}

/// Stops this process until a debugger, which may be any process of the user's, lets it continue.
pub fn wait_for_debugger() {
    // SAFETY: both take integers only.
    unsafe {
        libc::prctl(libc::PR_SET_PTRACER, libc::PR_SET_PTRACER_ANY, 0, 0, 0);
        libc::raise(libc::SIGSTOP);
    }
}

/// Where a signal came in.
pub(crate) fn interrupted(context: *mut c_void) -> Option<usize> {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: the kernel gives a handler with SA_SIGINFO a ucontext_t.
    return Some(
        unsafe { (*context.cast::<libc::ucontext_t>()).uc_mcontext.gregs[libc::REG_RIP as usize] } as usize
    );
    #[cfg(target_arch = "aarch64")]
    // SAFETY: as above.
    return Some(unsafe { (*context.cast::<libc::ucontext_t>()).uc_mcontext.pc } as usize);
    #[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
    {
        let _ = context;
        None
    }
}

/// The registers' values where a signal came in.
fn registers(context: *mut c_void) -> Vec<usize> {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: the kernel gives a handler with SA_SIGINFO a ucontext_t.
    return unsafe { (*context.cast::<libc::ucontext_t>()).uc_mcontext.gregs.map(|value| value as usize) }
        .to_vec();
    #[cfg(target_arch = "aarch64")]
    // SAFETY: as above.
    return unsafe { (*context.cast::<libc::ucontext_t>()).uc_mcontext.regs.map(|value| value as usize) }
        .to_vec();
    #[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
    {
        let _ = context;
        Vec::new()
    }
}

/// Whether the fault is a call's: then the address is the instruction's own.
fn is_call_to(address: usize, context: *mut c_void) -> bool {
    interrupted(context) == Some(address)
}

/// The lowest used address of a stack.
fn stack_pointer(context: *mut c_void) -> usize {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: the kernel gives a handler with SA_SIGINFO a ucontext_t.
    return unsafe { (*context.cast::<libc::ucontext_t>()).uc_mcontext.gregs[libc::REG_RSP as usize] }
        as usize;
    #[cfg(target_arch = "aarch64")]
    // SAFETY: as above.
    return unsafe { (*context.cast::<libc::ucontext_t>()).uc_mcontext.sp } as usize;
    #[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
    {
        let _ = context;
        0
    }
}

/// Whether the fault is at the end of the stack: next to the used part.
fn is_beyond_stack(address: usize, context: *mut c_void) -> bool {
    let used = stack_pointer(context);
    used != 0 && address.abs_diff(used) <= 2 * PAGE
}

/// A call of an address that is not a function faults at its first instruction, for which there is no unwind table.
/// Sets the context to the caller after the call, so that the calls can be followed.
fn leave_callee(context: *mut c_void) {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: the kernel gives a ucontext_t, which is written back to no register: the process ends. The stack's top
    // holds the return address, since the fault was at a function's first instruction.
    unsafe {
        let registers = &mut (*context.cast::<libc::ucontext_t>()).uc_mcontext.gregs;
        let (ip, sp) = (libc::REG_RIP as usize, libc::REG_RSP as usize);
        registers[ip] = *(registers[sp] as *const i64);
        registers[sp] += 8;
    }
    #[cfg(target_arch = "aarch64")]
    // SAFETY: as above; the link register holds the return address.
    unsafe {
        let registers = &mut (*context.cast::<libc::ucontext_t>()).uc_mcontext;
        registers.pc = registers.regs[30];
    }
}

impl Known {
    fn stub(&self, address: usize) -> Option<&str> {
        let index = self.stubs.contains(&address).then(|| (address - self.stubs.start) / PAGE)?;
        self.names.get(index).map(String::as_str)
    }
    fn last_words(&self) -> Option<String> {
        // SAFETY: the image's function gives a text that ends with a zero, or nothing.
        let said = unsafe { (self.words.last)() };
        // SAFETY: as above.
        (!said.is_null()).then(|| unsafe { CStr::from_ptr(said) }.to_string_lossy().into_owned())
    }
    /// The owner of the memory at an address, and the call that allocated or freed it.
    fn memory_at(&self, address: usize) -> Option<String> {
        let mut by = std::ptr::null_mut();
        // SAFETY: the image's function takes any address, and gives a text that ends with a zero, or nothing.
        let said = unsafe { (self.words.memory)(address as *const c_void, &raw mut by) };
        if said.is_null() {
            return None;
        }
        // SAFETY: as above.
        let said = unsafe { CStr::from_ptr(said) }.to_string_lossy().into_owned();
        let call = self.code.names(&self.code.kept(&[by as usize])).into_iter().next();
        Some(call.map_or(said.clone(), |call| format!("{said} by {call}")))
    }
}
