//! Reasons for the choices of CPUs, if a run asks for them: the image notes each choice with the state in which it was
//! made (`shim/image/choices.c`), and our rules choose from the same state. If they choose the same CPU, their reason
//! is the reason. If they differ, or can't be asked, the reason says so.
//!
//! Notes and answers take no time, so the run is the same as without them.

use crate::abi::{RawChoice, RawChoiceCpu, choice_how};
use crate::engine::Engine;
use crate::load::Image;
use crate::note::{ChoiceAt, Wakee};
use schedlab_base::{CpuId, CpuSet, Ns, TaskId, Warning};
use schedlab_board::decision::{AskedChoice, AskedChoiceCpu, Choice, Rules};
use schedlab_trace::{EventKind, PlaceReason, SwitchReason};
use std::collections::BTreeMap;

/// Differences that are kept in words.
const MOST_WORDS: usize = 5;

/// The rules that are asked, and tasks on their way to a queue.
pub struct Explaining<'s> {
    pub rules: Box<dyn Rules + 's>,
    state: AskedChoice,
    pending: BTreeMap<TaskId, Pending>,
    /// By CPU: the reason why its current task is to leave.
    to_leave: BTreeMap<CpuId, SwitchReason>,
}

impl Explaining<'_> {
    /// Whether a task is being woken.
    pub fn is_on_its_way(&self, task: TaskId) -> bool {
        self.pending.contains_key(&task)
    }
    /// A CPU's current task is to leave. The first request gives the reason.
    pub fn ask_to_leave(&mut self, on: CpuId, why: SwitchReason) {
        self.to_leave.entry(on).or_insert(why);
    }
    /// The CPU switches, or its current task was picked again: the reason for which it was to leave.
    pub fn asked_to_leave(&mut self, on: CpuId) -> Option<SwitchReason> {
        self.to_leave.remove(&on)
    }
}

/// A task that is being woken or made.
#[derive(Clone, Copy)]
enum Pending {
    /// `by` this CPU, and what it was then.
    Waking { by: CpuId, was: Wakee },
    /// A class has chosen its CPU.
    Chosen,
}

/// The number of choices that our rules share.
#[derive(Clone, Default)]
pub struct Explained {
    /// Choices of CPUs for tasks that were woken or made.
    pub choices: u64,
    /// Of these choices, those that our rules were asked about; of them, those that they share.
    pub asked: u64,
    pub shared: u64,
    /// Checks whether a queued task preempts the current one; of them, those that our rules were asked about; of these,
    /// those that they share.
    pub checks: u64,
    pub checks_asked: u64,
    pub checks_shared: u64,
    /// Choices without a reason, by why our rules could not be asked.
    pub unexplained: BTreeMap<&'static str, u64>,
    /// The first differences.
    pub words: Vec<String>,
}

impl Image {
    /// Notes each choice of a CPU from now on.
    fn explain(&mut self) {
        // SAFETY: the image is loaded; the call exchanges pointers to its own functions.
        unsafe { (self.verbs.img_explain)() };
    }

    /// The state in which a noted choice was made, as far as it was read: the whole of it for a fair task's wakeup.
    fn choice(&self, state: ChoiceAt, into: &mut AskedChoice) -> &RawChoice {
        // SAFETY: a note of this image, which is not forgotten yet, has the pointer to such a state, which is not null;
        // to forget notes takes `&mut self`.
        let raw = unsafe { &*state.pointer() };
        // SAFETY: the state has an element for each CPU, and a bit for each.
        let (cpus, words) = unsafe {
            let words = self.cpus.div_ceil(64);
            let words = std::slice::from_raw_parts(raw.allowed, words);
            (std::slice::from_raw_parts(raw.cpus, self.cpus), words)
        };
        into.cpus.clear();
        into.cpus.extend(cpus.iter().map(read));
        let may = |cpu: &usize| words[cpu / 64] >> (cpu % 64) & 1 == 1;
        let all = (0..self.cpus).all(|cpu| may(&cpu));
        into.allowed = (!all).then(|| (0..self.cpus).filter(may).map(CpuId::from).collect::<CpuSet>());
        (into.cpu, into.prev, into.recent) = (CpuId(raw.cpu), CpuId(raw.prev), recent(raw));
        (into.sched_idle, into.sync) = (raw.sched_idle != 0, raw.sync != 0);
        (into.waker_flips, into.wakee_flips) = (raw.waker_flips, raw.wakee_flips);
        (into.waker_load, into.wakee_load, into.util) = (raw.waker_load, raw.wakee_load, raw.util);
        into.avg_idle_ns = raw.avg_idle;
        (into.wake_avg_idle_ns, into.avg_scan_cost_ns) = (raw.wake_avg_idle, raw.avg_scan_cost);
        raw
    }
}

