//! The parts of a run that both kernels have alike: the workload comes to its board, the order of events begins, sums
//! start again when the warm-up is over, and the board's part of the report is drawn up.

use crate::board::{Board, Counts, Kernel};
use crate::cache_by_level::Sources;
use crate::channel::state::Channels;
use crate::engine::WinnerTree;
use crate::nested::drive::VirtualMachines;
use crate::net::Nic;
use crate::report::{SimReport, TaskAccount};
use crate::thread::Thread;
use schedlab_base::{CpuId, Error, Ns, Result, Stream, TaskId};
use schedlab_machine::Machine;
use schedlab_record::accounts::dropped;
use schedlab_workload::{Built, Place};

/// CPUs that take turns have no other machine beside theirs.
///
/// # Errors
/// A machine with such CPUs that is not alone.
pub fn check_turns(machine: &Machine, is_alone: bool) -> Result<()> {
    if machine.turns.is_none() || is_alone {
        return Ok(());
    }
    let text = format!("{} has CPUs that take turns: no other machine is simulated with it", machine.name);
    Err(Error::input(text).help("take a machine without [turns]"))
}

/// The tasks that start by themselves `here`. Background tasks come first: they serve the others.
pub fn starters(workload: &Built, here: Place) -> Vec<TaskId> {
    let tasks = || workload.tasks.iter().zip((0..).map(TaskId::from));
    let of = |background: bool| {
        let starts = tasks()
            .filter(move |(t, _)| t.spawned_by.is_none() && t.place == here && t.background == background);
        starts.map(|(_, id)| id)
    };
    of(true).chain(of(false)).collect()
}

/// How many tasks prolong the run `here`.
pub fn counting(workload: &Built, here: Place) -> usize {
    workload.tasks.iter().filter(|t| t.counts() && t.place == here).count()
}

impl Board<'_> {
    /// Takes what a workload's tasks share and measure, for the kernel at `here`. The tasks are left to the kernel.
    pub fn load(&mut self, workload: &mut Built, here: Place) {
        self.measure_from = workload.warmup.0;
        self.nic = Nic::new(workload, here, self.nr_cpus());
        self.user.lay_out(workload.words, workload.slots);
        let kinds = std::mem::take(&mut workload.channels);
        self.channels = Channels::new(kinds, &workload.sets, workload.tasks.len());
        self.masks = std::mem::take(&mut workload.masks);
        self.intervals.names = workload.series.iter().map(|s| s.name.clone()).collect();
    }

    /// Adds what was measured on this board to a report that has its tasks' accounts.
    pub fn complete(&mut self, report: &mut SimReport) {
        let work = report.tasks.iter().filter(|t| !t.background).map(|t| t.work_ns).sum();
        let found = &mut report.found;
        found.duration = report.end.since(Ns(self.measure_from));
        found.intervals.append(&mut self.intervals.kept);
        // The intervals of several tasks are kept in the order in which they ended.
        found.intervals.sort_by_key(|i| i.start);
        let lost = self.intervals.dropped;
        found.warnings.extend((lost > 0).then(|| dropped(lost)));
        found.counters.insert("work".to_owned(), work);
        found.counters.extend(self.by_level.iter().flat_map(|memory| memory.sources.named()));
        self.add_lost(report);
    }

    /// Adds the datagrams that this machine has lost, if it may lose any.
    pub fn add_lost(&self, report: &mut SimReport) {
        if self.channels.may_lose() {
            let lost = report.found.counters.entry("udp.lost".to_owned()).or_default();
            *lost += self.counts.datagrams_lost;
        }
    }
}

impl Thread {
    /// CPU time and work since the warm-up ended. The task began, if it `is_born`, and has run for `exec_ns` so far.
    pub fn account(&self, is_born: bool, exec_ns: u64) -> TaskAccount {
        TaskAccount {
            name: self.name.clone(),
            background: self.background,
            ended: is_born.then_some(Ns(self.ended)),
            cpu_time_ns: exec_ns.saturating_sub(self.before.1),
            work_ns: self.work_ns - self.before.0,
        }
    }
}

/// The course of a run.
pub trait Runs<'s>: Kernel<'s> {
    /// When a slot acts next: a CPU, or a machine behind a link.
    #[inline]
    fn slot_event(&self, slot: CpuId) -> u64 {
        match slot.index().checked_sub(self.board().nr_cpus() + 1) {
            None => self.next_event(slot),
            Some(number) => self.board().peers[number].next_event(),
        }
    }

    /// The order of the slots' next events: CPUs, one slot for what comes from outside, machines behind a link. Events
    /// from outside share one slot, however many there are, so that ties between CPUs fall the same way without them.
    fn order_of_events(&mut self, seed: u64) -> WinnerTree {
        let (n, peers) = (self.board().nr_cpus(), self.board().peers.len());
        let mut tree = WinnerTree::new(n + 1 + peers, Stream::new(seed).purpose("ties"));
        for slot in (0..n).chain(n + 1..n + 1 + peers) {
            tree.arm(slot, self.slot_event(CpuId::from(slot)));
        }
        while self.pop_touched().is_some() {}
        tree
    }

    /// Arms the slots whose next event has changed.
    fn rearm(&mut self, tree: &mut WinnerTree) {
        while let Some(touched) = self.pop_touched() {
            tree.arm(touched.index(), self.slot_event(touched));
        }
    }

    /// The warm-up is over: the sums of the board and of other machines start again.
    fn count_anew(&mut self) {
        let (now, board) = (self.now(), self.board_mut());
        board.counts = Counts::default();
        board.counted_from = now;
        if let Some(memory) = &mut board.by_level {
            memory.sources = Sources::default();
        }
        board.peers.iter_mut().for_each(|peer| peer.begin_measuring(now));
        self.begin_measuring_guests();
    }

    /// Adds the accounts of other machines at the end of the run. Their tasks have the same ids there.
    ///
    /// # Errors
    /// When they disagree.
    fn close_others(&mut self, end_ns: u64, report: &mut SimReport) -> Result<()> {
        self.close_guests(end_ns, report)?;
        self.board_mut().peers.iter_mut().try_for_each(|peer| peer.close(end_ns, report))
    }
}

impl<'s, K: Kernel<'s>> Runs<'s> for K {}
