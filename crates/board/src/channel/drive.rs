//! Reads and writes of channels through time: calls, copies, the lock, sleeping, and waking the other side; also
//! waiting for several ends.
//!
//! A call takes the syscall entry and the kind's own price, then the copy of the bytes that are there or that fit. At
//! the end of the copy the bytes change hands, and the calling task wakes the sleepers at the other end. Only then does
//! the call continue, sleep or return. A writer stays in one call until all its bytes are in. A reader's call returns
//! with the bytes that were there; the missing ones need a further call. All these wakeups are WF_SYNC (the waker is
//! about to sleep), except those of TCP writers.
//!
//! A machine may state how long a call holds its channel's lock (`pipe_lock_ns`, with the copy; `unix_lock_ns`,
//! without); where code is counted, a table does ([`schedlab_machine::calls`]). Then others wait for it
//! ([`super::lock`]). A waiter with a processor of its own spins; on CPUs that take turns, a spinner's turn ends. On
//! such CPUs a lock is often kept for a whole round of turns, since a call spends much of its time in it. Nobody waits
//! for the locks of TCP and UDP. Where a socket's messages are locked, its sleepers are, too: who wakes one holds their
//! lock until it is woken, and others that write to the socket meanwhile wait for that.
//!
//! Where lines have owners, a call also takes what the lines of its channel cost ([`crate::objects`]): those under the
//! lock while it is held. A pipe's mutex is one of them: its line comes before it is taken, and again before it is
//! released, behind all stores, if others have asked for it meanwhile (`kernel/locking/mutex.c`, 7.3.4).

use super::exchange::Put;
use super::lock::POLL_NS;
use super::state::Transfer;
use crate::board::{Board, Context, Kernel};
use crate::calls::{Call, Calls};
use crate::links::Links;
use crate::net::Packet;
use crate::objects::table::When;
use crate::objects::{InPipe, Touches};
use crate::thread::UserOp;
use schedlab_base::{CpuId, Error, TaskId};
use schedlab_workload::{ChannelKind, Outcome, PortId, SetId};

/// The longest that a task waits for a lock before it looks by itself, ns. The one that releases it is earlier.
const LONG_NS: u64 = 1_000_000;

/// The calls on channels.
pub trait Transfers<'s>: Kernel<'s> {
    /// The current task writes to or reads from `port`.
    fn begin_transfer(&mut self, cpu: CpuId, curr: TaskId, port: PortId, sends: bool, bytes: u32) {
        match self.board().channels.begin(port, sends, bytes) {
            Ok(transfer) => self.call_for(cpu, curr, transfer),
            Err(what) => {
                let text = format!("task '{}' {what}", self.board().threads[curr].name);
                self.fail(Error::input(text));
            }
        }
    }

    /// A system call for the bytes that are left.
    fn call_for(&mut self, cpu: CpuId, curr: TaskId, t: Transfer) {
        let board = self.board();
        let entry_ns = board.channels.entry_ns(&board.machine.costs, t);
        self.copy(cpu, curr, Transfer { opens: true, returned: false, slept: false, ..t }, entry_ns);
    }

    /// Copies the bytes that are there or that fit, after `entry_ns`.
    fn copy(&mut self, cpu: CpuId, curr: TaskId, mut t: Transfer, entry_ns: u64) {
        let (channels, was_asleep) = (&self.board().channels, std::mem::take(&mut t.back));
        t.part = channels.fits(t);
        let is_locked = channels.lock_ns(&self.board().machine.costs, t.port) > 0;
        let shares_file =
            t.opens && self.board().objects.as_ref().is_some_and(|objects| objects.shares_files(curr));
        let lines_ns = if shares_file { self.lines_ns(cpu, t, &[When::Shared]) } else { 0 }
            + self.lines_ns(cpu, t, &[When::Call])
            + if is_locked {
                0
            } else {
                self.lines_ns(cpu, t, &[When::Locks]) + self.locked_lines_ns(cpu, t)
            }
            + if was_asleep { self.wait_lines_ns(cpu, curr) } else { 0 };
        let board = self.board_mut();
        let costs = &board.machine.costs;
        let lock_ns = board.channels.lock_ns(costs, t.port);
        // The lock time is a part of the call's time. A call that continues after sleeping may have less time left.
        t.held_ns = lock_ns.min(entry_ns);
        board.threads[curr].user = UserOp::Transfer(t);
        let before_ns = entry_ns - t.held_ns + lines_ns;
        let copy_ns = board.channels.copy_ns(costs, cpu, t);
        match board.channels.kind(t.port) {
            _ if lock_ns == 0 => self.call_after(cpu, Call::Copied, entry_ns + lines_ns + copy_ns),
            ChannelKind::Pipe => self.call_after(cpu, Call::Lock, before_ns),
            _ => self.call_after(cpu, Call::Lock, before_ns + copy_ns),
        }
    }

