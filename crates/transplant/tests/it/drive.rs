//! Tasks on a booted image: the classes, groups, calls that sleep in the middle.

use crate::again::{machine, works};
use crate::engine::{Engine, Program};
use schedlab_transplant::abi::{Attr, RawNote, kind};
use schedlab_transplant::load::{IdleState, Machine, NewTask};

const MS: u64 = 1_000_000;
const FIRST: &[u64] = &[1];
const HOG: Program = Program { run: 10 * MS, sleep: 0 };

fn figures(line: &str) -> Vec<u64> {
    line.split(' ').map(|word| word.parse().unwrap_or_else(|_| panic!("{line}"))).collect()
}

#[test]
fn a_sleeper_preempts_a_hog() {
    let said = works("drive::a_sleeper_preempts_a_hog", Vec::new(), |image| {
        let mut engine = Engine::new(image, machine(1, 4, 2));
        let hog = engine.start(&Engine::fair("hog", Some(FIRST)), HOG, 0);
        let program = Program { run: 300_000, sleep: 5 * MS };
        let sleeper = engine.start(&Engine::fair("sleeper", Some(FIRST)), program, 0);
        engine.run(1000 * MS);
        let (hog, sleeper) = (engine.image.usage(hog), engine.image.usage(sleeper));
        let switches = engine.notes.iter().filter(|n| n.kind == kind::SWITCH && n.cpu == 0).count();
        println!("= {} {} {switches} {}", hog.runtime_ns, sleeper.runtime_ns, hog.nivcsw);
    });
    let Some(said) = said else { return };
    let [hog, sleeper, switches, preempted] = figures(&said[0])[..] else { panic!("{said:?}") };
    assert!(hog + sleeper <= 1_000_000_000 && hog + sleeper > 999_000_000, "{said:?}");
    assert!((50_000_000..60_000_000).contains(&sleeper), "{said:?}");
    assert!(switches >= 2 * preempted && preempted > 150, "{said:?}");
}

/// A hash of all notes, which must not depend on where the image lies in memory.
fn hash(notes: &[RawNote]) -> u64 {
    notes.iter().filter(|n| n.kind != kind::PRINTK).fold(0xcbf2_9ce4_8422_2325, |hash, n| {
        let words =
            [n.kind.into(), n.flags.into(), n.cpu.into(), n.pid as u64, n.other as u64, n.at, n.value];
        words.iter().fold(hash, |h: u64, w| (h ^ w).wrapping_mul(0x0100_0000_01b3))
    })
}

#[test]
fn equal_runs_leave_equal_notes() {
    let run = || {
        works("drive::equal_runs_leave_equal_notes", Vec::new(), |image| {
            let mut engine = Engine::new(image, machine(2, 8, 2));
            for i in 0..64 {
                let program = Program { run: 150_000 + 1000 * i, sleep: 300_000 + 7_000 * i };
                engine.start(&Engine::fair("worker", None), program, i as usize % 32);
            }
            engine.run(200 * MS);
            let count = |k: u16| engine.notes.iter().filter(|n| n.kind == k).count();
            println!("= {:x} {}", hash(&engine.notes), engine.notes.len());
            println!("= {} {} {}", count(kind::SWITCH), count(kind::MIGRATE), count(kind::BALANCE));
            let wakeups = engine.notes.iter().filter(|n| n.kind == kind::WAKEUP && n.flags & 1 == 0).count();
            println!(
                "= {wakeups} {}",
                engine.notes.iter().filter(|n| n.kind == kind::SWITCH && n.value == 1).count()
            );
        })
    };
    let Some(one) = run() else { return };
    let Some(two) = run() else { return };
    assert_eq!(one, two);
    let [switches, migrations, balances] = figures(&one[1])[..] else { panic!("{one:?}") };
    assert!(switches > 20_000 && migrations > 100 && balances > 100, "{one:?}");
    let [wakeups, sleeps] = figures(&one[2])[..] else { panic!("{one:?}") };
    assert!(wakeups.abs_diff(sleeps) <= 64, "who sleeps is woken: {one:?}");
}

