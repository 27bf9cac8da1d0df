//! The host's side of a virtual machine through time: entering a vCPU, its steps, its halts, signals to sleeping
//! threads, and the thread that moves messages.
//!
//! That thread takes one message after the other, in the order in which they came, and sleeps when there is none. A
//! guest that sends while the thread sleeps signals it (an exit); a message for the guest is an interrupt of vCPU 0.
//! The thread belongs to its machine's task group (`cgroup_attach_task_all`, 2.6.35). Times are ns.

use super::{Direction, GuestCounts};
use crate::board::{Context, Kernel};
use crate::calls::Call;
use crate::engine::NEVER;
use crate::links::Links;
use crate::net::Packet;
use crate::report::SimReport;
use crate::speed::Speed;
use crate::thread::UserOp;
use crate::user::UserMode;
use schedlab_base::{CpuId, Result, TaskId};

/// The virtual machines of a board.
pub trait VirtualMachines<'s>: Kernel<'s> {
    /// A vCPU's thread begins a stretch of user mode; returns when the stretch ends. A thread that has come from
    /// elsewhere fetches its data first.
    fn enter_vcpu(&mut self, thread: TaskId, (machine, vcpu): (usize, CpuId), speed: Speed) -> u64 {
        let (now, board) = (self.now(), self.board_mut());
        let refill_ns = board.threads[thread].refill_ns;
        if refill_ns > 0 {
            return now.saturating_add(speed.time(refill_ns));
        }
        let own = &mut board.nested[machine];
        debug_assert!(own.guest.stands_still(vcpu), "{thread:?} enters {vcpu}, which executes at {now}");
        own.vcpus[vcpu.index()].executes();
        let ends = own.guest.enter(vcpu, now, speed);
        debug_assert!(ends >= now, "{thread:?} enters {vcpu} at {now} up to {ends}");
        ends
    }

    /// The stretch stops here.
    fn pause_vcpu(&mut self, (machine, vcpu): (usize, CpuId)) {
        let (now, board) = (self.now(), self.board_mut());
        let guest = &mut board.nested[machine].guest;
        if !guest.stands_still(vcpu) {
            guest.pause(vcpu, now);
        }
    }

    /// The stretch has ended: the vCPU does what is due.
    fn vcpu_acts(&mut self, cpu: CpuId, curr: TaskId, (machine, vcpu): (usize, CpuId)) {
        if self.board().threads[curr].refill_ns > 0 {
            return self.start_user(cpu);
        }
        let (times, speed) = ((self.now(), self.guest_horizon(cpu)), self.speed(cpu));
        let (board, sink) = self.board_and_sink();
        let mut sent = std::mem::take(&mut board.nic.sent);
        let own = &mut board.nested[machine];
        own.vcpus[vcpu.index()].executes();
        let acted = own.guest.act(vcpu, times, speed, &mut sent, sink);
        debug_assert!(own.guest.stands_still(vcpu), "{vcpu} of {curr:?} executes after its step");
        // When its last task has left, its threads count as gone.
        let gone = if acted.ended { own.vcpus.len() } else { 0 };
        self.others_acted(acted.steps, gone);
        if let Some(fault) = acted.fault {
            self.fail(fault);
        }
        self.signal(cpu, machine, Some(vcpu));
        for packet in sent.drain(..) {
            self.give_vhost(cpu, machine, (Direction::Out, packet), Context::Task);
        }
        let board = self.board_mut();
        board.nic.sent = sent;
        let exit_ns = board.machine.costs.vm_exit_ns;
        if self.begin_kicks(cpu, exit_ns) {
            return;
        }
        let own = &mut self.board_mut().nested[machine];
        if own.guest.idles(vcpu) {
            own.counted.halts += 1;
            return self.call_after(cpu, Call::VcpuHalts, exit_ns);
        }
        self.returns(cpu);
    }

    /// Whether `cpu` is to wake threads; it begins with that after `cost_ns`.
    fn begin_kicks(&mut self, cpu: CpuId, cost_ns: u64) -> bool {
        let some = !self.board().seats[cpu].to_wake[Context::Task as usize].is_empty();
        if some {
            self.call_after(cpu, Call::VcpuKicks, cost_ns);
        }
        some
    }

    /// Other vCPUs whose next event a step of `sender`, or the host, has changed: those that execute stop earlier,
    /// those that sleep are to be woken by `cpu`.
    fn signal(&mut self, cpu: CpuId, machine: usize, sender: Option<CpuId>) {
        while let Some(to) = self.board_mut().nested[machine].guest.touched() {
            if Some(to) == sender {
                continue;
            }
            let (now, board) = (self.now(), self.board());
            let own = &board.nested[machine];
            let (vcpu, next) = (own.vcpus[to.index()], own.guest.next_event(to));
            debug_assert!(
                !vcpu.asleep || vcpu.polls_on.is_none(),
                "{vcpu:?} sleeps, and the host polls for it"
            );
            if !own.guest.stands_still(to) {
                let (on, ends) = (board.threads[vcpu.thread].ran_on, own.guest.acts_at(to, now));
                self.user_until(on, ends);
                self.touch(on);
            } else if let Some(on) = vcpu.polls_on {
                self.end_wait(on, Call::VcpuPolls, next);
            } else if vcpu.asleep && next != NEVER {
                self.rouse(cpu, machine, to, next);
            }
        }
    }

