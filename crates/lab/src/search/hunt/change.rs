//! Changes of specimens by keyed draws: mutation of one, and crossing of two.

use super::space::Space;
use super::specimen::{Dice, Rest, Specimen, TaskKind};

/// A specimen with one to three changes.
pub fn mutated(of: &Specimen, dice: Dice, space: &Space) -> Specimen {
    let mut changed = of.clone();
    for turn in 0..dice.pick("changes", &[1, 1, 1, 2, 2, 3]) {
        change(&mut changed, dice.of("change").number(turn), space);
    }
    changed.mended(space)
}

fn change(specimen: &mut Specimen, dice: Dice, space: &Space) {
    let cpus = space.cpus(specimen.machine);
    let fresh = TaskKind::draw(dice.of("fresh"), cpus, space.groups);
    let at = dice.below("kind", specimen.kinds.len());
    match dice.below("what", 20) {
        0 => specimen.machine = dice.below("machine", space.machines.len()),
        1 | 2 => specimen.kinds.push(fresh),
        3 if specimen.kinds.len() > 1 => *specimen = specimen.without(at),
        what => of_kind(&mut specimen.kinds[at], fresh, what, dice),
    }
}

/// Changes one attribute of a kind; most come from a freshly drawn one.
fn of_kind(kind: &mut TaskKind, fresh: TaskKind, what: usize, dice: Dice) {
    let scaled = |us: u32| (u64::from(us) * dice.pick("scale", &[50, 70, 140, 200]) / 100).max(10) as u32;
    match what {
        4 | 5 => kind.count = fresh.count,
        6 => kind.count = (kind.count + 2 * dice.pick("more", &[0, 1])).saturating_sub(1).max(1),
        7 => kind.run_us = fresh.run_us,
        8 | 9 => kind.run_us = scaled(kind.run_us),
        10 | 11 => {
            kind.rest = match kind.rest {
                Rest::None => fresh.rest,
                Rest::Sleep(us) => Rest::Sleep(scaled(us)),
                Rest::Timer(us) => Rest::Timer(scaled(us)),
            }
        }
        12 => (kind.rest, kind.woken_by) = (fresh.rest, None),
        13 => kind.locked_us = fresh.locked_us,
        14 => kind.woken_by = fresh.woken_by,
        15 => kind.meets = !kind.meets,
        16 => kind.nice = fresh.nice,
        17 => kind.policy = fresh.policy,
        18 => kind.cpus = fresh.cpus,
        _ => kind.group = fresh.group,
    }
}

/// Kinds of both specimens, on the machine of the first.
pub fn crossed(one: &Specimen, other: &Specimen, dice: Dice, space: &Space) -> Specimen {
    let mut kinds: Vec<TaskKind> = Vec::new();
    for (n, kind) in one.kinds.iter().chain(&other.kinds).enumerate() {
        if dice.number(n as u64).chance("kept", 60) {
            kinds.push(kind.clone());
        }
    }
    if kinds.is_empty() {
        kinds.clone_from(&other.kinds);
    }
    Specimen { machine: one.machine, kinds, around: one.around.clone() }.mended(space)
}
