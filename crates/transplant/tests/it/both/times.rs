//! How long things take: sleeps and their slack, wall clock against work, a busy sibling, data left behind by a move.

use super::support::{Load, Run, cpus, forever, hog, machine, once, program, run_us, sleep_us};
use super::{On, on_both, polling};
use schedlab_base::{Ns, TaskId};
use schedlab_trace::EventKind;
use schedlab_workload::Op;

const US: u64 = 1_000;
const MS: u64 = 1_000_000;

/// The last end of a task, ns.
fn end(run: &Run) -> u64 {
    run.events(|e| matches!(e.kind, EventKind::Exited { .. }).then_some(e.at.0)).pop().unwrap_or_default()
}

#[test]
fn a_sleep_takes_its_length_the_slack_and_the_way_back() {
    on_both("both::times::a_sleep_takes_its_length_the_slack_and_the_way_back", &["v4.5"], |on| {
        for slack_us in [0, 50, 200] {
            let mut load = Load::lasting_ms(100);
            let series = load.builder.series("took", "ns", "lower");
            let mut began = None;
            let sleeper = program(move |env| {
                let now = env.now().0;
                if let Some(before) = began.replace(now) {
                    env.record(series, now - before);
                }
                sleep_us(1_000)
            });
            let sleeper = load.task("sleeper", None, sleeper);
            load.builder.edit(sleeper).timer_slack = Some(Ns::us(slack_us));
            let mut took = on.figures(&polling("smp-1"), load, |run| run.values(0));
            assert!(took.len() > 70, "{} sleeps", took.len());
            took.sort_unstable();
            let (least, most) = (MS + US, MS + (slack_us + 10) * US);
            assert!(took.iter().all(|ns| (least..most).contains(ns)), "slack {slack_us}: {took:?}");
            // A tick runs a timer whose slack has begun.
            assert!(took[took.len() / 10] >= least + slack_us * US, "slack {slack_us}: {took:?}");
        }
    });
}

#[test]
fn spinning_ends_by_the_clock_and_work_by_what_was_done() {
    on_both("both::times::spinning_ends_by_the_clock_and_work_by_what_was_done", &["v4.5"], |on| {
        let mut done = |op: Op| {
            let mut load = Load::lasting_ms(100);
            let tasks: Vec<TaskId> = (0..2).map(|_| load.task("t", Some("0"), once(vec![op]))).collect();
            let seen = on.figures(&polling("smp-2"), load, |run| {
                vec![end(run), tasks.iter().map(|t| run.cpu_ns(*t)).sum()]
            });
            (seen[0], seen[1])
        };
        // Two tasks on one CPU: by the clock both are over soon after 20 ms, and neither makes up for lost time.
        let (end, cpu) = done(Op::SpinTo { at: Ns::ms(20) });
        assert!((20 * MS..21 * MS).contains(&end) && cpu < 21 * MS, "{end} {cpu}");
        let (end, cpu) = done(run_us(20_000));
        assert!((40 * MS..41 * MS).contains(&end) && cpu >= 40 * MS, "{end} {cpu}");
    });
}

/// When 10 ms of work on CPU 0 are done while CPU 1 does `beside`, and the time in which both threads were busy.
fn worked(on: &mut On, name: &str, beside: Option<Vec<Op>>) -> (u64, u64) {
    let mut load = Load::lasting_ms(50);
    let worker = load.task("worker", Some("0"), once(vec![run_us(10_000)]));
    let beside = beside.map(|ops| if ops.is_empty() { hog() } else { once(ops) });
    beside.into_iter().for_each(|program| _ = load.task("beside", Some("1"), program));
    let seen = on.figures(&polling(name), load, |run| {
        let ends = run.events(|e| (e.kind == EventKind::Exited { task: worker }).then_some(e.at.0));
        vec![ends[0], run.counter("smt.shared_time")]
    });
    (seen[0], seen[1])
}

#[test]
fn a_busy_sibling_slows_a_thread_and_a_busy_neighbour_does_not() {
    on_both("both::times::a_busy_sibling_slows_a_thread_and_a_busy_neighbour_does_not", &["v4.5"], |on| {
        let pct = machine("smt-2").costs.smt_speed_pct;
        let alone = worked(on, "smt-2", None).0;
        assert!((10 * MS..10 * MS + 100 * US).contains(&alone), "{alone}");
        assert!(worked(on, "smp-2", Some(vec![])).0.abs_diff(alone) < 50 * US);
        let slowed = worked(on, "smt-2", Some(vec![])).0;
        assert!(slowed.abs_diff(10 * MS * 100 / pct) < 150 * US, "{slowed}");
        // A sibling that is busy for a part of the time causes a part of the slow-down.
        let (end, shared) = worked(on, "smt-2", Some(vec![run_us(1_000)]));
        assert!(shared > 2 * MS, "both threads count their shared time: {shared}");
        assert!(alone < end && end < slowed, "{end}");
    });
}

#[test]
fn a_moved_task_refills_what_it_had_warm() {
    on_both("both::times::a_moved_task_refills_what_it_had_warm", &["v4.5"], |on| {
        // fb-2x12-smt: CPU 24 is CPU 0's sibling, 1 shares its cache, 12 is on the other socket.
        let m = machine("fb-2x12-smt");
        let mut refill = |to: &str, warm_us: u64| {
            let mut load = Load::lasting_ms(20);
            let mask = load.builder.mask(cpus(to));
            let ops = vec![run_us(warm_us), Op::SetAffinity { mask }, run_us(1_000)];
            let t = super::with_memory(&mut load, "0", 64, ops);
            let seen = on.figures(&m, load, |run| vec![run.counter("refill.time"), run.cpu_ns(t)]);
            (seen[0], seen[1])
        };
        let (none, base) = refill("24", 1_000);
        let (near, cpu_near) = refill("1", 1_000);
        let (far, cpu_far) = refill("12", 1_000);
        let costs = &m.costs;
        assert_eq!((none, near, far), (0, 64 * costs.refill_near_ns_per_kb, 64 * costs.refill_far_ns_per_kb));
        assert!((cpu_near - base).abs_diff(near) < 20 * US && (cpu_far - base).abs_diff(far) < 20 * US);
        // Only the data it has touched by then are warm.
        assert_eq!(refill("12", 20).0 / costs.refill_far_ns_per_kb, 20 * US / costs.warm_ns_per_kb);
    });
}

#[test]
fn a_task_that_naps_on_a_busy_cpu_comes_back_each_time() {
    on_both("both::times::a_task_that_naps_on_a_busy_cpu_comes_back_each_time", &["v6.5"], |on| {
        let mut load = Load::lasting_ms(200);
        let naps = load.task("naps", Some("0"), forever(vec![run_us(100), sleep_us(1_900)]));
        load.task("hog", Some("0"), hog());
        let seen = on.figures(&polling("smp-2"), load, |run| {
            let stays = run.stays(naps);
            vec![stays.len() as u64, run.cpu_ns(naps)]
        });
        assert!((85..=100).contains(&seen[0]), "{seen:?}");
        assert!(seen[1].abs_diff(seen[0] * 100 * US) < seen[0] * 20 * US, "{seen:?}");
    });
}
