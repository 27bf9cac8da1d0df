//! System calls that ask for the machine: how many CPUs, which kernel, random numbers.

use super::Request;
use super::errno::Errno;
use super::memory::Memory;
use super::notify::{Call, Reply};
use schedlab_base::Stream;
use std::collections::BTreeMap;

/// A field of `struct utsname`: system, node, release, version, machine, domain.
const FIELD_BYTES: usize = 65;
const FIELDS: usize = 6;
/// getrandom(2) gives up to as much at once without being interrupted.
const MOST_RANDOM: u64 = 256;

#[derive(Debug)]
pub struct Calls {
    random: Stream,
    drawn: u64,
    /// The CPUs that threads have asked for.
    masks: BTreeMap<i32, Vec<u8>>,
}

impl Calls {
    pub fn new() -> Calls {
        Calls { random: Stream::new(0).purpose("scx program"), drawn: 0, masks: BTreeMap::new() }
    }
    /// # Errors
    /// What the call fails with; ENOSYS for one that nobody knows.
    pub fn answer(&mut self, request: &Request, call: &Call) -> Result<Reply, Errno> {
        let memory = Memory { pid: call.thread };
        match call.number {
            libc::SYS_sched_getaffinity => self.affinity(request.cpus, call, memory),
            libc::SYS_sched_setaffinity => self.set_affinity(request.cpus, call, memory),
            libc::SYS_uname => name(request, call, memory),
            libc::SYS_getrandom => self.random(call, memory),
            // Counters of the hardware.
            libc::SYS_perf_event_open => Err(Errno(libc::ENOENT)),
            _ => Err(Errno(libc::ENOSYS)),
        }
    }
    /// The CPU on which a thread's own call of a program runs: the first one that it may use.
    pub fn cpu_of(&self, thread: i32) -> u32 {
        let bits = self.masks.get(&thread).map_or(&[][..], Vec::as_slice);
        let at = bits.iter().position(|byte| *byte != 0);
        at.map_or(0, |at| at as u32 * 8 + bits[at].trailing_zeros())
    }
    /// The CPUs of a thread: those that it asked for, or all. The result is the mask's length, in whole words.
    fn affinity(&self, cpus: u32, call: &Call, memory: Memory) -> Result<Reply, Errno> {
        let all = all_of(cpus);
        if (call.arguments[1] as usize) < all.len() || !call.arguments[1].is_multiple_of(8) {
            return Err(Errno(libc::EINVAL));
        }
        let mask = self.masks.get(&whose(call)).unwrap_or(&all);
        memory.write(call.arguments[2], mask)?;
        Ok(Reply::Value(mask.len() as i64))
    }
    /// Threads take no CPU of the machine: a mask says where programs run that a thread calls.
    fn set_affinity(&mut self, cpus: u32, call: &Call, memory: Memory) -> Result<Reply, Errno> {
        let mut mask = all_of(cpus);
        let asked = memory.bytes(call.arguments[2], (call.arguments[1] as usize).min(mask.len()))?;
        mask.iter_mut().enumerate().for_each(|(at, byte)| *byte &= asked.get(at).copied().unwrap_or(0));
        if mask.iter().all(|byte| *byte == 0) {
            return Err(Errno(libc::EINVAL));
        }
        self.masks.insert(whose(call), mask);
        Ok(Reply::Value(0))
    }
    /// The same in each run.
    fn random(&mut self, call: &Call, memory: Memory) -> Result<Reply, Errno> {
        let count = call.arguments[1].min(MOST_RANDOM);
        let words = (0..count.div_ceil(8)).flat_map(|i| self.random.bits(self.drawn + i).to_le_bytes());
        let bytes: Vec<u8> = words.take(count as usize).collect();
        self.drawn += count.div_ceil(8);
        memory.write(call.arguments[0], &bytes)?;
        Ok(Reply::Value(count as i64))
    }
}

/// A mask with all CPUs, in whole words.
fn all_of(cpus: u32) -> Vec<u8> {
    let mut mask = vec![0u8; (cpus as usize).div_ceil(64) * 8];
    (0..cpus as usize).for_each(|cpu| mask[cpu / 8] |= 1 << (cpu % 8));
    mask
}

/// The thread that a call is about; 0: its own.
fn whose(call: &Call) -> i32 {
    if call.arguments[0] == 0 { call.thread } else { call.arguments[0] as i32 }
}

fn name(request: &Request, call: &Call, memory: Memory) -> Result<Reply, Errno> {
    let machine = std::env::consts::ARCH;
    let texts = ["Linux", "simulated", &request.release, "#1 SMP PREEMPT_DYNAMIC", machine, "(none)"];
    let mut bytes = [0; FIELDS * FIELD_BYTES];
    for (field, text) in texts.iter().enumerate() {
        let count = text.len().min(FIELD_BYTES - 1);
        bytes[field * FIELD_BYTES..][..count].copy_from_slice(&text.as_bytes()[..count]);
    }
    memory.write(call.arguments[0], &bytes)?;
    Ok(Reply::Value(0))
}
