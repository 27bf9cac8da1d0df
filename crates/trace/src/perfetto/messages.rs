//! The messages of Perfetto's trace format that we write, with their field numbers (Perfetto v58).
//!
//! Only written fields are here. All are in `protos/perfetto/trace` of Perfetto.

#![allow(missing_docs, reason = "the fields have Perfetto's own names, and its documentation")]

use super::message::{Field, Fixed, Message, Value, messages, put_message};

/// The sequence of packets for tracks.
pub(super) const TRACK_SEQUENCE: u32 = 2;
/// `sequence_flags`: earlier names are forgotten.
pub(super) const CLEARED: u32 = 1;

messages! {
    /// A file: repeated `packet`.
    pub struct Trace {
        1 packet: Vec<TracePacket>,
    }

    pub struct TracePacket {
        1 ftrace_events: Option<FtraceEventBundle>,
        2 process_tree: Option<ProcessTree>,
        6 clock_snapshot: Option<ClockSnapshot>,
        /// Nanoseconds.
        8 timestamp: Option<u64>,
        10 trusted_packet_sequence_id: Option<u32>,
        11 track_event: Option<TrackEvent>,
        12 interned_data: Option<InternedData>,
        13 sequence_flags: Option<u32>,
        45 system_info: Option<SystemInfo>,
        60 track_descriptor: Option<TrackDescriptor>,
        67 cpu_info: Option<CpuInfo>,
    }

    pub struct ClockSnapshot {
        1 clocks: Vec<Clock>,
    }

    pub struct Clock {
        1 clock_id: Option<u32>,
        2 timestamp: Option<u64>,
    }

    pub struct SystemInfo {
        1 utsname: Option<Utsname>,
        8 num_cpus: Option<u32>,
    }

    pub struct Utsname {
        1 sysname: Option<String>,
        2 version: Option<String>,
        3 release: Option<String>,
    }

    pub struct CpuInfo {
        1 cpus: Vec<Cpu>,
    }

    pub struct Cpu {
        1 processor: Option<String>,
    }

    pub struct ProcessTree {
        1 processes: Vec<Process>,
        2 threads: Vec<Thread>,
    }

    pub struct Process {
        1 pid: Option<i32>,
        2 ppid: Option<i32>,
        3 cmdline: Vec<String>,
    }

    pub struct Thread {
        1 tid: Option<i32>,
        2 name: Option<String>,
        3 tgid: Option<i32>,
    }

    pub struct FtraceEventBundle {
        1 cpu: Option<u32>,
        2 event: Vec<FtraceEvent>,
        3 lost_events: Option<bool>,
        4 compact_sched: Option<CompactSched>,
    }

    /// Switches and wakeups as arrays: entry n of all arrays of a kind is one event. The first time is absolute, the
    /// others are differences to the previous one; names are indices into the table.
    pub struct CompactSched {
        1 switch_timestamp: Vec<u64>,
        2 switch_prev_state: Vec<i64>,
        3 switch_next_pid: Vec<i32>,
        4 switch_next_prio: Vec<i32>,
        5 intern_table: Vec<String>,
        6 switch_next_comm_index: Vec<u32>,
        7 waking_timestamp: Vec<u64>,
        8 waking_pid: Vec<i32>,
        9 waking_target_cpu: Vec<i32>,
        10 waking_prio: Vec<i32>,
        11 waking_comm_index: Vec<u32>,
        12 waking_common_flags: Vec<u32>,
    }
}

/// Fields of both forms of a switch.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Switched {
    pub at: u64,
    /// Only in messages.
    pub prev_pid: Option<i32>,
    pub prev_state: i64,
    pub next_pid: i32,
    pub next_comm: String,
}

impl FtraceEventBundle {
    /// The switches of a bundle in both forms, in order of time.
    pub fn switches(&self) -> Vec<Switched> {
        let message = |e: &FtraceEvent| match &e.event {
            Some(Ftrace::SchedSwitch(s)) => Some(Switched {
                at: e.timestamp?,
                prev_pid: s.prev_pid,
                prev_state: s.prev_state?,
                next_pid: s.next_pid?,
                next_comm: s.next_comm.clone()?,
            }),
            _ => None,
        };
        let mut all: Vec<Switched> = self.event.iter().filter_map(message).collect();
        let Some(c) = &self.compact_sched else { return all };
        let mut at = 0;
        let names = c.switch_next_comm_index.iter().map(|i| c.intern_table.get(*i as usize));
        let told = c.switch_timestamp.iter().zip(&c.switch_prev_state).zip(&c.switch_next_pid).zip(names);
        all.extend(told.filter_map(|(((delta, state), pid), name)| {
            at += delta;
            let next_comm = name?.clone();
            Some(Switched { at, prev_pid: None, prev_state: *state, next_pid: *pid, next_comm })
        }));
        all.sort_by_key(|s| s.at);
        all
    }
}

#[derive(Clone, PartialEq, Debug, Default)]
pub struct FtraceEvent {
    pub timestamp: Option<u64>,
    pub pid: Option<u32>,
    /// Bit 3: in a hardware interrupt.
    pub common_flags: Option<u32>,
    pub event: Option<Ftrace>,
}

