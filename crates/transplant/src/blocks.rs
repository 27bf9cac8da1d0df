//! The instructions of each basic block, from an image's own code.
//!
//! The compiler calls a function where a basic block begins, which the assembler replaces by code that counts
//! (`shim/include/asm/counted.h`), and one of [`ACCESS`] before each access to memory. These are *marks*. A block is
//! the code between two marks of blocks, past jumps that are always taken. Code before a function's first mark belongs
//! to its first block. A block's instructions are counted without marks, their arguments, and padding.
//!
//! For the compiler marks are calls, which cost it registers, so the rest is longer than the same function without
//! them: values are saved and loaded again. Therefore a function's blocks are scaled by its length in the plain image
//! of the same tree.

use crate::abi::RawBlock;
use iced_x86::{Decoder, DecoderOptions, FlowControl, Instruction, Mnemonic, OpKind, Register};
use object::{Object, ObjectSection, ObjectSymbol, SymbolKind};
use schedlab_base::{Error, Result};
use schedlab_kernels::functions::FUNCTIONS_FILE;
use std::collections::{BTreeMap, HashMap, HashSet};
use std::ops::Range;
use std::path::Path;

/// The section with a number for each block, to which the first instruction of its mark adds.
const TIMES: &str = "img_times";
/// A block's mark: inc, sub, js. Its second instruction ends with the number of the block's instructions.
const BLOCK_MARK: usize = 3;
/// Functions of accesses.
const ACCESS: &str = "__tsan_";
/// A walk of this many instructions is a loop of jumps.
const LONGEST: usize = 4096;

/// An image's blocks. Addresses are those of the object.
#[derive(Debug)]
pub(crate) struct Blocks {
    /// In the order of the section [`TIMES`].
    pub blocks: Vec<RawBlock>,
    /// That section.
    pub times: u64,
    /// The end of the code.
    pub end: u64,
    /// The functions of `kernel/sched`.
    pub functions: Vec<Place>,
    /// The first byte of each function of the image, in order, and its name.
    pub starts: Vec<(u64, String)>,
}

/// A function's blocks, by index of [`Blocks::blocks`]; the first is its entry.
#[derive(Debug)]
pub(crate) struct Place {
    pub name: String,
    pub blocks: Vec<u32>,
}

/// An image's functions, decoded.
struct Code {
    functions: Vec<Function>,
    /// The addresses of [`TIMES`], which only marks name.
    times: Range<u64>,
    /// The targets of the calls before accesses.
    accesses: HashSet<u64>,
    /// Addresses of branches that static keys switch: a no-op there is an instruction of the kernel's.
    labels: HashSet<u64>,
}

struct Function {
    name: String,
    code: Vec<Instruction>,
    marks: Vec<Mark>,
}

/// What an instruction is to the counting.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Mark {
    No,
    /// A mark begins.
    Block,
    Access,
    /// It is within a mark.
    Within,
}

