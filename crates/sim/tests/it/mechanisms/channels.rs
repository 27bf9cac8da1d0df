//! Pipes and sockets end to end: the cost of calls, the conditions under which tasks sleep and are woken, targets of
//! sync wakeups, and the effects of address spaces, slack and memory.

use crate::support::{
    Load, Run, cpus, forever, hog, kernel, machine, once, program, run, run_seeded, run_us, simulated,
    sleep_us,
};
use proptest::prelude::*;
use schedlab_base::{Ns, TaskId};
use schedlab_machine::{Costs, Machine};
use schedlab_trace::{Discard, EventKind, PlaceReason};
use schedlab_workload::{ChannelKind, Op, PortId};

const US: u64 = 1_000;
const MS: u64 = 1_000_000;

/// A machine whose idle CPUs poll, so that no exit latency blurs the arithmetic.
fn polling(name: &str) -> Machine {
    Machine { idle_states: Vec::new(), ..machine(name) }
}

fn send(port: PortId, bytes: u32) -> Op {
    Op::Send { port, bytes }
}
fn recv(port: PortId, bytes: u32) -> Op {
    Op::Recv { port, bytes }
}
/// Time to copy `bytes`, ns.
fn copy_ns(costs: &Costs, bytes: u64) -> u64 {
    bytes * costs.copy_ns_per_kb / 1024
}

/// Ends of a channel: the reading end first, for every kind.
fn ends(load: &mut Load, kind: ChannelKind) -> (PortId, PortId) {
    load.builder.channel(kind)
}

/// Two tasks on one CPU send a message back and forth. Round trips in ns, without the first one and those with a tick.
fn round_trips(kernel_text: &str, kind: ChannelKind, bytes: u32, processes: bool) -> Vec<u64> {
    let mut load = Load::lasting_ms(40);
    let series = load.builder.series("took", "ns", "lower");
    let (there, back) = (ends(&mut load, kind), ends(&mut load, kind));
    let mut began = None;
    let mut step = 0;
    let ping = program(move |env| {
        step += 1;
        if step % 2 == 0 {
            return recv(back.0, bytes);
        }
        let now = env.now().0;
        if let Some(before) = began.replace(now) {
            env.record(series, now - before);
        }
        send(there.1, bytes)
    });
    load.task("ping", Some("0"), ping);
    load.task("pong", Some("0"), forever(vec![recv(there.0, bytes), send(back.1, bytes)]));
    if processes {
        load.builder.as_processes();
    }
    let mut kernel = kernel(kernel_text);
    kernel.tunables.hz = 100;
    run_seeded(&polling("smp-1"), kernel, 1, load).values(0).split_off(2)
}

fn usual(mut values: Vec<u64>) -> u64 {
    values.sort_unstable();
    values[values.len() / 2]
}

/// Both write, wake, find nothing to read, sleep, switch, and read.
fn expected(costs: &Costs, send_ns: u64, recv_ns: u64, bytes: u64) -> u64 {
    let calls = 2 * costs.syscall_ns + send_ns + recv_ns + 2 * copy_ns(costs, bytes);
    2 * (calls + costs.enqueue_ns + costs.context_switch_ns)
}

#[test]
fn a_round_trip_costs_its_calls_copies_wakeups_and_switches() {
    let c = machine("smp-1").costs;
    let by_kind = [
        (ChannelKind::Pipe, c.pipe_io_ns, c.pipe_io_ns),
        (ChannelKind::Unix, c.unix_send_ns, c.unix_recv_ns),
        (ChannelKind::Tcp, c.tcp_send_ns, c.tcp_recv_ns),
        (ChannelKind::Udp, c.udp_send_ns, c.udp_recv_ns),
    ];
    for kernel_text in ["v3.4 NO_WAKEUP_PREEMPTION", "v4.5 NO_WAKEUP_PREEMPTION", "v6.5 NO_WAKEUP_PREEMPTION"]
    {
        for (kind, send_ns, recv_ns) in by_kind {
            for bytes in [1, 100, 4000] {
                let took = usual(round_trips(kernel_text, kind, bytes, false));
                let sum = expected(&c, send_ns, recv_ns, bytes.into());
                assert_eq!(took, sum, "{kernel_text} {kind:?} {bytes}");
            }
        }
    }
}

