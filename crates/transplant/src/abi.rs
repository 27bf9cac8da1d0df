//! The interface of engine and image: the layouts of `shim/abi.h`, field by field.

use crate::ext_abi::{
    RawCalled, RawField, RawInsn, RawMap, RawMember, RawOps, RawProgram, RawState, RawTrace,
};
use schedlab_board::decision::{TREE_GROUPS, TREE_TASKS};
use schedlab_board::objects::Touched;
use std::ffi::{c_char, c_int, c_uint, c_ulong, c_void};

/// The interface that this loader knows (`IMG_ABI`).
pub const ABI: c_int = 16;
/// No kernel holds a lock for so long, ns (`IMG_LONGEST_NS`).
pub const LONGEST_NS: u64 = 100_000_000;
/// A time that never comes (`IMG_NEVER`).
pub const NEVER: u64 = u64::MAX;

/// `struct img_machine`. The image keeps the pointers.
#[repr(C)]
#[derive(Debug)]
pub struct RawMachine {
    pub nr_cpus: c_uint,
    pub nr_nodes: c_uint,
    pub node: *const c_uint,
    pub package: *const c_uint,
    pub core: *const c_uint,
    pub cluster: *const c_uint,
    pub llc: *const c_uint,
    pub capacity: *const c_uint,
    pub distance: *const u8,
    pub reclaim_distance: c_uint,
    pub llc_bytes: u64,
    pub seed: u64,
    pub hz: c_uint,
    pub nr_idle_states: c_uint,
    pub idle_states: *const RawIdleState,
    pub idle_governor: *const c_char,
}

/// `struct img_idle_state`.
#[repr(C)]
#[derive(Debug)]
pub struct RawIdleState {
    pub name: *const c_char,
    pub exit_ns: c_uint,
    pub residency_ns: c_uint,
    pub polls: c_uint,
}

/// `struct img_note`; [`crate::note`] reads it.
#[repr(C)]
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct RawNote {
    pub kind: u16,
    pub flags: u16,
    /// The CPU that it concerns, which need not be the entered one.
    pub cpu: u32,
    pub pid: i32,
    pub other: i32,
    pub at: u64,
    pub value: u64,
    /// The cost of the verb's code until then.
    pub after_ns: u64,
}

/// `enum img_note_kind`.
pub mod kind {
    pub const TIMER: u16 = 1;
    pub const IPI_RESCHED: u16 = 2;
    pub const IPI_CALL: u16 = 3;
    pub const SWITCH: u16 = 4;
    pub const WAKING: u16 = 5;
    pub const WAKEUP: u16 = 6;
    pub const MIGRATE: u16 = 7;
    pub const FORK: u16 = 8;
    pub const EXIT: u16 = 9;
    pub const BALANCE: u16 = 10;
    pub const IDLE: u16 = 11;
    pub const NO_IPI: u16 = 12;
    pub const PRINTK: u16 = 13;
    pub const TICK: u16 = 14;
    pub const FOUND: u16 = 15;
    pub const CHOSE: u16 = 16;
    pub const JUDGED: u16 = 17;
    pub const PICKED: u16 = 18;
    pub const GRANT: u16 = 19;
    pub const STEP: u16 = 20;
}

/// `enum img_wakee`.
pub mod wakee {
    pub const QUEUED: u64 = 1;
    pub const ON_CPU: u64 = 2;
    pub const PINNED: u64 = 4;
}

/// `enum img_finding`.
pub mod finding {
    pub const LOST_TASK: u16 = 1;
    pub const DROPPED_WAKEUP: u16 = 2;
    pub const DROPPED_TIMER: u16 = 3;
    pub const IDLE_BESIDE_TASKS: u16 = 4;
    pub const SLEEPER_QUEUED: u16 = 5;
    pub const WRONG_COUNT: u16 = 6;
    pub const PREEMPT_COUNT: u16 = 7;
    pub const IRQS_OFF: u16 = 8;
    pub const PASSED_OVER: u16 = 9;
    pub const NOT_PUSHABLE: u16 = 10;
    pub const NOT_ON_CPU: u16 = 11;
}

