//! What the engine and the image agree on: the layouts of `shim/abi.h`, field by field. A test compares their sizes.

use schedlab_base::CpuSet;
use schedlab_kernel::{Attr as TaskAttr, Policy};
use std::ffi::{c_char, c_int, c_uint, c_ulong, c_ulonglong, c_ushort};

/// The version of the agreement (`IMG_ABI`).
pub const ABI: c_int = 1;

/// `struct img_idle_state`.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct IdleState {
    pub name: *const c_char,
    pub exit_ns: c_ulonglong,
    pub residency_ns: c_ulonglong,
    pub polls: c_uint,
}

/// `struct img_machine`.
#[repr(C)]
pub struct Machine {
    pub nr_cpus: c_uint,
    pub nr_nodes: c_uint,
    pub node: *const c_uint,
    pub package: *const c_uint,
    pub core: *const c_uint,
    pub cluster: *const c_uint,
    pub llc: *const c_uint,
    pub capacity: *const c_uint,
    pub distance: *const u8,
    pub llc_bytes: c_ulonglong,
    pub seed: c_ulonglong,
    pub hz: c_uint,
    pub nr_idle_states: c_uint,
    pub idle_states: *const IdleState,
}

/// `struct img_note`.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Note {
    pub kind: c_ushort,
    pub flags: c_ushort,
    pub cpu: c_uint,
    pub pid: c_int,
    pub other: c_int,
    pub at: c_ulonglong,
    pub value: c_ulonglong,
}

macro_rules! kinds {
    ($($kind:ident = $number:literal;)*) => {
        /// `enum img_note_kind`.
        #[derive(Clone, Copy, PartialEq, Eq, Debug)]
        pub enum NoteKind { $($kind = $number,)* }
        impl NoteKind {
            pub const ALL: &'static [NoteKind] = &[$(NoteKind::$kind,)*];
            /// The kind of a number; `None` for another one.
            #[inline]
            pub fn of(number: u16) -> Option<NoteKind> {
                match number { $($number => Some(NoteKind::$kind),)* _ => None }
            }
        }
    };
}

kinds! {
    Timer = 1;
    IpiResched = 2;
    IpiCall = 3;
    Switch = 4;
    Waking = 5;
    Wakeup = 6;
    Migrate = 7;
    Fork = 8;
    Exit = 9;
    Balance = 10;
    Idle = 11;
    NoIpi = 12;
    Printk = 13;
    Tick = 14;
}

/// `struct img_view`.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct View {
    pub current: c_int,
    pub flags: c_uint,
    pub nr_notes: c_ulonglong,
    pub notes: *const Note,
}

/// The flags of a view.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Flags(pub u32);

impl Flags {
    #[inline]
    pub fn is_idle(self) -> bool {
        self.0 & 1 != 0
    }
    /// The stopper or ksoftirqd is current.
    #[inline]
    pub fn is_kthread(self) -> bool {
        self.0 & (2 | 4) != 0
    }
    #[inline]
    pub fn needs_resched(self) -> bool {
        self.0 & 8 != 0
    }
    /// On the way to user mode the lazy flag counts, too.
    #[inline]
    pub fn gives_way(self) -> bool {
        self.0 & (8 | 16) != 0
    }
    #[inline]
    pub fn has_user_work(self) -> bool {
        self.0 & 32 != 0
    }
    #[inline]
    pub fn is_parked(self) -> bool {
        self.0 & 64 != 0
    }
}

/// `struct img_attr`.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Attr {
    pub policy: c_uint,
    pub nice: c_int,
    pub rt_priority: c_uint,
    pub flags: c_uint,
    pub runtime_ns: c_ulonglong,
    pub deadline_ns: c_ulonglong,
    pub period_ns: c_ulonglong,
}

impl Attr {
    /// A task's attributes in the kernel's words (SCHED_* of `uapi/linux/sched.h`).
    pub fn of(attr: TaskAttr) -> Attr {
        let policy = match attr.policy {
            Policy::Other => 0,
            Policy::Fifo => 1,
            Policy::Rr => 2,
            Policy::Batch => 3,
            Policy::Idle => 5,
        };
        Attr {
            policy,
            nice: attr.nice.into(),
            rt_priority: attr.rt_priority.into(),
            runtime_ns: attr.slice.0,
            ..Attr::default()
        }
    }
}

/// `struct img_new_task`.
#[repr(C)]
pub struct RawNewTask {
    pub name: *const c_char,
    pub attr: Attr,
    pub allowed: *const c_ulong,
    pub slack_ns: c_ulonglong,
    pub group: c_int,
    pub mm: c_uint,
    pub tgid: c_int,
    pub inherits: c_uint,
}

/// A new task, as [`crate::load::Image::task_new`] takes it.
pub struct NewTask<'a> {
    pub name: &'a str,
    pub attr: Attr,
    /// `None`: all CPUs.
    pub allowed: Option<&'a CpuSet>,
    pub slack_ns: u64,
    pub group: i32,
    pub mm: u32,
    /// It has the attributes, CPUs and group of the entered CPU's current task.
    pub inherits: bool,
}

/// `struct img_usage`.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Usage {
    pub runtime_ns: c_ulonglong,
    pub wait_ns: c_ulonglong,
    pub utime_ns: c_ulonglong,
    pub stime_ns: c_ulonglong,
    pub nr_migrations: c_ulonglong,
    pub nvcsw: c_ulonglong,
    pub nivcsw: c_ulonglong,
    pub vruntime: c_ulonglong,
    pub cpu: c_int,
    pub state: c_int,
}

/// Bits by CPU, in the kernel's words, with room for every CPU of an image.
pub fn mask(cpus: &CpuSet, max_cpus: usize) -> Vec<c_ulong> {
    let mut words = vec![0; max_cpus.div_ceil(64)];
    for cpu in cpus.iter() {
        words[cpu.index() / 64] |= 1 << (cpu.index() % 64);
    }
    words
}
