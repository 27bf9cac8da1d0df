//! One record of the kernel's tracepoints as an importer reads it, in any file format.
//!
//! Threads and CPUs have the kernel's numbers; thread 0 is the idle task. Names come with the record, because a thread
//! may change its name. Times are nanoseconds of the recording's own clock.

use schedlab_trace::SwitchReason;

/// The scheduler's tracepoints that become events. Other tracepoints may be read for threads' names.
pub const TRACEPOINTS: [&str; 7] = [
    "sched_switch",
    "sched_waking",
    "sched_wakeup",
    "sched_wakeup_new",
    "sched_migrate_task",
    "sched_process_fork",
    "sched_process_exit",
];
/// The highest number of a thread, plus one (PID_MAX_LIMIT of 64-bit kernels).
pub const MAX_THREADS: u32 = 1 << 22;
/// The highest number of a CPU, plus one.
pub const MAX_CPUS: u32 = 4096;
/// Bits of `common_flags` that say that the record was made in a hard or soft interrupt (trace_flag_type).
pub const IN_INTERRUPT: u64 = 0x08 | 0x10;
/// The flag of clone() for a thread of the same process.
pub const CLONE_THREAD: u64 = 0x10000;
/// `process` of a record whose process is not known.
pub const UNKNOWN_PROCESS: u32 = 0;

/// A task's name as in the kernel: at most 16 bytes, filled up with zeros.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Comm([u8; 16]);

impl Comm {
    /// The name, cut after 16 bytes or at a zero byte.
    #[inline]
    pub fn of(bytes: &[u8]) -> Comm {
        const ONES: u128 = u128::MAX / 0xff;
        let comm = match bytes.first_chunk() {
            Some(whole) => *whole,
            None => {
                let mut comm = [0; 16];
                comm[..bytes.len()].copy_from_slice(bytes);
                comm
            }
        };
        // The lowest zero byte has its highest bit set here; higher bytes may have it, too.
        let word = u128::from_le_bytes(comm);
        let zeros = word.wrapping_sub(ONES) & !word & (ONES << 7);
        let kept = zeros.trailing_zeros() / 8 * 8;
        Comm(if kept >= 128 { comm } else { (word & ((1 << kept) - 1)).to_le_bytes() })
    }
    /// Whether the name is unknown ("<...>": the tracer has forgotten it).
    #[inline]
    pub fn is_unknown(&self) -> bool {
        self.0[0] == 0 || self.bytes() == b"<...>"
    }
    #[inline]
    pub fn bytes(&self) -> &[u8] {
        let end = self.0.iter().position(|b| *b == 0).unwrap_or(16);
        &self.0[..end]
    }
    /// The name as text; bytes that are not UTF-8 are replaced.
    pub fn text(&self) -> String {
        String::from_utf8_lossy(self.bytes()).into_owned()
    }
}

/// A thread in a record: its number, and its name and priority if the record reports them.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Thread {
    pub tid: u32,
    /// The name at the record's time.
    pub comm: Comm,
    /// The kernel's priority (0 to 99 is real-time, 120 is nice 0); `None` if unknown.
    pub prio: Option<i32>,
}

/// The content of a record. Each variant's comment explains its fields.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum RecordKind {
    /// sched_switch: `prev` left the CPU for `next`.
    Switch { prev: Thread, next: Thread, why: SwitchReason },
    /// sched_waking: `waker` began to wake `thread`, which ran last on `cpu`; `waker` is thread 0 in an interrupt.
    Waking { thread: Thread, waker: Thread, cpu: u32 },
    /// sched_wakeup and sched_wakeup_new: `thread` was queued on `cpu`. `waker` ran where the record was made; it is
    /// thread 0 in an interrupt, even if a task on another CPU began the wakeup and sent it here (TTWU_QUEUE).
    Queued { thread: Thread, waker: Thread, cpu: u32, new: bool },
    /// sched_migrate_task: `thread` goes to another CPU.
    Migrate { thread: Thread, from: u32, to: u32 },
    /// sched_process_fork, task_newtask: `parent` made `child`. `own_process`: whether the child is a process of its
    /// own; `None` if unknown.
    Fork { parent: Thread, child: Thread, own_process: Option<bool> },
    /// sched_process_exit: `thread` is on its way out.
    Exit { thread: Thread },
    /// task_rename: `thread` has this new name.
    Rename { thread: Thread },
    /// At least `count` records of this CPU before this one were lost. 0: the CPU's recording begins here.
    Lost { count: u64 },
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct SchedRecord {
    pub at_ns: u64,
    /// The CPU that made the record.
    pub cpu: u32,
    /// The thread that ran then.
    pub current: u32,
    /// That thread's process, or [`UNKNOWN_PROCESS`].
    pub process: u32,
    pub what: RecordKind,
}

#[cfg(test)]
mod tests {
    use super::Comm;

    #[test]
    fn names_end_at_their_first_zero_or_after_16_bytes() {
        for (bytes, kept) in [
            (&b""[..], &b""[..]),
            (b"a", b"a"),
            (b"\0abc", b""),
            (b"\x01\0\x01", b"\x01"),
            (b"kworker/0:1\0\xff\xff\xff\xff\xff", b"kworker/0:1"),
            (b"0123456789abcdef", b"0123456789abcdef"),
            (b"0123456789abcde\0gh", b"0123456789abcde"),
            (b"0123456789abcdefgh", b"0123456789abcdef"),
            (b"\x80\x80\0\x80", b"\x80\x80"),
        ] {
            assert_eq!(Comm::of(bytes).bytes(), kept);
            assert_eq!(Comm::of(bytes), Comm::of(kept), "nothing is left behind the end");
        }
    }
}
