//! Compiled schedulers: `mine.bpf.o` to a [`Scheduler`].
//!
//! # Problem
//!
//! An object names what it needs: maps by their definitions, the kernel's functions by their names, fields of the
//! kernel's types by paths, a setting of the kernel's build by its name. Usually a program of the scheduler's author
//! resolves all that with a library when it loads the object. Here there is none, so its part is done here, and
//! the values that it would set are given as a list ([`Values`]).
//!
//! # Solution
//!
//! ```text
//! elf, ext    sections, symbols, relocations; what the program asks about types
//!     +--> maps, definition       definitions, sections of data
//!     +--> externs           kfuncs, variables and settings of the kernel, by name and prototype
//!     +--> core, spec, similar, patch     CO-RE
//!     +--> link              references in code; each program with the functions that it calls behind it
//!     +--> ops               the struct of operations
//!     +--> values            what was set from outside
//!     +--> setup             programs that run before the scheduler is attached
//!     +--> check             opcodes, registers, jumps
//! ```
//!
//! What a kernel lacks is not an error here if the program may do without it: such instructions are marked
//! ([`Program::missing`](crate::Program::missing)), and a run that reaches one ends.

mod check;
mod core;
mod definition;
mod elf;
pub(crate) mod ext;
mod externs;
mod link;
mod maps;
mod ops;
mod patch;
mod programs;
mod setup;
mod similar;
mod spec;
mod values;

pub use check::whole;

use crate::Scheduler;
use crate::btf::Btf;
use schedlab_base::Result;

/// What to set or do before the scheduler is loaded: name and value, in this order ([`WORDS`]).
pub type Values = Vec<(String, String)>;

/// The words, each as NAME=VALUE, with what they set or do: docs/sched-ext.md has this table.
///
/// A value is a number, names of the kernel's enumerators with `|` between them, a list with commas for an array, or
/// the text of an array of characters.
pub const WORDS: [(&str, &str); 9] = [
    ("`NAME=V`", "a global variable"),
    ("`NAME.MEMBER=V`, `NAME[I]=V`", "a part of one; parts of parts follow each other"),
    ("`ops.MEMBER=V`", "a member of the operations; 0 leaves an operation out"),
    ("`ops=NAME`", "which struct of operations, if the object has several"),
    ("`map:NAME.max_entries=N`", "the entries of a map"),
    ("`map:NAME.value_size=N`", "the bytes of a map's value, for a section of data that ends with an array"),
    ("`map:NAME.inner=N`", "so many inner maps are made for a map of maps"),
    (
        "`run:PROGRAM=V,V`",
        "a program of kind syscall runs first, its argument's members are these numbers; `cpu`: once for each CPU",
    ),
    (
        "`arena=STRUCT`",
        "scx's library of arenas is prepared for the machine, with a struct of that type for each task",
    ),
];

/// What a program may know of the kernel.
#[derive(Clone, Copy)]
pub struct Kernel<'a> {
    pub btf: &'a Btf,
    /// `LINUX_VERSION_CODE`: 7.3.4 is 0x070304.
    pub version: u32,
    /// A setting of the kernel's build by its name: `y`, `m`, `n`, a number, or text in quotes.
    pub config: &'a dyn Fn(&str) -> Option<String>,
    /// Functions that exist though the BTF has none of that name. Calls of them are in
    /// [`Program::missing`](crate::Program::missing), but a program that asks finds them.
    pub supplies: &'a dyn Fn(&str) -> bool,
}

impl<'a> Kernel<'a> {
    /// A kernel of which nothing but its types is known.
    pub fn new(btf: &'a Btf) -> Kernel<'a> {
        Kernel { btf, version: 0, config: &|_| None, supplies: &|_| false }
    }
}

/// An object's own parts, and the kernel it is read for.
struct Source<'a> {
    elf: elf::Elf<'a>,
    own: Btf,
    kernel: Kernel<'a>,
    cpus: u32,
}

/// Reads an object of a BPF compiler for a kernel with that many CPUs. `name` is the file's, for messages.
///
/// # Errors
/// If the bytes are not such an object, hold no struct of operations or more than one, need an operation or setting
/// that the kernel lacks, or a value's name is unknown.
pub fn read(bytes: &[u8], name: &str, kernel: &Kernel, values: &Values, cpus: u32) -> Result<Scheduler> {
    let elf = elf::Elf::parse(bytes, name)?;
    let types = elf.find(".BTF").ok_or_else(|| elf.refused("it has no section .BTF"))?.data;
    let own = Btf::parse(types).map_err(|e| elf.refused(&format!("section .BTF: {e}")))?;
    let source = Source { elf, own, kernel: *kernel, cpus };
    let mut maps = maps::Maps::read(&source)?;
    let externs = externs::Externs::read(&source, &mut maps)?;
    maps.set_enumerators(&source)?;
    let rest = values::set(&source, &mut maps, values)?;
    maps.check(&source)?;
    let code = link::Code::read(&source, &maps, &externs)?;
    let mut ops = ops::read(&source, &code, &rest)?;
    let programs = programs::build(&source, &code, &mut ops)?;
    let btf = types.to_vec();
    let setup = setup::read(&source, values, &programs)?;
    let made = Scheduler { name: ops.name, maps: maps.all, programs, ops: ops.made, setup, btf };
    check::whole(&made, kernel.btf, name)?;
    Ok(made)
}

#[cfg(test)]
mod tests;
