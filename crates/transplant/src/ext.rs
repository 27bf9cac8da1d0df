//! A sched_ext scheduler in the image: its maps, programs and operations go to the kernel's own class.
//!
//! A [`Scheduler`] has the form of bpf(2). Here references become addresses of the image: of maps, of values, of the
//! kernel's functions, which are found by name in the image's table of symbols. The image's interpreter gets programs
//! that need no further look. Programs and calls are counted there, and read at the end of a run.

use crate::engine::Engine;
use crate::ext_abi::{
    RawCalled, RawInsn, RawMap, RawMember, RawOps, RawProgram, RawState, RawType, op, result,
};
use crate::load::{Image, checked};
use object::{Object, ObjectSymbol};
use schedlab_base::{CpuId, Error, Result};
use schedlab_record::Findings;
use schedlab_scx::broker::{Entry, TestRun};
use schedlab_scx::btf::{Btf, Item, Kind, ResultKind};
use schedlab_scx::{Insn, Map, OpsKind, Program, Scheduler};
use std::collections::{BTreeMap, HashMap};
use std::ffi::{CStr, CString, c_char, c_int, c_longlong, c_uint, c_ulong, c_ulonglong, c_void};
use std::path::Path;

/// Opcodes whose operands are references.
const LOAD_WIDE: u8 = 0x18;
const CALL: u8 = 0x85;
/// A load's kinds, by its source register.
const MAP: u8 = 1;
const MAP_VALUE: u8 = 2;
const BTF_ID: u8 = 3;
const FUNCTION: u8 = 4;
/// Kinds of maps.
const ARENA: u32 = 33;

/// A scheduler, and the BTF of the image that it was read for.
pub struct Ext {
    pub scheduler: Scheduler,
    pub btf: Btf,
}

/// What is there of a scheduler besides itself when it is enabled.
#[derive(Default)]
pub(crate) struct Given {
    /// Memory of its maps that others see, too.
    pub memory: Vec<Option<*mut c_void>>,
    /// Elements of its maps.
    pub entries: Vec<Entry>,
    /// Programs that are executed before the operations are registered.
    pub runs: Vec<TestRun>,
}

/// The image's functions for sched_ext, which only an image with the class has.
macro_rules! functions {
    ($($name:ident($($type:ty),*) $(-> $result:ty)?;)*) => {
        pub(crate) struct Functions { $(pub(crate) $name: unsafe extern "C" fn($($type),*) $(-> $result)?,)* }
        impl Functions {
            fn of(image: &Image) -> Result<Functions> {
                // SAFETY: a symbol of that name is a function of that type, which abi.h declares.
                $(let $name = unsafe { std::mem::transmute::<
                    *mut c_void, unsafe extern "C" fn($($type),*) $(-> $result)?,
                >(image.handle.symbol(stringify!($name))?) };)*
                Ok(Functions { $($name,)* })
            }
        }
    };
}
functions! {
    img_bpf_map_new(*const RawMap) -> c_int;
    img_bpf_map_at(c_int) -> *const c_void;
    img_bpf_map_values(c_int) -> *mut c_void;
    img_bpf_arena_begins(c_int, c_ulong);
    img_bpf_types(*const RawType, c_uint);
    img_bpf_update(c_int, *const c_void, *const c_void, c_ulonglong) -> c_int;
    img_bpf_lookup(c_int, *const c_void, *mut c_void) -> c_int;
    img_bpf_delete(c_int, *const c_void) -> c_int;
    img_bpf_next(c_int, *const c_void, *mut c_void) -> c_int;
    img_ext_disable();
    img_bpf_program_new(*const RawProgram) -> c_int;
    img_bpf_program_at(c_int) -> *const RawProgram;
    img_bpf_program_run(c_int, *mut c_void) -> c_longlong;
    img_bpf_helper_at(c_uint) -> *const c_void;
    img_bpf_called_new(*const RawCalled) -> *const RawCalled;
    img_ext_enable(*const RawOps) -> c_int;
    img_ext_look(*mut RawState);
}

