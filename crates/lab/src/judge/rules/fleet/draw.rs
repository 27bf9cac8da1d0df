//! Random states: machines near those that occur, from idle to overloaded, with ties, masks and stale hints.

use super::facts::Facts;
use crate::judge::rules::dice::Dice;
use schedlab_base::CpuId;
use schedlab_base::random::Stream;
use schedlab_board::decision::{
    AskedAverages, AskedCpu, AskedFleet, AskedGroup, AskedLevel, AskedPlace, AskedTask, FleetQuestion, NOW,
};
use schedlab_kernel::{Attr, Policy};
use schedlab_trace::{BalanceTrigger, MigrationType};

/// Tasks of a state at most.
const MOST_TASKS: usize = 150;
/// Times around which gates and checks for cache heat decide, ns.
const TIMES_NS: [u64; 6] = [0, 10_000, 100_000, 500_000, 1_000_000, 20_000_000];
/// Vruntimes lie around 0, where queues begin.
const MOST_VRUNTIME: i64 = 3_000_000;
const ALL_IDLE_NS: u64 = 1_000_000;

/// The state of this stream.
pub fn state(stream: Stream, facts: &Facts, question: FleetQuestion) -> AskedFleet {
    let dice = &mut Dice::new(stream);
    let cpu = CpuId(dice.below(facts.nr_cpus as u64) as u32);
    let levels = facts.domains[cpu].len();
    let mut s = AskedFleet {
        cpus: vec![AskedCpu::default(); facts.nr_cpus],
        tasks: Vec::new(),
        levels: (0..levels).map(|_| level(dice)).collect(),
        group: AskedGroup::default(),
        cpu,
        src: cpu,
        level: dice.below(levels as u64) as usize,
        about: 0,
        trigger: BalanceTrigger::Idle,
        sync: false,
        overload: dice.percent(80),
        migration: MigrationType::Task,
        imbalance: 0,
    };
    match question {
        FleetQuestion::Select => woken(dice, facts, &mut s),
        FleetQuestion::Busiest => {
            s.trigger = dice.one_of(&[BalanceTrigger::Idle, BalanceTrigger::Busy, BalanceTrigger::Newidle]);
            load(dice, facts, &mut s);
        }
        FleetQuestion::Detach => detached(dice, facts, &mut s),
        FleetQuestion::Newidle => {
            s.trigger = BalanceTrigger::Newidle;
            load(dice, facts, &mut s);
            // A push of a running task would reach beyond the state.
            s.levels.iter_mut().for_each(|l| l.failed = 0);
        }
        FleetQuestion::Shares => s.group = group(dice),
        FleetQuestion::Fork | FleetQuestion::Exec => placed(dice, facts, &mut s, question),
    }
    s.cpus.iter_mut().enumerate().for_each(|(i, c)| hints(dice, facts, CpuId::from(i), c));
    sums(dice, &mut s);
    if question.places() || question == FleetQuestion::Busiest {
        real_time(dice, &mut s);
    }
    misfits(dice, facts, &mut s);
    if matches!(question, FleetQuestion::Select | FleetQuestion::Newidle) {
        pending(dice, &mut s, question);
    }
    s
}

fn level(dice: &mut Dice) -> AskedLevel {
    AskedLevel {
        newidle_cost_ns: near(dice),
        failed: if dice.percent(60) { 0 } else { dice.below(6) as u32 },
        imbalanced: dice.percent(8),
    }
}

/// A time at or near one of the [`TIMES_NS`].
fn near(dice: &mut Dice) -> u64 {
    let time = dice.one_of(&TIMES_NS);
    match dice.below(4) {
        0 => time,
        1 => time.saturating_sub(1),
        2 => time + 1,
        _ => dice.below(2 * time + 1),
    }
}

