//! A sched_ext scheduler in the image: its maps, programs and operations go to the kernel's own class.
//!
//! A [`Scheduler`] has the form of bpf(2). Here references become addresses of the image: of maps, of values, of the
//! kernel's functions, which are found by name in the image's table of symbols. The image's interpreter gets programs
//! that need no further look. Programs and calls are counted there, and read at the end of a run.

use crate::engine::Engine;
use crate::ext_abi::{
    RawCalled, RawInsn, RawMap, RawMember, RawOps, RawProgram, RawState, RawTrace, RawType, op, result, words,
};
use crate::ext_account::{Account, Events};
use crate::ext_maps::{self, Shape};
use crate::ext_place;
use crate::load::{Image, checked};
use object::{Object, ObjectSymbol, SymbolKind};
use schedlab_base::{CpuId, Error, Result};
use schedlab_scx::broker::Entry;
use schedlab_scx::btf::{Btf, Item, Kind, ResultKind};
use schedlab_scx::{Insn, Map, OpsKind, Program, Scheduler, Target};
use std::collections::{BTreeMap, HashMap};
use std::ffi::{CString, c_char, c_int, c_longlong, c_uint, c_ulong, c_ulonglong, c_void};
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
    /// Elements of maps that the image does not have yet.
    pub entries: Vec<Entry>,
    /// The CPU that it is enabled on.
    pub cpu: CpuId,
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
    img_bpf_trace(*const RawTrace) -> c_int;
    img_bpf_hook(*const c_char) -> c_int;
    img_bpf_untrace(c_int);
    img_bpf_place() -> *const RawInsn;
    img_bpf_room(c_ulong) -> *mut c_void;
    img_bpf_rung(c_int) -> c_ulonglong;
    img_bpf_sent(c_int) -> c_ulonglong;
    img_bpf_called_new(*const RawCalled) -> *const RawCalled;
    img_ext_enable(*const RawOps) -> c_int;
    img_ext_look(*mut RawState);
    img_ext_events(*const c_void, *mut c_void, c_ulong);
}

impl Functions {
    fn state(&self) -> RawState {
        // SAFETY: zeros are a value of this plain data, and the call fills it.
        unsafe {
            let mut state: RawState = std::mem::zeroed();
            (self.img_ext_look)(&raw mut state);
            state
        }
    }
}

/// What the image has of a scheduler: its first maps and programs. More may come behind them.
pub(crate) struct Loaded {
    pub(crate) functions: Functions,
    /// The image's functions and variables by name.
    pub(crate) symbols: HashMap<String, usize>,
    /// Bytes of its functions, by address.
    pub(crate) sizes: HashMap<usize, usize>,
    /// By the scheduler's numbers.
    programs: Vec<c_int>,
    pub(crate) shapes: Vec<Shape>,
    called: BTreeMap<String, *const RawCalled>,
    /// Programs that trace, by their numbers: what, and the image's number of it.
    pub(crate) traces: Vec<(usize, Target, c_int)>,
    /// What an object's programs were to be attached to, and is not in the image: nothing ever gets there.
    pub(crate) untraced: Vec<String>,
    /// Rings, by the image's number and name; those that user space reads, with their calls of it so far.
    pub(crate) sinks: Vec<(c_int, String)>,
    pub(crate) rings: Vec<(c_int, u64)>,
}

/// A scheduler that has the tasks.
pub(crate) struct Enabled {
    pub(crate) loaded: Loaded,
    /// The operations' programs, by the image's numbers.
    ops: Vec<(c_int, String)>,
    events: Option<Events>,
    name: String,
}

fn text(words: &str) -> *const c_char {
    // The image keeps the pointer.
    CString::new(words).unwrap_or_default().into_raw().cast_const()
}

