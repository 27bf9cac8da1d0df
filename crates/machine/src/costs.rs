//! The cost of each step on a machine, in one table: name, default, range, source.
//!
//! Defaults are for a two-socket x86 server of the 2010s; a machine's file overrides them. An "estimate" is ours, from
//! the work of the step. No default is derived from a result that a study should predict.

use schedlab_base::{Error, Ns, Result};
use serde::{Deserialize, Serialize};

#[derive(Clone, Copy, Debug, PartialEq)]
pub struct CostRow {
    /// Field name, unit last.
    pub name: &'static str,
    /// The value when the machine's file states none.
    pub default: u64,
    pub range: (u64, u64),
    /// The origin of the default.
    pub source: &'static str,
    /// The step that has this cost.
    pub about: &'static str,
}

macro_rules! costs {
    ($($(#[doc = $about:literal])+
        $name:ident = $default:literal in $lo:literal .. $hi:literal, $source:literal;)*) => {
        /// Costs of one machine, in the unit each name ends with.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
        #[serde(deny_unknown_fields, default)]
        pub struct Costs { $($(#[doc = $about])+ pub $name: u64,)* }

        impl Default for Costs {
            fn default() -> Costs { Costs { $($name: $default,)* } }
        }

        impl Costs {
            /// Every cost: the single source of defaults, ranges, sources, docs and validation.
            pub const TABLE: &'static [CostRow] = &[$(CostRow {
                name: stringify!($name), default: $default, range: ($lo, $hi), source: $source,
                about: concat!($($about),+),
            },)*];

            pub fn get(&self, name: &str) -> Option<u64> {
                match name { $(stringify!($name) => Some(self.$name),)* _ => None }
            }
            /// Sets the cost of that name; `false` when there is no such cost.
            pub fn set(&mut self, name: &str, value: u64) -> bool {
                match name { $(stringify!($name) => { self.$name = value; true })* _ => false }
            }
        }
    };
}

costs! {
    /// An instruction of the kernel's code, where instructions are counted (levels counted and woven of backend code).
    instruction_ps = 200 in 120 .. 400, "public pipe tests, 1.1 us a thread switch, over 6,000 instructions that a guest counts for it, is 183; IPC 1 to 2 at 2.5 to 4 GHz";
    /// A cache line that a hardware thread of the same core has written, where lines are counted.
    line_sibling_ns = 8 in 0 .. 20, "core to core between two hardware threads, published: 7.4 to 10.3 (Broadwell, Ice Lake, Zen 3 and 4)";
    /// A cache line that another CPU of the same last-level cache has written, where lines are counted.
    line_near_ns = 44 in 25 .. 70, "core to core in a socket, E5-2695 v4, published";
    /// One that a CPU elsewhere has written, where lines are counted.
    line_far_ns = 120 in 80 .. 200, "estimate: by snoop from another socket";
    /// One that a CPU of another package has written, where lines are counted; 0: line_far_ns.
    line_remote_ns = 0 in 0 .. 450, "where a package has one last-level cache, line_far_ns is the way to another one";
    /// Instructions that a CPU executes while it waits for lines, where lines are counted; 0: it waits for each.
    lookahead_instructions = 192 in 0 .. 512, "Haswell's reorder buffer";
    /// Entry and exit of an interrupt, beyond the kernel's counted code.
    irq_entry_ns = 300 in 100 .. 1000, "estimate: 1,000 cycles with mitigations";
    /// What a switch takes beyond the kernel's counted code: registers, FPU state, the way back to user mode.
    switch_entry_ns = 150 in 50 .. 400, "estimate";
    /// Entering and leaving a system call.
    syscall_ns = 150 in 50 .. 400, "estimate; a trivial syscall with mitigations";
    /// futex wait beyond the syscall: hash, queue, state.
    futex_wait_ns = 400 in 200 .. 800, "estimate";
    /// futex wake that finds a waiter, beyond choosing and queueing: hash, unqueue, task lock.
    futex_wake_ns = 585 in 340 .. 1040, "365 measured on one CPU of a Zen 5 guest (machine probe: the call that wakes, less call and enqueue), and five lines of futex and task from another CPU at 44 ns; 340 alone at least, twice 365 and six lines of 51 ns at most";
    /// futex wake that finds nobody.
    futex_wake_empty_ns = 300 in 200 .. 400, "estimate: hash and lock, no waiter";
    /// Starting a high-resolution timer (nanosleep, futex timeout).
    timer_start_ns = 300 in 100 .. 600, "estimate";
    /// Timer interrupt until the sleeper's wakeup starts.
    timer_irq_ns = 1500 in 1000 .. 2000, "estimate: hrtimer interrupt to wakeup, 1-2 us";
    /// The rest of a timer interrupt after its wakeups: programming the timer anew.
    timer_exit_ns = 0 in 0 .. 2000, "part of timer_irq_ns";
    /// Programming the CPU's timer hardware, on top of timer_start_ns, when a timer is started that becomes the CPU's
    /// first.
    timer_program_ns = 0 in 0 .. 5000, "part of timer_start_ns where it is a register; on a virtual machine a trip to the hypervisor, which 'schedlab machine probe' measures";
    /// The return from a sleep that its timer ended, on top of the call, the timer and the switch: queueing, and caches
    /// that the interrupt has emptied.
    timer_return_ns = 0 in 0 .. 10000, "part of context_switch_ns; on a virtual machine more, which 'schedlab machine probe' measures";
    /// The same for a task that a halted CPU takes up after another wakeup than its timer's.
    idle_return_ns = 0 in 0 .. 10000, "part of idle_switch_ns; on a virtual machine more, which 'schedlab machine probe' measures";
    /// Reading a thread's CPU time from the kernel, as live programs do before and after they compute. Above 0,
    /// simulated programs stop by that clock, too, and it continues in interrupts.
    cpu_clock_ns = 0 in 0 .. 2000, "no part of simulated programs; of live ones what 'schedlab machine probe' measures";
    /// schedule() and the switch from one task to another; only the switch where the costs of schedule() are stated
    /// apart.
    context_switch_ns = 1200 in 1000 .. 2000, "public pipe tests: about 1.1 us a thread switch";
    /// The same from a task to idle, or from idle to a task (without the idle exit).
    idle_switch_ns = 700 in 500 .. 1000, "estimate";
    /// schedule() on an idle CPU that found work, up to the switch's event. At 0, this cost is part of the switch
    /// costs; so are the next three.
    schedule_idle_ns = 0 in 0 .. 4000, "part of idle_switch_ns";
    /// schedule() by a task that goes to sleep, with its dequeue.
    schedule_sleep_ns = 0 in 0 .. 4000, "part of context_switch_ns and idle_switch_ns";
    /// schedule() by a task that goes to sleep and leaves its runqueue empty: the CPU goes idle.
    schedule_empty_ns = 0 in 0 .. 4000, "as schedule_sleep_ns";
    /// schedule() by a task that stays runnable and gives way to another.
    schedule_preempt_ns = 0 in 0 .. 4000, "part of context_switch_ns";
    /// From the switch to idle until the CPU halts.
    idle_enter_ns = 0 in 0 .. 2000, "part of idle_switch_ns";
    /// Stopping the tick of a CPU that halts.
    tick_stop_ns = 0 in 0 .. 5000, "part of idle_switch_ns";
    /// Starting the tick again.
    tick_restart_ns = 0 in 0 .. 5000, "part of idle_switch_ns";
    /// Setting the timer that ends a slice (HRTICK).
    hrtick_ns = 0 in 0 .. 5000, "part of context_switch_ns";
    /// Sending a reschedule or wake-list IPI.
    ipi_send_ns = 150 in 100 .. 300, "estimate: from a flag write to an ICR write";
    /// IPI delivery within a package.
    ipi_near_ns = 700 in 500 .. 1000, "estimate";
    /// IPI delivery to another package.
    ipi_far_ns = 1500 in 1000 .. 2000, "estimate";
    /// Handling a reschedule IPI on the target.
    ipi_irq_ns = 300 in 150 .. 600, "estimate";
    /// Local enqueue and preemption test.
    enqueue_ns = 250 in 100 .. 500, "estimate";
    /// The extra cost of an enqueue on a CPU that runs a task: the running task is charged and compared with the new
    /// one (`check_preempt_wakeup`).
    preempt_check_ns = 0 in 0 .. 1000, "part of enqueue_ns";
    /// Taking a remote runqueue's lock and lines, same LLC.
    rq_lock_near_ns = 200 in 80 .. 400, "estimate: three to four dirty lines";
    /// Taking a remote runqueue's lock and lines, other package.
    rq_lock_far_ns = 600 in 300 .. 1000, "estimate: three to four dirty lines by snoop";
    /// Recording one of the scheduler's events (switch, waking, wakeup, migration); 0 when nothing records them.
    trace_event_ns = 0 in 0 .. 2000, "nobody watches; recorded by tracepoints 350 ns on a small EPYC guest, docs/live.md";
    /// The tick's handler, balancing excluded.
    tick_ns = 2000 in 1000 .. 3000, "estimate: CFS, no balancing";
    /// Reading a runqueue's idle state when the line is unchanged since this CPU last read it.
    probe_hit_ns = 20 in 10 .. 30, "estimate: a probe is 20-80 ns on a quiet box";
    /// The same when the line was dirtied by a CPU of the same LLC.
    probe_miss_near_ns = 70 in 50 .. 120, "estimate: one to two lines";
    /// The same from another LLC or package.
    probe_miss_far_ns = 200 in 130 .. 400, "estimate: one to two lines by snoop";
    /// Statistics of one CPU in a balance pass, lines unchanged.
    visit_hit_ns = 30 in 20 .. 40, "estimate: a small quiet box";
    /// The same, lines dirtied within the LLC.
    visit_miss_near_ns = 96 in 63 .. 172, "visit_hit_ns and 290 instructions of a visit (counted) over the 192 that Haswell looks ahead, times 44 ns a line (core to core in a socket, E5-2695 v4, published); 190 instructions at least, three lines one by one at most";
    /// The same, dirtied in another LLC or package.
    visit_miss_far_ns = 180 in 125 .. 300, "estimate: two lines by snoop";
    /// update_blocked_averages before a newidle or periodic pass.
    update_blocked_ns = 800 in 500 .. 2000, "estimate: few cgroups";
    /// Detaching and attaching one task between runqueues.
    move_task_ns = 1500 in 1000 .. 2000, "estimate";
    /// Active balance: waking the stopper, its switch and push.
    active_balance_ns = 10000 in 5000 .. 20000, "estimate";
    /// Choosing a CPU on the slow path (fork, exec), per CPU visited, on top of the visit.
    fork_visit_ns = 30 in 20 .. 60, "estimate";
    /// Creating a thread, seen from the parent.
    fork_ns = 20000 in 10000 .. 60000, "estimate";
    /// exec(2) up to the search for a CPU, and its return when the file has no known format.
    exec_ns = 8000 in 3000 .. 30000, "estimate: opening a file, and a page table that is made and freed again";
    /// A task's exit.
    exit_ns = 10000 in 5000 .. 30000, "estimate";
    /// Reading another task's usage: two or three small files of /proc are opened, read and closed.
    usage_read_ns = 20000 in 8000 .. 60000, "estimate: 4-10 us for each file, most of it for making its text";
    /// An exit of a virtual machine to its host, and the entry after it.
    vm_exit_ns = 1500 in 700 .. 4000, "estimate: 2,000 to 10,000 cycles with what the host does meanwhile";
    /// The interrupt of a network interface for one message, up to the channel: NAPI's poll, IP and TCP.
    nic_irq_ns = 3000 in 1500 .. 8000, "estimate: small messages of one connection reach 100,000 to 400,000 a second on a core";
    /// The work of a virtual machine's vhost thread on one message: a copy, and the tap device.
    vhost_ns = 2500 in 1000 .. 6000, "estimate: a thread moves 150,000 to 600,000 small messages a second";
    /// Speed of a hardware thread whose sibling is busy, per cent of its speed alone.
    smt_speed_pct = 62 in 50 .. 75, "estimate: two threads yield 1.2-1.3 of one";
    /// Refilling 1 KB of a task's warm set from the shared LLC.
    refill_near_ns_per_kb = 160 in 60 .. 480, "estimate: 16 lines of 64 B at 4-30 ns";
    /// Refilling 1 KB of a task's warm set from another LLC or node.
    refill_far_ns_per_kb = 1600 in 600 .. 3200, "estimate: 16 lines of 64 B at 40-200 ns";
    /// Fetching 1 KB from memory, which no cache holds.
    memory_ns_per_kb = 1400 in 600 .. 3200, "estimate: 16 lines of 64 B at 40-200 ns";
    /// Switching to another process's address space, on top of the switch.
    mm_switch_ns = 500 in 200 .. 1300, "estimate: public pipe tests show 1.1 us a thread and up to 2.4 us a process switch";
    /// A program's own instructions between two system calls, on top of the computing that it asks for.
    program_ns = 0 in 0 .. 1000, "part of the system call's";
    /// Sleeping at a pipe, on top of the call and the switch: joining the wait queue and leaving it again.
    pipe_wait_ns = 0 in 0 .. 2000, "part of context_switch_ns";
    /// The same at a socket.
    socket_wait_ns = 0 in 0 .. 2000, "part of context_switch_ns";
    /// The rest of a call on a pipe or UNIX socket after its wakeup.
    channel_end_ns = 0 in 0 .. 1000, "part of the call, before the wakeup";
    /// Reading from or writing to a pipe, beyond the syscall: lock, buffer, wake test.
    pipe_io_ns = 270 in 150 .. 500, "measured on a small EPYC guest: 418 ns a call in all";
    /// The part of pipe_io_ns in which the call holds the pipe's lock, for which others wait. The lock is also held
    /// while the call copies its data.
    pipe_lock_ns = 0 in 0 .. 2000, "nobody waits for it";
    /// Writing to a UNIX stream socket, beyond the syscall: buffer, queue, readiness callback.
    unix_send_ns = 900 in 500 .. 1500, "estimate";
    /// The extra cost of unix_send_ns for a message in memory that no earlier message used.
    unix_new_ns = 0 in 0 .. 3000, "part of unix_send_ns";
    /// The extra cost of unix_send_ns for a message in memory that earlier messages used, when more messages are unread
    /// than a slab holds.
    unix_reuse_ns = 0 in 0 .. 1500, "part of unix_send_ns";
    /// Reading from a UNIX stream socket, beyond the syscall.
    unix_recv_ns = 600 in 300 .. 1000, "estimate";
    /// The part of unix_send_ns and unix_recv_ns in which the call holds the socket's lock, for which others wait. The
    /// lock is not held while the call copies its data.
    unix_lock_ns = 0 in 0 .. 2000, "nobody waits for it";
    /// Sending on a TCP connection over loopback. The sender runs both halves of the stack.
    tcp_send_ns = 4500 in 2500 .. 8000, "estimate: loopback request/response takes 10-20 us a round trip";
    /// Reading from a TCP connection.
    tcp_recv_ns = 900 in 500 .. 2000, "estimate";
    /// Sending a datagram over loopback.
    udp_send_ns = 3000 in 1500 .. 5000, "estimate: shorter path than TCP";
    /// Reading a datagram.
    udp_recv_ns = 800 in 400 .. 1500, "estimate";
    /// The extra cost of writing to a channel that another CPU wrote to or read from last: messages, buffers and locks
    /// are in that CPU's cache.
    remote_send_ns = 0 in 0 .. 5000, "part of the kind's own cost";
    /// The extra cost of reading from a channel what another CPU wrote.
    remote_recv_ns = 0 in 0 .. 5000, "part of the kind's own cost";
    /// Copying 1 KB between user memory and a kernel buffer.
    copy_ns_per_kb = 80 in 40 .. 200, "estimate: 5-25 GB/s";
    /// Clearing 1 KB of memory for a message, under kernels that do so (CONFIG_INIT_ON_ALLOC_DEFAULT_ON).
    clear_ns_per_kb = 0 in 0 .. 100, "most kernels do not; 10 GB/s and more";
    /// Reading and changing 1 KB of warm memory.
    touch_ns_per_kb = 60 in 20 .. 150, "estimate: 16 lines at 1-10 ns";
    /// Private cache of a core (L1 and L2), which the core's tasks share in turn, KB.
    private_cache_kb = 256 in 128 .. 2048, "makers' data: L2 of 256 KB (2008-2016), 512 KB, 1-2 MB (servers since 2017)";
    /// Touching 1 KB of new data while running (how fast a set warms up).
    warm_ns_per_kb = 2000 in 500 .. 8000, "estimate";
}

/// The longest time that a machine may state for a step, an idle state or a daemon. It keeps sums of such times far
/// from overflow.
pub(crate) const LONGEST: Ns = Ns::secs(60);

impl Costs {
    /// Costs that apply only where the kernel's code is counted.
    pub const OF_COUNTED_CODE: [&'static str; 8] = [
        "instruction_ps",
        "line_sibling_ns",
        "line_near_ns",
        "line_far_ns",
        "line_remote_ns",
        "lookahead_instructions",
        "irq_entry_ns",
        "switch_entry_ns",
    ];
    /// Costs of steps of the scheduler's code. Where instructions are counted, they replace these costs.
    const OF_SCHEDULER: [&'static str; 22] = [
        "timer_start_ns",
        "timer_exit_ns",
        "schedule_idle_ns",
        "schedule_sleep_ns",
        "schedule_empty_ns",
        "schedule_preempt_ns",
        "idle_enter_ns",
        "tick_stop_ns",
        "tick_restart_ns",
        "hrtick_ns",
        "enqueue_ns",
        "preempt_check_ns",
        "rq_lock_near_ns",
        "rq_lock_far_ns",
        "tick_ns",
        "visit_hit_ns",
        "visit_miss_near_ns",
        "visit_miss_far_ns",
        "update_blocked_ns",
        "move_task_ns",
        "active_balance_ns",
        "fork_visit_ns",
    ];

    /// A cache line that a CPU of another package has written.
    pub fn remote_line_ns(&self) -> u64 {
        if self.line_remote_ns == 0 { self.line_far_ns } else { self.line_remote_ns }
    }
    /// The names of all costs that are times, per step or per amount of memory.
    pub fn times() -> impl Iterator<Item = &'static str> {
        let is_time = |name: &&str| ["_ns", "_ps", "_ns_per_kb"].iter().any(|unit| name.ends_with(unit));
        Costs::TABLE.iter().map(|row| row.name).filter(is_time)
    }

    /// The costs that remain where the scheduler's code is charged by its instructions: programs, system calls,
    /// hardware, and code of the architecture.
    pub fn beside_counted_code(&self) -> Costs {
        let mut left = *self;
        for name in Costs::OF_SCHEDULER {
            left.set(name, 0);
        }
        let (irq, switch) = (self.irq_entry_ns, self.switch_entry_ns);
        Costs {
            timer_irq_ns: irq,
            ipi_irq_ns: irq,
            context_switch_ns: switch,
            idle_switch_ns: switch,
            ..left
        }
    }

    /// Sets a cost and checks the value.
    ///
    /// # Errors
    /// When there is no cost of that name, the time is longer than a minute, or a percentage is not 1 to 100.
    pub fn change(&mut self, name: &str, value: u64) -> Result<()> {
        if value > LONGEST.0 {
            return Err(Error::input(format!("{name} = {value} is out of range: at most {}", LONGEST.0)));
        }
        if name.ends_with("_pct") && !(1..=100).contains(&value) {
            return Err(Error::input(format!("{name} = {value} is not 1 to 100 per cent")));
        }
        if self.set(name, value) {
            return Ok(());
        }
        Err(Error::unknown("cost", name, Costs::TABLE.iter().map(|row| row.name)))
    }
}

