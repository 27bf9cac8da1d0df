//! BTF by hand: as much as a kernel must have for one operation and a name, and a value with special fields.

const INT: u32 = 1;
const PTR: u32 = 2;
const ARRAY: u32 = 3;
const STRUCT: u32 = 4;
const TYPEDEF: u32 = 8;
const FUNC: u32 = 12;
const FUNC_PROTO: u32 = 13;
const TYPE_TAG: u32 = 18;

#[derive(Default)]
pub struct Builder {
    types: Vec<u8>,
    strings: Vec<u8>,
    count: u32,
}

impl Builder {
    pub fn new() -> Builder {
        Builder { strings: vec![0], ..Builder::default() }
    }
    fn text(&mut self, text: &str) -> u32 {
        let at = self.strings.len() as u32;
        self.strings.extend_from_slice(text.as_bytes());
        self.strings.push(0);
        at
    }
    fn add(&mut self, name: &str, kind: u32, count: u32, size: u32, rest: &[u32]) -> u32 {
        let name = if name.is_empty() { 0 } else { self.text(name) };
        let words = [name, kind << 24 | count, size];
        self.types.extend(words.iter().chain(rest).flat_map(|word| word.to_le_bytes()));
        self.count += 1;
        self.count
    }
    pub fn int(&mut self, name: &str, bytes: u32) -> u32 {
        self.add(name, INT, 0, bytes, &[bytes * 8])
    }
    pub fn pointer(&mut self, of: u32) -> u32 {
        self.add("", PTR, 0, of, &[])
    }
    pub fn tag(&mut self, name: &str, of: u32) -> u32 {
        self.add(name, TYPE_TAG, 0, of, &[])
    }
    pub fn function(&mut self, result: u32) -> u32 {
        self.add("", FUNC_PROTO, 0, result, &[])
    }
    pub fn named(&mut self, kind: u32, name: &str, of: u32) -> u32 {
        self.add(name, kind, 0, of, &[])
    }
    pub fn array(&mut self, of: u32, count: u32) -> u32 {
        self.add("", ARRAY, 0, 0, &[of, of, count])
    }
    /// Members: name, type, offset in bytes.
    pub fn structure(&mut self, name: &str, bytes: u32, members: &[(&str, u32, u32)]) -> u32 {
        let words: Vec<u32> =
            members.iter().flat_map(|(name, of, offset)| [self.text(name), *of, offset * 8]).collect();
        self.add(name, STRUCT, members.len() as u32, bytes, &words)
    }
    pub fn data(&self) -> Vec<u8> {
        let (types, strings) = (self.types.len() as u32, self.strings.len() as u32);
        let header = [0x1_eb9f, 24, 0, types, types, strings];
        let mut data: Vec<u8> = header.iter().flat_map(|word: &u32| word.to_le_bytes()).collect();
        data.extend_from_slice(&self.types);
        data.extend_from_slice(&self.strings);
        data
    }
}

/// Bytes before the operations in the kernel's struct, and of the whole.
pub const OPS_AT: usize = 64;
pub const OPS_BYTES: usize = 136;

/// A kernel with one operation, a tracepoint and a function, and the type of its struct of operations.
pub fn kernel() -> (Vec<u8>, u32) {
    let mut types = Builder::new();
    let int = types.int("int", 4);
    let function = types.function(int);
    let select = types.pointer(function);
    let character = types.int("char", 1);
    let name = types.array(character, 128);
    let ops =
        types.structure("sched_ext_ops", OPS_BYTES as u32, &[("select_cpu", select, 0), ("name", name, 8)]);
    let members = [("common", int, 0), ("data", ops, OPS_AT as u32)];
    let value = types.structure("bpf_struct_ops_sched_ext_ops", (OPS_AT + OPS_BYTES) as u32, &members);
    types.named(TYPEDEF, "btf_trace_sched_switch", select);
    types.named(FUNC, "select", function);
    (types.data(), value)
}

/// A value of 40 bytes, `{ u32 count; struct bpf_timer timers[2] at 8; struct task __kptr *task at 32 }` with timers of
/// 8 bytes, and its type.
pub fn value() -> (Vec<u8>, u32) {
    let mut types = Builder::new();
    let int = types.int("u32", 4);
    let timer = types.structure("bpf_timer", 12, &[("opaque", int, 0)]);
    let timers = types.array(timer, 2);
    let task = types.structure("task", 4, &[("pid", int, 0)]);
    let tagged = types.tag("kptr", task);
    let pointer = types.pointer(tagged);
    let value =
        types.structure("value", 40, &[("count", int, 0), ("timers", timers, 8), ("task", pointer, 32)]);
    (types.data(), value)
}
