//! The workload of a drawn case: each benchmark with drawn parameters, and two kinds of rt-app file.
//!
//! Numbers of tasks follow the number of CPUs, from half as many to three times as many, so that machines are idle in
//! some cases and crowded in others. A case takes about a second of the guest's time.

use super::dice::{Dice, Workload};
use super::kernel::Chosen;
use super::rtapp;

/// A kind of workload.
pub struct Program {
    /// Its name: the benchmark's, or a word of ours for a kind of rt-app file.
    pub name: &'static str,
    /// Draws its parameters for a machine with that many CPUs under a kernel.
    pub draw: fn(Dice, u32, &Chosen) -> Workload,
}

/// Every kind, all equally likely. A test checks that no benchmark is left out.
pub const PROGRAMS: &[Program] = &[
    Program { name: "schbench", draw: schbench },
    Program { name: "schbench-modern", draw: schbench_modern },
    Program { name: "nanosleep", draw: nanosleep },
    Program { name: "hackbench", draw: hackbench },
    Program { name: "pipe", draw: pipe },
    Program { name: "rr", draw: rr },
    Program { name: "stream-rr", draw: stream_rr },
    Program { name: "embedded-db", draw: embedded_db },
    Program { name: "slice", draw: slice },
    Program { name: "batch", draw: batch },
    Program { name: "rtapp-fair", draw: rtapp::fair },
    Program { name: "rtapp-ranks", draw: rtapp::ranks },
];

const MODES: &[&str] = &["process", "thread"];
/// Policies of fair tasks; the default one as often as the two others together.
const POLICIES: &[&str] = &["other", "other", "batch", "idle"];
/// Nice values; none as often as the others together.
const NICES: &[i32] = &[0, 0, 0, 0, -5, 5, 10, 19];

/// Tasks for a machine: from half the CPUs to three times as many, at least one.
fn tasks(dice: Dice, what: &str, cpus: u32) -> u32 {
    dice.within(what, (cpus / 2).max(1), 3 * cpus)
}

fn schbench(dice: Dice, cpus: u32, _: &Chosen) -> Workload {
    let hubs = dice.within("message_threads", 1, 3);
    Workload::bench("schbench")
        .number("message_threads", hubs)
        .number("threads", (tasks(dice, "threads", cpus) / hubs).max(1))
        .word("sleeptime", dice.pick("sleeptime", &["2ms", "5ms", "10ms"]))
        .word("cputime", dice.pick("cputime", &["500us", "1ms", "2ms", "4ms"]))
        .word("runtime", "1s")
}

fn schbench_modern(dice: Dice, cpus: u32, _: &Chosen) -> Workload {
    let hubs = dice.within("message_threads", 1, 2);
    let paced = dice.pick("rps", &[0, 0, 20, 60]) * cpus;
    Workload::bench("schbench-modern")
        .number("message_threads", hubs)
        .number("threads", (tasks(dice, "threads", cpus) / hubs).max(1))
        .word("sleep_usec", dice.pick("sleep_usec", &["100us", "1ms", "5ms"]))
        .number("operations", dice.within("operations", 1, 5))
        .number("cache_footprint", dice.pick("cache_footprint", &[64, 128, 256]))
        .number("rps", paced)
        .number("no_locking", dice.pick("no_locking", &[false, false, true]))
        .word("runtime", "1s")
}

fn nanosleep(dice: Dice, cpus: u32, _: &Chosen) -> Workload {
    Workload::bench("nanosleep")
        .number("tasks", tasks(dice, "tasks", cpus))
        .word("sleep", dice.pick("sleep", &["100us", "500us", "1ms", "3ms"]))
        .word("run", dice.pick("run", &["20us", "100us", "300us", "1ms"]))
        .word("mode", dice.pick("mode", MODES))
        .word("runtime", "1s")
}

fn hackbench(dice: Dice, _: u32, _: &Chosen) -> Workload {
    Workload::bench("hackbench")
        .number("groups", dice.within("groups", 1, 3))
        .number("fds", dice.within("fds", 2, 6))
        .number("loops", dice.pick("loops", &[60, 120, 240]))
        .number("datasize", dice.pick("datasize", &[100, 100, 1000]))
        .word("transport", dice.pick("transport", &["socket", "pipe"]))
        .word("mode", dice.pick("mode", MODES))
        .word("runtime", "10s")
}

