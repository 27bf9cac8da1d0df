//! Shrinks a state as long as it shows a difference: fewer entities, fewer properties, rounder numbers.

use schedlab_board::decision::{AskedEntity, AskedQueue, QueueQuestion};
use schedlab_kernel::Policy;

/// Units for rounding times, the coarsest first, ns.
const UNITS_NS: [i64; 4] = [1_000_000, 100_000, 10_000, 1_000];
/// States that are simpler by one step, the largest steps first.
pub fn simpler(s: &AskedQueue, question: QueueQuestion) -> Vec<AskedQueue> {
    let mut all: Vec<AskedQueue> = (0..s.entities.len()).filter_map(|i| without(s, i, question)).collect();
    let mut change = |edit: &dyn Fn(&mut AskedQueue)| {
        let mut next = s.clone();
        edit(&mut next);
        if next != *s {
            all.push(next);
        }
    };
    change(&|s| s.next = None);
    change(&|s| s.last = None);
    change(&|s| s.skip = None);
    change(&|s| s.ran_ns = 0);
    change(&|s| s.is_new = false);
    change(&|s| s.sync = false);
    for i in 0..s.entities.len() {
        let edits: [&dyn Fn(&mut AskedEntity); 6] = [
            &|e| e.policy = Policy::Other,
            &|e| e.nice = 0,
            &|e| e.slice_ns = 0,
            &|e| e.lag = 0,
            &|e| e.relative = false,
            &|e| e.protected_until = e.vruntime,
        ];
        edits.iter().for_each(|edit| change(&|s| edit(&mut s.entities[i])));
    }
    let zero = s.min_vruntime;
    change(&|s| shift(s, -zero));
    for unit in UNITS_NS {
        let round = |t: i64| t.div_euclid(unit) * unit;
        change(&|s| s.ran_ns = round(s.ran_ns as i64) as u64);
        for i in 0..s.entities.len() {
            let edits: [&dyn Fn(&mut AskedEntity); 4] = [
                &|e| protection_follows(e, |e| e.vruntime = round(e.vruntime)),
                // A deadline stays after the vruntime.
                &|e| {
                    protection_follows(e, |e| {
                        e.deadline = round(e.deadline).max(e.deadline.min(e.vruntime + 1));
                    });
                },
                &|e| e.lag = round(e.lag),
                &|e| protection_follows(e, |e| e.protected_until = round(e.protected_until)),
            ];
            edits.iter().for_each(|edit| change(&|s| edit(&mut s.entities[i])));
        }
    }
    all
}

/// Changes an entity. Protection that ends with its deadline, or has not begun, stays so, since some kernels have no
/// other.
fn protection_follows(e: &mut AskedEntity, change: impl FnOnce(&mut AskedEntity)) {
    let (whole, none) = (e.protected_until == e.deadline, e.protected_until == e.vruntime);
    change(e);
    if whole {
        e.protected_until = e.deadline;
    } else if none {
        e.protected_until = e.vruntime;
    }
}

/// Moves all vruntimes.
fn shift(s: &mut AskedQueue, by: i64) {
    s.min_vruntime += by;
    for e in &mut s.entities {
        e.vruntime += by;
        e.protected_until += by;
        e.deadline += if e.relative { 0 } else { by };
    }
}

/// The state without an entity, if the question can do without it.
fn without(s: &AskedQueue, gone: usize, question: QueueQuestion) -> Option<AskedQueue> {
    let asked = question != QueueQuestion::Pick && s.about == gone;
    let needed = question == QueueQuestion::Preempt && s.current == Some(gone);
    if asked || needed || s.entities.len() == 1 {
        return None;
    }
    let moved = |at: usize| if at > gone { at - 1 } else { at };
    let named = |at: Option<usize>| at.filter(|at| *at != gone).map(moved);
    let mut next = s.clone();
    next.entities.remove(gone);
    (next.current, next.absent) = (named(s.current), named(s.absent));
    (next.next, next.last, next.skip) = (named(s.next), named(s.last), named(s.skip));
    next.about = moved(s.about).min(next.entities.len() - 1);
    Some(next)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::judge::rules::queue::Queue;
    use crate::judge::rules::queue::draw::Facts;
    use crate::judge::rules::subject::{Subject, shrink};
    use schedlab_base::Version;
    use schedlab_base::random::Stream;
    use schedlab_kernel::Kernel;
    use schedlab_machine::Machine;

    fn of(machine: &Machine, question: QueueQuestion) -> Queue<'_> {
        let rules = Kernel::of(Version::new(7, 3));
        Queue { machine, rules, facts: Facts::of(&rules, machine), question }
    }

    #[test]
    fn parts_that_a_difference_does_not_need_are_removed() {
        let machine = Machine::load("smp-2").unwrap();
        let of = of(&machine, QueueQuestion::Preempt);
        for seed in 0..50 {
            let s = shrink(&of, of.draw(Stream::new(seed)), &mut |_| true);
            assert_eq!((s.entities.len(), s.min_vruntime, s.ran_ns), (2, 0, 0), "{s:?}");
            assert!(s.current.is_some_and(|c| c != s.about), "{s:?}");
            assert!(s.entities.iter().all(|e| e.nice == 0 && e.slice_ns == 0 && e.policy == Policy::Other));
        }
    }

    #[test]
    fn parts_that_a_difference_needs_stay() {
        let two_idle = |s: &AskedQueue| s.entities.iter().filter(|e| e.policy == Policy::Idle).count() >= 2;
        let machine = Machine::load("smp-2").unwrap();
        let of = of(&machine, QueueQuestion::Pick);
        let found = (0..500).map(|seed| of.draw(Stream::new(seed))).find(two_idle).unwrap();
        let s = shrink(&of, found, &mut |s| two_idle(s));
        assert_eq!(s.entities.len(), 2, "{s:?}");
        assert!(two_idle(&s));
    }
}
