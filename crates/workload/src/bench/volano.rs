//! Chat rooms: each user's message goes to all users of the room, over pairs of threads at both ends of each
//! connection. The role of VolanoMark.
//!
//! As in the original: a user is a connection with four tasks, because calls block: the client's sender and receiver,
//! and the server's reader and writer. The server hands a message to the writers of all users in the room, under the
//! room's lock. So one message makes as many deliveries as the room has users, and one wakeup can lead to many.
//! Differences: a user sends the next message after receiving a complete round, one message from each user; the
//! original's users do not wait. Clients and server are not Java; CPU times stand for the work per message. A room's
//! rounds are exact, because the lock orders its messages.
//!
//! The clients' tasks share words with each other, and so do the server's, but the two sides share only the
//! connections.

use super::draws::Draws;
use super::inbox::{Inbox, Intake};
use super::mutex::Mutex;
use super::params::{SECOND, in_mode, mode, runtime, warmup};
use super::wake_list::{BLOCKED, post};
use crate::build::{Builder, ChannelKind, MAX_TASKS};
use crate::op::{Env, Op, PortId, Program, SeriesId, SlotId, WordId};
use crate::param::{Benchmark, Choice, Param, Params};
use schedlab_base::{Error, Ns, Result};
use std::sync::Arc;
use std::sync::atomic::Ordering::SeqCst;

pub const VOLANO: Benchmark = Benchmark {
    name: "volano",
    about: "chat rooms, every message fanned out to all users over pairs of threads (VolanoMark)",
    params: PARAMS,
    headline: &["volano.rate", "volano.latency.p50", "volano.latency.p99"],
    own: &["volano.rate", "volano.latency.p99"],
    load_param: "rooms",
    brief: &[("runtime", "200ms"), ("users", "10")],
    brief_loads: ["1", "{cpus+1}"],
    form_of: None,
    build,
};

const PARAMS: &[Param] = &[
    Param::count("rooms", None, 10, (1, 10_000), "rooms"),
    Param::count("users", None, 20, (1, 10_000), "users of a room, each with a connection and four tasks"),
    Param::count("size", None, 100, (1, 1 << 16), "bytes of a message"),
    Param::time("read_work", None, "us", 5_000, (0, SECOND), "mean CPU time of the server to take a message"),
    Param::time("write_work", None, "us", 3_000, (0, SECOND), "mean CPU time of the server for a delivery"),
    Param::time("client_work", None, "us", 3_000, (0, SECOND), "mean CPU time of a client for a delivery"),
    Param::time(
        "think",
        None,
        "ms",
        0,
        (0, 60 * SECOND),
        "time from the end of a round to a user's next message",
    ),
    runtime(Some('r'), 10 * SECOND),
    warmup(None),
    mode(&[Choice::word("process"), Choice::word("thread")]),
];

/// Tasks per user.
const TASKS: usize = 4;

fn build(params: &Params, b: &mut Builder) -> Result<()> {
    b.client_side(&["sender", "receiver"]);
    let (rooms, users) = (params.count("rooms")?, params.count("users")?);
    if rooms * users * TASKS > MAX_TASKS {
        let text = format!("rooms = {rooms} with users = {users} makes {} tasks", rooms * users * TASKS);
        return Err(Error::input(text).help(format!("at most {MAX_TASKS} are possible: lower one of them")));
    }
    let bytes = params.get("size")? as u32;
    let latency = b.series("volano.latency", "ns", "lower");
    let delivered = b.series("volano.delivered", "", "neither");
    let work = |name: &str, b: &Builder, user: usize| -> Result<Draws> {
        Ok(Draws::new(params.time(name)?, b.stream(&format!("volano.{name}"), user as u64)))
    };
    let (mut clients, mut servers) = (Vec::new(), Vec::new());
    for room in 0..rooms {
        let lock = b.word();
        let outboxes: Arc<[Inbox]> = (0..users).map(|_| Inbox::new(b)).collect();
        for (seat, outbox) in outboxes.iter().enumerate() {
            let user = room * users + seat;
            let (near, far) = b.link(ChannelKind::Tcp);
            let round = Round { over: b.word(), sent: b.slot() };
            let sender =
                Sender { port: near, bytes, round, think: params.time("think")?, state: Sending::Think };
            let receiver = Receiver {
                port: near,
                bytes,
                round,
                work: work("client_work", b, user)?,
                users: users as u64,
                came: 0,
                state: Receiving::Listen,
                latency,
                delivered,
            };
            let reader = Reader {
                port: far,
                bytes,
                work: work("read_work", b, user)?,
                lock: Mutex::new(lock),
                room: outboxes.clone(),
                state: Reading::Listen,
            };
            let writer = Writer {
                port: far,
                bytes,
                work: work("write_work", b, user)?,
                outbox: Intake::new(outbox.clone()),
                writes: false,
            };
            clients.push((user, sender, receiver));
            servers.push((user, reader, writer));
        }
    }
    for (user, sender, receiver) in clients {
        b.task(format!("sender/{user}"), Box::new(sender))?;
        b.task(format!("receiver/{user}"), Box::new(receiver))?;
    }
    for (user, reader, writer) in servers {
        b.task(format!("reader/{user}"), Box::new(reader))?;
        b.task(format!("writer/{user}"), Box::new(writer))?;
    }
    in_mode(params, b)?;
    b.lasts(params.time("runtime")?, params.time("warmup")?);
    Ok(())
}

