//! User mode: work, spinning, slow-down by a busy sibling, cache refill after a move.
//!
//! Progress is kept as work left, with the time of the last accounting, so that interrupts, siblings and refills may
//! stretch it. A thread whose sibling is busy runs at `smt_speed_pct` of its speed alone. A moved task first repeats
//! the work of warming its warm data (KB touched so far, at most its footprint), at a price by distance. A task that
//! returns to its core after others ran there repeats the part that they displaced ([`crate::cache_by_core`]). On a
//! machine whose caches are known, both are paid gradually instead, as the task touches its set
//! ([`crate::cache_by_level`]).
//!
//! A live program computes until its CPU clock has moved by a stated time, and that clock also runs in interrupts and
//! switches. Simulated work does the same if reading that clock has a price (`cpu_clock_ns`).

use crate::board::Kernel;
use crate::cache_by_core::move_refill_ns;
use crate::calls::Calls;
use crate::channel::drive::Transfers;
use crate::nested::drive::VirtualMachines;
use crate::speed::Speed;
use crate::spin::Spins;
use crate::thread::UserOp;
use schedlab_base::{CpuId, TaskId};

/// The user mode of a board's CPUs.
pub trait UserMode<'s>: Kernel<'s> {
    /// Speed of `cpu`: less while a sibling is not halted.
    #[inline]
    fn speed(&self, cpu: CpuId) -> Speed {
        if let Some(speed) = self.host_speed(cpu) {
            return speed;
        }
        let board = self.board();
        let shares = board.turns.is_none() && board.siblings[cpu].iter().any(|s| board.active[*s]);
        let pct = if shares { board.machine.costs.smt_speed_pct } else { 100 };
        Speed::of(pct, board.speed[cpu])
    }

    /// The current task's operation in user mode on `cpu`; `None` if the machine has no such CPU.
    #[inline]
    fn user_op(&self, cpu: CpuId) -> Option<UserOp> {
        self.running(cpu).filter(|_| self.in_user(cpu)).map(|t| self.board().threads[t].user)
    }

    /// Whether `cpu` goes over memory, and needs its turn to continue with that.
    #[inline]
    fn works_without_turn(&self, cpu: CpuId) -> bool {
        let Some(sharing) = &self.board().turns else { return false };
        sharing.holder != Some(cpu) && matches!(self.user_op(cpu), Some(UserOp::Touch { .. }))
    }

    /// Accounts the stretch of user mode that is running on `cpu`, if one is.
    fn account_user(&mut self, cpu: CpuId) {
        if !self.in_user(cpu) || self.works_without_turn(cpu) || self.stands_still(cpu) {
            return;
        }
        let (speed, now, curr) = (self.speed(cpu), self.now(), self.running(cpu));
        let since = std::mem::replace(&mut self.board_mut().seats[cpu].user_since, now);
        debug_assert!(since <= now, "{cpu} was in user mode from {since} to {now}");
        let elapsed = now - since;
        let Some(curr) = curr else { return };
        if let Some(vcpu) = self.board().threads[curr].vcpu() {
            self.pause_vcpu(vcpu);
        }
        if elapsed == 0 {
            return;
        }
        let board = self.board_mut();
        if speed.is_shared() {
            board.counts.smt_shared_ns += elapsed;
        }
        let done = speed.work(elapsed);
        let thread = &mut board.threads[curr];
        let refill = done.min(thread.refill_ns);
        thread.refill_ns -= refill;
        board.counts.refill_ns += refill;
        let work = done - refill;
        // A stretch that an interrupt had stopped when the warm-up ended counts from the end of the warm-up.
        let early = speed.work(board.counted_from.saturating_sub(since));
        match &mut thread.user {
            UserOp::Run { left_ns } | UserOp::Touch { left_ns, .. } => {
                thread.work_ns += work.min(*left_ns).saturating_sub(early);
                *left_ns -= work.min(*left_ns);
                if let (Some(memory), UserOp::Run { .. }) = (&mut board.by_level, thread.user) {
                    memory.ran(curr, work);
                }
            }
            UserOp::Spin { .. } => thread.work_ns += work.saturating_sub(early),
            UserOp::Ask
            | UserOp::Transfer(_)
            | UserOp::Poll(_)
            | UserOp::SpinLock { .. }
            | UserOp::Vcpu { .. } => {}
        }
        if matches!(thread.user, UserOp::Touch { .. }) {
            return;
        }
        let warmed = elapsed / board.machine.costs.warm_ns_per_kb.max(1);
        debug_assert!(
            thread.warm_kb <= thread.footprint_kb,
            "{curr:?} has {} KB warm of {}",
            thread.warm_kb,
            thread.footprint_kb
        );
        thread.warm_kb = thread.warm_kb.saturating_add(warmed.min(1 << 20) as u32).min(thread.footprint_kb);
    }