impl Message for FtraceEvent {
    fn write(&self, out: &mut Vec<u8>) {
        self.timestamp.put(1, out);
        self.pid.put(2, out);
        self.common_flags.put(5, out);
        self.event.iter().for_each(|event| event.write(out));
    }
    fn take(&mut self, tag: u32, value: Value<'_>) {
        match tag {
            1 => self.timestamp.accept(value),
            2 => self.pid.accept(value),
            5 => self.common_flags.accept(value),
            _ => self.event = Ftrace::read(tag, value).or(self.event.take()),
        }
    }
}

/// One kind of event, identified by the tag of its field.
macro_rules! ftrace {
    ($($tag:literal $name:ident($kind:ty),)*) => {
        #[derive(Clone, PartialEq, Debug)]
        pub enum Ftrace {
            $($name($kind),)*
        }
        impl Ftrace {
            fn write(&self, out: &mut Vec<u8>) {
                match self {
                    $(Ftrace::$name(message) => put_message(message, $tag, out),)*
                }
            }
            fn read(tag: u32, value: Value<'_>) -> Option<Ftrace> {
                let Value::Bytes(bytes) = value else { return None };
                match tag {
                    $($tag => <$kind>::read(bytes).map(Ftrace::$name),)*
                    _ => None,
                }
            }
        }
    };
}
ftrace! {
    4 SchedSwitch(SchedSwitch),
    13 CpuIdle(CpuIdle),
    17 SchedWakeup(SchedWakeup),
    20 SchedWaking(SchedWakeup),
    114 SchedWakeupNew(SchedWakeup),
    235 TaskNewtask(TaskNewtask),
    238 SchedProcessExit(SchedProcessExit),
    491 SchedMigrateTask(SchedMigrateTask),
}

messages! {
    pub struct SchedSwitch {
        1 prev_comm: Option<String>,
        2 prev_pid: Option<i32>,
        3 prev_prio: Option<i32>,
        4 prev_state: Option<i64>,
        5 next_comm: Option<String>,
        6 next_pid: Option<i32>,
        7 next_prio: Option<i32>,
    }

    /// The message of sched_waking, sched_wakeup and sched_wakeup_new.
    pub struct SchedWakeup {
        1 comm: Option<String>,
        2 pid: Option<i32>,
        3 prio: Option<i32>,
        4 success: Option<i32>,
        5 target_cpu: Option<i32>,
    }

    pub struct SchedMigrateTask {
        1 comm: Option<String>,
        2 pid: Option<i32>,
        3 prio: Option<i32>,
        4 orig_cpu: Option<i32>,
        5 dest_cpu: Option<i32>,
    }

    pub struct TaskNewtask {
        1 pid: Option<i32>,
        2 comm: Option<String>,
        /// Bit 16 (CLONE_THREAD): a thread of its parent's process.
        3 clone_flags: Option<u64>,
    }

    pub struct SchedProcessExit {
        1 comm: Option<String>,
        2 pid: Option<i32>,
        3 tgid: Option<i32>,
        4 prio: Option<i32>,
    }

    pub struct CpuIdle {
        /// The idle state; `u32::MAX`: the CPU leaves it.
        1 state: Option<u32>,
        2 cpu_id: Option<u32>,
    }

    pub struct TrackDescriptor {
        1 uuid: Option<u64>,
        2 name: Option<String>,
        4 thread: Option<ThreadDescriptor>,
        5 parent_uuid: Option<u64>,
        8 counter: Option<CounterDescriptor>,
        /// 3: by `sibling_order_rank`.
        11 child_ordering: Option<i32>,
        12 sibling_order_rank: Option<i32>,
        14 description: Option<String>,
    }

    pub struct ThreadDescriptor {
        1 pid: Option<i32>,
        2 tid: Option<i64>,
        5 thread_name: Option<String>,
    }

    pub struct CounterDescriptor {
        /// 1: ns; 2: a count.
        3 unit: Option<i32>,
    }

    pub struct TrackEvent {
        4 debug_annotations: Vec<DebugAnnotation>,
        9 r#type: Option<i32>,
        10 name_iid: Option<u64>,
        11 track_uuid: Option<u64>,
        30 counter_value: Option<i64>,
        47 flow_ids: Fixed,
        48 terminating_flow_ids: Fixed,
    }
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(i32)]
pub enum TrackEventType {
    Unspecified = 0,
    SliceBegin = 1,
    SliceEnd = 2,
    Instant = 3,
    Counter = 4,
}

messages! {
    pub struct DebugAnnotation {
        1 name_iid: Option<u64>,
        3 uint_value: Option<u64>,
        6 string_value: Option<String>,
    }

    pub struct InternedData {
        2 event_names: Vec<EventName>,
        3 debug_annotation_names: Vec<EventName>,
    }

    /// A name and its number, for all kinds of names.
    pub struct EventName {
        1 iid: Option<u64>,
        2 name: Option<String>,
    }
}