/// A task to wake and its waker.
fn woken(dice: &mut Dice, facts: &Facts, s: &mut AskedFleet) {
    let prev = if dice.percent(20) { s.cpu } else { CpuId(dice.below(facts.nr_cpus as u64) as u32) };
    let mut about = task(dice, facts, prev, AskedPlace::Absent);
    about.recent = CpuId(dice.below(facts.nr_cpus as u64) as u32);
    // The kernel does not search for a single allowed CPU.
    if about.allowed.count_ones() < 2 {
        about.allowed = facts.all();
    }
    s.tasks.push(about);
    load(dice, facts, s);
    s.sync = s.tasks.iter().any(|t| t.cpu == s.cpu && t.place == AskedPlace::Runs) && dice.percent(30);
}

/// A new task, or one that runs and calls exec.
fn placed(dice: &mut Dice, facts: &Facts, s: &mut AskedFleet, question: FleetQuestion) {
    let exec = question == FleetQuestion::Exec;
    let place = if exec { AskedPlace::Runs } else { AskedPlace::Absent };
    let mut about = task(dice, facts, s.cpu, place);
    if about.allowed.count_ones() < 2 {
        about.allowed = facts.all();
    }
    if !exec {
        // A new task has no history.
        (about.avg.util, about.avg.util_est) = (0, 0);
    }
    s.tasks.push(about);
    load(dice, facts, s);
    if exec {
        // One task runs on a CPU.
        let own = s.cpu;
        let others = s.tasks.iter_mut().skip(1).filter(|t| t.cpu == own && t.place == AskedPlace::Runs);
        others.for_each(|t| t.place = AskedPlace::Waits);
    }
    for (i, c) in s.cpus.iter_mut().enumerate() {
        let idle = s.tasks.iter().all(|t| t.cpu != CpuId::from(i) || t.place == AskedPlace::Absent);
        if idle && dice.percent(90) {
            c.idle_since_ns = NOW - near(dice);
            c.idle_exit_us = dice.one_of(&facts.exits_us);
        }
    }
}

/// Real-time tasks on some CPUs of some states: their recent use, and whether they are there now. The CPU that the
/// question is about has none.
fn real_time(dice: &mut Dice, s: &mut AskedFleet) {
    if dice.percent(75) {
        return;
    }
    for (i, c) in s.cpus.iter_mut().enumerate() {
        if dice.percent(70) {
            continue;
        }
        c.rt_util = dice.below(1025) as u32;
        c.nr_rt = if CpuId::from(i) != s.cpu && dice.percent(30) { 1 + dice.below(2) as u32 } else { 0 };
    }
}

/// A task that runs on a CPU too small for it is marked, and some marks are stale.
fn misfits(dice: &mut Dice, facts: &Facts, s: &mut AskedFleet) {
    if !facts.unlike {
        return;
    }
    for (i, c) in s.cpus.iter_mut().enumerate() {
        let runs = s.tasks.iter().find(|t| t.cpu == CpuId::from(i) && t.place == AskedPlace::Runs);
        let large = |t: &&AskedTask| t.avg.util.max(t.avg.util_est) * 1280 >= facts.capacity[i] * 1024;
        c.misfit = match runs.filter(large) {
            Some(_) if dice.percent(10) => 0,
            Some(t) => t.avg.load.max(1),
            None if dice.percent(5) => 1 + dice.below(1024),
            None => 0,
        };
    }
}

/// A queue, an imbalance, and the tasks that may leave.
fn detached(dice: &mut Dice, facts: &Facts, s: &mut AskedFleet) {
    let span = &facts.domains[s.cpu][s.level].cpus;
    let others: Vec<CpuId> = span.iter().copied().filter(|c| *c != s.cpu).collect();
    s.src = dice.one_of(&others);
    s.trigger = dice.one_of(&[BalanceTrigger::Idle, BalanceTrigger::Busy, BalanceTrigger::Newidle]);
    let nr = if dice.percent(5) { 30 + dice.below(20) } else { 2 + dice.below(5) + dice.below(5) };
    for i in 0..nr {
        let place = if i == 0 && dice.percent(90) { AskedPlace::Runs } else { AskedPlace::Waits };
        let mut t = task(dice, facts, s.src, place);
        t.next = place == AskedPlace::Waits && dice.percent(10);
        s.tasks.push(t);
    }
    if let Some(last) = s.tasks.iter().rposition(|t| t.next) {
        s.tasks.iter_mut().enumerate().for_each(|(i, t)| t.next = i == last);
    }
    if s.trigger == BalanceTrigger::Busy {
        let running = task(dice, facts, s.cpu, AskedPlace::Runs);
        s.tasks.push(running);
    }
    let units = [MigrationType::Load, MigrationType::Util, MigrationType::Task, MigrationType::Misfit];
    s.migration = dice.one_of(&units[..if facts.unlike { 4 } else { 3 }]);
    s.imbalance = match s.migration {
        MigrationType::Load => 1 + dice.below(4_000),
        MigrationType::Util => 1 + dice.below(1_500),
        _ => 1 + dice.below(8),
    };
}

