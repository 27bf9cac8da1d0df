//! Code that leads a function of the image to programs, before and after it.
//!
//! # Problem
//!
//! A kernel keeps room at the begin of each function for a call (ftrace). An image has none: its code is to be what the
//! compiler makes of the scheduler, and is counted.
//!
//! # Way
//!
//! Only a function that a program asks for is changed: a jump takes the place of its first instructions, which move
//! behind a *hook*, as with a kernel's optimized kprobes. The hook calls the image's `img_bpf_enters` with the
//! arguments, and then jumps to the moved instructions. If there is a program for the function's end, it calls them
//! instead, and `img_bpf_leaves` with the result. No stack needs to be empty of the function: a call that is under way
//! returns behind the instruction that called, and that stays unless it has moved as a whole.

use iced_x86::{Decoder, DecoderOptions, FlowControl, Instruction, OpKind};
use std::ffi::c_void;

/// A jump to any place within 2 GiB.
const JUMP_BYTES: usize = 5;
const PAGE: usize = 4096;
/// Where memory for a hook is looked for: at steps behind the function.
const STEP: usize = 1 << 20;
const MOST_STEPS: usize = 1024;
/// Arguments that are in registers.
const IN_REGISTERS: usize = 6;

/// A function of the image, in memory.
pub(crate) struct Function<'a> {
    pub at: usize,
    pub code: &'a [u8],
    pub arguments: usize,
}

/// What a hook calls, with its number.
#[derive(Clone, Copy)]
pub(crate) struct Calls {
    pub hook: u32,
    pub enters: usize,
    pub leaves: usize,
}

/// Whether a jump has room at the function's begin. An error is one of errno.
pub(crate) fn check(function: &Function<'_>) -> Result<(), i32> {
    let can_move = cfg!(target_arch = "x86_64") && moved(function, function.at as u64).is_some();
    if can_move { Ok(()) } else { Err(libc::EOPNOTSUPP) }
}

/// Leads the function to its hook. An error is one of errno.
pub(crate) fn lead(function: &Function<'_>, calls: Calls) -> Result<(), i32> {
    check(function)?;
    let room = room(function.at)?;
    let (code, begin) = hook(function, calls, room as u64).ok_or(libc::EOPNOTSUPP)?;
    let mut jump = vec![0xe9];
    jump.extend(distance((function.at + JUMP_BYTES) as u64, begin).ok_or(libc::EOPNOTSUPP)?);
    replace(room, &code)?;
    replace(function.at, &jump)
}

fn last_error() -> i32 {
    std::io::Error::last_os_error().raw_os_error().unwrap_or(libc::ENOMEM)
}

/// A new page near to a function.
fn room(at: usize) -> Result<usize, i32> {
    let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_FIXED_NOREPLACE;
    let at = at.next_multiple_of(PAGE);
    for step in 1..MOST_STEPS {
        let place = (at + step * STEP) as *mut c_void;
        // SAFETY: new memory, at a place that is taken only if it is free.
        let got = unsafe { libc::mmap(place, PAGE, libc::PROT_READ, flags, -1, 0) };
        if got == place {
            return Ok(got as usize);
        }
    }
    Err(libc::ENOMEM)
}

/// Puts code at a place of memory that is mapped.
fn replace(at: usize, code: &[u8]) -> Result<(), i32> {
    let from = at - at % PAGE;
    let bytes = (at + code.len()).next_multiple_of(PAGE) - from;
    let access = |access: i32| {
        // SAFETY: whole pages of the image's code, or of a hook, which nobody else gives another access.
        let done = unsafe { libc::mprotect(from as *mut c_void, bytes, access) };
        if done == 0 { Ok(()) } else { Err(last_error()) }
    };
    access(libc::PROT_READ | libc::PROT_WRITE)?;
    // SAFETY: the pages can be written; no code of the image runs meanwhile.
    unsafe { std::ptr::copy_nonoverlapping(code.as_ptr(), at as *mut u8, code.len()) };
    access(libc::PROT_READ | libc::PROT_EXEC)
}

/// From the end of an instruction to a place, as an instruction has it.
fn distance(end: u64, to: u64) -> Option<[u8; 4]> {
    i32::try_from(to.wrapping_sub(end) as i64).ok().map(i32::to_le_bytes)
}

