//! The pool on the rig: no connection has two borrowers, and all tasks continue.

use super::*;
use crate::op::{Outcome, Program};
use crate::rig::{Costs, Log, run};
use std::sync::atomic::AtomicU64;

/// Borrows, waits, returns. The cell of its connection shows whether another task has it, too.
struct Borrower {
    loan: Loan,
    holders: Arc<[SlotId]>,
    hold: Ns,
    phase: u8,
}

impl Program for Borrower {
    fn next(&mut self, env: &mut dyn Env) -> Op {
        let _: Outcome = env.outcome();
        loop {
            match self.phase {
                0 => match self.loan.borrow(env) {
                    Some(op) => return op,
                    None => {
                        let held: &AtomicU64 = env.slot(self.holders[self.loan.connection()]);
                        assert_eq!(held.swap(1, SeqCst), 0, "lent twice");
                        self.phase = 1;
                        return Op::Run { work: self.hold };
                    }
                },
                1 => {
                    env.slot(self.holders[self.loan.connection()]).store(0, SeqCst);
                    self.phase = 2;
                }
                _ => match self.loan.give_back(env) {
                    Some(op) => return op,
                    None => self.phase = 0,
                },
            }
        }
    }
}

fn borrow(tasks: usize, connections: usize) -> Log {
    let mut b = Builder::new(1);
    let pool = Pool::new(connections, &mut b);
    let holders: Arc<[SlotId]> = (0..connections).map(|_| b.slot()).collect();
    for t in 0..tasks {
        let hold = Ns::us(10 + 3 * t as u64);
        let program = Borrower { loan: pool.loan(), holders: holders.clone(), hold, phase: 0 };
        b.task(format!("t{t}"), Box::new(program)).unwrap();
    }
    b.lasts(Ns::ms(20), Ns::ZERO);
    run(b.finish().unwrap(), Costs { op: Ns(300), wakeup: Ns::us(2), slack: Ns::ZERO })
}

#[test]
fn connections_are_lent_to_one_at_a_time_and_none_is_lost() {
    for (tasks, connections) in [(1, 1), (7, 3), (20, 2), (5, 8)] {
        let log = borrow(tasks, connections);
        for t in 0..tasks {
            let last = log.steps_of(&format!("t{t}")).last().unwrap().at;
            assert!(last > Ns::ms(18), "{tasks} and {connections}: task {t} stops at {last}");
        }
        let held: usize =
            (0..tasks).map(|t| log.times(&format!("t{t}"), |op| matches!(op, Op::Run { .. })).len()).sum();
        let possible = tasks.min(connections) * 20_000 / (10 + 3 * tasks);
        assert!(held > possible / 2, "{tasks} and {connections}: {held} of {possible}");
    }
}

#[test]
fn without_contention_the_same_connection_comes_back() {
    let log = borrow(2, 5);
    assert!(log.waits.is_empty() || log.waits.len() < 50, "{}", log.waits.len());
}
