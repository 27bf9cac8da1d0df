//! Programs: a function that the kernel starts, with those that it calls behind it.

use super::Source;
use super::link::{Code, Function};
use super::ops::Found;
use crate::{Program, Target};
use schedlab_base::Result;
use std::collections::{BTreeSet, HashMap};

/// Instructions of one program; a kernel takes a million.
const LONGEST: usize = 1_000_000;

/// `enum bpf_prog_type` by the section's name up to a slash.
const KINDS: [(&str, u32); 43] = [
    ("socket", 1),
    ("kprobe", 2),
    ("kretprobe", 2),
    ("uprobe", 2),
    ("uprobe.s", 2),
    ("uretprobe", 2),
    ("uretprobe.s", 2),
    ("kprobe.multi", 2),
    ("kretprobe.multi", 2),
    ("kprobe.session", 2),
    ("uprobe.multi", 2),
    ("uretprobe.multi", 2),
    ("usdt", 2),
    ("usdt.s", 2),
    ("ksyscall", 2),
    ("kretsyscall", 2),
    ("tc", 3),
    ("classifier", 3),
    ("tp", 5),
    ("tracepoint", 5),
    ("xdp", 6),
    ("perf_event", 7),
    ("raw_tp", 17),
    ("raw_tracepoint", 17),
    ("raw_tp.w", 24),
    ("raw_tracepoint.w", 24),
    ("tp_btf", 26),
    ("fentry", 26),
    ("fentry.s", 26),
    ("fexit", 26),
    ("fexit.s", 26),
    ("fmod_ret", 26),
    ("fmod_ret.s", 26),
    ("iter", 26),
    ("iter.s", 26),
    ("fsession", 26),
    ("struct_ops", STRUCT_OPS),
    ("struct_ops.s", STRUCT_OPS),
    ("freplace", 28),
    ("lsm", 29),
    ("lsm.s", 29),
    ("lsm_cgroup", 29),
    ("syscall", 31),
];
const STRUCT_OPS: u32 = 27;

/// The kind of the programs of a section. A question mark says that a program is not loaded unless it is asked for.
fn kind(section: &str) -> Option<u32> {
    let name = section.trim_start_matches('?').split(['/', '+']).next().unwrap_or_default();
    KINDS.iter().find(|(k, _)| *k == name).map(|(_, kind)| *kind)
}

/// What the programs of a section are attached to: a tracepoint or a function, by its name behind the slash.
fn target(section: &str) -> Option<Target> {
    let (kind, name) = section.trim_start_matches('?').split_once('/')?;
    let name = name.to_owned();
    match kind {
        "tp_btf" | "raw_tp" | "raw_tracepoint" | "raw_tp.w" | "raw_tracepoint.w" => {
            Some(Target::Tracepoint(name))
        }
        "fentry" | "fentry.s" => Some(Target::Entry(name)),
        "fexit" | "fexit.s" => Some(Target::Exit(name)),
        "kprobe" => Some(Target::Probe(name)),
        "kretprobe" => Some(Target::ReturnProbe(name)),
        _ => None,
    }
}

/// Makes the programs: those that operations name, and those of other kinds. Writes their indices into `ops`.
pub(super) fn build(source: &Source, code: &Code, ops: &mut Found) -> Result<Vec<Program>> {
    let asked: BTreeSet<usize> = ops.functions.iter().copied().collect();
    let mut made = Vec::new();
    let mut index = HashMap::new();
    for (at, function) in code.functions.iter().enumerate() {
        let section = source.elf.sections[function.section].name;
        if section == ".text" {
            continue;
        }
        let Some(kind) = kind(section) else {
            return Err(source.elf.refused(&format!("section {section} is of no known kind of programs")));
        };
        let loaded = function.global && kind != STRUCT_OPS && !section.starts_with('?');
        if loaded || asked.contains(&at) {
            index.insert(at, made.len());
            let program = Builder { source, code }.program(at, kind)?;
            made.push(Program { target: target(section), ..program });
        }
    }
    for (member, function) in ops.made.members.iter_mut().zip(&ops.functions) {
        let program = index.get(function);
        member.1 =
            *program.ok_or_else(|| source.elf.refused(&format!("operation {} is in .text", member.2)))?;
    }
    Ok(made)
}

struct Builder<'a> {
    source: &'a Source<'a>,
    code: &'a Code<'a>,
}

impl Builder<'_> {
    fn program(&self, main: usize, kind: u32) -> Result<Program> {
        let order = self.order(main)?;
        let mut starts = HashMap::new();
        let mut program = Program { name: self.function(main).name.to_owned(), kind, ..Program::default() };
        for f in &order {
            let function = self.function(*f);
            starts.insert(*f, program.instructions.len());
            let (place, end) = ((function.section, function.start), function.start + function.len);
            let missing = self.code.missing.range(place..(function.section, end));
            let base = program.instructions.len();
            program
                .missing
                .extend(missing.map(|((_, i), n)| ((base + i - function.start) as u32, n.clone())));
            let lines = self.code.lines.range(place..(function.section, end));
            program.lines.extend(lines.map(|((_, i), l)| ((base + i - function.start) as u32, l.clone())));
            program.instructions.extend(&self.code.sections[&function.section][function.start..end]);
        }
        for f in &order {
            let (function, base) = (self.function(*f), starts[f]);
            for i in 0..function.len {
                if let Some(to) = self.target(function, i)? {
                    let distance = starts[&to] as i64 - (base + i) as i64 - 1;
                    program.instructions[base + i].imm = distance as i32;
                }
            }
        }
        Ok(program)
    }
    fn function(&self, at: usize) -> &Function<'_> {
        &self.code.functions[at]
    }
    /// A function's callees stand behind it in the order of its calls, each with its own callees first.
    fn order(&self, main: usize) -> Result<Vec<usize>> {
        let (mut order, mut seen) = (vec![main], BTreeSet::from([main]));
        let mut open = vec![(main, 0)];
        let mut total = self.function(main).len;
        while let Some((f, i)) = open.pop() {
            let function = self.function(f);
            if i == function.len {
                continue;
            }
            open.push((f, i + 1));
            let Some(to) = self.target(function, i)?.filter(|to| seen.insert(*to)) else { continue };
            order.push(to);
            open.push((to, 0));
            total += self.function(to).len;
            if total > LONGEST {
                let what =
                    format!("program {} has more than {LONGEST} instructions", self.function(main).name);
                return Err(self.source.elf.refused(&what));
            }
        }
        Ok(order)
    }
    /// The function that an instruction refers to.
    fn target(&self, function: &Function, i: usize) -> Result<Option<usize>> {
        let place = (function.section, function.start + i);
        let Some(to) = self.code.references.get(&place) else { return Ok(None) };
        let at = self.code.function_at(*to).ok_or_else(|| {
            let what = format!("{} refers to where no function begins", self.code.name(place));
            self.source.elf.refused(&what)
        })?;
        Ok(Some(at))
    }
}