    /// What the channel's lines cost that the transfer touches then; 0 where lines have no owners.
    fn lines_ns(&mut self, cpu: CpuId, t: Transfer, when: &[When]) -> u64 {
        let touches = self.touches(t, when);
        self.touch_lines(cpu, touches.all())
    }
    /// The channel's lines that the transfer touches then.
    fn touches(&self, t: Transfer, when: &[When]) -> Touches {
        let Board { channels, objects, nic, .. } = self.board();
        let Some(objects) = objects.as_ref().filter(|_| !nic.is_far(t.port) && !nic.is_far(t.port.peer()))
        else {
            return Touches::none();
        };
        let buffer = &channels.buffers[t.buffer()];
        let offset = if t.sends { buffer.written } else { buffer.read };
        let pipe = InPipe { page: buffer.page(t.sends, t.left, t.opens).0, offset };
        objects.of_transfer(channels.kind(t.port), t, pipe, when)
    }
    /// The same of those that it touches under the channel's lock.
    fn locked_lines_ns(&mut self, cpu: CpuId, t: Transfer) -> u64 {
        let channels = &self.board().channels;
        let is_pipe = channels.kind(t.port) == ChannelKind::Pipe;
        let turns_page =
            is_pipe && t.part > 0 && channels.buffers[t.buffer()].page(t.sends, t.left, t.opens).1;
        let page = if turns_page { When::Page } else { When::Locked };
        self.lines_ns(cpu, t, &[When::Locked, page, When::Unlocks])
    }
    /// What the wait entry of a task costs that is back from a sleep.
    fn wait_lines_ns(&mut self, cpu: CpuId, curr: TaskId) -> u64 {
        let Some(objects) = &self.board().objects else { return 0 };
        let touches = objects.of_task(curr, When::Sleeps);
        self.touch_lines(cpu, touches.all())
    }

    /// The current task's transfer is about to touch its buffer: it asks for the line of the lock. One that spins has
    /// seen the lock free in a copy of the line, and asks for the line itself then.
    fn lock_buffer(&mut self, cpu: CpuId, curr: TaskId) {
        let UserOp::Transfer(t) = self.board().threads[curr].user else { return };
        let lock = &self.board().channels.locks[t.buffer()];
        let spins = lock.concerns(curr);
        if spins && lock.is_held() {
            return self.awaits(cpu, Call::Lock);
        }
        let spun = if spins { When::Spins } else { When::Locks };
        match self.lines_ns(cpu, t, &[spun, When::Locks]) {
            0 => self.take_buffer(cpu, curr),
            ns => self.call_after(cpu, Call::TryLock, ns),
        }
    }
    /// The current task takes its buffer's lock, or waits for it.
    fn take_buffer(&mut self, cpu: CpuId, curr: TaskId) {
        let board = self.board_mut();
        let UserOp::Transfer(mut t) = board.threads[curr].user else { return };
        if !board.channels.locks[t.buffer()].take(curr) {
            return self.awaits(cpu, Call::Lock);
        }
        let held_ns = board.channels.held_ns(&board.machine.costs, cpu, &mut t);
        board.threads[curr].user = UserOp::Transfer(t);
        if t.part == 0 {
            // It finds nothing to copy.
            self.unlock_buffer(curr, t);
        }
        let lines_ns = self.locked_lines_ns(cpu, t);
        self.is_watched(cpu, t);
        self.call_after(cpu, Call::Copied, held_ns + lines_ns);
    }