#[test]
fn each_call_costs_program_time_and_each_sleep_at_a_channel_its_price() {
    let round = |change: Option<&str>, kind| {
        let mut load = Load::lasting_ms(40);
        let series = load.builder.series("took", "ns", "lower");
        let (there, back) = (ends(&mut load, kind), ends(&mut load, kind));
        let (mut began, mut step) = (None, 0);
        let ping = program(move |env| {
            step += 1;
            if step % 2 == 0 {
                return recv(back.0, 100);
            }
            let now = env.now().0;
            if let Some(before) = began.replace(now) {
                env.record(series, now - before);
            }
            send(there.1, 100)
        });
        load.task("ping", Some("0"), ping);
        load.task("pong", Some("0"), forever(vec![recv(there.0, 100), send(back.1, 100)]));
        let (mut machine, mut kernel) = (polling("smp-1"), kernel("v6.5 NO_WAKEUP_PREEMPTION"));
        kernel.tunables.hz = 100;
        if let Some(name) = change {
            machine.set_cost(name, 300).unwrap();
        }
        usual(run_seeded(&machine, kernel, 1, load).values(0).split_off(2))
    };
    for (kind, waits, other) in [
        (ChannelKind::Pipe, "pipe_wait_ns", "socket_wait_ns"),
        (ChannelKind::Unix, "socket_wait_ns", "pipe_wait_ns"),
    ] {
        let plain = round(None, kind);
        assert_eq!(round(Some("program_ns"), kind) - plain, 4 * 300, "two calls each");
        assert_eq!(round(Some(waits), kind) - plain, 2 * 300, "each sleeps once");
        assert_eq!(round(Some(other), kind), plain);
    }
}

/// The time that a cost of 300 ns a call adds to a hundred messages: for their writer on CPU 0 and, once all are
/// written, for their reader.
fn dearer(kind: ChannelKind, reader: &str, name: &str) -> [u64; 2] {
    const NR: usize = 100;
    let used = |ns: u64| {
        let mut load = Load::lasting_ms(20);
        let (reads, writes) = ends(&mut load, kind);
        let mut machine = Machine { background: Vec::new(), ..polling("smp-2") };
        machine.set_cost(name, ns).unwrap();
        let twice = |op: fn(PortId, u32) -> Op, port, late_ms: u64| {
            let all = vec![op(port, 100); NR];
            let later = |ms: u64| vec![Op::SleepTo { at: Ns::ms(ms) }];
            once([later(1 + late_ms), all.clone(), later(5 + late_ms), all].concat())
        };
        let writer = load.task("writer", Some("0"), twice(send, writes, 0));
        let reader = load.task("reader", Some(reader), twice(recv, reads, 2));
        let seen = run(&machine, "v6.5", load);
        [seen.cpu_ns(writer), seen.cpu_ns(reader)]
    };
    let (plain, more) = (used(0), used(300));
    [(more[0] - plain[0]) / 300, (more[1] - plain[1]) / 300]
}

#[test]
fn a_buffer_last_used_by_another_cpu_takes_longer_to_touch() {
    for kind in [ChannelKind::Pipe, ChannelKind::Unix, ChannelKind::Tcp, ChannelKind::Udp] {
        // Only the writer's second hundred messages pay: for the first the buffer was untouched.
        assert_eq!(dearer(kind, "1", "remote_send_ns"), [100, 0], "{kind:?}");
        assert_eq!(dearer(kind, "1", "remote_recv_ns"), [0, 200], "{kind:?}");
        assert_eq!(dearer(kind, "0", "remote_send_ns"), [0, 0], "{kind:?}: all on one CPU");
        assert_eq!(dearer(kind, "0", "remote_recv_ns"), [0, 0], "{kind:?}");
    }
}

/// The time, ns, that a cost of 1 us adds when one task sends and reads these numbers of messages of 100
/// bytes, twice.
fn dearer_rounds(cost: &str, kind: ChannelKind, counts: [u32; 2]) -> u64 {
    let took = |ns: u64| {
        let mut load = Load::lasting_ms(20);
        let (reads, writes) = ends(&mut load, kind);
        let mut machine = Machine { background: Vec::new(), ..polling("smp-1") };
        machine.set_cost(cost, ns).unwrap();
        let mut script = Vec::new();
        for count in counts {
            script.extend((0..count).map(|_| send(writes, 100)));
            script.extend((0..count).map(|_| recv(reads, 100)));
        }
        let task = load.task("both", Some("0"), once(script));
        run(&machine, "v6.5", load).cpu_ns(task)
    };
    took(1_000) - took(0)
}