/// Queues of all CPUs: idle, half busy, busy or overloaded, with exceptions.
fn load(dice: &mut Dice, facts: &Facts, s: &mut AskedFleet) {
    let style = dice.below(4);
    for cpu in (0..facts.nr_cpus).map(CpuId::from) {
        let mut nr = match (style, dice.below(4)) {
            (0, 0) | (1, 0 | 1) | (2, 0..=2) => 1,
            (0, _) | (1, 2) => 0,
            (1, _) => 2,
            (2, _) => dice.below(3),
            _ => 1 + dice.below(3),
        };
        if dice.percent(3) {
            nr = dice.below(6);
        }
        let mut waits_only = dice.percent(5);
        if cpu == s.cpu {
            nr = match s.trigger {
                BalanceTrigger::Busy => nr.max(1),
                // `Select` also leaves the trigger at idle, since its CPU may do anything.
                BalanceTrigger::Idle if s.tasks.is_empty() => 0,
                BalanceTrigger::Newidle => {
                    let leaves = task(dice, facts, cpu, AskedPlace::Leaves);
                    s.tasks.push(leaves);
                    0
                }
                _ => nr,
            };
            waits_only = false;
        }
        for i in 0..nr {
            let place = if i == 0 && !waits_only { AskedPlace::Runs } else { AskedPlace::Waits };
            if s.tasks.len() < MOST_TASKS {
                let t = task(dice, facts, cpu, place);
                s.tasks.push(t);
            }
        }
    }
}

fn task(dice: &mut Dice, facts: &Facts, cpu: CpuId, place: AskedPlace) -> AskedTask {
    let policy = dice.one_of(&[&[Policy::Other; 8][..], &[Policy::Batch, Policy::Idle]].concat());
    let nice = if policy == Policy::Idle || dice.percent(60) { 0 } else { dice.between(-20, 19) as i8 };
    let own = 1 << cpu.0;
    let allowed = match dice.below(10) {
        0 => own,
        1 => own | facts.cache(cpu),
        2 => own | dice.below(facts.all()) & facts.all(),
        _ => facts.all(),
    };
    let runnable = if dice.percent(20) { 1024 } else { dice.below(1025) };
    let util = if dice.percent(20) { runnable } else { dice.below(runnable + 1) };
    let weight = Attr { policy, nice, ..Attr::default() }.weight(&facts.history);
    AskedTask {
        place,
        cpu,
        avg: AskedAverages {
            load: weight * runnable / 1024,
            runnable,
            util,
            util_est: if dice.percent(50) { 2 * dice.below(513) } else { util & !1 },
        },
        ran_ago_ns: near(dice),
        allowed,
        policy,
        nice,
        flips: if dice.percent(50) { 0 } else { dice.below(100) as u32 },
        recent: cpu,
        next: false,
        vruntime: if dice.percent(30) { 0 } else { dice.between(-MOST_VRUNTIME, MOST_VRUNTIME) },
    }
}

fn hints(dice: &mut Dice, facts: &Facts, cpu: CpuId, c: &mut AskedCpu) {
    let weight = facts.cache(cpu).count_ones();
    c.avg_idle_ns = near(dice).min(ALL_IDLE_NS);
    c.nr_idle_scan = if dice.percent(50) { weight } else { dice.below(u64::from(weight) + 1) as u32 };
    c.has_idle_cores = facts.threads && dice.percent(50);
}