impl Code {
    fn read(path: &Path) -> Result<Code> {
        let bytes = std::fs::read(path).map_err(|e| Error::io(path, "read", &e))?;
        let wrong = |what: &dyn std::fmt::Display| {
            Error::internal(format!("{}: its code can't be read: {what}", path.display()))
        };
        let file = object::File::parse(&*bytes).map_err(|e| wrong(&e))?;
        if file.architecture() != object::Architecture::X86_64 {
            return Err(Error::machine("instructions are counted on x86-64 alone").help("take level 'free'"));
        }
        let times = file.section_by_name(TIMES).map_or(0..0, |s| s.address()..s.address() + s.size());
        let mut code = Code { functions: Vec::new(), times, accesses: HashSet::new(), labels: labels(&file) };
        let mut functions = Vec::new();
        for symbol in file.symbols() {
            let name = symbol.name().unwrap_or_default();
            if name.starts_with(ACCESS) {
                code.accesses.insert(symbol.address());
            }
            if symbol.kind() != SymbolKind::Text || symbol.size() == 0 {
                continue;
            }
            let Some(section) = symbol.section_index().and_then(|i| file.section_by_index(i).ok()) else {
                continue;
            };
            let data = section.data_range(symbol.address(), symbol.size()).map_err(|e| wrong(&e))?;
            let decoder =
                Decoder::with_ip(64, data.unwrap_or_default(), symbol.address(), DecoderOptions::NONE);
            functions.push((name.to_owned(), decoder.into_iter().collect()));
        }
        code.functions = functions.into_iter().map(|(name, own)| code.function(name, own)).collect();
        Ok(code)
    }
    /// A function with its marks.
    fn function(&self, name: String, code: Vec<Instruction>) -> Function {
        let mut marks = Vec::with_capacity(code.len());
        while let Some(i) = code.get(marks.len()) {
            let at = i.is_ip_rel_memory_operand().then(|| i.ip_rel_memory_address());
            let (mark, length) = match at {
                Some(at) if self.times.contains(&at) => (Mark::Block, BLOCK_MARK),
                _ if is_direct_call(i) && self.accesses.contains(&i.near_branch_target()) => {
                    (Mark::Access, 1)
                }
                _ => (Mark::No, 1),
            };
            marks.push(mark);
            marks.extend(std::iter::repeat_n(Mark::Within, length - 1));
        }
        Function { name, code, marks }
    }
    /// The number of the kernel's instructions in each function, by name; functions of one name count together.
    fn lengths(&self) -> HashMap<&str, u64> {
        let mut all = HashMap::new();
        for function in &self.functions {
            let own = (0..function.code.len()).filter(|at| self.counts(function, *at));
            *all.entry(function.name.as_str()).or_default() += own.count() as u64;
        }
        all
    }
    /// Whether an instruction is the kernel's: neither padding, nor a part of a mark, nor its argument.
    fn counts(&self, Function { code, marks, .. }: &Function, at: usize) -> bool {
        let i = &code[at];
        let is_argument = sets_argument(i) && marks.get(at + 1) == Some(&Mark::Access);
        let pads = i.mnemonic() == Mnemonic::Nop && !self.labels.contains(&i.ip());
        !pads && marks[at] == Mark::No && !is_argument
    }
    /// The instructions of the block whose mark begins at `from`.
    fn block(&self, function: &Function, places: &BTreeMap<u64, usize>, from: usize) -> u64 {
        let (mut at, mut found) = (from + BLOCK_MARK, 0);
        for _ in 0..LONGEST {
            let Some(i) = function.code.get(at).filter(|_| function.marks[at] != Mark::Block) else { break };
            found += u64::from(self.counts(function, at));
            at = match i.flow_control() {
                FlowControl::UnconditionalBranch => match places.get(&i.near_branch_target()) {
                    Some(target) => *target,
                    None => break,
                },
                FlowControl::Return | FlowControl::IndirectBranch | FlowControl::Exception => break,
                _ => at + 1,
            };
        }
        found
    }
}

/// The addresses of a file's jump labels, from its table: each entry has 16 bytes, the first 4 relative to the entry.
fn labels(file: &object::File<'_>) -> HashSet<u64> {
    let Some(table) = file.section_by_name("__jump_table") else { return HashSet::new() };
    let entries = table.data().unwrap_or_default().chunks_exact(16).enumerate();
    let place = |(i, entry): (usize, &[u8])| {
        let way = i32::from_le_bytes(entry.first_chunk().copied()?);
        table.address().checked_add(16 * i as u64)?.checked_add_signed(way.into())
    };
    entries.filter_map(place).collect()
}

fn is_direct_call(i: &Instruction) -> bool {
    i.flow_control() == FlowControl::Call && i.op0_kind() == OpKind::NearBranch64
}

/// Whether it only sets the register of a first argument.
fn sets_argument(i: &Instruction) -> bool {
    matches!(i.mnemonic(), Mnemonic::Lea | Mnemonic::Mov)
        && i.op0_kind() == OpKind::Register
        && i.op0_register() == Register::RDI
}

impl Blocks {
    /// The blocks of an image that reports them; `plain` is the image of the same tree that does not.
    ///
    /// # Errors
    /// When files can't be read, and when the image has no such calls.
    pub(crate) fn of(object: &Path, plain: &Path) -> Result<Blocks> {
        let (counted, plain) = (Code::read(object)?, Code::read(plain)?);
        let end = counted.functions.iter().filter_map(|f| Some(f.code.last()?.next_ip())).max();
        let none = || Error::internal(format!("{} reports no basic blocks", object.display()));
        let end = end.filter(|_| !counted.times.is_empty()).ok_or_else(none)?;
        let (long, short) = (counted.lengths(), plain.lengths());
        let number = (counted.times.end - counted.times.start) / 8;
        let mut all = vec![RawBlock { at: 0, instructions: 0 }; number as usize];
        let schedulers = functions_of_scheduler(object)?;
        let mut functions = Vec::new();
        for function in &counted.functions {
            let Function { name, code, marks } = function;
            let places = code.iter().enumerate().map(|(at, i)| (i.ip(), at)).collect();
            let mut blocks = Vec::new();
            let scale = long.get(name.as_str()).zip(short.get(name.as_str()));
            let first = marks.iter().position(|mark| *mark == Mark::Block).unwrap_or(code.len());
            let mut before = (0..first).filter(|at| counted.counts(function, *at)).count() as u64;
            for at in (first..code.len()).filter(|at| marks[*at] == Mark::Block) {
                let found = std::mem::take(&mut before) + counted.block(function, &places, at);
                let found = scale
                    .filter(|(long, _)| **long > 0)
                    .map_or(found, |(long, short)| (found * short + long / 2) / long);
                let block = (code[at].ip_rel_memory_address() - counted.times.start) / 8;
                all[block as usize] = RawBlock {
                    at: (code[at + 1].next_ip() - 4) as u32,
                    instructions: found.min(u16::MAX.into()) as u32,
                };
                blocks.push(block as u32);
            }
            if schedulers.contains(name) && !blocks.is_empty() {
                functions.push(Place { name: name.clone(), blocks });
            }
        }
        let start = |f: &Function| Some((f.code.first()?.ip(), f.name.clone()));
        let mut starts: Vec<(u64, String)> = counted.functions.iter().filter_map(start).collect();
        starts.sort();
        Ok(Blocks { blocks: all, times: counted.times.start, end, functions, starts })
    }
}

