//! System calls that ask for the machine: how many CPUs, how much memory, which kernel, random numbers.

use super::Request;
use super::errno::Errno;
use super::memory::Memory;
use super::notify::{Call, Reply};
use super::stat::bytes_of;
use schedlab_base::Stream;
use std::collections::BTreeMap;

/// A field of `struct utsname`: system, node, release, version, machine, domain.
const FIELD_BYTES: usize = 65;
const FIELDS: usize = 6;
/// More threads than this have lost their numbers.
const MOST_BOUND: usize = 1 << 16;
/// `struct tms`, and the unit of times(2).
const TIMES_BYTES: usize = 32;
const TICK_NS: u64 = 10_000_000;
/// As the system call has it: 20 less the nice value.
const PRIORITY_OF_NICE_0: i64 = 20;
/// getrandom(2) gives up to as much at once without being interrupted.
const MOST_RANDOM: u64 = 256;

#[derive(Debug)]
pub struct Calls {
    random: Stream,
    drawn: u64,
    /// The CPUs of the simulated machine to which threads have bound themselves, as bits.
    bound: BTreeMap<i32, Vec<u8>>,
}

impl Calls {
    pub fn new() -> Calls {
        Calls { random: Stream::new(0).purpose("scx program"), drawn: 0, bound: BTreeMap::new() }
    }
    /// The CPU on which a thread is: the first one that it has bound itself to.
    pub fn cpu(&self, thread: i32) -> u32 {
        let mask = self.bound.get(&thread).into_iter().flatten();
        let mut words = mask.zip(0..).filter(|(byte, _)| **byte != 0);
        words.next().map_or(0, |(byte, at)| at * 8 + byte.trailing_zeros())
    }
    /// `thread`: the one that the call is about, if it is about one.
    ///
    /// # Errors
    /// What the call fails with; ENOSYS for one that nobody knows.
    pub fn answer(
        &mut self,
        request: &Request,
        call: &Call,
        thread: i32,
        now_ns: u64,
    ) -> Result<Reply, Errno> {
        let memory = Memory { pid: call.thread };
        let arguments = call.arguments;
        match call.number {
            libc::SYS_sched_getaffinity => self.affinity(request.cpus, call, thread),
            libc::SYS_sched_setaffinity => self.bind(request.cpus, call, thread),
            libc::SYS_uname => name(request, call, memory),
            libc::SYS_getrandom => self.random(call, memory),
            libc::SYS_sysinfo => {
                memory.write(arguments[0], bytes_of(&about(request, now_ns))).map(|()| Reply::Value(0))
            }
            libc::SYS_getcpu => {
                let words = [(arguments[0], self.cpu(call.thread)), (arguments[1], 0)];
                let mut places = words.into_iter().filter(|(at, _)| *at != 0);
                places
                    .try_for_each(|(at, word)| memory.write(at, &word.to_le_bytes()))
                    .map(|()| Reply::Value(0))
            }
            // Its work takes no simulated time and none of the machine's memory.
            libc::SYS_getrusage => {
                memory.write(arguments[1], &[0; size_of::<libc::rusage>()]).map(|()| Reply::Value(0))
            }
            libc::SYS_times => {
                let done = arguments[0] == 0 || memory.write(arguments[0], &[0; TIMES_BYTES]).is_ok();
                if done { Ok(Reply::Value((now_ns / TICK_NS) as i64)) } else { Err(Errno(libc::EFAULT)) }
            }
            libc::SYS_clock_getres => {
                let finest = [0u64, 1].map(u64::to_le_bytes).concat();
                let done = arguments[1] == 0 || memory.write(arguments[1], &finest).is_ok();
                if done { Ok(Reply::Value(0)) } else { Err(Errno(libc::EFAULT)) }
            }
            libc::SYS_getpriority => Ok(Reply::Value(PRIORITY_OF_NICE_0)),
            _ => Err(Errno(libc::ENOSYS)),
        }
    }
    /// The result is the mask's length, in whole words.
    fn affinity(&self, cpus: u32, call: &Call, thread: i32) -> Result<Reply, Errno> {
        let mask = self.bound.get(&thread).cloned().unwrap_or_else(|| all(cpus));
        if (call.arguments[1] as usize) < mask.len() || !call.arguments[1].is_multiple_of(8) {
            return Err(Errno(libc::EINVAL));
        }
        Memory { pid: call.thread }.write(call.arguments[2], &mask)?;
        Ok(Reply::Value(mask.len() as i64))
    }
    /// Threads run on this machine where they are; programs that they run are on the CPU.
    fn bind(&mut self, cpus: u32, call: &Call, thread: i32) -> Result<Reply, Errno> {
        let mut mask = all(cpus);
        let count = mask.len().min(call.arguments[1] as usize);
        let given = Memory { pid: call.thread }.bytes(call.arguments[2], count)?;
        let given = given.into_iter().chain(std::iter::repeat(0));
        mask.iter_mut().zip(given).for_each(|(byte, given)| *byte &= given);
        if mask.iter().all(|byte| *byte == 0) {
            return Err(Errno(libc::EINVAL));
        }
        if self.bound.len() < MOST_BOUND {
            self.bound.insert(thread, mask);
        }
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

fn all(cpus: u32) -> Vec<u8> {
    let mut mask = vec![0u8; (cpus as usize).div_ceil(64) * 8];
    (0..cpus as usize).for_each(|cpu| mask[cpu / 8] |= 1 << (cpu % 8));
    mask
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

/// Nothing else runs there, and all memory is free.
fn about(request: &Request, now_ns: u64) -> libc::sysinfo {
    // SAFETY: the struct consists of integers.
    let mut about: libc::sysinfo = unsafe { std::mem::zeroed() };
    about.uptime = (now_ns / 1_000_000_000) as _;
    about.totalram = request.memory_bytes as _;
    about.freeram = about.totalram;
    about.procs = 1;
    about.mem_unit = 1;
    about
}
