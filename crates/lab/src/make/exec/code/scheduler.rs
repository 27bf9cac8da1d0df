//! The sched_ext scheduler of a variant, read for its image and its machine.

use crate::ask::cell::Cell;
use crate::ask::code::CodeImage;
use crate::ask::scx;
use schedlab_base::{Error, Ns, Result, SchedulerFailure, Version};
use schedlab_kernel::Scx as Named;
use schedlab_kernels::kconfig;
use schedlab_machine::topology::FULL_CAPACITY;
use schedlab_machine::{Cpu, Machine, Sharing};
use schedlab_scx::broker::sysfs::{self, CacheKind};
use schedlab_scx::broker::{BTF, Node, Request};
use schedlab_scx::btf::{Btf, for_programs};
use schedlab_scx::object::{Kernel, Values, read};
use schedlab_transplant::{Ext, Program, Scx};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Files of an image: its BTF, its configuration.
const IMAGE_BTF: &str = "btf";
const CONFIG: &str = "config";
/// What the files of a machine say that its own file does not.
const LEAST_KHZ: u32 = 800_000;
const MOST_KHZ: u32 = 3_000_000;
const NODE_BYTES: u64 = 64 << 30;
const LLC_BYTES: u64 = 32 << 20;

/// The wall-clock time that a scheduler's program may take between two calls.
const PATIENCE: Duration = Duration::from_secs(60);

/// The scheduler that a variant names: an object with values that its own program would set, or a program with its
/// arguments.
///
/// # Errors
/// When it is not a compiled scheduler, or needs what this kernel lacks.
pub(super) fn of(scx: &Named, machine: &Machine, code: &CodeImage) -> Result<Option<Scx>> {
    if scx.is_none() {
        return Ok(None);
    }
    let (path, words) = scx.words().ok_or_else(|| Error::internal("a scheduler without a program"))?;
    // Values that follow the machine: one text serves all machines.
    let cpus = machine.topology.nr_cpus().to_string();
    let words: Vec<String> = words.iter().map(|word| word.replace("{cpus}", &cpus)).collect();
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    let path = Path::new(path);
    let bytes = std::fs::read(path).map_err(|e| Error::io(path, "read the scheduler", &e))?;
    let seen = Seen::of(code)?;
    let made = match scx::is_object(&bytes) {
        true => seen.object((path, &bytes), &words, machine, code).map(|ext| Scx::Object(Box::new(ext))),
        false => seen.program(path, &words, machine, code).map(|program| Scx::Program(Box::new(program))),
    };
    made.map(Some).map_err(|e| e.of_scheduler(SchedulerFailure::Refused))
}

/// The schedulers of a variant's changes, each from its time on; `None`: the kernel's own classes.
///
/// # Errors
/// As [`of`].
pub(super) fn later(cell: &Cell, warmup: Ns, code: &CodeImage) -> Result<Vec<(Ns, Option<Scx>)>> {
    let with = cell.variant.at.iter().filter_map(|change| Some((change.time, change.scx.as_ref()?)));
    with.map(|(time, scx)| Ok((warmup.plus(time), of(scx, &cell.machine, code)?))).collect()
}

/// What a scheduler sees of the kernel: the image's BTF and configuration.
struct Seen {
    types: Vec<u8>,
    btf: Btf,
    config: String,
}

impl Seen {
    fn of(code: &CodeImage) -> Result<Seen> {
        let beside = |file: &str| code.object.with_file_name(file);
        let lacks = |e: &std::io::Error| {
            Error::io(&beside(IMAGE_BTF), "read", e).help(
                "a kernel without sched_ext has none: take 6.12 or later; else 'schedlab kernel build --code' builds it",
            )
        };
        let types = std::fs::read(beside(IMAGE_BTF)).map_err(|e| lacks(&e))?;
        let btf = Btf::parse(&types)?;
        let config = beside(CONFIG);
        let config = std::fs::read_to_string(&config).map_err(|e| Error::io(&config, "read", &e))?;
        Ok(Seen { types, btf, config })
    }
    fn object(
        self,
        (path, bytes): (&Path, &[u8]),
        words: &[&str],
        machine: &Machine,
        code: &CodeImage,
    ) -> Result<Ext> {
        let option = |name: &str| kconfig::value_in(&self.config, name.strip_prefix("CONFIG_")?);
        let kernel =
            Kernel { version: version_code(code.version), config: &option, ..Kernel::new(&self.btf) };
        let name = path.file_name().map_or_else(String::new, |name| name.to_string_lossy().into_owned());
        let values = words.iter().map(|word| scx::value(word, &name)).collect::<Result<Values>>()?;
        let named = |e: Error| if e.message().contains(&name) { e } else { e.context(&name) };
        let cpus = machine.topology.nr_cpus() as u32;
        let scheduler = read(bytes, &name, &kernel, &values, cpus).map_err(named)?;
        Ok(Ext { scheduler, btf: self.btf })
    }
    fn program(self, path: &Path, words: &[&str], machine: &Machine, code: &CodeImage) -> Result<Program> {
        let mut tree = sysfs::files(&files_of(machine, &self.config));
        tree.put(BTF, Node::File(for_programs(&self.types)?));
        let request = Request {
            program: path.to_owned(),
            arguments: words.iter().map(|word| (*word).to_owned()).collect(),
            environment: vec![("LANG".to_owned(), "C".to_owned())],
            readable: files_in(words),
            tree,
            cpus: machine.topology.nr_cpus() as u32,
            memory_bytes: NODE_BYTES * machine.topology.node_distance.len() as u64,
            release: format!("{}.{}.{}", code.version.major, code.version.minor, code.version.patch),
            start_ns: 0,
            patience: PATIENCE,
        };
        Ok(Program { request, btf: self.btf })
    }
}

