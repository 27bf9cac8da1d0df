//! The instructions of each basic block, from an image's own code.
//!
//! The compiler calls [`BLOCK`] where a basic block begins, and one of [`ACCESS`] before each access to memory. A block
//! is the code between two calls of [`BLOCK`], past jumps that are always taken. Code before a function's first call
//! belongs to its first block. A block's instructions are counted without those calls, their arguments, and padding.
//!
//! The calls cost the compiler registers, so the rest is longer than the same function without them: values are saved
//! and loaded again. Therefore a function's blocks are scaled by its length in the plain image of the same tree.

use iced_x86::{Decoder, DecoderOptions, FlowControl, Instruction, Mnemonic, OpKind, Register};
use object::{Object, ObjectSection, ObjectSymbol, SymbolKind};
use schedlab_base::{Error, Result};
use schedlab_kernels::functions::FUNCTIONS_FILE;
use std::collections::{BTreeMap, HashMap, HashSet};
use std::path::Path;

const BLOCK: &str = "__sanitizer_cov_trace_pc";
const ACCESS: &str = "__tsan_";
/// A walk of this many instructions is a loop of jumps.
const LONGEST: usize = 4096;

/// Instructions by byte of an image's code.
#[derive(Debug)]
pub(crate) struct Blocks {
    /// The first byte's address in the object.
    pub from: u64,
    /// Instructions of the block after a call that returns to this byte; 0: no call does.
    pub instructions: Vec<u16>,
    /// The functions of `kernel/sched`.
    pub functions: Vec<Place>,
    /// The first byte of each function of the image, in order, and its name.
    pub starts: Vec<(u64, String)>,
}

/// A function's blocks, by index of [`Blocks::instructions`]; the first is its entry.
#[derive(Debug)]
pub(crate) struct Place {
    pub name: String,
    pub blocks: Vec<u32>,
}

/// An image's functions, decoded.
struct Code {
    functions: Vec<Function>,
    /// The target of the compiler's calls.
    block: Option<u64>,
    accesses: Vec<u64>,
    /// Addresses of branches that static keys switch: a no-op there is an instruction of the kernel's.
    labels: HashSet<u64>,
}

