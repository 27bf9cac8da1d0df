//! Attaching and taking off: the struct of operations, and programs that trace.

use super::super::call_table::FIRST_LINK;
use super::super::errno::Errno;
use super::super::kernel::{Attach, Kernel};
use super::super::memory::memory;
use super::super::notify::{Call, Reply};
use super::object::{self, Object, kind};
use super::{Answer, Asked, Attached, Bpf, DONE};
use crate::Target;
use crate::btf::{Btf, Item, Kind, PROBE_TYPE};
use std::os::fd::{AsFd, BorrowedFd};

/// `BPF_STRUCT_OPS` of `enum bpf_attach_type`.
const STRUCT_OPS: u32 = 44;
/// `BPF_PERF_EVENT`.
const PERF_EVENT: u32 = 41;
/// `BPF_F_LINK`: the struct is attached by a link.
const BY_LINK: u32 = 1 << 13;
/// `BPF_PROG_TYPE_RAW_TRACEPOINT`, the same with the right to write, `BPF_PROG_TYPE_TRACING`, `BPF_PROG_TYPE_LSM`:
/// all but the first two name by themselves what they are attached to.
const RAW: [u32; 2] = [17, 24];
const TRACING: u32 = 26;
const LSM: u32 = 29;
/// How a program of the third kind is attached (`enum bpf_attach_type`).
const AT_TRACEPOINT: u32 = 23;
const AT_ENTRY: u32 = 24;
const AT_EXIT: u32 = 25;
const AT_ITERATOR: u32 = 28;

