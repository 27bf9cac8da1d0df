//! The far side: what runs the scheduler that the program attaches.

use super::errno::Errno;
use crate::Scheduler;
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

/// A program that the user's half ran before it attached: it is run before `ops.init`.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct TestRun {
    pub program: usize,
    pub context: Vec<u8>,
}

/// All that a kernel gets when a scheduler is attached.
pub struct Attach<'a> {
    pub scheduler: &'a Scheduler,
    /// The memory of each map ([`Scheduler::maps`]) that has any: both sides map it. Arrays have their values there, in
    /// the layout of bpf(2): each rounded up to 8 bytes, and of a map with a value for each CPU, all CPUs' beside one
    /// another. An arena has its pages there, and a ring buffer its two positions (a page each) and its data, twice.
    pub memory: &'a [Option<BorrowedFd<'a>>],
    /// Entries of keyed maps, in the order in which they were made.
    pub entries: Vec<Entry>,
    pub runs: Vec<TestRun>,
    /// Programs that are attached to something else than operations, and to what, as the program named it.
    pub tracing: Vec<(usize, String)>,
}

/// When and why a program's sleep ends.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Wake {
    /// The simulated time, of the clock that `bpf_ktime_get_ns` reads.
    pub now_ns: u64,
    /// The run is over: the program gets SIGINT, and simulated time only passes in its own sleeps.
    pub ended: bool,
}

/// What runs the scheduler. Maps and programs are named by their index in [`Scheduler`]; keyed maps' elements are here
/// from attach on, arrays' elements are in the shared memory.
pub trait Kernel {
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
    /// All threads of the program sleep, the first up to `until_ns`, or for ever: simulated time passes.
    fn sleep(&mut self, until_ns: Option<u64>) -> Wake;
}