/// A mix with a quota; prints the hash of its notes.
fn mix(image: schedlab_transplant::load::Image) {
    let mut engine = Engine::new(image, machine(2, 4, 2));
    let limited = engine.image.group_new(0).unwrap();
    engine.image.group_write(limited, "cpu.max", "50000 100000").unwrap();
    for i in 0..32 {
        let program = Program { run: 150_000 + 1000 * i, sleep: 300_000 + 7_000 * i };
        let group = if i % 3 == 0 { limited } else { 0 };
        engine.start(&NewTask { group, ..Engine::fair("worker", None) }, program, i as usize % 16);
    }
    engine.run(100 * MS);
    println!("= {:x} {}", hash(&engine.notes), engine.notes.len());
}

#[test]
fn a_mix_runs_without_guard_pages() {
    let Some(said) = works("drive::a_mix_runs_without_guard_pages", Vec::new(), mix) else { return };
    assert_eq!(said.len(), 1, "{said:?}");
}

#[test]
fn no_access_reaches_beyond_its_memory() {
    let guarded = works("drive::no_access_reaches_beyond_its_memory", Vec::new(), |mut image| {
        image.guard().unwrap();
        mix(image);
    });
    let Some(guarded) = guarded else { return };
    assert_eq!(works("drive::a_mix_runs_without_guard_pages", Vec::new(), mix), Some(guarded));
}

#[test]
fn a_quota_and_shares_hold() {
    let said = works("drive::a_quota_and_shares_hold", Vec::new(), |image| {
        let mut engine = Engine::new(image, machine(1, 4, 1));
        let groups = [0, 1, 2].map(|_| engine.image.group_new(0).unwrap());
        engine.image.group_write(groups[0], "cpu.max", "50000 100000").unwrap();
        engine.image.group_write(groups[1], "cpu.shares", "2048").unwrap();
        assert_eq!(engine.image.group_write(groups[1], "cpu.none", "1"), Err(libc::ENOENT));
        let mut runtimes = Vec::new();
        for group in groups {
            let tasks: Vec<i32> = (0..4)
                .map(|_| engine.start(&NewTask { group, ..Engine::fair("member", None) }, HOG, 0))
                .collect();
            runtimes.push(tasks);
        }
        engine.run(MS);
        for pid in &runtimes[2] {
            engine.image.group_move(*pid, groups[2]).unwrap();
        }
        engine.run(1000 * MS);
        let of = |tasks: &Vec<i32>, engine: &mut Engine| -> u64 {
            tasks.iter().map(|pid| engine.image.usage(*pid).runtime_ns / 1000).sum()
        };
        let sums: Vec<u64> = runtimes.iter().map(|tasks| of(tasks, &mut engine)).collect();
        println!("= {} {} {}", sums[0], sums[1], sums[2]);
        let text = engine.image.group_read(groups[0], "cpu.stat").unwrap();
        let count = |name: &str| text.lines().find_map(|l| l.strip_prefix(name)?.trim().parse::<u64>().ok());
        let of = |name: &str| count(name).unwrap_or_else(|| panic!("{name} in {text}"));
        println!("= {} {} {}", of("nr_periods"), of("nr_throttled"), of("throttled_time"));
        assert_eq!(engine.image.group_read(groups[0], "cpu.none"), None);
        // The quota is used up in the middle of a period: the file does not count this throttling yet.
        engine.run(60 * MS);
        let open = |group: i32| engine.image.group_throttled(group);
        println!("= {} {} {}", open(groups[0]), open(groups[1]), open(0));
    });
    let Some(said) = said else { return };
    let [quota, double, single] = figures(&said[0])[..] else { panic!("{said:?}") };
    assert!((450_000..650_000).contains(&quota), "{said:?}");
    assert!((1.6..2.4).contains(&(double as f64 / single as f64)), "{said:?}");
    let [periods, throttled, throttled_ns] = figures(&said[1])[..] else { panic!("{said:?}") };
    assert!((8..=11).contains(&periods) && throttled <= periods && throttled >= 8, "{said:?}");
    assert!(throttled_ns > 400 * MS, "{said:?}");
    let [open, none, root] = figures(&said[2])[..] else { panic!("{said:?}") };
    assert!((10 * MS..4 * 60 * MS).contains(&open) && none == 0 && root == 0, "{said:?}");
}

