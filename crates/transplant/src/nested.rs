//! Virtual machines on the kernel's own code: the host's side. Guests' kernels are [`Guest`]s, which the caller of a
//! run supplies; the host's threads are tasks of the image. The order of steps is that of `sim/src/nested/drive.rs`.
//!
//! A sleeping vCPU whose timer is set anew by another vCPU is woken, and sleeps again until then: the image's timers
//! belong to the task that starts them. Times are ns since the run began.

use crate::cpu::{Activity, Next};
use crate::engine::Engine;
use crate::kernel::Kernel;
use schedlab_base::{CpuId, Result, TaskId};
use schedlab_board::board::{Context, Kernel as _};
use schedlab_board::calls::Call;
use schedlab_board::drivers::{Links, UserMode};
use schedlab_board::engine::NEVER;
use schedlab_board::nested::{Direction, Guest, GuestCounts, VCPU_FOOTPRINT_KB, Vcpu, Vhost};
use schedlab_board::net::Packet;
use schedlab_board::report::SimReport;
use schedlab_board::speed::Speed;
use schedlab_board::thread::UserOp;

/// A virtual machine of the host.
pub struct Nested<'s> {
    guest: Box<dyn Guest + 's>,
    vcpus: Vec<Vcpu>,
    vhost: Vhost,
    counted: GuestCounts,
    /// Waits of its threads when measuring began.
    waited_before_ns: u64,
}

impl Nested<'_> {
    /// Adds a message for vhost's thread; returns the thread if it is to be woken.
    pub fn take(&mut self, way: Direction, packet: Packet) -> Option<TaskId> {
        self.vhost.take(way, packet)
    }
    /// How long its vCPUs' threads have waited for a CPU so far.
    fn waited_ns(&self, kernel: &mut Kernel, pid_of: impl Fn(TaskId) -> i32) -> u64 {
        let started = self.vcpus.iter().map(|vcpu| pid_of(vcpu.thread)).filter(|pid| *pid != 0);
        started.map(|pid| kernel.usage(pid).wait_ns).sum()
    }
}

impl<'s> Engine<'s> {
    /// Adds a guest. All of its threads are declared: they execute vCPUs.
    pub fn add_guest(&mut self, guest: Box<dyn Guest + 's>) {
        let machine = self.nested.len() as u16;
        let (threads, vhost) = guest.threads();
        for (n, thread) in threads.iter().enumerate() {
            let task = &mut self.board.threads[*thread];
            task.user = UserOp::Vcpu { machine, vcpu: CpuId::from(n) };
            task.footprint_kb = VCPU_FOOTPRINT_KB;
        }
        self.nested.push(Nested {
            guest,
            vcpus: threads.into_iter().map(Vcpu::new).collect(),
            vhost: Vhost::new(vhost),
            counted: GuestCounts::default(),
            waited_before_ns: 0,
        });
    }

    /// The vCPU's thread begins a stretch of user mode; returns when the stretch ends. A thread that comes from
    /// elsewhere fetches its data first.
    pub fn enters_vcpu(&mut self, thread: TaskId, (machine, vcpu): (usize, CpuId), speed: Speed) -> u64 {
        let (now, refill_ns) = (self.now, self.board.threads[thread].refill_ns);
        if refill_ns > 0 {
            return now.saturating_add(speed.time(refill_ns));
        }
        let own = &mut self.nested[machine];
        let state = &mut own.vcpus[vcpu.index()];
        (state.asleep, state.polls_on) = (false, None);
        own.guest.enter(vcpu, now, speed)
    }

    /// The stretch of a vCPU's thread stops here.
    pub fn pauses_vcpu(&mut self, (machine, vcpu): (usize, CpuId)) {
        let own = &mut self.nested[machine];
        if !own.guest.stands_still(vcpu) {
            own.guest.pause(vcpu, self.now);
        }
    }

    /// The stretch of a vCPU's thread has ended: the vCPU does its due work.
    pub fn act_of_vcpu(&mut self, cpu: CpuId, curr: TaskId, (machine, vcpu): (usize, CpuId)) {
        if self.board.threads[curr].refill_ns > 0 {
            return self.start_user(cpu);
        }
        // No steps are merged: the time of the host's next event is not known here.
        let (times, speed) = ((self.now, self.now), self.speed(cpu));
        let mut sent = std::mem::take(&mut self.board.nic.sent);
        let acted = self.nested[machine].guest.act(vcpu, times, speed, &mut sent, self.sink);
        self.steps += acted.steps;
        if let Some(fault) = acted.fault {
            self.fail(fault);
        }
        self.signal(cpu, machine, Some(vcpu));
        for packet in sent.drain(..) {
            self.give_vhost(cpu, machine, (Direction::Out, packet), Context::Task);
        }
        self.board.nic.sent = sent;
        let own = &mut self.nested[machine];
        if acted.ended {
            // The guest's threads count as gone.
            self.alive -= own.vcpus.len();
        }
        let exit_ns = self.board.machine.costs.vm_exit_ns;
        if !self.board.seats[cpu].to_wake[Context::Task as usize].is_empty() {
            return self.begin_open(cpu, Next::Wake, exit_ns);
        }
        if own.guest.idles(vcpu) {
            own.counted.halts += 1;
            return self.begin_open(cpu, Next::Call(Call::VcpuHalts), exit_ns);
        }
        self.returns(cpu);
    }