fn read(c: &RawChoiceCpu) -> AskedChoiceCpu {
    AskedChoiceCpu {
        load: c.load,
        capacity: c.capacity.into(),
        nr_running: c.nr_running,
        nr_delayed: c.nr_delayed,
        nr_sched_idle: c.nr_sched_idle,
        nr_idle_scan: c.nr_idle_scan,
        has_idle_cores: c.has_idle_cores != 0,
        is_idle: c.idle != 0,
    }
}

impl Image {
    /// Who runs where when the choice was made, if others acted meanwhile; hints and loads are those of its begin,
    /// since the choice changes them itself. `false`: nobody acted.
    fn pass_on(&self, noted: ChoiceAt, state: &mut AskedChoice) -> bool {
        // SAFETY: as in `choice`.
        let raw = unsafe { &*noted.pointer() };
        if raw.after.is_null() {
            return false;
        }
        // SAFETY: it has an element for each CPU.
        let after = unsafe { std::slice::from_raw_parts(raw.after, self.cpus) };
        for (cpu, now) in state.cpus.iter_mut().zip(after.iter().map(read)) {
            (cpu.is_idle, cpu.nr_running, cpu.nr_sched_idle) =
                (now.is_idle, now.nr_running, now.nr_sched_idle);
        }
        true
    }
}

/// Its `recent_used_cpu`. A task that has none yet gets its CPU, which no rule checks twice.
fn recent(raw: &RawChoice) -> CpuId {
    i32::try_from(raw.recent).map_or(CpuId(raw.prev), |_| CpuId(raw.recent))
}

impl<'s> Engine<'s> {
    /// Asks these rules about each choice from now on.
    pub fn explain_by(&mut self, rules: Box<dyn Rules + 's>) {
        let (pending, to_leave) = (BTreeMap::new(), BTreeMap::new());
        self.explaining = Some(Explaining { rules, state: AskedChoice::default(), pending, to_leave });
        self.kernel.image().explain();
        self.pass_features();
    }
    /// The CPU has picked a task: drops any request to leave, even if no switch was noted.
    pub fn picked(&mut self, on: CpuId) {
        if let Some(explaining) = &mut self.explaining {
            explaining.asked_to_leave(on);
        }
    }
    /// The features of the image may have changed.
    pub fn pass_features(&mut self) {
        if let Some(explaining) = &mut self.explaining {
            explaining.rules.switch(&self.kernel.features());
        }
    }

    /// A task is about to be woken by a CPU.
    pub fn waking_begins(&mut self, task: TaskId, by: CpuId, was: Wakee) {
        if let Some(explaining) = &mut self.explaining {
            explaining.pending.insert(task, Pending::Waking { by, was });
        }
    }

    /// A task is about to be queued. If no class was asked for its CPU, there was no choice.
    pub fn explain_queued(&mut self, at: u64, task: TaskId, on: CpuId, is_new: bool) {
        let Some(explaining) = &mut self.explaining else { return };
        let (by, stays) = match explaining.pending.remove(&task) {
            Some(Pending::Waking { by, was }) => (by, was.queued || was.on_cpu || !was.pinned),
            None if is_new => (on, false),
            Some(Pending::Chosen) | None => return,
        };
        let reason = if stays { PlaceReason::StillQueued } else { PlaceReason::OnlyAllowed };
        self.accounts.explained.choices += 1;
        self.emit_at(at, by, EventKind::Placed { task, target: on, reason, probes: 0 });
    }