/// A queue's averages are the sums of its tasks' and of some that have left.
fn sums(dice: &mut Dice, s: &mut AskedFleet) {
    for (i, c) in s.cpus.iter_mut().enumerate() {
        c.avg = of_tasks(&s.tasks, CpuId::from(i));
        if dice.percent(40) {
            c.avg.load += dice.below(300);
            c.avg.runnable += dice.below(300);
            c.avg.util += dice.below(200);
        }
    }
}

/// The sum of the averages of a CPU's tasks. Estimates include only those on the queue.
pub fn of_tasks(tasks: &[AskedTask], cpu: CpuId) -> AskedAverages {
    let mut all = AskedAverages::default();
    for t in tasks.iter().filter(|t| t.cpu == cpu) {
        all.load += t.avg.load;
        all.runnable += t.avg.runnable;
        all.util += t.avg.util;
        if matches!(t.place, AskedPlace::Runs | AskedPlace::Waits) {
            all.util_est += t.avg.util_est;
        }
    }
    all
}

/// Wakeups that are on their way to idle CPUs.
fn pending(dice: &mut Dice, s: &mut AskedFleet, question: FleetQuestion) {
    for i in 0..s.cpus.len() {
        let cpu = CpuId::from(i);
        let on = |t: &AskedTask| t.cpu == cpu && t.place != AskedPlace::Absent;
        let leaves = question == FleetQuestion::Newidle && cpu == s.cpu;
        let may = leaves || !s.tasks.iter().any(on);
        s.cpus[i].wakeup_pending = may && dice.percent(4);
    }
}

fn group(dice: &mut Dice) -> AskedGroup {
    let shares = dice.one_of(&[2, 3, 15, 100, 1024, 1024, 10_240, 262_144]);
    let queue_weight = dice.one_of(&[3, 15, 1024, 2048, 88_761]) * (1 + dice.below(3));
    let queue_load = if dice.percent(10) { 0 } else { dice.below(2 * queue_weight + 1) };
    let contribution = if dice.percent(50) { queue_load } else { dice.below(2 * queue_weight + 1) };
    let load = contribution + if dice.percent(20) { 0 } else { dice.below(20_000) };
    AskedGroup { shares, load, runnable: dice.below(12 * 1024), queue_weight, queue_load, contribution }
}

#[cfg(test)]
mod tests {
    use super::*;
    use schedlab_base::Version;
    use schedlab_kernel::Kernel;
    use schedlab_machine::Machine;

    #[test]
    fn drawn_states_can_be_asked_about() {
        let machine = Machine::load("spr-2x4").unwrap();
        for version in [Version::new(5, 10), Version::new(6, 1), Version::new(7, 3)] {
            let facts = Facts::of(&Kernel::of(version), &machine);
            for question in
                [FleetQuestion::Select, FleetQuestion::Busiest, FleetQuestion::Detach, FleetQuestion::Newidle]
            {
                for s in (0..300).map(|i| state(Stream::new(1).number(i), &facts, question)) {
                    assert!(s.tasks.len() <= 64 && s.level < s.levels.len(), "{s:?}");
                    assert!(s.tasks.iter().all(|t| t.allowed >> t.cpu.0 & 1 == 1), "{s:?}");
                    let runs = |c: CpuId| {
                        s.tasks.iter().filter(|t| t.cpu == c && t.place == AskedPlace::Runs).count()
                    };
                    assert!((0..16).all(|c| runs(CpuId(c)) <= 1), "{s:?}");
                    match question {
                        FleetQuestion::Select => assert_eq!(s.tasks[s.about].place, AskedPlace::Absent),
                        FleetQuestion::Detach => assert!(s.src != s.cpu),
                        FleetQuestion::Newidle => {
                            assert!(s.tasks.iter().any(|t| t.cpu == s.cpu && t.place == AskedPlace::Leaves));
                        }
                        _ => {}
                    }
                }
            }
        }
    }
}
