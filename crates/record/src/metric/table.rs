//! The table of metrics. A row's definition must hold on every backend that gives it.

use super::perf::{cpus_used, per_cpu_second, ratio};
use super::woken::{PLACES, STATES};
use super::{Better, Choices, Formula, Metric, Rate, busy_share, newidle_entries, over_time};
use crate::Observe;
use crate::schedstat::{BALANCE_ROWS, CPU_ROWS, DERIVED, DOMAIN_ROWS};
use schedlab_base::Backend;
use schedlab_trace::{
    ActiveReason, AffineReason, BalanceReason, BalanceTrigger, ExtQueue, KickReason, MoveReason, PlaceReason,
    SkipReason, SwitchReason,
};

const SIM: &[Backend] = &[Backend::Sim];
const CODE: &[Backend] = &[Backend::Code];
const SIMULATED: &[Backend] = &[Backend::Sim, Backend::Code];
const LIVE: &[Backend] = &[Backend::Host, Backend::Vm];
const GUEST: &[Backend] = &[Backend::Vm];
const KERNELS: &[Backend] = &[Backend::Code, Backend::Host, Backend::Vm];
const ALL: &[Backend] = &Backend::ALL;

const fn row(
    name: &'static str,
    unit: &'static str,
    better: Better,
    backends: &'static [Backend],
    about: &'static str,
) -> Metric {
    Metric {
        name,
        unit,
        better,
        about,
        backends,
        choices: None,
        rate: None,
        formula: None,
        watched: Observe::Accounts,
    }
}

const fn rows(choices: Choices, of: Metric) -> Metric {
    Metric { choices: Some(choices), ..of }
}

/// A metric that live kernels give only by tracepoints.
const fn events(of: Metric) -> Metric {
    Metric { watched: Observe::Events, ..of }
}

/// A metric that live kernels give by records of their tasks' switches.
const fn stays(of: Metric) -> Metric {
    Metric { watched: Observe::Stays, ..of }
}

/// A metric from performance counters, which live runs have only on request.
const fn counted(of: Metric) -> Metric {
    Metric { watched: Observe::Counters, ..of }
}

/// A metric from counters of the last-level cache.
const fn cached(of: Metric) -> Metric {
    Metric { watched: Observe::Caches, ..of }
}

/// A metric that follows from other counters.
const fn formula(
    name: &'static str,
    unit: &'static str,
    better: Better,
    backends: &'static [Backend],
    of: Formula,
    about: &'static str,
) -> Metric {
    Metric { formula: Some(of), ..row(name, unit, better, backends, about) }
}

/// A rate of a program's series.
const fn rate(name: &'static str, unit: &'static str, of: Rate, about: &'static str) -> Metric {
    Metric { rate: Some(of), ..row(name, unit, Higher, ALL, about) }
}

/// Kinds of dispatch queues; a kick is none.
fn queues() -> Vec<(&'static str, &'static str)> {
    let kinds = ExtQueue::ALL.iter().filter(|kind| **kind != ExtQueue::Kicked);
    kinds.map(|kind| (kind.name(), kind.about())).collect()
}
fn placements() -> Vec<(&'static str, &'static str)> {
    PlaceReason::ALL.iter().map(|r| (r.name(), r.about())).collect()
}
fn moves() -> Vec<(&'static str, &'static str)> {
    MoveReason::ALL.iter().map(|r| (r.name(), r.about())).collect()
}
fn triggers() -> Vec<(&'static str, &'static str)> {
    BalanceTrigger::ALL.iter().map(|r| (r.name(), r.about())).collect()
}
fn balanced() -> Vec<(&'static str, &'static str)> {
    BalanceReason::ALL.iter().map(|r| (r.name(), r.about())).collect()
}
fn skips() -> Vec<(&'static str, &'static str)> {
    SkipReason::ALL.iter().map(|r| (r.name(), r.about())).collect()
}
fn kicks() -> Vec<(&'static str, &'static str)> {
    KickReason::ALL.iter().map(|r| (r.name(), r.about())).collect()
}
fn pushes() -> Vec<(&'static str, &'static str)> {
    ActiveReason::ALL.iter().map(|r| (r.name(), r.about())).collect()
}
fn affine() -> Vec<(&'static str, &'static str)> {
    AffineReason::ALL.iter().map(|r| (r.name(), r.about())).collect()
}
/// Where woken tasks go, then the state of the CPU there.
fn woken() -> Vec<(&'static str, &'static str)> {
    PLACES.iter().chain(&STATES).copied().collect()
}
/// Reasons for the end of a stay, without "idle", which never ends one.
fn ends() -> Vec<(&'static str, &'static str)> {
    SwitchReason::ALL
        .iter()
        .filter(|r| **r != SwitchReason::FromIdle)
        .map(|r| (r.name(), r.about()))
        .collect()
}