    /// A class has chosen a CPU.
    pub fn explain_choice(
        &mut self,
        (by, at): (CpuId, u64),
        (pid, target): (i32, CpuId),
        noted: ChoiceAt,
    ) -> u64 {
        let task = self.any_task(pid);
        let (Some(explaining), Some(task)) = (&mut self.explaining, task) else { return 0 };
        let raw = self.kernel.image().choice(noted, &mut explaining.state);
        let (how, is_fair, prev) = (raw.how, raw.fair != 0, CpuId(raw.prev));
        if how == choice_how::EXEC {
            // The task runs, and the stopper will move it.
            return 0;
        }
        explaining.pending.insert(task, Pending::Chosen);
        let counts = &mut self.accounts.explained;
        counts.choices += 1;
        let (reason, probes) = match is_fair {
            true if how == choice_how::WAKEUP => {
                let mut ours = explaining.rules.choose(&explaining.state);
                let same = |ours: &Result<Choice, _>| ours.as_ref().is_ok_and(|ours| ours.cpu == target);
                if !same(&ours) && self.kernel.image().pass_on(noted, &mut explaining.state) {
                    let then = explaining.rules.choose(&explaining.state);
                    ours = if same(&then) { then } else { ours };
                }
                let name = self.board.threads.get(task.index()).map_or("the kernel's", |t| &t.name);
                let between =
                    || format!("choice for {name} at {}, woken on CPU {}, from CPU {}", Ns(at), by.0, prev.0);
                counts.judge(target, ours, between)
            }
            true => (PlaceReason::IdlestFork, 0),
            false if target == prev => (PlaceReason::RtStays, 0),
            false => (PlaceReason::RtLowest, 0),
        };
        self.emit_at(at, by, EventKind::Placed { task, target, reason, probes });
        0
    }
}

impl Explained {
    /// Compares a choice with ours. The reason is ours if it is the same.
    fn judge(
        &mut self,
        code: CpuId,
        ours: Result<Choice, &'static str>,
        between: impl FnOnce() -> String,
    ) -> (PlaceReason, u16) {
        let ours = match ours {
            Ok(ours) => ours,
            Err(why) => {
                *self.unexplained.entry(why).or_default() += 1;
                return (PlaceReason::Unexplained, 0);
            }
        };
        self.asked += 1;
        if ours.cpu == code {
            self.shared += 1;
            return (ours.reason, ours.probes);
        }
        let (cpu, why) = (ours.cpu.0, ours.reason.name());
        self.differs(|| format!("{}: the code took CPU {}, our rules CPU {cpu} by {why}", between(), code.0));
        (PlaceReason::NotShared, 0)
    }
    /// Keeps the words of a difference, if it is one of the first.
    pub fn differs(&mut self, words: impl FnOnce() -> String) {
        if self.words.len() < MOST_WORDS {
            self.words.push(words());
        }
    }

    /// Warnings, if the rules were asked.
    pub fn warnings(&self) -> Vec<Warning> {
        let of = |text| Warning::new("rules.differ", text);
        let differences = self.words.iter().map(|text| of(format!("our rules differ: {text}")));
        let without = self.unexplained.iter();
        let without = without.map(|(why, n)| of(format!("{n} choices are not explained: {why}")));
        differences.chain(without).collect()
    }
    /// Counters. Zeros are included, so that a record shows that the rules were asked.
    pub fn counters(&self) -> Vec<(String, u64)> {
        let unexplained = self.unexplained.values().sum();
        let all = [
            ("choices", self.choices),
            ("asked", self.asked),
            ("shared", self.shared),
            ("unexplained", unexplained),
            ("checks", self.checks),
            ("checks_asked", self.checks_asked),
            ("checks_shared", self.checks_shared),
        ];
        all.map(|(name, n)| (format!("rules.{name}"), n)).into()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reason_is_ours_if_we_choose_the_same_and_differences_are_counted() {
        let ours = |cpu| Choice { cpu: CpuId(cpu), reason: PlaceReason::IdleCore, affine: None, probes: 3 };
        let mut counts = Explained { choices: 3, ..Explained::default() };
        let between = || "choice".to_owned();
        assert_eq!(counts.judge(CpuId(5), Ok(ours(5)), between), (PlaceReason::IdleCore, 3));
        assert_eq!(counts.judge(CpuId(4), Ok(ours(5)), between), (PlaceReason::NotShared, 0));
        assert_eq!(counts.judge(CpuId(4), Err("a feature is on"), between), (PlaceReason::Unexplained, 0));
        let all: BTreeMap<String, u64> = counts.counters().into_iter().collect();
        let of = |name: &str| all[&format!("rules.{name}")];
        assert_eq!((of("choices"), of("asked"), of("shared"), of("unexplained")), (3, 2, 1, 1));
        let words: Vec<String> = counts.warnings().into_iter().map(|w| w.message).collect();
        assert!(words[0].contains("the code took CPU 4, our rules CPU 5 by idle_core"), "{words:?}");
        assert_eq!(words[1], "1 choices are not explained: a feature is on");
    }
}