/// A map's keys and values, as user space gives and gets them.
#[derive(Clone, Copy)]
struct Shape {
    key_bytes: usize,
    value_bytes: usize,
    /// A value for each CPU, each rounded up to 8 bytes.
    is_by_cpu: bool,
    /// Its keys are tasks or groups.
    is_storage: bool,
}

impl Shape {
    fn of(map: &Map) -> Shape {
        let is_of_maps = matches!(map.kind, 12 | 13);
        Shape {
            key_bytes: map.key_bytes as usize,
            value_bytes: if is_of_maps { 4 } else { map.value_bytes as usize },
            is_by_cpu: matches!(map.kind, 5 | 6 | 10),
            is_storage: matches!(map.kind, 28 | 29 | 32),
        }
    }
    /// Bytes of a key's values.
    fn bytes(self, cpus: usize) -> usize {
        if self.is_by_cpu { self.value_bytes.next_multiple_of(8) * cpus } else { self.value_bytes }
    }
}

/// A scheduler that has the tasks.
pub(crate) struct Enabled {
    functions: Functions,
    /// The operations' programs, by the image's numbers.
    ops: Vec<(c_int, String)>,
    programs: Vec<c_int>,
    shapes: Vec<Shape>,
    called: BTreeMap<String, *const RawCalled>,
    name: String,
}

/// Why and how a scheduler ended, and what it has done.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Account {
    pub name: String,
    /// `enum scx_exit_kind`; 0: it has not ended.
    pub exit_kind: i32,
    pub exit_code: i64,
    pub reason: String,
    pub message: String,
    /// Calls and instructions of each operation.
    pub ops: Vec<(String, u64, u64)>,
    /// Calls of each of the kernel's functions.
    pub called: Vec<(String, u64)>,
}

/// `SCX_EXIT_UNREG`: its own side has taken it off.
const EXIT_UNREG: i32 = 64;

impl Account {
    /// Whether it had the tasks to the end: else they ran under the kernel's own classes.
    ///
    /// # Errors
    /// Why it ended, in the kernel's words.
    pub(crate) fn has_lasted(&self) -> Result<()> {
        if matches!(self.exit_kind, 0 | EXIT_UNREG) {
            return Ok(());
        }
        let words = if self.message.is_empty() { &self.reason } else { &self.message };
        Err(Error::input(format!("scheduler {} did not last: {} ({words})", self.name, self.reason))
            .help("from there on the tasks ran under the fair class: this is not a run of the scheduler"))
    }
    /// Into a record: counters by operation and by the kernel's function, and how it ended.
    pub(crate) fn tell(&self, found: &mut Findings) {
        for (name, calls, executed) in &self.ops {
            found.counters.insert(format!("scx.calls.{name}"), *calls);
            found.counters.insert(format!("scx.instructions.{name}"), *executed);
        }
        for (name, calls) in &self.called {
            found.counters.insert(format!("scx.kfunc.{name}"), *calls);
        }
        let exit = match self.exit_kind {
            0 => "it has run to the end".to_owned(),
            kind => format!("kind {kind}, code {}: {}", self.exit_code, self.reason),
        };
        let facts = [("scx.ops", &self.name), ("scx.exit", &exit), ("scx.said", &self.message)];
        found.environment.extend(facts.map(|(name, value)| (name.to_owned(), value.clone())));
    }
}

fn text(words: &str) -> *const c_char {
    // The image keeps the pointer.
    CString::new(words).unwrap_or_default().into_raw().cast_const()
}

/// Addresses of the image's functions and variables, of static ones, too.
fn symbols(object: &Path, base: usize) -> Result<HashMap<String, usize>> {
    let bytes = std::fs::read(object).map_err(|e| Error::io(object, "read", &e))?;
    let wrong = |e: object::Error| Error::internal(format!("{}: {e}", object.display()));
    let file = object::File::parse(&*bytes).map_err(wrong)?;
    let defined = file.symbols().filter(|s| s.is_definition());
    Ok(defined.filter_map(|s| Some((s.name().ok()?.to_owned(), base + s.address() as usize))).collect())
}