#[test]
fn messages_in_memory_of_others_cost_more_when_many_are_unread() {
    let dearer = |kind, counts| dearer_rounds("unix_reuse_ns", kind, counts);
    assert_eq!(dearer(ChannelKind::Unix, [60, 0]), 0, "all of it is new");
    assert_eq!(dearer(ChannelKind::Unix, [60, 30]), 0, "as much as lies at hand");
    assert_eq!(dearer(ChannelKind::Unix, [60, 60]), 27_000, "all but the first 33");
    assert_eq!(dearer(ChannelKind::Pipe, [60, 60]), 0);
}

/// A reader waits and a writer on CPU 0 writes: when the reader is enqueued, when it runs, and how long the writer's
/// call takes in all, ns from its beginning.
fn written(kind: ChannelKind, reader: &str, cost: &str, ns: u64) -> [u64; 3] {
    let mut load = Load::lasting_ms(40);
    let (reads, writes) = ends(&mut load, kind);
    let mut machine = Machine { background: Vec::new(), ..polling("smp-2") };
    machine.set_cost(cost, ns).unwrap();
    let task = load.task("reader", Some(reader), once(vec![recv(reads, 100), run_us(10)]));
    let script = vec![Op::SleepTo { at: Ns::us(5_000) }, run_us(13_000), send(writes, 100), run_us(1_000)];
    let writer = load.task("writer", Some("0"), once(script));
    let run = run(&machine, "v6.5", load);
    let began =
        run.stays(writer).iter().map(|(from, _)| *from).find(|from| *from > 4 * MS).expect("a writer");
    let after = |at: u64| at > began;
    let enqueued = run.events(|e| match e.kind {
        EventKind::Enqueued { task: t, .. } if t == task && after(e.at.0) => Some(e.at.0),
        _ => None,
    });
    let runs = run
        .stays(task)
        .iter()
        .map(|(from, _)| *from)
        .find(|from| after(*from))
        .unwrap_or_else(|| panic!("{kind:?} {reader} {cost}: {:?} {began}", run.stays(task)));
    [enqueued[0] - began, runs - began, run.cpu_ns(writer)]
}

#[test]
fn the_rest_of_a_call_follows_its_wakeup_and_an_enqueue_on_a_busy_cpu_takes_longer() {
    for kind in [ChannelKind::Pipe, ChannelKind::Unix] {
        let later = |reader: &str, cost: &str| {
            let (with, without) = (written(kind, reader, cost, 200), written(kind, reader, cost, 0));
            let diff: Vec<i64> = with.iter().zip(&without).map(|(a, b)| *a as i64 - *b as i64).collect();
            (diff[0], diff[1])
        };
        assert_eq!(
            later("0", "channel_end_ns"),
            (-200, 0),
            "{kind:?}: earlier awake, but the call is as long"
        );
        assert_eq!(
            later("1", "channel_end_ns"),
            (-200, -200),
            "{kind:?}: another CPU need not wait for its end"
        );
        assert_eq!(later("0", "preempt_check_ns"), (200, 200), "{kind:?}: the writer runs there");
        assert_eq!(later("1", "preempt_check_ns"), (0, 0), "{kind:?}: no task does");
    }
}

#[test]
fn a_task_that_preempts_is_charged_from_its_wakeup_on_since_2_6_37() {
    // The time of the enqueue is charged to the reader by the runqueue's clock, and to the writer by the clock of
    // `schedule()`.
    let charged = |version: &str| {
        let mut load = Load::lasting_ms(60);
        let (reads, writes) = ends(&mut load, ChannelKind::Pipe);
        let mut machine = Machine { background: Vec::new(), ..polling("smp-1") };
        machine.set_cost("enqueue_ns", 100 * US).unwrap();
        let reader = load.task("reader", Some("0"), once(vec![recv(reads, 100), run_us(10)]));
        let script =
            vec![Op::SleepTo { at: Ns::us(5_000) }, run_us(33_000), send(writes, 100), run_us(1_000)];
        load.task("writer", Some("0"), once(script));
        let run = run(&machine, version, load);
        let on_cpu: u64 = run.stays(reader).iter().map(|(from, to)| to - from).sum();
        run.cpu_ns(reader) as i64 - on_cpu as i64
    };
    let (before, since) = (charged("v2.6.30"), charged("v3.4"));
    assert!(
        (before..before + 101 * US as i64).contains(&since) && since > before + 99 * US as i64,
        "{before} {since}"
    );
}