    /// The current task has its lock: the first that waits spins on its owner, and gets a copy of the line.
    fn is_watched(&mut self, cpu: CpuId, t: Transfer) {
        if let Some(spinner) = self.board().channels.locks[t.buffer()].first() {
            let (on, touches) = (self.board().threads[spinner].ran_on, self.touches(t, &[When::Spins]));
            self.touch_elsewhere(cpu, on, touches.all());
        }
    }

    /// The current task looks again for its lock. Where all CPUs execute, the one that releases it says when.
    fn awaits(&mut self, cpu: CpuId, call: Call) {
        let look_ns = match &mut self.board_mut().turns {
            Some(sharing) => {
                sharing.gives_way = true;
                POLL_NS
            }
            None => LONG_NS,
        };
        self.call_after(cpu, call, look_ns);
    }
    /// A lock is free: the first that waits for it in `call` sees that.
    fn hand_on(&mut self, first: Option<TaskId>, call: Call) {
        if let Some(first) = first.filter(|_| self.board().turns.is_none()) {
            let on = self.board().threads[first].ran_on;
            self.end_wait(on, call, self.now() + POLL_NS);
        }
    }
    /// The current task releases its buffer's lock, if it has one.
    fn unlock_buffer(&mut self, curr: TaskId, t: Transfer) {
        let lock = &mut self.board_mut().channels.locks[t.buffer()];
        let first = lock.release(curr);
        self.hand_on(first, Call::Lock);
    }

    /// The current task's message is in, and somebody sleeps at the socket or is being woken by another task: it takes
    /// the lock of the sleepers, or waits for it.
    fn lock_sleepers(&mut self, cpu: CpuId, curr: TaskId) {
        let board = self.board_mut();
        let Some(t) = board.seats[cpu].wakes_for else { return };
        if !board.channels.sleepers_locks[t.buffer()].take(curr) {
            return self.awaits(cpu, Call::LockSleepers);
        }
        board.channels.wakes_sleeper[t.buffer()] =
            !board.seats[cpu].to_wake[Context::Task as usize].is_empty();
        let lines_ns = self.lines_ns(cpu, t, &[When::Other]);
        self.call_after(cpu, Call::Wakeups, lines_ns);
    }
    /// The current task has woken the sleepers of its list. If they had a lock, it releases that.
    fn unlock_sleepers(&mut self, cpu: CpuId) {
        let Some(curr) = self.running(cpu) else { return };
        let board = self.board_mut();
        let Some(t) = board.seats[cpu].wakes_for.take() else { return };
        board.channels.wakes_sleeper[t.buffer()] = false;
        let lock = &mut board.channels.sleepers_locks[t.buffer()];
        let first = lock.release(curr);
        self.hand_on(first, Call::LockSleepers);
    }

    /// The copy is over. Others that asked for the lock have its line, which whoever releases it takes back.
    fn copied(&mut self, cpu: CpuId, curr: TaskId) {
        let UserOp::Transfer(t) = self.board().threads[curr].user else { return };
        match if t.part > 0 { self.lines_ns(cpu, t, &[When::Unlocks]) } else { 0 } {
            0 => self.carried(cpu, curr),
            ns => self.call_after(cpu, Call::Unlock, ns),
        }
    }
    /// The lock is free again: the bytes change hands, and the sleepers that waited for them are woken.
    fn carried(&mut self, cpu: CpuId, curr: TaskId) {
        let board = self.board_mut();
        let UserOp::Transfer(mut t) = board.threads[curr].user else { return };
        if t.part > 0 {
            board.objects.iter_mut().for_each(|objects| objects.carried(t));
            self.unlock_buffer(curr, t);
        }
        let looks = self.board().channels.looks_for_sleepers(t);
        let (done, news) = if t.sends {
            let put = self.put(cpu, &mut t);
            (put.done, put.news)
        } else {
            (self.get(cpu, &mut t), false)
        };
        let board = self.board_mut();
        board.threads[curr].user = if done { UserOp::Ask } else { UserOp::Transfer(t) };
        let costs = &board.machine.costs;
        let ends = done || t.returned;
        let end_ns = if ends { board.channels.end_ns(costs, t.port) } else { 0 };
        let is_locked = news && board.turns.is_none() && board.channels.sleepers_are_locked(costs, t.port);
        let seat = &mut board.seats[cpu];
        seat.call_left_ns = end_ns;
        let wakes = !seat.to_wake[Context::Task as usize].is_empty();
        if is_locked && (wakes || board.channels.wakes_sleeper[t.buffer()]) {
            seat.wakes_for = Some(t);
            return self.lock_sleepers(cpu, curr);
        }
        let lines_ns = if wakes || looks { self.lines_ns(cpu, t, &[When::Other]) } else { 0 };
        self.board_mut().seats[cpu].call_left_ns += lines_ns;
        self.wake_listed(cpu);
    }