/// The first instructions of a function, at another place; and how many bytes they had. `None`: they can't move.
fn moved(function: &Function<'_>, to: u64) -> Option<(Vec<u8>, usize)> {
    let mut decoder = Decoder::with_ip(64, function.code, function.at as u64, DecoderOptions::NONE);
    let (mut made, mut taken) = (Vec::new(), 0);
    while taken < JUMP_BYTES {
        if !decoder.can_decode() {
            return None;
        }
        let i = decoder.decode();
        let own = function.code.get(taken..taken + i.len())?;
        taken += i.len();
        match i.flow_control() {
            FlowControl::Next | FlowControl::Call | FlowControl::ConditionalBranch => {}
            FlowControl::UnconditionalBranch if taken >= JUMP_BYTES => {}
            _ => return None,
        }
        let way_at = decoder.get_constant_offsets(&i).displacement_offset();
        put_moved(&mut made, (&i, own, way_at), to)?;
    }
    let inside = function.at as u64 + 1..(function.at + taken) as u64;
    let mut all = Decoder::with_ip(64, function.code, function.at as u64, DecoderOptions::NONE).into_iter();
    let leads_in = |i: Instruction| is_near(&i) && inside.contains(&i.near_branch_target());
    (!all.any(leads_in)).then_some((made, taken))
}

fn is_near(i: &Instruction) -> bool {
    i.op_count() > 0 && i.op0_kind() == OpKind::NearBranch64
}

/// One instruction, with its bytes and where its way to memory is in them, behind those that are made.
fn put_moved(made: &mut Vec<u8>, (i, own, way_at): (&Instruction, &[u8], usize), to: u64) -> Option<()> {
    let here = to + made.len() as u64;
    if is_near(i) {
        // Ways of 8 bits become ways of 32 bits.
        let opcode: &[u8] = match own {
            [0xeb, _] => &[0xe9],
            [0x70..=0x7f, _] => &[0x0f, own[0] + 0x10],
            [0xe8 | 0xe9, ..] => &own[..1],
            [0x0f, 0x80..=0x8f, ..] => &own[..2],
            _ => return None,
        };
        let end = here + opcode.len() as u64 + 4;
        made.extend(opcode);
        made.extend(distance(end, i.near_branch_target())?);
    } else if i.is_ip_rel_memory_operand() {
        made.extend(&own[..way_at]);
        made.extend(distance(here + own.len() as u64, i.ip_rel_memory_address())?);
        made.extend(&own[way_at + 4..]);
    } else {
        made.extend(own);
    }
    Some(())
}

/// The bytes of a hook under way. Its frame, from the stack pointer up: 12 arguments, rax, rdx, the result.
struct Hook {
    code: Vec<u8>,
    at: u64,
}

/// `mov [rsp+n], REGISTER` without the place, of the six registers of arguments, and of rax and rdx.
const KEEP: [[u8; 4]; IN_REGISTERS] = [
    [0x48, 0x89, 0x7c, 0x24],
    [0x48, 0x89, 0x74, 0x24],
    [0x48, 0x89, 0x54, 0x24],
    [0x48, 0x89, 0x4c, 0x24],
    [0x4c, 0x89, 0x44, 0x24],
    [0x4c, 0x89, 0x4c, 0x24],
];
const KEEP_RAX: [u8; 4] = [0x48, 0x89, 0x44, 0x24];
const KEEP_RDX: [u8; 4] = KEEP[2];
/// `mov rax, [rbp+n]` without the place.
const LOAD_RAX: [u8; 3] = [0x48, 0x8b, 0x45];
const FRAME: u8 = 0x80;
const RAX_AT: u8 = 0x60;
const RDX_AT: u8 = 0x68;
const RESULT_AT: u8 = 0x70;
/// From the frame's base up: the saved base, the return address, arguments that are not in registers.
const ON_STACK: u8 = 16;