    /// (Re)starts user mode on `cpu` at this instant: computes when the current operation ends.
    fn start_user(&mut self, cpu: CpuId) {
        let (speed, now) = (self.speed(cpu), self.now());
        let (since, curr) = (self.since(cpu), self.running(cpu));
        debug_assert!(!self.stands_still(cpu), "{cpu} begins user mode at {now} and stands still");
        let board = self.board_mut();
        let by_clock = board.turns.is_none() && board.machine.costs.cpu_clock_ns > 0;
        let in_kernel = now - since.max(std::mem::replace(&mut board.seats[cpu].user_since, now));
        let Some(curr) = curr else { return };
        if let Some(vcpu) = board.threads[curr].vcpu() {
            let ends = self.enter_vcpu(curr, vcpu, speed);
            return self.user_until(cpu, ends);
        }
        if by_clock && let UserOp::Run { left_ns } = &mut board.threads[curr].user {
            // The program ends by its CPU clock, which also ran in the kernel.
            *left_ns = left_ns.saturating_sub(in_kernel);
        }
        let chunk_ns = self.next_chunk(cpu, curr);
        let thread = &self.board().threads[curr];
        let ends = match thread.user {
            UserOp::Run { left_ns } | UserOp::Touch { left_ns, .. } => {
                let wanted = thread.refill_ns.saturating_add(left_ns.min(chunk_ns));
                now.saturating_add(speed.time(wanted))
            }
            UserOp::Spin { until } => until.max(now),
            UserOp::SpinLock { word } => self.spin_on(curr, word, speed),
            UserOp::Ask | UserOp::Transfer(_) | UserOp::Poll(_) | UserOp::Vcpu { .. } => now,
        };
        debug_assert!(ends >= now, "{cpu} begins user mode at {now} and ends it at {ends}");
        self.user_until(cpu, ends);
    }

    /// The current task of `cpu` continues with its operation. If it has gone over its last chunk, the next one begins.
    /// Returns the work after which a computation begins its next chunk, ns.
    #[inline]
    fn next_chunk(&mut self, cpu: CpuId, curr: TaskId) -> u64 {
        let board = self.board_mut();
        let Some(memory) = &mut board.by_level else { return u64::MAX };
        let thread = &mut board.threads[curr];
        match &mut thread.user {
            UserOp::Run { left_ns } => {
                if *left_ns > 0 && memory.run_left_ns(curr) == 0 {
                    let warm_ns_per_kb = board.machine.costs.warm_ns_per_kb;
                    thread.refill_ns += memory.run_chunk(cpu, curr, *left_ns, warm_ns_per_kb);
                }
                memory.run_left_ns(curr)
            }
            UserOp::Touch { left_ns, .. } if *left_ns == 0 && memory.touches_on(curr) => {
                let chunk = memory.touch_chunk(cpu, curr);
                // Every operation takes some time.
                *left_ns = chunk.work_ns.max(1);
                thread.refill_ns += chunk.refill_ns;
                u64::MAX
            }
            _ => u64::MAX,
        }
    }

    /// Notes that `cpu` halts or runs; its siblings' speed changes with it.
    fn set_active(&mut self, cpu: CpuId, active: bool) {
        if self.board().active[cpu] == active {
            return;
        }
        let siblings = self.board().siblings[cpu].len();
        for i in 0..siblings {
            self.account_user(self.board().siblings[cpu][i]);
        }
        self.board_mut().active[cpu] = active;
        if self.board().turns.is_some() {
            // CPUs that take turns never run at the same time.
            return;
        }
        for i in 0..siblings {
            let sibling = self.board().siblings[cpu][i];
            if self.in_user(sibling) {
                self.start_user(sibling);
                self.touch(sibling);
            }
        }
    }

    /// The stretch of user mode has ended: accounts it, then asks the program unless something of it is left.
    fn user_done(&mut self, cpu: CpuId) {
        self.account_user(cpu);
        let Some(curr) = self.running(cpu) else { return };
        let board = self.board();
        let finished = match board.threads[curr].user {
            UserOp::Run { left_ns } => left_ns == 0,
            UserOp::Touch { left_ns, .. } => {
                left_ns == 0 && !board.by_level.as_ref().is_some_and(|m| m.touches_on(curr))
            }
            UserOp::Spin { until } => until <= self.now(),
            UserOp::Ask => true,
            UserOp::SpinLock { .. } => false,
            UserOp::Transfer(t) => return self.transfer_on(cpu, curr, t),
            UserOp::Poll(set) => return self.poll_on(cpu, set),
            UserOp::Vcpu { machine, vcpu } => return self.vcpu_acts(cpu, curr, (machine.into(), vcpu)),
        };
        if finished { self.ask(cpu, curr) } else { self.start_user(cpu) }
    }

    /// The current task has just been switched to on `cpu`. If it comes from elsewhere it must fetch its warm data,
    /// else the part that others displaced.
    fn pay_move(&mut self, cpu: CpuId, curr: TaskId) {
        let distance = self.distance(self.board().threads[curr].ran_on, cpu);
        let board = self.board_mut();
        let costs = &board.machine.costs;
        let thread = &mut board.threads[curr];
        let from = std::mem::replace(&mut thread.ran_on, cpu);
        if board.by_level.is_some() && !matches!(thread.user, UserOp::Vcpu { .. }) {
            // It pays for the data as it touches them.
            return;
        }
        if board.by_core.enter((cpu, curr), from, &mut thread.reuse)
            && let UserOp::Touch { kb, left_ns } = thread.user
        {
            let left_kb = left_ns.div_ceil(costs.touch_ns_per_kb.max(1));
            board.by_core.touch(cpu, &mut thread.reuse, &mut thread.refill_ns, (kb, left_kb));
        }
        // Data that were not fetched yet were not warm there: their refill is paid once.
        thread.refill_ns = thread.refill_ns.max(move_refill_ns(costs, distance, thread.warm_kb));
    }
}

impl<'s, K: Kernel<'s>> UserMode<'s> for K {}
