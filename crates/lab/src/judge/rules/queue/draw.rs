//! Random states: queues near those that occur, with ties, buddies, policies and custom slices.

use crate::judge::rules::dice::Dice;
use schedlab_base::random::Stream;
use schedlab_board::decision::{AskedEntity, AskedQueue, QueueQuestion};
use schedlab_kernel::{Kernel, Policy};
use schedlab_machine::Machine;
use schedlab_sim::fair::oracle::queue;

/// Distances of vruntimes, ns: from ties to a long wait.
const SPREADS_NS: [u64; 5] = [1, 1_000, 300_000, 3_000_000, 30_000_000];
/// Slices that tasks ask for, ns.
const SLICES_NS: [u32; 5] = [100_000, 400_000, 1_000_000, 3_000_000, 50_000_000];
/// The weight of nice 0.
const NICE_0: u64 = 1024;

/// The facts that all states of a kernel share.
#[derive(Clone, Debug)]
pub struct Facts {
    pub deadlines: bool,
    pub own_slices: bool,
    /// Protection ends at a time of its own, not only with the deadline.
    pub protects_until: bool,
    pub base_slice_ns: u64,
    kernel: Kernel,
}

impl Facts {
    pub fn of(kernel: &Kernel, machine: &Machine) -> Facts {
        let history = schedlab_kernel::History::of(kernel.version);
        Facts {
            deadlines: queue::has_deadlines(kernel),
            own_slices: history.custom_slices,
            protects_until: history.protects_shortest,
            base_slice_ns: queue::base_slice_ns(kernel, machine),
            kernel: *kernel,
        }
    }
    /// An entity's weight.
    pub fn weight(&self, e: &AskedEntity) -> u64 {
        let attr = schedlab_kernel::Attr { policy: e.policy, nice: e.nice, ..Default::default() };
        attr.weight(&schedlab_kernel::History::of(self.kernel.version))
    }
    /// An entity's virtual time for a real time.
    pub fn virtual_ns(&self, ns: u64, e: &AskedEntity) -> i64 {
        (u128::from(ns) * u128::from(NICE_0) / u128::from(self.weight(e))) as i64
    }
    /// An entity's slice, ns.
    pub fn slice_ns(&self, e: &AskedEntity) -> u64 {
        if e.slice_ns > 0 { e.slice_ns.into() } else { self.base_slice_ns }
    }
}

/// An entity with only a policy and a nice value.
pub fn bearer(policy: Policy, nice: i8) -> AskedEntity {
    let (vruntime, deadline, lag, protected_until, slice_ns, relative) = (0, 0, 0, 0, 0, false);
    AskedEntity { vruntime, deadline, lag, protected_until, slice_ns, policy, nice, relative }
}

/// The state of this stream.
pub fn state(stream: Stream, facts: &Facts, question: QueueQuestion) -> AskedQueue {
    let dice = &mut Dice::new(stream);
    let least = if question == QueueQuestion::Preempt { 2 } else { 1 };
    let nr = (least + dice.below(4) + dice.below(4)) as usize;
    let min_vruntime = dice.between(0, 5_000_000_000);
    let spread = dice.one_of(&SPREADS_NS) as i64;
    let entities: Vec<AskedEntity> = (0..nr).map(|_| entity(dice, facts, min_vruntime, spread)).collect();
    let mut s = AskedQueue {
        entities,
        current: None,
        absent: None,
        next: None,
        last: None,
        skip: None,
        min_vruntime,
        ran_ns: if dice.percent(60) { dice.below(4_000_000) } else { 0 },
        about: dice.below(nr as u64) as usize,
        is_new: dice.percent(20),
        sync: dice.percent(20),
    };
    s.absent = (question == QueueQuestion::Place).then_some(s.about);
    let others: Vec<usize> = (0..nr).filter(|i| question == QueueQuestion::Pick || *i != s.about).collect();
    let runs = question == QueueQuestion::Preempt || dice.percent(75);
    s.current = (runs && !others.is_empty()).then(|| dice.one_of(&others));
    buddies(dice, facts, &mut s);
    s.is_new &= question == QueueQuestion::Preempt || question == QueueQuestion::Place && facts.deadlines;
    s.sync &= question == QueueQuestion::Preempt && !s.is_new;
    for (i, e) in s.entities.iter_mut().enumerate() {
        if Some(i) != s.absent {
            (e.lag, e.relative) = (0, false);
        } else if e.relative {
            e.deadline -= e.vruntime;
        }
    }
    s
}

fn entity(dice: &mut Dice, facts: &Facts, min_vruntime: i64, spread: i64) -> AskedEntity {
    let policy = dice.one_of(&[&[Policy::Other; 8][..], &[Policy::Batch, Policy::Idle]].concat());
    let nice = if policy == Policy::Idle || dice.percent(50) { 0 } else { dice.between(-20, 19) as i8 };
    let own = facts.own_slices && dice.percent(30);
    let slice_ns = if own { dice.one_of(&SLICES_NS) } else { 0 };
    let vruntime = min_vruntime + dice.between(-spread, spread);
    let mut e = AskedEntity {
        vruntime,
        deadline: 0,
        lag: 0,
        protected_until: 0,
        slice_ns,
        policy,
        nice,
        relative: false,
    };
    if facts.deadlines {
        let slice = facts.virtual_ns(facts.slice_ns(&e), &e).max(1);
        e.deadline = vruntime + dice.between(1, slice);
        e.lag = dice.between(-2 * slice, 2 * slice);
        e.relative = facts.own_slices && dice.percent(25);
        e.protected_until = match dice.below(3) {
            0 => e.deadline,
            1 if facts.protects_until => dice.between(vruntime, e.deadline),
            _ => vruntime,
        };
    }
    e
}

/// A buddy waits and is not SCHED_IDLE; an entity that yielded may still run.
fn buddies(dice: &mut Dice, facts: &Facts, s: &mut AskedQueue) {
    let waits =
        |i: &usize| Some(*i) != s.current && Some(*i) != s.absent && s.entities[*i].policy != Policy::Idle;
    let waiting: Vec<usize> = (0..s.entities.len()).filter(waits).collect();
    if waiting.is_empty() {
        return;
    }
    let mut named = |chance| dice.percent(chance).then(|| dice.one_of(&waiting));
    s.next = named(20);
    if !facts.deadlines {
        (s.last, s.skip) = (named(20), named(10));
        s.skip = if dice.percent(10) { s.current } else { s.skip };
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use schedlab_base::Version;

    #[test]
    fn drawn_states_are_whole() {
        let machine = Machine::load("smp-2").unwrap();
        for version in [Version::new(6, 1), Version::new(6, 12), Version::new(7, 3)] {
            let facts = Facts::of(&Kernel::of(version), &machine);
            for question in [QueueQuestion::Pick, QueueQuestion::Place, QueueQuestion::Preempt] {
                let drawn = (0..500).map(|i| state(Stream::new(1).number(i), &facts, question));
                for s in drawn {
                    assert!(s.entities.len() <= 9 && s.about < s.entities.len(), "{s:?}");
                    assert!(s.next.is_none_or(|n| Some(n) != s.current && Some(n) != s.absent), "{s:?}");
                    assert_eq!(s.absent.is_some(), question == QueueQuestion::Place);
                    if question == QueueQuestion::Preempt {
                        assert!(s.current.is_some_and(|c| c != s.about), "{s:?}");
                    }
                }
            }
        }
        let facts = Facts::of(&Kernel::of(Version::new(6, 1)), &machine);
        assert!(!facts.deadlines && !facts.own_slices);
    }
}