#[test]
fn only_messages_in_new_memory_cost_more_to_send() {
    let dearer = |kind, counts| dearer_rounds("unix_new_ns", kind, counts);
    assert_eq!(dearer(ChannelKind::Unix, [10, 0]), 10_000);
    assert_eq!(dearer(ChannelKind::Unix, [10, 10]), 10_000, "the second round has the first one's memory");
    assert_eq!(dearer(ChannelKind::Unix, [10, 14]), 14_000, "but for what is more");
    assert_eq!(dearer(ChannelKind::Pipe, [10, 10]), 0);
}

/// When two writers, each on its own CPU, have written a hundred messages each, to one shared channel
/// or to one channel each, ns after they began.
fn both_written(kind: ChannelKind, shared: bool, lock: &str) -> u64 {
    let mut load = Load::lasting_ms(20);
    let first = ends(&mut load, kind);
    let second = if shared { first } else { ends(&mut load, kind) };
    let mut machine = Machine { background: Vec::new(), ..polling("smp-2") };
    machine.set_cost(lock, 2_000).unwrap();
    machine.set_cost("pipe_io_ns", 2_000).unwrap();
    machine.set_cost("unix_send_ns", 2_000).unwrap();
    let series = load.builder.series("took", "ns", "lower");
    for (cpu, port) in [("0", first.1), ("1", second.1)] {
        let mut left = 100;
        let writes = program(move |env| {
            if env.now() < Ns::ms(5) {
                return Op::SleepTo { at: Ns::ms(5) };
            }
            if left == 0 {
                let now = env.now().0;
                env.record(series, now - 5 * MS);
                return Op::Exit;
            }
            left -= 1;
            send(port, 100)
        });
        load.task("writer", Some(cpu), writes);
    }
    run(&machine, "v6.5", load).values(0).into_iter().max().unwrap()
}

#[test]
fn a_writer_waits_for_the_lock_that_another_writer_holds() {
    for (kind, lock, other) in [
        (ChannelKind::Pipe, "pipe_lock_ns", "unix_lock_ns"),
        (ChannelKind::Unix, "unix_lock_ns", "pipe_lock_ns"),
    ] {
        let own = both_written(kind, false, lock);
        assert_eq!(both_written(kind, true, other), own, "{kind:?}: another kind's lock");
        // A call takes about 2.5 us, 2 of them in the lock, which one task holds at a time.
        let both = both_written(kind, true, lock);
        assert!(both > 200 * 2_000 && own < 100 * 3_000, "{kind:?}: {both} and not {own}");
    }
}

/// How long a write takes that comes 1 us after another one, which wakes the reader for more than 5 us.
fn write_beside_a_wakeup(kind: ChannelKind, lock_ns: u64, shared: bool) -> u64 {
    let mut load = Load::lasting_ms(10);
    let series = load.builder.series("took", "ns", "lower");
    let first = ends(&mut load, kind);
    let second = if shared { first } else { ends(&mut load, kind) };
    load.task("reader", Some("2"), forever(vec![recv(first.0, 1)]));
    for (cpu, (_, port), at) in [("0", first, 5 * MS), ("1", second, 5 * MS + 1_000)] {
        let mut step = 0;
        let writes = program(move |env| {
            step += 1;
            match step {
                1 => Op::SpinTo { at: Ns(at) },
                2 => send(port, 1),
                _ => {
                    let now = env.now().0;
                    env.record(series, now - at);
                    Op::Exit
                }
            }
        });
        load.task("writer", Some(cpu), writes);
    }
    let mut machine = Machine { background: Vec::new(), ..polling("smp-4") };
    for (name, ns) in [("pipe_lock_ns", lock_ns), ("unix_lock_ns", lock_ns), ("enqueue_ns", 5_000)] {
        machine.set_cost(name, ns).unwrap();
    }
    run(&machine, "v6.5 NO_TTWU_QUEUE", load).values(0).into_iter().min().unwrap()
}

