//! The far side: what runs the scheduler that the program attaches.

use super::errno::Errno;
use crate::{Scheduler, Target};
use std::os::fd::BorrowedFd;

/// An entry of a keyed map. Values are in the form of bpf(2): of a map with a value for each CPU, all of them, each
/// rounded up to 8 bytes. The value of a map of maps is the index of a map, of an array of programs that of a program
/// (u32).
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Entry {
    pub map: usize,
    pub key: Vec<u8>,
    pub value: Vec<u8>,
}

/// All that a kernel gets of a scheduler. Maps and programs that it got before are the first ones again.
pub struct Attach<'a> {
    pub scheduler: &'a Scheduler,
    /// The memory of each map ([`Scheduler::maps`]) that has any: both sides map it. Arrays have their values there, in
    /// the layout of bpf(2): each rounded up to 8 bytes, and of a map with a value for each CPU, all CPUs' beside one
    /// another. An arena has its pages there, and a ring buffer its two positions (a page each) and its data, twice.
    pub memory: &'a [Option<BorrowedFd<'a>>],
    /// Entries of keyed maps that are new to the kernel, in the order in which they were made.
    pub entries: Vec<Entry>,
    /// The CPU that the caller is on.
    pub cpu: u32,
}

/// When and why a program's sleep ends.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Wake {
    /// The simulated time, of the clock that `bpf_ktime_get_ns` reads.
    pub now_ns: u64,
    /// The run is over: the program gets SIGINT, and simulated time only passes in its own sleeps.
    pub ended: bool,
    /// A ring has called its reader: the sleep may have ended before its time.
    pub rung: bool,
}

/// What runs the scheduler. Maps and programs are named by their index in [`Scheduler`]; keyed maps' elements are here
/// once the maps are, arrays' elements are in the shared memory.
pub trait Kernel {
    /// Maps and programs are to be there before the scheduler is attached: one is run, or traces. The struct of
    /// operations is empty.
    ///
    /// # Errors
    /// What the program's call fails with.
    fn load(&mut self, given: Attach<'_>) -> Result<(), Errno>;
    /// A program runs at this target from now on.
    ///
    /// # Errors
    /// What the program's link fails with: EOPNOTSUPP where nothing leads there.
    fn trace(&mut self, program: usize, target: &Target) -> Result<(), Errno>;
    fn untrace(&mut self, program: usize, target: &Target);
    /// The scheduler takes over. The result is the simulated time.
    ///
    /// # Errors
    /// What the program's attach fails with.
    fn attach(&mut self, attach: Attach<'_>) -> Result<u64, Errno>;
    /// The scheduler is taken off: `ops.exit` has run when this returns.
    fn detach(&mut self);
    /// # Errors
    /// As bpf(2)'s `BPF_MAP_LOOKUP_ELEM`: ENOENT when there is none.
    fn lookup(&mut self, map: usize, key: &[u8]) -> Result<Vec<u8>, Errno>;
    /// # Errors
    /// As bpf(2)'s `BPF_MAP_UPDATE_ELEM`.
    fn update(&mut self, map: usize, key: &[u8], value: &[u8], flags: u64) -> Result<(), Errno>;
    /// # Errors
    /// As bpf(2)'s `BPF_MAP_DELETE_ELEM`.
    fn delete(&mut self, map: usize, key: &[u8]) -> Result<(), Errno>;
    /// The key after `key`, or the first.
    ///
    /// # Errors
    /// As bpf(2)'s `BPF_MAP_GET_NEXT_KEY`: ENOENT after the last.
    fn next(&mut self, map: usize, key: Option<&[u8]>) -> Result<Vec<u8>, Errno>;
    /// Runs a program (`BPF_PROG_TYPE_SYSCALL`) on a CPU with this context, which it may change. The result is what it
    /// returned.
    ///
    /// # Errors
    /// As bpf(2)'s `BPF_PROG_TEST_RUN`.
    fn test_run(&mut self, program: usize, context: &mut Vec<u8>, cpu: u32) -> Result<u32, Errno>;
    /// The time that each CPU has been with a task so far.
    fn busy_ns(&mut self) -> Vec<u64>;
    /// All threads of the program sleep, the first up to `until_ns`, or for ever: simulated time passes.
    fn sleep(&mut self, until_ns: Option<u64>) -> Wake;
}