impl Bpf {
    /// `BPF_MAP_UPDATE_ELEM` of a struct of operations: its value, in the kernel's layout, with file descriptors of
    /// programs where functions are.
    pub fn ops_update(&mut self, map: usize, asked: &mut Asked<'_>) -> Answer {
        let it = self.map(map);
        let mut value = asked.memory.bytes(asked.u64(16), it.map.value_bytes as usize)?;
        let places =
            assembled_functions(&self.kernel, it.kernel_value_type).ok_or(Errno(libc::EOPNOTSUPP))?;
        let mut functions = Vec::new();
        for place in places {
            let at = place as usize;
            let Some(bytes) = value.get_mut(at..at + 8) else { break };
            let number = u64::from_le_bytes((&*bytes).try_into().expect("8 bytes"));
            bytes.fill(0);
            if number != 0 {
                functions.push((place, self.at(asked.call, number as u32)?));
            }
        }
        let is_by_link = it.map.flags & BY_LINK != 0;
        let it = self.map_mut(map);
        (it.ops, it.functions) = (value, functions);
        if is_by_link { DONE } else { self.attach(map, map, asked).and(DONE) }
    }
    /// `BPF_LINK_CREATE`.
    pub fn link_create(&mut self, asked: &mut Asked<'_>) -> Answer {
        let of = self.at(asked.call, asked.u32(0))?;
        let attach_type = asked.u32(8);
        match &self.objects[of] {
            Object::Program(_) if attach_type == PERF_EVENT => self.probe(of, asked),
            Object::Map(map) if map.map.kind == kind::STRUCT_OPS && attach_type == STRUCT_OPS => {
                let link = self.objects.len();
                self.attach(of, link, asked)?;
                self.link(of, None, asked.call)
            }
            Object::Program(program) if [TRACING, LSM].contains(&program.kind) => {
                self.trace(of, String::new(), asked)
            }
            // A file descriptor that is not a target of this kind: what libbpf's probes want to hear.
            _ => {
                self.refuse(format!("link of attach type {attach_type}"));
                Err(Errno(libc::EBADF))
            }
        }
    }
    /// `BPF_RAW_TRACEPOINT_OPEN`.
    pub fn raw_tracepoint_open(&mut self, asked: &mut Asked<'_>) -> Answer {
        let program = self.program_at(asked, 8)?;
        let name = match asked.u64(0) {
            0 => String::new(),
            at => String::from_utf8_lossy(&asked.memory.text(at)?).into_owned(),
        };
        self.trace(program, name, asked)
    }
    /// Attaches a program to what it names itself, or to the tracepoint of that name.
    fn trace(&mut self, program: usize, name: String, asked: &mut Asked<'_>) -> Answer {
        let it = self.program(program);
        let own = self.kernel.name(it.attach_btf_id);
        let target = match (it.kind, it.attach_type) {
            (kind, _) if RAW.contains(&kind) && !name.is_empty() => Target::Tracepoint(name),
            (TRACING, AT_TRACEPOINT) => Target::Tracepoint(own.trim_start_matches(PROBE_TYPE).to_owned()),
            (TRACING, AT_ENTRY) => Target::Entry(own.to_owned()),
            (TRACING, AT_EXIT) => Target::Exit(own.to_owned()),
            // Only a reader would run it.
            (TRACING, AT_ITERATOR) => return self.link(program, None, asked.call),
            (kind, how) => {
                self.refuse(format!(
                    "link of program {} of type {kind} to {own} (attach type {how})",
                    it.name
                ));
                return Err(Errno(libc::EOPNOTSUPP));
            }
        };
        self.trace_at(program, target, asked)
    }
    pub fn trace_at(&mut self, program: usize, target: Target, asked: &mut Asked<'_>) -> Answer {
        let far = self.far_program(program, asked)?;
        if let Err(errno) = asked.kernel.trace(far, &target) {
            self.refuse(format!("link of program {} to {target}", self.program(program).name));
            return Err(errno);
        }
        self.link(program, Some(target), asked.call)
    }
    /// A link, at a number whose closing is seen.
    fn link(&mut self, of: usize, target: Option<Target>, call: &Call) -> Answer {
        let file = memory("link", 0)?;
        self.add(Object::Link(of, target), &file);
        let at = (FIRST_LINK..).find(|number| object::inode_at(call.thread, *number).is_none());
        Ok(Reply::File { file: file.into(), at, close_on_exec: true })
    }
    /// `BPF_LINK_DETACH`.
    pub fn link_detach(&mut self, asked: &mut Asked<'_>) -> Answer {
        let link = self.at(asked.call, asked.u32(0))?;
        self.detach(link, asked.kernel);
        DONE
    }
    /// close(2) of a link: the last one takes the scheduler off before the program continues, as in a kernel.
    pub fn closes(&mut self, call: &Call, kernel: &mut dyn Kernel) {
        let Ok(object) = self.at(call, call.arguments[0] as u32) else { return };
        let Ok(folder) = std::fs::read_dir(format!("/proc/{}/fd", call.thread)) else { return };
        let numbers = folder.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok());
        if numbers.filter(|number| self.at(call, *number) == Ok(object)).count() == 1 {
            self.detach(object, kernel);
        }
    }
    /// Takes the scheduler off if this link or map holds it, or the program that this link holds.
    pub fn detach(&mut self, by: usize, kernel: &mut dyn Kernel) {
        if let Object::Link(of, Some(target)) = &self.objects[by]
            && let Some(far) = self.program(*of).far
        {
            kernel.untrace(far, target);
        }
        if self.attached.take_if(|attached| attached.by == by || attached.map == by).is_some() {
            kernel.detach();
        }
    }
    /// The program has ended.
    pub fn detach_all(&mut self, kernel: &mut dyn Kernel) {
        if self.attached.take().is_some() {
            kernel.detach();
        }
    }
    /// `BPF_ITER_CREATE`: what such a program would print is not made.
    pub fn iterator_create(&mut self, asked: &mut Asked<'_>) -> Answer {
        self.at(asked.call, asked.u32(0))?;
        self.refuse("iterator".to_owned());
        Err(Errno(libc::EOPNOTSUPP))
    }
    /// The far side gets what there is of a scheduler.
    pub fn hand_over(&mut self, call: &Call, kernel: &mut dyn Kernel) -> Result<(), Errno> {
        let entries = self.choose(None, call.thread);
        let scheduler = self.assemble(None, call.thread).ok_or(Errno(libc::EINVAL))?;
        kernel.load(Attach { scheduler: &scheduler, memory: &self.files(), entries, cpu: 0 })
    }
    /// The memory of each map that the far side has.
    fn files(&self) -> Vec<Option<BorrowedFd<'_>>> {
        self.chosen.maps.iter().map(|at| self.map(*at).file.as_ref().map(AsFd::as_fd)).collect()
    }
    fn attach(&mut self, map: usize, by: usize, asked: &mut Asked<'_>) -> Result<(), Errno> {
        let call = asked.call;
        if self.attached.is_some() {
            return Err(Errno(libc::EBUSY));
        }
        if self.scheduler.is_some() {
            // The far side knows maps by their index in the first one.
            self.refuse("second scheduler".to_owned());
            return Err(Errno(libc::EBUSY));
        }
        let entries = self.choose(Some(map), call.thread);
        let scheduler = self.assemble(Some(map), call.thread).ok_or(Errno(libc::EINVAL))?;
        let given = Attach { scheduler: &scheduler, memory: &self.files(), entries, cpu: asked.cpu };
        let done = asked.kernel.attach(given);
        self.scheduler = Some(scheduler);
        self.attached = done.is_ok().then_some(Attached { by, map });
        done.map(drop)
    }
}

/// Where functions are in the value of a struct of operations of sched_ext: in the kernel's struct that holds the
/// program's. None: it is of something else.
fn assembled_functions(kernel: &Btf, value_type: u32) -> Option<Vec<u32>> {
    let data = data(kernel, value_type)?;
    let is_function = |id: u32| {
        let pointer = kernel.bare(id);
        kernel.kind(pointer) == Kind::Ptr && kernel.kind(kernel.bare(kernel.to(pointer))) == Kind::FuncProto
    };
    let functions = kernel.items(data.id).iter().filter(|member| is_function(member.id));
    Some(functions.map(|member| at_byte(&data) + at_byte(member)).collect())
}

/// The member that the program fills.
pub fn data(kernel: &Btf, value_type: u32) -> Option<Item> {
    let data = kernel.items(value_type).iter().find(|member| kernel.item_name(member) == "data")?;
    kernel.name(data.id).starts_with("sched_ext_ops").then_some(*data)
}
/// Where a member starts, bytes.
pub fn at_byte(member: &Item) -> u32 {
    (member.value / 8) as u32
}