struct Function {
    name: String,
    code: Vec<Instruction>,
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
        let mut code =
            Code { functions: Vec::new(), block: None, accesses: Vec::new(), labels: labels(&file) };
        for symbol in file.symbols() {
            let name = symbol.name().unwrap_or_default();
            match name {
                BLOCK => code.block = Some(symbol.address()),
                _ if name.starts_with(ACCESS) => code.accesses.push(symbol.address()),
                _ => {}
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
            code.functions.push(Function { name: name.to_owned(), code: decoder.into_iter().collect() });
        }
        Ok(code)
    }
    fn is_block(&self, i: &Instruction) -> bool {
        i.flow_control() == FlowControl::Call && self.block == Some(i.near_branch_target())
    }
    fn is_access(&self, i: &Instruction) -> bool {
        is_direct_call(i) && self.accesses.contains(&i.near_branch_target())
    }
    /// The number of the kernel's instructions in each function, by name; functions of one name count together.
    fn lengths(&self) -> HashMap<&str, u64> {
        let mut all = HashMap::new();
        for function in &self.functions {
            let own = function.code.iter().enumerate().filter(|(at, _)| self.counts(&function.code, *at));
            *all.entry(function.name.as_str()).or_default() += own.count() as u64;
        }
        all
    }
    /// Whether an instruction is the kernel's: neither padding, nor one of the compiler's calls, nor its argument.
    fn counts(&self, code: &[Instruction], at: usize) -> bool {
        let i = &code[at];
        let is_argument = sets_argument(i) && code.get(at + 1).is_some_and(|next| self.is_access(next));
        let pads = i.mnemonic() == Mnemonic::Nop && !self.labels.contains(&i.ip());
        !pads && !self.is_block(i) && !self.is_access(i) && !is_argument
    }
    /// The instructions of the block that begins at `from`.
    fn block(&self, code: &[Instruction], places: &BTreeMap<u64, usize>, from: usize) -> u64 {
        let (mut at, mut found) = (from, 0);
        for _ in 0..LONGEST {
            let Some(i) = code.get(at).filter(|i| !self.is_block(i)) else { break };
            found += u64::from(self.counts(code, at));
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
        let ends = |f: &Function| Some((f.code.first()?.ip(), f.code.last()?.next_ip()));
        let range = counted.functions.iter().filter_map(ends).reduce(|a, b| (a.0.min(b.0), a.1.max(b.1)));
        let none = || Error::internal(format!("{} reports no basic blocks", object.display()));
        let (from, to) = range.filter(|_| counted.block.is_some()).ok_or_else(none)?;
        let (long, short) = (counted.lengths(), plain.lengths());
        let mut instructions = vec![0; (to - from) as usize + 1];
        let schedulers = functions_of_scheduler(object)?;
        let mut functions = Vec::new();
        for Function { name, code } in &counted.functions {
            let places = code.iter().enumerate().map(|(at, i)| (i.ip(), at)).collect();
            let mut blocks = Vec::new();
            let scale = long.get(name.as_str()).zip(short.get(name.as_str()));
            let mut before = (0..code.len()).take_while(|at| !counted.is_block(&code[*at]));
            let mut before = before.by_ref().filter(|at| counted.counts(code, *at)).count() as u64;
            for (at, i) in code.iter().enumerate().filter(|(_, i)| counted.is_block(i)) {
                let found = std::mem::take(&mut before) + counted.block(code, &places, at + 1);
                let found = scale
                    .filter(|(long, _)| **long > 0)
                    .map_or(found, |(long, short)| (found * short + long / 2) / long);
                instructions[(i.next_ip() - from) as usize] = found.min(u16::MAX.into()) as u16;
                blocks.push((i.next_ip() - from) as u32);
            }
            if schedulers.contains(name) && !blocks.is_empty() {
                functions.push(Place { name: name.clone(), blocks });
            }
        }
        let start = |f: &Function| Some((f.code.first()?.ip(), f.name.clone()));
        let mut starts: Vec<(u64, String)> = counted.functions.iter().filter_map(start).collect();
        starts.sort();
        Ok(Blocks { from, instructions, functions, starts })
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
    const BLOCK_AT: u64 = 0x2000;
    const ACCESS_AT: u64 = 0x3000;

    /// A call as the compiler writes it: e8 and the way from its end.
    fn call(code: &mut Vec<u8>, target: u64) {
        let end = AT + code.len() as u64 + 5;
        code.push(0xe8);
        code.extend((target as i64 - end as i64).to_le_bytes()[..4].iter());
    }

    /// push rbx; BLOCK; lea rdi, [rbx+8]; ACCESS; mov rbx, [rbx+8]; test rbx, rbx; je to the second block; nop; jmp
    /// there; int3 twice; the second BLOCK; pop rbx; ret.
    fn sample() -> (Code, Vec<usize>) {
        let mut code = vec![0x53];
        call(&mut code, BLOCK_AT);
        code.extend([0x48, 0x8d, 0x7b, 0x08]);
        call(&mut code, ACCESS_AT);
        code.extend([0x48, 0x8b, 0x5b, 0x08, 0x48, 0x85, 0xdb, 0x74, 0x05, 0x90, 0xeb, 0x02, 0xcc, 0xcc]);
        call(&mut code, BLOCK_AT);
        code.extend([0x5b, 0xc3]);
        let decoded: Vec<Instruction> =
            Decoder::with_ip(64, &code, AT, DecoderOptions::NONE).into_iter().collect();
        let function = Function { name: "f".to_owned(), code: decoded };
        let (accesses, labels) = (vec![ACCESS_AT], HashSet::new());
        let code = Code { functions: vec![function], block: Some(BLOCK_AT), accesses, labels };
        let own = &code.functions[0].code;
        let blocks = (0..own.len()).filter(|at| code.is_block(&own[*at])).collect();
        (code, blocks)
    }

    #[test]
    fn a_block_is_counted_without_the_compilers_calls() {
        let (code, blocks) = sample();
        let own = &code.functions[0].code;
        let places = own.iter().enumerate().map(|(at, i)| (i.ip(), at)).collect();
        // mov, test, je, jmp; then pop, ret. The calls, lea and nop are not counted; the int3 is jumped over.
        let found: Vec<u64> = blocks.iter().map(|at| code.block(own, &places, at + 1)).collect();
        assert_eq!(found, [4, 2]);
        // A static key's branch that does nothing counts.
        let nop = own.iter().find(|i| i.mnemonic() == Mnemonic::Nop).unwrap().ip();
        let keyed = Code { labels: HashSet::from([nop]), ..sample().0 };
        assert_eq!(keyed.block(own, &places, blocks[0] + 1), 5);
        // push before the first block, and the int3 twice: all that the function's text has.
        assert_eq!(code.lengths()["f"], 1 + 4 + 2 + 2);
    }
}
