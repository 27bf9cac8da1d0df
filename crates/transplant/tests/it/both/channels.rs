//! Pipes, sockets, sets of ends and words.

use super::support::{Load, Run, machine, once, program, run_us, sleep_us};
use super::{On, on_both, polling};
use schedlab_base::{Ns, TaskId};
use schedlab_trace::EventKind;
use schedlab_workload::{ChannelKind, Op, Outcome, PortId};

const MS: u64 = 1_000_000;

fn send(port: PortId, bytes: u32) -> Op {
    Op::Send { port, bytes }
}
fn recv(port: PortId, bytes: u32) -> Op {
    Op::Recv { port, bytes }
}
fn from_ms(ms: u64, ops: Vec<Op>) -> Vec<Op> {
    [vec![Op::SleepTo { at: Ns::ms(ms) }], ops].concat()
}

/// Ends of tasks, ns.
fn ended(run: &Run, task: TaskId) -> Vec<u64> {
    run.events(|e| (e.kind == EventKind::Exited { task }).then_some(e.at.0))
}

/// A writer of `nr` messages whose reader waits for 50 ms. How many messages were in by then, and how many in the end.
fn blocked(on: &mut On, kind: ChannelKind, bytes: u32, nr: u32) -> [u64; 2] {
    let mut load = Load::lasting_ms(200);
    let series = load.builder.series("sent", "ns", "neither");
    let (reads, writes) = load.builder.channel(kind);
    let mut left = nr;
    let writer = program(move |env| {
        if left < nr {
            let now = env.now().0;
            env.record(series, now);
        }
        if left == 0 {
            return Op::Exit;
        }
        left -= 1;
        send(writes, bytes)
    });
    load.task("writer", Some("0"), writer);
    load.task("reader", Some("1"), once(from_ms(50, vec![recv(reads, bytes); nr as usize])));
    let counts = on.figures(&polling("smp-2"), load, |run| {
        let sent = run.values(0);
        vec![sent.iter().filter(|at| **at < 50 * MS).count() as u64, sent.len() as u64]
    });
    [counts[0], counts[1]]
}

#[test]
fn a_writer_sleeps_at_exactly_the_buffers_size() {
    let test = "both::channels::a_writer_sleeps_at_exactly_the_buffers_size";
    on_both(test, &["v3.4", "v4.5", "v6.5"], |on| {
        assert_eq!(blocked(on, ChannelKind::Pipe, 4096, 20), [16, 20]);
        assert_eq!(blocked(on, ChannelKind::Pipe, 100, 700), [640, 700]);
        assert_eq!(blocked(on, ChannelKind::Pipe, 64, 1100), [1024, 1100]);
        assert_eq!(blocked(on, ChannelKind::Pipe, 100_000, 3), [0, 3], "more than it holds");
        assert_eq!(blocked(on, ChannelKind::Unix, 100, 400), [278, 400]);
        assert_eq!(blocked(on, ChannelKind::Tcp, 1024, 200), [128, 200]);
    });
}

#[test]
fn datagrams_that_find_no_room_are_lost_and_counted() {
    on_both("both::channels::datagrams_that_find_no_room_are_lost_and_counted", &["v4.5"], |on| {
        let mut load = Load::lasting_ms(50);
        let (reads, writes) = load.builder.channel(ChannelKind::Udp);
        load.task("writer", Some("0"), once(vec![send(writes, 100); 300]));
        let reader = load.task("reader", Some("1"), once(from_ms(20, vec![recv(reads, 100); 278])));
        let seen = on.figures(&polling("smp-2"), load, |run| {
            vec![run.counter("udp.lost"), ended(run, reader).len() as u64]
        });
        assert_eq!(seen, [300 - 278, 1], "all others came");
    });
}