struct Loading<'a> {
    functions: &'a Functions,
    btf: &'a Btf,
    scheduler: &'a Scheduler,
    given: Given,
    cpus: usize,
    symbols: HashMap<String, usize>,
    called: BTreeMap<String, *const RawCalled>,
}

impl Ext {
    /// The scheduler's maps and programs go into the image, and its operations become those of the kernel's class.
    pub(crate) fn enable(&self, engine: &mut Engine<'_>, object: &Path) -> Result<Enabled> {
        enable((&self.scheduler, &self.btf), Given::default(), engine, object)
    }
}

/// A scheduler with its maps' memory and elements gets the tasks.
pub(crate) fn enable(
    (scheduler, btf): (&Scheduler, &Btf),
    given: Given,
    engine: &mut Engine<'_>,
    object: &Path,
) -> Result<Enabled> {
    engine.enter(CpuId(0));
    let topology = engine.board.machine.topology.clone();
    let image = engine.kernel.image();
    let functions = Functions::of(image)
        .map_err(|_| Error::input("the image has no sched_ext").help("take a kernel of 6.12 or later"))?;
    let symbols = symbols(object, image.base)?;
    let (is_alone, cpus) = (given.memory.is_empty(), topology.cpus.len());
    let mut loading =
        Loading { functions: &functions, btf, scheduler, given, cpus, symbols, called: BTreeMap::new() };
    loading.maps()?;
    loading.types()?;
    let programs = scheduler.programs.iter().map(|p| loading.program(p));
    let programs = programs.collect::<Result<Vec<_>>>()?;
    // Its own program has made them ready, if there is one.
    match is_alone {
        true => crate::ext_setup::run(scheduler, &functions, &programs, &topology)?,
        false => loading.run_before(&programs),
    }
    loading.attach(&programs)?;
    let called = loading.called;
    engine.take_notes(CpuId(0));
    let ops = scheduler.ops.members.iter();
    let ops = ops.map(|(_, at, name)| (programs[*at], name.clone())).collect();
    let shapes = scheduler.maps.iter().map(Shape::of).collect();
    Ok(Enabled { functions, ops, programs, called, shapes, name: scheduler.name.clone() })
}