    /// The copied bytes enter the channel, or leave for another machine.
    fn put(&mut self, cpu: CpuId, t: &mut Transfer) -> Put {
        let board = self.board_mut();
        let to = t.port.peer();
        if board.nic.is_far(to) {
            let bytes = std::mem::take(&mut t.part);
            t.left -= bytes;
            t.opens = false;
            let done = t.left == 0 || board.channels.kind(t.port) == ChannelKind::Udp;
            self.send_away(cpu, Packet { to, bytes });
            return Put { done, lost: false, news: false };
        }
        let wakes = board.seats[cpu].wakes(Context::Task);
        let put = board.channels.put(cpu, t, &board.history, wakes);
        board.counts.datagrams_lost += u64::from(put.lost);
        put
    }

    /// The copied bytes leave the channel. Returns whether all wanted bytes have come.
    fn get(&mut self, cpu: CpuId, t: &mut Transfer) -> bool {
        let board = self.board_mut();
        let wakes = board.seats[cpu].wakes(Context::Task);
        let done = board.channels.get(cpu, t, &board.history, wakes);
        self.was_read(cpu, t.port);
        done
    }

    /// An unfinished operation continues: by a further call, a further copy, or by sleeping until bytes or room come.
    fn transfer_on(&mut self, cpu: CpuId, curr: TaskId, t: Transfer) {
        if t.returned {
            return self.call_for(cpu, curr, t);
        }
        let board = self.board_mut();
        if board.channels.may_continue(t) {
            let costs = &board.machine.costs;
            let back_ns = if t.back { board.channels.sleeping_ns(costs, t.port) } else { 0 };
            return self.copy(cpu, curr, t, back_ns);
        }
        board.threads[curr].user = UserOp::Transfer(Transfer { slept: true, back: true, ..t });
        board.channels.sleeps(curr, t, &board.history);
        self.block(cpu, curr);
    }

    /// The current task waits for an end of the set. It makes no call if the last call found a further end.
    fn begin_poll(&mut self, cpu: CpuId, set: SetId) {
        if self.board().channels.sets[set.index()].found.is_empty() {
            return self.begin_call(cpu, Call::Poll { set }, 0);
        }
        self.call_after(cpu, Call::Poll { set }, self.board().machine.costs.program_ns);
    }

    /// The call looks for ends, or the program gets the next of those already found.
    fn poll(&mut self, cpu: CpuId, curr: TaskId, set: SetId) {
        let board = self.board_mut();
        let Some(end) = board.channels.next_found(set, curr) else {
            board.threads[curr].user = UserOp::Poll(set);
            return self.block(cpu, curr);
        };
        let thread = &mut board.threads[curr];
        thread.user = UserOp::Ask;
        thread.outcome = Outcome::Ready(end);
        self.returns(cpu);
    }

    /// The task was woken: it looks again, in the same call.
    fn poll_on(&mut self, cpu: CpuId, set: SetId) {
        self.call_after(cpu, Call::Poll { set }, self.board().machine.costs.socket_wait_ns);
    }
}

impl<'s, K: Kernel<'s>> Transfers<'s> for K {}
