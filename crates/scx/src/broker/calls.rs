//! System calls that ask for the machine: how many CPUs, which kernel, random numbers.
//!
//! A thread runs on CPUs of the simulated machine that it may choose: programs of BPF that it runs are executed on the
//! first of them. Its own code runs wherever the system of this machine lets it.

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
    /// CPUs that threads have asked for, as their masks.
    affinity: BTreeMap<i32, Vec<u8>>,
}

impl Calls {
    pub fn new() -> Calls {
        Calls { random: Stream::new(0).purpose("scx program"), drawn: 0, affinity: BTreeMap::new() }
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
    /// The CPU on which a thread's calls are executed.
    pub fn cpu_of(&self, thread: i32) -> u32 {
        let set = |mask: &Vec<u8>| (0..mask.len() as u32 * 8).find(|cpu| is_set(mask, *cpu));
        self.affinity.get(&thread).and_then(set).unwrap_or(0)
    }
    /// Its CPUs; all, if it has not asked for some. The result is the mask's length, in whole words.
    fn affinity(&self, cpus: u32, call: &Call, memory: Memory) -> Result<Reply, Errno> {
        let bytes = (cpus as usize).div_ceil(64) * 8;
        if (call.arguments[1] as usize) < bytes || !call.arguments[1].is_multiple_of(8) {
            return Err(Errno(libc::EINVAL));
        }
        let asked = self.affinity.get(&asked_about(call));
        let mut mask = vec![0u8; bytes];
        for cpu in (0..cpus).filter(|cpu| asked.is_none_or(|asked| is_set(asked, *cpu))) {
            mask[cpu as usize / 8] |= 1 << (cpu % 8);
        }
        memory.write(call.arguments[2], &mask)?;
        Ok(Reply::Value(bytes as i64))
    }
    fn set_affinity(&mut self, cpus: u32, call: &Call, memory: Memory) -> Result<Reply, Errno> {
        let bytes = (call.arguments[1] as usize).min((cpus as usize).div_ceil(8));
        let mask = memory.bytes(call.arguments[2], bytes)?;
        if !(0..cpus).any(|cpu| is_set(&mask, cpu)) {
            return Err(Errno(libc::EINVAL));
        }
        self.affinity.insert(asked_about(call), mask);
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

fn is_set(mask: &[u8], cpu: u32) -> bool {
    mask.get(cpu as usize / 8).is_some_and(|bits| bits >> (cpu % 8) & 1 != 0)
}
/// The thread that a call about CPUs means.
fn asked_about(call: &Call) -> i32 {
    match call.arguments[0] as i32 {
        0 => call.thread,
        thread => thread,
    }
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