#[test]
fn classes_run_in_their_order() {
    let said = works("drive::classes_run_in_their_order", Vec::new(), |image| {
        let mut engine = Engine::new(image, machine(1, 2, 1));
        let periodic = Program { run: MS, sleep: 3 * MS };
        let of = |policy: u32, attr: Attr| Attr { policy, ..attr };
        let fair = engine.start(&Engine::fair("fair", Some(FIRST)), HOG, 0);
        let fifo = of(1, Attr { rt_priority: 10, ..Attr::default() });
        let fifo = engine.start(&NewTask { attr: fifo, ..Engine::fair("fifo", Some(FIRST)) }, periodic, 0);
        let idle = engine.start(
            &NewTask { attr: of(5, Attr::default()), ..Engine::fair("idle", Some(FIRST)) },
            HOG,
            0,
        );
        let deadline =
            Attr { runtime_ns: 2 * MS, deadline_ns: 10 * MS, period_ns: 10 * MS, ..Attr::default() };
        let deadline = of(6, deadline);
        let masked = NewTask { attr: deadline, ..Engine::fair("masked", Some(FIRST)) };
        engine.image.enter(0);
        assert_eq!(engine.image.task_new(&masked), Err(libc::EPERM), "admission reckons with all CPUs");
        let deadline = NewTask { attr: deadline, ..Engine::fair("deadline", None) };
        let deadline = engine.start(&deadline, Program { run: MS, sleep: 9 * MS }, 0);
        engine.run(400 * MS);
        let ran: Vec<u64> =
            [fair, fifo, idle, deadline].iter().map(|p| engine.image.usage(*p).runtime_ns / 1000).collect();
        println!("= {} {} {} {}", ran[0], ran[1], ran[2], ran[3]);
        engine.image.enter(0);
        let all = vec![u64::MAX; 16];
        let mut first = vec![0; all.len()];
        first[0] = 1;
        assert_eq!(engine.image.set_affinity(deadline, &first), Err(libc::EBUSY));
        assert_eq!(engine.image.set_affinity(deadline, &all), Ok(()));
        engine.image.set_attr(fair, &of(1, Attr { rt_priority: 1, ..Attr::default() })).unwrap();
        assert_eq!(engine.image.set_attr(fair, &of(77, Attr::default())), Err(libc::EINVAL));
    });
    let Some(said) = said else { return };
    let [fair, fifo, idle, deadline] = figures(&said[0])[..] else { panic!("{said:?}") };
    assert!((90_000..102_000).contains(&fifo) && (35_000..41_000).contains(&deadline), "{said:?}");
    assert!(idle > 0 && fair > 50 * idle, "{said:?}");
}

#[test]
fn a_running_task_is_moved_by_the_stopper() {
    let said = works("drive::a_running_task_is_moved_by_the_stopper", Vec::new(), |image| {
        let mut engine = Engine::new(image, machine(1, 4, 1));
        let victim = engine.start(&Engine::fair("victim", Some(FIRST)), HOG, 0);
        let caller = engine.start(&Engine::fair("caller", Some(&[2])), HOG, 1);
        engine.run(20 * MS);
        engine.affinity(1, victim, &[4]);
        engine.run(20 * MS);
        // Of the caller itself.
        engine.affinity(1, caller, &[8]);
        engine.run(20 * MS);
        // From outside, entered on an idle CPU, for a task that runs and for one that sleeps.
        let sleeper = Program { run: MS, sleep: 40 * MS };
        let sleeper = engine.start(&Engine::fair("sleeper", Some(FIRST)), sleeper, 0);
        engine.run(20 * MS);
        engine.image.enter(1);
        engine.image.confine(victim, &[2]).unwrap();
        engine.image.confine(sleeper, &[4]).unwrap();
        assert_eq!(engine.image.confine(sleeper, &[0]), Err(libc::EINVAL));
        engine.settle(1);
        engine.run(100 * MS);
        let cpus = [victim, sleeper].map(|pid| engine.image.usage(pid).cpu);
        println!("= {} {} {}", cpus[0], cpus[1], engine.image.usage(victim).runtime_ns / 1000);
        let cpus = [victim, caller].map(|pid| engine.image.usage(pid).cpu);
        let ran = [victim, caller].map(|pid| engine.image.usage(pid).runtime_ns / 1000);
        println!("= {} {} {} {}", cpus[0], cpus[1], ran[0], ran[1]);
    });
    let Some(said) = said else { return };
    let [victim, sleeper, ran] = figures(&said[0])[..] else { panic!("{said:?}") };
    assert_eq!((victim, sleeper), (1, 2));
    assert!(ran > 179_000, "{said:?}");
    let [_, caller, _, also] = figures(&said[1])[..] else { panic!("{said:?}") };
    assert_eq!(caller, 3);
    assert!(also > 179_000, "{said:?}");
}