#[derive(Clone, Copy)]
struct Round {
    /// Posted at the end of the round. The sender waits on it.
    over: WordId,
    /// Time of the sender's message, ns.
    sent: SlotId,
}

enum Sending {
    Think,
    Send,
    Sent,
}

struct Sender {
    port: PortId,
    bytes: u32,
    round: Round,
    think: Ns,
    state: Sending,
}

impl Program for Sender {
    fn next(&mut self, env: &mut dyn Env) -> Op {
        loop {
            match self.state {
                Sending::Think => {
                    self.state = Sending::Send;
                    if self.think > Ns::ZERO {
                        return Op::Sleep { length: self.think };
                    }
                }
                Sending::Send => {
                    // The round can't end before this message was delivered.
                    env.word(self.round.over).store(BLOCKED, SeqCst);
                    let now = env.now();
                    env.slot(self.round.sent).store(now.0, SeqCst);
                    self.state = Sending::Sent;
                    return Op::Send { port: self.port, bytes: self.bytes };
                }
                Sending::Sent if env.word(self.round.over).load(SeqCst) == BLOCKED => {
                    return Op::Wait { word: self.round.over, value: BLOCKED, until: Ns::MAX };
                }
                Sending::Sent => self.state = Sending::Think,
            }
        }
    }
}

enum Receiving {
    Listen,
    Work,
    Count,
}

struct Receiver {
    port: PortId,
    bytes: u32,
    round: Round,
    work: Draws,
    users: u64,
    /// Messages received in this round.
    came: u64,
    state: Receiving,
    latency: SeriesId,
    delivered: SeriesId,
}

impl Receiver {
    /// Counts a message; after the last of a round, returns a wake of the sender.
    fn count(&mut self, env: &mut dyn Env) -> Option<Op> {
        self.came += 1;
        if self.came < self.users {
            return None;
        }
        self.came = 0;
        let (now, sent) = (env.now(), Ns(env.slot(self.round.sent).load(SeqCst)));
        env.record(self.latency, now.since(sent).0);
        env.record(self.delivered, self.users);
        post(self.round.over, env)
    }
}

impl Program for Receiver {
    fn next(&mut self, env: &mut dyn Env) -> Op {
        loop {
            match self.state {
                Receiving::Listen => {
                    self.state = Receiving::Work;
                    return Op::Recv { port: self.port, bytes: self.bytes };
                }
                Receiving::Work => {
                    self.state = Receiving::Count;
                    return Op::Run { work: self.work.next() };
                }
                Receiving::Count => {
                    self.state = Receiving::Listen;
                    if let Some(wake) = self.count(env) {
                        return wake;
                    }
                }
            }
        }
    }
}

enum Reading {
    Listen,
    Work,
    /// Take the room's lock.
    Lock,
    /// Hand the message to this user and all later ones.
    Hand(usize),
}

/// The server's task that reads a user's messages and hands them to all writers of the room.
struct Reader {
    port: PortId,
    bytes: u32,
    work: Draws,
    lock: Mutex,
    room: Arc<[Inbox]>,
    state: Reading,
}

impl Program for Reader {
    fn next(&mut self, env: &mut dyn Env) -> Op {
        loop {
            match self.state {
                Reading::Listen => {
                    self.state = Reading::Work;
                    return Op::Recv { port: self.port, bytes: self.bytes };
                }
                Reading::Work => {
                    self.state = Reading::Lock;
                    return Op::Run { work: self.work.next() };
                }
                Reading::Lock => match self.lock.take(env) {
                    Some(wait) => return wait,
                    None => self.state = Reading::Hand(0),
                },
                Reading::Hand(user) if user < self.room.len() => {
                    self.state = Reading::Hand(user + 1);
                    if let Some(wake) = self.room[user].put(env) {
                        return wake;
                    }
                }
                Reading::Hand(_) => {
                    self.state = Reading::Listen;
                    if let Some(wake) = self.lock.release(env) {
                        return wake;
                    }
                }
            }
        }
    }
}

/// The server's task that writes messages to a user.
struct Writer {
    port: PortId,
    bytes: u32,
    work: Draws,
    outbox: Intake,
    /// Whether the message was processed.
    writes: bool,
}

impl Program for Writer {
    fn next(&mut self, env: &mut dyn Env) -> Op {
        if self.writes {
            self.writes = false;
            return Op::Send { port: self.port, bytes: self.bytes };
        }
        if let Some(wait) = self.outbox.take(env) {
            return wait;
        }
        self.writes = true;
        Op::Run { work: self.work.next() }
    }
}

#[cfg(test)]
#[path = "volano_tests.rs"]
mod tests;
