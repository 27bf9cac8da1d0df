//! Reasons why a current task gave way, and picks of the next one (since 6.12), if a run asks for them (`choices`).
//!
//! The image notes which call of the code asked for it (`shim/image/judged.c`): the check after an enqueue, or a tick.
//! For a check and for a pick it also notes the queue, so that our rules can judge the same.

use crate::abi::{RawJudgedEntity, entity};
use crate::engine::Engine;
use crate::kernel::policy_of;
use crate::load::Image;
use crate::note::{Judged, QueueAt, Switched};
use schedlab_base::{CpuId, Ns};
use schedlab_board::decision::{AskedEntity, AskedQueue, Bearing};
use schedlab_kernel::History;
use schedlab_trace::SwitchReason;

/// A queue that was judged, and the weights and states of its entities.
type Queue = (AskedQueue, Vec<Bearing>);

impl Image {
    /// The queue of a noted check; `None` where it was not read.
    fn judged(&self, queue: QueueAt) -> Option<Queue> {
        // SAFETY: a note of this image, which is not forgotten yet, has the pointer to such a queue or to nothing; to
        // forget notes takes `&mut self`.
        let raw = unsafe { queue.pointer().as_ref() }?;
        if raw.why_not != 0 {
            return None;
        }
        // SAFETY: the queue has `nr` entities.
        let all = unsafe { std::slice::from_raw_parts(raw.entities, raw.nr as usize) };
        let flagged = |flag| all.iter().position(|e| e.entity.flags & flag != 0);
        let one = |e: &RawJudgedEntity| AskedEntity {
            vruntime: e.entity.vruntime,
            deadline: e.entity.deadline,
            lag: e.entity.lag,
            protected_until: e.entity.protected_until,
            slice_ns: u32::try_from(e.entity.slice_ns).unwrap_or(u32::MAX),
            policy: policy_of(e.entity.policy),
            nice: 0,
            relative: false,
        };
        let queue = AskedQueue {
            entities: all.iter().map(one).collect(),
            current: flagged(entity::CURRENT),
            absent: None,
            next: flagged(entity::NEXT),
            last: flagged(entity::LAST),
            skip: flagged(entity::SKIP),
            min_vruntime: raw.min_vruntime,
            ran_ns: raw.ran_ns,
            about: raw.about as usize,
            is_new: raw.is_new != 0,
            sync: raw.sync != 0,
        };
        let bearing = |e: &RawJudgedEntity| Bearing {
            weight: e.weight,
            delayed: e.entity.flags & entity::DELAYED != 0,
        };
        Some((queue, all.iter().map(bearing).collect()))
    }
}

impl Engine<'_> {
    /// A check was made, or a tick has asked the current task to give way.
    pub fn judged(&mut self, at: u64, judged: Judged) -> u64 {
        let Judged { on, before, after, .. } = judged;
        let (arrived, current) =
            (judged.arrived.and_then(|pid| self.any_task(pid)), self.any_task(judged.current));
        let queue = self.kernel.image().judged(judged.queue);
        let Some(explaining) = &mut self.explaining else { return 0 };
        let woken = arrived.is_some_and(|task| explaining.is_on_its_way(task));
        let charged = charged(&self.board.history);
        let cause = match arrived {
            None => charged,
            Some(_) if woken => SwitchReason::WakeupPreempt,
            Some(_) => SwitchReason::Arrived,
        };
        if !before {
            // The earlier request was heeded: the same task was picked again.
            explaining.asked_to_leave(on);
        }
        if after {
            // Before the check only the charge of the current task can have asked.
            explaining.ask_to_leave(on, if before { charged } else { cause });
        }
        let counts = &mut self.accounts.explained;
        counts.checks += u64::from(arrived.is_some() && !before);
        let Some((queue, bearings)) = queue else { return 0 };
        let ours = explaining.rules.gives_way(&queue, &bearings);
        counts.checks_asked += 1;
        counts.checks_shared += u64::from(ours == after);
        if ours != after {
            let word = |gives_way| if gives_way { "gives way" } else { "stays" };
            let current = current.and_then(|t| self.board.threads.get(t.index()));
            let current = current.map_or("the kernel's own task", |t| &t.name);
            let (code, ours) = (word(after), word(ours));
            counts.differs(|| {
                format!("at {} on CPU {}: {current} {code} by the code, {ours} by our rules", Ns(at), on.0)
            });
        }
        0
    }

    /// An entity was picked, on the way to a task.
    pub fn picked_from(&mut self, (on, at): (CpuId, u64), pid: i32, queue: QueueAt) -> u64 {
        let next = self.any_task(pid);
        let queue = self.kernel.image().judged(queue);
        let Some(explaining) = &mut self.explaining else { return 0 };
        let counts = &mut self.accounts.explained;
        counts.picks += 1;
        let Some((queue, bearings)) = queue else { return 0 };
        let (ours, code) = (explaining.rules.pick(&queue, &bearings), queue.about);
        counts.picks_asked += 1;
        counts.picks_shared += u64::from(ours == Some(code));
        if ours == Some(code) {
            let why = match () {
                () if queue.entities.len() == 1 => "alone",
                () if queue.next == ours => "buddy",
                () if queue.current == ours => "current",
                () => "deadline",
            };
            *counts.picked.entry(why).or_default() += 1;
        } else {
            let next = next.and_then(|t| self.board.threads.get(t.index()));
            let next = next.map_or("the kernel's own task", |t| &t.name);
            let n = queue.entities.len();
            counts.differs(|| {
                let ours = ours.map_or("none".to_owned(), |i| i.to_string());
                format!(
                    "at {} on CPU {}, towards {next}: of {n} entities the code picks {code}, our rules {ours}",
                    Ns(at),
                    on.0
                )
            });
        }
        0
    }

    /// Why a preempted task has left, as far as notes say it.
    pub fn why_left(&mut self, switched: &Switched) -> SwitchReason {
        let kicked = std::mem::take(&mut self.cpus[switched.on].kicked);
        let Some(explaining) = &mut self.explaining else { return SwitchReason::Preempted };
        match explaining.asked_to_leave(switched.on) {
            _ if switched.throttled => SwitchReason::Throttled,
            _ if switched.yields => SwitchReason::Yielded,
            _ if switched.slice_over && kicked => SwitchReason::Kicked,
            _ if switched.slice_over => SwitchReason::TickSlice,
            asked => asked.unwrap_or(SwitchReason::Preempted),
        }
    }

    /// A task was queued. `gives_way`: the current task is to leave now. The queued one asked for it unless another did
    /// before.
    pub fn arrived(&mut self, on: CpuId, is_new: bool, gives_way: bool) {
        let charged = charged(&self.board.history);
        if let Some(explaining) = self.explaining.as_mut().filter(|_| gives_way) {
            explaining.ask_to_leave(on, if is_new { charged } else { SwitchReason::WakeupPreempt });
        }
    }
}

/// Why a task is to leave that was charged, at a tick or before another one is queued. CFS asks for two reasons, which
/// nothing tells apart.
fn charged(history: &History) -> SwitchReason {
    if history.eevdf { SwitchReason::TickSlice } else { SwitchReason::Preempted }
}