/// `struct img_view`.
#[repr(C)]
#[derive(Debug)]
pub struct RawView {
    pub current: c_int,
    pub flags: c_uint,
    pub nr_notes: u64,
    pub notes: *const RawNote,
}

/// `enum img_view_flags`.
pub mod view {
    pub const IDLE: u32 = 1;
    pub const STOPPER: u32 = 2;
    pub const KSOFTIRQD: u32 = 4;
    pub const RESCHED: u32 = 8;
    pub const LAZY: u32 = 16;
    pub const USER_WORK: u32 = 32;
    pub const PARKED: u32 = 64;
    pub const LEFT: u32 = 128;
    pub const WAITS: u32 = 256;
}

/// `struct img_attr`.
#[repr(C)]
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Attr {
    pub policy: c_uint,
    pub nice: c_int,
    pub rt_priority: c_uint,
    pub flags: c_uint,
    pub runtime_ns: u64,
    pub deadline_ns: u64,
    pub period_ns: u64,
}

/// `struct img_new_task`.
#[repr(C)]
#[derive(Debug)]
pub struct RawNewTask {
    pub name: *const c_char,
    pub attr: Attr,
    pub allowed: *const c_ulong,
    pub slack_ns: u64,
    pub group: c_int,
    pub mm: c_uint,
    pub tgid: c_int,
    pub inherits: c_uint,
    pub session_of: c_int,
}

/// `struct img_usage`.
#[repr(C)]
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Usage {
    pub runtime_ns: u64,
    pub wait_ns: u64,
    pub utime_ns: u64,
    pub stime_ns: u64,
    pub nr_migrations: u64,
    pub nvcsw: u64,
    pub nivcsw: u64,
    pub vruntime: u64,
    pub cpu: c_int,
    pub state: c_int,
}

/// `struct img_block`.
#[repr(C)]
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct RawBlock {
    pub at: c_uint,
    pub instructions: c_uint,
}
/// `struct img_costs`. The image keeps the pointers.
#[repr(C)]
#[derive(Debug)]
pub struct RawCosts {
    pub blocks: *const RawBlock,
    pub nr_blocks: u64,
    pub text: *const c_void,
    pub text_size: u64,
    pub instruction_ps: c_uint,
    pub line_sibling_ps: c_uint,
    pub line_near_ps: c_uint,
    pub line_far_ps: c_uint,
    pub line_remote_ps: c_uint,
    pub lookahead: c_uint,
    pub sample_ps: u64,
}

/// Calls of a sample (`IMG_CALLS`).
pub const CALLS: usize = 24;
/// `struct img_sample`.
#[repr(C)]
#[derive(Debug)]
pub struct RawSample {
    pub calls: [*const c_void; CALLS],
}

/// `enum img_entity_flags`.
pub mod entity {
    pub const CURRENT: u32 = 1;
    pub const ABSENT: u32 = 2;
    pub const NEXT: u32 = 4;
    pub const LAST: u32 = 8;
    pub const SKIP: u32 = 16;
    pub const OWN_SLICE: u32 = 32;
    pub const RELATIVE: u32 = 64;
    pub const DELAYED: u32 = 128;
}

/// `struct img_entity`.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub struct RawEntity {
    pub vruntime: i64,
    pub deadline: i64,
    pub lag: i64,
    pub protected_until: i64,
    pub slice_ns: u64,
    pub policy: c_uint,
    pub nice: c_int,
    pub flags: c_uint,
}

/// `struct img_question`.
#[repr(C)]
#[derive(Debug)]
pub struct RawQuestion {
    pub function: c_uint,
    pub nr: c_uint,
    pub entities: *const RawEntity,
    pub min_vruntime: i64,
    pub ran_ns: u64,
    pub about: c_uint,
    pub is_new: c_uint,
    pub sync: c_uint,
}

/// `struct img_answer`.
#[repr(C)]
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct RawAnswer {
    pub entity: c_int,
    pub next: c_int,
    pub resched: c_uint,
    pub vruntime: i64,
    pub deadline: i64,
}

/// `struct img_averages`.
#[repr(C)]
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct RawAverages {
    pub load: u64,
    pub runnable: u64,
    pub util: u64,
    pub util_est: u64,
}

