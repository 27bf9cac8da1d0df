//! rt-app constructs on the test rig: the effect and time of each event.

use crate::op::{Op, Outcome};
use crate::rig::{Costs, Log, run};
use crate::{Builder, Built, Spec};
use proptest::prelude::*;
use schedlab_base::Ns;
use schedlab_kernel::{Attr, Policy};

/// Operations and wakes take no time: all times are the file's.
const FREE: Costs = Costs { op: Ns::ZERO, wakeup: Ns::ZERO, slack: Ns::ZERO };
const REAL: Costs = Costs { op: Ns(700), wakeup: Ns::us(5), slack: Ns::us(50) };

fn built(text: &str) -> Built {
    let mut b = Builder::new(1);
    super::build("t.json", text, None, &mut b).unwrap_or_else(|e| panic!("{e}\n{text}"));
    b.finish().unwrap()
}
/// Runs a file with these tasks for a second.
fn tasks(text: &str, costs: Costs) -> Log {
    run(built(&format!("{{\"global\": {{\"duration\": 1}}, \"tasks\": {{{text}}}}}")), costs)
}
fn is_run(op: &Op) -> bool {
    matches!(op, Op::Run { .. })
}

#[test]
fn events_run_in_the_order_of_the_file() {
    let log =
        tasks(r#""a": {"loop": 1, "sleep": 10, "run1": 20, "runtime": 30, "run0": 40, "yield": ""}"#, FREE);
    let ops: Vec<Op> = log.steps_of("a-0").iter().map(|s| s.op).collect();
    let wanted = [
        Op::Sleep { length: Ns::us(10) },
        Op::Run { work: Ns::us(20) },
        Op::SpinTo { at: Ns::us(60) },
        Op::Run { work: Ns::us(40) },
        Op::Yield,
        Op::Exit,
    ];
    assert_eq!(ops, wanted);
}

#[test]
fn loops_nest_task_over_phases() {
    let log = tasks(
        r#""a": {"loop": 2, "phases": {"p": {"loop": 3, "run": 1}, "q": {"run": 5}, "r": {"loop": 2, "run": 7}}}"#,
        FREE,
    );
    let works: Vec<u64> = log
        .steps_of("a-0")
        .iter()
        .filter_map(|s| match s.op {
            Op::Run { work } => Some(work.0 / 1_000),
            _ => None,
        })
        .collect();
    assert_eq!(works, [1, 1, 1, 5, 7, 7, 1, 1, 1, 5, 7, 7]);
    assert_eq!(log.values("rtapp.period").len(), 12);
    assert_eq!(log.values("rtapp.run").iter().sum::<u64>(), 44_000);
}

/// The cases of a file: a line that says what is shown, the tasks, and after '= ' what comes of them. Runs begin and
/// tasks end at so many ms; values are in us; 'left' and 'stuck' count the tasks that ended and that nothing can wake.
#[test]
fn events_happen_when_they_are_due() {
    let shown = |list: Vec<u64>, unit: f64| list.into_iter().map(|n| n as f64 / unit).collect::<Vec<f64>>();
    for case in include_str!("../../tests/timings.txt").split("\n\n") {
        let (wanted, text): (Vec<&str>, Vec<&str>) = case.lines().skip(1).partition(|l| l.starts_with("= "));
        let log = tasks(&text.join("\n"), if case.starts_with("# With costs: ") { REAL } else { FREE });
        for line in wanted {
            let (what, numbers) = line[2..].split_once(':').unwrap();
            let (what, task) = what.split_once(' ').unwrap_or((what, ""));
            let runs = log.times(task, is_run);
            let found = match what {
                "runs" => shown(runs.iter().map(|at| at.0).collect(), 1e6),
                "end" => shown(log.end_of(task).iter().map(|at| at.0).collect(), 1e6),
                "count" => vec![runs.len() as f64],
                "wakes" => vec![log.times(task, |op| matches!(op, Op::Wake { .. })).len() as f64],
                "left" => vec![log.left.len() as f64],
                "stuck" => vec![log.stuck.len() as f64],
                series => shown(log.values(series), 1e3),
            };
            let numbers: Vec<f64> = numbers.split_whitespace().map(|n| n.parse().unwrap()).collect();
            assert_eq!(found, numbers, "{line}\n{case}");
        }
    }
}

#[test]
fn a_mutex_admits_one_at_a_time_and_costs_nothing_when_free() {
    let text = r#""a": {"instance": 3, "loop": 4, "lock": "m", "run": 2000, "unlock": "m", "sleep": 100}"#;
    let log = tasks(text, REAL);
    let mut runs: Vec<Ns> = log.steps.iter().filter(|s| is_run(&s.op)).map(|s| s.at).collect();
    runs.sort();
    assert_eq!(runs.len(), 12);
    assert!(runs.windows(2).all(|w| w[1].since(w[0]) >= Ns::ms(2)), "{runs:?}");
    assert!(log.stuck.is_empty() && log.left.len() == 3);
    let alone = tasks(r#""a": {"loop": 3, "lock": "m", "run": 10, "unlock": "m"}"#, REAL);
    let futexes = alone.steps.iter().filter(|s| matches!(s.op, Op::Wait { .. } | Op::Wake { .. })).count();
    assert_eq!(futexes, 0);
}

#[test]
fn sync_hands_over_in_both_forms() {
    let ping = |around: bool, name: &str, run: u32, first: &str| {
        let (lock, unlock) = if around { (r#""lock": "m", "#, r#", "unlock": "m""#) } else { ("", "") };
        format!(
            r#""{name}": {{"loop": 5, {first} {lock} "sync": {{"ref": "c", "mutex": "m"}} {unlock}, "run": {run}}}"#
        )
    };
    for around in [true, false] {
        let text = format!("{}, {}", ping(around, "a", 1000, ""), ping(around, "b", 2000, r#""sleep": 10,"#));
        let log = tasks(&text, FREE);
        // a waits; b wakes it and waits; a wakes b after its run; and so on: one run per turn.
        assert!(log.times("a-0", is_run).len() >= 4 && log.times("b-1", is_run).len() >= 4, "{around}");
    }
}

#[test]
fn a_fork_starts_a_thread_each_time() {
    let log = tasks(
        r#""p": {"loop": 2, "phases": {"x": {"loop": 2, "sleep": 1000, "fork": "c"}, "y": {"run": 1}}},
           "c": {"instance": 0, "loop": 1, "run": 500, "fork": "g"},
           "g": {"instance": 1, "loop": 1, "run": 7}"#,
        FREE,
    );
    assert_eq!(
        log.names,
        [
            "p-0", "g-1", "c-2-0000", "c-3-0001", "c-4-0002", "c-5-0003", "g-6-0000", "g-7-0000", "g-8-0000",
            "g-9-0000",
        ]
    );
    let starts: Vec<Ns> = (2..6).map(|i| log.times(&log.names[i], is_run)[0]).collect();
    assert_eq!(starts, [Ns::ms(1), Ns::ms(2), Ns::us(3_001), Ns::us(4_001)]);
    assert_eq!((log.left.len(), log.stuck.len()), (10, 0));
}

#[test]
fn policy_priority_and_cpus_change_with_the_phases() {
    let text = r#"{"global": {"duration": 1, "default_policy": "SCHED_FIFO"}, "tasks": {
        "rt": {"loop": 1, "run": 1},
        "fair": {"policy": "SCHED_OTHER", "priority": -5, "loop": 2, "cpus": [4, 5], "phases": {
            "a": {"run": 1},
            "b": {"cpus": [0], "policy": "SCHED_BATCH", "loop": 2, "run": 1},
            "c": {"priority": 3, "run": 1}}},
        "free": {"loop": 1, "policy": "SCHED_RR", "priority": 20, "phases": {"a": {"cpus": [1], "run": 1}, "b": {"run": 1}}}}}"#;
    let workload = built(text);
    let fair = |policy, nice| Attr { policy, nice, ..Attr::default() };
    let rt = |policy, rt_priority| Attr { policy, rt_priority, ..Attr::default() };
    let attrs: Vec<Attr> = workload.tasks.iter().map(|t| t.attr).collect();
    assert_eq!(attrs, [rt(Policy::Fifo, 10), fair(Policy::Other, -5), rt(Policy::Rr, 20)]);
    let affinity: Vec<_> =
        workload.tasks.iter().map(|t| t.affinity.as_ref().map(ToString::to_string)).collect();
    assert_eq!(affinity, [None, Some("4-5".to_owned()), None]);
    let masks: Vec<String> = workload.masks.iter().map(ToString::to_string).collect();
    let log = run(workload, FREE);
    let changes = |name: &str| -> Vec<String> {
        let shown = log.steps_of(name).into_iter().filter_map(|s| match s.op {
            Op::SetAttr { attr } => Some(format!("{:?} {}", attr.policy, attr.nice)),
            Op::SetAffinity { mask } => Some(masks[mask as usize].clone()),
            _ => None,
        });
        shown.collect()
    };
    // Attributes stay until the next change; CPUs fall back to the task's; nothing is set twice.
    assert_eq!(changes("fair-1"), ["0", "Batch 0", "4-5", "Batch 3", "0", "Batch 0", "4-5", "Batch 3"]);
    assert_eq!(changes("free-2"), ["1", "0-4095"]);
    assert!(changes("rt-0").is_empty());
}

#[test]
fn repeated_events_run_in_the_order_of_the_file() {
    let log = tasks(r#""a": {"loop": 1, "run": 10, "sleep": 5, "run": 20, "sleep": 6, "run": 30}"#, FREE);
    let ops: Vec<Op> = log.steps_of("a-0").iter().map(|s| s.op).collect();
    let (run, sleep) = (|us| Op::Run { work: Ns::us(us) }, |us| Op::Sleep { length: Ns::us(us) });
    assert_eq!(ops, [run(10), sleep(5), run(20), sleep(6), run(30), Op::Exit]);
    // Repeated tasks and phases are separate ones.
    let log = tasks(
        r#""a": {"loop": 1, "run": 1}, "a": {"loop": 1, "phases": {"p": {"run": 2}, "p": {"run": 3}}}"#,
        FREE,
    );
    assert_eq!(log.names, ["a-0", "a1-1"]);
    assert_eq!(log.times("a1-1", is_run).len(), 2);
}

#[test]
fn mem_goes_over_the_buffer_and_iorun_sleeps() {
    let text = r#"{"global": {"duration": 1, "mem_buffer_size": 102400}, "tasks": {
        "small": {"loop": 1, "mem": 1000, "iorun": 3000},
        "large": {"loop": 1, "mem": 250000, "mem": 102400}}}"#;
    let workload = built(text);
    let footprints: Vec<u32> = workload.tasks.iter().map(|t| t.footprint_kb).collect();
    assert_eq!(footprints, [crate::build::DEFAULT_FOOTPRINT_KB, 100]);
    let log = run(workload, FREE);
    let ops = |name: &str| -> Vec<Op> { log.steps_of(name).iter().map(|s| s.op).collect() };
    let touch = |kb, rounds| Op::Touch { kb, rounds };
    assert_eq!(ops("small-0"), [touch(1, 1), Op::Sleep { length: Ns::us(3) }, Op::Exit]);
    // 250000 bytes are twice the buffer of 102400, and 45200 of it.
    assert_eq!(ops("large-1"), [touch(100, 2), touch(45, 1), touch(100, 1), Op::Exit]);
}

/// The attributes that a task sets during a run, in order.
fn attrs_set(workload: Built, task: &str) -> Vec<Attr> {
    let set = |op| match op {
        Op::SetAttr { attr } => Some(attr),
        _ => None,
    };
    run(workload, FREE).steps_of(task).iter().filter_map(|s| set(s.op)).collect()
}

#[test]
fn a_slice_is_asked_for_and_stays_until_a_policy_is_named() {
    let text = r#"{"global": {"duration": 1}, "tasks": {
        "a": {"dl-runtime": 3000, "priority": 5, "loop": 1, "phases": {
            "p": {"run": 1}, "q": {"priority": 7, "run": 1}, "r": {"dl-runtime": 500, "run": 1},
            "s": {"policy": "SCHED_BATCH", "run": 1}}},
        "short": {"dl-runtime": 1, "loop": 1, "run": 1}, "long": {"dl-runtime": 9000000, "loop": 1, "run": 1}}}"#;
    let workload = built(text);
    let of = |nice, slice: Ns| Attr { nice, slice: slice.into(), ..Attr::default() };
    let attrs: Vec<Attr> = workload.tasks.iter().map(|t| t.attr).collect();
    // Kernels clamp the slice to this range.
    assert_eq!(attrs, [of(5, Ns::ms(3)), of(0, Ns::us(100)), of(0, Ns::ms(100))]);
    let set = attrs_set(workload, "a-0");
    let batch = Attr { policy: Policy::Batch, ..Attr::default() };
    assert_eq!(set, [of(7, Ns::ms(3)), of(7, Ns::us(500)), batch]);
}

#[test]
fn a_deadline_task_has_a_runtime_a_deadline_and_a_period() {
    let text = r#"{"global": {"duration": 1}, "tasks": {
        "a": {"policy": "SCHED_DEADLINE", "dl-runtime": 300, "dl-period": 1000, "loop": 1, "phases": {
            "p": {"run": 1}, "q": {"dl-deadline": 500, "run": 1}, "r": {"policy": "SCHED_OTHER", "run": 1}}},
        "b": {"policy": "SCHED_DEADLINE", "dl-runtime": 200, "loop": 1, "run": 1}}}"#;
    let workload = built(text);
    let of = |slice, deadline, period| {
        let [slice, deadline, period] = [slice, deadline, period].map(|us| Ns::us(us).into());
        Attr { policy: Policy::Deadline, slice, deadline, period, ..Attr::default() }
    };
    let attrs: Vec<Attr> = workload.tasks.iter().map(|t| t.attr).collect();
    assert_eq!(attrs, [of(300, 1000, 1000), of(200, 200, 200)]);
    let set = attrs_set(workload, "a-0");
    assert_eq!(set, [of(300, 500, 1000), Attr::default()]);
}

