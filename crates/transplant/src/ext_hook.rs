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

/// The bytes of a hook under way. Its frame, from its lowest address up: 12 arguments, then places of [`SAVED`], of the
/// flags and of the SSE registers. Above it are the saved rbp, the return address, and arguments that are not in
/// registers.
struct Hook {
    code: Vec<u8>,
    at: u64,
}

/// Registers that a call may change: rax, rcx, rdx, rsi, rdi, r8 to r11, by their numbers.
const SAVED: [u8; 9] = [RAX, 1, 2, 6, 7, 8, 9, 10, 11];
const RAX: u8 = 0;
/// Those with arguments, in their order.
const ARGUMENTS: [u8; IN_REGISTERS] = [7, 6, 2, 1, 8, 9];
const SSE: u8 = 16;
/// From the frame's begin.
const SAVED_AT: i32 = 12 * 8;
const FLAGS_AT: i32 = SAVED_AT + 8 * SAVED.len() as i32;
const SSE_AT: i32 = FLAGS_AT + 8;
const FRAME: i32 = SSE_AT + 16 * SSE as i32;
const ON_STACK: i32 = FRAME + 16;

/// The opcode of a move between a register and memory.
#[derive(Clone, Copy)]
enum Move {
    Store = 0x89,
    Load = 0x8b,
}

impl Hook {
    fn put(&mut self, bytes: &[u8]) {
        self.code.extend(bytes);
    }
    /// An instruction with a register and a place of the frame, by rbp.
    fn with_frame(&mut self, opcode: &[u8], register: u8, at: i32) {
        self.put(opcode);
        self.put(&[0x85 | (register & 7) << 3]);
        self.put(&(at - FRAME).to_le_bytes());
    }
    fn word(&mut self, way: Move, register: u8, at: i32) {
        self.with_frame(&[0x48 | (register & 8) >> 1, way as u8], register, at);
    }
    /// Moves all registers that a call may change to the frame or back; not the flags.
    fn registers(&mut self, way: Move) {
        (0..).zip(SAVED).for_each(|(i, register)| self.word(way, register, SAVED_AT + 8 * i));
        let opcode = if let Move::Store = way { 0x11 } else { 0x10 };
        for i in 0..SSE {
            // movups
            self.with_frame(&[0x40 | (i & 8) >> 1, 0x0f, opcode], i, SSE_AT + 16 * i32::from(i));
        }
    }
    /// Keeps all that a call may change. The compiler knows of a static function which registers it leaves alone, and
    /// may leave values in them (-fipa-ra).
    fn save(&mut self) {
        // pushfq; pop to the frame.
        self.put(&[0x9c]);
        self.with_frame(&[0x8f], 0, FLAGS_AT);
        self.registers(Move::Store);
    }
    fn restore(&mut self) {
        // push from the frame; popfq.
        self.with_frame(&[0xff], 6, FLAGS_AT);
        self.put(&[0x9d]);
        self.registers(Move::Load);
    }
    /// Arguments that are on the stack, from the caller's frame to places above the stack pointer.
    fn copy_to_stack(&mut self, words: usize) {
        for i in 0..words as u8 {
            self.word(Move::Load, RAX, ON_STACK + 8 * i32::from(i));
            // mov [rsp+n], rax.
            self.put(&[0x48, 0x89, 0x44, 0x24, 8 * i]);
        }
    }
    /// The arguments into the frame, as programs have them.
    fn keep_arguments(&mut self, words: usize) {
        (0..).zip(ARGUMENTS).for_each(|(i, register)| self.word(Move::Store, register, 8 * i));
        for i in 0..words as i32 {
            self.word(Move::Load, RAX, ON_STACK + 8 * i);
            self.word(Move::Store, RAX, 8 * (IN_REGISTERS as i32 + i));
        }
    }
    /// Calls the image with the hook's number, the arguments and how many there are.
    fn call(&mut self, calls: Calls, nr: usize, to: usize) {
        self.put(&[0xbf]);
        self.put(&calls.hook.to_le_bytes());
        // lea rsi, the frame's begin.
        self.with_frame(&[0x48, 0x8d], 6, 0);
        self.put(&[0xba]);
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

/// and rsp, -16: callers of a static function that calls nothing need not align the stack.
const ALIGN: [u8; 4] = [0x48, 0x83, 0xe4, 0xf0];

/// The code of a hook, and where it begins: behind the moved instructions, at whose end the function continues.
fn hook(function: &Function<'_>, calls: Calls, own: u64) -> Option<(Vec<u8>, u64)> {
    let (code, taken) = moved(function, own)?;
    let mut hook = Hook { code, at: own };
    hook.go(&[0xe9], (function.at + taken) as u64)?;
    let begin = own + hook.code.len() as u64;
    let words = function.arguments.saturating_sub(IN_REGISTERS);
    // push rbp; mov rbp, rsp; lea rsp, the frame's begin.
    hook.put(&[0x55, 0x48, 0x89, 0xe5]);
    hook.with_frame(&[0x48, 0x8d], 4, 0);
    hook.save();
    hook.put(&ALIGN);
    hook.keep_arguments(words);
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
        hook.copy_to_stack(words);
    }
    hook.restore();
    hook.go(&[0xe8], own)?;
    hook.save();
    // mov rcx, rax: the fourth argument.
    hook.put(&[0x48, 0x89, 0xc1]);
    hook.call(calls, function.arguments, calls.leaves);
    hook.restore();
    // leave; ret.
    hook.put(&[0xc9, 0xc3]);
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

    /// What is in registers that a call may change, and in the carry flag, after a call of code that changes only rax.
    /// `lower`: by so many bytes the stack is not aligned.
    fn left(at: usize, lower: u64) -> ([u64; 9], [f64; 2], bool) {
        let (mut r, mut sse, mut carry) = ([1u64, 2, 3, 4, 5, 6, 7, 8, 9], [0.5f64, 1.5], 0u64);
        // SAFETY: the code returns, and changes only registers that are listed here.
        unsafe {
            std::arch::asm!(
                "sub rsp, r12", "stc", "call r13", "setc r14b", "lea rsp, [rsp + r12]",
                in("r12") lower, in("r13") at, inout("r14") carry,
                inout("rax") r[0], inout("rcx") r[1], inout("rdx") r[2], inout("rsi") r[3], inout("rdi") r[4],
                inout("r8") r[5], inout("r9") r[6], inout("r10") r[7], inout("r11") r[8],
                inout("xmm3") sse[0], inout("xmm12") sse[1],
            );
        }
        (r, sse, carry & 1 == 1)
    }

    #[test]
    fn callers_keep_values_in_registers_that_the_function_leaves_alone() {
        // lea rax, [rdi+r10]; nop; ret.
        let code = [0x4a, 0x8d, 0x04, 0x17, 0x90, 0xc3];
        // Without and with a program at the end.
        for hook in [4, 5] {
            let at = made(&code);
            let plain = left(at, 0);
            assert_eq!(plain, ([13, 2, 3, 4, 5, 6, 7, 8, 9], [0.5, 1.5], true));
            lead(&Function { at, code: &code, arguments: 1 }, calls(hook)).unwrap();
            for lower in [0, 8] {
                assert_eq!(left(at, lower), plain, "hook {hook}, stack {lower} lower");
            }
            let seen = SEEN.take();
            assert_eq!(seen.iter().filter(|line| line.contains("begins [5]")).count(), 2, "{seen:?}");
            assert_eq!(
                seen.iter().filter(|line| line.contains("gives 13")).count(),
                [0, 2][hook as usize % 2]
            );
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