/// `struct img_fleet_cpu`.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub struct RawFleetCpu {
    pub avg: RawAverages,
    pub avg_idle_ns: u64,
    pub nr_idle_scan: c_uint,
    pub has_idle_cores: c_uint,
    pub wakeup_pending: c_uint,
    /// `c_uint::MAX`: it is in no idle state.
    pub idle_exit_us: c_uint,
    pub idle_stamp: u64,
    pub misfit: u64,
    pub rt_util: c_uint,
    pub nr_rt: c_uint,
}

/// `enum img_fleet_task_flags`.
pub mod fleet_task {
    pub const RUNS: u32 = 1;
    pub const ABSENT: u32 = 2;
    pub const NEXT: u32 = 4;
}

/// `struct img_fleet_task`.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub struct RawFleetTask {
    pub avg: RawAverages,
    pub ran_ago_ns: u64,
    /// Bits by CPU.
    pub allowed: u64,
    pub vruntime: i64,
    pub cpu: c_uint,
    pub flags: c_uint,
    pub policy: c_uint,
    pub nice: c_int,
    pub flips: c_uint,
    pub recent_cpu: c_uint,
}

/// `struct img_fleet_level`.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub struct RawFleetLevel {
    pub newidle_cost_ns: u64,
    pub failed: c_uint,
    pub imbalanced: c_uint,
}

/// `struct img_fleet`.
#[repr(C)]
#[derive(Debug)]
pub struct RawFleet {
    pub function: c_uint,
    pub nr_cpus: c_uint,
    pub nr_tasks: c_uint,
    pub nr_levels: c_uint,
    pub cpus: *const RawFleetCpu,
    pub tasks: *const RawFleetTask,
    pub levels: *const RawFleetLevel,
    pub cpu: c_uint,
    pub src: c_uint,
    pub level: c_uint,
    pub about: c_uint,
    pub idle: c_uint,
    pub sync: c_uint,
    pub overload: c_uint,
    pub migration: c_uint,
    pub imbalance: i64,
    pub shares: u64,
    pub group_load: u64,
    pub group_runnable: u64,
    pub load_weight: u64,
    pub load_avg: u64,
    pub contribution: u64,
}

/// Tasks of a machine that is asked about (`IMG_FLEET_TASKS`).
pub const FLEET_TASKS: usize = 160;

/// `struct img_fleet_answer`.
#[repr(C)]
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct RawFleetAnswer {
    pub cpu: c_int,
    pub group: c_int,
    pub migration: c_uint,
    pub levels: c_uint,
    pub nr_moved: c_uint,
    pub moved: [u8; FLEET_TASKS],
    pub imbalance: i64,
    pub weight: u64,
}

impl Default for RawFleetAnswer {
    fn default() -> RawFleetAnswer {
        RawFleetAnswer {
            cpu: -1,
            group: -1,
            migration: 0,
            levels: 0,
            nr_moved: 0,
            moved: [0; FLEET_TASKS],
            imbalance: 0,
            weight: 0,
        }
    }
}

/// `struct img_tree_entity`.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub struct RawTreeEntity {
    pub vruntime: i64,
    pub deadline: i64,
    pub protected_until: i64,
    pub keeps: i64,
    pub slice_ns: u64,
    pub weight: u64,
    pub flags: c_uint,
    pub policy: c_uint,
    pub nice: c_int,
    pub group: c_int,
    pub idle: c_uint,
    pub shares: u64,
    pub load: u64,
    pub load_elsewhere: u64,
    pub runnable: u64,
}

/// `enum img_tree_flags`.
pub mod tree_entity {
    pub const CURRENT: u32 = 1;
    pub const ABSENT: u32 = 2;
    pub const DELAYED: u32 = 4;
    pub const NEXT: u32 = 8;
    pub const OWN_SLICE: u32 = 16;
    pub const RELATIVE: u32 = 32;
}

/// `struct img_tree`.
#[repr(C)]
#[derive(Debug)]
pub struct RawTree {
    pub function: c_uint,
    pub nr_tasks: c_uint,
    pub tasks: *const RawTreeEntity,
    pub groups: *const RawTreeEntity,
    pub min_vruntime: i64,
    pub ran_ns: u64,
    pub about: c_uint,
    pub is_new: c_uint,
    pub sync: c_uint,
}

