//! Random states: up to ten tasks in up to five groups, some asleep and still queued.

use crate::judge::rules::dice::Dice;
use crate::judge::rules::queue::draw::{self, Facts};
use schedlab_base::random::Stream;
use schedlab_board::decision::{
    AskedBranch, AskedEntity, AskedLeaf, AskedTree, Buddy, Presence, TREE_GROUPS, TREE_TASKS, TreeQuestion,
};
use schedlab_kernel::Policy;
use schedlab_sim::fair::oracle::tree::Has;

/// Fine weights per weight.
pub const FINE: u64 = 1024;
/// Shares of groups: `cpu.weight` 1 to 10000, mostly 100.
const SHARES: [u64; 8] = [10, 102, 512, 1024, 1024, 1024, 2048, 102_400];
/// Shares of an idle group.
const IDLE_SHARES: u64 = 3;
const SPREADS_NS: [u64; 5] = [1, 1_000, 300_000, 3_000_000, 30_000_000];

/// The state of this stream.
pub fn state(stream: Stream, facts: &Facts, has: Has, question: TreeQuestion) -> AskedTree {
    let dice = &mut Dice::new(stream);
    loop {
        let s = candidate(dice, facts, has, question);
        if is_whole(&s, has, question) {
            return s;
        }
    }
}

fn candidate(dice: &mut Dice, facts: &Facts, has: Has, question: TreeQuestion) -> AskedTree {
    let min_vruntime = dice.between(0, 5_000_000_000);
    let spread = dice.one_of(&SPREADS_NS) as i64;
    let nr = 1 + dice.below(4) + dice.below(5);
    let used = 1 + dice.below(TREE_GROUPS.len() as u64);
    let tasks: Vec<AskedLeaf> = (0..nr.min(TREE_TASKS as u64))
        .map(|_| leaf(dice, facts, has, (min_vruntime, spread), used))
        .collect();
    let groups = (0..TREE_GROUPS.len()).map(|_| branch(dice, facts, has, (min_vruntime, spread))).collect();
    let mut s = AskedTree {
        tasks,
        groups,
        current: None,
        next: None,
        min_vruntime,
        ran_ns: if dice.percent(60) { dice.below(4_000_000) } else { 0 },
        about: 0,
        is_new: question == TreeQuestion::Preempt && dice.percent(20),
        sync: question == TreeQuestion::Preempt && dice.percent(20),
    };
    s.about = dice.below(s.tasks.len() as u64) as usize;
    s.sync &= !s.is_new;
    about(dice, has, question, &mut s);
    for g in 0..s.groups.len() {
        s.groups[g].delayed = has.delayed && !has.flat && dice.percent(30) && !s.is_queued(g);
    }
    current(dice, question, &mut s);
    buddy(dice, has, &mut s);
    for (i, t) in s.tasks.iter_mut().enumerate() {
        let asleep = t.presence != Presence::Queued;
        let e = &mut t.entity;
        // A delayed task has a debt, and its deadline is unchanged.
        e.lag = match t.presence {
            Presence::Delayed => -e.lag.abs().max(1),
            Presence::Absent => e.lag,
            Presence::Queued => 0,
        };
        e.relative &= t.presence == Presence::Absent;
        e.deadline -= if e.relative { e.vruntime } else { 0 };
        if asleep || s.current != Some(i) {
            e.protected_until = e.vruntime;
        }
    }
    for g in 0..s.groups.len() {
        let (queued, runs) = (s.is_queued(g), s.runs_below(g));
        let b = &mut s.groups[g];
        b.entity.lag = if b.delayed { -b.entity.lag.abs().max(1) } else { b.entity.lag };
        if queued && !b.delayed {
            b.entity.lag = 0;
        }
        if !runs {
            b.entity.protected_until = b.entity.vruntime;
        }
    }
    s
}

/// Gives the task in question the place that the question needs.
fn about(dice: &mut Dice, has: Has, question: TreeQuestion, s: &mut AskedTree) {
    let about = &mut s.tasks[s.about];
    match question {
        TreeQuestion::Wake if has.delayed && dice.percent(50) => about.presence = Presence::Delayed,
        TreeQuestion::Wake => about.presence = Presence::Absent,
        TreeQuestion::Sleep | TreeQuestion::Preempt | TreeQuestion::Tick => about.presence = Presence::Queued,
        TreeQuestion::Pick => {}
    }
}