/// Names of the functions of `kernel/sched`, from the table next to an image.
fn functions_of_scheduler(object: &Path) -> Result<HashSet<String>> {
    let path = object.with_file_name(FUNCTIONS_FILE);
    let table = std::fs::read_to_string(&path).map_err(|e| Error::io(&path, "read", &e))?;
    Ok(table.lines().filter_map(|line| line.split(' ').nth(2)).map(str::to_owned).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    const AT: u64 = 0x1000;
    const TIMES_AT: u64 = 0x2000;
    const ACCESS_AT: u64 = 0x3000;

    /// An instruction that ends with the way to `target` from its end, and `more`.
    fn relative(code: &mut Vec<u8>, opcode: &[u8], target: u64, more: &[u8]) {
        code.extend(opcode);
        let end = AT + (code.len() + 4 + more.len()) as u64;
        code.extend((target as i64 - end as i64).to_le_bytes()[..4].iter());
        code.extend(more);
    }
    fn block(code: &mut Vec<u8>, number: u64) {
        relative(code, &[0x48, 0xff, 0x05], TIMES_AT + 8 * number, &[]);
        relative(code, &[0x81, 0x2d], 0x5000, &[0; 4]);
        relative(code, &[0x0f, 0x88], 0x6000, &[]);
    }

    /// push rbx; block 0; lea rdi, [rbx+8]; an access; mov rbx, [rbx+8]; test rbx, rbx; je to block 1; nop; jmp there;
    /// int3 twice; block 1; pop rbx; ret.
    fn sample() -> Code {
        let mut code = vec![0x53];
        block(&mut code, 0);
        code.extend([0x48, 0x8d, 0x7b, 0x08]);
        relative(&mut code, &[0xe8], ACCESS_AT, &[]);
        code.extend([0x48, 0x8b, 0x5b, 0x08, 0x48, 0x85, 0xdb, 0x74, 0x05, 0x90, 0xeb, 0x02, 0xcc, 0xcc]);
        block(&mut code, 1);
        code.extend([0x5b, 0xc3]);
        let decoded: Vec<Instruction> =
            Decoder::with_ip(64, &code, AT, DecoderOptions::NONE).into_iter().collect();
        let mut code = Code {
            functions: Vec::new(),
            times: TIMES_AT..TIMES_AT + 16,
            accesses: HashSet::from([ACCESS_AT]),
            labels: HashSet::new(),
        };
        code.functions = vec![code.function("f".to_owned(), decoded)];
        code
    }

    #[test]
    fn a_block_is_counted_without_what_the_compiler_adds() {
        let code = sample();
        let own = &code.functions[0];
        let places = own.code.iter().enumerate().map(|(at, i)| (i.ip(), at)).collect();
        let blocks: Vec<usize> = (0..own.code.len()).filter(|at| own.marks[*at] == Mark::Block).collect();
        // mov, test, je, jmp; then pop, ret. Marks, lea and nop are not counted; the int3 is jumped over.
        let found: Vec<u64> = blocks.iter().map(|at| code.block(own, &places, *at)).collect();
        assert_eq!(found, [4, 2]);
        // A static key's branch that does nothing counts.
        let nop = own.code.iter().find(|i| i.mnemonic() == Mnemonic::Nop).unwrap().ip();
        let keyed = Code { labels: HashSet::from([nop]), ..sample() };
        assert_eq!(keyed.block(own, &places, blocks[0]), 5);
        // push before the first block, and the int3 twice: all that the function's text has.
        assert_eq!(code.lengths()["f"], 1 + 4 + 2 + 2);
    }
}
