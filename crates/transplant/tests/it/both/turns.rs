//! CPUs that share one processor's time.

use super::on_both;
use super::support::{Load, forever, machine, once, run_us};
use schedlab_base::Ns;
use schedlab_machine::{Machine, TurnRule, Turns};
use schedlab_workload::{ChannelKind, Op};

/// The machine of that name, its CPUs taking turns.
fn in_turns(name: &str) -> Machine {
    let rule = TurnRule::DeadlineShare;
    let turns = Turns { rule, spin_ns: 90, cpu_clock_ns: 800, alarm_ns: 0, newidle_ns: [0; 10] };
    Machine { turns: Some(turns), ..machine(name) }
}

/// A task on each of the first `n` CPUs, each with this operation, for ever or once.
fn each(n: u32, ms: u64, op: Op, ever: bool) -> Load {
    let mut load = Load::lasting_ms(ms);
    for cpu in 0..n {
        let program = if ever { forever(vec![op]) } else { once(vec![op]) };
        let id = load.task("task", Some(&cpu.to_string()), program);
        load.builder.edit(id).footprint_kb = 1;
    }
    load
}

#[test]
fn all_cpus_together_get_one_processors_work_done_and_each_task_is_charged_the_clock() {
    let test =
        "both::turns::all_cpus_together_get_one_processors_work_done_and_each_task_is_charged_the_clock";
    on_both(test, &["v6.5"], |on| {
        // Rounds of 60 us over memory: work that needs the processor, not a wait for a clock.
        let touches = Op::Touch { kb: 1, rounds: 1_000_000_000 };
        let mut seen = |machine: &Machine, n| {
            on.figures(machine, each(n, 200, touches, true), |run| {
                let tasks = run.report.tasks.iter().flat_map(|t| [t.work_ns, t.cpu_time_ns]);
                std::iter::once(run.report.end.0).chain(tasks).collect()
            })
        };
        for n in [1, 2, 4, 8] {
            let seen = seen(&in_turns("smp-8"), n);
            let (elapsed, tasks) = (seen[0], seen[1..].chunks(2));
            let work: u64 = tasks.clone().map(|task| task[0]).sum();
            assert!(work <= elapsed, "{n} busy CPUs: {work} of {elapsed}");
            assert!(
                work > elapsed * 97 / 100,
                "{n} busy CPUs: {work} of {elapsed}: halted ones take no time"
            );
            let share = elapsed / u64::from(n);
            // Uneven, as in a guest: the first CPUs after a tick may get nothing of the first round.
            let fits =
                |task: &[u64]| (share / 3..share * 2).contains(&task[0]) && task[1] > elapsed * 98 / 100;
            assert!(tasks.clone().all(fits), "a share is {share} of {elapsed}: {seen:?}");
        }
        let seen = seen(&machine("smp-8"), 8);
        let work: u64 = seen[1..].chunks(2).map(|task| task[0]).sum();
        assert!(work > seen[0] * 7, "with a processor each they get eight times as much done: {work}");
    });
}

#[test]
fn computing_for_a_stated_time_ends_by_what_is_charged_and_executing_by_turns_of_ones_own() {
    let test =
        "both::turns::computing_for_a_stated_time_ends_by_what_is_charged_and_executing_by_turns_of_ones_own";
    on_both(test, &["v6.5"], |on| {
        let mut ends = |machine: &Machine, op: Op| {
            let mut seen = on.figures(machine, each(4, 100, op, false), |run| {
                run.report.tasks.iter().map(|t| t.work_ns).chain([run.report.end.0]).collect()
            });
            (seen.pop().unwrap_or_default(), seen)
        };
        let (end, work) = ends(&in_turns("smp-4"), run_us(20_000));
        assert_eq!(work, [20_000_000; 4]);
        assert!(end < 22_000_000, "side by side: {end}");
        let execute = Op::Execute { length: Ns::ms(5) };
        let (shared, own) = (ends(&in_turns("smp-4"), execute), ends(&machine("smp-4"), execute));
        assert_eq!((shared.1, own.1), (vec![5_000_000; 4], vec![5_000_000; 4]));
        assert!((20_000_000..22_000_000).contains(&shared.0), "one after the other: {}", shared.0);
        assert!((5_000_000..5_500_000).contains(&own.0), "{}", own.0);
    });
}

#[test]
fn a_cpu_that_waits_for_a_lock_gives_its_turn_away() {
    on_both("both::turns::a_cpu_that_waits_for_a_lock_gives_its_turn_away", &["v6.5"], |on| {
        let mut took = |shared: bool| {
            let mut load = Load::lasting_ms(100);
            let first = load.builder.channel(ChannelKind::Pipe);
            let second = if shared { first } else { load.builder.channel(ChannelKind::Pipe) };
            for (cpu, port) in [("0", first.1), ("1", second.1)] {
                load.task("writer", Some(cpu), once(vec![Op::Send { port, bytes: 1 }; 2_000]));
            }
            let mut machine = in_turns("smp-4");
            for (name, ns) in [("pipe_io_ns", 2_000), ("pipe_lock_ns", 1_900), ("copy_ns_per_kb", 0)] {
                machine.set_cost(name, ns).unwrap();
            }
            on.figures(&machine, load, |run| vec![run.report.end.0])[0]
        };
        let (own, shared) = (took(false), took(true));
        assert!(own > 2 * 2_000 * 2_000, "one processor's time: {own}");
        assert!(shared < own * 103 / 100, "turns spent waiting: {shared} and not {own}");
    });
}