impl Loading<'_> {
    fn refused(&self, what: &str, errno: i32) -> Error {
        let why = std::io::Error::from_raw_os_error(errno);
        Error::input(format!("scheduler {}: {what}: {why}", self.scheduler.name))
    }
    fn maps(&self) -> Result<()> {
        for (at, map) in self.scheduler.maps.iter().enumerate() {
            let memory = self.given.memory.get(at).copied().flatten();
            let raw = RawMap {
                name: text(&map.name),
                kind: map.kind,
                key_bytes: map.key_bytes,
                value_bytes: map.value_bytes,
                max_entries: map.max_entries,
                flags: map.flags,
                memory: memory.unwrap_or(std::ptr::null_mut()),
            };
            // SAFETY: the structure lives through the call, and its name for good.
            let number = checked(unsafe { (self.functions.img_bpf_map_new)(&raw const raw) })
                .map_err(|e| self.refused(&format!("map {} of kind {}", map.name, map.kind), e))?;
            if memory.is_none() {
                self.fill(number, map)?;
            }
        }
        for (number, map) in self.scheduler.maps.iter().enumerate() {
            for (slot, inner) in &map.inner_initial {
                let inner = *inner as c_int;
                let (slot, inner) = ((&raw const *slot).cast(), (&raw const inner).cast());
                // SAFETY: key and value are numbers of 4 bytes, as such a map has them.
                checked(unsafe { (self.functions.img_bpf_update)(number as c_int, slot, inner, 0) })
                    .map_err(|e| self.refused(&format!("the inner maps of {}", map.name), e))?;
            }
        }
        self.given.entries.iter().try_for_each(|entry| {
            let fits = self.scheduler.maps.get(entry.map).map(Shape::of).is_some_and(|shape| {
                let is_whole = entry.value.len() >= shape.bytes(self.cpus);
                !shape.is_storage && entry.key.len() == shape.key_bytes && is_whole
            });
            if !fits {
                return Err(self.refused(&format!("an element of map {}", entry.map), libc::EINVAL));
            }
            let (key, value) = (entry.key.as_ptr().cast(), entry.value.as_ptr().cast());
            // SAFETY: key and value have the sizes of the map, in the form of bpf(2).
            checked(unsafe { (self.functions.img_bpf_update)(entry.map as c_int, key, value, 0) })
                .map(drop)
                .map_err(|e| self.refused(&format!("an element of map {}", entry.map), e))
        })
    }
    /// Executes what the user's half has asked for before it attached.
    fn run_before(&mut self, programs: &[c_int]) {
        for run in &mut self.given.runs {
            // SAFETY: the context lives through the call; the program is one that the image has made.
            unsafe {
                (self.functions.img_bpf_program_run)(programs[run.program], run.context.as_mut_ptr().cast())
            };
        }
    }
    fn fill(&self, number: c_int, map: &Map) -> Result<()> {
        let room = match map.kind {
            ARENA => (map.max_entries as usize) << 12,
            _ => map.value_bytes as usize * map.max_entries as usize,
        };
        if map.initial.is_empty() {
            return Ok(());
        }
        if map.initial.len() > room {
            return Err(self.refused(&format!("the first value of map {}", map.name), libc::E2BIG));
        }
        // SAFETY: the map was made just now; its values have that room, and nobody else looks.
        unsafe {
            let to = (self.functions.img_bpf_map_values)(number).cast::<u8>();
            std::ptr::copy_nonoverlapping(map.initial.as_ptr(), to, map.initial.len());
            if map.kind == ARENA {
                (self.functions.img_bpf_arena_begins)(number, map.initial.len() as c_ulong);
            }
        }
        Ok(())
    }

    /// Sizes of the program's own types, by whose numbers it makes objects.
    fn types(&self) -> Result<()> {
        let own = &self.scheduler.btf;
        if own.is_empty() {
            return Ok(());
        }
        let named = |e: Error| e.context(format!("scheduler {}", self.scheduler.name));
        let own = Btf::parse(own).map_err(named)?;
        let refcount = |id: u32| {
            let counts = |item: &&Item| own.name(own.bare(item.id)) == "bpf_refcount";
            own.items(id).iter().find(counts).map_or(-1, |item| (item.value / 8) as c_int)
        };
        let raw = |id: u32| match own.kind(id) {
            Kind::Struct => {
                RawType { bytes: own.size(id).unwrap_or_default() as c_uint, refcount_at: refcount(id) }
            }
            _ => RawType { bytes: 0, refcount_at: -1 },
        };
        let all: &'static [RawType] = (0..own.ids().end).map(raw).collect::<Vec<_>>().leak();
        // SAFETY: the types are never freed.
        unsafe { (self.functions.img_bpf_types)(all.as_ptr(), all.len() as c_uint) };
        Ok(())
    }

    /// Puts a program into the image; gives its number there.
    fn program(&mut self, program: &Program) -> Result<c_int> {
        let nr = program.instructions.len();
        // The image keeps the instructions, which refer to one another by their places.
        let room: &'static mut [RawInsn] = vec![RawInsn { op: 0, dst: 0, src: 0, off: 0, imm: 0 }; nr].leak();
        let base = room.as_ptr() as i64;
        let missing: HashMap<u32, &str> =
            program.missing.iter().map(|(at, name)| (*at, name.as_str())).collect();
        let mut at = 0;
        while at < nr {
            let insn = program.instructions[at];
            room[at] = match missing.get(&(at as u32)) {
                Some(name) => absent(name),
                None => self.decoded(insn, program.instructions.get(at + 1), (base, at))?,
            };
            at += if insn.code == LOAD_WIDE { 2 } else { 1 };
        }
        let raw = RawProgram {
            name: text(&program.name),
            insns: room.as_ptr(),
            nr: nr as c_uint,
            calls: 0,
            executed: 0,
        };
        // SAFETY: the structure lives through the call, its name and instructions for good.
        checked(unsafe { (self.functions.img_bpf_program_new)(&raw const raw) })
            .map_err(|e| self.refused(&format!("program {}", program.name), e))
    }

    fn decoded(&mut self, insn: Insn, second: Option<&Insn>, (base, at): (i64, usize)) -> Result<RawInsn> {
        let (dst, src) = (insn.registers & 15, insn.source());
        let raw = RawInsn { op: insn.code.into(), dst, src, off: insn.off.into(), imm: insn.imm.into() };
        let place = |imm: i32| base + (at as i64 + 1 + i64::from(imm)) * size_of::<RawInsn>() as i64;
        Ok(match insn.code {
            LOAD_WIDE => {
                let high = second.map_or(0, |s| s.imm);
                // SAFETY: the calls take a number, and give NULL or fail the run where it names no map.
                let imm = unsafe {
                    match src {
                        MAP => (self.functions.img_bpf_map_at)(insn.imm) as i64,
                        MAP_VALUE => (self.functions.img_bpf_map_values)(insn.imm) as i64 + i64::from(high),
                        BTF_ID => self.address(insn.imm as u32)? as i64,
                        FUNCTION => place(insn.imm),
                        _ => i64::from(insn.imm as u32) | i64::from(high) << 32,
                    }
                };
                RawInsn { imm, ..raw }
            }
            CALL => match src {
                0 => self.helper(insn.imm as u32, raw),
                1 => RawInsn { op: op::LOCAL, imm: place(insn.imm), ..raw },
                _ => RawInsn { op: op::KFUNC, imm: self.kfunc(insn.imm as u32)? as i64, ..raw },
            },
            _ => raw,
        })
    }
    fn helper(&self, id: u32, raw: RawInsn) -> RawInsn {
        // SAFETY: the call takes any number.
        let at = unsafe { (self.functions.img_bpf_helper_at)(id) };
        match at.is_null() {
            true => absent(&format!("helper {id}")),
            false => RawInsn { op: op::HELPER, imm: at as i64, ..raw },
        }
    }
    fn address(&self, id: u32) -> Result<usize> {
        let name = self.btf.name(id);
        let lacks = || Error::input(format!("scheduler {}: the image has no {name}", self.scheduler.name));
        self.symbols.get(name).copied().ok_or_else(lacks)
    }
    fn kfunc(&mut self, id: u32) -> Result<*const RawCalled> {
        let name = self.btf.name(id).to_owned();
        if let Some(found) = self.called.get(&name) {
            return Ok(*found);
        }
        let prototype = self.btf.prototype(id)?;
        let raw = RawCalled {
            name: text(&name),
            at: self.address(id)? as *const c_void,
            arguments: prototype.arguments.into(),
            has_aux: prototype.aux.into(),
            result: width(prototype.result),
            calls: 0,
        };
        if prototype.arguments > 5 {
            return Err(Error::input(format!("{name} takes {} arguments", prototype.arguments)));
        }
        // SAFETY: the structure lives through the call, and its name for good.
        let made = unsafe { (self.functions.img_bpf_called_new)(&raw const raw) };
        self.called.insert(name, made);
        Ok(made)
    }

    fn attach(&self, programs: &[c_int]) -> Result<()> {
        let ops = &self.scheduler.ops;
        let by_cid = ops.kind == OpsKind::ByCid;
        let kind = if by_cid { "sched_ext_ops_cid" } else { "sched_ext_ops" };
        let id = self.structure(kind)?;
        let members: &'static [RawMember] = self.members(id, programs).leak();
        let values: &'static [u8] = ops.bytes.clone().leak();
        let info = self.structure("scx_exit_info")?;
        let arena = self.scheduler.maps.iter().position(|map| map.kind == ARENA);
        let raw = RawOps {
            values: values.as_ptr().cast(),
            bytes: values.len() as c_uint,
            by_cid: by_cid.into(),
            members: members.as_ptr(),
            nr_members: members.len() as c_uint,
            arena: arena.map_or(-1, |at| at as c_int),
            exit_at: self.offset(id, "exit")?,
            info_kind: self.offset(info, "kind")?,
            info_code: self.offset(info, "exit_code")?,
            info_reason: self.offset(info, "reason")?,
            info_message: self.offset(info, "msg")?,
        };
        // SAFETY: the structure lives through the call, what it points to for good.
        checked(unsafe { (self.functions.img_ext_enable)(&raw const raw) })
            .map(drop)
            .map_err(|e| self.refused("the kernel does not take it", e))
    }
    /// All members that a scheduler sets: its programs, and plain values, which the kernel checks.
    fn members(&self, id: u32, programs: &[c_int]) -> Vec<RawMember> {
        let one = |item: &Item| {
            let offset = (item.value / 8) as u32;
            let name = self.btf.item_name(item);
            let is_pointer = self.btf.kind(self.btf.bare(item.id)) == Kind::Ptr;
            let program = self.scheduler.ops.members.iter().find(|m| m.0 == offset).map(|m| programs[m.1]);
            let bytes = self.btf.size(item.id).unwrap_or_default() as c_uint;
            let is_set = program.is_some() || !is_pointer && bytes > 0 && name != "__end";
            is_set.then(|| RawMember { name: text(name), offset, bytes, program: program.unwrap_or(-1) })
        };
        self.btf.items(id).iter().filter_map(one).collect()
    }
    fn structure(&self, name: &str) -> Result<u32> {
        let lacks = || Error::input(format!("the image's BTF has no struct {name}"));
        self.btf.find(name, Kind::Struct).ok_or_else(lacks)
    }
    fn offset(&self, id: u32, member: &str) -> Result<u32> {
        let lacks = || Error::input(format!("struct {} of the image has no {member}", self.btf.name(id)));
        Ok((self.btf.member(id, member).ok_or_else(lacks)?.1 / 8) as u32)
    }
}