    /// A vCPU whose thread sleeps has an event at `next`: a signal wakes the thread, a timer sets its timer anew.
    fn rouse(&mut self, cpu: CpuId, machine: usize, to: CpuId, next: u64) {
        let own = &self.board().nested[machine];
        let (thread, signalled) = (own.vcpus[to.index()].thread, own.guest.is_signalled(to));
        if !signalled && self.sets_timer_anew(thread, next) {
            return;
        }
        let own = &mut self.board_mut().nested[machine];
        own.counted.kicks += u64::from(signalled);
        own.vcpus[to.index()].asleep = false;
        self.stops_waiting(thread);
        self.board_mut().seats[cpu].to_wake[Context::Task as usize].push(thread);
    }

    /// The vCPU's exit is over: the host polls for its next event, or puts the thread to sleep.
    fn vcpu_halts(&mut self, cpu: CpuId, curr: TaskId, polled: bool) {
        let Some((machine, vcpu)) = self.board().threads[curr].vcpu() else { return };
        let (now, alone) = (self.now(), self.runs_alone(cpu));
        let own = &mut self.board_mut().nested[machine];
        let state = &mut own.vcpus[vcpu.index()];
        state.polls_on = None;
        let due = own.guest.irq_due(vcpu, now);
        if due <= now {
            return self.returns(cpu);
        }
        // Another task of the host goes first (`single_task_running`).
        let halt_poll_ns = own.guest.halt_poll_ns();
        if halt_poll_ns > 0 && !polled && alone {
            state.polls_on = Some(cpu);
            return self.call_after(cpu, Call::VcpuPolls, halt_poll_ns.min(due - now));
        }
        state.asleep = true;
        own.counted.sleeps += 1;
        self.sleep_until(cpu, curr, due);
    }

    /// If the current task moves messages of a virtual machine, it takes the next one: it has woken up, or is done with
    /// the last one.
    #[inline]
    fn moves_messages(&mut self, cpu: CpuId, curr: TaskId) -> bool {
        let board = self.board();
        if board.nested.is_empty() || !board.threads[curr].background {
            return false;
        }
        let Some(machine) = board.nested.iter().position(|own| own.vhost.thread == curr) else {
            return false;
        };
        self.next_message(cpu, curr, machine);
        true
    }

    fn next_message(&mut self, cpu: CpuId, curr: TaskId, machine: usize) {
        let (now, board) = (self.now(), self.board_mut());
        let own = &mut board.nested[machine];
        if let Some((way, packet)) = own.vhost.current.take() {
            match way {
                Direction::Out => self.route(cpu, packet, Context::Task),
                Direction::In => {
                    own.guest.arrives(now, packet);
                    self.signal(cpu, machine, None);
                }
            }
            if self.begin_kicks(cpu, 0) {
                return;
            }
        }
        let board = self.board_mut();
        if !board.nested[machine].vhost.take_up() {
            return self.block(cpu, curr);
        }
        board.threads[curr].user = UserOp::Run { left_ns: board.machine.costs.vhost_ns.max(1) };
        self.start_user(cpu);
    }

    /// A message from a virtual machine, or for one, has reached the host.
    fn give_vhost(
        &mut self,
        cpu: CpuId,
        machine: usize,
        (way, packet): (Direction, Packet),
        context: Context,
    ) {
        let board = self.board_mut();
        let woken = board.nested[machine].vhost.take(way, packet);
        board.seats[cpu].to_wake[context as usize].extend(woken);
    }

    /// How long the threads of a machine's vCPUs have waited for a CPU so far.
    fn waited_ns(&mut self, machine: usize) -> u64 {
        let threads = 0..self.board().nested[machine].vcpus.len();
        threads.map(|n| self.run_delay_ns(self.board().nested[machine].vcpus[n].thread)).sum()
    }

    /// The warm-up is over.
    fn begin_measuring_guests(&mut self) {
        let now = self.now();
        for machine in 0..self.board().nested.len() {
            let waited_before_ns = self.waited_ns(machine);
            let own = &mut self.board_mut().nested[machine];
            (own.counted, own.waited_before_ns) = (GuestCounts::default(), waited_before_ns);
            own.guest.begin_measuring(now);
        }
    }

    /// Adds the guests' accounts at the end of the run.
    ///
    /// # Errors
    /// When they disagree.
    fn close_guests(&mut self, end_ns: u64, report: &mut SimReport) -> Result<()> {
        for machine in 0..self.board().nested.len() {
            let waited_ns = self.waited_ns(machine);
            let own = &mut self.board_mut().nested[machine];
            let steal_ns = own.counted.steal_ns + waited_ns - own.waited_before_ns;
            own.guest.close(end_ns, GuestCounts { steal_ns, ..own.counted }, report)?;
        }
        Ok(())
    }
}

impl<'s, K: Kernel<'s>> VirtualMachines<'s> for K {}
