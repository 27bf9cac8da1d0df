//! Drives a wakeup through time (`try_to_wake_up`): settle, choose between the waker's and the previous CPU, probe,
//! enqueue.
//!
//! A wakeup runs with interrupts off, in task context (futex wake) or in hardirq context (timers). Its scan is a
//! resumable step: it probes inline while no other CPU can act before the probe's answer arrives, else it is scheduled
//! again for that instant. So each probe reads the idle state of its own instant. A choice is not a reservation: until
//! the enqueue is done, another waker may choose the same CPU, or the CPU may find work itself.

use super::absent_group::AbsentGroup;
use super::prelude::Prelude;
use super::search::{Answer, Needs, Search, SearchStep, View, packs};
use super::state::{WakeStage, Waking};
use super::wide;
use crate::class::{Enqueue, Select};
use crate::costs::{enqueue_on_ns, rq_lock_ns};
use crate::frame::{Frame, Step};
use crate::remote_reads::{LineRead, probe_ns};
use crate::system::{System, frame_of};
use crate::task::TaskState;
use schedlab_base::{CpuId, TaskId};
use schedlab_board::board::Context;
use schedlab_kernel::{Feature, History};
use schedlab_machine::Distance;
use schedlab_trace::{EventKind, MoveReason, PlaceReason, SwitchReason};
use schedlab_workload::ROOT_GROUP;

/// How often a waker checks whether the wakee has left its old CPU, ns.
const ON_CPU_POLL_NS: u64 = 100;