/// `sk_wq`'s lock is held through `try_to_wake_up()`, and the sleeper is on the list until then. A pipe's second writer
/// does not find it empty, and looks for no sleeper.
#[test]
fn who_writes_to_a_socket_waits_for_one_that_wakes_its_reader() {
    for kind in [ChannelKind::Unix, ChannelKind::Tcp] {
        let free = write_beside_a_wakeup(kind, 0, true);
        assert_eq!(write_beside_a_wakeup(kind, 1, false), free, "{kind:?}: another socket");
        let waits = write_beside_a_wakeup(kind, 1, true);
        assert!((free + 3_000..free + 6_000).contains(&waits), "{kind:?}: {waits} after {free}");
    }
    let pipe = |lock_ns| write_beside_a_wakeup(ChannelKind::Pipe, lock_ns, true);
    assert_eq!(pipe(1), pipe(0));
}

#[test]
fn a_lock_without_waiters_takes_no_time() {
    // Sleeping readers, and writers whose messages are too large for the channel.
    for kind in [ChannelKind::Pipe, ChannelKind::Unix] {
        for bytes in [1, 300_000] {
            let of = |lock_ns: u64| {
                let mut load = Load::lasting_ms(60);
                let (reads, writes) = ends(&mut load, kind);
                load.task("writer", Some("0"), forever(vec![send(writes, bytes), sleep_us(200)]));
                let reader = load.task("reader", Some("0"), forever(vec![recv(reads, bytes)]));
                let mut machine = Machine { background: Vec::new(), ..polling("smp-1") };
                for name in ["pipe_lock_ns", "unix_lock_ns"] {
                    machine.set_cost(name, lock_ns).unwrap();
                }
                run(&machine, "v6.5", load).cpu_ns(reader)
            };
            let plain = of(0);
            assert!(plain > 0 && [200, 1_900].iter().all(|ns| of(*ns) == plain), "{kind:?}, {bytes}");
        }
    }
}

#[test]
fn processes_pay_for_their_address_spaces_and_idle_and_kernel_tasks_leave_them_loaded() {
    let c = machine("smp-1").costs;
    let pipe = |processes| usual(round_trips("v4.5 NO_WAKEUP_PREEMPTION", ChannelKind::Pipe, 1, processes));
    assert_eq!(pipe(true) - pipe(false), 2 * c.mm_switch_ns);
    // A task that alternates with idle loads its address space only once.
    let alone = |processes: bool| {
        let mut load = Load::lasting_ms(10);
        let t = load.task("t", Some("0"), forever(vec![run_us(100), sleep_us(100)]));
        if processes {
            load.builder.as_processes();
        }
        let seen = run(&polling("smp-1"), "v4.5", load);
        seen.stays(t)
    };
    let (threads, processes) = (alone(false), alone(true));
    assert!(threads.len() > 30);
    assert_eq!(processes[0].1 - threads[0].1, c.mm_switch_ns);
    assert_eq!(processes[9].1 - threads[9].1, c.mm_switch_ns, "once, not at every wakeup");
}

/// Wakeups of a task, by any waker.
fn wakings(seen: &Run, task: TaskId) -> usize {
    seen.events(|e| matches!(e.kind, EventKind::Waking { task: t, .. } if t == task).then_some(())).len()
}

#[test]
fn reading_from_tcp_wakes_no_task_that_waits_for_an_answer_over_the_same_connection() {
    let mut load = Load::lasting_ms(5);
    let (near, far) = ends(&mut load, ChannelKind::Tcp);
    let client = load.task("client", Some("0"), once(vec![send(near, 1), recv(near, 1)]));
    load.task("server", Some("1"), once(vec![Op::SleepTo { at: Ns::ms(1) }, recv(far, 1)]));
    let seen = run(&polling("smp-2"), "v6.1", load);
    assert_eq!(wakings(&seen, client), 0, "no answer ever comes");
}

