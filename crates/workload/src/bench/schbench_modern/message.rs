//! Message threads: one kind answers workers that post it, the other sends requests by the clock.

use super::Pace;
use super::worker::Inbox;
use crate::bench::wake_list::{BLOCKED, Hub, NOBODY, Seat, post};
use crate::op::{Env, Op, Program};
use schedlab_base::{Ns, TaskId};

/// Starts one worker per call.
struct Starter {
    first: TaskId,
    workers: usize,
    started: usize,
}

impl Starter {
    fn next(&mut self) -> Option<Op> {
        if self.started == self.workers {
            return None;
        }
        self.started += 1;
        Some(Op::Spawn { task: TaskId(self.first.0 + self.started as u32 - 1) })
    }
}

enum State {
    /// About to take the list.
    Splice,
    /// Wakes the worker in the cell (number plus one).
    Walk(u64),
}

/// Wakes the workers on the list, then waits for a post.
pub struct Message {
    hub: Hub,
    seats: Vec<Seat>,
    start: Starter,
    state: State,
}

impl Message {
    pub fn new(hub: Hub, seats: Vec<Seat>, first: TaskId) -> Message {
        let start = Starter { first, workers: seats.len(), started: 0 };
        Message { hub, seats, start, state: State::Splice }
    }
}

impl Program for Message {
    fn next(&mut self, env: &mut dyn Env) -> Op {
        if let Some(spawn) = self.start.next() {
            return spawn;
        }
        loop {
            match self.state {
                State::Splice => self.state = State::Walk(self.hub.splice(&self.seats, env)),
                State::Walk(NOBODY) => {
                    self.state = State::Splice;
                    return Op::Wait { word: self.hub.word, value: BLOCKED, until: Ns::MAX };
                }
                State::Walk(cell) => {
                    let seat = &self.seats[cell as usize - 1];
                    self.state = State::Walk(seat.below(env));
                    if let Some(wake) = post(seat.word, env) {
                        return wake;
                    }
                }
            }
        }
    }
}

/// Sends due requests to its workers in turn.
pub struct Paced {
    pace: Pace,
    inboxes: Vec<Inbox>,
    start: Starter,
    sent: u64,
}

impl Paced {
    pub fn new(pace: Pace, inboxes: Vec<Inbox>, first: TaskId) -> Paced {
        let start = Starter { first, workers: inboxes.len(), started: 0 };
        Paced { pace, inboxes, start, sent: 0 }
    }
}

impl Program for Paced {
    fn next(&mut self, env: &mut dyn Env) -> Op {
        if let Some(spawn) = self.start.next() {
            return spawn;
        }
        loop {
            let (due, now) = (self.pace.due(self.sent), env.now());
            if now < due {
                return Op::SleepTo { at: due };
            }
            let inbox = &self.inboxes[(self.sent % self.inboxes.len() as u64) as usize];
            self.sent += 1;
            if let Some(wake) = inbox.put(now, env) {
                return wake;
            }
        }
    }
}