/// `struct img_after`.
#[repr(C)]
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct RawAfter {
    pub vruntime: i64,
    pub deadline: i64,
    pub keeps: i64,
    pub weight: u64,
    pub line_weight: u64,
    pub on_rq: u8,
    pub delayed: u8,
    pub relative: u8,
    pub next: u8,
}

/// `struct img_tree_answer`.
#[repr(C)]
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct RawTreeAnswer {
    pub entity: c_int,
    pub resched: c_uint,
    pub nr_running: c_uint,
    pub tasks: [RawAfter; TREE_TASKS],
    pub groups: [RawAfter; TREE_GROUPS.len()],
}

/// `struct img_choice_cpu`.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub struct RawChoiceCpu {
    pub load: u64,
    pub capacity: c_uint,
    pub nr_running: c_uint,
    pub nr_delayed: c_uint,
    pub nr_sched_idle: c_uint,
    pub nr_idle_scan: c_uint,
    pub has_idle_cores: c_uint,
    pub idle: c_uint,
}

/// `enum img_choice_how`.
pub mod choice_how {
    pub const WAKEUP: u32 = 0;
    pub const FORK: u32 = 1;
    pub const EXEC: u32 = 2;
}

/// `struct img_choice`.
#[repr(C)]
#[derive(Debug)]
pub struct RawChoice {
    pub cpus: *const RawChoiceCpu,
    pub after: *const RawChoiceCpu,
    pub allowed: *const c_ulong,
    pub cpu: c_uint,
    pub prev: c_uint,
    pub recent: c_uint,
    pub how: c_uint,
    pub fair: c_uint,
    pub sched_idle: c_uint,
    pub sync: c_uint,
    pub by_cpu_thread: c_uint,
    pub waker_flips: c_uint,
    pub wakee_flips: c_uint,
    pub util: u64,
    pub wakee_load: u64,
    pub waker_load: u64,
    pub avg_idle: u64,
    pub wake_avg_idle: u64,
    pub avg_scan_cost: u64,
}

/// `struct img_judged_entity`.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct RawJudgedEntity {
    pub entity: RawEntity,
    /// In units of 1/1024.
    pub weight: u64,
}

/// `struct img_judged`.
#[repr(C)]
#[derive(Debug)]
pub struct RawJudged {
    pub entities: *const RawJudgedEntity,
    pub min_vruntime: i64,
    pub ran_ns: u64,
    pub nr: c_uint,
    pub about: c_uint,
    pub is_new: c_uint,
    pub sync: c_uint,
    pub why_not: c_uint,
}

/// `struct img_stubs`.
#[repr(C)]
#[derive(Debug)]
pub struct RawStubs {
    pub start: *const c_void,
    pub end: *const c_void,
    pub names: *const c_char,
}

/// Sizes in the order of `img_sizes()`.
pub const SIZES: [usize; 34] = [
    size_of::<RawMachine>(),
    size_of::<RawNote>(),
    size_of::<RawView>(),
    size_of::<Attr>(),
    size_of::<RawNewTask>(),
    size_of::<Usage>(),
    size_of::<RawBlock>(),
    size_of::<RawCosts>(),
    size_of::<RawSample>(),
    size_of::<RawEntity>(),
    size_of::<RawQuestion>(),
    size_of::<RawAnswer>(),
    size_of::<RawFleetCpu>(),
    size_of::<RawFleetTask>(),
    size_of::<RawFleetLevel>(),
    size_of::<RawFleet>(),
    size_of::<RawFleetAnswer>(),
    size_of::<RawTreeEntity>(),
    size_of::<RawTree>(),
    size_of::<RawTreeAnswer>(),
    size_of::<RawChoiceCpu>(),
    size_of::<RawChoice>(),
    size_of::<RawJudgedEntity>(),
    size_of::<RawJudged>(),
    // `struct img_touched`: the board's own form.
    size_of::<Touched>(),
    size_of::<RawInsn>(),
    size_of::<RawMap>(),
    size_of::<RawProgram>(),
    size_of::<RawCalled>(),
    size_of::<RawMember>(),
    size_of::<RawOps>(),
    size_of::<RawState>(),
    size_of::<RawField>(),
    size_of::<RawTrace>(),
];