#[test]
fn since_5_5_a_pipe_wakes_readers_only_when_it_was_empty_and_since_5_6_one_of_them() {
    // Three readers sleep; the writer, alone on its CPU, sends three messages without a pause.
    let readers = |kernel_text: &str| {
        let mut load = Load::lasting_ms(20);
        let (reads, writes) = ends(&mut load, ChannelKind::Pipe);
        let readers: Vec<TaskId> =
            (1..=3).map(|_| load.task("reader", Some("1"), once(vec![recv(reads, 100)]))).collect();
        let ops = std::iter::once(Op::SleepTo { at: Ns::ms(5) }).chain(vec![send(writes, 100); 3]).collect();
        load.task("writer", Some("0"), once(ops));
        let mut kernel = kernel("v4.5");
        kernel.version = schedlab_base::Version::parse(kernel_text).expect("a version");
        let seen = run_seeded(&polling("smp-2"), kernel, 1, load);
        let ends = seen.events(|e| matches!(e.kind, EventKind::Exited { .. }).then_some(())).len();
        let wakers = seen.events(|e| match e.kind {
            EventKind::Waking { task, waker: Some(waker) } if readers.contains(&task) => Some(waker),
            _ => None,
        });
        assert_eq!(ends, 4, "{kernel_text}: everybody got its message");
        (wakers.iter().filter(|w| readers.contains(w)).count(), wakers.len())
    };
    assert_eq!(readers("4.5"), (0, 3), "the first message wakes all");
    assert_eq!(readers("5.5"), (0, 3), "the first message wakes all");
    assert_eq!(readers("5.6"), (2, 3), "it wakes one, which wakes the next, and so on");
}

#[test]
fn since_5_5_every_read_from_a_full_pipe_wakes_a_writer_until_6_14() {
    // The writer fills the pipe and sleeps. Half a page is read eight times, with enough time to write in between.
    let woken = |version: &str| {
        let mut load = Load::lasting_ms(50);
        let (reads, writes) = ends(&mut load, ChannelKind::Pipe);
        let writer = load.task("writer", Some("0"), once(vec![send(writes, 32 * 4096)]));
        let halves = [recv(reads, 2048), sleep_us(1_000)].repeat(8);
        load.task("reader", Some("1"), once([vec![Op::SleepTo { at: Ns::ms(20) }], halves].concat()));
        let mut kernel = kernel("v4.5");
        kernel.version = schedlab_base::Version::parse(version).expect("a version");
        wakings(&run_seeded(&polling("smp-2"), kernel, 1, load), writer)
    };
    assert_eq!(woken("4.5"), 4, "when a page comes free");
    assert_eq!(woken("5.5"), 8, "for it had been full, also when it still is");
    assert_eq!(woken("6.14"), 4, "no longer in vain");
}

/// The target of a sync or futex wakeup of the reader. It slept on CPU 30; that CPU and all others except the listed
/// ones are busy. The waker is alone on CPU 0 of the other socket.
fn woken_by(kernel_text: &str, futex: bool) -> u32 {
    let mut load = Load::lasting_ms(200);
    let (reads, writes) = ends(&mut load, ChannelKind::Pipe);
    let word = load.builder.word();
    let everywhere = load.builder.mask(cpus("0-47"));
    let wait = if futex { Op::Wait { word, value: 0, until: Ns::MAX } } else { recv(reads, 8) };
    let wake = if futex { Op::Wake { word, count: 1 } } else { send(writes, 8) };
    let set = Op::SetAffinity { mask: everywhere };
    let reader = load.task("reader", Some("30"), once(vec![set, wait, run_us(100)]));
    load.task("writer", Some("0"), once(vec![Op::SpinTo { at: Ns::ms(150) }, wake, run_us(10_000)]));
    for cpu in 1..48 {
        load.task("hog", Some(&cpu.to_string()), hog());
    }
    let seen = run(&machine("fb-2x24"), kernel_text, load);
    seen.placements(reader).last().expect("it was woken").1
}

#[test]
fn a_sync_wakeup_takes_the_cpu_of_a_waker_that_is_alone_there() {
    assert_eq!(woken_by("v6.5", false), 0, "the waker says that it is about to sleep, and is alone");
    assert_eq!(woken_by("v4.5", false), 0, "without the waker's load its CPU has none");
}