fn pipe(dice: Dice, cpus: u32, _: &Chosen) -> Workload {
    Workload::bench("pipe")
        .number("pairs", dice.within("pairs", 1, cpus))
        .number("loops", dice.pick("loops", &[200, 500, 1000]))
        .number("size", dice.pick("size", &[4, 100, 2000]))
        .word("mode", dice.pick("mode", MODES))
        .word("runtime", "10s")
}

fn rr(dice: Dice, cpus: u32, _: &Chosen) -> Workload {
    Workload::bench("rr")
        .number("pairs", dice.within("pairs", 1, cpus))
        .word("protocol", dice.pick("protocol", &["tcp", "udp"]))
        .number("request", dice.pick("request", &[1, 100, 1000]))
        .number("response", dice.pick("response", &[1, 1000, 8000]))
        .word("runtime", "500ms")
}

fn stream_rr(dice: Dice, cpus: u32, _: &Chosen) -> Workload {
    Workload::bench("stream-rr")
        .number("clients", dice.within("clients", 1, 2 * cpus))
        .word("runtime", "500ms")
}

fn embedded_db(dice: Dice, cpus: u32, _: &Chosen) -> Workload {
    Workload::bench("embedded-db")
        .number("clients", dice.within("clients", 2, 2 * cpus))
        .word("work", dice.pick("work", &["1ms", "3ms", "8ms"]))
        .word("locked", dice.pick("locked", &["100us", "500us", "1ms"]))
        .number("fsyncs", dice.within("fsyncs", 0, 2))
        .word("fsync", dice.pick("fsync", &["2ms", "10ms"]))
        .word("runtime", "1s")
}

fn slice(dice: Dice, cpus: u32, kernel: &Chosen) -> Workload {
    let mut workload = Workload::bench("slice")
        .number("tasks", tasks(dice, "tasks", cpus))
        .number("wakers", dice.within("wakers", 0, 2))
        .number("rate", dice.pick("rate", &[100, 500, 1000]))
        .word("wake_work", dice.pick("wake_work", &["20us", "100us", "500us"]))
        .word("waker", dice.pick("waker", &["timer", "sleeper"]))
        .word("sampler", "off")
        .word("hog_policy", dice.pick("hog_policy", POLICIES))
        .word("waker_policy", dice.pick("waker_policy", POLICIES))
        .number("hog_nice", dice.pick("hog_nice", NICES))
        .number("waker_nice", dice.pick("waker_nice", NICES));
    if kernel.slices {
        let slices = &["0us", "0us", "300us", "10ms"];
        workload = workload.word("hog_slice", dice.pick("hog_slice", slices));
        workload = workload.word("waker_slice", dice.pick("waker_slice", slices));
    }
    if dice.pick("placement", &[false, false, false, true]) {
        workload = workload.word("placement", "pinned").number("cpus", cpus);
    }
    workload.word("mode", dice.pick("mode", MODES)).word("runtime", "1s")
}

fn batch(dice: Dice, cpus: u32, _: &Chosen) -> Workload {
    Workload::bench("batch")
        .number("jobs", tasks(dice, "jobs", cpus))
        .number("set", dice.pick("set", &[32, 128]))
        .number("touched", dice.pick("touched", &[256, 1024, 4096]))
        .word("compute", dice.pick("compute", &["500us", "1ms", "3ms"]))
        .number("blocks", dice.within("blocks", 0, 8))
        .word("sleep", dice.pick("sleep", &["1ms", "3ms", "8ms"]))
        .word("job_policy", dice.pick("job_policy", POLICIES))
        .number("wakers", dice.within("wakers", 0, 2))
        .number("rate", dice.pick("rate", &[100, 500, 1000]))
        .word("burst", dice.pick("burst", &["20us", "50us", "200us"]))
        .word("waker_policy", dice.pick("waker_policy", POLICIES))
        .word("mode", dice.pick("mode", MODES))
        .word("runtime", "1s")
}
