//! The form of instructions: opcodes that exist, jumps that stay in their function, registers that exist. There is no
//! verifier; this is what an interpreter relies on.

use super::link::{CALL, pseudo};
use super::patch::{LOAD_64, MISSING};
use crate::btf::Btf;
use crate::{Insn, Map, Scheduler};
use schedlab_base::{Error, Result};

/// r10, the frame.
const LAST_REGISTER: u8 = 10;
const EXIT: u8 = 0x95;
/// Jumps without condition, by `off` and by `imm`.
const JUMP: u8 = 0x05;
const JUMP_FAR: u8 = 0x06;
/// A jump that ends a loop which ran too often (`may_goto`).
const MAY_JUMP: u8 = 0xe5;

/// Checks a program, whose functions are those that it calls or takes the address of. `ends`: a call that does not come
/// back. The error names the instruction.
pub(crate) fn program(
    code: &[Insn],
    ends: &dyn Fn(Insn) -> bool,
) -> std::result::Result<(), (usize, String)> {
    let starts = starts(code)?;
    let behind = starts[1..].iter().copied().chain([code.len()]);
    for (start, end) in starts.iter().copied().zip(behind) {
        function(&code[start..end], ends).map_err(|(at, what)| (start + at, what))?;
    }
    Ok(())
}

/// Where functions start, in order.
fn starts(code: &[Insn]) -> std::result::Result<Vec<usize>, (usize, String)> {
    let begins = beginnings(code)?;
    let mut all = vec![0];
    for (at, insn) in code.iter().enumerate().filter(|(at, _)| begins[*at]) {
        let is_call = insn.code == CALL && insn.source() == pseudo::CALL;
        let is_address = insn.code == LOAD_64 && insn.source() == pseudo::FUNC;
        if !is_call && !is_address {
            continue;
        }
        let to = at as i64 + 1 + i64::from(insn.imm);
        let to = usize::try_from(to).ok().filter(|to| begins.get(*to) == Some(&true));
        all.push(to.ok_or_else(|| (at, "it names a function where none begins".to_owned()))?);
    }
    all.sort_unstable();
    all.dedup();
    if code.is_empty() { Err((0, "the program is empty".to_owned())) } else { Ok(all) }
}

fn function(code: &[Insn], ends: &dyn Fn(Insn) -> bool) -> std::result::Result<(), (usize, String)> {
    let begins = beginnings(code)?;
    for (at, insn) in code.iter().enumerate().filter(|(at, _)| begins[*at]) {
        known(*insn).map_err(|what| (at, what))?;
        let distance = match insn.code {
            JUMP_FAR => i64::from(insn.imm),
            code if is_jump(code) => i64::from(insn.off),
            _ => continue,
        };
        let to = at as i64 + 1 + distance;
        if !usize::try_from(to).is_ok_and(|to| begins.get(to).is_some_and(|b| *b)) {
            return Err((
                at,
                format!("it jumps to instruction {to} of its function, where no instruction begins"),
            ));
        }
    }
    let last = code.last().copied().unwrap_or_default();
    if matches!(last.code, EXIT | JUMP | JUMP_FAR) || last == MISSING || ends(last) {
        return Ok(());
    }
    Err((code.len() - 1, "the function does not end with it".into()))
}

/// Checks the instructions of a scheduler's programs, and the sizes of its maps, as whoever executes them relies on.
///
/// `name`: the file's or the program's.
///
/// # Errors
/// The first program or map that does not fit, by name.
pub fn whole(scheduler: &Scheduler, kernel: &Btf, name: &str) -> Result<()> {
    let ends = |insn: Insn| throws(insn, kernel);
    for made in &scheduler.programs {
        program(&made.instructions, &ends).map_err(|(at, what)| {
            Error::input(format!("{name}: instruction {at} of program {}: {what}", made.name))
        })?;
    }
    scheduler.maps.iter().try_for_each(|map| {
        let unfit = |what: &str| {
            Error::input(format!("{name}: map {}: {what}", map.name))
                .help("no kernel makes such a map: the scheduler's own program sets other sizes")
        };
        sizes(map).map_err(|what| unfit(&what))
    })
}

/// Bytes of a value, of a map's values in all, pages of an arena.
const MOST_VALUE: u32 = 256 << 20;
const MOST_MAP: u64 = 1 << 36;
const MOST_PAGES: u32 = 1 << 20;
const ARENA: u32 = 33;
/// Arrays, whose keys are numbers: plain, of programs, by CPU, of maps.
const ARRAYS: [u32; 4] = [2, 3, 6, 12];