#[test]
fn a_futex_wakeup_is_not_sync() {
    // The previous CPU is idle. Without the sync hint that decides; with it the waker's CPU is read first.
    let idle_prev = |futex: bool| {
        let mut load = Load::lasting_ms(200);
        let (reads, writes) = ends(&mut load, ChannelKind::Pipe);
        let word = load.builder.word();
        let mask = load.builder.mask(cpus("0-47"));
        let wait = if futex { Op::Wait { word, value: 0, until: Ns::MAX } } else { recv(reads, 8) };
        let wake = if futex { Op::Wake { word, count: 1 } } else { send(writes, 8) };
        let t = load.task("reader", Some("30"), once(vec![Op::SetAffinity { mask }, wait, run_us(100)]));
        load.task("writer", Some("0"), once(vec![Op::SpinTo { at: Ns::ms(150) }, wake, run_us(10_000)]));
        run(&machine("fb-2x24"), "v6.5", load).placements(t).last().expect("it was woken").1
    };
    assert_eq!(idle_prev(true), 30);
    assert!(idle_prev(false) < 24, "drawn to the waker's socket although its own CPU is idle");
}

/// A reader on CPU 1 that goes to sleep just before the writer on CPU 0 wakes it; the reasons of its placements.
fn while_leaving(kernel_text: &str) -> (Vec<PlaceReason>, u64) {
    let mut m = polling("smp-2");
    m.costs.idle_switch_ns = 20 * US;
    let mut load = Load::lasting_ms(20);
    let word = load.builder.word();
    let mask = load.builder.mask(cpus("0-1"));
    let wait = Op::Wait { word, value: 0, until: Ns::MAX };
    let ops = vec![Op::SetAffinity { mask }, Op::SpinTo { at: Ns::ms(10) }, wait, run_us(10)];
    let sleeper = load.task("sleeper", Some("1"), once(ops));
    let wake = Op::Wake { word, count: 1 };
    load.task("waker", Some("0"), once(vec![Op::SpinTo { at: Ns::us(10_005) }, wake, run_us(1_000)]));
    let seen = run(&m, kernel_text, load);
    let ended =
        seen.events(|e| matches!(e.kind, EventKind::Exited { task } if task == sleeper).then_some(()));
    assert_eq!(ended.len(), 1, "{kernel_text}: it was woken");
    let reasons = seen.placements(sleeper).iter().map(|p| p.2).collect();
    (reasons, seen.counter("wakeup.on_cpu_waits"))
}

#[test]
fn since_5_8_a_task_that_is_being_switched_out_is_queued_on_its_cpu() {
    let (reasons, waits) = while_leaving("v4.5");
    assert!(waits > 50 && !reasons.contains(&PlaceReason::StillQueued), "{reasons:?} {waits}");
    let (reasons, waits) = while_leaving("v6.5");
    assert_eq!((reasons.last(), waits), (Some(&PlaceReason::StillQueued), 0), "{reasons:?}");
    let (reasons, waits) = while_leaving("v6.5 NO_TTWU_QUEUE");
    assert!(waits > 50 && !reasons.contains(&PlaceReason::StillQueued), "{reasons:?} {waits}");
}

#[test]
fn a_tasks_own_slack_overrides_the_kernels() {
    let took = |slack: Option<Ns>, futex: bool| {
        let mut load = Load::lasting_ms(20);
        let word = load.builder.word();
        let mut step = 0;
        let series = load.builder.series("took", "ns", "lower");
        let sleeper = program(move |env| {
            step += 1;
            let now = env.now();
            match step {
                1 if futex => Op::Wait { word, value: 0, until: Ns::ms(5) },
                1 => Op::SleepTo { at: Ns::ms(5) },
                _ => {
                    env.record(series, now.0 - 5 * MS);
                    Op::Exit
                }
            }
        });
        let t = load.task("t", None, sleeper);
        load.builder.edit(t).timer_slack = slack;
        run(&polling("smp-1"), "v4.5", load).values(0)[0]
    };
    for futex in [false, true] {
        let [none, default, own] = [Some(Ns(1)), None, Some(Ns::us(300))].map(|slack| took(slack, futex));
        assert_eq!((default - none, own - none), (50 * US - 1, 300 * US - 1));
    }
}