fn cpu_counters() -> Vec<(&'static str, &'static str)> {
    CPU_ROWS.iter().map(|r| (r.name, r.about)).collect()
}
fn domain_counters() -> Vec<(&'static str, &'static str)> {
    DOMAIN_ROWS.iter().map(|r| (r.name, r.about)).collect()
}
/// Counters of balancing, and figures derived from them.
fn balance_counters() -> Vec<(&'static str, &'static str)> {
    let derived = DERIVED.iter().map(|d| (d.name, d.about));
    BALANCE_ROWS.iter().map(|r| (r.name, r.about)).chain(derived).collect()
}

use Better::{Higher, Lower, Neither};

/// Every metric: the single source of names, units, directions, definitions and docs/metrics.md.
#[rustfmt::skip]
pub const METRICS: &[Metric] = &[
    row("schbench.latency.<stat>", "ns", Lower, ALL,
        "from the start of the wake list a worker is on until it runs, as schbench of 2016 takes it (D000)"),
    row("<program>.<series>.<stat>", "", Neither, ALL,
        "what a program records itself, in the unit and with the direction it declares"),
    rate("rr.rate", "1/s", Rate::Count("rr.latency"), "transactions per second, of all pairs together"),
    rate("stream-rr.throughput", "B/s", Rate::Sum("stream-rr.data"),
        "bytes of files read and written per second, of all clients together"),
    rate("embedded-db.rate", "1/s", Rate::Count("embedded-db.latency"),
        "transactions per second, of all clients together"),
    rate("batch.rate", "1/s", Rate::Count("batch.latency"), "jobs done per second, of all tasks together"),
    rate("http.rate", "1/s", Rate::Count("http.latency"), "calls answered per second, of all clients together"),
    rate("oltp.rate", "1/s", Rate::Count("oltp.latency"), "transactions per second, of all clients together"),
    rate("database.rate", "1/s", Rate::Count("database.latency"),
        "transactions per second, of all server processes together"),
    rate("volano.rate", "1/s", Rate::Sum("volano.delivered"),
        "messages delivered per second, to all users together"),
    rate("trade.rate", "1/s", Rate::Count("trade.latency"), "requests answered per second, of all clients together"),
    rate("schbench-modern.average_rps", "1/s", Rate::Count("schbench-modern.request_latency"),
        "requests answered per second, of all workers together"),
    events(row("wakeup_delay.<stat>", "ns", Lower, ALL,
        "from the beginning of the wakeup of a sleeping task (sched_waking) until it is switched to")),
    events(row("run_delay.<stat>", "ns", Lower, ALL,
        "a runnable task's wait for a CPU: after a wakeup, a fork, or an involuntary switch")),
    row("run_delay.total", "ns", Lower, ALL, "all those waits, summed"),
    row("run_delay.longest", "ns", Lower, CODE, "the longest of them, also one that had not ended with the run"),
    stays(row("slice.<stat>", "ns", Neither, ALL,
        "a task's stay on a CPU, from the switch to it until the switch away; being picked again is not a switch")),
    stays(rows(ends, row("slice.end.<reason>", "", Neither, ALL,
        "stays ended for this reason; of live ones, and under the kernel's own code unless our rules were asked, only whether \
         they were `blocked`, `exited` or `preempted` is known"))),
    events(rows(ends, row("slice.<reason>.<stat>", "ns", Neither, ALL, "stays that ended for this reason"))),
    row("slice.preempted_by.<group>", "", Neither, SIMULATED,
        "stays ended by a task of this group that woke up, or arrived by balancing or fork (reasons `wakeup`, `arrived`), \
         the machine's own tasks included; a group's name is its tasks' without their number; the first 64 groups are \
         distinguished; on backend `code` only where our rules were asked"),
    events(row("cpu<k>.slice.mean", "ns", Neither, ALL, "mean of the stays on one CPU")),
    row("task.<group>.cpu_time", "ns", Neither, ALL, "time the tasks of a group were on a CPU (`task.hog.cpu_time`)"),
    row("task.<group>.switches.voluntary", "", Neither, ALL, "switches.voluntary of a group's tasks"),
    row("task.<group>.switches.involuntary", "", Neither, ALL, "switches.involuntary of a group's tasks"),
    row("task.<group>.migrations", "", Neither, ALL, "migrations of a group's tasks"),
    row("task.<group>.slice.mean", "ns", Neither, ALL,
        "mean slice of a group's tasks: their time on a CPU over their stays that ended, which are their switches"),
    row("task.<group>.slice.mean_of_means", "ns", Neither, ALL,
        "the same of each task by itself, averaged over tasks; those without a stay that ended are left out"),
    events(row("task.<group>.cpu<k>.slice.mean", "ns", Neither, ALL,
        "mean of the stays of a group's tasks on one CPU (`task.hog.cpu0.slice.mean`)")),
    events(row("task.<group>.wakeup_delay.<stat>", "ns", Lower, ALL,
        "wakeup_delay of a group's tasks (`task.hog.wakeup_delay.p99`); the first 64 groups are distinguished")),
    events(row("task.<group>.run_delay.<stat>", "ns", Lower, ALL,
        "run_delay of a group's tasks (`task.hog.run_delay.max`); the first 64 groups are distinguished")),
    events(row("task.<group>.run_delay.total", "ns", Lower, ALL, "all those waits, summed")),
    row("group.crowded_time", "ns", Lower, SIM,
        "time in which two tasks of a group were queued on a CPU while another CPU of its cache had a shorter queue, by ticks"),
    row("group.<path>.nr_periods", "", Neither, ALL,
        "periods of a task group's quota that ended, of a group that had any work in them (`group./vm/small.nr_periods`); \
         live, this and the next four also hold the tasks' set-up and end, and a run with a warm-up has none"),
    row("group.<path>.nr_throttled", "", Neither, ALL, "those periods at whose end the group was throttled on some CPU"),
    row("group.<path>.throttled_time", "ns", Neither, ALL,
        "how long the group was throttled, all CPUs together, up to the end of the run"),
    row("group.<path>.nr_bursts", "", Neither, ALL, "periods in which the group used quota that it had saved up"),
    row("group.<path>.burst_time", "ns", Neither, ALL, "CPU time that the group used beyond its quota in those periods"),
    row("group.<path>.cpus", "", Neither, ALL,
        "CPUs that the tasks of a task group and of those below it used, on average over the run (`group./vm/small.cpus`)"),
    row("group.<path>.cpu_time", "ns", Neither, ALL, "time those tasks were on a CPU; live only with --events"),
    events(row("group.<path>.busy.<stat>", "ns", Lower, ALL,
        "busy periods of a task group and those below it (`group./vm/small.busy.p99`): from the wakeup of its first thread, \
         while no other was awake, to the sleep of the last; a thread that waits because the group is throttled is \
         awake; a task counts for the group in which it began")),
    events(row("group.<path>.run_delay.<stat>", "ns", Lower, ALL, "run_delay of the tasks of a task group and of those below it")),
    row("switches.voluntary", "", Neither, ALL,
        "switches away from a task that went to sleep or ended (nvcsw)"),
    row("switches.involuntary", "", Neither, ALL,
        "switches away from a task that could have run on, sched_yield included (nivcsw)"),
    row("migrations", "", Lower, ALL,
        "stays on another CPU than the same task's stay before; live, without events: changes of CPU as the kernel counts them (nr_migrations)"),
    events(rows(moves, row("migrations.<reason>", "", Neither, ALL,
        "changes of a task's CPU for this reason, also of tasks that did not run in between; of live ones only whether they \
         were `wakeup`, `fork` or `moved`"))),
    events(row("wakeups", "", Neither, ALL, "sleeping tasks that were woken and queued")),
    rows(placements, row("placement.<reason>", "", Neither, SIM,
        "CPUs chosen at wakeup, fork or exec for this reason")),
    row("placement.probes", "", Lower, SIM, "CPUs whose idle state was read to choose one"),
    rows(affine, row("affine.<reason>", "", Neither, SIM,
        "wakeups for which `wake_affine` was asked and chose the waker's CPU or the previous one for this reason")),
    events(row("woken", "", Neither, ALL,
        "sleeping tasks that were woken and queued, and whose last CPU is known: what the `woken.` classes are parts of")),
    events(rows(woken, row("woken.<class>", "", Neither, ALL, "of those, the ones that were put there; `idle` and `busy` \
        stand apart from the other classes, which exclude each other"))),
    events(formula("woken.prev.share", "%", Neither, ALL, |r| ratio(r, "woken.prev", "woken", 100.0),
        "woken.prev as a part of woken")),
    events(formula("woken.waker.share", "%", Neither, ALL, |r| ratio(r, "woken.waker", "woken", 100.0),
        "woken.waker as a part of woken")),
    events(formula("woken.core.share", "%", Neither, ALL, |r| ratio(r, "woken.core", "woken", 100.0),
        "woken.core as a part of woken")),
    events(formula("woken.llc.share", "%", Neither, ALL, |r| ratio(r, "woken.llc", "woken", 100.0),
        "woken.llc as a part of woken")),
    events(formula("woken.node.share", "%", Neither, ALL, |r| ratio(r, "woken.node", "woken", 100.0),
        "woken.node as a part of woken")),
    events(formula("woken.far.share", "%", Neither, ALL, |r| ratio(r, "woken.far", "woken", 100.0),
        "woken.far as a part of woken")),
    events(formula("woken.idle.share", "%", Neither, ALL, |r| ratio(r, "woken.idle", "woken", 100.0),
        "woken.idle as a part of woken")),
    events(formula("woken.busy.share", "%", Neither, ALL, |r| ratio(r, "woken.busy", "woken", 100.0),
        "woken.busy as a part of woken")),
    row("select.time", "ns", Lower, SIM, "time spent choosing a CPU for waking tasks, of whatever task"),
    row("wakeup.on_cpu_waits", "", Neither, SIM,
        "times a waker looked in vain whether the task had left its old CPU (every 100 ns)"),
    row("cpu_time", "ns", Neither, ALL, "time the workload's tasks were on a CPU"),
    events(row("background.cpu_time", "ns", Neither, ALL, "time the machine's own tasks were on a CPU")),
    events(row("idle_time", "ns", Neither, ALL, "time CPUs had no task, summed over CPUs")),
    row("work", "ns", Higher, SIMULATED,
        "work the workload's tasks got done, as time on a CPU at full speed with a warm cache"),
    row("smt.shared_time", "ns", Lower, SIMULATED,
        "time tasks, the machine's own included, ran on a hardware thread while another of the core was busy"),
    row("udp.lost", "", Lower, SIMULATED, "datagrams that found the receiver's buffer full"),
    row("refill.time", "ns", Lower, SIMULATED, "memory fetched again because a moved task found its new cache cold, or because others displaced what it had in its core's"),
    row("touched.own", "", Neither, SIMULATED, "KB of working sets that tasks found in caches of their own CPU, shared ones included; of machines whose caches are known"),
    row("touched.near", "", Lower, SIMULATED, "KB of working sets that tasks fetched from the cache of a CPU with the same last-level cache"),
    row("touched.far", "", Lower, SIMULATED, "KB of working sets that tasks fetched from the cache of a CPU farther away"),
    row("touched.memory", "", Lower, SIMULATED, "KB of working sets that tasks fetched from memory"),
    row("guest.halts", "", Neither, SIMULATED, "halts of vCPUs of [[nested]] machines"),
    row("guest.sleeps", "", Neither, SIMULATED, "halts of vCPUs that put their threads to sleep"),
    row("guest.kicks", "", Neither, SIMULATED, "threads of vCPUs woken because another vCPU signalled theirs"),
    row("guest.steal_time", "ns", Lower, SIMULATED, "time threads of vCPUs were runnable and waited for a CPU, summed over vCPUs"),
    row("guest.packets", "", Neither, SIMULATED, "messages that [[nested]] machines received from elsewhere, warm-up included"),
    row("guest.wakeups", "", Neither, SIMULATED, "wakeups by the kernels of [[nested]] machines"),
    row("guest.switches", "", Neither, SIMULATED, "switches of tasks inside [[nested]] machines, warm-up included"),
    row("idle.exit_time", "ns", Lower, SIMULATED, "time CPUs spent leaving idle states, summed over CPUs"),
    rows(triggers, row("balance.<trigger>.passes", "", Neither, SIM, "balance passes over one domain, started thus")),
    rows(triggers, row("balance.<trigger>.moved", "", Neither, SIM, "tasks moved by balance passes started thus")),
    rows(triggers, row("balance.<trigger>.visited", "", Lower, SIM,
        "CPUs read by balance passes started thus")),
    rows(triggers, row("balance.<trigger>.time", "ns", Lower, SIM,
        "time spent in balance passes started thus, summed over CPUs")),
    rows(balanced, row("balance.<reason>", "", Neither, SIM,
        "balance passes over one domain that ended thus; together they are all passes")),
    rows(skips, row("balance.skip.<reason>", "", Neither, SIM,
        "balance passes over one domain, or all of them where the first decides, that were not begun for this reason")),
    rows(kicks, row("balance.kick.<reason>", "", Neither, SIM,
        "ticks that decided thus whether a tickless CPU is to balance")),
    rows(pushes, row("balance.active.<reason>", "", Neither, SIM,
        "balance passes that moved nothing and called for the source's running task to be pushed, for this reason")),
    row("balance.newidle_time", "ns", Lower, SIMULATED, "time spent balancing by CPUs about to go idle"),
    formula("balance.newidle_share", "%", Lower, SIMULATED, |r| busy_share(r, "balance.newidle_time"),
        "balance.newidle_time as a part of the time CPUs were not idle"),
    formula("balance.stats_share", "%", Lower, SIMULATED, |r| busy_share(r, "balance.stats_time"),
        "balance.stats_time as a part of the time CPUs were not idle"),
    formula("balance.newidle_entries", "%", Neither, ALL, newidle_entries,
        "newidle passes over the lowest domain, as a part of the times a CPU went idle"),
    row("balance.periodic_time", "ns", Lower, SIMULATED, "time spent balancing from the tick, nohz included"),
    row("balance.stats_time", "ns", Lower, SIMULATED, "the part of balancing's time spent reading statistics of CPUs"),
    rows(cpu_counters, row("sched.<counter>", "", Neither, ALL,
        "schedstat, summed over CPUs")),
    rows(cpu_counters, row("cpu<k>.<counter>", "", Neither, ALL, "schedstat of one CPU (`cpu8.ttwu_count`)")),
    rows(domain_counters, row("domain<n>.<counter>", "", Neither, ALL,
        "schedstat of a level of domains, summed over CPUs (`domain1.ttwu_wake_remote`)")),
    rows(domain_counters, row("cpu<k>.domain<n>.<counter>", "", Neither, ALL, "schedstat of one CPU's domain")),
    rows(balance_counters, row("domain<n>.<type>.<counter>", "", Neither, ALL,
        "schedstat: balancing at a level of domains, by CPUs that were `idle`, `busy` or `newidle`, summed over CPUs")),
    rows(balance_counters, row("cpu<k>.domain<n>.<type>.<counter>", "", Neither, ALL,
        "schedstat: balancing of one CPU at one level, by what it was doing (`cpu8.domain1.newidle.lb_count`)")),
    row("command.elapsed", "ns", Lower, LIVE, "from the start of a command until its process had ended"),
    row("command.user_time", "ns", Neither, LIVE, "CPU time of a command and its children in user mode"),
    row("command.system_time", "ns", Neither, LIVE, "CPU time of a command and its children in the kernel"),
    row("command.max_rss", "KiB", Lower, LIVE,
        "most memory that one process of a command had resident (ru_maxrss)"),
    row("command.exit_status", "", Neither, LIVE, "a command's exit code; others than those expected fail the run"),
    counted(row("perf.task_clock", "ns", Neither, LIVE, "perf: time on a CPU")),
    counted(formula("perf.cpus_used", "", Neither, LIVE, cpus_used, "CPUs kept busy: perf.task_clock over elapsed time")),
    counted(row("perf.context_switches", "", Neither, LIVE, "perf: switches away from the counted tasks")),
    counted(row("perf.migrations", "", Lower, LIVE, "perf: moves to another CPU")),
    counted(row("perf.page_faults", "", Neither, LIVE, "perf: page faults, minor and major")),
    counted(row("perf.cycles", "", Neither, LIVE, "perf: CPU cycles")),
    counted(row("perf.instructions", "", Neither, LIVE, "perf: instructions retired")),
    cached(row("perf.cache_references", "", Neither, LIVE, "perf: accesses to the last-level cache, as the CPU defines them")),
    cached(row("perf.cache_misses", "", Neither, LIVE, "perf: those that missed it")),
    counted(row("perf.branches", "", Neither, LIVE, "perf: branch instructions retired")),
    counted(row("perf.branch_misses", "", Neither, LIVE, "perf: those that were predicted wrongly")),
    row("perf.counting", "ns", Neither, LIVE,
        "what counting a command took, about: what its counters add to a switch here, times perf.context_switches"),
    counted(formula("perf.frequency", "GHz", Neither, LIVE, |r| ratio(r, "perf.cycles", "perf.task_clock", 1.0),
        "perf.cycles over perf.task_clock: how fast the CPUs ran")),
    counted(formula("perf.ipc", "", Higher, LIVE, |r| ratio(r, "perf.instructions", "perf.cycles", 1.0),
        "instructions per cycle")),
    cached(formula("perf.cache_miss_rate", "%", Lower, LIVE,
        |r| ratio(r, "perf.cache_misses", "perf.cache_references", 100.0),
        "perf.cache_misses as a part of perf.cache_references")),
    counted(formula("perf.branch_miss_rate", "%", Lower, LIVE, |r| ratio(r, "perf.branch_misses", "perf.branches", 100.0),
        "perf.branch_misses as a part of perf.branches")),
    counted(formula("perf.context_switches.rate", "1/s", Neither, LIVE, |r| per_cpu_second(r, "perf.context_switches"),
        "perf.context_switches per second of perf.task_clock")),
    counted(formula("perf.migrations.rate", "1/s", Neither, LIVE, |r| per_cpu_second(r, "perf.migrations"),
        "perf.migrations per second of perf.task_clock")),
    counted(formula("perf.page_faults.rate", "1/s", Neither, LIVE, |r| per_cpu_second(r, "perf.page_faults"),
        "perf.page_faults per second of perf.task_clock")),
    counted(formula("perf.cycles.rate", "1/s", Neither, LIVE, |r| per_cpu_second(r, "perf.cycles"),
        "perf.cycles per second of perf.task_clock")),
    counted(formula("perf.instructions.rate", "1/s", Neither, LIVE, |r| per_cpu_second(r, "perf.instructions"),
        "perf.instructions per second of perf.task_clock")),
    cached(formula("perf.cache_references.rate", "1/s", Neither, LIVE, |r| per_cpu_second(r, "perf.cache_references"),
        "perf.cache_references per second of perf.task_clock")),
    cached(formula("perf.cache_misses.rate", "1/s", Neither, LIVE, |r| per_cpu_second(r, "perf.cache_misses"),
        "perf.cache_misses per second of perf.task_clock")),
    counted(formula("perf.branches.rate", "1/s", Neither, LIVE, |r| per_cpu_second(r, "perf.branches"),
        "perf.branches per second of perf.task_clock")),
    counted(formula("perf.branch_misses.rate", "1/s", Neither, LIVE, |r| per_cpu_second(r, "perf.branch_misses"),
        "perf.branch_misses per second of perf.task_clock")),
    row("instructions.scheduler", "", Lower, GUEST,
        "instructions executed in functions of kernel/sched; counted in deterministic guests whose kernel schedlab built, where runs share a boot"),
    formula("instructions.per_wakeup", "", Lower, GUEST, |r| ratio(r, "instructions.wakeup", "calls.wakeup", 1.0),
        "instructions in functions of wakeups (search for a CPU, enqueueing, preemption check), per call of try_to_wake_up"),
    formula("instructions.per_switch", "", Lower, GUEST, |r| ratio(r, "instructions.switch", "calls.switch", 1.0),
        "instructions in functions of switches (dequeueing, choice of the next task), per call of __schedule"),
    formula("instructions.per_pass", "", Lower, GUEST, |r| ratio(r, "instructions.pass", "calls.pass", 1.0),
        "instructions in functions of load balancing, per pass over a domain (load_balance)"),
    row("cycles.self.<function>", "%", Neither, CODE,
        "the part of the CPUs' unhalted cycles in a function of the kernel's own code, as `perf report` without children \
         (`cycles.self.update_load_avg`), from a sample each 100 us of the code's cost; not known of functions that \
         are inlined, and at level free"),
    row("cycles.total.<function>", "%", Neither, CODE, "the same in the function or in functions that it called"),
    row("scx.calls.<function>", "", Neither, KERNELS,
        "calls of an operation of the sched_ext scheduler (`scx.calls.dispatch`), of the whole run; by a real kernel where \
         it counts runs of BPF (tunable `bpf_stats_enabled = 1`)"),
    row("scx.instructions.<function>", "", Neither, CODE,
        "instructions of BPF that the operation's program has executed, in all its calls"),
    row("scx.kfunc.<function>", "", Neither, CODE,
        "calls of a function of the kernel by the scheduler's programs (`scx.kfunc.scx_bpf_dsq_insert`)"),
    rows(queues, row("scx.dsq.wait.<queue>.<stat>", "ns", Lower, CODE,
        "how long tasks of the workload were in a dispatch queue of sched_ext, until an operation moved them or they ran")),
    rows(queues, row("scx.dsq.max.<queue>", "", Neither, CODE,
        "the most tasks, of whatever program, that were in one such queue at a time")),
    rows(queues, row("scx.dsq.time.<queue>", "ns", Neither, CODE,
        "time that all tasks spent in queues of the kind: over the measured time their mean length, `scx.dsq.mean.user`")),
    formula("scx.dsq.mean.local", "", Neither, CODE, |r| over_time(r, "scx.dsq.time.local"),
        "tasks in the local queues of all CPUs together, averaged over the measured time"),
    formula("scx.dsq.mean.global", "", Neither, CODE, |r| over_time(r, "scx.dsq.time.global"),
        "tasks in the global queue, averaged"),
    formula("scx.dsq.mean.user", "", Neither, CODE, |r| over_time(r, "scx.dsq.time.user"),
        "tasks in the scheduler's own queues, averaged"),
    formula("scx.dsq.mean.held", "", Neither, CODE, |r| over_time(r, "scx.dsq.time.held"),
        "tasks that the scheduler kept in no queue, averaged"),
    row("scx.event.<function>", "", Neither, KERNELS,
        "the kernel's own counter of the scheduler's events, of the whole run, in its words (`scx.event.enq_skip_exiting` \
         is SCX_EV_ENQ_SKIP_EXITING, `scx.event.bypass_duration` the time in bypass mode, ns); kernels before 6.15 have none"),
    row("scx.exit_kind", "", Neither, CODE,
        "how the scheduler ended (`enum scx_exit_kind`): 0 not at all, 64 taken off by its own side"),
    row("sim.events", "", Neither, SIMULATED, "events the simulator processed, warm-up included"),
    row("sim.wakeups", "", Neither, SIMULATED, "wakeups begun, of whatever task"),
];