impl System<'_> {
    /// Begins the next pending wakeup of a context, or ends the context's waking if there is none.
    pub fn next_wakeup(&mut self, cpu: CpuId, context: Context) {
        if self.begin_wakeup(cpu, context) && self.at_once() {
            self.wakeup_step(cpu, context);
        }
    }

    /// Takes the next pending wakeup up to its first step; false if there was none.
    fn begin_wakeup(&mut self, cpu: CpuId, context: Context) -> bool {
        let pending = &mut self.board.seats[cpu].to_wake[context as usize];
        if pending.is_empty() {
            match context {
                Context::Task => self.after_wakeups(cpu),
                Context::Hard => self.end_timer(cpu),
            }
            return false;
        }
        // Usually there is one, so `swap_remove` moves nothing.
        let task = if pending.len() == 1 { pending.swap_remove(0) } else { pending.remove(0) };
        let state = self.tasks[task].state;
        debug_assert!(
            !matches!(state, TaskState::Unborn | TaskState::Dead),
            "{cpu} wakes {task:?}: {state:?}"
        );
        let c = &mut self.cpus[cpu];
        c.waking[context as usize] = Waking { task, began_ns: self.now, ..Waking::default() };
        let traced_at = self.now + self.fixed.machine.costs.trace_event_ns;
        *frame_of(c, context) = Frame::until(Step::Wakeup, traced_at);
        let waker = c.curr.filter(|_| context == Context::Task);
        self.accounts.stats.wakeups += 1;
        self.emit(cpu, EventKind::Waking { task, waker });
        if let Some(waker) = waker {
            let now = self.now;
            wide::record_wakee(&mut self.tasks[waker].flips, task, now);
        }
        traced_at == self.now
    }

    /// One step of a wakeup, and further steps at the same instant.
    pub fn wakeup_step(&mut self, cpu: CpuId, context: Context) {
        let mut w = self.cpus[cpu].waking[context as usize];
        loop {
            let Some(at) = self.wakeup_stage(cpu, context, &mut w) else {
                if self.preempted_by_wakeup(cpu, context)
                    || !self.begin_wakeup(cpu, context)
                    || !self.at_once()
                {
                    return;
                }
                w = self.cpus[cpu].waking[context as usize];
                continue;
            };
            if at > self.now || !self.at_once() {
                let c = &mut self.cpus[cpu];
                c.waking[context as usize] = w;
                *frame_of(c, context) = Frame::until(Step::Wakeup, at);
                return;
            }
        }
    }

    /// Does the work of the wakeup's stage; returns when the next stage is over. `None`: the wakeup is done.
    fn wakeup_stage(&mut self, cpu: CpuId, context: Context, w: &mut Waking) -> Option<u64> {
        match w.stage {
            WakeStage::Settle => self.settle(cpu, context, w),
            WakeStage::Requeue => self.requeue(cpu, w),
            WakeStage::Prelude(_) | WakeStage::Search(_) => Some(self.probe_on(cpu, w)),
            WakeStage::Enqueue { remote_list } => {
                if context == Context::Task && self.fixed.history.overlap_averages {
                    self.note_waking(cpu, w.chosen);
                }
                self.wakeup_enqueue(cpu, w, remote_list).then(|| {
                    w.stage = WakeStage::Signal;
                    self.now + self.signal_ns(cpu, w.chosen)
                })
            }
            WakeStage::Signal => None,
        }
    }

    /// Waits until the wakee is off its old CPU, then chooses the target. `None`: the task needs no wakeup.
    pub(super) fn settle(&mut self, cpu: CpuId, context: Context, w: &mut Waking) -> Option<u64> {
        let task = &mut self.tasks[w.task];
        match task.state {
            TaskState::Sleeping if task.on_cpu => {
                let on = task.cpu;
                // The waker waits for a task that is still queued, because `schedule()` holds its runqueue's lock.
                if !self.is_delayed(w.task) && self.queues_while_leaving(cpu, on) {
                    return Some(self.queued_while_leaving(cpu, w, on));
                }
                self.accounts.stats.on_cpu_waits += 1;
                if let Some(sharing) = &mut self.board.turns {
                    sharing.gives_way = true;
                }
                return Some(self.now + ON_CPU_POLL_NS);
            }
            TaskState::Sleeping if self.fair.entities[task.entity].delayed => {
                w.chosen = task.cpu;
                w.stage = WakeStage::Requeue;
                let costs = &self.fixed.machine.costs;
                w.locked_ns = self.now + rq_lock_ns(costs, self.remote_reads.distance(cpu, w.chosen));
                return Some(w.locked_ns + enqueue_on_ns(costs, self.cpus[w.chosen].curr.is_some()));
            }
            TaskState::Sleeping => task.state = TaskState::Waking,
            _ => return None,
        }
        (w.prev, w.recent) = (task.cpu, task.recent);
        if task.allowed.as_ref().is_some_and(|a| a.len() == 1 && a.contains(w.prev)) {
            return Some(self.placed(cpu, w, self.now, w.prev, PlaceReason::OnlyAllowed));
        }
        if !task.may_run_on(w.prev) {
            w.prev = task.allowed.as_ref().and_then(|a| a.lowest()).unwrap_or(w.prev);
        }
        if let Select::At(to, reason) = self.select_task_rq(cpu, w.task, w.prev) {
            // The class has read the current task of the previous CPU, which counts as one probe.
            let at = self.now + probe_ns(&self.fixed.machine.costs, self.remote_reads.read(cpu, w.prev));
            return Some(self.placed(cpu, w, at, to, reason));
        }
        let waker = self.cpus[cpu].curr.filter(|_| context == Context::Task);
        let chosen = self.choose_target(cpu, waker, w.task, w.prev);
        (w.target, w.affine) = (chosen.cpu, chosen.affine);
        if let Some(why) = chosen.why.filter(|_| !self.board.threads[w.task].background) {
            self.accounts.stats.affine[why as usize] += 1;
        }
        if let Some(reason) = chosen.unsearched {
            return Some(self.placed(cpu, w, self.now, chosen.cpu, reason));
        }
        w.stage = WakeStage::Prelude(Prelude::start());
        Some(self.now)
    }

    /// The lock is held. A wakee that is still queued stays on its CPU, and none is chosen (`ttwu_runnable`). A wakee
    /// that was dequeued meanwhile is woken in the usual way. `None`: another waker has woken it.
    fn requeue(&mut self, cpu: CpuId, w: &mut Waking) -> Option<u64> {
        let task = &mut self.tasks[w.task];
        if task.state != TaskState::Sleeping {
            return None;
        }
        // A balancer may have moved the sleeping task meanwhile; then the waker takes the lock of its new runqueue.
        if !self.fair.entities[task.entity].delayed || task.cpu != w.chosen {
            w.stage = WakeStage::Settle;
            return Some(self.now);
        }
        task.state = TaskState::Waking;
        let (task, target, reason) = (w.task, w.chosen, PlaceReason::StillQueued);
        self.accounts.stats.select_ns += self.now - w.began_ns;
        self.emit(cpu, EventKind::Placed { task, target, reason, probes: 0 });
        w.stage = WakeStage::Signal;
        let signals = self.wakeup_enqueue(cpu, w, false);
        signals.then(|| self.now + self.signal_ns(cpu, target))
    }

    /// Whether two CPUs share their last-level cache.
    #[inline]
    pub fn shares_cache(&self, a: CpuId, b: CpuId) -> bool {
        matches!(self.remote_reads.distance(a, b), Distance::Own | Distance::Smt | Distance::Llc)
    }

    /// Continues probing; returns when the step ends.
    pub(super) fn probe_on(&mut self, cpu: CpuId, w: &mut Waking) -> u64 {
        if !(self.fixed.asym && self.rt.shared.any) {
            return self.probe_with(cpu, w, None);
        }
        let mut left = std::mem::take(&mut self.rt.shared.left);
        left.clear();
        left.extend(self.cpus.ids().map(|c| self.capacity_of(c)));
        let at = self.probe_with(cpu, w, Some(&left));
        self.rt.shared.left = left;
        at
    }

    /// The same. `left`: capacities of all CPUs, if real-time tasks take some of them.
    fn probe_with(&mut self, cpu: CpuId, w: &mut Waking, left: Option<&[u64]>) -> u64 {
        let costs = &self.fixed.machine.costs;
        let llc = &self.llc[self.fixed.machine.topology.cpu(w.target).llc as usize];
        let task = &self.tasks[w.task];
        let asks = self.fixed.asym && self.fixed.history.capacity_scan;
        let util = if asks { self.task_util_est(w.task) } else { 0 };
        let view = View {
            domains: &self.fixed.domains,
            allowed: task.allowed.as_ref(),
            target: w.target,
            prev: w.prev,
            waker: cpu,
            recent: w.recent,
            history: self.fixed.search_history(),
            features: self.fixed.kernel.features,
            target_nr_running: self.fair.queues[self.root(w.target)].nr_running,
            has_idle_cores: llc.has_idle_cores,
            nr_idle_scan: llc.nr_idle_scan,
            avg_idle_ns: self.cpus[cpu].avg_idle_ns,
            wake_avg_idle_ns: self.cpus[cpu].scans.idle_left_ns(self.jiffies()),
            avg_scan_cost_ns: self.cpus[cpu].scans.average_ns,
            packs: self.has(Feature::VcpuPack) && self.packs_on(w.target, w.task),
            needs: asks.then_some(Needs { util, capacities: left.unwrap_or(&self.fixed.cpu_capacity) }),
            clusters: self.fixed.clusters,
        };
        let mut at = self.now;
        let mut answer = w.asked.take().map(|c| self.read(view.history, c, w));
        loop {
            match w.search_on(&view, answer, at) {
                SearchStep::Probe(c) => {
                    w.probes = w.probes.saturating_add(1);
                    at += probe_ns(costs, self.remote_reads.read(cpu, c));
                    if at >= self.stepping.horizon {
                        w.asked = Some(c);
                        return at;
                    }
                    answer = Some(self.read(view.history, c, w));
                }
                SearchStep::NotFound(reason) if self.goes_on(w) => {
                    answer = None;
                    w.stage = WakeStage::Search(Search::Absent(AbsentGroup::start(reason)));
                }
                SearchStep::NotFound(_) if let WakeStage::Prelude(prelude) = &w.stage => {
                    answer = None;
                    w.fallback = prelude.fallback();
                    w.stage = WakeStage::Search(Search::start(&view));
                }
                SearchStep::Found(to, reason) => return self.chose(cpu, w, at, to, reason),
                SearchStep::NotFound(reason) => {
                    let by_capacity = matches!(w.stage, WakeStage::Search(Search::Capacity(_)));
                    let (to, reason) = w.fallback.filter(|_| !by_capacity).unwrap_or((w.target, reason));
                    return self.chose(cpu, w, at, to, reason);
                }
            }
        }
    }

    /// The answer of a probe at this instant.
    fn read(&self, history: &History, of: CpuId, w: &Waking) -> Answer {
        if !matches!(w.stage, WakeStage::Search(Search::Absent(_))) {
            return self.read_idle(history, of, w.task);
        }
        let queue = self.group_queue(self.tasks[w.task].group, of);
        match self.fair.queues[queue].nr_running {
            0 => Answer::Absent { load: self.load_now(of) },
            _ => Answer::Busy,
        }
    }

    /// Whether a search in vain is followed by one for a CPU where the task's group is absent. The root group never is.
    fn goes_on(&self, w: &Waking) -> bool {
        self.has(Feature::SisIdleCfsRq)
            && self.tasks[w.task].group != ROOT_GROUP
            && matches!(&w.stage, WakeStage::Search(s) if !matches!(s, Search::Absent(_)))
    }

    /// Whether the target has room for a sleeping task, as VCPU_PACK defines it.
    fn packs_on(&self, target: CpuId, task: TaskId) -> bool {
        packs(self.util_with(target, task), self.fixed.cpu_capacity[target])
    }

    /// The search is over at time `at`: updates the hints that it has refuted, and continues to the enqueue.
    fn chose(&mut self, cpu: CpuId, w: &mut Waking, at: u64, to: CpuId, reason: PlaceReason) -> u64 {
        let llc = self.llc_of(w.target);
        if let WakeStage::Search(search) = &w.stage {
            if search.clears_idle_cores() {
                self.llc[llc].has_idle_cores = false;
            }
            if let Some(from) = w.timed_from_ns.filter(|_| !search.out_of_budget()) {
                let tick = self.jiffies();
                self.cpus[cpu].scans.spend(at - from, tick);
            }
        }
        let near = matches!(&w.stage, WakeStage::Prelude(p) if !p.passed_prev());
        if !near {
            self.tasks[w.task].recent = w.prev;
        }
        self.placed(cpu, w, at, to, reason)
    }

    /// Records the choice, made at time `at`, and starts the enqueue; returns when that is done.
    fn placed(&mut self, cpu: CpuId, w: &mut Waking, at: u64, to: CpuId, reason: PlaceReason) -> u64 {
        debug_assert!(at >= w.began_ns, "{:?} is placed at {at}, before {}", w.task, w.began_ns);
        debug_assert!(
            self.tasks[w.task].may_run_on(to),
            "{:?} is placed on {to} and may run on {:?}",
            w.task,
            self.tasks[w.task].allowed
        );
        self.accounts.stats.select_ns += at - w.began_ns;
        self.emit(cpu, EventKind::Placed { task: w.task, target: to, reason, probes: w.probes });
        w.chosen = to;
        let remote_list = self.queues_remotely(cpu, to);
        w.stage = WakeStage::Enqueue { remote_list };
        let costs = &self.fixed.machine.costs;
        if remote_list {
            return at + self.wake_list_ns(cpu, to);
        }
        w.locked_ns = at + rq_lock_ns(costs, self.remote_reads.distance(cpu, to));
        w.locked_ns + enqueue_on_ns(costs, self.cpus[to].curr.is_some())
    }

    /// TTWU_QUEUE: whether the target enqueues the wakee itself, because it is in another cache. In later kernels an
    /// idle CPU of the same cache does so, too (`ttwu_queue_cond`).
    fn queues_remotely(&self, cpu: CpuId, to: CpuId) -> bool {
        self.has(Feature::TtwuQueue)
            && cpu != to
            && (!self.shares_cache(cpu, to)
                || (self.fixed.history.queues_on_any_idle && self.rqs.nr_running(to) == 0))
    }

    /// Whether a wakee that is still being switched out on `on` goes to that CPU's wake list; otherwise the waker waits
    /// until it is off that CPU (`WF_ON_CPU` in `ttwu_queue_cond`). It goes there if `on` is in another cache or has
    /// nothing else to do; in the first kernels also if one task is left there.
    fn queues_while_leaving(&self, cpu: CpuId, on: CpuId) -> bool {
        let most = u32::from(!self.fixed.history.queues_on_any_idle);
        self.fixed.history.queues_while_leaving
            && self.has(Feature::TtwuQueue)
            && cpu != on
            && (!self.shares_cache(cpu, on) || self.rqs.nr_running(on) <= most)
    }

    /// The CPU that the wakee is leaving will enqueue it afterwards, and none is chosen. Returns when the waker is done
    /// with the wake list.
    fn queued_while_leaving(&mut self, cpu: CpuId, w: &mut Waking, on: CpuId) -> u64 {
        self.tasks[w.task].state = TaskState::Waking;
        self.emit(
            cpu,
            EventKind::Placed { task: w.task, target: on, reason: PlaceReason::StillQueued, probes: 0 },
        );
        w.chosen = on;
        w.stage = WakeStage::Enqueue { remote_list: true };
        self.now + self.wake_list_ns(cpu, on)
    }

    /// Time to write the head of a CPU's wake list, ns; the rest of its runqueue is not touched.
    fn wake_list_ns(&self, cpu: CpuId, to: CpuId) -> u64 {
        let read = if self.shares_cache(cpu, to) { LineRead::MissNear } else { LineRead::MissFar };
        probe_ns(&self.fixed.machine.costs, read)
    }

    /// Enqueues the wakee, or puts it on the target's wake list. Returns whether the target must be signalled.
    fn wakeup_enqueue(&mut self, cpu: CpuId, w: &Waking, remote_list: bool) -> bool {
        let to = w.chosen;
        self.count_wakeup(cpu, to, w.affine);
        let (from, state) = (self.tasks[w.task].cpu, self.tasks[w.task].state);
        debug_assert!(state == TaskState::Waking, "{cpu} queues {:?} on {to} while {state:?}", w.task);
        if from != to {
            self.migrate_task(w.task, to);
            self.emit(to, EventKind::Migrate { task: w.task, from, why: MoveReason::Wakeup });
        }
        if !remote_list {
            return self.activate(
                (cpu, w.locked_ns),
                to,
                w.task,
                Enqueue::Wakeup,
                SwitchReason::WakeupPreempt,
            );
        }
        let first = self.cpus[to].wake_list.is_empty();
        self.cpus[to].wake_list.push(w.task);
        self.refresh_idle(to);
        if first {
            self.kick(cpu, to);
        }
        first
    }
}