#[test]
fn touching_costs_by_the_kb_and_after_a_move_they_are_fetched_first() {
    let m = polling("fb-2x12-smt");
    let cpu_ns = |kb: u32, rounds: u32, moved: bool| {
        let mut load = Load::lasting_ms(50);
        let mask = load.builder.mask(cpus("12"));
        let touch = Op::Touch { kb, rounds };
        let ops = if moved { vec![touch, Op::SetAffinity { mask }, touch] } else { vec![touch, touch] };
        let t = load.task("t", Some("0"), once(ops));
        load.builder.edit(t).footprint_kb = 256;
        let seen = run(&m, "v4.5", load);
        (seen.report.tasks[t.index()].work_ns, seen.counter("refill.time"))
    };
    let per_kb = m.costs.touch_ns_per_kb;
    assert_eq!(cpu_ns(100, 10, false), (2 * 1000 * per_kb, 0));
    assert_eq!(cpu_ns(1_000, 10, false).0, 2 * 2560 * per_kb, "at most its footprint");
    assert_eq!(cpu_ns(100, 10, true), (2 * 1000 * per_kb, 100 * m.costs.refill_far_ns_per_kb));
}

/// Senders and receivers as in hackbench: every sender writes `loops` messages to every receiver's channel.
#[derive(Clone, Debug)]
struct Storm {
    kind: ChannelKind,
    senders: u32,
    receivers: u32,
    loops: u32,
    bytes: u32,
    processes: bool,
}

fn storm() -> impl Strategy<Value = Storm> {
    let kind = prop_oneof![
        2 => Just(ChannelKind::Pipe), 2 => Just(ChannelKind::Unix), 1 => Just(ChannelKind::Tcp)
    ];
    let bytes = prop_oneof![3 => 1u32..300, 1 => 300u32..20_000, 1 => 20_000u32..150_000];
    (kind, 1u32..8, 1u32..6, 1u32..30, bytes, any::<bool>()).prop_map(
        |(kind, senders, receivers, loops, bytes, processes)| Storm {
            kind,
            senders,
            receivers,
            loops,
            bytes,
            processes,
        },
    )
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 60, failure_persistence: None, ..ProptestConfig::default() })]

    /// Every byte that is sent arrives and no task is left asleep, with every invariant checked after every event.
    #[test]
    fn a_storm_of_messages_ends(s in storm(), machine_at in 0usize..3, profile in 0usize..4, seed in any::<u64>()) {
        let mut load = Load::lasting_ms(3_000);
        let ports: Vec<(PortId, PortId)> = (0..s.receivers).map(|_| ends(&mut load, s.kind)).collect();
        for (reads, _) in &ports {
            load.task("receiver", None, once(vec![recv(*reads, s.bytes); (s.senders * s.loops) as usize]));
        }
        let round: Vec<Op> = ports.iter().map(|(_, writes)| send(*writes, s.bytes)).collect();
        for _ in 0..s.senders {
            load.task("sender", None, once(round.repeat(s.loops as usize)));
        }
        if s.processes {
            load.builder.as_processes();
        }
        let mut kernel = kernel(["v3.4", "v4.5", "v6.5", "v6.5"][profile]);
        if profile == 3 {
            kernel.version = schedlab_base::Version::new(5, 5);
        }
        let m = machine(["smp-1", "smp-4", "x5570-2x4-smt"][machine_at]);
        let report = simulated(&m, kernel, seed, load.built(), &mut Discard);
        let report = report.map_err(|e| TestCaseError::fail(e.to_string()))?;
        prop_assert!(report.end < Ns::ms(3_000), "a task waits for ever: {:?}", report.end);
    }
}

#[test]
fn misuse_is_refused_by_name() {
    for (kind, bytes, reading) in [(ChannelKind::Pipe, 1, true), (ChannelKind::Udp, 70_000, false)] {
        let mut load = Load::lasting_ms(1);
        let (first, second) = ends(&mut load, kind);
        load.task("culprit", None, once(vec![send(if reading { first } else { second }, bytes)]));
        let error = simulated(&machine("smp-1"), kernel("v4.5"), 1, load.built(), &mut Discard);
        let text = error.expect_err("it can't be done").to_string();
        assert!(text.contains("'culprit'"), "{text}");
    }
}