    /// A step of `sender`, or of the host, has changed the next event of other vCPUs: those that execute stop earlier,
    /// and `cpu` has to wake those that sleep.
    fn signal(&mut self, cpu: CpuId, machine: usize, sender: Option<CpuId>) {
        while let Some(to) = self.nested[machine].guest.touched() {
            if Some(to) == sender {
                continue;
            }
            let own = &mut self.nested[machine];
            let (state, next) = (own.vcpus[to.index()], own.guest.next_event(to));
            let on = self.board.threads[state.thread].ran_on;
            if !own.guest.stands_still(to) {
                self.cpus[on].ends = own.guest.acts_at(to, self.now);
                self.touch(on);
            } else if let Some(on) = state.polls_on {
                self.end_poll(on, next);
            } else if state.asleep && next != NEVER {
                own.counted.kicks += u64::from(own.guest.is_signalled(to));
                own.vcpus[to.index()].asleep = false;
                self.board.seats[cpu].to_wake[Context::Task as usize].push(state.thread);
            }
        }
    }

    /// The vCPU's exit is over: the host polls for its next event, or puts the thread to sleep.
    pub fn vcpu_halts(&mut self, cpu: CpuId, curr: TaskId, polled: bool) {
        let Some((machine, vcpu)) = self.board.threads[curr].vcpu() else { return };
        let now = self.now;
        self.enter(cpu);
        let alone = !self.kernel.view().gives_way() && self.kernel.image().single_task();
        let own = &mut self.nested[machine];
        own.vcpus[vcpu.index()].polls_on = None;
        let due = own.guest.irq_due(vcpu, now);
        if due <= now {
            return self.returns(cpu);
        }
        // Another task of the host goes first (`single_task_running`).
        let halt_poll_ns = own.guest.halt_poll_ns();
        if halt_poll_ns > 0 && !polled && alone {
            own.vcpus[vcpu.index()].polls_on = Some(cpu);
            return self.begin_open(cpu, Next::Call(Call::VcpuPolls), halt_poll_ns.min(due - now));
        }
        own.vcpus[vcpu.index()].asleep = true;
        own.counted.sleeps += 1;
        if due == NEVER {
            return self.blocks(cpu);
        }
        self.kernel.image().prepare_sleep(false);
        let until = self.kernel_time(due);
        self.kernel.image().whole(|image| image.start_timer(until, 0));
        self.tasks[curr].timed = true;
        let spent_ns = self.take_notes(cpu);
        self.begin_open(cpu, Next::Schedule, spent_ns + self.board.machine.costs.schedule_sleep_ns);
    }

    /// A vCPU's thread is back on a CPU, maybe from a sleep.
    pub fn vcpu_returns(&mut self, cpu: CpuId, curr: TaskId) {
        if std::mem::take(&mut self.tasks[curr].timed) {
            self.kernel.image().timed_out(self.tasks[curr].pid);
            let spent_ns = self.take_notes(cpu);
            return self.begin_open(cpu, Next::Settle, spent_ns + self.board.machine.costs.idle_return_ns);
        }
        self.start_user(cpu);
    }

    /// An event of the vCPU that `cpu` polls for comes at `next`: polling ends then.
    fn end_poll(&mut self, cpu: CpuId, next: u64) {
        const POLLS: Next = Next::Call(Call::VcpuPolls);
        let now = self.now;
        let c = &mut self.cpus[cpu];
        if let Some((POLLS, left_ns)) = &mut c.left {
            *left_ns = (*left_ns).min(next.saturating_sub(now));
        } else if matches!(c.activity, Activity::Path { next: POLLS, .. }) {
            c.ends = c.ends.min(next.max(now));
        }
        self.touch(cpu);
    }

    /// The virtual machine whose vhost thread this is.
    pub fn vhost_of(&self, task: TaskId) -> Option<usize> {
        self.nested.iter().position(|own| own.vhost.thread == task)
    }
    /// The vhost thread is done with a message, or has woken up: it takes the next one.
    pub fn vhost_continues(&mut self, cpu: CpuId, curr: TaskId, machine: usize) {
        if let Some((way, packet)) = self.nested[machine].vhost.current.take() {
            match way {
                Direction::Out => self.route(cpu, packet, Context::Task),
                Direction::In => {
                    self.nested[machine].guest.arrives(self.now, packet);
                    self.signal(cpu, machine, None);
                }
            }
            if !self.board.seats[cpu].to_wake[Context::Task as usize].is_empty() {
                return self.begin_open(cpu, Next::Wake, 0);
            }
        }
        if !self.nested[machine].vhost.take_up() {
            return self.blocks(cpu);
        }
        self.board.threads[curr].user = UserOp::Run { left_ns: self.board.machine.costs.vhost_ns.max(1) };
        self.start_user(cpu);
    }

    /// The warm-up is over.
    pub fn begin_measuring_guests(&mut self) {
        let Engine { nested, tasks, kernel, now, .. } = self;
        for own in nested {
            own.counted = GuestCounts::default();
            own.waited_before_ns = own.waited_ns(kernel, |task| tasks[task].pid);
            own.guest.begin_measuring(*now);
        }
    }

    /// Adds the guests' accounts at the end of the run.
    ///
    /// # Errors
    /// When they disagree.
    pub fn close_guests(&mut self, end_ns: u64, report: &mut SimReport) -> Result<()> {
        let Engine { nested, tasks, kernel, .. } = self;
        for own in nested {
            let waited_ns = own.waited_ns(kernel, |task| tasks[task].pid);
            let counted = GuestCounts { steal_ns: waited_ns - own.waited_before_ns, ..own.counted };
            own.guest.close(end_ns, counted, report)?;
        }
        Ok(())
    }
}