/// Addresses of the image's functions and variables, of static ones, too; and bytes of functions.
fn symbols(object: &Path, base: usize) -> Result<(HashMap<String, usize>, HashMap<usize, usize>)> {
    let bytes = std::fs::read(object).map_err(|e| Error::io(object, "read", &e))?;
    let wrong = |e: object::Error| Error::internal(format!("{}: {e}", object.display()));
    let file = object::File::parse(&*bytes).map_err(wrong)?;
    let defined = || file.symbols().filter(|s| s.is_definition());
    let place = |s: &object::Symbol<'_, '_>| base + s.address() as usize;
    let sizes = defined().filter(|s| s.kind() == SymbolKind::Text).map(|s| (place(&s), s.size() as usize));
    let sizes = sizes.collect();
    Ok((defined().filter_map(|s| Some((s.name().ok()?.to_owned(), place(&s)))).collect(), sizes))
}

struct Loading<'a> {
    loaded: &'a mut Loaded,
    btf: &'a Btf,
    scheduler: &'a Scheduler,
    given: Given,
    cpus: usize,
}

impl Ext {
    /// The scheduler's maps and programs go into the image, and its operations become those of the kernel's class.
    pub(crate) fn enable(&self, engine: &mut Engine<'_>, object: &Path) -> Result<Enabled> {
        let loaded = Loaded::of(engine, object)?;
        enable((&self.scheduler, &self.btf), Given::default(), engine, loaded)
    }
}

impl Loaded {
    /// Nothing yet.
    pub(crate) fn of(engine: &mut Engine<'_>, object: &Path) -> Result<Loaded> {
        let image = engine.kernel.image();
        let functions = Functions::of(image)
            .map_err(|_| Error::input("the image has no sched_ext").help("take a kernel of 6.12 or later"))?;
        ext_place::asked_by(functions.img_bpf_place);
        let (symbols, sizes) = symbols(object, image.base)?;
        Ok(Loaded {
            functions,
            symbols,
            sizes,
            programs: Vec::new(),
            shapes: Vec::new(),
            called: BTreeMap::new(),
            traces: Vec::new(),
            untraced: Vec::new(),
            sinks: Vec::new(),
            rings: Vec::new(),
        })
    }
    /// Maps and programs of the scheduler that the image does not have yet go there.
    pub(crate) fn add(
        &mut self,
        (scheduler, btf): (&Scheduler, &Btf),
        given: Given,
        engine: &mut Engine<'_>,
    ) -> Result<()> {
        engine.enter(CpuId(0));
        let cpus = engine.nr_cpus();
        let mut loading = Loading { loaded: self, btf, scheduler, given, cpus };
        loading.maps()?;
        loading.types()?;
        for program in &scheduler.programs[loading.loaded.programs.len()..] {
            let number = loading.program(program)?;
            loading.loaded.programs.push(number);
        }
        engine.take_notes(CpuId(0));
        Ok(())
    }
    /// The image's number of a program.
    pub(crate) fn program(&self, program: usize) -> Option<c_int> {
        self.programs.get(program).copied()
    }
    /// Executes a program of the user's half.
    pub(crate) fn run(&self, engine: &mut Engine<'_>, program: usize, context: &mut [u8], cpu: CpuId) -> i64 {
        engine.enter(cpu);
        let context = context.as_mut_ptr().cast();
        // SAFETY: the context lives through the call; the program is one that the image has made.
        let result = unsafe { (self.functions.img_bpf_program_run)(self.programs[program], context) };
        engine.take_notes(cpu);
        result
    }
}

/// A scheduler with its maps' memory and elements gets the tasks.
pub(crate) fn enable(
    (scheduler, btf): (&Scheduler, &Btf),
    given: Given,
    engine: &mut Engine<'_>,
    mut loaded: Loaded,
) -> Result<Enabled> {
    let topology = engine.board.machine.topology.clone();
    // Its own program makes maps and programs ready, if there is one.
    let (is_alone, cpu) = (given.memory.is_empty(), given.cpu);
    loaded.add((scheduler, btf), given, engine)?;
    engine.enter(cpu);
    if is_alone {
        crate::ext_setup::run(scheduler, &loaded.functions, &loaded.programs, &topology)?;
        loaded.trace_all(scheduler, btf)?;
    }
    let loading = Loading { loaded: &mut loaded, btf, scheduler, given: Given::default(), cpus: 0 };
    loading.attach()?;
    engine.take_notes(cpu);
    let ops = scheduler.ops.members.iter();
    let ops = ops.map(|(_, at, name)| (loaded.programs[*at], name.clone())).collect();
    let events = Events::of(&loaded.symbols, btf);
    Ok(Enabled { loaded, ops, events, name: scheduler.name.clone() })
}

