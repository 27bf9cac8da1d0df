//! Each feature of the tree's own table, on and off, under a load of each class: none ends a run.

use crate::again::{Asked, machine, works, works_as};
use crate::engine::{Engine, Program};
use schedlab_transplant::abi::{Attr, kind};
use schedlab_transplant::load::{Image, NewTask};

const MS: u64 = 1_000_000;
const FIFO: u32 = 1;
const RR: u32 = 2;
const DEADLINE: u32 = 6;

/// Tasks of each class on six CPUs, more of them than CPUs.
fn start(engine: &mut Engine) {
    let rt = |policy: u32, rt_priority: u32| Attr { policy, rt_priority, ..Attr::default() };
    let dead = Attr {
        policy: DEADLINE,
        runtime_ns: 2 * MS,
        deadline_ns: 8 * MS,
        period_ns: 10 * MS,
        ..Attr::default()
    };
    let fair = Attr::default();
    for (n, (attr, run, sleep)) in [
        (fair, 400_000, 700_000),
        (fair, 3 * MS, 200_000),
        (rt(FIFO, 5), 300_000, 900_000),
        (rt(FIFO, 7), 200_000, 500_000),
        (rt(RR, 5), MS, 2 * MS),
        (dead, MS, 4 * MS),
    ]
    .into_iter()
    .cycle()
    .take(30)
    .enumerate()
    {
        let task = NewTask { attr, ..Engine::fair("one", None) };
        engine.start(&task, Program { run: run + 1000 * n as u64, sleep }, n % 6);
    }
}

#[test]
fn each_feature_on_and_off_runs_tasks_of_each_class() {
    let said = works("features::each_feature_on_and_off_runs_tasks_of_each_class", Vec::new(), |image| {
        let mut engine = Engine::new(image, machine(1, 3, 2));
        start(&mut engine);
        engine.run(20 * MS);
        for (name, was) in engine.image.features() {
            for on in [!was, was] {
                assert!(engine.image.set_feature(&name, on), "{name}");
                engine.notes.clear();
                engine.run(15 * MS);
                let switches = engine.notes.iter().filter(|n| n.kind == kind::SWITCH).count();
                // If one ends the process, its name is the last word.
                println!("= {name} {on} {switches}");
                assert!(switches > 100, "{name} {on}: {switches} switches");
                engine.image.audit();
                let found = engine.image.notes().iter().find(|n| n.kind == kind::FOUND).copied();
                assert_eq!(found, None, "{name} {on}");
                engine.image.clear();
            }
        }
    });
    let Some(said) = said else { return };
    assert!(said.len() > 30 && said.iter().any(|line| line.starts_with("RT_PUSH_IPI")), "{said:?}");
}

/// The runtimes of a fair hog on each of two CPUs, on which a real-time hog is, too: the fair server's part of 400 ms.
#[test]
fn the_fair_server_has_one_runtime_and_one_period_on_all_cpus() {
    let test = "features::the_fair_server_has_one_runtime_and_one_period_on_all_cpus";
    let asked = Asked { series: Some("7.3"), ..Asked::default() };
    let said = works_as(test, asked, |image| {
        let mut engine = Engine::new(image, machine(1, 3, 2));
        let (runtime, period) = ("fair_server/runtime", "fair_server/period");
        let value =
            |image: &Image, name: &str| image.tunables().into_iter().find(|(n, _)| n == name).unwrap().1;
        println!("= {} {}", value(&engine.image, runtime), value(&engine.image, period));
        // No period is shorter than the runtime in it.
        let set = [(period, "20000000"), (runtime, "5000000"), (period, "20000000")];
        println!("= {:?}", set.map(|(name, value)| engine.image.set_tunable(name, value)));
        println!("= {} {}", value(&engine.image, runtime), value(&engine.image, period));
        let fair = [0usize, 5].map(|cpu| {
            let allowed = [1u64 << cpu];
            let attr = Attr { policy: FIFO, rt_priority: 5, ..Attr::default() };
            let hog = Program { run: 10_000 * MS, sleep: 0 };
            engine.start(&NewTask { attr, ..Engine::fair("fifo", Some(&allowed)) }, hog, cpu);
            engine.start(&Engine::fair("fair", Some(&allowed)), hog, cpu)
        });
        engine.run(400 * MS);
        let times = fair.map(|pid| engine.image.usage(pid).runtime_ns / MS);
        println!("= {} {}", times[0], times[1]);
    });
    let Some(said) = said else { return };
    assert_eq!(said[..3], ["50000000 1000000000", "[Err(22), Ok(()), Ok(())]", "5000000 20000000"]);
    let times: Vec<u64> = said[3].split(' ').map(|ms| ms.parse().unwrap()).collect();
    assert!(times.len() == 2 && times.iter().all(|ms| (90..110).contains(ms)), "{times:?}");
}
