//! The walk over a board: invariants that take a look at all tasks, words, channels and machines. Both kernels call it,
//! between steps of theirs, where the environment asks for walks (`SCHEDLAB_WALK_EVERY`) and in tests.
//!
//! A task that waits stands in one list: of a word, of a lock of user space, of an end of a channel, of a set of ends,
//! or of the tasks that a CPU is about to wake. What it does in user mode fits the list.

use crate::board::Board;
use crate::thread::UserOp;
use schedlab_base::{Arena, CpuId, TaskId};
use schedlab_workload::ChannelKind;

/// An error, unless a condition holds.
#[macro_export]
macro_rules! ensure {
    ($holds:expr, $($words:tt)+) => {
        if !$holds {
            return Err(format!($($words)+));
        }
    };
}

/// What is wrong, as words.
pub type Wrong = Result<(), String>;

impl Board<'_> {
    /// Walks the board. `parked`: tasks that calls have yet to wake which were left in the middle. `waits`: whether the
    /// kernel has a task asleep, or on its way from there, on account of this word.
    ///
    /// # Errors
    /// The first invariant that does not hold.
    pub fn walk(&self, parked: impl Iterator<Item = TaskId>, waits: impl Fn(TaskId, u32) -> bool) -> Wrong {
        self.walk_lists(parked)?;
        self.walk_words(waits)?;
        self.walk_channels()?;
        self.walk_messages()?;
        for (id, thread) in self.threads.ids().map(|id| (id, &self.threads[id])) {
            let (warm, whole) = (thread.warm_kb, thread.footprint_kb);
            ensure!(warm <= whole, "{id:?} has {warm} KB warm of {whole}");
            let (work_ns, before_ns) = (thread.work_ns, thread.before.0);
            ensure!(before_ns <= work_ns, "{id:?} has done {work_ns} ns of work, after {before_ns}");
        }
        self.walk_machines()
    }

    /// A task stands in one list at most.
    fn walk_lists(&self, parked: impl Iterator<Item = TaskId>) -> Wrong {
        let mut at: Arena<TaskId, Option<&str>> = Arena::filled(None, self.threads.len());
        let mut stands = |task: TaskId, list: &'static str| {
            let other = at[task].replace(list);
            other.map_or(Ok(()), |other| Err(format!("{task:?} stands in two lists: {other}, and {list}")))
        };
        let user = &self.user;
        user.waiters.iter().flatten().try_for_each(|t| stands(*t, "a word's"))?;
        user.spinners.iter().flatten().try_for_each(|t| stands(*t, "a lock's"))?;
        self.channels.sleepers.iter().flatten().try_for_each(|t| stands(*t, "a channel's"))?;
        self.channels.sets.iter().filter_map(|s| s.sleeper).try_for_each(|t| stands(t, "a set's"))?;
        let listed = self.seats.iter().flat_map(|s| s.to_wake.iter().flatten());
        listed.copied().chain(parked).try_for_each(|t| stands(t, "that of tasks to wake"))
    }

    fn walk_words(&self, waits: impl Fn(TaskId, u32) -> bool) -> Wrong {
        for (word, waiters) in self.user.waiters.iter().enumerate() {
            for task in waiters {
                ensure!(
                    waits(*task, word as u32),
                    "{task:?} is in the queue of word {word} and does not wait"
                );
                let user = self.threads[*task].user;
                ensure!(user == UserOp::Ask, "{task:?} waits for word {word} amid {user:?}");
            }
        }
        for (word, spinners) in self.user.spinners.iter().enumerate() {
            for task in spinners {
                let user = self.threads[*task].user;
                let spins = matches!(user, UserOp::SpinLock { word: own } if own.index() == word);
                ensure!(spins, "{task:?} spins for word {word} amid {user:?}");
            }
        }
        Ok(())
    }

    fn walk_channels(&self) -> Wrong {
        let channels = &self.channels;
        let mut charged = 0;
        for (end, buffer) in channels.buffers.iter().enumerate() {
            buffer.check().map_err(|what| format!("end {end}: {what}"))?;
            charged += if channels.kinds[end / 2] == ChannelKind::Unix { buffer.charged() } else { 0 };
        }
        let (held, most) = (channels.memory.held, channels.memory.most);
        ensure!(held == charged, "{held} bytes are held for UNIX sockets, {charged} are charged");
        ensure!(held <= most, "{held} bytes are held for UNIX sockets, at most {most} ever were");
        for (end, sleepers) in channels.sleepers.iter().enumerate() {
            for task in sleepers {
                let user = self.threads[*task].user;
                // If readers and writers share a queue it is the first end's.
                let fits = |at: usize| at == end || at & !1 == end;
                let sleeps = matches!(user, UserOp::Transfer(t) if fits(t.port.index()) && t.slept);
                ensure!(sleeps, "{task:?} sleeps at end {end} amid {user:?}");
            }
        }
        for (number, lock) in channels.locks.iter().enumerate() {
            for task in lock.concerned() {
                let user = self.threads[task].user;
                let fits = matches!(user, UserOp::Transfer(t) if t.buffer() == number);
                ensure!(fits, "{task:?} has to do with the lock of buffer {number} amid {user:?}");
            }
        }
        for (number, set) in channels.sets.iter().enumerate() {
            for end in &set.came {
                let times = set.came.iter().filter(|other| *other == end).count();
                ensure!(times == 1, "end {} is on the list of set {number} {times} times", end.0);
                ensure!(channels.listed[end.index()], "end {} is on a list and not marked", end.0);
                let of = channels.set_of[end.index()];
                ensure!(of.is_some_and(|s| s.index() == number), "end {} is on the list of {number}", end.0);
            }
        }
        let (listed, marked) = (
            channels.sets.iter().map(|set| set.came.len()).sum::<usize>(),
            channels.listed.iter().filter(|l| **l).count(),
        );
        ensure!(listed == marked, "{listed} ends are on lists of sets, {marked} are marked");
        Ok(())
    }

    /// What is kept aside is for an end that is here. Bytes wait only where a channel has no room for all of them.
    fn walk_messages(&self) -> Wrong {
        for (end, bytes) in self.nic.aside.iter().enumerate().filter(|(_, bytes)| **bytes > 0) {
            let (place, here) = (self.nic.places[end], self.nic.here);
            ensure!(place == here, "{bytes} bytes wait at end {end} of {place:?}, on {here:?}");
            let room = self.channels.buffers[end].room((*bytes).min(u64::from(u32::MAX)) as u32, true);
            ensure!(room == 0, "{bytes} bytes wait at end {end}, which has room for {room}");
        }
        Ok(())
    }

    fn walk_machines(&self) -> Wrong {
        for (number, own) in self.nested.iter().enumerate() {
            for (n, vcpu) in own.vcpus.iter().enumerate() {
                let executes = !own.guest.stands_still(CpuId::from(n));
                ensure!(!vcpu.asleep || !executes, "vCPU {n} of machine {number} sleeps and executes");
                let polls = vcpu.polls_on.is_some();
                ensure!(!polls || !executes, "vCPU {n} of machine {number} executes, and its host polls");
                ensure!(!polls || !vcpu.asleep, "vCPU {n} of machine {number} sleeps, and its host polls");
                let of = self.threads[vcpu.thread].vcpu();
                ensure!(
                    of == Some((number, CpuId::from(n))),
                    "{:?} executes {of:?}, not vCPU {n}",
                    vcpu.thread
                );
            }
            let (asleep, waits) = (own.vhost.asleep, own.vhost.queue.len());
            ensure!(!asleep || waits == 0, "vhost of machine {number} sleeps beside {waits} messages");
            let current = own.vhost.current;
            ensure!(!asleep || current.is_none(), "vhost of machine {number} sleeps amid {current:?}");
        }
        Ok(())
    }
}