#[test]
fn under_full_preemption_a_task_that_leaves_its_cpu_does_not_sleep() {
    let test = "drive::under_full_preemption_a_task_that_leaves_its_cpu_does_not_sleep";
    let said = works(test, Vec::new(), |image| {
        let mut engine = Engine::new(image, machine(1, 2, 1));
        // Refused if the kernel's model can't be changed.
        println!("= {}", u8::from(engine.image.set_tunable("preempt", "full").is_ok()));
        let caller = engine.start(&Engine::fair("caller", Some(FIRST)), HOG, 0);
        engine.run(20 * MS);
        engine.affinity(0, caller, &[2]);
        engine.run(20 * MS);
        let usage = engine.image.usage(caller);
        println!("= {} {} {}", usage.cpu, usage.nvcsw, usage.nivcsw);
    });
    let Some(said) = said.filter(|said| said[0] == "1") else { return };
    let [cpu, slept, preempted] = figures(&said[1])[..] else { panic!("{said:?}") };
    assert!(cpu == 1 && slept == 0 && preempted > 0, "{said:?}");
}

#[test]
fn sessions_share_a_cpu_and_tasks_come_and_go() {
    let said = works("drive::sessions_share_a_cpu_and_tasks_come_and_go", Vec::new(), |image| {
        let mut engine = Engine::new(image, machine(1, 2, 1));
        engine.image.set_tunable("sched_autogroup_enabled", "1").unwrap();
        // One hog in a session against three of another.
        let hogs: Vec<i32> =
            (0..4).map(|_| engine.start(&Engine::fair("hog", Some(FIRST)), HOG, 0)).collect();
        engine.image.enter(0);
        engine.image.session_new(hogs[0]).unwrap();
        engine.image.session_new(hogs[1]).unwrap();
        let leader = hogs[1];
        let threads: Vec<i32> = (0..2)
            .map(|_| engine.start(&NewTask { tgid: leader, ..Engine::fair("thread", Some(FIRST)) }, HOG, 0))
            .collect();
        for pid in &hogs[2..] {
            engine.image.set_affinity(*pid, &[2]).unwrap();
        }
        engine.run(600 * MS);
        let mut of =
            |pids: &[i32]| -> u64 { pids.iter().map(|p| engine.image.usage(*p).runtime_ns / 1000).sum() };
        let (alone, others) = (of(&hogs[..1]), of(&[leader, threads[0], threads[1]]));
        println!("= {alone} {others}");
        // exec balances, exit ends.
        engine.verb(0, |image| image.exec());
        let pid = engine.verb(0, |image| image.current());
        engine.verb(0, |image| image.exit());
        let exits = engine.notes.iter().filter(|n| n.kind == kind::EXIT).map(|n| n.pid).collect::<Vec<_>>();
        engine.run(100 * MS);
        println!("= {}", exits == [pid]);
    });
    let Some(said) = said else { return };
    let [alone, others] = figures(&said[0])[..] else { panic!("{said:?}") };
    // Without sessions it would have a quarter. Since 7.2 or so a group that has more to run gets more.
    let share = alone as f64 / (alone + others) as f64;
    assert!((0.32..0.55).contains(&share), "{said:?}");
    assert_eq!(said[1], "true");
}

/// Visits of a CPU to each idle state, up to those that polled to their end, ns.
fn idles(image: schedlab_transplant::load::Image, governor: &str, short_ns: u64) {
    let state = |name: &str, exit_ns, residency_ns, polls| IdleState {
        name: name.to_owned(),
        exit_ns,
        residency_ns,
        polls,
    };
    let idle_states = vec![
        state("POLL", 0, 0, true),
        state("C1", 2_000, 2_000, false),
        state("C6", 100_000, 300_000, false),
    ];
    let idle_governor = governor.to_owned();
    let mut engine = Engine::new(image, Machine { idle_states, idle_governor, ..machine(1, 2, 1) });
    engine.start(&Engine::fair("short", Some(FIRST)), Program { run: 20_000, sleep: short_ns }, 0);
    engine.start(&Engine::fair("long", Some(&[2])), Program { run: MS, sleep: 50 * MS }, 1);
    engine.run(500 * MS);
    for cpu in 0..2 {
        let mut counts = [0; 3];
        let idle = engine.notes.iter().filter(|n| n.kind == kind::IDLE && n.cpu == cpu);
        idle.for_each(|n| counts[n.value as usize] += 1);
        println!("= {} {} {}", counts[0], counts[1], counts[2]);
    }
}

