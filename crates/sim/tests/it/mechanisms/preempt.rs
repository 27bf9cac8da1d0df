//! Preemption models: how long a task in the kernel keeps the CPU from another, and what happens to the rest of a call
//! when its task gives way in the middle.

use crate::support::{Load, Run, forever, kernel, machine, run_built, sleep_us};
use schedlab_kernel::{Attr, Policy};
use schedlab_machine::Machine;
use schedlab_trace::EventKind;
use schedlab_workload::{ChannelKind, Op};

const US: u64 = 1_000;

/// One CPU on which one task makes calls of a millisecond and another is woken by its timer; returns the median of the
/// latter's delays.
fn delay_beside_calls(text: &str, wakee: Attr) -> u64 {
    let mut own = machine("smp-1");
    own.costs.usage_read_ns = 1_000 * US;
    let mut load = Load::lasting_ms(400);
    let caller = load.task("caller", None, forever(vec![]));
    load.builder.edit(caller).program = forever(vec![Op::Usage { task: caller }]);
    let waking = load.task("wakee", None, forever(vec![sleep_us(2_700)]));
    load.attr(waking, wakee);
    median(delays(&own, text, load, waking))
}

fn delays(machine: &Machine, text: &str, load: Load, of: schedlab_base::TaskId) -> Vec<u64> {
    run_built(machine, kernel(text), 1, load.built()).wakeup_delays(of)
}

fn median(mut delays: Vec<u64>) -> u64 {
    assert!(delays.len() > 50, "{} wakeups", delays.len());
    delays.sort_unstable();
    delays[delays.len() / 2]
}

fn fifo() -> Attr {
    Attr { policy: Policy::Fifo, rt_priority: 50, ..Attr::default() }
}

#[test]
fn a_call_is_left_at_the_end_of_an_interrupt_under_full_and_by_real_time_tasks_under_lazy() {
    for model in ["none", "voluntary"] {
        let waits = delay_beside_calls(&format!("v6.18 preempt={model}"), fifo());
        assert!(waits > 150 * US, "{model}: {waits} ns, the rest of a call");
    }
    let [full, lazy] = ["full", "lazy"].map(|model| format!("v6.18 preempt={model}"));
    assert!(delay_beside_calls(&full, fifo()) < 20 * US);
    assert!(delay_beside_calls(&lazy, fifo()) < 20 * US);
    assert!(delay_beside_calls(&full, Attr::default()) < 20 * US);
    assert!(delay_beside_calls(&lazy, Attr::default()) > 150 * US, "a fair task waits for the call's end");
}

#[test]
fn a_call_that_was_left_continues_with_the_time_it_had_left() {
    // The caller has the whole CPU except for the wakee's short turns: its calls take a millisecond each, left or not.
    let calls = |model: &str| {
        let mut own = machine("smp-1");
        own.costs.usage_read_ns = 1_000 * US;
        let mut load = Load::lasting_ms(300);
        let made = load.builder.series("made", "ns", "lower");
        let caller = load.task("caller", None, forever(vec![]));
        let mut last = 0;
        load.builder.edit(caller).program = crate::support::program(move |env| {
            let now = env.now().0;
            env.record(made, now - last);
            last = now;
            Op::Usage { task: caller }
        });
        let wakee = load.task("wakee", None, forever(vec![sleep_us(2_700)]));
        load.attr(wakee, fifo());
        let seen = run_built(&own, kernel(&format!("v6.18 preempt={model}")), 1, load.built());
        seen.values(0).len()
    };
    let (none, full) = (calls("none"), calls("full"));
    assert!(none > 270 && full.abs_diff(none) <= 2, "{none} calls, {full} under full");
}

/// When each of two tasks that one call wakes is woken, and when the first of them runs, ns.
fn wakes_two(text: &str) -> (u64, u64, u64) {
    let mut load = Load::lasting_ms(100);
    let word = load.builder.word();
    let [a, b] = ["a", "b"].map(|name| {
        let waits = Op::Wait { word, value: 0, until: schedlab_base::Ns::MAX };
        load.task(name, None, forever(vec![waits]))
    });
    load.attr(a, fifo());
    load.task("waker", None, forever(vec![sleep_us(40_000), Op::Wake { word, count: 2 }]));
    let seen: Run = run_built(&machine("smp-1"), kernel(text), 1, load.built());
    let first = |wanted: &dyn Fn(&EventKind) -> bool| {
        let late = |e: &schedlab_trace::Event| (e.at.0 > 30_000 * US && wanted(&e.kind)).then_some(e.at.0);
        seen.events(late)[0]
    };
    let woken =
        |of| first(&move |kind: &EventKind| matches!(kind, EventKind::Waking { task, .. } if *task == of));
    let runs = first(&|kind| matches!(kind, EventKind::Switch { next: Some(task), .. } if *task == a));
    (woken(a), woken(b), runs)
}

#[test]
fn a_waker_is_preempted_between_two_wakeups_of_one_call_under_full() {
    let (a, b, runs) = wakes_two("v6.12 preempt=full");
    assert!(a < runs && runs < b, "a woken {a}, runs {runs}, b woken {b}");
    let (a, b, runs) = wakes_two("v6.12 preempt=voluntary");
    assert!(a < b && b < runs, "a woken {a}, b woken {b}, a runs {runs}");
}

#[test]
fn a_waker_is_preempted_once_it_has_released_the_lock_of_a_sockets_sleepers() {
    let delay = |lock_ns| {
        let mut own = machine("smp-1");
        (own.costs.unix_send_ns, own.costs.channel_end_ns) = (600 * US, 500 * US);
        own.costs.unix_lock_ns = lock_ns;
        let mut load = Load::lasting_ms(400);
        let (out, into) = load.builder.channel(ChannelKind::Unix);
        load.task("writer", None, forever(vec![Op::Send { port: into, bytes: 1 }, sleep_us(1_000)]));
        let reader = load.task("reader", None, forever(vec![Op::Recv { port: out, bytes: 1 }]));
        load.attr(reader, fifo());
        median(delays(&own, "v6.12 preempt=full", load, reader))
    };
    assert!(delay(0) < 20 * US && delay(1) < 20 * US, "{} and {} ns", delay(0), delay(1));
}

#[test]
fn the_voluntary_model_gives_way_before_the_mutex_of_a_pipe() {
    // Half a millisecond of a write comes before the pipe's mutex, and half with it.
    let longest = |text: &str| {
        let mut own = machine("smp-1");
        (own.costs.pipe_io_ns, own.costs.pipe_lock_ns) = (1_000 * US, 500 * US);
        let mut load = Load::lasting_ms(900);
        let (out, into) = load.builder.channel(ChannelKind::Pipe);
        load.task("writer", None, forever(vec![Op::Send { port: into, bytes: 1 }]));
        load.task("reader", None, forever(vec![Op::Recv { port: out, bytes: 1 }]));
        let wakee = load.task("wakee", None, forever(vec![sleep_us(1_357)]));
        load.attr(wakee, fifo());
        let seen = delays(&own, text, load, wakee);
        assert!(seen.len() > 50);
        seen.into_iter().max().unwrap_or_default()
    };
    let (none, voluntary) = (longest("v6.12 preempt=none"), longest("v6.12 preempt=voluntary"));
    assert!(none > 600 * US && voluntary < 510 * US, "{none} and {voluntary} ns");
}