/// A worker that serves the near ends of three connections, with `work_us` for each message. Gives the ends that it
/// was reported, in order, then the ms at which its stays began, and its CPU time.
fn serve(on: &mut On, sends: [Vec<Op>; 3], kind: ChannelKind, work_us: u64) -> (Vec<u64>, Vec<u64>, u64) {
    let mut load = Load::lasting_ms(20);
    let series = load.builder.series("reported", "", "neither");
    let ends = [(); 3].map(|()| load.builder.channel(kind));
    let set = load.builder.set(ends.iter().map(|e| e.0).collect());
    let (near, mut step) = (ends.map(|e| e.0), 0);
    let worker = program(move |env| {
        step += 1;
        match step % 3 {
            1 => Op::Poll { set },
            2 => {
                let Outcome::Ready(port) = env.outcome() else { panic!("{:?}", env.outcome()) };
                env.record(series, near.iter().position(|p| *p == port).unwrap() as u64);
                recv(port, 10)
            }
            _ => run_us(work_us),
        }
    });
    let worker = load.task("worker", Some("0"), worker);
    for (ops, (_, far)) in sends.into_iter().zip(ends) {
        let to = |op| if let Op::Send { bytes, .. } = op { send(far, bytes) } else { op };
        load.task("sender", Some("1"), once(ops.into_iter().map(to).collect()));
    }
    let seen = on.figures(&machine("smp-2"), load, |run| {
        let (told, stays) = (run.values(0), run.stays(worker));
        let stays = stays.iter().map(|(from, _)| from / MS);
        [run.cpu_ns(worker), told.len() as u64].into_iter().chain(told).chain(stays).collect()
    });
    let (told, stays) = seen[2..].split_at(seen[1] as usize);
    (told.to_vec(), stays.to_vec(), seen[0])
}

fn some() -> Op {
    send(PortId(0), 10)
}

#[test]
fn a_task_sleeps_until_any_end_of_its_set_has_something() {
    on_both("both::channels::a_task_sleeps_until_any_end_of_its_set_has_something", &["v6.5"], |on| {
        for kind in [ChannelKind::Unix, ChannelKind::Tcp, ChannelKind::Udp] {
            let sends = [5_000, 2_000, 8_000].map(|us| vec![sleep_us(us), some()]);
            let (told, stays, cpu_ns) = serve(on, sends, kind, 10);
            assert_eq!(told, [1, 0, 2], "{kind:?}");
            assert_eq!(stays, [0, 2, 5, 8], "{kind:?}: before each message, and at the end");
            assert!(cpu_ns < MS / 10, "{kind:?}: it never spins: {cpu_ns}");
        }
    });
}

#[test]
fn ends_take_turns_in_the_order_in_which_something_came() {
    on_both("both::channels::ends_take_turns_in_the_order_in_which_something_came", &["v6.5"], |on| {
        // While the worker is at the first message, three come at end 2, then one at 0 and one at 1. End 0 was found
        // once and stays at the head of the list, as epoll keeps what is level-triggered.
        let sends = [
            vec![sleep_us(1_000), some(), sleep_us(400), some()],
            vec![sleep_us(1_600), some()],
            vec![sleep_us(1_200), some(), some(), some()],
        ];
        assert_eq!(serve(on, sends, ChannelKind::Tcp, 2_000).0, [0, 0, 2, 1, 2, 2]);
    });
}

#[test]
fn waiters_of_a_word_are_woken_in_turn_and_a_wait_in_vain_ends_by_its_time() {
    let test = "both::channels::waiters_of_a_word_are_woken_in_turn_and_a_wait_in_vain_ends_by_its_time";
    on_both(test, &["v3.4", "v6.5"], |on| {
        let mut load = Load::lasting_ms(30);
        let word = load.builder.word();
        let wait = |until| Op::Wait { word, value: 0, until };
        let waiters: Vec<TaskId> = (0..3)
            .map(|n| load.task("waits", Some("0"), once(vec![sleep_us(1_000 * (n + 1)), wait(Ns::MAX)])))
            .collect();
        let vain = load.task("in vain", Some("0"), once(from_ms(12, vec![wait(Ns::ms(20))])));
        let wake = |count| Op::Wake { word, count };
        load.task("wakes", Some("1"), once(vec![sleep_us(8_000), wake(1), sleep_us(2_000), wake(9)]));
        let ends = on.figures(&polling("smp-2"), load, |run| {
            waiters.iter().chain([&vain]).flat_map(|task| ended(run, *task)).map(|at| at / MS).collect()
        });
        assert_eq!(ends, [8, 10, 10, 20]);
    });
}
