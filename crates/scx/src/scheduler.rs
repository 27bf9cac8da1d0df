//! A scheduler in the form of bpf(2), of Linux 6.12 and later: maps, relocated programs, and the struct of operations.

/// An instruction: `struct bpf_insn` of include/uapi/linux/bpf.h, 8 bytes in little-endian order.
///
/// References are in the form of bpf(2). A 16-byte load (`BPF_LD | BPF_IMM | BPF_DW`) is two of these, and its source
/// register says what its value is: `BPF_PSEUDO_MAP_FD` (1) a map, `BPF_PSEUDO_MAP_VALUE` (2) a place in the value of a
/// map (`imm` of the second), `BPF_PSEUDO_BTF_ID` (3) a variable or function of the kernel, `BPF_PSEUDO_FUNC` (4) a
/// function of this program, relative in instructions. `imm` of a map is its index in [`Scheduler::maps`], of BTF an id
/// of the kernel's BTF. A call is of a helper (source 0), of a function of this program (`BPF_PSEUDO_CALL`, 1), or of a
/// kfunc (`BPF_PSEUDO_KFUNC_CALL`, 2; `imm` is its BTF id).
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Insn {
    pub code: u8,
    /// Destination in the lower four bits, source in the upper ones.
    pub registers: u8,
    pub off: i16,
    pub imm: i32,
}

impl Insn {
    /// Its source register.
    pub fn source(self) -> u8 {
        self.registers >> 4
    }
}

/// What a field of a map's values is that a kernel treats specially.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Special {
    Timer,
    SpinLock,
    /// A pointer to an object of the kernel, or without ownership.
    Kptr,
    /// A pointer to a mask of CPUs, which is given back with its value.
    Mask,
    /// A pointer to an object that the program has made.
    Own,
    /// `struct bpf_list_head`, `struct bpf_rb_root`: zero when they are empty.
    Head,
    /// What else is not copied.
    Other,
}

/// Where it is in a value, bytes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Field {
    pub at: u32,
    pub bytes: u32,
    pub special: Special,
}

/// `BPF_MAP_TYPE_RINGBUF`, a [`Map::kind`].
pub const RINGBUF: u32 = 27;

#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Map {
    pub name: String,
    /// `enum bpf_map_type`.
    pub kind: u32,
    pub key_bytes: u32,
    pub value_bytes: u32,
    pub max_entries: u32,
    /// `BPF_F_*`.
    pub flags: u32,
    /// The first value of an array of one entry: a section of data. Of an arena: the bytes it starts with, the
    /// program's variables there. Empty: zeros.
    pub initial: Vec<u8>,
    /// Of a map of maps: the index of the map that describes its inner ones, and the first entries: slot and map.
    pub inner: Option<usize>,
    pub inner_initial: Vec<(u32, usize)>,
    /// In order of their places.
    pub special: Vec<Field>,
    /// Where the address of an arena starts; `map_extra`.
    pub extra: u64,
}

/// What makes a program run that is not an operation.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Target {
    Tracepoint(String),
    /// A function of the kernel: when it begins, and when it has returned.
    Entry(String),
    Exit(String),
    /// The same, for a program that gets registers.
    Probe(String),
    ReturnProbe(String),
}

impl std::fmt::Display for Target {
    /// As the section of a program names it.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Target::Tracepoint(name) => write!(f, "tp_btf/{name}"),
            Target::Entry(name) => write!(f, "fentry/{name}"),
            Target::Exit(name) => write!(f, "fexit/{name}"),
            Target::Probe(name) => write!(f, "kprobe/{name}"),
            Target::ReturnProbe(name) => write!(f, "kretprobe/{name}"),
        }
    }
}

/// A program with the functions that it calls behind it.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Program {
    pub name: String,
    /// `enum bpf_prog_type`.
    pub kind: u32,
    pub instructions: Vec<Insn>,
    /// Instructions that stand for something the kernel lacks, by index, with its name: a run that reaches one ends.
    pub missing: Vec<(u32, String)>,
    /// What an object's program is to be attached to: programs of user space attach theirs themselves.
    pub target: Option<Target>,
    /// Where lines of its source begin, by instruction: file and line.
    pub lines: Vec<(u32, String)>,
}

/// Which struct of operations a scheduler fills.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum OpsKind {
    #[default]
    ByCpu,
    /// `struct sched_ext_ops_cid` of 7.3.
    ByCid,
}

/// The operations, in the kernel's layout.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Ops {
    pub kind: OpsKind,
    /// `struct sched_ext_ops` with zeros in place of functions.
    pub bytes: Vec<u8>,
    /// The member at this offset is this program ([`Scheduler::programs`]), and has this name.
    pub members: Vec<(u32, usize, String)>,
}

/// A step before the scheduler is attached. Programs are of kind syscall, by their indices.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Setup {
    /// Runs a program with this argument.
    Run { program: usize, context: Vec<u8> },
    /// Tells the arena library of scx the machine's units: the programs `arena_init`, `arena_topology_init`,
    /// `arena_alloc_mask` and `arena_topology_node_init`.
    ArenaLibrary { programs: Vec<usize>, task_bytes: u64 },
}

#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Scheduler {
    /// The name that the struct of operations has.
    pub name: String,
    pub maps: Vec<Map>,
    pub programs: Vec<Program>,
    pub ops: Ops,
    pub setup: Vec<Setup>,
    /// The program's own BTF, raw: `bpf_obj_new()` names a type of it by its id.
    pub btf: Vec<u8>,
}