/// An idle state, as in the idle driver's table.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct IdleState {
    /// "C1", "C6", ...
    pub name: String,
    /// Longest wakeup time, from the driver's table. Governors and the fork path compare this one.
    pub exit: Ns,
    /// Typical wakeup time. A wakeup pays this one.
    pub typical: Ns,
    /// Shortest stay for which a governor chooses the state.
    pub residency: Ns,
}

/// The cpuidle governor, which decides how an idle CPU waits.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum IdleGovernor {
    /// Predicts how long the CPU will be idle, and takes the deepest state that fits (`menu`).
    #[default]
    Menu,
    /// Polls for a while, longer after polling paid off, then halts: guests of KVM (`haltpoll`, 5.4). The first idle
    /// state is the polling one.
    Haltpoll,
    /// `haltpoll` without polling (guest_halt_poll_ns = 0): the CPU halts at once, without its tick.
    Halt,
}

impl IdleGovernor {
    /// The names in machine files.
    pub const NAMES: &'static [(&'static str, IdleGovernor)] =
        &[("menu", IdleGovernor::Menu), ("haltpoll", IdleGovernor::Haltpoll), ("halt", IdleGovernor::Halt)];

    /// Whether it is the default; files need not name it.
    pub fn is_menu(&self) -> bool {
        *self == IdleGovernor::Menu
    }
}
