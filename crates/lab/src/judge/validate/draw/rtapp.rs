//! Drawn rt-app files: fair tasks with nice values, a lock and a chain; and real-time tasks before fair ones.
//!
//! Times in an rt-app file are us. All real-time tasks together take at most 60 % of the CPUs, so that their
//! throttling, which stops them after 95 % of a second, does not decide the case.

use super::dice::{Dice, Workload};
use super::kernel::Chosen;

/// The share of the CPUs' time that real-time tasks may take, per cent.
const RT_PCT: u32 = 60;

/// A task of an rt-app file.
struct Task {
    name: &'static str,
    instances: u32,
    policy: &'static str,
    /// Nice value, or real-time priority.
    priority: i32,
    /// The events, as JSON.
    events: String,
}

impl Task {
    fn json(&self) -> String {
        let Task { name, instances, policy, priority, events } = self;
        format!(
            "\"{name}\" : {{ \"instance\" : {instances}, \"policy\" : \"{policy}\", \"priority\" : {priority}, {events} }}"
        )
    }
    fn words(&self) -> String {
        let Task { name, instances, policy, priority, events } = self;
        format!("{instances} {name} of {policy} {priority} ({})", events.replace(['"', ' '], ""))
    }
}

fn file(tasks: &[Task]) -> Workload {
    let rows: Vec<String> = tasks.iter().map(|t| format!("\t{}", t.json())).collect();
    let global = "\"global\" : { \"duration\" : 1, \"default_policy\" : \"SCHED_OTHER\" }";
    let text = format!("'''\n{{ {global}, \"tasks\" : {{\n{}\n}} }}'''", rows.join(",\n"));
    let words: Vec<String> = tasks.iter().map(Task::words).collect();
    Workload { about: Some(words.join("; ")), ..Workload::default().number("rtapp_text", text) }
}

fn periodic(run: u32, period: u32) -> String {
    format!("\"run\" : {run}, \"timer\" : {{ \"ref\" : \"unique\", \"period\" : {period} }}")
}

/// Fair tasks of several kinds.
pub fn fair(dice: Dice, cpus: u32, _: &Chosen) -> Workload {
    let nice = |what: &str| dice.pick(what, &[0, 0, -5, 5, 10]);
    let policy = |what: &str| dice.pick(what, &["SCHED_OTHER", "SCHED_OTHER", "SCHED_BATCH", "SCHED_IDLE"]);
    let run = dice.pick("periodic.run", &[500, 1500, 4000]);
    let mut tasks = vec![
        Task {
            name: "periodic",
            instances: dice.within("periodic", 1, cpus),
            policy: "SCHED_OTHER",
            priority: nice("periodic.nice"),
            events: periodic(run, run * dice.within("periodic.part", 2, 6)),
        },
        Task {
            name: "burst",
            instances: dice.within("burst", 1, cpus),
            policy: policy("burst.policy"),
            priority: nice("burst.nice"),
            events: format!(
                "\"run\" : {}, \"sleep\" : {}",
                dice.pick("burst.run", &[1000, 5000, 20000]),
                dice.pick("burst.sleep", &[300, 1000, 4000])
            ),
        },
    ];
    if dice.pick("locks", &[false, true]) {
        let events = format!(
            "\"lock\" : \"m\", \"run0\" : {}, \"unlock\" : \"m\", \"run1\" : 300, \"sleep\" : 700",
            dice.pick("locked", &[50, 200])
        );
        let instances = dice.within("lockers", 2, cpus.max(2));
        tasks.push(Task { name: "locker", instances, policy: "SCHED_OTHER", priority: 0, events });
    }
    if dice.pick("chain", &[false, true]) {
        let (first, second) = (dice.pick("first", &[200, 800]), dice.pick("second", &[200, 800]));
        let priority = nice("chain.nice");
        let task =
            |name, priority, events| Task { name, instances: 1, policy: "SCHED_OTHER", priority, events };
        let head = format!("\"run\" : {first}, \"resume\" : \"link\", \"sleep\" : 2000");
        tasks.push(task("head", 0, head));
        tasks.push(task("tail", priority, format!("\"suspend\" : \"link\", \"run\" : {second}")));
    }
    file(&tasks)
}

/// Real-time tasks of up to two ranks, and fair tasks that compute.
pub fn ranks(dice: Dice, cpus: u32, _: &Chosen) -> Workload {
    let mut left_pct = RT_PCT * cpus;
    let mut tasks = Vec::new();
    let ranks =
        [("urgent", dice.within("urgent.priority", 30, 80)), ("less", dice.within("less.priority", 1, 20))];
    for (name, priority) in ranks.into_iter().take(dice.pick("ranks", &[1, 2, 2])) {
        let part = dice.of(name);
        let (run, times) = (part.pick("run", &[500, 2000, 4000]), part.within("times", 3, 8));
        // Each takes one `times`-th of a CPU.
        let most = (left_pct * times / 100).min(cpus);
        if most == 0 {
            break;
        }
        let instances = part.within("instances", 1, most);
        left_pct = left_pct.saturating_sub(instances * 100 / times);
        let policy = part.pick("policy", &["SCHED_FIFO", "SCHED_RR"]);
        let (priority, events) = (priority as i32, periodic(run, run * times));
        tasks.push(Task { name, instances, policy, priority, events });
    }
    let events = format!("\"run\" : 5000, \"sleep\" : {}", dice.pick("fair.sleep", &[500, 3000]));
    let instances = dice.within("fair", cpus.div_ceil(2), 2 * cpus);
    let priority = dice.pick("fair.nice", &[0, 0, 5]);
    tasks.push(Task { name: "fair", instances, policy: "SCHED_OTHER", priority, events });
    file(&tasks)
}
