//! A task that waits on several ends of channels at once (epoll).

use crate::support::{Load, machine, once, program, run, sleep_us};
use schedlab_workload::{ChannelKind, Op, Outcome, PortId};
use std::sync::{Arc, Mutex};

const US: u64 = 1_000;

/// A worker that serves the near ends of three connections, with `work_us` for each message. Returns the ends that were
/// reported to it, in order, and the run.
fn serve(
    sends: [Vec<Op>; 3],
    kind: ChannelKind,
    work_us: u64,
) -> (Vec<usize>, crate::support::Run, schedlab_base::TaskId) {
    let mut load = Load::lasting_ms(20);
    let ends = [(); 3].map(|()| load.builder.channel(kind));
    let set = load.builder.set(ends.iter().map(|e| e.0).collect());
    let told = Arc::new(Mutex::new(Vec::new()));
    let (seen, near) = (told.clone(), ends.map(|e| e.0));
    let mut step = 0;
    let worker = program(move |env| {
        step += 1;
        match step % 3 {
            1 => Op::Poll { set },
            2 => {
                let Outcome::Ready(port) = env.outcome() else { panic!("{:?}", env.outcome()) };
                seen.lock().unwrap().push(near.iter().position(|p| *p == port).unwrap());
                Op::Recv { port, bytes: 10 }
            }
            _ => crate::support::run_us(work_us),
        }
    });
    let worker = load.task("worker", Some("0"), worker);
    for (n, ops) in sends.into_iter().enumerate() {
        let to = |op| if let Op::Send { bytes, .. } = op { Op::Send { port: ends[n].1, bytes } } else { op };
        load.task("sender", Some("1"), once(ops.into_iter().map(to).collect()));
    }
    let run = run(&machine("smp-2"), "v6.5", load);
    let told = told.lock().unwrap().clone();
    (told, run, worker)
}

fn send() -> Op {
    Op::Send { port: PortId(0), bytes: 10 }
}

#[test]
fn the_task_sleeps_until_any_end_has_something() {
    for kind in [ChannelKind::Unix, ChannelKind::Tcp, ChannelKind::Udp] {
        let sends =
            [vec![sleep_us(5_000), send()], vec![sleep_us(2_000), send()], vec![sleep_us(8_000), send()]];
        let (told, run, worker) = serve(sends, kind, 10);
        assert_eq!(told, [1, 0, 2], "{kind:?}");
        // It sleeps once before each message and once at the end.
        assert_eq!(run.stays(worker).len(), 4, "{kind:?}: {:?}", run.stays(worker));
        assert!(run.cpu_ns(worker) < 100 * US, "{kind:?}: it never spins");
        let came: Vec<u64> = run.stays(worker)[1..].iter().map(|s| s.0 / (1_000 * US)).collect();
        assert_eq!(came, [2, 5, 8], "{kind:?}");
    }
}

#[test]
fn ends_take_turns_in_the_order_of_arrival() {
    // While the worker handles the first message, three come at end 2, then one at 0 and one at 1. End 0 was found once
    // and stays at the head of the list, since epoll keeps level-triggered ends.
    let sends = [
        vec![sleep_us(1_000), send(), sleep_us(400), send()],
        vec![sleep_us(1_600), send()],
        vec![sleep_us(1_200), send(), send(), send()],
    ];
    let (told, ..) = serve(sends, ChannelKind::Tcp, 2_000);
    assert_eq!(told, [0, 0, 2, 1, 2, 2]);
}