impl Loading<'_> {
    fn refused(&self, what: &str, errno: i32) -> Error {
        let why = std::io::Error::from_raw_os_error(errno);
        Error::input(format!("scheduler {}: {what}: {why}", self.scheduler.name))
    }
    fn maps(&mut self) -> Result<()> {
        let before = self.loaded.shapes.len();
        for (at, map) in self.scheduler.maps.iter().enumerate().skip(before) {
            let memory = self.given.memory.get(at).copied().flatten();
            let fields = ext_maps::fields(map);
            let raw = RawMap {
                name: text(&map.name),
                kind: map.kind,
                key_bytes: map.key_bytes,
                value_bytes: map.value_bytes,
                max_entries: map.max_entries,
                flags: map.flags,
                memory: memory.unwrap_or(std::ptr::null_mut()),
                fields: fields.as_ptr(),
                nr_fields: fields.len() as c_uint,
            };
            // SAFETY: the structure lives through the call, and its name for good.
            let number = checked(unsafe { (self.loaded.functions.img_bpf_map_new)(&raw const raw) })
                .map_err(|e| self.refused(&format!("map {} of kind {}", map.name, map.kind), e))?;
            if memory.is_none() {
                self.fill(number, map)?;
            }
            if map.kind == schedlab_scx::RINGBUF {
                self.loaded.sinks.push((number, map.name.clone()));
                self.loaded.rings.extend(memory.map(|_| (number, 0)));
            }
            self.loaded.shapes.push(Shape::of(map));
        }
        for (number, map) in self.scheduler.maps.iter().enumerate().skip(before) {
            for (slot, inner) in &map.inner_initial {
                let inner = *inner as c_int;
                let (slot, inner) = ((&raw const *slot).cast(), (&raw const inner).cast());
                // SAFETY: key and value are numbers of 4 bytes, as such a map has them.
                checked(unsafe { (self.loaded.functions.img_bpf_update)(number as c_int, slot, inner, 0) })
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
            checked(unsafe { (self.loaded.functions.img_bpf_update)(entry.map as c_int, key, value, 0) })
                .map(drop)
                .map_err(|e| self.refused(&format!("an element of map {}", entry.map), e))
        })
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
            let to = (self.loaded.functions.img_bpf_map_values)(number).cast::<u8>();
            std::ptr::copy_nonoverlapping(map.initial.as_ptr(), to, map.initial.len());
            if map.kind == ARENA {
                (self.loaded.functions.img_bpf_arena_begins)(number, map.initial.len() as c_ulong);
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
        unsafe { (self.loaded.functions.img_bpf_types)(all.as_ptr(), all.len() as c_uint) };
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
                None => self
                    .decoded(insn, program.instructions.get(at + 1), (base, at))
                    .map_err(|e| e.context(format!("program {}, instruction {at}", program.name)))?,
            };
            at += if insn.code == LOAD_WIDE { 2 } else { 1 };
        }
        let room: &'static [RawInsn] = room;
        ext_place::add(&program.name, room, &program.lines);
        let raw = RawProgram {
            name: text(&program.name),
            insns: room.as_ptr(),
            nr: nr as c_uint,
            calls: 0,
            executed: 0,
        };
        // SAFETY: the structure lives through the call, its name and instructions for good.
        checked(unsafe { (self.loaded.functions.img_bpf_program_new)(&raw const raw) })
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
                        MAP => (self.loaded.functions.img_bpf_map_at)(insn.imm) as i64,
                        MAP_VALUE => {
                            (self.loaded.functions.img_bpf_map_values)(insn.imm) as i64 + i64::from(high)
                        }
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
                // libbpf leaves weak functions that it has not found so, in code that nothing reaches.
                _ if insn.imm == 0 => absent("a function that its library has not found"),
                _ => RawInsn { op: op::KFUNC, imm: self.kfunc(insn.imm as u32)? as i64, ..raw },
            },
            _ => raw,
        })
    }
    fn helper(&self, id: u32, raw: RawInsn) -> RawInsn {
        // SAFETY: the call takes any number.
        let at = unsafe { (self.loaded.functions.img_bpf_helper_at)(id) };
        match at.is_null() {
            true => absent(&format!("helper {id}")),
            false => RawInsn { op: op::HELPER, imm: at as i64, ..raw },
        }
    }
    fn address(&self, id: u32) -> Result<usize> {
        let name = self.btf.name(id);
        let lacks = || Error::input(format!("scheduler {}: the image has no {name}", self.scheduler.name));
        self.loaded.symbols.get(name).copied().ok_or_else(lacks)
    }
    fn kfunc(&mut self, id: u32) -> Result<*const RawCalled> {
        let name = self.btf.name(id).to_owned();
        if let Some(found) = self.loaded.called.get(&name) {
            return Ok(*found);
        }
        let prototype = self.btf.prototype(id)?;
        let raw = RawCalled {
            name: text(&name),
            at: self.address(id)? as *const c_void,
            arguments: prototype.arguments.into(),
            has_aux: prototype.aux.into(),
            result: width(prototype.result),
            step: 0,
            calls: 0,
        };
        if prototype.arguments > 5 {
            return Err(Error::input(format!("{name} takes {} arguments", prototype.arguments)));
        }
        // SAFETY: the structure lives through the call, and its name for good.
        let made = unsafe { (self.loaded.functions.img_bpf_called_new)(&raw const raw) };
        self.loaded.called.insert(name, made);
        Ok(made)
    }

    fn attach(&self) -> Result<()> {
        let ops = &self.scheduler.ops;
        let by_cid = ops.kind == OpsKind::ByCid;
        let kind = if by_cid { "sched_ext_ops_cid" } else { "sched_ext_ops" };
        let id = self.structure(kind)?;
        let members: &'static [RawMember] = self.members(id).leak();
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
        checked(unsafe { (self.loaded.functions.img_ext_enable)(&raw const raw) }).map(drop).map_err(|e| {
            let member = words(self.loaded.functions.state().reason);
            let what = if member.is_empty() { "it".to_owned() } else { format!("its ops.{member}") };
            self.refused(&format!("the kernel does not take {what}"), e)
        })
    }
    /// All members that a scheduler sets: its programs, and plain values, which the kernel checks.
    fn members(&self, id: u32) -> Vec<RawMember> {
        let programs = &self.loaded.programs;
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
        self.events.as_ref().inspect(|events| _ = events.read(&self.loaded.functions));
        // SAFETY: a CPU is entered.
        unsafe { (self.loaded.functions.img_ext_disable)() };
        engine.take_notes(CpuId(0));
    }
    /// What it has done so far.
    pub(crate) fn account(&self) -> Account {
        let state = self.loaded.functions.state();
        let op = |(number, name): &(c_int, String)| {
            // SAFETY: the number is that of a program which the image has made.
            let program = unsafe { &*(self.loaded.functions.img_bpf_program_at)(*number) };
            (name.clone(), program.calls, program.executed)
        };
        // SAFETY: the image has made them, for good.
        let called = |(name, at): (&String, &*const RawCalled)| (name.clone(), unsafe { (**at).calls });
        Account {
            name: self.name.clone(),
            untraced: self.loaded.untraced.clone(),
            exit_kind: state.exit_kind,
            exit_code: state.exit_code,
            reason: words(state.reason),
            message: words(state.message),
            ops: self.ops.iter().map(op).collect(),
            called: self.loaded.called.iter().map(called).collect(),
            events: self.events.as_ref().map_or_else(Vec::new, |events| events.read(&self.loaded.functions)),
            sent: self.loaded.sent(),
        }
    }
}
