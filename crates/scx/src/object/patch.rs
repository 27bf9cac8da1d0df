//! Answers of CO-RE, written into instructions.

use super::core::{Answer, Value};
use crate::Insn;

/// A call of no helper: it stands where an instruction uses what the kernel lacks.
pub(super) const MISSING: Insn = Insn { code: 0x85, registers: 0, off: 0, imm: -1 };
/// The first half of a 16-byte load.
pub(super) const LOAD_64: u8 = 0x18;

const CLASS: u8 = 7;
const LDX: u8 = 1;
const STX: u8 = 3;
const ALU: u8 = 4;
const ALU64: u8 = 7;
/// The second operand is a register.
const BY_REGISTER: u8 = 8;
const SIZE: u8 = 0x18;

/// Writes an answer into the instruction at `at`. Gives the name of what is missing, if it is.
///
/// # Errors
/// What is wrong with the instruction: it is not there, of another kind, or has another value than the compiler's.
pub(super) fn patch(code: &mut [Insn], at: usize, answer: Answer) -> Result<Option<String>, String> {
    let whole = match code.get(at).map(|i| i.code) {
        None => return Err("is behind the section".into()),
        Some(LOAD_64) if at + 1 >= code.len() => return Err("is half a 16-byte load".into()),
        Some(LOAD_64) => 2,
        Some(_) => 1,
    };
    let missing = match answer {
        Answer::Value(value) => match put(&mut code[at..at + whole], &value)? {
            true => return Ok(None),
            false => "a field that has another size in this kernel, and a sign".to_owned(),
        },
        Answer::Missing(name) => name,
    };
    code[at..at + whole].fill(MISSING);
    Ok(Some(missing))
}

/// Writes a value. False: no load of this kind gives the field.
fn put(code: &mut [Insn], value: &Value) -> Result<bool, String> {
    let insn = &mut code[0];
    let found = match insn.code & CLASS {
        _ if insn.code == LOAD_64 => insn.imm.cast_unsigned().into(),
        LDX..=STX => insn.off as i64 as u64,
        ALU | ALU64 if insn.code & BY_REGISTER == 0 => u64::from(insn.imm.cast_unsigned()),
        _ => return Err(format!("has opcode {:#x}, which no relocation has", insn.code)),
    };
    let low =
        |v: u64| if insn.code & CLASS == ALU || insn.code & CLASS == ALU64 { v & 0xffff_ffff } else { v };
    if insn.code == LOAD_64 {
        let old = found | u64::from(code[1].imm.cast_unsigned()) << 32;
        if value.old.is_some_and(|v| v != old) {
            return Err(format!("has {old}, not what its own BTF says"));
        }
        code[0].imm = (value.new as u32).cast_signed();
        code[1].imm = ((value.new >> 32) as u32).cast_signed();
        return Ok(true);
    }
    if value.old.is_some_and(|v| low(v) != found) {
        return Err(format!("has {found}, not what its own BTF says"));
    }
    if matches!(insn.code & CLASS, ALU | ALU64) {
        insn.imm = (value.new as u32).cast_signed();
        return Ok(true);
    }
    insn.off = i16::try_from(value.new).map_err(|_| format!("can't reach byte {}", value.new))?;
    match value.sizes {
        Some((old, new)) if old != new => resize(insn, new, value.widens),
        _ => Ok(true),
    }
}

fn resize(insn: &mut Insn, bytes: u64, widens: bool) -> Result<bool, String> {
    let size = match bytes {
        1 => 0x10,
        2 => 0x08,
        4 => 0x00,
        8 => 0x18,
        _ => return Ok(false),
    };
    if widens {
        insn.code = insn.code & !SIZE | size;
    }
    Ok(widens)
}
