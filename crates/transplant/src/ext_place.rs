//! Places in programs of BPF, for the report of a run that ends in one: there is no verifier, so that a program may do
//! what no kernel would let it.

use crate::ext_abi::{RawCalled, RawInsn, op};
use std::ffi::{CStr, c_void};
use std::sync::Mutex;

/// A program in the image.
struct Placed {
    name: String,
    instructions: &'static [RawInsn],
    /// Where lines of its source begin.
    lines: Vec<(u32, String)>,
}

struct Known {
    programs: Vec<Placed>,
    /// `img_bpf_place()`.
    left_by: Option<unsafe extern "C" fn() -> *const RawInsn>,
}

static KNOWN: Mutex<Known> = Mutex::new(Known { programs: Vec::new(), left_by: None });

/// The interpreter's files, as names of calls have them.
const INTERPRETER: [&str; 2] = ["bpf_run.c:", "bpf_atomic.c:"];
/// Words of the interpreter's stack in which the place of its instruction may be.
const WORDS: usize = 128;
/// Classes of instructions that read or write: `BPF_LDX`, `BPF_ST`, `BPF_STX`.
const TOUCHING: [u16; 3] = [1, 2, 3];

/// How the image says where a program was left.
pub(crate) fn asked_by(left_by: unsafe extern "C" fn() -> *const RawInsn) {
    if let Ok(mut known) = KNOWN.lock() {
        known.left_by = Some(left_by);
    }
}

/// A program has got its place, for good.
pub(crate) fn add(name: &str, instructions: &'static [RawInsn], lines: &[(u32, String)]) {
    if let Ok(mut known) = KNOWN.lock() {
        let (name, lines) = (name.to_owned(), lines.to_vec());
        known.programs.push(Placed { name, instructions, lines });
    }
}

impl Known {
    /// The program and the number of the instruction at an address.
    fn at(&self, address: usize) -> Option<(&Placed, usize)> {
        self.programs.iter().find_map(|program| {
            let within = address.checked_sub(program.instructions.as_ptr() as usize)?;
            let (at, rest) = (within / size_of::<RawInsn>(), within % size_of::<RawInsn>());
            (rest == 0 && at < program.instructions.len()).then_some((program, at))
        })
    }
    /// The instruction that the interpreter executes: it is in one of its registers, or on its stack.
    fn executed(&self, registers: &[usize], stack: *const usize) -> Option<usize> {
        let touches = |address: &usize| {
            let found = self.at(*address);
            found.is_some_and(|(program, at)| TOUCHING.contains(&(program.instructions[at].op & 7)))
        };
        let in_register = registers.iter().copied().find(touches);
        let on_stack = || {
            // SAFETY: the stack reaches from its lowest used word to the frame of the engine, which is farther.
            (0..WORDS).map(|at| unsafe { stack.add(at).read() }).find(touches)
        };
        in_register.or_else(on_stack)
    }
    /// `mine, instruction 7 (mine.bpf.c:12)`, and the function that it calls.
    fn named(&self, address: usize) -> Option<(String, Option<String>)> {
        let (program, at) = self.at(address)?;
        let insn = &program.instructions[at];
        let line = program.lines.iter().rev().find(|(first, _)| *first as usize <= at);
        let line = line.map_or_else(String::new, |(_, line)| format!(" ({line})"));
        let called = (insn.op == op::KFUNC).then(|| {
            // SAFETY: such an instruction's operand is a function that the image has made; its name is never freed.
            unsafe { CStr::from_ptr((*(insn.imm as *const RawCalled)).name) }.to_string_lossy().into_owned()
        });
        Some((format!("{}, instruction {at}{line}", program.name), called))
    }
}

/// The words of a run's end when a program is at fault: its place, then what was wrong. `calls`: innermost first;
/// `is_said`: the image has named the reason itself.
pub(crate) fn blamed(
    calls: &[String],
    reason: &str,
    is_said: bool,
    (registers, stack): (&[usize], *const c_void),
) -> Option<String> {
    let is_interpreter = |call: &String| INTERPRETER.iter().any(|file| call.contains(file));
    if !calls.iter().any(is_interpreter) {
        return None;
    }
    let known = KNOWN.try_lock().ok()?;
    let is_own = !is_said && is_interpreter(calls.first()?);
    let address = if is_own {
        known.executed(registers, stack.cast())?
    } else {
        // SAFETY: the image's function takes nothing, and gives a place or NULL.
        unsafe { known.left_by?() as usize }
    };
    let (place, called) = known.named(address)?;
    let reason = if is_own { reason.replace("the kernel code", "it") } else { reason.to_owned() };
    let called = called.map_or_else(String::new, |name| format!("it calls {name}: "));
    Some(format!("BPF program {place}: {called}{reason}"))
}