#[test]
fn a_runtime_takes_the_place_of_the_duration() {
    let with = |text: &str, runtime| {
        let mut b = Builder::new(1);
        super::build("t.json", text, runtime, &mut b).and_then(|()| b.finish()).map(|built| built.duration)
    };
    let endless = r#"{"tasks": {"a": {"run": 1}}}"#;
    assert_eq!(with(endless, Some(Ns::secs(3))).unwrap(), Ns::secs(3));
    let told = with(endless, None).unwrap_err().to_string();
    assert!(told.contains("t.json:1:12") && told.contains("-r TIME"), "{told}");
    let stated = r#"{"global": {"duration": 600}, "tasks": {"a": {"run": 1}}}"#;
    assert_eq!(with(stated, Some(Ns::ms(50))).unwrap(), Ns::ms(50));
}

#[test]
fn real_time_policies_are_the_tasks_own_and_cpus_keep_their_places() {
    let text = "{\"global\": {\"duration\": 1, \"default_policy\": \"SCHED_RR\"}, \"tasks\": {\n\
        \"a\": {\"run\": 1},\n\
        \"b\": {\"policy\": \"SCHED_OTHER\", \"cpus\": [5], \"phases\": {\n\
        \"p\": {\"run\": 1}, \"q\": {\"policy\": \"SCHED_FIFO\", \"run\": 1}}}}}";
    let mut workload = built(text);
    let policies: Vec<Policy> = workload.tasks.iter().map(|t| t.attr.policy).collect();
    assert_eq!(policies, [Policy::Rr, Policy::Other]);
    assert_eq!(workload.later_attrs.iter().map(|a| a.policy).collect::<Vec<_>>(), [Policy::Fifo]);
    let refuse = |_: &schedlab_base::CpuSet| Err(schedlab_base::Error::input("may run nowhere"));
    let told = workload.confine(refuse).unwrap_err().to_string();
    assert_eq!(told, "t.json:3:40: task 'b-1': may run nowhere");
}