/// An instruction that ends the run.
fn absent(name: &str) -> RawInsn {
    RawInsn { op: op::MISSING, dst: 0, src: 0, off: 0, imm: text(name) as i64 }
}

fn width(kind: ResultKind) -> c_int {
    match kind {
        ResultKind::Void => result::VOID,
        ResultKind::U8 => result::U8,
        ResultKind::S8 => result::S8,
        ResultKind::U16 => result::U16,
        ResultKind::S16 => result::S16,
        ResultKind::U32 => result::U32,
        ResultKind::S32 => result::S32,
        ResultKind::Wide | ResultKind::Pointer => result::WIDE,
    }
}

impl Enabled {
    /// The scheduler is unregistered, if it has not ended by itself.
    pub(crate) fn disable(&self, engine: &mut Engine<'_>) {
        engine.enter(CpuId(0));
        // SAFETY: a CPU is entered.
        unsafe { (self.functions.img_ext_disable)() };
        engine.take_notes(CpuId(0));
    }
    /// Executes a program of the user's half.
    pub(crate) fn run(&self, engine: &mut Engine<'_>, program: usize, context: &mut [u8]) -> i64 {
        engine.enter(CpuId(0));
        let context = context.as_mut_ptr().cast();
        // SAFETY: the context lives through the call; the program is one that the image has made.
        let result = unsafe { (self.functions.img_bpf_program_run)(self.programs[program], context) };
        engine.take_notes(CpuId(0));
        result
    }
    /// The shape of a map that user space may ask about, with a key of its size.
    fn shape(&self, map: usize, key: Option<&[u8]>) -> std::result::Result<Shape, i32> {
        let shape = self.shapes.get(map).copied().ok_or(libc::EBADF)?;
        // Keys of storage are tasks and groups by their descriptors, which nobody has here.
        let fits = key.is_none_or(|key| key.len() == shape.key_bytes);
        if shape.is_storage || shape.key_bytes == 0 { Err(libc::EOPNOTSUPP) } else { Ok(shape) }
            .and_then(|shape| if fits { Ok(shape) } else { Err(libc::EINVAL) })
    }
    /// A key's values: of a map by CPU, those of `cpus` CPUs.
    pub(crate) fn lookup(&self, map: usize, key: &[u8], cpus: usize) -> std::result::Result<Vec<u8>, i32> {
        let shape = self.shape(map, Some(key))?;
        let mut value = vec![0; shape.bytes(cpus).next_multiple_of(8)];
        let to = value.as_mut_ptr().cast();
        // SAFETY: the key has the map's size, and the value room for what a key has.
        checked(unsafe { (self.functions.img_bpf_lookup)(map as c_int, key.as_ptr().cast(), to) })?;
        value.truncate(shape.bytes(cpus));
        Ok(value)
    }
    pub(crate) fn update(
        &self,
        map: usize,
        (key, value): (&[u8], &[u8]),
        flags: u64,
        cpus: usize,
    ) -> std::result::Result<(), i32> {
        let shape = self.shape(map, Some(key))?;
        if value.len() < shape.bytes(cpus) {
            return Err(libc::EINVAL);
        }
        let (key, value) = (key.as_ptr().cast(), value.as_ptr().cast());
        // SAFETY: the key has the map's size, and the value as much as a key has.
        checked(unsafe { (self.functions.img_bpf_update)(map as c_int, key, value, flags) }).map(drop)
    }
    pub(crate) fn delete(&self, map: usize, key: &[u8]) -> std::result::Result<(), i32> {
        self.shape(map, Some(key))?;
        // SAFETY: the key has the map's size.
        checked(unsafe { (self.functions.img_bpf_delete)(map as c_int, key.as_ptr().cast()) }).map(drop)
    }
    pub(crate) fn next(&self, map: usize, key: Option<&[u8]>) -> std::result::Result<Vec<u8>, i32> {
        let mut next = vec![0; self.shape(map, key)?.key_bytes];
        let (from, to) = (key.map_or(std::ptr::null(), |key| key.as_ptr().cast()), next.as_mut_ptr().cast());
        // SAFETY: both keys have the map's size.
        checked(unsafe { (self.functions.img_bpf_next)(map as c_int, from, to) })?;
        Ok(next)
    }
    /// What it has done so far.
    pub(crate) fn account(&self) -> Account {
        // SAFETY: zeros are a value of this plain data, and the call fills it.
        let state = unsafe {
            let mut state: RawState = std::mem::zeroed();
            (self.functions.img_ext_look)(&raw mut state);
            state
        };
        let words = |at: *const c_char| match at.is_null() {
            true => String::new(),
            // SAFETY: the image gives a text that ends with a zero and is never freed.
            false => unsafe { CStr::from_ptr(at) }.to_string_lossy().into_owned(),
        };
        let op = |(number, name): &(c_int, String)| {
            // SAFETY: the number is that of a program which the image has made.
            let program = unsafe { &*(self.functions.img_bpf_program_at)(*number) };
            (name.clone(), program.calls, program.executed)
        };
        // SAFETY: the image has made them, for good.
        let called = |(name, at): (&String, &*const RawCalled)| (name.clone(), unsafe { (**at).calls });
        Account {
            name: self.name.clone(),
            exit_kind: state.exit_kind,
            exit_code: state.exit_code,
            reason: words(state.reason),
            message: words(state.message),
            ops: self.ops.iter().map(op).collect(),
            called: self.called.iter().map(called).collect(),
        }
    }
}
