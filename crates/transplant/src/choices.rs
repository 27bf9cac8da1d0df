//! Reasons for the choices of CPUs, if a run asks for them: the image notes each choice with the state in which it was
//! made (`shim/image/choices.c`), and our rules choose from the same state. If they choose the same CPU, their reason
//! is the reason. If they differ, or can't be asked, the reason says so.
//!
//! Notes and answers take no time, so the run is the same as without them.

use crate::abi::{RawChoice, RawChoiceCpu, choice_how};
use crate::engine::Engine;
use crate::load::Image;
use crate::note::{ChoiceAt, Wakee};
use crate::setting::Setting;
use schedlab_base::{CpuId, CpuSet, Ns, TaskId, Warning};
use schedlab_board::decision::{AskedChoice, AskedChoiceCpu, Choice, Rules};
use schedlab_trace::{EventKind, PlaceReason, SwitchReason};
use std::collections::{BTreeMap, BTreeSet};

/// Differences that are kept in words.
const MOST_WORDS: usize = 5;

/// The rules that are asked, and tasks on their way to a queue.
pub struct Explaining<'s> {
    pub rules: Box<dyn Rules + 's>,
    state: AskedChoice,
    pending: BTreeMap<TaskId, Pending>,
    /// By CPU: the reason why its current task is to leave.
    to_leave: BTreeMap<CpuId, SwitchReason>,
    /// Settings of the run that the rules do not know.
    unknown: BTreeSet<String>,
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
    /// What the rules lack, in words.
    pub fn warnings(&self) -> impl Iterator<Item = Warning> {
        self.unknown.iter().map(|what| {
            let text =
                format!("our rules do not know {what}, which the run sets: their reasons are without it");
            Warning::new("rules.unknown", text)
        })
    }
    /// The CPU switches, or its current task was picked again: why that was to leave.
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
    /// Choices of a sched_ext scheduler, which has its own reasons.
    pub by_ext: u64,
    /// Of the others, those that our rules were asked about; of them, those that they share.
    pub asked: u64,
    pub shared: u64,
    /// Checks whether a queued task preempts the current one; of them, those that our rules were asked about; of these,
    /// those that they share.
    pub checks: u64,
    pub checks_asked: u64,
    pub checks_shared: u64,
    /// The same of picks, one for each queue on the way to a task; and why those were picked that they share.
    pub picks: u64,
    pub picks_asked: u64,
    pub picks_shared: u64,
    pub picked: BTreeMap<&'static str, u64>,
    /// Answers of `wake_affine` in choices that they share, of tasks of the workload.
    pub affine: BTreeMap<&'static str, u64>,
    /// Choices without a reason, by why our rules could not be asked.
    pub unexplained: BTreeMap<&'static str, u64>,
    /// The first differences, and how many more there were.
    pub words: Vec<String>,
    pub more_words: u64,
}

impl Image {
    /// Notes each choice of a CPU from now on.
    fn explain(&mut self) {
        // SAFETY: the image is loaded; the call exchanges pointers to its own functions.
        unsafe { (self.verbs.img_explain)() };
        self.explains = true;
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
        into.by_cpu_thread = raw.by_cpu_thread != 0;
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
            (cpu.is_idle, cpu.nr_sched_idle) = (now.is_idle, now.nr_sched_idle);
            (cpu.nr_running, cpu.nr_delayed) = (now.nr_running, now.nr_delayed);
        }
        true
    }
}

/// Its `recent_used_cpu`. A task that has none yet gets its CPU, which no rule checks twice.
fn recent(raw: &RawChoice) -> CpuId {
    i32::try_from(raw.recent).map_or(CpuId(raw.prev), |_| CpuId(raw.recent))
}

