//! The subjects of a specimen: some of six, so that a workload that differs has few possible causes.

use super::space::Words;
use super::specimen::{Cpus, Dice, NICE, Policy, Rest, Specimen, TaskKind, Then};

/// A part of the scheduler that a specimen uses.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Subject {
    /// Groups in groups, weights, idle groups, sessions.
    Groups,
    Quotas,
    RealTime,
    /// Affinity of most kinds.
    Masks,
    /// Attributes, groups and CPUs that change.
    Changes,
    /// Tasks that are forked, with exec and without.
    Forks,
}

const SUBJECTS: [Subject; 6] =
    [Subject::Groups, Subject::Quotas, Subject::RealTime, Subject::Masks, Subject::Changes, Subject::Forks];
/// How many subjects a specimen has.
const MANY: &[u64] = &[0, 1, 1, 1, 1, 2, 2, 3];
/// Priorities of real-time tasks.
const PRIORITIES: &[u8] = &[1, 10, 10, 50, 99];

/// Adds some subjects to a specimen.
pub fn widen(specimen: &mut Specimen, dice: Dice, cpus: u32, words: Words) {
    let many = dice.pick("subjects", MANY);
    let drawn: Vec<Subject> = (0..many).map(|i| dice.number(i).pick("subject", &SUBJECTS)).collect();
    // Quotas and changes look at the existing groups.
    for subject in SUBJECTS.into_iter().filter(|subject| drawn.contains(subject)) {
        let dice = dice.of(&format!("{subject:?}"));
        match subject {
            Subject::Groups => {
                specimen.around.draw_groups(dice, words);
                into_groups(specimen, dice);
            }
            Subject::Quotas if words.quotas => {
                specimen.around.draw_quotas(dice, cpus, words);
                into_groups(specimen, dice);
            }
            Subject::Quotas => {}
            Subject::RealTime => each(specimen, dice, 45, real_time),
            Subject::Masks => {
                each(specimen, dice, 70, |kind, dice| kind.cpus = dice.pick("some", Cpus::SOME))
            }
            Subject::Changes => {
                each(specimen, dice, 40, |kind, dice| kind.then = Some(then(dice)));
                specimen.around.draw_changes(dice, specimen.kinds.len(), cpus, words);
            }
            Subject::Forks => {
                let last = specimen.kinds.len();
                each(specimen, dice, 60, |kind, dice| kind.forked_by = Some(dice.below("by", last)));
                specimen.around.draw_forks(dice, cpus);
            }
        }
    }
}

/// Changes some of the kinds, each with that probability, per cent.
fn each(specimen: &mut Specimen, dice: Dice, pct: usize, change: impl Fn(&mut TaskKind, Dice)) {
    for (i, kind) in specimen.kinds.iter_mut().enumerate() {
        let dice = dice.of("kind").number(i as u64);
        if dice.chance("is", pct) {
            change(kind, dice);
        }
    }
}

/// Most kinds are in one of the groups.
fn into_groups(specimen: &mut Specimen, dice: Dice) {
    let groups = specimen.around.groups.len();
    each(specimen, dice, 80, |kind, dice| kind.group = Some(dice.below("group", groups) as u8));
}

fn real_time(kind: &mut TaskKind, dice: Dice) {
    let priority = dice.pick("priority", PRIORITIES);
    kind.policy = if dice.chance("fifo", 60) { Policy::Fifo(priority) } else { Policy::Rr(priority) };
    // A task that never rests leaves no time to the others.
    if kind.rest == Rest::None && dice.chance("rests", 75) {
        kind.rest = Rest::Sleep(kind.run_us);
    }
}

fn then(dice: Dice) -> Then {
    let priority = dice.pick("priority", PRIORITIES);
    let policies = [
        Policy::Other,
        Policy::Other,
        Policy::Other,
        Policy::Batch,
        Policy::Idle,
        Policy::Fifo(priority),
        Policy::Rr(priority),
    ];
    Then {
        runs: dice.pick("runs", &[1, 3, 10]),
        policy: dice.pick("policy", &policies),
        nice: dice.pick("nice", NICE),
        cpus: if dice.chance("moves", 40) { dice.pick("cpus", Cpus::SOME) } else { Cpus::All },
    }
}