#[test]
fn governors_choose_idle_states() {
    let said = works("drive::governors_choose_idle_states", Vec::new(), |image| idles(image, "", 60_000));
    let Some(said) = said else { return };
    let most = |line: &str| figures(line).iter().enumerate().max_by_key(|(_, n)| **n).unwrap().0;
    assert_eq!([most(&said[0]), most(&said[1])], [1, 2], "{said:?}");
}

#[test]
fn haltpoll_polls_if_that_pays_and_halts_in_its_only_state() {
    let test = "drive::haltpoll_polls_if_that_pays_and_halts_in_its_only_state";
    let Some(said) = works(test, Vec::new(), |image| idles(image, "haltpoll", 60_000)) else { return };
    let [polls, halts, deeper] = figures(&said[0])[..] else { panic!("{said:?}") };
    assert!(
        polls > 1000 && polls.abs_diff(halts) < polls / 10 && deeper == 0,
        "each short wait begins with polling: {said:?}"
    );
    let [polls, halts, deeper] = figures(&said[1])[..] else { panic!("{said:?}") };
    assert!(halts >= 9 && polls <= halts && deeper == 0, "polling does not pay for 50 ms: {said:?}");
}

#[test]
fn a_missing_governor_is_an_error() {
    let test = "drive::a_missing_governor_is_an_error";
    let said = works(test, Vec::new(), |mut image| {
        let idle_states = vec![IdleState { name: "C1".to_owned(), ..IdleState::default() }];
        let idle_governor = "ladder".to_owned();
        let failed = image.boot(Machine { idle_states, idle_governor, ..machine(1, 2, 1) }).unwrap_err();
        println!("= {}", failed.message());
    });
    let Some(said) = said else { return };
    assert_eq!(said, ["the image has no cpuidle governor 'ladder'"]);
}

#[test]
fn the_time_stamp_of_schedstat_is_right_even_if_all_cpus_sleep() {
    let test = "drive::the_time_stamp_of_schedstat_is_right_even_if_all_cpus_sleep";
    let said = works(test, Vec::new(), |image| {
        let mut engine = Engine::new(image, machine(1, 2, 1));
        engine.run(1000 * MS);
        let stamp = |engine: &Engine| -> u64 {
            let text = engine.image.schedstat();
            let line = text.lines().find_map(|l| l.strip_prefix("timestamp ")).map(str::to_owned);
            line.unwrap_or_else(|| panic!("{text}")).parse().unwrap()
        };
        let before = stamp(&engine);
        engine.run(2000 * MS);
        println!("= {}", stamp(&engine) - before);
        assert_eq!(stamp(&engine), stamp(&engine), "reading changes nothing");
    });
    let Some(said) = said else { return };
    assert!((499..=501).contains(&figures(&said[0])[0]), "2 s are 500 ticks of 4 ms: {said:?}");
}

#[test]
fn a_task_with_a_nice_value_takes_nothing_from_the_load_of_its_makers_cpu() {
    let test = "drive::a_task_with_a_nice_value_takes_nothing_from_the_load_of_its_makers_cpu";
    let said = works(test, Vec::new(), |image| {
        let mut engine = Engine::new(image, machine(1, 2, 1));
        let nice = |nice: i32| Attr { nice, ..Attr::default() };
        for cpu in 0..2u64 {
            let mask = [1 << cpu];
            let hog = NewTask { attr: nice(5 * cpu as i32), ..Engine::fair("hog", Some(&mask)) };
            for _ in 0..4 {
                engine.start(&hog, HOG, cpu as usize);
            }
        }
        engine.run(500 * MS);
        engine.image.enter(0);
        for _ in 0..8 {
            engine.image.task_new(&NewTask { attr: nice(10), ..Engine::fair("unborn", None) }).unwrap();
        }
        let pid = engine.start(&Engine::fair("next", None), HOG, 0);
        engine.run(MS / 100);
        let born = engine.notes.iter().find(|n| n.kind == kind::WAKEUP && n.pid == pid);
        println!("= {:?}", born.map(|n| n.cpu));
    });
    let Some(said) = said else { return };
    assert_eq!(said, ["Some(1)"], "CPU 0 has three times the load of CPU 1");
}
