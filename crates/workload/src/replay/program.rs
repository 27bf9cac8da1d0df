//! The program of one task in a schedule.
//!
//! Its futex word counts unused tokens from other tasks. A giver adds one, and makes a system call only if the task
//! waits; the task takes one when it needs one, or waits. Live and simulated programs are the same.

use super::schedule::{Part, Prices, Start, Step};
use crate::op::{Env, Op, Program, WordId};
use schedlab_base::{Ns, TaskId};
use std::sync::Arc;
use std::sync::atomic::Ordering::SeqCst;

/// A task's futex words: its tokens, and whether it waits.
#[derive(Clone, Copy)]
pub struct Word {
    /// Number of unused tokens.
    pub tokens: WordId,
    /// 1 while the task waits, or is about to.
    pub waits: WordId,
}

/// A task's position in its steps.
pub struct Replay {
    steps: Vec<Step>,
    at: usize,
    own: usize,
    first: usize,
    words: Arc<[Word]>,
    prices: Prices,
    /// Prices not yet taken off a burst, ns.
    debt_ns: u64,
    /// When it begins; `None`: at once.
    begins: Option<Ns>,
}

impl Replay {
    /// The program of part `own`; `words` has the futex words of all parts.
    pub fn new(part: &Part, own: usize, first: usize, words: Arc<[Word]>, prices: Prices) -> Replay {
        let begins = match part.start {
            Start::At(at) if at > Ns::ZERO => Some(at),
            Start::At(_) | Start::By(_) => None,
        };
        Replay { steps: part.steps.clone(), at: 0, own, first, words, prices, debt_ns: 0, begins }
    }
    /// The rest of a burst after the debt is paid from it.
    fn pay(&mut self, burst: Ns) -> Ns {
        let paid = self.debt_ns.min(burst.0);
        self.debt_ns -= paid;
        Ns(burst.0 - paid)
    }
}

impl Program for Replay {
    fn next(&mut self, env: &mut dyn Env) -> Op {
        if let Some(at) = self.begins.take() {
            return Op::SleepTo { at };
        }
        while let Some(step) = self.steps.get(self.at).copied() {
            match step {
                Step::Await | Step::Need => {
                    let Word { tokens, waits } = self.words[self.own];
                    // Set before the last check: a giver that still reads 0 has given before that check.
                    env.word(waits).store(1, SeqCst);
                    let came = env.word(tokens).fetch_update(SeqCst, SeqCst, |n| n.checked_sub(1)).is_ok();
                    if !came {
                        return Op::Wait { word: tokens, value: 0, until: Ns::MAX };
                    }
                    env.word(waits).store(0, SeqCst);
                    if step == Step::Await {
                        self.debt_ns += self.prices.sleep_ns;
                    }
                    self.at += 1;
                }
                Step::Run(burst) => {
                    self.at += 1;
                    let work = self.pay(burst);
                    if work > Ns::ZERO {
                        return Op::Run { work };
                    }
                }
                Step::Wake(task) | Step::Give(task) => {
                    self.at += 1;
                    if step == Step::Wake(task) {
                        self.debt_ns += self.prices.wake_ns;
                    }
                    let Word { tokens, waits } = self.words[task];
                    env.word(tokens).fetch_add(1, SeqCst);
                    // Only one of the givers makes the system call.
                    if env.word(waits).swap(0, SeqCst) == 1 {
                        return Op::Wake { word: tokens, count: 1 };
                    }
                }
                Step::Sleep(length) => {
                    self.at += 1;
                    self.debt_ns += self.prices.sleep_ns;
                    return Op::Sleep { length };
                }
                Step::Start(task) => {
                    self.at += 1;
                    return Op::Spawn { task: TaskId::from(self.first + task) };
                }
            }
        }
        Op::Exit
    }
}