/// The files that a program's arguments name by whole paths, under all of their names.
fn files_in(words: &[&str]) -> Vec<PathBuf> {
    let files = words.iter().filter_map(|word| scx::with_file(word, Path::new("/")).1);
    files.flat_map(|path| [path.canonicalize().ok(), Some(path)]).flatten().collect()
}

/// A machine as its files in /sys show it.
fn files_of(machine: &Machine, config: &str) -> sysfs::Machine {
    let topology = &machine.topology;
    let cpu = |(at, cpu): (usize, &Cpu)| sysfs::Cpu {
        core: cpu.core,
        cluster: cpu.cluster,
        die: 0,
        package: cpu.package,
        node: cpu.node,
        capacity: topology.capacity.get(at).copied().unwrap_or(FULL_CAPACITY),
        least_khz: LEAST_KHZ,
        most_khz: MOST_KHZ,
    };
    let cpus: Vec<sysfs::Cpu> = topology.cpus.iter().enumerate().map(cpu).collect();
    let nodes = topology.node_distance.iter();
    let nodes = nodes.map(|row| sysfs::Node { memory_bytes: NODE_BYTES, distances: row.clone() }).collect();
    sysfs::Machine { cpus, caches: caches_of(machine), nodes, config: config.to_owned() }
}

/// A cache of a machine's files: level, kind, bytes, bytes of a line, who shares it.
type Cached = (u32, CacheKind, u64, u32, Sharing);

/// The caches of the machine's own file, and usual ones where it has none: programs look for four.
fn caches_of(machine: &Machine) -> Vec<sysfs::Cache> {
    let usual = [
        (1, CacheKind::Data, 32 << 10, Sharing::Core),
        (1, CacheKind::Instruction, 32 << 10, Sharing::Core),
        (2, CacheKind::Unified, 1 << 20, Sharing::Core),
        (3, CacheKind::Unified, LLC_BYTES, Sharing::Llc),
    ];
    let known = |level: u32| machine.caches.iter().find(|cache| cache.level == level);
    let one = |(level, kind, bytes, shared): (u32, CacheKind, u64, Sharing)| -> Cached {
        let own = known(level).map(|cache| (level, kind, cache.size_kb << 10, cache.line, cache.shared));
        own.unwrap_or((level, kind, bytes, 64, shared))
    };
    usual.into_iter().map(one).flat_map(|cache| copies_of(cache, &machine.topology.cpus)).collect()
}

/// A cache for each group of CPUs that share one.
fn copies_of((level, kind, bytes, line_bytes, shared): Cached, cpus: &[Cpu]) -> Vec<sysfs::Cache> {
    let key = |cpu: &Cpu| match shared {
        Sharing::Core => (cpu.package, cpu.core),
        Sharing::Cluster => (cpu.package, cpu.cluster),
        Sharing::Llc => (cpu.llc, 0),
    };
    let mut shares: BTreeMap<(u32, u32), Vec<u32>> = BTreeMap::new();
    cpus.iter().enumerate().for_each(|(at, cpu)| shares.entry(key(cpu)).or_default().push(at as u32));
    let all = shares.into_values().zip(0..);
    all.map(|(cpus, id)| sysfs::Cache { level, kind, id, bytes, line_bytes, ways: 16, cpus }).collect()
}

/// `LINUX_VERSION_CODE`.
fn version_code(version: Version) -> u32 {
    u32::from(version.major) << 16 | u32::from(version.minor) << 8 | u32::from(version.patch).min(255)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_among_the_arguments_of_a_program_are_shown_to_it() {
        let own = std::env::current_exe().unwrap().canonicalize().unwrap();
        let folder = own.parent().unwrap().display().to_string();
        let words =
            [format!("--config={}", own.display()), format!("f:{}", own.display()), folder, "-v".to_owned()];
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        assert_eq!(files_in(&words), vec![own; 4], "no folder, and no option");
    }
}