impl<'s> Engine<'s> {
    /// Asks these rules about each choice from now on, of a kernel that has these settings.
    pub fn explain_by(&mut self, rules: Box<dyn Rules + 's>, settings: &[Setting]) {
        self.explaining = Some(Explaining {
            rules,
            state: AskedChoice::default(),
            pending: BTreeMap::new(),
            to_leave: BTreeMap::new(),
            unknown: BTreeSet::new(),
        });
        self.kernel.image().explain();
        self.pass_settings(settings);
    }
    /// The CPU has picked a task: drops any request to leave, even if no switch was noted.
    pub fn picked(&mut self, on: CpuId) {
        if let Some(explaining) = &mut self.explaining {
            explaining.asked_to_leave(on);
        }
    }
    /// The kernel has these settings from now on. Another switch of the image's may have followed from them.
    pub fn pass_settings(&mut self, settings: &[Setting]) {
        let Some(Explaining { rules, unknown, .. }) = &mut self.explaining else { return };
        for (name, on) in self.kernel.features() {
            rules.switch(&name, on);
        }
        for setting in settings {
            let (known, words) = match setting {
                Setting::Feature(name, on) => (rules.switch(name, *on), format!("feature {name}")),
                Setting::Tunable(name, value) => (rules.tune(name, value), format!("tunable {name}")),
            };
            unknown.extend((!known).then_some(words));
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
        ext: Option<bool>,
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
        if let Some(is_idle) = ext {
            counts.by_ext += 1;
            let reason = match is_idle {
                true => PlaceReason::ExtIdle,
                false if target == prev => PlaceReason::ExtStays,
                false => PlaceReason::ExtBusy,
            };
            self.emit_at(at, by, EventKind::Placed { task, target, reason, probes: 0 });
            return 0;
        }
        counts.choices += 1;
        let (reason, probes) = match is_fair {
            true if how == choice_how::WAKEUP => {
                let mut ours = explaining.rules.choose(&explaining.state);
                let same = |ours: &Result<Choice, _>| ours.as_ref().is_ok_and(|ours| ours.cpu == target);
                if !same(&ours) && self.kernel.image().pass_on(noted, &mut explaining.state) {
                    let then = explaining.rules.choose(&explaining.state);
                    ours = if same(&then) { then } else { ours };
                }
                let own = self.board.threads.get(task.index());
                let name = own.map_or("the kernel's", |t| &t.name);
                let between =
                    || format!("choice for {name} at {}, woken on CPU {}, from CPU {}", Ns(at), by.0, prev.0);
                counts.judge(target, own.is_some_and(|t| !t.background), ours, between)
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
    /// Compares a choice with ours. The reason is ours if it is the same. `counts`: the task is of the workload.
    fn judge(
        &mut self,
        code: CpuId,
        counts: bool,
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
            if let Some(why) = ours.affine.filter(|_| counts) {
                *self.affine.entry(why.name()).or_default() += 1;
            }
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
        } else {
            self.more_words += 1;
        }
    }

    /// Warnings, if the rules were asked.
    pub fn warnings(&self) -> Vec<Warning> {
        let of = |text| Warning::new("rules.differ", text);
        let differences = self.words.iter().map(|text| of(format!("our rules differ: {text}")));
        let more =
            (self.more_words > 0).then(|| of(format!("our rules differ {} times more", self.more_words)));
        let without = self.unexplained.iter();
        let without = without.map(|(why, n)| of(format!("{n} choices are not explained: {why}")));
        differences.chain(more).chain(without).collect()
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
            ("picks", self.picks),
            ("picks_asked", self.picks_asked),
            ("picks_shared", self.picks_shared),
        ];
        let named = |of: &str, all: &BTreeMap<&str, u64>| -> Vec<(String, u64)> {
            all.iter().map(|(why, n)| (format!("{of}.{why}"), *n)).collect()
        };
        let all = all.into_iter().map(|(name, n)| (format!("rules.{name}"), n));
        let by_ext = (self.by_ext > 0).then(|| ("rules.by_ext".to_owned(), self.by_ext));
        let named = named("affine", &self.affine).into_iter().chain(named("rules.picks", &self.picked));
        all.chain(by_ext).chain(named).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use schedlab_trace::AffineReason;

    #[test]
    fn a_reason_is_ours_if_the_choice_is_and_others_are_counted() {
        let affine = Some(AffineReason::WakerLighter);
        let ours = |cpu| Choice { cpu: CpuId(cpu), reason: PlaceReason::IdleCore, affine, probes: 3 };
        let mut counts = Explained { choices: 4, ..Explained::default() };
        let between = || "choice".to_owned();
        let shared = (PlaceReason::IdleCore, 3);
        assert_eq!(counts.judge(CpuId(5), true, Ok(ours(5)), between), shared);
        assert_eq!(counts.judge(CpuId(5), false, Ok(ours(5)), between), shared, "of the machine's own");
        let not = (PlaceReason::NotShared, 0);
        assert_eq!(counts.judge(CpuId(4), true, Ok(ours(5)), between), not);
        let without = (PlaceReason::Unexplained, 0);
        assert_eq!(counts.judge(CpuId(4), true, Err("a feature is on"), between), without);
        let all: BTreeMap<String, u64> = counts.counters().into_iter().collect();
        let of = |name: &str| all[&format!("rules.{name}")];
        assert_eq!((of("choices"), of("asked"), of("shared"), of("unexplained")), (4, 3, 2, 1));
        assert_eq!(all["affine.waker_lighter"], 1);
        let words: Vec<String> = counts.warnings().into_iter().map(|w| w.message).collect();
        assert!(words[0].contains("the code took CPU 4, our rules CPU 5 by idle_core"), "{words:?}");
        assert_eq!(words[1], "1 choices are not explained: a feature is on");
    }

    #[test]
    fn differences_beyond_the_first_ones_are_counted() {
        let mut counts = Explained::default();
        (0..MOST_WORDS + 3).for_each(|n| counts.differs(|| n.to_string()));
        let words: Vec<String> = counts.warnings().into_iter().map(|w| w.message).collect();
        assert_eq!(words.len(), MOST_WORDS + 1);
        assert_eq!(words[MOST_WORDS], "our rules differ 3 times more");
    }
}