fn sizes(map: &Map) -> std::result::Result<(), String> {
    if map.kind == ARENA {
        return match map.max_entries {
            1..=MOST_PAGES => Ok(()),
            pages => Err(format!("an arena has up to {MOST_PAGES} pages, not {pages}")),
        };
    }
    let all = u64::from(map.value_bytes) * u64::from(map.max_entries);
    if map.value_bytes > MOST_VALUE || map.key_bytes > MOST_VALUE || all > MOST_MAP {
        return Err(format!("{} values of {} bytes are too many", map.max_entries, map.value_bytes));
    }
    match ARRAYS.contains(&map.kind) && map.key_bytes != 4 {
        true => Err(format!("an array's key has 4 bytes, not {}", map.key_bytes)),
        false => Ok(()),
    }
}

/// A call that does not come back.
fn throws(insn: Insn, kernel: &Btf) -> bool {
    let kfunc = insn.code == CALL && insn.source() == pseudo::KFUNC;
    kfunc && kernel.name(insn.imm.cast_unsigned()) == "bpf_throw"
}

/// Where instructions begin: the second half of a 16-byte load is none.
fn beginnings(code: &[Insn]) -> std::result::Result<Vec<bool>, (usize, String)> {
    let mut begins = vec![true; code.len()];
    let mut at = 0;
    while at < code.len() {
        if code[at].code == LOAD_64 {
            let second = code.get(at + 1).filter(|s| s.code == 0 && s.registers == 0 && s.off == 0);
            second.ok_or_else(|| (at, "a 16-byte load without its second half".to_owned()))?;
            begins[at + 1] = false;
            at += 1;
        }
        at += 1;
    }
    Ok(begins)
}

fn is_jump(code: u8) -> bool {
    let class = code & 7;
    matches!(class, 5 | 6) && code != CALL && code != EXIT
}

fn known(insn: Insn) -> std::result::Result<(), String> {
    let (destination, source) = (insn.registers & 0xf, insn.source());
    if destination > LAST_REGISTER || source > LAST_REGISTER {
        return Err(format!("it has register {}", destination.max(source)));
    }
    let fits = match insn.code & 7 {
        0 => insn.code == LOAD_64 && source <= pseudo::FUNC,
        1 => loads(insn.code),
        2 => matches!(insn.code, 0x62 | 0x6a | 0x72 | 0x7a),
        3 => stores(insn),
        4 | 7 => computes(insn),
        _ => jumps(insn),
    };
    if fits {
        Ok(())
    } else {
        Err(format!("opcode {:#x} with off {} and imm {} is unknown", insn.code, insn.off, insn.imm))
    }
}

/// Loads of 1 to 8 bytes, and with sign of 1 to 4.
fn loads(code: u8) -> bool {
    matches!(code, 0x61 | 0x69 | 0x71 | 0x79 | 0x81 | 0x89 | 0x91)
}

fn stores(insn: Insn) -> bool {
    match insn.code {
        0x63 | 0x6b | 0x73 | 0x7b => true,
        // Atomic: add, or, and, xor, each with or without the old value; exchange, compare and exchange.
        0xc3 | 0xdb
            if matches!(insn.imm & !1, 0x00 | 0x40 | 0x50 | 0xa0) || matches!(insn.imm, 0xe1 | 0xf1) =>
        {
            true
        }
        // Load with acquire, store with release.
        0xc3 | 0xcb | 0xd3 | 0xdb => matches!(insn.imm, 0x100 | 0x110),
        _ => false,
    }
}

fn computes(insn: Insn) -> bool {
    let (wide, by_register) = (insn.code & 7 == 7, insn.code & 8 != 0);
    match insn.code & 0xf0 {
        // Division and remainder have a form with sign.
        0x30 | 0x90 => matches!(insn.off, 0 | 1),
        0x80 => !by_register && insn.off == 0,
        // A move may extend a sign, or change the space of an address (off 1; imm has the spaces).
        0xb0 if by_register => match insn.off {
            0 | 8 | 16 => true,
            1 | 32 => wide,
            _ => false,
        },
        // Swaps of bytes.
        0xd0 => insn.off == 0 && matches!(insn.imm, 16 | 32 | 64) && !(wide && by_register),
        operation => operation <= 0xc0 && insn.off == 0,
    }
}

fn jumps(insn: Insn) -> bool {
    let (wide, by_register) = (insn.code & 7 == 5, insn.code & 8 != 0);
    match insn.code & 0xf0 {
        0x00 => !by_register,
        0x80 => insn.code == CALL && insn.source() <= pseudo::KFUNC,
        0x90 => insn.code == EXIT,
        0xe0 => insn.code == MAY_JUMP,
        operation => operation <= 0xd0 && (wide || insn.code & 7 == 6),
    }
}