#[test]
fn a_file_without_a_duration_lasts_until_its_tasks_end() {
    let text = r#"{"tasks": {"a": {"loop": 2, "run": 1000}}}"#;
    assert_eq!(built(text).duration, super::LONGEST);
    assert_eq!(run(built(text), FREE).end_of("a-0"), Some(Ns::ms(2)));
    assert_eq!(built(r#"{"global": {"duration": 7}, "tasks": {"a": {"run": 1}}}"#).duration, Ns::secs(7));
}

#[test]
fn the_examples_run_without_getting_stuck() {
    let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/rtapp");
    let mut names: Vec<_> = std::fs::read_dir(&folder).unwrap().map(|e| e.unwrap().path()).collect();
    names.sort();
    assert_eq!(names.len(), 3);
    for path in names {
        let log = run(Spec::rtapp_file(&path, None).unwrap().build(1).unwrap(), REAL);
        assert!(log.steps.len() > 100 && !log.values("rtapp.period").is_empty(), "{}", path.display());
        // A task that waits at the end of an endless run waits for a task that is asleep, so an event is pending.
        assert!(log.stuck.len() < log.names.len(), "{}", path.display());
        for name in log.names.iter().filter(|n| n.starts_with("display")) {
            assert!(log.times(name, is_run).len() > 100, "{name} is signalled every 16 ms");
        }
        if path.ends_with("fork-join.json") {
            assert_eq!((log.left.len(), log.stuck.len()), (33, 0));
        }
    }
}

/// A random phase with balanced locks of one mutex at a time, so that no run hangs by itself.
fn any_phase() -> impl Strategy<Value = (u32, Vec<String>, u64)> {
    let event = prop_oneof![
        (0u64..500).prop_map(|us| (format!(r#""run%": {us}"#), us)),
        (0u64..500).prop_map(|us| (format!(r#""runtime%": {us}"#), 0)),
        (0u64..500).prop_map(|us| (format!(r#""sleep%": {us}"#), 0)),
        Just((r#""yield%": """#.to_owned(), 0)),
        (1u64..500, "unique[AB]?|shared", any::<bool>())
            .prop_map(|(us, name, _)| { (format!(r#""timer%": {{"ref": "{name}", "period": {us}}}"#), 0) }),
        (0u64..500, "[mn]")
            .prop_map(|(us, m)| { (format!(r#""lock%": "{m}", "run%x": {us}, "unlock%": "{m}""#), us) }),
        "[cd]".prop_map(|c| (format!(r#""signal%": "{c}""#), 0)),
        "[cd]".prop_map(|c| (format!(r#""broad%": "{c}""#), 0)),
        "[st]".prop_map(|s| (format!(r#""resume%": "{s}""#), 0)),
    ];
    (1u32..4, prop::collection::vec(event, 1..6)).prop_map(|(loops, events)| {
        let work = events.iter().map(|e| e.1).sum::<u64>() * u64::from(loops);
        (loops, events.into_iter().map(|e| e.0).collect(), work)
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn random_files_end_and_do_exactly_their_work(
        all in prop::collection::vec((1usize..4, 1u32..4, prop::collection::vec(any_phase(), 1..4)), 1..4)
    ) {
        let mut text = String::new();
        let mut wanted = Vec::new();
        for (t, (instances, loops, phases)) in all.iter().enumerate() {
            let mut body = Vec::new();
            for (p, (repeat, events, _)) in phases.iter().enumerate() {
                let numbered = events.iter().enumerate().map(|(i, e)| e.replace('%', &i.to_string()));
                let events: Vec<String> = numbered.collect();
                body.push(format!(r#""p{p}": {{"loop": {repeat}, {}, "sleep_": 1}}"#, events.join(", ")));
            }
            let comma = if t == 0 { "" } else { "," };
            text += &format!(r#"{comma}"t{t}": {{"instance": {instances}, "loop": {loops}, "phases": {{{}}}}}"#, body.join(","));
            let work = phases.iter().map(|p| p.2).sum::<u64>() * u64::from(*loops);
            wanted.extend(std::iter::repeat_n(work, *instances));
        }
        let log = run(built(&format!(r#"{{"tasks": {{{text}}}}}"#)), REAL);
        prop_assert_eq!(&log.stuck, &[]);
        prop_assert_eq!(log.left.len(), wanted.len());
        let mut done = vec![0u64; wanted.len()];
        for step in &log.steps {
            if let Op::Run { work } = step.op {
                done[step.task.index()] += work.0 / 1_000;
            }
        }
        prop_assert_eq!(done, wanted);
        prop_assert!(log.waits.iter().all(|w| w.2 != Outcome::TimedOut));
    }
}
