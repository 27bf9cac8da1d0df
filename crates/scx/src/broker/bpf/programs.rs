//! Commands of bpf(2) that concern programs.

use super::super::errno::Errno;
use super::object::{Object, ProgramObject};
use super::{Answer, Asked, Bpf, DONE};
use crate::Insn;
use crate::btf::Btf;
use crate::object::ext::line;

/// `BPF_LD | BPF_IMM | BPF_DW`.
const LOAD_WIDE: u8 = 0x18;
/// Source registers of a wide load: a map or a place in its value, by file descriptor or by place in the call's array.
pub const MAP_FD: u8 = 1;
pub const MAP_VALUE: u8 = 2;
const MAP_INDEX: u8 = 5;
const MAP_INDEX_VALUE: u8 = 6;
/// `BPF_PROG_TYPE_SYSCALL`.
const SYSCALL: u32 = 31;
/// As the kernel.
const MOST_INSTRUCTIONS: u32 = 1_000_000;
/// Contexts are this long at most, as in the kernel.
const MOST_CONTEXT: u32 = 65_535;

impl Insn {
    /// The first half of a load of a map or of a place in its value.
    pub fn is_map(self) -> bool {
        self.code == LOAD_WIDE && matches!(self.source(), MAP_FD | MAP_VALUE)
    }
    pub fn is_wide(self) -> bool {
        self.code == LOAD_WIDE
    }
}

fn instruction(bytes: &[u8]) -> Insn {
    Insn {
        code: bytes[0],
        registers: bytes[1],
        off: i16::from_le_bytes([bytes[2], bytes[3]]),
        imm: i32::from_le_bytes([bytes[4], bytes[5], bytes[6], bytes[7]]),
    }
}

/// A place outside of a map. libbpf asks for one on purpose, and reads the verifier's words about it.
fn outside(asked: &Asked<'_>, within: u32) -> Errno {
    let words = format!("invalid access to map value pointer, off={within}\0");
    let (size, at) = (asked.u32(28) as usize, asked.u64(32));
    if at != 0 && words.len() <= size && asked.memory.write(at, words.as_bytes()).is_err() {
        return Errno(libc::EFAULT);
    }
    Errno(libc::EINVAL)
}

impl Bpf {
    /// `BPF_PROG_LOAD`: there is no verifier, so that whatever is whole is taken.
    pub fn program_load(&mut self, asked: &mut Asked<'_>) -> Answer {
        let count = asked.u32(4);
        if count == 0 || count > MOST_INSTRUCTIONS {
            return Err(Errno(libc::E2BIG));
        }
        let bytes = asked.memory.bytes(asked.u64(8), count as usize * 8)?;
        let mut instructions: Vec<Insn> = bytes.chunks_exact(8).map(instruction).collect();
        self.name_maps(&mut instructions, asked)?;
        let program = ProgramObject {
            name: asked.name(48),
            kind: asked.u32(0),
            instructions,
            attach_btf_id: asked.u32(108),
            attach_type: asked.u32(68),
            lines: self.lines(asked).unwrap_or_default(),
            far: None,
        };
        self.make(Object::Program(program), "program", 0)
    }
    /// Where lines of its source begin, if it says so.
    fn lines(&self, asked: &Asked<'_>) -> Option<Vec<(u32, String)>> {
        let [types, bytes, count] = [72, 92, 104].map(|at| asked.u32(at));
        let Object::Btf(types) = &self.objects[self.at(asked.call, types).ok().filter(|_| count > 0)?] else {
            return None;
        };
        let (types, bytes) = (Btf::parse(types).ok()?, bytes as usize);
        let all = asked.memory.bytes(asked.u64(96), (count as usize).checked_mul(bytes)?).ok()?;
        let one = |record: &[u8]| {
            let at = u32::from_le_bytes(*record.first_chunk()?);
            Some((at, line(&types, record.get(4..16)?)?))
        };
        all.chunks_exact(bytes.max(1)).map(one).collect()
    }
    /// Puts objects in place of file descriptors of maps.
    fn name_maps(&self, instructions: &mut [Insn], asked: &Asked<'_>) -> Result<(), Errno> {
        let mut at = 0;
        while at < instructions.len() {
            let it = instructions[at];
            if !it.is_wide() {
                at += 1;
                continue;
            }
            if at + 1 == instructions.len() {
                return Err(Errno(libc::EINVAL));
            }
            at += 2;
            let (source, number) = match it.source() {
                MAP_FD | MAP_VALUE => (it.source(), it.imm as u32),
                place @ (MAP_INDEX | MAP_INDEX_VALUE) => {
                    let files = asked.u64(120);
                    let number = asked.memory.u32(files + u64::from(it.imm as u32) * 4)?;
                    (if place == MAP_INDEX { MAP_FD } else { MAP_VALUE }, number)
                }
                _ => continue,
            };
            let map = self.at(asked.call, number)?;
            if !matches!(self.objects[map], Object::Map(_)) {
                return Err(Errno(libc::EINVAL));
            }
            let within = instructions[at - 1].imm as u32;
            if source == MAP_VALUE && u64::from(within) >= self.map(map).all_bytes() {
                return Err(outside(asked, within));
            }
            let known = &mut instructions[at - 2];
            known.registers = known.registers & 15 | source << 4;
            known.imm = map as i32;
        }
        Ok(())
    }
    /// The program behind the attribute at `at`.
    pub fn program_at(&self, asked: &Asked<'_>, at: usize) -> Result<usize, Errno> {
        let index = self.at(asked.call, asked.u32(at))?;
        matches!(self.objects[index], Object::Program(_)).then_some(index).ok_or(Errno(libc::EINVAL))
    }
    pub fn program(&self, index: usize) -> &ProgramObject {
        match &self.objects[index] {
            Object::Program(program) => program,
            _ => unreachable!("an index of a program"),
        }
    }
    /// `BPF_PROG_TEST_RUN`: run by the far side, which gets what there is of the scheduler if it is not attached yet.
    pub fn test_run(&mut self, asked: &mut Asked<'_>) -> Answer {
        let program = self.program_at(asked, 0)?;
        if self.program(program).kind != SYSCALL || asked.u32(40) > MOST_CONTEXT {
            self.refuse(format!("run of a program of type {}", self.program(program).kind));
            return Err(Errno(libc::EOPNOTSUPP));
        }
        let mut context = asked.memory.bytes(asked.u64(48), asked.u32(40) as usize)?;
        let far = self.far_program(program, asked)?;
        let returned = asked.kernel.test_run(far, &mut context, asked.cpu)?;
        asked.memory.write(asked.u64(48), &context)?;
        asked.put(4, returned)?;
        DONE
    }
    /// The far side's index of a program.
    pub fn far_program(&mut self, program: usize, asked: &mut Asked<'_>) -> Result<usize, Errno> {
        if self.program(program).far.is_none() {
            self.hand_over(asked.call, asked.kernel)?;
        }
        self.program(program).far.ok_or(Errno(libc::EINVAL))
    }
    /// `BPF_PROG_BIND_MAP`, `BPF_PROG_ASSOC_STRUCT_OPS`: what belongs together is kept by the program's own files.
    pub fn bind_map(&mut self, asked: &mut Asked<'_>) -> Answer {
        self.at(asked.call, asked.u32(0))?;
        self.at(asked.call, asked.u32(4))?;
        DONE
    }
}