fn current(dice: &mut Dice, question: TreeQuestion, s: &mut AskedTree) {
    let may_run = |i: &usize| match question {
        // Between its sleep and the next pick a task is delayed and still current.
        TreeQuestion::Pick => s.tasks[*i].presence != Presence::Absent,
        TreeQuestion::Wake | TreeQuestion::Preempt => {
            s.tasks[*i].presence == Presence::Queued && *i != s.about
        }
        TreeQuestion::Sleep | TreeQuestion::Tick => s.tasks[*i].presence == Presence::Queued,
    };
    let able: Vec<usize> = (0..s.tasks.len()).filter(may_run).collect();
    s.current = match question {
        TreeQuestion::Tick => Some(s.about),
        TreeQuestion::Sleep if dice.percent(80) => Some(s.about),
        _ if able.is_empty() => None,
        TreeQuestion::Preempt => Some(dice.one_of(&able)),
        _ => dice.percent(75).then(|| dice.one_of(&able)),
    };
}

/// A buddy waits and is not idle.
fn buddy(dice: &mut Dice, has: Has, s: &mut AskedTree) {
    if !dice.percent(20) {
        return;
    }
    let idle = |group: Option<usize>| AskedTree::above(group).any(|g| s.groups[g].idle);
    let waits = |i: &usize| {
        let t = &s.tasks[*i];
        t.presence == Presence::Queued
            && s.current != Some(*i)
            && t.entity.policy != Policy::Idle
            && !idle(t.group)
    };
    let tasks: Vec<usize> = (0..s.tasks.len()).filter(waits).collect();
    let apart = |g: &usize| s.is_queued(*g) && !s.runs_below(*g) && !s.groups[*g].delayed && !idle(Some(*g));
    let groups: Vec<usize> = (0..s.groups.len()).filter(apart).collect();
    s.next = match dice.percent(50) {
        true if !has.flat && !groups.is_empty() => Some(Buddy::Group(dice.one_of(&groups))),
        _ if !tasks.is_empty() => Some(Buddy::Task(dice.one_of(&tasks))),
        _ => None,
    };
}

fn entity(dice: &mut Dice, facts: &Facts, (zero, spread): (i64, i64), slice: u64) -> AskedEntity {
    let mut e = AskedEntity {
        vruntime: zero + dice.between(-spread, spread),
        deadline: 0,
        lag: 0,
        protected_until: 0,
        slice_ns: 0,
        policy: Policy::Other,
        nice: 0,
        relative: false,
    };
    if facts.deadlines {
        let slice = (slice as i64).max(1);
        e.deadline = e.vruntime + dice.between(1, slice);
        e.lag = dice.between(-2 * slice, 2 * slice);
        e.relative = facts.own_slices && dice.percent(25);
        e.protected_until = match dice.below(3) {
            0 => e.deadline,
            1 if facts.protects_until => dice.between(e.vruntime, e.deadline),
            _ => e.vruntime,
        };
    }
    e
}

fn leaf(dice: &mut Dice, facts: &Facts, has: Has, around: (i64, i64), used: u64) -> AskedLeaf {
    let policy = dice.one_of(&[&[Policy::Other; 8][..], &[Policy::Batch, Policy::Idle]].concat());
    let nice = if policy == Policy::Idle || dice.percent(50) { 0 } else { dice.between(-20, 19) as i8 };
    let drawn = draw::bearer(policy, nice);
    let weight = facts.weight(&drawn) * FINE;
    let group = dice.percent(80).then(|| dice.below(used) as usize);
    let line_weight = match group {
        Some(_) if has.flat => dice.between(2, weight as i64) as u64,
        _ => weight,
    };
    let slice = (u128::from(facts.base_slice_ns) * u128::from(FINE * FINE) / u128::from(line_weight)) as u64;
    let presence = match dice.below(10) {
        0..2 => Presence::Absent,
        2..4 if has.delayed => Presence::Delayed,
        _ => Presence::Queued,
    };
    let entity = AskedEntity { policy, nice, ..entity(dice, facts, around, slice) };
    AskedLeaf { entity, group, presence, line_weight }
}