impl Hook {
    fn put(&mut self, bytes: &[u8]) {
        self.code.extend(bytes);
    }
    fn keep(&mut self, register: [u8; 4], at: u8) {
        self.put(&register);
        self.put(&[at]);
    }
    /// Registers as the function was called with: loads from the frame, by its base.
    fn restore(&mut self) {
        for (i, keep) in KEEP.iter().enumerate() {
            // The same register, from [rbp+n].
            self.put(&[keep[0], 0x8b, (keep[2] & 0x38) | 0x45, 8 * i as u8 + FRAME]);
        }
        self.put(&LOAD_RAX);
        self.put(&[RAX_AT + FRAME]);
    }
    /// Arguments that are on the stack, from the caller's frame to places above the stack pointer.
    fn copy(&mut self, words: usize, to: u8) {
        for i in 0..words as u8 {
            self.put(&LOAD_RAX);
            self.put(&[ON_STACK + 8 * i]);
            self.keep(KEEP_RAX, to + 8 * i);
        }
    }
    /// Calls the image with the hook's number, the arguments and how many there are.
    fn call(&mut self, calls: Calls, nr: usize, to: usize) {
        self.put(&[0xbf]);
        self.put(&calls.hook.to_le_bytes());
        self.put(&[0x48, 0x89, 0xe6, 0xba]);
        self.put(&(nr as u32).to_le_bytes());
        self.put(&[0x48, 0xb8]);
        self.put(&(to as u64).to_le_bytes());
        self.put(&[0xff, 0xd0]);
    }
    /// A jump or call to a place.
    fn go(&mut self, opcode: &[u8], to: u64) -> Option<()> {
        self.put(opcode);
        let end = self.at + self.code.len() as u64 + 4;
        self.put(&distance(end, to)?);
        Some(())
    }
}

/// The code of a hook, and where it begins: behind the moved instructions, at whose end the function continues.
fn hook(function: &Function<'_>, calls: Calls, own: u64) -> Option<(Vec<u8>, u64)> {
    let (code, taken) = moved(function, own)?;
    let mut hook = Hook { code, at: own };
    hook.go(&[0xe9], (function.at + taken) as u64)?;
    let begin = own + hook.code.len() as u64;
    let words = function.arguments.saturating_sub(IN_REGISTERS);
    // push rbp; mov rbp, rsp; sub rsp, FRAME.
    hook.put(&[0x55, 0x48, 0x89, 0xe5, 0x48, 0x81, 0xec, FRAME, 0, 0, 0]);
    (0..).zip(KEEP).for_each(|(i, keep)| hook.keep(keep, 8 * i));
    hook.keep(KEEP_RAX, RAX_AT);
    hook.copy(words, 8 * IN_REGISTERS as u8);
    hook.call(calls, function.arguments, calls.enters);
    // test eax, eax; jne over the way without a program at the end.
    hook.put(&[0x85, 0xc0, 0x0f, 0x85, 0, 0, 0, 0]);
    let other = hook.code.len();
    hook.restore();
    // leave.
    hook.put(&[0xc9]);
    hook.go(&[0xe9], own)?;
    let skip = ((hook.code.len() - other) as u32).to_le_bytes();
    hook.code[other - 4..other].copy_from_slice(&skip);
    if words > 0 {
        // sub rsp, so that it stays a multiple of 16.
        hook.put(&[0x48, 0x83, 0xec, 8 * words.next_multiple_of(2) as u8]);
        hook.copy(words, 0);
    }
    hook.restore();
    hook.go(&[0xe8], own)?;
    // lea rsp, [rbp-FRAME].
    hook.put(&[0x48, 0x8d, 0x65, FRAME]);
    hook.keep(KEEP_RAX, RESULT_AT);
    hook.keep(KEEP_RDX, RDX_AT);
    // mov rcx, rax: the fourth argument.
    hook.put(&[0x48, 0x89, 0xc1]);
    hook.call(calls, function.arguments, calls.leaves);
    // mov rax, [rsp+RESULT_AT]; mov rdx, [rsp+RDX_AT]; leave; ret.
    hook.put(&[0x48, 0x8b, 0x44, 0x24, RESULT_AT, 0x48, 0x8b, 0x54, 0x24, RDX_AT, 0xc9, 0xc3]);
    Some((hook.code, begin))
}

#[cfg(all(test, target_arch = "x86_64"))]
mod tests {
    use super::*;
    use std::cell::RefCell;
    use std::hint::black_box;

