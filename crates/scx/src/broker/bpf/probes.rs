//! Events of performance that stand for a function's begin or end, as programs of kprobes are attached to. Others,
//! which count, are not there.

use super::super::errno::Errno;
use super::super::memory::Memory;
use super::super::notify::Call;
use super::object::Object;
use super::{Answer, Asked, Bpf};
use crate::Target;

/// The kind of such events, as the machine's files have it.
pub const PROBE_KIND: u32 = 8;
/// `BPF_PROG_TYPE_KPROBE`.
const PROBE: u32 = 2;
/// Of `struct perf_event_attr`: up to the place in a function.
const ATTRIBUTE_BYTES: usize = 72;

impl Bpf {
    /// perf_event_open(2).
    ///
    /// # Errors
    /// What the call fails with.
    pub fn event_open(&mut self, call: &Call) -> Answer {
        let mut given = [0; ATTRIBUTE_BYTES];
        let memory = Memory { pid: call.thread };
        memory.read(call.arguments[0], &mut given)?;
        let u64 = |at: usize| u64::from_le_bytes(given[at..at + 8].try_into().expect("8 bytes"));
        if u64(0) as u32 != PROBE_KIND {
            return Err(Errno(libc::ENOENT));
        }
        let (is_return, name, place) = (u64(8) & 1 != 0, u64(56), u64(64));
        let name = String::from_utf8_lossy(&memory.text(name)?).into_owned();
        if place != 0 {
            self.refuse(format!("probe of {name}+{place:#x}"));
            return Err(Errno(libc::EOPNOTSUPP));
        }
        self.make(Object::Event(name, is_return), "event", 0)
    }
    /// `BPF_LINK_CREATE` of a program and an event.
    pub fn probe(&mut self, program: usize, asked: &mut Asked<'_>) -> Answer {
        let event = self.at(asked.call, asked.u32(4))?;
        let target = match &self.objects[event] {
            Object::Event(name, false) => Target::Probe(name.clone()),
            Object::Event(name, true) => Target::ReturnProbe(name.clone()),
            _ => return Err(Errno(libc::EINVAL)),
        };
        if self.program(program).kind != PROBE {
            return Err(Errno(libc::EINVAL));
        }
        self.trace_at(program, target, asked)
    }
}