fn branch(dice: &mut Dice, facts: &Facts, has: Has, around: (i64, i64)) -> AskedBranch {
    let idle = has.idle_groups && dice.percent(10);
    let shares = if idle { IDLE_SHARES } else { dice.one_of(&SHARES) };
    // As small as a division among many CPUs makes it.
    let weight = ((shares * FINE) >> dice.below(6)).max(2) - dice.below(2);
    let slice = (u128::from(facts.base_slice_ns) * u128::from(FINE * FINE) / u128::from(weight)) as u64;
    let entity = AskedEntity { relative: false, ..entity(dice, facts, around, slice) };
    AskedBranch {
        entity,
        weight,
        delayed: false,
        idle,
        shares,
        load: if dice.percent(50) { dice.below(4096) } else { 0 },
        load_elsewhere: if dice.percent(70) { dice.below(20_000) } else { 0 },
        runnable: dice.below(6 * 1024),
    }
}

/// Whether a CPU can be in this state: its delayed entities have had companions that are not delayed groups, and the
/// question has its task.
pub fn is_whole(s: &AskedTree, has: Has, question: TreeQuestion) -> bool {
    let mut awake = s.clone();
    awake.groups.iter_mut().for_each(|b| b.delayed = false);
    let entities = |group: Option<usize>| {
        let tasks =
            s.tasks.iter().filter(|t| t.presence != Presence::Absent && (has.flat || t.group == group));
        let groups = |g: &usize| !has.flat && TREE_GROUPS[*g] == group && awake.is_queued(*g);
        tasks.count() + (0..s.groups.len()).filter(groups).count()
    };
    let delayed_task = |t: &AskedLeaf| t.presence != Presence::Delayed || entities(t.group) > 1;
    let delayed_group =
        |g: usize| !s.groups[g].delayed || !awake.is_queued(g) && entities(TREE_GROUPS[g]) > 0;
    let about = &s.tasks[s.about];
    let asked = match question {
        // A queue that may become empty would be balanced.
        TreeQuestion::Pick => s.tasks.iter().any(|t| t.presence == Presence::Queued),
        TreeQuestion::Wake => about.presence != Presence::Queued && s.current != Some(s.about),
        TreeQuestion::Sleep => about.presence == Presence::Queued,
        TreeQuestion::Preempt => {
            about.presence == Presence::Queued && s.current.is_some_and(|c| c != s.about)
        }
        TreeQuestion::Tick => s.current == Some(s.about),
    };
    asked && s.tasks.iter().all(delayed_task) && (0..s.groups.len()).all(delayed_group)
}

#[cfg(test)]
mod tests {
    use super::*;
    use schedlab_base::Version;
    use schedlab_kernel::Kernel;
    use schedlab_machine::Machine;
    use schedlab_sim::fair::oracle::tree;

    const QUESTIONS: [TreeQuestion; 5] = [
        TreeQuestion::Pick,
        TreeQuestion::Wake,
        TreeQuestion::Sleep,
        TreeQuestion::Preempt,
        TreeQuestion::Tick,
    ];

    #[test]
    fn drawn_states_have_groups_and_delayed_ones() {
        let machine = Machine::load("smp-2").unwrap();
        for (version, delays) in [((6, 1), false), ((6, 12), true), ((7, 3), true)] {
            let kernel = Kernel::of(Version::new(version.0, version.1));
            let (facts, has) = (Facts::of(&kernel, &machine), tree::has(&kernel));
            for question in QUESTIONS {
                let drawn: Vec<AskedTree> =
                    (0..300).map(|i| state(Stream::new(1).number(i), &facts, has, question)).collect();
                assert!(drawn.iter().all(|s| is_whole(s, has, question)));
                let delayed = |s: &AskedTree| s.tasks.iter().any(|t| t.presence == Presence::Delayed);
                assert_eq!(drawn.iter().any(delayed), delays, "{version:?} {question:?}");
                let empty = |s: &AskedTree| s.groups.iter().any(|g| g.delayed);
                assert_eq!(drawn.iter().any(empty), delays && !has.flat, "{version:?} {question:?}");
                assert!(drawn.iter().any(|s| s.tasks.iter().any(|t| t.group == Some(4))));
            }
        }
    }
}