    thread_local!(static SEEN: RefCell<Vec<String>> = const { RefCell::new(Vec::new()) });

    extern "C" fn enters(hook: i32, arguments: *const u64, nr: u32) -> i32 {
        // SAFETY: a hook gives as many.
        let given = unsafe { std::slice::from_raw_parts(arguments, nr as usize) };
        SEEN.with_borrow_mut(|seen| seen.push(format!("{hook} begins {given:?}")));
        hook % 2
    }
    extern "C" fn leaves(hook: i32, _: *const u64, _: u32, result: u64) {
        SEEN.with_borrow_mut(|seen| seen.push(format!("{hook} gives {result}")));
    }
    fn calls(hook: u32) -> Calls {
        Calls { hook, enters: enters as *const () as usize, leaves: leaves as *const () as usize }
    }

    #[inline(never)]
    extern "C" fn sum(a: u64, b: u64, c: u64, d: u64, e: u64, f: u64, g: u64, h: u64, i: u64) -> u64 {
        black_box(a) + b * 2 + c + d + e + f + g * 10 + h * 100 + i * 1000
    }

    fn lead_to(at: usize, arguments: usize, hook: u32) -> Result<(), i32> {
        // SAFETY: the code of a function of this program, which is longer than a few instructions.
        let code = unsafe { std::slice::from_raw_parts(at as *const u8, 32) };
        lead(&Function { at, code, arguments }, calls(hook))
    }

    #[test]
    fn a_function_leads_to_programs_with_its_arguments_and_gives_its_result() {
        let call = || black_box(sum as extern "C" fn(u64, u64, u64, u64, u64, u64, u64, u64, u64) -> u64);
        let plain = call()(1, 2, 3, 4, 5, 6, 7, 8, 9);
        lead_to(sum as *const () as usize, 9, 7).unwrap();
        assert_eq!(call()(1, 2, 3, 4, 5, 6, 7, 8, 9), plain);
        let seen = SEEN.take();
        assert_eq!(seen, ["7 begins [1, 2, 3, 4, 5, 6, 7, 8, 9]".to_owned(), format!("7 gives {plain}")]);
    }

    /// Code in memory of its own that is called with one argument.
    fn made(code: &[u8]) -> usize {
        let at = room(sum as *const () as usize).unwrap();
        replace(at, code).unwrap();
        at
    }

    #[test]
    fn first_instructions_that_depend_on_their_place_move() {
        // test rdi, rdi; je to its end; mov rax, [rip+4]; ret; at the end: xor eax, eax; ret; then the number.
        let mut code =
            vec![0x48, 0x85, 0xff, 0x74, 0x08, 0x48, 0x8b, 0x05, 4, 0, 0, 0, 0xc3, 0x31, 0xc0, 0xc3];
        code.extend(4711u64.to_le_bytes());
        // mov rax, [rip+1]; ret; the number.
        let mut load = vec![0x48, 0x8b, 0x05, 1, 0, 0, 0, 0xc3];
        load.extend(42u64.to_le_bytes());
        for (code, results, hook) in [(code, [0, 4711], 2), (load, [42, 42], 3)] {
            let at = made(&code);
            // SAFETY: the code takes one argument and gives a number.
            let call: extern "C" fn(u64) -> u64 = unsafe { std::mem::transmute(at) };
            assert_eq!([call(0), call(1)], results);
            lead(&Function { at, code: &code, arguments: 1 }, calls(hook)).unwrap();
            assert_eq!([call(0), call(1)], results);
            let begins = SEEN.take().iter().filter(|line| line.contains("begins")).count();
            assert_eq!(begins, 2);
        }
    }

    #[test]
    fn a_function_without_room_for_a_jump_is_refused() {
        // xor eax, eax; ret. And a loop that jumps to the second instruction.
        for code in [vec![0x31, 0xc0, 0xc3], vec![0x31, 0xc0, 0xff, 0xc0, 0x85, 0xc0, 0x75, 0xfa, 0xc3]] {
            let at = made(&code);
            let refused = lead(&Function { at, code: &code, arguments: 0 }, calls(1));
            assert_eq!(refused, Err(libc::EOPNOTSUPP));
        }
    }
}
