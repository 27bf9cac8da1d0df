//! The mutex: one holder at a time, no endless sleep, no call without contention.

use super::Mutex;
use crate::build::Builder;
use crate::op::{Env, Op, Program, SlotId, WordId};
use crate::rig::{Costs, Log, run};
use proptest::prelude::*;
use schedlab_base::Ns;
use std::sync::atomic::Ordering::SeqCst;

/// Takes the mutex this many times; works while holding it, rests otherwise.
struct Taker {
    lock: Mutex,
    inside: SlotId,
    work: Ns,
    rest: Ns,
    left: u32,
    holds: bool,
    resting: bool,
}

impl Program for Taker {
    fn next(&mut self, env: &mut dyn Env) -> Op {
        if self.holds {
            assert_eq!(env.slot(self.inside).fetch_sub(1, SeqCst), 1);
            (self.holds, self.left, self.resting) = (false, self.left - 1, true);
            if let Some(wake) = self.lock.release(env) {
                return wake;
            }
        }
        if self.resting {
            self.resting = false;
            return Op::Run { work: self.rest };
        }
        if self.left == 0 {
            return Op::Exit;
        }
        if let Some(wait) = self.lock.take(env) {
            return wait;
        }
        assert_eq!(env.slot(self.inside).fetch_add(1, SeqCst), 0, "two hold it");
        self.holds = true;
        Op::Run { work: self.work }
    }
}

fn takers(each: &[(u64, u64)], times: u32, op: Ns) -> Log {
    let mut b = Builder::new(1);
    let (word, inside): (WordId, SlotId) = (b.word(), b.slot());
    for (n, (work, rest)) in each.iter().enumerate() {
        let (lock, work, rest) = (Mutex::new(word), Ns(*work), Ns(*rest));
        let taker = Taker { lock, inside, work, rest, left: times, holds: false, resting: false };
        b.task(format!("t{n}"), Box::new(taker)).unwrap();
    }
    b.lasts(Ns::secs(100), Ns::ZERO);
    run(b.finish().unwrap(), Costs { op, wakeup: Ns(700), slack: Ns::ZERO })
}

#[test]
fn without_contention_there_is_no_call() {
    let log = takers(&[(1_000, 500)], 50, Ns(10));
    assert!(log.steps.iter().all(|s| !matches!(s.op, Op::Wait { .. } | Op::Wake { .. })));
}

proptest! {
    #[test]
    fn one_holds_it_and_all_get_it(each in prop::collection::vec((0u64..5_000, 0u64..5_000), 2..6), op in 1u64..900) {
        let log = takers(&each, 40, Ns(op));
        prop_assert_eq!((log.left.len(), log.stuck.len()), (each.len(), 0));
    }
}
